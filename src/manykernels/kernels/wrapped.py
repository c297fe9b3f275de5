"""Kernels by name or by function."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS, pairwise_kernels

from .._util.text import brief
from .base import Kernel
from .statistics import Rows, dense, pairwise_statistic


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

    def __init__(self, metric: str, params: dict[str, Any] | None = None, columns: Any = None):
        self.metric = metric
        self.params = params
        self.columns = columns

    @property
    def splits(self) -> Literal["product", "sum"] | None:  # type: ignore[override]
        """Whether it is the linear kernel, a sum over the columns, or one with a bandwidth, a product."""
        if self.metric == "linear":
            return "sum"
        return "product" if self.metric in ("rbf", "laplacian") and "gamma" in (self.params or {}) else None

    def check(self) -> None:
        """Require a name scikit-learn knows."""
        if self.metric not in PAIRWISE_KERNEL_FUNCTIONS:
            raise ValueError(
                f"kernel {self.metric!r} is unknown; use one of "
                f"{', '.join(sorted(PAIRWISE_KERNEL_FUNCTIONS))}, or pass a callable."
            )

    def _gram(self, X: Rows, Z: Rows):
        if self.metric == "rbf":  # by distances that keep their digits where columns have offsets
            gamma = (self.params or {}).get("gamma")
            return np.exp(
                -(1.0 / X.shape[1] if gamma is None else gamma) * pairwise_statistic("sqdist", X, Z)
            )
        try:
            return pairwise_kernels(X, Z, metric=self.metric, **(self.params or {}))
        except TypeError:  # chi2 and additive_chi2 do not take sparse rows
            if not sp.issparse(X):
                raise
            return pairwise_kernels(dense(X), dense(Z), metric=self.metric, **(self.params or {}))

    def diag(self, X: Rows) -> np.ndarray:
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

    def __init__(self, func: Callable, name: str | None = None, columns: Any = None):
        self.func = func
        self.name = name
        self.columns = columns

    def check(self) -> None:
        """Require something that can be called."""
        if not callable(self.func):
            raise ValueError(f"func of {brief(self)} must be callable as func(X, Z).")
        try:
            takes = inspect.signature(self.func)
        except (TypeError, ValueError):  # some built-in functions do not say
            return
        try:
            takes.bind(None, None)
        except TypeError as error:
            raise ValueError(
                f"kernel {self._symbol()} cannot be called as func(X, Z) with two arrays of rows ({error})."
            ) from None

    def _gram(self, X: Rows, Z: Rows):
        with np.errstate(all="warn"):  # how it comes to its values is its own affair
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

    def diag(self, X: Rows) -> np.ndarray:
        """Return κ(x_t, x_t), row by row in blocks, O(n) memory."""
        return _diag_by_blocks(self, X)

    def _symbol(self):
        return self.name or getattr(self.func, "__name__", type(self.func).__name__)

    def parameters(self) -> dict[str, Any]:
        """Return nothing: what is inside a callable is not known."""
        return {}


def _diag_by_blocks(kernel, X):
    return np.concatenate([np.diagonal(kernel(X[a : a + 64])) for a in range(0, X.shape[0], 64)])


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
