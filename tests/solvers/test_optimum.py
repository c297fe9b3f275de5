"""Solvers of one objective meet at one optimum, however they get there."""

import itertools
import math
import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import linprog
from sklearn.exceptions import ConvergenceWarning
from tests.contracts.cases import BATCH_KERNELS, OUTPUTS, from_list, monomial, problem, rows

from manykernels import MKLRegressor
from manykernels.families import Finite, Products
from manykernels.families.products.monomials import multisets
from manykernels.predictors import Dual, Primal
from manykernels.solvers import SILP, LpNorm, SimpleMKL, Single, Uniform, weights
from manykernels.solvers.silp import FEW, Master


@pytest.mark.parametrize("outputs", OUTPUTS, ids=str)
def test_the_sparse_solvers_agree(outputs):
    pb = problem(*outputs, weights="random", seed=3)
    one, other = SimpleMKL(tol=1e-7).solve(pb), SILP(tol=1e-5).solve(pb)
    assert one.objective == pytest.approx(other.objective, rel=1.1e-5)
    assert one.objective - one.gap <= other.objective * (1 + 1e-9)  # a bound of one holds for the other


def test_the_master_program_of_cutting_planes_is_solved_over_all_kernels():
    # Over few columns that are priced in, and in one piece, by the same library at a tolerance of 1e-10.
    rng = np.random.default_rng(0)
    m, alive = 2 * FEW, np.ones(2 * FEW, dtype=bool)
    alive[:10] = False
    slopes, offsets = rng.standard_normal((40, m)), rng.standard_normal(40)
    master = Master(alive)
    for slope, offset in zip(slopes, offsets, strict=True):
        master.cut(slope, offset)
    theta = master.solve()
    whole = linprog(
        np.r_[np.zeros(m), 1.0],
        A_ub=np.column_stack([slopes, -np.ones(40)]),
        b_ub=-offsets,
        A_eq=np.r_[np.ones(m), 0.0][None, :],
        b_eq=[1.0],
        bounds=[(0, 1 if ok else 0) for ok in alive] + [(None, None)],
    )
    assert (slopes @ theta + offsets).max() == pytest.approx(whole.fun, abs=1e-7)
    assert theta.min() >= 0 and theta.sum() == pytest.approx(1) and not theta[:10].any()
    assert master.held.sum() < m


@pytest.mark.parametrize("outputs", OUTPUTS, ids=str)
def test_lp_norm_approaches_the_sparse_optimum(outputs):
    pb = problem(*outputs, seed=3)
    sparse = SimpleMKL(tol=1e-7).solve(pb)
    near = LpNorm(p=1.001, tol=1e-6, max_iter=1000).solve(pb)
    # ‖u‖_1.001 is at least ‖u‖_1 times m^(1/1.001 - 1) = 0.9986 for m = 4, and the penalty is its square.
    assert sparse.objective * 0.997 <= near.objective <= sparse.objective * (1 + 2e-6)


@pytest.mark.parametrize("outputs", OUTPUTS, ids=str)
def test_lp_norm_with_p_two_is_the_plain_sum(outputs):
    pb = problem(*outputs, seed=3)
    one, other = LpNorm(p=2.0).solve(pb), Uniform().solve(pb)
    assert one.objective == pytest.approx(other.objective, rel=1e-9)
    assert_allclose(one.combination.weights, other.combination.weights, rtol=1e-9)


@pytest.mark.parametrize("outputs", OUTPUTS, ids=str)
def test_a_smaller_norm_has_a_larger_optimum(outputs):
    pb = problem(*outputs, seed=4)
    values = [LpNorm(p=p, tol=1e-6).solve(pb).objective for p in (1.05, 4 / 3, 1.7, 2.0)]
    assert all(a >= b * (1 - 1e-6) for a, b in itertools.pairwise(values))  # ‖u‖_p falls with p


@pytest.mark.parametrize("outputs", [("squared", 1), ("hinge", 1), ("softmax", 3)], ids=str)
def test_the_best_single_kernel_is_no_better_than_the_best_combination(outputs):
    pb = problem(*outputs, seed=4)
    single = Single().solve(pb)
    best = SimpleMKL(tol=1e-7).solve(pb)
    assert best.objective <= single.objective * (1 + 1e-7)
    assert single.objective - single.gap <= best.objective * (1 + 1e-9)


def test_single_takes_the_kernel_with_the_smallest_objective():
    pb = problem("squared", seed=5)
    alone = [
        Uniform().solve(problem("squared", seed=5, family=Finite([kernel]))).objective
        for kernel in BATCH_KERNELS
    ]
    single = Single().solve(pb)
    assert np.flatnonzero(single.combination.weights).tolist() == [int(np.argmin(alone))]
    assert single.objective == pytest.approx(min(alone), rel=1e-8)


# -- features or Gram matrices -------------------------------------------------------------------------

FUNCTIONS = [lambda A, B, z=z: monomial(z, A, B) for z in multisets(3, 2)]
SOLVERS = {
    "lp-1.1": LpNorm(p=1.1, tol=1e-7),
    "lp-4/3": LpNorm(tol=1e-7),
    "uniform": Uniform(),
    "simple-mkl": SimpleMKL(tol=1e-7),
    "silp": SILP(tol=1e-3),  # cutting planes slow down with the number of kernels
}


