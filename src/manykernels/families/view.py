"""A family on one source of the rows: some columns side by side, which a row may lack."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.metaestimators import available_if

from .._util.text import brief
from ..features import Exact, FeatureMap
from ..features.base import RandomMap
from ..kernels import Kernel
from ..kernels.statistics import Rows
from .bank import BANK_SIZES, Bank, BankSizes, MemberValues
from .base import (
    Best,
    Enumerable,
    Family,
    HasFeatures,
    HasRandomFeatures,
    Maximisable,
    Members,
    Scaling,
    Searcher,
    can,
)

#: The bandwidth of p for bins: 0 and 1 are hardly ever in one.
APART = 1e-3


def _inner_can(capability: type) -> Callable[[Any], bool]:
    return lambda view: can(view.family, capability)


def _inner_has(name: str) -> Callable[[Any], bool]:
    return lambda view: hasattr(view.family, name)


class View(Family):
    """The kernels of a family on one view: ``κ_v(x, z) = p(x) p(z) κ(x_v, z_v)``.

    p(x) is 1 where the row has the view and 0 where it lacks it, so that such a row is a zero vector in the view's
    feature space. The scale of a kernel is its mean over the rows that have the view. Members are those of the family.

    Parameters
    ----------
    name : str
        Of the view; it ends the names of its kernels.
    family : Family
        Kernels on the view's own columns.
    first, last : int
        The view's columns of X, from `first` up to but not including `last`.
    presence : int
        The column of X that holds p.

    Examples
    --------
    >>> from manykernels.families import Gaussians
    >>> from manykernels.families.view import View
    >>> View("mri", Gaussians(), 0, 90, 90).label(1.4)
    'rbf(σ=1.4)[mri]'
    """

    def __init__(self, name: str, family: Family, first: int, last: int, presence: int):
        self.name = name
        self.family = family
        self.first = first
        self.last = last
        self.presence = presence

    # -- rows ------------------------------------------------------------------------------------------

    def columns_of(self, X: Rows) -> Rows:
        """Return the view's columns."""
        return X[:, self.first : self.last]

    def presence_of(self, X: Rows) -> np.ndarray:
        """Return p(x) of every row."""
        return np.asarray(X[:, self.presence], dtype=float)

    def presences(self, X: Rows, members: Members) -> np.ndarray | None:
        """Return p(x), the same for every member, (n, m)."""
        return np.repeat(self.presence_of(X)[:, None], len(members), axis=1)

    # -- what it is ------------------------------------------------------------------------------------

    @property
    def statistic(self) -> str:
        """What kernels with bandwidths know of a pair of rows, where the family has any."""
        return self.family.statistic  # type: ignore[attr-defined]

    @property
    def ard(self) -> Any:
        """Whether columns have bandwidths of their own, where the family has any."""
        return self.family.ard  # type: ignore[attr-defined]

    @property
    def bounds(self) -> Any:
        """The bounds of bandwidths, where the family has any."""
        return self.family.bounds  # type: ignore[attr-defined]

    @property
    def width(self) -> int:
        """Number of the view's columns."""
        return self.last - self.first

    def within(self, bounds: Any) -> View:
        """Return the same view with other bounds of bandwidths, where the family has any."""
        return self._of(self.family.within(bounds))  # type: ignore[attr-defined]

    def _box(self, n_columns: int) -> np.ndarray:
        """Return the bounds of bandwidths, where the family has any; `n_columns` of all rows do not matter."""
        return self.family._box(self.width)  # type: ignore[attr-defined]

    def _of(self, family: Family) -> View:
        return View(self.name, family, self.first, self.last, self.presence)

    def check_stored(self) -> None:
        """Raise ValueError where what came from a file is no view."""
        whole = all(type(v) is int and v >= 0 for v in (self.first, self.last, self.presence))
        if not whole or not isinstance(self.family, Family) or not isinstance(self.name, str):
            raise ValueError(f"{brief(self)} is no view.")

    def resolve(self, n_features: int, names: Sequence[str] | None = None) -> View:
        """Bind the family to the view's columns."""
        if not (self.first < self.last <= n_features and self.presence < n_features):
            raise ValueError(f"view {brief(self.name)} is about other columns than the {n_features:,} of X.")
        own = None if names is None else list(names)[self.first : self.last]
        family = self.family.resolve(self.last - self.first, own)
        return self._of(family)

    def adapt(self, X: Rows, sample_weight: np.ndarray) -> View:
        """Set what is automatic from the rows that have the view."""
        rows = np.flatnonzero(self.presence_of(X) * sample_weight)
        return self._of(self.family.adapt(self.columns_of(X)[rows], sample_weight[rows]))

    def shortfall(self, capability: type) -> str:
        """Blame the family."""
        return self.family.shortfall(capability)

    def size(self) -> float:
        """Return the number of the family's members."""
        return self.family.size()

    def factors(self, member: Any) -> list[Kernel]:
        """Return the member as one kernel on all columns of the view."""
        return [OnView(self, member)]

    def label(self, member: Any) -> str:
        """Return the kernel's name, and that of the view."""
        return f"{self.family.label(member)}[{self.name}]"

    def parameters(self, member: Any) -> dict[str, Any]:
        """Return the view and the kernel's own parameters."""
        return {"view": self.name, **self.family.parameters(member)}

    # -- kernels ---------------------------------------------------------------------------------------

    def gram(self, X: Rows, Z: Rows, members: Members, weights: np.ndarray) -> np.ndarray:
        """Return the weighted sum of the Gram matrices, zero where a row lacks the view."""
        K = self.family.gram(self.columns_of(X), self.columns_of(Z), members, weights)
        return K * self.presence_of(X)[:, None] * self.presence_of(Z)

    def apply(self, X: Rows, Z: Rows, B: np.ndarray, members: Members) -> np.ndarray:
        """Return K_i(X, Z) B for every member."""
        inner = self.family.apply(
            self.columns_of(X), self.columns_of(Z), B * self.presence_of(Z)[:, None], members
        )
        return inner * self.presence_of(X)[:, None]

    def mean_diag(self, X: Rows, members: Members, sample_weight: np.ndarray) -> np.ndarray:
        """Return the weighted mean of each diagonal over the rows that have the view; 0 where none has."""
        rows = np.flatnonzero(self.presence_of(X) * sample_weight)
        if not len(rows):
            return np.zeros(len(members))
        return self.family.mean_diag(self.columns_of(X)[rows], members, sample_weight[rows])

    def diag(self, X: Rows, members: Members, weights: np.ndarray) -> np.ndarray:
        """Return the weighted sum of the diagonals."""
        return self.family.diag(self.columns_of(X), members, weights) * np.square(self.presence_of(X))

    def penalty(self, members: Members, nu: float) -> np.ndarray:
        """Return what the family itself adds to the scales."""
        return self.family.penalty(members, nu)

    def bank(self, X: Rows, members: Members, sizes: BankSizes = BANK_SIZES) -> Bank:
        """Bind members to the view's columns."""
        bank, p = self.family.bank(self.columns_of(X), members, sizes), self.presence_of(X)
        return bank if (p == 1).all() else PresentBank(bank, p)

    def searcher(self, X: Rows, scale: Scaling | None) -> ViewSearcher:
        """Return the family's search on the view's columns."""
        return ViewSearcher(self, X, scale)

    # -- what the family can ---------------------------------------------------------------------------

    @available_if(_inner_can(Enumerable))
    def members(self) -> list[Any]:
        """Return the family's members."""
        return self.family.members()  # type: ignore[attr-defined]

    @available_if(_inner_can(HasFeatures))
    def features(self, X: Rows, members: Members) -> np.ndarray:
        """Return the explicit features of the members, zero where a row lacks the view."""
        return self.family.features(self.columns_of(X), members) * self.presence_of(X)[:, None]  # type: ignore[attr-defined]

    @available_if(_inner_has("widths"))
    def widths(self, members: Members) -> np.ndarray:
        """Return the number of features of each member."""
        return self.family.widths(members)  # type: ignore[attr-defined]

    @available_if(_inner_can(HasRandomFeatures))
    def random_features(self, members: Members, n_features: int, seed: int, size: int) -> list[FeatureMap]:
        """Return random features of the members on the view's columns.

        Dense ones are zero where a row lacks the view. A row always falls into a bin, and so rows that lack the view
        share one, of their own, in every grid: with bins the kernel is κ_v(x, z) + (1 - p(x)) (1 - p(z)).
        """
        maps = self.family.random_features(members, self.width, seed, size)  # type: ignore[attr-defined]
        return [self._shifted(one) for one in maps]

    def _shifted(self, one: Any) -> Any:
        if not isinstance(one, RandomMap):
            return Exact(ViewFeatures(one.kernel, self), one.width)
        own = self.first + (np.arange(one.n_columns) if one.columns is None else np.asarray(one.columns))
        if not one.sparse:
            return PresentFeatures(replace(one, columns=own), self.presence)
        sigma = np.append(np.broadcast_to(one.sigma, one.n_columns), APART)
        return replace(one, sigma=sigma, n_columns=one.n_columns + 1, columns=np.append(own, self.presence))

    @available_if(_inner_can(Maximisable))
    def best(self, X: Rows, direction, scale: Scaling | None = None, *, size=1, exclude=(), rng=None) -> Best:
        """Return the members that agree most with a direction; see ``Searchable.best``."""
        return self.searcher(X, scale).best(direction, size=size, exclude=exclude, rng=rng)


