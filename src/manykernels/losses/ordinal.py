"""The logistic loss of ordered classes."""

from __future__ import annotations

import numpy as np

from .logistic import Logistic


class Ordinal(Logistic):
    """``l(y, f) = sum_k log(1 + exp(-y_k f_k))`` for ordered classes: ``y_k`` is +1 above the k-th border, else -1.

    Of K classes there are K - 1 borders, and ``f_k = f + b_k``: one f for all of them, and an intercept for each, minus
    the threshold. Every border counts, so that an error is the dearer the further it goes (all-threshold). Thresholds
    are penalised as intercepts are; at the optimum they are in order. Two classes: the logistic loss.

    The conjugate is that of the logistic loss for every border. As f is shared, the dual coefficients of a row are
    added up before kernels see them: the dual has ``tr(a'Ka)`` with ``a = A 1``, and ``|1'A|^2`` for the thresholds.

    The probability to lie above a border is ``1 / (1 + exp(-f_k))``; that of a class is the difference of two of them.

    References
    ----------
    Rennie and Srebro, "Loss functions for preference levels: regression with discrete ordered labels", 2005; McCullagh,
    "Regression models for ordinal data", JRSS B 42, 1980.
    """

    name = "ordinal"
    code = -1
    shared = True

    def probabilities(self, F: np.ndarray) -> np.ndarray:
        """Return the probability of every class, (n, K); rows sum to one."""
        above = super().probabilities(np.minimum.accumulate(F, axis=1))
        n = len(F)
        return -np.diff(np.column_stack([np.ones(n), above, np.zeros(n)]), axis=1)

    def residuals(self, Y: np.ndarray, s: np.ndarray) -> np.ndarray:
        """Return the number of the class less its mean, (n, 1); of two classes -1 and 1."""
        if Y.shape[1] == 1:
            return Y
        number = self.strata(Y)[:, None]
        return number - np.average(number, axis=0, weights=s)

    def strata(self, Y: np.ndarray) -> np.ndarray:
        """Return the number of the class."""
        return (Y > 0).sum(axis=1)
