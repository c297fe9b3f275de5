"""The quantile loss."""

from __future__ import annotations

import numpy as np

from .._util.checks import number
from .base import DOMAIN_SLACK, Loss, weighted_quantile


class Quantile(Loss):
    """``l(y, f) = max(q (y - f), (1 - q) (f - y))``, the pinball loss: least at the q-quantile of y given x.

    The conjugate is ``l*(u) = u y`` on ``-q <= u <= 1 - q``. At the kink the subgradient returned is 0. The offset is
    the q-quantile.

    Parameters
    ----------
    q : float
        Which quantile, between 0 and 1.

    References
    ----------
    Koenker and Bassett, "Regression quantiles", Econometrica 46, 1978; Takeuchi, Le, Sears and Smola, "Nonparametric
    quantile estimation", JMLR 7, 2006.
    """

    name = "quantile"
    regression = True
    classifies = False
    lipschitz = True
    rules = {"q": number(0.0, 1.0, open="both")}

    def __init__(self, q: float = 0.5):
        self.q = q

    @property
    def slope(self) -> float:
        return max(self.q, 1.0 - self.q)

    def value(self, Y: np.ndarray, F: np.ndarray) -> np.ndarray:
        R = F - Y
        return np.maximum(-self.q * R, (1.0 - self.q) * R).sum(axis=1)

    def gradient(self, Y: np.ndarray, F: np.ndarray) -> np.ndarray:
        R = F - Y
        return np.where(R > 0.0, 1.0 - self.q, np.where(R < 0.0, -self.q, 0.0))

    def conjugate(self, Y: np.ndarray, U: np.ndarray) -> np.ndarray:
        inside = ((-self.q - DOMAIN_SLACK <= U) & (1.0 - self.q + DOMAIN_SLACK >= U)).all(axis=1)
        return np.where(inside, np.sum(U * Y, axis=1), np.inf)

    def feasible(self, Y: np.ndarray, U: np.ndarray) -> np.ndarray:
        return np.clip(U, -self.q, 1.0 - self.q)

    def offset(self, Y: np.ndarray, s: np.ndarray) -> np.ndarray:
        return weighted_quantile(Y, s, self.q)
