"""Weights of many targets by generalised cross-validation: one spectrum per set of weights serves all of them.

With μ_j the eigenvalues of S^½ (K_θ + 11ᵀ) S^½ (S has the rows' weights), u_j the eigenvectors and y a target times
S^½, the mean square of errors of rows left out is about

    Σ_j (λ/(μ_j + λ))² (u_jᵀy)² / (1 - Σ_j μ_j/(μ_j + λ)/n)²,

the exact one with every row's leverage replaced by the mean (Golub, Heath & Wahba 1979, *Generalized cross-validation
as a method for choosing a good ridge parameter*). Beside the spectrum it costs O(r²) products per target, r being the
number of explicit features where these are fewer than the rows, and all λ together hardly more than one. Weights that
are to predict a fold are chosen from spectra of the other rows alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from ..._util.threads import map_in_threads
from .targets import Trials

#: Values of λ that every set of weights is tried with, half a decade apart: beyond, a prediction is constant.
LOG_NOISES = np.log(10.0) * np.arange(-4.0, 3.01, 0.5)
#: Rows of a group where spectra are those of all pairs of its rows, and most groups.
PAIR_ROWS, PAIR_GROUPS = 600, 4


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Eigenvalues (r,), squares (r, c) of what targets have along the eigenvectors, what is left (c,), and rows."""

    values: np.ndarray
    squares: np.ndarray
    rest: np.ndarray
    n_rows: int

    def errors(self, log_noises: np.ndarray) -> np.ndarray:
        """Return the generalised cross-validation error (L, c) for every λ and target."""
        noise = np.exp(log_noises)[:, None]
        left = noise / (self.values + noise)
        degrees = self.n_rows - (self.values / (self.values + noise)).sum(axis=1, keepdims=True)
        squares = np.square(left).astype(self.squares.dtype) @ self.squares + self.rest
        return squares / np.square(degrees / self.n_rows)


class System(Protocol):
    """Rows of which a weighted sum of kernels has a spectrum."""

    def spectrum(self, theta: np.ndarray) -> Spectrum:
        """Return the spectrum for weights θ of the kernels over their scales."""
        ...

    def without(self, rows: np.ndarray) -> System:
        """Return the same without some of the rows, a mask."""
        ...


class ColumnSystem:
    """Rows with explicit features that are fewer than the rows: all is in Z'Z and Z'Y.

    Parameters
    ----------
    phi : (n, d) array
        Features of all kernels, over their scales.
    owner : (d,) array of int
        The kernel of each.
    Y : (n, c) array
    s : (n,) array
        Weights of the rows.
    """

    def __init__(self, phi: np.ndarray, owner: np.ndarray, Y: np.ndarray, s: np.ndarray):
        self.phi, self.owner, self.Y, self.s = phi, owner, Y, s
        root = np.sqrt(s)[:, None]
        self.Z = np.column_stack([phi, np.ones(len(phi))]) * root
        self.ZZ, self.ZY = self.Z.T @ self.Z, self.Z.T @ (Y * root)
        self.total = np.einsum("n,nc,nc->c", s, Y, Y)

    def without(self, rows: np.ndarray) -> ColumnSystem:
        """Return the same without some of the rows, a mask."""
        return ColumnSystem(self.phi[~rows], self.owner, self.Y[~rows], self.s[~rows])

    def _roots(self, theta: np.ndarray) -> np.ndarray:
        """Return what the features are multiplied by; the constant is the intercept's."""
        return np.append(np.sqrt(theta)[self.owner], 1.0)

    def spectrum(self, theta: np.ndarray) -> Spectrum:
        """Return the spectrum for weights θ; O(d³ + d² c) for d features of kernels with weight."""
        root = self._roots(theta)
        used = np.flatnonzero(root)
        values, V = np.linalg.eigh(self.ZZ[np.ix_(used, used)] * np.outer(root[used], root[used]))
        # Along directions that the rows do not have there is nothing but rounding.
        real = values > 1e-12 * values[-1]
        V = (V[:, real] / np.sqrt(values[real])) * root[used, None]
        squares = np.square(V.T.astype(np.float32) @ self.ZY[used].astype(np.float32))
        rest = np.maximum(self.total - squares.sum(axis=0), 0.0)
        return Spectrum(values[real], squares, rest, len(self.Y))

    def left_out(
        self, theta: np.ndarray, log_noise: float, chosen: np.ndarray, factor: np.ndarray | None = None
    ) -> np.ndarray:
        """Return the scores of some targets, every row left out; O(n d (d + c)).

        `factor` (n,) balances rows that lack views.
        """
        root, Z = np.sqrt(self.s)[:, None], self.Z * self._roots(theta)
        if factor is not None:
            Z[:, :-1] *= factor[:, None]
        Z = Z[:, Z.any(axis=0)]
        B = Z.T @ Z
        B.flat[:: len(B) + 1] += math.exp(log_noise)
        T = solve_triangular(cholesky(B, lower=True), Z.T, lower=True, check_finite=False)
        Y = self.Y[:, chosen]
        residual = Y - T.T @ (T @ (Y * root)) / root
        return Y - residual / (1.0 - np.einsum("jn,jn->n", T, T))[:, None]


