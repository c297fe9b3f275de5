"""What the runs of Greedy share, whatever their steps: the search, the gap, and the end."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...certificates import mean_loss
from ...combination import Combination
from ...families.base import Best, Enumerable, can
from ...problem import Problem, Result
from ..active import LISTED
from ..base import ROUNDING, Log, Step
from .oracle import Oracle
from .refits import Point
from .stopping import ExtendedBIC

if TYPE_CHECKING:
    from . import Greedy


@dataclass(frozen=True)
class Limits:
    """Where a run ends before its gap closes.

    Attributes
    ----------
    kernels : int
        The most with weight.
    steps : int or None
        The most steps that rows held out support.
    criterion : ExtendedBIC or None
    swaps : int
        How often kernels are exchanged once their number is reached.
    """

    kernels: int
    steps: int | None = None
    criterion: ExtendedBIC | None = None
    swaps: int = 0


class Run(ABC):
    """What both kinds of steps share: the search, the gap, and the end.

    Attributes
    ----------
    best : Point or None
        The best so far.
    ending : str
        Why the steps ended; see :class:`~manykernels.solvers.Greedy`.
    """

    def __init__(self, solver: Greedy, problem: Problem, log: Log, rng, limits: Limits, theta=None):
        self.solver, self.problem, self.log, self.limits = solver, problem, log, limits
        self.theta = theta
        self.oracle = Oracle(problem, rng, solver.p)
        self.lam = 1.0 / (problem.C * problem.n_rows)
        start = mean_loss(problem.loss, problem.Y, np.zeros(problem.Y.shape), problem.sample_weight)
        self.floor = ROUNDING * start
        self.best: Point | None = None
        self.ending = ""
        self.watch: Any = None

    @abstractmethod
    def steps(self) -> None:
        """Take steps, keeping the best point."""

    @abstractmethod
    def settle(self) -> None:
        """Give the best point its final form, once the steps have ended."""

    def small(self, gap: float, objective: float) -> bool:
        """Whether a gap is within the tolerance."""
        return gap <= self.solver.tol * objective + self.floor

    def record(self, point: Point, found: Best) -> bool:
        """Log a step; whether it was the last."""
        gap = self.gap(point, found)
        seconds = time.perf_counter() - self.log.started
        stopped = self.log(Step(len(self.log) + 1, point.objective, gap, seconds, len(point)))
        watched = self.watch is not None and self.watch(self)
        for ending, holds in (
            ("gap", self.small(gap, point.objective)),
            ("callback", stopped or watched),
            ("criterion", self.limits.steps is not None and len(self.log) >= self.limits.steps),
            ("max_iter", len(self.log) >= self.solver.max_iter),
        ):
            if holds:
                self.ending = ending
                return True
        return False

    def gap(self, point: Point, found: Best) -> float:
        """Return P - D, with ‖g‖_ν* over what has been looked at."""
        return point.objective - point.dual(self.problem, self.oracle.dual_norm(point, found))

    def result(self, certified: bool = True) -> Result:
        """Return the best point, by default with its certificate, from a full search."""
        assert self.best is not None
        point = self.best
        gap, kind = math.nan, "none"
        combination = point.combination(self.problem.family)
        if certified:
            found = self.oracle.certified(point)
            gap, kind = self.gap(point, found), "exact" if found.exhaustive else "lower_bound"
            combination, point = _listed(self.problem, point, self.solver.p)
        return Result(
            predictor=point.predictor(combination, self.problem.X),
            combination=combination,
            objective=point.objective,
            gap=gap,
            gap_kind=kind,
            n_iter=len(self.log),
            converged=bool(kind == "exact" and self.small(gap, point.objective)),
            trace=self.log.trace(**self.extra()),
            dual_coef=point.A,
            intercept=point.intercept,
        )

    def extra(self) -> dict[str, tuple]:
        """Return what else the trace says."""
        return {"searches": (self.oracle.searches,), "ending": (self.ending,)}


def _listed(problem: Problem, point: Point, p: float) -> tuple[Combination, Point]:
    """Return the kernel over all members of a short list, zeros included, and the point in its order.

    Otherwise the kernel is over the members with weight.
    """
    family: Any = problem.family
    if family.factorises or not can(family, Enumerable) or family.size() > LISTED:
        return point.combination(family), point
    members = list(family.members())
    rho_sq = problem.scale.rho_sq(members, p)
    place = {z: i for i, z in enumerate(members)}
    at = np.array([place[z] for z in point.members], dtype=np.intp)
    weights, norms = np.zeros(len(members)), np.zeros(len(members))
    weights[at], norms[at] = point.theta / point.rho_sq, point.norms
    if point.W is not None and len(at):
        edges = np.concatenate([[0], np.cumsum(family.widths(point.members))])
        rows = np.concatenate([np.arange(edges[i], edges[i + 1]) for i in np.argsort(at)])
        point = replace(point, W=point.W[rows])
    return Combination(family, members, weights, np.sqrt(rho_sq), norms), point
