"""The algorithm that draws products of kernels, apart from what it knows of the kernels.

See :mod:`manykernels.families.products.sampling` for what is drawn, and with which probability.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..draws import pick
from .monomials import orderings

Prefix = tuple[int, ...]

#: Draws lost to rounding (a prefix without mass) are repeated this many times.
ROUNDS = 20


class Sampler(ABC):
    """Products of 0 to D of r base kernels on given rows; reusable for one A after another.

    Parameters
    ----------
    n_kernels : int
        Number of base kernels, r.
    prior_sq : array
        ρ_1², ..., ρ_D².
    """

    #: Base kernels that do not vanish, by their number in the family.
    active: np.ndarray
    #: log of what every factor was divided by to keep products within range.
    log_unit: float

    def __init__(self, n_kernels: int, prior_sq: np.ndarray):
        self.n_kernels = n_kernels
        self.degree = len(prior_sq)
        self.log_prior = np.concatenate([[0.0], np.log(prior_sq)])

    @abstractmethod
    def masses(self, A: np.ndarray, size: int) -> tuple[np.ndarray, dict[int, Any]]:
        """Return tr(Aᵀ S^{∘d} A), d = 0..D, and the tables that were filled on the way."""

    @abstractmethod
    def conditional(self, A: np.ndarray, prefixes: Sequence[Prefix], k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return Σ over the k - 1 coordinates after the next one, for each prefix and next coordinate.

        Every row is in a unit of its own, whose log is returned as well.
        """

    def expands(self, k: int, size: int, n_outputs: int) -> bool:
        """Whether `size` draws of k factors are cheaper from a table of all of them."""
        return False

    def expand(self, A: np.ndarray, prefix: Prefix, k: int) -> tuple[Any, float]:
        """Return the table of all products of k factors after a prefix, and the log of its unit."""
        raise NotImplementedError

    def draw(self, A: np.ndarray, size: int, rng) -> tuple[list[Prefix], np.ndarray] | None:
        """Return `size` multisets and their probabilities, or None if nothing has mass."""
        top = np.abs(A).max(initial=0.0)
        if size == 0:
            return [], np.empty(0)
        if top == 0:
            return None
        A = A / top
        masses, tables = self.masses(A, size)
        with np.errstate(divide="ignore"):
            logs = (
                np.log(np.maximum(masses, 0.0)) + np.arange(self.degree + 1) * self.log_unit - self.log_prior
            )
        if logs.max() == -np.inf:
            return None
        shares = np.exp(logs - logs.max())
        log_total = logs.max() + math.log(shares.sum())
        shares /= shares.sum()
        tally: Counter[Prefix] = Counter()
        log_g: dict[Prefix, float] = {}
        for _ in range(ROUNDS):
            missing = size - tally.total()
            if missing == 0:
                break
            self._descend(A, rng.multinomial(missing, shares), masses[0], tables, rng, tally, log_g)
        else:
            if tally.total() < size:  # the masses were nothing but rounding
                return None
        return self._list(tally, log_g, log_total, rng)

    def _descend(self, A, counts, mass_0, tables, rng, tally, log_g):
        """Draw counts[d] products of d factors: all prefixes with k factors to go at once, k = D..1."""
        if counts[0]:
            tally[()] += int(counts[0])
            log_g[()] = math.log(mass_0)
        waiting: Counter[Prefix] = Counter()

        def emit(prefix, rest, logs, unit):
            for tail, value in zip(rest, logs.tolist(), strict=True):
                member = tuple(sorted(prefix + tail))
                tally[member] += 1
                log_g.setdefault(member, value + unit)

        for k in range(self.degree, 0, -1):
            if k in tables and counts[k]:
                rest, logs = tables[k].pick(rng, int(counts[k]))
                emit((), rest, logs, 0.0)
            elif counts[k]:
                waiting[()] += int(counts[k])
            here, waiting = waiting, Counter()
            step = []
            for prefix, m in here.items():
                if self.expands(k, m, A.shape[1]):
                    table, unit = self.expand(A, prefix, k)
                    rest, logs = table.pick(rng, m)
                    emit(prefix, rest, logs, unit)
                else:
                    step.append(prefix)
            if not step:
                continue
            cond, units = self.conditional(A, step, k)  # Alg. 3, line 6
            for prefix, row, unit in zip(step, cond, units, strict=True):
                chosen = pick(rng, row, here[prefix])  # line 7
                if k == 1:
                    emit(prefix, [(j,) for j in chosen.tolist()], np.log(row[chosen]), unit)
                else:
                    for j, times in zip(*np.unique(chosen, return_counts=True), strict=True):
                        waiting[tuple(sorted((*prefix, int(j))))] += int(times)  # line 8

    def _list(self, tally, log_g, log_total, rng):
        """Return the draws in random order, and their probabilities."""
        distinct = list(tally)
        logs = np.array(
            [
                log_g[z] + math.log(orderings(z)) + len(z) * self.log_unit - self.log_prior[len(z)]
                for z in distinct
            ]
        )
        of = rng.permutation(np.repeat(np.arange(len(distinct)), [tally[z] for z in distinct]))
        named = [tuple(self.active[list(z)].tolist()) for z in distinct]
        return [named[i] for i in of], np.exp(logs - log_total)[of]
