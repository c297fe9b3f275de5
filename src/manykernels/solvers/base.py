"""The contracts of solvers, and the loop that all iterative batch solvers share."""

from __future__ import annotations

import logging
import numbers
import time
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

from .._text import brief
from ..certificates import penalties
from ..combination import Combination
from ..families.base import CAPABILITIES, Enumerable, Family, can
from ..losses import Loss
from ..predictors import Predictor
from ..problem import Problem, Result, Trace
from .workspace import Iterate, Workspace

logger = logging.getLogger("manykernels")

#: Gaps below this share of the objective at f = 0 are rounding, not progress.
ROUNDING = 1e-12

OnIteration = Callable[["Step"], Any]


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
    predictor: Callable[[], Predictor] | None = field(default=None, repr=False, compare=False)


class Solver(BaseEstimator):
    """Base of all solvers.

    A solver takes a :class:`~manykernels.problem.Problem` and returns a
    :class:`~manykernels.problem.Result`. It declares what it needs of its partners, and
    ``check_compatible`` says in one sentence what is missing.

    Attributes
    ----------
    requires : tuple of protocols
        What the family must be able to do.
    losses : tuple of str or None
        Names of the losses it takes; None for all.
    accepts_init : bool
        Whether `init` means something: weights to start from.
    prefers_base_scale : bool
        Whether ``normalize="auto"`` means ``"base"`` on families that factorise.
    """

    requires: ClassVar[tuple[type, ...]] = ()
    losses: ClassVar[tuple[str, ...] | None] = None
    prefers_base_scale: ClassVar[bool] = False
    accepts_init: ClassVar[bool] = False
    p: Any

    @abstractmethod
    def solve(self, problem: Problem, init: Any = None, on_iteration: OnIteration | None = None) -> Result:
        """Solve the problem.

        Parameters
        ----------
        problem : Problem
        init : array, optional
            θ to start from, one entry per member.
        on_iteration : callable, optional
            Called with a :class:`Step` after every iteration; a true return value stops.
        """

    def check_params(self) -> None:
        """Raise ValueError when a parameter makes no sense."""

    def check_compatible(self, family: Family, loss: Loss) -> None:
        """Raise ValueError, in one sentence, when the family or the loss does not fit this solver."""
        name = type(self).__name__
        for need in self.requires:
            if not can(family, need):
                raise ValueError(
                    f"{name} needs a family {CAPABILITIES[need]}, and {type(family).__name__} is not; "
                    "pass another solver or other kernels."
                )
        if self.losses is not None and loss.name not in self.losses:
            raise ValueError(f"{name} takes loss {', '.join(self.losses)}, not {loss.name!r}.")

    def penalties(self, u: np.ndarray, g: np.ndarray, lam: float) -> tuple[float, float]:
        """Return the penalty of the norms u, over λ/2, and its conjugate at g: what a certificate needs."""
        return penalties(u, g, self.p)

    def default_loss(self, n_classes: int | None) -> str:
        """Return the name of the loss for regression (None), two classes, or more."""
        if n_classes is None:
            return "squared"
        return "hinge" if n_classes <= 2 else "squared_hinge"


class TwoStageSolver(Solver):
    """A solver that learns the kernel alone, then trains the machine on it.

    Subclasses implement ``learn``; the gap is that of the machine on the fixed kernel.
    """

    p: Any = None

    @abstractmethod
    def learn(self, problem: Problem) -> Combination:
        """Return the learned combination of kernels."""

    def solve(self, problem, init=None, on_iteration=None):
        """Learn the kernel, then solve the machine."""
        started = time.perf_counter()
        combination = self.learn(problem)
        theta = combination.weights * combination.rho**2
        work = Workspace(problem, combination.family, combination.members, combination.rho**2, None)
        iterate = work.evaluate(theta)
        log = Log(on_iteration, started)
        log.add(iterate)
        # The machine is solved to 1e-10 where rounding allows it; a gap above this means that it was not.
        converged = iterate.gap <= 1e-6 * iterate.objective + ROUNDING * work.start_value()
        return result_of(work, iterate, log.trace(), n_iter=1, converged=converged)


class StreamingSolver(Solver):
    """A solver that sees the rows in batches.

    The state is a dict of arrays: it is also the checkpoint. A batch is a
    :class:`~manykernels.problem.Problem` that shares everything but the rows with the first.
    """

    batch_size: int = 1024

    @abstractmethod
    def start(self, problem: Problem) -> dict[str, np.ndarray]:
        """Return the state before any row, given the first batch."""

    @abstractmethod
    def update(self, state: dict[str, np.ndarray], batch: Problem) -> dict[str, np.ndarray]:
        """Return the state after a batch."""

    @abstractmethod
    def finish(self, state: dict[str, np.ndarray], problem: Problem) -> Result:
        """Turn the state into a result; the state can go on afterwards."""

    def solve(self, problem, init=None, on_iteration=None):
        """Stream over the rows once."""
        state = self.start(problem)
        for batch in problem.batches(self.batch_size):
            state = self.update(state, batch)
        return self.finish(state, problem)


