"""The epsilon-insensitive loss."""

from __future__ import annotations

import numpy as np

from .._util.checks import number
from .base import DOMAIN_SLACK, Loss, weighted_quantile


class EpsilonInsensitive(Loss):
    """``l(y, f) = max(0, |f - y| - epsilon)``: small errors cost nothing, large ones their size.

    The conjugate is ``l*(u) = u y + epsilon |u|`` on ``|u| <= 1``. At the kinks the subgradient returned is 0. The
    offset is the median.

    Parameters
    ----------
    epsilon : float
        The error that costs nothing, in the unit of y; 0 is the absolute error.

    References
    ----------
    Vapnik, "The nature of statistical learning theory", 1995; Smola and Schölkopf, "A tutorial on support vector
    regression", Statistics and Computing 14, 2004.
    """

    name = "epsilon_insensitive"
    regression = True
    classifies = False
    lipschitz = True
    rules = {"epsilon": number()}

    def __init__(self, epsilon: float = 0.1):
        self.epsilon = epsilon

    def value(self, Y: np.ndarray, F: np.ndarray) -> np.ndarray:
        return np.maximum(np.abs(F - Y) - self.epsilon, 0.0).sum(axis=1)

    def gradient(self, Y: np.ndarray, F: np.ndarray) -> np.ndarray:
        R = F - Y
        return np.where(np.abs(R) > self.epsilon, np.sign(R), 0.0)

    def conjugate(self, Y: np.ndarray, U: np.ndarray) -> np.ndarray:
        inside = (np.abs(U) <= 1.0 + DOMAIN_SLACK).all(axis=1)
        return np.where(inside, (U * Y + self.epsilon * np.abs(U)).sum(axis=1), np.inf)

    def feasible(self, Y: np.ndarray, U: np.ndarray) -> np.ndarray:
        return np.clip(U, -1.0, 1.0)

    def offset(self, Y: np.ndarray, s: np.ndarray) -> np.ndarray:
        return weighted_quantile(Y, s, 0.5)
