"""The functional ANOVA of a fitted predictor: a constant, main effects and interactions that do not overlap."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .._util.html import bar_table, curve
from .._util.text import brief
from .._util.threads import one_blas_thread
from .expansion import Expansion, Subset, Variances
from .reading import read
from .sampling import Sampled
from .units import Units

#: So many components are listed at most; of kernels that are products over many columns all orders up to so many,
#: else those up to an order.
MOST, MOST_OF_ALL_ORDERS, WIDE_ORDER = 5000, 300, 3
#: A component whose variance is less than this share of all carries nothing but rounding.
NOTHING = 1e-24
#: Rows that standard errors of shares are taken from.
ERROR_ROWS = 512


@dataclass(frozen=True, eq=False)
class Effect:
    """A component on a grid, in the columns' own units.

    Attributes
    ----------
    component : tuple of int
    name : str
    columns : tuple of str
        Names of the axes.
    grid : tuple of arrays
        Values of the columns, one array per axis.
    values : array of shape (n_1, ..., n_k), or (n_1, ..., n_k, c) for several outputs
    errors : array of the same shape
        Standard errors where they are estimates, else 0.
    """

    component: tuple[int, ...]
    name: str
    columns: tuple[str, ...]
    grid: tuple[np.ndarray, ...]
    values: np.ndarray
    errors: np.ndarray


@dataclass(frozen=True, eq=False)
class Components:
    """A fitted predictor as a constant and components that add up to it; see :func:`components`.

    Attributes
    ----------
    components : list of tuples of int
        The columns of each. The last is ``()`` where there is a rest that is not listed.
    names : list of str
    orders : (k,) array of int
        How many variables each has; of the rest, the lowest.
    constant : float, or (c,) array
        The mean of the prediction under the product of the margins.
    variances : (k,) or (k, c) array
        Of each component, under the product of the margins.
    exact : (k,) array of bool
        Whether the variance is in closed form, and no estimate.
    n_rows : int
        Rows of the background.
    """

    components: list[tuple[int, ...]]
    names: list[str]
    orders: np.ndarray
    constant: Any
    variances: np.ndarray
    exact: np.ndarray
    n_rows: int
    _subsets: list[Subset]
    _errors: np.ndarray
    _expansion: Expansion | Sampled
    _units: Units

    @property
    def shares(self) -> np.ndarray:
        """Each component's share of the sum of all variances, those of several outputs added up, (k,)."""
        total = self._pooled.sum()
        return self._pooled / total if total > 0 else np.zeros(len(self.components))

    @property
    def _pooled(self) -> np.ndarray:
        return over_outputs(self.variances)

    @property
    def column_names(self) -> dict[int, str]:
        """Names of the columns, by their numbers; of those that kernels join with others, there are none."""
        alone = [v for v in self._expansion.variables if len(v.inside) == 1]  # type: ignore[attr-defined]
        return {v.inside[0]: v.name for v in alone}

    @cached_property
    def values(self) -> np.ndarray:
        """Every component at every row of the background, (n, k), or (n, k, c) for several outputs."""
        return self._estimates[0]

    @property
    def value_errors(self) -> np.ndarray:
        """Standard errors of ``values`` where these are estimates, else 0; in the same shape."""
        return self._estimates[1]

    @cached_property
    def _estimates(self) -> tuple[np.ndarray, np.ndarray]:
        found = self._at(self._expansion.background)
        single = self._expansion.n_outputs == 1
        return found if not single else (found[0][:, :, 0], found[1][:, :, 0])

    def _at(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return all components at rows and their errors, (n, k, c); the rest is what they leave of the scores."""
        values, errors = self._expansion.estimates(rows, self._subsets)
        if len(self._subsets) == len(self.components):
            return values, errors
        left = self._expansion.scores(rows) - self._expansion.constant - values.sum(axis=1)
        left_errors = np.sqrt(np.square(errors).sum(axis=1))
        return np.concatenate([values, left[:, None]], 1), np.concatenate([errors, left_errors[:, None]], 1)

    @cached_property
    def standard_errors(self) -> np.ndarray:
        """Standard errors of the shares, (k,).

        With q_t(S) the squares of a component at row t, added up over the outputs, a share is Σ_t q_t(S)/Σ_t Σ_R q_t(R)
        up to the dependence between the columns, and its error that of a ratio of means over the rows. Where a variance
        is an estimate, the error of sampling is added.
        """
        if not len(self.components):
            return np.empty(0)
        background = self._expansion.background
        some = np.linspace(0, len(background) - 1, min(ERROR_ROWS, len(background))).astype(int)
        total = self._pooled.sum() or 1.0
        drawn = np.sqrt(over_outputs(np.square(self._errors))) / total
        if isinstance(self._expansion, Sampled):  # the points that it was estimated from stand for the rows
            return drawn
        squares = np.square(self._at(background[some])[0]).sum(axis=2)
        sums = squares.sum(axis=1, keepdims=True)  # where columns go together, their mean is not the total
        ratio = (squares - self.shares * sums) / (sums.mean() or 1.0)
        return np.hypot(ratio.std(axis=0) / math.sqrt(len(background)), drawn)

    def records(self) -> list[dict[str, Any]]:
        """Return one record per component, largest share first: see :meth:`table`."""
        shares, errors = self.shares, self.standard_errors
        return [
            {
                "component": self.components[k],
                "name": self.names[k],
                "order": int(self.orders[k]),
                "share": float(shares[k]),
                "standard_error": float(errors[k]),
                "exact": bool(self.exact[k]),
            }
            for k in np.argsort(-shares, kind="stable").tolist()
        ]

    def table(self) -> Any:
        """Return the components as a DataFrame, largest share first; without pandas, as :meth:`records`.

        ``component`` is a tuple of column numbers, ``name`` readable, ``order`` the number of variables, ``share`` that
        of the sum of all components' variances under the product of the margins, ``standard_error`` that of the share
        over rows like those of the background, ``exact`` whether the variance is in closed form.
        """
        return as_table(self.records(), ["component", "name", "order", "share", "standard_error", "exact"])

    def _repr_html_(self) -> str:
        """Return the largest components as a table with bars, and the largest curves, for notebooks."""
        records = self.records()
        columns = {"name": "Component", "order": "Order", "share": "Share", "standard_error": "± error"}
        return bar_table(records, columns, "share", percentages=("standard_error",)) + "".join(self._curves())

    def _curves(self, most: int = 4) -> Iterator[str]:
        """Yield pictures of the largest main effects of numbers."""
        for k in np.argsort(-self.shares, kind="stable").tolist():
            if most and self.orders[k] == 1 and len(self.components[k]) == 1:
                effect = self.effect(self.names[k])
                values = effect.values if effect.values.ndim == 1 else effect.values[:, 0]
                if effect.grid[0].dtype.kind in "iuf":
                    most -= 1
                    yield curve(effect.grid[0].tolist(), values.tolist(), effect.name)

    def effect(self, component: Any, grid: Any = None) -> Effect:
        """Return a component on a grid, in the units of the columns.

        Parameters
        ----------
        component : tuple of int, int or str
            Columns, a column, or a name as in the table.
        grid : array, or one array per column, optional
            Values of the column or columns; levels of categories. By default 101 values from the 1 % to the 99 %
            quantile of the background (33 for each of two columns, 11 for each of more), or all of them where there are
            few.

        Returns
        -------
        Effect
        """
        k = self._number(component)
        S = self._subsets[k]
        variables = [self._expansion.variables[g] for g in S]
        values, rows = self._units.grids(variables, grid)
        found, errors = self._expansion.on_grid(S, rows)
        single = found.shape[-1] == 1
        return Effect(
            component=self.components[k],
            name=self.names[k],
            columns=tuple(v.name for v in variables),
            grid=tuple(values),
            values=found[..., 0] if single else found,
            errors=errors[..., 0] if single else errors,
        )

    def _number(self, component: Any) -> int:
        """Return the place of a component, or say that there is none."""
        if isinstance(component, str) and component in self.names[: len(self._subsets)]:
            return self.names.index(component)
        if not isinstance(component, str):
            wanted = tuple(np.atleast_1d(np.asarray(component)).tolist())
            for order in (wanted, tuple(sorted(wanted))):
                if order in self.components[: len(self._subsets)]:
                    return self.components.index(order)
        few = ", ".join(self.names[k] for k in np.argsort(-self.shares)[:5])
        raise ValueError(
            f"component {brief(component)} is not among the components, of which the largest are {few}; pass one of "
            "`components`, or a name from the table."
        )


@one_blas_thread()
def components(model: Any, background: Any, *, order: int | None = None) -> Components:
    """Split a fitted predictor into a constant, main effects and interactions that do not overlap.

    The functional ANOVA: f(x) = constant + Σ_S f_S(x_S), where f_S is a function of the columns in S whose mean over
    any one of them, the others fixed, is zero under the product of the margins of `background`. Components are
    orthogonal under that product, so that an effect cannot wander between a main effect and an interaction.

    - **Exact**, by means over the margins: products of columns; products of base kernels, with one power series per
      column where the sum of all of them is one kernel; Gaussian and Laplacian kernels, which are products over the
      columns; linear kernels; sums of all these; categories are one column, and so is a number with its gaps.
    - A kernel that is no product over its columns makes one variable of them, and so does a view.
    - Kernels on many columns have interactions of all orders. Those above the third are listed as one rest, ``()``,
      whose variance is an estimate from 512 points.
    - Predictors on random features (Blockwise, TriplyStochastic) are known by samples only: values and shares are
      estimates, ``exact`` is False, and pairs are listed where they are surely not zero.

    Parameters
    ----------
    model : fitted MKLRegressor or MKLClassifier
    background : rows, such as those that the model was fitted on
        Their margins are what means are taken over.
    order : int, optional
        The highest order to list; everything above is the rest. By default all orders of products of at most D
        factors, and three where kernels are products over many columns.

    Returns
    -------
    Components
        Of the scores: predictions in regression, logarithms of expected counts with the Poisson loss, the decision
        function of classes. With several outputs, targets or classes, arrays have them along a last axis, and shares
        are of the variances added up over the outputs.

    Notes
    -----
    Cost: O(n N) for every part of every component at n rows, with N support rows; one for products of columns.

    References
    ----------
    Hoeffding (1948), *A class of statistics with asymptotically normal distribution*; Sobol (1993), *Sensitivity
    estimates for nonlinear mathematical models*; Durrande, Ginsbourger, Roustant, Carraro (2013), *ANOVA kernels and
    RKHS of zero mean functions for model-based sensitivity analysis*.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import MKLRegressor
    >>> from manykernels.families import Products
    >>> from manykernels.findings import components
    >>> X = np.random.default_rng(0).uniform(0, 1, (200, 3))
    >>> model = MKLRegressor(Products(degree=2), C=1e6).fit(X, X[:, 0] * X[:, 1])
    >>> [name for name, share in zip(components(model, X).names, components(model, X).shares) if share > 0.01]
    ['x0', 'x1', 'x0 × x1']
    """
    if order is not None and (not isinstance(order, int | np.integer) or order < 1):
        raise ValueError(f"order is {brief(order)}; it must be a whole number, at least 1, or None.")
    expansion = read(model, background)
    most = _highest(expansion) if order is None else int(order)
    subsets = expansion.subsets(most)
    complete = not isinstance(expansion, Sampled) and most >= max(
        (k for k, _ in expansion.orders()), default=0
    )
    found = expansion.variances(subsets, complete)
    return _assembled(expansion, subsets, found, None if complete else most, Units(model, background))


def _highest(expansion: Expansion | Sampled) -> int:
    """Return the highest order whose components, with those of lower orders, are few enough to be listed."""
    total, highest = 0, 1
    for k, count in expansion.orders():
        total += count
        if total > MOST and k > 1:
            break
        highest = k
    return min(highest, WIDE_ORDER) if expansion.wide and total > MOST_OF_ALL_ORDERS else highest


def _assembled(
    expansion: Expansion | Sampled, subsets: list[Subset], found: Variances, most: int | None, units: Units
) -> Components:
    """Return the components that carry anything, and the rest where there is one."""
    total = found.values.sum() + found.rest.sum()
    sampled = isinstance(expansion, Sampled)  # zero may then be an estimate
    kept = np.flatnonzero(sampled | (found.values.sum(axis=1) > NOTHING * total)).tolist()
    subsets, named = [subsets[k] for k in kept], [[expansion.variables[g] for g in subsets[k]] for k in kept]
    variances, errors, exact = found.values[kept], found.errors[kept], found.exact[kept]
    listed = [tuple(sorted(j for v in variables for j in v.inside)) for variables in named]
    names, orders = [" × ".join(v.name for v in variables) for variables in named], [len(S) for S in subsets]
    if most is not None and (sampled or found.rest.sum() > NOTHING * total):
        listed.append(())
        names.append("everything else" if sampled else f"order {most + 1} and above")
        orders.append(2 if sampled else most + 1)
        variances, errors = np.vstack([variances, found.rest]), np.vstack([errors, found.rest_error])
        exact = np.append(exact, False)
    single = expansion.n_outputs == 1
    return Components(
        components=listed,
        names=names,
        orders=np.array(orders, dtype=int),
        constant=float(expansion.constant[0]) if single else expansion.constant,
        variances=variances[:, 0] if single else variances,
        exact=exact,
        n_rows=len(expansion.background),
        _subsets=subsets,
        _errors=errors[:, 0] if single else errors,
        _expansion=expansion,
        _units=units,
    )


def over_outputs(values: np.ndarray) -> np.ndarray:
    """Return the sum over all axes but the first."""
    return values.sum(axis=tuple(range(1, values.ndim)))


def as_table(records: Sequence[dict[str, Any]], columns: Sequence[str]) -> Any:
    """Return records as a DataFrame, or as they are where there is no pandas."""
    try:
        from pandas import DataFrame
    except ImportError:
        return list(records)
    return DataFrame(records, columns=list(columns))
