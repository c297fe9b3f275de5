"""Several sources per row, as people have them, and one matrix of numbers made of them.

:class:`Views` brings the many kinds of sources into one form; :class:`ViewColumns` learns from the training rows what
their columns are, and lays all views out side by side. A row may lack a view: all of its values there are missing, or,
where views have named rows, it is not among them.
"""

from __future__ import annotations

import numbers
import os
import pathlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from .._util.shapes import Stored, check_arrays, demand
from .._util.text import brief, warn
from .columns import DENSE_BYTES, Columns, NothingToLearn, Origin
from .quantities import weight_array
from .reading import Column, Table, joined, open_table

#: A view of at least so many columns of numbers, none negative and most of them zero, counts things: words, say.
FEWEST_COUNTED, MOSTLY_ZERO = 30, 0.75


# -- what users have -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Part:
    """One view.

    Parameters
    ----------
    table : Table, or sparse matrix
    present : (n,) array of bool
        Which rows have it; the others hold anything.
    """

    table: Any
    present: np.ndarray

    def take(self, rows: Any) -> Part:
        """Return some of the rows; the row -1, which there is none of, lacks the view."""
        numbers = isinstance(rows, np.ndarray) and rows.dtype.kind in "iu"
        absent = rows < 0 if numbers else False
        taken = np.where(absent, 0, rows) if numbers else np.arange(len(self.present))[rows]
        return Part(self.table[taken], self.present[taken] & ~np.asarray(absent))

    @property
    def width(self) -> int:
        """Number of columns."""
        return self.table.shape[1]

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns, none if they have none."""
        return self.table.names if isinstance(self.table, Table) and self.table.named else ()


class Views:
    """Several sources of the same rows, by name, which can be split like one table.

    scikit-learn cannot split a dict; ``cross_val_score(model, Views({"rna": A, "mri": B}), y)`` works.

    Parameters
    ----------
    views : dict, list, DataFrame with two-level columns, AnnData or MuData
        Arrays, sparse matrices, DataFrames or AnnData objects by name; those of a list are called ``view0``, ``view1``,
        and so on. Where the rows of all views have names (the index of a DataFrame, ``obs_names``) and these differ,
        rows are matched by name, in the order in which names come up first, and a row lacks the views that do not have
        it. Otherwise the k-th rows of all views belong together.

    Attributes
    ----------
    index : (n,) array of objects, or None
        Names of the rows, where all views have them.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import Views
    >>> views = Views({"rna": np.zeros((5, 100)), "clinical": np.ones((5, 3))})
    >>> views[:2]
    Views(2 rows; rna: 100 columns, clinical: 3 columns)
    """

    def __init__(self, views: Any):
        self.parts, self.index = _matched(_by_name(views))

    def check_order(self, y: Any) -> None:
        """Refuse targets that name the same rows in another order: they are taken as they come."""
        names = _row_names(y)
        if names is None or self.index is None or len(names) != len(self.index):
            return
        if set(names.tolist()) == set(self.index.tolist()) and (names != self.index).any():
            raise ValueError(
                "y has the names of the rows of X in another order, and is not matched by name; pass "
                "y.loc[Views(X).index]."
            )

    @classmethod
    def from_columns(cls, X: Any, groups: Any) -> Views:
        """Return groups of the columns of one table, which may overlap, as views.

        Parameters
        ----------
        X : DataFrame, Arrow table or array
        groups : dict, or path of a GMT file
            Per view the names of its columns, or their numbers, a slice of these or a mask, a pattern such as
            ``"rna_*"``, a regular expression from :func:`re.compile`, or a function of X that returns any of these,
            such as scikit-learn's ``make_column_selector``. Names that X does not have are left out, as gene sets have
            many; a group without any column is left out with a warning.

        Returns
        -------
        Views

        Examples
        --------
        >>> import pandas as pd
        >>> from manykernels import Views
        >>> table = pd.DataFrame([[1.0, 2.0, 3.0]], columns=["rna_a", "rna_b", "age"])
        >>> Views.from_columns(table, {"rna": "rna_*", "all": ["age", "rna_a", "unknown"]})
        Views(1 rows; rna: 2 columns, all: 2 columns)
        """
        table = open_table(X).at_once()
        places = {name: j for j, name in enumerate(table.names)}
        chosen = {name: _chosen(which, X, table, places) for name, which in _groups(groups).items()}
        empty = [name for name, columns in chosen.items() if not columns]
        if len(empty) == len(chosen):
            raise ValueError("groups selects no column of X; check the names of its columns.")
        if empty:
            warn(
                f"{len(empty):,} of the groups have no column in X and are left out, such as {brief(empty[0])}."
            )
        some = object.__new__(cls)
        some.parts, some.index = {}, _row_names(X)
        for name, columns in chosen.items():
            if columns:
                own = table.choose(columns)
                some.parts[name] = Part(own, _present(own))
        return some

    def __len__(self) -> int:
        return len(next(iter(self.parts.values())).present)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows, and of columns of all views together."""
        return len(self), sum(part.width for part in self.parts.values())

    def __getitem__(self, rows: Any) -> Views:
        """Return some of the rows of all views."""
        rows = rows[0] if isinstance(rows, tuple) else rows  # scikit-learn's X[rows, ...]
        rows = [rows] if np.ndim(rows) == 0 and not isinstance(rows, slice) else rows
        rows = np.asarray(rows) if isinstance(rows, Sequence) else rows
        some = object.__new__(Views)
        some.parts = {name: part.take(rows) for name, part in self.parts.items()}
        some.index = None if self.index is None else self.index[rows]
        return some

    def keys(self) -> Iterable[str]:
        """Return the names of the views."""
        return self.parts.keys()

    @classmethod
    def joined(cls, several: Sequence[Views]) -> Views:
        """Return the rows of views with the same names, one after the other; a view that is not there is lacking."""
        some, names = object.__new__(cls), dict.fromkeys(name for one in several for name in one.parts)
        some.parts = {name: _joined([(one.parts.get(name), len(one)) for one in several]) for name in names}
        index = [one.index for one in several if one.index is not None]
        some.index = np.concatenate(index) if len(index) == len(several) else None
        return some

    def only(self, names: Sequence[str]) -> Views:
        """Return some of the views."""
        some = object.__new__(Views)
        some.parts, some.index = {name: self.parts[name] for name in names}, self.index
        return some

    @property
    def present(self) -> np.ndarray:
        """Which rows have which views, (n, number of views)."""
        return np.column_stack([part.present for part in self.parts.values()])

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name}: {part.width:,} columns" for name, part in self.parts.items())
        return f"Views({len(self):,} rows; {sizes})"


