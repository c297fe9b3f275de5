"""Files with tables: which ones a path means, and whether they fit together."""

from __future__ import annotations

import fnmatch
import glob
import os
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path, PurePath
from typing import Any

from .._util.text import brief, not_installed
from .columns import NewColumn, index_of
from .dialect import AS_IT_IS, Dialect, known_as, other_encoding
from .formats import ALONE
from .meaning import null_words, plain_name, trimmed, understood
from .text import Look, NotUtf8, empty_lines, look_at

#: Endings of compressed text.
PACKED = ("gz", "bz2", "zst")
#: Endings of others, which are not read.
UNREAD = ("xz", "zip", "7z", "rar", "tar", "tgz", "lzma", "lz4", "br", "z")
#: How Parquet and Arrow files begin and end.
MAGIC = (b"PAR1", b"ARROW1")
#: The formats, by the ending of a file's name.
FORMATS = {
    "parquet": "parquet",
    "pq": "parquet",
    "csv": "csv",
    "tsv": "tsv",
    "txt": "csv",
    "feather": "ipc",
    "arrow": "ipc",
    "ipc": "ipc",
    "xlsx": "excel",
    "xls": "excel",
    "npz": "npz",
    "svm": "svmlight",
    "svmlight": "svmlight",
    "libsvm": "svmlight",
}
#: Endings that a file may have which is named by itself, and that count for nothing in a folder.
NAMED_ONLY = ("txt", "xlsx", "xls", "npz", "svm", "svmlight", "libsvm")
#: What stands between two values in text.
DELIMITERS = {"csv": ",", "tsv": "\t"}


def arrow():
    """Return pyarrow, or say how to get it."""
    try:
        import pyarrow as pa
        import pyarrow.dataset
    except ImportError as error:
        raise ImportError(not_installed("Reading and writing tables needs pyarrow", "io")) from error
    return pa


def open_dataset(path, dialect: Dialect = AS_IT_IS):
    """Return a file, a folder, a pattern such as ``"rows/*.parquet"`` or a list of files as a pyarrow Dataset.

    The format is told by the names, and how text is written by the first file.
    """
    pa = arrow()
    files, folder = _listed_files(path)
    kind: Any = format_of(files[0])
    if kind in ALONE:
        raise ValueError(f"{files[0]} is read as a whole only; pass whole=True, or write it as Parquet.")
    hive = {} if folder is None else {"partitioning": "hive", "partition_base_dir": folder}
    place = files[0] if folder is None else folder
    if kind not in DELIMITERS:
        with in_one_sentence(place):
            return pa.dataset.dataset(files, format=kind, **hive)
    (reading, *others), _ = _text_options(files, kind, dialect)
    with in_one_sentence(place):
        dataset = pa.dataset.dataset(files, format=_csv_format(reading, *others), **hive)
    return _with_plain_names(dataset, reading, others)


def _csv_format(reading, parsing, converting):
    return arrow().dataset.CsvFileFormat(parsing, convert_options=converting, read_options=reading)


def _with_plain_names(dataset, reading, others):
    """Return a Dataset of text in which no name has blanks around it; each file has a first line of its own."""
    from pyarrow.csv import ReadOptions

    pa = arrow()
    fragments, plain = list(dataset.get_fragments()), True
    for i, fragment in enumerate(fragments):
        with in_one_sentence(fragment.path):
            written = fragment.physical_schema.names
        names = [plain_name(name) for name in written]
        if names != written:
            plain = False
            skipped = 1 + empty_lines(fragment.path, pa, reading.encoding)
            own = ReadOptions(
                block_size=reading.block_size,
                encoding=reading.encoding,
                column_names=names,
                skip_rows_after_names=skipped,
            )
            where = fragment.path, fragment.filesystem, fragment.partition_expression
            fragments[i] = _csv_format(own, *others).make_fragment(*where)
    if plain:
        return dataset
    schema = pa.schema([field.with_name(plain_name(field.name)) for field in dataset.schema])
    return pa.dataset.FileSystemDataset(fragments, schema, dataset.format, dataset.filesystem)


def read_whole(path, dialect: Dialect = AS_IT_IS):
    """Return a file as a pyarrow Dataset in memory; types in text are told by all rows, not by the first ones."""
    pa = arrow()
    (file, *more), _ = _listed_files(path)
    if more:
        raise ValueError(
            f"{path} stands for several files; leave whole out to read them one after the other."
        )
    kind = format_of(file)
    with in_one_sentence(file):
        table = _read_table(file, kind, dialect)
    return pa.dataset.dataset(
        table.combine_chunks()
    )  # every chunk would be a unit, and cost time for every column


def _read_table(file: str, kind: str, dialect: Dialect):
    """Return all of a file as a pyarrow Table."""
    from pyarrow import csv, feather, parquet

    if kind in DELIMITERS:
        options, settled = _text_options([file], kind, dialect)
        table = csv.read_csv(file, *options)
        table = table.rename_columns([plain_name(name) for name in table.column_names])
        return understood(trimmed(table, arrow()), settled.decimal or ".", arrow())
    if kind in ALONE:
        return ALONE[kind](file, arrow())
    return (parquet if kind == "parquet" else feather).read_table(file)


