"""Machines whose outputs are problems of their own."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .._util.threads import map_in_threads
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

    def solve_one(j: int) -> tuple[State, np.ndarray]:
        y, v = Y[:, [j]], V[:, [j]]

        def response(F: np.ndarray) -> np.ndarray:
            return -U[:, None] * loss.gradient(y, F)

        def curvature(F: np.ndarray, A: np.ndarray) -> Solve:
            return space.curved(weights(y[:, 0], F[:, 0], U))

        limit = 200 if fallback is None else 40
        state = newton(space, State(v, space.scores(v)), response, curvature, tol, max_iter=limit)
        if fallback is not None and not state.converged:
            a = np.zeros(y.shape)
            bound = 2.0 * float(U.max())
            near, _ = proximal(space, a, space.pull(a), fallback(y), tol, bound)
            near.n_iter += state.n_iter
            state = newton(space, near, response, curvature, tol, max_iter=limit)
        return state, response(state.F)

    solved = map_in_threads(solve_one, range(Y.shape[1]))
    states = [state for state, _ in solved]
    V = np.hstack([state.V for state in states])
    A = np.hstack([a for _, a in solved])
    return better(space, V, A, Y, loss, U, sum(state.n_iter for state in states))


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
