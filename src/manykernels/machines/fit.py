"""What a machine returns, and its certificate."""

from __future__ import annotations

from dataclasses import dataclass
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
    """

    A: np.ndarray
    F: np.ndarray
    W: np.ndarray | None
    n_iter: int
    gap: float


def certified(
    space: Space,
    V: np.ndarray,
    A: np.ndarray,
    Y: np.ndarray,
    loss: Loss,
    U: np.ndarray,
    n_iter: int,
) -> Fit:
    """Make ``A`` feasible and return it with its duality gap.

    ``U = C s`` is positive. On a Gram matrix the predictor is the one of ``A`` and ``V`` is not
    used; on features it is ``V``. Cost: one product with the Gram matrix or the features.
    """
    A = -U[:, None] * loss.feasible(Y, -A / U[:, None])
    V, F, norm, dual_norm = space.evaluate(V, A)
    primal = 0.5 * norm + U @ loss.value(Y, F)
    dual = -(U @ loss.conjugate(Y, -A / U[:, None])) - 0.5 * dual_norm
    gap = (primal - dual) / max(abs(primal), np.finfo(float).tiny)
    return Fit(A=A, F=F, W=V if space.explicit else None, n_iter=n_iter, gap=float(max(gap, 0.0)))
