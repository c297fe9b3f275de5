"""Views of sources: some of the rows, or rows on another scale, without a copy."""

from __future__ import annotations

import copy
from dataclasses import replace

from .sources import Chunk, Source, keys_of, uniform


class View(Source):
    """Rows of another source, some of them or changed."""

    def __init__(self, inner: Source):
        self.inner = inner
        self.names, self.repeatable, self.columnar = inner.names, inner.repeatable, inner.columnar

    @property
    def width(self):
        """Number of features."""
        return self.inner.width

    def bind(self, y=None, sample_weight=None, features=None):
        bound = copy.copy(self)
        bound.inner = self.inner.bind(y, sample_weight, features)
        bound.names = bound.inner.names
        return bound

    def unit_rows(self):
        return self.inner.unit_rows()

    def row_keys(self):
        return self.inner.row_keys()

    def read(self, unit, *, targets_only=False):
        self.inner.numeric_targets = self.numeric_targets
        return map(self._view, self.inner.read(unit, targets_only=targets_only))

    def _view(self, chunk: Chunk) -> Chunk:
        raise NotImplementedError


class Part(View):
    """The rows whose hash is below `share`, or all the others: a split that any number of passes agree on."""

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
    """Rows with every column shifted and scaled."""

    def __init__(self, inner, mean, scale):
        super().__init__(inner)
        self.mean, self.scale = mean, scale

    def _view(self, chunk):
        return chunk if chunk.X is None else replace(chunk, X=(chunk.X - self.mean) / self.scale)
