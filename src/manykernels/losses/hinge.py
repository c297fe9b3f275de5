"""The hinge loss."""

from __future__ import annotations

import numpy as np

from .base import DOMAIN_SLACK, Loss


class Hinge(Loss):
    """``l(y, f) = max(0, 1 - y f)`` for y in {-1, +1}.

    With ``v = -y u`` the conjugate is ``l*(u) = -v`` on ``0 <= v <= 1``. At the kink the
    subgradient returned is 0.
    """

    name = "hinge"
    code = 1
    lipschitz = True

    def value(self, Y: np.ndarray, F: np.ndarray) -> np.ndarray:
        return np.maximum(0.0, 1.0 - Y * F).sum(axis=1)

    def gradient(self, Y: np.ndarray, F: np.ndarray) -> np.ndarray:
        return np.where(Y * F < 1.0, -Y, 0.0)

    def conjugate(self, Y: np.ndarray, U: np.ndarray) -> np.ndarray:
        V = -Y * U
        inside = ((V >= -DOMAIN_SLACK) & (V <= 1.0 + DOMAIN_SLACK)).all(axis=1)
        return np.where(inside, -np.clip(V, 0.0, 1.0).sum(axis=1), np.inf)

    def feasible(self, Y: np.ndarray, U: np.ndarray) -> np.ndarray:
        return -Y * np.clip(-Y * U, 0.0, 1.0)
