"""How many kernels the data support: an information criterion, or rows held out."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.special import gammaln

from ...problem import Problem
from ..log import Log
from .refits import Refitter

#: Up to this many rows every fifth is held out in turn; of more, one fifth only.
FOLDED = 2000
#: Relative gap at which a pursuit on some of the rows stops; its losses on the others hardly change from there.
ROUGH = 1e-2


class ExtendedBIC:
    """The extended BIC with γ = 1: deviance + k log N + 2 log C(|I|, k), N = Σ_t s_t, for a family of `size`."""

    def __init__(self, total: float, size: float):
        self.unit, self.size = math.log(max(total, 2.0)), size

    def __call__(self, refitter: Refitter, members: Sequence[Any]) -> float:
        k = len(members)
        chosen = gammaln(self.size + 1) - gammaln(k + 1) - gammaln(self.size - k + 1)
        return refitter.deviance(members) + k * self.unit + 2 * chosen


class Folds:
    """Pursuits on some of the rows, and the losses of the others after every step.

    Parameters
    ----------
    problem : Problem
    start : callable
        ``start(problem, log)`` returns a pursuit on a problem, with a ``watch`` to be set.
    rng : Generator
    """

    def __init__(self, problem: Problem, start: Callable[[Problem, Log], Any], rng):
        self.problem, self.start = problem, start
        parts = [np.sort(part) for part in np.array_split(rng.permutation(problem.n_rows), 5)]
        self.parts = parts[: 5 if problem.n_rows <= FOLDED else 1]
        self.paths: list[list[np.ndarray]] = []
        self.ended: list[bool] = []

    def run(self) -> None:
        """Take every pursuit to where the held-out loss has not fallen for a while."""
        s = self.problem.sample_weight
        for test in self.parts:
            train = np.setdiff1d(np.arange(self.problem.n_rows), test)
            if s[train].any() and s[test].any():
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
            losses.append(s[test] * pb.loss.value(pb.Y[test], scores))
            lead = int(np.argmin([loss.sum() for loss in losses])) + 1
            enough = len(losses) >= 2 * lead + 5
            self.ended[-1] = not enough
            return enough

        pursuit = self.start(part, Log(None, time.perf_counter()))
        pursuit.watch = watch
        pursuit.steps()

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