class OnView(Kernel):
    """A member of a view as a kernel: a function of all columns of the view at once.

    Parameters
    ----------
    view : View
    member : a member of it
    """

    accepts_sparse = False

    def __init__(self, view: View, member: Any):
        self.view = view
        self.member = member
        self.columns = np.array([*range(view.first, view.last), view.presence], dtype=np.intp)

    def on(self, columns: Sequence[int]) -> OnView:
        """Return the same on rows that hold the columns of the view, in their order."""
        first = list(columns).index(self.view.first)
        last, presence = first + self.view.last - self.view.first, list(columns).index(self.view.presence)
        return OnView(View(self.view.name, self.view.family, first, last, presence), self.member)

    def width(self, n_features: int) -> int:
        """Return the number of explicit features, where the view's family has them."""
        return int(self.view.widths([self.member])[0])

    def features(self, X):
        """Return the explicit features of the rows, where the view's family has them."""
        return self.view.features(X, [self.member])

    def __call__(self, X, Z=None):
        """Return the Gram matrix of the rows of `X` and `Z`."""
        return self.view.gram(X, X if Z is None else Z, [self.member], np.ones(1))


@dataclass(frozen=True, eq=False)
class PresentFeatures:
    """Dense random features of a kernel on a view: those of a map, zero where a row lacks the view."""

    inner: Any
    presence: int
    sparse: ClassVar[bool] = False

    @property
    def n_blocks(self) -> int | None:
        """How many different blocks there are."""
        return self.inner.n_blocks

    @property
    def width(self) -> int:
        """Features of a block."""
        return self.inner.width

    @property
    def columns(self) -> np.ndarray:
        """The columns of the rows that are looked at."""
        return np.append(self.inner.columns, self.presence)

    def block(self, index: int) -> PresentBlock:
        """Return a block."""
        return PresentBlock(self.inner.block(index), self.presence)


