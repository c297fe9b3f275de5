"""From a fitted model to what its predictor is made of: variables, and functions of each."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._util.text import brief
from ..families.products.product_sum import ProductSum
from ..kernels import Constant, Kernel, Linear
from ..kernels.statistics import dense
from ..predictors import Dual, PerTarget, Predictor, Primal
from ..tables import Origin
from .expansion import Expansion, Listed, PowerSum, Term, Variable
from .functions import Explicit, Functions, Graded, KernelProducts, Power, Powers
from .sampling import Sampled

#: A kernel on more variables than this has interactions of many orders.
NARROW = 3
#: A name lists at most so many columns.
NAMED_AT_MOST = 3


def predictor_of(model: Any) -> Predictor:
    """Return what predicts in a fitted model, or say that there is nothing."""
    if not hasattr(model, "kernels") or not hasattr(model, "contributions"):
        raise ValueError(
            f"model is {brief(model)}; pass a fitted MKLRegressor or MKLClassifier (of a pipeline its last step, with "
            "rows as that one sees them)."
        )
    check_is_fitted(model)
    if model.combination_.family.pairwise:
        raise ValueError(
            "model was fitted on precomputed kernels, which are no functions of columns; fit it on rows with kernels."
        )
    return model.result_.predictor


def rows_of(model: Any, X: Any, name: str) -> np.ndarray:
    """Return rows as the matrix of numbers that the predictor sees."""
    size = X.shape[0] if hasattr(X, "shape") else len(X) if hasattr(X, "__len__") else 0
    if not size:  # a dict of views has as many as it has views
        raise ValueError(f"{name} has no rows; pass some, such as the training rows.")
    return dense(model._rows(X)).astype(float, copy=False)


def read(model: Any, background: Any) -> Expansion | Sampled:
    """Return the predictor of a fitted model as a sum of products over variables; by samples where it is none."""
    predictor = predictor_of(model)
    rows = rows_of(model, background, "background")
    return Reader(predictor, rows, origins_of(model, rows.shape[1])).expansion()


def origins_of(model: Any, width: int) -> list[Origin]:
    """Return the columns of a model's tables, and the columns of numbers that they have become."""
    columns = getattr(model, "columns_", None)
    if columns is not None:
        return list(columns.origins)
    names = getattr(model, "feature_names_in_", None)
    named = [f"x{j}" for j in range(width)] if names is None else [str(name) for name in names]
    return [Origin(name, (j,), (j,)) for j, name in enumerate(named)]


def all_columns(model: Any, width: int) -> list[Origin]:
    """Return all columns of a model's tables, those that were left out too; of views, the views."""
    columns, known = getattr(model, "columns_", None), origins_of(model, width)
    if columns is None or hasattr(columns, "learned"):
        return known
    used = {o.inside[0]: o for o in known}
    return [used.get(j, Origin(name, (j,), ())) for j, name in enumerate(columns.names_in)]


def joined(parts: Sequence[Origin]) -> Origin:
    """Return several variables as one."""
    names = [part.name for part in parts]
    few = len(names) <= NAMED_AT_MOST
    name = ", ".join(names) if few else f"{names[0]}, …, {names[-1]} ({len(names):,} columns)"
    inside = sorted(j for part in parts for j in part.inside)
    outside = sorted(j for part in parts for j in part.outside)
    return Origin(name, tuple(inside), tuple(outside))


