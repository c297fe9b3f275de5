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

import numpy as np

from ._products import add_kept, row_products

#: Rows of a matrix product: the more, the quicker it is, until they leave the cache.
ROWS = 256
#: Heads share a matrix product as long as one column in so many is wasted at the most.
SHARED = 4

Prefix = tuple[int, ...]


@dataclass(frozen=True)
class Batch:
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
    """

    def __init__(self, r: int, degree: int):
        self.r, self.degree = r, degree
        self.heads, self.low, self.high, self.start, self.stop = _cut(*_segments(r + 1, degree))
        self.rows = self.high - self.low
        #: Places before each segment, and all of them.
        self.ends = np.concatenate([[0], np.cumsum(self.rows * (self.stop - self.start))])
        self.batches = list(self._batches())

    def __len__(self) -> int:
        return int(self.ends[-1])

    def _batches(self) -> Iterator[Batch]:
        start, stop, rows = self.start.tolist(), self.stop.tolist(), self.rows.tolist()
        first, begin, end, total = 0, start[0], stop[0], 0
        for s in range(len(rows)):
            # All that segments have in common must be nearly all that they have.
            shared = min(stop[s], stop[first]) - max(start[s], start[first])
            wide = max(end, stop[s]) - min(begin, start[s])
            if total and (total + rows[s] > ROWS or (wide - shared) * SHARED > wide):
                yield Batch(first, s, begin, end, total)
                first, begin, end, total = s, start[s], stop[s], 0
            begin, end, total = min(begin, start[s]), max(end, stop[s]), total + rows[s]
        yield Batch(first, len(rows), begin, end, total)

    def chunks(self, limit: int) -> list[list[Batch]]:
        """Return the batches in lists of about `limit` places."""
        out: list[list[Batch]] = [[]]
        for batch in self.batches:
            if out[-1] and self.ends[batch.last] - self.ends[out[-1][0].first] > limit:
                out.append([])
            out[-1].append(batch)
        return out

    def places(self, chunk: list[Batch]) -> slice:
        """Return the places of a chunk."""
        return slice(int(self.ends[chunk[0].first]), int(self.ends[chunk[-1].last]))

    def add(self, chunk: list[Batch], Z: np.ndarray, v: np.ndarray, out: np.ndarray) -> None:
        """Add Σ_t v_t φ_z(x_t) for all products z of a chunk, n multiply-adds each and few more.

        Parameters
        ----------
        chunk : list of Batch
        Z : (r + 1, n) array
            The columns; the first is the constant one.
        v : (n,) array
        out : (places,) array
        """
        U = np.empty((max(batch.rows for batch in chunk), Z.shape[1]))
        block = np.empty(max(batch.rows * (batch.end - batch.begin) for batch in chunk))
        origin = self.places(chunk).start
        for batch in chunk:
            part, wide = slice(batch.first, batch.last), batch.end - batch.begin
            rows = U[: batch.rows]
            row_products(Z, v, self.heads[part], self.low[part], self.high[part], rows)
            product = block[: batch.rows * wide].reshape(batch.rows, wide)
            np.matmul(rows, Z[batch.begin : batch.end].T, out=product)
            kept = out[self.ends[batch.first] - origin : self.ends[batch.last] - origin]
            add_kept(product, batch.begin, self.rows[part], self.start[part], self.stop[part], kept)

    def members(self, places: np.ndarray) -> list[Prefix]:
        """Return the products at some places, by the numbers of their columns."""
        s = np.searchsorted(self.ends, places, side="right") - 1
        row, column = np.divmod(places - self.ends[s], self.stop[s] - self.start[s])
        factors = np.column_stack([self.heads[s], self.low[s] + row, self.start[s] + column])
        return [tuple(j - 1 for j in z if j) for z in np.sort(factors, axis=1).tolist()]

    def degrees(self, chunk: list[Batch]) -> np.ndarray:
        """Return the number of factors of all products of a chunk."""
        part = slice(chunk[0].first, chunk[-1].last)
        segment = np.repeat(np.arange(part.start, part.stop), self.rows[part])
        row = np.arange(len(segment)) - np.repeat(
            np.cumsum(self.rows[part]) - self.rows[part], self.rows[part]
        )
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


def _cut(heads, low, high, start, stop) -> tuple[np.ndarray, ...]:
    """Cut segments of more rows than a matrix product may have."""
    parts = -(-(high - low) // ROWS)
    number = np.arange(parts.sum()) - np.repeat(np.cumsum(parts) - parts, parts)
    heads, low, high, start, stop, parts = (
        np.repeat(x, parts, axis=0) for x in (heads, low, high, start, stop, parts)
    )
    rows = high - low
    return heads, low + rows * number // parts, low + rows * (number + 1) // parts, start, stop