def _joined(several: list[tuple[Part | None, int]]) -> Part:
    """Return parts of one view, one after the other, each with its number of rows; None lacks the view."""
    first = next(part for part, _ in several if part is not None)
    parts = [first.take(np.full(n, -1)) if part is None else part for part, n in several]
    tables = [part.table for part in parts]
    table = sp.csr_array(sp.vstack(tables)) if sp.issparse(first.table) else joined(tables)
    return Part(table, np.concatenate([part.present for part in parts]))


def _groups(groups: Any) -> dict[str, Any]:
    """Return groups of columns by name; a GMT file has one a line: name, description, columns."""
    if isinstance(groups, str | os.PathLike):
        lines = pathlib.Path(groups).read_text().splitlines()
        rows = [line.rstrip().split("\t") for line in lines if line.strip()]
        short = [k for k, row in enumerate(rows) if len(row) < 3]
        if short:
            raise ValueError(
                f"groups: line {short[0] + 1} of {os.fspath(groups)} has no columns; a GMT file has a name, a "
                "description and names of columns in every line, between tabs."
            )
        twins = [name for name, times in Counter(row[0] for row in rows).items() if times > 1]
        if twins:
            raise ValueError(
                f"groups: {os.fspath(groups)} has more than one group called {brief(twins[0])}; rename all but one."
            )
        groups = {row[0]: [name for name in row[2:] if name] for row in rows}
    if not isinstance(groups, Mapping) or not groups:
        raise ValueError(
            f"groups is {brief(groups)}; pass a dict such as {{'rna': 'rna_*'}}, or the path of a GMT file."
        )
    return {str(name): which for name, which in groups.items()}


def _ends(which: slice) -> tuple[Any, Any, Any]:
    return which.start, which.stop, which.step


