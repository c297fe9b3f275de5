"""Tables for the command line: what its options say about files and columns, in the words of the options."""

from __future__ import annotations

import csv
import shlex
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ..streaming import (
    CHUNK_ROWS,
    MissingColumn,
    NewColumn,
    NotNumbers,
    Source,
    Standardised,
    TableWriter,
    bind_for,
    missing_column,
    open_source,
)
from .screens import count, note, noted

#: Files of more bytes than this are read chunk by chunk, where the solver can.
LARGE = 2**28
#: Whole numbers with at most this many distinct values are classes, unless --task says otherwise.
FEW_CLASSES = 20
#: And with at most this many they may be classes, which is told.
MANY_CLASSES = 1000
#: Larger numbers are no names of classes; beyond, not all whole numbers have a floating-point number of their own.
LARGEST_CLASS = 2.0**53
TASKS = ("auto", "classify", "regress")


# -- rows ----------------------------------------------------------------------------------------------


def is_large(path: Path, limit: int = LARGE) -> bool:
    """Whether a table is read chunk by chunk: a folder, files that match a pattern, or one of more bytes than that."""
    return not path.is_file() or path.stat().st_size > limit


def open_table(
    data: Path,
    target: str,
    roles: dict[str, Any],
    dialect: dict[str, Any],
    *,
    whole: bool,
    any_kind: bool = False,
) -> Source:
    """Return the rows of a table, with the roles of its columns as --target, --columns, --drop and --groups say.

    `roles` are those options, `dialect` says how text is written, `any_kind` whether columns may hold text, dates and
    gaps. Of a table that is read as a whole, rows without a target are left out, with a note.
    """
    columns, drop, groups = (roles.get(name) for name in ("columns", "drop", "groups"))
    if columns and drop:
        raise ValueError("--columns and --drop exclude each other; give one of them.")
    if groups == target:
        raise ValueError(f"{target} is the target; name another column with --groups.")
    with noted():
        source = open_source(data, whole=whole, **dialect)
        chosen, dropped = (_names(listed, source.column_names) for listed in (columns, drop))
        for name, role in ((target, "the target"), (groups, "the groups' column")):
            if name in (chosen or ()):
                raise ValueError(f"{name} is {role}; leave it out of --columns.")
        if groups is not None:
            dropped = [*(dropped or ()), groups]
        with _in_options({target: "--target", groups: "--groups"}, "--columns" if chosen else "--drop"):
            bound = source.choosing(chosen, dropped).bind(target, any_kind=any_kind)
        return _with_targets(bound, target) if whole else bound


def _with_targets(source: Any, target: str) -> Source:
    """Return the rows that have a target."""
    some, left = source.where_known(target)
    if not left:
        return source
    if some.n_rows == 0:
        raise ValueError(f"Column {target!r} is empty; name another with --target.")
    note(f"{count(left, 'row has', 'rows have')} no {target}, and cannot be learned from.")
    return some


def groups_of(source: Source, groups: str) -> np.ndarray:
    """Return the column --groups of a table that is read as a whole."""
    return next(source.bind(groups, any_kind=True).chunks(targets_only=True)).y


def open_table_of(
    model, units, data: Path, dialect=None, *, target=None, large: int = LARGE, chunk_rows: int = CHUNK_ROWS
) -> Source:
    """Return the rows of a table as the model wants them: its columns, in its order and in the `units` it knows.

    With `target` they have the values of that column beside them, and rows without one are left out.
    """
    names = getattr(model, "feature_names_in_", None)
    if names is None:  # fitted in Python, on an array: the columns go by their order
        remedy = (
            f"keep only the {model.n_features_in_} columns that the model was fitted on, in the same order."
        )
    else:
        remedy = "encode it as numbers, in the same way as in the table that the model was fitted on."
    with noted(), _in_options({target: "--target"}, "needed by the model", remedy):
        source = open_source(data, whole=not is_large(data, large), chunk_rows=chunk_rows, **(dialect or {}))
        if target is not None and target not in (source.column_names or ()):
            raise missing_column([target], source.column_names or ())
        if target is not None and not is_large(data, large):
            source = _with_targets(source, target)
        source = bind_for(model, source, target)
    return source if units is None else Standardised(source, *units)


