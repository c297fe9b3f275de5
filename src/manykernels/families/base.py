"""What every family of kernels answers, and the five things a family may be able to do besides.

A family is a *description* of a set of kernels (a :class:`~sklearn.base.BaseEstimator`), without training
state. ``resolve`` returns a copy that knows the number and names of the columns; everything else takes the
rows as arguments. Members are opaque to solvers: indices for a list, sorted tuples of base kernels for
products, parameters for a continuum.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from sklearn.base import BaseEstimator

from .._util.checks import Rule, check_parameters
from ..features import FeatureMap
from ..kernels import Kernel
from ..kernels.statistics import Rows
from .bank import BANK_SIZES, ONE_PASS, Bank, BankSizes
from .direction import Direction
from .values import Values

Members = Sequence[Any]
#: Draws members for A, so many, with a generator; returns them with the probability or density of each.
Drawer = Callable[[np.ndarray, int, np.random.Generator], tuple[Members, np.ndarray]]


class Scaling(Protocol):
    """What a family asks of the scales ρ_i of its members, see :class:`~manykernels.problem.Scale`."""

    @property
    def how(self) -> Any: ...
    @property
    def X(self) -> Any: ...
    @property
    def sample_weight(self) -> np.ndarray: ...
    @property
    def base(self) -> np.ndarray | None: ...

    def rho_sq(self, members: Members, p: float) -> np.ndarray:
        """Return ρ_i² of the members for the norm p; 0 marks a member that vanishes on the rows."""
        ...


@dataclass(frozen=True, eq=False)
class Best:
    """The members found to agree most with a direction.

    Attributes
    ----------
    members : list
        Best first; fewer than asked for when there are no more.
    values : array
        <K_i, M>/ρ_i² of each.
    exhaustive : bool
        Whether no member outside can be better.
    """

    members: list[Any]
    values: np.ndarray
    exhaustive: bool


def nothing(exhaustive: bool = True) -> Best:
    """Return what a search along a zero direction finds."""
    return Best([], np.empty(0), exhaustive)


@runtime_checkable
class Enumerable(Protocol):
    """The members can be listed."""

    def members(self) -> Members:
        """Return all members, in a fixed order."""
        ...


@runtime_checkable
class Samplable(Protocol):
    """Members can be drawn with a known probability, near proportional to g."""

    def draw(
        self, X: Rows, A: np.ndarray, size: int, rng: np.random.Generator, scale: Scaling | None = None
    ) -> tuple[Members, np.ndarray]:
        """Return `size` members and the probability of each."""
        ...


@runtime_checkable
class Maximisable(Protocol):
    """The member with the largest scaled inner product with a direction can be searched for."""

    def best(self, X: Rows, direction: Direction, scale: Scaling | None, **options: Any) -> Best:
        """Return the members with the largest <K_i, M>/ρ_i²; see :meth:`Searchable.best`."""
        ...


@runtime_checkable
class HasFeatures(Protocol):
    """Members have explicit feature maps; ``correlate`` is a sum over row blocks."""

    def features(self, X: Rows, members: Members) -> np.ndarray:
        """Return the columns Φ of the members, side by side."""
        ...

    def widths(self, members: Members) -> np.ndarray:
        """Return how many columns each member has."""
        ...


@runtime_checkable
class HasRandomFeatures(Protocol):
    """Members can be approximated by random features."""

    def random_features(self, members: Members, n_features: int, seed: int, size: int) -> list[FeatureMap]:
        """Return a map per member, with blocks of `size` features regenerated from the seed."""
        ...


#: What a capability is called in a sentence to the user.
CAPABILITIES: dict[type, str] = {
    Enumerable: "whose kernels can be listed",
    Samplable: "that can draw its kernels at random",
    Maximisable: "that can find its best kernel",
    HasFeatures: "with explicit features",
    HasRandomFeatures: "with random features",
}


def can(family: Any, capability: type) -> bool:
    """Whether a family has what a capability asks for.

    ``isinstance`` looks at the class, and would not see that a method is there for some kernels only.
    """
    return all(hasattr(family, name) for name in vars(capability) if not name.startswith("_"))


class Family(BaseEstimator):
    """Base of all families.

    Attributes
    ----------
    rules : dict
        What a parameter may be, by its name.
    pairwise : bool
        Whether the rows are ready-made kernel values, ``(n, n_train, n_kernels)``.
    factorises : bool
        Whether the family has a ``"base"`` scale that is a product over base kernels.
    """

    rules: ClassVar[dict[str, Rule]] = {}
    pairwise: ClassVar[bool] = False
    factorises: ClassVar[bool] = False

    @property
    def rank_one(self) -> bool:
        """Whether every member has one explicit feature."""
        return False

    @property
    def accepts_sparse(self) -> bool:
        """Whether sparse rows need not be made dense."""
        return False

    def check_stored(self) -> None:
        """Raise ValueError where a parameter that came from a file breaks its rule."""
        check_parameters(self, self.rules)

    def shortfall(self, capability: type) -> str:
        """Return a clause on who is to blame for a capability that the family does not have."""
        return f"{type(self).__name__} is not"

    def resolve(self, n_features: int, names: Sequence[str] | None = None) -> Family:
        """Return a copy bound to the columns of X, after checking parameters."""
        raise NotImplementedError

    def families(self) -> list[Family]:
        """Return the families that this one is made of: itself, where it is no union."""
        return [self]

    def member_of(self, part: int, own: Any) -> Any:
        """Return a member of one of the ``families`` as a member of this one."""
        return own

    def size(self) -> float:
        """Return the number of members, ``inf`` for a continuum."""
        raise NotImplementedError

    def gram(self, X: Rows, Z: Rows, members: Members, weights: np.ndarray) -> np.ndarray:
        """Return Σ weights_i K_i(X, Z), never a stack of matrices."""
        raise NotImplementedError

    def apply(self, X: Rows, Z: Rows, B: np.ndarray, members: Members) -> np.ndarray:
        """Return K_i(X, Z) B for every member: shape (m, n, c)."""
        raise NotImplementedError

    def mean_diag(self, X: Rows, members: Members, sample_weight: np.ndarray) -> np.ndarray:
        """Return the weighted mean of κ_i(x_t, x_t) for every member."""
        raise NotImplementedError

    def presences(self, X: Rows, members: Members) -> np.ndarray | None:
        """Return which rows each member's mean diagonal is taken over, (n, m) of ones and zeros; None: over all."""
        return None

    def diag(self, X: Rows, members: Members, weights: np.ndarray) -> np.ndarray:
        """Return Σ weights_i κ_i(x_t, x_t) for every row."""
        raise NotImplementedError

    def bank(self, X: Rows, members: Members, sizes: BankSizes = BANK_SIZES) -> Bank:
        """Bind members to training rows, with whatever their evaluations may share."""
        raise NotImplementedError

    def values(self, X: Rows, members: Members) -> Values:
        """Return what evaluates members on chosen pairs of training rows."""
        return Values(self, X, members)

    def forms(self, X: Rows, A: np.ndarray, members: Members) -> np.ndarray:
        """Return tr(Aᵀ K_i A) of some members."""
        return self.bank(X, members, ONE_PASS).quad_forms(A)

    def drawer(self, X: Rows, scale: Scaling | None) -> Drawer:
        """Return ``(A, size, rng) -> members, probability`` on fixed rows, for families that can draw.

        What does not depend on A is computed once.
        """
        family: Any = self
        return lambda A, size, rng: family.draw(X, A, size, rng, scale)

    def n_uniform(self) -> float:
        """Return how many equally likely things ``draw_uniform`` draws from."""
        return self.size()

    def proposal_gram(self, X: Rows, scale: Scaling, p: float) -> np.ndarray:
        """Return the sum of all scaled kernels that ``draw`` is proportional to: a Gram matrix or its diagonal."""
        family: Any = self
        members = family.members()
        rho_sq = scale.rho_sq(members, p)
        return self.bank(X, members).gram(
            np.divide(1.0, rho_sq, out=np.zeros(len(members)), where=rho_sq > 0)
        )

    def adapt(self, X: Rows, sample_weight: np.ndarray) -> Family:
        """Return a copy whose automatic parameters are set from the rows; itself where there are none."""
        return self

    def searcher(self, X: Rows, scale: Scaling | None) -> Searcher:
        """Return the search for the best member on fixed rows, for families that can search.

        What does not depend on the direction is computed once.
        """
        return Searcher(self, X, scale)

    def support(self, X: Rows, rows: np.ndarray) -> Rows | None:
        """Return what must be kept of the training rows to predict later."""
        return X[rows]

    def base_scale(self, X: Rows, sample_weight: np.ndarray) -> np.ndarray:
        """Return mean κ_j(x_t, x_t) of every base kernel, for families that factorise."""
        raise NotImplementedError

    def factor_scale(self, base: np.ndarray, members: Members) -> np.ndarray:
        """Return the product of the base kernels' scales for every member."""
        raise NotImplementedError

    def multiples(self, X: Rows, base: np.ndarray, factors: Sequence[float]) -> list[np.ndarray]:
        """Return M_1, ..., M_D: the multiples of a member t add up to κ_t, scaled, times M_|t|; where it factorises."""
        raise NotImplementedError

    def penalty(self, members: Members, nu: float) -> np.ndarray:
        """Return the factor by which the family itself raises each ρ_i² (priors, multiplicities)."""
        return np.ones(len(members))

    def total(self, base: np.ndarray) -> Kernel | None:
        """Return the sum of all members over their ``"base"`` scale as one kernel, if there is one."""
        return None

    def factors(self, member: Any) -> list[Kernel]:
        """Return the kernels on columns of X whose product a member is."""
        raise ValueError(f"kernels is {type(self).__name__}, whose kernels are no functions of columns.")

    def label(self, member: Any) -> str:
        """Return a readable name of a member."""
        raise NotImplementedError

    def parameters(self, member: Any) -> dict[str, Any]:
        """Return a member's own parameters, for tables."""
        return {}


