"""What loops share: Ctrl-C ends them with what they have, the best is kept, and a warning carries the figure."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._util.allowance import exhausted
from .._util.interrupts import Interruptible
from .._util.text import warn
from ..predictors import Predictor
from ..problem import Problem, StopReason
from .log import Log
from .workspace import Iterate

#: Gaps below this share of the objective at f = 0 are rounding, not progress.
ROUNDING = 1e-12
#: Iterates without progress after which a descent on kernel weights ends.
PATIENCE = 40


class Bracket:
    """The least P less the largest D of all iterates so far, which holds the optimum.

    Attributes
    ----------
    since : int
        Iterates since it last shrank by a hundredth.
    """

    def __init__(self) -> None:
        self._primal, self._dual, self._width, self.since = np.inf, -np.inf, np.inf, 0

    def take(self, objective: float, gap: float) -> int:
        """Take notice of an iterate, and return `since`."""
        self._primal, self._dual = min(self._primal, objective), max(self._dual, objective - gap)
        width = self._primal - self._dual
        if width < 0.99 * self._width:
            self._width, self.since = width, 0
        else:
            self.since += 1
        return self.since


class Descent:
    """The loop around an algorithm that yields iterates: it keeps the best, calls back, and says when it is enough.

    Parameters
    ----------
    tol : float or None
        Relative gap at which to stop; None to take all iterates.
    floor : float
        Gaps up to this are rounding.
    most : float
        Most iterates.
    log : Log, optional
        Records every iterate and calls back.
    predictor : callable, optional
        Returns an iterate's predictor, for the callback.
    patience : int or None
        Iterates within which the bracket of the optimum, the least P less the largest D, must shrink by a hundredth:
        slower than that no gap closes, and it is rounding that ends the steps. None for as many as it takes.
    later : bool
        Whether of two iterates with the same objective the later one is kept: where steps go down to rounding, its
        gap is the smaller one.

    Attributes
    ----------
    best, last : Iterate or None
    n_iter : int
        Iterates so far.
    closed, stopped, stalled, exhausted, interrupted : bool
        Whether the gap of the last was small enough, the callback said stop, the bracket no longer shrank, the machines
        have worked enough, or Ctrl-C came.
    """

    def __init__(
        self,
        tol: float | None,
        floor: float,
        most: float = np.inf,
        log: Log | None = None,
        predictor: Callable[[Iterate], Predictor] | None = None,
        later: bool = True,
        patience: int | None = None,
    ):
        self.patience, self._bracket = patience, Bracket()
        self.tol, self.floor, self.most, self.log = tol, floor, most, log
        self.predictor, self.later = predictor, later
        self.best: Iterate | None = None
        self.last: Iterate | None = None
        self.n_iter = 0
        self.closed = self.stopped = self.stalled = self.exhausted = self.interrupted = False

    @property
    def answer(self) -> Iterate:
        """Return the iterate whose gap is small enough, else the best."""
        chosen = self.last if self.closed else self.best
        assert chosen is not None
        return chosen

    @property
    def ending(self) -> StopReason:
        """Why the iterates ended."""
        if self.interrupted:
            return "interrupted"
        if self.closed:
            return "gap"
        if self.stopped:
            return "callback"
        return "no_progress" if self.stalled else "max_work" if self.exhausted else "max_iter"

    def run(self, iterates: Iterable[Iterate]) -> None:
        """Follow the iterates; Ctrl-C ends them once there is one to keep."""
        with Interruptible(lambda: None if self.best is None else "") as guard:
            self.follow(iterates)
        self.interrupted = guard.interrupted

    def follow(self, iterates: Iterable[Iterate]) -> None:
        """Take iterates until one is the last; Ctrl-C is somebody else's affair."""
        for iterate in iterates:
            if self._take(iterate):
                return

    def _take(self, iterate: Iterate) -> bool:
        """Take notice of an iterate; whether it is the last."""
        self.n_iter += 1
        better = operator.le if self.later else operator.lt
        if self.best is None or better(iterate.objective, self.best.objective):
            self.best = iterate
        self.last = iterate
        self.closed = self.tol is not None and small_gap(iterate, self.tol, self.floor)
        if self.log is not None:
            predictor = self.predictor
            make = None if predictor is None else lambda: predictor(iterate)
            kernels = int(np.count_nonzero(iterate.theta))
            self.stopped = self.log.add(iterate.objective, iterate.gap, kernels, make)
        still = self._bracket.take(iterate.objective, iterate.gap)
        self.stalled = self.patience is not None and still >= self.patience and not self.closed
        ended = self.closed or self.stopped or self.stalled or self.n_iter >= self.most
        self.exhausted = not ended and exhausted()
        return ended or self.exhausted


def small_gap(iterate: Iterate, tol: float, floor: float) -> bool:
    """Whether P - D <= tol · |P|, or rounding; only losses of all rows together have a P below zero."""
    return iterate.gap <= tol * abs(iterate.objective) + floor


def relative_gap(gap: float, objective: float, floor: float) -> float:
    """Return the gap over the objective, which may be zero."""
    return gap / max(abs(objective), floor, np.finfo(float).tiny)


def warn_interrupted(n_iter: int, unit: str, gap: float) -> None:
    """Warn that Ctrl-C came, with the relative gap of what is kept."""
    kept = f"the best result so far is kept, with a relative gap of {gap:.1e}"
    warn(f"Interrupted after {n_iter} {unit}; {kept}.", ConvergenceWarning)


def less_work(problem: Problem) -> str:
    """Return, for a warning, that the machines have worked enough, and what makes them work less."""
    coupled = problem.loss.multiclass and problem.n_outputs > 2
    other = "use a loss that takes every class on its own" if coupled else "standardise the columns of X"
    rows = f"{problem.n_rows:,} rows are worth"
    return f"its machines took all the multiplications that {rows}: raise tol, lower C, {other}"


def warn_early(solver: object, n_iter: int, unit: str, gap: float, why: str) -> None:
    """Warn that a solver stopped at a relative gap that was not asked for, and say what would help."""
    where = f"after {n_iter} {unit} at a relative gap of {gap:.1e}"
    warn(f"{type(solver).__name__} stopped {where}, {why}.", ConvergenceWarning)
