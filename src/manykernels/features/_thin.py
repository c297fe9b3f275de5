"""Matrix products of which one side has a few entries: scores of c outputs, and their gradients.

They are cut into tiles of at most ``SMALL`` multiplications, which OpenBLAS does on the factors as it finds them: to
copy the large one first, as it does for more, costs as much as to multiply with it. The tiles together take half or a
quarter of the time of the whole. One compiled call does all of them: threads that leave and take the interpreter's lock
for each of many short products spend a third of their time waiting for one another.
"""

from __future__ import annotations

import numpy as np
from numba import njit

SMALL = 10**6


@njit(cache=True, nogil=True)
def rows_of_a_tile(n, multiplications):
    """Return how many of n rows go together, given the multiplications for each: a multiple of 16, if it can be."""
    step = max(1, SMALL // max(1, multiplications))
    return n if step >= n else max(1, step - step % 16 if step >= 16 else step)


@njit(cache=True, nogil=True)
def thin_scores(Z, W, F):
    """Write ZW to F, O(n w c).

    Parameters
    ----------
    Z : (n, w) array of float32, contiguous
    W : (w, c) array of float32, contiguous
    F : (n, c) array of float32, contiguous
    """
    n, w = Z.shape
    step = rows_of_a_tile(n, w * W.shape[1])
    for a in range(0, n, max(1, step)):
        b = min(a + step, n)
        np.dot(Z[a:b], W, F[a:b])


@njit(cache=True, nogil=True)
def add_thin_sums(Z, R, sums):
    """Add ZᵀR to the sums, O(n w c).

    Parameters
    ----------
    Z : (n, w) array of float32, contiguous
    R : (n, c) array of float32, contiguous
    sums : (w, c) array of float64
    """
    n, w = Z.shape
    c = R.shape[1]
    step = rows_of_a_tile(n, w * c)
    for a in range(0, n, max(1, step)):
        b = min(a + step, n)
        part = np.dot(Z[a:b].T, R[a:b])
        for j in range(w):
            for k in range(c):
                sums[j, k] += part[j, k]