def _text_options(files: list[str], kind: str, dialect: Dialect) -> tuple[tuple[Any, Any, Any], Dialect]:
    """Return how text is read, parsed and understood, after a look at all of it, and how the first file is written.

    A field without text is missing, in a column of text as among numbers.
    """
    from pyarrow.csv import ConvertOptions, ParseOptions, ReadOptions

    try:
        settled, seen = _looked_at(files, kind, dialect)
    except NotUtf8 as error:
        if dialect.encoding is not None:
            raise
        settled, seen = _looked_at(files, kind, replace(dialect, encoding=other_encoding(error, arrow())))
    nulls = [blank + word for word in null_words() for blank in ("", " ")]  # a number needs no such help
    return (
        ReadOptions(block_size=seen.block, encoding=settled.encoding),
        ParseOptions(delimiter=settled.separator, newlines_in_values=seen.spans),
        ConvertOptions(strings_can_be_null=True, decimal_point=settled.decimal, null_values=nulls),
    ), settled


def _looked_at(files: list[str], kind: str, dialect: Dialect) -> tuple[Dialect, Look]:
    """Return how the first file is written, and what a look at every byte of all of them has shown."""
    with in_one_sentence(files[0]):
        settled, seen = dialect.settled(files[0], DELIMITERS[kind], arrow()), Look()
    assert settled.separator is not None and settled.encoding is not None
    for file in files:
        with in_one_sentence(file):
            seen.add(look_at(file, settled.separator, arrow(), settled.encoding))
    return settled, seen


def _listed_files(path) -> tuple[list[str], str | None]:
    """Return the files that a path, a pattern or a list of paths means, and the folder if it is one."""
    if isinstance(path, list | tuple):
        return [file for one in path for file in _listed_files(one)[0]], None
    if is_pattern(path):
        found = [Path(f) for f in sorted(glob.glob(os.fspath(path), recursive=True)) if os.path.isfile(f)]
        return _tables(found, f"{path} matches no table"), None
    if not os.path.exists(path):
        raise FileNotFoundError(_absent(path))
    if os.path.isdir(path):
        return _tables(_files(path), f"{path} is a folder without tables"), os.fspath(path)
    if not os.path.isfile(path):
        raise ValueError(
            f"{path} is a pipe or a device, which can be read once; write its rows to a file first."
        )
    return [os.fspath(path)], None


def _absent(path) -> str:
    """Return that there is no such file, and which one there is with about that name."""
    if os.path.islink(path):
        return f"{path} is a link that leads nowhere."
    folder, stem = os.path.dirname(path), Path(path).stem.lower()  # endings would make all names alike
    with suppress(OSError):
        there = {Path(one).stem.lower(): one for one in os.listdir(folder or ".") if _ending(one) in FORMATS}
        if near := get_close_matches(stem, there, n=1, cutoff=0.75):
            return f"{path} does not exist; did you mean {os.path.join(folder, there[near[0]])}?"
    return f"{path} does not exist."


def is_pattern(path) -> bool:
    """Whether a path is no file, and stands for those that match it."""
    return any(c in os.fspath(path) for c in "*?[") and not os.path.exists(path)


def _tables(files: list[Path], otherwise: str) -> list[str]:
    """Return those of the format of the first table, or raise."""
    known = {ending: kind for ending, kind in FORMATS.items() if ending not in NAMED_ONLY}
    kind = next((known[_ending(f)] for f in files if _ending(f) in known), None)
    if kind is None:
        raise ValueError(f"{otherwise}; their names must end in {', '.join('.' + k for k in known)}.")
    return [str(f) for f in files if known.get(_ending(f)) == kind]


def _files(folder) -> list[Path]:
    """Return the files of a folder and its subfolders, without hidden ones."""
    found = sorted(f for f in Path(folder).rglob("*") if f.is_file())
    return [f for f in found if not any(p[0] in "._" for p in f.relative_to(folder).parts)]


def _ending(path) -> str:
    return next((s for s in reversed(_endings(path)) if s not in PACKED), "")


def _endings(path) -> list[str]:
    return [s.lower().lstrip(".") for s in Path(path).suffixes]


def format_of(path, known: Iterable[str] = tuple(FORMATS)) -> str:
    """Return the format that the name of a file tells by one of the `known` endings, or raise."""
    if _endings(path)[-1:] and _endings(path)[-1] in UNREAD:
        ways = ", ".join(f".{ending}" for ending in PACKED)
        raise ValueError(
            f"{path} is packed in a way that is not read; unpack it, or pack it as one of {ways}."
        )
    if _ending(path) not in known:
        raise ValueError(f"{path} must end in {', '.join('.' + k for k in known)}, to say what it is.")
    kind, packed = FORMATS[_ending(path)], _endings(path)[-1]
    if packed in PACKED and kind not in DELIMITERS:
        raise ValueError(f"{path}: {_ending(path)} is compressed inside; leave the ending .{packed} off.")
    return kind


