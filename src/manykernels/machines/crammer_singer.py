"""The max-hinge machine of Crammer and Singer."""

from __future__ import annotations

import numpy as np

from ..losses import Loss
from ._crammer_singer import greedy_rows, project_rows, sweep_rows
from .fit import Fit, certified
from .newton import Dual, proximal
from .spaces import FeatureSpace, GramSpace, Solve, Space

#: Sweeps of coordinate descent per accuracy before Newton's method takes over.
SWEEPS = 10
#: Violations aimed at, one after the other. On a well-conditioned kernel, whose faces are large,
#: coordinate descent reaches the last in a few sweeps and no Newton system is needed.
ACCURACIES = (1e-3, 1e-5, 1e-7, 1e-9, 1e-11, 5e-13)


def solve(
    space: Space, Y: np.ndarray, loss: Loss, U: np.ndarray, V: np.ndarray, A: np.ndarray, tol: float
) -> Fit:
    """Solve by coordinate descent over rows, then proximal Newton on the face it found.

    Coordinate descent takes at most ``SWEEPS * n`` steps of O(n c), on
    features ``SWEEPS`` sweeps of O(n k c). A Newton step costs O(m^3 + n^2 c), where m counts the
    tied classes of all rows less one per row; on features O(n k^2 c^2 + k^3 c^3).

    References
    ----------
    Keerthi, Sundararajan, Chang, Hsieh and Lin, "A sequential dual method for large scale
    multi-class linear SVMs", KDD 2008.
    """
    box = problem(space, Y, U)
    A = box.project(A, 0.0)
    sweeps = descend(space, Y, U, A)
    state, A = proximal(space, A, space.pull(A), box, tol, bound=float(U.max()))
    return certified(space, state.V, A, Y, loss, U, state.n_iter + sweeps)


def descend(space: Space, Y: np.ndarray, U: np.ndarray, A: np.ndarray) -> int:
    """Improve ``A`` in place by coordinate descent and return the number of sweeps."""
    n = len(Y)
    labels = Y.argmax(axis=1)
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
    else:
        assert isinstance(space, FeatureSpace)
        rng = np.random.default_rng(0)
        orders = np.array([rng.permutation(n) for _ in range(SWEEPS)])
        W = np.ascontiguousarray(space.Z.T @ A)
        sweeps = sweep_rows(space.Z, labels, U, space.diagonal, Q, W, orders, 1e-3)
    wrong = Q * (1.0 - Y)
    A[:] = Y * np.minimum(wrong.sum(axis=1), U)[:, None] - wrong
    return int(sweeps)


def problem(space: Space, Y: np.ndarray, U: np.ndarray) -> Dual:
    """Return the set ``{U y - q: q >= 0, sum(q) = U}`` and its Newton systems."""
    right, top, labels = Y > 0.5, U[:, None], Y.argmax(axis=1)

    def project(A: np.ndarray, step: float) -> np.ndarray:
        return np.asarray(project_rows(labels, A, U))

    def curvature(A: np.ndarray, tau: float) -> Solve:
        return space.face(np.where(right, top > A, A < 0.0), tau)

    return Dual(
        pull=lambda F: Y - 1.0 - F,
        project=project,
        curvature=curvature,
    )
