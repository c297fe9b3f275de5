"""Random Fourier features of Gaussian kernels."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ._fourier import cos_sin, project_cos_sin
from .base import RandomMap

#: A column's part of a projection up to which single precision will do: it errs by 3e-5 there.
SINGLE_TERM = 512.0


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

    def transform(self, X: np.ndarray, out: np.ndarray | None = None, first: int = 0) -> np.ndarray:
        """Return ``[cos XΩ, sin XΩ] · √(2/width)``, O(n d width)."""
        rows = X if self.columns is None else X[:, self.columns]
        half = self.width // 2
        scale = np.float32(math.sqrt(1 / half))
        if out is None:
            out = np.empty((len(rows), self.width), dtype=np.float32)
        if self._is_far(rows):  # whole turns are dropped while there are digits for them
            turns = rows @ (self.frequencies.astype(np.float64) / (2 * np.pi))
            cos_sin(((turns - np.rint(turns)) * (2 * np.pi)).astype(np.float32), scale, out, first)
        else:
            single = np.ascontiguousarray(rows, dtype=np.float32)
            project_cos_sin(single, self.frequencies, np.array([half]), out, first)
        return out

    def _is_far(self, rows) -> bool:
        """Whether single precision has too few digits for a projection, and the rows have more."""
        if rows.dtype != np.float64 or not len(rows):
            return False
        terms = np.abs(rows).max(axis=0) * np.abs(self.frequencies).max(axis=1)
        return bool(terms.max(initial=0.0) > SINGLE_TERM)


@dataclass(frozen=True, eq=False)
class FourierBlocks:
    """Several blocks on all columns side by side: for rows in single precision one call makes all features.

    Attributes
    ----------
    blocks : list of FourierBlock
    frequencies : (d, Σ h) array, float32
    halves : (B,) array
        The h of each.
    """

    blocks: list[FourierBlock]
    frequencies: np.ndarray
    halves: np.ndarray

    @property
    def width(self) -> int:
        """Number of features."""
        return 2 * self.frequencies.shape[1]

    @classmethod
    def of(cls, blocks: list) -> FourierBlocks | None:
        """Return blocks together; None unless all are of this kind."""
        if len(blocks) < 2 or not all(isinstance(b, FourierBlock) and b.columns is None for b in blocks):
            return None
        frequencies = np.ascontiguousarray(np.hstack([b.frequencies for b in blocks]))
        return cls(list(blocks), frequencies, np.array([b.width // 2 for b in blocks]))

    def transform(self, X: np.ndarray, out: np.ndarray | None = None, first: int = 0) -> np.ndarray:
        """Return the features of all blocks, O(n d width)."""
        if out is None:
            out = np.empty((len(X), self.width), dtype=np.float32)
        if X.dtype == np.float32:
            project_cos_sin(X, self.frequencies, self.halves, out, first)
            return out
        for block in self.blocks:
            block.transform(X, out, first)
            first += block.width
        return out


@dataclass(frozen=True, eq=False)
class Fourier(RandomMap):
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

    @property
    def width(self) -> int:
        """Features of a block."""
        return 2 * (self.size // 2)

    def block(self, index: int) -> FourierBlock:
        """Return a block, O(d · size) to regenerate."""
        rng = self.generator(index)
        frequencies = rng.standard_normal((self.n_columns, self.size // 2), dtype=np.float32)
        frequencies *= np.reshape(math.sqrt(2) / np.asarray(self.sigma, dtype=np.float32), (-1, 1))
        return FourierBlock(frequencies, self.columns)
