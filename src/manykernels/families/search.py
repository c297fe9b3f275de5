"""Finding the members of a family that agree most with a direction M: the largest <K_z, M>/ρ_z².

A searcher is bound to rows and a scale, and keeps what does not depend on the direction. Here is what all searchers
share, and the one for members that are compared one by one; :mod:`.product_search` and :mod:`.monomial_search` are
about families too large for that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from .._util.arrays import row_blocks
from .._util.threads import map_in_threads
from .bank import Bank, FeatureBank, StackBank, TileBank
from .base import Best, Direction, Searcher


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


def nothing(exhaustive: bool = True) -> Best:
    """Return what a search along a zero direction finds."""
    return Best([], np.empty(0), exhaustive)


def is_zero(direction: Direction) -> bool:
    """Whether M = 0."""
    if direction.dense is not None:
        return not np.any(direction.dense)
    assert direction.V is not None and direction.signs is not None
    return not np.any(direction.V[:, direction.signs != 0])


def check_direction(direction: Direction, n: int) -> None:
    """Raise ValueError unless M is finite and has one row for each of the n rows."""
    M = direction.dense if direction.dense is not None else direction.V
    if M is None:
        raise ValueError("direction is empty; give V with signs, or a dense matrix.")
    if M.ndim != 2 or M.shape[0] != n or (direction.dense is not None and M.shape[1] != n):
        raise ValueError(
            f"direction has shape {M.shape}; it must have one row for each of the {n} rows of X."
        )
    if not np.isfinite(M).all():
        raise ValueError("direction holds values that are not finite; nothing can be compared with it.")


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


def forms_along(bank: Bank, direction: Direction) -> np.ndarray:
    """Return <K_i, M> of all members of a bank, one pass over their values per group of signs."""
    if direction.dense is None:
        V, signs = direction.V, direction.signs
        assert V is not None and signs is not None
        out = np.zeros(bank.n_members)
        for sign in (1.0, -1.0):
            part = np.flatnonzero(sign * signs > 0)
            if len(part):
                out += sign * bank.quad_forms(V[:, part] * np.sqrt(np.abs(signs[part])))
        return out
    M = (direction.dense + direction.dense.T) / 2
    if isinstance(bank, FeatureBank):
        out = np.empty(bank.n_members)
        for first, last, phi in bank._blocks():
            owner = np.repeat(np.arange(last - first), bank.widths[first:last])
            forms = np.einsum("tj,tj->j", phi, M @ phi)
            out[first:last] = np.bincount(owner, weights=forms, minlength=last - first)
        return out
    if isinstance(bank, StackBank):
        total = np.zeros(bank.stack.shape[2])
        for rows in row_blocks(bank.n_rows, bank.stack.shape[1] * bank.stack.shape[2]):
            total += M[rows].ravel() @ bank.stack[rows].reshape(-1, len(total))
        return total[bank.members]
    assert isinstance(bank, TileBank)

    def partial(tile):
        a, b = tile
        part = M[a:b, a:].copy()
        part[:, b - a :] *= 2  # the tile stands for its mirror image too
        block = bank.open(a, b)
        return np.array([np.vdot(block(i), part) for i in range(bank.n_members)])

    return np.sum(map_in_threads(partial, bank.tiles), axis=0)


class Listed(CostedSearcher):
    """All members compared one by one, by quadratic forms. Always exhaustive.

    Parameters
    ----------
    family, X, scale :
        As for every search.
    p : float
        The norm over kernels that the scales are for.
    """

    def __init__(self, family, X, scale, p=1.0):
        super().__init__(family, X, scale)
        self.members = list(family.members())
        self.place = {z: i for i, z in enumerate(self.members)}
        self.bank = family.bank(X, self.members)
        self.rho_sq = rho_sq_of(scale, self.members, p)

    def values(self, direction, members):
        """Return the values of some members, from a pass over all."""
        return self._all(direction)[[self.place[z] for z in members]]

    def _all(self, direction):
        forms = forms_along(self.bank, direction)
        return np.divide(forms, self.rho_sq, out=np.full(len(forms), -np.inf), where=self.rho_sq > 0)

    def best(self, direction, *, size=1, exclude=(), rng=None):
        """Return the best of all members."""
        check_direction(direction, self.bank.n_rows)
        if is_zero(direction):
            return nothing()
        values = self._all(direction)
        values[[self.place[z] for z in exclude if z in self.place]] = -np.inf
        return ranked(self.members, values, size, True)

    def norm(self, direction, q):
        """Return the q-norm of the values of all members, vanishing ones left out."""
        return power_norm([self._all(direction)], q)


def rho_sq_of(scale, members, p: float = 1.0) -> np.ndarray:
    """Return ρ² of members; ones without a scale."""
    return np.ones(len(members)) if scale is None else scale.rho_sq(members, p)
