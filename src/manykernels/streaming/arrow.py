"""Tables in files, by pyarrow: Parquet, CSV and Arrow, read chunk by chunk and written batch by batch."""

from __future__ import annotations

import bz2
import copy
import csv
import gzip
import io
import os
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from typing import Any

import numpy as np

from .._util.files import replacing
from .._util.text import brief
from ..tables.reading import Table, float_type, of_matrix, open_table
from .columns import NotNumbers, listed, not_numbers
from .files import arrow, check_files, format_of, in_one_sentence
from .meaning import is_text, trimmed
from .sources import CHUNK_ROWS, Chunk, Source, keys_of

#: Endings of files that can be written.
WRITABLE = ("parquet", "pq", "csv", "feather", "arrow", "ipc")
#: Fewer rows than this are read together with the next ones: a batch costs time for every column.
LEAST_ROWS = 1024
#: Bytes of a file that are looked at together.
PART = 2**20
#: What compresses CSV, by the ending of a file's name.
PACKERS: dict[str, Any] = {
    ".gz": lambda stream: gzip.GzipFile("", "wb", fileobj=stream),
    ".bz2": lambda stream: bz2.BZ2File(stream, "wb"),
}


class Tables(Source):
    """Rows of a pyarrow Dataset.

    Units are row groups of Parquet files, and other files as a whole. A Parquet file is read page by page, so that
    memory does not depend on the size of its row groups.

    Parameters
    ----------
    dataset : pyarrow Dataset
    columns, drop : lists of str, optional
        The columns to predict from, or those to leave out.
    origin : path, or list of paths, optional
        What the user gave.
    chunk_rows : int
        Most rows of a chunk.
    """

    def __init__(self, dataset, columns=None, drop=None, origin=None, chunk_rows: int = CHUNK_ROWS):
        self.dataset, self.columns, self.drop, self.origin = dataset, columns, drop, origin
        self.chunk_rows = chunk_rows
        self.y = self.sample_weight = None
        #: Of every file that was read, when it was last changed, and its length.
        self._stamps: dict[str, tuple[int, int]] = {}

    @property
    def column_names(self):
        """Names of all columns, whatever their roles."""
        return tuple(self.dataset.schema.names)

    def where_known(self, name: str) -> tuple[Tables, int]:
        """Return the rows of a table in memory that have a value in a column, and how many have none.

        Blank text is none. A column that is not there, or twice, is refused where the rows are bound.
        """
        import pyarrow.compute as pc

        if self.dataset.schema.names.count(name) != 1:
            return self, 0
        with in_one_sentence(self._name):
            table = self.dataset.to_table()
            table.validate(full=True)
        values = table.column(name)
        known = values.is_valid()
        if _is_text(values.type):
            known = pc.and_(known, pc.fill_null(pc.not_equal(pc.utf8_trim_whitespace(values), ""), False))
        elif arrow().types.is_floating(values.type):
            known = pc.and_(known, pc.fill_null(pc.invert(pc.is_nan(values)), False))
        some = copy.copy(self)
        some.dataset = arrow().dataset.dataset(table.filter(known))
        return some, table.num_rows - some.dataset.count_rows()

    def holds_numbers(self, name):
        try:
            return _number_type(self.dataset.schema.field(name)) != np.dtype(bool)
        except NotNumbers:
            return False

    def bind(self, y=None, sample_weight=None, features=None, *, any_kind=False):
        """Settle the roles of the columns, and check their types."""
        for name, value in (("y", y), ("sample_weight", sample_weight)):
            if value is not None and not all(isinstance(v, str) for v in listed(value)):
                raise ValueError(
                    f"{name} is given as an array together with a file; name the column of the file that holds it, as "
                    f"in {name}='column'."
                )
        bound = copy.copy(self)
        bound._stamps = {}
        bound.y, bound.sample_weight, bound.any_kind = y, sample_weight, any_kind
        schema = self.dataset.schema
        roles = (*listed(y), *listed(sample_weight))
        bound.names = self._named(self.column_names, roles, features, schema)
        bound._only_numbers = not any_kind or all(_is_number(schema.field(name).type) for name in bound.names)
        dtypes = [_number_type(schema.field(name)) for name in bound.names] if bound._only_numbers else []
        dtypes += bound._types_elsewhere((*bound.names, *roles))
        bound._dtype = np.float64 if self._is_text else float_type(dtypes)
        if sample_weight is not None:
            _number_type(schema.field(sample_weight))
        return bound

    def _types_elsewhere(self, wanted) -> list[np.dtype]:
        """Return the types of the features in files with another schema than the first, after checking them."""
        # A Dataset that the user has opened may leave out columns on purpose.
        closed = self.origin is not None and self.columns is None and len(wanted) > len(self.names or ())
        types = []
        for path, schema in check_files(self.dataset, wanted, closed=closed):
            there = set(schema.names)
            if not self._only_numbers:
                continue
            try:
                types += [_number_type(schema.field(n)) for n in self.names or () if n in there]
            except NotNumbers as error:
                raise NotNumbers(error.column, f"{path}: {error.fault}", error.remedy) from None
        return types

    _dtype: Any = np.float64
    _only_numbers: bool = True

    @cached_property
    def _units(self) -> list[tuple[Any, int | None, str, int | None]]:
        """Fragments with a row group's number, a name, and the number of rows."""
        try:
            fragments = list(self.dataset.get_fragments())
        except ValueError:  # filtered: its fragments know nothing of the filter
            return [(self.dataset, None, "the dataset", self.dataset.count_rows())]
        units: list[tuple[Any, int | None, str, int | None]] = []
        for fragment in fragments:
            name = os.path.basename(getattr(fragment, "path", self._name))
            with in_one_sentence(name):
                if hasattr(fragment, "split_by_row_group"):
                    units += [(fragment, group.id, name, group.num_rows) for group in fragment.row_groups]
                else:
                    units.append((fragment, None, name, fragment.count_rows()))
        return units

    @property
    def _name(self) -> str:
        """What to call rows that are in memory: by the file they came from, if they did."""
        return os.fspath(self.origin) if isinstance(self.origin, str | os.PathLike) else "the table"

    @property
    def _is_text(self) -> bool:
        return _format_name(self.dataset) == "csv"

    def unit_rows(self):
        return [rows for *_, rows in self._units]

    def read(self, unit, *, targets_only=False):
        fragment, group, name, _ = self._units[unit]
        where = name if group is None else f"row group {group} of {name}"
        wanted = [] if targets_only else list(self.names or ())
        columns = [*wanted, *listed(self.y), *listed(self.sample_weight)]
        first = 0
        path = getattr(fragment, "path", "")
        self._check_unchanged(path)
        with in_one_sentence(where):
            for batch in self._batches(fragment, group, list(dict.fromkeys(columns))):
                X = None if targets_only else self._rows(batch)
                y = self._targets(batch, where, first)
                s = None
                if self.sample_weight is not None:
                    s = _numbers(batch.column(self.sample_weight)).astype(float)
                yield Chunk(X, y, s, keys_of(unit, first, batch.num_rows), where, first)
                first += batch.num_rows
        self._check_unchanged(path)

    def contents(self):
        for path in getattr(self.dataset, "files", ()):
            self._check_unchanged(path)
            yield path, self._bytes_of(path)

    def _bytes_of(self, path: str) -> Iterator[bytes]:
        """Yield the bytes of a file, after what the names of its folders say."""
        yield "/".join(part for part in path.split("/") if "=" in part).encode()
        with (
            in_one_sentence(path),
            self.dataset.filesystem.open_input_stream(path, compression=None) as stream,
        ):
            while part := stream.read(PART):
                yield part

    def _check_unchanged(self, path: str) -> None:
        """Refuse a file that is no longer what it was: passes over different rows would make one model of two."""
        try:
            known = os.stat(path) if path else None
        except OSError:  # on another machine; or gone
            if path in self._stamps:
                raise ValueError(
                    f"{path} is gone since its rows were first read; start again, with files that stay."
                ) from None
            known = None
        if known is None:
            return
        stamp = known.st_mtime_ns, known.st_size
        if self._stamps.setdefault(path, stamp) != stamp:
            raise ValueError(
                f"{path} has changed since its rows were first read; start again, with files that stay."
            )

    def _batches(self, fragment, group, columns) -> Iterator[Any]:
        """Yield the record batches of a unit; those of a Parquet file page by page."""
        pa = arrow()
        if group is not None and set(columns) <= set(fragment.physical_schema.names):
            from pyarrow import parquet

            with fragment.filesystem.open_input_file(fragment.path) as handle:
                file = parquet.ParquetFile(handle, pre_buffer=False, buffer_size=2**18)
                yield from file.iter_batches(self.chunk_rows, row_groups=[group], columns=columns)
            return
        if group is not None:  # a column comes from the name of the folder
            fragment = fragment.subset(row_group_ids=[group])
        options = {} if fragment is self.dataset else {"schema": self._schema(pa)}
        batches = fragment.to_batches(
            columns=columns, batch_size=self.chunk_rows, batch_readahead=2, fragment_readahead=1, **options
        )
        if self._is_text:
            batches = (trimmed(batch, pa) for batch in batches)
        elif _format_name(fragment) != "parquet":
            batches = _sound(batches)
        yield from _enlarged(batches, min(self.chunk_rows, LEAST_ROWS))

    def _schema(self, pa):
        """Return the schema to read by: numbers in text may turn out to be fractions further down."""
        if not self._is_text:
            return self.dataset.schema
        wide = {*(self.names or ()), *listed(self.sample_weight)}
        if self.numeric_targets:
            wide |= set(listed(self.y))
        kinds = [
            (f, f.name in wide and _is_number(f.type) and f.type != pa.bool_()) for f in self.dataset.schema
        ]
        return pa.schema([pa.field(f.name, pa.float64() if widened else f.type) for f, widened in kinds])

    def _rows(self, batch) -> np.ndarray | Table:
        if not self.any_kind:
            return self._matrix(batch)
        if self._only_numbers:
            return of_matrix(self._matrix(batch), self.names)
        return open_table(arrow().Table.from_batches([batch]).select(self.names)).at_once()

    def _matrix(self, batch) -> np.ndarray:
        names = self.names or ()
        X = np.empty((batch.num_rows, len(names)), dtype=self._dtype)
        for j, name in enumerate(names):
            X[:, j] = _numbers(batch.column(name))
        return X

    def _targets(self, batch, where, first):
        if self.y is None:
            return None
        parts = []
        for name in listed(self.y):
            values = batch.column(name)
            if values.null_count:
                missing = values.is_null().to_numpy(zero_copy_only=False)
            else:
                parts.append(_labels(values))
                missing = _absent(parts[-1])
                if not missing.any():
                    continue
            raise ValueError(
                f"Column {brief(name)} holds a missing or infinite value in row {first + int(np.argmax(missing)):,} "
                f"of {where}; remove that row, or fill it in."
            )
        return parts[0] if isinstance(self.y, str) else np.column_stack(parts)


