"""Random Fourier features of Gaussian kernels."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .._numba.fourier import cos_sin
from .base import generator_of

#: A column's part of a projection up to which single precision will do: it errs by 3e-5 there.
FARTHEST = 512.0


@dataclass(frozen=True, eq=False)
class FourierBlock:
    """Cosines and sines of random projections.

    Attributes
    ----------
    frequencies : (d, width/2) array, float32
    columns : indices or None
        The columns of the rows that are projected.
    """

    frequencies: np.ndarray
    columns: np.ndarray | None = None

    @property
    def width(self) -> int:
        """Number of features."""
        return 2 * self.frequencies.shape[1]

    def transform(self, X, out=None, first=0) -> np.ndarray:
        """Return ``[cos XΩ, sin XΩ] · √(2/width)``, O(n d width)."""
        rows = X if self.columns is None else X[:, self.columns]
        projected = self._projected(rows)
        n, half = projected.shape
        if out is None:
            out = np.empty((n, 2 * half), dtype=np.float32)
        cos_sin(projected, np.float32(math.sqrt(1 / half)), out, first)
        return out

    def _projected(self, rows) -> np.ndarray:
        """Return XΩ in single precision; whole turns are dropped first where it would not have the digits."""
        if rows.dtype == np.float64 and len(rows):
            terms = np.abs(rows).max(axis=0) * np.abs(self.frequencies).max(axis=1)
            if terms.max(initial=0.0) > FARTHEST:
                turns = rows @ (self.frequencies.astype(np.float64) / (2 * np.pi))
                return ((turns - np.rint(turns)) * (2 * np.pi)).astype(np.float32)
        return np.ascontiguousarray(rows, dtype=np.float32) @ self.frequencies


@dataclass(frozen=True, eq=False)
class Fourier:
    """Random Fourier features of ``exp(-Σ_j (x_j - z_j)²/σ_j²)``: frequencies are normal with deviation √2/σ_j.

    Attributes
    ----------
    sigma : float or (d,) array
    n_columns : int
        Number of columns the kernel sees, d.
    columns : indices or None
    seed, kernel : int
        What blocks are regenerated from.
    size : int
        Features of a block, an even number: cosines and sines come in pairs.

    References
    ----------
    Rahimi and Recht (2007), *Random Features for Large-Scale Kernel Machines*.
    """

    sigma: float | np.ndarray
    n_columns: int
    columns: np.ndarray | None
    seed: int
    kernel: int
    size: int
    n_blocks = None
    sparse = False

    @property
    def width(self) -> int:
        """Features of a block."""
        return 2 * (self.size // 2)

    def block(self, index: int) -> FourierBlock:
        """Return a block, O(d · size) to regenerate."""
        rng = generator_of(self.seed, self.kernel, index)
        frequencies = rng.standard_normal((self.n_columns, self.size // 2), dtype=np.float32)
        frequencies *= np.reshape(math.sqrt(2) / np.asarray(self.sigma, dtype=np.float32), (-1, 1))
        return FourierBlock(frequencies, self.columns)
