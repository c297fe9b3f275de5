"""An order of rows in which neighbours in space stand near each other."""

from __future__ import annotations

import numpy as np

from .._util.arrays import even_parts
from .._util.threads import map_in_threads
from ._bins import halves

#: How often space is halved, in two times.
HALF_BITS = 15
#: Rows that a thread halves at a time.
PART = 16_384
#: Rows that tell means and deviations.
LOOKED_AT = 1024


def order_of_neighbours(X: np.ndarray, columns: np.ndarray, inverse: np.ndarray) -> np.ndarray:
    """Return an order of the rows in which neighbours stand near each other, O(n (bits + log n)).

    Space is halved again and again, across the column that is longest in units of its bandwidth, as far as the rows'
    standard deviations tell; rows are sorted by their halves.

    Parameters
    ----------
    X : (n, d) array
    columns : (k,) array of int
        Those that count.
    inverse : (k,) array
        1/σ of each.
    """
    n = len(X)
    if n < 2 or not len(columns):
        return np.arange(n)
    some = np.asarray(X[:: max(1, n // LOOKED_AT)], dtype=float)[:, columns]
    with np.errstate(over="ignore", invalid="ignore"):
        mean, spread = some.mean(axis=0), 2.0 * some.std(axis=0)
        length = spread * inverse
    length[~np.isfinite(length)] = 0.0
    # Columns in units of their deviations are equally long, and rounding must not choose among them.
    length = np.round(length / max(length.max(initial=0.0), np.finfo(float).tiny), 4)
    splits = []
    for _ in range(2 * HALF_BITS if length.any() else 0):
        splits.append(int(np.argmax(length)))
        length[splits[-1]] /= 2
    used, places = np.unique(splits, return_inverse=True)
    used, places = used.astype(np.int64), places.astype(np.int64)
    low, scale = mean[used] - spread[used], 0.5 / spread[used]
    keys = np.empty(n, dtype=np.uint64)
    map_in_threads(
        lambda part: halves(X[slice(*part)], columns[used], low, scale, places, keys[slice(*part)]),
        even_parts(n, -(-n // PART)),
    )
    # By the low half of the bits, then by the high one: NumPy counts 16 bits instead of comparing, twice as fast.
    order = np.argsort((keys & np.uint64(2**HALF_BITS - 1)).astype(np.uint16), kind="stable")
    high = (keys >> np.uint64(HALF_BITS)).astype(np.uint16)
    return order[np.argsort(high[order], kind="stable")]
