"""Cutting long arrays into blocks, and widths that suit matrix products."""

from __future__ import annotations

from itertools import pairwise

import numpy as np


def row_blocks(n: int, width: int, values: int = 2**21) -> list[slice]:
    """Cut n rows into slices of at most about `values` entries when a row has `width`."""
    step = max(1, values // max(1, width))
    return [slice(a, min(a + step, n)) for a in range(0, n, step)]


def even_parts(n: int, count: int) -> list[tuple[int, int]]:
    """Cut n items into so many parts of equal size, and return where each begins and ends."""
    return list(pairwise(n * i // count for i in range(count + 1)))


def product_width(c: int) -> int:
    """Return how many columns to give a factor that has only c, the others zero.

    The kernels of matrix products take columns by fours and eights: seven cost nearly twice as much as eight.
    """
    return c if c <= 2 or c > 8 else 4 if c <= 4 else 8


def widened(Y: np.ndarray) -> np.ndarray:
    """Return Y, (n, c), in single precision and with columns of zeros up to `product_width`."""
    out = np.zeros((len(Y), product_width(Y.shape[1])), dtype=np.float32)
    out[:, : Y.shape[1]] = Y
    return out
