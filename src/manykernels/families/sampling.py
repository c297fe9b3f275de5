r"""Drawing products of kernels near proportionally to the gradient, without listing them.

Algorithm 3 for several outputs. An ordered tuple z = (j_1, ..., j_d), 0 ≤ d ≤ D, is drawn with
probability proportional to tr(Aᵀ K_z A) / (ρ_d² Π_j base_j): first the degree, from the masses
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

import functools
import itertools
import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from .._blocks import row_blocks
from .bank import Sharing, row_tiles
from .monomials import orderings

Prefix = tuple[int, ...]

#: S and its Hadamard powers are kept up to this many entries in all, otherwise recomputed in strips.
KEPT_PAIRS = 2**23
#: Rows of a strip of S: short enough that the lower triangle, which is left out, is nearly half.
STRIP_ROWS = 128
#: Scaled columns are kept up to this many entries, otherwise made block by block (expansion only).
KEPT_ROWS = 2**22
#: Entries of the temporary arrays of a block.
BLOCK = 2**20
#: Entries of the table of an expansion, at most; half of the data where that is more.
TABLE = 2**22
#: Gram matrices of the base kernels are kept up to this many bytes, otherwise computed for every pass.
KEPT_GRAMS = 2**29
#: What one small matrix product costs before it multiplies anything, in multiply-adds.
CALL = 2e5
#: Draws lost to rounding (a prefix without mass) are repeated this many times.
ROUNDS = 20


# -- the algorithm -----------------------------------------------------------------------------------------


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
    def masses(self, A: np.ndarray, size: int) -> tuple[np.ndarray, dict[int, Table]]:
        """Return tr(Aᵀ S^{∘d} A), d = 0..D, and the tables that were filled on the way."""

    @abstractmethod
    def conditional(self, A: np.ndarray, prefixes: Sequence[Prefix], k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return Σ over the k - 1 coordinates after the next one, for each prefix and next coordinate.

        Every row is in a unit of its own, whose log is returned as well.
        """

    def expands(self, k: int, size: int, n_outputs: int) -> bool:
        """Whether `size` draws of k factors are cheaper from a table of all of them."""
        return False

    def expand(self, A: np.ndarray, prefix: Prefix, k: int) -> tuple[Table, float]:
        """Return the table of all products of k factors after a prefix, and the log of its unit."""
        raise NotImplementedError

    def draw(self, A: np.ndarray, size: int, rng) -> tuple[list[Prefix], np.ndarray] | None:
        """Return `size` multisets and their probabilities, or None if nothing has mass."""
        top = np.abs(A).max(initial=0.0)
        if size == 0:
            return [], np.empty(0)
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
        tally: Counter[Prefix] = Counter()
        log_g: dict[Prefix, float] = {}
        for _ in range(ROUNDS):
            missing = size - tally.total()
            if missing == 0:
                break
            self._descend(A, rng.multinomial(missing, shares), masses[0], tables, rng, tally, log_g)
        else:
            if tally.total() < size:  # the masses were nothing but rounding
                return None
        return self._list(tally, log_g, log_total, rng)

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
        logs = np.array(
            [
                log_g[z] + math.log(orderings(z)) + len(z) * self.log_unit - self.log_prior[len(z)]
                for z in distinct
            ]
        )
        of = rng.permutation(np.repeat(np.arange(len(distinct)), [tally[z] for z in distinct]))
        named = [tuple(self.active[list(z)].tolist()) for z in distinct]
        return [named[i] for i in of], np.exp(logs - log_total)[of]


def pick(rng, weights: np.ndarray, size: int) -> np.ndarray:
    """Return `size` numbers drawn proportionally to the weights; none if all weights are zero."""
    total = np.cumsum(weights)
    if not total[-1] > 0:
        return np.empty(0, dtype=np.intp)
    # side="right" never stops at a weight of zero; rounding up to the very end would.
    last = np.flatnonzero(weights)[-1]
    return np.minimum(np.searchsorted(total, rng.random(size) * total[-1], side="right"), last)


# -- columns: every product has rank one ---------------------------------------------------------------------


class Table:
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

    def weigh(self):
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
        return [
            (*self.heads[h], min(i, j), max(i, j))
            for h, i, j in zip(which.tolist(), a.tolist(), b.tolist(), strict=True)
        ]

    def pick(self, rng, size: int) -> tuple[list[Prefix], np.ndarray]:
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