def column_names(data: Path, dialect=None, *, large: int = LARGE) -> tuple[str, ...]:
    """Return the names of a table's columns, whatever their roles."""
    return tuple(open_source(data, whole=not is_large(data, large), **(dialect or {})).column_names or ())


def _names(listed, known) -> list[str] | None:
    """Return the names in the texts of an option: each is a column, or several with commas between them."""
    if not listed:
        return None
    parts = ([text] if text in known else [s.strip() for s in text.split(",")] for text in listed)
    return list(dict.fromkeys(name for part in parts for name in part))


@contextmanager
def _in_options(options: dict[Any, str], otherwise: str, not_numbers: str = "") -> Iterator[None]:
    """Say what to do about a column in terms of the command line.

    Parameters
    ----------
    options : dict from the name of a column to the option that gave it
    otherwise : what names that are not in `options` come from
    not_numbers : what to do about text; by default to leave it out
    """
    try:
        yield
    except MissingColumn as error:
        where = options.get(error.column, otherwise)
        raise ValueError(f"{error.fault} ({where}); {error.remedy}") from None
    except NotNumbers as error:
        drop = f"leave it out with --drop {shlex.quote(error.column)}, or use --kernels auto, which reads any column."
        raise ValueError(f"{error.fault}; {not_numbers or drop}") from None
    except NewColumn as error:
        raise ValueError(
            f"{error.fault}; remove it, or name the columns to predict from with --columns."
        ) from None


# -- targets -------------------------------------------------------------------------------------------


def is_class(targets: Iterable[np.ndarray], name: str, task: str) -> bool:
    """Whether a target's values, given part by part, are classes: text, or few whole numbers, unless `task` says."""
    if task not in TASKS:
        raise ValueError(f"--task is {task}; use auto, classify or regress.")
    values: set[Any] = set()
    for y in targets:
        if y.dtype.kind in "Ub":
            if task == "regress":
                kind = "text" if y.dtype.kind == "U" else "true and false"
                raise ValueError(f"Column {name!r} holds {kind}, not numbers; use --task classify.")
            return True
        if y.dtype.kind not in "iuf":
            held = {"m": "times", "M": "dates", "O": "lists or structures"}.get(y.dtype.kind, str(y.dtype))
            raise ValueError(
                f"Column {name!r} holds {held}, and a target is numbers or classes; name another with --target, or "
                "write it as a number, such as days."
            )
        if task == "regress":
            return False
        if y.dtype.kind == "f" and np.any((y != np.round(y)) | (np.abs(y) > LARGEST_CLASS)):
            if task == "classify":
                raise ValueError(
                    f"Column {name!r} holds fractions, which are no classes; use --task regress."
                )
            return False
        if task == "auto":
            values.update(np.unique(y).tolist())
            if len(values) > FEW_CLASSES:
                if len(values) <= MANY_CLASSES:
                    note(
                        f"{name} holds more than {FEW_CLASSES} different whole numbers, and is learned as a number; "
                        "--task classify takes them for classes."
                    )
                return False
    return True


# -- writing -------------------------------------------------------------------------------------------


def named(X, names) -> pa.Table:
    """Return a matrix as a table, so that kernels go by the names of columns."""
    return pa.table([X[:, j] for j in range(len(names))], names=list(names))


def table_writer(path: Path | None):
    """Return what writes columns, batch by batch: to a file, or as CSV to the standard output."""
    return ScreenWriter() if path is None else TableWriter(path)


class ScreenWriter:
    """Writes columns to the standard output, batch by batch."""

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
