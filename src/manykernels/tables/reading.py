"""Tables of all kinds as columns of four: numbers, flags, dates, and categories.

NumPy arrays, sparse matrices and lists of rows are read here, DataFrames and Arrow tables through narwhals.
"""

from __future__ import annotations

import datetime as dt
import math
import numbers
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

import narwhals as nw
import numpy as np
import scipy.sparse as sp

from .._util.text import brief

#: What a column holds: "empty" has missing values only, "unusable" is neither of the others.
Held = Literal["number", "flag", "date", "category", "empty", "unusable"]
#: Seconds in the units of NumPy's dates and durations, and such units in a second.
SECONDS = {"W": 604800, "D": 86400, "h": 3600, "m": 60, "s": 1}
PER_SECOND = {"ms": 1e3, "us": 1e6, "ns": 1e9, "ps": 1e12, "fs": 1e15, "as": 1e18}
#: pandas' own values for what is missing, by name, as pandas need not be installed.
PANDAS_MISSING = {"NAType", "NaTType"}
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True, eq=False)
class Column:
    """One column, read.

    Parameters
    ----------
    held : what it holds
    values : array of shape (n,)
        float64, NaN where a value is missing; of a category, objects that are str, or None where it is missing.
    words : str
        What an unusable column holds, for a message.
    """

    held: Held
    values: np.ndarray
    words: str = ""


@dataclass(frozen=True, eq=False)
class Table:
    """Columns by position, read when they are asked for.

    Parameters
    ----------
    names : tuple of str
        Names of all columns; ``x0, x1, ...`` if they have none.
    named : bool
        Whether the table itself has names, all of them text.
    n_rows : int
    series : columns as they are, NumPy arrays or series of narwhals
    """

    names: tuple[str, ...]
    named: bool
    n_rows: int
    series: Sequence[Any]

    def read(self, j: int) -> Column:
        """Return column j."""
        series = self.series[j]
        return _from_array(series) if isinstance(series, np.ndarray) else _from_series(series)

    def call(self, j: int) -> str:
        """Return how a message calls column j."""
        return call(self.names[j], j, self.named)


def call(name: str, j: int, named: bool) -> str:
    """Return how a message calls a column: by name, else by position."""
    return f"column {brief(name)}" if named else f"column {j}"


# -- tables --------------------------------------------------------------------------------------------


def open_table(X: Any) -> Table:
    """Return a NumPy array, sparse matrix, DataFrame, Arrow table or list of rows as columns.

    Raises
    ------
    ValueError
        If it is none of these, has no columns, or has two columns of one name.
    """
    if sp.issparse(X):
        X = X.toarray()
    elif isinstance(X, list | tuple):
        X = _from_lists(X)
    if isinstance(X, np.ndarray):
        return _open_array(np.asarray(X))
    _refuse_twins(X)
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        raise ValueError(
            f"X is a {type(X).__name__}; use an array of two dimensions, a DataFrame that is in memory, "
            "an Arrow table, or a list of rows. Reshape your data if it is a single column or row."
        )
    labels = list(frame.columns)
    _refuse_none(frame.shape)
    named = all(isinstance(label, str) for label in labels)
    return Table(tuple(map(str, labels)), named, frame.shape[0], list(frame.iter_columns()))


def _open_array(X: np.ndarray) -> Table:
    if X.ndim != 2:
        raise ValueError(
            f"X has {X.ndim} dimension{'s' * (X.ndim != 1)}; use rows and columns. Reshape your data with "
            "X.reshape(-1, 1) if it is a single column, or X.reshape(1, -1) if it is a single row."
        )
    if X.dtype.kind == "c":
        raise ValueError("Complex data not supported: X holds complex numbers; use their parts as columns.")
    _refuse_none(X.shape)
    return Table(tuple(f"x{j}" for j in range(X.shape[1])), False, len(X), list(X.T))


def _from_lists(rows: Sequence[Any]) -> np.ndarray:
    """Return rows, each a list or tuple or array of values, as objects."""
    if not rows or not all(isinstance(row, list | tuple | np.ndarray) for row in rows):
        return np.asarray(rows, dtype=object) if not rows else np.empty(len(rows), dtype=object)
    width = len(rows[0])
    for i, row in enumerate(rows):
        if len(row) != width:
            raise ValueError(
                f"Row {i} of X has {len(row)} values, and row 0 has {width}; use rows of one length."
            )
    X = np.empty((len(rows), width), dtype=object)
    for i, row in enumerate(rows):
        for j, value in enumerate(row):  # one by one, as a value may be a list
            X[i, j] = value
    return X


def _refuse_none(shape: tuple[int, int]) -> None:
    if not shape[1]:
        raise ValueError(f"X has 0 feature(s) (shape={shape}) while a minimum of 1 is required.")


def _refuse_twins(X: Any) -> None:
    """Refuse columns of one name, all of them at once; only Arrow and pandas can have them."""
    labels = getattr(X, "column_names", getattr(X, "columns", ()) if hasattr(X, "iloc") else ())
    twins = [name for name, times in Counter(labels).items() if times > 1]
    if twins:
        names = ", ".join(brief(name) for name in twins)
        raise ValueError(f"X has more than one column called {names}; rename or drop all but one.")


# -- columns -------------------------------------------------------------------------------------------


