"""The directed acyclic graph of products: an arrow leads from a product to each of its multiples by one more factor.

A vertex is a sorted tuple of base kernels, as in :class:`~manykernels.families.Products`. Its *ancestors* are the
products that divide it, its *descendants* the products that it divides, itself among both. A *hull* is a set of
products that holds the ancestors of each of them; the *frontier* are the products outside of it whose strict
ancestors are all inside.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import numpy as np

Vertex = tuple[int, ...]


def ancestors(vertex: Vertex) -> set[Vertex]:
    """Return the products that divide one, itself included; the constant is no vertex."""
    return {z for d in range(1, len(vertex) + 1) for z in itertools.combinations(vertex, d)}


def parents(vertex: Vertex) -> set[Vertex]:
    """Return the products that lack one factor; none for a single base kernel."""
    return set(itertools.combinations(vertex, len(vertex) - 1)) if len(vertex) > 1 else set()


def frontier(hull: set[Vertex], bases: Sequence[int], degree: int) -> list[Vertex]:
    """Return the products outside the hull whose parents are inside, by degree, then in dictionary order."""
    roots: set[Vertex] = {(j,) for j in bases}
    found = roots - hull
    for vertex in hull:
        if len(vertex) < degree:
            for j in bases:
                child = tuple(sorted((*vertex, j)))
                if child not in hull and child not in found and parents(child) <= hull:
                    found.add(child)
    return sorted(found, key=lambda z: (len(z), z))


def depth_weights(vertices: Iterable[Vertex], beta: float) -> np.ndarray:
    """Return d_v = β^depth, base kernels having depth 0."""
    return np.array([float(beta) ** (len(z) - 1) for z in vertices])


def power_factors(degree: int, beta: float) -> list[float]:
    """Return 1/(1 + β + ... + β^i)² for i = 0, ..., D - 1.

    The products between t and tu have the weights d_t β^|u'|, u' dividing u, and these add up to
    d_t Π_j (1 + β + ... + β^{u_j}): the sum factorises over the base kernels.
    """
    return [float(sum(beta**k for k in range(i + 1))) ** -2 for i in range(degree)]


class Hull:
    """A set of products closed under ancestors, laid out for arithmetic.

    Attributes
    ----------
    members : list of vertices, by degree, then in dictionary order
    d : (k,) array, the weights d_v
    above : (k, k) array of 0 and 1, ``above[w, v]``: whether v is an ancestor of w
    """

    def __init__(self, vertices: Iterable[Vertex], beta: float):
        self.members = sorted(set(vertices), key=lambda z: (len(z), z))
        self.place = {z: i for i, z in enumerate(self.members)}
        self.d = depth_weights(self.members, beta)
        self.above = np.zeros((len(self.members), len(self.members)))
        for i, z in enumerate(self.members):
            self.above[i, [self.place[v] for v in ancestors(z)]] = 1.0

    def __len__(self) -> int:
        return len(self.members)

    def norms(self, u: np.ndarray) -> np.ndarray:
        """Return d_v ‖u_descendants(v)‖ of every vertex; their sum is Ω."""
        return self.d * np.sqrt(np.square(u) @ self.above)

    def zeta(self, eta: np.ndarray) -> np.ndarray:
        """Return ζ_w, 1/ζ_w = Σ_{v ancestor of w} d_v²/η_v: kernel weights, all positive where η is."""
        return 1.0 / (self.above @ (self.d**2 / eta))

    def slopes(self, eta: np.ndarray, g: np.ndarray) -> np.ndarray:
        """Return the derivatives of Σ_w ζ_w(η) g_w: (d_v/η_v)² Σ_{w descendant of v} ζ_w² g_w."""
        return (self.d / eta) ** 2 * ((self.zeta(eta) ** 2 * g) @ self.above)


def best_eta(hull: Hull, u: np.ndarray) -> np.ndarray:
    """Return η_v = d_v ‖u_descendants(v)‖/Ω, the best for the norms u; bounded away from zero."""
    norms = hull.norms(u)
    eta = np.maximum(norms / norms.sum(), 1e-12 / len(norms))
    return eta / eta.sum()
