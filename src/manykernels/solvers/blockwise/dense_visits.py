"""Visits of :class:`~manykernels.solvers.blockwise.sweeps.Sweeps` to blocks with dense features, tile by tile.

Tiles are summed along lanes, and the lanes in order, so that results do not depend on threads. A block's features are
needed twice, for its sums and, once these have become a step, for the residuals; in between they are kept as far as
``Sizes.kept`` allows, and made again otherwise. Keeping pays with many columns: 784 cost 1.7 times as much without.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._util.threads import one_blas_thread
from ...features._thin import add_thin_sums, thin_scores
from ._grids import subtract_step
from .rows import RowStore, Span, cut

if TYPE_CHECKING:
    from .sweeps import Unit

#: Tiles of rows that are taken at a time where there are no features to compute.
LONG = 16


class DenseVisits:
    """Sums over rows, and steps of residuals, for blocks with dense features and for the intercept.

    Parameters
    ----------
    store, maps, units :
        As in :class:`~manykernels.solvers.blockwise.sweeps.Sweeps`; the store's residuals are changed.
    pool : ThreadPoolExecutor
    """

    def __init__(self, store: RowStore, maps: list[Any], units: list[Unit], pool: ThreadPoolExecutor):
        self.store, self.units, self._pool = store, units, pool
        self.lanes, self._long = store.tiles(store.sizes.tile), store.tiles(LONG * store.sizes.tile)
        widest = max((unit.width for unit in units if unit.line == -1), default=0)
        self._kept = _Kept(self.lanes, store.sizes.tile * widest, store.sizes.kept)
        # Two: the block that is summed up, and the one whose step is pending.
        self._block = lru_cache(2)(lambda number: maps[units[number].member].block(units[number].index))

    def sums(
        self, number: int, pending: int, step, *, curvature: bool
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Take the step of the unit `pending` (-1: none), and return Zᵀ S R of a unit, with ZᵀSZ if asked for.

        O(n w (d + c)) for w features of d columns and c outputs, O(n w²) more for the Gram matrix.
        """
        unit, c = self.units[number], step.shape[1]
        add = self._add_intercept if unit.member < 0 else self._add_features
        if unit.member >= 0:
            self._block(number)  # before the threads do it, each for itself

        def along(lane):
            tiles = _Tiles(self, pending, step, unit.width)
            sums, gram = np.zeros((unit.width, c)), np.zeros((unit.width, unit.width)) if curvature else None
            for span in lane:
                add(number, span, tiles, sums, gram)
            return [sums] if gram is None else [sums, gram]

        sums, *gram = self._over_lanes(along, number, pending)
        return sums, gram[0] if curvature else None

    def _add_intercept(self, number, span, tiles, sums, gram) -> None:
        R, s = tiles.residuals(span), self.store.weights(span)
        sums[0] += s @ R.astype(np.float64)
        if gram is not None:
            gram += s.sum(dtype=np.float64)

    def _add_features(self, number, span, tiles, sums, gram) -> None:
        R, s = tiles.residuals(span), self.store.weights(span)[:, None]
        Z = tiles.features(number, span)
        add_thin_sums(Z, s * R, sums)
        if gram is not None:
            if not (s == 1).all():
                Z = Z * np.sqrt(s)
            gram += Z.T @ Z

    def settle(self, pending: int, step) -> float:
        """Take the step of the unit `pending` (-1: none), and return Σ_t s_t ‖R_t‖²."""

        def along(lane):
            tiles, total = _Tiles(self, pending, step, 0), np.zeros(1)
            for span in lane:
                R = tiles.residuals(span)
                total += self.store.weights(span) @ np.square(R, dtype=np.float64).sum(axis=1)
            return [total]

        return float(self._over_lanes(along, pending)[0][0])

    def take_step(self, number: int, span: Span, R: np.ndarray, step) -> None:
        """Subtract a unit's change of the scores from the residuals of a span of any length."""
        tiles = _Tiles(self, number, step, 0)
        for a, b in cut(*span, self.store.sizes.tile, self.store.sizes.chunk):
            tiles.take_step((a, b), R[a - span[0] : b - span[0]])

    def _over_lanes(self, along, *numbers: int) -> list[np.ndarray]:
        """Return the sums of the arrays that `along` returns for each lane, added in order; for some units."""
        dense = any(number >= 0 and self.units[number].line == -1 for number in numbers)
        with one_blas_thread():
            parts = self._pool.map(along, self.lanes if dense else self._long)
            total = next(parts)
            for part in parts:
                for a, b in zip(total, part, strict=True):
                    a += b
        return total


class _Kept:
    """Features that are kept from a block's sums to its step, of as many tiles as there is room for.

    A tile that is kept gives the same bits as one that is made again.

    Parameters
    ----------
    lanes : list of lists of tiles
    values : int
        Most features of a tile.
    room : int
        Bytes of features at most.
    """

    def __init__(self, lanes, values: int, room: int):
        each = room // (4 * values) // len(lanes) if values else 0
        self.space = {span: np.empty(values, np.float32) for lane in lanes for span in lane[:each]}
        self.owner: dict[Span, int] = {}

    def claim(self, span: Span, number: int) -> tuple[np.ndarray | None, bool]:
        """Return the room for a tile's features, if any, and whether it holds those of block `number`.

        Whoever is told that it does not is about to write there: an interruption meanwhile leaves nothing valid behind.
        """
        if self.owner.get(span) == number:
            return self.space[span], True
        self.owner.pop(span, None)
        return self.space.get(span), False

    def filled(self, span: Span, number: int) -> None:
        """Take notice of features that have been written."""
        if span in self.space:
            self.owner[span] = number


class _Tiles:
    """What one lane works with: the step that is pending, and arrays that serve for tile after tile."""

    def __init__(self, visits: DenseVisits, pending: int, step, width: int):
        self.visits, self.store, self.pending = visits, visits.store, pending
        self.unit = visits.units[pending] if pending >= 0 else None
        dense = self.unit is not None and self.unit.line == -1
        self.step = step[: 0 if self.unit is None else self.unit.width]
        widest = max(width, len(self.step) if dense else 0)
        self.Z = np.empty(self.store.sizes.tile * widest, dtype=np.float32)

    def features(self, number: int, span: Span) -> np.ndarray:
        """Return the features of a tile, until the next call; they may be kept, so leave them as they are."""
        visits = self.visits
        n, width = span[1] - span[0], visits.units[number].width
        space, ready = visits._kept.claim(span, number)
        Z = (self.Z if space is None else space)[: n * width].reshape(n, width)
        if not ready:
            visits._block(number).transform(self.store.rows(span), Z)
            visits._kept.filled(span, number)
        return Z

    def residuals(self, span: Span) -> np.ndarray:
        """Return the residuals of a tile after the step that is pending."""
        R = self.store.residuals(span)
        if self.unit is not None:
            self.take_step(span, R)
            self.store.put_residuals(span, R)
        return R

    def take_step(self, span: Span, R: np.ndarray) -> None:
        """Subtract the change of the scores from the residuals of a tile."""
        unit = self.unit
        assert unit is not None
        if unit.member < 0:
            R -= self.step
        elif unit.line >= 0:
            subtract_step(self.store.bins(span, unit.line), self.step, R)
        else:
            change = np.empty_like(R)
            thin_scores(self.features(self.pending, span), self.step, change)
            R -= change
