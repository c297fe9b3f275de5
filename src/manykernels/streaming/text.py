"""Text before it is parsed: whether it is UTF-8, whether its quotes close, and how long its lines are.

pyarrow takes a quote that nobody closed for one that ends with the file, and cuts a value with a line break in it where
two blocks meet; other encodings become bytes without a word. One quick look at every byte settles all of that.
"""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

#: Bytes that are looked at together.
PIECE = 2**22
#: Least bytes that are parsed together, and least lines as long as the first one.
LEAST_BLOCK, LEAST_LINES = 2**20, 64


@dataclass
class Look:
    """What a look at a file of text has shown.

    Attributes
    ----------
    spans : bool
        Whether a value has a line break in it.
    block : int
        Bytes to parse together: many lines, whatever their length, as every block costs time for every column.
    """

    spans: bool = False
    block: int = LEAST_BLOCK

    def add(self, other: Look) -> None:
        """Take notice of another file."""
        self.spans, self.block = self.spans or other.spans, max(self.block, other.block)


class NotUtf8(ValueError):
    """A text that is not UTF-8, from some line on."""

    def __init__(self, path: str, line: int):
        super().__init__(f"{path} is not UTF-8 text in line {line:,}; save it as UTF-8.")
        self.path, self.line = path, line


@contextmanager
def _opened(path: str, encoding: str, pa) -> Iterator[Any]:
    """Open a file, compressed or not, as UTF-8."""
    with pa.input_stream(path) as stream:
        yield stream if encoding == "utf-8" else pa.transcoding_input_stream(stream, encoding, "utf-8")


def look_at(path: str, delimiter: str, pa, encoding: str = "utf-8") -> Look:
    """Look at all bytes of a file, compressed or not.

    Raises
    ------
    ValueError
        If it is not UTF-8, or a quote is not closed.
    """
    lines = _Lines(path, delimiter)
    with _opened(path, encoding, pa) as stream:
        while piece := stream.read(PIECE):
            lines.add(piece)
    lines.end()
    if lines.odd:
        _check_quotes(path, delimiter, pa, encoding)
    return Look(lines.odd, max(LEAST_BLOCK, LEAST_LINES * (lines.first or 0), 2 * lines.longest))


def empty_lines(path: str, pa, encoding: str = "utf-8") -> int:
    """Return how many empty lines there are before the first that is not."""
    with _opened(path, encoding, pa) as stream:
        begun = stream.read(PIECE).removeprefix(codecs.BOM_UTF8).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return len(begun) - len(begun.lstrip(b"\n"))


class _Lines:
    """Counts lines and quotes, piece by piece.

    Attributes
    ----------
    first : int or None
        Bytes of the first line.
    longest : int
        Bytes of the longest line.
    odd : bool
        Whether a line ends behind an odd number of quotes, so that a value goes on in the next line, or a quote that
        would open a value does not stand where one begins.
    """

    def __init__(self, path: str, delimiter: str):
        self.path, self._before = path, 10
        self._opens = np.array([10, 13, 34, ord(delimiter)], dtype=np.uint8)
        self.first: int | None = None
        self.longest, self.odd = 0, False
        self._begun = self._count = self._quotes = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")()

    def add(self, piece: bytes) -> None:
        """Look at some more bytes."""
        self._decode(piece)
        data = np.frombuffer(piece, dtype=np.uint8)
        ends = np.flatnonzero((data == 10) | (data == 13))
        if self._quotes % 2 or b'"' in piece:
            quotes = np.flatnonzero(data == 34)
            self.odd |= bool(((np.searchsorted(quotes, ends) + self._quotes) % 2).any())
            opening = quotes[self._quotes % 2 :: 2]
            before = np.where(opening > 0, data[opening - 1], self._before)
            self.odd |= not np.isin(before, self._opens).all()
            self._quotes += len(quotes)
        self._before = int(data[-1])
        if not len(ends):
            self._begun += len(piece)
            return
        lengths = np.diff(ends, prepend=-1 - self._begun)
        self.first = int(lengths[0]) if self.first is None else self.first
        self.longest = max(self.longest, int(lengths.max()))
        self._begun = len(piece) - 1 - int(ends[-1])
        self._count += piece.count(b"\n")

    def end(self) -> None:
        """Look at what follows the last line break."""
        self._decode(b"", last=True)
        self.longest = max(self.longest, self._begun)
        self.first = self._begun if self.first is None else self.first
        self.odd |= bool(self._quotes % 2)

    def _decode(self, piece: bytes, last: bool = False) -> None:
        if piece.isascii() and not self._decoder.getstate()[0]:
            return
        try:
            self._decoder.decode(piece, last)
        except UnicodeDecodeError as error:
            line = self._count + piece.count(b"\n", 0, error.start) + 1
            raise NotUtf8(self.path, line) from None


@contextmanager
def _long_values() -> Iterator[None]:
    """Let Python's reader take values of any length; by default it refuses those above 128 KiB."""
    before = csv.field_size_limit(2**31 - 1)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _check_quotes(path: str, delimiter: str, pa, encoding: str = "utf-8") -> None:
    """Read value by value, which is slow and strict."""
    known = "utf-8-sig" if encoding == "utf-8" else encoding
    with _long_values(), io.TextIOWrapper(pa.input_stream(path), encoding=known, newline="") as text:
        rows: Any = csv.reader(text, delimiter=delimiter, strict=True)
        line = 0
        try:
            for _ in rows:
                line = rows.line_num
        except csv.Error:
            raise ValueError(
                f"{path} has a quote in line {line + 1:,} or below that does not close its value; close it, or write "
                "it twice if it is part of the value."
            ) from None
