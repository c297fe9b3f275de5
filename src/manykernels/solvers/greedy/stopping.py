"""How many kernels the data support: an information criterion, or rows held out; and how much evidence rows are."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import gammaln

from ..._util.allowance import limited
from ...problem import Problem
from ..log import Log
from .refits import Refitter

#: Up to this many rows every fifth is held out in turn; of more, one fifth only.
FOLDED = 2000
#: Relative gap at which a pursuit on some of the rows stops; its losses on the others hardly change from there.
ROUGH = 1e-2


#: Copies of rows are no evidence of their own where chance would have made fewer than this share of them.
BY_CHANCE = 0.1
#: Chance is judged by so many columns, those whose values repeat least; more could depend on one another.
JUDGES = 3


class DistinctRows:
    """Which rows are copies of one another, and how many independent rows all of them are worth.

    A bootstrap sample repeats rows: what fits one copy fits all, so a criterion that counts them all finds products
    everywhere. Copies, rows with equal columns and targets, are therefore one row, whose weight is the sum of theirs.
    In a table of few categories, however, independent rows are equal all the time, and each is evidence. The two are
    told apart by how many equal pairs chance would have made: n(n-1)/2 times the product of Σ_v p_v², the probability
    that two values are equal, over the three columns (or targets) of the distinct rows whose values repeat least.

    Parameters
    ----------
    problem : Problem

    Attributes
    ----------
    number : (n,) array of int
        Of the distinct row that a row is a copy of. Sparse rows and ready-made kernels are all taken to be distinct.
    count : int
        How many there are.
    effective : float
        (Σ_i s_i)²/Σ_i s_i² over distinct rows: the number of rows of equal weight with the same sampling error (Kish
        1965, *Survey sampling*, section 11.7). It is n where all rows differ and have the same weight.
    """

    def __init__(self, problem: Problem):
        self.number = np.arange(problem.n_rows)
        if not (sp.issparse(problem.X) or problem.family.pairwise):
            number = _copies(problem.X, problem.Y)
            if number is not None and not _by_chance(problem.X, problem.Y, number):
                self.number = number
        self.count = int(self.number.max(initial=-1)) + 1
        s = np.bincount(self.number, problem.sample_weight)
        self.effective = float(s.sum()) ** 2 / max(float(s @ s), np.finfo(float).tiny)

    def rows_of(self, chosen: np.ndarray) -> np.ndarray:
        """Return the rows that are copies of some of the distinct ones."""
        return np.flatnonzero(np.isin(self.number, chosen))

    def added_up(self, rows: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Return values of rows, summed over copies."""
        return np.bincount(np.unique(self.number[rows], return_inverse=True)[1], values)


