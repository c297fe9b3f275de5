"""Tables of products of columns: the rows of a matrix product, and what of its result is kept."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def monomials_into(out, X, codes):
    """Write ``out[t, i] = Π_j X[t, codes[i, j]]``; codes as large as the number of columns end a product."""
    r = X.shape[1]
    for t in range(out.shape[0]):
        for i in range(out.shape[1]):
            product = 1.0
            for c in codes[i]:
                if c == r:
                    break
                product *= X[t, c]
            out[t, i] = product


@njit(cache=True, nogil=True)
def row_products(Z, v, heads, low, high, out):
    """Write the rows ``out = v ∘ Z[i] ∘ Π_h Z[h]`` of all segments, low <= i < high in each.

    Z is (columns, n) and heads is (segments, factors). O(n) per row and per head.
    """
    n = Z.shape[1]
    head = np.empty(n, out.dtype)
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


@njit(cache=True, nogil=True)
def select(block, first, rows, start, stop, inverse, origin, threshold, at, places, scores):
    """Append the places and scores of products above a threshold, and return where these end.

    The block and its segments are as in ``add_kept``; a score is an entry of the block times one of `inverse`, which
    go by segment, row and column as places do, from `origin` on.
    """
    row, place = 0, 0
    for s in range(len(rows)):
        width = stop[s] - start[s]
        for _ in range(rows[s]):
            kept, scale = block[row, start[s] - first : stop[s] - first], inverse[place : place + width]
            for j in range(width):
                score = kept[j] * scale[j]
                if score > threshold:
                    places[at], scores[at] = origin + place + j, score
                    at += 1
            row += 1
            place += width
    return at


@njit(cache=True, nogil=True)
def select_by_pairs(
    block, first, rows, start, stop, heads, low, pairs, origin, threshold, at, places, scores
):
    """Do the same with the product of `pairs` over all pairs of factors for a scale: O(1) per product."""
    row, place = 0, 0
    for s in range(len(rows)):
        width, head = stop[s] - start[s], heads[s]
        fixed = np.float32(1.0)
        common = np.ones(width, np.float32)
        for a in range(len(head)):
            for b in range(a):
                fixed *= pairs[head[a], head[b]]
            common *= pairs[head[a], start[s] : stop[s]]
        for i in range(low[s], low[s] + rows[s]):
            whole = fixed
            for a in range(len(head)):
                whole *= pairs[head[a], i]
            kept, own = block[row, start[s] - first : stop[s] - first], pairs[i, start[s] : stop[s]]
            for j in range(width):
                score = kept[j] * whole * common[j] * own[j]
                if score > threshold:
                    places[at], scores[at] = origin + place + j, score
                    at += 1
            row += 1
            place += width
    return at


@njit(cache=True, nogil=True)
def products_of_rows(Z, codes, out):
    """Write the products of rows of Z, ``out[i] = Π_j Z[codes[i, j]]``; codes below zero stand for no factor."""
    for i in range(len(codes)):
        row = out[i]
        row[:] = 1.0
        for j in codes[i]:
            if j >= 0:
                factor = Z[j]
                for t in range(len(row)):
                    row[t] *= factor[t]
