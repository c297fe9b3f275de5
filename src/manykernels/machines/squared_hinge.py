"""The squared-hinge machine."""

from __future__ import annotations

import numpy as np

from ..losses import Loss
from .fit import Fit
from .outputs import solve_smooth
from .spaces import Space


def solve(
    space: Space, Y: np.ndarray, loss: Loss, U: np.ndarray, V: np.ndarray, A: np.ndarray, tol: float
) -> Fit:
    """Solve each output by Newton steps on the rows inside the margin.

    The objective is piecewise quadratic, so that the method ends at the exact solution after
    finitely many steps. A step costs O(m^3 + n m) with m rows inside the margin, on features
    O(m k^2 + k^3 + n k).

    References
    ----------
    Chapelle, "Training a support vector machine in the primal", Neural Computation 19, 2007.
    """
    if not V.any():
        # At f = 0 every row is inside the margin, for every output: one factorisation serves all.
        V = space.curved(2.0 * U)(space.pull(2.0 * U[:, None] * Y))
    return solve_smooth(space, Y, loss, U, V, tol, _weights)


def _weights(y: np.ndarray, f: np.ndarray, U: np.ndarray) -> np.ndarray:
    return np.where(y * f < 1.0, 2.0 * U, 0.0)
