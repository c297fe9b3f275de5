"""Machines whose loss has kinks: coordinate descent finds the face of the dual, Newton's method ends on it.

Each takes a task, primal coefficients ``V`` (not used: the dual is where they start) and dual ones ``A``, and the
relative accuracy of the scores.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from .._util.threads import map_in_threads
from ._descent import greedy_hinge, greedy_rows, project_rows, sweep_hinge, sweep_rows
from .fit import Fit, Task, certified
from .interior import interior_rows
from .newton import DualProblem, State, proximal
from .spaces import FeatureSpace, GramSpace, Solve, narrow_root

#: Sweeps of coordinate descent, for the max-hinge per accuracy, before Newton's method takes over.
SWEEPS = 10
#: Rows up to which the orders of the sweeps are drawn once for all outputs and machines.
FEW_ROWS = 5000
#: Multiplications that coordinate descent is worth for each coefficient it looks at: its loops are compiled one by one.
LOOK_WORK = 10.0
#: Violations aimed at by the max-hinge, one after the other. On a well-conditioned kernel, whose faces are large,
#: coordinate descent reaches the last in a few sweeps and no Newton system is needed.
ACCURACIES = (1e-3, 1e-5, 1e-7, 1e-9, 1e-11, 5e-13)
#: A Gram matrix counts as narrow, and max-hinge machines run on features, with at least this many rows for each
#: feature, at most this many coefficients of features, and more in the dual.
ROWS_PER_FEATURE = 8
MAX_NARROW = 2000
#: Multiplications that Newton's method on faces of the max-hinge may take: at least so many, or those of so many steps
#: of an interior point, which follows. What that leaves is cleared up within those of so many.
LEAST_WORK = 1e10
STEPS_BEFORE, STEPS_AFTER = 15, 15
#: Products that a solution by conjugate gradients counts for; they take 60 as a rule, and at most 1000.
CG_STEPS = 250


class _TooDearError(Exception):
    """Newton's method has taken its share of multiplications."""


def _orders(n: int) -> np.ndarray:
    """Return the orders of the rows in the sweeps over features."""
    return _known_orders(n) if n <= FEW_ROWS else _drawn_orders(n)


