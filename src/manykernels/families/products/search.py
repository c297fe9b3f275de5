"""The search for the best product of base kernels, grown and improved one factor at a time.

It begins with a beam (products grown factor by factor) and with draws near proportional to the gradient, and
exchanges one factor at a time for the best one. What a factor more is worth is the subclasses' to say: from Gram
matrices here, from columns in :mod:`.monomial_search`.
"""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._util.arrays import row_blocks
from ..._util.threads import map_in_threads
from ...kernels.statistics import Rows
from ..bank import Sharing, row_tiles
from ..base import Best, Direction, Members, Scaling, nothing
from ..search import CostedSearcher, ranked, rho_sq_of
from .monomials import Prefix

if TYPE_CHECKING:
    from . import Products

#: Members that a search keeps beyond those asked for, to be ranked again in full precision.
SLACK = 32
#: Width of the beam, and number of draws, of a search that is not exhaustive.
BEAM = 64
#: Most products that are improved, however many are asked for.
MOST_STARTS = 2000


class ProductSearcher(CostedSearcher):
    """Products grown and improved one factor at a time, on base kernels of mean 1.

    Parameters
    ----------
    family : Products, resolved
    X : rows
    scale : Scale or None
    """

    def __init__(self, family: Products, X: Rows, scale: Scaling | None):
        super().__init__(family, X, scale)
        self.n, self.degree = X.shape[0], family.degree
        self.how = None if scale is None else scale.how
        self.prior_sq = np.concatenate([[1.0], family._prior_sq()])
        means = family.base_means(scale)
        base = np.ones(family._r) if means is None else means
        if scale is not None:
            #: The rows that scales are means over, and the weight of each in a mean.
            self.scale_rows, self.row_weight = scale.X, scale.sample_weight / scale.sample_weight.sum()
        self.active = np.flatnonzero(base > 0)
        self.base, self.r = base[self.active], len(self.active)
        self.place = {int(j): i for i, j in enumerate(self.active)}
        self._sampler: Any = None

    # -- members by their numbers among the active base kernels

    def named(self, codes: Sequence[Prefix]) -> list[Prefix]:
        """Return members of the family."""
        return [tuple(int(self.active[j]) for j in z) for z in codes]

    def coded(self, members: Collection[Prefix]) -> list[Prefix]:
        """Return the inverse of ``named``; members with a vanishing factor are left out."""
        return [tuple(self.place[j] for j in z) for z in members if all(j in self.place for j in z)]

    @abstractmethod
    def extensions(self, direction: Direction, prefixes: Sequence[Prefix]) -> np.ndarray:
        """Return the value of every prefix with every base kernel as one more factor, (m, r)."""

    def _over_scale(self, values, means, prefixes) -> np.ndarray:
        """Return the values of all extensions over their means, if these are given, and their degrees' priors."""
        if means is not None:
            values = np.divide(values, means, out=np.full_like(values, -np.inf), where=means > 0)
        lengths = np.array([len(z) for z in prefixes], dtype=np.intp)
        return values / self.prior_sq[lengths + 1][:, None]

    # -- a search that is not exhaustive

    def heuristic(
        self,
        direction: Direction,
        size: int,
        exclude: Collection[Any],
        rng: np.random.Generator | None,
        *,
        draw: bool = True,
    ) -> Best:
        """Beam, draws unless told otherwise, and exchanges of one factor at a time."""
        rng = np.random.default_rng(0) if rng is None else rng
        seen: dict[Prefix, float] = {}
        beam: list[Prefix] = [()]
        size, wanted = min(size, MOST_STARTS), size
        width = max(BEAM, 2 * size)
        for _ in range(self.degree):
            beam = self._grow(direction, beam, seen, width)
        starts = self._leaders(seen, exclude, size + 8)
        starts += [z for z in self._draws(direction, rng) if z not in seen] if draw else []
        self._improve(direction, list(dict.fromkeys(starts)), seen)
        codes = self._leaders(seen, exclude, wanted + SLACK)
        members = self.named(codes)
        return ranked(members, self.values(direction, members), wanted, False) if members else nothing(False)

    def _grow(self, direction, prefixes, seen, width) -> list[Prefix]:
        """Evaluate all extensions of the prefixes, and return the best `width`."""
        prefixes = [z for z in prefixes if len(z) < self.degree]
        if not prefixes:
            return []
        values = self.extensions(direction, prefixes)
        flat = values.ravel()
        most = min(len(flat), (self.degree + 1) * width)
        top = np.argpartition(-flat, most - 1)[:most]
        top = top[np.lexsort((top, -flat[top]))]
        grown: dict[Prefix, float] = {}
        for i in top[flat[top] > -np.inf]:
            z = tuple(sorted((*prefixes[i // self.r], int(i % self.r))))
            grown.setdefault(z, float(flat[i]))
        for z, value in grown.items():
            seen[z] = value
        return list(grown)[:width]

    def _draws(self, direction, rng) -> list[Prefix]:
        """Return products drawn near proportionally to their value, where it is a sum of squares."""
        V = direction.positive()
        if V is None or not V.shape[1]:
            return []
        if self._sampler is None:
            self._sampler = self.family.sampler(self.X, self.scale)
        drawn = self._sampler.draw(V, BEAM, rng)
        members = [] if drawn is None else sorted(set(drawn[0]))
        return [z for z in self.coded(members) if z]

    def _improve(self, direction, members, seen):
        """Exchange the one factor whose exchange helps most, until none does."""
        for _ in range(20):
            if not members:
                return
            rests = list(dict.fromkeys(z[:i] + z[i + 1 :] for z in members for i in range(len(z))))
            values = self.extensions(direction, rests)
            row = {z: i for i, z in enumerate(rests)}
            better = []
            for z in members:
                now, best = seen.get(z, -np.inf), None
                for rest in {z[:i] + z[i + 1 :] for i in range(len(z))} | {z}:
                    if rest in row and len(rest) < self.degree:
                        j = int(np.argmax(values[row[rest]]))
                        value = float(values[row[rest], j])
                        moved = tuple(sorted((*rest, j)))
                        seen.setdefault(moved, value)
                        if value > now * (1 + 1e-9):
                            now, best = value, moved
                if best is not None:
                    better.append(best)
            members = list(dict.fromkeys(better))

    def _leaders(self, seen, exclude, size) -> list[Prefix]:
        out = set(self.coded(exclude))
        order = sorted((z for z in seen if z not in out and seen[z] > -np.inf), key=lambda z: (-seen[z], z))
        return list(itertools.islice((z for z in order if self.admitted(z)), size))

    def admitted(self, code: Prefix) -> bool:
        """Whether a product is a member: not if it repeats an indicator."""
        return not self.family.indicators or self.family.admits(tuple(int(self.active[j]) for j in code))

    def joining(self, direction: Direction, members: Members, size: int) -> Best:
        """Return the best of all that may join some members by the family's heredity: O(n r) for each of these."""
        known = set(members)
        seen: dict[Prefix, float] = {}
        prefixes = [(), *(z for z in self.coded(members) if len(z) < self.degree)]
        for part in row_blocks(len(prefixes), self.r, 2**21):
            values = self.extensions(direction, prefixes[part])
            for z, row in zip(prefixes[part], values, strict=True):
                for j, value in enumerate(row.tolist()):
                    seen.setdefault(tuple(sorted((*z, j))), value)
        codes = [z for z in self._leaders(seen, members, len(seen)) if not self._barred(z, known)]
        found = self.named(codes[: size + SLACK])
        # Products that may join later are not looked at: no gap over all of them.
        return ranked(found, self.values(direction, found), size, False) if found else nothing(False)

    def _barred(self, code: Prefix, known: set[Prefix]) -> bool:
        return not self.family.may_join(tuple(int(self.active[j]) for j in code), known)

    def nearby(self, direction: Direction, members: Members, size: int) -> list[Any]:
        """Return the best of the members' parts, and of these with one factor more."""
        parts: dict[Prefix, None] = {(): None}
        for z in self.coded(members):
            for d in range(1, min(len(z), self.degree - 1) + 1):
                parts.update(dict.fromkeys(itertools.combinations(z, d)))
        seen: dict[Prefix, float] = {}
        for part in row_blocks(len(parts), self.r, 2**21):
            self._grow(direction, list(parts)[part], seen, size)
        return self.named(self._leaders(seen, members, size))

    def low_rank(self, direction: Direction) -> tuple[np.ndarray, np.ndarray, bool]:
        """Return V and signs, and whether they are all of M: of a dense one as many parts as pay."""
        return direction.leading(max(8, self.n // 50))


class GramSearcher(ProductSearcher):
    """Products of any base kernels, in tiles of their Gram matrices; never exhaustive."""

    def __init__(self, family: Products, X: Rows, scale: Scaling | None):
        super().__init__(family, X, scale)
        kernels = family._base()
        self.kernels = [kernels[j] for j in self.active]
        self.sharing = Sharing(self.kernels)
        self.tiles = row_tiles(self.n)
        self.cost = float(self.n) ** 2 * self.r * BEAM
        if self.how == "trace":
            self.diagonals = np.stack([k.diag(self.scale_rows) for k in self.kernels]) / self.base[:, None]

    def _best(self, direction, size, exclude, rng):
        """Return the best of the products that the search meets."""
        if self.r == 0:
            return nothing()
        return self.heuristic(direction, size, exclude, rng)

    def values(self, direction: Direction, members: Members) -> np.ndarray:
        """Return the values of members, from their Gram matrices."""
        forms = direction.along(self.family.bank(self.X, members))
        rho_sq = rho_sq_of(self.scale, members)
        return np.divide(forms, rho_sq, out=np.full(len(members), -np.inf), where=rho_sq > 0)

    def extensions(self, direction: Direction, prefixes: Sequence[Prefix]) -> np.ndarray:
        """Return the values of all one-factor extensions, O(m r n²)."""
        direction = direction.symmetrised()

        def partial(tile):
            a, b = tile
            block = self.sharing.open(self.X[a:b], self.X[a:])
            K = np.stack([block(j).ravel() / self.base[j] for j in range(self.r)])
            flat = direction.tile(a, b).ravel()
            out = np.empty((len(prefixes), self.r))
            for i, z in enumerate(prefixes):
                out[i] = K @ (flat * np.prod(K[list(z)], axis=0) if z else flat)
            return out

        values, means = np.sum(map_in_threads(partial, self.tiles), axis=0), None
        if self.how == "trace":
            heads = np.stack([self.row_weight * np.prod(self.diagonals[list(z)], axis=0) for z in prefixes])
            means = heads @ self.diagonals.T
        return self._over_scale(values, means, prefixes)
