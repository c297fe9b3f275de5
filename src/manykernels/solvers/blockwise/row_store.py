"""Rows, residuals, weights and bins, in memory or in scratch files.

Rows come in tile by tile. Where there are bins, the rows of a tile are put in an order in which neighbours share them.
Files and memory (``row_fields.py``) hold the same numbers: a fit ends in the same bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._util.arrays import even_parts, product_width
from ..._util.threads import map_in_threads
from ...features import Grids, plain_rows
from ...features._bins import lay_down, number_bins
from ...kernels.statistics import dense
from . import row_fields
from .row_fields import Array, File, Lines, LinesFile, Piece, Views, cut

#: Rows are summed up along lanes, one after the other, and the lanes' sums in order: one lane per this many rows.
#: Every lane has a table of sums, so that more of them cost time: 8 lanes for 465,000 rows take 1.3 times as long as 4.
LANE_ROWS, MOST_LANES = 100_000, 8


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
        Bytes of bins at most in memory; beyond it, a file holds them. Ignored with `scratch`.
    directory : str or None
        Where files go; the system's temporary folder by default.
    n_rows : int or None
        How many rows there will be; everything is kept in files if nobody knows.

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
        self.grids = grids
        self.keep_rows = keep_rows
        self.slots = [np.zeros((len(g), g.width), g.dtype) for g in grids]
        self.seen = [np.zeros(len(g), np.int64) for g in grids]
        self._bins: Lines | LinesFile
        self._rows: Any
        self._residuals: Any
        self._weights: Any
        if scratch or n_rows is None:
            self._rows, self._residuals, self._weights = (File(directory) for _ in range(3))
            n_rows = None
        else:
            self._rows, self._residuals, self._weights = Views(), Array(n_rows), Array(n_rows)
        n_lines, dtype = sum(map(len, grids)), np.result_type(np.uint16, *(g.dtype for g in grids))
        if n_rows is not None and n_rows * n_lines * dtype.itemsize <= bins_in_memory:
            self._bins = Lines(n_lines, n_rows, dtype)
        else:
            self._bins = LinesFile(n_lines, dtype, directory)
        self.tiles: list[Piece] = []
        self._places: list[np.ndarray] = []
        self._waiting: list[tuple[Any, np.ndarray, np.ndarray]] = []
        self.n_rows = self._n_waiting = self.n_outputs = 0

    def append(self, X, Y, s) -> None:
        """Take rows, targets (the first residuals) and weights; full tiles are put away."""
        a = 0
        while a < len(Y):
            b = min(len(Y), a + row_fields.TILE - self._n_waiting)
            self._waiting.append((X[a:b], Y[a:b], s[a:b]))
            self._n_waiting += b - a
            if self._n_waiting == row_fields.TILE:
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
        places = np.empty(n, dtype=np.int32)

        def fill(edges):
            lay_down(order[slice(*edges)], edges[0], Y, s, residuals, weights, places)

        map_in_threads(fill, even_parts(n, 8))
        self._residuals.append(residuals)
        self._weights.append(weights)
        self._places.append(places)
        self.tiles.append((self.n_rows, self.n_rows + n))
        self.n_rows += n

    def _numbered(self, X, order) -> np.ndarray:
        """Return the numbers of a tile's bins, line by line: bins in parts of the rows, then their numbers."""
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
    def lanes(self) -> list[Piece]:
        """Return the rows in groups of equal size; sums run along each, then over all, whatever the threads do."""
        return even_parts(self.n_rows, min(MOST_LANES, max(1, self.n_rows // LANE_ROWS)))

    def pieces(self, lane: Piece) -> list[Piece]:
        """Return the pieces in which to go along a lane: one, or as many as files are read in."""
        return cut(*lane, row_fields.TILE) if self.lines is None else [lane]

    def strips(self, rows: int) -> list[list[Piece]]:
        """Return pieces of at most so many rows, in at most MOST_LANES groups of neighbours.

        Finer than `lanes`, for sums that are small and work that is not.
        """
        pieces = cut(0, self.n_rows, rows)
        return [pieces[a:b] for a, b in even_parts(len(pieces), min(MOST_LANES, len(pieces)))]

    @property
    def lines(self) -> np.ndarray | None:
        """The numbers of all rows' bins, a line for every grid, map after map; None where a file holds them."""
        return self._bins.values if isinstance(self._bins, Lines) else None

    def bins(self, piece: Piece, line: int) -> np.ndarray:
        """Return the numbers of the bins of a piece's rows in a grid."""
        return self._bins.get(piece, line)

    def forget_bins(self, line: int) -> None:
        """Give the memory of a grid's bins back: nobody will ask for them again."""
        self._bins.forget(line)

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
        for (a, b), places in zip(self.tiles, self._places, strict=True):
            inside = rows[(rows >= a) & (rows < b)] - a
            if len(inside):
                parts.append(self.residuals((a, b))[places[inside], : self.n_outputs])
        return np.concatenate(parts)

    def put_residuals(self, piece: Piece, R: np.ndarray) -> None:
        """Store changed residuals."""
        self._residuals.put(piece, R)

    def all_residuals(self) -> np.ndarray:
        """Return the residuals of all rows, a copy, in the order of the tiles."""
        return np.concatenate([self.residuals(tile) for tile in self.tiles])

    def restore_residuals(self, R: np.ndarray) -> None:
        """Set the residuals of all rows, in the order of the tiles."""
        if len(R) != self.n_rows:
            raise ValueError(
                f"the checkpoint is about {len(R):,} rows, but the source holds {self.n_rows:,}; start afresh."
            )
        for a, b in self.tiles:
            self.put_residuals((a, b), np.ascontiguousarray(R[a:b]))

    def close(self) -> None:
        """Give files and memory back."""
        for field in (self._bins, self._rows, self._residuals, self._weights):
            field.close()


def joined(parts: list[np.ndarray]) -> np.ndarray:
    """Return arrays as one, a single one as it is."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
