"""Machines for numbers whose loss has kinks: proximal Newton steps on the dual, whose feasible set is a box.

Each takes a task, primal coefficients ``V`` (not used: the dual is where they start) and dual ones ``A``, and the
relative accuracy of the scores.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._util.threads import map_in_threads
from ..losses.one_class import project_capped
from .fit import Fit, Task, certified
from .newton import DualProblem, State, proximal
from .spaces import Solve


@dataclass(frozen=True)
class Box:
    """The dual of one output: ``-a'Ka/2 + y'a - epsilon |a|_1`` over ``low U <= a <= high U``."""

    low: float
    high: float
    epsilon: float = 0.0


#: The box of a loss, by its name.
BOXES: dict[str, Callable[[Any], Box]] = {
    "quantile": lambda loss: Box(loss.q - 1.0, loss.q),
    "epsilon_insensitive": lambda loss: Box(-1.0, 1.0, loss.epsilon),
}


def quantile(task: Task, V: np.ndarray, A: np.ndarray, tol: float) -> Fit:
    """Solve each output (kernel quantile regression). A Newton step costs O(m^3 + n m) with m rows that are met."""
    return _solve(task, A, tol)


def epsilon_insensitive(task: Task, V: np.ndarray, A: np.ndarray, tol: float) -> Fit:
    """Solve each output (support vector regression). A Newton step costs O(m^3 + n m) with m rows at the kinks."""
    return _solve(task, A, tol)


def _solve(task: Task, A: np.ndarray, tol: float) -> Fit:
    """Solve each output in a unit of its own, as accuracies are those of scores of the order of 1."""
    box = BOXES[task.loss.name](task.loss)

    def solve_one(j: int) -> tuple[State, np.ndarray]:
        one = task.output(j)
        # A machine for y/d has the scores f/d and the coefficients A/d, at U/d and epsilon/d.
        d = float(np.abs(one.Y).max(initial=0.0)) or 1.0
        dual = box_dual(replace(one, Y=one.Y / d, U=one.U / d), replace(box, epsilon=box.epsilon / d))
        a = dual.project(A[:, [j]] / d, 0.0)
        bound = max(-box.low, box.high) * float(one.U.max()) / d
        state, a = proximal(task.space, a, task.space.pull(a), dual, tol, bound)
        return State(d * state.V, d * state.F, state.n_iter), d * a

    solved = map_in_threads(solve_one, range(task.Y.shape[1]))
    V, A = (np.hstack(parts) for parts in zip(*((state.V, a) for state, a in solved), strict=True))
    return certified(task, V, A, sum(state.n_iter for state, _ in solved))


def box_dual(task: Task, box: Box) -> DualProblem:
    """Return the dual of one output and its Newton systems."""
    low, high = box.low * task.U[:, None], box.high * task.U[:, None]

    def project(A: np.ndarray, step: float) -> np.ndarray:
        shrunk = A if not box.epsilon else np.sign(A) * np.maximum(np.abs(A) - step * box.epsilon, 0.0)
        return np.clip(shrunk, low, high)

    def curvature(A: np.ndarray, tau: float) -> Solve:
        free = (low < A) & (high > A)
        if box.epsilon:
            free &= A != 0.0
        return task.space.curved(np.where(free, tau, 0.0)[:, 0])

    return DualProblem(pull=lambda F: task.Y - F, project=project, curvature=curvature)


def one_class(task: Task, V: np.ndarray, A: np.ndarray, tol: float) -> Fit:
    """Solve the machine of one class: ``-a'Ka/2`` over ``0 <= a <= U/nu``, ``sum(a) = sum(U)``, on a Gram matrix.

    A Newton step costs O(m^3 + n m) with m rows on the border.
    """
    total = task.U.sum()
    cap = task.U / (total * task.loss.nu)  # type: ignore[attr-defined]
    dual = _capped_dual(task, cap)
    a = dual.project(A / total, 0.0)
    state, a = proximal(task.space, a, task.space.pull(a), dual, tol, bound=float(cap.max()))
    return certified(task, total * state.V, total * a, state.n_iter)


def _capped_dual(task: Task, cap: np.ndarray) -> DualProblem:
    """Return the set ``{0 <= a <= cap, sum(a) = 1}`` and its Newton systems."""

    def curvature(A: np.ndarray, tau: float) -> Solve:
        # With e the rows that are free, the curvature is tau (diag(e) - ee'/m): a step of the diagonal alone, and along
        # z, its answer to e, as far as the sum over free rows asks for.
        free = ((A > 0.0) & (cap[:, None] > A)).astype(float)
        solve = task.space.curved(tau * free[:, 0])
        if not free.any():
            return solve
        z = solve(free)

        def direction(R: np.ndarray) -> np.ndarray:
            X = solve(R)
            return X + z * (np.vdot(free, R - X) / np.vdot(free, z))

        return direction

    return DualProblem(
        pull=lambda F: -F,
        project=lambda A, step: project_capped(A[:, 0], cap, 1.0)[:, None],
        curvature=curvature,
    )