@pytest.mark.parametrize("outputs", OUTPUTS, ids=str)
@pytest.mark.parametrize("name", SOLVERS)
def test_explicit_features_and_gram_matrices_have_one_optimum(name, outputs):
    X, solver = rows(40)[:, :3], SOLVERS[name]
    primal = solver.solve(problem(*outputs, X=X, weights="zeros", family=Products(degree=2)))
    dual = solver.solve(problem(*outputs, X=X, weights="zeros", family=Finite(FUNCTIONS)))
    assert isinstance(primal.predictor, Primal) and isinstance(dual.predictor, Dual)
    tol = getattr(solver, "tol", 1e-8)
    assert primal.objective == pytest.approx(dual.objective, rel=tol + 1e-8)
    # The scores of two points within ε of the optimum differ by about √ε.
    new = rows(6, seed=9)[:, :3]
    spread = 10 * np.sqrt(tol) * (1 + np.abs(dual.predictor.scores(new)).max())
    assert_allclose(primal.predictor.scores(new), dual.predictor.scores(new), atol=spread)


def test_more_features_than_rows_go_through_gram_matrices():
    X = rows(10)[:, :3]
    r = LpNorm(tol=1e-7).solve(problem("squared", X=X, family=Products(degree=2)))
    other = LpNorm(tol=1e-7).solve(problem("squared", X=X, family=Finite(FUNCTIONS)))
    assert isinstance(r.predictor, Dual)
    assert r.objective == pytest.approx(other.objective, rel=2e-7)


@pytest.mark.parametrize("solver", ["lp_norm", "simple_mkl", "silp", "uniform"])
def test_ready_made_matrices_have_the_optimum_of_their_kernels(solver):
    X = rows(30)
    y = X[:, 0] - X[:, 1] ** 2
    K = np.stack([from_list(BATCH_KERNELS)(i, X, X) for i in range(4)], axis=2)
    new = rows(5, seed=7)
    K_new = np.stack([from_list(BATCH_KERNELS)(i, new, X) for i in range(4)], axis=2)
    ready = MKLRegressor("precomputed", solver=solver, C=1.0).fit(K, y)
    plain = MKLRegressor(list(BATCH_KERNELS), solver=solver, C=1.0).fit(X, y)
    assert ready.objective_ == pytest.approx(plain.objective_, rel=1e-9)
    assert_allclose(ready.predict(K_new), plain.predict(new), atol=1e-8)


# -- symmetries of the objective -----------------------------------------------------------------------


def test_more_kernels_than_can_be_tried_one_by_one_are_refused():
    X = np.random.default_rng(0).normal(size=(60, 30))
    with pytest.raises(ValueError, match=r"Single fits each of 324,631 kernels alone .*use Greedy"):
        MKLRegressor(Products(degree=5), solver=Single(), C=1.0).fit(X, X[:, 0])


def test_the_order_of_kernels_does_not_matter():
    for order in itertools.islice(itertools.permutations(range(4)), 0, None, 5):
        shuffled = problem("hinge", family=Finite([BATCH_KERNELS[i] for i in order]))
        a, b = LpNorm(tol=1e-8).solve(problem("hinge")), LpNorm(tol=1e-8).solve(shuffled)
        assert a.objective == pytest.approx(b.objective, rel=2e-8)
        assert_allclose(b.combination.weights, a.combination.weights[list(order)], rtol=1e-3, atol=1e-5)


def test_rescaling_a_kernel_changes_nothing_when_traces_are_normalised():
    scaled = [lambda A, B, i=i: 10.0 ** (3 * i) * from_list(BATCH_KERNELS)(i, A, B) for i in range(4)]
    a = LpNorm(tol=1e-8).solve(problem("logistic"))
    b = LpNorm(tol=1e-8).solve(problem("logistic", family=Finite(scaled)))
    assert a.objective == pytest.approx(b.objective, rel=2e-8)
    assert_allclose(b.combination.weights, a.combination.weights / 10.0 ** (3 * np.arange(4)), rtol=1e-3)


@pytest.mark.parametrize("few", [0, 512])
def test_the_quasi_newton_matrix_is_that_of_bfgs_and_need_not_be_formed(few):
    rng = np.random.default_rng(0)
    theta, g = rng.dirichlet(np.ones(9)), rng.uniform(0.5, 2.0, 9)
    H = rng.normal(size=(9, 9))
    H = H @ H.T + np.eye(9)
    model = weights._Curvature()
    for step in rng.normal(size=(4, 9)):
        model.learn(step, H @ step)
    B = np.diag(weights.fixed_curvature(theta, g))
    for step, change in model.pairs:
        B += np.outer(change, change) / (step @ change) - np.outer(B @ step, B @ step) / (step @ B @ step)
    D, U, signs = model.factors(theta, g)
    assert_allclose(np.diag(D) + (U * signs) @ U.T, B, rtol=1e-10, atol=1e-10 * np.abs(B).max())
    # Woodbury's identity loses the digits by which D and the matrix differ, two or three here.
    found = weights.constrained(weights.solve_low_rank(D, U, signs, np.column_stack([g, np.ones(9)]), few))
    assert_allclose(found, weights.newton_step(B, g), rtol=1e-9, atol=1e-11)


def test_reduced_gradients_over_thousands_of_products_form_no_matrix_of_their_pairs():
    X = np.random.default_rng(0).normal(size=(40, 20))
    tracemalloc.start()
    with pytest.warns(ConvergenceWarning):
        MKLRegressor(Products(degree=4), solver=SimpleMKL(max_iter=5), C=0.1).fit(X, X[:, 0] * X[:, 1])
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 0.2 * 8 * (math.comb(24, 4) - 1) ** 2
