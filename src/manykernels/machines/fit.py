"""What a machine is given, what it returns, and its certificate."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ..losses import Loss
    from .spaces import Space


@dataclass(frozen=True)
class Fit:
    """The solution of one machine.

    Attributes
    ----------
    A : (n, c) array
        Dual coefficients. They are dual feasible: the conjugate is finite at ``-A / (C s)``;
        rows of weight zero are zero.
    F : (n, c) array
        Scores of the training rows, ``K A`` or ``Z W``.
    W : (k, c) array or None
        Primal coefficients; None from :func:`solve_dual`.
    n_iter : int
        Newton steps plus sweeps of coordinate descent, over all outputs.
    gap : float
        Relative duality gap ``(P - D) / P`` of the machine at ``A`` and ``F``.
    work : float
        What the machine has multiplied, roughly; see ``Space.spent``.
    """

    A: np.ndarray
    F: np.ndarray
    W: np.ndarray | None
    n_iter: int
    gap: float
    work: float = 0.0


@dataclass(frozen=True, eq=False)
class Task:
    """One machine to be solved: ``||f||^2 / 2 + sum_t U_t l(y_t, f_t)`` over a space.

    Attributes
    ----------
    space : Space
    Y : (n, c) array
    loss : Loss
    U : (n,) array
        ``C s``, positive.
    """

    space: Space
    Y: np.ndarray
    loss: Loss
    U: np.ndarray

    def response(self, F: np.ndarray) -> np.ndarray:
        """Return the dual coefficients ``-U l'(F)`` that belong to scores."""
        return self.loss.response(self.Y, F, self.U)

    def output(self, j: int) -> Task:
        """Return the problem of one output, for losses that take each on its own."""
        return replace(self, Y=self.Y[:, [j]], loss=self.loss.output(j))


def certified(task: Task, V: np.ndarray, A: np.ndarray, n_iter: int) -> Fit:
    """Make ``A`` feasible and return it with its duality gap.

    On a Gram matrix the predictor is the one of ``A`` and ``V`` is not used; on features it is ``V``. Cost: one product
    with the Gram matrix or the features.
    """
    space, Y, loss, U = task.space, task.Y, task.loss, task.U
    A = loss.nearest(Y, A, U)
    V, F, norm, dual_norm = space.evaluate(V, A)
    primal = 0.5 * norm + loss.total(Y, F, U)
    dual = -loss.total_conjugate(Y, A, U) - 0.5 * dual_norm
    gap = (primal - dual) / max(abs(primal), np.finfo(float).tiny)
    return Fit(A=A, F=F, W=V if space.explicit else None, n_iter=n_iter, gap=float(max(gap, 0.0)))


def better(task: Task, V: np.ndarray, A: np.ndarray, n_iter: int) -> Fit:
    """Certify the response ``A`` and, on a Gram matrix, ``V`` too; return the smaller gap.

    The response is exact where the loss is flat; the coefficients where it is steep.
    """
    fit = certified(task, V, A, n_iter)
    if task.space.explicit or fit.gap <= 1e-14:
        return fit
    other = certified(task, V, V, n_iter)
    return other if other.gap < fit.gap else fit