def _from_series(series: nw.Series) -> Column:
    """Return a column of a DataFrame or Arrow table."""
    dtype = series.dtype
    if dtype.is_numeric() or dtype == nw.Boolean:
        held: Held = "flag" if dtype == nw.Boolean else "number"
        return _numbers(series.cast(nw.Float64).to_numpy(), held)
    if dtype in (nw.List, nw.Array, nw.Struct, nw.Binary):
        return Column("unusable", np.empty(0), f"values of the type {dtype}")
    if dtype in (nw.Date, nw.Datetime, nw.Duration):
        return _numbers(_seconds(np.asarray(series.to_numpy())), "date")
    # Polars makes text as wide as its longest value; where Arrow has a null in a dictionary, NumPy sees any value.
    values = series.to_list() if series.implementation.is_polars() else series.to_numpy()
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuf" and dtype == nw.Unknown:
        return _numbers(values, "number")  # such as pandas' sparse numbers
    objects = np.empty(len(series), dtype=object)
    objects[:] = values
    objects[series.is_null().to_numpy()] = None
    if dtype in (nw.Categorical, nw.Enum):
        return _texts(objects)
    return _from_objects(objects)


def _from_array(values: np.ndarray) -> Column:
    """Return a column of a NumPy array."""
    kind = values.dtype.kind
    if kind in "iufb":
        return _numbers(values, "flag" if kind == "b" else "number")
    if kind in "mM" and values.dtype.str[1:] != "m8" and not values.dtype.str.endswith(("m8[Y]", "m8[M]")):
        return _numbers(_seconds(values), "date")
    if kind in "OUT":
        return _from_objects(values.astype(object))
    return Column("unusable", np.empty(0), f"values of the type {values.dtype}")


def _numbers(values: Any, held: Held) -> Column:
    with np.errstate(over="ignore"):  # wider numbers than float64 become infinite, and are refused as such
        values = np.asarray(values, dtype=np.float64)
    return Column("empty" if np.isnan(values).all() else held, values)


def _texts(values: np.ndarray) -> Column:
    """Return objects as levels, whatever they are."""
    texts = np.empty(len(values), dtype=object)
    texts[:] = [level_of(v) for v in values.tolist()]
    return Column("category", texts)


def _from_objects(values: np.ndarray) -> Column:
    """Return a column of Python objects, by the types that are in it."""
    items = values.tolist()
    types = {cls: _held_by(cls) for cls in set(map(type, items))}
    found = set(types.values()) - {"empty"}
    if "unusable" in found:
        cls = min((cls for cls, held in types.items() if held == "unusable"), key=lambda cls: cls.__name__)
        return Column("unusable", values, f"values of the type {cls.__name__}")
    if not found:
        return Column("empty", np.full(len(items), np.nan))
    if found <= {"number", "flag"}:
        return _numbers(_floats(values), "flag" if found == {"flag"} else "number")
    if found == {"date"}:
        return _numbers([_seconds_of(v) for v in items], "date")
    return _texts(values) if set(types) - {str, type(None)} else Column("category", values)


def _held_by(cls: type) -> Held:
    """Return what values of a type make of their column."""
    if cls is type(None) or cls.__name__ in PANDAS_MISSING:
        return "empty"
    if issubclass(cls, str):
        return "category"
    if issubclass(cls, bool | np.bool_):
        return "flag"
    if issubclass(cls, dt.date | dt.time | dt.timedelta | np.datetime64 | np.timedelta64):
        return "date"
    return "number" if issubclass(cls, numbers.Real | Decimal) else "unusable"


# -- values --------------------------------------------------------------------------------------------


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, or pandas' NA or NaT."""
    return value is None or type(value).__name__ in PANDAS_MISSING or value != value


def level_of(value: Any) -> str | None:
    """Return the level that a value stands for; whole numbers are the same level as int and as float."""
    if isinstance(value, str):
        return str(value)
    if is_missing(value):
        return None
    if isinstance(value, float | np.floating) and math.isfinite(value) and value == int(value):
        return str(int(value))
    return str(value)


def _floats(values: np.ndarray) -> np.ndarray:
    """Return objects that are numbers or missing."""
    try:
        return values.astype(np.float64)
    except (TypeError, ValueError, OverflowError):  # pandas' NA; whole numbers beyond all floats
        return np.array([_float(v) for v in values.tolist()], dtype=np.float64)


def _float(value: Any) -> float:
    if is_missing(value):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _seconds(values: np.ndarray) -> np.ndarray:
    """Return NumPy's dates as seconds since 1970, and durations as seconds."""
    unit, count = np.datetime_data(values.dtype)
    if unit in ("Y", "M"):
        return _seconds(values.astype(f"{values.dtype.kind}8[D]"))
    ticks = values.astype(np.int64).astype(np.float64) * count
    ticks = ticks * SECONDS[unit] if unit in SECONDS else ticks / PER_SECOND[unit]
    ticks[np.isnat(values)] = np.nan
    return ticks


def _seconds_of(value: Any) -> float:
    """Return one date or time of day, with or without a time zone, or one duration, in seconds."""
    if is_missing(value):
        return math.nan
    if isinstance(value, np.datetime64 | np.timedelta64):
        return float(_seconds(np.array([value]))[0])
    if isinstance(value, dt.timedelta):
        return value.total_seconds()
    if isinstance(value, dt.time):
        return value.hour * 3600 + value.minute * 60 + value.second + value.microsecond / 1e6
    if not isinstance(value, dt.datetime):
        value = dt.datetime(value.year, value.month, value.day)
    value = value if value.tzinfo else value.replace(tzinfo=dt.UTC)
    return (value - EPOCH).total_seconds()
