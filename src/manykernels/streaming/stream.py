"""From a source to what a streaming solver sees: a first sample, held-out rows, and passes of shuffled batches."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..problem import Problem
from .sources import Chunk, Source, keys_of, uniform

#: Most rows, and most bytes, of the first sample.
SAMPLE_ROWS, SAMPLE_BYTES = 50_000, 2**28
#: At least this many units are looked at for the sample.
SAMPLE_UNITS = 16
#: Most rows that are held out.
HELD_OUT_ROWS = 20_000
#: Most rows, and most bytes, of the buffer in which rows are shuffled.
BUFFER_ROWS, BUFFER_BYTES = 65_536, 2**26
#: More labels than this are a mistake, and their table would grow with the rows.
MOST_CLASSES = 10_000
#: Seconds between two lines of progress.
REPORT_SECONDS = 5.0

#: Checked rows: X, targets in the plain form, weights.
Piece = tuple[np.ndarray, np.ndarray, np.ndarray]


# -- what must be known before the first pass ----------------------------------------------------------


@dataclass
class Survey:
    """What one look at all targets tells.

    Attributes
    ----------
    n_rows : int or None
    classes : array of labels with weight, or None
    mass : array, the weight of each class
    mean : array, the weighted mean of numeric targets, or None
    """

    n_rows: int | None = None
    classes: np.ndarray | None = None
    mass: np.ndarray | None = None
    mean: np.ndarray | None = None


def survey(source: Source, *, classify: bool, sample: Sample | None = None, check=None) -> Survey:
    """Read the targets and the weights once, without the features where the source can.

    Parameters
    ----------
    source : Source
    classify : bool
        Whether the targets are labels to collect, or numbers to average.
    sample : Sample, optional
        Filled in passing, for sources that have to read everything anyway.
    check : callable, optional
        Called with every chunk.
    """
    n, total, sums = 0, 0.0, 0.0
    mass: dict[Any, float] = {}
    for chunk in source.chunks(targets_only=sample is None):
        n += len(chunk)
        if check is not None:
            check(chunk)
        y, s = _checked_targets(chunk, classify)
        total += float(s.sum())
        if classify:
            values, codes = np.unique(y, return_inverse=True)
            weights = np.bincount(codes.ravel(), weights=s)
            for value, weight in zip(values.tolist(), weights.tolist(), strict=True):
                mass[value] = mass.get(value, 0.0) + weight
            if len(mass) > MOST_CLASSES:
                raise ValueError(
                    f"y holds more than {MOST_CLASSES:,} different labels; is it the right column?"
                )
        else:
            sums = sums + s @ (y[:, None] if y.ndim == 1 else y)
        if sample is not None:
            sample.offer(chunk)
    if n == 0:
        raise ValueError("The source is empty; it must hold at least one row.")
    if total == 0:
        raise ValueError("sample_weight is zero for every row; give at least one row a positive weight.")
    if not classify:
        return Survey(n, mean=np.asarray(sums / total))
    try:
        classes = np.unique(np.array(list(mass)))
    except TypeError:
        raise ValueError("y mixes labels of several types; use text, or numbers.") from None
    return Survey(n, classes, np.array([mass[c] for c in classes.tolist()]))


def _checked_targets(chunk: Chunk, classify: bool):
    if chunk.y is None:
        raise ValueError(
            f"{chunk.place} has no targets; pass y='column', or batches (X, y) with the targets in them."
        )
    y = chunk.y
    if classify and y.ndim != 1:
        raise ValueError("y must be one column of labels.")
    if classify and y.dtype.kind == "f" and np.any((y % 1 != 0) & np.isfinite(y)):
        raise ValueError("y holds fractions, which are no labels; use MKLRegressor.")
    if not classify and y.dtype.kind not in "biuf":
        raise ValueError(f"y holds text in {chunk.place}; regression needs numbers.")
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        row = chunk.first + int(np.argwhere(~np.isfinite(y))[0][0])
        raise ValueError(
            f"y holds a missing or infinite value in row {row:,} of {chunk.place}; remove that row."
        )
    return y if classify else y.astype(float), checked_weights(chunk)


def checked_weights(chunk: Chunk) -> np.ndarray:
    """Return the sample weights of a chunk; ones if it has none."""
    s = chunk.sample_weight
    if s is None:
        return np.ones(len(chunk))
    if s.shape != (len(chunk),) or not (np.isfinite(s) & (s >= 0)).all():
        raise ValueError(f"sample_weight must be finite and not negative, and is not in {chunk.place}.")
    return s


class Sample:
    """The rows with the smallest hash: a uniform sample of a stream of any length, independent of its order."""

    def __init__(self, size: int, seed: int):
        self.size, self.seed = size, seed
        self._parts: list[tuple[np.ndarray, Chunk]] = []
        self._kept, self._below = 0, 2.0

    def offer(self, chunk: Chunk) -> None:
        """Look at some more rows."""
        u = uniform(chunk.keys, self.seed)
        chosen = np.flatnonzero(u < self._below)
        if len(chosen):
            self._parts.append((u[chosen], chunk.take(chosen)))
            self._kept += len(chosen)
        if self._kept > 2 * self.size:
            self._cut()

    def _cut(self):
        u = np.concatenate([u for u, _ in self._parts])
        if len(u) > self.size:
            self._below = float(np.partition(u, self.size)[self.size])
            kept = [(u, c, np.flatnonzero(u < self._below)) for u, c in self._parts]
            self._parts = [(u[k], c.take(k)) for u, c, k in kept if len(k)]
            self._kept = sum(len(u) for u, _ in self._parts)

    def rows(self) -> Chunk:
        """Return the sample, in the order of the source."""
        self._cut()
        return in_order([c for _, c in self._parts], "the first sample")


def in_order(chunks: list[Chunk], where: str) -> Chunk:
    """Return chunks as one, its rows in the order of the source."""
    order = np.argsort(np.concatenate([c.keys for c in chunks]), kind="stable")

    def together(name):
        values = [getattr(c, name) for c in chunks]
        return None if values[0] is None else np.concatenate(values)[order]

    return Chunk(together("X"), together("y"), together("sample_weight"), together("keys"), where)


def sample_units(source: Source, size: int, seed: int) -> np.ndarray:
    """Return units, drawn at random, that together hold four times the rows of the sample or more."""
    counts = source.unit_rows()
    order = np.random.default_rng([seed, 1]).permutation(len(counts))
    if None in counts:
        return np.sort(order)
    total = np.cumsum([counts[u] for u in order])
    enough = int(np.searchsorted(total, 4 * size)) + 1
    return np.sort(order[: max(enough, SAMPLE_UNITS)])


# -- the stream ----------------------------------------------------------------------------------------


class Stream:
    """What a streaming solver is given: rows in batches, pass after pass.

    Every iteration is one more pass over the training rows; ``epoch(number)`` is a certain one. Units are read in
    random order, and rows pass through a buffer from which they leave at random; the order depends on the seed and
    the number of the pass only. Memory is that of the buffer and a chunk, whatever the number of rows.

    Attributes
    ----------
    first : Problem
        A sample of the training rows, up to 50,000, with the family, the scale, the loss and C.
    n_rows : int or None
        Number of training rows, None if nobody knows.
    held_out : Problem or None
        Up to 20,000 rows that are in no pass, if the solver has a ``validation_fraction``.
    batch_size : int
    complete : bool
        Whether every pass that was begun was read to its end.
    """

    def __init__(
        self,
        source: Source,
        check: Callable[[Chunk], Piece],
        encode: Callable[[Piece], Problem],
        first: Problem,
        *,
        n_rows: int | None,
        batch_size: int,
        seed: int,
        held_out: HeldOut,
        say: Callable[[str], None] | None = None,
    ):
        self.first, self.batch_size = first, batch_size
        self.n_rows = None if n_rows is None else n_rows - held_out.count(source)
        self._source, self._check, self._encode = source, check, encode
        self._seed, self._held, self._say = seed, held_out, say
        self._next, self.complete = 0, True
        self._found: Problem | None = None

    def __iter__(self) -> Iterator[Problem]:
        self._next += 1
        return self.epoch(self._next - 1)

    def epoch(self, number: int) -> Iterator[Problem]:
        """Yield the batches of pass `number`, counted from 0, whichever passes were made before."""
        self.complete = False
        rng = np.random.default_rng([self._seed, 2, number])
        report = Progress(self._say, f"pass {number + 1}", self.n_rows)
        pieces = self._training_pieces(rng.permutation(len(self._source.unit_rows())))
        for piece in rebatched(shuffled(pieces, self._buffer_rows(), rng), self.batch_size):
            yield self._encode(piece)
            report.add(len(piece[2]))
        report.end()
        self.complete = True

    def _buffer_rows(self) -> int:
        width = self.first.X.shape[1]
        return max(self.batch_size, min(BUFFER_ROWS, BUFFER_BYTES // (8 * width + 16)))

    def _training_pieces(self, order) -> Iterator[Piece]:
        held, kept = self._held.start(), []
        for chunk in self._source.chunks(order):
            out = held.chosen(chunk)
            if out is None:
                yield self._check(chunk)
                continue
            if self._found is None and out.any():
                kept.append(chunk.take(out))
            if not out.all():
                yield self._check(chunk.take(~out))
        self._keep(kept)

    def _keep(self, chunks: list[Chunk]) -> None:
        if self._found is None and chunks:
            self._found = self._encode(self._check(in_order(chunks, "the held-out rows")))

    @property
    def held_out(self) -> Problem | None:
        """The rows that are in no pass; collected in the first pass, or in one of their own when asked for before."""
        if self._held.share == 0:
            return None
        if self._found is None:
            held, kept = self._held.start(), []
            for chunk in self._source.chunks():
                out = held.chosen(chunk)
                if out is not None and out.any():
                    kept.append(chunk.take(out))
            self._keep(kept)
        return self._found


class HeldOut:
    """Which rows are held out: those whose hash is small."""

    def __init__(self, share: float, n_rows: int | None, seed: int):
        self.share, self.seed = share, seed
        self._limit = HELD_OUT_ROWS if n_rows is None else None
        if n_rows is not None and share > 0:
            self.share = min(share, HELD_OUT_ROWS / n_rows)

    def start(self) -> HeldOut:
        """Return the same choice, for another pass."""
        again = HeldOut(self.share, None, self.seed)
        again._limit = self._limit
        return again

    def chosen(self, chunk: Chunk) -> np.ndarray | None:
        """Return which rows of a chunk are held out, None for none at all."""
        if self.share == 0:
            return None
        out = uniform(chunk.keys, self.seed ^ 0x5EED) < self.share
        if self._limit is not None:  # the length is unknown: the first so many
            out &= np.cumsum(out) <= self._limit
            self._limit -= int(out.sum())
        return out

    def count(self, source: Source) -> int:
        """Return how many rows are held out of a source of known length."""
        if self.share == 0 or source.n_rows is None:
            return 0
        total = 0
        for unit, rows in enumerate(source.unit_rows()):
            for first in range(0, rows or 0, 2**20):
                keys = keys_of(unit, first, min(2**20, (rows or 0) - first))
                total += int(np.count_nonzero(uniform(keys, self.seed ^ 0x5EED) < self.share))
        return total


def joined(pieces: list[Piece]) -> Piece:
    """Return pieces as one."""
    X, t, s = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
    return X, t, s


def shuffled(pieces: Iterable[Piece], size: int, rng: np.random.Generator) -> Iterator[Piece]:
    """Pass rows through a buffer of `size` rows: each one that enters takes the place of one drawn at random."""
    buffer: Piece | None = None
    filled = 0
    for piece in pieces:
        if buffer is None:
            buffer = tuple(np.empty((size, *part.shape[1:]), part.dtype) for part in piece)  # type: ignore[assignment]
        assert buffer is not None
        if buffer[0].dtype != np.result_type(buffer[0], piece[0]):
            buffer = (buffer[0].astype(np.float64), *buffer[1:])
        first = 0
        while first < len(piece[2]):
            enter = slice(first, first + (size - filled if filled < size else size))
            m = len(piece[2][enter])
            if filled < size:
                for part, new in zip(buffer, piece, strict=True):
                    part[filled : filled + m] = new[enter]
                filled += m
            else:
                places = rng.permutation(size)[:m]
                yield tuple(part[places] for part in buffer)  # type: ignore[misc]
                for part, new in zip(buffer, piece, strict=True):
                    part[places] = new[enter]
            first += m
    if buffer is not None and filled:
        order = rng.permutation(filled)
        yield tuple(part[order] for part in buffer)  # type: ignore[misc]


def rebatched(pieces: Iterable[Piece], size: int) -> Iterator[Piece]:
    """Cut a sequence of pieces into batches of `size` rows; the last one may be smaller."""
    waiting: list[Piece] = []
    count = 0
    for piece in pieces:
        first, n = 0, len(piece[2])
        while first < n:
            part = tuple(p[first : first + size - count] for p in piece)
            waiting.append(part)  # type: ignore[arg-type]
            count += len(part[2])
            first += len(part[2])
            if count == size:
                yield waiting[0] if len(waiting) == 1 else joined(waiting)
                waiting, count = [], 0
    if waiting:
        yield joined(waiting)


class Progress:
    """Says how far a pass is, every few seconds: rows, rows a second, and the time left."""

    def __init__(self, say: Callable[[str], None] | None, what: str, n_rows: int | None):
        self.say, self.what, self.n_rows = say, what, n_rows
        self.rows, self.started = 0, time.perf_counter()
        self._last = self.started

    def add(self, rows: int) -> None:
        """Count some more rows."""
        self.rows += rows
        now = time.perf_counter()
        if self.say is not None and now - self._last >= REPORT_SECONDS:
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
