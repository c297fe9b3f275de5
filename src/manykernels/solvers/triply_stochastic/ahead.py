"""Features of a batch's rows, made ahead of the gradient steps that need them.

Steps follow one upon the other, but features do not depend on coefficients: while a step is taken, other threads make
those of the rows to come. What is made together does not depend on the number of threads, and so neither do results.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np

from ..._util.threads import n_threads
from ...features import Block, FourierBlocks
from ...kernels.statistics import dense

#: Most features of a tile: 2 MiB go from one core's cache to another. Most of its rows, and tiles that are made ahead.
TILE_VALUES, TILE_ROWS, TILES_AHEAD = 2**19, 512, 4
#: Values up to which rows are made single at once: blocks have to look whether larger ones keep enough digits.
NEAR = 64.0
#: Fewest rows of a tile, however many features there are.
FEWEST_TILE_ROWS = 16


@dataclass(frozen=True, eq=False)
class Tile:
    """Some rows of a batch.

    Attributes
    ----------
    rows : slice
        Which ones.
    X : (n, d) array
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


class Coming:
    """A tile that another thread makes, or else this one when it is asked for."""

    def __init__(self, make: Callable[[], Tile], pool: ThreadPoolExecutor | None):
        self.make = make
        self.tile: Tile | None = None
        self.future = None if pool is None else pool.submit(make)

    def ready(self) -> bool:
        """Whether nobody need wait for it."""
        return self.tile is not None or (self.future is not None and self.future.done())

    def made_here(self) -> bool:
        """Make it in this thread, unless it is made or another one has begun; return whether it was so."""
        if self.tile is not None or (self.future is not None and not self.future.cancel()):
            return False
        self.tile = self.make()
        return True

    def result(self) -> Tile:
        """Return the tile."""
        if self.tile is None:
            assert self.future is not None
            self.tile = self.future.result()
        return self.tile


class Ahead:
    """Tiles of the rows of a batch, in order.

    There is a thread less than there may be: whoever takes the steps makes tiles as well while it would have to wait.

    Parameters
    ----------
    X : array or sparse matrix
    blocks : list of Block
        Whoever draws another one appends it: tiles that are begun later have its features.
    size : int
        Rows of a step: a tile is made of whole steps, if there is room for one.
    tile_rows, tiles : int
        Most rows of a tile, and how many are made ahead.
    """

    def __init__(
        self, X, blocks: list[Block], size: int, *, tile_rows: int = TILE_ROWS, tiles: int = TILES_AHEAD
    ):
        self.X, self.blocks, self.size, self.tile_rows, self.n_tiles = X, blocks, size, tile_rows, tiles
        self.begun = 0
        self.tiles: deque[tuple[int, Coming]] = deque()
        self._joined: tuple[int, list[Block]] = (0, [])
        several = n_threads() > 1 and X.shape[0] > self._rows()
        self.pool = ThreadPoolExecutor(n_threads() - 1) if several else None

    def __enter__(self) -> Ahead:
        return self

    def __exit__(self, *_: object) -> None:
        if self.pool is not None:
            self.pool.shutdown(cancel_futures=True)

    def between(self, first: int, last: int) -> Iterator[Tile]:
        """Yield the tiles from row `first` to row `last`; rows before `first` are forgotten."""
        while first < last:
            self.end_of(first)
            tile = self._first()
            end = min(last, tile.rows.stop)
            yield tile.cut(first, end).completed(self.blocks)
            first = end

    def end_of(self, first: int) -> int:
        """Return where the tile with row `first` ends; rows before that are forgotten."""
        while self.tiles and self.tiles[0][0] <= first:
            self.tiles.popleft()
        self.begin()
        return self.tiles[0][0]

    def begin(self) -> None:
        """Begin as many tiles as may be made ahead; on one thread, a tile is made when it is asked for."""
        n = self.X.shape[0]
        while len(self.tiles) < self.n_tiles and self.begun < n:
            rows = slice(self.begun, min(n, self.begun + self._rows()))
            make = partial(make_tile, self.X, rows, self._together(), len(self.blocks))
            self.tiles.append((rows.stop, Coming(make, self.pool)))
            self.begun = rows.stop

    def _together(self) -> list[Block]:
        """Return the blocks there are now, as one if they can be."""
        if self._joined[0] != len(self.blocks):
            together = FourierBlocks.of(self.blocks)
            self._joined = len(self.blocks), self.blocks[:] if together is None else [together]
        return self._joined[1]

    def _first(self) -> Tile:
        """Return the first tile; until it is made, make those that nobody has begun."""
        first = self.tiles[0][1]
        while not first.ready() and any(coming.made_here() for _, coming in self.tiles):
            pass
        return first.result()

    def _rows(self) -> int:
        """Return the rows of the next tile."""
        width = sum(block.width for block in self.blocks)
        rows = min(self.tile_rows, max(FEWEST_TILE_ROWS, TILE_VALUES // max(1, width)))
        return rows - rows % self.size if rows >= self.size else -(-self.size // -(-self.size // rows))


def make_tile(X, rows: slice, blocks: list[Block], count: int) -> Tile:
    """Return a tile with the features of some blocks, of which there are `count` one by one."""
    some = dense(X[rows])
    if some.dtype != np.float64 or np.abs(some).max(initial=0.0) <= NEAR:
        some = np.ascontiguousarray(some, dtype=np.float32)  # once for all blocks
    return Tile(rows, some, features(some, blocks), count)


def features(X: np.ndarray, blocks: list[Block]) -> np.ndarray:
    """Return the features of several blocks side by side, O(n d width)."""
    if len(blocks) == 1:
        return blocks[0].transform(X)
    edges = np.cumsum([0, *(block.width for block in blocks)])
    Z = np.empty((len(X), edges[-1]), dtype=np.float32)
    for block, first in zip(blocks, edges[:-1].tolist(), strict=True):
        block.transform(X, Z, first)
    return Z
