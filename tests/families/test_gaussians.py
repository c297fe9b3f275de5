"""The continuum of Gaussian kernels: values, bounds, the search for the best bandwidths, draws."""

import pickle
import time

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.optimize import approx_fprime, minimize_scalar
from sklearn.base import clone
from sklearn.datasets import make_moons

from manykernels import MKLClassifier, MKLRegressor
from manykernels.families import Enumerable, Gaussians, Maximisable, Samplable
from manykernels.families.bandwidths.search import BandwidthSearch
from manykernels.families.base import Direction, can
from manykernels.problem import Scale
from manykernels.solvers import GreedyAlignment, MirrorDescent

SINGLE = [0.5, 1.3, 4.0]
COLUMNS = [(0.5, 1.0, 2.0), (3.0, 0.7, 9.0)]


def rows(n=40, d=3, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def definition(member, X, Z):
    sigma = np.broadcast_to(member, X.shape[1])
    return np.exp(-np.sum(((X[:, None] - Z[None]) / sigma) ** 2, axis=2))


def signed(n, seed=0):
    """A symmetric matrix with entries of both signs, centred."""
    B = np.random.default_rng(seed).normal(size=(n, n))
    M = B + B.T
    C = np.eye(n) - 1 / n
    return C @ M @ C


def aligned(X, y):
    """The direction of alignment with y: what the search is for."""
    y = y - y.mean()
    return Direction(dense=np.outer(y, y) / np.linalg.norm(y) ** 2)


# -- values --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ard, members", [(False, SINGLE), (True, COLUMNS)], ids=["single", "columns"])
class TestValues:
    def family(self, ard):
        return Gaussians(bounds=(0.1, 10.0), ard=ard).resolve(3)

    def test_gram_apply_and_diagonal_are_the_definitions(self, ard, members):
        X, Z, family = rows(7, seed=1), rows(30), self.family(ard)
        grams = np.stack([definition(z, X, Z) for z in members])
        w = np.arange(len(members), dtype=float)  # the first has no weight
        assert_allclose(family.gram(X, Z, members, w), np.tensordot(w, grams, 1), rtol=1e-11)
        B = rows(30, 2, seed=2)
        assert_allclose(family.apply(X, Z, B, members), grams @ B, rtol=1e-9, atol=1e-12)
        assert_allclose(family.diag(X, members, w), np.full(7, w.sum()))
        assert_allclose(family.mean_diag(X, members, np.ones(7)), 1.0)

    def test_banks_agree_with_the_grams(self, ard, members):
        X, family = rows(60), self.family(ard)
        bank, w, A = family.bank(X, members), np.ones(len(members)), rows(60, 2, seed=3)
        assert_allclose(bank.gram(w), family.gram(X, X, members, w), rtol=1e-10)
        expected = [np.vdot(A, definition(z, X, X) @ A) for z in members]
        assert_allclose(bank.quad_forms(A), expected, rtol=1e-9)

    def test_description(self, ard, members):
        family = self.family(ard)
        assert family.size() == np.inf and repr(clone(family)) == repr(family)
        assert not can(family, Enumerable) and can(family, Samplable) and can(family, Maximisable)
        labels = [family.label(z) for z in members]
        assert len(set(labels)) == len(labels) and all(label.startswith("rbf(σ=") for label in labels)
        assert (
            np.ravel([family.parameters(z)["sigma"] for z in members]).tolist() == np.ravel(members).tolist()
        )
        copy = pickle.loads(pickle.dumps(family))
        assert_allclose(copy.gram(rows(), rows(), members, np.ones(len(members))),
                        family.gram(rows(), rows(), members, np.ones(len(members))))  # fmt: skip


def test_a_label_of_many_columns_stays_short():
    assert len(Gaussians(ard=True).label(tuple(np.linspace(1, 9, 500)))) < 60


# -- bounds --------------------------------------------------------------------------------------------


def test_automatic_bounds_enclose_the_distances():
    X = rows(100)
    distances = np.sqrt(np.sum((X[:, None] - X[None]) ** 2, axis=2))[np.triu_indices(100, 1)]
    low, high = Gaussians().adapt(X, np.ones(100)).bounds
    assert low < np.quantile(distances, 0.01) and high > distances.max()


def test_automatic_bounds_follow_the_scale_of_each_column():
    X = rows(100) * [1.0, 1000.0, 0.001]
    bounds = np.array(Gaussians(ard=True).adapt(X, np.ones(100)).bounds)
    assert bounds.shape == (3, 2)
    assert_allclose(bounds[1] / bounds[0], 1000, rtol=0.5)
    assert_allclose(bounds[2] / bounds[0], 0.001, rtol=0.5)


@pytest.mark.parametrize("ard", [False, True])
def test_in_automatic_bounds_a_weight_equals_a_repetition(ard):
    X, s = rows(40), np.random.default_rng(0).integers(0, 4, 40)
    weighted = Gaussians(ard=ard).adapt(X, s.astype(float)).bounds
    repeated = Gaussians(ard=ard).adapt(np.repeat(X, s, axis=0), np.ones(s.sum())).bounds
    assert_allclose(weighted, repeated)


def test_automatic_bounds_of_constant_columns_are_finite():
    X = np.column_stack([rows(30, 1), np.ones(30)])
    for ard in (False, True):
        bounds = np.array(Gaussians(ard=ard).adapt(X, np.ones(30)).bounds)
        assert np.isfinite(bounds).all() and (bounds > 0).all()
    assert np.isfinite(Gaussians().adapt(np.ones((5, 2)), np.ones(5)).bounds).all()


@pytest.mark.parametrize(
    "bounds", [(2.0, 1.0), (0.0, 1.0), (-1.0, 1.0), (1.0, 1.0), (1.0, np.inf), (1.0,), 3.0, "wide"]
)
def test_bad_bounds_are_refused_in_one_sentence(bounds):
    with pytest.raises(ValueError, match=r"bounds of Gaussians is .* pass \(low, high\) with 0 < low < high"):
        Gaussians(bounds).resolve(3)


def test_bounds_per_column_must_match_the_columns():
    pairs = [(0.1, 1.0)] * 2
    with pytest.raises(ValueError, match="bounds of Gaussians has 2 pairs for 3 columns"):
        Gaussians(pairs, ard=True).resolve(3)
    assert Gaussians(pairs, ard=True).resolve(2).bounds == pairs
    assert Gaussians((0.1, 1.0), ard=True).resolve(2).bounds == pairs


# -- one bandwidth -------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_the_curve_over_bins_is_the_sum_over_pairs(seed):
    X, direction = rows(60, seed=seed), Direction(dense=signed(60, seed))
    search = Gaussians((0.05, 50.0)).searcher(X, None)
    values = [np.vdot(definition(np.exp(t), X, X), direction.dense) for t in search.grid[::40]]
    unit = np.abs(direction.dense).sum()
    assert_allclose(search.curve(direction)[::40], values, atol=1e-5 * unit)


def test_derivatives_are_exact():
    X, direction = rows(50), Direction(dense=signed(50))
    search = Gaussians((0.1, 10.0)).searcher(X, None)
    h = 1e-4
    low, middle, high = (search.exact(direction, 0.3 + k * h)[0] for k in (-1, 0, 1))
    value, slope, bend = search.exact(direction, 0.3)
    assert value == pytest.approx(middle)
    assert slope == pytest.approx((high - low) / (2 * h), rel=1e-5)
    assert bend == pytest.approx((high - 2 * middle + low) / h**2, rel=1e-3)


@pytest.mark.parametrize("seed", range(8))
def test_the_best_bandwidth_is_the_global_maximum(seed):
    X, direction = rows(60, 2, seed=seed), Direction(dense=signed(60, seed))
    found = Gaussians((0.02, 30.0)).best(X, direction, None)

    def value(t):
        return np.vdot(definition(np.exp(t), X, X), direction.dense)

    grid = np.linspace(np.log(0.02), np.log(30.0), 600)
    values = [value(t) for t in grid]
    i = int(np.argmax(values))
    bracket = grid[max(i - 1, 0)], grid[min(i + 1, 599)]
    peer = minimize_scalar(lambda t: -value(t), bounds=bracket, method="bounded", options={"xatol": 1e-9})
    best = max(-peer.fun, max(values))
    assert found.exhaustive and found.values[0] == pytest.approx(best, rel=1e-7)
    assert value(np.log(found.members[0])) == pytest.approx(found.values[0], rel=1e-7)


def test_low_rank_and_dense_directions_agree():
    X, V = rows(300), rows(300, 3, seed=1)
    signs = np.array([1.0, -0.5, 2.0])
    low, dense = (
        Gaussians((0.1, 10)).best(X, d, None)
        for d in (Direction(V=V, signs=signs), Direction(dense=(V * signs) @ V.T))
    )
    assert_allclose(low.members, dense.members, rtol=1e-6)
    assert_allclose(low.values, dense.values, rtol=1e-9)


def test_several_maxima_come_best_first_and_excluded_ones_do_not():
    x = np.concatenate([np.linspace(0, 1, 20), np.linspace(100, 101, 20)])[:, None]
    y = np.sign(np.sin(40 * x[:, 0])) + 0.3 * (x[:, 0] > 50)  # one fine and one coarse structure
    family = Gaussians((1e-3, 1e3))
    found = family.best(x, aligned(x, y), None, size=3)
    assert len(found.members) >= 2 and (np.diff(found.values) <= 0).all()
    rest = family.best(x, aligned(x, y), None, size=3, exclude=found.members[:1])
    assert rest.members[0] == pytest.approx(found.members[1], rel=1e-4)


def test_the_scale_divides():
    X, direction = rows(30), aligned(rows(30), rows(30)[:, 0])
    family = Gaussians((0.1, 10)).resolve(3)
    plain, scaled = (family.best(X, direction, Scale.fit(family, X, how)) for how in (None, "trace"))
    assert_allclose(plain.values, scaled.values)  # a Gaussian kernel's diagonal is 1


@pytest.mark.parametrize("ard", [False, True])
def test_an_all_zero_direction_has_no_best_member(ard):
    X = rows(20)
    for direction in (Direction(dense=np.zeros((20, 20))), Direction.of_gradient(np.zeros((20, 1)))):
        assert Gaussians(ard=ard).best(X, direction, None).members == []


@pytest.mark.parametrize("ard", [False, True])
def test_duplicated_rows_and_constant_columns_do_no_harm(ard):
    X = np.repeat(rows(20), 2, axis=0)
    X[:, 1] = 7.0
    found = Gaussians(ard=ard).best(X, aligned(X, X[:, 0]), None)
    K = definition(found.members[0], X, X)
    assert found.values[0] == pytest.approx(np.vdot(K, aligned(X, X[:, 0]).dense), rel=1e-6)


def test_distances_need_not_be_kept():
    X, direction = rows(80), aligned(rows(80), rows(80)[:, 0])
    kept = Gaussians((0.1, 10.0)).best(X, direction, None)
    anew = BandwidthSearch(Gaussians((0.1, 10.0)), X, None, 0.1, 10.0, kept_bytes=0)
    assert anew.best(direction).members == kept.members


# -- one bandwidth per column --------------------------------------------------------------------------


@pytest.mark.parametrize("shrinkage", [0.0, 0.3])
def test_the_gradient_per_column_is_exact(shrinkage):
    X, M = rows(50, 4) + 100.0, signed(50)
    search = Gaussians((0.1, 10), ard=True).searcher(X, None, shrinkage=shrinkage)
    t = np.array([0.1, 0.7, -0.4, 1.2])
    numeric = approx_fprime(t, lambda u: search.value(M, u)[0], 1e-6)
    assert_allclose(search.value(M, t)[1], numeric, rtol=1e-4, atol=1e-4)
    sigma = np.exp(t)
    penalty = shrinkage * np.sum((sigma - sigma.mean()) ** 2)
    assert search.value(M, t)[0] == pytest.approx(np.vdot(definition(sigma, X, X), M) - penalty)


def test_columns_that_do_not_matter_are_ignored():
    X = rows(200, 6)
    y = np.sign(X[:, 2])
    found = Gaussians(ard=True).best(X, aligned(X, y), None)
    sigma = np.array(found.members[0])
    assert not found.exhaustive
    assert sigma[2] * 10 < np.delete(sigma, 2).min()
    single = Gaussians().best(X, aligned(X, y), None)
    assert found.values[0] > 1.5 * single.values[0]


def test_shrinkage_pulls_the_bandwidths_together():
    X = rows(100, 5)
    direction, spreads = aligned(X, X[:, 0]), []
    for shrinkage in (0.0, 1e-2, 1e4):
        search = Gaussians(ard=True).searcher(X, None, shrinkage=shrinkage)
        spreads.append(np.std(search.best(direction).members[0]))
    assert spreads[0] > spreads[1] > spreads[2] and spreads[2] < 1e-3


def test_columns_of_very_different_scale_are_searched_each_on_its_own():
    X = rows(150, 3)
    y = np.sign(X[:, 0] * X[:, 1])
    factors = np.array([1.0, 1e4, 1e-3])
    plain = Gaussians(ard=True).best(X, aligned(X, y), None)
    scaled = Gaussians(ard=True).best(X * factors, aligned(X, y), None)
    assert scaled.values[0] >= 0.9 * plain.values[0]


def test_the_search_is_deterministic_given_the_generator():
    X = rows(60, 4)
    found = [
        Gaussians(ard=True).best(X, aligned(X, X[:, 0]), None, rng=np.random.default_rng(3)).members
        for _ in range(2)
    ]
    assert found[0] == found[1]


@pytest.mark.slow  # a clock, so it wants a quiet machine
def test_fifty_columns_cost_at_most_twenty_times_one_bandwidth():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 50))
    direction = aligned(X, np.sign(X[:, 0] + 0.5 * X[:, 1]))

    def seconds(family):
        family, times = family.adapt(X, np.ones(500)), []
        for _ in range(5):
            started = time.process_time()  # other processes do not count
            family.best(X, direction, None)
            times.append(time.process_time() - started)
        return min(times)

    assert seconds(Gaussians(ard=True)) <= 20 * seconds(Gaussians())


