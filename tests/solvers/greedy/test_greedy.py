"""Greedy: Frank-Wolfe over families that find their best kernel."""

import itertools
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from manykernels import MKLClassifier, MKLRegressor
from manykernels.families import Dirichlets, Finite, Precomputed, Products
from manykernels.families.base import Best
from manykernels.kernels import RBF, Linear
from manykernels.losses import get_loss
from manykernels.problem import Problem, Scale
from manykernels.solvers import Greedy, SimpleMKL
from manykernels.solvers.active import Segment
from manykernels.solvers.greedy.least_squares import LeastSquares, feature_sign
from manykernels.solvers.greedy.oracle import Oracle
from manykernels.solvers.greedy.refits import Refitter
from manykernels.solvers.greedy.steps import Corrective, Limits
from manykernels.solvers.greedy.stopping import ExtendedBIC
from manykernels.solvers.log import Log

FAMILIES = {
    "monomials": lambda: Products(degree=2),
    "products": lambda: Products(degree=2, base=[RBF(1.0), Linear(columns=[0]), RBF(4.0)]),
    "list": lambda: Finite([RBF(s) for s in (0.3, 1.0, 3.0, 10.0)] + [Linear()]),
    "linear": lambda: Finite([Linear(columns=[j, (j + 1) % 4]) for j in range(4)]),
}
LOSSES = {
    "squared": 1,
    "squared-2": 2,
    "hinge": 1,
    "squared_hinge-2": 2,
    "logistic": 1,
    "max_hinge": 3,
    "softmax": 3,
}


