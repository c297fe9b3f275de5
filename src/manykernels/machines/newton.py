"""Newton's method with a line search on slopes, and the proximal loop around it.

Both work on any space and on any loss that can say what its *response* is: the dual
coefficients ``A(F) = -phi'(F)`` that belong to scores ``F``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .spaces import Solve, Space

#: Newton steps of a proximal loop. Machines that rounding lets end take 30 to 150; the others would never.
MOST_STEPS = 250
#: Multiplications that the calls of a step are worth, and what it computes of every score.
STEP_WORK, SCORE_WORK = 5e5, 250.0

Response = Callable[[np.ndarray], np.ndarray]
Curvature = Callable[[np.ndarray, np.ndarray], Solve]


@dataclass
class State:
    """A predictor under way: coefficients, scores, steps taken, whether the last run ended."""

    V: np.ndarray
    F: np.ndarray
    n_iter: int = 0
    converged: bool = True


def newton(
    space: Space,
    state: State,
    response: Response,
    curvature: Curvature,
    tol: float,
    max_iter: int = 200,
    slopes: float = 0.0,
) -> State:
    """Minimise ``||f||^2 / 2 + sum_t phi_t(f_t)`` for a smooth convex phi.

    Parameters
    ----------
    space : Space
    state : State
        The start.
    response : callable
        ``F -> A(F) = -phi'(F)``.
    curvature : callable
        ``(F, A) -> solver`` of the Newton system at F.
    tol : float
        Stops after the step whose decrement is at most ``tol ||f||``; that is an error in f,
        not in the objective, and the step itself squares it. Stops too when rounding keeps the
        decrement from falling.
    slopes : float
        The norm of what responses are differences of: where f = 0 is best, it is their rounding that remains of A.

    Returns
    -------
    State
        Cost: one Newton system and two products with K or Z per iteration, one more product with
        Z for each trial of the line search.
    """
    V, F = state.V, state.F
    A = response(F)
    best, stalled = np.inf, 0
    steps, converged = 0, True
    while True:
        if steps >= max_iter:
            converged = False
            break
        R = space.pull(A) - V
        D = curvature(F, A)(R)
        G = space.scores(D)
        decrement = space.pair(R, D, G)
        if np.isnan(decrement):
            converged = False
            break
        steps += 1
        last = decrement <= max(tol * tol * space.pair(V, V, F), 0.0)
        alpha, A = (1.0, A) if last else _line_search(space, V, F, D, G, response, decrement)
        V, F = V + alpha * D, F + alpha * G
        if last:
            break
        # Rounding in A is about eps |A|, in f therefore eps |A| sqrt(scale).
        noise = space.scale * max(1e-22 * float(np.vdot(A, A)), 1e-28 * slopes**2)
        stalled = stalled + 1 if decrement > 0.3 * best else 0
        best = min(best, decrement)
        if stalled >= 2 and decrement <= noise:
            break
    space.spent.append(steps * (STEP_WORK + SCORE_WORK * F.size))
    return State(V, F, state.n_iter + steps, converged)


def _line_search(space: Space, V, F, D, G, response: Response, decrement: float) -> tuple[float, np.ndarray]:
    """Return a step length whose slope is at most half the first slope, and its response.

    The objective is convex along the line and its slope increases; slopes keep their digits near
    the solution, where differences of objectives drown in rounding.
    """

    def slope(alpha: float) -> tuple[float, np.ndarray]:
        A = response(F + alpha * G)
        return space.pair(V + alpha * D - space.pull(A), D, G), A

    low, low_slope = 0.0, -decrement
    high, high_slope = np.inf, np.inf
    alpha = 1.0
    for _ in range(40):
        now, A = slope(alpha)
        if abs(now) <= 0.5 * decrement:
            break
        if now < 0.0:
            low, low_slope = alpha, now
        else:
            high, high_slope = alpha, now
        if high == np.inf:
            alpha *= 2.0
            continue
        share = low_slope / (low_slope - high_slope)
        alpha = low + min(max(share, 0.1), 0.9) * (high - low)
    return alpha, A


@dataclass(frozen=True)
class DualProblem:
    """A dual objective ``-tr(A'KA)/2 - h(A)``, as the proximal loop sees it.

    Attributes
    ----------
    pull : callable
        ``F -> `` minus the gradient at scores ``F = KA`` of the smooth part, K's and h's.
    project : callable
        ``(A, step) -> `` the proximal map of step times the rest of h: a projection on the feasible
        set, for the piecewise linear losses.
    curvature : callable
        ``(A, step) -> solver`` of the Newton system where ``A`` is an image of ``project``.
    """

    pull: Response
    project: Callable[[np.ndarray, float], np.ndarray]
    curvature: Callable[[np.ndarray, float], Solve]


def _natural_residual(problem: DualProblem, A: np.ndarray, F: np.ndarray, unit: float) -> float:
    """Return how far a projected gradient step moves ``A``, in units of scores; zero at a solution."""
    moved = A - problem.project(A + unit * problem.pull(F), unit)
    return float(np.abs(moved).max(initial=0.0)) / unit


def _around(problem: DualProblem, center: np.ndarray, step: float) -> tuple[Response, Curvature]:
    """Return what Newton's method asks of a proximal step from a centre."""

    def response(F: np.ndarray) -> np.ndarray:
        return problem.project(center + step * problem.pull(F), step)

    def curvature(F: np.ndarray, A: np.ndarray) -> Solve:
        return problem.curvature(A, step)

    return response, curvature


def proximal(
    space: Space, A: np.ndarray, V: np.ndarray, problem: DualProblem, tol: float, bound: float
) -> tuple[State, np.ndarray]:
    """Solve a machine whose loss has kinks by proximal steps on its dual.

    A step maximises the dual minus ``||A - A_previous||^2 / (2 tau)``. Its primal is smooth, with
    response ``project(A_previous + tau pull(F))``, and Newton's method needs a few systems of the
    size of the current face. As the dual is a quadratic program and tau grows, a handful of
    steps end at the exact face.

    Parameters
    ----------
    A, V : array
        A feasible start and its predictor.
    bound : float
        The largest coefficient the feasible set allows.

    Returns
    -------
    State, A
        The predictor and the dual coefficients with the least violation met.

    References
    ----------
    Rockafellar, "Augmented Lagrangians and applications of the proximal point algorithm in
    convex programming", Math. Oper. Res. 1, 1976; Li, Sun and Toh, "A highly efficient semismooth
    Newton augmented Lagrangian method for solving Lasso problems", SIAM J. Optim. 28, 2018.
    """
    state = State(V, space.scores(V))
    best = (np.inf, state, A)
    unit = min(1.0 / space.scale, bound)
    if _natural_residual(problem, A, state.F, unit) <= 0.01 * tol:
        return state, A
    enough = max(bound, 1.0 / space.scale)  # a step that crosses the feasible set
    least = step = 1e3 / space.scale
    stalled, n_iter, least_natural, final = 0, 0, np.inf, False
    while n_iter < MOST_STEPS:
        response, curvature = _around(problem, A, step)
        trial = newton(space, State(state.V, state.F), response, curvature, tol, max_iter=25)
        n_iter += trial.n_iter
        if not trial.converged and step > 1e-3 * unit:
            step /= 30.0  # too many kinks on the way: take a shorter step from the same centre
            continue
        state = trial
        if space.explicit:
            A = response(state.F)
        else:
            A = problem.project(state.V, 0.0)
            state = State(A, space.scores(A))
        # The natural residual in units of scores, and how far A and the predictor disagree,
        # which on features is rounding times the step.
        natural = _natural_residual(problem, A, state.F, unit)
        apart = float(np.abs(space.pull(A) - state.V).max(initial=0.0)) * space.scale**0.5
        least_natural, before = min(natural, least_natural), least_natural
        if max(natural, apart) < best[0]:
            best = (max(natural, apart), state, A)
        stalled = 0 if natural < 0.5 * before or step < enough else stalled + 1
        final = final or natural <= 0.01 * tol or stalled >= 6
        if final and (apart <= 0.01 * tol or step <= least):
            break
        if final:
            step = max(0.01 * step, least)  # the face is found: shed the rounding
        else:
            growth = 10.0 if trial.n_iter <= 10 else 3.0
            step = min(growth * step, max(1e12 * unit, 1e3 * enough))
    return State(best[1].V, best[1].F, n_iter), best[2]