def _drawn_orders(n: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.array([rng.permutation(n) for _ in range(SWEEPS)])


_known_orders = lru_cache(maxsize=8)(_drawn_orders)


# -- hinge -----------------------------------------------------------------------------------------------


def hinge(task: Task, V: np.ndarray, A: np.ndarray, tol: float) -> Fit:
    """Solve each output (support vector machine).

    Coordinate descent on the dual takes at most ``SWEEPS * n`` steps of O(n),
    on features ``SWEEPS`` sweeps of O(n k). A Newton step costs O(m^3 + n m) with m rows on the
    margin, on features O(m k^2 + k^3 + n k).
    """
    space, U = task.space, task.U

    def solve_one(j: int) -> tuple[State, np.ndarray, int]:
        one = task.output(j)
        y = np.ascontiguousarray(one.Y[:, 0])
        a = y * np.clip(y * A[:, j], 0.0, U)
        sweeps = _descend_hinge(one, y, a)
        v = space.pull(a[:, None])
        state, a = proximal(space, a[:, None], v, hinge_dual(one), tol, bound=float(U.max()))
        return state, a, sweeps

    solved = map_in_threads(solve_one, range(task.Y.shape[1]))
    V = np.hstack([state.V for state, _, _ in solved])
    A = np.hstack([a for _, a, _ in solved])
    n_iter = sum(state.n_iter + sweeps for state, _, sweeps in solved)
    return certified(task, V, A, n_iter)


def _descend_hinge(task: Task, y: np.ndarray, a: np.ndarray) -> int:
    """Improve ``a`` in place by coordinate descent and return the number of sweeps."""
    space, U, n = task.space, task.U, len(y)
    if isinstance(space, GramSpace):
        f = space.K @ a
        # A free row with violation g gains g^2 / (2 K_tt): this stops at about g = 4e-4.
        tol = 1e-7 * min(1.0 / space.scale, float(U.max()))
        steps = greedy_hinge(space.K, y, U, a, f, SWEEPS * n, tol)
        space.spent.append(LOOK_WORK * steps * n)
        return -(-steps // n)
    assert isinstance(space, FeatureSpace)
    w = space.Z.T @ a
    return int(sweep_hinge(space.Z, y, U, space.diagonal, a, w, _orders(n), 1e-3))


def hinge_dual(task: Task) -> DualProblem:
    """Return the box ``0 <= y a <= U`` of one output and its Newton systems."""
    y, top = task.Y, task.U[:, None]

    def curvature(A: np.ndarray, tau: float) -> Solve:
        b = y * A
        return task.space.curved(np.where((b > 0.0) & (b < top), tau, 0.0)[:, 0])

    return DualProblem(
        pull=lambda F: y - F,
        project=lambda A, step: y * np.minimum(np.maximum(y * A, 0.0), top),
        curvature=curvature,
    )


# -- max-hinge -------------------------------------------------------------------------------------------


def max_hinge(task: Task, V: np.ndarray, A: np.ndarray, tol: float) -> Fit:
    """Solve by coordinate descent over rows, then proximal Newton on the face it found (Crammer and Singer).

    Coordinate descent takes at most ``SWEEPS * n`` steps of O(n c), on
    features ``SWEEPS`` sweeps of O(n k c). A Newton step costs O(m^3 + n^2 c), where m counts the
    tied classes of all rows less one per row; on features O(n k^2 c^2 + k^3 c^3). Where faces are large and many, as
    with dozens of classes, an interior point finds the last one: see :mod:`.interior`. All is bounded by the
    multiplications of 90 of its steps, O(c n^3) each.

    References
    ----------
    Keerthi, Sundararajan, Chang, Hsieh and Lin, "A sequential dual method for large scale
    multi-class linear SVMs", KDD 2008.
    """
    A = max_hinge_dual(task).project(A, 0.0)
    n_iter = _descend_rows(task, A)
    narrow, step = _narrowed(task), _interior_cost(task)
    try:
        fit = _on_faces(narrow, A, tol, max(LEAST_WORK, STEPS_BEFORE * step))
    except _TooDearError:
        inside = _for_interior(task)
        A, steps = interior_rows(inside)
        A, n_iter = max_hinge_dual(task).project(A, 0.0), n_iter + steps
        try:
            fit = _on_faces(narrow, A, tol, max(LEAST_WORK, STEPS_AFTER * step))
        except _TooDearError:
            fit = certified(task, task.space.pull(A), A, 0)
        if inside.space is not task.space:
            task.space.spent.extend(inside.space.spent)
    if narrow.space is not task.space:
        task.space.spent.extend(narrow.space.spent)
    return replace(fit, n_iter=fit.n_iter + n_iter)


def _on_faces(task: Task, A: np.ndarray, tol: float, work: float) -> Fit:
    """Solve by proximal steps; raise ``_TooDearError`` where they take more multiplications than `work`."""
    space, left = task.space, [work]
    dual = max_hinge_dual(task)

    def curvature(A: np.ndarray, tau: float) -> Solve:
        left[0] -= _face_cost(task, A)
        if left[0] < 0.0:
            raise _TooDearError
        return dual.curvature(A, tau)

    rationed = replace(dual, curvature=curvature)
    state, A = proximal(space, A, space.pull(A), rationed, tol, bound=float(task.U.max()))
    return certified(task, state.V, A, state.n_iter)


def _face_cost(task: Task, A: np.ndarray) -> float:
    """Return the multiplications of a Newton system on the face of ``A``."""
    space, (n, c) = task.space, task.Y.shape
    if isinstance(space, FeatureSpace):
        k = space.Z.shape[1]
        m, product = k * c, 2.0 * n * k * c
        build = 0.5 * n * m**2
    else:
        m, product, build = int(_support(task, A).sum()) - n, 1.0 * n * n * c, 0.0
    return CG_STEPS * product if m > space.max_dense else build + m**3 / 3 + m**2 + product


def _interior_cost(task: Task) -> float:
    """Return the multiplications of a step of an interior point on the Gram matrix."""
    n, c = task.Y.shape
    return 4 / 3 * c * float(n) ** 3


def _for_interior(task: Task) -> Task:
    """Return the task on its Gram matrix, where rounding takes fewer digits, unless its features are few."""
    space, (n, c) = task.space, task.Y.shape
    if not isinstance(space, FeatureSpace) or space.Z.shape[1] * c < n:
        return task
    return replace(task, space=GramSpace(space.Z @ space.Z.T))


def _narrowed(task: Task) -> Task:
    """Return the task on features where its Gram matrix is that of a few.

    With many classes the face of the dual has many more directions than these features have coefficients. A dual with
    few coefficients is quick as it is, and loses fewer digits at very large C.
    """
    n, c = task.Y.shape
    if not isinstance(task.space, GramSpace) or n * c <= MAX_NARROW:
        return task
    root = narrow_root(task.space.K, min(n // ROWS_PER_FEATURE, MAX_NARROW // c))
    return task if root is None else replace(task, space=FeatureSpace(root, task.space.max_dense))


def _descend_rows(task: Task, A: np.ndarray) -> int:
    """Improve ``A`` in place by coordinate descent and return the number of sweeps."""
    space, Y, U, n = task.space, task.Y, task.U, len(task.Y)
    Q = np.ascontiguousarray(U[:, None] * Y - A)
    if isinstance(space, GramSpace):
        G = np.ascontiguousarray(space.scores(A) + 1.0 - Y)
        steps = 0
        for accuracy in ACCURACIES:
            taken = greedy_rows(space.K, U, Q, G, SWEEPS * n, accuracy)
            steps += taken
            if taken >= SWEEPS * n:  # it has become slow: Newton's method is the better one from here
                break
        sweeps = -(-steps // n)
        space.spent.append(LOOK_WORK * steps * Q.size)
    else:
        assert isinstance(space, FeatureSpace)
        W = np.ascontiguousarray(space.Z.T @ A)
        sweeps = sweep_rows(space.Z, Y.argmax(axis=1), U, space.diagonal, Q, W, _orders(n), 1e-3)
        space.spent.append(LOOK_WORK * sweeps * n * W.size)
    wrong = Q * (1.0 - Y)
    A[:] = Y * np.minimum(wrong.sum(axis=1), U)[:, None] - wrong
    return int(sweeps)


def max_hinge_dual(task: Task) -> DualProblem:
    """Return the set ``{U y - q: q >= 0, sum(q) = U}`` and its Newton systems."""
    space, Y, U = task.space, task.Y, task.U
    labels = Y.argmax(axis=1)

    def project(A: np.ndarray, step: float) -> np.ndarray:
        return np.asarray(project_rows(labels, A, U))

    def curvature(A: np.ndarray, tau: float) -> Solve:
        return space.face(_support(task, A), tau)

    return DualProblem(pull=lambda F: Y - 1.0 - F, project=project, curvature=curvature)


def _support(task: Task, A: np.ndarray) -> np.ndarray:
    """Return where ``q`` is positive."""
    return np.where(task.Y > 0.5, task.U[:, None] > A, A < 0.0)
