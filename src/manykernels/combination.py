"""A weighted sum of kernels, with their scales, or a power of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._util.arrays import row_blocks
from ._util.shapes import Stored, check_arrays, demand
from .families.base import Family
from .kernels.plain import whole_power

#: Largest degree of what comes from a file.
MOST_DEGREE = 1000


@dataclass(frozen=True, eq=False)
class Combination:
    """``κ(x, z) = (constant + Σ_i weights_i κ_i(x, z))^degree - constant^degree``, the plain sum for degree 1.

    What the power makes of the constant alone is left to the intercept, as the empty product is everywhere.

    Attributes
    ----------
    family : Family, resolved
    members : sequence
    weights : (m,) array
        θ_i/ρ_i².
    rho : (m,) array
        The scales ρ_i; 0 marks a kernel that vanishes on the training rows and was dropped.
    norms : (m,) array or None
        ρ_i‖w_i‖ of the predictor on top, where there is one.
    degree : int
    constant : float
        Weight of a constant among the kernels: with it the power has products of fewer factors too.
    """

    family: Family
    members: Sequence[Any]
    weights: np.ndarray
    rho: np.ndarray
    norms: np.ndarray | None = None
    degree: int = 1
    constant: float = 0.0

    def __len__(self) -> int:
        return len(self.members)

    def check_stored(self) -> None:
        """Raise Damaged unless what came from a file has a weight and a scale for every kernel."""
        demand(isinstance(self.family, Family), "the kernels are missing")
        demand(isinstance(self.members, Sequence), "the members are no list")
        each = Stored("m", least=0.0)
        declared = {"weights": each, "rho": each, "norms": Stored("m", least=0.0, optional=True)}
        check_arrays(vars(self), declared, {"m": len(self.members)})
        whole = isinstance(self.degree, int) and 1 <= self.degree <= MOST_DEGREE
        demand(whole and 0 <= self.constant < np.inf, "the power of the kernels makes no sense")

    def _used(self):
        used = np.flatnonzero(self.weights)
        return [self.members[i] for i in used.tolist()], self.weights[used]

    def gram(self, X, Z=None) -> np.ndarray:
        """Return the Gram matrix of the rows of X and Z (X itself by default)."""
        members, weights = self._used()
        return self._raised(self.family.gram(X, X if Z is None else Z, members, weights))

    def diag(self, X) -> np.ndarray:
        """Return κ(x_t, x_t)."""
        members, weights = self._used()
        return self._raised(self.family.diag(X, members, weights))

    def apply(self, X, Z, B: np.ndarray) -> np.ndarray:
        """Return what each kernel has in κ(X, Z) B, (m, n, c); together they are all of it.

        Of a power every product is shared out evenly among its factors: with T = Σ_i weights_i κ_i the part of κ_i is
        weights_i κ_i ∘ Q(T), see :func:`quotient`.
        """
        members, weights = self._used()
        used = np.flatnonzero(self.weights).tolist()
        out = np.zeros((len(self), X.shape[0], B.shape[1]))
        if not used:
            return out
        if self.degree == 1:
            out[used] = self.family.apply(X, Z, B, members)
            return out * self.weights[:, None, None]
        for rows in row_blocks(X.shape[0], len(B)):
            rest = quotient(self.family.gram(X[rows], Z, members, weights), self.degree, self.constant)
            for i, member, weight in zip(used, members, weights, strict=True):
                out[i, rows] = weight * ((self.family.gram(X[rows], Z, [member], np.ones(1)) * rest) @ B)
        return out

    def _raised(self, T: np.ndarray) -> np.ndarray:
        return T if self.degree == 1 else power(T, self.degree, self.constant)

    def features(self, X) -> np.ndarray:
        """Return features whose inner products are κ, for plain sums over families with explicit features."""
        if self.degree > 1:
            raise ValueError(f"a power of degree {self.degree} has no features here; use gram.")
        members, weights = self._used()
        family: Any = self.family
        return family.features(X, members) * np.sqrt(np.repeat(weights, family.widths(members)))

    def shares(self) -> np.ndarray:
        """Return each kernel's share of Σ_i ρ_i‖w_i‖, or of Σ_i θ_i where there is no predictor."""
        part = self.weights * self.rho**2 if self.norms is None else self.norms
        total = part.sum()
        return part / total if total > 0 else np.zeros_like(part)

    def table(self) -> list[dict[str, Any]]:
        """Return one record per kernel, heaviest share first.

        Each has ``kernel`` (a readable name), ``weight``, ``share`` of the norm, and the member's own
        parameters such as ``sigma`` or ``columns``.
        """
        shares = self.shares()
        order = np.lexsort((-self.weights, -shares))
        return [
            {
                "kernel": self.family.label(self.members[i]),
                "weight": float(self.weights[i]),
                "share": float(shares[i]),
                **self.family.parameters(self.members[i]),
            }
            for i in order
        ]


def power(T: np.ndarray, degree: int, constant: float) -> np.ndarray:
    """Return (c + T)^D - c^D, entry by entry."""
    return whole_power(T + constant, degree) - constant**degree


def quotient(T: np.ndarray, degree: int, constant: float) -> np.ndarray:
    """Return Q(T) = ((c + T)^D - c^D)/T = Σ_{j<D} c^(D-1-j) (c + T)^j, entry by entry; D - 1 products."""
    total = constant + T
    out, raised = np.ones_like(T), np.ones_like(T)
    for _ in range(degree - 1):  # Q for one degree more is c Q + (c + T)^j
        raised *= total
        out *= constant
        out += raised
    return out
