"""Grids of bandwidths from the distances in the data."""

from __future__ import annotations

import numpy as np

from ..kernels import RBF, Kernel, Laplacian, pairwise_statistic

#: Bandwidths relative to the median distance: factors of √2 from 1/8 to 8.
FACTORS = 2.0 ** np.arange(-3, 3.5, 0.5)
#: Rows that the median distance is taken over; beyond it, evenly spaced rows are used.
MAX_ROWS = 1500


def median_distance(X, sample_weight, statistic: str) -> float:
    """Return the weighted median of the positive distances between rows, 1 if there are none.

    A pair weighs s_t s_t', so that a weight equals a repetition. O(rows² d) on at most MAX_ROWS rows.
    """
    rows = np.flatnonzero(sample_weight > 0)
    if len(rows) > MAX_ROWS:
        rows = rows[np.linspace(0, len(rows) - 1, MAX_ROWS).astype(int)]
    S = pairwise_statistic(statistic, X[rows], X[rows])
    upper = np.triu_indices(len(rows), 1)
    distances = S[upper]
    weights = np.outer(sample_weight[rows], sample_weight[rows])[upper]
    # Rounding leaves tiny distances between equal rows: they are no distances.
    positive = distances > 1e-12 * max(distances.max(initial=0.0), np.finfo(float).tiny)
    if not positive.any():
        return 1.0
    distances, weights = distances[positive], weights[positive]
    order = np.argsort(distances, kind="stable")
    cumulative = np.cumsum(weights[order])
    median = distances[order][np.searchsorted(cumulative, 0.5 * cumulative[-1])]
    return float(np.sqrt(median)) if statistic == "sqdist" else float(median)


def bandwidth_grid(kernel: type[RBF] | type[Laplacian], X, sample_weight) -> list[Kernel]:
    """Return kernels with bandwidths around the median distance."""
    assert kernel.statistic is not None
    median = median_distance(X, sample_weight, kernel.statistic)
    return [kernel(float(median * f)) for f in FACTORS]
