"""One pass over a stack of Gram matrices ``K[s, t, i]``, upper triangle only, accumulated in double."""

from __future__ import annotations

from numba import njit


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def weighted_sum_rows(stack, weights, first, last, out):
    """Write ``out[s, t] = Σ_i weights[i] K[s, t, i]`` for first <= s < last, t >= s."""
    n, m = stack.shape[0], stack.shape[2]
    for s in range(first, last):
        for t in range(s, n):
            total = 0.0
            for i in range(m):
                total += weights[i] * stack[s, t, i]
            out[s, t] = total


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def add_quad_forms(stack, pairs, first, last, q):
    """Add ``pairs[s - first, t - first] K[s, t, i]`` over the rows and t >= s, twice off the diagonal."""
    n, m = stack.shape[0], stack.shape[2]
    for s in range(first, last):
        for t in range(s, n):
            c = pairs[s - first, t - first]
            if t > s:
                c *= 2.0
            for i in range(m):
                q[i] += c * stack[s, t, i]


@njit(cache=True, nogil=True)
def symmetry_violation(stack, first, last, tolerance):
    """Return (s, t, i) of the first entry in rows first:last that is not finite or not symmetric, or -1s.

    Rows and columns are visited in square tiles, so that the transposed reads stay in cache.
    """
    n, m = stack.shape[0], stack.shape[2]
    side = 32
    for a in range(first, last, side):
        for b in range(a, n, side):
            for s in range(a, min(a + side, last)):
                for t in range(max(b, s), min(b + side, n)):
                    for i in range(m):
                        x, z = stack[s, t, i], stack[t, s, i]
                        # A NaN or an infinite pair fails every comparison.
                        if not abs(x - z) <= tolerance[i]:
                            return s, t, i
    return -1, -1, -1
