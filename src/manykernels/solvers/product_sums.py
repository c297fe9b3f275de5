"""Products of columns over rows that lie elsewhere: residuals, Gram matrices, scales and pulls, as sums over blocks.

For the squared loss nothing else is needed of the rows. No array has a length of n, and A = C s r is never written
down: a model is known by the coefficients of its few products, from which every block computes its residuals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._util.arrays import row_blocks
from .._util.text import brief
from ..families.base import HasFeatures, can
from ..families.products.table_sums import TableSums
from ..problem import Problem
from ..streaming.cluster import Block, Rows

#: Searches of all products send and receive a number for each of them, so that they are for families up to this size;
#: and over many rows, which several workers share, they may cost so many times as much as in one process.
MOST_PLACES, DEARER = 2**23, 10.0
#: Entries of the temporary arrays of a block.
BLOCK_ENTRIES = 2**21


@dataclass(frozen=True)
class WholeProblem(Problem):
    """A sample of the rows, which stands for all of them but for their number and sums.

    Attributes
    ----------
    total_rows : int
    """

    total_rows: int = 0

    @property
    def n_rows(self) -> int:
        """Number of all rows."""
        return self.total_rows

    @classmethod
    def of(cls, first: Problem, rows: Rows) -> WholeProblem:
        """Return the problem of all rows, given a sample of them."""
        fields = {name: getattr(first, name) for name in Problem.__dataclass_fields__}
        return cls(**fields, total_rows=rows.n_rows)


@dataclass(frozen=True, eq=False)
class Columns:
    """Products of columns of a block, and residuals of a model on some of them."""

    family: Any

    def features(self, X: np.ndarray, members: Sequence[Any]) -> np.ndarray:
        """Return the products of some rows, (n, k), in double precision."""
        return self.family.features(np.asarray(X, dtype=np.float64), members)

    def residuals(self, block: Block, members: Sequence[Any], raw: np.ndarray) -> np.ndarray:
        """Return s (Y - F), (n, c), for coefficients `raw` of a constant and the members, (1 + k, c)."""
        R = block.Y - raw[0]
        if len(members):
            for rows in row_blocks(len(R), len(members) + block.X.shape[1], BLOCK_ENTRIES):
                R[rows] -= self.features(block.X[rows], members) @ raw[1:]
        return block.s[:, None] * R

    def gram(self, block: Block, known: Sequence[Any], new: Sequence[Any]) -> np.ndarray:
        """Return Σ s [1, Y, φ_known, φ_new]ᵀ φ_new."""
        members, c = [*known, *new], block.Y.shape[1]
        out = np.zeros((1 + c + len(members), len(new)))
        for rows in row_blocks(len(block.s), len(members) + block.X.shape[1], BLOCK_ENTRIES):
            phi = self.features(block.X[rows], members)
            fresh = phi[:, len(known) :] * block.s[rows, None]
            out[0] += fresh.sum(axis=0)
            out[1 : 1 + c] += block.Y[rows].T @ fresh
            out[1 + c :] += phi.T @ fresh
        return out

    def pulls(self, block: Block, members: Sequence[Any], raw: np.ndarray, asked: Sequence[Any]) -> tuple:
        """Return Σ s r φ_z of the products asked for, (k, c), and Σ s φ_z²."""
        V = self.residuals(block, members, raw)
        total, squares = np.zeros((len(asked), V.shape[1])), np.zeros(len(asked))
        for rows in row_blocks(len(block.s), len(asked) + block.X.shape[1], BLOCK_ENTRIES):
            phi = self.features(block.X[rows], asked)
            total += phi.T @ V[rows]
            squares += block.s[rows] @ np.square(phi, out=phi)
        return total, squares


def moments(block: Block) -> tuple[np.ndarray, ...]:
    """Return Σ s and Σ s², Σ s Y, Σ s Y Yᵀ, and Σ s x_j²."""
    s, squares = block.s, np.zeros(block.X.shape[1])
    for rows in row_blocks(len(s), len(squares), BLOCK_ENTRIES):
        squares += s[rows] @ np.square(np.asarray(block.X[rows], dtype=np.float64))
    return np.array([s.sum(), s @ s]), s @ block.Y, block.Y.T @ (s[:, None] * block.Y), squares


def gram(block: Block, columns: Columns, known, new) -> np.ndarray:
    """Return the part of a block in the Gram matrix of new products."""
    return columns.gram(block, known, new)


def pulls(block: Block, columns: Columns, members, raw, asked) -> tuple:
    """Return the part of a block in the pulls, and the squares, of some products."""
    return columns.pulls(block, members, raw, asked)


def table_squares(block: Block, sums: TableSums) -> np.ndarray:
    """Return the part of a block in Σ s φ_z² of all products."""
    return sums.sums(block.X, block.s[:, None], squared=True)[0]


def table_pulls(block: Block, columns: Columns, sums: TableSums, members, raw) -> np.ndarray:
    """Return the part of a block in Σ s r φ_z of all products, (c, places)."""
    return sums.sums(block.X, columns.residuals(block, members, raw))


def check_products(name: str, problem: Problem) -> None:
    """Raise ValueError for kernels that are no products of columns, each counted once."""
    family: Any = problem.family
    if not (can(family, HasFeatures) and getattr(family, "rank_one", False) and family.factorises):
        raise ValueError(
            f"{name} takes rows from files and clusters with products of columns only, and kernels is {brief(family)}; "
            "pass Products(degree=...) without base, Blockwise, or rows in memory."
        )
