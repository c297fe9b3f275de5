"""The hinge-loss machine (support vector machine)."""

from __future__ import annotations

import numpy as np

from .._util.threads import map_in_threads
from ..losses import Loss
from ._hinge import greedy_hinge, sweep_hinge
from .fit import Fit, certified
from .newton import Dual, State, proximal
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

    def solve_one(j: int) -> tuple[State, np.ndarray, int]:
        y = np.ascontiguousarray(Y[:, j])
        a = y * np.clip(y * A[:, j], 0.0, U)
        sweeps = descend(space, y, U, a)
        v = space.pull(a[:, None])
        dual = problem(space, y, U)
        state, a = proximal(space, a[:, None], v, dual, tol, bound=float(U.max()))
        return state, a, sweeps

    solved = map_in_threads(solve_one, range(Y.shape[1]))
    V = np.hstack([state.V for state, _, _ in solved])
    A = np.hstack([a for _, a, _ in solved])
    n_iter = sum(state.n_iter + sweeps for state, _, sweeps in solved)
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
