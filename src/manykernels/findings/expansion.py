"""A predictor as a sum of products of functions of one variable each, and its functional ANOVA in closed form.

    f(x) = b + Σ_i Σ_t C_i(t) Π_{g in B_i} φ_ig(x_g, t)

With m(t) the mean of a function over the margin of its variable and ψ = φ - m the rest, a term is
Π_g (m_g + ψ_g), and the component of a set S of variables is

    f_S(x) = Σ_i Σ_t C_i(t) Π_{g in B_i - S} m_ig(t) Π_{g in S} ψ_ig(x_g, t).

Means are taken over x alone: centring over t as well would not decompose f. Under the product of the margins the
components have mean zero and are orthogonal, whatever the order of the interactions.

:class:`Listed` holds the terms as a list (kernels on columns, listed products, monomials). :class:`PowerSum` holds the
sum of all products of at most D base kernels as one polynomial: each variable has a polynomial in s, whose product up
to s^D has all products by their degree. What variables outside S leave is the product of all mean polynomials, divided
by those of S as power series, O(D²) for every component.
"""

from __future__ import annotations

import itertools
import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .._util.arrays import row_blocks
from .._util.threads import map_in_threads
from ..predictors import Predictor
from .functions import Functions, divided, times

#: A set of variables, by their numbers.
Subset = tuple[int, ...]
#: Numbers that functions of some rows may take together.
HELD = 2**24
#: Variables with more functions than this have a basis learned from random combinations of them.
FEW_FUNCTIONS = 64
#: Multiplications that exact variances may take together, and points that the others are estimated from.
AFFORDED, POINTS = 5e9, 512
#: Points of the integral behind Shapley values, and where these need not be exact. So many integrate products of 128
#: factors exactly, and to rounding those of more: a product of thousands that is not zero has factors near one.
NODES, QUICK = 64, 12
#: What a basis may leave of the functions' norm: rounding.
LEFT_OVER = 1e-13


@dataclass(frozen=True, eq=False)
class Variances:
    """Variances of components under the product of the margins.

    Attributes
    ----------
    values, errors : (k, c) arrays
        One per component and output, and the standard error of those that are estimates.
    exact : (k,) array of bool
    rest, rest_error : (c,) arrays
        Of all that is not among the components, an estimate.
    """

    values: np.ndarray
    errors: np.ndarray
    exact: np.ndarray
    rest: np.ndarray
    rest_error: np.ndarray


def drawn(variables: Sequence[Any], background: np.ndarray, size: int, seed: int) -> np.ndarray:
    """Return points of the product of the margins: every variable from a row of its own."""
    rng = np.random.default_rng(seed)
    rows = background[rng.integers(len(background), size=size)]
    for variable in variables:
        columns = list(variable.outside)
        rows[:, columns] = background[np.ix_(rng.integers(len(background), size=size), columns)]
    return rows


@dataclass(frozen=True, eq=False)
class Variable:
    """What is read as one variable: a column of the table, or several that go together.

    Attributes
    ----------
    name : str
    inside : tuple of int
        Its columns of the table.
    outside : tuple of int
        The columns of numbers that they have become.
    functions : Functions
    """

    name: str
    inside: tuple[int, ...]
    outside: tuple[int, ...]
    functions: Functions


