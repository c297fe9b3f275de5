"""The Huber loss."""

from __future__ import annotations

import numpy as np

from .._util.checks import number
from .base import DOMAIN_SLACK, Loss, weighted_quantile


class Huber(Loss):
    """``l(y, f) = (f - y)^2 / 2`` up to an error of delta, ``delta |f - y| - delta^2 / 2`` beyond.

    The conjugate is ``l*(u) = u^2 / 2 + u y`` on ``|u| <= delta``. The offset is the median.

    Parameters
    ----------
    delta : float
        The error from which on it counts by its size and no longer by its square, in the unit of y.

    References
    ----------
    Huber, "Robust estimation of a location parameter", Annals of Mathematical Statistics 35, 1964.
    """

    name = "huber"
    regression = True
    classifies = False
    smooth = True
    lipschitz = True
    rules = {"delta": number(open="left")}

    def __init__(self, delta: float = 1.35):
        self.delta = delta

    @property
    def slope(self) -> float:
        return self.delta

    def value(self, Y: np.ndarray, F: np.ndarray) -> np.ndarray:
        R = np.abs(F - Y)
        near = np.minimum(R, self.delta)
        return (near * (R - 0.5 * near)).sum(axis=1)

    def gradient(self, Y: np.ndarray, F: np.ndarray) -> np.ndarray:
        return np.clip(F - Y, -self.delta, self.delta)

    def conjugate(self, Y: np.ndarray, U: np.ndarray) -> np.ndarray:
        inside = (np.abs(U) <= self.delta * (1.0 + DOMAIN_SLACK)).all(axis=1)
        return np.where(inside, np.sum(U * (0.5 * U + Y), axis=1), np.inf)

    def feasible(self, Y: np.ndarray, U: np.ndarray) -> np.ndarray:
        return np.clip(U, -self.delta, self.delta)

    def offset(self, Y: np.ndarray, s: np.ndarray) -> np.ndarray:
        return weighted_quantile(Y, s, 0.5)
