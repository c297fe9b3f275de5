"""The kernels of a small fit, one piece each: few grids, or few dense features, on rows to fit and rows to judge.

A piece is minimised over exactly, or grid by grid, the others fixed; see ``sweeps.py`` for the steps.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import cho_solve

from ..._util.arrays import even_parts
from ..._util.threads import n_threads
from ...features._bins import look_up, number_bins
from ..bandwidth_learning.error import ridge_factor
from ._grids import Tours, subtract_step

#: Rows are summed up along so many lanes, so that two threads can.
LANES = 2


@dataclass(frozen=True, eq=False)
class TrialRows:
    """Rows that are fitted, with weights and zeros up to the width of products, and rows that judge.

    Attributes
    ----------
    X, s : arrays
        Rows to fit, and their weights, in single precision.
    Xv : array
        Rows to judge.
    pool : ThreadPoolExecutor or None
        Its threads work on one fit after the other; None: the caller's alone.
    """

    X: Any
    s: np.ndarray
    Xv: Any
    pool: ThreadPoolExecutor | None

    @cached_property
    def edges(self) -> np.ndarray:
        """Where lanes begin and end."""
        return np.array([0, *(last for _, last in even_parts(len(self.X), LANES))])


def piece_of(feature_map, count: int, rows: TrialRows) -> GridPiece | DensePiece:
    """Return the first `count` grids or blocks of a map on the rows."""
    return (
        GridPiece(feature_map.grids(0, count), rows) if feature_map.sparse else DensePiece(feature_map, rows)
    )


class GridPiece:
    """Few grids of a Laplacian kernel; a step is a tour over them, O(grids · n)."""

    def __init__(self, grids, rows: TrialRows):
        self.rows, self.blocks = rows, len(grids)
        self.bins, self.judged = (self._bins(grids, X) for X in (rows.X, rows.Xv))
        slots, seen = np.zeros((len(grids), grids.width), grids.dtype), np.zeros(len(grids), np.int64)
        number_bins(self.bins, slots, seen)
        look_up(self.judged, slots)
        self.first, self.widths = np.concatenate([[0], np.cumsum(1 + seen)]), 1 + seen
        self.counts, self.known = np.zeros(self.first[-1], np.float32), False

    def _bins(self, grids, X) -> np.ndarray:
        """Return the bins of rows, on the pool's threads."""
        bins = np.empty((len(grids), len(X)), grids.dtype)

        def fill(edges):
            a, b = edges
            grids.bins(X[a:b], bins[:, a:b])

        if self.rows.pool is None:
            fill((0, len(X)))
        else:
            list(self.rows.pool.map(fill, even_parts(len(X), 8)))
        return bins

    def fresh(self, n_outputs: int) -> np.ndarray:
        """Return the coefficients 0."""
        return np.zeros((self.first[-1], n_outputs), dtype=np.float32)

    def step(self, R: np.ndarray, lam: float, W: np.ndarray, share: float) -> None:
        """Descend over all grids, each by a share; residuals and coefficients are changed."""
        lines = np.arange(self.blocks)
        sums, counts = Tours.room(LANES, self.widths.max(), R.shape[1])
        step = np.zeros_like(sums[0])
        rows = self.rows
        tours = Tours(self.bins, R, rows.s, rows.edges, sums, counts, step, rows.pool, n_threads())
        new = np.full(self.blocks, not self.known)
        units = np.column_stack([lines, self.first[:-1], self.widths, self.first[:-1], new])
        tours(units, np.full(self.blocks, lam * self.blocks), share, -1, W, self.counts)
        subtract_step(self.bins[-1], step, R)
        self.known = True

    def judge(self, Rv: np.ndarray, W: np.ndarray) -> None:
        """Subtract the scores of the rows that judge."""
        for g in range(self.blocks):
            subtract_step(self.judged[g], W[self.first[g] : self.first[g + 1]], Rv)


class DensePiece:
    """Few Fourier features, or all exact ones; a step is exact, O(n D² + D³) the first time and O(n D) again."""

    def __init__(self, feature_map, rows: TrialRows):
        self.rows = rows
        self.Z, self.Zv = (feature_map.block(0).transform(X) for X in (rows.X, rows.Xv))
        self._factors: dict[float, np.ndarray] = {}

    @cached_property
    def gram(self) -> np.ndarray:
        """The Gram matrix of the features."""
        ZS = self.Z * np.sqrt(self.rows.s)[:, None]
        return (ZS.T @ ZS).astype(float)

    def fresh(self, n_outputs: int) -> np.ndarray:
        """Return the coefficients 0."""
        return np.zeros((self.Z.shape[1], n_outputs))

    def step(self, R: np.ndarray, lam: float, W: np.ndarray, share: float) -> None:
        """Minimise over all features; residuals and coefficients are changed."""
        if lam not in self._factors:
            self._factors = {lam: ridge_factor(self.gram, lam)}
        sums = ((self.rows.s[:, None] * R).T @ self.Z).T.astype(float) - lam * W
        change = cho_solve((self._factors[lam], True), sums, check_finite=False)
        W += change
        R -= self.Z @ change.astype(np.float32)

    def judge(self, Rv: np.ndarray, W: np.ndarray) -> None:
        """Subtract the scores of the rows that judge."""
        Rv -= self.Zv @ W.astype(np.float32)
