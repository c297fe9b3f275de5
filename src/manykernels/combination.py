"""A weighted sum of kernels, with their scales."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._util.shapes import Stored, check_arrays, demand
from .families.base import Family


@dataclass(frozen=True, eq=False)
class Combination:
    """``κ(x, z) = Σ_i weights_i κ_i(x, z)``.

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
    """

    family: Family
    members: Sequence[Any]
    weights: np.ndarray
    rho: np.ndarray
    norms: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.members)

    def check_stored(self) -> None:
        """Raise Damaged unless what came from a file has a weight and a scale for every kernel."""
        demand(isinstance(self.family, Family), "the kernels are missing")
        demand(isinstance(self.members, Sequence), "the members are no list")
        each = Stored("m", least=0.0)
        declared = {"weights": each, "rho": each, "norms": Stored("m", least=0.0, optional=True)}
        check_arrays(vars(self), declared, {"m": len(self.members)})

    def _used(self):
        used = np.flatnonzero(self.weights)
        return [self.members[i] for i in used.tolist()], self.weights[used]

    def gram(self, X, Z=None) -> np.ndarray:
        """Return the Gram matrix of the rows of X and Z (X itself by default)."""
        members, weights = self._used()
        return self.family.gram(X, X if Z is None else Z, members, weights)

    def diag(self, X) -> np.ndarray:
        """Return κ(x_t, x_t)."""
        members, weights = self._used()
        return self.family.diag(X, members, weights)

    def features(self, X) -> np.ndarray:
        """Return features whose inner products are κ, for families with explicit features."""
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
