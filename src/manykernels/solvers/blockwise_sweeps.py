"""Exact block coordinate descent over blocks of features: the visits to the rows, and the steps between them.

With residuals R = Y - f, a block with features Z and the weight λ_k = B_i ρ_i²/(C θ_i) (B_i blocks of kernel i) is
minimised exactly, all others fixed, by

    W ← W + (Zᵀ S Z + λ_k I)⁻¹ (Zᵀ S R - λ_k W),    R ← R - Z (the change of W).

For a grid ZᵀSZ is the diagonal of its bins' weights. A visit over the rows takes the last block's step and sums up for
the next one, so that every block costs one pass over the residuals.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from .._blocks import even_parts, product_width
from .._numba.binning import add_counts, add_sums, newton_step, step_and_sums
from .._threads import n_threads, one_blas_thread
from .dense_visits import DenseVisits
from .row_store import Piece, RowStore

#: Fewer bins than this are not worth a thread.
STEP_BINS = 4096


@dataclass(frozen=True)
class Unit:
    """A block of coefficients.

    Attributes
    ----------
    member : int
        Which kernel; -1 for the intercept.
    index : int
        Which block of its map.
    place : int
        Of its map among those with bins; -1 where the features are dense.
    first, width : int
        Of its coefficients.
    curvature : int
        Where its counts, or its Gram matrix, begin.
    """

    member: int
    index: int
    place: int
    first: int
    width: int
    curvature: int

    @property
    def part(self) -> slice:
        """Return the place of its coefficients."""
        return slice(self.first, self.first + self.width)


def lay_out(maps: list[Any], blocks: np.ndarray, seen: list[np.ndarray]) -> list[Unit]:
    """Return the intercept and all blocks, with the places of their coefficients.

    A grid has coefficients for the bins that rows fall into, as `seen` counts them for every map with bins, after a
    row of zeros for all others.

    Coefficients lie member by member, as :class:`~manykernels.predictors.RandomFeature` wants them, after the
    intercept; visits go round the members, so that no kernel explains the targets before the others had a try.
    """
    units, first, curvature, place = [], 1, 1, 0
    for i, feature_map in enumerate(maps):
        for index in range(int(blocks[i])):
            width = 1 + int(seen[place][index]) if feature_map.sparse else feature_map.width
            units.append(Unit(i, index, place if feature_map.sparse else -1, first, width, curvature))
            first += width
            curvature += width if feature_map.sparse else width * width
        place += feature_map.sparse
    units.sort(key=lambda u: (u.index / blocks[u.member], u.member))
    return [Unit(-1, 0, -2, 0, 1, 0), *units]


class Sweeps:
    """Coefficients and residuals, and the passes that change them.

    Parameters
    ----------
    store : RowStore
        Its residuals are changed.
    maps : list of FeatureMap
    units : list of Unit
    state : dict of arrays
        W, curvature, known, step, pending; see ``fresh_state``. Changed in place.

    Attributes
    ----------
    last : bool
        Set in the last sweep, if nothing follows it: a grid's bins are then forgotten after its step. Coefficients
        take memory as they are written, so that the ones grow while the others shrink.
    """

    def __init__(self, store: RowStore, maps, units: list[Unit], state: dict[str, np.ndarray]):
        self.store, self.maps, self.units, self.state = store, maps, units, state
        self.lanes = store.lanes
        self.last = False
        self._threads = n_threads()
        self._pool = ThreadPoolExecutor(self._threads)
        self._dense = DenseVisits(store, maps, units, self._pool)
        # The sums of a grid, lane by lane; 0 between two visits.
        widest = max((u.width for u in units if u.place >= 0), default=0)
        self._sums = np.zeros((len(self.lanes), widest, state["step"].shape[1]), np.float32)

    @staticmethod
    def fresh_state(units: list[Unit], n_outputs: int) -> dict[str, np.ndarray]:
        """Return the coefficients 0, and nothing known of the blocks."""
        sparse = any(u.place >= 0 for u in units)
        last, most = max(units, key=lambda u: u.first), max(units, key=lambda u: u.curvature)
        square = most.width if most.place != -1 else most.width**2
        return {
            "W": np.zeros((last.first + last.width, n_outputs), np.float32 if sparse else np.float64),
            "curvature": np.zeros(most.curvature + square, np.float32 if sparse else np.float64),
            "known": np.zeros(len(units), bool),
            "pending": np.array([-1]),
            "step": np.zeros((max(u.width for u in units), product_width(n_outputs)), np.float32),
        }

    def close(self) -> None:
        """Let the threads go."""
        self._pool.shutdown()

    # -- visits ----------------------------------------------------------------------------------------

    def _each(self, func, items) -> list[Any]:
        """Map on threads, each of which takes an equal share of the items; the caller's is one of them.

        For work without BLAS, and for visits of a millisecond: setting the threads of BLAS, or waking one of ours for
        every item, would take a good part of that.
        """

        def several(some):
            return [func(item) for item in some]

        parts = even_parts(len(items), min(self._threads, len(items)))
        own, *others = (items[a:b] for a, b in parts)
        begun = [self._pool.submit(several, some) for some in others]
        return [*several(own), *chain.from_iterable(task.result() for task in begun)]

    def visit(self, number: int, *, curvature: bool) -> tuple[np.ndarray, np.ndarray | None]:
        """Take the step that is pending, and return Zᵀ S R of a unit, with its counts or Gram matrix if asked for."""
        if self.units[number].place >= 0:
            counts = self._visit_grid(number, curvature=curvature)
            parts = self._sums[:, : self.units[number].width]
            sums = parts.sum(axis=0, dtype=np.float64)
            parts[...] = 0.0
        else:
            pending = int(self.state["pending"][0])
            sums, counts = self._dense.sums(number, pending, self.state["step"], curvature=curvature)
            self.state["pending"][0] = -1
        return sums[:, : self.state["W"].shape[1]], counts

    def _visit_grid(self, number: int, *, curvature: bool) -> np.ndarray | None:
        """Do the same for a grid; sums stay lane by lane in `_sums`, which the caller sets to 0 again."""
        unit, pending = self.units[number], int(self.state["pending"][0])

        def along(k):
            counts = np.zeros(unit.width) if curvature else None
            for piece in self.lanes[k]:
                R, s = self.store.residuals(piece), self.store.weights(piece)
                self._visit_piece(unit, pending, piece, R, s, self._sums[k], counts)
                if pending >= 0:
                    self.store.put_residuals(piece, R)
            return counts

        dense = pending >= 0 and self.units[pending].place == -1
        with one_blas_thread() if dense else nullcontext():
            parts = self._each(along, range(len(self.lanes)))
        if self.last and pending >= 0 and self.units[pending].place >= 0:
            self.store.forget_bins(self.units[pending].place, self.units[pending].index)
        self.state["pending"][0] = -1
        return sum(parts) if curvature else None

    def _step_grid(self, number: int, lam: float) -> None:
        """Minimise over a grid's coefficients, in parts of its bins; the sums become 0."""
        unit, state = self.units[number], self.state
        H, W, step = self._curvature(number), state["W"][unit.part], state["step"]

        def part(edges):
            newton_step(self._sums, H, lam, W, step, *edges)

        count = max(1, min(self._threads, unit.width // STEP_BINS))
        self._each(part, even_parts(unit.width, count))
        state["pending"][0] = number

    def _visit_piece(self, unit, pending, piece: Piece, R, s, sums, counts) -> None:
        before = self.units[pending] if pending >= 0 else None
        bins = self.store.bins(piece, unit.place, unit.index)
        if counts is not None:
            add_counts(bins, s, counts)
        if before is not None and before.place >= 0:
            old = self.store.bins(piece, before.place, before.index)
            step_and_sums(old, self.state["step"][: before.width], bins, R, s, sums)
            return
        if before is not None:
            self._dense.take_step(pending, piece, R, self.state["step"])
        add_sums(bins, R, s, sums)

    def settle(self) -> float:
        """Take the step that is pending, and return Σ_t s_t ‖R_t‖²."""
        total = self._dense.settle(int(self.state["pending"][0]), self.state["step"])
        self.state["pending"][0] = -1
        return total

    # -- steps -----------------------------------------------------------------------------------------

    def _curvature(self, number: int) -> np.ndarray:
        unit = self.units[number]
        size = unit.width if unit.place != -1 else unit.width**2
        part = self.state["curvature"][unit.curvature : unit.curvature + size]
        return part if unit.place != -1 else part.reshape(unit.width, unit.width)

    def descend(self, number: int, lam: float) -> None:
        """Minimise over one block; the residuals follow with the next visit.

        An infinite `lam` empties the block.
        """
        unit, state = self.units[number], self.state
        W = state["W"][unit.part]
        if np.isinf(lam):
            if not W.any():
                return
            self.visit(0, curvature=False)  # what is pending comes first
            step = -W.astype(np.float64)
        else:
            new = not state["known"][number]
            if unit.place >= 0:
                counts = self._visit_grid(number, curvature=new)
            else:
                sums, counts = self.visit(number, curvature=new)
            if counts is not None:
                self._curvature(number)[...] = counts
                state["known"][number] = True
            if unit.place >= 0:
                self._step_grid(number, lam)
                return
            H = self._curvature(number)
            if H.ndim == 1:  # the intercept
                newton_step(sums[None], H, lam, W, state["step"], 0, 1)
                state["pending"][0] = number
                return
            H = H.astype(np.float64)
            H[np.diag_indices_from(H)] += lam
            # Turned, as symmetric as it is, it lies in the order that is factored in place: three times as fast.
            step = cho_solve(cho_factor(H.T, overwrite_a=True, check_finite=False), sums - lam * W)
        taken = state["step"][: unit.width, : W.shape[1]]
        taken[...] = step
        W += taken  # the very numbers that the residuals lose
        state["pending"][0] = number

    def dual_sums(self) -> tuple[np.ndarray, np.ndarray]:
        """Return ‖Zᵀ S R‖² and <W, Zᵀ S R> of every unit, without a step: a pass over the rows for each."""
        squares, products = np.empty(len(self.units)), np.empty(len(self.units))
        for k, unit in enumerate(self.units):
            sums = self.visit(k, curvature=False)[0]
            squares[k] = float(np.sum(sums * sums))
            products[k] = float(np.sum(sums * self.state["W"][unit.part]))
        return squares, products