def _copies(X: np.ndarray, Y: np.ndarray) -> np.ndarray | None:
    """Return for every row the number of the first distinct row equal to it, in columns and targets; None: all differ.

    Column by column, and only among the rows that were equal so far: targets come first, as they tell most apart.
    """
    number, left = np.zeros(len(Y), dtype=np.intp), np.arange(len(Y))
    for column in chain(Y.T, X.T):
        values = np.unique(column[left], return_inverse=True)[1]
        _, which, sizes = np.unique(
            number[left] * (values.max(initial=0) + 1) + values, return_inverse=True, return_counts=True
        )
        number[left] = which
        left = left[sizes[which] > 1]
        if not len(left):
            return None
    own = np.arange(len(Y))
    own[left] = len(Y) + number[left]
    _, first, which = np.unique(own, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[which]  # in the order of the rows


def _by_chance(X: np.ndarray, Y: np.ndarray, number: np.ndarray) -> bool:
    """Whether independent rows of such values would be equal about as often as these are."""
    n = len(number)
    distinct = np.unique(number, return_index=True)[1]
    m = len(distinct)
    if m == 1:
        return True
    equal = []
    for column in chain(Y.T, X.T):
        sizes = np.unique(column[distinct], return_counts=True)[1].astype(float)
        equal.append((sizes @ sizes - m) / (m * (m - 1)))
    expected = n * (n - 1) / 2 * float(np.prod(np.sort(equal)[:JUDGES]))
    return expected > BY_CHANCE * (n - m)


class ExtendedBIC:
    """The extended BIC with γ = 1: N log(RSS/Σs) + k log N + 2 log C(|I|, k), N the effective number of rows."""

    def __init__(self, n_rows: float, size: float):
        self.n_rows, self.size = n_rows, size

    def __call__(self, refitter: Refitter, members: Sequence[Any]) -> float:
        k = len(members)
        chosen = gammaln(self.size + 1) - gammaln(k + 1) - gammaln(self.size - k + 1)
        return self.n_rows * refitter.log_error(members) + k * math.log(max(self.n_rows, 2.0)) + 2 * chosen


class Folds:
    """Pursuits on some of the rows, and the losses of the others after every step.

    Parameters
    ----------
    problem : Problem
    start : callable
        ``start(problem, log)`` returns a pursuit on a problem, with a ``watch`` to be set.
    rng : Generator
    rows : DistinctRows
        Copies are held out together, and judge as one.

    Attributes
    ----------
    paths : list of lists of arrays
        Losses of the rows held out, for every pursuit and step.
    ended : list of bool
        Whether a pursuit ended by itself.
    cut_short : bool
        Whether one did as its machines had worked enough.
    """

    def __init__(self, problem: Problem, start: Callable[[Problem, Log], Any], rng, rows: DistinctRows):
        self.problem, self.start, self.rows = problem, start, rows
        parts = [rows.rows_of(part) for part in np.array_split(rng.permutation(rows.count), 5)]
        self.parts = parts[: 5 if rows.count <= FOLDED else 1]
        self.paths: list[list[np.ndarray]] = []
        self.ended: list[bool] = []
        self.cut_short = False

    def run(self) -> None:
        """Take every pursuit to where the held-out loss has not fallen for a while."""
        s = self.problem.sample_weight
        for k, test in enumerate(self.parts):
            train = np.setdiff1d(np.arange(self.problem.n_rows), test)
            if s[train].any() and s[test].any():
                with limited(share=1 / (len(self.parts) + 1 - k)):  # as much is left for all rows
                    self._path(train, test)

    def _path(self, train, test) -> None:
        pb = self.problem
        s = pb.sample_weight
        part, Xt = pb.apart(train, test)
        losses: list[np.ndarray] = []
        self.paths.append(losses)
        self.ended.append(True)

        def watch(pursuit):
            scores = pursuit.result(certified=False).predictor.scores(Xt)
            losses.append(self.rows.added_up(test, s[test] * pb.loss.value(pb.Y[test], scores)))
            lead = int(np.argmin([loss.sum() for loss in losses])) + 1
            enough = len(losses) >= 2 * lead + 5
            self.ended[-1] = not enough
            return enough

        pursuit = self.start(part, Log(None, time.perf_counter()))
        pursuit.watch = watch
        pursuit.steps()
        self.cut_short |= pursuit.ending == "max_work"

    def n_steps(self) -> int | None:
        """Return the fewest steps whose loss is within a standard error, of the differences, of the least.

        None when that is where the pursuits end by themselves: then nothing need be stopped.
        """
        paths = [path for path in self.paths if path]
        if not paths:
            return None
        most = max(len(path) for path in paths)
        # A pursuit that ended early stays where it was.
        losses = [np.concatenate([path[min(t, len(path) - 1)] for path in paths]) for t in range(most)]
        lead = int(np.argmin([loss.sum() for loss in losses]))
        apart = [loss - losses[lead] for loss in losses]
        within = (d.sum() <= math.sqrt(len(d)) * float(d.std()) for d in apart)
        steps = 1 + next(t for t, fine in enumerate(within) if fine)
        return None if all(self.ended) and steps == most else steps
