"""Predictors: what remains of a fit when only scores are wanted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from ._blocks import row_blocks
from .combination import Combination


class Predictor(Protocol):
    """Scores of new rows, and their split by kernel."""

    @property
    def combination(self) -> Combination:
        """The learned kernel."""
        ...

    @property
    def intercept(self) -> np.ndarray:
        """The intercept b, (c,)."""
        ...

    def shifted(self, offset) -> Predictor:
        """Return the predictor with `offset` added to its intercept."""
        ...

    def scores(self, X) -> np.ndarray:
        """Return f(x) for every row, (n, c)."""
        ...

    def contributions(self, X) -> np.ndarray:
        """Return f_i(x) for every kernel, (m, n, c); with the intercept they add up to the scores."""
        ...

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the predictor's arrays, for a model file."""
        ...


@dataclass(frozen=True, eq=False)
class Dual:
    """``f(x) = Σ_t κ(x, x_t) A_t + b`` over support rows.

    Attributes
    ----------
    combination : Combination
    rows : array, sparse matrix or None
        The support rows; None when kernels are precomputed.
    A : (n_support, c) array
    intercept : (c,) array
    """

    combination: Combination
    rows: Any
    A: np.ndarray
    intercept: np.ndarray
    kind = "dual"

    @classmethod
    def from_training(cls, combination: Combination, X, A, intercept) -> Dual:
        """Keep the rows with a non-zero coefficient."""
        rows = combination.family.support(X, np.flatnonzero(np.any(A != 0, axis=1)))
        return cls(combination, rows, A if rows is None else A[np.any(A != 0, axis=1)], intercept)

    def scores(self, X):
        """Return f(x), in blocks of rows, O(n_support · active kernels) per row."""
        out = np.zeros((X.shape[0], self.A.shape[1]))
        if len(self.A):  # scikit-learn's distances refuse to be empty
            for part in row_blocks(X.shape[0], len(self.A)):
                out[part] = self.combination.gram(X[part], self.rows) @ self.A
        return out + self.intercept

    def contributions(self, X):
        """Return f_i(x) for every kernel."""
        c = self.combination
        used = np.flatnonzero(c.weights)
        out = np.zeros((len(c), X.shape[0], self.A.shape[1]))
        if len(self.A):
            out[used] = c.family.apply(X, self.rows, self.A, [c.members[i] for i in used])
        return out * c.weights[:, None, None]

    def shifted(self, offset) -> Dual:
        """Return the predictor with `offset` added to its intercept."""
        return replace(self, intercept=self.intercept + offset)

    def to_arrays(self):
        """Return A, the intercept and the support rows."""
        arrays = {"A": self.A, "intercept": self.intercept}
        return arrays if self.rows is None else {**arrays, "rows": self.rows}


@dataclass(frozen=True, eq=False)
class Primal:
    """``f(x) = Σ_i φ_i(x) W_i + b`` on explicit features; independent of the number of training rows.

    Attributes
    ----------
    combination : Combination
    W : (Σ widths, c) array
        Coefficients of the features of the members with weight, in their order.
    intercept : (c,) array
    """

    combination: Combination
    W: np.ndarray
    intercept: np.ndarray
    kind = "primal"

    def _members(self):
        used = np.flatnonzero(self.combination.weights)
        members = [self.combination.members[i] for i in used]
        family: Any = self.combination.family
        return used, members, family

    def scores(self, X):
        """Return f(x), in blocks of rows, O(Σ widths) per row."""
        _, members, family = self._members()
        out = np.empty((X.shape[0], self.W.shape[1]))
        for part in row_blocks(X.shape[0], len(self.W)):
            out[part] = family.features(X[part], members) @ self.W if members else 0.0
        return out + self.intercept

    def contributions(self, X):
        """Return f_i(x) for every kernel."""
        used, members, family = self._members()
        out = np.zeros((len(self.combination), X.shape[0], self.W.shape[1]))
        if members:
            phi = family.features(X, members)
            edges = np.concatenate([[0], np.cumsum(family.widths(members))])
            for i, a, b in zip(used, edges[:-1], edges[1:], strict=True):
                out[i] = phi[:, a:b] @ self.W[a:b]
        return out

    def shifted(self, offset) -> Primal:
        """Return the predictor with `offset` added to its intercept."""
        return replace(self, intercept=self.intercept + offset)

    def to_arrays(self):
        """Return W and the intercept."""
        return {"W": self.W, "intercept": self.intercept}


@dataclass(frozen=True, eq=False)
class RandomFeature:
    """``f(x) = Σ_i Σ_b Z_ib(x) W_ib + b`` over blocks of random features, which are regenerated, not stored.

    Attributes
    ----------
    combination : Combination
    n_features, seed, size : (1,) arrays of int
        Columns of X, seed of the features, and features of a block.
    blocks : (m,) array of int
        How many blocks each member has: the first ones of its map.
    W : (Σ widths, c) array
        Coefficients, member by member and block by block.
    intercept : (c,) array
    """

    combination: Combination
    n_features: np.ndarray
    seed: np.ndarray
    size: np.ndarray
    blocks: np.ndarray
    W: np.ndarray
    intercept: np.ndarray
    kind = "random_feature"

    def _parts(self):
        """Yield (member's place, block, its coefficients)."""
        family: Any = self.combination.family
        n_features, seed, size = (int(v[0]) for v in (self.n_features, self.seed, self.size))
        maps = family.random_features(self.combination.members, n_features, seed, size)
        first = 0
        for i, feature_map in enumerate(maps):
            for index in range(int(self.blocks[i])):
                block = feature_map.block(index)
                yield i, block, self.W[first : first + block.width]
                first += block.width

    def scores(self, X):
        """Return f(x), O(features) per row."""
        out = np.zeros((X.shape[0], self.W.shape[1]))
        for _, block, W in self._parts():
            out += block.scores(X, W)
        return out + self.intercept

    def contributions(self, X):
        """Return f_i(x) for every kernel."""
        out = np.zeros((len(self.combination), X.shape[0], self.W.shape[1]))
        for i, block, W in self._parts():
            out[i] += block.scores(X, W)
        return out

    def shifted(self, offset) -> RandomFeature:
        """Return the predictor with `offset` added to its intercept."""
        return replace(self, intercept=self.intercept + offset)

    def to_arrays(self):
        """Return the coefficients and what the features are regenerated from."""
        names = ("n_features", "seed", "size", "blocks", "W", "intercept")
        return {name: getattr(self, name) for name in names}
