"""How a text writes a table, told by a first look: its encoding, what stands between two values, the decimal mark."""

from __future__ import annotations

import codecs
import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .._util.text import brief, warn
from .text import NotUtf8

#: Bytes and lines that are looked at.
FIRST_BYTES, FIRST_LINES = 2**18, 200
#: What may stand between two values, likeliest first; blanks only where nothing else fits.
SEPARATORS = (",", ";", "\t", "|", " ")
#: Marks at the beginning of a file, and what they say. The longer ones come first.
MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
#: Bytes that are no letter in Windows' encoding of Western languages.
UNDEFINED = (b"\x81", b"\x8d", b"\x8f", b"\x90", b"\x9d")
#: Lines that must have as many values as the first one.
MOSTLY = 0.9
POINTED = re.compile(r"[+-]?\d*\.\d+([eE][+-]?\d+)?")
WITH_COMMA = re.compile(r"[+-]?(\d+|\d{1,3}([. ']\d{3})+),\d+([eE][+-]?\d+)?")
GROUPED = re.compile(r"[+-]?\d{1,3}(,\d{3})+")


@dataclass(frozen=True)
class Dialect:
    """How a text is to be read; None is what the text itself tells.

    Attributes
    ----------
    separator : str or None
        One letter.
    decimal : {".", ",", None}
    encoding : str or None
        A name that Python knows.
    """

    separator: str | None = None
    decimal: str | None = None
    encoding: str | None = None

    def __post_init__(self):
        if self.separator is not None and (len(self.separator) != 1 or self.separator in '"\r\n\0'):
            raise ValueError(f"sep is {brief(self.separator)}; it must be one letter, such as ';' or a tab.")
        if self.decimal not in (None, ".", ","):
            raise ValueError(f"decimal is {brief(self.decimal)}; it must be '.' or ','.")
        if self.decimal is not None and self.decimal == self.separator:
            raise ValueError(f"sep and decimal are both {self.decimal!r}; they must differ.")
        if self.encoding is not None:
            try:
                "x".encode(self.encoding)  # rot13 and its like are known, and are none of text
            except LookupError:
                raise ValueError(
                    f"encoding is {brief(self.encoding)}, which is no encoding of text that Python knows; use 'utf-8'."
                ) from None

    def settled(self, path: str, usual: str, pa: Any) -> Dialect:
        """Return the dialect of a file, what is left open told by its first lines; `usual` separates otherwise."""
        with pa.input_stream(path) as stream:
            data = stream.read(FIRST_BYTES)
        encoding = self.encoding or encoding_of(data)
        _refuse_other(path, data, self.encoding or (encoding if encoding != "utf-8" else None))
        lines = _lines(data.decode(encoding, errors="replace"), cut=len(data) == FIRST_BYTES)
        separator = self.separator or separator_of(lines, usual, avoid=self.decimal)
        decimal = self.decimal or decimal_of(_cells(lines, separator), separator)
        return replace(self, separator=separator, decimal=decimal, encoding=encoding)


#: What leaves everything to the text.
AS_IT_IS = Dialect()


#: How files begin that are not the text their names promise, and what to do about it.
OTHERS = {
    b"PK\x03\x04": "a workbook or another archive; name it .xlsx if it is one, or save the sheet as CSV",
    b"\xd0\xcf\x11\xe0": "an old workbook; name it .xls, or save the sheet as CSV",
    b"PAR1": "a Parquet file; name it .parquet",
    b"ARROW1": "an Arrow file; name it .arrow",
    b"\x1f\x8b": "compressed; name it .csv.gz",
    b"BZh": "compressed; name it .csv.bz2",
    b"\xfd7zXZ": "compressed; unpack it",
    b"version https://git-lfs": "what Git LFS keeps in place of a file; fetch the file itself with git lfs pull",
    b"SQLite format": "a database; export its table as CSV",
    b"\x89HDF": "an HDF5 file; write its table as CSV or Parquet",
    b"\x89PNG": "a picture; pass a table",
    b"\x80\x04": "a Python pickle; write its table as CSV or Parquet",
    b"\x80\x05": "a Python pickle; write its table as CSV or Parquet",
    b"@relation": "an ARFF file; write its table as CSV",
    b"%PDF": "a PDF document; export its table as CSV",
    b"<!doctype": "a web page, as servers send when there is no file; download the table itself",
    b"<html": "a web page, as servers send when there is no file; download the table itself",
    b"<?xml": "XML; export the table as CSV",
    b"[{": 'JSON; write it as CSV, as pandas.read_json(...).to_csv("table.csv", index=False) does',
    b'{"': 'JSON; write it as CSV, as pandas.read_json(...).to_csv("table.csv", index=False) does',
}