def problem(loss="squared", family="monomials", n=60, C=2.0, how="trace", weights=True, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    signal = X[:, 0] * X[:, 1] + 0.5 * X[:, 2] + 0.3 * rng.normal(size=n)
    outputs = LOSSES[loss]
    function = get_loss(loss.split("-")[0])
    if function.regression:
        Y = np.column_stack([signal, signal**2 - 1])[:, :outputs]
    elif function.multiclass:
        Y = np.eye(3)[np.digitize(signal, [-0.5, 0.5])]
    else:
        Y = np.where(np.column_stack([signal, X[:, 3]])[:, :outputs] > 0, 1.0, -1.0)
    s = rng.random(n) if weights else np.ones(n)
    made = (FAMILIES[family]() if isinstance(family, str) else family).resolve(4)
    return Problem(X, Y, made, Scale.fit(made, X, how, s), function, C, s)


# -- the optimum -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("loss", LOSSES)
def test_corrective_steps_reach_the_optimum_of_simple_mkl(loss, family):
    pb = problem(loss, family)
    other = SimpleMKL(tol=1e-6).solve(pb)
    mine = Greedy(max_kernels=1000, tol=1e-5).solve(pb)
    assert mine.objective == pytest.approx(other.objective, rel=1e-4)
    assert mine.converged and mine.gap_kind == "exact"
    assert -1e-9 <= mine.gap <= 1e-5 * mine.objective
    assert (np.diff(mine.trace.objective) <= 1e-12).all()
    theta = mine.combination.weights * mine.combination.rho**2
    assert theta.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("family", ["monomials", "list"])
@pytest.mark.parametrize("loss", ["squared", "hinge", "softmax"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_line_search_lowers_j_at_every_step(loss, family):
    pb = problem(loss, family)
    best = SimpleMKL(tol=1e-6).solve(pb).objective
    mine = Greedy(max_kernels=1000, corrective=False, max_iter=60).solve(pb)
    assert (np.diff(mine.trace.extra["value"]) <= 1e-12).all()
    assert best * (1 - 1e-6) <= mine.objective <= best * (1 + 5e-3)
    assert mine.objective - mine.gap <= best * (1 + 1e-6)  # D is below the optimum


def test_a_step_towards_one_kernel_takes_few_machines(monkeypatch):
    """A search on the segment that keeps one of its ends takes 28 machines a step here."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-10, 10, (150, 1))
    y = np.sign(np.sin(np.sqrt(2) * x) + np.sin(np.sqrt(12) * x))[:, 0]
    machines, at = [], Segment.at
    monkeypatch.setattr(Segment, "at", lambda segment, eta: machines.append(eta) or at(segment, eta))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        solver = Greedy(15, corrective=False, max_iter=15)
        model = MKLClassifier(Dirichlets((0, 10)), solver=solver, loss="hinge", C=10).fit(x, y)
    assert len(machines) < 11 * model.n_iter_


def test_scores_follow_from_the_dual_coefficients():
    for corrective, family in itertools.product([True, False], FAMILIES):
        pb = problem("squared", family)
        r = Greedy(max_kernels=3, corrective=corrective, max_iter=20, tol=1e-2).solve(pb)
        K = r.combination.gram(pb.X)
        assert_allclose(r.predictor.scores(pb.X), K @ r.dual_coef + r.intercept, rtol=1e-6, atol=1e-8)
        assert r.intercept == pytest.approx(r.dual_coef.sum(axis=0), abs=1e-8)


@pytest.mark.parametrize("how", ["base", None])
def test_other_scales(how):
    pb = problem("squared", how=how)
    assert Greedy(max_kernels=99, tol=1e-6).solve(pb).objective == pytest.approx(
        SimpleMKL(tol=1e-6).solve(pb).objective, rel=1e-5
    )


def test_normalize_auto_is_the_trace_on_products():
    X = np.random.default_rng(0).normal(size=(40, 3))
    assert MKLRegressor(Products(degree=2), solver=Greedy(3), C=1.0).fit(X, X[:, 0]).normalize_ == "trace"


def test_products_choose_greedy_by_themselves():
    X = np.random.default_rng(0).normal(size=(60, 40))
    m = MKLRegressor(Products(degree=3), C=10).fit(X, X[:, 0] * X[:, 1])
    assert isinstance(m.solver_, Greedy) and m.combination_.members == [(0, 1)]


# -- Theorem 5.1 -----------------------------------------------------------------------------------------


def curvature(pb, members, rho_sq, rng):
    """The smallest C_J that the theorem's condition holds with, over many segments of the simplex."""
    from manykernels.solvers.workspace import Workspace

    work = Workspace(pb, pb.family, members, rho_sq, 1.0)
    most = 0.0
    for _ in range(30):
        x = rng.dirichlet(np.full(len(members), 0.3))
        z = np.eye(len(members))[rng.integers(len(members))] if rng.random() < 0.7 else rng.dirichlet(x + 0.1)
        here = work.evaluate(x)
        slope = -work.lam / 2 * float(here.g @ (z - x))
        for eta in (0.02, 0.1, 0.3, 1.0):
            there = work.evaluate((1 - eta) * x + eta * z)
            most = max(most, 2 * (there.value - here.value - eta * slope) / eta**2)
    return most


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_classic_steps_obey_theorem_5_1_where_it_bites():
    pb = problem("squared", C=0.05, weights=False)
    members = pb.family.members()
    rho_sq = pb.scale.rho_sq(members, 1.0)
    optimum = SimpleMKL(tol=1e-9).solve(pb).objective
    start = float(np.mean(pb.loss.value(pb.Y, np.zeros(pb.Y.shape))))
    bound = 1.5 * curvature(pb, members, rho_sq, np.random.default_rng(0))
    values = Greedy(999, corrective=False, step="classic", max_iter=60, tol=0).solve(pb).trace.extra["value"]
    above = np.array(values) - optimum
    k = np.arange(1, len(above) + 1)
    assert (above <= 2 * bound / (k + 2) + 1e-12).all()
    # The bound says something: a solver that returned its start, θ = 0, would miss it by half.
    assert 2 * bound / (k[-1] + 2) <= 0.5 * (start - optimum)


class Sloppy(Products):
    """Returns a kernel whose value is up to epsilon below the best."""

    epsilon = 0.0

    def searcher(self, X, scale):
        exact = super().searcher(X, scale)
        family = self

        class Inexact:
            def best(self, direction, *, size=1, exclude=(), rng=None):
                found = exact.best(direction, size=10**6, exclude=exclude)
                if not found.members:
                    return found
                i = int(np.flatnonzero(found.values >= found.values[0] - family.epsilon)[-1])
                return Best(found.members[i:], found.values[i:], False)

        return Inexact()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_an_inexact_search_costs_at_most_two_epsilon():
    pb = problem("squared", Sloppy(degree=2), C=0.05, weights=False)
    members = pb.family.members()
    optimum = SimpleMKL(tol=1e-9).solve(pb).objective
    bound = 1.5 * curvature(pb, members, pb.scale.rho_sq(members, 1.0), np.random.default_rng(0))
    start = float(np.mean(pb.loss.value(pb.Y, np.zeros(pb.Y.shape))))
    epsilon = 0.1 * (start - optimum)
    pb.family.epsilon = epsilon * 2 * pb.C * pb.n_rows  # in units of g: the gradient is (λ/2) g
    r = Greedy(999, corrective=False, step="classic", max_iter=60, tol=0).solve(pb)
    above = np.array(r.trace.extra["value"]) - optimum
    k = np.arange(1, len(above) + 1)
    assert (above <= 2 * bound / (k + 2) + 2 * epsilon).all()
    assert r.gap_kind == "lower_bound" and not r.converged


# -- how many kernels ------------------------------------------------------------------------------------


@pytest.mark.parametrize("corrective", [True, False])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_max_kernels_bounds_the_kernels_with_weight_not_the_steps(corrective, family):
    pb = problem("squared", family, C=100.0)
    r = Greedy(2, corrective=corrective, tol=1e-8, max_iter=30).solve(pb)
    assert np.count_nonzero(r.combination.weights) <= 2
    if not corrective:
        assert r.n_iter > 2


def test_swaps_never_raise_the_objective():
    for seed in range(4):
        pb = problem("squared", C=100.0, seed=seed)
        without, with_swaps = (Greedy(3, swaps=k, tol=1e-8).solve(pb) for k in (0, 10))
        assert with_swaps.objective <= without.objective * (1 + 1e-12)
        assert len(with_swaps.combination) <= 3


def test_more_kernels_asked_for_than_exist():
    pb = problem("squared", "list")
    assert Greedy(10**6, tol=1e-6).solve(pb).converged


def test_a_list_is_returned_in_its_order_with_zeros():
    pb = problem("squared", "list")
    r = Greedy(2).solve(pb)
    assert list(r.combination.members) == [0, 1, 2, 3, 4]
    assert np.count_nonzero(r.combination.weights) <= 2
    pb = problem("squared", "linear")
    r = Greedy(3).solve(pb)
    K = r.combination.gram(pb.X)
    assert_allclose(r.predictor.scores(pb.X), K @ r.dual_coef + r.intercept, rtol=1e-6, atol=1e-8)


def test_noise_alone_is_left_alone():
    rng = np.random.default_rng(0)
    found = [
        len(MKLRegressor(Products(degree=3), solver=Greedy(), C=1e3).fit(X, rng.normal(size=200)).weights_)
        for X in rng.normal(size=(5, 200, 15))
    ]
    assert sum(found) <= 1  # 815 kernels each


def interactions(n, r, seed, noise=0.5):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, r))
    terms = set()
    while len(terms) < 5:
        terms.add(tuple(sorted(rng.choice(r, rng.integers(1, 4), replace=False).tolist())))
    f = sum(np.prod(X[:, t], axis=1) * 3 ** (len(t) / 2) for t in terms)
    return X, f + noise * f.std() * rng.normal(size=n), terms


@pytest.mark.parametrize("C", [0.1, 1e4])
def test_the_criterion_finds_the_terms_and_no_others(C):
    hits = wrong = 0
    for seed in range(4):
        X, y, terms = interactions(300, 20, seed)
        m = MKLRegressor(Products(degree=3), solver=Greedy(), C=C).fit(X, y)
        hits += len(terms & set(m.combination_.members))
        wrong += len(set(m.combination_.members) - terms)
    assert hits >= 18 and wrong <= 2


def test_rows_held_out_choose_for_other_losses():
    X, y, terms = interactions(400, 6, 1, noise=0.1)
    m = MKLClassifier(Products(degree=3), solver=Greedy(), loss="logistic", C=100.0, random_state=0)
    m.fit(X, y > 0)
    assert 2 <= len(m.weights_) <= 12
    assert len(terms & set(m.combination_.members)) >= 3
    K = np.stack([k(X) for k in (RBF(0.5), RBF(2.0), Linear())], axis=2)
    assert MKLRegressor(Precomputed(), solver=Greedy(), C=1.0).fit(K, y).score(K, y) > 0


# -- least squares ---------------------------------------------------------------------------------------


def test_signs_end_at_the_optimum():
    rng = np.random.default_rng(0)
    for trial in range(20):
        Phi = rng.normal(size=(40, 8))
        Phi[:, 7] = Phi[:, 6] + 1e-3 * rng.normal(size=40)
        Z, y, mu = np.column_stack([np.ones(40), Phi]), rng.normal(size=40), 10.0 ** rng.uniform(-3, 2)
        H = Z.T @ Z
        H[0, 0] += mu
        w = feature_sign(H, Z.T @ y, mu, np.zeros(9))
        slope, t = Z.T @ y - H @ w, np.abs(w[1:]).sum()
        assert abs(slope[0]) < 1e-9
        assert_allclose(slope[1:][w[1:] != 0], mu * t * np.sign(w[1:][w[1:] != 0]), atol=1e-8)
        assert (np.abs(slope[1:]) <= mu * t + 1e-8).all(), trial


def corrective(solver, pb, limits=None, **parts):
    """Return the result of corrective steps with other parts."""
    limits = limits or Limits(solver.max_kernels, swaps=solver.swaps)
    return Corrective(solver, pb, Log(None, 0.0), np.random.default_rng(0), limits, **parts).run()


def test_least_squares_agree_with_reduced_gradients():
    pb = problem("squared", C=5.0)
    solver = Greedy(99, tol=1e-7)
    quick = corrective(solver, pb, refitter=LeastSquares(pb, 1e-8))
    slow = corrective(solver, pb, refitter=Refitter(pb, 1e-8))
    assert_array_equal(quick.dual_coef, solver.solve(pb).dual_coef)  # least squares are what Greedy takes
    assert quick.objective == pytest.approx(slow.objective, rel=1e-6)
    assert_allclose(quick.predictor.scores(pb.X), slow.predictor.scores(pb.X), atol=1e-3)


def test_columns_made_again_in_blocks_give_the_same():
    pb = problem("squared")
    kept = Greedy(6).solve(pb)
    again = corrective(Greedy(6), pb, refitter=LeastSquares(pb, 1e-4, kept_entries=0))
    assert again.combination.members == kept.combination.members
    assert_allclose(again.predictor.scores(pb.X), kept.predictor.scores(pb.X), rtol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_a_noiseless_polynomial_is_recovered_to_rounding(seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (900, 40)) + 0.05
    y = X[:, 0] ** 3 - 2 * X[:, 1] * X[:, 2] + X[:, 0] * X[:, 3] ** 2 + 0.01 * X[:, 4] + X[:, 1]
    m = MKLRegressor(Products(degree=3), solver=Greedy(20), C=1e8).fit(X[:300], y[:300])
    assert np.mean((m.predict(X[300:]) - y[300:]) ** 2) <= 1e-10
    assert len(m.weights_) <= 20


def test_duplicated_columns_do_no_harm():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 4))[:, [0, 0, 1, 2, 2, 3]]
    y = X[:, 0] * X[:, 3] + X[:, 2]
    m = MKLRegressor(Products(degree=2), solver=Greedy(10), C=1e6).fit(X, y)
    assert m.score(X, y) > 1 - 1e-9


