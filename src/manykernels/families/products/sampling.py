r"""Drawing products of kernels near proportionally to the gradient, without listing them.

Algorithm 3 of Afkanpour et al. (2013), for several outputs. An ordered tuple z = (j_1, ..., j_d), 0 ≤ d ≤ D, is
drawn with probability proportional to tr(Aᵀ K_z A) / (ρ_d² Π_j base_j): first the degree, from the masses
tr(Aᵀ S^{∘d} A)/ρ_d² with S = Σ_j K_j/base_j, then one coordinate after the other. What is returned is the
multiset, with its probability: the number of its orderings times that of a tuple.

With the scale ``"base"`` or None, and ``count="ordered"``, that is proportional to the gradient. With
distinct members it is so up to the number of orderings. With any other scale (``"trace"``, or ρ of the
user's) the base-scaled proposal stands in, because it factorises; as ρ_z² and Π_j base_j are alike for
columns that are not heavy-tailed, the importance weights g_z/(ρ_z² q_z), which correct both, stay moderate.

All draws of a call share what they can: the masses, the distribution of the first coordinate, and the
conditional of every prefix, as a multiset, that several draws have in common.

References
----------
Afkanpour, György, Szepesvári, Bowling (2013), *A Randomized Mirror Descent Algorithm for Large Scale Multiple
Kernel Learning*, section 4, Algorithm 3. The paper's kernels are the ordered tuples.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._util.arrays import row_blocks
from ...kernels import Kernel
from ...kernels.plain import whole_power
from ..bank import Sharing, row_tiles
from ..draws import pick
from .monomials import Prefix, orderings

#: Draws lost to rounding (a prefix without mass) are repeated this many times.
ROUNDS = 20
#: Gram matrices of the base kernels are kept up to this many bytes, otherwise computed for every pass.
KEPT_GRAMS = 2**29
#: Entries of the temporary arrays of a block of prefixes.
PREFIX_BLOCK = 2**20


class Sampler(ABC):
    """Products of 0 to D of r base kernels on given rows; reusable for one A after another.

    Parameters
    ----------
    n_kernels : int
        Number of base kernels, r.
    prior_sq : array
        ρ_1², ..., ρ_D².
    """

    #: Base kernels that do not vanish, by their number in the family.
    active: np.ndarray
    #: log of what every factor was divided by to keep products within range.
    log_unit: float

    def __init__(self, n_kernels: int, prior_sq: np.ndarray):
        self.n_kernels = n_kernels
        self.degree = len(prior_sq)
        self.log_prior = np.concatenate([[0.0], np.log(prior_sq)])

    @abstractmethod
    def masses(self, A: np.ndarray, size: int) -> tuple[np.ndarray, dict[int, Any]]:
        """Return tr(Aᵀ S^{∘d} A), d = 0..D, and the tables that were filled on the way."""

    @abstractmethod
    def conditional(self, A: np.ndarray, prefixes: Sequence[Prefix], k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return Σ over the k - 1 coordinates after the next one, for each prefix and next coordinate.

        Every row is in a unit of its own, whose log is returned as well.
        """

    def expands(self, k: int, size: int, n_outputs: int) -> bool:
        """Whether `size` draws of k factors are cheaper from a table of all of them."""
        return False

    def expand(self, A: np.ndarray, prefix: Prefix, k: int) -> tuple[Any, float]:
        """Return the table of all products of k factors after a prefix, and the log of its unit."""
        raise NotImplementedError

    def draw(
        self, A: np.ndarray, size: int, rng: np.random.Generator
    ) -> tuple[list[Prefix], np.ndarray] | None:
        """Return `size` multisets and their probabilities, or None if nothing has mass."""
        if size == 0:
            return [], np.empty(0)
        weighed = self.weigh(A, size)
        return None if weighed is None else weighed.draw(size, rng)

    def weigh(self, A: np.ndarray, size: int) -> Weighed | None:
        """Return what is known before the first of `size` draws, or None if nothing has mass."""
        top = np.abs(A).max(initial=0.0)
        if top == 0:
            return None
        A = A / top
        masses, tables = self.masses(A, size)
        with np.errstate(divide="ignore"):
            logs = (
                np.log(np.maximum(masses, 0.0)) + np.arange(self.degree + 1) * self.log_unit - self.log_prior
            )
        if logs.max() == -np.inf:
            return None
        shares = np.exp(logs - logs.max())
        log_total = logs.max() + math.log(shares.sum())
        shares /= shares.sum()
        return Weighed(self, A, masses, tables, shares, log_total, log_total + 2 * math.log(top))

    def _descend(self, A, counts, mass_0, tables, rng, tally, log_g):
        """Draw counts[d] products of d factors: all prefixes with k factors to go at once, k = D..1."""
        if counts[0]:
            tally[()] += int(counts[0])
            log_g[()] = math.log(mass_0)
        waiting: Counter[Prefix] = Counter()

        def emit(prefix, rest, logs, unit):
            for tail, value in zip(rest, logs.tolist(), strict=True):
                member = tuple(sorted(prefix + tail))
                tally[member] += 1
                log_g.setdefault(member, value + unit)

        for k in range(self.degree, 0, -1):
            if k in tables and counts[k]:
                rest, logs = tables[k].pick(rng, int(counts[k]))
                emit((), rest, logs, 0.0)
            elif counts[k]:
                waiting[()] += int(counts[k])
            here, waiting = waiting, Counter()
            step = []
            for prefix, m in here.items():
                if self.expands(k, m, A.shape[1]):
                    table, unit = self.expand(A, prefix, k)
                    rest, logs = table.pick(rng, m)
                    emit(prefix, rest, logs, unit)
                else:
                    step.append(prefix)
            if not step:
                continue
            cond, units = self.conditional(A, step, k)  # Alg. 3, line 6
            for prefix, row, unit in zip(step, cond, units, strict=True):
                chosen = pick(rng, row, here[prefix])  # line 7
                if k == 1:
                    emit(prefix, [(j,) for j in chosen.tolist()], np.log(row[chosen]), unit)
                else:
                    for j, times in zip(*np.unique(chosen, return_counts=True), strict=True):
                        waiting[tuple(sorted((*prefix, int(j))))] += int(times)  # line 8

    def _list(self, tally, log_g, log_total, rng):
        """Return the draws in random order, and their probabilities."""
        distinct = list(tally)
        units = [len(z) * self.log_unit for z in distinct]
        priors = [self.log_prior[len(z)] for z in distinct]
        ways = [log_g[z] + math.log(orderings(z)) for z in distinct]
        logs = np.array(ways) + units - priors
        of = rng.permutation(np.repeat(np.arange(len(distinct)), [tally[z] for z in distinct]))
        named = [tuple(self.active[list(z)].tolist()) for z in distinct]
        return [named[i] for i in of], np.exp(logs - log_total)[of]


