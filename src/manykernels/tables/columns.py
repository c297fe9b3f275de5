"""Columns as people have them, made into numbers in the same way for all rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import scipy.sparse as sp

from .._util.shapes import Stored, check_arrays, demand
from .._util.text import brief, warn
from .categories import MOST_LEVELS, Category, encode, learn_category
from .quantities import NO_NUMBER, Number, Weights, learn_number, learn_numbers, weights_of
from .reading import Column, Table, call, level_of, open_table

Kind = Literal["number", "category", "flag", "date", "dropped"]
#: What columns of a kind hold, in words.
WORDS = {"number": "numbers", "flag": "true and false", "date": "dates or times", "category": "text"}
#: A message names at most so many columns one by one.
LISTED_AT_MOST = 20
#: So many values of text that all differ may be chance; more are an identifier.
FEWEST_NAMES = 12
#: Why a column is left out that nobody will miss.
ONE_VALUE = "it has one value only"
#: Why a column is left out that says nothing at all.
NO_VALUE = "all of its values are missing"
#: Numbers that are worked on together.
BLOCK = 2**16
#: Sparse rows are made dense up to this many bytes.
DENSE_BYTES = 2**31
#: Products take a column as it is where its mean is within this many spreads of zero, and its spread within these.
OFF_CENTRE, SPREADS = 0.25, (0.25, 4.0)


class Origin(NamedTuple):
    """Columns that are read as one variable: one as it came, or those of a view, and the columns made of them.

    Parameters
    ----------
    name : str
    inside, outside : tuples of int
        Their numbers in the table, and in the matrix of numbers.
    """

    name: str
    inside: tuple[int, ...]
    outside: tuple[int, ...]


class NothingToLearn(ValueError):
    """No column of a table can be used."""


@dataclass(frozen=True, eq=False)
class Columns:
    """What was learned from the columns of a table, and the matrix of numbers that it makes of others like it.

    - **Numbers** are bounded, one range beyond their 1 % and 99 % quantiles (by minimum and maximum where these are
      equal), centred, and divided by their standard deviation. A missing one is the median, and where there were
      missing ones among the training rows, a further column tells them apart, centred and in units of its own spread.
    - **Flags**, true or false, are the numbers 1 and 0.
    - **Dates** and times are numbers: seconds since 1970, time zones respected; times of day and durations in seconds.
    - **Categories** and text have one column for each level seen, and one for missing values if there were any.
      All are centred and have one unit, so that their variances sum to 1. With more than 64 levels, the rarest share
      one column. A level never seen is the mean of all, a row of zeros.

    Left out, each with a note, are columns with one value only, with none, and of types that stand for no number or
    level, and text in which all values are distinct, or more than half of them and more than 64: an identifier. One
    warning names all of these but columns with one value.

    A weight equals a repetition, and rows of weight zero teach nothing. The order of rows is of no account; other units
    or another zero of a column change its numbers by rounding only.

    Parameters
    ----------
    names_in : tuple of str
        Names of the columns of the table; ``x0, x1, ...`` if it has none.
    named : bool
        Whether the names are the table's own: columns are then found by name.
    kinds : tuple of str
        Per column of the table: "number", "category", "flag", "date", or "dropped".
    notes : tuple of str
        One sentence per column left out, and why.
    unit, low, high, median, mean, spread, gap_share, gap_spread : arrays, one entry per column of the table
        Of numbers, flags and dates, else NaN; see :class:`~manykernels.tables.quantities.Number`.
    levels, rare : tuples of tuples of str, one per column of the table
        Of categories, else empty; see :class:`~manykernels.tables.categories.Category`.
    shares : tuple of arrays, one per column of the table
        Of categories, else None.
    indicators : bool
        Whether levels are the numbers 1 and 0, for products; see :meth:`for_products`.

    Examples
    --------
    >>> from manykernels.tables import Columns
    >>> columns = Columns.fit([[1.0, "red"], [2.0, "blue"], [None, "red"], [4.0, "blue"]])
    >>> columns.names_out
    ('x0', 'x0: missing', 'x1=blue', 'x1=red')
    >>> columns.transform([[2.0, "green"]]).shape
    (1, 4)
    """

    names_in: tuple[str, ...]
    named: bool
    kinds: tuple[Kind, ...]
    notes: tuple[str, ...]
    unit: np.ndarray
    low: np.ndarray
    high: np.ndarray
    median: np.ndarray
    mean: np.ndarray
    spread: np.ndarray
    gap_share: np.ndarray
    gap_spread: np.ndarray
    levels: tuple[tuple[str, ...], ...]
    rare: tuple[tuple[str, ...], ...]
    shares: tuple[np.ndarray | None, ...]
    indicators: bool = False

    @classmethod
    def for_products(cls, X: Any, sample_weight: Any = None) -> Columns:
        """Learn from the training rows what products of columns are made of.

        A product of columns far from zero is hardly more than their sum, and of no use beside them. So numbers whose
        mean is more than a quarter of their spread from zero, or whose spread is below 1/4 or above 4, are centred and
        divided by their spread; all others enter as they are. None is bounded: a product means what it says. Flags,
        levels and gaps are indicators, 1 or 0, so that ``colour=red·age`` is age where the colour is red.
        Parameters and errors are those of :meth:`fit`.
        """
        known = cls.fit(X, sample_weight)
        number = known.spread > 0
        flag = np.array([kind == "flag" for kind in known.kinds])
        size = known.spread / known.unit
        near = (np.abs(known.mean) <= OFF_CENTRE * known.spread) & (size >= SPREADS[0]) & (size <= SPREADS[1])
        as_is, far = number & (near | flag), np.finfo(float).max
        return replace(
            known,
            unit=np.where(as_is, 1.0, known.unit),
            low=np.where(number, -far, known.low),
            high=np.where(number, far, known.high),
            median=np.where(as_is, known.median / known.unit, known.median),
            mean=np.where(as_is, 0.0, known.mean),
            spread=np.where(as_is, 1.0, known.spread),
            gap_share=np.where(known.gap_spread > 0, 0.0, known.gap_share),
            gap_spread=np.where(known.gap_spread > 0, 1.0, known.gap_spread),
            indicators=True,
        )

    @classmethod
    def fit(cls, X: Any, sample_weight: Any = None) -> Columns:
        """Learn from the training rows.

        Parameters
        ----------
        X : array, sparse matrix, DataFrame of pandas or polars, Arrow table, or list of rows
        sample_weight : array of shape (n,), optional
            Weights of the rows, all one by default.

        Returns
        -------
        Columns

        Raises
        ------
        ValueError
            If a value is infinite, two columns have one name, or no column is left; one message names all columns.
        """
        table = X if isinstance(X, Table) else open_table(X)
        if not table.n_rows:
            shape = (0, len(table.names))
            raise ValueError(f"X has 0 sample(s) (shape={shape}) while a minimum of 1 is required.")
        weights = weights_of(sample_weight, table.n_rows)
        if table.matrix is not None and not np.isinf(table.matrix).any():  # nothing but numbers, at once
            learned_at_once = learn_numbers(table.matrix, weights)
            lessons = [_lesson("number", number, table, j) for j, number in enumerate(learned_at_once)]
        else:
            lessons = _learn_each(table, weights)
        notes = tuple(lesson.note for lesson in lessons if lesson.note)
        if len(notes) == len(lessons):
            few = " in its 1 sample" if table.n_rows == 1 else ""
            raise NothingToLearn(
                f"X has no column to learn from{few}. {' '.join(_shortened(notes, 'more.'))}"
            )
        lost = [lesson.note for lesson in lessons if lesson.lost]
        if lost:
            warn(" ".join(_shortened(lost, "more.")))
        numbers = np.array([lesson.number for lesson in lessons]).T
        learned: dict[str, Any] = {name: row.copy() for name, row in zip(Number._fields, numbers)}
        categories = [lesson.category for lesson in lessons]
        return cls(
            names_in=table.names,
            named=table.named,
            kinds=tuple(lesson.kind for lesson in lessons),
            notes=notes,
            levels=tuple(c.levels if c else () for c in categories),
            rare=tuple(c.rare if c else () for c in categories),
            shares=tuple(c.shares if c else None for c in categories),
            **learned,
        )

    def transform(self, X: Any, *, most: int = DENSE_BYTES) -> np.ndarray:
        """Return rows, those learned from or others, as numbers.

        Parameters
        ----------
        X : as in `fit`
            Columns are found by name if both tables have names, else by position. Further columns are ignored if
            there are names, and so are columns that were left out.
        most : int
            Bytes up to which sparse rows are made dense.

        Returns
        -------
        array of shape (n, D), float64: in single precision, scaled columns would depend on what X is made of

        Raises
        ------
        ValueError
            If columns are missing, or hold infinite values or another kind of values; one message names them all.
        """
        if sp.issparse(X):
            return self._transform_sparse(X, most)
        table = X if isinstance(X, Table) else open_table(X)
        places, problems = self._places(table)
        if table.matrix is not None and self._only_numbers:
            _refuse(problems)
            values = [table.series[place] for place in places.values()]
            return self._scaled(list(places), values, np.empty((table.n_rows, self.width)))
        columns: dict[int, Column] = {}
        for j, place in places.items():
            columns[j] = table.read(place)
            problems += self._faults(j, columns[j])
        _refuse(problems)
        out: np.ndarray = np.empty((table.n_rows, self.width))
        for j in self._categories:
            texts = columns.pop(j).levels()
            out[:, self._starts[j] : self._starts[j + 1]] = encode(
                texts, self._category(j), plain=self.indicators
            )
        return self._scaled(list(columns), [column.values for column in columns.values()], out)

    def read(self, X: Any, j: int) -> Column:
        """Return the values of column j of a table, found as `transform` finds it, in its own units."""
        table = X if isinstance(X, Table) else open_table(X.toarray() if sp.issparse(X) else X)
        places, problems = self._places(table)
        _refuse(problems)
        return table.read(places[j])

    def transform_column(self, j: int, values: Any) -> np.ndarray:
        """Return values of column j as numbers, the columns that come out of it, (n, width)."""
        column = values if isinstance(values, Column) else open_table([[v] for v in values]).read(0)
        n = len(column.values)
        others = Column("empty", np.full(n, np.nan))
        series = [column if k == j else others for k in range(len(self.names_in))]
        rows = self.transform(Table(self.names_in, self.named, n, series))
        return rows[:, self._starts[j] : self._starts[j + 1]]

    def _transform_sparse(self, X: Any, most: int) -> np.ndarray:
        """Return sparse rows as numbers, made dense some at a time."""
        if 8 * X.shape[0] * self.width > most:
            raise ValueError(
                f"X is sparse with shape {X.shape}, and kernels='auto' needs dense rows, "
                f"{8 * X.shape[0] * self.width / 2**30:.1f} GiB; select columns first, or use kernels such as "
                "Linear, RBF or Polynomial, which take sparse rows."
            )
        rows, step = X.tocsr(), max(1, BLOCK // X.shape[1])
        starts = range(0, max(X.shape[0], 1), step)
        return np.concatenate([self.transform(rows[a : a + step].toarray()) for a in starts])

    def check_stored(self) -> None:
        """Raise Damaged unless what came from a file tells of every column what its kind asks for."""
        lists = ("names_in", "kinds", "levels", "rare", "shares")
        demand(all(type(getattr(self, name)) is tuple for name in lists), "a list of the columns is missing")
        d = len(self.names_in)
        demand(
            all(len(getattr(self, name)) == d for name in lists), "the lists of columns have several lengths"
        )
        demand(all(type(name) is str for name in self.names_in), "the columns have no names")
        check_arrays(vars(self), dict.fromkeys(Number._fields, Stored("d", finite=False)), {"d": d})
        for j, kind in enumerate(self.kinds):
            demand(kind in get_args(Kind), f"column {j} is of no known kind")
            demand((kind == "category") == (self.shares[j] is not None), f"column {j} is of another kind")
            if kind == "category":
                self._category(j).check_stored()
            elif kind != "dropped":
                Number(*(float(getattr(self, name)[j]) for name in Number._fields)).check_stored()

    # -- what comes out --------------------------------------------------------------------------------

    @property
    def n_in(self) -> int:
        """Number of columns that went in."""
        return len(self.names_in)

    @cached_property
    def names_out(self) -> tuple[str, ...]:
        """Names of the columns that come out: of a column, ``column=level``, ``column: other``, ``column: missing``."""
        names: list[str] = []
        for j, name in enumerate(self.names_in):
            shares = self.shares[j]
            if shares is not None:
                names += [f"{name}={level}" for level in self.levels[j]]
                names += [f"{name}: other"] * bool(self.rare[j])
                names += [f"{name}: missing"] * (self._starts[j + 1] - len(names))
            else:
                names += [name] * bool(self.spread[j] > 0) + [f"{name}: missing"] * bool(
                    self.gap_spread[j] > 0
                )
        return tuple(names)

    @property
    def width(self) -> int:
        """Number of columns that come out."""
        return int(self._starts[-1])

    def example(self) -> list[list[Any]]:
        """Return a row such as it could come in."""
        values = {"number": 0.0, "flag": False, "date": np.datetime64(0, "s")}
        return [
            [
                self._category(j).a_level if k == "category" else values.get(k)
                for j, k in enumerate(self.kinds)
            ]
        ]

    @property
    def needed(self) -> tuple[str, ...]:
        """Names of the columns that are not left out."""
        return tuple(name for name, kind in zip(self.names_in, self.kinds) if kind != "dropped")

    @property
    def moved(self) -> tuple[str, ...]:
        """Names of the numbers that are centred and scaled."""
        with np.errstate(invalid="ignore"):
            moved = (self.spread > 0) & ((self.mean != 0) | (self.spread != 1))
        return tuple(name for name, yes in zip(self.names_in, moved) if yes)

    @property
    def indicator_blocks(self) -> list[tuple[int, ...]]:
        """Columns that come out as 1 or 0, those of which one at most is 1 in a row together."""
        blocks: list[tuple[int, ...]] = []
        for j, (start, end) in enumerate(zip(self._starts[:-1].tolist(), self._starts[1:].tolist())):
            numbers = int(self.kinds[j] not in ("category", "flag") and self.spread[j] > 0)
            blocks += [tuple(range(start + numbers, end))] if start + numbers < end else []
        return blocks

    @cached_property
    def blocks(self) -> tuple[tuple[int, ...], ...]:
        """Columns that come out and belong together: the levels of a category; all others stand alone."""
        blocks: list[tuple[int, ...]] = []
        for start, end, shares in zip(self._starts[:-1], self._starts[1:], self.shares):
            together = tuple(range(start, end))
            blocks += [together] if shares is not None else [(j,) for j in together]
        return tuple(blocks)

    @property
    def origins(self) -> tuple[Origin, ...]:
        """What came in and is not left out, and what comes out of it: levels and gaps belong to their column."""
        spans = zip(self.names_in, self._starts[:-1].tolist(), self._starts[1:].tolist())
        return tuple(Origin(name, (j,), tuple(range(a, b))) for j, (name, a, b) in enumerate(spans) if a < b)

    @cached_property
    def _starts(self) -> np.ndarray:
        """Where the columns that come out of each column begin, and where the last end."""
        widths = (self.spread > 0).astype(int) + (self.gap_spread > 0)
        for j in self._categories:
            widths[j] = len(self._category(j).shares)
        return np.r_[0, np.cumsum(widths)]

    @cached_property
    def _categories(self) -> list[int]:
        return [j for j, kind in enumerate(self.kinds) if kind == "category"]

    @cached_property
    def _only_numbers(self) -> bool:
        return set(self.kinds) <= {"number", "flag", "dropped"}

    def _category(self, j: int) -> Category:
        shares = self.shares[j]
        assert shares is not None
        return Category(self.levels[j], self.rare[j], shares)

    # -- new rows --------------------------------------------------------------------------------------

    def _places(self, table: Table) -> tuple[dict[int, int], list[str]]:
        """Return where the columns in use lie in a table, and what is wrong about those that do not."""
        used = [j for j, kind in enumerate(self.kinds) if kind != "dropped"]
        if not (self.named and table.named):
            if len(table.names) != len(self.names_in):
                raise ValueError(
                    f"X has {len(table.names)} features, but Columns is expecting {len(self.names_in)} features "
                    "as input, as in the rows it has learned from."
                )
            return {j: j for j in used}, []
        place = {name: i for i, name in enumerate(table.names)}
        absent = [f"{self._call(j)} is missing" for j in used if self.names_in[j] not in place]
        return {j: place[self.names_in[j]] for j in used if self.names_in[j] in place}, absent

    def _faults(self, j: int, column: Column) -> list[str]:
        """Return what is wrong about the new values of a column, if anything."""
        kind, held = self.kinds[j], column.held
        if held == "unusable":
            return [f"{self._call(j)} held {WORDS[kind]} and now holds {column.words}"]
        numeric = ("number", "flag")
        if kind == "category" or held in ("empty", kind) or (kind in numeric and held in numeric):
            return _infinite(column, self._call(j)) if kind != "category" else []
        example = next(v for v in column.values.tolist() if level_of(v) is not None)
        return [f"{self._call(j)} held {WORDS[kind]} and now holds {WORDS[held]}, such as {brief(example)}"]

    def _scaled(self, used: list[int], values: Sequence[np.ndarray], out: np.ndarray) -> np.ndarray:
        """Write columns of numbers, and those that tell of missing ones, to their places; return all."""
        start, value, gap = self._starts[used], self.spread[used] > 0, self.gap_spread[used] > 0
        learned = (self.unit, self.low, self.high, self.median, self.mean, self.spread)
        unit, low, high, median, mean, spread = (a[used, None] for a in learned)
        share, deviation = self.gap_share[used][gap], self.gap_spread[used][gap]
        # A column is a row of V, as NumPy is slow along short rows; and V stays in the processor's cache.
        step = max(1, BLOCK // max(len(used), 1))
        V: np.ndarray = np.empty((len(used), min(step, len(out))))
        for a in range(0, len(out), step):
            V, part = V[:, : len(out) - a], out[a : a + step]
            for i, column in enumerate(values):
                V[i] = column[a : a + step]
            gaps = self._gaps(used, values, V)
            part[:, (start + value)[gap]] = ((0 if gaps is None else gaps[gap].T) - share) / deviation
            with np.errstate(over="ignore"):  # what is far beyond all that was seen becomes the bound
                V *= unit
            np.clip(V, low, high, out=V)
            if gaps is not None:
                np.copyto(V, median, where=gaps)
            V -= mean
            part[:, start[value]] = (V[value] / spread[value]).T
        return out

    def _gaps(self, used: list[int], values: Sequence[np.ndarray], V: np.ndarray) -> np.ndarray | None:
        """Return where numbers are missing, None if none is; infinite ones are refused."""
        with np.errstate(all="ignore"):
            if np.isfinite(V.sum()):  # one cheap pass; a false alarm, by overflow, costs a second one
                return None
        if np.isinf(V).any():
            pairs = zip(used, values)
            _refuse([said for j, v in pairs for said in _infinite(Column("number", v), self._call(j))])
        return np.isnan(V)

    def _call(self, j: int) -> str:
        return call(self.names_in[j], j, self.named)


# -- one column ----------------------------------------------------------------------------------------


class Lesson(NamedTuple):
    """What one column has taught: numbers, levels, or why it is left out, and whether that may be a loss."""

    kind: Kind
    number: Number = NO_NUMBER
    category: Category | None = None
    note: str = ""
    lost: bool = False


def _learn_each(table: Table, weights: Weights) -> list[Lesson]:
    """Return what the columns of a table teach, one after the other; infinite values are refused, all at once."""
    lessons: list[Lesson] = []
    problems: list[str] = []
    for j in range(len(table.names)):
        column = table.read(j)
        problems += _infinite(column, table.call(j))
        if not problems:
            lessons.append(_learn(column, table, j, weights))
    _refuse(problems)
    return lessons


def _learn(column: Column, table: Table, j: int, weights: Weights) -> Lesson:
    held = column.held
    if held == "unusable":
        return _left_out(table, j, f"it holds {column.words}, which stand for no number and no level")
    if held == "empty":
        return _left_out(table, j, NO_VALUE)
    if held == "category":
        return _learn_levels(column.values, table, j, weights)
    return _lesson(held, learn_number(column.values, weights), table, j)


def _lesson(kind: Kind, number: Number | None, table: Table, j: int) -> Lesson:
    """Return what a column of numbers, flags or dates has taught, None if all of it is missing."""
    if number is None:
        return _left_out(table, j, NO_VALUE)
    if not number.spread and not number.gap_spread:
        return _left_out(table, j, ONE_VALUE)
    return Lesson(kind, number)


def _learn_levels(values: np.ndarray, table: Table, j: int, weights: Weights) -> Lesson:
    category = learn_category(values, weights)
    distinct = len(category.levels) + len(category.rare)
    if not distinct:
        return _left_out(table, j, NO_VALUE)
    if len(category.shares) == 1:
        return _left_out(table, j, ONE_VALUE)
    rows = _rows_with_text(values, category, weights)
    if distinct > (rows / 2 if distinct > MOST_LEVELS else max(rows - 1, FEWEST_NAMES)):
        why = f"it has {distinct:,} different values in {rows:,.0f} rows, as an identifier has"
        return _left_out(table, j, why)
    return Lesson("category", category=category)


def _rows_with_text(values: np.ndarray, category: Category, weights: Weights) -> float:
    """Return in how many rows there is a value.

    A weight equals a repetition; but weights that sum to 1, say, must not make identifiers of all columns.
    """
    present = sum(v is not None for v in values[weights.rows].tolist())
    named = len(category.levels) + bool(category.rare)
    return max(present, weights.total * category.shares[:named].sum())


def _left_out(table: Table, j: int, why: str) -> Lesson:
    name = table.call(j)
    return Lesson("dropped", note=f"{name[0].upper()}{name[1:]} is left out: {why}.", lost=why != ONE_VALUE)


# -- messages ------------------------------------------------------------------------------------------


def _infinite(column: Column, name: str) -> list[str]:
    if column.held in ("category", "unusable"):
        return []
    rows = np.flatnonzero(np.isinf(column.values))
    return [f"{name} holds an infinite value in row {rows[0]:,}"] if len(rows) else []


def _refuse(problems: Sequence[str]) -> None:
    """Raise ValueError if there are problems, with all of them."""
    if problems:
        raise ValueError(f"X cannot be used: {'; '.join(_shortened(problems, 'more columns'))}.")


def _shortened(sentences: Sequence[str], what: str) -> Iterable[str]:
    more = len(sentences) - LISTED_AT_MOST
    return sentences if more <= 0 else [*sentences[:LISTED_AT_MOST], f"and {more:,} {what}"]
