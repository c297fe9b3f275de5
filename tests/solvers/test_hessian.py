"""Newton steps over the simplex: the quadratic program, and the road to the optimum."""

import time
import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose
from tests.contracts.cases import OUTPUTS, problem

from manykernels import MKLRegressor
from manykernels.families import Finite, Products
from manykernels.kernels import RBF, Linear
from manykernels.solvers import SILP, HessianMKL, SimpleMKL
from manykernels.solvers.hessian import ENTERING, simplex_minimum
from manykernels.solvers.workspace import Workspace


@pytest.mark.parametrize("seed", range(20))
def test_the_quadratic_program_ends_where_no_coordinate_can_gain(seed):
    rng = np.random.default_rng(seed)
    k = int(rng.integers(1, 30))
    R = rng.normal(size=(k, k))
    B, q = R @ R.T + 1e-6 * np.eye(k), 3 * rng.normal(size=k)
    start = np.where(rng.random(k) < 0.5, rng.exponential(size=k), 0.0)
    start[0] += 0.1
    x = simplex_minimum(B, q, start / start.sum())
    slope = B @ x + q
    level = slope @ x
    assert (x >= 0).all() and x.sum() == pytest.approx(1.0, rel=1e-12)
    size = np.abs(slope).max()
    # Equal slopes where there is weight, none lower elsewhere; the systems have a condition of up to 1e8.
    assert (slope >= level - 1e-7 * size).all()
    assert_allclose(slope[x > 1e-9], level, atol=1e-7 * size)


@pytest.mark.parametrize("outputs", OUTPUTS, ids=str)
def test_the_hessian_of_J_is_the_change_of_its_gradient(outputs):
    work = Workspace.over_all(problem(*outputs, weights="zeros", n=40), 1.0)
    theta, step = np.array([0.4, 0.3, 0.2, 0.1]), 1e-5
    H = work.hessian(work.evaluate(theta), np.arange(4))
    numeric = [work.evaluate(theta - step * e).g - work.evaluate(theta + step * e).g for e in np.eye(4)]
    numeric = np.array(numeric) / (2 * step)
    assert_allclose(H, numeric, atol=1e-6 * np.abs(numeric).max())


@pytest.mark.parametrize("loss", ["squared", "hinge", "logistic"])
def test_it_ends_where_the_other_sparse_solvers_do(loss):
    family = Finite([RBF(s) for s in (0.5, 1.0, 2.0, 4.0)] + [Linear(columns=[j]) for j in range(4)])
    pb = problem(loss, n=60, C=3.0, family=family)
    newton, simple = HessianMKL(tol=1e-8).solve(pb), SimpleMKL(tol=1e-8).solve(pb)
    assert newton.objective == pytest.approx(simple.objective, rel=1e-7)
    assert newton.objective == pytest.approx(SILP(tol=1e-5).solve(pb).objective, rel=1e-5)
    # Weights are as exact as the square root of the gap, at most.
    assert_allclose(
        newton.combination.weights, simple.combination.weights, atol=1e-3 * simple.combination.weights.max()
    )


def test_it_takes_few_steps_whatever_the_number_of_kernels():
    pb = problem("squared", n=60, C=10.0, family=Products(degree=3))
    newton, simple = HessianMKL(tol=1e-6).solve(pb), SimpleMKL(tol=1e-6).solve(pb)
    assert newton.n_iter <= 12 < simple.n_iter


def test_more_kernels_than_enter_at_once_are_all_looked_at():
    X = np.random.default_rng(3).normal(size=(40, 10))
    pb = problem("squared", C=30.0, family=Products(degree=3), X=X)
    start = np.zeros(285)
    start[284] = 1.0  # the others gain nearly all: more than the 200 that enter at once
    first = Workspace.over_all(pb, 1.0).evaluate(start)
    assert np.count_nonzero(first.g > first.theta @ first.g) > ENTERING
    r = HessianMKL(tol=1e-6).solve(pb, init=start)
    assert r.converged and np.count_nonzero(r.combination.weights) > 2


def test_thousands_of_kernels_have_no_matrix_of_all_their_pairs():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 30))
    y = X[:, 0] * X[:, 1] + X[:, 2]
    tracemalloc.start()
    model = MKLRegressor(Products(degree=3), solver=HessianMKL(tol=1e-6), C=1.0).fit(X, y)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert model.converged_
    assert peak < 100e6  # of 5,455 kernels: 238 MB
    simple = MKLRegressor(Products(degree=3), solver=SimpleMKL(tol=1e-6), C=1.0).fit(X, y)
    assert model.objective_ == pytest.approx(simple.objective_, rel=1e-5)


def test_a_quadratic_program_of_hundreds_of_kernels_ends_below_its_start():
    rng = np.random.default_rng(0)
    B = np.diag(rng.uniform(1.0, 1.1, 500))
    q, start = rng.normal(size=500), np.full(500, 1 / 500)
    before = time.process_time()
    x = simplex_minimum(B, q, start)
    assert time.process_time() - before < 10.0
    assert 0.5 * x @ B @ x + q @ x < 0.5 * start @ B @ start + q @ start
