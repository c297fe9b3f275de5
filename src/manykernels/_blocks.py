"""Cutting long arrays into blocks."""

from __future__ import annotations


def row_blocks(n: int, width: int, values: int = 2**21) -> list[slice]:
    """Cut n rows into slices of at most about `values` entries when a row has `width`."""
    step = max(1, values // max(1, width))
    return [slice(a, min(a + step, n)) for a in range(0, n, step)]