class BatchSolver(Solver):
    """An iterative solver over all members of a family that can be listed.

    Subclasses implement ``iterates``, a generator of evaluated iterates; the loop around it keeps the
    best one, stops on the gap, warns, calls back and survives Ctrl-C. `tol` is the relative duality gap
    ``P - D <= tol · P``.
    """

    requires = (Enumerable,)
    accepts_init = True
    max_iter: int
    tol: float

    @abstractmethod
    def iterates(self, work: Workspace, init: np.ndarray | None) -> Iterator[Iterate]:
        """Yield evaluated iterates, as long as there is progress to be made."""

    def check_params(self):
        """Check `max_iter` and `tol`."""
        if not isinstance(self.max_iter, numbers.Integral) or self.max_iter < 1:
            raise ValueError(f"max_iter of {brief(self)} must be a whole number of at least 1.")
        if not (isinstance(self.tol, numbers.Real) and self.tol >= 0):
            raise ValueError(f"tol of {brief(self)} must be a number of at least 0.")

    def solve(self, problem, init=None, on_iteration=None):
        """Iterate until the relative gap is at most `tol`."""
        self.check_params()
        log = Log(on_iteration, time.perf_counter())
        work = Workspace.over_all(problem, self.p)
        floor = ROUNDING * work.start_value()
        best: Iterate | None = None
        converged = stopped = False
        try:
            for iterate in self.iterates(work, check_init(init, work)):
                if best is None or iterate.objective <= best.objective:
                    best = iterate
                converged = iterate.gap <= self.tol * max(iterate.objective, 0.0) + floor
                if converged:
                    best = iterate
                stopped = log.add(iterate)
                if converged or stopped or len(log) >= self.max_iter:
                    break
        except KeyboardInterrupt:
            if best is None:
                raise
            stopped = True
            warnings.warn(
                f"Interrupted after {len(log)} iterations; the best iterate so far is kept, with a relative "
                f"gap of {best.gap / max(best.objective, floor):.1e}.",
                ConvergenceWarning,
                stacklevel=2,
            )
        assert best is not None
        if not (converged or stopped):
            self._warn(best, len(log), floor)
        return result_of(work, best, log.trace(), n_iter=len(log), converged=converged)

    def _warn(self, best, n_iter, floor):
        warnings.warn(
            f"{type(self).__name__} stopped after {n_iter} iterations at a relative gap of "
            f"{best.gap / max(best.objective, floor):.1e}, above tol={self.tol:g}; raise max_iter or tol.",
            ConvergenceWarning,
            stacklevel=3,
        )


def generator(random_state: Any) -> np.random.Generator:
    """Return a generator from whatever scikit-learn's users pass as random_state."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31 - 1))
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise ValueError(
            f"random_state is {brief(random_state)}; use a whole number, a generator, or None."
        ) from None


def check_init(init, work: Workspace) -> np.ndarray | None:
    """Return `init` as θ, after a check of its shape."""
    if init is None:
        return None
    try:
        theta = np.asarray(init, dtype=float)
    except (TypeError, ValueError):
        theta = np.empty(0)
    if theta.shape != (work.n_members,) or not (np.isfinite(theta) & (theta >= 0)).all():
        raise ValueError(f"init must hold {work.n_members} non-negative weights, one per kernel.")
    if not theta[work.alive].any():
        raise ValueError("init must give weight to a kernel that does not vanish on the training rows.")
    return theta


def result_of(work: Workspace, iterate: Iterate, trace: Trace, *, n_iter: int, converged: bool) -> Result:
    """Turn an iterate into a result."""
    combination = work.combination(iterate)
    return Result(
        predictor=work.predictor(iterate, combination),
        combination=combination,
        objective=iterate.objective,
        gap=iterate.gap,
        gap_kind="exact",
        n_iter=n_iter,
        converged=converged,
        trace=trace,
        dual_coef=iterate.A,
        intercept=iterate.intercept,
    )


class Log:
    """Collects the trace and calls back."""

    def __init__(self, on_iteration: OnIteration | None, started: float):
        self.on_iteration = on_iteration
        self.started = started
        self.steps: list[Step] = []

    def __len__(self):
        return len(self.steps)

    def add(self, iterate: Iterate, predictor: Callable[[], Predictor] | None = None) -> bool:
        """Record an iterate; whether to stop."""
        seconds = time.perf_counter() - self.started
        kernels = int(np.count_nonzero(iterate.theta))
        step = Step(len(self.steps) + 1, iterate.objective, iterate.gap, seconds, kernels)
        return self(step, predictor)

    def __call__(self, step: Step, predictor: Callable[[], Predictor] | None = None) -> bool:
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