# -- draws (Alg. 4) ------------------------------------------------------------------------------------


def test_draws_follow_the_stated_density():
    X = rows(40)
    A = X[:, :1]  # smooth, so that the best bandwidth is not at an end
    family = Gaussians((0.2, 5.0)).resolve(3)
    sigma, density = family.draw(X, A, 4000, np.random.default_rng(0))
    sigma = np.array(sigma)
    assert (sigma >= 0.2).all() and (sigma <= 5.0).all()
    # ∫ h(σ) dσ is the mean of h/density, for any h: here the Gaussian's own quadratic form.
    h = np.array([np.vdot(A, definition(z, X, X) @ A) for z in sigma[:500]])
    truth = quad(lambda z: np.vdot(A, definition(z, X, X) @ A), 0.2, 5.0)[0]
    error = np.std(h / density[:500]) / np.sqrt(500)
    assert abs(np.mean(h / density[:500]) - truth) < 4 * error
    assert np.mean(1 / density) == pytest.approx(4.8, rel=0.1)


def test_draws_per_column_follow_the_stated_density():
    X = rows(15, 2)
    A = X[:, :1]
    family = Gaussians((0.5, 3.0), ard=True).resolve(2)
    members, density = family.draw(X, A, 400, np.random.default_rng(0))
    assert all(isinstance(z, tuple) and len(z) == 2 for z in members)
    error = np.std(1 / density) / np.sqrt(400)
    assert abs(np.mean(1 / density) - 2.5**2) < 4 * error