def _format_name(rows) -> str:
    """Return the ending of files in the format of a Dataset or Fragment; nothing for rows that are in memory."""
    return getattr(getattr(rows, "format", None), "default_extname", "")


def _sound(batches: Iterator[Any]) -> Iterator[Any]:
    """Yield batches whose places of text are in it: Feather and Arrow files may hold any, which Arrow would follow."""
    for batch in batches:
        batch.validate(full=True)
        yield batch


def _enlarged(batches, least: int) -> Iterator[Any]:
    """Yield batches of at least `least` rows, but for the last one: text comes in blocks of equal size."""
    waiting: list[Any] = []
    for batch in batches:
        waiting.append(batch)
        if sum(some.num_rows for some in waiting) >= least:
            yield from _together(waiting)
            waiting = []
    yield from _together(waiting)


def _together(batches: list[Any]) -> list[Any]:
    """Return the rows of batches as one batch; as several where its text is beyond what a batch can hold."""
    if len(batches) < 2:
        return batches
    return arrow().Table.from_batches(batches).combine_chunks().to_batches()


def _is_number(kind) -> bool:
    """Whether a column of a type is a number or a flag to all readers; what is missing throughout is either."""
    types = arrow().types
    plain = (types.is_boolean, types.is_integer, types.is_floating, types.is_decimal, types.is_null)
    return any(check(kind) for check in plain)