def _chosen(which: Any, X: Any, table: Table, places: dict[str, int]) -> list[int]:
    """Return the numbers of the columns that a group selects."""
    if callable(which) and not isinstance(which, type):
        which = which(X)
    if isinstance(which, re.Pattern):
        return [j for name, j in places.items() if which.search(name)]
    if isinstance(which, str):
        return [j for name, j in places.items() if fnmatchcase(name, which)]
    if isinstance(which, slice) and all(v is None or isinstance(v, numbers.Integral) for v in _ends(which)):
        return list(range(len(places)))[which]
    if isinstance(which, type) or not isinstance(which, Iterable):
        raise ValueError(
            f"groups selects columns by {brief(which)}; pass their names or numbers, a slice of numbers, a mask, a "
            "pattern, or a function such as make_column_selector(dtype_include=float)."
        )
    wanted = list(which)
    if len(wanted) == len(places) and all(isinstance(c, bool | np.bool_) for c in wanted):
        return np.flatnonzero(wanted).tolist()
    if all(isinstance(c, numbers.Integral) and not isinstance(c, bool) for c in wanted):
        return [int(c) for c in wanted if 0 <= c < len(places)]
    return [places[str(c)] for c in wanted if str(c) in places]


def as_views(X: Any) -> Views | None:
    """Return several sources as views, None for anything that is a single table."""
    if isinstance(X, Views):
        return X
    if sp.issparse(X):  # some sparse matrices are mappings as well
        return None
    several = isinstance(X, Mapping) or _is_multi_modal(X) or _is_annotated(X) or _has_two_levels(X)
    return Views(X) if several or _is_list_of_matrices(X) else None


def are_views(X: Any) -> bool:
    """Whether rows that come in batches have several views; a dict of columns is one table."""
    if isinstance(X, Mapping) and not sp.issparse(X):
        return any(sp.issparse(v) or hasattr(v, "iloc") or np.ndim(v) == 2 for v in X.values())
    return isinstance(X, Views) or _is_multi_modal(X) or _is_annotated(X) or _has_two_levels(X)


def _is_multi_modal(X: Any) -> bool:
    return hasattr(X, "mod") and hasattr(X, "obs_names")


def _is_annotated(X: Any) -> bool:
    return hasattr(X, "X") and hasattr(X, "obs_names") and hasattr(X, "var_names")


def _has_two_levels(X: Any) -> bool:
    return hasattr(X, "iloc") and getattr(getattr(X, "columns", None), "nlevels", 1) == 2


def _is_list_of_matrices(X: Any) -> bool:
    if not isinstance(X, list | tuple) or not X:
        return False
    return all(_is_matrix(v) or _is_annotated(v) for v in X)


def _is_matrix(value: Any) -> bool:
    """Whether something is a sparse matrix, an array of two dimensions, a DataFrame or an Arrow table."""
    if sp.issparse(value) or (isinstance(value, np.ndarray) and value.ndim == 2):
        return True
    return not isinstance(value, Mapping) and (hasattr(value, "columns") or hasattr(value, "column_names"))


def _by_name(views: Any) -> dict[str, Any]:
    """Return the sources by name, each with its own rows."""
    if _is_multi_modal(views):
        pairs = list(views.mod.items())
    elif _is_annotated(views):
        pairs = [("X", views)]
    elif _has_two_levels(views):
        pairs = [(name, views[name]) for name in dict.fromkeys(views.columns.get_level_values(0))]
    elif isinstance(views, Mapping):
        pairs = list(views.items())
    elif _is_list_of_matrices(views):
        pairs = [(f"view{k}", part) for k, part in enumerate(views)]
    else:
        raise ValueError(
            f"X is a {type(views).__name__}; views come as a dict of tables, such as {{'rna': A, 'mri': B}}."
        )
    if not pairs:
        raise ValueError("X is a dict without views; pass at least one, such as {'rna': A}.")
    twins = [name for name, times in Counter(str(name) for name, _ in pairs).items() if times > 1]
    if twins:
        raise ValueError(f"X has more than one view called {brief(twins[0])}; rename all but one.")
    return {str(name): part for name, part in pairs}


