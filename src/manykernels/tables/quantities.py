"""Counts with weights, and what they teach of a column of numbers: bounds, median, mean and spread, and the gaps in it.

A weight equals a repetition, and the order of rows is of no account.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .._util.shapes import LARGEST, demand
from .._util.text import brief

#: Weights below this part of their sum do not decide on which side of a quantile a value lies: sums round.
NEGLIGIBLE = 1e-9
#: Values whose range is below this many units of rounding of the largest are one value.
ROUNDINGS = 4


# -- counts ------------------------------------------------------------------------------------------


class Weights(NamedTuple):
    """The rows that count, and how much.

    Parameters
    ----------
    rows : slice or array of int
        Rows whose weight is not zero.
    values : float, or array of shape (n,)
        Their weights; one number if all are equal.
    total : float
        Their sum.
    """

    rows: Any
    values: float | np.ndarray
    total: float


def weight_array(sample_weight: Any, n: int) -> np.ndarray:
    """Return the weights of n rows, one number for all of them included, as an array, or raise."""
    try:
        given = np.asarray(1.0 if sample_weight is None else sample_weight)
        if given.dtype.kind == "c":  # NumPy would drop the imaginary part, with a warning
            raise TypeError
        w = given.astype(np.float64)
    except OverflowError:
        raise ValueError("sample_weight holds a number beyond the range of floats; rescale it.") from None
    except (TypeError, ValueError):
        raise ValueError(
            f"sample_weight is {brief(sample_weight)}; use one weight for each of the {n:,} rows."
        ) from None
    if w.ndim and w.shape != (n,):
        raise ValueError(f"sample_weight has the shape {w.shape}; use one weight for each of the {n:,} rows.")
    return w if w.ndim else np.full(n, w)


def weights_of(sample_weight: Any, n: int) -> Weights:
    """Return the weights of n rows, all one if None are given."""
    if sample_weight is None:
        return Weights(slice(None), 1.0, float(n))
    w = weight_array(sample_weight, n)
    if not np.isfinite(w).all() or (w < 0).any():
        raise ValueError("sample_weight must be finite and not negative.")
    if not w.any():
        raise ValueError("sample_weight is zero for every row; give at least one row a positive weight.")
    rows: Any = slice(None)
    if not w.all():
        rows = np.flatnonzero(w)
        w = w[rows]
    if (w == w[0]).all():
        return Weights(rows, float(w[0]), float(w[0]) * len(w))
    return Weights(rows, w, float(np.sort(w).sum()))


def tally(values: np.ndarray, weights: float | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct values in order, and the sum of the weights of each.

    The result has the same bits in whatever order the rows come: equal values are summed by size of weight.
    """
    if np.ndim(weights) == 0:
        distinct, counts = np.unique(values, return_counts=True)
        return distinct, counts * float(weights)
    weights = np.asarray(weights)
    order = np.lexsort((weights, values))
    values, weights = values[order], weights[order]
    first = np.flatnonzero(np.r_[True, values[1:] != values[:-1]][: len(values)])
    return values[first], np.add.reduceat(weights, first) if len(first) else weights[:0]


def quantiles(values: np.ndarray, weights: np.ndarray, shares: tuple[float, ...]) -> list[float]:
    """Return quantiles of distinct, ordered values: where a share falls between two of them, their middle.

    They depend on the distribution alone, and turn around with the sign of the values.
    """
    sums = np.cumsum(weights)
    targets, slack = np.asarray(shares) * sums[-1], NEGLIGIBLE * sums[-1]
    last = len(values) - 1
    lower = np.minimum(np.searchsorted(sums, targets - slack, side="left"), last)
    upper = np.minimum(np.searchsorted(sums, targets + slack, side="right"), last)
    return ((values[lower] + values[upper]) / 2).tolist()


# -- numbers -----------------------------------------------------------------------------------------


class Number(NamedTuple):
    """What is learned from a column of numbers; all but `unit` and the gaps in multiples of `1 / unit`.

    Parameters
    ----------
    unit : float
        A power of 2 that brings the column near 1, so that no sum or square overflows.
    low, high : float
        Bounds, one range beyond the 1 % and 99 % quantiles; where these are equal, minimum and maximum.
    median : float
        What stands for a missing value.
    mean, spread : float
        Of the bounded values that are not missing; a spread of 0 means that they are all equal.
    gap_share, gap_spread : float
        Share of missing values, and the standard deviation of their indicator; 0 if none is missing.
    """

    unit: float
    low: float
    high: float
    median: float
    mean: float
    spread: float
    gap_share: float
    gap_spread: float

    def check_stored(self) -> None:
        """Raise Damaged unless numbers that came from a file can be divided by."""
        demand(all(map(math.isfinite, self)), "what was learned of a column is not finite")
        fine = self.unit > 0 and self.low <= self.high and self.spread >= 0 and self.gap_spread >= 0
        # Bounds may be far out where nothing is bounded, but then on their own sides.
        fine = fine and self.low <= LARGEST and self.high >= -LARGEST
        demand(fine, "what was learned of a column makes no sense")


#: What stands in the place of other columns.
NO_NUMBER = Number(*[math.nan] * 8)


def learn_numbers(X: np.ndarray, weights: Weights) -> list[Number | None]:
    """Return what every column of a matrix of finite numbers and NaN teaches, None if all of it is missing."""
    return [learn_number(column, weights) for column in X.T]


def learn_number(values: np.ndarray, weights: Weights) -> Number | None:
    """Return what a column of finite numbers and NaN teaches, None if all of it is missing."""
    values = np.asarray(values, dtype=np.float64)[weights.rows]
    gaps = np.isnan(values)
    share = _gap_share(gaps, weights)
    if share == 1:
        return None
    if share:
        w = weights.values
        weights = weights._replace(values=w if isinstance(w, float) else w[~gaps])
        values = values[~gaps]
    distinct, sums = tally(values, weights.values)
    gap_spread = math.sqrt(share * (1 - share))
    unit = power_of_two(max(abs(distinct[0]), abs(distinct[-1])))
    low, high, median, mean, spread = _bounds_and_spread(distinct * unit, sums)
    return Number(unit, low, high, median, mean, spread, share, gap_spread)


def _gap_share(gaps: np.ndarray, weights: Weights) -> float:
    if not gaps.any():
        return 0.0
    kinds, sums = tally(gaps, weights.values)
    return float(sums[-1] / sums.sum()) if len(kinds) > 1 else 1.0


def power_of_two(largest: float) -> float:
    """Return the power of 2 that brings a size near 1."""
    exponent = math.frexp(largest)[1]
    return math.ldexp(1.0, -min(max(exponent, -1000), 1000)) if largest else 1.0


def _bounds_and_spread(values: np.ndarray, weights: np.ndarray) -> tuple[float, ...]:
    """Return low, high, median, mean and spread of distinct, ordered values."""
    least, most = float(values[0]), float(values[-1])
    low, median, high = quantiles(values, weights, (0.01, 0.5, 0.99))
    if most - least <= ROUNDINGS * np.finfo(np.float64).eps * max(abs(least), abs(most)):
        return least, most, median, median, 0.0
    low, high = (low - (high - low), high + (high - low)) if low < high else (least, most)
    offsets = np.clip(values, low, high) - median
    total = weights.sum()
    shift = float((weights * offsets).sum() / total)
    spread = math.sqrt((weights * (offsets - shift) ** 2).sum() / total)
    return low, high, median, median + shift, spread
