"""The leave-one-out error of kernel ridge regression, and its gradient in the bandwidths."""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import lapack

from ...kernels import pairwise_statistic
from ...kernels._distances import add_l1_moments, l1_distances

#: Rows of a block of pairs.
PAIR_ROWS = 128
#: What is added to a matrix that is not positive definite to rounding, of its mean diagonal; then ten times as much, up
#: to the most: what needs more has no such excuse.
JITTER, MOST_JITTER = 1e-12, 1e-2
#: Columns are filled up with zeros to a multiple of this: what is left over would not be vector code.
PADDED = 8


def leave_one_out(statistic: str, Z, Y, t) -> tuple[float, np.ndarray]:
    """Return the mean squared leave-one-out error of kernel ridge regression, and its gradient.

    With M = K + 11ᵀ + λI, G = M⁻¹ and α = G Y, row t predicted from all others errs by e_t = α_t/G_tt. In M the
    gradient of mean ‖e_t‖² is (2/n) (G diag(h) G - sym(U αᵀ)), U = G (e/G_tt), h_t = <e_t, α_t>/G_tt².

    Parameters
    ----------
    statistic : {"l1", "sqdist"}
    Z, Y : rows, float32, and targets
    t : (d + 1,) array
        Logarithms of the bandwidths, and of λ.
    """
    n, d = Z.shape
    scaled = np.zeros((n, -(-d // PADDED) * PADDED), dtype=np.float32)
    scaled[:, :d] = Z * np.exp(-t[:-1]).astype(np.float32)
    K = scaled_gram(statistic, scaled)
    lam = math.exp(t[-1])
    factor = ridge_factor(K + 1.0, lam)
    alpha, _ = lapack.dpotrs(factor, Y, lower=1)
    # From an exact factor on, single precision has all the digits that an error and a gradient need.
    lower = lapack.spotri(factor.astype(np.float32), lower=1, overwrite_c=1)[0]  # zeros above the diagonal
    g = np.diag(lower).astype(float)
    G = lower + lower.T
    G[np.diag_indices(n)] = g
    e = alpha / g[:, None]
    U, _ = lapack.dpotrs(factor, e / g[:, None], lower=1)
    h = np.einsum("tk,tk->t", e, alpha) / g**2  # ‖α_t‖²/G_tt³, so that it has a root
    root = G * np.sqrt(h).astype(np.float32)
    P = root @ root.T
    U, alpha = U.astype(np.float32), alpha.astype(np.float32)
    P -= np.float32(0.5) * (np.hstack([U, alpha]) @ np.hstack([alpha, U]).T)
    P *= np.float32(2.0 / n)
    gradient = np.zeros(len(t))
    gradient[-1] = lam * float(np.trace(P))
    P *= K.astype(np.float32)
    gradient[:-1] = log_moments(statistic, scaled, P)[:d]
    return float(np.sum(e * e)) / n, gradient


def ridge_factor(H: np.ndarray, lam: float | np.ndarray) -> np.ndarray:
    """Return the lower Cholesky factor of H + diag(λ), with more on the diagonal where rounding asks for it.

    Rows that occur many times and columns that are nearly equal leave a matrix that is singular to rounding.

    Parameters
    ----------
    H : (n, n) array, symmetric
    lam : float or (n,) array
    """
    diagonal, jitter = np.diag_indices_from(H), 0.0
    while True:
        M = H.astype(float)
        M[diagonal] += lam + jitter
        # M is symmetric, its transpose as LAPACK wants it.
        factor, failed = lapack.dpotrf(M.T, lower=1, overwrite_a=1)
        if not failed:
            return factor
        size = float(np.abs(H[diagonal]).mean())
        if not jitter < MOST_JITTER * size < math.inf:
            raise np.linalg.LinAlgError(
                "a matrix of features is not positive definite; are the columns of X of extreme size?"
            )
        jitter = max(10.0 * jitter, JITTER * size)


def scaled_gram(statistic, Z) -> np.ndarray:
    """Return ``exp(-S)`` for all pairs of scaled rows."""
    if statistic == "sqdist":
        S = pairwise_statistic("sqdist", Z.astype(float), Z.astype(float))
        return np.exp(-S)
    n = len(Z)
    D = np.empty((n, n), dtype=np.float32)
    for a in range(0, n, PAIR_ROWS):  # pairs once, and a square on the diagonal twice
        b = min(a + PAIR_ROWS, n)
        l1_distances(Z, a, b, D[a:b, a:])
        D[b:, a:b] = D[a:b, b:].T
    return np.exp(-D).astype(float)


def log_moments(statistic, Z, W) -> np.ndarray:
    """Return the gradient of Σ W in the log bandwidths, for a symmetric W = P∘K."""
    if statistic == "sqdist":
        sums = W.sum(axis=1)
        return 4.0 * (sums @ np.square(Z) - np.einsum("ij,ij->j", Z, W @ Z))
    once, twice = np.zeros(Z.shape[1]), np.zeros(Z.shape[1])
    for a in range(0, len(Z), PAIR_ROWS):
        b = min(a + PAIR_ROWS, len(Z))
        add_l1_moments(Z, W[a:b, a:], a, b, twice)
        add_l1_moments(Z[:b], W[a:b, a:b], a, b, once)
    return 2.0 * twice - once
