"""What members are compared with: a symmetric matrix over pairs of rows, stored in one of two ways.

Searches ask a direction for what they need of it and do not look at how it is stored.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .bank import Bank


@dataclass(frozen=True, eq=False)
class Direction:
    """A symmetric matrix M over pairs of rows, which members are compared with by <K_i, M>.

    Either of low rank with signs, ``M = V diag(signs) Vᵀ`` (the gradient of J is V = A with signs 1), or dense.

    Attributes
    ----------
    V : (n, k) array or None
    signs : (k,) array or None
    dense : (n, n) array or None
    """

    V: np.ndarray | None = None
    signs: np.ndarray | None = None
    dense: np.ndarray | None = None

    @classmethod
    def of_gradient(cls, A: np.ndarray) -> Direction:
        """Return A Aᵀ, along which J falls fastest."""
        return cls(V=A, signs=np.ones(A.shape[1]))

    def check(self, n: int) -> None:
        """Raise ValueError unless M is finite and has one row for each of the n rows."""
        M = self.dense if self.dense is not None else self.V
        if M is None:
            raise ValueError("direction is empty; give V with signs, or a dense matrix.")
        if M.ndim != 2 or M.shape[0] != n or (self.dense is not None and M.shape[1] != n):
            raise ValueError(
                f"direction has shape {M.shape}; it must have one row for each of the {n} rows of X."
            )
        if not np.isfinite(M).all():
            raise ValueError("direction holds values that are not finite; nothing can be compared with it.")

    def _factors(self) -> tuple[np.ndarray, np.ndarray]:
        assert self.V is not None and self.signs is not None
        return self.V, self.signs

    def is_zero(self) -> bool:
        """Whether M = 0."""
        if self.dense is not None:
            return not np.any(self.dense)
        V, signs = self._factors()
        return not np.any(V[:, signs != 0])

    # -- the matrix, or parts of it ----------------------------------------------------------------------

    def matrix(self) -> np.ndarray:
        """Return M as an n × n array."""
        if self.dense is not None:
            return self.dense
        V, signs = self._factors()
        return (V * signs) @ V.T

    def masked(self, p: np.ndarray) -> Direction:
        """Return M ∘ ppᵀ: zero in the rows and columns of those that p leaves out."""
        if self.dense is not None:
            return Direction(dense=self.dense * p[:, None] * p)
        V, signs = self._factors()
        return Direction(V=V * p[:, None], signs=signs)

    def symmetrised(self) -> Direction:
        """Return (M + Mᵀ)/2, for a dense M that was computed, and is symmetric to rounding only."""
        return self if self.dense is None else Direction(dense=(self.dense + self.dense.T) / 2)

    def tile(self, a: int, b: int) -> np.ndarray:
        """Return M on rows a:b × columns a:n, a new array; twice what stands for its mirror image too."""
        if self.dense is not None:
            M = np.array(self.dense[a:b, a:], dtype=float)
        else:
            V, signs = self._factors()
            M = (V[a:b] * signs) @ V[a:].T
        M[:, b - a :] *= 2
        return M

    def leading(self, most: int) -> tuple[np.ndarray, np.ndarray, bool]:
        """Return V and signs, and whether they are all of M: of a dense one the `most` largest parts, O(n³)."""
        if self.dense is None:
            V, signs = self._factors()
            used = np.flatnonzero(signs != 0)
            return V[:, used], signs[used], True
        values, vectors = np.linalg.eigh(self.symmetrised().matrix())
        order = np.argsort(-np.abs(values))
        order = order[np.abs(values[order]) > 1e-12 * np.abs(values[order[0]])]
        kept = order[:most]
        V = vectors[:, kept] * np.sqrt(np.abs(values[kept]))
        return V, np.sign(values[kept]), len(kept) == len(order)

    def positive(self) -> np.ndarray | None:
        """Return B with B Bᵀ the positive terms of M, (n, k); None for a dense one, whose terms are not known."""
        if self.dense is not None:
            return None
        V, signs = self._factors()
        return V[:, signs > 0] * np.sqrt(signs[signs > 0])

    # -- products and quadratic forms ----------------------------------------------------------------------

    def total(self) -> float:
        """Return 1ᵀM1."""
        if self.dense is not None:
            return float(self.dense.sum())
        V, signs = self._factors()
        return float(signs @ np.square(V.sum(axis=0)))

    def times(self, B: np.ndarray) -> np.ndarray:
        """Return M B."""
        if self.dense is not None:
            return self.dense @ B
        V, signs = self._factors()
        return (V * signs) @ (V.T @ B)

    def forms(self, B: np.ndarray) -> np.ndarray:
        """Return bᵀMb for every column b of B."""
        if self.dense is not None:
            return np.einsum("ij,ij->j", B, self.dense @ B)
        V, signs = self._factors()
        return signs @ np.square(V.T @ B)

    def forms_of_rows(self, blocks: Iterable[tuple[slice, np.ndarray]]) -> np.ndarray:
        """Return φᵀMφ of m vectors that come in blocks ``rows, (m, rows)``; a dense M needs them whole."""
        if self.dense is not None:
            phi = np.concatenate([part for _, part in blocks], axis=1)
            return np.einsum("jt,jt->j", phi @ self.symmetrised().matrix(), phi)
        V, signs = self._factors()
        return np.square(sum(part @ V[rows] for rows, part in blocks)) @ signs

    def along(self, bank: Bank) -> np.ndarray:
        """Return <K_i, M> of all members of a bank, one pass over their values, or one per group of signs."""
        if self.dense is not None:
            return bank.inner_products(self.symmetrised().matrix())
        V, signs = self._factors()
        out = np.zeros(bank.n_members)
        for sign in (1.0, -1.0):
            part = np.flatnonzero(sign * signs > 0)
            if len(part):
                out += sign * bank.quad_forms(V[:, part] * np.sqrt(np.abs(signs[part])))
        return out
