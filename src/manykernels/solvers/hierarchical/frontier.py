"""The certificate for all products, those outside the hull included: what the dual may take for its penalty.

For κ_vw >= 0 with Σ_v κ_vw = 1 over the ancestors v of w, Σ_w ζ_w g_w <= max_v d_v⁻² Σ_w κ_vw² g_w for every η. On
the hull κ is that of its own η. Outside let κ_vw be in proportion to d_v over the ancestors of w outside the hull.
Whatever v is outside, its sum is then at most that of any t on the frontier above it,

    S_t = Σ_{w below t} g_w / (Σ_{v between t and w} d_v)²,

so that max(level of the hull, max_t S_t) bounds max_η Σ_w ζ_w g_w (Bach 2008, the sufficient condition). S_t is a
quadratic form of κ_t times a matrix that only depends on the degree of t, as the sums between t and w factorise:
nothing is listed.

The bound is loose where the descendants of t are many: each of its products is charged to every t above it. Where g of
all products costs little, the maximum itself is found, by :func:`tightened`.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...families.bank import BankSizes
from ...problem import Problem
from .graph import Hull, Vertex, ancestors, best_eta, depth_weights, parents, power_factors

#: What g of all products may cost for it to be computed: seconds for every hull.
LISTED = 2e8
#: Products of which S_t is added up one by one.
FEW = 1000
#: Errors of a sum, in units of the last digit.
EPSILON, ROUNDED = float(np.finfo(float).eps), 4.0
#: Steps towards the η at which all slopes are alike: the bound has mostly settled after twenty.
TIGHTENINGS = 50


def over(forms: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return forms over scales; 0 for a product that vanishes on the rows."""
    return np.divide(forms, scale, out=np.zeros(len(forms)), where=scale > 0)


class Frontier:
    """Sums over the descendants of products on the rows of a problem, and bounds over all products.

    Parameters
    ----------
    problem : Problem
        Over products, with scales that factorise.
    beta : float
    listed : float
        Values of explicit features, or entries of Gram matrices, of all products up to which these are listed.

    Attributes
    ----------
    bases : list of int
        The base kernels that do not vanish on the rows.
    all : Vertices or None
        All products of these, if they are listed.
    """

    def __init__(self, problem: Problem, beta: float, listed: float = LISTED):
        self.problem, self.beta = problem, beta
        self.family: Any = problem.family
        scale = problem.scale
        self.base = np.ones(self.family._r) if scale.base is None else scale.base
        self.bases = np.flatnonzero(self.base > 0).tolist()
        self.sums = self.family.multiples(problem.X, self.base, power_factors(self.family.degree, beta))
        self.all: Vertices | None = None
        if self.family.size() * problem.n_rows ** (1 if self.family.rank_one else 2) <= listed:
            alive = set(self.bases)
            self.all = Vertices([z for z in self.family.members() if alive.issuperset(z)], beta)

    def bounds(self, A: np.ndarray, vertices: Sequence[Vertex]) -> np.ndarray:
        """Return S_t of products, and no less than they may be; n² c operations for the degree, and n² for each.

        Positive and negative terms may cancel down to rounding, where S_t is large all the same.
        """
        out = np.empty(len(vertices))
        moment = A @ A.T
        lengths = np.array([len(z) for z in vertices])
        for d in np.unique(lengths):
            own = np.flatnonzero(lengths == d)
            some = [vertices[i] for i in own.tolist()]
            terms = self.sums[d - 1] * moment
            forms = self.family.bank(self.problem.X, some).inner_products(terms)
            forms = np.maximum(forms, 0.0) + self._noise(some, np.diag(terms))
            out[own] = over(forms, self.family.factor_scale(self.base, some))
        return out / depth_weights(vertices, self.beta) ** 2

    def _noise(self, vertices: Sequence[Vertex], diagonal: np.ndarray) -> np.ndarray:
        """Return about how much of Σ_st κ(x_s, x_t) M_st is rounding, for M >= 0 with that diagonal.

        Its terms are at most those of a product of two vectors, (κ(x_s, x_s) M_ss)^½, so that the squares of all add
        up to (Σ_s κ(x_s, x_s) M_ss)² at most; errors of as many terms add up by their squares.
        """
        if not diagonal.any():
            return np.zeros(len(vertices))
        total = self.family.mean_diag(self.problem.X, vertices, diagonal) * diagonal.sum()
        return ROUNDED * EPSILON * total

    def level(self, point: Any, sums: np.ndarray) -> tuple[float, np.ndarray | None]:
        """Return a bound of max_η Σ_w ζ_w(η) g_w over all products, given a point on a hull and S_t on its frontier.

        With it comes the share of η that every product has with its multiples, where all are listed: how much each is
        missed in the hull.
        """
        hull, beyond = point.reduced.hull, float(sums.max(initial=0.0))
        if self.all is None:
            return max(point.level, beyond), None
        bank = self.family.bank(self.problem.X, self.all.members, BankSizes(feature_bytes=2**26))
        g = over(bank.quad_forms(point.A), self.problem.scale.rho_sq(self.all.members, 1.0))
        tight, eta = tightened(self.all, hull, point.u, g)
        if len(g) <= FEW:  # S_t from g, none of which has cancelled
            beyond = listed_sums(self.all.members, g, set(hull.members), self.beta)
        return min(max(point.level, beyond), tight), self.all.below @ eta

    def slopes(self, A: np.ndarray, vertices: Sequence[Vertex], rho_sq: np.ndarray) -> np.ndarray:
        """Return g_t/d_t², what each would gain alone: at most the hull's level, if that is large enough."""
        forms = self.family.bank(self.problem.X, vertices).quad_forms(A)
        return over(forms, rho_sq) / depth_weights(vertices, self.beta) ** 2


