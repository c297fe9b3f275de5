"""The search for the best monomial, exhaustive as long as that is affordable.

For monomials <K_z, M> = Σ_k signs_k (φ_zᵀ v_k)². The sums φ_zᵀ v of all products are the table of
:mod:`.monomial_table`, n r^D/D! multiply-adds per vector, nearly all of them in matrix products. Large tables go
through :mod:`.screening` first, in single precision, with a proof that the best is not lost; where there is none, in
full.

Beyond what that may cost, all products are compared on the rows that count most, and the leaders on all rows; beyond
what that may cost, the search is the heuristic one of :mod:`.search`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..._util.arrays import row_blocks
from ..._util.threads import map_in_threads, n_threads, one_blas_thread
from ...kernels.statistics import Rows
from ..base import Best, Direction, Members, Scaling, nothing
from ..search import power_norm, ranked
from ._products import add_squares, products_of_rows, scale_or_drop
from .monomial_table import TABLE_ROWS, ProductTable, n_heads
from .monomials import Prefix, n_multisets, padded
from .screening import MOST_FACTORS, MOST_ROWS, Screen, rounding
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
    screen : float
        Multiply-adds of a search on some of the rows, where all of them would cost more than `exhaustive`.
    screen_rows : int
        The fewest rows that are worth it.
    screened : int
        Leaders on those rows that are compared on all.
    single : float
        Searches of fewer multiply-adds than this are not screened in single precision: they take no time.
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
    screen: float = 2.5e12
    screen_rows: int = 256
    screened: int = 20_000
    single: float = 1e9
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
        self.partial = False
        self.table = self._table()
        self.chunks = self.table.chunks(self._chunk_size(len(self.table)))
        self.rows_taken = min(int(sizes.screen // len(self.table)), self.n) if self.partial else self.n
        self.cost = float(self.rows_taken) * (len(self.table) or self.r * BEAM * self.degree)
        self._columns: list[np.ndarray] = []
        self._inverse: dict[int, np.ndarray] = {}
        self._mean: dict[Prefix, float] = {}
        self._pairs: np.ndarray | None = None
        self._screen: Screen | None = None

    # -- the table of all products

    def _table(self) -> ProductTable:
        """Return the table of all products, an empty one where it is never to be searched."""
        size, heads = n_multisets(self.r, self.degree), n_heads(self.r, self.degree) * HEAD
        whole = size * self.n + heads <= self.sizes.exhaustive
        self.partial = (
            not whole and self.by_mean and size * self.sizes.screen_rows + heads <= self.sizes.screen
        )
        return ProductTable(self.r if whole or self.partial else 0, self.degree, self.sizes.table_rows)

    @property
    def by_mean(self) -> bool:
        """Whether scales are mean squares over the rows that are searched, and single precision will do."""
        same = self.how == "trace" and self.scale_rows is self.X and not (self.prior_sq != 1.0).any()
        return same and self.degree <= MOST_FACTORS and self.kept

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
        whole = len(self.table) > 0 and not self.partial
        return whole and self.cost * max(V.shape[1], 1) <= self.sizes.exhaustive

    def _best(self, direction, size, exclude, rng):
        """Return the best of all products where that is affordable, else of those that a search meets."""
        if self.r == 0:
            return nothing()
        V, signs, whole = self.low_rank(direction)
        if not self.exhaustive(V):
            screens = self.partial and (signs > 0).all() and V.shape[1] * self.cost <= self.sizes.screen
            # Draws meet what stands out, at the cost of a table of pairs; a screen meets it anyway.
            found = self.heuristic(
                direction, min(size, BEAM) if screens else size, exclude, rng, draw=not screens
            )
            return self._on_some_rows(direction, V, size, exclude, found) if screens else found
        if self.kept:
            next(self._with_constant(self.X))  # before threads want them
        screened = self._screened(direction, V, size, exclude) if self._worth_screening(signs) else None
        return screened or self._in_full(direction, V, signs, size, exclude, whole)

    def _in_full(self, direction, V, signs, size, exclude, whole) -> Best:
        """Return the best of all products, compared in double precision."""
        most = self._most(size, exclude)
        V = np.ascontiguousarray(V.T / (np.abs(V).max() or 1.0))

        def search(c):
            scores = self._scores(c, V, signs)
            top = leaders(scores, most)
            return self.table.places(self.chunks[c]).start + top, scores[top]

        with one_blas_thread():
            found = map_in_threads(search, range(len(self.chunks)))
        places, values = (np.concatenate(part) for part in zip(*found, strict=True))
        top = np.argsort(-values, kind="stable")[:most]
        codes = self.table.members(places[top[values[top] > -np.inf]])
        return self._ranked(direction, codes, size, exclude, whole)

    def _most(self, size: int, exclude: Collection[Prefix]) -> int:
        """Return how many leaders to keep: an indicator is as good as its powers, up to D of them."""
        return (size + SLACK + len(exclude)) * (self.degree if self.family.indicators else 1)

    def _ranked(self, direction, codes, size, exclude, whole) -> Best:
        """Return the best of some products in full precision."""
        exclude = set(exclude)
        # In the order of the family, so that ties are broken as in a list of all.
        names = self.named([z for z in codes if self.admitted(z)])
        finalists = sorted((z for z in names if z not in exclude), key=lambda z: (len(z), z))
        if not finalists:
            return nothing(whole)
        return ranked(finalists, self.values(direction, finalists), size, whole)

    # -- in single precision

    def _worth_screening(self, signs) -> bool:
        """Whether single precision is quicker, and what it leaves behind can be bounded."""
        fits = self.n <= MOST_ROWS and len(self.table) <= self.sizes.kept_scales
        return fits and self.by_mean and self.cost > self.sizes.single and bool((signs > 0).all())

    def _screened(self, direction, V, size, exclude) -> Best | None:
        """Return the best of all products by their leaders in single precision; None where one may be missing."""
        V = V / (np.abs(V).max() or 1.0)
        weight = self.row_weight[:, None]
        # Σ_t |v_t φ_t| <= sqrt(Σ_t v_t²/s_t) ρ_z, with the weights s_t in the mean that is ρ_z².
        reach = np.divide(np.square(V), weight, out=np.where(V != 0, np.inf, 0.0), where=weight > 0).sum()
        if self._screen is None:
            self._screen = Screen(self.table, self.chunks, self._in_single(slice(None)))
        screen, most = self._screen, self._most(size, exclude)
        found = screen.leaders(np.ascontiguousarray(V.T, dtype=np.float32), most, self._single_scales)
        best = self._ranked(direction, self.table.members(found.places), size, exclude, True)
        if not len(best.values) or not found.threshold:
            return None
        gamma = rounding(self.n, self.degree)
        missed = np.sqrt(found.threshold) * (1 + 2 * gamma) + gamma * np.sqrt(reach)
        unit = np.abs(direction.V).max()
        return best if np.sqrt(best.values[0]) / unit > missed else None

    def _single_scales(self, c: int) -> np.ndarray:
        """Return 1/ρ² of all products of a chunk in single precision, computed in it."""
        if c not in self._inverse:
            assert self._screen is not None
            places, Z = self.table.places(self.chunks[c]), self._screen.Z
            rho_sq = np.zeros(places.stop - places.start, dtype=np.float32)
            self.table.add(self.chunks[c], np.square(Z), self.row_weight.astype(np.float32), rho_sq)
            self._inverse[c] = np.divide(1.0, rho_sq, out=np.zeros_like(rho_sq), where=rho_sq > 0)
        return self._inverse[c]

    def _in_single(self, rows) -> np.ndarray:
        """Return the constant column and the scaled ones on some rows, (r + 1, rows), in single precision."""
        whole = np.concatenate([Z for _, Z in self._with_constant(self.X)], axis=1)
        return np.ascontiguousarray(whole[:, rows], dtype=np.float32)

    def _on_some_rows(self, direction, V, size, exclude, found: Best) -> Best:
        """Return the best of what has been found, and of all products on the rows with the largest coefficients."""
        length = np.sqrt(np.square(V).sum(axis=1))
        rows = np.sort(np.argsort(-length, kind="stable")[: self.rows_taken])
        screen = Screen(self.table, self.chunks, self._in_single(rows))
        V = np.ascontiguousarray(V[rows].T / (length.max() or 1.0), dtype=np.float32)
        most = max(self.sizes.screened, 2 * self._most(size, exclude))
        leading = screen.leaders(V, most, pairs=self._pair_scales())
        codes = dict.fromkeys([*self.coded(found.members), *self.table.members(leading.places)])
        return self._ranked(direction, list(codes), size, exclude, False)

    def _pair_scales(self) -> np.ndarray:
        """Return 1/mean(x_i² x_j²) of the scaled columns, the constant one first; 0 where the product vanishes."""
        if self._pairs is None:
            total = np.zeros((self.r + 1, self.r + 1), dtype=np.float32)
            for rows, Z in self._with_constant(self.scale_rows):
                square = np.square(Z).astype(np.float32)
                total += (square * self.row_weight[rows].astype(np.float32)) @ square.T
            self._pairs = np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)
        return self._pairs

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
    products_of_rows(Z, padded(codes, -1), out)
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
