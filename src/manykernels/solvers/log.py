"""What iterative solvers report while they work: steps, a callback, and the trace in the end."""

from __future__ import annotations

import logging
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from ..predictors import Predictor
from ..problem import Trace

logger = logging.getLogger("manykernels")

OnIteration = Callable[["Step"], Any]
MakePredictor = Callable[[], Predictor] | None


@contextmanager
def heard(verbose) -> Iterator[None]:
    """Write what is logged meanwhile at level INFO to the standard error stream, if `verbose`: one line a phase."""
    if not verbose:
        yield
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setLevel(logging.INFO)
    handler.setFormatter(logging.Formatter("[manykernels] %(message)s"))
    level = logger.level
    logger.addHandler(handler)
    if logger.getEffectiveLevel() > logging.INFO:
        logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


@dataclass(frozen=True)
class Step:
    """What a callback sees after every iteration; returning True from it stops the fit.

    Attributes
    ----------
    iteration : int
    objective, gap, seconds : float
    n_kernels : int
    predictor : callable or None
        Returns the predictor of this iteration, for solvers that offer it.
    """

    iteration: int
    objective: float
    gap: float
    seconds: float
    n_kernels: int
    predictor: MakePredictor = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class Progress:
    """What a streaming solver knows of its state: an objective, a gap (NaN if unknown), kernels with weight."""

    objective: float
    gap: float
    n_kernels: int


@dataclass(frozen=True)
class Stage:
    """How far a fit is, as it is logged at level DEBUG.

    Attributes
    ----------
    doing : str
        What it is at.
    done : float
        The share of the whole that is done.
    left_out : float
        The error of rows left out so far, NaN where there is none: of the variance for numbers, else the loss.
    """

    doing: str
    done: float
    left_out: float = math.nan


class Course:
    """A fit in parts, each with its share of the work, that says how far it is.

    Parameters
    ----------
    work : dict from what is done to the seconds it may take, in order
    """

    def __init__(self, work: Mapping[str, float]):
        self.work, self._total = work, sum(work.values()) or 1.0
        self._heard = logger.isEnabledFor(logging.DEBUG)

    def at(self, doing: str, share: float = 0.0, left_out: float = math.nan) -> None:
        """Log that a share of a part is done."""
        if not self._heard:
            return
        before = sum(islice(self.work.values(), list(self.work).index(doing)))
        done = (before + min(share, 1.0) * self.work[doing]) / self._total
        logger.debug("%s", Stage(doing, done, left_out))


class Log:
    """Collects the trace and calls back."""

    def __init__(self, on_iteration: OnIteration | None, started: float):
        self.on_iteration = on_iteration
        self.started = started
        self.steps: list[Step] = []

    def __len__(self):
        return len(self.steps)

    def add(self, objective: float, gap: float, n_kernels: int, predictor: MakePredictor = None) -> bool:
        """Record a step; whether to stop."""
        seconds = time.perf_counter() - self.started
        step = Step(len(self.steps) + 1, objective, gap, seconds, n_kernels)
        self.steps.append(step)  # without the predictor, which holds on to arrays
        logger.debug("%s", step)
        return bool(self.on_iteration and self.on_iteration(replace(step, predictor=predictor)))

    def trace(self, **extra: tuple) -> Trace:
        """Return the steps as columns."""
        return Trace(
            tuple(s.objective for s in self.steps),
            tuple(s.gap for s in self.steps),
            tuple(s.seconds for s in self.steps),
            tuple(s.n_kernels for s in self.steps),
            extra,
        )
