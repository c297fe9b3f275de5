"""The softmax machine (multinomial logistic regression)."""

from __future__ import annotations

import numpy as np

from ..losses import Loss
from .fit import Fit
from .newton import State, newton
from .outputs import better
from .spaces import Solve, Space


def solve(
    space: Space, Y: np.ndarray, loss: Loss, U: np.ndarray, V: np.ndarray, A: np.ndarray, tol: float
) -> Fit:
    """Solve by exact Newton steps on all outputs together.

    A step costs O(c n^3), on features O(n k^2 c^2 + k^3 c^3); with more than
    ``spaces.MAX_DENSE`` coefficients the steps come from conjugate gradients, O(n k c) each.

    References
    ----------
    Rasmussen and Williams, "Gaussian processes for machine learning", 2006, algorithm 3.3.
    """

    def response(F: np.ndarray) -> np.ndarray:
        return -U[:, None] * loss.gradient(Y, F)

    def curvature(F: np.ndarray, A: np.ndarray) -> Solve:
        # Probabilities below the floor change no digit of the step, but would underflow in it.
        P = np.maximum(loss.probabilities(F), 1e-25)
        return space.coupled(U[:, None] * P)

    V = V - V.mean(axis=1, keepdims=True)  # as at the solution; Newton's steps keep it so
    state = newton(space, State(V, space.scores(V)), response, curvature, tol)
    return better(space, state.V, response(state.F), Y, loss, U, state.n_iter)
