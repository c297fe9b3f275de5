"""Kernels by formula."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations_with_replacement
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone

from .._util.checks import number, whole
from .._util.text import brief, figure
from ..features import Binning, Exact, FeatureMap, Fourier
from .base import Kernel, refuse_extremes
from .statistics import Rows, dense, row_norms_sq

#: Polynomial kernels have explicit features up to this many.
MOST_MONOMIALS = 5000
POSITIVE = number(open="left")


class Linear(Kernel):
    """``κ(x, z) = <x, z>``.

    Parameters
    ----------
    columns : names, indices, slice or mask, optional
        The columns it sees; all by default.
    """

    statistic = "dot"
    explicit = True
    has_random_features = True
    splits = "sum"

    def __init__(self, columns: Any = None):
        self.columns = columns

    def from_statistic(self, S: np.ndarray) -> np.ndarray:
        """Return the inner products themselves."""
        return S.copy()

    def diag(self, X: Rows) -> np.ndarray:
        """Return the squared norms of the rows."""
        return row_norms_sq(self.select(X))

    def features(self, X: Rows) -> np.ndarray:
        """Return the feature map: the columns."""
        return dense(self.select(X))


class _WithBandwidth(Kernel):
    """``κ(x, z) = exp(-S / σ^power)`` of a statistic S that is zero for equal rows."""

    has_random_features = True
    rules = {"sigma": POSITIVE}
    splits = "product"
    power: ClassVar[int]
    symbol: ClassVar[str]
    feature_map: ClassVar[type[Binning] | type[Fourier]]

    def __init__(self, sigma: float = 1.0, columns: Any = None):
        self.sigma = sigma
        self.columns = columns

    def check(self) -> None:
        """Require a positive bandwidth, within reason."""
        super().check()
        refuse_extremes(self, "sigma")

    def from_statistic(self, S: np.ndarray) -> np.ndarray:
        """Return exp(-S/σ^power)."""
        # A NumPy scalar would turn single precision into double.
        out = S * (-1.0 / float(self.sigma) ** self.power)
        return np.exp(out, out=out)

    def diag(self, X: Rows) -> np.ndarray:
        """Return ones."""
        return np.ones(X.shape[0])

    def random_features(self, n_features: int, seed: int, index: int, size: int) -> FeatureMap:
        """Return the random features that suit the kernel."""
        return self.feature_map(float(self.sigma), self.width(n_features), self.columns, seed, index, size)

    def _symbol(self):
        return f"{self.symbol}(σ={figure(float(self.sigma))})"


class RBF(_WithBandwidth):
    """``κ(x, z) = exp(-‖x - z‖² / σ²)``, that is `gamma` = 1/σ² in scikit-learn's terms.

    Parameters
    ----------
    sigma : float
        Bandwidth, positive.
    columns : names, indices, slice or mask, optional
        The columns it sees; all by default.
    """

    statistic = "sqdist"
    power, symbol, feature_map = 2, "rbf", Fourier
    elsewhere = {"gamma": "sigma, with gamma = 1/sigma²"}


class Laplacian(_WithBandwidth):
    """``κ(x, z) = exp(-‖x - z‖₁ / σ)``.

    Parameters
    ----------
    sigma : float
        Bandwidth, positive.
    columns : names, indices, slice or mask, optional
        The columns it sees; all by default.
    """

    statistic = "l1"
    power, symbol, feature_map = 1, "laplacian", Binning
    elsewhere = {"gamma": "sigma, with gamma = 1/sigma"}


class Polynomial(Kernel):
    """``κ(x, z) = (gamma <x, z> + coef0)^degree``.

    Parameters
    ----------
    degree : int
        Degree, at least 1.
    gamma : float
        Scale of the inner product, positive.
    coef0 : float
        Constant, not negative (a negative one need not give a kernel).
    columns : names, indices, slice or mask, optional
        The columns it sees; all by default.
    """

    statistic = "dot"
    has_random_features = True
    rules = {"degree": whole(1, 1000), "gamma": POSITIVE, "coef0": number()}

    def __init__(self, degree: int = 2, gamma: float = 1.0, coef0: float = 1.0, columns: Any = None):
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.columns = columns

    def check(self) -> None:
        """Require a whole degree, a positive gamma within reason, and a constant that is not negative."""
        super().check()
        refuse_extremes(self, "gamma")

    def from_statistic(self, S: np.ndarray) -> np.ndarray:
        """Return (gamma S + coef0)^degree."""
        out = S * float(self.gamma)
        out += float(self.coef0)
        return whole_power(out, self.degree)

    def diag(self, X: Rows) -> np.ndarray:
        """Return (gamma ‖x‖² + coef0)^degree."""
        return (self.gamma * row_norms_sq(self.select(X)) + self.coef0) ** self.degree

    def random_features(self, n_features: int, seed: int, index: int, size: int) -> FeatureMap:
        """Return exact features, one per monomial of at most the degree, where there are not too many of them."""
        r = n_features if self.columns is None else len(self.columns)
        width = math.comb(r + self.degree, self.degree)
        if width > MOST_MONOMIALS:
            raise ValueError(
                f"{brief(self)} on {r} columns has {width:,} features, more than {MOST_MONOMIALS:,}; lower the degree, "
                "select columns, or use another kernel."
            )
        return Exact(PolynomialFeatures(self, r), width)

    def _symbol(self):
        return f"poly(d={self.degree})"


class PolynomialFeatures:
    """The features of a polynomial kernel: (γ<x,z> + c)^D = <φ(x), φ(z)> with one column per monomial.

    With a constant as one more column, √c, it is the D-th power of an inner product: by the multinomial theorem the
    monomials of degree D, times the roots of their multinomial coefficients.
    """

    def __init__(self, kernel: Polynomial, r: int):
        self.kernel = kernel
        exponents = combinations_with_replacement(range(r + 1), int(kernel.degree))
        self.factors = np.array(list(exponents), dtype=np.intp)
        counts = [np.unique(z, return_counts=True)[1] for z in self.factors]
        whole = math.factorial(int(kernel.degree))
        self.roots = np.array(
            [math.sqrt(whole / math.prod(map(math.factorial, map(int, k)))) for k in counts]
        )

    def features(self, X: Rows) -> np.ndarray:
        """Return the monomials of the rows, O(n · width · D)."""
        rows = dense(self.kernel.select(X)) * math.sqrt(self.kernel.gamma)
        rows = np.column_stack([rows, np.full(len(rows), math.sqrt(self.kernel.coef0))])
        out = np.tile(self.roots, (len(rows), 1))
        for column in self.factors.T:
            out *= rows[:, column]
        return out


def whole_power(base: np.ndarray, exponent: int) -> np.ndarray:
    """Return a new array base ** exponent by squaring, tens of times faster than ``np.power`` beyond squares."""
    out: np.ndarray | None = None
    while exponent:
        if exponent & 1:
            out = base.copy() if out is None else np.multiply(out, base, out=out)
        exponent >>= 1
        if exponent:
            base = base * base
    return np.ones_like(base) if out is None else out


class Dirichlet(Kernel):
    """``κ(x, z) = 1 + 2 cos(σ (x - z))`` on one column; in more dimensions it is no kernel.

    Parameters
    ----------
    sigma : float
        Frequency, not negative.
    columns : names, indices, slice or mask, optional
        The column it sees; needed when X has more than one.
    """

    statistic = "difference"
    explicit = True
    has_random_features = True
    accepts_sparse = False
    rules = {"sigma": number()}

    def __init__(self, sigma: float = 1.0, columns: Any = None):
        self.sigma = sigma
        self.columns = columns

    def resolve(self, n_features: int, names: Sequence[str] | None) -> Kernel:
        """Require exactly one column."""
        resolved = super().resolve(n_features, names)
        width = n_features if resolved.columns is None else len(resolved.columns)
        if width != 1:
            raise ValueError(
                f"{brief(self)} sees {width} columns, but the Dirichlet kernel is positive definite on one "
                "column only; pass columns=[j]."
            )
        return resolved

    def from_statistic(self, S: np.ndarray) -> np.ndarray:
        """Return 1 + 2 cos(σ S)."""
        out = S * float(self.sigma)
        np.cos(out, out=out)
        out *= 2.0
        out += 1.0
        return out

    def diag(self, X: Rows) -> np.ndarray:
        """Return threes."""
        return np.full(X.shape[0], 3.0)

    def features(self, X: Rows) -> np.ndarray:
        """Return the feature map 1, √2 cos(σx), √2 sin(σx)."""
        x = self.sigma * self.select(X)[:, 0]
        return np.column_stack([np.ones_like(x), np.sqrt(2) * np.cos(x), np.sqrt(2) * np.sin(x)])

    def width(self, n_features: int) -> int:
        """Return 3."""
        return 3

    def _symbol(self):
        return f"dirichlet(σ={self.sigma:.4g})"


class Constant(Kernel):
    """``κ(x, z) = value``: a penalised constant besides the intercept.

    Parameters
    ----------
    value : float
        Positive.
    """

    explicit = True
    has_random_features = True
    rules = {"value": POSITIVE}

    def __init__(self, value: float = 1.0):
        self.value = value

    def resolve(self, n_features: int, names: Sequence[str] | None) -> Kernel:
        """Check the value; there are no columns."""
        self.check()
        return clone(self)

    def check(self) -> None:
        """Require a positive value, within reason."""
        super().check()
        refuse_extremes(self, "value")

    def _gram(self, X: Rows, Z: Rows):
        return np.full((X.shape[0], Z.shape[0]), float(self.value))

    def diag(self, X: Rows) -> np.ndarray:
        """Return the value for every row."""
        return np.full(X.shape[0], float(self.value))

    def features(self, X: Rows) -> np.ndarray:
        """Return one constant column."""
        return np.full((X.shape[0], 1), np.sqrt(float(self.value)))

    def width(self, n_features: int) -> int:
        """Return 1."""
        return 1