class PairSystem:
    """Rows of which all kernels have their matrices.

    Parameters
    ----------
    K : (m, n, n) array
        The kernels over their scales.
    Y : (n, c) array
    s : (n,) array
        Weights of the rows.
    """

    def __init__(self, K: np.ndarray, Y: np.ndarray, s: np.ndarray):
        self.K, self.Y, self.s = K, Y, s

    def without(self, rows: np.ndarray) -> PairSystem:
        """Return the same without some of the rows, a mask."""
        left = np.flatnonzero(~rows)
        return PairSystem(self.K[:, left[:, None], left], self.Y[left], self.s[left])

    def spectrum(self, theta: np.ndarray) -> Spectrum:
        """Return the spectrum for weights θ; O(n³ + n² c)."""
        root = np.sqrt(self.s)
        total = np.tensordot(theta.astype(self.K.dtype), self.K, 1).astype(float)
        values, V = np.linalg.eigh((total + 1.0) * np.outer(root, root))
        squares = np.square(V.T.astype(np.float32) @ (self.Y * root[:, None]).astype(np.float32))
        return Spectrum(np.maximum(values, 0.0), squares, np.zeros(self.Y.shape[1]), len(self.Y))


class SpectralTrials(Trials):
    """Generalised cross-validation errors of weights and λ, for all rows and without each fold.

    Parameters
    ----------
    systems : list of (System, (n,) array of int)
        Groups of rows, and their numbers.
    folds : (k, n) array of bool
    """

    def __init__(self, systems: list[tuple[System, np.ndarray]], folds: np.ndarray):
        super().__init__()
        self.folds = folds
        whole = [system for system, _ in systems]
        self.variants = [whole]
        if len(folds) > 1:
            self.variants += [[one.without(fold[i]) for one, i in systems] for fold in folds]

    def add(self, theta: np.ndarray, log_noises: np.ndarray) -> None:
        """Try weights with several λ."""
        tasks = [(k, one) for k, own in enumerate(self.variants) for one in own]
        found = map_in_threads(lambda task: task[1].spectrum(theta).errors(log_noises), tasks)
        errors = np.zeros((len(self.variants), *found[0].shape), dtype=np.float32)
        for (k, _), own in zip(tasks, found, strict=True):
            errors[k] += own
        self._keep(theta, log_noises, errors.transpose(1, 0, 2))

    def totals(self, without: int | None) -> np.ndarray:
        """Return the errors (trials, c) over all rows, or `without` a fold."""
        return np.array([one[0 if without is None else 1 + without] for one in self.errors])
