"""What must be known of the rows of a source before the first pass: their targets, and a sample."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..problem import refuse_overflow
from .sources import Chunk, Source, as_one, uniform

#: Most rows, and most bytes, of the first sample.
SAMPLE_ROWS, SAMPLE_BYTES = 50_000, 2**28
#: At least this many units are looked at for the sample.
SAMPLE_UNITS = 16
#: More labels than this are a mistake, and their table would grow with the rows.
MOST_CLASSES = 10_000


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
    tally = Tally(classify)
    for chunk in source.chunks(targets_only=sample is None):
        if check is not None:
            check(chunk)
        tally.add(chunk)
        if sample is not None:
            sample.offer(chunk)
    return tally.found()


class Tally:
    """Counts rows, and the weight of labels or the sum of numbers.

    Parameters
    ----------
    classify : bool
        Whether the targets are labels.
    """

    def __init__(self, classify: bool):
        self.classify = classify
        self.n, self.total, self.sums = 0, 0.0, np.zeros(1)
        self.mass: dict[Any, float] = {}

    def add(self, chunk: Chunk) -> None:
        """Look at some more rows."""
        y, s = _checked_targets(chunk, self.classify)
        self.n += len(chunk)
        self.total += float(s.sum())
        if self.classify:
            values, codes = np.unique(y, return_inverse=True)
            weights = np.bincount(codes.ravel(), weights=s, minlength=len(values))
            self._meet(zip(values.tolist(), weights.tolist(), strict=True))
        else:
            self.sums = self.sums + s @ (y[:, None] if y.ndim == 1 else y)

    def join(self, other: Tally) -> None:
        """Take over what another one has counted."""
        self.n, self.total, self.sums = self.n + other.n, self.total + other.total, self.sums + other.sums
        self._meet(other.mass.items())

    def _meet(self, weights: Iterable[tuple[Any, float]]) -> None:
        for value, weight in weights:
            self.mass[value] = self.mass.get(value, 0.0) + weight
        if len(self.mass) > MOST_CLASSES:
            raise ValueError(f"y holds more than {MOST_CLASSES:,} different labels; is it the right column?")

    def found(self) -> Survey:
        """Return what all rows tell."""
        if self.n == 0:
            raise ValueError("The source is empty; it must hold at least one row.")
        if self.total == 0:
            raise ValueError("sample_weight is zero for every row; give at least one row a positive weight.")
        if not self.classify:
            return Survey(self.n, mean=np.asarray(self.sums / self.total))
        try:
            classes = np.unique(np.array(list(self.mass)))
        except TypeError:
            raise ValueError("y mixes labels of several types; use text, or numbers.") from None
        return Survey(self.n, classes, np.array([self.mass[c] for c in classes.tolist()]))


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
    y, s = y if classify else y.astype(float), checked_weights(chunk)
    refuse_overflow(None if classify else y, 1.0, s, part=True)
    return y, s


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
    all_rows = as_one(chunks, where)
    return all_rows.take(np.argsort(all_rows.keys, kind="stable"))


def sample_units(source: Source, size: int, seed: int) -> np.ndarray:
    """Return units, drawn at random, that together hold four times the rows of the sample or more."""
    counts = source.unit_rows()
    order = np.random.default_rng([seed, 1]).permutation(len(counts))
    if None in counts:
        return np.sort(order)
    total = np.cumsum([counts[u] for u in order])
    enough = int(np.searchsorted(total, 4 * size)) + 1
    return np.sort(order[: max(enough, SAMPLE_UNITS)])
