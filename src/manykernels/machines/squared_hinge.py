"""The squared-hinge machine."""

from __future__ import annotations

import numpy as np

from ..losses import Loss
from .fit import Fit
from .newton import Dual
from .outputs import solve_smooth
from .spaces import Solve, Space


def solve(
    space: Space, Y: np.ndarray, loss: Loss, U: np.ndarray, V: np.ndarray, A: np.ndarray, tol: float
) -> Fit:
    """Solve each output by Newton steps on the rows inside the margin.

    The objective is piecewise quadratic, so that the method ends at the exact solution after
    finitely many steps; where many rows cross the margin on the way (large C) it gets there by
    proximal steps on the dual, which are problems of smaller C. A step costs O(m^3 + n m) with m
    rows inside the margin, on features O(m k^2 + k^3 + n k).

    References
    ----------
    Chapelle, "Training a support vector machine in the primal", Neural Computation 19, 2007.
    """
    if not V.any():
        # At f = 0 every row is inside the margin, for every output: one factorisation serves all.
        V = space.curved(2.0 * U)(space.pull(2.0 * U[:, None] * Y))
    return solve_smooth(space, Y, loss, U, V, tol, _weights, fallback=lambda y: problem(space, y, U))


def problem(space: Space, y: np.ndarray, U: np.ndarray) -> Dual:
    """Return the dual of one output, with ``h(a) = a^2/(4U) - y a`` on ``y a >= 0``."""
    cap = 2.0 * U[:, None]

    def curvature(A: np.ndarray, step: float) -> Solve:
        return space.curved(np.where(y * A > 0.0, step / (1.0 + step / cap), 0.0)[:, 0])

    return Dual(
        pull=lambda F: y - F,
        project=lambda A, step: y * np.maximum(y * A, 0.0) / (1.0 + step / cap),
        curvature=curvature,
    )


def _weights(y: np.ndarray, f: np.ndarray, U: np.ndarray) -> np.ndarray:
    return np.where(y * f < 1.0, 2.0 * U, 0.0)
