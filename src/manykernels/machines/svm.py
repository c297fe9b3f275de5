"""The hinge-loss machine (support vector machine)."""

from __future__ import annotations

import numpy as np

from .._numba.hinge import greedy_hinge, sweep_hinge
from ..losses import Loss
from .fit import Fit, certified
from .newton import Dual, proximal
from .spaces import FeatureSpace, GramSpace, Solve, Space

#: Sweeps of coordinate descent before Newton's method takes over.
SWEEPS = 10


def solve(
    space: Space, Y: np.ndarray, loss: Loss, U: np.ndarray, V: np.ndarray, A: np.ndarray, tol: float
) -> Fit:
    """Solve each output: coordinate descent to find the face, proximal Newton to end on it.

    Coordinate descent on the dual takes at most ``SWEEPS * n`` steps of O(n),
    on features ``SWEEPS`` sweeps of O(n k). A Newton step costs O(m^3 + n m) with m rows on the
    margin, on features O(m k^2 + k^3 + n k).
    """
    A, V = A.copy(), V.copy()
    n_iter = 0
    for j in range(Y.shape[1]):
        y = np.ascontiguousarray(Y[:, j])
        a = y * np.clip(y * A[:, j], 0.0, U)
        n_iter += descend(space, y, U, a)
        v = space.pull(a[:, None])
        state, a = proximal(space, a[:, None], v, problem(space, y, U), tol, bound=float(U.max()))
        A[:, [j]], V[:, [j]] = a, state.V
        n_iter += state.n_iter
    return certified(space, V, A, Y, loss, U, n_iter)


def descend(space: Space, y: np.ndarray, U: np.ndarray, a: np.ndarray) -> int:
    """Improve ``a`` in place by coordinate descent and return the number of sweeps."""
    n = len(y)
    if isinstance(space, GramSpace):
        f = space.K @ a
        # A free row with violation g gains g^2 / (2 K_tt): this stops at about g = 4e-4.
        tol = 1e-7 * min(1.0 / space.scale, float(U.max()))
        steps = greedy_hinge(space.K, y, U, a, f, SWEEPS * n, tol)
        return -(-steps // n)
    assert isinstance(space, FeatureSpace)
    rng = np.random.default_rng(0)
    orders = np.array([rng.permutation(n) for _ in range(SWEEPS)])
    w = space.Z.T @ a
    return int(sweep_hinge(space.Z, y, U, space.diagonal, a, w, orders, 1e-3))


def problem(space: Space, y: np.ndarray, U: np.ndarray) -> Dual:
    """Return the box ``0 <= y a <= U`` and its Newton systems."""
    y, top = y[:, None], U[:, None]

    def curvature(A: np.ndarray, tau: float) -> Solve:
        b = y * A
        return space.curved(np.where((b > 0.0) & (b < top), tau, 0.0)[:, 0])

    return Dual(
        pull=lambda F: y - F,
        project=lambda A, step: y * np.clip(y * A, 0.0, top),
        curvature=curvature,
    )
