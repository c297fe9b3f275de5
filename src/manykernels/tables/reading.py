"""Tables of all kinds as columns of four: numbers, flags, dates, and categories.

NumPy arrays, sparse matrices and lists of rows are read here, DataFrames and Arrow tables through narwhals.
"""

from __future__ import annotations

import datetime as dt
import math
import numbers
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
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

    def take(self, rows) -> Column:
        """Return some of the rows."""
        return self if self.held == "unusable" else replace(self, values=self.values[rows])

    def levels(self) -> np.ndarray:
        """Return the values as text, None where they are missing."""
        if self.held == "category":
            return self.values
        levels = np.empty(len(self.values), dtype=object)
        levels[:] = [level_of(v) for v in self.values.tolist()]
        return levels


@dataclass(frozen=True, eq=False)
class Table:
    """Columns by position, read when they are asked for.

    Rows can be taken as from an array, ``table[rows]``.

    Parameters
    ----------
    names : tuple of str
        Names of all columns; ``x0, x1, ...`` if they have none.
    named : bool
        Whether the table itself has names, all of them text.
    n_rows : int
    series : columns as they are, NumPy arrays or series of narwhals; or read
    matrix : array of shape (n, d), or None
        The columns in one, where all are numbers.
    """

    names: tuple[str, ...]
    named: bool
    n_rows: int
    series: Sequence[Any]
    matrix: np.ndarray | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        return self.n_rows, len(self.names)

    def __len__(self) -> int:
        return self.n_rows

    def __getitem__(self, rows: np.ndarray) -> Table:
        if self.matrix is not None:
            return of_matrix(self.matrix[rows], self.names if self.named else None)
        n = int(np.count_nonzero(rows)) if rows.dtype == bool else len(rows)
        return replace(self, n_rows=n, series=[self.read(j).take(rows) for j in range(len(self.names))])

    def choose(self, columns: Sequence[int]) -> Table:
        """Return some of the columns."""
        names = tuple(self.names[j] for j in columns)
        if self.matrix is not None:
            return replace(of_matrix(self.matrix[:, list(columns)], names), named=self.named)
        return replace(self, names=names, series=[self.series[j] for j in columns])

    def read(self, j: int) -> Column:
        """Return column j."""
        series = self.series[j]
        if isinstance(series, Column):
            return series
        return _from_array(series) if isinstance(series, np.ndarray) else _from_series(series)

    def at_once(self) -> Table:
        """Return the table with all its columns read: in one matrix where all are numbers."""
        if self.matrix is not None:
            return self
        arrays = [_plain_numbers(series) for series in self.series]
        if any(values is None for values in arrays):
            return replace(self, series=[self.read(j) for j in range(len(self.names))])
        X: np.ndarray = np.empty(self.shape, dtype=float_type([v.dtype for v in arrays if v is not None]))
        for j, values in enumerate(arrays):
            X[:, j] = values
        return of_matrix(X, self.names if self.named else None)

    def numbers(self) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the columns that hold no levels, by position."""
        for j in range(len(self.names)):
            column = self.read(j)
            if column.held not in ("category", "unusable"):
                yield j, column.values

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
    if isinstance(X, Table):
        return X
    refuse_uncollected(X)
    if sp.issparse(X):
        return _open_sparse(X)
    if isinstance(X, list | tuple):
        X = _from_lists(X)
    if isinstance(X, np.ma.MaskedArray):
        X = _unmasked(X)
    if isinstance(X, np.ndarray):
        return _open_array(np.asarray(X))
    if hasattr(X, "__array__") and not (hasattr(X, "columns") or hasattr(X, "column_names")):
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


def refuse_uncollected(X: Any, name: str = "X") -> None:
    """Refuse a frame that is a plan of polars, or of narwhals over it: nothing of it can be read before `collect`."""
    if isinstance(X, nw.LazyFrame) or nw.dependencies.is_polars_lazyframe(X):
        raise ValueError(f"{name} is a LazyFrame, whose rows are not in memory; pass {name}.collect().")


def _unmasked(X: Any) -> np.ndarray:
    """Return a masked array with missing values where it is masked."""
    numbers_only = X.dtype.kind in "biuf"
    return X.astype(float if numbers_only else object).filled(np.nan if numbers_only else None)


def _open_array(X: np.ndarray) -> Table:
    if X.ndim != 2:
        raise ValueError(
            f"X has {X.ndim} dimension{'s' * (X.ndim != 1)}; use rows and columns. Reshape your data with "
            "X.reshape(-1, 1) if it is a single column, or X.reshape(1, -1) if it is a single row."
        )
    if X.dtype.kind == "c":
        raise ValueError("Complex data not supported: X holds complex numbers; use their parts as columns.")
    _refuse_none(X.shape)
    return of_matrix(X) if X.dtype.kind in "iuf" else Table(_numbered(X), False, len(X), list(X.T))


def _numbered(X: Any) -> tuple[str, ...]:
    return tuple(f"x{j}" for j in range(X.shape[1]))


def _open_sparse(X: Any) -> Table:
    _refuse_none(X.shape)
    return Table(_numbered(X), False, X.shape[0], SparseColumns(sp.csc_array(X, copy=True)))


class SparseColumns(Sequence):
    """The columns of a sparse matrix, each made dense when it is asked for."""

    def __init__(self, X: Any):
        self.X = X
        self.X.sum_duplicates()

    def __len__(self) -> int:
        return self.X.shape[1]

    def __getitem__(self, j: Any) -> Any:
        entries = slice(*self.X.indptr[[j, j + 1]])
        column = np.zeros(self.X.shape[0], dtype=self.X.dtype)
        column[self.X.indices[entries]] = self.X.data[entries]
        return column


def of_matrix(X: np.ndarray, names: Sequence[str] | None = None) -> Table:
    """Return an array of numbers, and the names of its columns if they have any, as a table."""
    return Table(_numbered(X) if names is None else tuple(names), names is not None, len(X), list(X.T), X)


def of_columns(columns: Sequence[Any], names: Sequence[str]) -> Table:
    """Return columns, each an array, a list, or a series of pandas, polars or Arrow, as a table with all of it read."""
    series = [_as_series(values) for values in columns]
    lengths = {len(values) for values in series}
    if len(lengths) > 1:
        raise ValueError(f"the columns have {' and '.join(f'{n:,}' for n in sorted(lengths))} rows.")
    return Table(tuple(names), True, lengths.pop(), series).at_once()


def _as_series(values: Any) -> Any:
    """Return a column as a NumPy array or as a series of narwhals."""
    series = nw.from_native(values, series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        return series
    array = np.asarray(values)
    if array.dtype.kind in "US" and not isinstance(values, np.ndarray):
        array = np.asarray(values, dtype=object)  # NumPy would make text of None and NaN
    if array.ndim != 1:
        raise ValueError(f"a column has {array.ndim} dimensions; use one value per row.")
    return array


def joined(tables: Sequence[Table]) -> Table:
    """Return the rows of tables with the same columns, one after the other."""
    first = tables[0]
    if len(tables) == 1:
        return first
    if all(t.matrix is not None for t in tables):
        X = np.concatenate([t.matrix for t in tables if t.matrix is not None])
        return of_matrix(X, first.names if first.named else None)
    series = [_joined_columns([t.read(j) for t in tables]) for j in range(len(first.names))]
    return Table(first.names, first.named, sum(map(len, tables)), series)


def _joined_columns(parts: list[Column]) -> Column:
    """Return the values of one column, one part after the other; of several kinds they are levels."""
    for part in parts:
        if part.held == "unusable":
            return part
    found = {part.held for part in parts} - {"empty"}
    if "category" in found or len(found - {"flag"}) > 1 or found == {"flag", "date"}:
        return Column("category", np.concatenate([part.levels() for part in parts]))
    held: Held = "number" if "number" in found else found.pop() if found else "empty"
    return Column(held, np.concatenate([part.values for part in parts]))


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


def float_type(dtypes: Iterable[np.dtype]) -> type:
    """Return the narrower float that holds columns of these types exactly."""
    small = all(t == np.float32 or (t.kind in "biuf" and t.itemsize <= 2) for t in dtypes)
    return np.float32 if small else np.float64


def _plain_numbers(series: Any) -> np.ndarray | None:
    """Return a column of numbers or flags as it is, None if it is another, or has gaps of its own kind."""
    if isinstance(series, nw.Series):
        if not (series.dtype.is_numeric() or series.dtype == nw.Boolean) or series.dtype == nw.Decimal:
            return None
        series = series.to_numpy()
    return series if isinstance(series, np.ndarray) and series.dtype.kind in "biuf" else None


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