class Expansion:
    """A predictor and the margins that it is decomposed under.

    Parameters
    ----------
    variables : list of Variable
    background : (n, d) array
        Rows whose columns have the margins.
    predictor : Predictor
        Whose scores it is; they tell what a list of components leaves out.
    wide : bool
        Whether a kernel is a product over many variables, so that interactions are of all orders.
    """

    wide: bool = False

    def __init__(self, variables: Sequence[Variable], background: np.ndarray, predictor: Predictor):
        self.variables, self.background = variables, background
        self.intercept, self.scores = predictor.intercept, predictor.scores

    @property
    def n_outputs(self) -> int:
        """Number of outputs."""
        return len(self.intercept)

    # -- what subclasses know --------------------------------------------------------------------------

    @abstractmethod
    def orders(self) -> Iterator[tuple[int, int]]:
        """Yield, for every order there is, the order and how many components have it."""

    @abstractmethod
    def subsets(self, most: int) -> list[Subset]:
        """Return the components of at most an order, by order."""

    @abstractmethod
    def parts(self, S: Subset) -> list[tuple[tuple[int, ...], np.ndarray]]:
        """Return what Π_{g in S} ψ_g is summed with: numbers of functions, one per variable, and C, (N, c)."""

    @abstractmethod
    def shapley(self, rows: np.ndarray, quick: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return Σ_{S with g in S} f_S(x)/|S| for every variable, over all orders, (n, variables, c).

        With `quick`, to a few digits only where many variables are multiplied.

        Their errors, which are none, and the mean that they are about come with them.
        """

    @abstractmethod
    def changes(self, rows: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Return how f changes at rows when one variable is as in other rows, for every variable, (n, variables, c).

        In one pass over the factors: as many scores would take the number of variables times as long.
        """

    @property
    @abstractmethod
    def constant(self) -> np.ndarray:
        """The mean under the product of the margins, (c,)."""

    # -- margins ---------------------------------------------------------------------------------------

    def _margin(self, g: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the values of a variable in the background and how often each occurs, in shares."""
        rows = self.background[:, self.variables[g].outside]
        if self._width == 1:  # to look for equal values would take longer than to go over all
            return rows, np.full(len(rows), 1 / len(rows))
        values, counts = np.unique(rows, axis=0, return_counts=True)
        return values, counts / len(rows)

    @cached_property
    def _width(self) -> int:
        """Number of support rows."""
        return self.variables[0].functions(self.background[:1, self.variables[0].outside]).shape[2]

    @cached_property
    def means(self) -> list[np.ndarray]:
        """m_g(t) of every variable, (count, N)."""
        out = []
        for g, variable in enumerate(self.variables):
            values, share = self._margin(g)
            total = np.zeros((variable.functions.count, self._width))
            for part in row_blocks(len(values), total.size, HELD):
                total += np.einsum("ant,n->at", variable.functions(values[part]), share[part])
            out.append(total)
        return out

    def centred(self, g: int, values: np.ndarray) -> np.ndarray:
        """Return ψ_g for values of a variable, (count, n, N)."""
        return self.variables[g].functions(values) - self.means[g][:, None]

    def _functions_at(self, g: int, rows: np.ndarray) -> np.ndarray:
        """Return φ_g at rows of all columns, (count, n, N)."""
        variable = self.variables[g]
        return variable.functions(rows[:, variable.outside])

    def _row_parts(self, n: int, used: Sequence[int], copies: int = 1) -> list[slice]:
        """Cut rows into parts for which so many copies of all functions can be held."""
        width = copies * self._width * sum(self.variables[g].functions.count for g in used)
        return row_blocks(n, width, HELD)

    # -- components ------------------------------------------------------------------------------------

    def values(self, rows: np.ndarray, subsets: Sequence[Subset]) -> np.ndarray:
        """Return components at rows, (n, k, c), O(n N) for each part of each."""
        out = np.empty((len(rows), len(subsets), self.n_outputs))
        if not subsets:
            return out
        used = sorted({g for S in subsets for g in S})
        for part in self._row_parts(len(rows), used):
            psi = {g: self.centred(g, rows[part][:, self.variables[g].outside]) for g in used}
            for k, S in enumerate(subsets):
                out[part, k] = self._component(S, psi)
        return out

    def _component(self, S: Subset, psi: Mapping[int, np.ndarray]) -> np.ndarray:
        total = np.zeros((psi[S[0]].shape[1], self.n_outputs))
        for numbers, C in self.parts(S):
            product = psi[S[0]][numbers[0]]
            for g, a in zip(S[1:], numbers[1:], strict=True):
                product = product * psi[g][a]
            total += product @ C
        return total

    def on_grid(self, S: Subset, values: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Return a component on all combinations of values of its variables and its errors, (n_1, ..., n_k, c)."""
        found = self._tensor(S, [self.centred(g, v) for g, v in zip(S, values, strict=True)])
        return found, np.zeros_like(found)

    def estimates(self, rows: np.ndarray, subsets: Sequence[Subset]) -> tuple[np.ndarray, np.ndarray]:
        """Return components at rows and their errors, which are none, (n, k, c) each."""
        found = self.values(rows, subsets)
        return found, np.zeros_like(found)

    def _tensor(self, S: Subset, factors: Sequence[np.ndarray]) -> np.ndarray:
        """Return Σ_t C(t) ⊗_{g in S} factors_g(·, t), summed over the parts of a component."""
        shape = [factor.shape[1] for factor in factors]
        total = np.zeros((*shape, self.n_outputs))
        for numbers, C in self.parts(S):
            chosen = [factor[a] for factor, a in zip(factors, numbers, strict=True)]
            for k in range(C.shape[1]):
                left = chosen[0] * C[:, k]
                for one in chosen[1:-1]:
                    left = (left[:, None] * one[None]).reshape(-1, left.shape[1])
                flat = left @ chosen[-1].T if len(chosen) > 1 else left.sum(axis=1)
                total[..., k] += flat.reshape(shape)
        return total

    # -- variances -------------------------------------------------------------------------------------

    @cached_property
    def _bases(self) -> dict[int, np.ndarray]:
        """What ``_basis`` has found."""
        return {}

    def _basis(self, g: int) -> np.ndarray:
        """Return the coordinates of ψ_g(·, t) in an orthonormal basis over the margin, (count, r, N).

        Smooth functions of one column have few coordinates, to rounding.
        """
        if g not in self._bases:
            self._bases[g] = self._coordinates(g)
        return self._bases[g]

    def _coordinates(self, g: int) -> np.ndarray:
        values, share = self._margin(g)
        psi = self.centred(g, values) * np.sqrt(share)[:, None]
        count, q, N = psi.shape
        flat = psi.transpose(1, 0, 2).reshape(q, count * N)
        if count * N <= FEW_FUNCTIONS:
            flat = np.linalg.qr(flat, mode="r")
        elif q > FEW_FUNCTIONS:
            flat = _compressed(flat)
        return np.ascontiguousarray(flat.reshape(-1, count, N).transpose(1, 0, 2))

    def variances(self, subsets: Sequence[Subset], complete: bool) -> Variances:
        """Return the variances of components: exact ones as far as they can be afforded, the cheapest first.

        What is left, for all others and for the sum of those that are not listed, is estimated from points of the
        product of the margins.
        """
        c = self.n_outputs
        values, errors = np.zeros((len(subsets), c)), np.zeros((len(subsets), c))
        costs = np.array([self.cost(S) for S in subsets])
        order = np.argsort(costs, kind="stable")
        exact = np.zeros(len(subsets), dtype=bool)
        exact[order] = np.cumsum(costs[order]) <= AFFORDED
        known = np.flatnonzero(exact).tolist()
        values[known] = np.array(map_in_threads(lambda k: self.variance(subsets[k]), known)).reshape(-1, c)
        rest = rest_error = np.zeros(c)
        left = np.flatnonzero(~exact).tolist() if complete else list(range(len(subsets)))
        if left or not complete:
            points = drawn(self.variables, self.background, POINTS, 1)
            found = self.values(points, [subsets[k] for k in left])
            means, deviations = _mean_square(found)
            for place, k in enumerate(left):
                if not exact[k]:
                    values[k], errors[k] = means[place], deviations[place]
            if not complete:
                others = self.scores(points) - self.constant - found.sum(axis=1)
                (rest,), (rest_error,) = _mean_square(others[:, None])
        return Variances(values, errors, exact, rest, rest_error)

    def cost(self, S: Subset) -> float:
        """Return about how many multiplications the variance of a component takes; infinity beyond what can be held."""
        ranks = [float(self._basis(g).shape[1]) for g in S]
        if max(math.prod(ranks), math.prod(ranks[:-1]) * self._width) > HELD:
            return math.inf
        return math.prod(ranks) * self._width * len(self.parts(S)) * self.n_outputs

    def variance(self, S: Subset) -> np.ndarray:
        """Return the variance of a component under the product of the margins, (c,).

        The component has the coordinates Σ_t C(t) ⊗_g T_g(t) in an orthonormal basis: its variance is their sum of
        squares. (Sums over pairs of support rows would lose the digits that large coefficients of both signs cost.)
        """
        return np.square(self._tensor(S, [self._basis(g) for g in S])).reshape(-1, self.n_outputs).sum(0)


def _mean_square(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean square over the first axis, and its standard error."""
    squares = np.square(values)
    return squares.mean(axis=0), squares.std(axis=0) / math.sqrt(len(values))


def _compressed(flat: np.ndarray) -> np.ndarray:
    """Return the coordinates of columns in an orthonormal basis of few, or the columns where there is none."""
    rng, size, norm = np.random.default_rng(0), FEW_FUNCTIONS, np.linalg.norm(flat)
    while 2 * size <= len(flat):
        Q = np.linalg.qr(flat @ rng.standard_normal((flat.shape[1], size)))[0]
        coordinates = Q.T @ flat
        if np.linalg.norm(flat - Q @ coordinates) <= LEFT_OVER * norm:
            _, s, Vt = np.linalg.svd(coordinates, full_matrices=False)
            kept = s > LEFT_OVER * s[0]
            return s[kept, None] * Vt[kept]
        size *= 2
    return flat


def _nodes(degree: int, most: int = NODES) -> tuple[np.ndarray, np.ndarray]:
    """Return points and weights that integrate polynomials of a degree from 0 to 1 exactly; but at most so many."""
    x, w = np.polynomial.legendre.leggauss(min(degree // 2 + 1, most))
    return (x + 1) / 2, w / 2


# -- a list of terms ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Term:
    """Σ_t C(t) Π_g φ_g(x_g, t): the number of a function for each of its variables, and C, (N, c)."""

    functions: Mapping[int, int]
    C: np.ndarray


class Listed(Expansion):
    """A sum of terms, each a product over some of the variables."""

    def __init__(self, variables, background, predictor, terms: Sequence[Term], *, wide: bool = False):
        super().__init__(variables, background, predictor)
        self.terms, self.wide = terms, wide

    def orders(self) -> Iterator[tuple[int, int]]:
        """Yield every order, and how many components have it: as many sets of variables as terms have."""
        wholes = {tuple(sorted(term.functions)) for term in self.terms}
        for k in range(1, max(map(len, wholes), default=0) + 1):
            bound = sum(math.comb(len(whole), k) for whole in wholes)
            yield k, min(bound, math.comb(len(self.variables), k))

    def subsets(self, most: int) -> list[Subset]:
        """Return the components of at most an order, by order."""
        wholes = {tuple(sorted(term.functions)) for term in self.terms}
        found = {
            S
            for whole in wholes
            for k in range(1, min(most, len(whole)) + 1)
            for S in itertools.combinations(whole, k)
        }
        return sorted(found, key=lambda S: (len(S), S))

    @cached_property
    def _by_variable(self) -> list[set[int]]:
        """The terms that each variable is in."""
        out: list[set[int]] = [set() for _ in self.variables]
        for i, term in enumerate(self.terms):
            for g in term.functions:
                out[g].add(i)
        return out

    def parts(self, S: Subset) -> list[tuple[tuple[int, ...], np.ndarray]]:
        """Return what Π_{g in S} ψ_g is summed with; terms with the same functions on S add up."""
        out: dict[tuple[int, ...], np.ndarray] = {}
        for i in sorted(set.intersection(*(self._by_variable[g] for g in S))):
            functions = self.terms[i].functions
            numbers = tuple(functions[g] for g in S)
            C = self._outside(i, S)
            out[numbers] = out[numbers] + C if numbers in out else C
        return list(out.items())

    @cached_property
    def _around(self) -> dict[int, dict[int, np.ndarray]]:
        """What ``_outside`` has found for single variables, by the term."""
        return {}

    def _outside(self, i: int, S: Subset) -> np.ndarray:
        """Return C(t) Π m_g(t) over the variables of a term that are not in S, (N, c).

        For all single variables of a term at once: one by one would be quadratic in their number.
        """
        term = self.terms[i]
        if len(S) == 1:
            if i not in self._around:
                means = [self.means[g][a] for g, a in term.functions.items()]
                rest = _all_but_each(means, np.ones(self._width), np.multiply)
                self._around[i] = dict(zip(term.functions, rest, strict=True))
            return term.C * self._around[i][S[0]][:, None]
        factor = np.ones(self._width)
        for g, a in term.functions.items():
            if g not in S:
                factor = factor * self.means[g][a]
        return term.C * factor[:, None]

    @cached_property
    def constant(self) -> np.ndarray:
        """The mean under the product of the margins, (c,)."""
        total = np.zeros_like(self.intercept)
        for i in range(len(self.terms)):
            total += self._outside(i, ()).sum(axis=0)
        return self.intercept + total

    def shapley(self, rows: np.ndarray, quick: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the Shapley values of all variables, (n, variables, c).

        Of a product Π_g (m_g + ψ_g), a component over S is shared by |S| variables; as ∫₀¹ u^(|S|-1) du = 1/|S|, the
        part of g is ∫₀¹ ψ_g Π_{h≠g} (m_h + u ψ_h) du, a polynomial in u, which a few points integrate exactly.
        """
        out = np.zeros((len(rows), len(self.variables), self.n_outputs))
        used = [g for g in range(len(self.variables)) if self._by_variable[g]]
        for part in self._row_parts(len(rows), used, copies=4):
            psi = {g: self.centred(g, rows[part][:, self.variables[g].outside]) for g in used}
            for term in self.terms:
                self._share_out(term, psi, out[part], QUICK if quick else NODES)
        return out, np.zeros_like(out), self.constant

    def _share_out(self, term: Term, psi: Mapping[int, np.ndarray], out: np.ndarray, most: int) -> None:
        """Add the Shapley values of one term, with at most so many points."""
        centred = [psi[g][a] for g, a in term.functions.items()]
        means = [self.means[g][a] for g, a in term.functions.items()]
        for u, weight in zip(*_nodes(max(len(means) - 1, 0), most), strict=True):
            mixed = [m + u * p for m, p in zip(means, centred, strict=True)]
            rest = _all_but_each(mixed, np.ones_like(centred[0]), np.multiply) if mixed else []
            for g, p, others in zip(term.functions, centred, rest, strict=True):
                out[:, g] += weight * ((p * others) @ term.C)

    def changes(self, rows: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Return how f changes when one variable is as in other rows, (n, variables, c)."""
        out = np.zeros((len(rows), len(self.variables), self.n_outputs))
        used = [g for g in range(len(self.variables)) if self._by_variable[g]]
        for part in self._row_parts(len(rows), used, copies=4):
            here = {g: self._functions_at(g, rows[part]) for g in used}
            there = {g: self._functions_at(g, others[part]) for g in used}
            for term in self.terms:
                factors = [here[g][a] for g, a in term.functions.items()]
                rest = _all_but_each(factors, np.ones_like(factors[0]), np.multiply) if factors else []
                for (g, a), own, beside in zip(term.functions.items(), factors, rest, strict=True):
                    out[part, g] += ((there[g][a] - own) * beside) @ term.C
        return out


def _all_but_each(
    factors: Sequence[np.ndarray], one: np.ndarray, product: Callable[..., np.ndarray]
) -> list[np.ndarray]:
    """Return, for each of some factors, the product of all others, three products for each."""
    ahead = [one]
    for factor in factors[:-1]:
        ahead.append(product(ahead[-1], factor))
    behind, out = one, list(ahead)
    for k in range(len(factors) - 1, -1, -1):
        out[k] = product(ahead[k], behind)
        behind = product(behind, factors[k])
    return out


# -- all products of at most D kernels -----------------------------------------------------------------------


class PowerSum(Expansion):
    """Σ_t C(t) Σ_d weights_d [s^d] Π_g P_g(x_g, t; s): all products of at most D kernels, without listing them.

    Parameters
    ----------
    variables : list of Variable
        Their functions are the coefficients of s, ..., s^D in P_g, which begins with 1.
    background, predictor
    weights : (D + 1,) array
        Of the degrees, from 0 on.
    C : (N, c) array
    """

    def __init__(self, variables, background, predictor, weights: np.ndarray, C: np.ndarray):
        super().__init__(variables, background, predictor)
        self.weights, self.C = weights, C

    @property
    def degree(self) -> int:
        """D."""
        return len(self.weights) - 1

    def orders(self) -> Iterator[tuple[int, int]]:
        """Yield every order up to D, and how many components have it."""
        for k in range(1, min(self.degree, len(self.variables)) + 1):
            yield k, math.comb(len(self.variables), k)

    def subsets(self, most: int) -> list[Subset]:
        """Return all sets of at most D variables, by order."""
        most = min(most, self.degree, len(self.variables))
        return [S for k in range(1, most + 1) for S in itertools.combinations(range(len(self.variables)), k)]

    @cached_property
    def _mean_series(self) -> list[np.ndarray]:
        """The mean polynomials, (D + 1, N) each."""
        return [np.concatenate([np.ones((1, self._width)), m]) for m in self.means]

    @cached_property
    def _whole(self) -> np.ndarray:
        """The product of all mean polynomials."""
        total = self._mean_series[0]
        for series in self._mean_series[1:]:
            total = times(total, series)
        return total

    @cached_property
    def constant(self) -> np.ndarray:
        """The mean under the product of the margins, (c,)."""
        return self.intercept + (self.weights @ self._whole) @ self.C

    def parts(self, S: Subset) -> list[tuple[tuple[int, ...], np.ndarray]]:
        """Return what Π_{g in S} ψ_g is summed with: a part for each way to share out at most D degrees."""
        rest = self._whole
        for g in S:
            rest = divided(rest, self._mean_series[g])
        out = []
        for degrees in itertools.product(range(1, self.degree - len(S) + 2), repeat=len(S)):
            left = self.degree - sum(degrees)
            if left >= 0:
                factor = self.weights[sum(degrees) :] @ rest[: left + 1]
                out.append((tuple(d - 1 for d in degrees), self.C * factor[:, None]))
        return out

    def shapley(self, rows: np.ndarray, quick: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the Shapley values of all variables, (n, variables, c); see :meth:`Listed.shapley`."""
        out = np.zeros((len(rows), len(self.variables), self.n_outputs))
        used = range(len(self.variables))
        for part in self._row_parts(len(rows), used, copies=4):
            psi = [self.centred(g, rows[part][:, self.variables[g].outside]) for g in used]
            for u, weight in zip(*_nodes(self.degree - 1), strict=True):
                series = [self._mixed(m, p, u) for m, p in zip(self.means, psi, strict=True)]
                one = np.zeros_like(series[0])
                one[0] = 1.0
                for g, others in enumerate(_all_but_each(series, one, times)):
                    found = np.tensordot(self.weights[1:], times(others[:-1], psi[g]), axes=1)
                    out[part, g] += weight * (found @ self.C)
        return out, np.zeros_like(out), self.constant

    def changes(self, rows: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Return how f changes when one variable is as in other rows, (n, variables, c)."""
        out = np.zeros((len(rows), len(self.variables), self.n_outputs))
        used = range(len(self.variables))
        for part in self._row_parts(len(rows), used, copies=4):
            here = [self._functions_at(g, rows[part]) for g in used]
            one = np.zeros((self.degree + 1, *here[0].shape[1:]))
            one[0] = 1.0
            series = [np.concatenate([one[:1], own]) for own in here]
            for g, rest in enumerate(_all_but_each(series, one, times)):
                change = times(rest[:-1], self._functions_at(g, others[part]) - here[g])
                out[part, g] = np.tensordot(self.weights[1:], change, axes=1) @ self.C
        return out

    @staticmethod
    def _mixed(means: np.ndarray, psi: np.ndarray, u: float) -> np.ndarray:
        """Return the polynomial 1 + Σ_a (m_a + u ψ_a) s^a."""
        mixed = means[:, None] + u * psi
        return np.concatenate([np.ones((1, *mixed.shape[1:])), mixed])
