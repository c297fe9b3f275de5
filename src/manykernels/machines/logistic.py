"""The logistic machine."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from ..losses import Loss
from .fit import Fit
from .outputs import solve_smooth
from .spaces import Space


def solve(
    space: Space, Y: np.ndarray, loss: Loss, U: np.ndarray, V: np.ndarray, A: np.ndarray, tol: float
) -> Fit:
    """Solve each output by Newton's method (iteratively reweighted least squares).

    A step costs O(n^3), on features O(n k^2 + k^3).

    References
    ----------
    Rasmussen and Williams, "Gaussian processes for machine learning", 2006, algorithm 3.1.
    """
    return solve_smooth(space, Y, loss, U, V, tol, _weights)


def _weights(y: np.ndarray, f: np.ndarray, U: np.ndarray) -> np.ndarray:
    return U * expit(f) * expit(-f)