@dataclass(frozen=True, eq=False)
class Weighed:
    """The masses of all degrees for one A, ready to draw from.

    Attributes
    ----------
    sampler : Sampler
    A : array
        Divided by its largest entry.
    masses, tables :
        See :meth:`Sampler.masses`.
    shares : array
        The probability of each degree.
    log_total : float
        log of the sum of all weights, for A as it is here.
    log_mass : float
        The same for A as it was given: log Σ tr(Aᵀ K_z A)/(ρ_d² Π_j base_j) over ordered tuples.
    """

    sampler: Sampler
    A: np.ndarray
    masses: np.ndarray
    tables: dict[int, Any]
    shares: np.ndarray
    log_total: float
    log_mass: float

    def draw(self, size: int, rng: np.random.Generator) -> tuple[list[Prefix], np.ndarray] | None:
        """Return `size` multisets and their probabilities, or None if the masses were nothing but rounding."""
        tally: Counter[Prefix] = Counter()
        log_g: dict[Prefix, float] = {}
        for _ in range(ROUNDS):
            missing = size - tally.total()
            if missing == 0:
                break
            counts = rng.multinomial(missing, self.shares)
            self.sampler._descend(self.A, counts, self.masses[0], self.tables, rng, tally, log_g)
        else:
            if tally.total() < size:
                return None
        return self.sampler._list(tally, log_g, self.log_total, rng)


