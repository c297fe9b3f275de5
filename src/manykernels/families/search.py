"""Finding the members of a family that agree most with a direction M: the largest <K_z, M>/ρ_z².

A searcher is bound to rows and a scale, and keeps what does not depend on the direction. Here is what all searchers
share, and the one for members that are compared one by one; families too large for that have searchers of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..kernels.statistics import Rows
from .base import Best, Direction, Members, Scaling, Searcher


class CostedSearcher(Searcher):
    """A searcher that says what a search costs, and can look at some members only.

    Attributes
    ----------
    cost : float
        Multiply-adds of a search, about.
    """

    cost: float = 0.0

    def values(self, direction: Direction, members: Sequence[Any]) -> np.ndarray:
        """Return <K_z, M>/ρ_z² of members, -inf for those that vanish."""
        raise NotImplementedError

    def norm(self, direction: Direction, q: float) -> float | None:
        """Return (Σ_z (<K_z, M>/ρ_z²)^q)^(1/q) over all members, M ⪰ 0; None where that is too much."""
        return None

    def nearby(self, direction: Direction, members: Sequence[Any], size: int) -> list[Any]:
        """Return the best of the members that have much in common with those given; none in most families."""
        return []


def ranked(members: Sequence[Any], values: np.ndarray, size: int, exhaustive: bool) -> Best:
    """Return the `size` best, ties in the order given; vanishing members have the value -inf."""
    order = np.argsort(-values, kind="stable")[: max(size, 0)]
    order = order[values[order] > -np.inf]
    return Best([members[i] for i in order], values[order], exhaustive)


def power_norm(parts: Iterable[np.ndarray], q: float) -> float:
    """Return ‖v‖_q of the positive entries of a vector that comes in parts, safe for large q."""
    top, total = 0.0, 0.0
    for part in parts:
        part = part[part > 0]
        high = float(part.max(initial=0.0))
        if high > top:
            total *= (top / high) ** q
            top = high
        if high > 0:
            total += float(np.sum((part / top) ** q))
    return top * total ** (1 / q)


# -- families that can be listed -----------------------------------------------------------------------------


class ListSearcher(CostedSearcher):
    """All members compared one by one, by quadratic forms. Always exhaustive.

    Parameters
    ----------
    family, X, scale :
        As for every search.
    p : float
        The norm over kernels that the scales are for.
    """

    def __init__(self, family: Any, X: Rows, scale: Scaling | None, p: float = 1.0):
        super().__init__(family, X, scale)
        self.members = list(family.members())
        self.place = {z: i for i, z in enumerate(self.members)}
        self.bank = family.bank(X, self.members)
        self.rho_sq = rho_sq_of(scale, self.members, p)

    def values(self, direction: Direction, members: Members) -> np.ndarray:
        """Return the values of some members, from a pass over all."""
        return self._all(direction)[[self.place[z] for z in members]]

    def _all(self, direction):
        forms = direction.along(self.bank)
        return np.divide(forms, self.rho_sq, out=np.full(len(forms), -np.inf), where=self.rho_sq > 0)

    def _best(self, direction, size, exclude, rng):
        """Return the best of all members."""
        values = self._all(direction)
        values[[self.place[z] for z in exclude if z in self.place]] = -np.inf
        return ranked(self.members, values, size, True)

    def norm(self, direction: Direction, q: float) -> float | None:
        """Return the q-norm of the values of all members, vanishing ones left out."""
        return power_norm([self._all(direction)], q)


def rho_sq_of(scale: Scaling | None, members: Members, p: float = 1.0) -> np.ndarray:
    """Return ρ² of members; ones without a scale."""
    return np.ones(len(members)) if scale is None else scale.rho_sq(members, p)