# -- the run ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("corrective", [True, False])
def test_a_constant_target_stops_at_once(corrective):
    X = np.random.default_rng(0).normal(size=(30, 3))
    m = MKLRegressor(Products(degree=2), solver=Greedy(5, corrective=corrective), C=1.0).fit(
        X, np.full(30, 2.0)
    )
    assert_allclose(m.predict(X), 2.0)
    assert len(m.weights_) == 0 and m.objective_ == 0


def test_columns_of_zeros_are_never_chosen():
    X = np.random.default_rng(0).normal(size=(50, 4))
    X[:, 1] = 0.0
    m = MKLRegressor(Products(degree=2), solver=Greedy(20, tol=1e-6), C=1.0).fit(X, X[:, 0] + X[:, 2] ** 2)
    assert all(1 not in z for z in m.combination_.members)


@pytest.mark.parametrize("corrective", [True, False])
def test_two_runs_are_identical(corrective):
    one, two = (Greedy(4, corrective=corrective).solve(problem("hinge")) for _ in range(2))
    assert one.combination.members == two.combination.members
    assert_array_equal(one.combination.weights, two.combination.weights)
    assert_array_equal(one.dual_coef, two.dual_coef)


def test_an_interrupted_fit_keeps_the_best():
    def interrupt(step):
        if step.iteration == 3:
            raise KeyboardInterrupt

    for corrective in (True, False):
        with pytest.warns(ConvergenceWarning, match=r"Interrupted after 3 iterations.* gap of \d\.\de"):
            r = Greedy(99, tol=1e-9, corrective=corrective).solve(problem(), on_iteration=interrupt)
        assert r.n_iter == 3 and not r.converged
        assert r.objective == pytest.approx(min(r.trace.objective))


