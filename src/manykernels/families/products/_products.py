"""Tables of products of columns: the rows of a matrix product, and what of its result is kept."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def row_products(Z, v, heads, low, high, out):
    """Write the rows ``out = v ∘ Z[i] ∘ Π_h Z[h]`` of all segments, low <= i < high in each.

    Z is (columns, n) and heads is (segments, factors). O(n) per row and per head.
    """
    n = Z.shape[1]
    head = np.empty(n)
    at = 0
    for s in range(len(low)):
        head[:] = v
        for h in heads[s]:
            factor = Z[h]
            for t in range(n):
                head[t] *= factor[t]
        for i in range(low[s], high[s]):
            row, factor = out[at], Z[i]
            for t in range(n):
                row[t] = head[t] * factor[t]
            at += 1


@njit(cache=True, nogil=True)
def add_kept(block, first, rows, start, stop, out):
    """Add what segments keep of the rows of a block, columns start to stop of each, to `out` one after the other.

    The block's columns begin with number `first`.
    """
    row, at = 0, 0
    for s in range(len(rows)):
        width = stop[s] - start[s]
        for _ in range(rows[s]):
            kept, total = block[row, start[s] - first : stop[s] - first], out[at : at + width]
            for j in range(width):
                total[j] += kept[j]
            row += 1
            at += width


@njit(cache=True, nogil=True)
def add_squares(values, weight, out):
    """Add ``weight · values²`` to out."""
    for i in range(len(out)):
        out[i] += weight * values[i] * values[i]


@njit(cache=True, nogil=True)
def scale_or_drop(inverse, out):
    """Multiply by inverse scales; -inf where one is zero."""
    for i in range(len(out)):
        out[i] = out[i] * inverse[i] if inverse[i] != 0 else -np.inf
