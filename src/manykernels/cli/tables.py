"""Tables for the command line: CSV, Parquet and Arrow files, and columns checked one by one."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv as arrow_csv
from pyarrow import feather, parquet

from ..streaming.arrow import TableWriter
from ..streaming.columns import UNNAMED, index_of
from ..streaming.files import check_files, is_pattern, open_dataset
from ..streaming.sources import CHUNK
from .screens import note

#: Files of more bytes than this are read in pieces, where the solver can.
LARGE = 2**28
#: Whole numbers with at most this many distinct values are classes, unless --task says otherwise.
MOST_CLASSES = 20
#: The formats, by the ending of a file's name.
READABLE = ("csv", "tsv", "parquet", "feather", "arrow")
#: Endings after .csv and .tsv.
COMPRESSED = ("gz", "bz2", "zst")
WRITABLE = ("csv", "parquet", "feather", "arrow")


# -- files ---------------------------------------------------------------------------------------------


def read_table(path: Path) -> pa.Table:
    """Read a table by the ending of its name."""
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist.")
    kind = extension(path, READABLE)
    try:
        if kind in ("csv", "tsv"):
            options = arrow_csv.ParseOptions(delimiter="," if kind == "csv" else "\t")
            table = arrow_csv.read_csv(path, parse_options=options)
        elif kind == "parquet":
            table = parquet.read_table(path)
        else:
            table = feather.read_table(path)
    except pa.ArrowInvalid as error:
        raise ValueError(f"{path} cannot be read as {kind}: {str(error).splitlines()[0]}") from error
    twice = [name for name in table.column_names if table.column_names.count(name) > 1]
    if twice:
        raise ValueError(f"{path} has two columns called {twice[0]}; rename one.")
    if table.num_rows == 0:
        raise ValueError(f"{path} has no rows.")
    return table


def is_large(path: Path) -> bool:
    """Whether a table is read in pieces: a folder, files that match a pattern, or a file of more than `LARGE` bytes."""
    return path.is_dir() or is_pattern(path) or (path.exists() and path.stat().st_size > LARGE)


def read_pieces(path: Path, wanted=None) -> Iterator[pa.Table]:
    """Yield a table in pieces, a small one in one; every file must have the columns that are wanted."""
    if not is_large(path):
        yield read_table(path)
        return
    found, dataset = False, open_dataset(path)
    check_files(dataset, [name for name in wanted or () if name in dataset.schema.names])
    for batch in dataset.to_batches(batch_size=CHUNK, batch_readahead=2, fragment_readahead=1):
        if batch.num_rows:
            found = True
            yield pa.Table.from_batches([batch])
    if not found:
        raise ValueError(f"{path} has no rows.")


def table_writer(path: Path | None):
    """Return what writes columns, piece by piece: to a file, or as CSV to the standard output."""
    return ScreenWriter() if path is None else TableWriter(path)


class ScreenWriter:
    """Writes columns to the standard output, piece by piece."""

    n_rows = 0

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False

    def write(self, columns: dict[str, np.ndarray]) -> None:
        """Write some rows."""
        writer = csv.writer(sys.stdout, lineterminator="\n")
        if self.n_rows == 0:
            writer.writerow(columns)
        rows = list(zip(*(values.tolist() for values in columns.values()), strict=True))
        writer.writerows(rows)
        self.n_rows += len(rows)
        sys.stdout.flush()  # a reader that has gone is noticed here


def extension(path: Path, known) -> str:
    """Return the format that the name of a file tells, one of the `known`."""
    suffixes = [s.lower().lstrip(".") for s in path.suffixes]
    packed = suffixes[-1] if suffixes and suffixes[-1] in COMPRESSED else ""
    kind = next(reversed(suffixes[:-1] if packed else suffixes), "")
    if kind not in known:
        raise ValueError(f"{path} must end in {', '.join('.' + k for k in known)}, to say what it is.")
    if packed and kind not in ("csv", "tsv"):
        raise ValueError(f"{path}: {kind} is compressed inside; leave the ending .{packed} off.")
    return kind


# -- columns -------------------------------------------------------------------------------------------


def choose_columns(table, target, columns, drop) -> list[str]:
    """Return the names of the features: those listed, or all but those dropped and the target."""
    if columns and drop:
        raise ValueError("--columns and --drop exclude each other; give one of them.")
    listed = []
    for text in columns or drop or []:
        listed += [text] if text in table.column_names else [s.strip() for s in text.split(",")]
    for name in listed:
        _column(table, name, "--columns" if columns else "--drop")
    if columns:
        if target in listed:
            raise ValueError(f"{target} is the target; leave it out of --columns.")
        return list(dict.fromkeys(listed))
    names = [name for name in features_of(table) if name != target and name not in listed]
    if "" in table.column_names and "" not in (target, *listed):
        note(UNNAMED)
    if not names:
        raise ValueError("No column is left to predict from; drop fewer.")
    return names


def features_of(table) -> list[str]:
    """Return the columns that hold no index: pandas stores one with the rows, in CSV under an empty name."""
    return [name for name in table.column_names if name not in ("", *index_of(table))]


def read_numbers(table, names) -> np.ndarray:
    """Return columns as a matrix, after checking that they hold numbers without gaps."""
    X = np.empty((table.num_rows, len(names)))
    for j, name in enumerate(names):
        column = _column(table, name, "needed by the model")
        _refuse_gaps(name, column.null_count)
        if not _is_number(column.type):
            raise ValueError(
                f"Column {name} holds {column.type}, not numbers; leave it out with --drop {name}, or "
                "encode it as numbers first."
            )
        X[:, j] = column.cast(pa.float64()).to_numpy()
        _refuse_gaps(name, np.count_nonzero(~np.isfinite(X[:, j])))
    return X


def read_target(table, name, task) -> tuple[np.ndarray, bool]:
    """Return the target, and whether its values are classes."""
    if task not in ("auto", "classify", "regress"):
        raise ValueError(f"--task is {task}; use auto, classify or regress.")
    column = _column(table, name, "--target")
    _refuse_gaps(name, column.null_count)
    if _is_label(column.type):
        if task == "regress":
            raise ValueError(f"Column {name} holds {column.type}, not numbers; use --task classify.")
        return np.array(column.to_pylist()), True
    if not _is_number(column.type):
        raise ValueError(f"Column {name} holds {column.type}; the target must be numbers or text.")
    if task != "regress" and pa.types.is_integer(column.type):
        values, whole = column.to_numpy(), True  # as floats, large labels would fall together
    else:
        values = read_numbers(table, [name])[:, 0]
        whole = bool(np.all(values == np.round(values)))
    if task == "classify" and not whole:
        raise ValueError(f"Column {name} holds fractions, which are no classes; use --task regress.")
    few = whole and len(np.unique(values)) <= MOST_CLASSES
    classify = task == "classify" or (task == "auto" and few)
    return values.astype(int if classify else float), classify


def named(X, names) -> pa.Table:
    """Return a matrix as a table, so that kernels go by the names of columns."""
    return pa.table([X[:, j] for j in range(len(names))], names=list(names))


def _column(table, name, what) -> pa.ChunkedArray:
    if name not in table.column_names:
        near = get_close_matches(name, table.column_names, n=1)
        listed = ", ".join(table.column_names[:8]) + (" and more." if table.num_columns > 8 else ".")
        hint = f"did you mean {near[0]}?" if near else f"it has {listed}"
        raise ValueError(f"The table has no column {name} ({what}); {hint}")
    column = table.column(name)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column


def _is_label(kind) -> bool:
    types = pa.types
    return any(is_(kind) for is_ in (types.is_string, types.is_large_string, types.is_boolean))


def _is_number(kind) -> bool:
    types = pa.types
    return any(is_(kind) for is_ in (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal))


def _refuse_gaps(name, count) -> None:
    if count:
        values = "value is" if count == 1 else "values are"
        raise ValueError(
            f"Column {name}: {count:,} {values} missing or infinite; fill them in, or remove those rows."
        )
