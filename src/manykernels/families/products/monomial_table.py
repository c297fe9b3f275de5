"""All products of at most D columns as a few matrix products, every product in one place.

With a constant column as number 0 these are the products of exactly D of r + 1 columns, i_1 <= ... <= i_D. For
fixed inner factors, the *head* (i_2, ..., i_{D-1}), the first and the last factor are free of each other: i_1 up to
the head's first, i_D from the head's last. So a head is a matrix product of exactly the products wanted, and no other.
One side carries the head (the shorter one, as that costs n for each of its rows); heads that meet nearly the same
columns on the other side share one matrix product, which is quicker the larger it is.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._products import add_kept, row_products
from .monomials import Prefix

#: Rows of a matrix product: the more, the quicker it is, until they leave the cache.
TABLE_ROWS = 256
#: Heads share a matrix product as long as one column in so many is wasted at the most.
SHARED = 4


@dataclass(frozen=True)
class Slab:
    """Segments first to last, in one matrix product of `rows` rows with the columns begin to end."""

    first: int
    last: int
    begin: int
    end: int
    rows: int


class ProductTable:
    """The places of all products of 1 to D of r columns; memory O(r^(D-2)/(D-2)!).

    A segment s is the products of its head with a column low[s] <= i < high[s], the rows of a matrix product, and a
    column start[s] <= j < stop[s] of the other side. Places go by segment, row and column.

    Parameters
    ----------
    r : int
    degree : int
    most_rows : int
        Of a matrix product.
    """

    def __init__(self, r: int, degree: int, most_rows: int = TABLE_ROWS):
        self.r, self.degree, self.most_rows = r, degree, most_rows
        segments = _cut(most_rows, *_segments(r + 1, degree))
        self.heads, self.low, self.high, self.start, self.stop = segments
        self.rows = self.high - self.low
        #: Places before each segment, and all of them.
        self.ends = np.concatenate([[0], np.cumsum(self.rows * (self.stop - self.start))])
        self.slabs = list(self._slabs())

    def __len__(self) -> int:
        return int(self.ends[-1])

    def _slabs(self) -> Iterator[Slab]:
        start, stop, rows = self.start.tolist(), self.stop.tolist(), self.rows.tolist()
        first, begin, end, total = 0, start[0], stop[0], 0
        for s in range(len(rows)):
            # All that segments have in common must be nearly all that they have.
            shared = min(stop[s], stop[first]) - max(start[s], start[first])
            wide = max(end, stop[s]) - min(begin, start[s])
            if total and (total + rows[s] > self.most_rows or (wide - shared) * SHARED > wide):
                yield Slab(first, s, begin, end, total)
                first, begin, end, total = s, start[s], stop[s], 0
            begin, end, total = min(begin, start[s]), max(end, stop[s]), total + rows[s]
        yield Slab(first, len(rows), begin, end, total)

    def chunks(self, limit: int) -> list[list[Slab]]:
        """Return the slabs in lists of about `limit` places."""
        out: list[list[Slab]] = [[]]
        for slab in self.slabs:
            if out[-1] and self.ends[slab.last] - self.ends[out[-1][0].first] > limit:
                out.append([])
            out[-1].append(slab)
        return out

    def places(self, chunk: list[Slab]) -> slice:
        """Return the places of a chunk."""
        return slice(int(self.ends[chunk[0].first]), int(self.ends[chunk[-1].last]))

    @staticmethod
    def scratch(chunk: list[Slab], n: int, dtype: Any = np.float64) -> tuple[np.ndarray, np.ndarray]:
        """Return room in which `add` computes, for n rows: memory of one's own costs page faults every time."""
        U = np.empty((max(slab.rows for slab in chunk), n), dtype=dtype)
        return U, np.empty(max(slab.rows * (slab.end - slab.begin) for slab in chunk), dtype=dtype)

    def add(self, chunk: list[Slab], Z: np.ndarray, v: np.ndarray, out: np.ndarray, scratch=None) -> None:
        """Add Σ_t v_t φ_z(x_t) for all products z of a chunk, n multiply-adds each and few more.

        Parameters
        ----------
        chunk : list of Slab
        Z : (r + 1, n) array
            The columns; the first is the constant one. In single precision so are the sums.
        v : (n,) array
        out : (places,) array
        scratch : pair of arrays or None
            From :meth:`scratch`, for as many rows.
        """
        U, block = self.scratch(chunk, Z.shape[1], Z.dtype) if scratch is None else scratch
        origin = self.places(chunk).start
        for slab in chunk:
            part, wide = slice(slab.first, slab.last), slab.end - slab.begin
            rows = U[: slab.rows]
            row_products(Z, v, self.heads[part], self.low[part], self.high[part], rows)
            product = block[: slab.rows * wide].reshape(slab.rows, wide)
            np.matmul(rows, Z[slab.begin : slab.end].T, out=product)
            kept = out[self.ends[slab.first] - origin : self.ends[slab.last] - origin]
            add_kept(product, slab.begin, self.rows[part], self.start[part], self.stop[part], kept)

    def members(self, places: np.ndarray) -> list[Prefix]:
        """Return the products at some places, by the numbers of their columns."""
        s = np.searchsorted(self.ends, places, side="right") - 1
        row, column = np.divmod(places - self.ends[s], self.stop[s] - self.start[s])
        factors = np.column_stack([self.heads[s], self.low[s] + row, self.start[s] + column])
        return [tuple(j - 1 for j in z if j) for z in np.sort(factors, axis=1).tolist()]

    def degrees(self, chunk: list[Slab]) -> np.ndarray:
        """Return the number of factors of all products of a chunk."""
        part = slice(chunk[0].first, chunk[-1].last)
        segment = np.repeat(np.arange(part.start, part.stop), self.rows[part])
        before = np.cumsum(self.rows[part]) - self.rows[part]
        row = np.arange(len(segment)) - np.repeat(before, self.rows[part])
        factors = np.count_nonzero(self.heads, axis=1)[segment] + (self.low[segment] + row > 0)
        width = (self.stop - self.start)[segment]
        out = np.repeat((factors + 1).astype(np.int8), width)
        at = np.cumsum(width) - width
        out[at[self.start[segment] == 0]] -= 1  # the constant column of the other side
        return out


