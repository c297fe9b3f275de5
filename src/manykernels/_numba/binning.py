"""Random binning: the bin of every row in every grid, and sums and look-ups over bins.

Coordinates are whole numbers ``floor(x_j / δ_j + shift_j)``; a bin is the top bits of ``Σ_j a_j coordinate_j`` modulo
2³², with odd a_j drawn at random.
"""

from __future__ import annotations

import numpy as np
from numba import njit

#: Rows whose columns are turned at a time: a few of them stay in the first-level cache.
STRIP = 1024
#: Coordinates are cut off here: beyond it 32 bits overflow.
FARTHEST = 2.0**30


@njit(cache=True, nogil=True)
def _coordinate(x, inverse, shift):
    u = x * inverse + shift
    u = min(max(u, -FARTHEST), FARTHEST)
    k = np.int32(u)
    if u < k:
        k -= np.int32(1)
    return k


@njit(cache=True, nogil=True)
def _add_coordinates(column, m, inverse, shift, factor, codes):
    """Add a column's part to the codes of m rows; a loop of its own, so that it becomes vector code."""
    far = column.dtype.type(FARTHEST)
    for t in range(m):
        u = column[t] * inverse + shift
        u = min(max(u, -far), far)
        k = np.int32(u)
        k -= np.int32(u < k)
        codes[t] += k * factor


@njit(cache=True, nogil=True)
def fill_bins(X, columns, inverse, shift, factors, bits, out):
    """Write the bin of every row in every grid.

    A column whose values within a strip of rows all share one coordinate adds a constant: it is found from the
    strip's smallest and largest value, and costs nothing per row.

    Parameters
    ----------
    X : (n, d) array
    columns : (k,) array of int
        The columns that grids see.
    inverse, shift : (grids, k) arrays, of X's type
        1/δ and the shifts, in units of the pitch.
    factors : (grids, k) array of int32, odd
    bits : int
        Logarithm of the table's size.
    out : (grids, n) array of unsigned integers
    """
    n, k, grids = X.shape[0], len(columns), inverse.shape[0]
    turned = np.empty((k, STRIP), dtype=X.dtype)
    low, high = np.empty(k, dtype=X.dtype), np.empty(k, dtype=X.dtype)
    codes = np.empty(STRIP, dtype=np.int32)
    drop = np.uint32(32 - bits)
    for first in range(0, n, STRIP):
        m = min(STRIP, n - first)
        for j in range(k):
            low[j] = high[j] = X[first, columns[j]]
        for t in range(m):
            for j in range(k):
                x = X[first + t, columns[j]]
                turned[j, t] = x
                low[j] = min(low[j], x)
                high[j] = max(high[j], x)
        for g in range(grids):
            constant = np.int32(0)
            codes[:] = 0
            for j in range(k):
                a = inverse.dtype.type(_coordinate(low[j], inverse[g, j], shift[g, j]))
                if a == _coordinate(high[j], inverse[g, j], shift[g, j]):
                    constant += np.int32(a) * factors[g, j]
                else:
                    _add_coordinates(turned[j], m, inverse[g, j], shift[g, j], factors[g, j], codes)
            for t in range(m):
                out[g, first + t] = np.uint32(codes[t] + constant) >> drop


@njit(cache=True, nogil=True)
def add_scores(bins, W, out):
    """Add ``Σ_g W[g, bins[g, t]]`` to every row of `out`."""
    grids, n = bins.shape
    c = out.shape[1]
    for g in range(grids):
        for t in range(n):
            b = bins[g, t]
            for k in range(c):
                out[t, k] += W[g, b, k]


@njit(cache=True, nogil=True)
def subtract_step(bins, step, R):
    """Subtract ``step[bins[t]]`` from every residual."""
    n, c = R.shape
    for t in range(n):
        b = bins[t]
        for k in range(c):
            R[t, k] -= step[b, k]


@njit(cache=True, nogil=True)
def add_sums(bins, R, s, sums):
    """Add the weighted residuals of every row to its bin, ``sums[bins[t], :c] += s_t R_t``."""
    n, c = R.shape
    for t in range(n):
        b, weight = bins[t], s[t]
        for k in range(c):
            sums[b, k] += weight * R[t, k]


@njit(cache=True, nogil=True)
def step_and_sums(before, step, bins, R, s, sums):
    """Do both in one pass over the residuals: take a step in one grid, sum over the next one's bins."""
    n, c = R.shape
    for t in range(n):
        old, new, weight = before[t], bins[t], s[t]
        for k in range(c):
            r = R[t, k] - step[old, k]
            R[t, k] = r
            sums[new, k] += weight * r


@njit(cache=True, nogil=True)
def add_counts(bins, s, counts):
    """Add every row's weight to its bin."""
    for t in range(len(bins)):
        counts[bins[t]] += s[t]


@njit(cache=True, nogil=True)
def newton_step(sums, counts, lam, W, step):
    """Minimise over a grid's coefficients: ``step = (sums - lam W)/(counts + lam)``, ``W += step``; sums become 0."""
    size, c = W.shape
    for b in range(size):
        if counts[b] == 0.0:  # no row: its coefficients are 0 and stay so, unless lam has just changed
            for k in range(c):
                step[b, k] = -W[b, k]
                W[b, k] = 0.0
            continue
        scale = 1.0 / (counts[b] + lam)
        for k in range(c):
            step[b, k] = (sums[b, k] - lam * W[b, k]) * scale
            W[b, k] += step[b, k]
            sums[b, k] = 0.0


@njit(cache=True, nogil=True)
def filter_rows(bins, Y, noise, W, variance, intercept, scores):
    """One pass of a diagonal Kalman filter over rows, in order.

    A row has the bins b of every grid and the intercept. With v their variances and e its error before the row is
    seen: ``g = 1/(Σv + noise)``, ``W_b += v_b g e``, ``v_b -= v_b² g``.

    Parameters
    ----------
    bins : (n, grids) array
    Y : (n, c) array
    noise : (n,) array
        1/(C s_t); infinite for a row without weight, which changes nothing.
    W : (grids, size, c) array, changed
    variance : (grids, size) array, changed
    intercept : (c + 1,) array, changed
        Its coefficients, and its variance last.
    scores : (n, c) array, written
        Of each row, before it was seen.
    """
    n, grids = bins.shape
    c = Y.shape[1]
    error = np.empty(c)
    for t in range(n):
        total = intercept[c] + noise[t]
        for k in range(c):
            error[k] = intercept[k]
        for g in range(grids):
            b = bins[t, g]
            total += variance[g, b]
            for k in range(c):
                error[k] += W[g, b, k]
        for k in range(c):
            scores[t, k] = error[k]
            error[k] = Y[t, k] - error[k]
        if not np.isfinite(total):
            continue
        gain = 1.0 / total
        for k in range(c):
            intercept[k] += intercept[c] * gain * error[k]
        intercept[c] -= intercept[c] * intercept[c] * gain
        for g in range(grids):
            b = bins[t, g]
            v = variance[g, b]
            variance[g, b] = v - v * v * gain
            v *= gain
            for k in range(c):
                W[g, b, k] += v * error[k]
