"""Machines whose outputs are problems of their own."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..losses import Loss
from .fit import Fit, certified
from .newton import Dual, State, newton, proximal
from .spaces import Solve, Space


def solve_smooth(
    space: Space,
    Y: np.ndarray,
    loss: Loss,
    U: np.ndarray,
    V: np.ndarray,
    tol: float,
    weights: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray],
    fallback: Callable[[np.ndarray], Dual] | None = None,
) -> Fit:
    """Solve each output by Newton's method.

    ``weights(y, f, U)`` is the second derivative; ``fallback(y)`` the dual to hand to the proximal
    loop when Newton's method finds too many kinks on its way.
    """
    V = V.copy()
    A = np.empty(Y.shape)
    n_iter = 0
    for j in range(Y.shape[1]):
        y = Y[:, [j]]

        def response(F: np.ndarray, y: np.ndarray = y) -> np.ndarray:
            return -U[:, None] * loss.gradient(y, F)

        def curvature(F: np.ndarray, A: np.ndarray, y: np.ndarray = y) -> Solve:
            return space.curved(weights(y[:, 0], F[:, 0], U))

        state = State(V[:, [j]], space.scores(V[:, [j]]))
        limit = 200 if fallback is None else 40
        state = newton(space, state, response, curvature, tol, max_iter=limit)
        n_iter += state.n_iter
        if fallback is not None and not state.converged:
            dual = fallback(y)
            a = np.zeros(y.shape)
            bound = 2.0 * float(U.max())
            state, a = proximal(space, a, space.pull(a), dual, tol, bound)
            n_iter += state.n_iter
            state = newton(space, state, response, curvature, tol, max_iter=limit)
            n_iter += state.n_iter
        V[:, [j]], A[:, [j]] = state.V, response(state.F)
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