def _matched(views: dict[str, Any]) -> tuple[dict[str, Part], np.ndarray | None]:
    """Return the views with the same rows in all, and the names of the rows, where all have them."""
    parts = {name: _part_of(name, part) for name, part in views.items()}
    names = {name: _row_names(part) for name, part in views.items()}
    known = [index for index in names.values() if index is not None]
    texts = [all(isinstance(row, str) for row in index.tolist()) for index in known]
    if any(texts) and not all(texts):  # AnnData makes text of all names
        names = {
            name: None if index is None else index.astype(str).astype(object) for name, index in names.items()
        }
        known = [index for index in names.values() if index is not None]
    if len(known) == len(views):
        if all(len(index) == len(known[0]) and (index == known[0]).all() for index in known):
            return parts, known[0]
        return _matched_by_name(parts, names)
    sizes = {name: len(part.present) for name, part in parts.items()}
    if len(set(sizes.values())) > 1:
        told = ", ".join(f"{name!r} has {n:,}" for name, n in sizes.items())
        raise ValueError(
            f"The views of X have different numbers of rows: {told}. A row that lacks a view has missing values "
            "there; or pass DataFrames, whose index tells which rows belong together."
        )
    return parts, None


def _matched_by_name(parts: dict[str, Part], names: dict[str, Any]) -> tuple[dict[str, Part], np.ndarray]:
    for name, index in names.items():
        twins = [row for row, times in Counter(index.tolist()).items() if times > 1]
        if twins:
            raise ValueError(
                f"view {name!r} of X has more than one row called {brief(twins[0])}, and the views have different "
                "rows, which are matched by name; make the names of rows unique."
            )
    every = dict.fromkeys(row for index in names.values() for row in index.tolist())
    rows = np.empty(len(every), dtype=object)
    rows[:] = list(every)
    matched = {}
    for name, part in parts.items():
        place = {row: i for i, row in enumerate(names[name].tolist())}
        matched[name] = part.take(np.array([place.get(row, -1) for row in rows.tolist()]))
    return matched, rows


def _row_names(part: Any) -> np.ndarray | None:
    index = getattr(part, "obs_names", getattr(part, "index", None) if hasattr(part, "iloc") else None)
    return None if index is None else np.asarray(index, dtype=object)


def _part_of(name: str, part: Any) -> Part:
    """Return a source as a sparse matrix or a table, and which of its rows are not all missing."""
    values, names = (part.X, part.var_names) if _is_annotated(part) else (part, None)
    if sp.issparse(values):
        return Part(sp.csr_array(values), np.ones(values.shape[0], dtype=bool))
    try:
        table = open_table(values).at_once()
    except ValueError as error:
        raise ValueError(f"view {name!r}: {error}") from None
    if names is not None:
        table = Table(tuple(map(str, names)), True, table.n_rows, table.series, table.matrix)
    return Part(table, _present(table))


def _present(table: Table) -> np.ndarray:
    """Return which rows have a value in any column."""
    if table.matrix is not None:
        return ~np.isnan(table.matrix).all(axis=1)
    present = np.zeros(table.n_rows, dtype=bool)
    for j in range(len(table.names)):
        column = table.read(j)
        if column.held == "category":
            present |= np.array([v is not None for v in column.values.tolist()], dtype=bool)
        elif column.held == "unusable":
            return np.ones(table.n_rows, dtype=bool)  # what it is will be said when the columns are learned
        else:
            present |= ~np.isnan(column.values)
    return present