def is_input(path, origin) -> bool:
    """Whether a file to be written is among those that a path, a pattern or a list of them reads, now or next time."""
    if isinstance(origin, list | tuple):
        return any(is_input(path, one) for one in origin)
    out, given = os.path.realpath(path), os.path.realpath(origin)
    if not is_pattern(origin):
        return out == given or (os.path.isdir(given) and PurePath(out).is_relative_to(given))
    if "**" not in given:
        return PurePath(out).match(given)
    return any(fnmatch.fnmatchcase(out, p) for p in (given, given.replace("**" + os.sep, "")))


def _in_words(name: str, said: str) -> str:
    """Return what pyarrow says of a file, in words that say what to do where the reason is known."""
    widths = re.search(r"Expected (\d+) columns, got (\d+): (.*)", said)
    if widths:
        names = "1 name" if widths[1] == "1" else f"{widths[1]} names"
        values = "1 value" if widths[2] == "1" else f"{widths[2]} values"
        if re.fullmatch(r"[^,;|\t]*  [^,;|\t]*", widths[3]):
            return (
                f"{name} has several blanks between two values, as in {brief(widths[3])}; write one blank, or a comma, "
                "as sed -E 's/ +/,/g' does."
            )
        late = ", with no blank before the quote" if re.search(r'[,;|\t]\s+"', widths[3]) else ""
        return (
            f"{name} has {names} in its first line and a row of {values}, {brief(widths[3])}; "
            f"quote values that hold the separator{late}, or say what the separator is."
        )
    if "cannot infer number of columns" in said or "Empty CSV" in said:
        return f"{name} is empty; it needs a line with the names of the columns, and rows below it."
    if "Truncated compressed" in said:
        return f"{name} is cut off in the middle; copy it again."
    if "inflate failed" in said or "incorrect header" in said:
        return f"{name} is not compressed as its name says; rename it, without the .gz if it is plain text."
    if what := _known_file(name):
        return f"{name} is {what}."
    if "size is 0 bytes" in said:
        return f"{name} is empty; copy it again."
    if (cut := _is_cut(name)) is not None:
        if cut:
            return f"{name} is cut off in the middle; copy it again."
        return f"{name} cannot be read ({said.rstrip('.')}); if it is damaged, copy it again."
    if "Not a Feather" in said or "magic bytes not found" in said:
        return f"{name} cannot be read: it is not what its name says ({said}); name it .csv if it is text."
    return f"{name} cannot be read: {said}"


def _known_file(name: str) -> str | None:
    """Return what a file is that is not what its name says, None where that is not known."""
    begun, _ = _edges(name)
    return None if begun.startswith(MAGIC) else known_as(begun)


def _is_cut(name: str) -> bool | None:
    """Whether a Parquet or Arrow file lacks its end; None for others."""
    begun, end = _edges(name)
    return None if not begun.startswith(MAGIC) else not end.endswith(MAGIC)


def _edges(name: str) -> tuple[bytes, bytes]:
    """Return how a file begins and ends; nothing of what is no file."""
    try:
        with open(name, "rb") as stream:
            begun = stream.read(32)
            stream.seek(max(0, os.path.getsize(name) - 32))
            return begun, stream.read()
    except OSError:
        return b"", b""


class in_one_sentence:
    """Turn what pyarrow says of a broken file into one sentence that names it."""

    def __init__(self, name):
        self.name = name

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        # What pyarrow says of a broken compressed file is an OSError that names no file.
        if kind is not None and (
            issubclass(kind, arrow().ArrowException) or (issubclass(kind, OSError) and error.filename is None)
        ):
            said = str(error).strip().splitlines()[0] if str(error).strip() else kind.__name__
            raise ValueError(_in_words(str(self.name), said)) from error
        return False


def check_files(dataset, wanted, *, closed: bool = False) -> list[tuple[str, Any]]:
    """Refuse a file that lacks a wanted column: pyarrow would fill it with missing values.

    Parameters
    ----------
    dataset : pyarrow Dataset
    wanted : names of columns
    closed : bool
        Whether to refuse, too, a file with a column that the first one does not have.

    Returns
    -------
    list
        The paths and the schemas of files that differ from the dataset.
    """
    try:
        fragments = list(dataset.get_fragments())
    except ValueError:  # filtered: its fragments know nothing of the filter
        return []
    known = {"", *dataset.schema.names}
    others: list[tuple[str, Any]] = []
    for fragment in fragments:
        path = getattr(fragment, "path", "the table")
        with in_one_sentence(path):
            schema = fragment.physical_schema
        if schema.equals(dataset.schema):
            continue
        of_folders = arrow().dataset.get_partition_keys(fragment.partition_expression)
        lacking = set(wanted) - {*schema.names, *of_folders}
        if lacking:
            name = next(name for name in wanted if name in lacking)
            raise ValueError(f"{path} has no column {brief(name)}; add it, or remove that file.")
        allowed = known.union(index_of(schema))
        new = next((name for name in schema.names if name not in allowed), None)
        if closed and new is not None:
            raise NewColumn(
                new,
                f"{path} has a column {brief(new)}, which the first file does not have",
                "remove it, or name the columns to predict from with manykernels.streaming.open_source(..., "
                "columns=[...]).",
            )
        others.append((path, schema))
    return others
