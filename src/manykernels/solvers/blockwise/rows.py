"""Rows, residuals, weights and bins of a fit, in memory or in scratch files.

Rows come in chunk by chunk. Where there are bins, the rows of a chunk are put in an order in which neighbours share
them. Files and memory hold the same numbers, so that a fit ends in the same bits. Files are read and written by plain
calls, not mapped, so that resident memory does not grow with the number of rows.

The words: a *chunk* is rows that came in and lie together, a *span* any neighbouring rows, a *tile* those of which
features are made at once, a *lane* those that are summed up one after the other.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from ..._util.arrays import even_parts, product_width
from ..._util.shapes import Stored, check_arrays
from ..._util.threads import map_in_threads
from ...features import Grids, plain_rows
from ...features._bins import lay_down, number_bins
from ...kernels.statistics import dense

#: Most lanes. Every lane has a table of sums, so that more of them cost time: 8 lanes for 465,000 rows take 1.3 times
#: as long as 4.
MOST_LANES = 8
#: Pages that are shared, as they are by default, would be kept when they are given back.
PRIVATE = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}

#: Some neighbouring rows: the first, and the one after the last.
Span = tuple[int, int]


@dataclass(frozen=True)
class Sizes:
    """How many rows are taken at once; results depend on it in the last bits.

    Attributes
    ----------
    chunk : int
        Rows as they come in, and at most as many as are read back at once.
    lane : int
        Rows are summed up along lanes, one after the other, and the lanes' sums in order: one lane per this many rows.
    tile : int
        Rows that dense features are made for at a time.
    kept : int
        Bytes of dense features that are kept until the step; the other rows' are made twice. By default all of 60,000
        rows in blocks of 512.
    """

    chunk: int = 65_536
    lane: int = 100_000
    tile: int = 1024
    kept: int = 2**27


class RowStore:
    """What a fit visits over and over, chunk by chunk.

    Parameters
    ----------
    grids : list of Grids
        Those of every map with bins, which are computed and numbered when rows come in.
    keep_rows : bool
        Whether rows are needed later: for maps without bins.
    scratch : bool
        Whether to keep everything in files.
    bins_in_memory : int
        Bytes of bins at most in memory; beyond it, a file holds them. Ignored with `scratch`.
    directory : str or None
        Where files go; the system's temporary folder by default.
    n_rows : int or None
        How many rows there will be; everything is kept in files if nobody knows.
    sizes : Sizes

    Attributes
    ----------
    slots : list of (g, width) arrays
        For every map the number of each bin, in the order in which rows met them; 0 for those that none met.
    seen : list of (g,) arrays of int
        How many bins were met in each grid.
    """

    def __init__(
        self,
        grids: list[Grids],
        *,
        keep_rows,
        scratch=False,
        directory=None,
        n_rows=None,
        bins_in_memory=2**29,
        sizes: Sizes = Sizes(),
    ):
        self.sizes = sizes
        self.grids = grids
        self.keep_rows = keep_rows
        self.slots = [np.zeros((len(g), g.width), g.dtype) for g in grids]
        self.seen = [np.zeros(len(g), np.int64) for g in grids]
        self._bins: Lines | LinesFile
        self._rows: Any
        self._residuals: Any
        self._weights: Any
        if scratch or n_rows is None:
            self._rows, self._residuals, self._weights = (File(directory, sizes.chunk) for _ in range(3))
            n_rows = None
        else:
            self._rows, self._residuals, self._weights = Views(sizes.chunk), Array(n_rows), Array(n_rows)
        n_lines, dtype = sum(map(len, grids)), np.result_type(np.uint16, *(g.dtype for g in grids))
        if n_rows is not None and n_rows * n_lines * dtype.itemsize <= bins_in_memory:
            self._bins = Lines(n_lines, n_rows, dtype)
        else:
            self._bins = LinesFile(n_lines, dtype, directory, sizes.chunk)
        self.chunks: list[Span] = []
        self._waiting: list[tuple[Any, np.ndarray, np.ndarray]] = []
        self.n_rows = self._n_waiting = self.n_outputs = 0

    def append(self, X, Y, s) -> None:
        """Take rows, targets (the first residuals) and weights; full chunks are put away."""
        a = 0
        while a < len(Y):
            b = min(len(Y), a + self.sizes.chunk - self._n_waiting)
            self._waiting.append((X[a:b], Y[a:b], s[a:b]))
            self._n_waiting += b - a
            if self._n_waiting == self.sizes.chunk:
                self._put_away()
            a = b

    def _put_away(self) -> None:
        parts, self._waiting, self._n_waiting = self._waiting, [], 0
        X, Y, s = (joined([dense(part) for part in some]) for some in zip(*parts, strict=True))
        n, self.n_outputs = Y.shape
        order = np.arange(n)
        if self.grids:
            X = plain_rows(X)
            order = self.grids[0].order(X)
            self._bins.append(self._numbered(X, order))
        if self.keep_rows:
            self._rows.append(X[order] if self.grids else X)
        residuals, weights = self._residuals.room(n, product_width(self.n_outputs)), self._weights.room(n)

        def fill(edges):
            lay_down(order[slice(*edges)], edges[0], Y, s, residuals, weights)

        map_in_threads(fill, even_parts(n, 8))
        self._residuals.append(residuals)
        self._weights.append(weights)
        self.chunks.append((self.n_rows, self.n_rows + n))
        self.n_rows += n

    def _numbered(self, X, order) -> np.ndarray:
        """Return the numbers of a chunk's bins, line by line: bins in parts of the rows, then their numbers."""
        room, first = self._bins.room(len(X)), 0
        for grids, slots, seen in zip(self.grids, self.slots, self.seen, strict=True):
            lines = room[first : first + len(grids)]
            first += len(grids)

            def fill(edges, grids=grids, lines=lines):
                a, b = edges
                grids.bins(X, lines[:, a:b], order[a:b])

            def number(edges, lines=lines, slots=slots, seen=seen):
                a, b = edges
                number_bins(lines[a:b], slots[a:b], seen[a:b])

            for work, count in ((fill, len(X)), (number, len(grids))):
                map_in_threads(work, even_parts(count, 8))
        return room

    def close_input(self) -> None:
        """There are no more rows."""
        if self._n_waiting:
            self._put_away()

    @property
    def lanes(self) -> list[Span]:
        """Return the rows in groups of equal size; sums run along each, then over all, whatever the threads do."""
        return even_parts(self.n_rows, min(MOST_LANES, max(1, self.n_rows // self.sizes.lane)))

    def spans(self, lane: Span) -> list[Span]:
        """Return the spans in which to go along a lane: one, or as many as files are read in."""
        return cut(*lane, self.sizes.chunk, self.sizes.chunk) if self.lines is None else [lane]

    def tiles(self, rows: int) -> list[list[Span]]:
        """Return spans of at most so many rows, in at most MOST_LANES groups of neighbours.

        Finer than `lanes`, for sums that are small and work that is not.
        """
        spans = cut(0, self.n_rows, rows, self.sizes.chunk)
        return [spans[a:b] for a, b in even_parts(len(spans), min(MOST_LANES, len(spans)))]

    @property
    def lines(self) -> np.ndarray | None:
        """The numbers of all rows' bins, a line for every grid, map after map; None where a file holds them."""
        return self._bins.values if isinstance(self._bins, Lines) else None

    def bins(self, span: Span, line: int) -> np.ndarray:
        """Return the numbers of the bins of a span's rows in a grid."""
        return self._bins.get(span, line)

    def forget_bins(self, line: int) -> None:
        """Give the memory of a grid's bins back: nobody will ask for them again."""
        self._bins.forget(line)

    def rows(self, span: Span) -> np.ndarray:
        """Return the rows of a span."""
        return self._rows.get(span)

    def weights(self, span: Span) -> np.ndarray:
        """Return the weights of a span's rows."""
        return self._weights.get(span)

    def residuals(self, span: Span) -> np.ndarray:
        """Return the residuals of a span's rows, to be changed and put back; zeros up to `product_width`."""
        return self._residuals.get(span)

    def put_residuals(self, span: Span, R: np.ndarray) -> None:
        """Store changed residuals."""
        self._residuals.put(span, R)

    def all_residuals(self) -> np.ndarray:
        """Return the residuals of all rows, a copy, in the order of the chunks."""
        return np.concatenate([self.residuals(chunk) for chunk in self.chunks])

    def restore_residuals(self, R: np.ndarray) -> None:
        """Set the residuals of all rows, in the order of the chunks."""
        shape = Stored(f"{self.n_rows} {product_width(self.n_outputs)}")
        check_arrays({"residuals": R}, {"residuals": shape})
        R = R.astype(np.float32, copy=False)
        for a, b in self.chunks:
            self.put_residuals((a, b), np.ascontiguousarray(R[a:b]))

    def close(self) -> None:
        """Give files and memory back."""
        for field in (self._bins, self._rows, self._residuals, self._weights):
            field.close()


def joined(parts: list[np.ndarray]) -> np.ndarray:
    """Return arrays as one, a single one as it is."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


# -- where values of rows lie ---------------------------------------------------------------------------


class Views:
    """Rows in memory, in the arrays they came in."""

    def __init__(self, chunk: int):
        self.chunk = chunk
        self.parts: list[np.ndarray] = []
        self.edges = [0]

    def append(self, values: np.ndarray) -> None:
        self.parts.append(values)
        self.edges.append(self.edges[-1] + len(values))

    def get(self, span: Span) -> np.ndarray:
        first, last = span
        at = bisect_right(self.edges, first) - 1
        if last <= self.edges[at + 1]:
            return self.parts[at][first - self.edges[at] : last - self.edges[at]]
        return np.concatenate([self.get(part) for part in cut(first, last, self.chunk, self.chunk)])

    def close(self) -> None:
        self.parts, self.edges = [], [0]


class Array:
    """Values of a known number of rows, in one array: any run of them is a view."""

    def __init__(self, n_rows: int):
        self.n_rows, self.end = n_rows, 0
        self.values = np.empty(0)

    def room(self, n_rows: int, *width: int) -> np.ndarray:
        """Return zeros for the next chunk, to be filled and handed to `append`."""
        if self.end == 0:
            self.values = np.zeros((self.n_rows, *width), np.float32)
        return self.values[self.end : self.end + n_rows]

    def append(self, values: np.ndarray) -> None:
        self.end += len(values)

    def get(self, span: Span) -> np.ndarray:
        return self.values[span[0] : span[1]]

    def put(self, span: Span, values: np.ndarray) -> None:
        place = self.get(span)
        if not np.may_share_memory(values, place):
            place[...] = values

    def close(self) -> None:
        self.values = np.empty(0)


class Lines:
    """A line of bins for every grid, in pages that are given back line by line, each to the system at once."""

    def __init__(self, n_lines: int, n_rows: int, dtype: np.dtype):
        self.pages: mmap.mmap | None = mmap.mmap(-1, max(1, n_lines * n_rows * dtype.itemsize), **PRIVATE)
        self.values = np.frombuffer(self.pages, dtype, n_lines * n_rows).reshape(n_lines, n_rows)
        self.end = 0

    def room(self, n_rows: int) -> np.ndarray:
        """Return room for the bins of the next chunk, to be handed to `append`."""
        return self.values[:, self.end : self.end + n_rows]

    def append(self, bins: np.ndarray) -> None:
        self.end += bins.shape[1]

    def get(self, span: Span, line: int) -> np.ndarray:
        return self.values[line, span[0] : span[1]]

    def forget(self, line: int) -> None:
        length = self.values.shape[1] * self.values.itemsize
        a, b = -(-line * length // mmap.PAGESIZE), (line + 1) * length // mmap.PAGESIZE
        if a < b and self.pages is not None and hasattr(mmap, "MADV_DONTNEED"):
            self.pages.madvise(mmap.MADV_DONTNEED, a * mmap.PAGESIZE, (b - a) * mmap.PAGESIZE)

    def close(self) -> None:
        self.values = np.empty((0, 0), self.values.dtype)
        self.pages = None  # unmapped with its last view


class File:
    """Values of rows, chunk by chunk, in an unnamed file; the rows of a span lie in one chunk."""

    def __init__(self, directory: str | None, chunk: int):
        self.chunk = chunk
        handle, path = tempfile.mkstemp(prefix="manykernels-", dir=directory)
        os.unlink(path)  # it vanishes with the process, however that ends
        self.handle = handle
        self.end = 0
        #: Where a chunk begins, and the shape and type of its rows: the type may change from one to the next.
        self.chunks: list[tuple[int, tuple[int, ...], np.dtype]] = []

    def room(self, n_rows: int, *width: int) -> np.ndarray:
        """Return zeros for the next chunk, to be filled and handed to `append`."""
        return np.zeros((n_rows, *width), np.float32)

    def append(self, values: np.ndarray) -> None:
        self.chunks.append((self.end, values.shape[1:], values.dtype))
        self.write(np.ascontiguousarray(values), self.end)
        self.end += values.nbytes

    def get(self, span: Span) -> np.ndarray:
        place, shape, dtype = self._place(span)
        out = np.empty((span[1] - span[0], *shape), dtype)
        self.read(out, place)
        return out

    def put(self, span: Span, values: np.ndarray) -> None:
        self.write(values, self._place(span)[0])

    def _place(self, span: Span) -> tuple[int, tuple[int, ...], np.dtype]:
        """Return the byte at which a span begins, and the shape and type of its rows."""
        number, first = divmod(span[0], self.chunk)
        begin, shape, dtype = self.chunks[number]
        return begin + first * int(np.prod(shape)) * dtype.itemsize, shape, dtype

    def read(self, out: np.ndarray, first: int) -> None:
        """Fill an array from a byte on."""
        view, done = out.reshape(-1).view(np.uint8).data, 0
        while done < len(view):
            count = os.preadv(self.handle, [view[done:]], first + done)
            if count == 0:
                raise OSError("a scratch file ended before what was written to it; is the disk in order?")
            done += count

    def write(self, values: np.ndarray, first: int) -> None:
        """Write an array from a byte on."""
        view, done = values.reshape(-1).view(np.uint8).data, 0
        while done < len(view):
            done += os.pwrite(self.handle, view[done:], first + done)

    def close(self) -> None:
        if self.handle >= 0:
            os.close(self.handle)
            self.handle = -1


class LinesFile:
    """A line of bins for every grid, in an unnamed file: chunk by chunk, and line by line in each."""

    def __init__(self, n_lines: int, dtype: np.dtype, directory: str | None, chunk: int):
        self.file, self.chunk = File(directory, chunk), chunk
        self.n_lines, self.dtype = n_lines, dtype
        self.lengths: list[int] = []

    def room(self, n_rows: int) -> np.ndarray:
        """Return room for the bins of the next chunk, to be handed to `append`."""
        return np.empty((self.n_lines, n_rows), self.dtype)

    def append(self, bins: np.ndarray) -> None:
        self.file.append(bins)
        self.lengths.append(bins.shape[1])

    def get(self, span: Span, line: int) -> np.ndarray:
        """Return the bins of rows that lie in one chunk."""
        number, first = divmod(span[0], self.chunk)
        before = self.n_lines * number * self.chunk + line * self.lengths[number] + first
        out = np.empty(span[1] - span[0], self.dtype)
        self.file.read(out, before * self.dtype.itemsize)
        return out

    def forget(self, line: int) -> None:
        """Keep it: a file takes no memory."""

    def close(self) -> None:
        self.file.close()


def cut(first: int, last: int, rows: int, chunk: int) -> list[Span]:
    """Cut rows into spans that lie in one chunk and, counted from its beginning, in one tile of so many rows."""
    edges = [first]
    while edges[-1] < last:
        number, inside = divmod(edges[-1], chunk)
        edges.append(min(last, number * chunk + min(chunk, (inside // rows + 1) * rows)))
    return list(pairwise(edges))
