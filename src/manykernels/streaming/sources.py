"""Sources of rows: what a fit or a prediction can read chunk by chunk, several times and in any order of its units.

A source is made of *units* (row groups of a file, neighbours in an array), which can be read in any order; a unit is
read as *chunks* of rows, in order. Memory is that of one chunk, whatever the number of rows.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import scipy.sparse as sp

from .._util.checks import refuse_missing
from .._util.text import brief
from ..tables.reading import Table, float_type, joined, of_columns, open_table
from ..tables.views import Views, are_views, as_views
from .columns import choose, columns_of, index_of, is_names, listed, matrix, names_of

#: Most rows of a chunk.
CHUNK_ROWS = 65_536
#: Rows of a unit of an array.
UNIT_ROWS = 16_384
#: A row's key is its unit's number in the high bits and its place in the unit in the low ones.
UNIT_BITS = 40


@dataclass(frozen=True)
class Chunk:
    """Rows read together.

    Attributes
    ----------
    X : (n, d) array, float32 or float64; None where only the targets were asked for
        Of a source whose columns may be of any kind, a Table if they have names, else an array of any type.
    y : (n,) or (n, c) array, or None
    sample_weight : (n,) array or None
    keys : (n,) whole numbers that name the rows, the same in every pass
    where : what to call the chunk in a message
    first : the number of its first row, within what `where` names
    """

    X: Any
    y: Any
    sample_weight: Any
    keys: np.ndarray
    where: str
    first: int = 0

    def __len__(self) -> int:
        return len(self.keys)

    def take(self, chosen) -> Chunk:
        """Return some of the rows."""
        part = [None if v is None else v[chosen] for v in (self.X, self.y, self.sample_weight)]
        return replace(self, X=part[0], y=part[1], sample_weight=part[2], keys=self.keys[chosen])

    @property
    def place(self) -> str:
        """The rows in words."""
        return f"{self.where} (rows {self.first:,} to {self.first + len(self) - 1:,})"


class Source:
    """Rows in units and chunks; subclasses say where they come from.

    Attributes
    ----------
    names : tuple of str or None
        Names of the features.
    repeatable : bool
        Whether the rows can be read again.
    numeric_targets : bool
        Whether the targets are numbers, and no labels.
    columnar : bool
        Whether targets can be read without the features.
    any_kind : bool
        Whether columns may hold text, dates and missing values, and rows are tables.
    views : dict or None
        Groups of columns that are views, see :meth:`~manykernels.Views.from_columns`.
    """

    names: tuple[str, ...] | None = None
    repeatable: bool = True
    numeric_targets: bool = False
    columnar: bool = True
    any_kind: bool = False
    views: Any = None

    @property
    def column_names(self) -> tuple[str, ...] | None:
        """Names of all columns, whatever their roles; None where it takes a look at the rows to know."""
        return None

    def holds_numbers(self, name: str) -> bool:
        """Whether a column is known to hold numbers, before any row is read."""
        return False

    def choosing(self, columns=None, drop=None) -> Source:
        """Return the same source with other columns to predict from; see :func:`open_source`."""
        if not hasattr(self, "drop"):
            raise ValueError("columns and drop are for sources with named columns; leave them out.")
        chosen: Any = copy.copy(self)
        chosen.columns, chosen.drop = columns, drop
        return chosen

    def _named(self, names, labels, features, table) -> tuple[str, ...]:
        """Return the names of the features among those of all columns, for sources that have a choice of them."""
        known: Any = self
        first = self.names is None
        return choose(names, labels, features, known.columns, known.drop, index=index_of(table), first=first)

    def bind(self, y=None, sample_weight=None, features=None, *, any_kind: bool = False) -> Source:
        """Return the same source with the roles of its columns settled.

        Parameters
        ----------
        y, sample_weight : the columns with targets and weights, by name; arrays, for rows in an array
        features : the columns to predict from, in this order; all the others if None
        any_kind : whether these may hold text, dates and missing values; else they must be numbers
        """
        raise NotImplementedError

    def unit_rows(self) -> list[int | None]:
        """Return the number of rows of each unit, None where it is not known."""
        raise NotImplementedError

    def read(self, unit: int, *, targets_only: bool = False) -> Iterator[Chunk]:
        """Yield the chunks of a unit, in order."""
        raise NotImplementedError

    def contents(self) -> Iterator[tuple[str, Iterable[bytes]]]:
        """Yield what the rows are read from, by name and as bytes; nothing of what is known by reading it only."""
        return iter(())

    @property
    def width(self) -> int | None:
        """Number of features, None if it takes a look at the rows to know."""
        return None if self.names is None else len(self.names)

    @property
    def n_rows(self) -> int | None:
        """Number of rows, None if it takes a pass to know."""
        counts = self.unit_rows()
        return None if None in counts else sum(counts)  # type: ignore[arg-type]

    def row_keys(self) -> Iterator[np.ndarray]:
        """Yield the keys of all rows, unit by unit; nothing if it takes a pass to know them."""
        if self.n_rows is not None:
            for unit, rows in enumerate(self.unit_rows()):
                yield keys_of(unit, 0, rows or 0)

    def chunks(self, order: Iterable[int] | None = None, *, targets_only: bool = False) -> Iterator[Chunk]:
        """Yield the chunks of the units in this order, by default that of the source."""
        for unit in range(len(self.unit_rows())) if order is None else order:
            for chunk in self.read(int(unit), targets_only=targets_only):
                if len(chunk):
                    if not targets_only:
                        check_finite(chunk, self.names, gaps=self.any_kind)
                    yield chunk


def as_one(chunks: list[Chunk], where: str) -> Chunk:
    """Return chunks as one, in their order."""

    def together(name):
        values = [getattr(chunk, name) for chunk in chunks]
        if values[0] is None or len(values) == 1:
            return values[0]
        if isinstance(values[0], Views):
            return Views.joined(values)
        return joined(values) if isinstance(values[0], Table) else np.concatenate(values)

    return Chunk(together("X"), together("y"), together("sample_weight"), together("keys"), where)


def keys_of(unit: int, first: int, n: int) -> np.ndarray:
    """Return the keys of `n` rows of a unit."""
    return (unit << UNIT_BITS) + np.arange(first, first + n, dtype=np.int64)


def uniform(keys: np.ndarray, seed: int) -> np.ndarray:
    """Return a number in [0, 1) for every row, which depends on its key and the seed only (splitmix64)."""
    mask = 2**64 - 1
    with np.errstate(over="ignore"):
        z = keys.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(
            (seed * 0xD1342543DE82EF95 + 0x2545F4914F6CDD1D) & mask
        )
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    return (z >> np.uint64(11)).astype(np.float64) * 2.0**-53


def check_finite(chunk: Chunk, names: Sequence[str] | None, *, gaps: bool = False) -> None:
    """Refuse infinite values, and missing ones unless there may be gaps, by the column and the row."""
    if isinstance(chunk.X, Views):  # sparse ones are looked at when they are made dense
        tables = [part.table for part in chunk.X.parts.values() if isinstance(part.table, Table)]
        for one in tables:
            check_finite(replace(chunk, X=one), one.names if one.named else None, gaps=True)
        return
    table = open_table(chunk.X)
    if table.matrix is not None:
        with np.errstate(all="ignore"):
            if np.isfinite(
                table.matrix.sum()
            ):  # one cheap pass; a false alarm, by overflow, costs a second one
                return
    found = []
    for column, values in table.numbers():
        bad = np.isinf(values) if gaps else ~np.isfinite(values)
        if bad.any():
            name = brief(names[column]) if names is not None else f"{column}"
            what = f"{'an' if gaps else 'a missing or'} infinite value"
            found.append(f"column {name} holds {what} in row {chunk.first + int(np.argmax(bad)):,}")
    if found:
        first, *others = found[:8]
        more = f", and so do {len(found) - 8:,} more columns" if len(found) > 8 else ""
        listed = "; ".join([f"{first[0].upper()}{first[1:]} of {chunk.place}", *others]) + more
        raise ValueError(f"{listed}; fill it in, or remove that row.")


def labels(y, first: int = 0) -> np.ndarray:
    """Return targets as a plain array, text as text; `first` is the number of their first row."""
    refuse_missing(y, first)
    y = np.asarray(y)
    return np.array(y.tolist()) if y.dtype.kind == "O" else y


# -- arrays --------------------------------------------------------------------------------------------


class Arrays(Source):
    """Rows of an array, a memory map or a sparse matrix; sparse chunks are made dense."""

    def __init__(self, X):
        if not sp.issparse(X) and getattr(X, "ndim", None) != 2:
            raise ValueError(f"X must be a matrix, one line per row, and is {brief(X)}.")
        self.X = X.tocsr() if sp.issparse(X) else X
        self.y = self.sample_weight = None

    def bind(self, y=None, sample_weight=None, features=None, *, any_kind=False):
        """Take the targets and the weights as arrays of the same length."""
        if isinstance(y, str) or isinstance(sample_weight, str):
            raise ValueError("y and sample_weight must be arrays when X is one: it has no named columns.")
        bound = copy.copy(self)
        bound.any_kind = any_kind
        for name, values in (("y", y), ("sample_weight", sample_weight)):
            if values is not None and len(values) != self.X.shape[0]:
                raise ValueError(
                    f"Found input variables with inconsistent numbers of samples: X has {self.X.shape[0]:,} rows, "
                    f"{name} has {len(values):,}."
                )
            setattr(bound, name, None if values is None else np.asanyarray(values))
        return bound

    @property
    def width(self):
        """Number of features."""
        return self.X.shape[1]

    def unit_rows(self):
        n = self.X.shape[0]
        return [min(UNIT_ROWS, n - a) for a in range(0, n, UNIT_ROWS)]

    def contents(self):
        for name in ("X", "y", "sample_weight"):
            values = getattr(self, name)
            if values is not None:
                yield name, _bytes_of(values)

    def read(self, unit, *, targets_only=False):
        part = slice(unit * UNIT_ROWS, (unit + 1) * UNIT_ROWS)
        X = None if targets_only else self._rows(part)
        y = None if self.y is None else np.asarray(self.y[part])
        s = None if self.sample_weight is None else np.asarray(self.sample_weight[part], dtype=float)
        n = self.unit_rows()[unit]
        yield Chunk(X, y, s, keys_of(unit, 0, n), "X", part.start)

    def _rows(self, part):
        X = self.X[part]
        if sp.issparse(X):
            X = X.toarray()
        if X.dtype.kind in "biuf":
            return np.asarray(X, dtype=float_type([X.dtype]))
        if not self.any_kind:
            raise ValueError(f"X holds {X.dtype}, not numbers.")
        return np.asarray(X)


def _bytes_of(values) -> Iterator[bytes]:
    """Yield the rows of an array as bytes, part by part, as it may lie in a file."""
    yield f"{values.dtype} {values.shape}".encode()
    for first in range(0, values.shape[0], UNIT_ROWS):
        part = values[first : first + UNIT_ROWS]
        part = part.toarray() if sp.issparse(part) else np.asarray(part)
        # The bytes of an object are its address.
        yield repr(part.tolist()).encode("utf-8", "replace") if part.dtype.hasobject else part.tobytes()


# -- batches -------------------------------------------------------------------------------------------


def _undisturbed(batches: Iterable[Any]) -> Iterator[Any]:
    """Yield what a user's iterable does; an overflow on its way to a batch is its own affair, and no error of a fit."""
    stream = iter(batches)
    with suppress(StopIteration):
        while True:
            with np.errstate(all="warn"):
                batch = next(stream)
            yield batch


