"""The Poisson loss."""

from __future__ import annotations

from typing import Self

import numpy as np
from scipy.special import xlog1py, xlogy

from .._util.checks import Rule, number
from .base import DOMAIN_SLACK, Loss

#: Scores beyond this go on as a line: their exponentials still have squares and sums within floats.
LARGEST = 300.0


def _are_means(value: object) -> bool:
    """Whether a value is an array of positive numbers, one for each output."""
    return (
        isinstance(value, np.ndarray) and value.ndim == 1 and bool((np.isfinite(value) & (value > 0)).all())
    )


class Poisson(Loss):
    """``l(y, f) = m exp(f) - y - y log(m exp(f) / y)`` for counts y >= 0, whose expected value is ``m exp(f)``.

    This is half the deviance, the negative log-likelihood less its least value. With ``v = u + y`` the conjugate is
    ``l*(u) = v log(v / m) - v + y - y log(y / m)`` on ``v >= 0``. Counts are never centred: the offset, the logarithm
    of the mean, is part of the loss. Beyond scores of 300 it goes on as a line.

    Parameters
    ----------
    mean : float, array or None
        m, the expected count at f = 0, or one for every output. None: that of the counts an estimator is fitted on,
        and 1 for a machine.

    References
    ----------
    McCullagh and Nelder, "Generalized linear models", 1989, chapter 6.
    """

    name = "poisson"
    regression = True
    classifies = False
    smooth = True
    rules = {
        "mean": number(open="left")
        | Rule("one for every output", _are_means)
        | Rule("None", lambda mean: mean is None)
    }

    def __init__(self, mean: float | np.ndarray | None = None):
        self.mean = mean

    @property
    def _m(self) -> float | np.ndarray:
        return 1.0 if self.mean is None else self.mean

    def value(self, Y: np.ndarray, F: np.ndarray) -> np.ndarray:
        near, beyond = np.minimum(F, LARGEST), np.maximum(F - LARGEST, 0.0)
        expected = self._m * np.exp(near)
        # For y > 0 it is y (e^t - 1 - t), t = log(m e^f / y): of y = 1e15 differences of large numbers leave nothing.
        ratio = near + np.log(self._m / np.where(Y > 0, Y, 1.0))
        deviance = np.where(Y > 0, Y * (np.expm1(ratio) - ratio), expected)
        return (deviance + (expected - Y) * beyond).sum(axis=1)

    def gradient(self, Y: np.ndarray, F: np.ndarray) -> np.ndarray:
        return np.asarray(self._m * np.exp(np.minimum(F, LARGEST)) - Y)

    def conjugate(self, Y: np.ndarray, U: np.ndarray) -> np.ndarray:
        V = U + Y
        inside = (-DOMAIN_SLACK * np.maximum(Y, 1.0) <= V).all(axis=1)
        V = np.maximum(V, 0.0)
        some = Y > 0
        change = np.maximum(U / np.where(some, Y, 1.0), -1.0)
        relative = np.where(some, xlog1py(V, change), xlogy(V, V)) + U * np.log(np.where(some, Y, 1.0))
        terms = relative - U * (1.0 + np.log(self._m))
        return np.where(inside, terms.sum(axis=1), np.inf)

    def feasible(self, Y: np.ndarray, U: np.ndarray) -> np.ndarray:
        return np.maximum(U, -Y)

    def check_targets(self, Y: np.ndarray) -> None:
        if (Y < 0).any():
            raise ValueError(
                f"y holds {float(Y.min()):g}, and loss 'poisson' is for counts; remove negative values, or use "
                "another loss."
            )

    def offset(self, Y: np.ndarray, s: np.ndarray) -> np.ndarray:
        if self.mean is not None:
            return np.log(np.broadcast_to(self.mean, Y.shape[1]))
        mean = np.average(Y, axis=0, weights=s)
        if not (mean > 0).all():
            raise ValueError("y holds nothing but zeros, of which no rate can be learned; pass other counts.")
        return np.asarray(np.log(mean))

    def about(self, offset: np.ndarray, Y: np.ndarray) -> tuple[Self, np.ndarray]:
        return type(self)(np.exp(offset)), Y

    def output(self, j: int | np.ndarray) -> Self:
        return self if np.ndim(self._m) == 0 else type(self)(np.asarray(self.mean)[np.atleast_1d(j)])

    def prediction(self, F: np.ndarray) -> np.ndarray:
        """Return the expected counts."""
        return np.exp(F)

    def residuals(self, Y: np.ndarray, s: np.ndarray) -> np.ndarray:
        """Return what is left of the counts, in units of their mean: the slope of the loss at f = 0."""
        return Y / self._m - 1.0
