"""Random binning: the bin of every row in every grid, and bins by their numbers.

Coordinates are whole numbers ``floor(x_j / δ_j + shift_j)``; a bin is the top bits of ``Σ_j a_j coordinate_j`` modulo
2³², with odd a_j drawn at random. 32 bits hold the coordinates of nearly all rows; those of a time in milliseconds may
need 64.
"""

from __future__ import annotations

import numpy as np
from numba import njit

#: Rows whose columns are turned at a time: a few of them stay in the first-level cache.
TILE_LENGTH = 1024
#: Most different rows of two-valued columns in a tile that are worth being numbered.
PATTERNS = 256
#: Beyond the first one 32 bits overflow, and beyond the second one 64: coordinates are cut off there.
FAR, FARTHEST = 2**30, 2.0**62


@njit(cache=True, nogil=True)
def _coordinate(x, inverse, shift):
    u = x * inverse + shift
    return np.int64(np.floor(min(max(u, -FARTHEST), FARTHEST)))


@njit(cache=True, nogil=True)
def _add_coordinates(column, m, inverse, shift, factor, codes):
    """Add a column's part to the codes of m rows; a loop of its own, so that it becomes vector code."""
    for t in range(m):
        u = column[t] * inverse + shift
        k = np.int32(u)
        k -= np.int32(u < k)
        codes[t] += k * factor


@njit(cache=True, nogil=True)
def _add_far_coordinates(column, m, inverse, shift, factor, codes):
    """Do the same for coordinates of any size."""
    for t in range(m):
        codes[t] += np.int32(_coordinate(column[t], inverse, shift)) * factor


@njit(cache=True, nogil=True)
def _switches(turned, m, low, high, chosen):
    """Write which columns take just two values in a tile, 64 at most, and return how many there are."""
    count = 0
    for j in range(len(low)):
        if count == len(chosen) or low[j] == high[j]:
            continue
        both = True
        for t in range(m):
            if turned[j, t] != low[j] and turned[j, t] != high[j]:
                both = False
                break
        if both:
            chosen[count] = j
            count += 1
    return count


