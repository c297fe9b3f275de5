"""What the components say of single columns: Shapley values per row, and Sobol shares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._util.threads import one_blas_thread
from ..tables import Origin
from .anova import as_table, components, over_outputs
from .reading import Reader, all_columns, origins_of, predictor_of, read, rows_of
from .sampling import Sampled, totals

#: Products over rows, support rows and pairs of columns that importances may take, and fewest and most rows for them.
WORK, EXPLAINED = 4 * 10**8, (16, 128)


@dataclass(frozen=True, eq=False)
class Shapley:
    """Shapley values of rows: what each column adds to a prediction, see :func:`shapley`.

    ``np.asarray`` gives the values.

    Attributes
    ----------
    values : array of shape (n, d), or (n, d, c) for several outputs
        One column per variable, which is a column of the table unless kernels join several.
    names : list of str
    columns : list of tuples of int
        The table's columns of each variable.
    constant : float, or (c,) array
        The mean of the prediction under the product of the margins: what the values are added to.
    errors : array in the shape of the values
        Standard errors where they are estimates, else 0.
    """

    values: np.ndarray
    names: list[str]
    columns: list[tuple[int, ...]]
    constant: Any
    errors: np.ndarray

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.values, dtype=dtype) if copy or copy is None else np.asarray(self.values, dtype)

    def __len__(self) -> int:
        return len(self.values)

    def table(self) -> Any:
        """Return the mean absolute value of every variable, summed over the outputs, as a DataFrame, largest first."""
        sizes = over_outputs(np.abs(self.values).mean(axis=0))
        records = [
            {"columns": self.columns[k], "name": self.names[k], "mean_absolute": float(sizes[k])}
            for k in np.argsort(-sizes, kind="stable").tolist()
        ]
        return as_table(records, ["columns", "name", "mean_absolute"])


@one_blas_thread()
def shapley(model: Any, rows: Any, background: Any) -> Shapley:
    """Return Shapley values: a component of the prediction is shared equally among its columns.

    They are those of the game in which a set of columns is worth the mean prediction with these columns known and all
    others drawn from their margins, each on its own; added up over the columns they are the prediction minus the mean
    under the margins. Exact, and over interactions of all orders, wherever :func:`components` is: of a product over
    columns they are a polynomial's integral. Estimates for predictors on random features, from random orders of the
    columns.

    Parameters
    ----------
    model : fitted MKLRegressor or MKLClassifier
    rows : rows to explain
    background : rows whose margins columns are drawn from

    Returns
    -------
    Shapley
        Of the scores, as in :func:`components`.

    Notes
    -----
    Cost: O(n N d min(d, 128)) for kernels over d columns and N support rows; no set of columns is listed.

    References
    ----------
    Owen (2014), *Sobol' indices and Shapley value*; Štrumbelj, Kononenko (2014), *Explaining prediction models and
    individual predictions with feature contributions*.
    """
    expansion = read(model, background)
    found, deviations, constant = expansion.shapley(rows_of(model, rows, "rows"))
    place, players = _players(expansion.variables, all_columns(model, expansion.background.shape[1]))
    values, errors = np.zeros((2, len(found), len(players), found.shape[2]))
    values[:, place], errors[:, place] = found, deviations
    single = values.shape[2] == 1
    return Shapley(
        values=values[:, :, 0] if single else values,
        names=[player.name for player in players],
        columns=[player.inside for player in players],
        constant=float(constant[0]) if single else constant,
        errors=errors[:, :, 0] if single else errors,
    )


@one_blas_thread()
def importances(model: Any, rows: np.ndarray) -> np.ndarray:
    """Return the importance of every column of the table: its mean absolute Shapley value, in shares of their sum.

    Several outputs are added up. A variable that joins several columns counts for each of them in equal parts.

    Parameters
    ----------
    model : fitted MKLRegressor or MKLClassifier
    rows : (n, d) array
        As the predictor sees them. Their margins are those that columns are drawn from; some of them, evenly spread,
        are explained: as many as are quickly done, 16 to 128.

    Returns
    -------
    (n_features,) array
        Adds up to 1, or is 0 throughout for a constant.
    """
    predictor = predictor_of(model)
    expansion = Reader(predictor, rows, origins_of(model, rows.shape[1])).expansion()
    support = getattr(predictor, "rows", None)
    work = max(1, len(predictor.combination) * rows.shape[1] ** 2) * (
        1 if support is None else support.shape[0]
    )
    count = min(len(rows), int(np.clip(WORK // work, *EXPLAINED)))
    some = np.linspace(0, len(rows) - 1, count).astype(int)
    sizes = np.abs(expansion.shapley(rows[some], quick=True)[0]).mean(axis=0).sum(axis=1)
    out = np.zeros(model.n_features_in_)
    variables: Sequence[Any] = expansion.variables
    for g, variable in enumerate(variables):
        out[list(variable.inside)] += sizes[g] / len(variable.inside)
    return out / (out.sum() or 1.0)


def _players(variables: Any, everything: list[Origin]) -> tuple[list[int], list[Origin]]:
    """Return the places of variables among all columns of the table, and these; joined columns are one."""
    known = {j for v in variables for j in v.inside}
    players = [Origin(v.name, v.inside, v.outside) for v in variables]
    players += [o for o in everything if not known & {*o.inside}]
    order = sorted(range(len(players)), key=lambda k: players[k].inside)
    place = {k: at for at, k in enumerate(order)}
    return [place[k] for k in range(len(variables))], [players[k] for k in order]


@dataclass(frozen=True, eq=False)
class Shares:
    """Sobol shares of the columns, see :func:`shares`.

    Attributes
    ----------
    names : list of str
    columns : list of tuples of int
    first, total : (d,) arrays
    first_error, total_error : (d,) arrays
        Standard errors of sampling; 0 where a share is in closed form.
    """

    names: list[str]
    columns: list[tuple[int, ...]]
    first: np.ndarray
    total: np.ndarray
    first_error: np.ndarray
    total_error: np.ndarray

    def table(self) -> Any:
        """Return the shares as a DataFrame, largest total first; without pandas, as a list of records."""
        fields = ["first", "total", "first_error", "total_error"]
        records = [
            {"columns": self.columns[k], "name": self.names[k]}
            | {field: float(getattr(self, field)[k]) for field in fields}
            for k in np.argsort(-self.total, kind="stable").tolist()
        ]
        return as_table(records, ["columns", "name", *fields])


@one_blas_thread()
def shares(model: Any, background: Any) -> Shares:
    """Return every column's shares of the variance of the prediction under the product of the margins (Sobol).

    The first-order share is that of its main effect alone, the total that of all components it is in: what would be
    lost if its value were not known. Several outputs are added up.

    Parameters
    ----------
    model : fitted MKLRegressor or MKLClassifier
    background : rows whose margins count

    Returns
    -------
    Shares
        In closed form where all components are listed; else totals are estimates.

    References
    ----------
    Sobol (1993), *Sensitivity estimates for nonlinear mathematical models*; Jansen (1999), *Analysis of variance
    designs for model output*.
    """
    found = components(model, background)
    expansion, pooled = found._expansion, found._pooled
    all_variance = pooled.sum() or 1.0
    place, players = _players(expansion.variables, all_columns(model, expansion.background.shape[1]))
    first, total, first_error, total_error = np.zeros((4, len(players)))
    errors = over_outputs(found._errors)
    for k, S in enumerate(found._subsets):
        for g in S:
            total[place[g]] += pooled[k]
        if len(S) == 1:
            first[place[S[0]]], first_error[place[S[0]]] = pooled[k], errors[k]
    if len(found._subsets) < len(found.components):
        # A total is between what is listed and that with all of the rest; where that leaves much, it is estimated.
        half = pooled[-1] / 2
        drawn, errors = (t.sum(axis=1) for t in totals(expansion))
        narrow = (half <= errors) & (not isinstance(expansion, Sampled))
        total[place] = np.where(narrow, total[place] + half, drawn)
        total_error[place] = np.where(narrow, half, errors)
    return Shares(
        [p.name for p in players],
        [p.inside for p in players],
        *(part / all_variance for part in (first, total, first_error, total_error)),
    )