class GramSampler(Sampler):
    """Products of any base kernels, in tiles of the upper triangle of their Gram matrices.

    A level costs r n²/2 multiply-adds for every distinct prefix.

    Parameters
    ----------
    X : rows
    kernels : sequence of kernels
    scale : (r,) array or None
        mean κ_j(x_t, x_t), or None for ones; kernels with 0 are never drawn.
    prior_sq : array
    kept_bytes : int
        The tiles are kept when they fit into so many; otherwise the kernels are evaluated anew for every level.
    """

    def __init__(
        self, X, kernels: Sequence[Kernel], scale: np.ndarray | None, prior_sq, kept_bytes: int = KEPT_GRAMS
    ):
        super().__init__(len(kernels), prior_sq)
        scale = np.ones(len(kernels)) if scale is None else scale
        self.active = np.flatnonzero(scale)
        self.X, self.n, self.r = X, X.shape[0], len(self.active)
        self.sharing = Sharing([kernels[j] for j in self.active.tolist()])
        S = sum((kernels[j].diag(X) / scale[j] for j in self.active.tolist()), np.zeros(self.n))
        unit = float(S.max(initial=0.0)) or 1.0
        self.log_unit = math.log(unit)
        self.divisor = scale[self.active] * unit
        self.tiles = row_tiles(self.n)
        self.keeps = 8 * self.r * sum((b - a) * (self.n - a) for a, b in self.tiles) <= kept_bytes
        self._stacks: dict[int, np.ndarray] = {}

    def _stack(self, a, b):
        """Return the scaled base kernels on a tile, (r, pairs)."""
        if a in self._stacks:
            return self._stacks[a]
        block = self.sharing.open(self.X[a:b], self.X[a:])
        K = np.empty((self.r, (b - a) * (self.n - a)))
        for j in range(self.r):
            K[j] = block(j).ravel() / self.divisor[j]
        if self.keeps:
            self._stacks[a] = K
        return K

    def _opened(self, A):
        """Yield every tile's M = A Aᵀ, mirror image included, and base kernels."""
        for a, b in self.tiles:
            M = A[a:b] @ A[a:].T
            M[:, b - a :] *= 2
            yield M.ravel(), self._stack(a, b)

    def masses(self, A: np.ndarray, size: int) -> tuple[np.ndarray, dict[int, Any]]:
        """Return the masses, O(n² D)."""
        out = np.zeros(self.degree + 1)
        for M, K in self._opened(A):
            S, T = K.sum(axis=0), M
            out[0] += T.sum()
            for d in range(1, self.degree + 1):
                T = T * S
                out[d] += T.sum()
        return out, {}

    def conditional(self, A: np.ndarray, prefixes: Sequence[Prefix], k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return <M ∘ K_prefix ∘ S^{∘(k-1)}, K_j>."""
        cond = np.zeros((len(prefixes), self.r))
        for M, K in self._opened(A):
            P = M * whole_power(K.sum(axis=0), k - 1)
            for part in row_blocks(len(prefixes), len(M), PREFIX_BLOCK):
                W = np.repeat(P[None], len(prefixes[part]), axis=0)
                for w, prefix in zip(W, prefixes[part], strict=True):
                    for j in prefix:
                        w *= K[j]
                cond[part] += W @ K.T
        return np.maximum(cond, 0.0), np.zeros(len(prefixes))


def uniform_products(
    r: int, degree: int, count: str, size: int, rng: np.random.Generator
) -> tuple[list[Prefix], np.ndarray]:
    """Draw products of 1 to D factors uniformly, as multisets or as ordered tuples, without listing them."""
    if count == "ordered":
        shares = np.array([float(r) ** (d - degree) for d in range(1, degree + 1)])
        lengths = 1 + pick(rng, shares, size)
        codes = rng.integers(0, r, size=(size, degree))
        members = [tuple(sorted(row[:d].tolist())) for row, d in zip(codes, lengths, strict=True)]
        return members, uniform_probability(r, degree, count, members)
    members = []
    while len(members) < size:
        # Stars and bars: D of r + D places are D of r + 1 things with repetition; thing r is "none".
        codes = np.sort(_subsets(r + degree, degree, size - len(members), rng), axis=1) - np.arange(degree)
        members += [z for row in codes.tolist() if (z := tuple(j for j in row if j < r))]
    return members, uniform_probability(r, degree, count, members)


def uniform_probability(r: int, degree: int, count: str, members: Sequence[Prefix]) -> np.ndarray:
    """Return the probability of members in uniform draws; that of the constant is 0."""
    if count == "ordered":
        total = sum(r**d for d in range(1, degree + 1))
        return np.array([orderings(z) / total if z else 0.0 for z in members])
    one = 1 / (math.comb(r + degree, degree) - 1)
    return np.array([one if z else 0.0 for z in members])


def _subsets(n: int, k: int, size: int, rng) -> np.ndarray:
    """Return uniform k-subsets of n things, one per row: Floyd's algorithm on all rows at once."""
    out = np.empty((size, k), dtype=np.int64)
    for i in range(k):
        top = n - k + i
        t = rng.integers(0, top + 1, size=size)
        seen = (out[:, :i] == t[:, None]).any(axis=1)
        out[:, i] = np.where(seen, top, t)
    return out