@dataclass(frozen=True, eq=False)
class PresentBlock:
    """A block of features, zero where a row lacks the view."""

    inner: Any
    presence: int

    @property
    def width(self) -> int:
        """Number of features."""
        return self.inner.width

    def transform(self, X: np.ndarray, out: np.ndarray | None = None, first: int = 0) -> np.ndarray:
        """Return the features of the rows, in `out` from column `first` on where it is given."""
        Z = self.inner.transform(X, out, first)
        lacking = np.flatnonzero(X[:, self.presence] == 0)
        if len(lacking):
            Z[lacking, first : first + self.width] = 0.0
        return Z


@dataclass(frozen=True, eq=False)
class ViewFeatures:
    """Explicit features of a kernel on a view."""

    kernel: Any
    view: View

    def features(self, X: Any) -> np.ndarray:
        """Return the features of the rows, zero where they lack the view."""
        return self.kernel.features(self.view.columns_of(X)) * self.view.presence_of(X)[:, None]


class PresentBank(Bank):
    """A bank on the columns of a view that some rows lack: everything times p on both sides."""

    def __init__(self, bank: Any, p: np.ndarray):
        self.bank, self.p = bank, p
        self.n_rows, self.n_members = bank.n_rows, bank.n_members
        self.tiles = getattr(bank, "tiles", [])

    def n_columns(self, weights: np.ndarray) -> int | None:
        """Return the number of explicit features of the members with weight."""
        return self.bank.n_columns(weights)

    def features(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the explicit features of the members with weight, and whose they are."""
        phi, owner = self.bank.features(weights)
        return phi * self.p[:, None], owner

    def part(self, t: int, first: int, last: int) -> MemberValues:
        """Return a function from a member's number to its values on rows first:last × columns first:n."""
        values, outer = self.bank.part(t, first, last), self.p[first:last, None] * self.p[first:]
        return lambda i: values(i) * outer

    def gram(self, weights: np.ndarray) -> np.ndarray:
        """Return Σ weights_i K_i."""
        return self.bank.gram(weights) * self.p[:, None] * self.p

    def quad_forms(self, A: np.ndarray) -> np.ndarray:
        """Return tr(Aᵀ K_i A)."""
        return self.bank.quad_forms(A * self.p[:, None])

    def inner_products(self, M: np.ndarray) -> np.ndarray:
        """Return <K_i, M>."""
        return self.bank.inner_products(M * self.p[:, None] * self.p)


@dataclass(frozen=True, eq=False)
class ViewScale:
    """The scales of a view's members, as the search on its columns asks for them."""

    scale: Any
    view: View
    base: np.ndarray | None = None

    @property
    def how(self) -> Any:
        """How scales are set."""
        return self.scale.how

    @property
    def X(self) -> Any:
        """The view's columns of the rows that means are taken over."""
        return self.view.columns_of(self.scale.X)

    @property
    def sample_weight(self) -> np.ndarray:
        """Weights of these rows; those that lack the view have none."""
        return self.scale.sample_weight * self.view.presence_of(self.scale.X)

    def rho_sq(self, members: Members, p: float) -> np.ndarray:
        """Return ρ_i² of some members."""
        return self.scale.rho_sq(members, p)


class ViewSearcher(Searcher):
    """The search of a family on the columns of a view, along directions that are zero where rows lack it."""

    def __init__(self, family: View, X: Rows, scale: Scaling | None):
        super().__init__(family, X, scale)
        self.p = family.presence_of(X)
        own = None if scale is None else ViewScale(scale, family)
        self.search = family.family.searcher(family.columns_of(X), own)

    def _best(self, direction, size, exclude, rng):
        return self.search.best(direction.masked(self.p), size=size, exclude=exclude, rng=rng)

    def gram(self, member: Any) -> np.ndarray:
        """Return a member's Gram matrix on the rows."""
        return self.search.gram(member) * self.p[:, None] * self.p