def _refuse_other(path: str, data: bytes, encoding: str | None) -> None:
    """Raise ValueError for a file that is empty, or no text; `encoding` is what is known of it."""
    if encoding is not None and codecs.lookup(encoding).name != "utf-8":
        try:
            data[:-8].decode(encoding) if len(data) == FIRST_BYTES else data.decode(encoding)
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{path} is not {encoding} text, by its byte {error.start:,}; name another encoding, or none."
            ) from None
        return
    begun = data.lstrip(b"\xef\xbb\xbf \t\r\n")
    if not begun:
        raise ValueError(
            f"{path} is empty; it needs a line with the names of the columns, and rows below it."
        )
    if what := known_as(begun):
        raise ValueError(f"{path} is {what}.")
    if not data.strip(b"\0"):
        raise ValueError(
            f"{path} holds zero bytes alone, as a copy that was broken off leaves; copy it again."
        )
    if data[1::2].count(0) > 0.4 * len(data) / 2 or data[::2].count(0) > 0.4 * len(data) / 2:
        name = "utf-16-le" if data[1:2] == b"\0" else "utf-16-be"
        raise ValueError(f"{path} is UTF-16 without the mark that says so; name the encoding, {name}.")
    if b"\0" in data:
        line = 1 + data.count(b"\n", 0, data.index(b"\0"))
        raise ValueError(f"{path} is no text: line {line:,} holds a zero byte; export the table as CSV.")


def known_as(begun: bytes) -> str | None:
    """Return what a file is that begins so, and what to do about it, where it is no table for all its name says."""
    small = begun[:32].lower()
    return next(
        (what for mark, what in OTHERS.items() if begun.startswith(mark) or small.startswith(mark)), None
    )


def encoding_of(data: bytes) -> str:
    """Return the encoding that a mark at the beginning of a text says, UTF-8 without one."""
    return next((name for mark, name in MARKS.items() if data.startswith(mark)), "utf-8")


def other_encoding(error: NotUtf8, pa: Any) -> str:
    """Return what to take a text for that is not UTF-8, with a warning; raise if it is no text at all."""
    gaps = lines = False
    with pa.input_stream(error.path) as stream:
        while piece := stream.read(FIRST_BYTES):
            if b"\0" in piece:
                raise error
            gaps = gaps or any(letter in piece for letter in UNDEFINED)
            lines = lines or b"\n" in piece or b"\r" in piece
    if not lines:  # the encodings of mainframes have other line breaks
        raise error
    found = "latin-1" if gaps else "cp1252"
    warn(
        f"{error.path} is not UTF-8 text in line {error.line:,}; it is read as {found}. Name the encoding if that is "
        "wrong."
    )
    return found


def separator_of(lines: Sequence[str], usual: str, avoid: str | None = None) -> str:
    """Return what stands between two values: what cuts most lines into as many as the first, the more the better."""
    best, most = usual, (False, 0.0, 1)
    for separator in dict.fromkeys((usual, *SEPARATORS)):
        widths = [len(row) for row in _rows(lines, separator)]
        if separator == avoid or not widths or widths[0] < 2:
            continue
        alike = sum(width == widths[0] for width in widths) / len(widths)
        found = (alike >= MOSTLY, round(alike, 1), 1 if separator == " " else widths[0])
        if found[0] and found > most:
            best, most = separator, found
    return best


def decimal_of(cells: Counter[str], separator: str) -> str:
    """Return the decimal mark: a comma where numbers have one that are no groups of three digits alone."""
    if separator == ",":
        return "."
    points = sum(count for cell, count in cells.items() if POINTED.fullmatch(cell))
    commas = {cell: count for cell, count in cells.items() if WITH_COMMA.fullmatch(cell)}
    only_groups = points > 0 and all(GROUPED.fullmatch(cell) for cell in commas)
    return "," if sum(commas.values()) > points and not only_groups else "."


def _lines(text: str, cut: bool) -> list[str]:
    """Return the first lines that are not blank; where the text was cut, without the last."""
    lines = text.lstrip("\ufeff").splitlines()
    return [line for line in (lines[:-1] if cut and len(lines) > 1 else lines) if line.strip()][:FIRST_LINES]


def _rows(lines: Sequence[str], separator: str) -> Iterator[list[str]]:
    """Yield the values of each line; a quote that is left open ends the look."""
    try:
        yield from csv.reader(lines, delimiter=separator, skipinitialspace=True)
    except csv.Error:
        return


def _cells(lines: Sequence[str], separator: str) -> Counter[str]:
    """Return the values below the first line, with how often each is there."""
    return Counter(cell.strip() for row in list(_rows(lines, separator))[1:] for cell in row)
