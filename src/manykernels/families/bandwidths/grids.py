"""Bandwidths from the distances in the data: grids, and the bounds of a continuum."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...kernels import RBF, Kernel, Laplacian, pairwise_statistic
from ...kernels.statistics import Rows

#: Bandwidths relative to the median distance: factors of √2 from 1/8 to 8.
FACTORS = 2.0 ** np.arange(-3, 3.5, 0.5)
#: Rows that quantiles of distances are taken over; beyond it, evenly spaced rows are used.
MAX_ROWS = 1500


def distance_quantiles(
    X: Rows, sample_weight: np.ndarray, statistic: str, levels: Sequence[float], max_rows: int = MAX_ROWS
) -> np.ndarray | None:
    """Return weighted quantiles of the positive distances between rows, None if there are none.

    A pair weighs s_t s_t', so that a weight equals a repetition. O(rows² d) on at most `max_rows` rows.
    """
    rows = np.flatnonzero(sample_weight > 0)
    if len(rows) > max_rows:
        rows = rows[np.linspace(0, len(rows) - 1, max_rows).astype(int)]
    S = pairwise_statistic(statistic, X[rows], X[rows])
    upper = np.triu_indices(len(rows), 1)
    distances = S[upper]
    weights = np.outer(sample_weight[rows], sample_weight[rows])[upper]
    # Rounding leaves tiny distances between equal rows: they are no distances.
    positive = distances > 1e-12 * max(distances.max(initial=0.0), np.finfo(float).tiny)
    if not positive.any():
        return None
    found = _quantiles(distances[positive], weights[positive], np.asarray(levels))
    return np.sqrt(found) if statistic == "sqdist" else found


def _quantiles(values, weights, levels) -> np.ndarray:
    """Return the least values with at least these shares of the weight at or below them."""
    n = len(values)
    if (weights == weights[0]).all():  # no need to sort
        places = np.clip(np.ceil(levels * n).astype(int) - 1, 0, n - 1)
        return np.partition(values, places)[places]
    order = np.argsort(values, kind="stable")
    cumulative = np.cumsum(weights[order])
    places = np.searchsorted(cumulative, levels * cumulative[-1])
    return values[order][np.minimum(places, n - 1)]


def median_distance(X: Rows, sample_weight: np.ndarray, statistic: str, max_rows: int = MAX_ROWS) -> float:
    """Return the weighted median of the positive distances between rows, 1 if there are none."""
    found = distance_quantiles(X, sample_weight, statistic, [0.5], max_rows)
    return 1.0 if found is None else float(found[0])


def bandwidth_grid(kernel: type[RBF] | type[Laplacian], X: Rows, sample_weight: np.ndarray) -> list[Kernel]:
    """Return kernels with bandwidths around the median distance."""
    assert kernel.statistic is not None
    median = median_distance(X, sample_weight, kernel.statistic)
    return [kernel(float(median * f)) for f in FACTORS]
