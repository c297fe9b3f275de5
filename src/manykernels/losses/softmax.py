"""The multinomial logistic loss."""

from __future__ import annotations

import numpy as np
from scipy.special import xlog1py, xlogy

from .base import DOMAIN_SLACK, Loss, project_coupled


class Softmax(Loss):
    """``l(y, f) = log sum_k exp(f_k) - f_y`` for one-hot targets.

    The conjugate is finite where ``p = u + y`` lies in the simplex, and is there the negative
    entropy ``l*(u) = sum_k p_k log p_k``.
    """

    name = "softmax"
    code = 5
    multiclass = True
    smooth = True
    lipschitz = True
    probabilistic = True

    def value(self, Y: np.ndarray, F: np.ndarray) -> np.ndarray:
        # Shifted by the right class first, so that a confident row keeps its tiny loss. SciPy's logsumexp does the same
        # in ten times as long for a hundred rows, which a stochastic method cannot wait for.
        D = F - np.sum(Y * F, axis=1, keepdims=True)
        first = (np.arange(len(D)), D.argmax(axis=1))
        largest = D[first]
        E = np.exp(D - largest[:, None])
        E[first] = 0.0
        return largest + np.log1p(E.sum(axis=1))

    def gradient(self, Y: np.ndarray, F: np.ndarray) -> np.ndarray:
        P = self.probabilities(F)
        # The right class is minus the sum of the others: no cancellation in p_y - 1.
        wrong = P * (1.0 - Y)
        return wrong - Y * wrong.sum(axis=1, keepdims=True)

    def conjugate(self, Y: np.ndarray, U: np.ndarray) -> np.ndarray:
        P = U + Y
        inside = (P >= -DOMAIN_SLACK).all(axis=1) & (np.abs(U.sum(axis=1)) <= DOMAIN_SLACK)
        P = np.clip(P, 0.0, 1.0)
        # The right class's share is one and a small U: in their sum U has lost its digits, which C may multiply.
        logarithms = np.where(Y == 1.0, xlog1py(P, np.clip(U, -1.0, 0.0)), xlogy(P, P))
        return np.where(inside, logarithms.sum(axis=1), np.inf)

    def feasible(self, Y: np.ndarray, U: np.ndarray) -> np.ndarray:
        return -project_coupled(Y, -U)

    def probabilities(self, F: np.ndarray) -> np.ndarray:
        """Return the probability of every class, (n, c); rows sum to one."""
        E = np.exp(F - F.max(axis=1, keepdims=True))
        return E / E.sum(axis=1, keepdims=True)
