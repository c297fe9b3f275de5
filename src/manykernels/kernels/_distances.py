"""Sums of absolute differences, and what the gradients of Laplacian kernels' bandwidths need, over pairs of rows."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def add_l1(X, columns, first, out):
    """Add ``Σ_j |x_sj - z_tj|`` to out[s, t]; `columns` are those of the rows z, one after the other, from `first` on.

    Column by column, so that neighbouring pairs are vector code, and sums have the order of the columns.
    """
    width = out.shape[1]
    for s in range(X.shape[0]):
        for j in range(X.shape[1]):
            x = X[s, j]
            for t in range(width):
                out[s, t] += abs(x - columns[j, first + t])


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def l1_distances(Z, first, last, out):
    """Write ``out[s - first, t] = Σ_j |z_sj - z_tj|`` for first <= s < last and all t >= first, O(rows n d)."""
    n, d = Z.shape
    for s in range(first, last):
        for t in range(first, n):
            total = Z.dtype.type(0.0)
            for j in range(d):
                total += abs(Z[s, j] - Z[t, j])
            out[s - first, t - first] = total


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def add_l1_moments(Z, W, first, last, out):
    """Add ``Σ_st W_st |z_sj - z_tj|`` to out_j, for first <= s < last and t >= first; W is about those pairs."""
    n, d = Z.shape
    part = np.empty(d, dtype=Z.dtype)
    for s in range(first, last):
        part[:] = 0
        for t in range(first, n):
            w = W[s - first, t - first]
            for j in range(d):
                part[j] += w * abs(Z[s, j] - Z[t, j])
        for j in range(d):
            out[j] += part[j]
