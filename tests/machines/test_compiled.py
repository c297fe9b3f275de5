"""Each compiled loop against a plain NumPy twin with the same iterates."""

import numpy as np
import pytest
from problems import problem

from manykernels.losses.base import project_coupled, project_simplex
from manykernels.machines._descent import (
    greedy_hinge,
    greedy_rows,
    project_row,
    project_rows,
    sweep_hinge,
    sweep_rows,
)


def orders(n, sweeps):
    rng = np.random.default_rng(7)
    return np.array([rng.permutation(n) for _ in range(sweeps)])


def plain_greedy_hinge(K, y, U, a, max_steps, tol):
    h = np.diag(K)
    for step in range(max_steps):
        g = y - K @ a
        d = y * np.clip(y * (a + g / h), 0, U) - a
        gains = d * (g - 0.5 * h * d)
        i = np.argmax(gains)
        if gains[i] <= tol:
            return step
        a[i] += d[i]
    return max_steps


@pytest.mark.parametrize("steps", [1, 7, 60, 5000])
def test_greedy_hinge(steps):
    K, _, Y, _ = problem("hinge", 1)
    y, U = Y[:, 0].copy(), np.full(len(Y), 2.0)
    a, f, twin = np.zeros(len(y)), np.zeros(len(y)), np.zeros(len(y))
    taken = greedy_hinge(K, y, U, a, f, steps, 1e-6)
    assert taken == plain_greedy_hinge(K, y, U, twin, steps, 1e-6)
    np.testing.assert_allclose(a, twin, atol=1e-9)
    np.testing.assert_allclose(f, K @ a, atol=1e-9)


def plain_sweep_hinge(Z, y, U, a, order):
    w = Z.T @ a
    for t in order:
        b = y[t] * a[t]
        new = np.clip(b + (1 - y[t] * (Z[t] @ w)) / (Z[t] @ Z[t]), 0, U[t])
        w += y[t] * (new - b) * Z[t]
        a[t] = y[t] * new
    return w


def test_one_sweep_of_hinge_rows():
    _, Z, Y, _ = problem("hinge", 1)
    y, U = Y[:, 0].copy(), np.full(len(Y), 2.0)
    order = orders(len(y), 1)
    a, w, twin = np.zeros(len(y)), np.zeros(Z.shape[1]), np.zeros(len(y))
    assert sweep_hinge(Z, y, U, np.sum(Z**2, axis=1), a, w, order, 1e-9) == 1
    np.testing.assert_allclose(plain_sweep_hinge(Z, y, U, twin, order[0]), w, atol=1e-12)
    np.testing.assert_allclose(a, twin, atol=1e-12)


def test_shrinking_changes_the_path_but_not_the_end():
    _, Z, Y, _ = problem("hinge", 1)
    y, U = Y[:, 0].copy(), np.full(len(Y), 0.1)
    many = orders(len(y), 3000)
    a, w, twin = np.zeros(len(y)), np.zeros(Z.shape[1]), np.zeros(len(y))
    sweeps = sweep_hinge(Z, y, U, np.sum(Z**2, axis=1), a, w, many, 1e-10)
    assert sweeps < 3000
    for order in many:
        plain = plain_sweep_hinge(Z, y, U, twin, order)
    np.testing.assert_allclose(w, plain, atol=1e-7)


def violations(Q, G):
    return G.max(axis=1) - np.where(Q > 0, G, np.inf).min(axis=1)


def test_project_row():
    rng = np.random.default_rng(0)
    for _ in range(200):
        q, radius = 3 * rng.normal(size=5), rng.exponential()
        expected = project_simplex(q[None], radius)[0]
        project_row(q, radius, np.empty(5, dtype=bool))
        np.testing.assert_allclose(q, expected, atol=1e-13)


@pytest.mark.parametrize("c", [2, 5])
def test_project_rows(c):
    rng = np.random.default_rng(0)
    Y = np.eye(c)[rng.integers(0, c, 300)]
    A, U = 3 * rng.normal(size=(300, c)), rng.exponential(size=300)
    A[:3], U[3:6] = 0.0, 1e12
    A[200:] = project_coupled(Y[200:], A[200:], U[200:])
    expected = project_coupled(Y, A, U)
    np.testing.assert_allclose(project_rows(Y.argmax(axis=1), A, U), expected, atol=1e-13)


@pytest.mark.parametrize("steps", [1, 7, 60])
def test_greedy_rows(steps):
    K, _, Y, _ = problem("max_hinge", 3)
    U = np.full(len(Y), 2.0)
    Q, G = U[:, None] * Y, 1.0 - Y
    twin = Q.copy()
    taken = greedy_rows(K, U, Q, G, steps, 1e-6)
    for _ in range(taken):
        margins = K @ (U[:, None] * Y - twin) + 1 - Y
        i = np.argmax(violations(twin, margins))
        twin[i] = project_simplex((twin[i] + margins[i] / K[i, i])[None], U[i])[0]
    assert taken == steps
    np.testing.assert_allclose(Q, twin, atol=1e-9)
    np.testing.assert_allclose(G, K @ (U[:, None] * Y - Q) + 1 - Y, atol=1e-9)


def test_sweeps_of_rows():
    _, Z, Y, _ = problem("max_hinge", 3)
    U = np.full(len(Y), 2.0)
    order = orders(len(Y), 3)
    Q, W = U[:, None] * Y, np.zeros((Z.shape[1], 3))
    twin = Q.copy()
    sweep_rows(Z, Y.argmax(axis=1), U, np.sum(Z**2, axis=1), Q, W, order, 1e-9)
    for t in order.ravel():
        margins = Z[t] @ (Z.T @ (U[:, None] * Y - twin)) + 1 - Y[t]
        if violations(twin[[t]], margins[None])[0] > 1e-9:
            twin[t] = project_simplex((twin[t] + margins / (Z[t] @ Z[t]))[None], U[t])[0]
    np.testing.assert_allclose(Q, twin, atol=1e-9)
    np.testing.assert_allclose(W, Z.T @ (U[:, None] * Y - Q), atol=1e-9)
