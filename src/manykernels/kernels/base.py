"""What every kernel answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, clone

from .._util.checks import Rule, check_parameters
from .._util.text import brief
from ..features import Exact, FeatureMap
from .columns import describe_columns, resolve_columns
from .statistics import Rows, dense, pairwise_statistic


class Kernel(BaseEstimator):
    """Base of all kernels.

    A subclass either sets `statistic` and implements `from_statistic`, or overrides `_gram`.
    `columns` restricts the kernel to some columns: names (with a DataFrame), indices, a slice or a mask.

    Attributes
    ----------
    rules : dict
        What a parameter may be, by its name.
    statistic : str or None
        What the kernel needs to know of a pair of rows: "dot", "sqdist", "l1", "difference", or None.
    explicit : bool
        Whether `features` gives a finite feature map.
    has_random_features : bool
        Whether `random_features` gives features to estimate it by; exact ones will do.
    accepts_sparse : bool
        Whether the kernel can be computed without making sparse rows dense.
    elsewhere : dict
        What to pass instead of a parameter that other libraries have, by its name there.
    splits : {"product", "sum"} or None
        Whether the kernel is the product, or the sum, of what it is on parts of its columns (``on``).
    """

    rules: ClassVar[dict[str, Rule]] = {}
    statistic: ClassVar[str | None] = None
    explicit: ClassVar[bool] = False
    has_random_features: ClassVar[bool] = False
    accepts_sparse: ClassVar[bool] = True
    elsewhere: ClassVar[dict[str, str]] = {}
    splits: Literal["product", "sum"] | None = None
    columns: Any = None

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Refuse a parameter that other libraries have, with its name here."""
        for name in kwargs:
            if name in cls.elsewhere:
                raise TypeError(f"{cls.__name__} has no {name}; pass {cls.elsewhere[name]}.")
        return super().__new__(cls)

    @property
    def shares(self) -> Any:
        """Return what kernels have in common that need the same statistic: here the columns."""
        return None if self.columns is None else tuple(np.asarray(self.columns).tolist())

    def resolve(self, n_features: int, names: Sequence[str] | None) -> Kernel:
        """Return a copy whose `columns` are indices, after checking the parameters."""
        self.check()
        resolved = clone(self)
        resolved.columns = resolve_columns(self.columns, n_features, names, brief(self))
        return resolved

    def check(self) -> None:
        """Raise ValueError when a parameter makes no kernel."""
        check_parameters(self, self.rules)

    def select(self, X: Rows) -> Rows:
        """Return the kernel's columns of `X`."""
        picked = X if self.columns is None else X[:, self.columns]
        return picked if self.accepts_sparse else dense(picked)

    def on(self, columns: Sequence[int]) -> Kernel:
        """Return what the kernel is on some columns of X, as a kernel on rows that hold these alone."""
        part = clone(self)
        place = {j: k for k, j in enumerate(columns)}
        if self.columns is not None:
            part.columns = np.array([place[j] for j in self.columns if j in place], dtype=np.intp)
        return part

    def __call__(self, X, Z=None):
        """Return the Gram matrix of the rows of `X` and `Z`."""
        Xs = self.select(X)
        return self._gram(Xs, Xs if Z is None or Z is X else self.select(Z))

    def _gram(self, X: Rows, Z: Rows):
        assert self.statistic is not None
        return self.from_statistic(pairwise_statistic(self.statistic, X, Z))

    def from_statistic(self, S: np.ndarray) -> np.ndarray:
        """Return the kernel's values, a new array, given its statistic."""
        raise NotImplementedError(f"{type(self).__name__} has no statistic")

    def diag(self, X: Rows) -> np.ndarray:
        """Return κ(x_t, x_t) for every row."""
        raise NotImplementedError(f"{type(self).__name__} has no diagonal")

    def features(self, X: Rows) -> np.ndarray:
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


def refuse_extremes(kernel: Kernel, name: str) -> None:
    """Raise ValueError for a positive parameter whose powers would leave the range of numbers."""
    if not 1e-150 < float(getattr(kernel, name)) < 1e150:
        raise ValueError(
            f"{name} of {brief(kernel)} is too extreme to compute with; rescale the columns of X."
        )