def n_heads(r: int, degree: int) -> int:
    """Return how many heads the products of at most D of r columns have."""
    return math.comb(r + max(degree - 2, 0), max(degree - 2, 0))


def _segments(R: int, degree: int) -> tuple[np.ndarray, ...]:
    """Return heads, low, high, start, stop; the product of no column but the constant one is left out."""
    if degree < 3:
        low = np.arange(R if degree == 2 else 1)
        return np.zeros((len(low), 0), dtype=np.intp), low, low + 1, np.maximum(low, 1), np.full(len(low), R)
    combinations = itertools.combinations_with_replacement(range(R), degree - 2)
    heads = np.fromiter(itertools.chain.from_iterable(combinations), dtype=np.intp).reshape(-1, degree - 2)
    left = heads[:, 0] + 1 <= R - heads[:, -1]
    rest = heads[~left]  # in the order of their first factor
    heads = heads[left]
    heads = heads[np.argsort(heads[:, -1], kind="stable")]
    start = heads[:, -1].copy()
    start[0] = 1  # the first head is the constant column alone
    return (
        np.concatenate([heads, rest]),
        np.concatenate([np.zeros(len(heads), dtype=np.intp), rest[:, -1]]),
        np.concatenate([heads[:, 0] + 1, np.full(len(rest), R)]),
        np.concatenate([start, np.zeros(len(rest), dtype=np.intp)]),
        np.concatenate([np.full(len(heads), R), rest[:, 0] + 1]),
    )


def _cut(most_rows: int, heads, low, high, start, stop) -> tuple[np.ndarray, ...]:
    """Cut segments of more rows than a matrix product may have."""
    parts = -(-(high - low) // most_rows)
    number = np.arange(parts.sum()) - np.repeat(np.cumsum(parts) - parts, parts)
    heads, low, high, start, stop, parts = (
        np.repeat(x, parts, axis=0) for x in (heads, low, high, start, stop, parts)
    )
    rows = high - low
    return heads, low + rows * number // parts, low + rows * (number + 1) // parts, start, stop