@pytest.mark.parametrize("family", [Gaussians((0.5, 3.0)), Gaussians([(0.5, 3.0), (1.0, 2.0)], ard=True)])
def test_uniform_draws_and_draws_without_gradient(family):
    family = family.resolve(2)
    members, density = family.draw_uniform(100, np.random.default_rng(0))
    assert_allclose(density, 1 / 2.5)  # the area of the box
    again, flat = family.draw(rows(10, 2), np.zeros((10, 1)), 100, np.random.default_rng(0))
    assert again == members and np.array_equal(flat, density)


def test_uniform_draws_need_bounds():
    with pytest.raises(ValueError, match="bounds of Gaussians is 'auto'"):
        Gaussians().draw_uniform(3, np.random.default_rng(0))


@pytest.mark.parametrize("sampling", ["gradient", "uniform"])
def test_mirror_descent_optimises_over_the_bandwidths_it_draws(sampling):
    X, y = make_moons(120, noise=0.2, random_state=0)
    solver = MirrorDescent(max_iter=30, sampling=sampling, random_state=0)
    model = MKLClassifier(Gaussians(), solver=solver, C=10.0).fit(X, y)
    assert model.gap_kind_ == "none" and np.isnan(model.gap_) and not model.converged_
    assert model.score(X, y) > 0.9 and len(model.combination_) > 5


def test_mirror_descent_draws_bandwidths_per_column():
    X = rows(50, 3)
    solver = MirrorDescent(max_iter=5, random_state=0)
    model = MKLRegressor(Gaussians(ard=True), solver=solver, C=10.0).fit(X, X[:, 0])
    assert model.gap_kind_ == "none"
    assert all(len(record["sigma"]) == 3 for record in model.combination_.records())


def test_the_theorems_step_is_refused_on_a_continuum():
    with pytest.raises(ValueError, match=r"step='theory' of MirrorDescent needs .* finitely many"):
        MKLRegressor(Gaussians(), solver=MirrorDescent(step="theory"), C=1.0).fit(rows(20), rows(20)[:, 0])


def test_bandwidths_whose_squares_vanish_are_searched():
    X = 1e-135 * np.random.default_rng(0).normal(size=(20, 2))
    X = np.vstack(
        [X, X + np.array([0.0, 1e-165])]
    )  # pairs of rows whose squared distance is below all floats
    for ard in (False, True):
        model = MKLRegressor(Gaussians(ard=ard), solver=GreedyAlignment(random_state=0), C=1.0).fit(
            X, X[:, 0] * 1e135
        )
        assert np.isfinite(model.predict(X)).all()
