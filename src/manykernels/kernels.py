"""Single kernels: a kernel is a symmetric positive semi-definite function of two rows.

A kernel is a description (a :class:`~sklearn.base.BaseEstimator`): it clones, prints, and takes part in a
grid search. Most kernels are a scalar function of one *statistic* of a pair of rows (inner product,
squared distance, ...); kernels on the same columns share it, see :mod:`manykernels.families.bank`.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations_with_replacement
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator, clone
from sklearn.metrics.pairwise import (
    PAIRWISE_KERNEL_FUNCTIONS,
    euclidean_distances,
    linear_kernel,
    manhattan_distances,
    pairwise_kernels,
)

from ._text import brief
from .features import Binning, Exact, FeatureMap, Fourier

__all__ = [
    "Constant",
    "Dirichlet",
    "Function",
    "Kernel",
    "Laplacian",
    "Linear",
    "Pairwise",
    "Polynomial",
    "RBF",
    "as_kernel",
    "pairwise_statistic",
]


#: Polynomial kernels have explicit features up to this many.
MOST_MONOMIALS = 5000


def dense(X):
    """Return `X` as a dense array."""
    return X.toarray() if sp.issparse(X) else X


def resolve_columns(columns: Any, n_features: int, names: Sequence[str] | None, owner: str):
    """Turn names, indices, a slice or a mask into a sorted-as-given array of indices.

    Returns None for all columns. Raises ValueError, naming `owner`, when a column does not exist.
    """
    if columns is None:
        return None
    if isinstance(columns, slice):
        if not all(
            isinstance(v, numbers.Integral | None) for v in (columns.start, columns.stop, columns.step)
        ):
            raise ValueError(f"columns of {owner} is {columns!r}; a slice needs whole numbers, not names.")
        picked = np.arange(n_features)[columns]
    else:
        wanted = (
            list(columns) if isinstance(columns, Iterable) and not isinstance(columns, str) else [columns]
        )
        if wanted and all(isinstance(c, str) for c in wanted):
            picked = _named_columns(wanted, names, owner)
        elif wanted and all(isinstance(c, bool | np.bool_) for c in wanted):
            if len(wanted) != n_features:
                raise ValueError(
                    f"columns of {owner} is a mask of length {len(wanted)}, but X has "
                    f"{n_features} columns; pass one entry per column."
                )
            picked = np.flatnonzero(wanted)
        else:
            picked = np.asarray(wanted)
    if len(picked) == 0:
        raise ValueError(f"columns of {owner} selects no column; name at least one.")
    outside = picked.dtype.kind not in "iu" or picked.min() < -n_features or picked.max() >= n_features
    if outside or picked.ndim != 1:
        raise ValueError(
            f"columns of {owner} is {columns!r}, but X has {n_features} columns; use names, a mask, "
            f"a slice, or indices from 0 to {n_features - 1}."
        )
    return np.where(picked < 0, picked + n_features, picked).astype(np.intp)


def _named_columns(wanted, names, owner):
    if names is None:
        raise ValueError(
            f"columns of {owner} are names ({wanted[0]!r}, ...), but X has no column names; "
            "pass a DataFrame or use indices."
        )
    position = {name: j for j, name in enumerate(names)}
    missing = [c for c in wanted if c not in position]
    if missing:
        raise ValueError(
            f"columns of {owner} names {missing[0]!r}, which X does not have; "
            f"X has {', '.join(map(str, list(names)[:8]))}{', ...' if len(names) > 8 else ''}."
        )
    return np.array([position[c] for c in wanted], dtype=np.intp)


def describe_columns(columns: Any, names: Sequence[str] | None) -> str:
    """Return a short text for a set of resolved columns: ``[0:90]``, ``[age,sex]``, or nothing for all."""
    if columns is None:
        return ""
    c = np.asarray(columns)
    if len(c) > 3 and np.array_equal(c, np.arange(c[0], c[0] + len(c))):
        if names is None:
            return f"[{c[0]}:{c[-1] + 1}]"
        return f"[{names[c[0]]}..{names[c[-1]]}]"
    text = [str(names[j]) if names is not None else str(j) for j in c[:4]]
    return f"[{','.join(text)}{',…' if len(c) > 4 else ''}]"


def pairwise_statistic(name: str, X, Z):
    """Compute the statistic `name` of all pairs of rows of `X` and `Z`, O(n n' d)."""
    if name == "dot":
        return linear_kernel(X, Z, dense_output=True)
    if name == "sqdist":
        if sp.issparse(X) or sp.issparse(Z) or not len(Z):
            return euclidean_distances(X, None if Z is X else Z, squared=True)
        return _squared_distances(X, Z)
    if name == "l1":
        return manhattan_distances(X, Z)
    if name == "difference":
        return np.subtract.outer(dense(X)[:, 0], dense(Z)[:, 0])
    raise ValueError(f"unknown statistic {name!r}")


def _squared_distances(X, Z):
    """Return ‖x - z‖² by one matrix product, and by differences for pairs where that loses its digits.

    Rows are measured from the medians of the columns, so that neither an offset nor an outlier hurts the rest.
    """
    middle = np.median(Z, axis=0)
    Xc = X - middle
    Zc = Xc if Z is X else Z - middle
    S = euclidean_distances(Xc, Zc, squared=True)
    xx, zz = _row_norms_sq(Xc), _row_norms_sq(Zc)
    # The product is exact to about 1e-15 (‖x‖² + ‖z‖²): below 1e-7 of that, eight digits are left.
    rows, columns = np.nonzero(1e-7 * (xx[:, None] + zz) > S)
    if len(rows) * X.shape[1] > S.size + 10**6:
        return cdist(Xc, Zc, "sqeuclidean")
    S[rows, columns] = _row_norms_sq(X[rows] - Z[columns])
    return S


class Kernel(BaseEstimator):
    """Base of all kernels.

    A subclass either sets `statistic` and implements `from_statistic`, or overrides `_gram`.
    `columns` restricts the kernel to some columns: names (with a DataFrame), indices, a slice or a mask.

    Attributes
    ----------
    statistic : str or None
        What the kernel needs to know of a pair of rows: "dot", "sqdist", "l1", "difference", or None.
    explicit : bool
        Whether `features` gives a finite feature map.
    has_random_features : bool
        Whether `random_features` gives features to estimate it by; exact ones will do.
    accepts_sparse : bool
        Whether the kernel can be computed without making sparse rows dense.
    """

    statistic: ClassVar[str | None] = None
    explicit: ClassVar[bool] = False
    has_random_features: ClassVar[bool] = False
    accepts_sparse: ClassVar[bool] = True
    columns: Any = None

    def resolve(self, n_features: int, names: Sequence[str] | None) -> Kernel:
        """Return a copy whose `columns` are indices, after checking the parameters."""
        self.check()
        resolved = clone(self)
        resolved.columns = resolve_columns(self.columns, n_features, names, brief(self))
        return resolved

    def check(self) -> None:
        """Raise ValueError when a parameter makes no kernel."""

    def select(self, X):
        """Return the kernel's columns of `X`."""
        picked = X if self.columns is None else X[:, self.columns]
        return picked if self.accepts_sparse else dense(picked)

    def __call__(self, X, Z=None):
        """Return the Gram matrix of the rows of `X` and `Z`."""
        Xs = self.select(X)
        return self._gram(Xs, Xs if Z is None or Z is X else self.select(Z))

    def _gram(self, X, Z):
        assert self.statistic is not None
        return self.from_statistic(pairwise_statistic(self.statistic, X, Z))

    def from_statistic(self, S):
        """Return the kernel's values, a new array, given its statistic."""
        raise NotImplementedError(f"{type(self).__name__} has no statistic")

    def diag(self, X):
        """Return κ(x_t, x_t) for every row."""
        raise NotImplementedError(f"{type(self).__name__} has no diagonal")

    def features(self, X):
        """Return the explicit feature map of the rows, where the kernel has one."""
        raise NotImplementedError(f"{type(self).__name__} has no explicit features")

    def width(self, n_features: int) -> int:
        """Return the number of explicit features, given the number of columns of X."""
        return n_features if self.columns is None else len(self.columns)

    def random_features(self, n_features: int, seed: int, index: int, size: int) -> FeatureMap:
        """Return a map to features whose inner products estimate the kernel, in blocks of `size`.

        Parameters
        ----------
        n_features : int
            Number of columns of X.
        seed, index : int
            What blocks are regenerated from; `index` tells kernels apart.
        size : int
            Features of a block; exact maps have as many as they need.
        """
        return Exact(self, self.width(n_features))

    def label(self, names: Sequence[str] | None = None) -> str:
        """Return a readable name such as ``rbf(σ=1.4)[age]``."""
        return self._symbol() + describe_columns(self.columns, names)

    def _symbol(self) -> str:
        return type(self).__name__.lower()

    def parameters(self) -> dict[str, Any]:
        """Return the parameters shown in a kernel table."""
        return {k: v for k, v in self.get_params(deep=False).items() if k != "columns"}


def _row_norms_sq(X):
    if sp.issparse(X):
        return np.asarray(X.multiply(X).sum(axis=1)).ravel()
    return np.einsum("ij,ij->i", X, X)


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
        return _row_norms_sq(self.select(X))

    def features(self, X):
        """Return the feature map: the columns."""
        return dense(self.select(X))


class RBF(Kernel):
    """``κ(x, z) = exp(-‖x - z‖² / σ²)``, that is `gamma` = 1/σ² in scikit-learn's terms.

    Parameters
    ----------
    sigma : float
        Bandwidth, positive.
    columns : names, indices, slice or mask, optional
        The columns it sees; all by default.
    """

    statistic = "sqdist"
    has_random_features = True

    def __init__(self, sigma=1.0, columns=None):
        self.sigma = sigma
        self.columns = columns

    def check(self):
        """Require a positive bandwidth."""
        _require_positive(self, "sigma")

    def from_statistic(self, S):
        """Return exp(-S/σ²)."""
        out = S * (-1.0 / float(self.sigma) ** 2)  # a NumPy scalar would turn single precision into double
        return np.exp(out, out=out)

    def diag(self, X):
        """Return ones."""
        return np.ones(X.shape[0])

    def random_features(self, n_features, seed, index, size):
        """Return random Fourier features."""
        return Fourier(self.sigma, self.width(n_features), self.columns, seed, index, size)

    def _symbol(self):
        return f"rbf(σ={self.sigma:.3g})"


class Laplacian(Kernel):
    """``κ(x, z) = exp(-‖x - z‖₁ / σ)``.

    Parameters
    ----------
    sigma : float
        Bandwidth, positive.
    columns : names, indices, slice or mask, optional
        The columns it sees; all by default.
    """

    statistic = "l1"
    has_random_features = True

    def __init__(self, sigma=1.0, columns=None):
        self.sigma = sigma
        self.columns = columns

    def check(self):
        """Require a positive bandwidth."""
        _require_positive(self, "sigma")

    def from_statistic(self, S):
        """Return exp(-S/σ)."""
        out = S * (-1.0 / float(self.sigma))
        return np.exp(out, out=out)

    def diag(self, X):
        """Return ones."""
        return np.ones(X.shape[0])

    def random_features(self, n_features, seed, index, size):
        """Return random binning features."""
        return Binning(self.sigma, self.width(n_features), self.columns, seed, index, size)

    def _symbol(self):
        return f"laplacian(σ={self.sigma:.3g})"


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
        _require_positive(self, "gamma")
        if not (_is_finite_number(self.coef0) and self.coef0 >= 0):
            raise ValueError(f"coef0 of {brief(self)} must be a finite number of at least 0.")

    def from_statistic(self, S):
        """Return (gamma S + coef0)^degree."""
        out = S * float(self.gamma)
        out += float(self.coef0)
        return _whole_power(out, self.degree)

    def diag(self, X):
        """Return (gamma ‖x‖² + coef0)^degree."""
        return (self.gamma * _row_norms_sq(self.select(X)) + self.coef0) ** self.degree

    def random_features(self, n_features, seed, index, size):
        """Return exact features, one per monomial of at most the degree, where there are not too many of them."""
        r = n_features if self.columns is None else len(self.columns)
        width = math.comb(r + self.degree, self.degree)
        if width > MOST_MONOMIALS:
            raise ValueError(
                f"{brief(self)} on {r} columns has {width:,} features, more than {MOST_MONOMIALS:,}; lower the degree, "
                "select columns, or use another kernel."
            )
        return Exact(_Monomials(self, r), width)

    def _symbol(self):
        return f"poly(d={self.degree})"


def _whole_power(base, exponent):
    """Return base ** exponent by repeated multiplication, tens of times faster than ``np.power`` beyond squares."""
    out = None
    while exponent:
        if exponent & 1:
            out = base.copy() if out is None else np.multiply(out, base, out=out)
        exponent >>= 1
        if exponent:
            base = base * base
    return out


class _Monomials:
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

    def features(self, X):
        rows = dense(self.kernel.select(X)) * math.sqrt(self.kernel.gamma)
        rows = np.column_stack([rows, np.full(len(rows), math.sqrt(self.kernel.coef0))])
        out = np.tile(self.roots, (len(rows), 1))
        for column in self.factors.T:
            out *= rows[:, column]
        return out


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
        if not (_is_finite_number(self.sigma) and self.sigma >= 0):
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
        _require_positive(self, "value")

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


class Pairwise(Kernel):
    """A kernel of :func:`sklearn.metrics.pairwise.pairwise_kernels`, by name.

    Parameters
    ----------
    metric : str
        scikit-learn's name, such as "cosine", "chi2", "sigmoid".
    params : dict, optional
        Its keyword arguments.
    columns : names, indices, slice or mask, optional
        The columns it sees; all by default.
    """

    def __init__(self, metric, params=None, columns=None):
        self.metric = metric
        self.params = params
        self.columns = columns

    def check(self):
        """Require a name scikit-learn knows."""
        if self.metric not in PAIRWISE_KERNEL_FUNCTIONS:
            raise ValueError(
                f"kernel {self.metric!r} is unknown; use one of "
                f"{', '.join(sorted(PAIRWISE_KERNEL_FUNCTIONS))}, or pass a callable."
            )

    def _gram(self, X, Z):
        try:
            return pairwise_kernels(X, Z, metric=self.metric, **(self.params or {}))
        except TypeError:  # chi2 and additive_chi2 do not take sparse rows
            if not sp.issparse(X):
                raise
            return pairwise_kernels(dense(X), dense(Z), metric=self.metric, **(self.params or {}))

    def diag(self, X):
        """Return κ(x_t, x_t), row by row in blocks, O(n) memory."""
        return _diag_by_blocks(self, X)

    def _symbol(self):
        return self.metric


class Function(Kernel):
    """Any callable ``func(X, Z) -> (n, n')`` as a kernel.

    Parameters
    ----------
    func : callable
        Takes two arrays of rows and returns their Gram matrix.
    name : str, optional
        Shown in tables; the callable's own name by default.
    columns : names, indices, slice or mask, optional
        The columns it sees; all by default.
    """

    accepts_sparse = False

    def __init__(self, func: Callable, name: str | None = None, columns=None):
        self.func = func
        self.name = name
        self.columns = columns

    def check(self):
        """Require something that can be called."""
        if not callable(self.func):
            raise ValueError(f"func of {brief(self)} must be callable as func(X, Z).")

    def _gram(self, X, Z):
        K = np.asarray(self.func(X, Z), dtype=float)
        if K.shape != (X.shape[0], Z.shape[0]):
            raise ValueError(
                f"kernel {self._symbol()} returned shape {K.shape} for {X.shape[0]} and {Z.shape[0]} "
                "rows; it must return one value for every pair of rows."
            )
        if not np.isfinite(K).all():
            raise ValueError(
                f"kernel {self._symbol()} returned NaN or infinity; it must be finite for every pair of rows."
            )
        return K

    def diag(self, X):
        """Return κ(x_t, x_t), row by row in blocks, O(n) memory."""
        return _diag_by_blocks(self, X)

    def _symbol(self):
        return self.name or getattr(self.func, "__name__", type(self.func).__name__)

    def parameters(self):
        """Return nothing: what is inside a callable is not known."""
        return {}


def _diag_by_blocks(kernel, X, block=64):
    n = X.shape[0]
    return np.concatenate([np.diagonal(kernel(X[a : a + block])) for a in range(0, n, block)])


def _is_finite_number(value) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool) and bool(np.isfinite(value))


def _require_positive(kernel, name):
    value = getattr(kernel, name)
    if not (_is_finite_number(value) and value > 0):
        raise ValueError(f"{name} of {brief(kernel)} must be a positive finite number.")
    if not 1e-150 < float(value) < 1e150:
        raise ValueError(
            f"{name} of {brief(kernel)} is too extreme to compute with; rescale the columns of X."
        )


def as_kernel(spec: Any, where: str = "kernels") -> Kernel:
    """Turn a kernel, a scikit-learn kernel name or a callable into a :class:`Kernel`."""
    if isinstance(spec, Kernel):
        return spec
    if isinstance(spec, type):
        raise ValueError(f"{where} holds the class {spec.__name__}; pass an instance, {spec.__name__}(...).")
    if isinstance(spec, str):
        kernel = Pairwise(spec)
        kernel.check()
        return kernel
    if callable(spec):
        return Function(spec)
    raise ValueError(
        f"{where} holds {brief(spec)}, which is no kernel; use a kernel such as RBF(1.0), "
        "a scikit-learn kernel name, or a callable."
    )
