"""Machines whose outputs are problems of their own."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..losses import Loss
from .fit import Fit, certified
from .newton import State, newton
from .spaces import Space

Response = Callable[[np.ndarray, np.ndarray], np.ndarray]


def solve_smooth(
    space: Space,
    Y: np.ndarray,
    loss: Loss,
    U: np.ndarray,
    V: np.ndarray,
    tol: float,
    weights: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray],
) -> Fit:
    """Solve each output by Newton's method; ``weights(y, f, U)`` is the second derivative."""
    V = V.copy()
    A = np.empty(Y.shape)
    n_iter = 0
    for j in range(Y.shape[1]):
        y = Y[:, [j]]

        def response(F: np.ndarray, y: np.ndarray = y) -> np.ndarray:
            return -U[:, None] * loss.gradient(y, F)

        state = newton(
            space,
            State(V[:, [j]], space.scores(V[:, [j]])),
            response,
            lambda F, A, y=y: space.curved(weights(y[:, 0], F[:, 0], U)),  # type: ignore[misc]
            tol,
        )
        V[:, [j]], A[:, [j]] = state.V, response(state.F)
        n_iter += state.n_iter
    return better(space, V, A, Y, loss, U, n_iter)


def better(
    space: Space,
    V: np.ndarray,
    A: np.ndarray,
    Y: np.ndarray,
    loss: Loss,
    U: np.ndarray,
    n_iter: int,
) -> Fit:
    """Certify the response ``A`` and, on a Gram matrix, ``V`` too; return the smaller gap.

    The response is exact where the loss is flat; the coefficients where it is steep.
    """
    fit = certified(space, V, A, Y, loss, U, n_iter)
    if space.explicit or fit.gap <= 1e-14:
        return fit
    other = certified(space, V, V, Y, loss, U, n_iter)
    return other if other.gap < fit.gap else fit