class Searchable(Family):
    """A family with a search for its best member; subclasses have a ``searcher``."""

    def best(
        self,
        X: Rows,
        direction: Direction,
        scale: Scaling | None = None,
        *,
        size: int = 1,
        exclude: Collection[Any] = (),
        rng: np.random.Generator | None = None,
    ) -> Best:
        """Return the members that agree most with a direction, best first.

        Products are all compared while that is cheap: for monomials of degree D that takes n r^D/D! multiply-adds;
        beyond 4·10^11 of them, and for large families of other kernels, products are grown in a beam, drawn, and
        improved factor by factor. In a continuum a maximum's neighbours are nearly as good as itself, so that `size`
        counts local maxima; one that coincides with a member in `exclude` is left out.

        Parameters
        ----------
        X : rows
        direction : Direction
        scale : Scale or None
        size : int
            How many to return.
        exclude : collection of members
        rng : numpy.random.Generator, optional
            For searches that are not exhaustive.

        Returns
        -------
        Best
            Empty along a zero direction.
        """
        return self.searcher(X, scale).best(direction, size=size, exclude=exclude, rng=rng)


class Searcher:
    """A family's search for its best member, bound to rows; subclasses implement ``_best``.

    Parameters
    ----------
    family : Family, resolved
    X : rows
    scale : Scale or None

    Attributes
    ----------
    exhausts : bool
        Whether finding nothing along a zero direction counts as an exhaustive search.
    """

    exhausts: ClassVar[bool] = True

    def __init__(self, family: Any, X: Rows, scale: Scaling | None):
        self.family, self.X, self.scale = family, X, scale

    def best(
        self,
        direction: Direction,
        *,
        size: int = 1,
        exclude: Collection[Any] = (),
        rng: np.random.Generator | None = None,
    ) -> Best:
        """Return the `size` members with the largest <K_i, M>/ρ_i²; none along a zero direction."""
        direction.check(self.X.shape[0])
        if direction.is_zero():
            return nothing(self.exhausts)
        with np.errstate(over="ignore", invalid="ignore"):
            found = self._best(direction, size, exclude, rng)
        if not np.isfinite(found.values).all():
            raise ValueError(
                "kernels: what a search compares leaves the range of floats on these rows; standardise the columns "
                "of X."
            )
        return found

    def _best(self, direction, size, exclude, rng) -> Best:
        """Search along a direction that is not zero."""
        return self.family.best(self.X, direction, self.scale, size=size, exclude=exclude, rng=rng)

    def gram(self, member: Any) -> np.ndarray:
        """Return a member's Gram matrix on the rows."""
        return self.family.bank(self.X, [member]).gram(np.ones(1))
