"""A family made of families and kernels: everything that its parts hold, side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.metaestimators import available_if

from .._util.checks import are_numbers
from .._util.text import brief
from ..kernels import Kernel, as_kernel
from ..kernels.statistics import Rows
from .bank import BANK_SIZES, Bank, BankSizes, MemberValues, TileBank
from .base import (
    Best,
    Enumerable,
    Family,
    HasFeatures,
    HasRandomFeatures,
    Maximisable,
    Members,
    Scaling,
    Searchable,
    Searcher,
    can,
)
from .finite import Finite
from .view import PresentBank, View


def _all_can(capability: type) -> Callable[[Any], bool]:
    return lambda union: all(can(part, capability) for part in union.families())


class Union(Searchable):
    """The kernels of several families together.

    It can do what all of its parts can: list its members, find the best one, give explicit or random features. Members
    are pairs of a part's number and a member of that part.

    Parameters
    ----------
    parts : list or dict
        Families, kernels, scikit-learn kernel names, or callables; a dict gives them names, which lead the names of
        their kernels.
    balance : sequence of float, optional
        One weight per part, for rows that lack some of the views that parts are on
        (:class:`~manykernels.families.view.View`): with q(x) the share of the weights that are of parts which the row
        has, every kernel is divided by √(q(x) q(z)), so that what is left of a row stands for the whole. None: they
        stay as they are.

    Examples
    --------
    >>> from manykernels.families import Gaussians, Union
    >>> from manykernels.kernels import Linear
    >>> Union({"smooth": Gaussians(), "line": Linear()}).label((1, 0))
    'line'
    """

    def __init__(self, parts: Sequence[Any] | Mapping[str, Any], balance: Sequence[float] | None = None):
        self.parts = parts
        self.balance = balance

    # -- parts -----------------------------------------------------------------------------------------

    def families(self) -> list[Family]:
        """Return the parts, kernels as lists of one."""
        specs = self.parts.values() if isinstance(self.parts, Mapping) else self.parts
        return [part if isinstance(part, Family) else Finite([as_kernel(part)]) for part in specs]

    def member_of(self, part: int, own: Any) -> tuple[int, Any]:
        """Return a member of a part as a member of the union."""
        return part, own

    def _names(self) -> list[str] | None:
        return [str(name) for name in self.parts] if isinstance(self.parts, Mapping) else None

    def _with(self, parts: Sequence[Family]) -> Union:
        names = self._names()
        return Union(list(parts) if names is None else dict(zip(names, parts, strict=True)), self.balance)

    def balanced(self, members: Members, theta: np.ndarray) -> Union:
        """Return the same kernels, balanced by the weights θ that members of each part have together."""
        mass = np.bincount([k for k, _ in members], weights=theta, minlength=len(self.parts))
        return Union(self.parts, mass.tolist())

    def balances(self, X: Rows, members: Members, theta: np.ndarray) -> np.ndarray:
        """Return 1/√q(x), (n, c), of rows for several weights θ (c, m) of members."""
        mass = np.zeros((len(theta), len(self.parts)))
        np.add.at(mass.T, [k for k, _ in members], theta.T)
        total = np.maximum(mass.sum(axis=1, keepdims=True), np.finfo(float).tiny)
        present = np.array(self._presences(X)).T
        q = present @ (mass / total).T
        q[(present == 1).all(axis=1)] = 1.0  # to the last bit: nothing changes for rows that have all views
        return np.divide(1.0, np.sqrt(q), out=np.zeros(q.shape), where=q > 0)

    def lacks(self, X: Rows) -> bool:
        """Whether any row lacks a view that a part is on."""
        return any((p != 1).any() for p in self._presences(X))

    def _presences(self, X: Rows) -> list[np.ndarray]:
        """Return p(x) of the rows for every part; 1 where a part is on no view."""
        return [
            part.presence_of(X) if isinstance(part, View) else np.ones(X.shape[0]) for part in self.families()
        ]

    def presences(self, X: Rows, members: Members) -> np.ndarray | None:
        """Return p(x) of the part of every member, (n, m)."""
        return np.column_stack(self._presences(X))[:, [k for k, _ in members]]

    def _factor(self, X: Rows) -> np.ndarray | None:
        """Return 1/√q(x) of every row, None where nothing is to be balanced; 0 for rows without any of the parts."""
        if self.balance is None:
            return None
        parts = [(k, None) for k in range(len(self.parts))]
        return self.balances(X, parts, np.array([self.balance], dtype=float))[:, 0]

    def resolve(self, n_features: int, names: Sequence[str] | None = None) -> Union:
        """Resolve every part."""
        if isinstance(self.parts, str | Family) or not isinstance(self.parts, Sequence | Mapping):
            raise ValueError(
                f"parts of Union is {brief(self.parts)}; pass a list or a dict of families and kernels, such as "
                "[Gaussians(), Linear()]."
            )
        if len(self.parts) == 0:
            raise ValueError("parts of Union is empty; pass at least one family or kernel.")
        if self.balance is not None and not are_numbers(self.balance, len(self.parts)):
            raise ValueError(
                f"balance of Union is {brief(self.balance)}; pass {len(self.parts)} weights, one a part, or None."
            )
        parts = self.families()
        for part in parts:
            if part.pairwise or isinstance(part, Union):
                raise ValueError(
                    f"parts of Union holds {brief(part)}; it takes families and kernels on rows, and no other unions."
                )
            if getattr(part, "heredity", "none") != "none":
                raise ValueError(
                    f"parts of Union holds {brief(part)}, and heredity can be respected by Products alone; pass "
                    "heredity='none'."
                )
        return self._with([part.resolve(n_features, names) for part in parts])

    def adapt(self, X: Rows, sample_weight: np.ndarray) -> Union:
        """Set what is automatic in every part."""
        return self._with([part.adapt(X, sample_weight) for part in self.families()])

    def shortfall(self, capability: type) -> str:
        """Name the first part that lacks the capability."""
        part = next((part for part in self.families() if not can(part, capability)), self)
        return super().shortfall(capability) if part is self else part.shortfall(capability)

    @property
    def accepts_sparse(self) -> bool:
        """Whether no part needs dense rows."""
        return all(part.accepts_sparse for part in self.families())

    def size(self) -> float:
        """Return the number of kernels of all parts."""
        return sum(part.size() for part in self.families())

    # -- kernels ---------------------------------------------------------------------------------------

    def _sorted(self, members: Members) -> list[tuple[int, Family, np.ndarray, list[Any]]]:
        """Return every part that has any of the members: its number, itself, their places, and they themselves."""
        parts, out = self.families(), []
        number = np.array([k for k, _ in members], dtype=int)
        for k in np.unique(number).tolist():
            places = np.flatnonzero(number == k)
            out.append((k, parts[k], places, [members[i][1] for i in places.tolist()]))
        return out

    def gram(self, X: Rows, Z: Rows, members: Members, weights: np.ndarray) -> np.ndarray:
        """Return the weighted sum of the Gram matrices, part by part."""
        weights, total = np.asarray(weights, dtype=float), np.zeros((X.shape[0], Z.shape[0]))
        for _, part, places, own in self._sorted(members):
            total += part.gram(X, Z, own, weights[places])
        r = self._factor(X)
        return total if r is None else total * r[:, None] * self._factor(Z)

    def apply(self, X: Rows, Z: Rows, B: np.ndarray, members: Members) -> np.ndarray:
        """Return K_i(X, Z) B for every member."""
        out = np.empty((len(members), X.shape[0], B.shape[1]))
        r, rz = self._factor(X), self._factor(Z)
        B = B if rz is None else B * rz[:, None]
        for _, part, places, own in self._sorted(members):
            out[places] = part.apply(X, Z, B, own)
        return out if r is None else out * r[:, None]

    def mean_diag(self, X: Rows, members: Members, sample_weight: np.ndarray) -> np.ndarray:
        """Return the weighted mean of each diagonal."""
        out = np.empty(len(members))
        for _, part, places, own in self._sorted(members):
            out[places] = part.mean_diag(X, own, sample_weight)
        return out

    def diag(self, X: Rows, members: Members, weights: np.ndarray) -> np.ndarray:
        """Return the weighted sum of the diagonals."""
        weights, total = np.asarray(weights, dtype=float), np.zeros(X.shape[0])
        for _, part, places, own in self._sorted(members):
            total += part.diag(X, own, weights[places])
        r = self._factor(X)
        return total if r is None else total * np.square(r)

    def penalty(self, members: Members, nu: float) -> np.ndarray:
        """Return what each part adds to the scales of its members."""
        out = np.ones(len(members))
        for _, part, places, own in self._sorted(members):
            out[places] = part.penalty(own, nu)
        return out

    def bank(self, X: Rows, members: Members, sizes: BankSizes = BANK_SIZES) -> Bank:
        """Bind the members of every part to the rows."""
        bank, r = UnionBank(Union(self.parts), X, members, sizes), self._factor(X)
        return bank if r is None else PresentBank(bank, r)

    def factors(self, member: Any) -> list[Kernel]:
        """Return the factors of a part's member."""
        k, own = member
        return self.families()[k].factors(own)

    def label(self, member: Any) -> str:
        """Return the name of the part, and that of the kernel where it has more than one."""
        k, own = member
        part, names = self.families()[k], self._names()
        if names is None:
            return part.label(own)
        return names[k] if part.size() == 1 else f"{names[k]}: {part.label(own)}"

    def parameters(self, member: Any) -> dict[str, Any]:
        """Return the kernel's own parameters, and the part it is of."""
        k, own = member
        names = self._names()
        record = self.families()[k].parameters(own)
        return record if names is None else {"part": names[k], **record}

    # -- what all parts can ----------------------------------------------------------------------------

    @available_if(_all_can(Enumerable))
    def members(self) -> list[tuple[int, Any]]:
        """Return all members, part by part."""
        parts: list[Any] = self.families()
        return [(k, own) for k, part in enumerate(parts) for own in part.members()]

    @available_if(_all_can(HasFeatures))
    def features(self, X: Rows, members: Members) -> np.ndarray:
        """Return the explicit features of the members, side by side in their order."""
        ends = np.cumsum(self.widths(members))
        out = np.empty((X.shape[0], int(ends[-1]) if len(ends) else 0))
        for _, part, places, own in self._sorted(members):
            phi = part.features(X, own)  # type: ignore[attr-defined]
            cuts = np.cumsum(part.widths(own))[:-1]  # type: ignore[attr-defined]
            for i, columns in zip(places.tolist(), np.split(phi, cuts, axis=1), strict=True):
                out[:, ends[i] - columns.shape[1] : ends[i]] = columns
        r = self._factor(X)
        return out if r is None else out * r[:, None]

    @available_if(_all_can(HasFeatures))
    def widths(self, members: Members) -> np.ndarray:
        """Return the number of features of each member."""
        out = np.empty(len(members), dtype=np.intp)
        for _, part, places, own in self._sorted(members):
            out[places] = part.widths(own)  # type: ignore[attr-defined]
        return out

    @available_if(_all_can(HasRandomFeatures))
    def random_features(self, members: Members, n_features: int, seed: int, size: int) -> list[Any]:
        """Return a map to random features for every member; a part's are seeded by its number."""
        out: list[Any] = [None] * len(members)
        for k, part, places, own in self._sorted(members):
            made = part.random_features(own, n_features, seed + k, size)  # type: ignore[attr-defined]
            for i, feature_map in zip(places.tolist(), made, strict=True):
                out[i] = feature_map
        return out

    @available_if(_all_can(Maximisable))
    def best(self, X: Rows, direction, scale: Scaling | None = None, *, size=1, exclude=(), rng=None) -> Best:
        """Return the members of all parts that agree most with a direction; see ``Searchable.best``."""
        return self.searcher(X, scale).best(direction, size=size, exclude=exclude, rng=rng)

    def searcher(self, X: Rows, scale: Scaling | None) -> UnionSearcher:
        """Return the searches of all parts."""
        return UnionSearcher(self, X, scale)


