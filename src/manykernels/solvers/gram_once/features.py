"""The features of all kernels of a list, and their sums over blocks of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..._util.arrays import row_blocks
from ...combination import Combination
from ...families.base import HasFeatures, can
from ...features import Exact
from ...predictors import Primal, RandomFeature, feature_maps
from ...streaming.cluster import Block
from ...streaming.sources import uniform
from .moments import Moments

#: Random features of all kernels together, and what they are drawn with.
RANDOM_COLUMNS, SEED = 2048, 0
#: Entries of a block of features, of which threads hold several copies, and the fewest rows of one.
ENTRIES, FEWEST_ROWS = 2**18, 512
#: Rows whose mean features are taken off.
SHIFT_ROWS = 2_000


@dataclass(frozen=True, eq=False)
class Features:
    """The features of all members of a family: their own, or random ones.

    Attributes
    ----------
    family : Family
    members : list
    n_columns : int
        Of X.
    sizes : (m,) array of int or None
        Of random features; None where all members have features of their own.
    shift : (k,) array
        What is taken off every feature before products are summed up, about its mean, as squares of large numbers would
        drown their differences.
    """

    family: Any
    members: Sequence[Any]
    n_columns: int
    sizes: np.ndarray | None = None
    shift: np.ndarray | float = 0.0

    @classmethod
    def of(cls, family: Any, n_columns: int) -> Features:
        """Return the features of a family that can be listed."""
        members = list(family.members())
        if can(family, HasFeatures):
            return cls(family, members, n_columns)
        maps = family.random_features(members, n_columns, SEED, 2)
        drawn = np.array([m.n_blocks is None for m in maps])
        size = max(2, RANDOM_COLUMNS // max(1, int(drawn.sum())) // 2 * 2)
        return cls(family, members, n_columns, np.where(drawn, size, 1))

    def about(self, X: np.ndarray, s: np.ndarray) -> Features:
        """Return the same features about their means over some rows."""
        some = np.flatnonzero(s > 0)[:SHIFT_ROWS]
        if not len(some):
            return self
        means = np.average(self.columns(np.asarray(X[some], dtype=np.float64)), axis=0, weights=s[some])
        return replace(self, shift=means)

    @cached_property
    def maps(self) -> list[Any]:
        """The maps to random features; a map is exact where the kernel has finitely many."""
        assert self.sizes is not None
        return feature_maps(self.family, self.members, self.n_columns, SEED, self.sizes)

    def __getstate__(self):
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @property
    def random(self) -> bool:
        """Whether some stand for others, which are infinitely many."""
        return self.sizes is not None and any(m.n_blocks is None for m in self.maps)

    @cached_property
    def widths(self) -> np.ndarray:
        """Columns of every member."""
        if self.sizes is None:
            return self.family.widths(self.members)
        return np.array([m.width for m in self.maps], dtype=np.intp)

    @cached_property
    def count(self) -> int:
        """Number of all features."""
        return int(self.widths.sum())

    def columns(self, X: np.ndarray) -> np.ndarray:
        """Return the features of rows, in double precision."""
        if self.sizes is None:
            return self.family.features(X, self.members)
        parts = [m.kernel.features(X) if isinstance(m, Exact) else m.block(0).transform(X) for m in self.maps]
        return np.hstack(parts).astype(np.float64, copy=False)

    def predictor(
        self, combination: Combination, W: np.ndarray, intercept: np.ndarray
    ) -> Primal | RandomFeature:
        """Return the predictor with coefficients of all features."""
        if self.sizes is None:
            used = np.atleast_2d(combination.weights != 0).any(axis=0)
            return Primal(combination, W[np.repeat(used, self.widths)], intercept)
        one = np.ones(len(self.members), dtype=np.intp)
        known = np.array([self.n_columns]), np.array([SEED])
        return RandomFeature(combination, *known, self.sizes, one, W, intercept)

    def moments(self, block: Block, fold: np.ndarray, folds: int) -> Moments:
        """Return the sums of every fold, each with the number of the fold as its first axis."""
        m, c = 1 + self.count, block.Y.shape[1]
        out = Moments.zeros(m, c, len(self.members), folds)
        for rows in row_blocks(len(block.s), m + c, max(ENTRIES, FEWEST_ROWS * (m + c))):
            X, Y, s = np.asarray(block.X[rows], dtype=np.float64), block.Y[rows], block.s[rows]
            Z = np.column_stack([np.ones(len(X)), self.columns(X)])
            Z[:, 1:] -= self.shift
            present = self.family.presences(X, self.members)
            for k in np.unique(fold[rows]).tolist():
                own: Any = slice(None) if folds == 1 else fold[rows] == k
                out.add(k, Z[own], Y[own], s[own])
                out.mass[k] += s[own].sum() if present is None else s[own] @ present[own]
        return out


def fold_of(block: Block, folds: int, cells: bool) -> np.ndarray:
    """Return the fold of every row, which its values decide: equal rows are in one fold, wherever they lie.

    In a table of `cells` every row has many equals, and its place in the block decides as well.
    """
    if folds == 1 or not len(block.s):
        return np.zeros(len(block.s), dtype=int)
    bits = (np.ascontiguousarray(block.X, dtype=np.float64) + 0.0).view(
        np.uint64
    )  # a negative zero equals zero
    factors = np.random.default_rng(SEED).integers(2**62, size=bits.shape[1], dtype=np.uint64) * 2 + 1
    with np.errstate(over="ignore"):
        keys = ((bits ^ (bits >> np.uint64(32))) * factors).sum(axis=1, dtype=np.uint64)
        if cells:
            keys += np.arange(len(keys), dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return (uniform(keys, SEED) * folds).astype(int)
