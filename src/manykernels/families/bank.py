"""Banks: members of a family bound to training rows.

A batch solver asks two things of m kernels, over and over: the weighted sum of their Gram matrices, and the
quadratic forms ``q_i = tr(Aᵀ K_i A)``. A bank answers both in one pass over the kernels each, and shares
between passes what fits into memory: explicit features, distances, or the matrices themselves.

All sums run over tiles of rows in a fixed order, so that results do not depend on the number of threads.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._util.arrays import row_blocks
from .._util.threads import map_in_threads
from ..kernels import Kernel, pairwise_statistic
from ..kernels.statistics import Rows
from ._stack import add_quad_forms, weighted_sum_rows

#: A tile holds about this many pairs of rows, so that a tile and its exponentials stay in cache.
TILE_PAIRS = 2**16


@dataclass(frozen=True)
class BankSizes:
    """How much a bank keeps, and takes at once.

    Attributes
    ----------
    cache_bytes : int
        Gram matrices of all members are kept when they fit into so many, otherwise recomputed each pass.
    feature_bytes : int
        Explicit features are kept up to so many, otherwise recomputed in blocks of members.
    tile_pairs : int
        Pairs of rows of a tile, about.
    """

    cache_bytes: int = 2**28
    feature_bytes: int = 2**30
    tile_pairs: int = TILE_PAIRS


BANK_SIZES = BankSizes()
#: For a bank that is asked once: storing Gram matrices takes three times as long as using them.
ONE_PASS = BankSizes(cache_bytes=0)

#: From a member's number to its values on some pairs of rows.
MemberValues = Callable[[int], np.ndarray]
#: A statistic, and what else kernels share that need the same: their columns, or what these are divided by.
Key = tuple[str, Any]


class Bank(ABC):
    """Members bound to training rows.

    Attributes
    ----------
    n_rows, n_members : int
    """

    n_rows: int
    n_members: int

    @abstractmethod
    def gram(self, weights: np.ndarray) -> np.ndarray:
        """Return Σ weights_i K_i, a new float64 array."""

    @abstractmethod
    def quad_forms(self, A: np.ndarray) -> np.ndarray:
        """Return tr(Aᵀ K_i A) for every member."""

    @abstractmethod
    def inner_products(self, M: np.ndarray) -> np.ndarray:
        """Return <K_i, M> for every member; M is symmetric."""

    def n_columns(self, weights: np.ndarray) -> int | None:
        """Return the number of explicit features of members with weight, or None if they have none."""
        return None

    def features(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the features of members with weight, unscaled, and the member of each column."""
        raise NotImplementedError


