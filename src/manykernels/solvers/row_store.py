"""Rows, residuals, weights and bins in tiles, in memory or in scratch files.

Where there are bins, the rows of a tile are put in an order in which neighbours share them.

Files are read and written by plain calls, not mapped, so that resident memory does not grow with the number of rows.
Both kinds hold the same numbers: a fit ends in the same bits.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from typing import Any

import numpy as np
from scipy.sparse import issparse

from .._blocks import even_parts, widened
from .._numba.binning import number_bins
from .._threads import map_in_threads
from ..features import Grids

#: Rows of a tile.
TILE = 65_536
#: Rows are summed up along lanes, one after the other, and the lanes' sums in order: one lane per this many rows.
LANE_ROWS, MOST_LANES = 50_000, 8

#: Pages that are shared, as they are by default, would be kept when they are given back.
PRIVATE = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}

#: Some rows of a tile: its number, the first row, and the one after the last.
Piece = tuple[int, int, int]


class _Memory:
    """Arrays, one per tile."""

    def __init__(self):
        self.parts: list[np.ndarray] = []

    def append(self, values: np.ndarray) -> None:
        self.parts.append(values)

    def get(self, piece: Piece, grid: int | None = None) -> np.ndarray:
        tile, a, b = piece
        return self.parts[tile][a:b] if grid is None else self.parts[tile][grid, a:b]

    def put(self, piece: Piece, values: np.ndarray) -> None:
        place = self.get(piece)
        if not np.may_share_memory(values, place):
            place[...] = values

    def close(self) -> None:
        self.parts = []


class _Pages(_Memory):
    """The same, in pages of their own that are given back line by line, each to the system at once."""

    def __init__(self):
        super().__init__()
        self.maps: list[mmap.mmap] = []

    def empty(self, shape: tuple[int, ...], dtype) -> np.ndarray:
        """Return room for the next tile."""
        size = int(np.prod(shape))
        self.maps.append(mmap.mmap(-1, max(1, size * dtype.itemsize), **PRIVATE))
        return np.frombuffer(self.maps[-1], dtype, size).reshape(shape)

    def forget(self, line: int) -> None:
        for pages, values in zip(self.maps, self.parts, strict=True):
            length = values.shape[1] * values.itemsize
            a, b = -(-line * length // mmap.PAGESIZE), (line + 1) * length // mmap.PAGESIZE
            if a < b and hasattr(mmap, "MADV_DONTNEED"):
                pages.madvise(mmap.MADV_DONTNEED, a * mmap.PAGESIZE, (b - a) * mmap.PAGESIZE)

    def close(self) -> None:
        super().close()
        self.maps = []


class _File:
    """Arrays of one type, one per tile, in an unnamed file."""

    def __init__(self, directory: str | None):
        handle, path = tempfile.mkstemp(prefix="manykernels-", dir=directory)
        os.unlink(path)  # it vanishes with the process, however that ends
        self.handle = handle
        self.places: list[tuple[int, tuple[int, ...], np.dtype]] = []
        self.end = 0

    def empty(self, shape: tuple[int, ...], dtype) -> np.ndarray:
        """Return room for the next tile."""
        return np.empty(shape, dtype)

    def forget(self, line: int) -> None:
        """Keep it: a file takes no memory."""

    def append(self, values: np.ndarray) -> None:
        self.places.append((self.end, values.shape, values.dtype))
        self._write(np.ascontiguousarray(values), self.end)
        self.end += values.nbytes

    def get(self, piece: Piece, grid: int | None = None) -> np.ndarray:
        tile, a, b = piece
        first, shape, dtype = self.places[tile]
        if grid is not None:
            shape = shape[1:]
            first += grid * int(np.prod(shape)) * dtype.itemsize
        out = np.empty((b - a, *shape[1:]), dtype)
        first += a * int(np.prod(shape[1:])) * dtype.itemsize
        view, done = memoryview(out.reshape(-1).view(np.uint8)), 0
        while done < len(view):
            done += os.preadv(self.handle, [view[done:]], first + done)
        return out

    def put(self, piece: Piece, values: np.ndarray) -> None:
        tile, a, _ = piece
        first, shape, dtype = self.places[tile]
        self._write(values, first + a * int(np.prod(shape[1:])) * dtype.itemsize)

    def _write(self, values, first) -> None:
        view, done = memoryview(values.reshape(-1).view(np.uint8)), 0
        while done < len(view):
            done += os.pwrite(self.handle, view[done:], first + done)

    def close(self) -> None:
        if self.handle >= 0:
            os.close(self.handle)
            self.handle = -1


class RowStore:
    """What a fit visits over and over, tile by tile.

    Parameters
    ----------
    grids : list of Grids
        Those of every map with bins, which are computed and numbered when rows come in.
    keep_rows : bool
        Whether rows are needed later: for maps without bins.
    scratch : bool
        Whether to keep everything in files.
    bins_in_memory : int
        Bytes of bins to expect at most in memory; beyond it, a file holds them. Ignored with `scratch`.
    directory : str or None
        Where files go; the system's temporary folder by default.
    n_rows : int or None
        How many rows there will be, if known: for the choice between memory and file.

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
    ):
        def place(large=False, memory=_Memory):
            return _File(directory) if scratch or large else memory()

        self.grids = grids
        self.keep_rows = keep_rows
        per_row = sum(len(g) * g.dtype.itemsize for g in grids)
        self.slots = [np.zeros((len(g), g.width), g.dtype) for g in grids]
        self.seen = [np.zeros(len(g), np.int64) for g in grids]
        self._bins = [place(n_rows is None or n_rows * per_row > bins_in_memory, _Pages) for _ in grids]
        self._rows, self._residuals, self._weights = place(), place(), place()
        self.tiles: list[tuple[int, int]] = []
        self._places: list[np.ndarray] = []
        self._waiting: list[tuple[Any, np.ndarray, np.ndarray]] = []
        self.n_rows = self._n_waiting = self.n_outputs = 0

    def append(self, X, Y, s) -> None:
        """Take rows, targets (the first residuals) and weights; full tiles are put away."""
        a = 0
        while a < len(Y):
            b = min(len(Y), a + TILE - self._n_waiting)
            self._waiting.append((X[a:b], Y[a:b], s[a:b]))
            self._n_waiting += b - a
            if self._n_waiting == TILE:
                self._put_away()
            a = b

    def _put_away(self) -> None:
        parts, self._waiting, self._n_waiting = self._waiting, [], 0
        X = dense(parts[0][0]) if len(parts) == 1 else np.concatenate([dense(p[0]) for p in parts])
        n = len(X)
        order = self.grids[0].order(X) if self.grids else np.arange(n)
        for place, grids in enumerate(self.grids):
            self._bins[place].append(self._numbered(place, grids, X, order))
        if self.keep_rows:
            self._rows.append(X[order] if self.grids else X)
        Y = np.concatenate([p[1] for p in parts])
        self.n_outputs = Y.shape[1]
        self._residuals.append(widened(Y[order]))
        self._weights.append(np.concatenate([p[2] for p in parts])[order].astype(np.float32))
        places = np.empty(n, dtype=np.int32)
        places[order] = np.arange(n)
        self._places.append(places)
        self.tiles.append((self.n_rows, self.n_rows + n))
        self.n_rows += n

    def _numbered(self, place: int, grids: Grids, X, order) -> np.ndarray:
        """Return the numbers of a tile's bins, (g, n): bins in parts of the rows, then their numbers grid by grid."""
        bins = self._bins[place].empty((len(grids), len(X)), grids.dtype)
        slots, seen = self.slots[place], self.seen[place]

        def fill(edges):
            a, b = edges
            grids.bins(X[order[a:b]], out=bins[:, a:b])

        def number(edges):
            a, b = edges
            number_bins(bins[a:b], slots[a:b], seen[a:b])

        for work, count in ((fill, len(X)), (number, len(grids))):
            map_in_threads(work, even_parts(count, 8))
        return bins

    def close_input(self) -> None:
        """There are no more rows."""
        if self._n_waiting:
            self._put_away()

    @property
    def lanes(self) -> list[list[Piece]]:
        """Return the rows in groups of equal size; sums run along each, then over all, whatever the threads do."""
        count = min(MOST_LANES, max(1, self.n_rows // LANE_ROWS))
        return [
            [
                (tile, max(a, first) - first, min(b, last) - first)
                for tile, (first, last) in enumerate(self.tiles)
                if max(a, first) < min(b, last)
            ]
            for a, b in even_parts(self.n_rows, count)
        ]

    def strips(self, rows: int) -> list[list[Piece]]:
        """Return pieces of at most so many rows, in at most MOST_LANES groups of neighbours.

        Finer than `lanes`, for sums that are small and work that is not.
        """
        pieces = [
            (tile, first, min(first + rows, b - a))
            for tile, (a, b) in enumerate(self.tiles)
            for first in range(0, b - a, rows)
        ]
        return [pieces[a:b] for a, b in even_parts(len(pieces), min(MOST_LANES, len(pieces)))]

    @property
    def whole(self) -> list[Piece]:
        """Return all tiles as pieces."""
        return [(tile, 0, b - a) for tile, (a, b) in enumerate(self.tiles)]

    def bins(self, piece: Piece, place: int, grid: int) -> np.ndarray:
        """Return the numbers of the bins of a piece's rows in a grid of a map."""
        return self._bins[place].get(piece, grid)

    def forget_bins(self, place: int, grid: int) -> None:
        """Give the memory of a grid's bins back: nobody will ask for them again."""
        self._bins[place].forget(grid)

    def rows(self, piece: Piece) -> np.ndarray:
        """Return the rows of a piece."""
        return self._rows.get(piece)

    def weights(self, piece: Piece) -> np.ndarray:
        """Return the weights of a piece's rows."""
        return self._weights.get(piece)

    def residuals(self, piece: Piece) -> np.ndarray:
        """Return the residuals of a piece's rows, to be changed and put back; zeros up to `product_width`."""
        return self._residuals.get(piece)

    def residuals_of(self, rows: np.ndarray) -> np.ndarray:
        """Return the residuals of some rows by their numbers, in ascending order, as they came in."""
        parts = []
        for piece, places, (a, b) in zip(self.whole, self._places, self.tiles, strict=True):
            inside = rows[(rows >= a) & (rows < b)] - a
            if len(inside):
                parts.append(self.residuals(piece)[places[inside], : self.n_outputs])
        return np.concatenate(parts)

    def put_residuals(self, piece: Piece, R: np.ndarray) -> None:
        """Store changed residuals."""
        self._residuals.put(piece, R)

    def all_residuals(self) -> np.ndarray:
        """Return the residuals of all rows, a copy, in the order of the tiles."""
        return np.concatenate([self.residuals(piece) for piece in self.whole])

    def restore_residuals(self, R: np.ndarray) -> None:
        """Set the residuals of all rows, in the order of the tiles."""
        if len(R) != self.n_rows:
            raise ValueError(
                f"the checkpoint is about {len(R):,} rows, but the source holds {self.n_rows:,}; start afresh."
            )
        for piece, (a, b) in zip(self.whole, self.tiles, strict=True):
            self.put_residuals(piece, np.ascontiguousarray(R[a:b]))

    def close(self) -> None:
        """Give files and memory back."""
        for field in (*self._bins, self._rows, self._residuals, self._weights):
            field.close()


def dense(X) -> np.ndarray:
    """Return rows as an array."""
    return X.toarray() if issparse(X) else np.asarray(X)
