"""The loss of one class, of rows without targets."""

from __future__ import annotations

import numpy as np

from .._util.checks import number
from .base import DOMAIN_SLACK, Loss, weighted_quantile


class OneClass(Loss):
    """``L(f) = min over rho of (1/nu) sum_t w_t max(0, rho - f_t) - rho sum_t w_t``, of all rows together.

    rho, the nu-quantile of the scores, is the border of what is known: a share nu of the rows lies below it. The
    conjugate ``L*(-A)`` is 0 where ``0 <= A <= w / nu`` and ``sum(A) = sum(w)``. Targets have no part in it, and
    neither has an intercept: as ``sum(A)`` is fixed, the constant kernel adds ``sum(w)`` to every score and to rho.

    Parameters
    ----------
    nu : float
        The share of the rows that may lie outside, in (0, 1].

    References
    ----------
    Schölkopf, Platt, Shawe-Taylor, Smola and Williamson, "Estimating the support of a high-dimensional distribution",
    Neural Computation 13, 2001.
    """

    name = "one_class"
    regression = True
    classifies = False
    lipschitz = True
    joint = True
    has_targets = False
    rules = {"nu": number(0.0, 1.0, open="left")}

    def __init__(self, nu: float = 0.5):
        self.nu = nu

    @property
    def slope(self) -> float:
        return 1.0 / self.nu

    def level(self, F: np.ndarray, w: np.ndarray) -> np.ndarray:
        """Return rho of every output, (c,)."""
        return weighted_quantile(F, w, self.nu)

    def total(self, Y: np.ndarray, F: np.ndarray, w: np.ndarray) -> float:
        rho = self.level(F, w)
        return float((w @ np.maximum(rho - F, 0.0) / self.nu - rho * w.sum()).sum())

    def response(self, Y: np.ndarray, F: np.ndarray, w: np.ndarray) -> np.ndarray:
        """Return minus a subgradient: all weight on the rows with the least scores."""
        out = np.zeros(F.shape)
        for k in range(F.shape[1]):
            order = np.argsort(F[:, k], kind="stable")
            filled = np.minimum(np.cumsum(w[order]) / self.nu, w.sum())
            out[order, k] = np.diff(filled, prepend=0.0)
        return out

    def total_conjugate(self, Y: np.ndarray, A: np.ndarray, w: np.ndarray) -> float:
        slack = DOMAIN_SLACK * w.sum() / self.nu
        inside = (-slack <= A).all() and (w[:, None] / self.nu + slack >= A).all()
        return 0.0 if inside and (np.abs(A.sum(axis=0) - w.sum()) <= slack).all() else np.inf

    def nearest(self, Y: np.ndarray, A: np.ndarray, w: np.ndarray) -> np.ndarray:
        return np.column_stack([project_capped(a, w / self.nu, w.sum()) for a in A.T])

    def offset(self, Y: np.ndarray, s: np.ndarray) -> np.ndarray:
        """Return minus what the constant kernel adds, for weights C s of sum 1."""
        return -np.ones(Y.shape[1])

    def about(self, offset: np.ndarray, Y: np.ndarray) -> tuple[OneClass, np.ndarray]:
        return self, Y


def project_capped(a: np.ndarray, cap: np.ndarray, total: float) -> np.ndarray:
    """Return the point of ``{0 <= x <= cap, sum(x) = total}`` nearest to ``a``, O(n log n).

    It is ``clip(a - mu, 0, cap)``, whose sum is piecewise linear in mu: a row joins at ``mu = a`` and is full at
    ``mu = a - cap``.
    """
    knots = np.concatenate([a, a - cap])
    order = np.argsort(-knots, kind="stable")
    knots = knots[order]
    moving = np.cumsum(np.where(order < len(a), 1.0, -1.0))
    mass = np.concatenate([[0.0], np.cumsum(moving[:-1] * -np.diff(knots))])
    k = int(np.searchsorted(mass, total)) - 1
    if k < 0 or k >= len(knots) - 1:  # nothing to share out, or all rows are full
        return np.zeros(len(a)) if k < 0 else cap.copy()
    mu = knots[k] - (total - mass[k]) / moving[k]
    return np.clip(a - mu, 0.0, cap)
