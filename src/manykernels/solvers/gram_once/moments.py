"""Sums over rows: all that the squared loss asks of them, and a few rows that have the same sums."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpstrf


@dataclass(frozen=True, eq=False)
class Moments:
    """Σ s zᵀz, Σ s zᵀy and Σ s y² over rows, z = [1, φ - shift].

    Products of different targets are not among them: each is fitted, and judged, by itself.

    Attributes
    ----------
    G : (k + 1, k + 1) array
        Of the constant and the features.
    B : (k + 1, c) array
        Of these and the targets.
    q : (c,) array
        Squares of the targets.
    mass : (m,) array
        The weight of the rows that each kernel's scale is a mean over.
    """

    G: np.ndarray
    B: np.ndarray
    q: np.ndarray
    mass: np.ndarray

    @classmethod
    def zeros(cls, m: int, c: int, n_members: int, folds: int) -> Moments:
        """Return sums of nothing, of several folds."""
        shapes = (folds, m, m), (folds, m, c), (folds, c), (folds, n_members)
        return cls(*(np.zeros(shape) for shape in shapes))

    def add(self, k: int, Z: np.ndarray, Y: np.ndarray, s: np.ndarray) -> None:
        """Add rows to those of a fold."""
        weighted = Z * s[:, None]
        self.G[k] += weighted.T @ Z
        self.B[k] += weighted.T @ Y
        self.q[k] += s @ np.square(Y)

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """All sums."""
        return self.G, self.B, self.q, self.mass

    def fold(self, k: int) -> Moments:
        """Return the sums of one fold of several."""
        return Moments(*(a[k] for a in self.arrays))

    def total(self) -> Moments:
        """Return the sums of all folds."""
        return Moments(*(a.sum(axis=0) for a in self.arrays))

    def less(self, other: Moments) -> Moments:
        """Return the sums of all rows but others."""
        return Moments(*(a - b for a, b in zip(self.arrays, other.arrays, strict=True)))

    def of_targets(self, chosen: np.ndarray) -> Moments:
        """Return the sums of some of the targets."""
        return Moments(self.G, self.B[:, chosen], self.q[chosen], self.mass)

    @property
    def weight(self) -> float:
        """Σ s."""
        return float(self.G[0, 0])

    def means(self) -> np.ndarray:
        """Return the mean of every target."""
        return self.B[0] / self.G[0, 0]

    def about(self, y0: np.ndarray) -> Moments:
        """Return the sums with targets less y0."""
        q = self.q - 2 * y0 * self.B[0] + np.square(y0) * self.weight
        return Moments(self.G, self.B - self.G[:, :1] * y0, np.maximum(q, 0.0), self.mass)

    def squares(self, shift: np.ndarray | float) -> np.ndarray:
        """Return Σ s φ² of every feature."""
        found = np.diagonal(self.G)[1:] + shift * (2 * self.G[0, 1:] + shift * self.weight)
        return np.maximum(found, 0.0)

    def errors(self, V: np.ndarray) -> np.ndarray:
        """Return Σ s (y - zV)² of every target."""
        return np.maximum(self.q - 2 * np.einsum("jc,jc->c", V, self.B) + _forms(self.G, V), 0.0)

    def spread(self) -> np.ndarray:
        """Return Σ s (y - ȳ)² of every target."""
        return np.maximum(self.q - np.square(self.B[0]) / self.weight, 0.0)


def _forms(G: np.ndarray, V: np.ndarray) -> np.ndarray:
    return np.einsum("jc,jc->c", V, G @ V)


def few_rows(sums: Moments, shift: np.ndarray | float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return features, targets and weights of at most k + 2 rows that have these sums.

    Any factor RᵀR = G will do for the features and the constant, and Rᵀ T = B for the targets; what is left of the
    squares of the targets lies in one more row. A reflection takes the constant's column to one that is constant.
    """
    unit = np.sqrt(np.maximum(np.diagonal(sums.G), 0.0))
    unit[unit == 0] = 1.0
    U, pivots, rank, _ = dpstrf(sums.G / unit / unit[:, None], tol=-1)
    order, U = pivots - 1, np.triu(U)[:rank]
    R = np.zeros((rank + 1, len(unit)))
    R[:rank, order] = U
    R *= unit
    T = np.zeros((rank + 1, sums.B.shape[1]))
    T[:rank] = solve_triangular(U[:, :rank], (sums.B / unit[:, None])[order[:rank]], trans="T")
    T[rank] = np.sqrt(np.maximum(sums.q - np.square(T[:rank]).sum(axis=0), 0.0))
    both = _reflected(np.hstack([R, T]), sums.weight)
    n = rank + 1
    both /= np.sqrt(sums.weight / n)
    k = len(unit)
    return both[:, 1:k] + shift, np.ascontiguousarray(both[:, k:]), np.full(n, sums.weight / n)


def _reflected(R: np.ndarray, weight: float) -> np.ndarray:
    """Return R reflected so that its first column is constant."""
    constant = np.full(len(R), np.sqrt(weight / len(R)))
    z = R[:, 0] * (np.sqrt(weight) / np.linalg.norm(R[:, 0])) - constant
    square = float(z @ z)
    return R - np.outer(z, (2.0 / square) * (z @ R)) if square > 0 else R