class UnionBank(TileBank):
    """Banks of several parts, each with the places of its members; tiles, for who asks for them, mix all parts."""

    def __init__(self, family: Union, X: Rows, members: Members, sizes: BankSizes):
        super().__init__(X.shape[0], len(members), sizes)
        self.X = X
        self.owner: dict[int, tuple[Family, Any]] = {}
        self.banks: list[tuple[np.ndarray, Bank]] = []
        for _, part, places, own in family._sorted(members):
            self.banks.append((places, part.bank(X, own, sizes)))
            self.owner |= {i: (part, z) for i, z in zip(places.tolist(), own, strict=True)}

    def open(self, a: int, b: int) -> MemberValues:
        """Return a function from a member's number to its values on rows a:b × columns a:n."""

        def values(i: int) -> np.ndarray:
            part, own = self.owner[i]
            return part.gram(self.X[a:b], self.X[a:], [own], np.ones(1))

        return values

    def gram(self, weights: np.ndarray) -> np.ndarray:
        """Return Σ weights_i K_i; parts without weight cost nothing."""
        weights = np.asarray(weights, dtype=float)
        total = np.zeros((self.n_rows, self.n_rows))
        for places, bank in self.banks:
            if weights[places].any():
                total += bank.gram(weights[places])
        return total

    def quad_forms(self, A: np.ndarray) -> np.ndarray:
        """Return tr(Aᵀ K_i A) for every member."""
        return self._gathered(lambda bank: bank.quad_forms(A))

    def inner_products(self, M: np.ndarray) -> np.ndarray:
        """Return <K_i, M> for every member."""
        return self._gathered(lambda bank: bank.inner_products(M))

    def n_columns(self, weights: np.ndarray) -> int | None:
        """Return the number of explicit features of the members with weight, None where some have none."""
        widths = [bank.n_columns(weights[places]) for places, bank in self.banks if weights[places].any()]
        return None if None in widths else sum(w for w in widths if w is not None)

    def features(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the explicit features of the members with weight, and the member of each column."""
        used = [
            (places, bank.features(weights[places])) for places, bank in self.banks if weights[places].any()
        ]
        phi = np.hstack([own for _, (own, _) in used] or [np.empty((self.n_rows, 0))])
        owner = np.concatenate([places[owner] for places, (_, owner) in used] or [np.empty(0, dtype=int)])
        if (np.diff(owner) >= 0).all():
            return phi, owner
        order = np.argsort(owner, kind="stable")  # as the family has them, whose members may be of any part
        return phi[:, order], owner[order]

    def _gathered(self, values: Callable[[Bank], np.ndarray]) -> np.ndarray:
        out = np.empty(self.n_members)
        for places, bank in self.banks:
            out[places] = values(bank)
        return out


@dataclass(frozen=True, eq=False)
class PartScale:
    """The scales of one part's members, as its search asks for them."""

    scale: Any
    number: int
    base: np.ndarray | None = None

    @property
    def how(self) -> Any:
        """How scales are set; ready-made ones are by union members, and no part's own."""
        return "trace" if isinstance(self.scale.how, np.ndarray) else self.scale.how

    @property
    def X(self) -> Any:
        """Rows that means are taken over."""
        return self.scale.X

    @property
    def sample_weight(self) -> np.ndarray:
        """Weights of these rows."""
        return self.scale.sample_weight

    def rho_sq(self, members: Members, p: float) -> np.ndarray:
        """Return ρ_i² of some members of the part."""
        return self.scale.rho_sq([(self.number, own) for own in members], p)


class UnionSearcher(Searcher):
    """The searches of all parts, and the best of what they find."""

    def __init__(self, family: Union, X: Rows, scale: Scaling | None):
        super().__init__(family, X, scale)
        self.searchers = [
            part.searcher(X, None if scale is None else PartScale(scale, k))
            for k, part in enumerate(family.families())
        ]

    def _best(self, direction, size, exclude, rng):
        found = []
        for k, search in enumerate(self.searchers):
            own = [z for number, z in exclude if number == k]
            found.append(search.best(direction, size=size, exclude=own, rng=rng))
        members = [(k, z) for k, best in enumerate(found) for z in best.members]
        values = np.concatenate([best.values for best in found])
        order = np.argsort(-values, kind="stable")[:size].tolist()
        exhaustive = all(best.exhaustive for best in found)
        return Best([members[i] for i in order], values[order], exhaustive)

    def gram(self, member: Any) -> np.ndarray:
        """Return a member's Gram matrix on the rows."""
        return self.searchers[member[0]].gram(member[1])
