"""Drawing products of columns: every product has rank one, and no n × n × r array is ever needed."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ..._util.arrays import row_blocks
from ...kernels.plain import whole_power
from ..draws import pick
from .monomials import Prefix, orderings
from .sampling import PREFIX_BLOCK, Sampler

#: Entries of the table of an expansion, at most; half of the data where that is more.
MOST_PLACES = 2**22
#: How products are drawn: from a table of all of them, or one factor after the other; by default what is cheaper.
Route = Literal["auto", "expand", "pairs"]
#: What one small matrix product costs before it multiplies anything, in multiply-adds.
CALL = 2e5


@dataclass(frozen=True)
class DrawSizes:
    """How much a sampler of monomials keeps, and takes at once.

    Attributes
    ----------
    kept_pairs : int
        S and its Hadamard powers are kept up to this many entries in all, otherwise recomputed in tiles.
    tile_rows : int
        Rows of a tile of S: short enough that the lower triangle, which is left out, is nearly half.
    kept_rows : int
        Scaled columns are kept up to this many entries, otherwise made block by block (expansion only).
    block : int
        Entries of the temporary arrays of a block.
    """

    kept_pairs: int = 2**23
    tile_rows: int = 128
    kept_rows: int = 2**22
    block: int = PREFIX_BLOCK


DRAW_SIZES = DrawSizes()


class PairTable:
    """All products of k factors: for a sorted head of k - 2 factors a square of pairs not below its last.

    A product with two different last factors stands in two places, so that a square is one matrix product;
    its weight, the number of orderings times g, is split between them.
    """

    def __init__(self, r: int, k: int):
        self.r, self.k = r, k
        self.heads = list(itertools.combinations_with_replacement(range(r), max(k - 2, 0)))
        self.first = np.array([head[-1] if head else 0 for head in self.heads], dtype=np.intp)
        width = r - self.first
        self.ends = np.cumsum(width**2 if k > 1 else width)
        self.weights = np.zeros(self.ends[-1])

    def slots(self) -> Iterator[tuple[Prefix, int, slice]]:
        """Yield heads, their last factor, and their part of the table."""
        starts = np.concatenate([[0], self.ends[:-1]])
        for head, first, a, b in zip(self.heads, self.first.tolist(), starts, self.ends, strict=True):
            yield head, first, slice(a, b)

    def weigh(self) -> None:
        """Multiply g by the number of orderings, halved where a product stands twice."""
        if self.k < 3:
            return
        for head, first, part in self.slots():
            w, repeats = self.r - first, head.count(first)
            square = self.weights[part].reshape(w, w)
            square *= orderings(head) * self.k * (self.k - 1) / 2
            square[0, 1:] /= repeats + 1
            square[1:, 0] /= repeats + 1
            square[0, 0] *= 2 / ((repeats + 1) * (repeats + 2))

    def members(self, at: np.ndarray) -> list[Prefix]:
        """Return the products at some places."""
        if self.k == 1:
            return [(int(i),) for i in at]
        which = np.searchsorted(self.ends, at, side="right")
        w = self.r - self.first[which]
        a, b = np.divmod(at - (self.ends[which] - w**2), w)
        a, b = a + self.first[which], b + self.first[which]
        places = zip(which.tolist(), a.tolist(), b.tolist(), strict=True)
        return [(*self.heads[h], min(i, j), max(i, j)) for h, i, j in places]

    def pick(self, rng: np.random.Generator, size: int) -> tuple[list[Prefix], np.ndarray]:
        """Draw products, and return them with the logs of their g."""
        at = pick(rng, self.weights, size)
        members = self.members(at)
        shares = [orderings(z) / (1 if self.k < 2 or z[-1] == z[-2] else 2) for z in members]
        return members, np.log(self.weights[at]) - np.log(np.array(shares, dtype=float))

    @staticmethod
    @functools.cache
    def n_places(r: int, k: int) -> tuple[int, int]:
        """Return the number of heads and of places of a table, without making it."""
        if k <= 2:
            return 1, r**k
        q = k - 2
        places = sum(math.comb(l + q - 1, q - 1) * (r - l) ** 2 for l in range(r))
        return math.comb(r + q - 1, q), places


class MonomialSampler(Sampler):
    """Products of columns.

    With v = A ∘ x_{j_1} ∘ ... and k factors to go there are two routes. *Expansion*: a table of all
    vᵀ(x_{l_1} ∘ ... ∘ x_{l_k}), about 2 n c r^k/k! multiply-adds as matrix products over row blocks, which
    answers all k coordinates at once. *Pairs*: diag(Xᵀ((v vᵀ) ∘ S^{∘(k-1)})X) for the next coordinate
    alone, n² r/2, whatever k. The cheaper is taken, for the number of draws that share the prefix.

    Memory: a table holds at most ``MOST_PLACES`` entries, or half as many as the data; tiles of the upper
    triangle of S and of its powers are kept up to ``sizes.kept_pairs`` entries. There is no n × n × r array, and
    none of n × n when rows are many.

    Parameters
    ----------
    X : (n, r)
    scale : (r,) array or None
        mean x_j², or None for ones; columns with 0 are never drawn.
    prior_sq : array
    route : {"auto", "expand", "pairs"}
    sizes : DrawSizes
    """

    def __init__(
        self, X, scale: np.ndarray | None, prior_sq, route: Route = "auto", sizes: DrawSizes = DRAW_SIZES
    ):
        super().__init__(X.shape[1], prior_sq)
        self.X, self.route, self.sizes = X, route, sizes
        self.active = np.arange(X.shape[1]) if scale is None else np.flatnonzero(scale)
        self.n, self.r = X.shape[0], len(self.active)
        self.all_columns = self.r == X.shape[1]
        self.divisor = np.ones(self.r) if scale is None else np.sqrt(scale[self.active])
        self._columns: np.ndarray | None = None
        # Rows of norm at most 1 keep every power of S within [-1, 1].
        top = max((np.abs(Z).max(initial=0.0) for _, Z in self.blocks()), default=0.0)
        self.divisor = self.divisor * (top or 1.0)
        norm = max((math.sqrt((Z**2).sum(axis=0).max(initial=0.0)) for _, Z in self.blocks()), default=0.0)
        self.divisor = self.divisor * (norm or 1.0)
        self.log_unit = 2 * (math.log(top or 1.0) + math.log(norm or 1.0))
        step = min(sizes.tile_rows, max(8, sizes.block // self.n))
        self.tiles = [(a, min(a + step, self.n)) for a in range(0, self.n, step)]
        area = sum((b - a) * (self.n - a) for a, b in self.tiles)
        self.keeps_pairs = area <= sizes.kept_pairs
        self.keeps_powers = area * self.degree <= sizes.kept_pairs
        self._tiles: dict[tuple[int, int], np.ndarray] = {}

    # Columns are rows of the arrays here, so that a column is contiguous.

    def columns(self) -> np.ndarray:
        """Return the scaled columns, (r, n)."""
        if self._columns is None:
            self._columns = self._scaled(slice(0, self.n))
        return self._columns

    def _scaled(self, rows):
        Z = self.X[rows] if self.all_columns else self.X[rows][:, self.active]
        out = np.empty((self.r, Z.shape[0]))
        return np.divide(Z.T, self.divisor[:, None], out=out)

    def blocks(self) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield blocks of rows, with their scaled columns."""
        if self._columns is not None:
            yield slice(0, self.n), self._columns
            return
        size = self.sizes.kept_rows if self.n * self.r <= self.sizes.kept_rows else self.sizes.block // 8
        for rows in row_blocks(self.n, self.r, size):
            yield rows, self._scaled(rows)

    def masses(self, A: np.ndarray, size: int) -> tuple[np.ndarray, dict[int, PairTable]]:
        """Return the masses, from tables if those are cheap for all degrees, else from S."""
        if self.n * self.r <= self.sizes.kept_rows:
            self.columns()
        out = np.zeros(self.degree + 1)
        out[0] = np.square(A.sum(axis=0)).sum()
        tables: dict[int, PairTable] = {}
        if self.r == 0:
            return out, tables
        if all(self.expands(d, size, A.shape[1], fresh=True) for d in range(1, self.degree + 1)):
            for d in range(1, self.degree + 1):
                tables[d] = self._table(A, d)
                out[d] = tables[d].weights.sum()
            return out, tables
        for i, (a, b) in enumerate(self.tiles):
            S = self._pairs(i)
            P = None
            for d in range(1, self.degree + 1):
                P = self._power(d, i, S, P)
                out[d] += np.vdot(A[a:b], P @ A[a:])
        return out, tables

    # -- expansion

    def expands(self, k: int, size: int, n_outputs: int, fresh: bool = False) -> bool:
        """Compare the costs; `fresh` counts that of S and of the masses too."""
        if k == 1 or self.route != "auto":
            return fresh if k == 1 else self.route == "expand"
        table, pairs = self._table_cost(k, n_outputs), self._pairs_cost(k, size, n_outputs)
        if fresh:
            pairs += self.n**2 * (4 * self.degree + (0.0 if self._tiles else self.r))
        return table <= pairs

    def _table_cost(self, k, c):
        heads, places = PairTable.n_places(self.r, k)
        if places > max(MOST_PLACES, self.n * self.r // 2):
            return np.inf
        return c * heads * CALL + places * (c * self.n + 50.0)

    def _pairs_cost(self, k, size, c):
        if k == 1:
            return CALL + self.n * c * self.r
        groups = min(size, self.r)
        again = min(self._table_cost(k - 1, c), self._pairs_cost(k - 1, -(-size // groups), c))
        here = self.n**2 * (self.r * (0.6 if self.keeps_pairs else 1.2) + (0 if c == 1 else 3 + c))
        return CALL + here + groups * again

    def expand(self, A: np.ndarray, prefix: Prefix, k: int) -> tuple[PairTable, float]:
        """Return the table of the rest."""
        V, units = self._prefixed(A, [prefix])
        return self._table(V[0].T, k), units[0]

    def _table(self, V, k):
        """Return the table for v = columns of V, one output after the other."""
        table = PairTable(self.r, k)
        if k == 1:
            total = np.zeros((self.r, V.shape[1]))
            for rows, Z in self.blocks():
                total += Z @ V[rows]
            table.weights += np.square(total).sum(axis=1)
            return table
        for v in V.T:
            total = np.zeros_like(table.weights)
            for rows, Z in self.blocks():
                for head, first, part in table.slots():
                    product = v[rows]
                    for j in head:
                        product = product * Z[j]
                    total[part] += ((Z[first:] * product) @ Z[first:].T).ravel()
            np.square(total, out=total)
            table.weights += total
        table.weigh()
        return table

    # -- pairs

    def conditional(self, A: np.ndarray, prefixes: Sequence[Prefix], k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return diag(Xᵀ((v vᵀ) ∘ S^{∘(k-1)})X), in chunks of prefixes."""
        cond, units = np.zeros((len(prefixes), self.r)), np.zeros(len(prefixes))
        if self.r == 0:
            return cond, units
        width = A.shape[1] * self.n if k == 1 or A.shape[1] > 1 else self.r * self.n
        for part in row_blocks(len(prefixes), width, self.sizes.block):
            V, units[part] = self._prefixed(A, prefixes[part])
            cond[part] = self._linear(V) if k == 1 else self._next(V, k)
        return np.maximum(cond, 0.0), units

    def _prefixed(self, A, prefixes):
        """Return v for every prefix, (m, c, n), each divided by its largest entry, and 2 log of that."""
        V = np.repeat(A.T[None], len(prefixes), axis=0)
        tops = np.zeros(len(prefixes))
        for i, prefix in enumerate(prefixes):
            for j in prefix:
                V[i] *= self.columns()[j]
            top = np.abs(V[i]).max()
            if top > 0:
                V[i] /= top
                tops[i] = math.log(top)
        return V, 2 * tops

    def _linear(self, V):
        m, c, n = V.shape
        return np.square(V.reshape(m * c, n) @ self.columns().T).reshape(m, c, self.r).sum(axis=1)

    def _next(self, V, k):
        Z = self.columns()
        m, c, n = V.shape
        cond = np.zeros((m, self.r))
        if c == 1:  # one product with the power of S for all prefixes
            U = (V * Z).reshape(m * self.r, n)
            for i, (a, b) in enumerate(self.tiles):
                Y = U[:, a:] @ self._power(k - 1, i).T
                cond += np.einsum("ij,ij->i", Y, U[:, a:b]).reshape(m, self.r)
            return cond
        for i, (a, b) in enumerate(self.tiles):
            P = self._power(k - 1, i)
            for g in range(m):
                W = V[g, :, a:b].T @ V[g, :, a:]
                W *= P
                cond[g] += np.einsum("ij,ij->i", Z[:, a:] @ W.T, Z[:, a:b])
        return cond

    def _pairs(self, i):
        """Return a tile of S, rows a:b × columns a:n."""
        if (0, i) in self._tiles:
            return self._tiles[0, i]
        a, b = self.tiles[i]
        S = self.columns()[:, a:b].T @ self.columns()[:, a:]
        if self.keeps_pairs:
            self._tiles[0, i] = S
        return S

    def _power(self, k, i, S=None, below=None):
        """Return a tile of S^{∘k}, doubled where it stands for its mirror image.

        `S` and `below`, the tiles for 1 (not doubled) and k - 1, save the work of making it from nothing.
        """
        if (k, i) in self._tiles:
            return self._tiles[k, i]
        if S is not None and k > 1:
            P = below * S
        else:
            a, b = self.tiles[i]
            P = whole_power(self._pairs(i) if S is None else S, k)
            P[:, b - a :] *= 2
        if self.keeps_powers:
            self._tiles[k, i] = P
        return P
