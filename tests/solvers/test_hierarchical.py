"""Hierarchical kernel learning: the optimum of a convex solver, hulls, bounds, and what is said where it ends early."""

from fractions import Fraction

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning
from tests.contracts.cases import BASE, problem

from manykernels import MKLRegressor
from manykernels.certificates import certify
from manykernels.families import Finite, Products
from manykernels.kernels import Linear
from manykernels.losses import get_loss
from manykernels.problem import Problem, Scale
from manykernels.solvers import Hierarchical, SimpleMKL
from manykernels.solvers.hierarchical.frontier import Frontier, Vertices, listed_sums, over, tightened
from manykernels.solvers.hierarchical.graph import Hull, ancestors, frontier, parents
from manykernels.solvers.hierarchical.growth import Growth
from manykernels.solvers.hierarchical.reduced import Reduced, hull_penalties
from manykernels.solvers.loop import Descent

from .reference import _loss, factor

CUBES = Products(degree=3, degree_prior=[1.0, 0.7, 0.5])
PAIRS = Products(degree=2, base=list(BASE))
CASES = [
    ("squared", 2, CUBES, "base", 2.0, 10.0),
    ("squared", 1, CUBES, "base", 0.7, 0.1),
    ("hinge", 1, CUBES, None, 2.0, 10.0),
    ("logistic", 1, PAIRS, "base", 0.7, 1.0),
    ("max_hinge", 3, PAIRS, None, 2.0, 1.0),
]


def optimum(pb, beta):
    """Return the optimum in its primal form, by an interior-point method."""
    members, blocks, F = pb.family.members(), [], 0
    for z, rho in zip(members, np.sqrt(pb.scale.rho_sq(members, 1.0))):
        phi = factor(pb.family.gram(pb.X, pb.X, [z], np.ones(1)))
        W = cp.Variable((phi.shape[1], pb.n_outputs))
        blocks.append(rho * W)
        F = F + phi @ W
    b = cp.Variable((1, pb.n_outputs))
    F = F + np.ones((pb.n_rows, 1)) @ b
    omega = 0
    for v in members:
        below = [block for z, block in zip(members, blocks) if v in ancestors(z)]
        omega = omega + beta ** (len(v) - 1) * cp.norm(cp.vstack(below), "fro")
    penalty = cp.square(omega) + cp.sum_squares(b)
    objective = pb.C * _loss(pb.loss.name, pb.Y, F, pb.sample_weight) + penalty / 2
    return cp.Problem(cp.Minimize(objective)).solve(solver=cp.CLARABEL) / (pb.C * pb.n_rows)


