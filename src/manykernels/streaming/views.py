"""Views of sources: some of the rows, or rows on another scale, without a copy."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

from .sources import Chunk, Source, as_one, keys_of, uniform


class View(Source):
    """Rows of another source, some of them or changed."""

    def __init__(self, inner: Source):
        self.inner = inner
        self.names, self.repeatable, self.columnar = inner.names, inner.repeatable, inner.columnar
        self.numeric_targets, self.any_kind = inner.numeric_targets, inner.any_kind

    @property
    def width(self):
        """Number of features."""
        return self.inner.width

    @property
    def column_names(self):
        """Names of all columns, whatever their roles."""
        return self.inner.column_names

    def choosing(self, columns=None, drop=None):
        chosen = copy.copy(self)
        chosen.inner = self.inner.choosing(columns, drop)
        return chosen

    def bind(self, y=None, sample_weight=None, features=None, *, any_kind=False):
        bound = copy.copy(self)
        bound.inner = self.inner.bind(y, sample_weight, features, any_kind=any_kind)
        bound.names, bound.any_kind = bound.inner.names, bound.inner.any_kind
        return bound

    def contents(self):
        return self.inner.contents()

    def unit_rows(self):
        return self.inner.unit_rows()

    def row_keys(self):
        return self.inner.row_keys()

    def read(self, unit, *, targets_only=False):
        self.inner.numeric_targets = self.numeric_targets
        return map(self._view, self.inner.read(unit, targets_only=targets_only))

    def _view(self, chunk: Chunk) -> Chunk:
        raise NotImplementedError


class Whole(View):
    """All rows of a source as one chunk, for a table that fits in memory."""

    def where_known(self, name: str) -> tuple[Whole, int]:
        """Return the rows that have a value in a column, and how many have none."""
        some = copy.copy(self)
        inner: Any = self.inner
        some.inner, left = inner.where_known(name)
        return some, left

    def unit_rows(self):
        return [self.inner.n_rows]

    def read(self, unit, *, targets_only=False):
        self.inner.numeric_targets = self.numeric_targets
        units = range(len(self.inner.unit_rows()))
        chunks = [chunk for u in units for chunk in self.inner.read(u, targets_only=targets_only)]
        if chunks:
            yield as_one(chunks, chunks[0].where)


class Part(View):
    """The rows whose hash is below `share`, or all the others: a split that any number of passes agree on.

    Parameters
    ----------
    inner : Source
    share : float
        The share of the rows, about.
    seed : int
    others : bool
        Whether to give the other rows.
    """

    def __init__(self, inner, share: float, seed: int, *, others: bool = False):
        super().__init__(inner)
        self.share, self.seed, self.others = share, seed, others

    def unit_rows(self):
        counts = enumerate(self.inner.unit_rows())
        return [None if n is None else int(self._mine(keys_of(u, 0, n)).sum()) for u, n in counts]

    def row_keys(self):
        return (keys[self._mine(keys)] for keys in self.inner.row_keys())

    def _mine(self, keys):
        return (uniform(keys, self.seed) < self.share) != self.others

    def _view(self, chunk):
        return chunk.take(self._mine(chunk.keys))


class Standardised(View):
    """Rows with every column shifted and scaled.

    Parameters
    ----------
    inner : Source
    mean, scale : arrays
        What is subtracted from every column, and what the rest is divided by.
    """

    def __init__(self, inner, mean, scale):
        super().__init__(inner)
        self.mean, self.scale = mean, scale

    def bind(self, y=None, sample_weight=None, features=None, *, any_kind=False):
        """Settle the roles of the columns, which must be numbers."""
        return super().bind(y, sample_weight, features)

    def _view(self, chunk):
        return chunk if chunk.X is None else replace(chunk, X=(chunk.X - self.mean) / self.scale)