# -- one matrix ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ViewColumns:
    """What was learned from the columns of several views, and the matrix of numbers that it makes of others like them.

    The matrix has the columns of all views side by side, and then one column per view that is 1 where a row has it and
    0 where it lacks it. Columns of a view that a row lacks are 0, the mean of those that are in units of their spread.

    Parameters
    ----------
    names : tuple of str
        Names of the views.
    learned : tuple of Columns or None
        One per view; None for a view of numbers that are taken as they are: sparse ones, counts, and those that have
        kernels of their own.
    widths : tuple of int
        Columns of each view, as they came.
    columns : tuple of tuples of str
        Names of these columns; none where a view has no names.
    unused : tuple of str
        Names of views that have no kernels; they are ignored.
    """

    names: tuple[str, ...]
    learned: tuple[Columns | None, ...]
    widths: tuple[int, ...]
    columns: tuple[tuple[str, ...], ...]
    unused: tuple[str, ...] = ()
    named: ClassVar[bool] = False

    @classmethod
    def fit(
        cls, views: Views, sample_weight: Any = None, plain: Sequence[str] = (), unused: Sequence[str] = ()
    ) -> ViewColumns:
        """Learn from the training rows.

        Parameters
        ----------
        views : Views
        sample_weight : array of shape (n,), optional
        plain : names of views whose numbers are taken as they are
        unused : names of views to ignore

        Raises
        ------
        ValueError
            If a view is there for no row, a row has no view, or a view cannot be used. A view whose columns are all
            constant is left out with a warning.
        """
        views = views.only([name for name in views.parts if name not in unused])
        if not len(views):
            raise ValueError(f"X has 0 sample(s) (shape={views.shape}) while a minimum of 1 is required.")
        _refuse_bare_rows(views)
        known: dict[str, Columns | None] = {}
        s = weight_array(sample_weight, len(views))
        for name, part in views.parts.items():
            rows = np.flatnonzero(part.present)
            if not len(rows):
                raise ValueError(f"view {name!r} of X is missing from every row; leave it out.")
            if name in plain or _counts(part.table):
                known[name] = None
                continue
            try:
                some = part.table if len(rows) == len(views) else part.table[rows]
                known[name] = Columns.fit(some, s[rows])
            except NothingToLearn as error:
                if len(views.parts) == 1:
                    raise ValueError(f"view {name!r}: {error}") from None
            except ValueError as error:
                raise ValueError(f"view {name!r}: {error}") from None
        empty = [name for name in views.parts if name not in known]
        if empty:
            views, unused = _without(views, empty), (*unused, *empty)
        learned = list(known.values())
        widths = tuple(part.width for part in views.parts.values())
        columns = tuple(part.columns for part in views.parts.values())
        return cls(tuple(views.parts), tuple(learned), widths, columns, tuple(unused))

    def transform(self, X: Any, *, narrow: bool = False, most: int = DENSE_BYTES) -> np.ndarray:
        """Return rows, those learned from or others, as numbers; views that are not there are lacking.

        Parameters
        ----------
        X : Views, or what they are made of
        narrow : bool
            Whether rows are to be in single precision.
        most : int
            Bytes that the matrix may take.
        """
        views = self._known(X)
        if 8 * len(views) * self.width > most:
            raise ValueError(
                f"X has {len(views):,} rows and {self.width:,} columns in all its views, which take "
                f"{8 * len(views) * self.width / 2**30:.1f} GiB; select columns first."
            )
        out = np.zeros((len(views), self.width), dtype=np.float32 if narrow else np.float64)
        for k, (name, columns) in enumerate(zip(self.names, self.learned, strict=True)):
            part = views.parts.get(name)
            if part is not None and part.present.any():
                rows = np.flatnonzero(part.present)
                table = part.table if len(rows) == len(views) else part.table[rows]
                out[rows, self.starts[k] : self.starts[k + 1]] = self._numbers(k, name, columns, table)
                out[rows, self.starts[-1] + k] = 1.0
        return out

    def known_in(self, names: Sequence[str] | None) -> list[str] | None:
        """Return the columns of the views that a table has any of, given its names; None where it has none known."""
        if names is None or not all(self.columns):
            return None
        own = [columns for columns in self.columns if {*columns} & {*names}]
        if not own:
            raise ValueError(
                f"The source has none of the columns of the model's views, such as {brief(self.columns[0][0])}."
            )
        return list(dict.fromkeys(name for columns in own for name in columns))

    def of_table(self, X: Any) -> Views:
        """Return rows of one table as views, by the names of their columns; a view without any of them is lacking."""
        if not all(self.columns):
            raise ValueError(
                "The model was fitted on views whose columns have no names, and cannot find them in one table; pass "
                f"a dict with {_listed(self.names)}."
            )
        known = set(open_table(X).names)
        groups = dict(zip(self.names, self.columns, strict=True))
        return Views.from_columns(X, {name: own for name, own in groups.items() if known & {*own}})

    def _known(self, X: Any) -> Views:
        views = as_views(X)
        if views is None:
            raise ValueError(
                f"X is a {type(X).__name__}, and the model was fitted on views; pass a dict with "
                f"{_listed(self.names)}."
            )
        strange = [name for name in views.parts if name not in (*self.names, *self.unused)]
        if strange:
            raise ValueError(
                f"X has a view called {brief(strange[0])}, which the model does not know; it has {_listed(self.names)}."
            )
        views = views.only([name for name in views.parts if name in self.names])
        if not views.parts:
            raise ValueError(f"X has none of the views of the model, {_listed(self.names)}.")
        _refuse_bare_rows(views)
        return views

    def read(self, X: Any, j: int) -> Column:
        """Return the values of column j of all views, on the rows that have it, in its own units."""
        k, place = self._place(j)
        part, columns = self._known(X).parts[self.names[k]], self.learned[k]
        rows = part.table[np.flatnonzero(part.present)]
        if columns is not None:
            return columns.read(rows, place)
        return Column("number", _as_they_are(rows, self.widths[k], self.columns[k])[:, place])

    def transform_column(self, j: int, values: Any) -> np.ndarray:
        """Return values of column j of all views as numbers, and that rows have its view."""
        k, place = self._place(j)
        columns = self.learned[k]
        numbers = (
            np.asarray(values, dtype=float)[:, None]
            if columns is None
            else columns.transform_column(place, values)
        )
        return np.column_stack([numbers, np.ones(len(numbers))])

    def _place(self, j: int) -> tuple[int, int]:
        """Return the view of a column, and its number there."""
        edges = np.cumsum(self.widths)
        k = int(np.searchsorted(edges, j, side="right"))
        return k, j - int(edges[k] - self.widths[k])

    def example(self) -> dict[str, Any]:
        """Return a row such as it could come in."""
        triples = zip(self.names, self.learned, self.widths, strict=True)
        return {name: np.zeros((1, d)) if c is None else c.example() for name, c, d in triples}

    def _numbers(self, k: int, name: str, columns: Columns | None, table: Any) -> np.ndarray:
        try:
            if columns is not None:
                return columns.transform(table)
            return _as_they_are(table, self.widths[k], self.columns[k])
        except ValueError as error:
            raise ValueError(f"view {name!r}: {error}") from None

    def check_stored(self) -> None:
        """Raise Damaged unless what came from a file tells of every view what it is."""
        lists = (self.names, self.learned, self.widths, self.columns)
        demand(
            all(type(one) is tuple and len(one) == len(self.names) > 0 for one in lists), "a view is missing"
        )
        demand(all(type(name) is str for name in self.names), "a view has no name")
        demand(len(set(self.names)) == len(self.names), "two views have one name")
        check_arrays({"widths": np.array(self.widths)}, {"widths": Stored("m", "iu", 1)})
        for one, width in zip(self.learned, self.widths, strict=True):
            demand(
                one is None or (isinstance(one, Columns) and one.n_in == width),
                "a view has no columns, or others",
            )
        named = all(type(own) is tuple and all(type(name) is str for name in own) for own in self.columns)
        right = named and all(len(own) in (0, d) for own, d in zip(self.columns, self.widths, strict=True))
        demand(right, "the columns of a view have other names")
        demand(type(self.unused) is tuple and not {*self.unused} & {*self.names}, "a view is used and is not")

    # -- what comes out --------------------------------------------------------------------------------

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Where the columns of each view begin, and where the last end."""
        widths = [d if c is None else c.width for c, d in zip(self.learned, self.widths, strict=True)]
        return (0, *np.cumsum(widths).tolist())

    @property
    def n_in(self) -> int:
        """Number of columns that went in."""
        return sum(self.widths)

    @property
    def width(self) -> int:
        """Number of columns that come out."""
        return self.starts[-1] + len(self.names)

    @property
    def origins(self) -> tuple[Origin, ...]:
        """Views, their columns as they came, and those that come out; the one that tells who has it is among these."""
        edges = np.r_[0, np.cumsum(self.widths)].tolist()
        return tuple(
            Origin(
                name,
                tuple(range(edges[k], edges[k + 1])),
                (*range(self.starts[k], self.starts[k + 1]), self.starts[-1] + k),
            )
            for k, name in enumerate(self.names)
        )

    @cached_property
    def names_in(self) -> tuple[str, ...]:
        """Names of the columns that went in, with those of their views."""
        triples = zip(self.names, self.widths, self.columns, strict=True)
        return tuple(f"{name}: {c}" for name, d, own in triples for c in (own or [f"x{j}" for j in range(d)]))

    @cached_property
    def names_out(self) -> tuple[str, ...]:
        """Names of the columns that come out, within their views."""
        names: list[str] = []
        for c, d, own in zip(self.learned, self.widths, self.columns, strict=True):
            names += (own or [f"x{j}" for j in range(d)]) if c is None else c.names_out
        return (*names, *(f"has {name}" for name in self.names))

    @property
    def kinds(self) -> tuple[str, ...]:
        """What the columns that went in are; those that are taken as they are hold numbers."""
        pairs = zip(self.learned, self.widths, strict=True)
        return tuple(kind for c, d in pairs for kind in (["number"] * d if c is None else c.kinds))

    def blocks(self, k: int) -> tuple[tuple[int, ...], ...] | None:
        """Columns of a view that belong together, None where they are as they came."""
        columns = self.learned[k]
        return None if columns is None else columns.blocks

    @property
    def notes(self) -> tuple[str, ...]:
        """One sentence per column left out, and why."""
        pairs = zip(self.names, self.learned, strict=True)
        return tuple(f"View {name!r}: {note}" for name, c in pairs if c is not None for note in c.notes)


def _without(views: Views, empty: Sequence[str]) -> Views:
    """Return the views without those that hold nothing to learn from, with a warning; a row must have another one."""
    if len(empty) == len(views.parts):
        raise ValueError(
            f"X has nothing to learn from in any of its {len(empty):,} views: every column has one value only."
        )
    more = f" and {len(empty) - 1:,} more" if len(empty) > 1 else ""
    warn(
        f"view {empty[0]!r} of X{more} is left out: no column of it has two values in the rows that it is there for."
    )
    rest = views.only([name for name in views.parts if name not in empty])
    _refuse_bare_rows(rest)
    return rest


def _refuse_bare_rows(views: Views) -> None:
    bare = np.flatnonzero(~views.present.any(axis=1))
    if len(bare):
        which = f"row {bare[0]:,}" if views.index is None else f"row {brief(views.index[bare[0]])}"
        raise ValueError(
            f"X has {len(bare):,} row{'s' * (len(bare) > 1)} without any view, such as {which}; leave "
            f"{'them' if len(bare) > 1 else 'it'} out."
        )


def _counts(table: Any) -> bool:
    """Whether a view is sparse, or holds counts: rare ones would weigh most in units of their spread."""
    if sp.issparse(table):
        return True
    X = table.matrix
    if X is None or X.shape[1] < FEWEST_COUNTED or not np.nanmin(X) >= 0:
        return False
    return bool(np.count_nonzero(X == 0) >= MOSTLY_ZERO * X.size)


def _as_they_are(table: Any, width: int, names: Sequence[str]) -> np.ndarray:
    """Return numbers as they came, columns found by name where both have names."""
    if sp.issparse(table):
        values = table.toarray()
    else:
        values = _numbers_of(table)
    if names and isinstance(table, Table) and table.named:
        missing = [name for name in names if name not in table.names]
        if missing:
            raise ValueError(f"column {brief(missing[0])} is missing.")
        place = {name: j for j, name in enumerate(table.names)}
        values = values[:, [place[name] for name in names]]
    if values.shape[1] != width:
        raise ValueError(f"it has {values.shape[1]:,} columns, and had {width:,}.")
    if not np.isfinite(values).all():
        raise ValueError(
            "it has missing or infinite values in rows that are not missing as a whole; fill them in."
        )
    return values


def _numbers_of(table: Table) -> np.ndarray:
    """Return all columns as numbers, which may have come as objects or with gaps of their own kind."""
    if table.matrix is not None:
        return table.matrix
    columns = [table.read(j) for j in range(len(table.names))]
    if any(column.held not in ("number", "flag", "empty") for column in columns):
        raise ValueError(
            "it holds text, categories or dates, for which kernels='auto' knows what to do; use that."
        )
    return np.column_stack([column.values for column in columns])


def _listed(names: Sequence[str]) -> str:
    few = ", ".join(brief(name) for name in names[:8])
    return few if len(names) <= 8 else f"{few} and {len(names) - 8} more"
