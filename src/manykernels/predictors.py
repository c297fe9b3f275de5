"""Predictors: what remains of a fit when only scores are wanted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from scipy.sparse import issparse

from ._util.arrays import product_width, row_blocks
from ._util.shapes import WHOLE, Stored, check_arrays, demand
from ._util.threads import map_in_threads, one_blas_thread
from .combination import Combination, TargetCombination
from .features import Exact
from .features._thin import thin_scores


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

    def check_stored(self) -> None:
        """Raise Damaged where arrays that came from a file do not go together."""
        ...


#: Rows that tell how much the parts of a predictor vary.
VARIED_ROWS = 256


def some_rows(sample_weight: np.ndarray, most: int = VARIED_ROWS) -> np.ndarray:
    """Return the numbers of some rows that have weight, evenly spread."""
    rows = np.flatnonzero(sample_weight > 0)
    return rows[np.linspace(0, len(rows) - 1, min(most, len(rows))).astype(int)]


def variances(parts: np.ndarray, sample_weight: np.ndarray) -> np.ndarray:
    """Return how much parts (m, n, c) vary over rows, (m, c)."""
    w = sample_weight / sample_weight.sum()
    means = np.einsum("inc,n->ic", parts, w)
    return np.einsum("inc,n->ic", np.square(parts - means[:, None]), w)


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

    @classmethod
    def from_training(cls, combination: Combination, X, A, intercept) -> Dual:
        """Keep the rows with a non-zero coefficient."""
        rows = combination.family.support(X, np.flatnonzero(np.any(A != 0, axis=1)))
        return cls(combination, rows, A if rows is None else A[np.any(A != 0, axis=1)], intercept)

    def scores(self, X):
        """Return f(x), in blocks of rows, O(n_support · active kernels) per row."""
        out = np.zeros((X.shape[0], self.A.shape[1]))
        if len(self.A):  # scikit-learn's distances refuse to be empty

            def fill(part):
                out[part] = self.combination.gram(X[part], self.rows) @ self.A

            map_in_threads(fill, row_blocks(X.shape[0], len(self.A)))
        return out + self.intercept

    def contributions(self, X):
        """Return f_i(x) for every kernel."""
        if not len(self.A):
            return np.zeros((len(self.combination), X.shape[0], self.A.shape[1]))
        return self.combination.apply(X, self.rows, self.A)

    def shifted(self, offset) -> Dual:
        """Return the predictor with `offset` added to its intercept."""
        return replace(self, intercept=self.intercept + offset)

    def to_arrays(self):
        """Return A, the intercept and the support rows."""
        arrays = {"A": self.A, "intercept": self.intercept}
        return arrays if self.rows is None else {**arrays, "rows": self.rows}

    def check_stored(self):
        """Raise Damaged unless there is a row for each coefficient, and an intercept for each output."""
        n = check_arrays(vars(self), {"A": Stored("n c"), "intercept": Stored("c")})["n"]
        demand((self.rows is None) == self.combination.family.pairwise, "rows are missing")
        if self.rows is not None:
            values = self.rows.data if issparse(self.rows) else self.rows
            check_arrays({"rows": values}, {"rows": Stored("*" if issparse(self.rows) else "* *")})
            found = self.rows.shape[0]
            demand(found == n, f"there are {found:,} rows, and {n:,} coefficients")


@dataclass(frozen=True, eq=False)
class PerTarget:
    """``f_k(x) = Σ_i weights_ki Σ_t κ_i(x, x_t) A_tk + b_k``: every target has weights of its own.

    Attributes
    ----------
    combination : TargetCombination
    rows : array, sparse matrix or None
        The training rows; None when kernels are precomputed.
    A : (n, c) array
    intercept : (c,) array
    """

    combination: TargetCombination
    rows: Any
    A: np.ndarray
    intercept: np.ndarray

    def scores(self, X):
        """Return f(x), in blocks of rows, O(n active kernels) kernel values and O(n c) products of each per row."""
        out = np.empty((X.shape[0], self.A.shape[1]))
        for part in row_blocks(X.shape[0], len(self.combination) * self.A.shape[1]):
            out[part] = self.contributions(X[part]).sum(axis=0)
        return out + self.intercept

    def contributions(self, X):
        """Return f_i(x) for every kernel, (m, n, c)."""
        c = self.combination
        used = np.flatnonzero(c.weights.any(axis=0))
        out = np.zeros((len(c), X.shape[0], self.A.shape[1]))
        if len(used):
            A, r = self.A, c.factors(X)
            if r is not None:
                A = A * c.factors(self.rows)
            applied = c.family.apply(X, self.rows, A, [c.members[i] for i in used.tolist()])
            out[used] = applied * c.weights.T[used][:, None]
            if r is not None:
                out *= r
        return out

    def shifted(self, offset) -> PerTarget:
        """Return the predictor with `offset` added to its intercept."""
        return replace(self, intercept=self.intercept + offset)

    def to_arrays(self):
        """Return A, the intercept and the rows."""
        arrays = {"A": self.A, "intercept": self.intercept}
        return arrays if self.rows is None else {**arrays, "rows": self.rows}

    def check_stored(self):
        """Raise Damaged unless there is a row for each coefficient, and weights and an intercept for each output."""
        demand(isinstance(self.combination, TargetCombination), "the weights of the targets are missing")
        Dual.check_stored(self)  # type: ignore[arg-type]
        demand(len(self.combination.weights) == self.A.shape[1], "there are weights of other targets")


@dataclass(frozen=True, eq=False)
class Primal:
    """``f(x) = Σ_i φ_i(x) W_i + b`` on explicit features; independent of the number of training rows.

    Attributes
    ----------
    combination : Combination
    W : (Σ widths, c) array
        Coefficients of the features of the members with weight, for any of the targets, in their order.
    intercept : (c,) array
    """

    combination: Combination
    W: np.ndarray
    intercept: np.ndarray

    def _members(self):
        used = np.flatnonzero(np.atleast_2d(self.combination.weights).any(axis=0))
        members = [self.combination.members[i] for i in used.tolist()]
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

    def check_stored(self):
        """Raise Damaged unless there is a coefficient for each feature, and an intercept for each output."""
        _, members, family = self._members()
        width = int(family.widths(members).sum()) if members else len(self.W)
        check_arrays(vars(self), {"W": Stored("k c"), "intercept": Stored("c")}, {"k": width})


def feature_maps(family: Any, members, n_features: int, seed: int, sizes) -> list[Any]:
    """Return the maps of members to random features, with blocks of one size for all, or one each."""
    sizes = np.broadcast_to(np.asarray(sizes), (len(members),))
    by_size = {
        size: family.random_features(members, n_features, seed, size) for size in sorted(set(sizes.tolist()))
    }
    return [by_size[size][i] for i, size in enumerate(sizes.tolist())]


#: Grids that are looked up together, and most rows of a task: a grid's table is read once for all of them.
_GRIDS, _ROWS = 256, 16_384
#: Dense features: values of blocks that are regenerated together, and rows of a task.
_DRAWN, _DENSE_ROWS = 2**23, 1024
#: Most columns of X, features of a block, and numbers that a block is regenerated from, in what comes from a file.
_MOST_COLUMNS, _MOST_SIZE, _MOST_DRAWN = 2**24, 2**30, 2**31


@dataclass(frozen=True, eq=False)
class RandomFeature:
    """``f(x) = Σ_i Σ_b Z_ib(x) W_ib + b`` over blocks of random features, which are regenerated, not stored.

    Attributes
    ----------
    combination : Combination
    n_features, seed : (1,) arrays of int
        Columns of X, and seed of the features.
    size : (1,) or (m,) array of int
        Features of a block, for all members or for each.
    blocks : (m,) array of int
        How many blocks each member has: the first ones of its map.
    W : (Σ widths, c) array
        Coefficients, member by member and block by block. Maps with bins want them in float32.
    intercept : (c,) array
    slots : (grids, size) array of unsigned integers, or None
        For all grids of all maps with bins: the row of each bin among its grid's coefficients. Row 0 is of zeros and
        for all bins without coefficients. None: a row for every bin, in order.
    seen : (grids,) array of int, or None
        Number of bins with coefficients; a grid has one row more.
    """

    combination: Combination
    n_features: np.ndarray
    seed: np.ndarray
    size: np.ndarray
    blocks: np.ndarray
    W: np.ndarray
    intercept: np.ndarray
    slots: np.ndarray | None = None
    seen: np.ndarray | None = None

    def _maps(self) -> list[Any]:
        n_features, seed = int(self.n_features[0]), int(self.seed[0])
        return feature_maps(self.combination.family, self.combination.members, n_features, seed, self.size)

    def _parts(self):
        """Yield (member's place, most rows of a task, function that adds their scores), for parts of the predictor."""
        first = place = 0
        for i, feature_map in enumerate(self._maps()):
            count = int(self.blocks[i])
            if feature_map.sparse:
                width = feature_map.width
                for g in range(0, count, _GRIDS):
                    last = min(count, g + _GRIDS)
                    grids, some = feature_map.grids(g, last), slice(place, place + last - g)
                    rows = len(grids) * width if self.seen is None else int((self.seen[some] + 1).sum())
                    W = self.W[first : first + rows].astype(np.float32, copy=False)
                    first, place = first + rows, place + len(grids)
                    if self.slots is None or self.seen is None:
                        yield i, _ROWS, _adds_looked_up(grids, W.reshape(len(grids), width, -1))
                    else:
                        yield i, _ROWS, _adds_numbered(grids, self.slots[some], self.seen[some], W)
                continue
            several = max(1, _DRAWN // (int(self.n_features[0]) * feature_map.width))
            for a in range(0, count, several):
                blocks = [feature_map.block(index) for index in range(a, min(a + several, count))]
                last = first + len(blocks) * feature_map.width
                yield i, _DENSE_ROWS, _adds_products(blocks, self.W[first:last])
                first = last

    def _add(self, n_rows, add, X, out) -> None:
        """Add a part's scores, on row tiles in threads."""

        def task(part):
            rows = X[part].toarray() if issparse(X) else X[part]
            add(rows, out[part])

        n_rows = min(n_rows, max(1024, X.shape[0] // 8))
        with one_blas_thread():  # of a single tile, too: in float32, several would show in the eighth digit
            map_in_threads(task, [slice(a, a + n_rows) for a in range(0, X.shape[0], n_rows)])

    def scores(self, X):
        """Return f(x), O(features) per row; rows in tiles, on a few threads."""
        self._check_columns(X)
        out = np.zeros((X.shape[0], self.W.shape[1]))
        for _, n_rows, add in self._parts():
            self._add(n_rows, add, X, out)
        out += self.intercept
        return out

    def contributions(self, X):
        """Return f_i(x) for every kernel."""
        self._check_columns(X)
        out = np.zeros((len(self.combination), X.shape[0], self.W.shape[1]))
        for i, n_rows, add in self._parts():
            self._add(n_rows, add, X, out[i])
        return out

    def shifted(self, offset) -> RandomFeature:
        """Return the predictor with `offset` added to its intercept."""
        return replace(self, intercept=self.intercept + offset)

    def to_arrays(self):
        """Return the coefficients and what the features are regenerated from; no rows for bins without coefficients."""
        kept = self._numbered()
        names = ("n_features", "seed", "size", "blocks", "W", "intercept", "slots", "seen")
        return {name: getattr(kept, name) for name in names if getattr(kept, name) is not None}

    def _check_columns(self, X) -> None:
        """Refuse rows of another width, which compiled loops would read beyond."""
        if X.shape[1] != self.n_features[0]:
            raise ValueError(f"X has {X.shape[1]:,} columns, and the model {int(self.n_features[0]):,}.")

    def check_stored(self):
        """Raise Damaged unless coefficients, tables of bins and blocks are those of the features."""
        declared = {
            "W": Stored("k c"),
            "intercept": Stored("c"),
            "n_features": Stored("1", WHOLE, 1, _MOST_COLUMNS),
            "seed": Stored("1", WHOLE, 0),
            "size": Stored("*", WHOLE, 1, _MOST_SIZE),
            "blocks": Stored("m", WHOLE, 0, len(self.W)),  # each has a coefficient
            "slots": Stored("grids width", WHOLE, 0, optional=True),
            "seen": Stored("grids", WHOLE, 0, optional=True),
        }
        sizes = {"m": len(self.combination)}
        known = check_arrays(vars(self), declared, sizes)
        demand(len(self.size) in (1, known["m"]), f"size has {len(self.size):,} rows, and not {known['m']:,}")
        demand(
            (self.slots is None) == (self.seen is None), "there are slots without seen, or seen without slots"
        )
        found, wanted = known["k"], self._rows_of_maps()
        demand(found == wanted, f"W has {found:,} rows, and its features {wanted:,}")

    def _rows_of_maps(self) -> int:
        """Return how many coefficients the features have, after a check of all that compiled loops go by."""
        d, maps = int(self.n_features[0]), self._maps()
        counts = [int(count) for count in self.blocks.tolist()]
        rows = sum(count * m.width for m, count in zip(maps, counts, strict=True) if not m.sparse)
        for m, count in zip(maps, counts, strict=True):
            demand(m.n_blocks is None or count <= m.n_blocks, "a kernel has more blocks than features")
            demand(
                m.sparse or d * m.width <= _MOST_DRAWN, f"a block has {m.width:,} features of {d:,} columns"
            )
            columns = np.zeros(1, int) if getattr(m, "columns", None) is None else np.asarray(m.columns)
            inside = columns.dtype.kind in WHOLE and columns.size and 0 <= columns.min() <= columns.max() < d
            demand(inside, f"a kernel sees other columns than the {d:,} there are")
        binned = [(m.width, count) for m, count in zip(maps, counts, strict=True) if m.sparse]
        if self.slots is None or self.seen is None:
            return rows + sum(width * count for width, count in binned)
        grids, width = self.slots.shape
        demand(
            sum(count for _, count in binned) == grids, f"slots has {grids:,} rows, and not one for each grid"
        )
        demand(all(w == width for w, _ in binned), f"slots has {width:,} columns, and its grids other tables")
        demand((self.slots <= self.seen[:, None]).all(), "slots holds a bin that has no coefficients")
        return rows + grids + sum(self.seen.tolist())

    def _numbered(self) -> RandomFeature:
        """Return the same predictor with rows only for the bins that have coefficients, O(rows of W)."""
        maps = self._maps()
        if self.slots is not None or not maps or not all(m.sparse for m in maps):
            return self
        W = self.W.reshape(int(self.blocks.sum()), maps[0].width, -1)
        used = (W != 0).any(axis=2)
        number = np.where(used, np.cumsum(used, axis=1), 0).astype(maps[0].grids(0, 1).dtype)
        zeros = np.zeros((1, W.shape[2]), W.dtype)
        rows = [part for g in range(len(W)) for part in (zeros, W[g, used[g]])]
        return replace(self, W=np.concatenate(rows), slots=number, seen=used.sum(axis=1))


def _adds_looked_up(grids, W):
    return lambda X, out: grids.add_scores(X, W, out)


def _adds_numbered(grids, slots, seen, W):
    first = np.concatenate([[0], np.cumsum(seen[:-1] + 1)])
    return lambda X, out: grids.add_numbered_scores(X, slots, first, W, out)


def _adds_products(blocks, W):
    """Return a function that adds Σ_b Z_b W_b, with one array for the features of block after block.

    Exact features whose coefficients are in double precision are computed in it.
    """
    if isinstance(blocks[0], Exact) and W.dtype == np.float64:

        def add_exact(X, out):
            out += blocks[0].kernel.features(X) @ W

        return add_exact
    width, c = blocks[0].width, W.shape[1]
    wide = np.zeros((len(W), product_width(c)), dtype=np.float32)
    wide[:, :c] = W

    def add(X, out):
        Z, F = (np.empty((len(X), columns), dtype=np.float32) for columns in (width, wide.shape[1]))
        for k, block in enumerate(blocks):
            thin_scores(block.transform(X, Z), wide[k * width : (k + 1) * width], F)
            out += F[:, :c]

    return add
