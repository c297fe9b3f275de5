"""What is learned from a column of text or categories: its levels, and how often each occurs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .._util.shapes import Stored, check_arrays, demand
from .quantities import Weights, tally

#: A block has at most so many columns, besides one for missing values.
MOST_LEVELS = 64


class Category(NamedTuple):
    """What is learned from a column of levels.

    Parameters
    ----------
    levels : tuple of str
        Levels with a column of their own, sorted.
    rare : tuple of str
        Levels that share a column, which comes next if there are any.
    shares : array
        Share of each column of the block; one more than named so far is that of missing values.
    """

    levels: tuple[str, ...]
    rare: tuple[str, ...]
    shares: np.ndarray

    @property
    def a_level(self) -> str:
        """A level that was seen."""
        return (*self.levels, *self.rare)[0]

    def check_stored(self) -> None:
        """Raise Damaged unless there is a share for every level that came from a file, and perhaps for gaps."""
        names = [*self.levels, *self.rare]
        demand(all(type(name) is str for name in names), "a level has no name")
        named = len(self.levels) + bool(self.rare)
        check_arrays({"shares": self.shares}, {"shares": Stored("*", least=0.0, most=1.0)})
        demand(len(self.shares) in (named, named + 1), "there are other shares than levels")
        demand(((self.shares > 0) & (self.shares < 1)).any(), "one level has all rows")


def learn_category(values: np.ndarray, weights: Weights) -> Category:
    """Return what a column of text, None where it is missing, teaches."""
    values = values[weights.rows]
    seen = sorted(set(values.tolist()) - {None})
    found, sums = tally(codes_of(values, seen), weights.values)
    missing = sums[:1] if found[0] < 0 else sums[:0]
    counts = sums[len(missing) :]
    kept, rare = np.arange(len(seen)), np.arange(0)
    if len(seen) > MOST_LEVELS:
        order = np.argsort(-counts, kind="stable")  # the levels are sorted, so that ties go by their names
        kept, rare = np.sort(order[: MOST_LEVELS - 1]), np.sort(order[MOST_LEVELS - 1 :])
    other = [counts[rare].sum()] if len(rare) else []
    shares = np.r_[counts[kept], other, missing] / sums.sum()
    return Category(tuple(seen[i] for i in kept), tuple(seen[i] for i in rare), shares)


def codes_of(values: np.ndarray, levels: Sequence[str], rare: Sequence[str] = (), missing: int = -1):
    """Return the column of each value in a block: its level's, the next one if it is rare, -1 if it was never seen."""
    table: dict[str | None, int] = {level: i for i, level in enumerate(levels)}
    table.update(dict.fromkeys(rare, len(levels)))
    table[None] = missing
    return np.fromiter((table.get(v, -1) for v in values.tolist()), dtype=np.int64, count=len(values))


def encode(values: np.ndarray, category: Category, *, plain: bool = False) -> np.ndarray:
    """Return the block of a column, (n, width).

    Columns are centred and have one unit, so that their variances sum to 1. A level never seen is the mean of all: a
    row of zeros. With `plain` they are 1 for the level and 0 elsewhere, and a level never seen is none of them.
    """
    levels, rare, shares = category
    width = len(levels) + bool(rare)
    missing = width if len(shares) > width else -1
    unit = np.sqrt((shares * (1 - shares)).sum())
    rows = np.zeros((len(shares) + 1, len(shares)))  # the last one, that of the code -1, stays zero
    rows[:-1] = np.eye(len(shares)) if plain else (np.eye(len(shares)) - shares) / unit
    return rows[codes_of(values, levels, rare, missing)]
