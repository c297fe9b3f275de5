"""The second derivative of a machine's value in its kernel is that of its first derivative, numerically."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from tests.machines.problems import CASES, problem, rbf

from manykernels.losses import get_loss
from manykernels.machines import solve_dual, solve_primal, value_hessian

STEP = 1e-5
#: Losses that tie rows, or whose outputs share one f, are not for solvers that ask.
PLAIN = [case for case in CASES if not (get_loss(case[0]).joint or get_loss(case[0]).shared)]


def directions(n):
    """Two kernels that the machine's kernel may move along, features and Gram matrices."""
    X = np.random.default_rng(5).normal(size=(n, 3))
    return [X[:, :1], X[:, 1:]], [X[:, :1] @ X[:, :1].T, rbf(X, gamma=1.0)]


def numeric(solve, Ks):
    """Return minus half of the change of tr(A'K_iA) along K_j."""
    H = np.empty((len(Ks), len(Ks)))
    for j in range(len(Ks)):
        up, down = solve(j, STEP), solve(j, -STEP)
        slopes = [[np.vdot(A, K @ A) for K in Ks] for A in (up, down)]
        H[:, j] = -0.5 * (np.array(slopes[0]) - slopes[1]) / (2 * STEP)
    return H


@pytest.mark.parametrize("loss, c", PLAIN, ids=str)
def test_on_a_gram_matrix_it_is_the_numeric_one(loss, c):
    K, _, Y, s = problem(loss, c)
    _, Ks = directions(len(K))
    fit = solve_dual(K, Y, loss, 2.0, s)
    H = value_hessian(np.stack([D @ fit.A for D in Ks]), K, Y, loss, 2.0, s, fit, explicit=False)
    expected = numeric(lambda j, h: solve_dual(K + h * Ks[j], Y, loss, 2.0, s, start=fit).A, Ks)
    # Central differences of machines solved to 1e-10, over a step of 1e-5.
    assert_allclose(H, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("loss, c", PLAIN, ids=str)
def test_on_features_it_is_the_numeric_one(loss, c):
    _, Z, Y, s = problem(loss, c)
    parts, _ = directions(len(Z))
    Ks = [P @ P.T for P in parts]
    # The kernel must have some of every direction, or it could not move both ways.
    wide = np.column_stack([Z, *parts])

    def solve(j, h):
        scaled = np.column_stack([Z, *(P * np.sqrt(1 + h * (i == j)) for i, P in enumerate(parts))])
        return solve_primal(scaled, Y, loss, 2.0, s).A

    fit = solve_primal(wide, Y, loss, 2.0, s)
    H = value_hessian(np.stack([D @ fit.A for D in Ks]), wide, Y, loss, 2.0, s, fit, explicit=True)
    expected = numeric(solve, Ks)
    assert_allclose(H, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


def test_where_no_row_is_free_it_is_zero():
    K, _, Y, s = problem("hinge", 1)
    fit = solve_dual(K, Y, "hinge", 1e-6, s)  # so small a C that every coefficient is at its bound
    Q = np.stack([K @ fit.A])
    assert not value_hessian(Q, K, Y, "hinge", 1e-6, s, fit, explicit=False).any()
