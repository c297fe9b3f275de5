"""The functions of one variable that predictors are made of: φ_a(x_g, t), a function a, a row x, a support row t.

A variable g is a column, or several that are read together. What has explicit features has one support row only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..kernels import Kernel

#: A function of a variable as powers of its columns: (place of the column, exponent) pairs.
Power = tuple[tuple[int, int], ...]


class Functions(Protocol):
    """Functions of the columns of one variable."""

    @property
    def count(self) -> int:
        """How many there are."""
        ...

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """Return φ_a(x, t) for rows that hold the columns of the variable, (count, n, N)."""
        ...


@dataclass(frozen=True, eq=False)
class Powers:
    """Products of powers of the columns, such as x² or x·z."""

    powers: Sequence[Power]

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.powers)

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """Return the powers of the rows, (count, n, 1)."""
        out = np.ones((self.count, len(rows), 1))
        for values, power in zip(out, self.powers, strict=True):
            for place, exponent in power:
                for _ in range(exponent):
                    values[:, 0] *= rows[:, place]
        return out


@dataclass(frozen=True, eq=False)
class Explicit:
    """Explicit features of kernels: of each pair of a kernel and a number, that one."""

    features: Sequence[tuple[Kernel, int]]

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.features)

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """Return the features of the rows, (count, n, 1)."""
        found = {id(kernel): kernel.features(rows) for kernel, _ in self.features}
        return np.stack([found[id(kernel)][:, [k]] for kernel, k in self.features])


@dataclass(frozen=True, eq=False)
class KernelProducts:
    """Products of kernels with the support rows: of each list of kernels, their product."""

    products: Sequence[Sequence[Kernel]]
    support: np.ndarray

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.products)

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """Return the products for the rows, (count, n, N)."""
        grams: dict[int, np.ndarray] = {}
        out = np.ones((self.count, len(rows), len(self.support)))
        for values, kernels in zip(out, self.products, strict=True):
            for kernel in kernels:
                if id(kernel) not in grams:
                    grams[id(kernel)] = kernel(rows, self.support)
                values *= grams[id(kernel)]
        return out


@dataclass(frozen=True, eq=False)
class Graded:
    """What the kernels of a variable have in all products of at most D kernels, degree by degree.

    With κ̃ the scaled kernels, the coefficients of s, ..., s^D in Π_κ̃ Σ_a γ_a κ̃^a s^a; γ_a is 1 where a product
    counts once, and 1/a! where it counts once per ordering.
    """

    kernels: Sequence[Kernel]
    scales: Sequence[float]
    support: np.ndarray
    degree: int
    ordered: bool

    @property
    def count(self) -> int:
        """The degree."""
        return self.degree

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """Return the coefficients for the rows, (D, n, N)."""
        total = np.zeros((self.degree + 1, len(rows), len(self.support)))
        total[0] = 1.0
        for kernel, scale in zip(self.kernels, self.scales, strict=True):
            total = times(total, self._series(kernel(rows, self.support) / scale))
        return total[1:]

    def _series(self, K: np.ndarray) -> np.ndarray:
        out = np.ones((self.degree + 1, *K.shape))
        for a in range(1, self.degree + 1):
            np.multiply(out[a - 1], K, out=out[a])
        if self.ordered:
            for a in range(2, self.degree + 1):
                out[a] /= math.factorial(a)
        return out


# -- polynomials in s up to a degree, coefficients along the first axis ------------------------------------


def times(P: np.ndarray, Q: np.ndarray) -> np.ndarray:
    """Return the product of two polynomials up to their degree."""
    out = P * Q[0]
    for b in range(1, len(Q)):
        out[b:] += P[: len(P) - b] * Q[b]
    return out


def divided(P: np.ndarray, Q: np.ndarray) -> np.ndarray:
    """Return the power series P/Q up to the degree of both, for Q that begins with 1."""
    out = P.copy()
    for d in range(1, len(P)):
        for b in range(1, d + 1):
            out[d] -= Q[b] * out[d - b]
    return out
