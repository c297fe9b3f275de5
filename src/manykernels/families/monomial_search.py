"""The search for the best monomial, exhaustive as long as that is affordable.

For monomials <K_z, M> = Σ_k signs_k (φ_zᵀ v_k)². All products of D factors that begin with a head of D - 2 factors
are one matrix product, Xᵀ diag(v ∘ φ_head) X, of which the upper triangle is enough: n r^D/D! multiply-adds for
all. Beyond what that may cost, the search is the heuristic one of :mod:`.product_search`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from .._blocks import row_blocks
from .._threads import map_in_threads, n_threads, one_blas_thread
from .product_search import BEAM, SLACK, GramSearcher, Prefix, ProductSearcher
from .search import CostedSearcher, Listed, check_direction, is_zero, nothing, power_norm, ranked

#: A search of all monomials may cost this many multiply-adds; a core does 10^10 to 5·10^10 in a second.
EXHAUSTIVE = 4e11
#: The same for products of other kernels, whose entries cost more.
EXHAUSTIVE_GRAMS = 2e10
#: Entries of the part of the table of all products that a thread works on.
CHUNK = 2**21
#: What one small matrix product costs before it multiplies anything, in multiply-adds.
CALL = 2e5
#: Searches of fewer multiply-adds than this are not worth a thread.
SERIAL = 1e8
#: Pairs are formed in strips of so many first factors, which nearly halves the work on wide tables.
STRIP = 128
#: Entries of a block of rows, small enough to stay in cache.
BLOCK = 2**19
#: The scaled columns are kept up to this many entries.
KEPT_COLUMNS = 2**23
#: Scales of all products are kept, in single precision, up to this many entries.
KEPT_SCALES = 2**28


def product_searcher(family, X, scale) -> CostedSearcher:
    """Return the searcher of a family of products."""
    family = family if hasattr(family, "_r") else family.resolve(X.shape[1])
    given = scale is not None and isinstance(scale.how, np.ndarray)
    if family.base is None and not given:
        return MonomialSearcher(family, X, scale)
    if given or family.size() * X.shape[0] ** 2 <= EXHAUSTIVE_GRAMS:
        return Listed(family, X, scale)
    return GramSearcher(family, X, scale)


class MonomialSearcher(ProductSearcher):
    """Products of columns: matrix products in blocks of rows, memory O(n r) and the table of scales."""

    def __init__(self, family, X, scale):
        super().__init__(family, X, scale)
        self.divisor = np.sqrt(self.base)
        self.chunks = list(self._chunks())
        self.entries = sum(table.size for chunk in self.chunks for table in chunk)
        self.cost = float(self.n) * (self.entries or self.r * BEAM * self.degree)
        self._columns: dict[bool, np.ndarray] = {}
        self._inverse: dict[int, np.ndarray] = {}
        self._mean: dict[Prefix, float] = {}
        if self.how is not None:
            s = scale.sample_weight
            self.row_weight = s / s.sum()

    # -- the table of all products

    def _chunks(self) -> Iterator[list[_Square]]:
        heads = math.comb(self.r + max(self.degree - 2, 0), max(self.degree - 2, 0))
        if n_entries(self.r, self.degree) * self.n + heads * CALL > EXHAUSTIVE:
            return  # never to be searched in full
        chunk: list[_Square] = []
        work = 0
        total = n_entries(self.r, self.degree)
        small = total * self.n <= SERIAL
        # A chunk reads all rows: where these are not kept, as few chunks as threads.
        parts = n_threads() * (4 if self.n * self.r <= KEPT_COLUMNS else 1)
        limit = min(CHUNK, total if small else -(-total // parts))
        for d in range(1, self.degree + 1):
            for head in itertools.combinations_with_replacement(range(self.r), max(d - 2, 0)):
                square = _Square(d, head, self.r)
                chunk.append(square)
                work += square.size
                if work >= limit and not small:
                    yield chunk
                    chunk, work = [], 0
        if chunk:
            yield chunk

    def _blocks(self, X, keep=True) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield the scaled columns, (r, rows), in blocks of rows."""
        for rows in row_blocks(X.shape[0], max(self.r, 64), BLOCK):
            yield rows, self._scaled(X, rows, keep)

    def _scaled(self, X, rows, keep):
        own = X is self.X
        if own and self.n * self.r <= KEPT_COLUMNS and keep:
            if True not in self._columns:
                self._columns[True] = np.ascontiguousarray((X[:, self.active] / self.divisor).T)
            return self._columns[True][:, rows]
        Z = X[rows] if self.r == X.shape[1] else X[rows][:, self.active]
        return np.ascontiguousarray((Z / self.divisor).T)

    def _fill(self, chunk, X, v, squared=False) -> np.ndarray:
        """Return Σ_t v_t φ_z(x_t), or of φ_z², for all products of a chunk, one after the other."""
        out = np.zeros(sum(square.size for square in chunk))
        for rows, Z in self._blocks(X):
            if squared:
                Z = np.square(Z)
            at, before, product = 0, None, None
            buffer = np.empty_like(Z)
            for square in chunk:
                if square.head != before or product is None:
                    product = v[rows].copy()
                    for j in square.head:
                        product *= Z[j]
                    before = square.head
                    if square.degree > 1:
                        U = np.multiply(Z[square.first :], product, out=buffer[square.first :])
                if square.degree == 1:
                    out[at : at + self.r] += Z @ product
                    before = None
                else:
                    square.add(out[at : at + square.size], U, Z[square.first :])
                at += square.size
        return out

    def _scores(self, c: int, V, signs) -> np.ndarray:
        """Return the values of all products of a chunk."""
        chunk = self.chunks[c]
        total = None
        for v, sign in zip(V.T, signs, strict=True):
            part = self._fill(chunk, self.X, v)
            np.multiply(part, part, out=part)
            if sign != 1.0:
                part *= sign
            total = part if total is None else np.add(total, part, out=total)
        assert total is not None
        if self.how == "trace":
            inverse = self._inverse_scales(c)
            total *= inverse
            if not inverse.all():
                total[inverse == 0] = -np.inf
        at = 0
        for square in chunk:
            if self.prior_sq[square.degree] != 1.0:
                total[at : at + square.size] /= self.prior_sq[square.degree]
            at += square.size
        return total

    def _inverse_scales(self, c: int) -> np.ndarray:
        if c in self._inverse:
            return self._inverse[c]
        mean = self._fill(self.chunks[c], self.scale.X, self.row_weight, squared=True)
        inverse = np.divide(1.0, mean, out=np.zeros_like(mean), where=mean > 0)
        if self.entries <= KEPT_SCALES:
            inverse = inverse.astype(np.float32)
            self._inverse[c] = inverse
        return inverse

    def exhaustive(self, V) -> bool:
        """Whether a search of all products is affordable."""
        return bool(self.chunks) and self.cost * max(V.shape[1], 1) <= EXHAUSTIVE

    def best(self, direction, *, size=1, exclude=(), rng=None):
        """Return the best of all products where that is affordable, else of those that a search meets."""
        check_direction(direction, self.n)
        if is_zero(direction) or self.r == 0:
            return nothing()
        V, signs, whole = self.low_rank(direction)
        if not self.exhaustive(V):
            return self.heuristic(direction, size, exclude, rng)
        exclude = set(exclude)
        V = np.ascontiguousarray(V / (np.abs(V).max() or 1.0))
        most = 2 * (size + SLACK + len(exclude))  # a pair of factors may stand twice
        if self.how == "trace" and self._columns == {} and self.n * self.r <= KEPT_COLUMNS:
            self._scaled(self.X, slice(0, 1), True)

        def search(c):
            scores = self._scores(c, V, signs)
            top = leaders(scores, most)
            return self._members_at(self.chunks[c], top), scores[top]

        with one_blas_thread():
            found = map_in_threads(search, range(len(self.chunks)))
        members = [z for part, _ in found for z in part]
        values = np.concatenate([v for _, v in found])
        keep = [i for i, z in enumerate(members) if z is not None and z not in exclude]
        finalists = ranked([members[i] for i in keep], values[keep], size + SLACK, whole)
        if not finalists.members:
            return nothing(whole)
        exact = self.values(direction, finalists.members)
        return ranked(finalists.members, exact, size, whole)

    def norm(self, direction, q):
        """Return the q-norm of the values of all products, from the same table; None where it is too large."""
        V, signs, whole = self.low_rank(direction)
        if not (whole and self.exhaustive(V)):
            return None

        def values(c):
            scores, at = self._scores(c, V, signs), 0
            for square in self.chunks[c]:
                square.once(scores[at : at + square.size])
                at += square.size
            return scores

        with one_blas_thread():
            return power_norm((values(c) for c in range(len(self.chunks))), q)

    def _members_at(self, chunk, places) -> list[Prefix | None]:
        """Return the products at some places of a chunk; None for the second of two places."""
        ends = np.cumsum([square.size for square in chunk])
        which = np.searchsorted(ends, places, side="right")
        out: list[Prefix | None] = []
        for h, at in zip(which.tolist(), places.tolist(), strict=True):
            z = chunk[h].member(at - (int(ends[h]) - chunk[h].size))
            out.append(None if z is None else self.named([z])[0])
        return out

    # -- some products

    def values(self, direction, members):
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
        if direction.dense is not None:
            phi = np.concatenate([_rows_of(Z, codes) for _, Z in self._blocks(self.X)], axis=1)
            forms = np.einsum("jt,jt->j", phi @ ((direction.dense + direction.dense.T) / 2), phi)
        else:
            V, signs = direction.V, direction.signs
            assert V is not None and signs is not None
            total = np.zeros((len(members), V.shape[1]))
            for rows, Z in self._blocks(self.X):
                total += _rows_of(Z, codes) @ V[rows]
            forms = np.square(total) @ signs
        if self.how == "trace":
            rho_sq = rho_sq * self._means(codes)
        return np.divide(forms, rho_sq, out=np.full(len(members), -np.inf), where=rho_sq > 0)

    def _means(self, codes) -> np.ndarray:
        """Return the means of φ_z² over the product of those of its factors; kept, as they are asked for often."""
        new = [z for z in codes if z not in self._mean]
        out = np.zeros(len(new))
        for rows, Z in self._blocks(self.scale.X) if new else ():
            phi = _rows_of(Z, new)
            out += np.square(phi, out=phi) @ self.row_weight[rows]
        self._mean.update(zip(new, out.tolist(), strict=True))
        return np.array([self._mean[z] for z in codes])

    def extensions(self, direction, prefixes):
        """Return the values of all one-factor extensions, O(m n r)."""
        V, signs, _ = self.low_rank(direction)
        total = np.zeros((V.shape[1], len(prefixes), self.r))
        for rows, Z in self._blocks(self.X):
            phi = _rows_of(Z, prefixes)
            for k in range(V.shape[1]):
                total[k] += (phi * V[rows, k]) @ Z.T
        values = np.tensordot(signs, np.square(total), 1)
        if self.how == "trace":
            means = np.zeros_like(values)
            for rows, Z in self._blocks(self.scale.X):
                Z = np.square(Z)
                means += (_rows_of(Z, prefixes) * self.row_weight[rows]) @ Z.T
            values = np.divide(values, means, out=np.full_like(values, -np.inf), where=means > 0)
        lengths = np.array([len(z) for z in prefixes], dtype=np.intp)
        return values / self.prior_sq[lengths + 1][:, None]


