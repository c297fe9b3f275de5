"""The sum of all products of base kernels, as one kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from sklearn.base import clone

from ..._util.arrays import row_blocks
from ...kernels import Kernel, Linear
from ...kernels.statistics import Rows
from ..bank import Sharing
from .monomials import n_multisets


class ProductSum(Kernel):
    """The plain sum of all products of 1 to D scaled base kernels, in closed form.

    With κ̃_j = κ_j/scale_j: Σ_d S^d/ρ_d², S = Σ_j κ̃_j, when products count once per ordering, and
    Σ_d h_d(κ̃)/ρ_d² with the complete homogeneous polynomials h_{d,j} = h_{d,j-1} + κ̃_j h_{d-1,j} when they
    count once. O(n n' r D) time, O(n n' D) memory.

    Parameters
    ----------
    base : list of kernels or None
        Base kernels; None means the columns.
    scale : list of float
        mean κ_j(x_t, x_t) for every base kernel; those with scale 0 are left out.
    degree : int
    count : {"distinct", "ordered"}
    prior_sq : list of float
        ρ_d², d = 1..D.
    """

    accepts_sparse = False

    def __init__(
        self,
        base: Sequence[Kernel] | None,
        scale: Sequence[float],
        degree: int,
        count: Literal["distinct", "ordered"],
        prior_sq: Sequence[float],
    ):
        self.base = base
        self.scale = scale
        self.degree = degree
        self.count = count
        self.prior_sq = prior_sq

    def check(self) -> None:
        """Raise ValueError unless there is a weight for each degree, and a scale for each base kernel."""
        fine = self.degree == len(self.prior_sq) and self.count in ("distinct", "ordered")
        numbers = np.array([*self.scale, *self.prior_sq], dtype=float)
        if (
            not fine
            or not np.isfinite(numbers).all()
            or (self.base is not None and len(self.base) != len(self.scale))
        ):
            raise ValueError(
                "the sum of products has other numbers than its degree and its base kernels ask for."
            )

    def resolve(self, n_features: int, names: Sequence[str] | None) -> ProductSum:
        """Return a copy; base kernels are resolved already."""
        return clone(self)

    def _gram(self, X: Rows, Z: Rows):
        out = np.empty((X.shape[0], Z.shape[0]))
        for rows in row_blocks(X.shape[0], Z.shape[0]):
            out[rows] = self._sum(self._scaled(X[rows], Z), (len(range(*rows.indices(len(X)))), Z.shape[0]))
        return out

    def _kernels(self):
        if self.base is not None:
            return list(self.base)
        return [Linear(columns=[j]) for j in range(len(self.scale))]

    def _scaled(self, X, Z):
        if self.base is None and self.count == "ordered":  # only the sum is needed: one matrix product
            used = np.asarray(self.scale) > 0
            yield (X[:, used] / np.asarray(self.scale)[used]) @ Z[:, used].T
            return
        block = Sharing(self._kernels()).open(X, Z)
        for j, scale in enumerate(self.scale):
            if scale > 0:
                yield block(j) / scale

    @np.errstate(over="ignore", invalid="ignore")  # whoever uses the sum checks that it is finite
    def _sum(self, scaled, shape):
        """Add up all products of the matrices in `scaled`."""
        if self.count == "ordered":
            S = sum(scaled, np.zeros(shape))
            out, power = np.zeros(shape), np.ones(shape)
            for weight in self.prior_sq:
                power = power * S
                out += power / weight
            return out
        h = [np.ones(shape)] + [np.zeros(shape) for _ in range(self.degree)]
        for K in scaled:
            for d in range(1, self.degree + 1):  # h[d-1] already holds this kernel: powers are allowed
                h[d] += K * h[d - 1]
        return sum((h[d] / w for d, w in enumerate(self.prior_sq, start=1)), np.zeros(shape))

    def diag(self, X: Rows) -> np.ndarray:
        """Return the sum on the diagonal, O(n r D)."""
        X = self.select(X)
        rows = (k.diag(X) / s for k, s in zip(self._kernels(), self.scale, strict=True) if s > 0)
        return self._sum(rows, X.shape[0])

    def _symbol(self):
        r = len(self.scale)
        ordered = sum(r**d for d in range(1, self.degree + 1))
        n = n_multisets(r, self.degree) if self.count == "distinct" else ordered
        return f"all {n:,} products of degree ≤ {self.degree}"

    def parameters(self) -> dict[str, Any]:
        """Return the degree and the counting."""
        members = n_multisets(len(self.scale), self.degree)
        return {"degree": self.degree, "count": self.count, "members": members}
