"""The squared loss."""

from __future__ import annotations

from typing import Self

import numpy as np

from .base import Loss


class Squared(Loss):
    """``l(y, f) = (f - y)^2 / 2``, with conjugate ``l*(u) = u^2 / 2 + u y``."""

    name = "squared"
    code = 0
    regression = True
    smooth = True

    def value(self, Y: np.ndarray, F: np.ndarray) -> np.ndarray:
        return 0.5 * np.sum((F - Y) ** 2, axis=1)

    def gradient(self, Y: np.ndarray, F: np.ndarray) -> np.ndarray:
        return np.asarray(F - Y)

    def conjugate(self, Y: np.ndarray, U: np.ndarray) -> np.ndarray:
        return np.sum(U * (0.5 * U + Y), axis=1)

    def feasible(self, Y: np.ndarray, U: np.ndarray) -> np.ndarray:
        return np.array(U, dtype=np.float64)

    def offset(self, Y: np.ndarray, s: np.ndarray) -> np.ndarray:
        """Return the means; of targets that are constant, the constant to the bit."""
        used = Y[s > 0]
        constant = (used == used[0]).all(axis=0)
        return np.where(constant, used[0], np.average(Y, axis=0, weights=s))

    def centred(self, Y: np.ndarray, s: np.ndarray) -> tuple[Self, np.ndarray, np.ndarray]:
        """Return the loss, the means and the targets about them; any targets will do."""
        offset = self.offset(Y, s)
        return self, offset, Y - offset