def _rows_of(Z: np.ndarray, codes: Sequence[Prefix]) -> np.ndarray:
    """Return the products of rows of Z, one row per product: contiguous, and several times quicker than columns."""
    out = np.empty((len(codes), Z.shape[1]))
    for row, z in zip(out, codes, strict=True):
        row[...] = Z[z[0]] if z else 1.0
        for j in z[1:]:
            row *= Z[j]
    return out


class _Square:
    """The products of one head with all pairs of factors not below its last, in strips of the upper triangle."""

    def __init__(self, degree: int, head: Prefix, r: int):
        self.degree, self.head = degree, head
        self.first = head[-1] if head else 0
        self.width = r - self.first
        self.strips = [(a, min(a + STRIP, self.width)) for a in range(0, self.width, STRIP)]
        sizes = [(b - a) * (self.width - a) for a, b in self.strips]
        self.ends = list(itertools.accumulate(sizes))
        self.size = self.width if degree == 1 else self.ends[-1]

    def add(self, out, U, Z):
        """Add U Zᵀ."""
        at = 0
        for a, b in self.strips:
            wide = self.width - a
            out[at : at + (b - a) * wide].reshape(b - a, wide)[...] += U[a:b] @ Z[a:].T
            at += (b - a) * wide

    def once(self, scores):
        """Set places to zero where a product stands a second time."""
        at = 0
        for a, b in self.strips if self.degree > 1 else ():
            size = (b - a) * (self.width - a)
            scores[at : at + size].reshape(b - a, -1)[np.tril_indices(b - a, -1)] = 0.0
            at += size

    def member(self, at: int) -> Prefix | None:
        """Return the product at a place; None where it stands a second time."""
        if self.degree == 1:
            return (at,)
        s = next(i for i, end in enumerate(self.ends) if at < end)
        a, _ = self.strips[s]
        i, j = divmod(at - (self.ends[s - 1] if s else 0), self.width - a)
        if j < i:
            return None
        return (*self.head, self.first + a + i, self.first + a + j)


def n_entries(r: int, degree: int) -> int:
    """Return about how many places the table of all products of 1 to D of r factors has, below that."""
    return math.comb(r + degree, degree)


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
