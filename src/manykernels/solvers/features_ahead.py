"""Features of a batch's rows, made ahead of the gradient steps that need them.

Steps follow one upon the other, but features do not depend on coefficients: while a step is taken, other threads make
those of the rows to come. What is made together does not depend on the number of threads, and so neither do results.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from .._threads import n_threads
from ..features import Block
from .row_store import dense

#: Most features of a tile, most of its rows, and tiles that are made ahead.
VALUES, ROWS, AHEAD = 2**20, 1024, 4
#: Fewest rows of a tile, however many features there are.
FEWEST = 16


@dataclass(frozen=True, eq=False)
class Tile:
    """Some rows of a batch.

    Attributes
    ----------
    rows : slice
        Which ones.
    X : (n, d) array, float32
    Z : (n, width) array, float32
        The features of the first blocks, side by side.
    n_blocks : int
        How many blocks these are.
    """

    rows: slice
    X: np.ndarray
    Z: np.ndarray
    n_blocks: int

    def cut(self, first: int, last: int) -> Tile:
        """Return the part from row `first` of the batch to row `last`."""
        part = slice(first - self.rows.start, last - self.rows.start)
        return Tile(slice(first, last), self.X[part], self.Z[part], self.n_blocks)

    def completed(self, blocks: list[Block]) -> Tile:
        """Return the tile with the features of all blocks."""
        if len(blocks) == self.n_blocks:
            return self
        late = features(self.X, blocks[self.n_blocks :])
        return Tile(self.rows, self.X, np.hstack([self.Z, late]), len(blocks))


class Ahead:
    """Tiles of the rows of a batch, in order.

    Parameters
    ----------
    X : array or sparse matrix
    blocks : list of Block
        Whoever draws another one appends it: tiles that are begun later have its features.
    size : int
        Rows of a step: a tile is made of whole steps, if there is room for one.
    """

    def __init__(self, X, blocks: list[Block], size: int):
        self.X, self.blocks, self.size = X, blocks, size
        self.begun = 0
        self.tiles: deque[tuple[int, Callable[[], Tile]]] = deque()
        several = n_threads() > 1 and X.shape[0] > self._rows()
        self.pool = ThreadPoolExecutor(n_threads()) if several else None

    def __enter__(self) -> Ahead:
        return self

    def __exit__(self, *_: object) -> None:
        if self.pool is not None:
            self.pool.shutdown(cancel_futures=True)

    def between(self, first: int, last: int) -> Iterator[Tile]:
        """Yield the tiles from row `first` to row `last`; rows before `first` are forgotten."""
        while first < last:
            while self.tiles and self.tiles[0][0] <= first:
                self.tiles.popleft()
            self.begin()
            tile = self.tiles[0][1]()
            end = min(last, tile.rows.stop)
            yield tile.cut(first, end).completed(self.blocks)
            first = end

    def begin(self) -> None:
        """Begin as many tiles as may be made ahead; on one thread, a tile is made when it is asked for."""
        n = self.X.shape[0]
        while len(self.tiles) < AHEAD and self.begun < n:
            rows = slice(self.begun, min(n, self.begun + self._rows()))
            make = partial(make_tile, self.X, rows, self.blocks[:])
            self.tiles.append(
                (rows.stop, cache(make) if self.pool is None else self.pool.submit(make).result)
            )
            self.begun = rows.stop

    def _rows(self) -> int:
        """Return the rows of the next tile."""
        width = sum(block.width for block in self.blocks)
        rows = min(ROWS, max(FEWEST, VALUES // max(1, width)))
        return rows - rows % self.size if rows >= self.size else -(-self.size // -(-self.size // rows))


def make_tile(X, rows: slice, blocks: list[Block]) -> Tile:
    """Return a tile with the features of some blocks."""
    single = np.ascontiguousarray(dense(X[rows]), dtype=np.float32)
    return Tile(rows, single, features(single, blocks), len(blocks))


def features(X: np.ndarray, blocks: list[Block]) -> np.ndarray:
    """Return the features of several blocks side by side, O(n d width)."""
    edges = np.cumsum([0, *(block.width for block in blocks)])
    Z = np.empty((len(X), edges[-1]), dtype=np.float32)
    for block, first in zip(blocks, edges[:-1].tolist(), strict=True):
        block.transform(X, Z, first)
    return Z