class Vertices:
    """All products, laid out as a hull is, with a sparse matrix of ancestors."""

    def __init__(self, members: Sequence[Vertex], beta: float):
        from scipy.sparse import csr_array

        self.members = members
        self.place = {z: i for i, z in enumerate(members)}
        self.d = depth_weights(members, beta)
        pairs = [[self.place[v] for v in sorted(ancestors(z))] for z in members]
        lengths = [len(row) for row in pairs]
        columns = np.fromiter(itertools.chain.from_iterable(pairs), dtype=np.intp, count=sum(lengths))
        shape = (len(members), len(members))
        starts = np.concatenate([[0], np.cumsum(lengths)])
        self.above = csr_array((np.ones(len(columns)), columns, starts), shape=shape)
        self.below = self.above.T.tocsr()


def tightened(everything: Vertices, hull: Hull, u: np.ndarray, g: np.ndarray) -> tuple[float, np.ndarray]:
    """Return a bound of max_η Σ_w ζ_w(η) g_w over all products, the largest slope at some η, and that η.

    η_v ← η_v √slope_v, scaled to the simplex, raises the sum and evens the slopes out, as in the alternation of p-norm
    MKL. It starts at the best η for the norms on the hull, with a share for all other products.
    """
    place = [everything.place[z] for z in hull.members]
    eta = np.full(len(everything.members), 0.1 / len(everything.members))
    if u.any():
        eta[place] += 0.9 * best_eta(hull, u)
    bound = np.inf
    for _ in range(TIGHTENINGS):
        eta = np.maximum(eta / eta.sum(), 1e-30)
        zeta = 1.0 / (everything.above @ (everything.d**2 / eta))
        slopes = np.square(everything.d / eta) * (everything.below @ (np.square(zeta) * g))
        bound = min(bound, float(slopes.max()))
        if not slopes.any():
            break
        eta = eta * np.sqrt(slopes)
    return bound, eta / eta.sum()


def listed_sums(members: Sequence[Vertex], g: np.ndarray, hull: set[Vertex], beta: float) -> float:
    """Return max_t S_t over the frontier of a hull, from the g of all products."""
    sums: dict[Vertex, float] = {}
    factors = power_factors(max(len(z) for z in members), beta)
    for w, value in zip(members, g, strict=True):
        if w in hull:
            continue
        for t in ancestors(w):
            if t not in hull and parents(t) <= hull:
                rest = Counter(w) - Counter(t)
                share = math.prod(factors[k] for k in rest.values()) / beta ** (2 * (len(t) - 1))
                sums[t] = sums.get(t, 0.0) + share * float(value)
    return max(sums.values(), default=0.0)
