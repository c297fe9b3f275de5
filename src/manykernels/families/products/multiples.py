"""Sums over all multiples of a product, in closed form: what lies below a vertex of the graph of products."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np


def powers_summed(scaled: Iterable[np.ndarray], factors: Sequence[float], n: int) -> list[np.ndarray]:
    """Return e_0, ..., e_k, the sums over the products of so many of the matrices in `scaled`, each weighed.

    A product Π_j K_j^{u_j} counts Π_j factors[u_j] times, factors[0] being 1, so that e_d is the coefficient of z^d in
    Π_j Σ_i factors[i] z^i K_j^i. O(n² r k²) for r matrices, k + 1 factors.
    """
    k = len(factors) - 1
    e = [np.ones((n, n))] + [np.zeros((n, n)) for _ in range(k)]
    for K in scaled:
        powers = [K]
        for _ in range(k - 1):
            powers.append(powers[-1] * K)
        for d in range(k, 0, -1):  # from the top, so that e[d - i] does not hold this matrix yet
            for i in range(1, d + 1):
                e[d] += factors[i] * powers[i - 1] * e[d - i]
    return e


def multiples(
    scaled: Iterable[np.ndarray], factors: Sequence[float], prior_sq: np.ndarray, n: int
) -> list[np.ndarray]:
    """Return the matrices M_1, ..., M_D with Σ_u Π_j factors[u_j] κ_{tu}/ρ_{tu}² = (κ_t/Π_{j in t} base_j) M_|t|.

    The sum is over all products u of at most D - |t| base kernels, none included; `scaled` yields K_j/base_j, and
    ρ_z² is ``prior_sq[|z| - 1]`` times the bases of its factors.
    """
    D = len(prior_sq)
    e = powers_summed(scaled, factors[:D], n)
    return [
        sum((e[d] / prior_sq[t + d - 1] for d in range(D - t + 1)), np.zeros((n, n))) for t in range(1, D + 1)
    ]
