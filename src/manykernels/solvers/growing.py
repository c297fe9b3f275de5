"""Banks over kernels that are met one after the other, so that a kernel is evaluated once and not at every step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._blocks import row_blocks
from .._threads import map_in_threads
from ..families.bank import FEATURE_BYTES, Bank, FeatureBank
from ..families.base import HasFeatures, can
from ..problem import Problem

#: Gram matrices are kept up to this many bytes; more kernels than that are evaluated at every pass.
KEPT_BYTES = 2**29
#: Entries of a block of rows of a sum, which stays in cache.
BLOCK = 2**16
#: Sums of fewer entries than this are over before threads have started.
FEW = 2**23


class Growing:
    """The kernels met so far: columns where features are narrower than the Gram matrix, else Gram matrices.

    Parameters
    ----------
    problem : Problem
    gram_of : callable, optional
        From a member to its Gram matrix on the rows; a search may know the distances already.
    """

    def __init__(self, problem: Problem, gram_of: Callable[[Any], np.ndarray] | None = None):
        self.problem = problem
        self.family: Any = problem.family
        self.explicit = can(self.family, HasFeatures)
        self._gram_of = gram_of or (lambda z: self.family.bank(problem.X, [z]).gram(np.ones(1)))
        self._columns: dict[Any, np.ndarray] = {}
        self._grams: dict[Any, np.ndarray] = {}

    def bank(self, members: Sequence[Any]) -> Bank:
        """Return members bound to the rows. New ones cost n columns or n² kernel values each, known ones nothing."""
        X, n = self.problem.X, self.problem.n_rows
        if self.explicit:
            widths = self.family.widths(members)
            if widths.sum() + 1 < n and 8 * n * widths.sum() <= FEATURE_BYTES:
                self._columns = _renewed(self._columns, members, lambda z: self.family.features(X, [z]))
                return FeatureBank(lambda a, b: self._side_by_side(members[a:b]), widths, n)
        if self.family.pairwise or 8 * n * n * len(members) > KEPT_BYTES:
            return self.family.bank(X, members)
        self._grams = _renewed(self._grams, members, self._gram_of)
        return GramBank([self._grams[z] for z in members])

    def _side_by_side(self, members):
        return np.hstack([self._columns[z] for z in members])


def _renewed(known: dict, members, make) -> dict:
    """Return what is known of members, new ones made; the others are forgotten, so that memory is bounded."""
    return {z: known[z] if z in known else make(z) for z in members}


class GramBank(Bank):
    """Ready-made Gram matrices, n² each."""

    def __init__(self, grams: Sequence[np.ndarray]):
        self.grams = list(grams)
        self.n_members, self.n_rows = len(self.grams), len(self.grams[0])

    def gram(self, weights):
        """Return Σ weights_i K_i, block by block of rows."""
        n = self.n_rows
        used = np.flatnonzero(weights)
        K = np.zeros((n, n))

        def fill(rows):
            part, scaled = K[rows], np.empty_like(K[rows])
            for i in used:
                part += np.multiply(self.grams[i][rows], weights[i], out=scaled)

        blocks = list(row_blocks(n, n, BLOCK))
        if n * n * len(used) < FEW:
            for rows in blocks:
                fill(rows)
        else:
            map_in_threads(fill, blocks)
        return K

    def quad_forms(self, A):
        """Return tr(Aᵀ K_i A)."""
        return np.array([max(float(np.vdot(K @ A, A)), 0.0) for K in self.grams])