def polynomial(n=120, r=8, seed=0, noise=0.1):
    """Return a problem whose truth is x0·x1·x2 with all that divide it, and x3."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, r))
    y = X[:, 0] * X[:, 1] * X[:, 2] + X[:, 0] * X[:, 1] + X[:, 0] + X[:, 3] + noise * rng.normal(size=n)
    family = Products(degree=3).resolve(r)
    return Problem(
        X, (y - y.mean())[:, None], family, Scale.fit(family, X, "base"), get_loss("squared"), 1.0, np.ones(n)
    )


# -- the optimum ---------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
@pytest.mark.parametrize("loss, c, family, how, beta, C", CASES)
def test_objective_is_the_interior_points(loss, c, family, how, beta, C):
    pb = problem(loss, c, weights="zeros", family=family, how=how, C=C)
    r = Hierarchical(beta, tol=1e-6).solve(pb)
    assert r.converged and r.gap_kind == "exact"
    # Ours is certified to 1e-6 relative, the interior point stops at 1e-8 on its own scale.
    assert r.objective == pytest.approx(optimum(pb, beta), rel=1e-5)


@pytest.mark.parametrize("loss", ["squared", "hinge", "logistic"])
def test_products_of_one_factor_are_sparse_kernel_learning(loss):
    ours = problem(loss, n=40, C=3.0, family=Products(degree=1), how="base")
    lists = problem(loss, n=40, C=3.0, family=Finite([Linear(columns=[j]) for j in range(4)]))
    hull, simple = Hierarchical(tol=1e-8).solve(ours), SimpleMKL(tol=1e-8).solve(lists)
    assert hull.objective == pytest.approx(simple.objective, rel=1e-7)
    weights = dict(zip((z[0] for z in hull.combination.members), hull.combination.weights))
    expected = simple.combination.weights
    assert_allclose([weights.get(j, 0.0) for j in range(4)], expected, atol=1e-3 * expected.max())


@pytest.mark.parametrize("loss, c, family, how, beta, C", CASES[::2])
def test_without_a_list_of_products_it_ends_at_the_same_optimum(loss, c, family, how, beta, C):
    pb = problem(loss, c, weights="zeros", family=family, how=how, C=C)
    growth = Growth(pb, beta, 1e-6, 1000, 1e-12, listed=0)
    descent = Descent(1e-6, 1e-12, 100)
    descent.run(growth.points())
    assert descent.closed and growth.front.all is None
    assert descent.answer.objective == pytest.approx(
        Hierarchical(beta, tol=1e-6).solve(pb).objective, rel=2e-6
    )


def test_J_has_the_gradient_and_the_newton_step_of_its_derivatives():
    pb = problem("logistic", n=40, family=CUBES, how="base", C=3.0)
    hull = Hull([(0,), (1,), (0, 1), (0, 0), (0, 0, 1)], 2.0)
    reduced = Reduced(pb, hull, pb.scale.rho_sq(hull.members, 1.0))
    eta, step, half, mu = np.array([0.3, 0.25, 0.2, 0.15, 0.1]), 1e-5, reduced.work.lam / 2, 0.01
    point = reduced.at(eta)
    moved = [(reduced.at(eta + step * e), reduced.at(eta - step * e)) for e in np.eye(5)]
    assert_allclose(point.slopes, [(b.value - a.value) / (2 * step * half) for a, b in moved], rtol=1e-6)
    H = np.array([(b.slopes - a.slopes) / (2 * step) for a, b in moved]) + np.diag(mu / eta**2)
    # Newton's step in η with Σ dη = 0, from the numeric Hessian.
    both = np.linalg.solve(H, np.column_stack([point.slopes + mu / eta, np.ones(5)]))
    expected = both[:, 0] - both[:, 1] * both[:, 0].sum() / both[:, 1].sum()
    found, _ = reduced._direction(point, mu)
    assert_allclose(eta * found, expected, atol=1e-5 * np.abs(expected).max())


# -- the graph and its bounds --------------------------------------------------------------------------


def test_ancestors_are_the_divisors():
    assert ancestors((0, 0, 2)) == {(0,), (2,), (0, 0), (0, 2), (0, 0, 2)}
    assert parents((0, 0, 2)) == {(0, 0), (0, 2)} and parents((1,)) == set()


def test_the_frontier_are_the_sources_of_what_is_outside():
    hull = {(0,), (1,), (0, 1)}
    everything = set(Products(degree=3).resolve(3).members())
    sources = {z for z in everything - hull if not (ancestors(z) - {z}) - hull}
    assert set(frontier(hull, [0, 1, 2], 3)) == sources


@pytest.mark.parametrize("family", [CUBES, PAIRS], ids=["monomials", "base kernels"])
@pytest.mark.parametrize("how", ["base", None])
def test_sums_over_descendants_are_those_of_a_list(family, how):
    pb, beta = problem("squared", 2, family=family, how=how), 1.7
    A = np.random.default_rng(1).normal(size=pb.Y.shape)
    members = pb.family.members()
    d = {z: beta ** (len(z) - 1) for z in members}
    g = dict(zip(members, pb.family.forms(pb.X, A, members) / pb.scale.rho_sq(members, 1.0)))
    expected = []
    for t in members:
        below = [w for w in members if t in ancestors(w)]
        between = {w: sum(d[v] for v in ancestors(w) if t in ancestors(v)) for w in below}
        expected.append(sum(g[w] / between[w] ** 2 for w in below))
    assert_allclose(Frontier(pb, beta).bounds(A, members), expected, rtol=1e-9)
    outside = frontier({(0,)}, range(pb.family._r), pb.family.degree)
    largest = max(expected[members.index(t)] for t in outside)
    assert listed_sums(members, np.array(list(g.values())), {(0,)}, beta) == pytest.approx(largest, rel=1e-9)


def test_what_cancels_down_to_rounding_is_no_bound_of_zero():
    """A column whose rows but one are alike: coefficients that nearly add up to zero meet values of 5590^5."""
    X = np.append(1.8e-4, np.full(32, -5590.0) * (1 + 1e-15 * np.arange(32)))[:, None]
    A = np.append(1.0, np.resize([7.0, -7.0 + 1.6e-8 / 16], 32))[:, None]
    family = Products(degree=5).resolve(1)
    pb = Problem(X, np.sign(A), family, Scale.fit(family, X, None), get_loss("squared_hinge"), 3.0)
    exact = Fraction(0)
    for k in range(2, 6):
        powers = sum(
            Fraction(float(a)) * Fraction(float(x)) ** k for a, x in zip(A[:, 0], X[:, 0], strict=True)
        )
        exact += powers**2 / (2**k - 2) ** 2  # depths weigh 2, 4, ... below the second power
    assert Frontier(pb, 2.0).bounds(A, [(0, 0)])[0] >= 0.99 * float(exact)


@pytest.mark.parametrize("seed", range(5))
def test_bounds_of_the_conjugate_are_above_it_and_the_tight_one_nearly_there(seed):
    rng, beta = np.random.default_rng(seed), 2.0
    members = Products(degree=3).resolve(3).members()
    every = Vertices(members, beta)
    g = rng.exponential(size=len(members)) ** 2
    # max_η Σ ζ_w g_w is the square of the dual norm: the largest <√g, u> with Ω(u) <= 1.
    u = cp.Variable(len(members), nonneg=True)
    omega = sum(
        beta ** (len(v) - 1) * cp.norm(u[[i for i, z in enumerate(members) if v in ancestors(z)]])
        for v in members
    )
    exact = cp.Problem(cp.Maximize(np.sqrt(g) @ u), [omega <= 1]).solve(solver=cp.CLARABEL) ** 2
    hull = Hull([(0,), (1,), (0, 1)], beta)
    own = [members.index(z) for z in hull.members]
    norms = rng.exponential(size=3)
    tight = tightened(every, hull, norms, g)[0]
    loose = max(hull_penalties(hull, norms, g[own])[1], listed_sums(members, g, set(hull.members), beta))
    assert exact * (1 - 1e-6) <= tight <= 1.05 * exact
    assert loose >= exact * (1 - 1e-6)


# -- what it returns -----------------------------------------------------------------------------------


def test_products_with_weight_come_with_all_that_divide_them():
    pb = polynomial()
    r = Hierarchical().solve(pb)
    used = {z for z, w in zip(r.combination.members, r.combination.weights) if w > 0}
    assert r.converged and {(0, 1, 2), (3,)} <= used
    assert all(ancestors(z) <= used for z in used)
    assert len(used) < 40  # of 164


def test_a_larger_beta_penalises_longer_products():
    pb = polynomial(noise=1.0)
    degrees = [max(len(z) for z in Hierarchical(beta).solve(pb).combination.members) for beta in (1.0, 30.0)]
    assert degrees == [3, 2]


def test_two_runs_are_identical():
    a, b = (Hierarchical().solve(polynomial()) for _ in range(2))
    assert a.combination.members == b.combination.members
    assert_array_equal(a.dual_coef, b.dual_coef)


def test_a_column_of_zeros_is_left_out():
    pb = polynomial()
    X = pb.X.copy()
    X[:, 5] = 0.0
    model = MKLRegressor(Products(degree=2), solver=Hierarchical(), C=1.0).fit(X, pb.Y[:, 0])
    assert model.converged_ and not any(5 in z for z in model.combination_.members)


def test_no_column_at_all_is_refused():
    X = np.zeros((10, 2))
    with pytest.raises(ValueError, match="every kernel vanishes"):
        MKLRegressor(Products(degree=2), solver=Hierarchical(), C=1.0).fit(X, np.arange(10.0))


def test_constant_targets_give_a_constant():
    X = np.random.default_rng(0).normal(size=(20, 3))
    model = MKLRegressor(Products(degree=2), solver=Hierarchical(), C=1.0).fit(X, np.full(20, 3.0))
    assert_allclose(model.predict(X), 3.0)


def test_the_certificate_can_be_recomputed_from_outside():
    pb = polynomial(n=60, r=5)
    model = MKLRegressor(Products(degree=3), solver=Hierarchical(), C=1.0).fit(pb.X, pb.Y[:, 0])
    again = certify(model, pb.X, pb.Y[:, 0])
    assert again.primal == pytest.approx(model.objective_, rel=1e-7)
    assert again.gap == pytest.approx(model.gap_, abs=1e-7 * model.objective_)


# -- the run -------------------------------------------------------------------------------------------


def test_callback_sees_every_hull_and_can_stop():
    steps = []
    r = Hierarchical().solve(polynomial(), on_iteration=steps.append)
    assert [step.iteration for step in steps] == list(range(1, r.n_iter + 1)) and r.n_iter > 2
    stopped = Hierarchical().solve(polynomial(), on_iteration=lambda step: step.iteration == 2)
    assert stopped.n_iter == 2 and not stopped.converged


def test_interrupt_keeps_the_best_hull_with_a_warning():
    def interrupt(step):
        if step.iteration == 2:
            raise KeyboardInterrupt

    with pytest.warns(ConvergenceWarning, match=r"Interrupted after 2 hulls.* gap of \d\.\de[-+]\d\d"):
        r = Hierarchical().solve(polynomial(), on_iteration=interrupt)
    assert r.objective == min(r.trace.objective)


@pytest.mark.parametrize(
    "limit, advice", [({"max_kernels": 8}, "raise max_kernels"), ({"max_iter": 1}, "raise max_iter")]
)
def test_too_small_a_limit_warns_with_the_gap_reached(limit, advice):
    with pytest.warns(ConvergenceWarning, match=advice) as caught:
        r = Hierarchical(**limit).solve(polynomial())
    assert not r.converged and len(r.combination) <= limit.get("max_kernels", 1000)
    assert f"relative gap of {r.gap / r.objective:.1e}" in str(caught[0].message)


def test_other_scales_are_refused():
    pb = polynomial()
    with pytest.raises(ValueError, match="Hierarchical needs normalize='base' or None"):
        MKLRegressor(Products(degree=2), solver=Hierarchical(), normalize="trace", C=1.0).fit(
            pb.X, pb.Y[:, 0]
        )


def test_other_families_are_refused():
    with pytest.raises(
        ValueError, match="Hierarchical needs a family of products of base kernels, and Finite is not"
    ):
        MKLRegressor([Linear()], solver=Hierarchical(), C=1.0).fit(np.eye(4), np.arange(4.0))


@pytest.mark.parametrize(
    "parameter, value", [("beta", 0), ("tol", -1), ("max_iter", 0), ("max_kernels", 1.5)]
)
def test_parameters_that_make_no_sense_are_refused(parameter, value):
    with pytest.raises(ValueError, match=f"{parameter} of Hierarchical"):
        Hierarchical(**{parameter: value}).solve(polynomial())


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "error::RuntimeWarning")
def test_products_whose_scale_vanishes_are_none():
    X = np.random.default_rng(0).normal(size=(30, 3)) * np.array(
        [1.0, 1.0, 1e-120]
    )  # of its cube nothing is left
    model = MKLRegressor(Products(3, base=[Linear([0]), Linear([2])]), solver=Hierarchical(), C=1.0)
    assert np.isfinite(model.fit(X, X[:, 0]).predict(X)).all()
    found = over(np.array([1.0, 2.0]), np.array([0.0, 4.0]))
    assert_array_equal(found, [0.0, 0.5])