@njit(cache=True, nogil=True)
def _patterns(turned, m, low, chosen, count, most, known, ids):
    """Return the number of different rows of a tile's switches, -1 if there are more than `most`.

    Parameters
    ----------
    turned, m, low : the tile's columns, their length, and the smallest values
    chosen, count : the switches
    most : int
    known : (most,) array of uint64
        Written: which switches are on, bit by bit, in each pattern.
    ids : (m,) array of uint16
        Written: the pattern of every row.
    """
    words = np.zeros(m, dtype=np.uint64)
    for i in range(count):
        bit = np.uint64(1) << np.uint64(i)
        off = low[chosen[i]]
        for t in range(m):
            if turned[chosen[i], t] != off:
                words[t] |= bit
    slots = np.full(4 * TILE_LENGTH, -1, dtype=np.int32)
    found = 0
    for t in range(m):
        at = (words[t] * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(52)
        while slots[at] >= 0 and known[slots[at]] != words[t]:
            at = (at + np.uint64(1)) & np.uint64(4 * TILE_LENGTH - 1)
        if slots[at] < 0:
            if found == most:
                return -1
            slots[at] = found
            known[found] = words[t]
            found += 1
        ids[t] = slots[at]
    return found


@njit(cache=True, nogil=True)
def fill_bins(X, order, columns, inverse, shift, factors, bits, out):
    """Write the bin of some rows in every grid.

    Work is done tile by tile, and columns are told apart by their values there. One whose values all share one
    coordinate adds a constant: it is found from the smallest and largest value, and costs nothing per row. Columns
    with two values, as dummies of categories have, are taken together: their different rows are few as a rule, so
    that a grid codes these, and rows look their code up.

    Parameters
    ----------
    X : (at least n, d) array
    order : (n,) array of int
        The rows, in the order in which their bins are written.
    columns : (k,) array of int
        The columns that grids see.
    inverse, shift : (grids, k) arrays, of X's type
        1/δ and the shifts, in units of the pitch.
    factors : (grids, k) array of int32, odd
    bits : int
        Logarithm of the table's size.
    out : (grids, n) array of unsigned integers
    """
    n, k, grids = len(order), len(columns), inverse.shape[0]
    turned = np.empty((k, TILE_LENGTH), dtype=X.dtype)
    low, high = np.empty(k, dtype=X.dtype), np.empty(k, dtype=X.dtype)
    codes = np.empty(TILE_LENGTH, dtype=np.int32)
    chosen, plain = np.empty(64, dtype=np.int64), np.empty(k, dtype=np.bool_)
    known, ids = np.empty(PATTERNS, dtype=np.uint64), np.empty(TILE_LENGTH, dtype=np.uint16)
    deltas, table = np.empty(64, dtype=np.int32), np.empty(PATTERNS, dtype=np.int32)
    drop = np.uint32(32 - bits)
    for first in range(0, n, TILE_LENGTH):
        m = min(TILE_LENGTH, n - first)
        for j in range(k):
            low[j] = high[j] = X[order[first], columns[j]]
        for t in range(m):
            row = order[first + t]
            for j in range(k):
                x = X[row, columns[j]]
                turned[j, t] = x
                low[j] = min(low[j], x)
                high[j] = max(high[j], x)
        plain[:] = True
        count, found = _switches(turned, m, low, high, chosen), -1
        if count > 1:
            found = _patterns(turned, m, low, chosen, count, PATTERNS, known, ids)
        if found >= 0:
            for i in range(count):
                plain[chosen[i]] = False
        for g in range(grids):
            constant = np.int32(0)
            if found >= 0:
                for i in range(count):
                    j = chosen[i]
                    a = np.int32(_coordinate(low[j], inverse[g, j], shift[g, j]))
                    b = np.int32(_coordinate(high[j], inverse[g, j], shift[g, j]))
                    constant += a * factors[g, j]
                    deltas[i] = (b - a) * factors[g, j]
                for p in range(found):
                    rest, i, code = known[p], 0, np.int32(0)
                    while rest:
                        if rest & np.uint64(1):
                            code += deltas[i]
                        rest >>= np.uint64(1)
                        i += 1
                    table[p] = code
                for t in range(m):
                    codes[t] = table[ids[t]]
            else:
                codes[:] = 0
            for j in range(k):
                if not plain[j]:
                    continue
                place = inverse[g, j], shift[g, j]
                start, end = _coordinate(low[j], *place), _coordinate(high[j], *place)
                if start == end:
                    constant += np.int32(start) * factors[g, j]
                elif max(-start, end) < FAR:
                    _add_coordinates(turned[j], m, *place, factors[g, j], codes)
                else:
                    _add_far_coordinates(turned[j], m, *place, factors[g, j], codes)
            for t in range(m):
                out[g, first + t] = np.uint32(codes[t] + constant) >> drop


@njit(cache=True, nogil=True)
def halves(X, columns, low, scale, splits, keys):
    """Write in which halves of space every row lies, bit by bit.

    Parameters
    ----------
    X : (n, d) array
    columns : (k,) array of int
    low, scale : (k,) arrays
        What makes a column a number from 0 to 1, as a rule; it is cut off there.
    splits : (bits,) array of int
        Which of the k columns is halved, bit after bit; none more than 30 times.
    keys : (n,) array of uint64, written
    """
    k = len(columns)
    digits, shifts, times = np.empty(k, dtype=np.int64), np.empty(len(splits), dtype=np.int64), np.zeros(k)
    for i in range(len(splits)):
        times[splits[i]] += 1
        shifts[i] = 30 - times[splits[i]]
    for t in range(len(keys)):
        for j in range(k):
            digits[j] = np.int64(2.0**30 * min(max((X[t, columns[j]] - low[j]) * scale[j], 0.0), 0.999999))
        key = 0
        for i in range(len(splits)):  # without branches, which no processor could foresee
            key = 2 * key + ((digits[splits[i]] >> shifts[i]) & 1)
        keys[t] = key


@njit(cache=True, nogil=True)
def number_bins(bins, slots, seen):
    """Replace bins by their numbers, 1, 2, ... in the order in which a grid meets them.

    Tables need rows for the bins that are met alone, and rows that lie near each other find theirs near each other.

    Parameters
    ----------
    bins : (grids, n) array, changed
    slots : (grids, size) array, changed
        The number of every bin; 0 for one that has not been met.
    seen : (grids,) array of int, changed
        How many each grid has met.
    """
    grids, n = bins.shape
    for g in range(grids):
        for t in range(n):
            b = bins[g, t]
            if slots[g, b] == 0:
                seen[g] += 1
                slots[g, b] = seen[g]
            bins[g, t] = slots[g, b]


@njit(cache=True, nogil=True)
def look_up(bins, slots):
    """Replace bins by their numbers, 0 where they have none."""
    grids, n = bins.shape
    for g in range(grids):
        for t in range(n):
            bins[g, t] = slots[g, bins[g, t]]


@njit(cache=True, nogil=True)
def lay_down(order, first, Y, s, residuals, weights):
    """Write targets and weights of some rows in their order.

    Parameters
    ----------
    order : (m,) array of int
        The rows that come to lie at first, first + 1, ...
    first : int
    Y, s : (n, c) and (n,) arrays
    residuals : (n, at least c) array, changed
    weights : (n,) array, changed
    """
    for i in range(len(order)):
        t = order[i]
        for k in range(Y.shape[1]):
            residuals[first + i, k] = Y[t, k]
        weights[first + i] = s[t]


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
def add_numbered_scores(bins, slots, first, W, out):
    """Add ``Σ_g W[first[g] + slots[g, bins[g, t]]]`` to every row of `out`."""
    grids, n = bins.shape
    c = out.shape[1]
    for g in range(grids):
        for t in range(n):
            b = first[g] + slots[g, bins[g, t]]
            for k in range(c):
                out[t, k] += W[b, k]