def test_a_callback_stops_and_max_iter_warns():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        r = Greedy(99, tol=0.0).solve(problem(), on_iteration=lambda step: step.iteration >= 2)
    assert r.n_iter == 2 and not r.converged
    with pytest.warns(ConvergenceWarning, match="Greedy stopped after 2 iterations at a relative gap of"):
        Greedy(99, tol=1e-9, max_iter=2).solve(problem())


def test_an_expensive_search_is_repeated_only_when_needed():
    X, y, terms = interactions(300, 20, 0, noise=0.2)
    family = Products(degree=3).resolve(20)
    scale = Scale.fit(family, X, "trace", np.ones(300))
    pb = Problem(X, (y - y.mean())[:, None], family, scale, get_loss("squared"), 1e4, np.ones(300))
    limits = Limits(100, criterion=ExtendedBIC(float(pb.sample_weight.sum()), pb.family.size()))
    plain, lazy = (
        corrective(Greedy(), pb, limits, oracle=Oracle(pb, np.random.default_rng(0), expensive=expensive))
        for expensive in (np.inf, 0.0)
    )
    assert set(lazy.combination.members) == set(plain.combination.members) == terms
    assert lazy.trace.extra["searches"][0] < plain.trace.extra["searches"][0]
    assert lazy.gap_kind == "exact"


def test_a_heuristic_search_gives_a_lower_bound_of_the_gap():
    X = np.random.default_rng(0).normal(size=(60, 40))
    family = Products(degree=9)  # too many products to compare all of them
    model = MKLRegressor(family, solver=Greedy(5, tol=1e-3), C=2.0).fit(X, X[:, 0] * X[:, 1])
    assert model.gap_kind_ == "lower_bound" and not model.converged_


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_kernels", 0),
        ("max_kernels", "many"),
        ("max_kernels", 2.5),
        ("step", "long"),
        ("tol", -1),
        ("tol", np.nan),
        ("max_iter", 0),
        ("swaps", -1),
    ],
)
def test_parameters_that_make_no_sense_are_refused(name, value):
    with pytest.raises(ValueError, match=f"{name} of Greedy"):
        Greedy().set_params(**{name: value}).solve(problem())
