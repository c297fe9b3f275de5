"""The search for the best monomial, exhaustive as long as that is affordable.

For monomials <K_z, M> = Σ_k signs_k (φ_zᵀ v_k)². The sums φ_zᵀ v of all products are the table of
:mod:`.monomial_table`, n r^D/D! multiply-adds per vector, nearly all of them in matrix products. Beyond what that may
cost, the search is the heuristic one of :mod:`.search`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..._util.arrays import row_blocks
from ..._util.threads import map_in_threads, n_threads, one_blas_thread
from ...kernels.statistics import Rows
from ..base import Direction, Members, Scaling, nothing
from ..search import power_norm, ranked
from ._products import add_squares, scale_or_drop
from .monomial_table import TABLE_ROWS, ProductTable, n_heads
from .monomials import Prefix, n_multisets
from .search import BEAM, SLACK, ProductSearcher

if TYPE_CHECKING:
    from . import Products

#: What a head of the table may cost besides, in multiply-adds: its rows, and the memory to know it.
HEAD = 2e5


@dataclass(frozen=True)
class SearchSizes:
    """How far a search of all monomials goes, and what it keeps and takes at once.

    Attributes
    ----------
    exhaustive : float
        Multiply-adds that it may cost; a core does 10^10 to 5·10^10 in a second.
    serial : float
        Searches of fewer multiply-adds than this are not worth a thread.
    places : int
        Entries of the part of the table of all products that a thread works on.
    table_rows : int
        Rows of a matrix product of the table.
    block, block_rows : int
        Entries of a block of rows, few enough to stay in cache, and its rows at the most.
    kept_columns : int
        The scaled columns are kept up to this many entries.
    kept_scales : int
        Scales of all products are kept, in single precision, up to this many entries.
    """

    exhaustive: float = 4e11
    serial: float = 1e8
    places: int = 2**21
    table_rows: int = TABLE_ROWS
    block: int = 2**19
    block_rows: int = 1024
    kept_columns: int = 2**23
    kept_scales: int = 2**28


SEARCH_SIZES = SearchSizes()


class MonomialSearcher(ProductSearcher):
    """Products of columns: matrix products in blocks of rows, memory O(n r) and the table of scales.

    Parameters
    ----------
    family, X, scale :
        As for every search.
    sizes : SearchSizes
    """

    def __init__(self, family: Products, X: Rows, scale: Scaling | None, sizes: SearchSizes = SEARCH_SIZES):
        super().__init__(family, X, scale)
        self.sizes = sizes
        self.divisor = np.sqrt(self.base)
        self.table = self._table()
        self.chunks = self.table.chunks(self._chunk_size(len(self.table)))
        self.cost = float(self.n) * (len(self.table) or self.r * BEAM * self.degree)
        self._columns: list[np.ndarray] = []
        self._inverse: dict[int, np.ndarray] = {}
        self._mean: dict[Prefix, float] = {}

    # -- the table of all products

    def _table(self) -> ProductTable:
        """Return the table of all products, an empty one where it is never to be searched in full."""
        work = n_multisets(self.r, self.degree) * self.n + n_heads(self.r, self.degree) * HEAD
        r = self.r if work <= self.sizes.exhaustive else 0
        return ProductTable(r, self.degree, self.sizes.table_rows)

    def _chunk_size(self, places: int) -> int:
        if places * self.n <= self.sizes.serial:
            return places
        # A chunk reads all rows: where these are not kept, as few chunks as threads.
        parts = n_threads() * (4 if self.kept else 1)
        return min(self.sizes.places, -(-places // parts))

    @property
    def kept(self) -> bool:
        """Whether the scaled columns are kept."""
        return self.n * self.r <= self.sizes.kept_columns

    def _blocks(self, X) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield the scaled columns, (r, rows), in blocks of rows."""
        for rows, Z in self._with_constant(X):
            yield rows, Z[1:]

    def _with_constant(self, X) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield a constant column and the scaled ones, (r + 1, rows), in blocks of rows."""
        sizes = self.sizes
        blocks = row_blocks(X.shape[0], max(self.r, sizes.block // sizes.block_rows), sizes.block)
        if X is self.X and self.kept:
            if not self._columns:
                self._columns = [self._scaled(X[rows]) for rows in blocks]
            yield from zip(blocks, self._columns, strict=True)
        else:
            for rows in blocks:
                yield rows, self._scaled(X[rows])

    def _scaled(self, X) -> np.ndarray:
        Z = np.ones((self.r + 1, X.shape[0]))
        np.divide((X if self.r == X.shape[1] else X[:, self.active]).T, self.divisor[:, None], out=Z[1:])
        return Z

    def _fill(self, chunk, X, v, squared=False) -> np.ndarray:
        """Return Σ_t v_t φ_z(x_t), or of φ_z², for all products of a chunk, one after the other."""
        places = self.table.places(chunk)
        out = np.zeros(places.stop - places.start)
        for rows, Z in self._with_constant(X):
            self.table.add(chunk, np.square(Z) if squared else Z, v[rows], out)
        return out

    def _scores(self, c: int, V, signs) -> np.ndarray:
        """Return the values of all products of a chunk, for the rows of V."""
        places = self.table.places(self.chunks[c])
        total = np.zeros(places.stop - places.start)
        for v, sign in zip(V, signs, strict=True):
            add_squares(self._fill(self.chunks[c], self.X, v), sign, total)
        if self.how == "trace" or (self.prior_sq != 1.0).any():
            scale_or_drop(self._inverse_scales(c), total)
        return total

    def _inverse_scales(self, c: int) -> np.ndarray:
        """Return 1/ρ² of all products of a chunk; those that read the rows are kept."""
        if c in self._inverse:
            return self._inverse[c]
        chunk = self.chunks[c]
        rho_sq = self.prior_sq[self.table.degrees(chunk)]
        if self.how != "trace":
            return 1.0 / rho_sq
        rho_sq *= self._fill(chunk, self.scale_rows, self.row_weight, squared=True)
        inverse = np.divide(1.0, rho_sq, out=np.zeros_like(rho_sq), where=rho_sq > 0)
        if len(self.table) <= self.sizes.kept_scales:
            inverse = inverse.astype(np.float32)
            self._inverse[c] = inverse
        return inverse

    def exhaustive(self, V: np.ndarray) -> bool:
        """Whether a search of all products is affordable."""
        return len(self.table) > 0 and self.cost * max(V.shape[1], 1) <= self.sizes.exhaustive

    def _best(self, direction, size, exclude, rng):
        """Return the best of all products where that is affordable, else of those that a search meets."""
        if self.r == 0:
            return nothing()
        V, signs, whole = self.low_rank(direction)
        if not self.exhaustive(V):
            return self.heuristic(direction, size, exclude, rng)
        exclude = set(exclude)
        V = np.ascontiguousarray(V.T / (np.abs(V).max() or 1.0))
        most = size + SLACK + len(exclude)
        if self.kept:
            next(self._with_constant(self.X))  # before threads want them

        def search(c):
            scores = self._scores(c, V, signs)
            top = leaders(scores, most)
            return self.table.places(self.chunks[c]).start + top, scores[top]

        with one_blas_thread():
            found = map_in_threads(search, range(len(self.chunks)))
        places, values = (np.concatenate(part) for part in zip(*found, strict=True))
        top = np.argsort(-values, kind="stable")[:most]
        members = self.named(self.table.members(places[top[values[top] > -np.inf]]))
        # In the order of the family, so that ties are broken as in a list of all.
        finalists = sorted((z for z in members if z not in exclude), key=lambda z: (len(z), z))
        if not finalists:
            return nothing(whole)
        return ranked(finalists, self.values(direction, finalists), size, whole)

    def norm(self, direction: Direction, q: float) -> float | None:
        """Return the q-norm of the values of all products, from the same table; None where it is too large."""
        V, signs, whole = self.low_rank(direction)
        if not (whole and self.exhaustive(V)):
            return None
        V = np.ascontiguousarray(V.T)
        with one_blas_thread():
            return power_norm((self._scores(c, V, signs) for c in range(len(self.chunks))), q)

    # -- some products

    def values(self, direction: Direction, members: Members) -> np.ndarray:
        """Return <K_z, M>/ρ_z² of members in full precision, in blocks of rows."""
        codes = self.coded(members)
        if len(codes) < len(members):
            alive = [i for i, z in enumerate(members) if all(j in self.place for j in z)]
            out = np.full(len(members), -np.inf)
            if alive:
                out[alive] = self.values(direction, [members[i] for i in alive])
            return out
        lengths = np.array([len(z) for z in members], dtype=np.intp)
        rho_sq = self.prior_sq[lengths]
        forms = direction.forms_of_rows((rows, _rows_of(Z, codes)) for rows, Z in self._blocks(self.X))
        if self.how == "trace":
            rho_sq = rho_sq * self._means(codes)
        return np.divide(forms, rho_sq, out=np.full(len(members), -np.inf), where=rho_sq > 0)

    def _means(self, codes) -> np.ndarray:
        """Return the means of φ_z² over the product of those of its factors; kept, as they are asked for often."""
        new = [z for z in codes if z not in self._mean]
        out = np.zeros(len(new))
        for rows, Z in self._blocks(self.scale_rows) if new else ():
            phi = _rows_of(Z, new)
            out += np.square(phi, out=phi) @ self.row_weight[rows]
        self._mean.update(zip(new, out.tolist(), strict=True))
        return np.array([self._mean[z] for z in codes])

    def extensions(self, direction: Direction, prefixes: Sequence[Prefix]) -> np.ndarray:
        """Return the values of all one-factor extensions, O(m n r)."""
        V, signs, _ = self.low_rank(direction)
        total = np.zeros((V.shape[1], len(prefixes), self.r))
        for rows, Z in self._blocks(self.X):
            phi = _rows_of(Z, prefixes)
            for k in range(V.shape[1]):
                total[k] += (phi * V[rows, k]) @ Z.T
        values, means = np.tensordot(signs, np.square(total), 1), None
        if self.how == "trace":
            means = np.zeros_like(values)
            for rows, Z in self._blocks(self.scale_rows):
                Z = np.square(Z)
                means += (_rows_of(Z, prefixes) * self.row_weight[rows]) @ Z.T
        return self._over_scale(values, means, prefixes)


def _rows_of(Z: np.ndarray, codes: Sequence[Prefix]) -> np.ndarray:
    """Return the products of rows of Z, one row per product: contiguous, and several times quicker than columns."""
    out = np.empty((len(codes), Z.shape[1]))
    for row, z in zip(out, codes, strict=True):
        row[...] = Z[z[0]] if z else 1.0
        for j in z[1:]:
            row *= Z[j]
    return out


def leaders(scores: np.ndarray, most: int) -> np.ndarray:
    """Return the places of at least the `most` largest scores, and few more.

    Groups' maxima give a threshold that at least `most` scores reach, which is quicker than a partition.
    """
    group = len(scores) // (8 * most)
    if group < 8:
        most = min(most, len(scores))
        return np.argpartition(-scores, most - 1)[:most]
    whole = len(scores) - len(scores) % group
    tops = scores[:whole].reshape(-1, group).max(axis=1)
    threshold = np.partition(tops, len(tops) - most)[len(tops) - most]
    if threshold == -np.inf:
        return np.flatnonzero(scores > -np.inf)
    found = np.flatnonzero(scores >= threshold)
    if len(found) > 4 * most:
        found = found[np.argsort(-scores[found], kind="stable")[: 4 * most]]
    return found