def _number_type(field) -> np.dtype:
    """Return the type of a column of numbers; others are refused by name."""
    types, kind = arrow().types, field.type
    if types.is_boolean(kind):
        return np.dtype(bool)
    if types.is_integer(kind) or types.is_floating(kind):
        return np.dtype(kind.to_pandas_dtype())
    if types.is_decimal(kind) or types.is_null(kind):
        return np.dtype(float)
    if types.is_dictionary(kind) and not _is_text(kind.value_type):
        return _number_type(field.with_type(kind.value_type))
    raise not_numbers(
        field.name, "text" if _is_text(kind) or types.is_dictionary(kind) else f"values of type {kind}"
    )


def _is_text(kind) -> bool:
    return is_text(kind, arrow())


def _numbers(values) -> np.ndarray:
    """Return a column of numbers as an array, with NaN for what is missing."""
    pa = arrow()
    kind = values.type
    if pa.types.is_dictionary(kind):
        values = values.cast(kind.value_type)
        kind = values.type
    if pa.types.is_boolean(kind):
        values = values.cast(pa.uint8())
    elif pa.types.is_decimal(kind) or pa.types.is_null(kind):
        values = values.cast(pa.float64())
    return values.to_numpy(zero_copy_only=False)


def _labels(values) -> np.ndarray:
    if arrow().types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if _is_text(values.type):
        return np.array(values.to_pylist(), dtype=str)
    if arrow().types.is_decimal(values.type):
        return _numbers(values)
    return np.asarray(values.to_numpy(zero_copy_only=False))


