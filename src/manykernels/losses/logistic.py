"""The logistic loss."""

from __future__ import annotations

import numpy as np
from scipy.special import expit, xlog1py, xlogy

from .base import DOMAIN_SLACK, Loss


class Logistic(Loss):
    """``l(y, f) = log(1 + exp(-y f))`` for y in {-1, +1}.

    With ``v = -y u`` the conjugate is ``l*(u) = v log v + (1 - v) log(1 - v)`` on
    ``0 <= v <= 1``. The probability of y = +1 is ``1 / (1 + exp(-f))``, output by output.
    """

    name = "logistic"
    code = 3
    smooth = True
    lipschitz = True
    probabilistic = True

    def value(self, Y: np.ndarray, F: np.ndarray) -> np.ndarray:
        return np.logaddexp(0.0, -Y * F).sum(axis=1)

    def gradient(self, Y: np.ndarray, F: np.ndarray) -> np.ndarray:
        return -Y * expit(-Y * F)

    def conjugate(self, Y: np.ndarray, U: np.ndarray) -> np.ndarray:
        V = -Y * U
        inside = ((V >= -DOMAIN_SLACK) & (V <= 1.0 + DOMAIN_SLACK)).all(axis=1)
        V = np.clip(V, 0.0, 1.0)
        return np.where(inside, (xlogy(V, V) + xlog1py(1.0 - V, -V)).sum(axis=1), np.inf)

    def feasible(self, Y: np.ndarray, U: np.ndarray) -> np.ndarray:
        return -Y * np.clip(-Y * U, 0.0, 1.0)

    def probabilities(self, F: np.ndarray) -> np.ndarray:
        """Return the probability of +1 for every output, (n, c)."""
        return np.asarray(expit(F))
