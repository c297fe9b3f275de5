"""Kernels by formula."""

from __future__ import annotations

import math
import numbers
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone

from .._util.text import brief
from ..features import Binning, Exact, Fourier
from .base import Kernel, is_finite_number, require_positive
from .polynomials import Monomials, whole_power
from .statistics import dense, row_norms_sq

#: Polynomial kernels have explicit features up to this many.
MOST_MONOMIALS = 5000


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

    def __init__(self, columns=None):
        self.columns = columns

    def from_statistic(self, S):
        """Return the inner products themselves."""
        return S.copy()

    def diag(self, X):
        """Return the squared norms of the rows."""
        return row_norms_sq(self.select(X))

    def features(self, X):
        """Return the feature map: the columns."""
        return dense(self.select(X))


class _WithBandwidth(Kernel):
    """``κ(x, z) = exp(-S / σ^power)`` of a statistic S that is zero for equal rows."""

    has_random_features = True
    power: ClassVar[int]
    symbol: ClassVar[str]
    feature_map: ClassVar[Any]

    def __init__(self, sigma=1.0, columns=None):
        self.sigma = sigma
        self.columns = columns

    def check(self):
        """Require a positive bandwidth."""
        require_positive(self, "sigma")

    def from_statistic(self, S):
        """Return exp(-S/σ^power)."""
        # A NumPy scalar would turn single precision into double.
        out = S * (-1.0 / float(self.sigma) ** self.power)
        return np.exp(out, out=out)

    def diag(self, X):
        """Return ones."""
        return np.ones(X.shape[0])

    def random_features(self, n_features, seed, index, size):
        """Return the random features that suit the kernel."""
        return self.feature_map(self.sigma, self.width(n_features), self.columns, seed, index, size)

    def _symbol(self):
        return f"{self.symbol}(σ={self.sigma:.3g})"


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

    def __init__(self, degree=2, gamma=1.0, coef0=1.0, columns=None):
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.columns = columns

    def check(self):
        """Require an integer degree, a positive gamma and a non-negative constant."""
        if not isinstance(self.degree, numbers.Integral) or self.degree < 1:
            raise ValueError(f"degree of {brief(self)} must be a whole number of at least 1.")
        require_positive(self, "gamma")
        if not (is_finite_number(self.coef0) and self.coef0 >= 0):
            raise ValueError(f"coef0 of {brief(self)} must be a finite number of at least 0.")

    def from_statistic(self, S):
        """Return (gamma S + coef0)^degree."""
        out = S * float(self.gamma)
        out += float(self.coef0)
        return whole_power(out, self.degree)

    def diag(self, X):
        """Return (gamma ‖x‖² + coef0)^degree."""
        return (self.gamma * row_norms_sq(self.select(X)) + self.coef0) ** self.degree

    def random_features(self, n_features, seed, index, size):
        """Return exact features, one per monomial of at most the degree, where there are not too many of them."""
        r = n_features if self.columns is None else len(self.columns)
        width = math.comb(r + self.degree, self.degree)
        if width > MOST_MONOMIALS:
            raise ValueError(
                f"{brief(self)} on {r} columns has {width:,} features, more than {MOST_MONOMIALS:,}; lower the degree, "
                "select columns, or use another kernel."
            )
        return Exact(Monomials(self, r), width)

    def _symbol(self):
        return f"poly(d={self.degree})"


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

    def __init__(self, sigma=1.0, columns=None):
        self.sigma = sigma
        self.columns = columns

    def check(self):
        """Require a frequency of at least zero."""
        if not (is_finite_number(self.sigma) and self.sigma >= 0):
            raise ValueError(f"sigma of {brief(self)} must be a finite number of at least 0.")

    def resolve(self, n_features, names):
        """Require exactly one column."""
        resolved = super().resolve(n_features, names)
        width = n_features if resolved.columns is None else len(resolved.columns)
        if width != 1:
            raise ValueError(
                f"{brief(self)} sees {width} columns, but the Dirichlet kernel is positive definite on one "
                "column only; pass columns=[j]."
            )
        return resolved

    def from_statistic(self, S):
        """Return 1 + 2 cos(σ S)."""
        out = S * float(self.sigma)
        np.cos(out, out=out)
        out *= 2.0
        out += 1.0
        return out

    def diag(self, X):
        """Return threes."""
        return np.full(X.shape[0], 3.0)

    def features(self, X):
        """Return the feature map 1, √2 cos(σx), √2 sin(σx)."""
        x = self.sigma * self.select(X)[:, 0]
        return np.column_stack([np.ones_like(x), np.sqrt(2) * np.cos(x), np.sqrt(2) * np.sin(x)])

    def width(self, n_features):
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

    def __init__(self, value=1.0):
        self.value = value

    def resolve(self, n_features, names):
        """Check the value; there are no columns."""
        self.check()
        return clone(self)

    def check(self):
        """Require a positive value."""
        require_positive(self, "value")

    def _gram(self, X, Z):
        return np.full((X.shape[0], Z.shape[0]), float(self.value))

    def diag(self, X):
        """Return the value for every row."""
        return np.full(X.shape[0], float(self.value))

    def features(self, X):
        """Return one constant column."""
        return np.full((X.shape[0], 1), np.sqrt(float(self.value)))

    def width(self, n_features):
        """Return 1."""
        return 1