class Batches(Source):
    """Rows from an iterable of batches: (X, y), (X, y, sample_weight), dicts, DataFrames or Arrow batches."""

    columnar = False
    several = False
    #: Whether a model knows the columns that it needs.
    known = False
    #: What a batch is called in a message.
    word = "batch"

    def __init__(self, batches, columns=None, drop=None):
        self.batches = batches
        self.repeatable = not isinstance(batches, Iterator)
        self.columns, self.drop = columns, drop
        self.y = self.sample_weight = None
        self._count: int | None = None
        self._used = False

    def bind(self, y=None, sample_weight=None, features=None, *, any_kind=False):
        """Look at the first batch for the names of the columns."""
        for name, value in (("y", y), ("sample_weight", sample_weight)):
            if value is not None and not is_names(value):
                raise ValueError(
                    f"{name} is an array, but X is a source of batches, which bring their own; name a column of the "
                    f"batches, or leave {name} out for batches (X, y) or (X, y, sample_weight)."
                )
        bound = copy.copy(self)
        bound.y, bound.sample_weight, bound.any_kind = y, sample_weight, any_kind
        bound.known = features is not None
        first = bound._peek()
        rows = first[0] if isinstance(first, tuple) else first
        bound.several = are_views(rows)
        if bound.several:
            return bound
        names = names_of(rows)
        if names is not None:
            labels = () if isinstance(first, tuple) else listed(y) + listed(sample_weight)
            bound.names = self._named(names, labels, features, rows)
        elif not isinstance(first, tuple) and not hasattr(first, "__array__"):
            raise ValueError(
                f"The source yields {brief(first)}; its batches must be (X, y), (X, y, sample_weight), or tables "
                "with named columns."
            )
        return bound

    def _peek(self):
        """Return the first batch; an iterator gets it back."""
        stream = _undisturbed(self.batches)
        try:
            first = next(stream)
        except StopIteration:
            raise ValueError("The source is empty; it must yield at least one batch of rows.") from None
        if not self.repeatable:
            self.batches = chain([first], stream)
        return first

    def head(self, size: int) -> list[Chunk]:
        """Return the first chunks, up to `size` rows or a little more; an iterator gets them back."""
        stream, taken, first = _undisturbed(self.batches), [], 0
        chunks: list[Chunk] = []
        while first < size:
            try:
                taken.append(next(stream))
            except StopIteration:
                break
            chunks.append(self._chunk(taken[-1], len(chunks), first))
            first += len(chunks[-1])
            check_finite(chunks[-1], self.names, gaps=self.any_kind)
        if not self.repeatable:
            self.batches = chain(taken, stream)
        return chunks

    def unit_rows(self):
        return [self._count]

    def read(self, unit, *, targets_only=False):
        if self._used and not self.repeatable:
            raise ValueError(
                "The source is an iterator, which can be read only once, and this fit needs to read it again; pass a "
                "list of batches, a file, or an object whose __iter__ starts anew."
            )
        self._used = True
        first, width = 0, None
        for number, batch in enumerate(_undisturbed(self.batches)):
            chunk = self._chunk(batch, number, first)
            width = chunk.X.shape[1] if width is None else width
            if chunk.X.shape[1] != width and not self.several:  # a view may be lacking
                raise ValueError(
                    f"{chunk.place} has {chunk.X.shape[1]} columns, and the batches before it have {width}."
                )
            first += len(chunk)
            yield chunk
        self._count = first

    def _chunk(self, batch, number, first) -> Chunk:
        where = f"{self.word} {number}"
        y = s = None
        try:
            if isinstance(batch, tuple):
                X, y, s = (*batch, None, None)[:3]
                if len(batch) not in (2, 3):
                    raise ValueError(f"it holds {len(batch)} parts; use (X, y) or (X, y, sample_weight).")
            else:
                X = batch
                if self.y is not None:
                    y = [np.asarray(values) for values in columns_of(batch, listed(self.y))]
                    y = y[0] if isinstance(self.y, str) else np.column_stack(y)
                if self.sample_weight is not None:
                    (s,) = columns_of(batch, listed(self.sample_weight))
            X = self._rows(X)
            y = None if y is None else labels(y, first)
            s = None if s is None else np.asarray(s, dtype=float)
            for name, values in (("y", y), ("sample_weight", s)):
                if values is not None and len(values) != len(X):
                    raise ValueError(f"X has {len(X):,} rows and {name} has {len(values):,}.")
        except ValueError as error:
            raise ValueError(f"{where} (from row {first:,}): {error}") from None
        return Chunk(X, y, s, keys_of(0, first, len(X)), where, first)

    def _unnamed(self, X) -> np.ndarray:
        X = X.toarray() if sp.issparse(X) else np.asarray(X)
        if self.names is not None:
            raise ValueError(
                f"it has no column names, and the first {self.word} has {brief(list(self.names))}."
            )
        if X.ndim == 2 and X.dtype.kind in "biuf":
            return np.asarray(X, dtype=float_type([X.dtype]))
        if X.ndim == 2 and self.any_kind:
            return X
        raise ValueError(f"X must be a matrix of numbers, and is {brief(X)}.")

    def _rows(self, X) -> np.ndarray | Table | Views:
        if self.several:
            views = as_views(X)
            if views is None:
                raise ValueError(f"X is a {type(X).__name__}, and the first batch has several views.")
            return views
        names = names_of(X)
        if names is None:
            return self._unnamed(X)
        if self.names is None:
            raise ValueError(f"it has column names, and the first {self.word} has none.")
        roles = (*listed(self.y), *listed(self.sample_weight))
        known = {"", *self.names, *roles, *(self.drop or ()), *index_of(X)}
        new = [name for name in names if name not in known]
        # Where there is nothing to learn, further columns do not matter.
        if new and self.columns is None and roles and not self.known:
            raise ValueError(f"it has a column {brief(new[0])}, which the first {self.word} does not have.")
        if not self.any_kind:
            return matrix(columns_of(X, self.names), self.names)
        if type(X).__name__ == "RecordBatch":  # its columns are no series, and those of a table are
            from .files import arrow  # here, so that a fit of rows in memory does without

            X = arrow().Table.from_batches([X])
        return of_columns(columns_of(X, self.names), self.names)