def _absent(labels: np.ndarray) -> np.ndarray:
    """Return which labels are no numbers, or blank: text without a letter is no class, in whatever format."""
    if labels.dtype.kind == "U":
        return np.char.strip(labels) == ""
    return ~np.isfinite(labels) if labels.dtype.kind == "f" else np.zeros(len(labels), dtype=bool)


# -- writing -------------------------------------------------------------------------------------------


class TableWriter:
    """Writes a table batch by batch; the file appears, whole, when all went well.

    Parameters
    ----------
    path : path that ends in .parquet, .csv, .feather or .arrow
    """

    def __init__(self, path):
        self.path = os.path.realpath(path)
        self.kind = format_of(path, WRITABLE)
        if self.path.lower().endswith(".zst"):
            raise ValueError(f"{path} cannot be written; CSV is compressed as .csv.gz or .csv.bz2.")
        self._writer: Any = None
        self.n_rows = 0

    def __enter__(self):
        self._file = replacing(self.path)
        self._stream = self._file.__enter__()
        return self

    def write(self, columns: dict[str, np.ndarray]) -> None:
        """Write some rows, given as columns."""
        pa = arrow()
        table = pa.table({name: pa.array(values.tolist()) for name, values in columns.items()})
        if self._writer is None:
            self._writer = self._open(table.schema)
        self._writer.write_table(table.cast(self._schema))
        self.n_rows += table.num_rows

    def _open(self, schema):
        pa = arrow()
        self._schema = schema
        if self.kind == "parquet":
            from pyarrow import parquet

            return parquet.ParquetWriter(self._stream, schema)
        if self.kind == "csv":
            return _CsvWriter(self._packed(), schema.names)
        return pa.ipc.new_file(self._stream, schema)

    def _packed(self):
        """Return the stream, compressed as the ending of the name says."""
        pack = PACKERS.get(os.path.splitext(self.path)[1].lower())
        return self._stream if pack is None else pack(self._stream)

    def __exit__(self, *error):
        if self._writer is not None:
            with suppress(*([] if error[0] is None else [Exception])):
                self._writer.close()
        return self._file.__exit__(*error)


class _CsvWriter:
    """Writes tables as CSV, text unquoted where it can be, which pyarrow's writer does not do."""

    def __init__(self, stream, names):
        self._stream = stream
        self._text = io.TextIOWrapper(stream, encoding="utf-8", newline="")
        self._rows = csv.writer(self._text, lineterminator="\n")
        self._rows.writerow(names)

    def write_table(self, table) -> None:
        self._rows.writerows(zip(*(column.to_pylist() for column in table.columns), strict=True))

    def close(self) -> None:
        self._text.flush()
        self._text.detach()
        if isinstance(self._stream, gzip.GzipFile | bz2.BZ2File):  # the file underneath stays open
            self._stream.close()
