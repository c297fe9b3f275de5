"""The best path through a chain of labels."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def best_path(unary, pair):  # type: ignore[no-untyped-def]
    """Return the labels with the largest Σ_t unary[t, k_t] + Σ_{t>0} pair[t, k_(t-1), k_t]; of equals, the first.

    Viterbi's recursion, O(T c²). `pair` is (T, c, c), its first row unused.
    """
    T, c = unary.shape
    value, back = unary[0].copy(), np.zeros((T, c), np.int64)
    for t in range(1, T):
        new = np.empty(c)
        for k in range(c):
            top = 0
            for j in range(1, c):
                if value[j] + pair[t, j, k] > value[top] + pair[t, top, k]:
                    top = j
            back[t, k] = top
            new[k] = value[top] + pair[t, top, k] + unary[t, k]
        value = new
    path = np.empty(T, np.int64)
    path[T - 1] = np.argmax(value)
    for t in range(T - 1, 0, -1):
        path[t - 1] = back[t, path[t]]
    return path
