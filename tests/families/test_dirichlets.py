"""The continuum of Dirichlet kernels: frequencies on one column."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from manykernels import MKLClassifier, MKLRegressor
from manykernels.families import Dirichlets, HasFeatures
from manykernels.families.base import Direction, can
from manykernels.problem import Scale
from manykernels.solvers import MirrorDescent


def column(n=60, seed=0):
    return np.random.default_rng(seed).uniform(-5, 5, n)[:, None]


def definition(sigma, X, Z):
    return 1 + 2 * np.cos(sigma * (X - Z.T))


def signed(n, seed=0):
    B = np.random.default_rng(seed).normal(size=(n, n))
    return B + B.T


def test_values_are_the_definition():
    family, X, Z = Dirichlets((0, 20)).resolve(1), column(8, 1), column(30)
    members, w = [0.0, 1.5, 7.3], np.array([0.5, 0.0, 2.0])
    grams = np.stack([definition(z, X, Z) for z in members])
    assert_allclose(family.gram(X, Z, members, w), np.tensordot(w, grams, 1), atol=1e-12)
    B = np.ones((30, 2))
    assert_allclose(family.apply(X, Z, B, members), grams @ B, atol=1e-11)
    assert_allclose(family.diag(X, members, w), 3 * w.sum())
    assert_allclose(family.mean_diag(X, members, np.ones(8)), 3.0)
    for n in (60, 8):  # features, and tiles where they are wider than the Gram matrix
        X = column(n)
        bank = family.bank(X, members)
        assert_allclose(bank.gram(w), np.tensordot(w, [definition(z, X, X) for z in members], 1), atol=1e-11)
    assert can(family, HasFeatures) and family.widths(members).tolist() == [3, 3, 3]
    assert family.parameters(1.5) == {"sigma": 1.5} and family.size() == np.inf


@pytest.mark.parametrize("bounds", [(3, 1), (-1, 5), (2, 2), (0, np.nan), "auto", None])
def test_bad_bounds_are_refused(bounds):
    with pytest.raises(
        ValueError, match=r"bounds of Dirichlets is .* pass \(low, high\) with 0 <= low < high"
    ):
        Dirichlets(bounds).resolve(1)


@pytest.mark.parametrize("estimator", [MKLClassifier, MKLRegressor])
def test_two_columns_are_refused(estimator):
    with pytest.raises(ValueError, match=r"X has 2 columns.*one column only"):
        estimator(Dirichlets((0, 5))).fit(np.random.default_rng(0).normal(size=(20, 2)), np.arange(20) % 2)


@pytest.mark.parametrize("low_rank", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_the_best_frequency_is_the_global_maximum(seed, low_rank):
    X = column(seed=seed)
    V = np.random.default_rng(seed).normal(size=(60, 3))
    signs = np.array([1.0, -1.0, 0.5])
    direction = Direction(V=V, signs=signs) if low_rank else Direction(dense=signed(60, seed))
    found = Dirichlets((0, 30)).best(X, direction, None)
    M = direction.matrix()
    grid = np.linspace(0, 30, 20_000)
    c, s = np.cos(X * grid), np.sin(X * grid)
    values = M.sum() + 2 * (np.sum(c * (M @ c), axis=0) + np.sum(s * (M @ s), axis=0))
    assert found.exhaustive and found.values[0] >= values.max() - 1e-9 * abs(values.max())
    assert found.values[0] == pytest.approx(np.vdot(definition(found.members[0], X, X), M), rel=1e-9)
    assert found.members[0] == pytest.approx(grid[values.argmax()], abs=30 / 20_000)


def test_derivatives_are_exact():
    X, direction, h = column(), Direction(dense=signed(60)), 1e-4
    search = Dirichlets((0, 10)).searcher(X + 1000.0, None)  # only differences count
    low, middle, high = (search.exact(direction, 2.0 + k * h)[0] for k in (-1, 0, 1))
    value, slope, bend = search.exact(direction, 2.0)
    assert value == pytest.approx(np.vdot(definition(2.0, X, X), direction.dense), rel=1e-8)
    assert slope == pytest.approx((high - low) / (2 * h), rel=1e-5)
    assert bend == pytest.approx((high - 2 * middle + low) / h**2, rel=1e-3)


def test_several_frequencies_are_found_at_once():
    x = column(400)
    truth = [2.0, 5.0, 11.0]
    A = sum(np.sin(w * x) for w in truth)
    found = Dirichlets((0, 20)).best(x, Direction.of_gradient(A), None, size=3)
    assert_allclose(sorted(found.members), truth, atol=0.1)
    assert (np.diff(found.values) <= 0).all()
    rest = Dirichlets((0, 20)).best(x, Direction.of_gradient(A), None, size=2, exclude=found.members[:1])
    assert_allclose(rest.members, found.members[1:3])


def test_the_scale_divides():
    X, family = column(), Dirichlets((0, 20)).resolve(1)
    direction = Direction(dense=signed(60))
    plain, scaled = (family.best(X, direction, Scale.fit(family, X, how)) for how in (None, "trace"))
    assert_allclose(plain.values, 3 * scaled.values)


def test_an_all_zero_direction_and_a_constant_column_do_no_harm():
    assert Dirichlets((0, 5)).best(column(), Direction(dense=np.zeros((60, 60))), None).members == []
    flat = Dirichlets((0, 5)).best(np.ones((60, 1)), Direction(dense=signed(60)), None)
    assert len(flat.members) == 1 and 0 <= flat.members[0] <= 5


def test_draws_follow_the_stated_density():
    X, A = column(), np.sin(3 * column())
    family = Dirichlets((0, 8)).resolve(1)
    sigma, density = family.draw(X, A, 4000, np.random.default_rng(0))
    assert min(sigma) >= 0 and max(sigma) <= 8
    assert np.mean(1 / density) == pytest.approx(8, rel=0.1)
    _, flat = family.draw(X, np.zeros((60, 1)), 10, np.random.default_rng(0))
    assert_allclose(flat, 1 / 8)


def test_mirror_descent_runs_on_frequencies():
    x = column(100)
    model = MKLRegressor(Dirichlets((0, 8)), solver=MirrorDescent(max_iter=20, random_state=0), C=10.0)
    model.fit(x, np.sin(3 * x[:, 0]))
    assert model.gap_kind_ == "none" and np.isfinite(model.predict(x)).all()


def test_more_frequencies_than_can_be_searched_are_refused():
    X = column()
    X[0] = 1e12  # one value far out makes all frequencies tell
    with pytest.raises(
        ValueError, match=r"frequencies up to 20, and the column ranges over 1e\+12.*lower bounds"
    ):
        MKLRegressor(Dirichlets((0, 20)), solver="greedy").fit(X, np.sin(X[:, 0]))
