"""The continuum of Laplacian kernels: values, bounds, the search for the best bandwidths, draws."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import approx_fprime, minimize_scalar
from sklearn.base import clone
from sklearn.datasets import make_moons

from manykernels import AlignedKernel, MKLRegressor
from manykernels.families import HasRandomFeatures, Laplacians, Maximisable, Samplable
from manykernels.families.bank import row_tiles
from manykernels.families.base import Direction, can
from manykernels.problem import Scale
from manykernels.solvers import GreedyAlignment, MirrorDescent

SINGLE = [0.5, 1.3, 4.0]
COLUMNS = [(0.5, 1.0, 2.0), (3.0, 0.7, 9.0)]


def rows(n=40, d=3, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def definition(member, X, Z):
    sigma = np.broadcast_to(member, X.shape[1])
    return np.exp(-np.sum(np.abs(X[:, None] - Z[None]) / sigma, axis=2))


def signed(n, seed=0):
    """A symmetric matrix with entries of both signs, centred."""
    B = np.random.default_rng(seed).normal(size=(n, n))
    C = np.eye(n) - 1 / n
    return C @ (B + B.T) @ C


@pytest.mark.parametrize("ard, members", [(False, SINGLE), (True, COLUMNS)], ids=["single", "columns"])
def test_gram_apply_and_diagonal_are_the_definitions(ard, members):
    X, Z, family = rows(7, seed=1), rows(30), Laplacians(bounds=(0.1, 10.0), ard=ard).resolve(3)
    grams = np.stack([definition(z, X, Z) for z in members])
    w = np.arange(len(members), dtype=float)  # the first has no weight
    assert_allclose(family.gram(X, Z, members, w), np.tensordot(w, grams, 1), rtol=1e-11)
    B = rows(30, 2, seed=2)
    assert_allclose(family.apply(X, Z, B, members), grams @ B, rtol=1e-10, atol=1e-12)
    assert_allclose(family.diag(X, members, w), np.full(7, w.sum()))
    assert_allclose(family.mean_diag(X, members, np.ones(7)), 1.0)


def test_it_is_a_description_that_can_do_everything_a_continuum_can():
    family = Laplacians(bounds=(0.1, 10.0), ard=True)
    assert (
        clone(family).get_params() == family.get_params() == pickle.loads(pickle.dumps(family)).get_params()
    )
    assert all(can(family, capability) for capability in (Samplable, Maximisable, HasRandomFeatures))
    assert np.isinf(family.size())
    assert family.label((1.0, 2.0, 3.0)) == "laplacian(σ=1,2,3)"


@pytest.mark.parametrize("bounds", [(1.0, 0.5), (0.0, 1.0), (1.0, np.inf), "wide"])
def test_bad_bounds_are_refused_in_one_sentence(bounds):
    with pytest.raises(ValueError, match=r"bounds of Laplacians is .* 0 < low < high or bounds='auto'\."):
        Laplacians(bounds=bounds).resolve(3)


def test_automatic_bounds_enclose_the_distances():
    X = rows(200)
    low, high = Laplacians().adapt(X, np.ones(200)).bounds
    distances = np.abs(X[:, None] - X[None]).sum(axis=2)[np.triu_indices(200, 1)]
    assert low < np.quantile(distances, 0.01) and high > np.quantile(distances, 0.99)


@pytest.mark.parametrize("seed", range(3))
def test_the_curve_over_bins_is_the_sum_over_pairs(seed):
    X, M = rows(60, seed=seed), signed(60, seed)
    search = Laplacians(bounds=(0.05, 50.0)).resolve(3).searcher(X, None)
    curve = search.curve(Direction(dense=M))
    at = np.linspace(0, len(search.grid) - 1, 7).astype(int)
    exact = [float(np.vdot(definition(np.exp(search.grid[i]), X, X), M)) for i in at]
    # Second order within bins of 0.005: about (0.005)²/24 of the sum of |M|.
    assert_allclose(curve[at], exact, atol=2e-6 * np.abs(M).sum())


def test_derivatives_are_exact():
    X, M = rows(30), signed(30)
    search = Laplacians(bounds=(0.05, 50.0)).resolve(3).searcher(X, None)
    value, slope, bend = search.exact(Direction(dense=M), 0.3)
    step = 1e-4
    up, down = (search.exact(Direction(dense=M), 0.3 + h) for h in (step, -step))
    assert_allclose(value, np.vdot(definition(np.exp(0.3), X, X), M), rtol=1e-10)
    assert_allclose(
        [slope, bend], [(up[0] - down[0]) / (2 * step), (up[1] - down[1]) / (2 * step)], rtol=1e-5
    )


@pytest.mark.parametrize("seed", range(2))
def test_the_best_bandwidth_is_the_global_maximum(seed):
    X, M = rows(50, seed=seed), signed(50, seed)
    found = Laplacians(bounds=(0.05, 50.0)).resolve(3).best(X, Direction(dense=M), None)

    def negative(t):
        return -float(np.vdot(definition(np.exp(t), X, X), M))

    grid = np.linspace(np.log(0.05), np.log(50.0), 200)
    best = grid[np.argmin([negative(t) for t in grid])]
    inside = max(best - 0.05, grid[0]), min(best + 0.05, grid[-1])
    polished = minimize_scalar(negative, bounds=inside, method="bounded")
    assert found.exhaustive
    assert found.values[0] >= -polished.fun - 1e-6 * np.abs(M).sum()


def test_the_scale_divides():
    X, family = rows(20), Laplacians(bounds=(0.1, 10.0)).resolve(3)
    scale = Scale.fit(family, X, "trace")
    plain, scaled = (family.best(X, Direction(dense=signed(20)), s) for s in (None, scale))
    assert_allclose(plain.values, scaled.values)


@pytest.mark.parametrize("shrinkage", [0.0, 0.3])
def test_the_gradient_per_column_is_exact(shrinkage):
    X, M = rows(70), signed(70)
    search = Laplacians(bounds=(0.05, 50.0), ard=True).resolve(3).searcher(X, None, shrinkage)
    t = np.log([0.7, 2.0, 1.1])
    value, gradient = search.value(M, t)
    expected = np.vdot(definition(np.exp(t), X, X), M) - shrinkage * np.sum(
        (np.exp(t) - np.exp(t).mean()) ** 2
    )
    assert_allclose(value, expected, rtol=1e-9)
    assert_allclose(gradient, approx_fprime(t, lambda v: search.value(M, v)[0], 1e-6), rtol=1e-4, atol=1e-4)


def test_distances_in_several_tiles_add_up():
    X, M = rows(300), signed(300)
    assert len(row_tiles(300)) > 1
    search = Laplacians(bounds=(0.05, 50.0), ard=True).resolve(3).searcher(X, None)
    value, gradient = search.value(M, np.zeros(3))
    W = M * definition(1.0, X, X)
    assert_allclose(value, W.sum(), rtol=1e-10)
    moments = [np.vdot(W, np.abs(x[:, None] - x)) for x in X.T]
    assert_allclose(gradient, moments, rtol=1e-9)


def test_columns_that_do_not_matter_are_ignored():
    X = rows(150, 4, seed=3)
    y = np.sin(3 * X[:, 0])
    y -= y.mean()
    found = Laplacians(ard=True).best(X, Direction(dense=np.outer(y, y)), None)
    sigma = np.asarray(found.members[0])
    assert sigma[0] * 5 < sigma[1:].min()


def test_draws_stay_within_bounds_and_have_a_density():
    X, rng = rows(20), np.random.default_rng(0)
    A = rng.normal(size=(20, 1))
    for ard in (False, True):
        members, density = Laplacians(bounds=(0.1, 10.0), ard=ard).resolve(3).draw(X, A, 5, rng)
        assert len(members) == 5 and (density > 0).all()
        assert (np.asarray(members) >= 0.1).all() and (np.asarray(members) <= 10.0).all()


def test_solvers_of_continua_take_it():
    X, _ = make_moons(80, noise=0.1, random_state=0)
    y = np.sin(2 * X[:, 0]) + X[:, 1]
    greedy = MKLRegressor(kernels=Laplacians(), solver=GreedyAlignment(max_kernels=3), C=10.0).fit(X, y)
    assert greedy.score(X, y) > 0.9
    drawn = MKLRegressor(kernels=Laplacians(), solver=MirrorDescent(max_iter=30, random_state=0), C=10.0)
    assert drawn.fit(X, y).score(X, y) > 0.8
    assert AlignedKernel(kernels="laplacian", solver=GreedyAlignment(max_kernels=2)).fit(X, y).transform(
        X
    ).shape == (80, 80)
