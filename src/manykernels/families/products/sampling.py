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

import math

import numpy as np

from ..._util.arrays import row_blocks
from ..bank import Sharing, row_tiles
from ..draws import checked, pick
from .monomial_sampler import BLOCK, Monomials, hadamard_power
from .monomials import orderings
from .sampler import Prefix, Sampler

#: Gram matrices of the base kernels are kept up to this many bytes, otherwise computed for every pass.
KEPT_GRAMS = 2**29


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
