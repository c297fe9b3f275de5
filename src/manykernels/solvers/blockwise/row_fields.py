"""Where values of rows lie: in memory, or in scratch files.

Files are read and written by plain calls, not mapped, so that resident memory does not grow with the number of rows.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from bisect import bisect_right
from itertools import pairwise

import numpy as np

#: Rows of a tile: as they come in, and at most as many as are read back at once.
TILE = 65_536
#: Pages that are shared, as they are by default, would be kept when they are given back.
PRIVATE = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}

#: Some neighbouring rows: the first, and the one after the last.
Piece = tuple[int, int]


class Views:
    """Rows in memory, in the arrays they came in."""

    def __init__(self):
        self.parts: list[np.ndarray] = []
        self.edges = [0]

    def append(self, values: np.ndarray) -> None:
        self.parts.append(values)
        self.edges.append(self.edges[-1] + len(values))

    def get(self, piece: Piece) -> np.ndarray:
        first, last = piece
        at = bisect_right(self.edges, first) - 1
        if last <= self.edges[at + 1]:
            return self.parts[at][first - self.edges[at] : last - self.edges[at]]
        return np.concatenate([self.get(part) for part in cut(first, last, TILE)])

    def close(self) -> None:
        self.parts, self.edges = [], [0]


class Array:
    """Values of a known number of rows, in one array: any run of them is a view."""

    def __init__(self, n_rows: int):
        self.n_rows, self.end = n_rows, 0
        self.values = np.empty(0)

    def room(self, n_rows: int, *width: int) -> np.ndarray:
        """Return zeros for the next tile, to be filled and handed to `append`."""
        if self.end == 0:
            self.values = np.zeros((self.n_rows, *width), np.float32)
        return self.values[self.end : self.end + n_rows]

    def append(self, values: np.ndarray) -> None:
        self.end += len(values)

    def get(self, piece: Piece) -> np.ndarray:
        return self.values[piece[0] : piece[1]]

    def put(self, piece: Piece, values: np.ndarray) -> None:
        place = self.get(piece)
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
        """Return room for the bins of the next tile, to be handed to `append`."""
        return self.values[:, self.end : self.end + n_rows]

    def append(self, bins: np.ndarray) -> None:
        self.end += bins.shape[1]

    def get(self, piece: Piece, line: int) -> np.ndarray:
        return self.values[line, piece[0] : piece[1]]

    def forget(self, line: int) -> None:
        length = self.values.shape[1] * self.values.itemsize
        a, b = -(-line * length // mmap.PAGESIZE), (line + 1) * length // mmap.PAGESIZE
        if a < b and self.pages is not None and hasattr(mmap, "MADV_DONTNEED"):
            self.pages.madvise(mmap.MADV_DONTNEED, a * mmap.PAGESIZE, (b - a) * mmap.PAGESIZE)

    def close(self) -> None:
        self.values = np.empty((0, 0), self.values.dtype)
        self.pages = None  # unmapped with its last view


class File:
    """Values of rows, tile by tile, in an unnamed file; the rows of a piece lie in one tile."""

    def __init__(self, directory: str | None):
        handle, path = tempfile.mkstemp(prefix="manykernels-", dir=directory)
        os.unlink(path)  # it vanishes with the process, however that ends
        self.handle = handle
        self.end = 0
        #: Where a tile begins, and the shape and type of its rows: the type may change from one to the next.
        self.tiles: list[tuple[int, tuple[int, ...], np.dtype]] = []

    def room(self, n_rows: int, *width: int) -> np.ndarray:
        """Return zeros for the next tile, to be filled and handed to `append`."""
        return np.zeros((n_rows, *width), np.float32)

    def append(self, values: np.ndarray) -> None:
        self.tiles.append((self.end, values.shape[1:], values.dtype))
        self.write(np.ascontiguousarray(values), self.end)
        self.end += values.nbytes

    def get(self, piece: Piece) -> np.ndarray:
        place, shape, dtype = self._place(piece)
        out = np.empty((piece[1] - piece[0], *shape), dtype)
        self.read(out, place)
        return out

    def put(self, piece: Piece, values: np.ndarray) -> None:
        self.write(values, self._place(piece)[0])

    def _place(self, piece: Piece) -> tuple[int, tuple[int, ...], np.dtype]:
        """Return the byte at which a piece begins, and the shape and type of its rows."""
        tile, first = divmod(piece[0], TILE)
        begin, shape, dtype = self.tiles[tile]
        return begin + first * int(np.prod(shape)) * dtype.itemsize, shape, dtype

    def read(self, out: np.ndarray, first: int) -> None:
        """Fill an array from a byte on."""
        view, done = memoryview(out.reshape(-1).view(np.uint8)), 0
        while done < len(view):
            count = os.preadv(self.handle, [view[done:]], first + done)
            if count == 0:
                raise OSError("a scratch file ended before what was written to it; is the disk in order?")
            done += count

    def write(self, values: np.ndarray, first: int) -> None:
        """Write an array from a byte on."""
        view, done = memoryview(values.reshape(-1).view(np.uint8)), 0
        while done < len(view):
            done += os.pwrite(self.handle, view[done:], first + done)

    def close(self) -> None:
        if self.handle >= 0:
            os.close(self.handle)
            self.handle = -1


class LinesFile:
    """A line of bins for every grid, in an unnamed file: tile by tile, and line by line in each."""

    def __init__(self, n_lines: int, dtype: np.dtype, directory: str | None):
        self.file = File(directory)
        self.n_lines, self.dtype = n_lines, dtype
        self.lengths: list[int] = []

    def room(self, n_rows: int) -> np.ndarray:
        """Return room for the bins of the next tile, to be handed to `append`."""
        return np.empty((self.n_lines, n_rows), self.dtype)

    def append(self, bins: np.ndarray) -> None:
        self.file.append(bins)
        self.lengths.append(bins.shape[1])

    def get(self, piece: Piece, line: int) -> np.ndarray:
        """Return the bins of rows that lie in one tile."""
        tile, first = divmod(piece[0], TILE)
        before = self.n_lines * tile * TILE + line * self.lengths[tile] + first
        out = np.empty(piece[1] - piece[0], self.dtype)
        self.file.read(out, before * self.dtype.itemsize)
        return out

    def forget(self, line: int) -> None:
        """Keep it: a file takes no memory."""

    def close(self) -> None:
        self.file.close()


def cut(first: int, last: int, rows: int) -> list[Piece]:
    """Cut rows into pieces that lie in one tile and, counted from its beginning, in one strip of so many rows."""
    edges = [first]
    while edges[-1] < last:
        tile, inside = divmod(edges[-1], TILE)
        edges.append(min(last, tile * TILE + min(TILE, (inside // rows + 1) * rows)))
    return list(pairwise(edges))
