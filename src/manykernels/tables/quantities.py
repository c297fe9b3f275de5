"""What is learned from a column of numbers: its bounds, its median, its mean and spread, and the gaps in it."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .._util.shapes import demand
from .tally import Weights, quantiles, tally

#: Values whose range is below this many units of rounding of the largest are one value.
ROUNDINGS = 4


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
        demand(fine, "what was learned of a column makes no sense")


#: What stands in the place of other columns.
NO_NUMBER = Number(*[math.nan] * 8)


def learn_number(values: np.ndarray, weights: Weights) -> Number | None:
    """Return what a column of finite numbers and NaN teaches, None if all of it is missing."""
    values = values[weights.rows]
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
