"""What a streaming solver is given: a first sample, rows held out, and passes of batches, from memory or from a source.

A *batch* is what a stream hands over; a *chunk* is what a source reads together.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from .._util.threads import n_threads
from ..features import generator_of
from ..problem import Problem
from .sources import Chunk, Source, keys_of, uniform
from .survey import in_order

#: Stands for a kernel's number where the order of rows is drawn.
ROW_ORDER = 2**31 - 1
#: Most rows of the first sample of rows in memory.
FIRST_ROWS = 8192
#: Most rows that are held out.
HELD_OUT_ROWS = 20_000
#: Rows up to which the share that is held out is exact, to the row.
EXACT_ROWS = 2**20
#: Most rows, and most bytes, of the buffer in which rows are shuffled.
BUFFER_ROWS, BUFFER_BYTES = 65_536, 2**26
#: Seconds between two lines of progress.
REPORT_SECONDS = 5.0

#: Checked rows: X, targets in the plain form, weights.
CheckedRows = tuple[np.ndarray, np.ndarray, np.ndarray]
#: Keys of rows, part by part.
Keys = Iterable[np.ndarray]
#: Is told lines of progress.
Say = Callable[[str], None] | None


class HeldOut:
    """Which rows are held out: those for which the hash of their key and the seed is small.

    Parameters
    ----------
    share : float
    n_rows : int or None
        Of how many; if nobody knows, the first ones with a small hash are taken, up to `most`.
    seed : int
    keys : iterable of arrays
        The keys of all rows, if they are known: of few rows, as many as the share says are then held out, to the row.
    most : int
        Most rows that are held out, whatever the share.

    Attributes
    ----------
    below : float
        What hashes are compared with; 0: none are held out.
    count : int
        How many rows are held out of those whose keys are known.
    """

    def __init__(
        self, share: float, n_rows: int | None, seed: int, keys: Keys = (), most: int = HELD_OUT_ROWS
    ):
        self.below, self.seed, self.count = share, seed, 0
        self._left = most if n_rows is None else None
        if n_rows is not None and share > 0:
            self.below = min(share, most / n_rows)
            hashes: Keys = map(self._hash, keys)
            if n_rows <= EXACT_ROWS:
                hashes = self._settled(list(hashes))
            self.count = sum(int(np.count_nonzero(some < self.below)) for some in hashes)

    def _settled(self, hashes: list[np.ndarray]) -> list[np.ndarray]:
        """Move the limit to where the count is that of the share, one row at least taking part."""
        known = np.sort(np.concatenate([*hashes, np.zeros(0)]))
        if len(known):
            count = min(round(self.below * len(known)), len(known) - 1)
            self.below = float(known[count]) if count else 0.0
        return hashes

    def _hash(self, keys: np.ndarray) -> np.ndarray:
        return uniform(keys, self.seed ^ 0x5EED)

    def start(self) -> HeldOut:
        """Return the same choice, for another pass."""
        return copy.copy(self)

    def chosen(self, keys: np.ndarray) -> np.ndarray | None:
        """Return which rows of a pass, by their keys, are held out; None for none at all."""
        if self.below == 0:
            return None
        out = self._hash(keys) < self.below
        if self._left is not None:  # the length is unknown: the first so many
            out &= np.cumsum(out) <= self._left
            self._left -= int(out.sum())
        return out


class Stream:
    """Rows in batches, epoch after epoch, as a streaming solver is given them.

    Attributes
    ----------
    first : Problem
        A sample of the rows that take part, with the family, the scale, the loss and C.
    n_rows : int or None
        Rows of an epoch; None if nobody knows.
    share : float
        Of the rows that are held out.
    in_memory : bool
        Whether the rows are in memory anyway.
    """

    first: Problem
    n_rows: int | None
    share: float = 0.0
    in_memory: bool = False

    @property
    def held_out(self) -> Problem | None:
        """The rows that are in no epoch, up to 20,000; None where no share is held out."""
        return None

    def epoch(self, number: int) -> Iterator[Problem]:
        """Yield the batches of an epoch, counted from 0, whichever were read before: always the same ones."""
        raise NotImplementedError

    def holding_out(self, share: float) -> Stream:
        """Return the same rows, this share of which is held out; `first` stays."""
        raise NotImplementedError


# -- rows in memory ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class MemoryStream(Stream):
    """The rows of a problem as a stream.

    Attributes
    ----------
    problem : Problem
        All rows.
    size : int
        Rows of a batch.
    seed : int
        Of everything that is drawn.
    shuffle : bool
        Whether the rows come in another random order in every epoch; else in their own.
    share : float
    first_rows : int
        Most rows of `first`.
    draw_first : bool
        Whether these are drawn at random; else they are evenly spaced.
    """

    problem: Problem
    size: int
    seed: int = 0
    shuffle: bool = False
    share: float = 0.0
    first_rows: int = FIRST_ROWS
    draw_first: bool = False
    in_memory = True

    @cached_property
    def _out(self) -> np.ndarray | None:
        """Which rows are held out; None for none. The rows of a subject share a key."""
        groups, keys = self.problem.groups, keys_of(0, 0, self.problem.n_rows)
        keys = keys if groups is None else keys[np.unique(groups, return_inverse=True)[1].ravel()]
        return HeldOut(self.share, len(keys), self.seed, [keys]).chosen(keys)

    @cached_property
    def _taken(self) -> np.ndarray | None:
        """Numbers of the rows in batches; None: all."""
        return None if self._out is None else np.flatnonzero(~self._out)

    @cached_property
    def first(self) -> Problem:  # type: ignore[override]
        """All rows that are in batches, or a sample if some are not: to leave those out takes a copy."""
        n, taken = self.n_rows, self._taken
        if n <= self.first_rows:
            return self.problem if taken is None else self.problem.rows(taken)
        if self.draw_first:
            rng = np.random.default_rng(self.seed)
            rows = np.sort(rng.choice(n, self.first_rows, replace=False, shuffle=False))
        else:
            rows = np.linspace(0, n - 1, self.first_rows).astype(int)
        return self.problem.rows(rows if taken is None else taken[rows])

    @cached_property
    def held_out(self) -> Problem | None:
        """The rows that are in no batch."""
        return None if self._out is None else self.problem.rows(np.flatnonzero(self._out))

    @property
    def n_rows(self) -> int:  # type: ignore[override]
        """Number of rows in batches."""
        return self.problem.n_rows if self._taken is None else len(self._taken)

    def epoch(self, number: int) -> Iterator[Problem]:
        """Yield the batches of an epoch; only one batch is copied at a time, and the next one meanwhile."""
        order = self._taken
        if self.shuffle:
            drawn = generator_of(self.seed, ROW_ORDER, number).permutation(self.n_rows)
            order = drawn if order is None else order[drawn]
        if order is None:
            return self.problem.batches(self.size)
        batches = (self.problem.rows(order[a : a + self.size]) for a in range(0, self.n_rows, self.size))
        return read_ahead(batches) if n_threads() > 1 and self.n_rows > self.size else batches

    def holding_out(self, share: float) -> MemoryStream:
        """Return the same rows, this share of which is held out; `first` stays."""
        other = replace(self, share=share)
        other.__dict__["first"] = self.first
        return other


def read_ahead(batches: Iterator[Problem]) -> Iterator[Problem]:
    """Yield batches; while one is in use, another thread makes the next one."""
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, batches, None)
        while (batch := coming.result()) is not None:
            coming = pool.submit(next, batches, None)
            yield batch


# -- rows from a source --------------------------------------------------------------------------------


class SourceStream(Stream):
    """The rows of a source as a stream.

    Units are read in random order, and rows pass through a buffer from which they leave at random; the order depends
    on the seed and the number of the epoch only. Memory is that of the buffer and a chunk, whatever the number of rows.

    Parameters
    ----------
    source : Source
    check, encode : callables
        From a chunk to checked rows, and from those to a batch.
    first : Problem
        A sample of up to 50,000 rows, none of them held out.
    n_rows : int or None
        Rows of the source.
    batch_size, seed : int
    held_out : HeldOut
    say : callable or None
        Called with lines of progress, every few seconds.
    """

    def __init__(
        self,
        source: Source,
        check: Callable[[Chunk], CheckedRows],
        encode: Callable[[CheckedRows], Problem],
        first: Problem,
        *,
        n_rows: int | None,
        batch_size: int,
        seed: int,
        held_out: HeldOut,
        say: Say = None,
    ):
        self.first, self.batch_size, self.share = first, batch_size, held_out.below
        self.n_rows = None if n_rows is None else n_rows - held_out.count
        self._source, self._check, self._encode, self._source_rows = source, check, encode, n_rows
        self._seed, self._held, self._say = seed, held_out, say
        self._found: Problem | None = None
        self._looked = False

    def epoch(self, number: int) -> Iterator[Problem]:
        """Yield the batches of an epoch, counted from 0, whichever were read before."""
        rng = np.random.default_rng([self._seed, 2, number])
        report = RowReport(self._say, f"pass {number + 1}", self.n_rows)
        rows = self._training_rows(rng.permutation(len(self._source.unit_rows())))
        for batch in rebatched(shuffled(rows, self._buffer_rows(), rng), self.batch_size):
            yield self._encode(batch)
            report.add(len(batch[2]))
        report.end()

    def _buffer_rows(self) -> int:
        width = self.first.X.shape[1]
        return max(self.batch_size, min(BUFFER_ROWS, BUFFER_BYTES // (8 * width + 16)))

    def _training_rows(self, order) -> Iterator[CheckedRows]:
        held, kept = self._held.start(), []
        for chunk in self._source.chunks(order):
            out = held.chosen(chunk.keys)
            if out is None:
                yield self._check(chunk)
                continue
            if not self._looked and out.any():
                kept.append(chunk.take(out))
            if not out.all():
                yield self._check(chunk.take(~out))
        self._keep(kept)

    def _keep(self, chunks: list[Chunk]) -> None:
        """Take notice of the rows held out, after a whole pass."""
        if not self._looked and chunks:
            self._found = self._encode(self._check(in_order(chunks, "the held-out rows")))
        self._looked = True

    @property
    def held_out(self) -> Problem | None:
        """The rows that are in no epoch; collected in the first one, or in a pass of their own if asked for before."""
        if self.share > 0 and not self._looked:
            held, kept = self._held.start(), []
            for chunk in self._source.chunks():
                out = held.chosen(chunk.keys)
                if out is not None and out.any():
                    kept.append(chunk.take(out))
            self._keep(kept)
        return self._found

    def holding_out(self, share: float) -> SourceStream:
        """Return the same rows, this share of which is held out; `first` stays."""
        other = copy.copy(self)
        other._held = HeldOut(share, self._source_rows, self._held.seed, self._source.row_keys())
        other.share, other._found, other._looked = other._held.below, None, False
        other.n_rows = None if self._source_rows is None else self._source_rows - other._held.count
        return other


def joined(rows: list[CheckedRows]) -> CheckedRows:
    """Return rows as one."""
    X, t, s = (np.concatenate(parts) for parts in zip(*rows, strict=True))
    return X, t, s


def shuffled(rows: Iterable[CheckedRows], size: int, rng: np.random.Generator) -> Iterator[CheckedRows]:
    """Pass rows through a buffer of `size` rows: each one that enters takes the place of one drawn at random."""
    buffer: CheckedRows | None = None
    filled = 0
    for some in rows:
        if buffer is None:
            buffer = tuple(np.empty((size, *part.shape[1:]), part.dtype) for part in some)  # type: ignore[assignment]
        assert buffer is not None
        if buffer[0].dtype != np.result_type(buffer[0], some[0]):
            buffer = (buffer[0].astype(np.float64), *buffer[1:])
        first = 0
        while first < len(some[2]):
            enter = slice(first, first + (size - filled if filled < size else size))
            m = len(some[2][enter])
            if filled < size:
                for part, new in zip(buffer, some, strict=True):
                    part[filled : filled + m] = new[enter]
                filled += m
            else:
                places = rng.permutation(size)[:m]
                yield tuple(part[places] for part in buffer)  # type: ignore[misc]
                for part, new in zip(buffer, some, strict=True):
                    part[places] = new[enter]
            first += m
    if buffer is not None and filled:
        order = rng.permutation(filled)
        yield tuple(part[order] for part in buffer)  # type: ignore[misc]


def rebatched(rows: Iterable[CheckedRows], size: int) -> Iterator[CheckedRows]:
    """Cut rows into batches of `size` rows; the last one may be smaller."""
    waiting: list[CheckedRows] = []
    count = 0
    for some in rows:
        first, n = 0, len(some[2])
        while first < n:
            part = tuple(p[first : first + size - count] for p in some)
            waiting.append(part)  # type: ignore[arg-type]
            count += len(part[2])
            first += len(part[2])
            if count == size:
                yield waiting[0] if len(waiting) == 1 else joined(waiting)
                waiting, count = [], 0
    if waiting:
        yield joined(waiting)


class RowReport:
    """Says how far a pass is, every few seconds: rows, rows a second, and the time left."""

    def __init__(self, say: Say, what: str, n_rows: int | None, seconds: float = REPORT_SECONDS):
        self.say, self.what, self.n_rows, self.seconds = say, what, n_rows, seconds
        self.rows, self.started = 0, time.perf_counter()
        self._last = self.started

    def add(self, rows: int) -> None:
        """Count some more rows."""
        self.rows += rows
        now = time.perf_counter()
        if self.say is not None and now - self._last >= self.seconds:
            self._last = now
            speed = self.rows / (now - self.started)
            known = "" if self.n_rows is None else f" of {self.n_rows:,}"
            left = "" if self.n_rows is None else f", {(self.n_rows - self.rows) / speed:.0f} s left"
            self.say(f"{self.what}: {self.rows:,}{known} rows, {speed:,.0f} rows/s{left}")

    def end(self) -> None:
        """Report the whole pass."""
        if self.say is not None:
            seconds = max(time.perf_counter() - self.started, 1e-9)
            self.say(f"{self.what}: {self.rows:,} rows in {seconds:.1f} s, {self.rows / seconds:,.0f} rows/s")