class Monomials(Sampler):
    """Products of columns.

    With v = A ∘ x_{j_1} ∘ ... and k factors to go there are two routes. *Expansion*: a table of all
    vᵀ(x_{l_1} ∘ ... ∘ x_{l_k}), about 2 n c r^k/k! multiply-adds as matrix products over row blocks, which
    answers all k coordinates at once. *Pairs*: diag(Xᵀ((v vᵀ) ∘ S^{∘(k-1)})X) for the next coordinate
    alone, n² r/2, whatever k. The cheaper is taken, for the number of draws that share the prefix.

    Memory: a table holds at most ``TABLE`` entries, or half as many as the data; strips of the upper
    triangle of S and of its powers are kept up to ``KEPT_PAIRS`` entries. There is no n × n × r array, and
    none of n × n when rows are many.

    Parameters
    ----------
    X : (n, r)
    scale : (r,) array or None
        mean x_j², or None for ones; columns with 0 are never drawn.
    prior_sq : array
    route : {"auto", "expand", "pairs"}
    """

    def __init__(self, X, scale, prior_sq, route="auto"):
        super().__init__(X.shape[1], prior_sq)
        self.X, self.route = X, route
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
        step = min(STRIP_ROWS, max(8, BLOCK // self.n))
        self.strips = [(a, min(a + step, self.n)) for a in range(0, self.n, step)]
        area = sum((b - a) * (self.n - a) for a, b in self.strips)
        self.keeps_pairs, self.keeps_powers = area <= KEPT_PAIRS, area * self.degree <= KEPT_PAIRS
        self._strips: dict[tuple[int, int], np.ndarray] = {}

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
        size = KEPT_ROWS if self.n * self.r <= KEPT_ROWS else BLOCK // 8
        for rows in row_blocks(self.n, self.r, size):
            yield rows, self._scaled(rows)

    def masses(self, A, size):
        """Return the masses, from tables if those are cheap for all degrees, else from S."""
        if self.n * self.r <= KEPT_ROWS:
            self.columns()
        out = np.zeros(self.degree + 1)
        out[0] = np.square(A.sum(axis=0)).sum()
        tables: dict[int, Table] = {}
        if self.r == 0:
            return out, tables
        if all(self.expands(d, size, A.shape[1], fresh=True) for d in range(1, self.degree + 1)):
            for d in range(1, self.degree + 1):
                tables[d] = self._table(A, d)
                out[d] = tables[d].weights.sum()
            return out, tables
        for i, (a, b) in enumerate(self.strips):
            S = self._pairs(i)
            P = None
            for d in range(1, self.degree + 1):
                P = self._power(d, i, S, P)
                out[d] += np.vdot(A[a:b], P @ A[a:])
        return out, tables

    # -- expansion

    def expands(self, k, size, n_outputs, fresh=False):
        """Compare the costs; `fresh` counts that of S and of the masses too."""
        if k == 1 or self.route != "auto":
            return fresh if k == 1 else self.route == "expand"
        table, pairs = self._table_cost(k, n_outputs), self._pairs_cost(k, size, n_outputs)
        if fresh:
            pairs += self.n**2 * (4 * self.degree + (0.0 if self._strips else self.r))
        return table <= pairs

    def _table_cost(self, k, c):
        heads, places = Table.n_places(self.r, k)
        if places > max(TABLE, self.n * self.r // 2):
            return np.inf
        return c * heads * CALL + places * (c * self.n + 50.0)

    def _pairs_cost(self, k, size, c):
        if k == 1:
            return CALL + self.n * c * self.r
        groups = min(size, self.r)
        again = min(self._table_cost(k - 1, c), self._pairs_cost(k - 1, -(-size // groups), c))
        here = self.n**2 * (self.r * (0.6 if self.keeps_pairs else 1.2) + (0 if c == 1 else 3 + c))
        return CALL + here + groups * again

    def expand(self, A, prefix, k):
        """Return the table of the rest."""
        V, units = self._prefixed(A, [prefix])
        return self._table(V[0].T, k), units[0]

    def _table(self, V, k):
        """Return the table for v = columns of V, one output after the other."""
        table = Table(self.r, k)
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

    def conditional(self, A, prefixes, k):
        """Return diag(Xᵀ((v vᵀ) ∘ S^{∘(k-1)})X), in chunks of prefixes."""
        cond, units = np.zeros((len(prefixes), self.r)), np.zeros(len(prefixes))
        if self.r == 0:
            return cond, units
        width = A.shape[1] * self.n if k == 1 or A.shape[1] > 1 else self.r * self.n
        for part in row_blocks(len(prefixes), width, BLOCK):
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
            for i, (a, b) in enumerate(self.strips):
                Y = U[:, a:] @ self._power(k - 1, i).T
                cond += np.einsum("ij,ij->i", Y, U[:, a:b]).reshape(m, self.r)
            return cond
        for i, (a, b) in enumerate(self.strips):
            P = self._power(k - 1, i)
            for g in range(m):
                W = V[g, :, a:b].T @ V[g, :, a:]
                W *= P
                cond[g] += np.einsum("ij,ij->i", Z[:, a:] @ W.T, Z[:, a:b])
        return cond

    def _pairs(self, i):
        """Return a strip of S, rows a:b × columns a:n."""
        if (0, i) in self._strips:
            return self._strips[0, i]
        a, b = self.strips[i]
        S = self.columns()[:, a:b].T @ self.columns()[:, a:]
        if self.keeps_pairs:
            self._strips[0, i] = S
        return S

    def _power(self, k, i, S=None, below=None):
        """Return a strip of S^{∘k}, doubled where it stands for its mirror image.

        `S` and `below`, the strips for 1 (not doubled) and k - 1, save the work of making it from nothing.
        """
        if (k, i) in self._strips:
            return self._strips[k, i]
        if S is not None and k > 1:
            P = below * S
        else:
            a, b = self.strips[i]
            P = hadamard_power(self._pairs(i) if S is None else S, k)
            P[:, b - a :] *= 2
        if self.keeps_powers:
            self._strips[k, i] = P
        return P


def hadamard_power(S: np.ndarray, k: int) -> np.ndarray:
    """Return a new array S^{∘k} by squaring; far quicker than ``**``."""
    out, square = None, S
    while k:
        if k & 1:
            out = square.copy() if out is None else out * square
        k >>= 1
        if k:
            square = square * square
    return np.ones_like(S) if out is None else out


# -- any base kernels ----------------------------------------------------------------------------------------


class Grams(Sampler):
    """Products of any base kernels, in tiles of the upper triangle of their Gram matrices.

    A level costs r n²/2 multiply-adds for every distinct prefix. The tiles are kept when they fit into
    ``KEPT_GRAMS`` bytes; otherwise the kernels are evaluated anew for every level.
    """

    def __init__(self, X, kernels, scale, prior_sq):
        super().__init__(len(kernels), prior_sq)
        scale = np.ones(len(kernels)) if scale is None else scale
        self.active = np.flatnonzero(scale)
        self.X, self.n, self.r = X, X.shape[0], len(self.active)
        self.sharing = Sharing([kernels[j] for j in self.active])
        S = sum((kernels[j].diag(X) / scale[j] for j in self.active), np.zeros(self.n))
        unit = float(S.max(initial=0.0)) or 1.0
        self.log_unit = math.log(unit)
        self.divisor = scale[self.active] * unit
        self.tiles = row_tiles(self.n)
        self.keeps = 8 * self.r * sum((b - a) * (self.n - a) for a, b in self.tiles) <= KEPT_GRAMS
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

    def masses(self, A, size):
        """Return the masses, O(n² D)."""
        out = np.zeros(self.degree + 1)
        for M, K in self._opened(A):
            S, T = K.sum(axis=0), M
            out[0] += T.sum()
            for d in range(1, self.degree + 1):
                T = T * S
                out[d] += T.sum()
        return out, {}

    def conditional(self, A, prefixes, k):
        """Return <M ∘ K_prefix ∘ S^{∘(k-1)}, K_j>."""
        cond = np.zeros((len(prefixes), self.r))
        for M, K in self._opened(A):
            P = M * hadamard_power(K.sum(axis=0), k - 1)
            for part in row_blocks(len(prefixes), len(M), BLOCK):
                W = np.repeat(P[None], len(prefixes[part]), axis=0)
                for w, prefix in zip(W, prefixes[part], strict=True):
                    for j in prefix:
                        w *= K[j]
                cond[part] += W @ K.T
        return np.maximum(cond, 0.0), np.zeros(len(prefixes))


# -- families ------------------------------------------------------------------------------------------------


def product_sampler(family, X, scale=None) -> Sampler:
    """Return the sampler of a family of products on rows X, to be reused for one A after another."""
    if not hasattr(family, "_r"):
        family = family.resolve(X.shape[1])
    base = None
    if scale is not None and scale.how is not None:
        base = scale.base if scale.base is not None else family.base_scale(scale.X, scale.sample_weight)
    if family.base is None:
        return Monomials(X, base, family._prior_sq())
    return Grams(X, family._base(), base, family._prior_sq())


def draw_products(family, X, A, size, rng, scale=None) -> tuple[list[Prefix], np.ndarray]:
    """Draw members of a family of products; see ``Products.draw``."""
    A = checked(X, A)
    sampler = product_sampler(family, X, scale)
    drawn = sampler.draw(A, size, rng)
    if drawn is None:
        return uniform_products(sampler.n_kernels, family.degree, family.count, size, rng)
    return drawn


def checked(X, A) -> np.ndarray:
    """Return A as a finite (n, c) array."""
    A = np.asarray(A, dtype=float)
    A = A[:, None] if A.ndim == 1 else A
    if A.ndim != 2 or A.shape[0] != X.shape[0]:
        raise ValueError(
            f"A has shape {A.shape}; it must have one row for each of the {X.shape[0]} rows of X."
        )
    if not np.isfinite(A).all():
        raise ValueError("A holds values that are not finite; members cannot be drawn from it.")
    return A


def uniform_products(r: int, degree: int, count: str, size: int, rng) -> tuple[list[Prefix], np.ndarray]:
    """Draw products of 1 to D factors uniformly, as multisets or as ordered tuples, without listing them."""
    if count == "ordered":
        shares = np.array([float(r) ** (d - degree) for d in range(1, degree + 1)])
        lengths = 1 + pick(rng, shares, size)
        codes = rng.integers(0, r, size=(size, degree))
        members = [tuple(sorted(row[:d].tolist())) for row, d in zip(codes, lengths, strict=True)]
        total = sum(r**d for d in range(1, degree + 1))
        return members, np.array([orderings(z) / total for z in members])
    members = []
    while len(members) < size:
        # Stars and bars: D of r + D places are D of r + 1 things with repetition; thing r is "none".
        codes = np.sort(_subsets(r + degree, degree, size - len(members), rng), axis=1) - np.arange(degree)
        members += [z for row in codes.tolist() if (z := tuple(j for j in row if j < r))]
    return members, np.full(size, 1 / (math.comb(r + degree, degree) - 1))


def _subsets(n: int, k: int, size: int, rng) -> np.ndarray:
    """Return uniform k-subsets of n things, one per row: Floyd's algorithm on all rows at once."""
    out = np.empty((size, k), dtype=np.int64)
    for i in range(k):
        top = n - k + i
        t = rng.integers(0, top + 1, size=size)
        seen = (out[:, :i] == t[:, None]).any(axis=1)
        out[:, i] = np.where(seen, top, t)
    return out


def draw_listed(family, X, A, size, rng, scale=None) -> tuple[list, np.ndarray]:
    """Draw members of a family that can be listed, proportionally to g, from one pass over its kernels."""
    members = family.members()
    g = family.bank(X, members).quad_forms(checked(X, A))
    if scale is not None:
        rho_sq = scale.rho_sq(members, 1.0)
        g = np.divide(g, rho_sq, out=np.zeros_like(g), where=rho_sq > 0)
    chosen = pick(rng, g, size)
    if len(chosen) < size:
        return uniform_listed(members, size, rng)
    return [members[i] for i in chosen], g[chosen] / g.sum()


def uniform_listed(members: Sequence, size: int, rng) -> tuple[list, np.ndarray]:
    """Draw from a list uniformly."""
    chosen = rng.integers(0, len(members), size=size)
    return [members[i] for i in chosen], np.full(size, 1 / len(members))
