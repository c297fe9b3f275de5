"""Columns by their names: what tables in memory, batches and files have in common."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np

from .._util.text import brief, warn
from ..tables.reading import float_type, refuse_uncollected


class ColumnError(ValueError):
    """A column that cannot be used as it is.

    Parameters
    ----------
    column : str
        Its name.
    fault : str
        What is wrong with it.
    remedy : str
        What to do about it from Python; the command line has words of its own for that.
    """

    def __init__(self, column: str, fault: str, remedy: str):
        super().__init__(column, fault, remedy)
        self.column, self.fault, self.remedy = column, fault, remedy

    def __str__(self) -> str:
        return f"{self.fault}; {self.remedy}"


class MissingColumn(ColumnError):
    """A column that is asked for, and is not there."""


class NotNumbers(ColumnError):
    """A column to predict from that holds text, or dates."""


class NewColumn(ColumnError):
    """A column that only some of the files have."""


def matrix(columns: Sequence[Any], names: Sequence[str]) -> np.ndarray:
    """Return columns of numbers side by side; others are refused by their name."""
    arrays = [np.asarray(c) for c in columns]
    for name, values in zip(names, arrays, strict=True):
        if values.dtype.kind not in "biuf" or values.ndim != 1:
            raise not_numbers(name, "text" if values.dtype.kind in "OUT" else str(values.dtype))
    X: np.ndarray = np.empty((len(arrays[0]), len(arrays)), dtype=float_type([a.dtype for a in arrays]))
    for j, values in enumerate(arrays):
        X[:, j] = values
    return X


def not_numbers(name: str, kind: str) -> NotNumbers:
    """Return the refusal of a column."""
    return NotNumbers(
        name,
        f"Column {brief(name)} holds {kind}, not numbers",
        "encode it as numbers first, or leave it out with "
        f"manykernels.streaming.open_source(..., drop=[{name!r}]).",
    )


def missing_column(absent: Sequence[str], names: Sequence[str]) -> MissingColumn:
    """Return the refusal of names that are not among those of the columns."""
    name, several = absent[0], len(absent) > 1
    small = {known.casefold(): known for known in names}
    near = [] if several else [small[found] for found in get_close_matches(name.casefold(), small, n=1)]
    have = ", ".join(names[:8]) + (" and more" if len(names) > 8 else "")
    hint = f"did you mean {brief(near[0])}?" if near else f"there are {have or 'no names at all'}."
    if names and all(map(_is_number, names)):
        hint = (
            f"the first line holds numbers ({have}), and not the names of the columns; add a line of names."
        )
    more = f" and {len(absent) - 8:,} more" if len(absent) > 8 else ""
    fault = (
        f"There are no columns {', '.join(map(brief, absent[:8]))}{more}"
        if several
        else f"There is no column {brief(name)}"
    )
    return MissingColumn(name, fault, hint)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def columns_of(table, wanted: Iterable[str]) -> list[Any]:
    """Return columns of a dict, DataFrame or Arrow table."""
    wanted, names = list(wanted), names_of(table) or ()
    refuse_missing_columns(wanted, names)
    return [table[name] for name in wanted]


def refuse_missing_columns(wanted: Iterable[str], names: Sequence[str]) -> None:
    """Raise MissingColumn for wanted columns that are not among the names."""
    known = set(names)
    absent = [name for name in dict.fromkeys(wanted) if name not in known]
    if absent:
        raise missing_column(absent, names)


def names_of(table) -> tuple[str, ...] | None:
    """Return the names of a table's columns, None where it has none."""
    if isinstance(table, Mapping):
        return tuple(table)
    refuse_uncollected(table)  # which knows names, at a cost, and no rows
    if hasattr(table, "column_names"):  # Arrow
        return tuple(table.column_names)
    if hasattr(table, "columns"):  # pandas, polars
        return tuple(map(str, table.columns)) if all(isinstance(c, str) for c in table.columns) else None
    return None


def is_names(value) -> bool:
    """Whether a value is a name, or several."""
    return isinstance(value, str) or (
        isinstance(value, list | tuple) and bool(value) and all(isinstance(v, str) for v in value)
    )


def listed(value) -> tuple[str, ...]:
    """Return one name, or several, or none, as a tuple."""
    return () if value is None else (value,) if isinstance(value, str) else tuple(value)


#: What is said of a column with an empty name.
UNNAMED = (
    "A column without a name is left out, as DataFrame.to_csv writes an index like that; write the file with "
    "index=False, or give the column a name to predict from it."
)


def index_of(table) -> tuple[str, ...]:
    """Return the columns in which pandas has stored an index, by the metadata of an Arrow schema or of its table."""
    stored = getattr(getattr(table, "schema", table), "pandas_metadata", None) or {}
    return tuple(name for name in stored.get("index_columns", ()) if isinstance(name, str))


def choose(names, labels, features, columns, drop, *, index=(), first=True) -> tuple[str, ...]:
    """Return the features among the columns `names`: those asked for, or all that are left.

    Left out are labels, what is dropped, columns of an `index`, and columns without a name, with a
    warning the `first` time.
    """
    # Sets throughout: tables of many thousand columns must not take seconds.
    seen = set(names)
    if len(seen) < len(names):
        twice = [name for name, times in Counter(names).items() if times > 1]
        called = ", and two called ".join(brief(name) for name in twice[:8])
        if "" in twice:
            raise ValueError(f"{names.count('')} columns have no name; give them names in the first line.")
        raise ValueError(
            f"There are two columns called {called}; rename one{' of each' if len(twice) > 1 else ''}."
        )
    given = () if features is None else features
    refuse_missing_columns((*labels, *given, *(columns or ()), *(drop or ())), names)
    if features is not None:
        return tuple(features)
    roles = set(labels)
    if columns is not None:
        return tuple(name for name in columns if name not in roles)
    out = roles.union(drop or ())
    if first and "" in seen - out:
        warn(UNNAMED)
    out |= {"", *index}
    left = tuple(name for name in names if name not in out)
    if not left:
        remedy = "leave fewer out" if drop else "the table needs more than the target"
        raise ValueError(f"No column is left to predict from; {remedy}.")
    return left


def predict_rows(model, X: Any, method: str = "predict") -> np.ndarray:
    """Return predictions for rows whose columns are in the model's order, with or without names."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        return getattr(model, method)(X)
