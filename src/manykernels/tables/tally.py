"""Counts with weights: a weight equals a repetition, and the order of rows is of no account."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

#: Weights below this part of their sum do not decide on which side of a quantile a value lies: sums round.
NEGLIGIBLE = 1e-9


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


def weights_of(sample_weight: Any, n: int) -> Weights:
    """Return the weights of n rows, all one if None are given."""
    if sample_weight is None:
        return Weights(slice(None), 1.0, float(n))
    w = np.asarray(sample_weight, dtype=np.float64)
    if w.shape != (n,):
        raise ValueError(f"sample_weight has the shape {w.shape}; use one weight for each of the {n:,} rows.")
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
