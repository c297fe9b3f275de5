"""The condition that a hull is large enough, checked on its frontier without a list of what lies behind it.

For κ_vw >= 0 with Σ_v κ_vw = 1 over the ancestors v of w, Σ_w ζ_w g_w <= max_v d_v⁻² Σ_w κ_vw² g_w for every η. On the hull
κ is that of its own η. Outside let κ_vw be in proportion to d_v over the ancestors of w outside the hull. Whatever v
is outside, its sum is then at most that of any t on the frontier above it,

    S_t = Σ_{w below t} g_w / (Σ_{v between t and w} d_v)²,

so that max(level of the hull, max_t S_t) is what the dual may take for its penalty: the gap found with it is at least the
gap at this A. (Bach 2008, the sufficient condition.) S_t is a quadratic form of κ_t times a matrix that only
depends on the degree of t, as the sums between t and w factorise.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...problem import Problem
from .graph import Vertex, ancestors, depth_weights, parents, power_factors


class Frontier:
    """Sums over the descendants of products on the rows of a problem.

    Parameters
    ----------
    problem : Problem
        Over products, with scales that factorise.
    beta : float

    Attributes
    ----------
    bases : list of int
        The base kernels that do not vanish on the rows.
    """

    def __init__(self, problem: Problem, beta: float):
        self.problem, self.beta = problem, beta
        self.family: Any = problem.family
        scale = problem.scale
        self.base = np.ones(self.family._r) if scale.base is None else scale.base
        self.bases = np.flatnonzero(self.base > 0).tolist()
        self.sums = self.family.multiples(problem.X, self.base, power_factors(self.family.degree, beta))

    def bounds(self, A: np.ndarray, vertices: Sequence[Vertex]) -> np.ndarray:
        """Return S_t of products; n² c operations for the degree, and n² for each."""
        out = np.empty(len(vertices))
        moment = A @ A.T
        lengths = np.array([len(z) for z in vertices])
        for d in np.unique(lengths):
            own = np.flatnonzero(lengths == d)
            some = [vertices[i] for i in own]
            forms = self.family.bank(self.problem.X, some).inner_products(self.sums[d - 1] * moment)
            out[own] = np.maximum(forms, 0.0) / self.family.factor_scale(self.base, some)
        return out / depth_weights(vertices, self.beta) ** 2

    def slopes(self, A: np.ndarray, vertices: Sequence[Vertex], rho_sq: np.ndarray) -> np.ndarray:
        """Return g_t/d_t²: what each would gain alone. It must not exceed the hull's level (the necessary condition)."""
        forms = self.family.bank(self.problem.X, vertices).quad_forms(A)
        return forms / rho_sq / depth_weights(vertices, self.beta) ** 2


def listed_bounds(members: Sequence[Vertex], g: np.ndarray, hull: set[Vertex], beta: float) -> float:
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
