"""Random binning: the bin of every row in every grid, and sums and look-ups over bins.

Coordinates are whole numbers ``floor(x_j / δ_j + shift_j)``; a bin is the top bits of ``Σ_j a_j coordinate_j`` modulo
2³², with odd a_j drawn at random.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .signals import meet

#: Rows whose columns are turned at a time: a few of them stay in the first-level cache.
STRIP = 1024
#: Most different rows of two-valued columns in a strip that are worth being numbered.
PATTERNS = 256
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
def _switches(turned, m, low, high, chosen):
    """Write which columns take just two values in a strip, 64 at most, and return how many there are."""
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
    """Return the number of different rows of a strip's switches, -1 if there are more than `most`.

    Parameters
    ----------
    turned, m, low : the strip's columns, their length, and the smallest values
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
    slots = np.full(4 * STRIP, -1, dtype=np.int32)
    found = 0
    for t in range(m):
        at = (words[t] * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(52)
        while slots[at] >= 0 and known[slots[at]] != words[t]:
            at = (at + np.uint64(1)) & np.uint64(4 * STRIP - 1)
        if slots[at] < 0:
            if found == most:
                return -1
            slots[at] = found
            known[found] = words[t]
            found += 1
        ids[t] = slots[at]
    return found


@njit(cache=True, nogil=True)
def fill_bins(X, columns, inverse, shift, factors, bits, out):
    """Write the bin of every row in every grid.

    Work is done strip by strip, and columns are told apart by their values there. One whose values all share one
    coordinate adds a constant: it is found from the smallest and largest value, and costs nothing per row. Columns
    with two values, as dummies of categories have, are taken together: their different rows are few as a rule, so
    that a grid codes these, and rows look their code up.

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
    chosen, plain = np.empty(64, dtype=np.int64), np.empty(k, dtype=np.bool_)
    known, ids = np.empty(PATTERNS, dtype=np.uint64), np.empty(STRIP, dtype=np.uint16)
    deltas, table = np.empty(64, dtype=np.int32), np.empty(PATTERNS, dtype=np.int32)
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
                    a = _coordinate(low[j], inverse[g, j], shift[g, j])
                    constant += a * factors[g, j]
                    deltas[i] = (_coordinate(high[j], inverse[g, j], shift[g, j]) - a) * factors[g, j]
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
                a = inverse.dtype.type(_coordinate(low[j], inverse[g, j], shift[g, j]))
                if a == _coordinate(high[j], inverse[g, j], shift[g, j]):
                    constant += np.int32(a) * factors[g, j]
                else:
                    _add_coordinates(turned[j], m, inverse[g, j], shift[g, j], factors[g, j], codes)
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


@njit(cache=True, nogil=True)
def subtract_step(bins, step, R):
    """Subtract ``step[bins[t]]`` from every residual."""
    n, c = R.shape
    for t in range(n):
        b = bins[t]
        for k in range(c):
            R[t, k] -= step[b, k]


def unrolled(c):
    """Return a tuple whose length tells compiled loops over c outputs how many there are; an empty one if it is long.

    Loops of a known length are up to twice as fast for one to four outputs, and no faster for more.
    """
    return (0,) * c if c in (1, 2, 4) else ()


@njit(cache=True, nogil=True)
def add_sums(bins, R, s, sums, outputs):
    """Add the weighted residuals of every row to its bin, ``sums[bins[t], :c] += s_t R_t``."""
    for t in range(len(R)):
        b, weight = bins[t], s[t]
        for k in range(len(outputs) or R.shape[1]):
            sums[b, k] += weight * R[t, k]


@njit(cache=True, nogil=True)
def step_and_sums(before, step, bins, R, s, sums, outputs):
    """Do both in one pass over the residuals: take a step in one grid, sum over the next one's bins."""
    for t in range(len(R)):
        old, new, weight = before[t], bins[t], s[t]
        for k in range(len(outputs) or R.shape[1]):
            r = R[t, k] - step[old, k]
            R[t, k] = r
            sums[new, k] += weight * r


@njit(cache=True, nogil=True)
def add_counts(bins, s, counts):
    """Add every row's weight to its bin."""
    for t in range(len(bins)):
        counts[bins[t]] += s[t]


@njit(cache=True, nogil=True)
def newton_step(sums, counts, lam, W, step, first, last, outputs):
    """Minimise over a grid's bins first..last-1: ``step = (Σ_l sums_l - lam W)/(counts + lam)``, ``W += step``.

    Parameters
    ----------
    sums : (lanes, at least size, at least c) array
        Becomes 0 there.
    counts : (size,) array
    lam : float
    W : (size, c) array, changed
    step : (at least size, at least c) array, changed
    first, last : int
    outputs : tuple
        From ``unrolled(sums.shape[2])``.
    """
    lanes, _, wide = sums.shape
    for b in range(first, last):
        for i in range(1, lanes):
            for k in range(len(outputs) or wide):
                sums[0, b, k] += sums[i, b, k]
                sums[i, b, k] = 0.0
        if counts[b] > 0.0:
            scale, weight = 1.0 / (counts[b] + lam), lam
        else:  # no row: its coefficients are 0 and stay so, unless lam has just changed
            scale = weight = 1.0
        for k in range(W.shape[1]):
            step[b, k] = (sums[0, b, k] - weight * W[b, k]) * scale
            W[b, k] += step[b, k]
        for k in range(len(outputs) or wide):
            sums[0, b, k] = 0.0


@njit(cache=True, nogil=True)
def tour(
    thread, size, board, units, lams, before, lines, edges, R, s, sums, counts, step, W, curvature, outputs
):
    """Descend over one grid after the other: the share of one of several threads, which do so together.

    Each sums along its lanes of rows, and takes the steps of its part of the bins; in between they wait for each other.
    What is added up, and in which order, does not depend on the number of threads.

    Parameters
    ----------
    thread, size : int
        Which of how many threads.
    board : (LINE * size,) array of int64
        Zeros, shared by the threads of a tour.
    units : (k, 5) array of int
        Of every grid its line, where its coefficients begin, how many there are, where its counts begin, and whether
        these are still to be made.
    lams : (k,) array
    before : int
        The line of the grid whose step is to be taken first; -1: none.
    lines : (grids, n) array of unsigned integers
        The bins of all rows in every grid.
    edges : (lanes + 1,) array of int
        Where lanes begin and end.
    R, s : (n, at least c) and (n,) arrays
        Residuals, changed, and weights.
    sums, counts : (lanes, most bins, at least c) and (lanes, most bins) arrays
        Zeros, before and after.
    step : (most bins, at least c) array, changed
        The step of the grid `before`, and in the end that of the last one, which is still to be taken.
    W, curvature : (all bins, c) and (all bins,) arrays, changed
    outputs : tuple
        From ``unrolled(R.shape[1])``.
    """
    lanes = len(edges) - 1
    for u in range(len(units)):
        line, first, width, place, new = units[u]
        for i in range(lanes * thread // size, lanes * (thread + 1) // size):
            a, b = edges[i], edges[i + 1]
            bins = lines[line, a:b]
            if new:
                add_counts(bins, s[a:b], counts[i])
            if before >= 0:
                step_and_sums(lines[before, a:b], step, bins, R[a:b], s[a:b], sums[i], outputs)
            else:
                add_sums(bins, R[a:b], s[a:b], sums[i], outputs)
        meet(board, thread, size, 2 * u + 1)
        H = curvature[place : place + width]
        low, high = width * thread // size, width * (thread + 1) // size
        if new:
            for b in range(low, high):
                total = 0.0
                for i in range(lanes):
                    total += counts[i, b]
                    counts[i, b] = 0.0
                H[b] = total
        newton_step(sums, H, lams[u], W[first : first + width], step, low, high, outputs)
        before = line
        meet(board, thread, size, 2 * u + 2)


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
