"""Kernel values of chosen rows: what a solver needs that never holds a Gram matrix.

A bank serves passes over all pairs of rows; this serves blocks of any rows against any others, in single precision
where that is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from .._blocks import row_blocks
from .._threads import map_in_threads
from ..kernels import Kernel
from .bank import Sharing

#: Single precision will do when rounding of the statistic moves no kernel value by more than this share.
SINGLE_IS_ENOUGH = 1e-5
#: Rows looked at to find that out.
PROBED = 128

Block = Callable[[int], np.ndarray]


class Values:
    """Values of the members of a family among the rows of X.

    Attributes
    ----------
    n_rows, n_members : int
    ready : (n, n, m) array or None
        All values, where they exist already.
    """

    ready: np.ndarray | None = None

    def __init__(self, family: Any, X, members: Sequence[Any]):
        self.family, self.X, self.members = family, X, members
        self.n_rows, self.n_members = X.shape[0], len(members)

    def diag(self) -> np.ndarray:
        """Return κ_i(x_t, x_t), (n, m)."""
        one = np.ones(1)
        return np.column_stack([self.family.diag(self.X, [member], one) for member in self.members])

    def open(self, rows, columns) -> Block:
        """Return a function from a member's number to its values on some rows and columns."""
        X, Z, one = self.X[rows], self.X[columns], np.ones(1)
        return lambda i: self.family.gram(X, Z, [self.members[i]], one)

    def stack(self, rows, columns, dtype) -> np.ndarray:
        """Return every member's values on some rows and columns, (rows, columns, m)."""
        width = len(np.arange(self.n_rows)[columns]) if isinstance(columns, slice) else len(columns)
        out = np.empty((len(rows), width, self.n_members), dtype)

        def fill(part):
            block = self.open(rows[part], columns)
            for i in range(self.n_members):
                out[part, :, i] = block(i)

        map_in_threads(fill, row_blocks(len(rows), width, 2**18))
        return out


class StackValues(Values):
    """A ready-made stack; a copy only where it is not contiguous or only some kernels are wanted."""

    def __init__(self, family: Any, X, members: Sequence[Any]):
        super().__init__(family, X, members)
        every = list(members) == list(range(X.shape[2]))
        self.ready = np.ascontiguousarray(X if every else X[:, :, list(members)])


class KernelValues(Values):
    """Kernels as functions on dense rows: one matrix product per set of columns, in single precision where it will do.

    Inner products and squared distances are shared by the kernels on the same columns. A value costs one multiply-add
    per column of its group, and the kernel's own function.
    """

    def __init__(self, family: Any, X, members: Sequence[Any], kernels: Sequence[Kernel]):
        super().__init__(family, X, members)
        self.sharing = Sharing(kernels)
        self.singles = {}
        for key in self.sharing.shared:
            single = _Single.of(key[0], self.sharing.representative[key].select(X))
            users = [k for k, own in zip(self.sharing.kernels, self.sharing.keys, strict=True) if own == key]
            if single is not None and all(single.enough_for(kernel) for kernel in users):
                self.singles[key] = single

    def open(self, rows, columns):
        """Return a function from a kernel's number to its values."""
        known = {key: single.statistic(rows, columns) for key, single in self.singles.items()}
        if len(known) == len(self.sharing.shared) and None not in self.sharing.keys:
            return self.sharing.open(None, None, known)
        return self.sharing.open(self.X[rows], self.X[columns], known)


class _Single:
    """Inner products or squared distances of rows held in single precision."""

    def __init__(self, statistic: str, X: np.ndarray):
        self.distances = statistic == "sqdist"
        if self.distances:
            X = X - X.mean(axis=0)  # distances do not change, and their rounding is relative to the norms
        self.norms = np.einsum("ij,ij->i", X, X)
        self.X = X.astype(np.float32)
        self.single_norms = self.norms.astype(np.float32)

    @classmethod
    def of(cls, statistic, X) -> _Single | None:
        """Return the rows in single precision, or None for a statistic that is no matrix product."""
        if statistic not in ("dot", "sqdist") or sp.issparse(X):
            return None
        return cls(statistic, X)

    def statistic(self, rows, columns) -> np.ndarray:
        """Return the statistic of pairs of rows, O(columns of X) each."""
        S = self.X[rows] @ self.X[columns].T
        if self.distances:
            S *= -2.0
            S += self.single_norms[rows][:, None]
            S += self.single_norms[columns]
            np.maximum(S, 0.0, out=S)
        return S

    def enough_for(self, kernel: Kernel) -> bool:
        """Whether rounding of the statistic leaves the kernel's values as they are, on a sample of the rows."""
        rows = np.unique(np.linspace(0, len(self.X) - 1, PROBED).astype(int))
        S = self.statistic(rows, rows).astype(float)
        error = 4 * np.finfo(np.float32).eps * float(self.norms.max(initial=0.0))
        exact, moved = kernel.from_statistic(S), kernel.from_statistic(S + error)
        size = np.abs(exact).mean()
        return bool(np.isfinite(moved).all() and np.abs(moved - exact).max() <= SINGLE_IS_ENOUGH * size)
