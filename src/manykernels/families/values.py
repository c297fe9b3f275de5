"""Kernel values of chosen rows: what a solver needs that never holds a Gram matrix.

A bank serves passes over all pairs of rows; this serves blocks of any rows against any others, in single precision
where that is enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from .._util.arrays import row_blocks
from .._util.threads import map_in_threads
from ..kernels import Kernel
from ..kernels.statistics import Rows
from .bank import Key, MemberValues, Sharing

#: Single precision will do when rounding of the statistic moves no kernel value by more than this share.
SINGLE_IS_ENOUGH = 1e-4
#: Values up to this one stay clear of its range.
LARGEST = 1e30
#: Rows looked at to find that out.
PROBED = 128


class Values:
    """Values of the members of a family among the rows of X.

    Attributes
    ----------
    n_rows, n_members : int
    ready : (n, n, m) array or None
        All values, where they exist already.
    """

    ready: np.ndarray | None = None

    def __init__(self, family: Any, X: Rows, members: Sequence[Any]):
        self.family, self.X, self.members = family, X, members
        self.n_rows, self.n_members = X.shape[0], len(members)

    def diag(self) -> np.ndarray:
        """Return κ_i(x_t, x_t), (n, m)."""
        one = np.ones(1)
        return np.column_stack([self.family.diag(self.X, [member], one) for member in self.members])

    def open(self, rows: np.ndarray, columns: np.ndarray | slice, single: bool = True) -> MemberValues:
        """Return a function from a member's number to its values on some rows and columns.

        `single` allows single precision.
        """
        X, Z, one = self.X[rows], self.X[columns], np.ones(1)
        return lambda i: self.family.gram(X, Z, [self.members[i]], one)

    def stack(self, rows: np.ndarray, columns: np.ndarray | slice, dtype: npt.DTypeLike) -> np.ndarray:
        """Return every member's values on some rows and columns, (rows, columns, m)."""
        width = len(np.arange(self.n_rows)[columns]) if isinstance(columns, slice) else len(columns)
        out = np.empty((len(rows), width, self.n_members), dtype)

        def fill(part):
            block = self.open(rows[part], columns, single=dtype == np.float32)
            for i in range(self.n_members):
                out[part, :, i] = block(i)

        map_in_threads(fill, row_blocks(len(rows), width, 2**18))
        return out


class RankOneValues(Values):
    """Members with one feature each, all of them at once: they may be hundreds of thousands, and rows few."""

    def diag(self) -> np.ndarray:
        """Return the squares of the features, which are products of columns, as products of squares."""
        return self.family.features(np.square(self.X), self.members)

    def stack(self, rows: np.ndarray, columns: np.ndarray | slice, dtype: npt.DTypeLike) -> np.ndarray:
        """Return the products of the features of some rows and columns."""
        phi, psi = (self.family.features(self.X[part], self.members) for part in (rows, columns))
        out = np.empty((len(phi), len(psi), self.n_members), dtype)
        for t, row in enumerate(phi):
            out[t] = row * psi
        return out


class StackValues(Values):
    """A ready-made stack; a copy only where it is not contiguous or only some kernels are wanted."""

    def __init__(self, family: Any, X: Rows, members: Sequence[Any]):
        super().__init__(family, X, members)
        every = list(members) == list(range(X.shape[2]))
        self.ready = np.ascontiguousarray(X if every else X[:, :, list(members)])

    def open(self, rows: np.ndarray, columns: np.ndarray | slice, single: bool = True) -> MemberValues:
        """Return a function from a kernel's number to its values."""
        assert self.ready is not None
        part = self.ready[rows][:, columns]
        return lambda i: part[:, :, i]


class KernelValues(Values):
    """Kernels as functions on dense rows: one matrix product per set of columns, in single precision where it will do.

    Inner products and squared distances on the same columns come from the same product. A value costs one multiply-add
    per column, shared by the kernels on these columns, and the kernel's own function.
    """

    def __init__(self, family: Any, X: Rows, members: Sequence[Any], kernels: Sequence[Kernel]):
        super().__init__(family, X, members)
        self.sharing = Sharing(kernels)
        #: Rows in single precision by columns, and the statistics taken from them.
        self.singles: dict[Any, tuple[_Single, list[Any]]] = {}
        if sp.issparse(X):
            return
        for columns in dict.fromkeys(key[1] for key in self.sharing.shared):
            keys = [k for k in self.sharing.shared if k[1] == columns and k[0] in ("dot", "sqdist")]
            if keys:
                rows = self.sharing.representative[keys[0]].select(X)
                single = _Single(rows, centred=all(key[0] == "sqdist" for key in keys))
                self.singles[columns] = single, [key for key in keys if self._enough(single, key)]

    def _enough(self, single, key) -> bool:
        users = (k for k, own in zip(self.sharing.kernels, self.sharing.keys, strict=True) if own == key)
        return all(single.enough_for(key[0], kernel) for kernel in users)

    def open(self, rows: np.ndarray, columns: np.ndarray | slice, single: bool = True) -> MemberValues:
        """Return a function from a kernel's number to its values."""
        known: dict[Any, np.ndarray] = {}
        for held, keys in self.singles.values():
            if keys and single:
                known.update(held.statistics(keys, rows, columns))
        if len(known) == len(self.sharing.shared) and None not in self.sharing.keys:
            return self.sharing.open(None, None, known)
        return self.sharing.open(self.X[rows], self.X[columns], known)


class _Single:
    """Rows in single precision, for inner products and squared distances.

    Parameters
    ----------
    X : (n, d) array
    centred : bool
        Whether to measure rows from their mean: distances do not change, and are rounded relative to the norms.
    """

    def __init__(self, X: np.ndarray, centred: bool):
        X = X - X.mean(axis=0) if centred else X
        norms = np.einsum("ij,ij->i", X, X)
        with np.errstate(over="ignore"):  # rows beyond single precision are not enough for any kernel
            self.X, self.norms = X.astype(np.float32), norms.astype(np.float32)
        #: What rounding may do to an inner product or a squared distance.
        self.error = 2 * float(np.finfo(np.float32).eps) * float(norms.max(initial=0.0))

    def statistics(
        self, keys: Sequence[Key], rows: np.ndarray, columns: np.ndarray | slice
    ) -> dict[Any, np.ndarray]:
        """Return statistics of pairs of rows, from one matrix product."""
        dot = self.X[rows] @ self.X[columns].T
        return {key: dot if key[0] == "dot" else self._distances(dot, rows, columns) for key in keys}

    def _distances(self, dot, rows, columns):
        S = -2.0 * dot
        S += self.norms[rows][:, None]
        S += self.norms[columns]
        return np.maximum(S, 0.0, out=S)

    def enough_for(self, statistic: str, kernel: Kernel) -> bool:
        """Whether rounding of the statistic leaves the kernel's values as they are, on a sample of the rows."""
        if not self.error < LARGEST:  # beyond the range of single precision, or near it
            return False
        rows = np.unique(np.linspace(0, len(self.X) - 1, PROBED).astype(int))
        key = (statistic, None)
        S = self.statistics([key], rows, rows)[key].astype(float)
        exact, moved = kernel.from_statistic(S), kernel.from_statistic(S + self.error)
        size = np.abs(exact)
        if not size.max() < LARGEST:
            return False
        return bool(np.all(np.abs(moved - exact) <= SINGLE_IS_ENOUGH * (size + size.mean())))
