"""All products of at most D base kernels: a family of C(r + D, D) - 1 members.

The class is :class:`Products`; the other files are what it does with members that cannot be listed.

=======================  ====================================================================================
``monomials.py``         members as sorted tuples: listing, counting, naming; the columns Π_j x_j
``product_sum.py``       the sum of all members as one kernel, in closed form (p = 2)
``multiples.py``         sums over all multiples of a member, in closed form
``sampling.py``          drawing members near proportionally to g, from Gram matrices: Algorithm 3
``monomial_sampler.py``  the same for products of columns, which need no Gram matrices
``row_sampler.py``       the same from some of the rows, drawn anew for every draw
``signed.py``            the same along a direction with both signs, by a bound: for two stages
``search.py``            the best member along a direction: grown, drawn, improved factor by factor
``monomial_search.py``   the same for products of columns, all of them compared as long as that is affordable
``monomial_table.py``    all products of columns as a few matrix products; its compiled loops are ``_products.py``
``screening.py``         the table in single precision, with a proof that the best is not lost; on some of the rows
=======================  ====================================================================================

Algorithm 3 of Afkanpour et al. (2013) draws one product: S = Σ_j K_j and M = A Aᵀ (line 2), the masses
δ(d) = <M, S^{∘d}>/ρ_d² (line 3) and a degree from them (line 4), then one factor after the other (lines 5-9): its
conditional (line 6), a draw (line 7), and M ← M ∘ K_j (line 8). Here many are drawn at once, and share what they have
in common.

References
----------
Afkanpour, György, Szepesvári, Bowling (2013), *A Randomized Mirror Descent Algorithm for Large Scale
Multiple Kernel Learning*, section 4; Afkanpour (2013), *Multiple Kernel Learning with Many Kernels*, 4.2.1.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence
from typing import Any, Literal

import numpy as np
from sklearn.base import clone
from sklearn.utils.metaestimators import available_if

from ..._util.arrays import row_blocks
from ..._util.checks import are_numbers, check_parameters, choice, whole
from ..._util.text import brief
from ...kernels import Kernel, Linear, as_kernel
from ...kernels.statistics import Rows
from ..bank import BANK_SIZES, Bank, BankSizes, FeatureBank, MemberValues, Sharing, TileBank
from ..base import Drawer, Members, Scaling, Searchable
from ..draws import checked
from ..finite import Finite
from ..search import CostedSearcher, ListSearcher
from ..values import RankOneValues, Values
from .monomial_sampler import MonomialSampler
from .monomial_search import MonomialSearcher
from .monomials import Prefix, monomials, multisets, n_exclusive, n_multisets, orderings, power_name
from .multiples import multiples
from .product_sum import ProductSum
from .row_sampler import RowSampler
from .sampling import GramSampler, Sampler, uniform_products
from .search import GramSearcher

#: Largest family that is enumerated; beyond it, sampling and search are the tools.
MAX_ENUMERATED = 500_000
#: Up to this many rows the sum of all kernels is held as a matrix.
PROPOSAL_ROWS = 3000
#: Products of base kernels are all compared up to this many entries of their Gram matrices.
EXHAUSTIVE_GRAMS = 2e10


class Products(Searchable):
    """All products of at most `degree` base kernels.

    Members are multisets of base kernels, written as sorted tuples of their indices: ``(3, 7, 7)`` is
    x3·x7². The empty product, a constant, is left to the intercept. With ``base=None`` the base kernels are
    the columns themselves (one linear kernel each): members are monomials, have rank one and explicit
    features, and n × n matrices are never needed.

    Parameters
    ----------
    degree : int
        Largest number of factors, D.
    base : list of kernels, optional
        The base kernels; one linear kernel per column by default.
    count : {"distinct", "ordered"}
        Whether a product counts once, or once per ordering of its factors as in the papers. The latter
        is the same as ρ_z² ← ρ_z² · mult^(1/ν - 1) on distinct members.
    degree_prior : sequence of float, optional
        ρ_1, ..., ρ_D: products of d factors are penalised by ρ_d. Ones by default. Passing
        ``comb(D, d) ** -0.5`` with ``count="ordered"`` makes the plain sum equal to (1 + Σκ_j)^D.
    standardize : "auto" or False
        With ``"auto"`` the estimators read the table first: numbers far from zero, or of another size than 1, are
        centred and scaled, text and categories become one indicator per level, gaps the median and an indicator. A
        table of numbers that are near that already (means within a quarter of the spread, spreads from 1/4 to 4) is
        taken as it is, to the bit. ``False``: columns as they are, always, as in the papers. Given `base` kernels,
        sparse rows, rows in batches, views, the parts of a union and ``AlignedKernel`` take columns as they are too.
    heredity : {"none", "weak", "strong"}
        Whether a product may be in the model without its parts, the products with one factor less: always; only
        with at least one of them; only with all of them. Single factors always may. ``Greedy`` searches what may enter,
        all of it; ``Hierarchical``, its convex counterpart, always keeps all parts.
    indicators : sequence of sequences of int, optional
        Groups of columns that are 1 or 0, of which at most one is 1 in a row, as the levels of a category are. A
        product takes at most one of a group, once: a level times itself is itself, and times another is nothing. The
        estimators set it. Closed forms over all products and draws are as without it.

    Examples
    --------
    >>> from manykernels.families import Products
    >>> Products(degree=3).resolve(100).size()
    176850
    """

    factorises = True
    rules = {
        "degree": whole(1, 1000),
        "count": choice("distinct", "ordered"),
        "standardize": choice("auto", False),
        "heredity": choice("none", "weak", "strong"),
    }
    #: Known when resolved: the number of base kernels, r, and their names.
    _r: int
    _names: list[str]

    def __init__(
        self,
        degree: int = 2,
        base: Sequence[Any] | None = None,
        count: Literal["distinct", "ordered"] = "distinct",
        degree_prior: Sequence[float] | None = None,
        standardize: Literal["auto", False] = "auto",
        heredity: Literal["none", "weak", "strong"] = "none",
        indicators: Sequence[Sequence[int]] | None = None,
    ):
        self.degree = degree
        self.base = base
        self.count = count
        self.degree_prior = degree_prior
        self.standardize = standardize
        self.heredity = heredity
        self.indicators = indicators

    @property
    def rank_one(self) -> bool:
        """Whether members are monomials."""
        return self.base is None

    # -- description -----------------------------------------------------------------------------------

    def resolve(self, n_features: int, names: Sequence[str] | None = None) -> Products:
        """Check the parameters, turn column names into indices."""
        self._check()
        resolved = clone(self)
        if self.base is not None:
            resolved.base = [as_kernel(k, "base").resolve(n_features, names) for k in self.base]
        resolved._r = n_features if self.base is None else len(self.base)
        if any(column >= resolved._r for group in self.indicators or () for column in group):
            raise ValueError(
                f"indicators of Products names a column beyond the {resolved._r} that there are."
            )
        if self.base is None:
            resolved._names = [f"x{j}" for j in range(n_features)] if names is None else list(names)
        else:
            resolved._names = [k.label(names) for k in resolved.base]
        return resolved

    def _bound(self, X) -> Products:
        """Return the family itself, resolved for the rows if it is not."""
        return self if hasattr(self, "_r") else self.resolve(X.shape[1])

    def _check(self):
        check_parameters(self, self.rules)
        if self.base is not None and (isinstance(self.base, str) or not isinstance(self.base, Sequence)):
            raise ValueError(
                f"base of Products is {brief(self.base)}; pass a list of kernels, or None for the columns."
            )
        if self.base is not None and len(self.base) == 0:
            raise ValueError("base of Products is empty; pass at least one kernel, or None for the columns.")
        if self.degree_prior is not None and not are_numbers(
            self.degree_prior, int(self.degree), positive=True
        ):
            raise ValueError(
                f"degree_prior of Products must be {self.degree} positive numbers, one for each degree "
                f"from 1 to {self.degree}."
            )
        if self.indicators is not None and not _are_groups(self.indicators):
            raise ValueError(
                f"indicators of Products is {brief(self.indicators)}; pass lists of columns, or None."
            )

    def _prior_sq(self) -> np.ndarray:
        prior = np.ones(self.degree) if self.degree_prior is None else np.asarray(self.degree_prior, float)
        return prior**2

    def size(self) -> float:
        """Return the number of distinct members, C(r + D, D) - 1; fewer where columns are indicators."""
        if not self.indicators:
            return n_multisets(self._r, self.degree)
        return n_exclusive(self._r, self.degree, [len(group) for group in self.indicators])

    def members(self) -> list[Prefix]:
        """Return all members, by degree."""
        if self.size() > MAX_ENUMERATED:
            raise ValueError(
                f"{self!r} has {self.size():,} members, too many to list (limit {MAX_ENUMERATED:,}); "
                "lower the degree, or use a solver that does not enumerate them."
            )
        return [z for z in multisets(self._r, self.degree) if self.admits(z)]

    def admits(self, member: Prefix) -> bool:
        """Whether a product takes at most one indicator of every group, once."""
        if not self.indicators:
            return True
        group = _groups(tuple(map(tuple, self.indicators)))
        taken = [group[j] for j in member if j in group]
        return len(set(taken)) == len(taken)

    def may_join(self, member: Prefix, others: Collection[Prefix]) -> bool:
        """Whether a product may be in a model with some others, by `heredity`."""
        if self.heredity == "none" or len(member) < 2:
            return True
        parts = {member[:i] + member[i + 1 :] for i in range(len(member))}
        known = [part in others for part in parts]
        return all(known) if self.heredity == "strong" else any(known)

    def rightful(self, members: Collection[Prefix]) -> list[Prefix]:
        """Return the members that have their parts among them, as `heredity` asks for, in the order given."""
        kept = list(members)
        while True:
            known = set(kept)
            fewer = [z for z in kept if self.may_join(z, known)]
            if len(fewer) == len(kept):
                return kept
            kept = fewer

    def factors(self, member: Any) -> list[Kernel]:
        """Return the base kernels, one as often as it is a factor."""
        kernels = self._kernels()
        return [kernels[j] for j in member]

    def label(self, member: Any) -> str:
        """Return a readable product."""
        return power_name(member, self._names)

    def parameters(self, member: Any) -> dict[str, Any]:
        """Return the names of the factors."""
        return {"columns" if self.base is None else "factors": [self._names[j] for j in member]}

    # -- scale -----------------------------------------------------------------------------------------

    def base_scale(self, X: Rows, sample_weight: np.ndarray) -> np.ndarray:
        """Return mean κ_j(x_t, x_t) of every base kernel."""
        if self.base is None:
            # A sum of products, without a squared copy of X: rows may be millions.
            return np.einsum("t,tj,tj->j", sample_weight, X, X, optimize=False) / np.sum(sample_weight)
        return np.array([np.average(k.diag(X), weights=sample_weight) for k in self._base()])

    def base_means(self, scale: Scaling | None) -> np.ndarray | None:
        """Return mean κ_j(x_t, x_t) of every base kernel on the rows of a scale; None where ρ = 1."""
        if scale is None or scale.how is None:
            return None
        return scale.base if scale.base is not None else self.base_scale(scale.X, scale.sample_weight)

    def factor_scale(self, base: np.ndarray, members: Members) -> np.ndarray:
        """Return Π_j base_j over the factors of every member."""
        return monomials(np.asarray(base, dtype=float)[None, :], members)[0]

    def penalty(self, members: Members, nu: float) -> np.ndarray:
        """Return ρ_d² of the degree prior, times mult^(1/ν - 1) for ordered counting."""
        lengths = np.fromiter((len(z) for z in members), dtype=np.intp, count=len(members))
        factor = np.concatenate([[1.0], self._prior_sq()])[lengths]
        if self.count == "ordered":
            exponent = (0.0 if np.isinf(nu) else 1.0 / nu) - 1.0
            factor = factor * np.array([float(orderings(z)) for z in members]) ** exponent
        return factor

    def base_kernels(self, n_features: int) -> Finite:
        """Return the base kernels as a list, under the names that products call them by."""
        base = [Linear(columns=[j]) for j in range(self._r)] if self.base is None else self._base()
        return Finite(base, names=self._names).resolve(n_features)

    def total(self, base: np.ndarray) -> ProductSum:
        """Return Σ_z κ_z / ρ_z² over all members as one kernel (the case p = 2)."""
        return ProductSum(
            base=None if self.base is None else self._base(),
            scale=np.asarray(base, dtype=float).tolist(),
            degree=self.degree,
            count=self.count,
            prior_sq=self._prior_sq().tolist(),
        )

    def multiples(self, X: Rows, base: np.ndarray, factors: Sequence[float]) -> list[np.ndarray]:
        """Return M_1, ..., M_D: the multiples tu of a member t add up to (κ_t/Π_{j in t} base_j) M_|t| on the rows.

        Each counts Π_j factors[u_j]/ρ_tu² times, with ρ_tu² = ρ_d² Π_j base_j over its d factors, t itself once; base
        kernels of scale 0 are left out. O(n² r D²) time, O(n² D) memory.
        """
        block = Sharing(self._kernels()).open(X, X)
        scaled = (block(j) / b for j, b in enumerate(base) if b > 0)
        return multiples(scaled, factors, self._prior_sq(), X.shape[0])

    # -- values ----------------------------------------------------------------------------------------

    def _kernels(self) -> list[Kernel]:
        """Return the base kernels, those of the columns too."""
        return [Linear(columns=[j]) for j in range(self._r)] if self.base is None else self._base()

    def _base(self) -> list[Kernel]:
        return [as_kernel(k, "base") for k in self.base or ()]

    def mean_diag(self, X: Rows, members: Members, sample_weight: np.ndarray) -> np.ndarray:
        """Return the weighted mean of κ_z(x_t, x_t) for every member, in blocks."""
        if self.base is None:  # in blocks of rows, without a squared copy of X: rows may be millions
            out = np.zeros(len(members))
            for rows in row_blocks(X.shape[0], len(members) + X.shape[1]):
                out += sample_weight[rows] @ np.square(monomials(X[rows], members))
            return out / np.sum(sample_weight)
        D = np.column_stack([k.diag(X) for k in self._base()])
        out = np.empty(len(members))
        for part in row_blocks(len(members), X.shape[0]):
            out[part] = np.average(monomials(D, members[part]), axis=0, weights=sample_weight)
        return out

    def diag(self, X: Rows, members: Members, weights: np.ndarray) -> np.ndarray:
        """Return Σ weights_z κ_z(x_t, x_t)."""
        D = np.square(X) if self.base is None else np.column_stack([k.diag(X) for k in self._base()])
        out = np.zeros(X.shape[0])
        for part in row_blocks(len(members), X.shape[0]):
            out += monomials(D, members[part]) @ np.asarray(weights[part], dtype=float)
        return out

    @available_if(lambda self: self.base is None)
    def features(self, X: Rows, members: Members) -> np.ndarray:
        """Return the monomials, one column per member."""
        return monomials(X, members)

    @available_if(lambda self: self.base is None)
    def widths(self, members: Members) -> np.ndarray:
        """Return ones: a monomial has one column."""
        return np.ones(len(members), dtype=np.intp)

    def values(self, X: Rows, members: Members) -> Values:
        """Return what evaluates members on chosen pairs of rows."""
        return (RankOneValues if self.base is None else Values)(self, X, members)

    def gram(self, X: Rows, Z: Rows, members: Members, weights: np.ndarray) -> np.ndarray:
        """Return Σ weights_z K_z(X, Z)."""
        weights = np.asarray(weights, dtype=float)
        out = np.zeros((X.shape[0], Z.shape[0]))
        if self.base is None:
            for part in row_blocks(len(members), X.shape[0] + Z.shape[0]):
                out += (monomials(X, members[part]) * weights[part]) @ monomials(Z, members[part]).T
            return out
        for rows in row_blocks(X.shape[0], Z.shape[0]):
            block = self._open(X[rows], Z, members)
            for i in np.flatnonzero(weights):
                out[rows] += weights[i] * block(i)
        return out

    def apply(self, X: Rows, Z: Rows, B: np.ndarray, members: Members) -> np.ndarray:
        """Return K_z(X, Z) B for every member."""
        if self.base is None:
            coefficients = monomials(Z, members).T @ B
            return monomials(X, members).T[:, :, None] * coefficients[:, None, :]
        out = np.empty((len(members), X.shape[0], B.shape[1]))
        for rows in row_blocks(X.shape[0], Z.shape[0]):
            block = self._open(X[rows], Z, members)
            for i in range(len(members)):
                out[i, rows] = block(i) @ B
        return out

    def _open(self, X, Z, members):
        """Return a function from a member's number to its Gram matrix; base matrices are computed once."""
        base = Sharing(self._base()).open(X, Z)
        seen: dict[int, np.ndarray] = {}

        def factor(j):
            if j not in seen:
                seen[j] = base(j)
            return seen[j]

        def block(i):
            out = factor(members[i][0]).copy()
            for j in members[i][1:]:
                out *= factor(j)
            return out

        return block

    def bank(self, X: Rows, members: Members, sizes: BankSizes = BANK_SIZES) -> Bank:
        """Return features for monomials, tiles of products otherwise."""
        if self.base is None:
            return FeatureBank(
                lambda a, b: monomials(X, members[a:b]), np.ones(len(members)), X.shape[0], sizes
            )
        return _ProductBank(self, X, members, sizes)

    # -- draws -----------------------------------------------------------------------------------------

    def draw(
        self, X: Rows, A: np.ndarray, size: int, rng: np.random.Generator, scale: Scaling | None = None
    ) -> tuple[Members, np.ndarray]:
        """Draw members near proportionally to g, without listing them (Afkanpour et al. 2013, Alg. 3).

        An ordered tuple of 0 to D factors is drawn with probability proportional to
        tr(Aᵀ K_z A)/(ρ_d² Π_j base_j), where base_j is 1 without a scale and mean κ_j(x_t, x_t) otherwise.
        For ``"base"`` or no scale, and ``count="ordered"``, that is the gradient; in all other cases
        dividing by the stated probability corrects for orderings and for ρ_z² ≠ Π_j base_j.

        Parameters
        ----------
        X : (n, d) rows
        A : (n, c) array
        size : int
        rng : numpy.random.Generator
        scale : Scale, optional

        Returns
        -------
        members : list of sorted tuples
            The constant ``()`` is among what is drawn. A base kernel of scale 0 is not.
        probability : array
            Of drawing that multiset in one draw. Where nothing has mass (A = 0), draws are uniform.
        """
        return self._bound(X).drawer(X, scale)(checked(X, A), size, rng)

    def drawer(self, X: Rows, scale: Scaling | None) -> Drawer:
        """Return a function that draws for one A after another, sharing what does not depend on A."""
        sampler = self.sampler(X, scale)

        def draw(A, size, rng):
            drawn = sampler.draw(A, size, rng)
            return self.draw_uniform(size, rng) if drawn is None else drawn

        return draw

    def sampler(self, X: Rows, scale: Scaling | None = None) -> Sampler:
        """Return what draws members on rows X, to be reused for one A after another."""
        family = self._bound(X)
        base = family.base_means(scale)
        if self.base is None:
            return MonomialSampler(X, base, family._prior_sq())
        return GramSampler(X, family._base(), base, family._prior_sq())

    @available_if(lambda self: self.base is None)
    def row_sampler(self, X: Rows, scale: Scaling | None, n_rows: int) -> RowSampler:
        """Return what draws products of columns from `n_rows` rows, drawn anew for every A."""
        return RowSampler(self._bound(X), X, scale, n_rows)

    def proposal_gram(self, X: Rows, scale: Scaling, p: float) -> np.ndarray:
        """Return the sum over ordered products, the constant included; its diagonal when rows are many."""
        base = scale.base if scale.base is not None else np.ones(self._r)
        total = clone(self).set_params(count="ordered").total(base)
        return (total(X) if X.shape[0] <= PROPOSAL_ROWS else total.diag(X)) + 1.0

    def draw_uniform(self, size: int, rng: np.random.Generator) -> tuple[list[Any], np.ndarray]:
        """Draw uniformly over the members, or over ordered tuples of 1 to D factors when those count.

        Returns the members and the probability of each, as ``draw`` does; the constant is left out.
        """
        if not hasattr(self, "_r"):
            raise ValueError(f"{self!r} does not know its columns yet; call resolve(n_features) first.")
        return uniform_products(self._r, self.degree, self.count, size, rng)

    def n_uniform(self) -> float:
        """Return the number of members, or that of ordered tuples when those count."""
        if self.count == "distinct":
            return self.size()
        return sum(self._r**d for d in range(1, self.degree + 1))

    # -- search ----------------------------------------------------------------------------------------

    def searcher(self, X: Rows, scale: Scaling | None) -> CostedSearcher:
        """Return what finds the best products for one direction after another, sharing what it can."""
        family = self._bound(X)
        given = scale is not None and isinstance(scale.how, np.ndarray)
        if self.heredity != "none" and (given or self.base is not None):
            return self._hereditary(family, X, scale, given)
        if self.base is None and not given:
            return MonomialSearcher(family, X, scale)
        size = family.size()
        if given or (size <= MAX_ENUMERATED and size * X.shape[0] ** 2 <= EXHAUSTIVE_GRAMS):
            return ListSearcher(family, X, scale)
        return GramSearcher(family, X, scale)

    @staticmethod
    def _hereditary(family: Products, X: Rows, scale: Scaling | None, given: bool) -> CostedSearcher:
        if given:
            raise ValueError(
                f"heredity of Products is {family.heredity!r}, which needs scales that can be computed; leave "
                "normalize at 'auto', or pass heredity='none'."
            )
        return GramSearcher(family, X, scale)


@functools.lru_cache(maxsize=8)
def _groups(indicators: tuple[tuple[int, ...], ...]) -> dict[int, int]:
    """Return the group of every indicator."""
    return {j: k for k, group in enumerate(indicators) for j in group}


def _are_groups(values) -> bool:
    """Whether these are lists of columns, none of which is in two."""
    try:
        columns = [column for group in values for column in group]
    except TypeError:
        return False
    whole = all(isinstance(column, int | np.integer) and column >= 0 for column in columns)
    return whole and len(set(columns)) == len(columns)


class _ProductBank(TileBank):
    """Products of base Gram tiles; a tile of every base kernel is held at a time."""

    def __init__(self, family: Products, X: Rows, members: Sequence, sizes: BankSizes):
        super().__init__(X.shape[0], len(members), sizes)
        self.family, self.X, self.of = family, X, members

    def open(self, a: int, b: int) -> MemberValues:
        return self.family._open(self.X[a:b], self.X[a:], self.of)
