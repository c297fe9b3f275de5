"""A weighted sum of kernels, with their scales, or a power of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ._util.arrays import row_blocks
from ._util.html import bar_table
from ._util.shapes import Stored, check_arrays, demand
from .families.base import Family
from .kernels.plain import whole_power

#: Largest degree of what comes from a file.
MOST_DEGREE = 1000
#: A table names at most so many columns one by one.
LISTED_AT_MOST = 6


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
    variance : (m,) array or None
        How much each kernel's part of the predictor varies over the training rows; without a predictor, how much the
        kernel itself does, its centred trace.
    """

    family: Family
    members: Sequence[Any]
    weights: np.ndarray
    rho: np.ndarray
    norms: np.ndarray | None = None
    degree: int = 1
    constant: float = 0.0
    variance: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.members)

    def check_stored(self) -> None:
        """Raise Damaged unless what came from a file has a weight and a scale for every kernel."""
        demand(isinstance(self.family, Family), "the kernels are missing")
        demand(isinstance(self.members, Sequence), "the members are no list")
        each = Stored("m", least=0.0)
        some = Stored("m", least=0.0, optional=True)
        declared = {"weights": each, "rho": each, "norms": some, "variance": some}
        check_arrays(vars(self), declared, {"m": len(self.members)})
        whole = isinstance(self.degree, int) and 1 <= self.degree <= MOST_DEGREE
        demand(whole and 0 <= self.constant < np.inf, "the power of the kernels makes no sense")

    def _used(self):
        used = np.flatnonzero(self.weights)
        return [self.members[i] for i in used.tolist()], self.weights[used]

    def balanced(self) -> Combination:
        """Return the same on a union that is balanced by these weights, for rows that lack views."""
        family: Any = self.family
        return replace(self, family=family.balanced(self.members, self.weights * self.rho**2))

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
        """Return each kernel's share of what varies: wide kernels are nearly constant, and carry weight without effect.

        Where that was not measured, shares of Σ_i ρ_i‖w_i‖, or of Σ_i θ_i.
        """
        part = self.weights * self.rho**2 if self.norms is None else self.norms
        if self.variance is not None and self.variance.any():
            part = self.variance
        total = part.sum()
        return part / total if total > 0 else np.zeros_like(part)

    def records(self) -> list[dict[str, Any]]:
        """Return one record per kernel, largest share first.

        Each has ``kernel`` (a readable name), ``weight``, ``share`` of the fitted variance, and the member's own
        parameters such as ``view``, ``sigma`` or ``columns``.
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

    def table(self) -> Any:
        """Return the kernels as a DataFrame, largest share first; without pandas, as :meth:`records`.

        Columns are ``kernel``, ``view`` where there are views, ``weight``, ``share`` of the fitted variance, and the
        kernels' parameters; a long list of columns is summarised.
        """
        records = self.records()
        for record in records:
            if "columns" in record:
                record["columns"] = _summarised(record["columns"])
        try:
            from pandas import DataFrame
        except ImportError:
            return records
        known = ("target", "kernel", "view", "weight", "share")
        first = [name for name in known if any(name in r for r in records)]
        rest = dict.fromkeys(name for record in records for name in record if name not in first)
        return DataFrame(records, columns=[*(first or ["kernel", "weight", "share"]), *rest])

    def _repr_html_(self) -> str:
        """Return the kernels with weight as a table with bars, for notebooks."""
        records = [record for record in self.records() if record["weight"]]
        columns = {
            "target": "Target",
            "kernel": "Kernel",
            "view": "View",
            "weight": "Weight",
            "share": "Share",
        }
        known = {key: name for key, name in columns.items() if any(key in record for record in records)}
        return bar_table(records, known, "share")


@dataclass(frozen=True, eq=False)
class TargetCombination(Combination):
    """Weights of the same kernels for every target: ``κ_k(x, z) = Σ_i weights_ki κ_i(x, z)``.

    `weights`, `norms` and `variance` are (c, m) arrays; all else is as in :class:`Combination`. With `balances`, rows
    that lack views are balanced by each target's own weights, see :class:`~manykernels.families.Union`.
    """

    balances: bool = False

    def check_stored(self) -> None:
        """Raise Damaged unless what came from a file has a weight for every target and kernel."""
        demand(isinstance(self.family, Family), "the kernels are missing")
        demand(isinstance(self.members, Sequence), "the members are no list")
        each = Stored("c m", least=0.0, optional=True)
        declared = {
            "weights": Stored("c m", least=0.0),
            "rho": Stored("m", least=0.0),
            "norms": each,
            "variance": each,
        }
        check_arrays(vars(self), declared, {"m": len(self.members)})

    def of_target(self, k: int) -> Combination:
        """Return the kernel of one target."""
        norms, variance = (None if a is None else a[k] for a in (self.norms, self.variance))
        one = Combination(self.family, self.members, self.weights[k], self.rho, norms, variance=variance)
        return one.balanced() if self.balances else one

    def factors(self, X) -> np.ndarray | None:
        """Return what rows of X are multiplied by for every target, (n, c); None where nothing is balanced."""
        family: Any = self.family
        return family.balances(X, self.members, self.weights * self.rho**2) if self.balances else None

    def _used(self):
        raise ValueError("every target has a kernel of its own; use combination_.of_target(k).")

    def shares(self) -> np.ndarray:
        """Return each kernel's share of what varies, (c, m), for every target."""
        return np.array([self.of_target(k).shares() for k in range(len(self.weights))])

    def records(self) -> list[dict[str, Any]]:
        """Return one record per kernel with weight of every target (``target`` is its number), largest share first."""
        found = []
        for k in range(len(self.weights)):
            found += [{"target": k, **record} for record in self.of_target(k).records() if record["weight"]]
        return found


def _summarised(columns: Any) -> Any:
    """Return the names or numbers of columns as they are, or the first few of them and how many there are."""
    if not isinstance(columns, Sequence) or isinstance(columns, str) or len(columns) <= LISTED_AT_MOST:
        return columns
    return f"{', '.join(str(c) for c in columns[:3])}, … ({len(columns):,})"


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
