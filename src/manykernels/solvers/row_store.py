"""Rows, residuals, weights and bins in tiles, in memory or in scratch files.

Files are read and written by plain calls, not mapped, so that resident memory does not grow with the number of rows.
Both kinds hold the same numbers: a fit ends in the same bits.
"""

from __future__ import annotations

import itertools
import os
import tempfile
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import issparse

from .._threads import map_in_threads
from ..features import Grids

#: Rows of a tile.
TILE = 65_536
#: Tiles are summed up along lanes, one after the other, and the lanes' sums in order: one lane per this many rows.
LANE_ROWS, MOST_LANES = 100_000, 8


class _Memory:
    """Arrays, one per tile."""

    def __init__(self):
        self.parts: list[np.ndarray] = []

    def append(self, values: np.ndarray) -> None:
        self.parts.append(values)

    def get(self, tile: int, row: int | slice | None = None) -> np.ndarray:
        return self.parts[tile] if row is None else self.parts[tile][row]

    def put(self, tile: int, values: np.ndarray, part: slice | None = None) -> None:
        if values is not self.parts[tile] and values.base is not self.parts[tile]:  # else it is there already
            self.parts[tile][slice(None) if part is None else part] = values

    def close(self) -> None:
        self.parts = []


class _File:
    """Arrays of one type, one per tile, in an unnamed file."""

    def __init__(self, directory: str | None):
        handle, path = tempfile.mkstemp(prefix="manykernels-", dir=directory)
        os.unlink(path)  # it vanishes with the process, however that ends
        self.handle = handle
        self.places: list[tuple[int, tuple[int, ...], np.dtype]] = []
        self.end = 0

    def append(self, values: np.ndarray) -> None:
        self.places.append((self.end, values.shape, values.dtype))
        self._write(np.ascontiguousarray(values), self.end)
        self.end += values.nbytes

    def get(self, tile: int, row: int | slice | None = None) -> np.ndarray:
        first, shape, dtype = self.places[tile]
        if isinstance(row, slice):
            first += self._offset(tile, row.start)
            shape = (row.stop - row.start, *shape[1:])
        elif row is not None:
            first += self._offset(tile, row)
            shape = shape[1:]
        out = np.empty(shape, dtype)
        view, done = memoryview(out.reshape(-1).view(np.uint8)), 0
        while done < len(view):
            done += os.preadv(self.handle, [view[done:]], first + done)
        return out

    def put(self, tile: int, values: np.ndarray, part: slice | None = None) -> None:
        self._write(values, self.places[tile][0] + (0 if part is None else self._offset(tile, part.start)))

    def _offset(self, tile: int, row: int) -> int:
        """Return where a row begins, in bytes from the tile's beginning."""
        _, shape, dtype = self.places[tile]
        return row * int(np.prod(shape[1:])) * dtype.itemsize

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
        Those of every map with bins, whose bins are computed when rows come in.
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
        def place(large):
            return _File(directory) if scratch or large else _Memory()

        self.grids = grids
        self.keep_rows = keep_rows
        per_row = sum(len(g) * g.dtype.itemsize for g in grids)
        self._bins = [place(n_rows is None or n_rows * per_row > bins_in_memory) for _ in grids]
        self._rows, self._residuals, self._weights = place(False), place(False), place(False)
        self.tiles: list[tuple[int, int]] = []
        self._waiting: list[tuple[Any, np.ndarray, np.ndarray]] = []
        self.n_rows = self._n_waiting = 0

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
        for field, grids in zip(self._bins, self.grids, strict=True):
            bins = np.empty((len(grids), n), dtype=grids.dtype)
            map_in_threads(
                partial(_fill, grids, X, bins), itertools.pairwise(np.linspace(0, n, 9).astype(int))
            )
            field.append(bins)
        if self.keep_rows:
            self._rows.append(X)
        self._residuals.append(np.concatenate([p[1] for p in parts]).astype(np.float32))
        self._weights.append(np.concatenate([p[2] for p in parts]).astype(np.float32))
        self.tiles.append((self.n_rows, self.n_rows + n))
        self.n_rows += n

    def close_input(self) -> None:
        """There are no more rows."""
        if self._n_waiting:
            self._put_away()

    @property
    def lanes(self) -> list[list[int]]:
        """Return the tiles in groups; sums run along a group, then over the groups, whatever the threads do."""
        count = min(MOST_LANES, max(1, self.n_rows // LANE_ROWS), max(1, len(self.tiles)))
        return [part.tolist() for part in np.array_split(np.arange(len(self.tiles)), count)]

    def strips(self, rows: int) -> list[list[tuple[int, slice]]]:
        """Return strips of at most so many rows of a tile, in at most MOST_LANES groups of neighbours.

        Finer than `lanes`, for sums that are small and work that is not.
        """
        pieces = [
            (tile, slice(first, min(first + rows, b - a)))
            for tile, (a, b) in enumerate(self.tiles)
            for first in range(0, b - a, rows)
        ]
        edges = np.linspace(0, len(pieces), min(MOST_LANES, len(pieces)) + 1).astype(int)
        return [pieces[first:last] for first, last in itertools.pairwise(edges)]

    def bins(self, tile: int, place: int, grid: int) -> np.ndarray:
        """Return the bins of a tile's rows in a grid of a map."""
        return self._bins[place].get(tile, grid)

    def rows(self, tile: int, part: slice | None = None) -> np.ndarray:
        """Return the rows of a tile, or some of them."""
        return self._rows.get(tile, part)

    def weights(self, tile: int, part: slice | None = None) -> np.ndarray:
        """Return the weights of a tile's rows, or of some."""
        return self._weights.get(tile, part)

    def residuals(self, tile: int, part: slice | None = None) -> np.ndarray:
        """Return the residuals of a tile's rows, or of some, to be changed and put back."""
        return self._residuals.get(tile, part)

    def put_residuals(self, tile: int, R: np.ndarray, part: slice | None = None) -> None:
        """Store changed residuals."""
        self._residuals.put(tile, R, part)

    def all_residuals(self) -> np.ndarray:
        """Return the residuals of all rows, a copy."""
        return np.concatenate([self.residuals(tile) for tile in range(len(self.tiles))])

    def restore_residuals(self, R: np.ndarray) -> None:
        """Set the residuals of all rows."""
        if len(R) != self.n_rows:
            raise ValueError(
                f"the checkpoint is about {len(R):,} rows, but the source holds {self.n_rows:,}; start afresh."
            )
        for tile, (a, b) in enumerate(self.tiles):
            self.put_residuals(tile, np.ascontiguousarray(R[a:b]))

    def close(self) -> None:
        """Give files and memory back."""
        for field in (*self._bins, self._rows, self._residuals, self._weights):
            field.close()


def dense(X) -> np.ndarray:
    """Return rows as an array."""
    return X.toarray() if issparse(X) else np.asarray(X)


def _fill(grids: Grids, X, bins, edges) -> None:
    """Compute the bins of some rows."""
    a, b = edges
    bins[:, a:b] = grids.bins(X[a:b])