class Reader:
    """One fitted predictor, its kernels and its variables.

    Kernels that are no product or sum over their columns make one variable of them all.
    """

    def __init__(self, predictor: Predictor, background: np.ndarray, origins: list[Origin]):
        self.predictor, self.background, self.origins = predictor, background, origins
        self.combination = predictor.combination
        used = np.atleast_2d(self.combination.weights).any(axis=0) & bool(len(getattr(predictor, "A", [0])))
        self.used = np.flatnonzero(used).tolist()  # none without support rows: a constant

    def expansion(self) -> Expansion | Sampled:
        """Return the predictor in the form that its kernels allow."""
        if not isinstance(self.predictor, Dual | PerTarget | Primal) or self._is_balanced():
            return self._sampled(self.origins)
        members, whole = [self._factors(i) for i in self.used], self.origins
        only = members[0][0] if len(members) == 1 else None
        base = None
        if isinstance(only, ProductSum) or self.combination.degree > 1:
            base = self._base(only)
            self._refuse_overlaps([kernel for kernel, _ in base])
            self._join([kernel for kernel, _ in base])
        else:
            several = [k for factors in members for k in factors if k.splits is None or len(factors) > 1]
            self._join([k for k in several if k.splits != "product"])
        if len(self.origins) == 1 < len(whole):  # a kernel on everything at once says nothing of the columns
            return self._sampled(whole)
        if base is not None:
            return self._power_sum(base, only)
        if all(isinstance(kernel, Linear) for factors in members for kernel in factors):
            return self._monomials(members)
        if not isinstance(self.predictor, Primal):
            return self._kernel_sum(members)
        one_each = all(len(factors) == 1 for factors in members)  # a product in a union has no map of its own
        return self._explicit(members) if one_each else self._sampled(whole)

    # -- kernels and variables -------------------------------------------------------------------------

    def _factors(self, i: int) -> list[Kernel]:
        return self.combination.family.factors(self.combination.members[i])

    def _is_balanced(self) -> bool:
        """Whether what a row lacks of its views changes what the others count."""
        family: Any = self.combination.family
        if getattr(family, "balance", None) is None:
            return False
        rows = getattr(self.predictor, "rows", None)
        return family.lacks(self.background) or (rows is not None and family.lacks(rows))

    def _sampled(self, origins: list[Origin]) -> Sampled:
        return Sampled(origins, self.background, self.predictor.scores)

    def _touched(self, kernel: Kernel) -> list[int]:
        """Return the variables that a kernel sees."""
        if isinstance(kernel, Constant):
            return []
        columns = None if kernel.columns is None else set(np.asarray(kernel.columns).tolist())
        return [g for g, o in enumerate(self.origins) if columns is None or not columns.isdisjoint(o.outside)]

    def _join(self, kernels: Sequence[Kernel]) -> None:
        """Make one variable of all that a kernel sees."""
        for kernel in kernels:
            seen = self._touched(kernel)
            if len(seen) > 1:
                one = joined([self.origins[g] for g in seen])
                rest = [o for g, o in enumerate(self.origins) if g not in seen]
                self.origins = sorted([*rest, one], key=lambda o: o.outside)

    def _support(self) -> np.ndarray:
        return dense(self.predictor.rows)  # type: ignore[attr-defined]

    def _coefficients(self, i: int) -> np.ndarray:
        """Return the coefficients of the support rows for a kernel, (N, c)."""
        weights = self.combination.weights
        return self.predictor.A * (weights[:, i] if weights.ndim == 2 else weights[i])  # type: ignore[attr-defined]

    def _variables(self, functions: Callable[[int], Functions]) -> list[Variable]:
        return [Variable(*origin, functions(g)) for g, origin in enumerate(self.origins)]

    # -- products of columns ---------------------------------------------------------------------------

    def _monomials(self, members: Sequence[Sequence[Kernel]]) -> Listed:
        """Return products of columns, and sums of columns, as powers of the columns: one support row, no kernels."""
        place = {j: (g, k) for g, o in enumerate(self.origins) for k, j in enumerate(o.outside)}
        known: list[dict[Power, int]] = [{} for _ in self.origins]
        terms = []
        for columns, C in self._products(members):
            exponents: dict[int, dict[int, int]] = {}
            for j in columns:
                g, k = place[j]
                own = exponents.setdefault(g, {})
                own[k] = own.get(k, 0) + 1
            numbers = {
                g: known[g].setdefault(tuple(sorted(own.items())), len(known[g]))
                for g, own in exponents.items()
            }
            terms.append(Term(numbers, C))
        variables = self._variables(lambda g: Powers(list(known[g])))
        return Listed(variables, self.background, self.predictor, terms)

    def _products(self, members: Sequence[Sequence[Kernel]]) -> list[tuple[list[int], np.ndarray]]:
        """Return every product of columns in the predictor, and its coefficients, (1, c)."""
        d, out, first = self.background.shape[1], [], 0
        for i, factors in zip(self.used, members, strict=True):
            sees = [range(d) if k.columns is None else np.asarray(k.columns).tolist() for k in factors]
            products = [[j] for j in sees[0]] if len(sees) == 1 else [[own[0] for own in sees]]
            for columns in products:
                if isinstance(self.predictor, Primal):
                    C = self.predictor.W[first : first + 1]
                    first += 1
                else:
                    C = self._support()[:, columns].prod(axis=1)[None] @ self._coefficients(i)
                out.append((columns, C))
        return out

    # -- explicit features -----------------------------------------------------------------------------

    def _explicit(self, members: Sequence[Sequence[Kernel]]) -> Listed:
        """Return a predictor on explicit features: each is a function of one variable."""
        assert isinstance(self.predictor, Primal)
        known: list[list[tuple[Kernel, int]]] = [[] for _ in self.origins]
        terms, first = [], 0
        for (kernel,) in members:
            touched = self._touched(kernel)
            width = kernel.width(self.background.shape[1])
            owners = np.asarray(range(width) if kernel.columns is None else kernel.columns).tolist()
            for k in range(width):
                C = self.predictor.W[first + k : first + k + 1]
                if not touched:
                    terms.append(Term({}, C * math.sqrt(kernel.value)))  # type: ignore[attr-defined]
                    continue
                split = kernel.splits == "sum"
                g = next(g for g in touched if not split or owners[k] in self.origins[g].outside)
                part = kernel.on(self.origins[g].outside)
                place = sum(j in self.origins[g].outside for j in owners[:k]) if split else k
                terms.append(Term({g: len(known[g])}, C))
                known[g].append((part, place))
            first += width
        variables = self._variables(lambda g: Explicit(known[g]))
        return Listed(variables, self.background, self.predictor, terms)

    # -- sums of products of kernels -------------------------------------------------------------------

    def _kernel_sum(self, members: Sequence[Sequence[Kernel]]) -> Listed:
        """Return a sum of kernels, each a product over variables, or a sum over them."""
        parts: dict[tuple[int, int], Kernel] = {}
        known: list[dict[tuple[int, ...], int]] = [{} for _ in self.origins]
        terms = []
        for i, factors in zip(self.used, members, strict=True):
            C = self._coefficients(i)
            for kernel in factors:
                if isinstance(kernel, Constant):
                    C = C * float(kernel.value)
            for owners in self._owners(factors):
                numbers = {}
                for g, kernels in owners.items():
                    for kernel in kernels:
                        parts.setdefault((id(kernel), g), kernel.on(self.origins[g].outside))
                    key = tuple(sorted(id(kernel) for kernel in kernels))
                    numbers[g] = known[g].setdefault(key, len(known[g]))
                terms.append(Term(numbers, C))
        support = self._support()

        def functions(g: int) -> KernelProducts:
            products = [[parts[one, g] for one in key] for key in known[g]]
            return KernelProducts(products, support[:, self.origins[g].outside])

        wide = any(
            len(self._touched(k)) > NARROW for factors in members for k in factors if k.splits == "product"
        )
        return Listed(self._variables(functions), self.background, self.predictor, terms, wide=wide)

    def _owners(self, factors: Sequence[Kernel]) -> list[dict[int, list[Kernel]]]:
        """Return the kernels on each variable, for each of the products that a member is the sum of."""
        if len(factors) == 1 and factors[0].splits == "sum":
            return [{g: [factors[0]]} for g in self._touched(factors[0])]
        owners: dict[int, list[Kernel]] = {}
        for kernel in factors:
            for g in self._touched(kernel):
                if not _is_flat(kernel, self.origins[g].outside):
                    owners.setdefault(g, []).append(kernel)
        return [owners]

    # -- all products of at most D kernels ---------------------------------------------------------------

    def _base(self, only: Any) -> list[tuple[Kernel, float]]:
        """Return the base kernels of a sum of all products, and what each is divided by."""
        if isinstance(only, ProductSum):
            kernels = only.base or [Linear(columns=[j]) for j in range(len(only.scale))]
            return [(k, float(s)) for k, s in zip(kernels, only.scale, strict=True) if s > 0]
        weights = self.combination.weights
        return [(self._factors(i)[0], 1.0 / float(weights[i])) for i in self.used]

    def _refuse_overlaps(self, kernels: Sequence[Kernel]) -> None:
        seen: list[tuple[set[int], Kernel]] = []
        for kernel in kernels:
            own = set(self._touched(kernel))
            for other, first in seen:
                if own != other and not own.isdisjoint(other):
                    raise ValueError(
                        f"kernels: the base kernels {first.label()} and {kernel.label()} share some of their columns, "
                        "and all products of them do not split by columns; give base kernels disjoint columns, or the "
                        "same ones."
                    )
            seen.append((own, kernel))

    def _power_sum(self, base: list[tuple[Kernel, float]], only: Any) -> PowerSum:
        """Return the sum of all products, or a power of the sum, as polynomials of the variables."""
        if isinstance(only, ProductSum):
            degree, ordered = only.degree, only.count == "ordered"
            counts = [math.factorial(d) if ordered else 1.0 for d in range(1, degree + 1)]
            weights = np.array([0.0, *(n / w for n, w in zip(counts, only.prior_sq, strict=True))])
            C = self._coefficients(self.used[0])
        else:
            degree, constant, ordered = self.combination.degree, self.combination.constant, True
            weights = np.array([math.perm(degree, d) * constant ** (degree - d) for d in range(degree + 1)])
            weights[0], C = 0.0, self.predictor.A  # type: ignore[attr-defined]
        support = self._support()
        self.origins = [o for g, o in enumerate(self.origins) if any(g in self._touched(k) for k, _ in base)]

        def functions(g: int) -> Graded:
            outside = self.origins[g].outside
            own = [(k.on(outside), scale) for k, scale in base if g in self._touched(k)]
            kernels, scales = [k for k, _ in own], [scale for _, scale in own]
            return Graded(kernels, scales, support[:, outside], degree, ordered)

        return PowerSum(self._variables(functions), self.background, self.predictor, weights, C)


def _is_flat(kernel: Kernel, columns: Sequence[int]) -> bool:
    """Whether a kernel with a bandwidth per column ignores some columns."""
    sigma: Any = getattr(kernel, "sigma", 1.0)
    return np.ndim(sigma) == 1 and bool(np.isinf([sigma[j] for j in columns]).all())