def row_tiles(n: int, pairs: int = TILE_PAIRS) -> list[tuple[int, int]]:
    """Cut n rows into tiles whose upper-triangular part holds about so many pairs."""
    edges, a = [], 0
    while a < n:
        b = min(n, a + max(8, pairs // (n - a)))
        edges.append((a, b))
        a = b
    return edges


class TileBank(Bank):
    """Kernels evaluated on tiles ``rows a:b × columns a:n`` of the upper triangle.

    A pass costs m n²/2 kernel values. Memory O(n²), plus at most ``sizes.cache_bytes``.
    """

    def __init__(self, n_rows: int, n_members: int, sizes: BankSizes = BANK_SIZES):
        self.n_rows = n_rows
        self.n_members = n_members
        self.tiles = row_tiles(n_rows, sizes.tile_pairs)
        self._cached: list[np.ndarray] | None = None
        all_bytes = 8 * n_members * sum((b - a) * (n_rows - a) for a, b in self.tiles)
        self._cacheable = all_bytes <= sizes.cache_bytes

    @abstractmethod
    def open(self, a: int, b: int) -> MemberValues:
        """Return a function from a member's number to its values on rows a:b × columns a:n."""

    def _stacks(self) -> list[np.ndarray] | None:
        """Return every member's values on every tile, when they may be kept."""
        if self._cached is None and self._cacheable:
            self._cached = map_in_threads(self._stack, self.tiles)
        return self._cached

    def _stack(self, tile):
        block = self.open(*tile)
        return np.stack([block(i) for i in range(self.n_members)])

    def part(self, t: int, first: int, last: int) -> MemberValues:
        """Return ``open(first, last)`` for rows within tile t, from what is kept where anything is."""
        stacks = self._stacks()
        if stacks is None:
            return self.open(first, last)
        a = self.tiles[t][0]
        return lambda i: stacks[t][i, first - a : last - a, first - a :].copy()

    def gram(self, weights: np.ndarray) -> np.ndarray:
        """Return Σ weights_i K_i."""
        weights = np.asarray(weights, dtype=float)
        used = np.flatnonzero(weights).tolist()
        K = np.empty((self.n_rows, self.n_rows))
        stacks = self._stacks()

        def fill(t):
            a, b = self.tiles[t]
            if stacks is not None:
                total = np.tensordot(weights, stacks[t], 1)
            else:
                total = np.zeros((b - a, self.n_rows - a))
                block = self.open(a, b)
                for i in used:
                    values = block(i)
                    values *= weights[i]
                    total += values
            K[a:b, a:] = total
            K[b:, a:b] = total[:, b - a :].T

        map_in_threads(fill, range(len(self.tiles)))
        return K

    def quad_forms(self, A: np.ndarray) -> np.ndarray:
        """Return tr(Aᵀ K_i A), from one pass over the upper triangles."""
        stacks = self._stacks()

        def partial(t):
            a, b = self.tiles[t]
            M = A[a:b] @ A[a:].T
            M[:, b - a :] *= 2  # the tile stands for its mirror image too
            if stacks is not None:
                return stacks[t].reshape(self.n_members, -1) @ M.ravel()
            block = self.open(a, b)
            return np.array([np.vdot(block(i), M) for i in range(self.n_members)])

        q = np.sum(map_in_threads(partial, range(len(self.tiles))), axis=0)
        return np.maximum(q, 0.0)

    def inner_products(self, M: np.ndarray) -> np.ndarray:
        """Return <K_i, M>, from one pass over the upper triangles."""
        stacks = self._stacks()

        def partial(t):
            a, b = self.tiles[t]
            part = M[a:b, a:].copy()
            part[:, b - a :] *= 2  # the tile stands for its mirror image too
            if stacks is not None:
                return stacks[t].reshape(self.n_members, -1) @ part.ravel()
            block = self.open(a, b)
            return np.array([np.vdot(block(i), part) for i in range(self.n_members)])

        return np.sum(map_in_threads(partial, range(len(self.tiles))), axis=0)


class Sharing:
    """Kernels grouped by the columns they see and the statistic they need, so that it is computed once."""

    def __init__(self, kernels: Sequence[Kernel]):
        self.kernels = list(kernels)
        self.keys = [self._key(k) for k in self.kernels]
        self.representative = dict(zip(self.keys[::-1], self.kernels[::-1], strict=True))
        self.shared = [key for key in dict.fromkeys(self.keys) if key is not None]

    @staticmethod
    def _key(kernel):
        return None if kernel.statistic is None else (kernel.statistic, kernel.shares)

    def statistic(self, key: Key, X: Rows, Z: Rows) -> np.ndarray:
        """Return the statistic of one group for the rows of X and Z."""
        select = self.representative[key].select
        Xs = select(X)
        return pairwise_statistic(key[0], Xs, Xs if Z is X else select(Z))

    def open(self, X: Rows, Z: Rows, known: Mapping[Key, np.ndarray] | None = None) -> MemberValues:
        """Return a function from a kernel's number to its Gram matrix on X and Z, a fresh array."""
        seen = dict(known or {})

        def block(i):
            kernel, key = self.kernels[i], self.keys[i]
            if key is None:
                return np.array(kernel(X, Z), dtype=float)
            if key not in seen:
                seen[key] = self.statistic(key, X, Z)
            return kernel.from_statistic(seen[key])

        return block


def weighted_gram(kernels: Sequence[Kernel], weights: np.ndarray, X: Rows, Z: Rows) -> np.ndarray:
    """Return Σ weights_i K_i(X, Z), in blocks of rows; kernels without weight are not evaluated."""
    used = [(kernel, w) for kernel, w in zip(kernels, weights, strict=True) if w != 0]
    sharing = Sharing([kernel for kernel, _ in used])
    out = np.zeros((X.shape[0], Z.shape[0]))
    for rows in row_blocks(X.shape[0], Z.shape[0]):
        for key in dict.fromkeys(sharing.keys):
            own = [i for i, other in enumerate(sharing.keys) if other == key]
            if key is None:
                for i in own:
                    out[rows] += used[i][1] * np.asarray(used[i][0](X[rows], Z), dtype=float)
            else:
                S = sharing.statistic(key, X[rows], Z)
                _add_weighted([used[i] for i in own], S, out[rows])
    return out


def _add_weighted(used: Sequence[tuple[Kernel, float]], S: np.ndarray, out: np.ndarray) -> None:
    """Add the weighted values of kernels of one statistic, in tiles that stay in cache from one kernel to the next."""
    for rows in row_blocks(S.shape[0], S.shape[1], TILE_PAIRS):
        for kernel, w in used:
            values = kernel.from_statistic(S[rows])
            values *= w
            out[rows] += values


def each_applied(kernels: Sequence[Kernel], X: Rows, Z: Rows, B: np.ndarray) -> np.ndarray:
    """Return K_i(X, Z) B for every kernel, (m, n, c), in blocks of rows."""
    sharing = Sharing(kernels)
    out = np.empty((len(kernels), X.shape[0], B.shape[1]))
    for rows in row_blocks(X.shape[0], Z.shape[0]):
        block = sharing.open(X[rows], Z)
        for i in range(len(kernels)):
            out[i, rows] = block(i) @ B
    return out


class KernelBank(TileBank):
    """A list of kernels on rows X; distances and inner products are kept when they fit."""

    def __init__(self, kernels: Sequence[Kernel], X: Rows, sizes: BankSizes = BANK_SIZES):
        super().__init__(X.shape[0], len(kernels), sizes)
        self.X = X
        self.sharing = Sharing(kernels)
        budget = max(sizes.cache_bytes, 8 * self.n_rows**2)
        keep = not self._cacheable and 8 * self.n_rows**2 * len(self.sharing.shared) <= budget
        self._statistics = {k: self.sharing.statistic(k, X, X) for k in self.sharing.shared} if keep else {}

    def open(self, a: int, b: int) -> MemberValues:
        """Return the kernels' values on one tile."""
        known = {key: S[a:b, a:] for key, S in self._statistics.items()}
        return self.sharing.open(self.X[a:b], self.X[a:], known)


class StackBank(Bank):
    """A ready-made stack ``K[s, t, i]``, read in place in its own precision and summed in double.

    Symmetry is exploited: a pass reads half of the stack, m n²/2 values.
    """

    def __init__(self, stack: np.ndarray, members: Sequence[int]):
        self.stack = stack
        self.members = np.asarray(members, dtype=np.intp)
        self.n_rows = stack.shape[0]
        self.n_members = len(self.members)
        # Equal work per tile: rows near the top have longer upper-triangular parts.
        cuts = self.n_rows * (1 - np.sqrt(np.linspace(1, 0, 33)))
        edges = np.unique(np.round(cuts).astype(int))
        self.tiles = list(itertools.pairwise(edges))

    def part(self, t: int, first: int, last: int) -> MemberValues:
        """Return a function from a member's number to its values on rows first:last × columns first:n."""
        return lambda i: self.stack[first:last, first:, self.members[i]].astype(float)

    def gram(self, weights: np.ndarray) -> np.ndarray:
        """Return Σ weights_i K_i."""
        full = np.zeros(self.stack.shape[2])
        full[self.members] = weights
        K = np.empty((self.n_rows, self.n_rows))
        map_in_threads(lambda t: weighted_sum_rows(self.stack, full, *t, K), self.tiles)
        # Mirror tile by tile: a strided transpose of the whole misses the cache.
        for a, b in self.tiles:
            K[b:, a:b] = K[a:b, b:].T
            corner = K[a:b, a:b]
            lower = np.tril_indices(b - a, -1)
            corner[lower] = corner.T[lower]
        return K

    def quad_forms(self, A: np.ndarray) -> np.ndarray:
        """Return tr(Aᵀ K_i A)."""

        def partial(t):
            a, b = t
            q = np.zeros(self.stack.shape[2])
            add_quad_forms(self.stack, A[a:b] @ A[a:].T, a, b, q)
            return q

        q = np.sum(map_in_threads(partial, self.tiles), axis=0)[self.members]
        return np.maximum(q, 0.0)

    def inner_products(self, M: np.ndarray) -> np.ndarray:
        """Return <K_i, M>, from one pass over the stack."""
        total = np.zeros(self.stack.shape[2])
        for rows in row_blocks(self.n_rows, self.stack.shape[1] * self.stack.shape[2]):
            total += M[rows].ravel() @ self.stack[rows].reshape(-1, len(total))
        return total[self.members]


class FeatureBank(Bank):
    """Members with explicit features: everything is a product with Φ, n × Σ widths.

    Parameters
    ----------
    make : callable
        ``make(first, last)`` returns the features of members first:last, side by side.
    widths : array
        Columns per member.
    n_rows : int
    sizes : BankSizes
    """

    def __init__(
        self, make: Callable[[int, int], np.ndarray], widths, n_rows: int, sizes: BankSizes = BANK_SIZES
    ):
        self.make = make
        self.widths = np.asarray(widths, dtype=np.intp)
        self.n_rows = n_rows
        self.n_members = len(self.widths)
        total = 8 * n_rows * int(self.widths.sum())
        self._phi = make(0, self.n_members) if total <= sizes.feature_bytes else None
        #: Features of a block, where not all of them are kept.
        self._per_block = max(1, sizes.feature_bytes // (32 * n_rows))
        self.starts = np.concatenate([[0], np.cumsum(self.widths)])

    def _blocks(self):
        if self._phi is not None:
            yield 0, self.n_members, self._phi
            return
        first = 0
        while first < self.n_members:
            last = int(np.searchsorted(self.starts, self.starts[first] + self._per_block, side="right")) - 1
            last = min(max(last, first + 1), self.n_members)
            yield first, last, self.make(first, last)
            first = last

    def gram(self, weights: np.ndarray) -> np.ndarray:
        """Return Φ diag(weights) Φᵀ."""
        K = np.zeros((self.n_rows, self.n_rows))
        for first, last, phi in self._blocks():
            w = np.repeat(np.asarray(weights[first:last], dtype=float), self.widths[first:last])
            K += (phi * w) @ phi.T
        return K

    def quad_forms(self, A: np.ndarray) -> np.ndarray:
        """Return ‖Φ_iᵀA‖² for every member."""
        q = np.empty(self.n_members)
        for first, last, phi in self._blocks():
            q[first:last] = self._by_member(np.square(phi.T @ A).sum(axis=1), first, last)
        return q

    def inner_products(self, M: np.ndarray) -> np.ndarray:
        """Return tr(Φ_iᵀ M Φ_i) for every member."""
        out = np.empty(self.n_members)
        for first, last, phi in self._blocks():
            out[first:last] = self._by_member(np.einsum("tj,tj->j", phi, M @ phi), first, last)
        return out

    def _by_member(self, values: np.ndarray, first: int, last: int) -> np.ndarray:
        """Return the sums of values of features over each of the members first:last."""
        owner = np.repeat(np.arange(last - first), self.widths[first:last])
        return np.bincount(owner, weights=values, minlength=last - first)

    def n_columns(self, weights: np.ndarray) -> int:
        """Return the number of features of members with weight."""
        return int(self.widths[np.asarray(weights) > 0].sum())

    def features(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the features of members with weight, and the member of each column."""
        used = np.asarray(weights) > 0
        owner = np.repeat(np.arange(self.n_members), self.widths)
        parts = [
            phi[:, np.repeat(used[first:last], self.widths[first:last])]
            for first, last, phi in self._blocks()
            if used[first:last].any()
        ]
        phi = parts[0] if len(parts) == 1 else np.hstack(parts or [np.empty((self.n_rows, 0))])
        return phi, owner[np.repeat(used, self.widths)]
