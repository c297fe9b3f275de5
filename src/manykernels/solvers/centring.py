"""Centred kernel matrices (or plain ones) and their inner products, weighted so that a weight equals a repetition.

With weights s, N = Σs and w = s/N, a kernel matrix is centred to C K Cᵀ, C = I - 1wᵀ, and the inner product of two
is Σ_st s_s s_t K_st K'_st. Everything here works on K̃ = D C K Cᵀ D, D = diag(√s), whose plain inner products
these are. The target kernel is K̃* = Ỹ Ỹᵀ, Ỹ = D C Y, never formed here. Without centring C = I.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpstrf
from scipy.optimize import nnls

from .._util.threads import map_in_threads
from ..families.bank import Bank, FeatureBank

#: Values of all members that are held at a time, in bytes.
STACK_BYTES = 2**26
#: A kernel less its diagonal that is smaller than this, relative to both, is rounding.
LEAST_REST = 1e-10
#: Centred kernels smaller than this, relative to the kernel itself, are rounding.
VANISHING = 1e-13
#: Kernels beyond which inner products are factored by Cholesky's method.
MANY = 1000


class Centring:
    """The map K → K̃ for given weights.

    Parameters
    ----------
    sample_weight : (n,) array
    centred : bool
        Whether C takes means off; if not, it is the identity.

    Attributes
    ----------
    shift : (n,) array
        Weights of the means that are taken off, C = I - 1 shiftᵀ: w, or zeros.
    identity : float
        Squared norm of the identity over repetitions, centred.
    """

    def __init__(self, sample_weight: np.ndarray, centred: bool = True):
        self.s = np.asarray(sample_weight, dtype=float)
        self.root = np.sqrt(self.s)
        self.total = float(self.s.sum())
        self.w = self.s / self.total
        self.shift = self.w if centred else np.zeros_like(self.w)
        self.identity = self.total - 1 if centred else self.total

    def targets(self, Y: np.ndarray) -> np.ndarray:
        """Return Ỹ; zero where Y is constant to rounding."""
        centred = Y - self.shift @ Y
        level = np.abs(Y).max(axis=0, initial=0.0)
        centred[:, np.sqrt(self.w @ np.square(centred)) <= VANISHING * level] = 0.0
        return self.root[:, None] * centred

    def matrix(self, K: np.ndarray) -> np.ndarray:
        """Return K̃, in the memory of K; zero where only rounding is left.

        Raises
        ------
        FloatingPointError
            If its norm leaves the range of floats.
        """
        size = self.total * float(np.abs(np.diagonal(K)).max(initial=0.0))
        means = K @ self.shift
        K -= means[:, None] - 0.5 * float(self.shift @ means)
        K -= means - 0.5 * float(self.shift @ means)
        K *= self.root[:, None]
        K *= self.root
        with np.errstate(over="ignore", invalid="ignore"):  # NumPy before 2.3 never says it
            norm = float(np.linalg.norm(K))
        if not np.isfinite(norm):
            raise FloatingPointError("overflow in the norm of a kernel")
        if norm <= VANISHING * size:
            K[:] = 0.0
        return K

    def pulled(self, M: np.ndarray) -> np.ndarray:
        """Return N with <K, N> = <K̃, M> for every K: Cᵀ D M D C, for a symmetric M."""
        N = self.root[:, None] * M * self.root
        means = N.sum(axis=1)
        N -= np.multiply.outer(self.shift, means - 0.5 * means.sum() * self.shift)
        N -= np.multiply.outer(means - 0.5 * means.sum() * self.shift, self.shift)
        return N


def centred_products(
    bank: Bank, centring: Centring, Y: np.ndarray, *, diagonal_only=False, stack_bytes: int = STACK_BYTES
):
    """Return <K̃_i, K̃_j> of all members of a bank (or of each with itself), and b_i = <K̃_i, Ỹ Ỹᵀ>.

    Tile by tile: O(m² n²) time, or O(m n²) for the diagonal; memory m n and `stack_bytes`. With explicit features of
    total width k narrower than that, O(n k²).

    Parameters
    ----------
    bank : Bank
    centring : Centring
    Y : (n, c) array
        Ỹ.
    diagonal_only : bool
    stack_bytes : int
        Values of all members that are held at a time.

    Returns
    -------
    M : (m, m) or (m,) array
    b : (m,) array
    """
    with np.errstate(over="ignore", invalid="ignore"):
        if isinstance(bank, FeatureBank):
            M, b = _from_features(bank, centring, Y)
            M = np.diagonal(M).copy() if diagonal_only else M
        else:
            M, b = _from_tiles(bank, centring, Y, diagonal_only, stack_bytes)
    if not (np.isfinite(M).all() and np.isfinite(b).all()):
        raise ValueError(
            "kernels: squares of their values on these rows leave the range of floats, and alignment needs them; "
            "standardise the columns of X, or lower the degree."
        )
    return M, b


def _from_features(bank: FeatureBank, centring, Y):
    phi, _ = bank.features(np.ones(bank.n_members))
    size = np.sqrt(centring.w @ np.square(phi))
    phi = phi - centring.shift @ phi
    phi[:, np.sqrt(centring.w @ np.square(phi)) <= VANISHING * size] = 0.0
    phi *= centring.root[:, None]
    starts = np.concatenate([[0], np.cumsum(bank.widths)[:-1]])
    squares = np.square(phi.T @ phi)
    M = np.add.reduceat(np.add.reduceat(squares, starts, axis=0), starts, axis=1)
    return M, np.add.reduceat(np.square(phi.T @ Y).sum(axis=1), starts)


def _from_tiles(bank: Any, centring, Y, diagonal_only, stack_bytes):
    n, m = bank.n_rows, bank.n_members
    means, tops = _row_means(bank, centring.shift)
    grand = means @ centring.shift
    rows = max(1, stack_bytes // (8 * m * n))
    tiles = [(t, c, min(c + rows, b)) for t, (a, b) in enumerate(bank.tiles) for c in range(a, b, rows)]

    def partial(tile):
        t, a, b = tile
        block = bank.part(t, a, b)
        factor = np.multiply.outer(centring.root[a:b], centring.root[a:])
        factor[:, b - a :] *= np.sqrt(2.0)  # the tile stands for its mirror image too
        Z = np.empty((m, factor.size))
        for i in range(m):
            K = block(i)
            K -= means[i, a:b, None] - 0.5 * grand[i]
            K -= means[i, a:] - 0.5 * grand[i]
            K *= factor
            Z[i] = K.ravel()
        target = Y[a:b] @ Y[a:].T
        target[:, b - a :] *= np.sqrt(2.0)
        products = np.einsum("ij,ij->i", Z, Z) if diagonal_only else Z @ Z.T
        return products, Z @ target.ravel()

    parts = map_in_threads(partial, tiles)
    M, b = sum(p for p, _ in parts), sum(q for _, q in parts)
    own = M if diagonal_only else np.diagonal(M)
    gone = np.sqrt(own) <= VANISHING * centring.total * tops  # only rounding is left of these
    b[gone] = 0.0
    M[gone] = 0.0
    if not diagonal_only:
        M[:, gone] = 0.0
    return M, b


def _row_means(bank, w):
    """Return K_i w of every member, and its largest diagonal entry; one pass."""
    means = np.zeros((bank.n_members, bank.n_rows))
    tops = np.zeros(bank.n_members)
    for t, (a, b) in enumerate(bank.tiles):
        block = bank.part(t, a, b)
        for i in range(bank.n_members):
            K = block(i)
            means[i, a:b] += K @ w[a:]
            means[i, b:] += K[:, b - a :].T @ w[a:b]
            tops[i] = max(tops[i], float(np.abs(np.diagonal(K)).max()))
    return means, tops


def squares_less_identity(squares, own, traces, identity):
    """Return ‖K_i - d_i I‖² from ‖K_i‖², d_i, tr K_i and ‖I‖²; 0 where only rounding is left of it."""
    size = squares + own**2 * identity
    left = size - 2 * own * traces
    return np.where(left > LEAST_REST * size, left, 0.0)


def nonnegative_weights(M: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the v >= 0 that minimises vᵀMv - 2bᵀv; M may be singular.

    b is in the range of M, both being inner products of the same vectors, so that directions in which M is zero
    to rounding hold nothing of b. Scaled to alignment: the direction of v maximises bᵀv/√(vᵀMv).
    """
    norms = np.sqrt(np.diagonal(M))
    used = np.flatnonzero(norms > 0)
    v = np.zeros(len(b))
    if len(used) == 0:
        return v
    scaled = M[np.ix_(used, used)] / np.multiply.outer(norms[used], norms[used])
    factor, target = least_squares((scaled + scaled.T) / 2, b[used] / norms[used])
    found, _ = nnls(factor, target, maxiter=max(300, 30 * len(used)))
    v[used] = found / norms[used]
    return v


def least_squares(M: np.ndarray, b: np.ndarray, many: int = MANY) -> tuple[np.ndarray, np.ndarray]:
    """Return F and t with FᵀF = M and Fᵀt = b, without the directions in which M is zero to rounding."""
    least = len(b) * np.finfo(float).eps
    if len(b) > many:  # Cholesky with pivots: O(m r²) for the rank r, which few rows keep low
        L, pivots, rank, _ = dpstrf(M, tol=least, lower=1)
        L, order = np.tril(L)[:, :rank], pivots - 1
        factor = np.empty((rank, len(b)))
        factor[:, order] = L.T
        return factor, solve_triangular(L[:rank], b[order[:rank]], lower=True)
    values, vectors = np.linalg.eigh(M)
    kept = values > least * values[-1]
    root = np.sqrt(values[kept])
    return root[:, None] * vectors[:, kept].T, (vectors[:, kept].T @ b) / root
