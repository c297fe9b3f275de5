"""The squared hinge loss."""

from __future__ import annotations

import numpy as np

from .base import DOMAIN_SLACK, Loss


class SquaredHinge(Loss):
    """``l(y, f) = max(0, 1 - y f)^2`` for y in {-1, +1}, without a factor 1/2.

    With ``v = -y u`` the conjugate is ``l*(u) = v^2 / 4 - v`` on ``v >= 0``.
    """

    name = "squared_hinge"
    code = 2
    smooth = True

    def value(self, Y: np.ndarray, F: np.ndarray) -> np.ndarray:
        return (np.maximum(0.0, 1.0 - Y * F) ** 2).sum(axis=1)

    def gradient(self, Y: np.ndarray, F: np.ndarray) -> np.ndarray:
        return -2.0 * Y * np.maximum(0.0, 1.0 - Y * F)

    def conjugate(self, Y: np.ndarray, U: np.ndarray) -> np.ndarray:
        V = -Y * U
        inside = (V >= -DOMAIN_SLACK).all(axis=1)
        V = np.maximum(V, 0.0)
        return np.where(inside, np.sum(V * (0.25 * V - 1.0), axis=1), np.inf)

    def feasible(self, Y: np.ndarray, U: np.ndarray) -> np.ndarray:
        return -Y * np.maximum(-Y * U, 0.0)
