"""Sums over rows of all products of columns, block by block: what a search needs of rows that lie elsewhere.

With v_t a number per row, Σ_t v_t φ_z(x_t) of every product z is a sum over blocks of rows, and so are the scales Σ_t
s_t φ_z(x_t)². A :class:`TableSums` is small, and is sent to where the rows are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..._util.arrays import row_blocks
from .monomial_table import ProductTable
from .monomials import Prefix

#: Rows that are taken at once, few enough to stay in cache beside the table.
TILE = 1024


@dataclass(frozen=True, eq=False)
class TableSums:
    """All products of at most `degree` of some columns, each divided by a number.

    Attributes
    ----------
    active : (r,) array of int
        The columns.
    divisor : (r,) array
    degree : int
    """

    active: np.ndarray
    divisor: np.ndarray
    degree: int

    @cached_property
    def table(self) -> ProductTable:
        """The places of all products."""
        return ProductTable(len(self.active), self.degree)

    def __getstate__(self):
        return {name: getattr(self, name) for name in ("active", "divisor", "degree")}

    def columns(self, X: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield tiles of rows, and a constant column and the scaled ones of each, (r + 1, n), in one place."""
        all_of_them = len(self.active) == X.shape[1] and not (np.diff(self.active) != 1).any()
        Z = np.empty((len(self.active) + 1, 0))
        for rows in row_blocks(X.shape[0], 1, TILE):
            n = rows.stop - rows.start
            Z = Z if Z.shape[1] == n else np.ones((len(Z), n))
            X_rows = X[rows] if all_of_them else X[rows][:, self.active]
            np.divide(X_rows.T, self.divisor[:, None], out=Z[1:])
            yield rows, Z

    def sums(self, X: np.ndarray, V: np.ndarray, *, squared: bool = False) -> np.ndarray:
        """Return Σ_t V_tk φ_z(x_t), or of φ_z², for all products, (c, places), n r^D/D! multiply-adds for each k."""
        table = self.table
        chunk, out = table.slabs, np.zeros((V.shape[1], len(table)))
        scratch = None
        for rows, Z in self.columns(X):
            Z = np.square(Z, out=Z) if squared else Z
            if scratch is None or scratch[0].shape[1] != Z.shape[1]:
                scratch = table.scratch(chunk, Z.shape[1])
            for v, sums in zip(V[rows].T, out, strict=True):
                table.add(chunk, Z, np.ascontiguousarray(v), sums, scratch)
        return out

    def extensions(
        self, X: np.ndarray, V: np.ndarray, prefixes: Sequence[Prefix], *, squared: bool = False
    ) -> np.ndarray:
        """Return Σ_t V_tk φ_z(x_t) x_tj, or of the squares, for prefixes z and columns j, (c, m, r)."""
        out = np.zeros((V.shape[1], len(prefixes), len(self.active)))
        for rows, Z in self.columns(X):
            Z = np.square(Z, out=Z) if squared else Z
            phi = np.stack([np.prod(Z[[j + 1 for j in z]], axis=0) for z in prefixes])
            for v, sums in zip(V[rows].T, out, strict=True):
                sums += (phi * v) @ Z[1:].T
        return out
