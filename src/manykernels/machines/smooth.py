"""Machines whose loss has a derivative: Newton's method, to the end.

Each takes a task, primal coefficients ``V`` and dual ones ``A`` to start from, and the relative accuracy of the scores.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import expit

from .._util.threads import map_in_threads
from .fit import Fit, Task, better
from .newton import Curvature, DualProblem, State, newton, proximal
from .spaces import Solve

#: Scores that differ by less have the same curvature to four digits: the last steps take the factors of those before,
#: and lose as many of the dozen digits that they gain.
SAME_CURVATURE = 1e-4

#: The second derivative of a loss from y, f and C s, and the dual of one output.
Weights = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
Fallback = Callable[[Task], DualProblem] | None


def squared(task: Task, V: np.ndarray, A: np.ndarray, tol: float) -> Fit:
    """Solve ``(K + 1/U) A = Y`` (kernel ridge regression) by one factorisation, shared by all outputs.

    Further steps are refinements of the first with the same factor. Cost: O(n^3 + n^2 c), on
    features O(n k^2 + k^3 + n k c).
    """
    space, Y, U = task.space, task.Y, task.U
    system = space.curved(U)
    start = State(V, space.scores(V))
    state = newton(space, start, lambda F: U[:, None] * (Y - F), lambda F, A: system, tol, max_iter=20)
    return better(task, state.V, U[:, None] * (Y - state.F), state.n_iter)


def logistic(task: Task, V: np.ndarray, A: np.ndarray, tol: float) -> Fit:
    """Solve each output by Newton's method (iteratively reweighted least squares).

    A step costs O(n^3), on features O(n k^2 + k^3).

    References
    ----------
    Rasmussen and Williams, "Gaussian processes for machine learning", 2006, algorithm 3.1.
    """

    def weights(y: np.ndarray, f: np.ndarray, U: np.ndarray) -> np.ndarray:
        return U * expit(f) * expit(-f)

    return _each_output(task, V, tol, weights)


def softmax(task: Task, V: np.ndarray, A: np.ndarray, tol: float) -> Fit:
    """Solve by exact Newton steps on all outputs together (multinomial logistic regression).

    A step costs O(c n^3), on features O(n k^2 c^2 + k^3 c^3); with more than
    ``spaces.MAX_DENSE`` coefficients the steps come from conjugate gradients, O(n k c) each.

    References
    ----------
    Rasmussen and Williams, "Gaussian processes for machine learning", 2006, algorithm 3.3.
    """
    space, loss = task.space, task.loss

    def curvature(F: np.ndarray, A: np.ndarray) -> Solve:
        # Probabilities below the floor change no digit of the step, but would underflow in it.
        P = np.maximum(loss.probabilities(F), 1e-25)
        return space.coupled(task.U[:, None] * P)

    V = V - V.mean(axis=1, keepdims=True)  # as at the solution; Newton's steps keep it so
    start = State(V, space.scores(V))
    state = newton(space, start, task.response, _steady(curvature), tol, slopes=_slopes(task))
    return better(task, state.V, task.response(state.F), state.n_iter)


def squared_hinge(task: Task, V: np.ndarray, A: np.ndarray, tol: float) -> Fit:
    """Solve each output by Newton steps on the rows inside the margin.

    The objective is piecewise quadratic, so that the method ends at the exact solution after
    finitely many steps; where many rows cross the margin on the way (large C) it gets there by
    proximal steps on the dual, which are problems of smaller C. A step costs O(m^3 + n m) with m
    rows inside the margin, on features O(m k^2 + k^3 + n k).

    References
    ----------
    Chapelle, "Training a support vector machine in the primal", Neural Computation 19, 2007.
    """
    space, Y, U = task.space, task.Y, task.U

    def weights(y: np.ndarray, f: np.ndarray, U: np.ndarray) -> np.ndarray:
        return np.where(y * f < 1.0, 2.0 * U, 0.0)

    if not V.any():
        # At f = 0 every row is inside the margin, for every output: one factorisation serves all.
        V = space.curved(2.0 * U)(space.pull(2.0 * U[:, None] * Y))
    return _each_output(task, V, tol, weights, fallback=squared_hinge_dual)


def squared_hinge_dual(task: Task) -> DualProblem:
    """Return the dual of one output, with ``h(a) = a^2/(4U) - y a`` on ``y a >= 0``."""
    y, cap = task.Y, 2.0 * task.U[:, None]

    def curvature(A: np.ndarray, step: float) -> Solve:
        return task.space.curved(np.where(y * A > 0.0, step / (1.0 + step / cap), 0.0)[:, 0])

    return DualProblem(
        pull=lambda F: y - F,
        project=lambda A, step: y * np.maximum(y * A, 0.0) / (1.0 + step / cap),
        curvature=curvature,
    )


def huber(task: Task, V: np.ndarray, A: np.ndarray, tol: float) -> Fit:
    """Solve each output by Newton steps on the rows with errors below delta, as :func:`squared_hinge` does.

    A step costs O(m^3 + n m) with m such rows, on features O(m k^2 + k^3 + n k).
    """
    delta = task.loss.delta  # type: ignore[attr-defined]

    def weights(y: np.ndarray, f: np.ndarray, U: np.ndarray) -> np.ndarray:
        return np.where(np.abs(f - y) < delta, U, 0.0)

    return _each_output(task, V, tol, weights, fallback=huber_dual, slope=delta)


def huber_dual(task: Task) -> DualProblem:
    """Return the dual of one output, with ``h(a) = a^2/(2U) - y a`` on ``|a| <= delta U``."""
    U = task.U[:, None]
    most = task.loss.delta * U  # type: ignore[attr-defined]

    def curvature(A: np.ndarray, step: float) -> Solve:
        return task.space.curved(np.where(np.abs(A) < most, step / (1.0 + step / U), 0.0)[:, 0])

    return DualProblem(
        pull=lambda F: task.Y - F,
        project=lambda A, step: np.clip(A / (1.0 + step / U), -most, most),
        curvature=curvature,
    )


def poisson(task: Task, V: np.ndarray, A: np.ndarray, tol: float) -> Fit:
    """Solve each output by Newton's method (Poisson regression with the logarithm as its link).

    The curvature of a row is its expected count, the response less ``U y``. A step costs O(n^3), on features
    O(n k^2 + k^3).
    """
    return _each_output(task, V, tol)


def ordinal(task: Task, V: np.ndarray, A: np.ndarray, tol: float) -> Fit:
    """Solve by Newton's method on f and all thresholds together (ordinal logistic regression).

    A step costs O(n^3 + n^2 c), on features O(n k^2 + (k + c)^3).
    """

    def curvature(F: np.ndarray, A: np.ndarray) -> Solve:
        return task.space.curved(task.U[:, None] * expit(F) * expit(-F))

    start = State(V, task.space.scores(V))
    state = newton(task.space, start, task.response, _steady(curvature), tol, slopes=_slopes(task))
    return better(task, state.V, task.response(state.F), state.n_iter)


def cox(task: Task, V: np.ndarray, A: np.ndarray, tol: float) -> Fit:
    """Solve by Newton's method on all rows together (Cox regression).

    The curvature ties the rows of a risk set, and its product with a vector takes sums along the times: a step costs
    O(n^3) all the same, on features O(n k^2 + k^3).
    """
    sets = task.loss.risk_sets(task.Y, task.U)  # type: ignore[attr-defined]

    def response(F: np.ndarray) -> np.ndarray:
        return sets.response(F[:, 0])[:, None]

    def curvature(F: np.ndarray, A: np.ndarray) -> Solve:
        return task.space.across(sets.curve(F[:, 0]))

    start = State(V, task.space.scores(V))
    state = newton(task.space, start, response, _steady(curvature), tol, slopes=_slopes(task))
    return better(task, state.V, response(state.F), state.n_iter)


def _steady(curvature: Curvature) -> Curvature:
    """Return the curvature of a smooth loss with the last system again where scores have hardly moved since."""
    known: list[tuple[np.ndarray, Solve]] = []

    def near(F: np.ndarray, A: np.ndarray) -> Solve:
        if not known or not float(np.abs(F - known[0][0]).max(initial=0.0)) <= SAME_CURVATURE:
            known[:] = [(F, curvature(F, A))]
        return known[0][1]

    return near


def _slopes(task: Task) -> float:
    return float(np.linalg.norm(task.U))


def _each_output(
    task: Task,
    V,
    tol: float,
    weights: Weights | None = None,
    fallback: Fallback = None,
    slope: float = 2.0,
) -> Fit:
    """Solve each output by Newton's method.

    ``weights(y, f, U)`` is the second derivative, None where that is ``U (l' + y)``; ``fallback(output)`` the dual to
    hand to the proximal loop when Newton's method finds too many kinks on its way, with coefficients up to ``slope U``.
    """
    space, U = task.space, task.U

    def solve_one(j: int) -> tuple[State, np.ndarray]:
        one, v = task.output(j), V[:, [j]]

        def curvature(F: np.ndarray, A: np.ndarray) -> Solve:
            if weights is None:
                return space.curved(np.maximum(U * one.Y[:, 0] - A[:, 0], 0.0))
            return space.curved(weights(one.Y[:, 0], F[:, 0], U))

        limit, curved = (200, _steady(curvature)) if fallback is None else (40, curvature)
        state = newton(space, State(v, space.scores(v)), one.response, curved, tol, limit, _slopes(task))
        if fallback is not None and not state.converged:
            a = np.zeros(one.Y.shape)
            bound = slope * float(U.max())
            near, _ = proximal(space, a, space.pull(a), fallback(one), tol, bound)
            near.n_iter += state.n_iter
            state = newton(space, near, one.response, curved, tol, limit, _slopes(task))
        return state, one.response(state.F)

    solved = map_in_threads(solve_one, range(task.Y.shape[1]))
    states = [state for state, _ in solved]
    V = np.hstack([state.V for state in states])
    A = np.hstack([a for _, a in solved])
    return better(task, V, A, sum(state.n_iter for state in states))
