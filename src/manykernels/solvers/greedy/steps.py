"""The steps of Greedy: with all weights fitted again, or towards one kernel at a time.

Both are pursuits: they share the search, the gap and the end.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from ..._util.allowance import exhausted
from ..._util.interrupts import Interruptible
from ...certificates import mean_loss
from ...combination import Combination
from ...families.base import Best, Enumerable, HasFeatures, can
from ...problem import GapKind, Problem, Result, StopReason
from ..active import FEW_MEMBERS, Active
from ..log import Log
from ..loop import PATIENCE, ROUNDING, Bracket
from .least_squares import refitter_for
from .oracle import CANDIDATES, Oracle
from .refits import Point, Refitter
from .stopping import ExtendedBIC

if TYPE_CHECKING:
    from . import Greedy

#: Why steps ended; see :class:`~manykernels.solvers.Greedy`. Empty while they go on.
Ending: TypeAlias = Literal[""] | StopReason


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


class Pursuit(ABC):
    """What both kinds of steps share: the search, the gap, and the end.

    Parameters
    ----------
    solver : Greedy
    problem : Problem
    log : Log
    rng : Generator
    limits : Limits
    theta : array, optional
        Weights to start from, one per member of a list.
    oracle : Oracle, optional
        The search, by default that of the family.

    Attributes
    ----------
    best : Point or None
        The best so far.
    ending : str
        Why the steps ended.
    interrupted : bool
    watch : callable or None
        Called with the pursuit after every step; a true return value stops.
    """

    def __init__(
        self, solver: Greedy, problem: Problem, log: Log, rng, limits: Limits, theta=None, *, oracle=None
    ):
        self.solver, self.problem, self.log, self.limits = solver, problem, log, limits
        self.theta = theta
        self.oracle: Oracle = oracle or Oracle(problem, rng, solver.p)
        self.lam = 1.0 / (problem.C * problem.n_rows)
        start = mean_loss(problem.loss, problem.Y, np.zeros(problem.Y.shape), problem.sample_weight)
        self.floor = ROUNDING * start
        self.best: Point | None = None
        self.ending: Ending = ""
        self.interrupted = False
        self.watch: Callable[[Pursuit], bool] | None = None

    @abstractmethod
    def steps(self) -> None:
        """Take steps, keeping the best point."""

    @abstractmethod
    def settle(self) -> None:
        """Give the best point its final form, once the steps have ended."""

    def run(self) -> Result:
        """Take steps to their end or to Ctrl-C; one that comes in the last search costs the gap only."""
        with Interruptible(lambda: None if self.best is None else "") as guard:
            self.steps()
        self.interrupted = self.interrupted or guard.interrupted
        if self.interrupted:
            self.ending = "interrupted"
        with Interruptible(lambda: ""):
            self.settle()
            return self.result()
        self.interrupted, self.ending = True, "interrupted"
        return self.result(certified=False)

    def small(self, gap: float, objective: float) -> bool:
        """Whether a gap is within the tolerance."""
        return gap <= self.solver.tol * objective + self.floor

    def record(self, point: Point, found: Best) -> bool:
        """Log a step; whether it was the last."""
        gap = self.gap(point, found)
        stopped = self.log.add(point.objective, gap, len(point))
        watched = self.watch is not None and self.watch(self)
        reasons: tuple[tuple[Ending, bool], ...] = (
            ("gap", self.small(gap, point.objective)),
            ("callback", stopped or watched),
            ("criterion", self.limits.steps is not None and len(self.log) >= self.limits.steps),
            ("max_iter", len(self.log) >= self.solver.max_iter),
            ("max_work", exhausted()),
        )
        self.ending = next((ending for ending, holds in reasons if holds), self.ending)
        return any(holds for _, holds in reasons)

    def gap(self, point: Point, found: Best) -> float:
        """Return P - D, with ‖g‖_ν* over what has been looked at."""
        return point.objective - point.dual(self.problem, self.oracle.dual_norm(point, found))

    def result(self, certified: bool = True) -> Result:
        """Return the best point, by default with its certificate, from a full search."""
        assert self.best is not None
        point = self.best
        gap = math.nan
        kind: GapKind = "none"
        combination = point.combination(self.problem.family)
        if certified:
            found = self.oracle.certified(point)
            gap = self.gap(point, found)
            kind = "exact" if found.exhaustive else "lower_bound"
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
            ending=self.ending or None,
        )

    def extra(self) -> dict[str, tuple]:
        """Return what else the trace says."""
        return {"searches": (self.oracle.searches,), "ending": (self.ending,)}


def _listed(problem: Problem, point: Point, p: float) -> tuple[Combination, Point]:
    """Return the kernel over all members of a short list, zeros included, and the point in its order.

    Otherwise the kernel is over the members with weight.
    """
    family: Any = problem.family
    if family.factorises or not can(family, Enumerable) or family.size() > FEW_MEMBERS:
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


# -- all weights fitted again ----------------------------------------------------------------------------


class Corrective(Pursuit):
    """All weights are fitted again after every kernel that enters.

    `refitter` solves the restricted problems, by default the fastest there is.
    """

    def __init__(self, *args, refitter: Refitter | None = None, **kwargs):
        super().__init__(*args, **kwargs)
        tol = min(0.1 * self.solver.tol, 1e-3)
        self.refitter = refitter or refitter_for(self.problem, tol, self.solver.p)
        self.scores: list[tuple[float, list[Any]]] = []  # without the points: rows may be millions
        self.chosen: Point | None = None  # by the criterion, where a full search has looked for more

    def steps(self) -> None:
        """Alg. 6 with line 8 replaced by a fit of all weights."""
        point = self._start()
        self._score(point)
        while True:
            found = self.oracle(point)
            useful = self._useful(point, found)
            if len(point) or not useful:
                self.best = point
                if self.record(point, found):
                    return
            if self.refitter.exact(point):
                self.ending = "exact_fit"
                return
            if useful and len(point) >= self.limits.kernels:
                self.ending = "max_kernels"
                self._swap(point)
                return
            moved = self._enter(point, found, self.limits.kernels) if useful else None
            if moved is None:
                self.best, self.ending = point, "max_work" if useful and exhausted() else "no_progress"
                return
            point = moved
            if self._enough(point):
                overlooked = self._overlooked(point) if self.oracle.lazy else None
                if overlooked is None:
                    self.best, self.ending = point, "criterion"
                    return
                point = overlooked

    def _start(self) -> Point:
        """Return the best constant, or the fit of the kernels with weight in `init`."""
        point = self.refitter.empty()
        if self.theta is None:
            return point
        family: Any = self.problem.family
        members = family.members()
        used = np.flatnonzero(self.theta)
        k = len(used)
        start = replace(
            point,
            members=[members[i] for i in used],
            theta=self.theta[used],
            norms=np.zeros(k),
            W=np.zeros((k, self.problem.n_outputs)),
        )
        return self._cut(self.refitter.refit(start.members, start), self.limits.kernels)

    def _useful(self, point: Point, found: Best) -> list[Any]:
        """Return what was found and can lower the objective: for p = 1 above the level of the active kernels."""
        level = point.level * (1 + 1e-9) if self.solver.p == 1 else 0.0
        level += 2 * self.floor / self.lam  # what the gap would call rounding
        known = set(point.members)
        pairs = zip(found.members, found.values, strict=True)
        return [z for z, value in pairs if value > level and z not in known]

    def _enter(self, point: Point, found: Best, most: int) -> Point | None:
        """Add the most promising kernel that lowers the objective."""
        useful = self._useful(point, found)
        if self.solver.p > 1:
            return self._join(point, found, useful[: min(1 + len(point) // 4, most - len(point))])
        for z in self.refitter.promising(point, useful[:CANDIDATES])[:4]:
            moved = self._refit([*point.members, z], point)
            if moved.objective < point.objective:
                return moved
            if exhausted():
                break
        return None

    def _join(self, point: Point, found: Best, new: list[Any]) -> Point | None:
        """Add kernels for p > 1, where all gain weight, from θ ∝ g^((2-p)/(2(p-1))), which holds at the optimum."""
        if not new:
            return None
        p = self.solver.p
        g = np.concatenate([point.g, found.values[: len(new)]])
        guess = (g / g.max()) ** ((2 - p) / (2 * (p - 1)))
        members = [*point.members, *new]
        # Those that are active are at their optimum already, and the new ones follow the largest of them.
        unit = point.theta.max() / guess[: len(point)].max() if len(point) else 1.0
        theta = np.concatenate([point.theta, unit * guess[len(point) :]])
        moved = self._refit(members, replace(point, members=members, theta=theta))
        return moved if moved.objective < point.objective else None

    def _swap(self, point: Point) -> None:
        """Grow beyond the limit and cut back to it, as long as that lowers the objective."""
        most = self.limits.kernels
        width = max(1, most // 2)
        for _ in range(self.limits.swaps):
            if exhausted():
                self.ending = "max_work"
                return
            trial = point
            for _ in range(width):
                found = self.oracle(trial)
                moved = self._enter(trial, found, most + width)
                if moved is None:
                    break
                trial = moved
            trial = self._cut(trial, most)
            if trial.objective < point.objective * (1 - 1e-3 * self.solver.tol):
                point = self.best = trial
                if self.record(point, self.oracle(point)):
                    return
            elif width > 1:
                width = max(1, width // 4)
            else:
                return

    def _cut(self, point: Point, most: int) -> Point:
        """Take away the kernels that cost least, one at a time near the end and an eighth of those too many before."""
        while len(point) > most:
            point = self._refit(self._fewer(point, max(1, (len(point) - most) // 8)), point)
        return point

    def _refit(self, members: list[Any], point: Point) -> Point:
        """Return the fit of some kernels; where products need their parts, without those that have lost theirs."""
        moved = self.refitter.refit(members, point)
        while self.oracle.hereditary:
            family: Any = self.problem.family
            kept = family.rightful(moved.members)
            if len(kept) == len(moved.members):
                break
            moved = self.refitter.refit(kept, moved) if kept else self.refitter.empty()
        return moved

    def _fewer(self, point: Point, count: int = 1) -> list[Any]:
        """Return the members without those that cost least, so many of them that no other needs."""
        family: Any = self.problem.family
        kept = dict(enumerate(point.members))
        for i in np.argsort(point.losses, kind="stable").tolist():
            rest = [z for j, z in kept.items() if j != i]
            if not self.oracle.hereditary or len(family.rightful(rest)) == len(rest):
                del kept[i]
                count -= 1
            if not count:
                break
        return list(kept.values())

    # -- the end

    def settle(self) -> None:
        """Go back to the best point by the criterion; of an exact fit keep the kernels that it needs."""
        if self.best is None:
            return
        if self.limits.criterion is not None:
            reached, self.best = self.best, self.chosen or self._selected(self.best)
            if self.best is not reached and self.ending == "gap":  # which is open again
                self.ending = "criterion"
        elif self.ending == "exact_fit":
            self.best = self._needed(self.best)

    def _score(self, point: Point) -> None:
        if self.limits.criterion is not None:
            self.scores.append((self.limits.criterion(self.refitter, point.members), point.members))

    def _enough(self, point: Point) -> bool:
        """Whether the criterion has not improved for a while."""
        if self.limits.criterion is None:
            return False
        self._score(point)
        lead = min(range(len(self.scores)), key=lambda i: self.scores[i][0])
        return len(self.scores) - 1 - lead >= 5 + len(self.scores[lead][1]) // 4

    def _overlooked(self, point: Point) -> Point | None:
        """Return the criterion's point with a kernel more that it asks for, and a full search has found there.

        Steps that spare searches may have passed by one. None if there is none: then all is done.
        """
        assert self.limits.criterion is not None
        self.chosen = self._selected(point)
        least = self.limits.criterion(self.refitter, self.chosen.members)
        found = self.oracle.certified(self.chosen)
        moved = self._enter(self.chosen, found, self.limits.kernels)
        if moved is None or self.limits.criterion(self.refitter, moved.members) >= least:
            return None
        self.chosen = None
        self._score(moved)
        return moved

    def _selected(self, point: Point) -> Point:
        """Return the best point by the criterion, without the kernels that it is better off without."""
        criterion = self.limits.criterion
        assert criterion is not None
        score, members = min(self.scores, key=lambda pair: pair[0])
        if members != point.members:
            point = self._refit(members, point) if members else self.refitter.empty()
        while len(point) > 1:
            kept = self._fewer(point)
            trial = criterion(self.refitter, kept)
            if trial > score:
                break
            score, point = trial, self._refit(kept, point)
        return point

    def _needed(self, point: Point) -> Point:
        """Return an exact fit without the kernels that it does not need."""
        while len(point) > 1:
            fewer = self._refit(self._fewer(point), point)
            if not self.refitter.exact(fewer):
                break
            point = fewer
        return point


# -- towards one kernel at a time -------------------------------------------------------------------------


class Stepwise(Pursuit):
    """Steps towards one kernel at a time: Algorithms 5 and 6 to the letter."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.active = Active(self.problem, 1.0)
        self.values: list[float] = []
        self.bracket = Bracket()
        self.eta = 0.5  # where the next search on a segment begins

    def steps(self) -> None:
        """Alg. 6, lines 4-10."""
        active = self.active
        self._start()
        fit = active.solve()  # line 6
        while True:
            point, value = self._point(fit), self._value(fit)
            found = self.oracle(point)  # line 7
            if len(point) or not len(found.values) or self.lam / 2 * found.values[0] <= self.floor:
                self.values.append(value)
                if self.best is None or point.objective <= self.best.objective:
                    self.best = point
                if self.record(point, found):
                    return
                if self.bracket.take(point.objective, self.log.steps[-1].gap) >= PATIENCE:
                    self.ending = "no_progress"
                    return
            chosen = self._choose(point, found)
            if chosen is None:
                self.best = self.best or point
                return
            if self.solver.step == "classic":
                fit = self._move(*chosen, 2.0 / (len(self.log) + 2))
                continue
            moved = self._line_search(*chosen, value, point)
            if moved is None:
                self.ending = "max_work" if exhausted() else "no_progress"
                return
            fit = moved

    def settle(self) -> None:
        """Leave the best point as it is."""

    def _start(self) -> None:
        if self.theta is not None:
            family: Any = self.problem.family
            order = np.argsort(-self.theta, kind="stable")[: self.limits.kernels]
            used = order[self.theta[order] > 0]
            members = [family.members()[i] for i in used]
            theta = self.theta[used] / self.theta[used].sum()
            self.active.add(members, theta, self.active.rho_of(members))

    def _choose(self, point: Point, found: Best) -> tuple[Any, float] | None:
        """Return the best kernel and its ρ²; one that is active already once the limit is reached."""
        new = [z for z in found.members[:1] if z not in self.active.place]
        if new and len(point) < self.limits.kernels and found.values[0] > point.level:
            return new[0], self.active.rho_of(new)[0]
        full = len(point) >= self.limits.kernels
        self.ending = "max_kernels" if full else "no_progress"
        within = self.lam / 2 * (point.level - float(point.theta @ point.g))
        if len(point) < 2 or (full and self.small(within, point.objective)):
            return None
        i = int(np.argmax(point.g))
        return self.active.members[i], self.active.rho_sq[i]

    def _value(self, fit) -> float:
        """Return J at a solution of the machine, from ‖f‖² of the machine itself."""
        pb, b = self.problem, self.active.intercept(fit)
        if fit.W is not None:
            fixed = float(np.vdot(fit.W[:-1], fit.W[:-1]))
        else:
            fixed = float(np.vdot(fit.A, fit.F - b))
        loss = mean_loss(pb.loss, pb.Y, fit.F, pb.sample_weight)
        return loss + self.lam / 2 * (fixed + float(b @ b))

    def _point(self, fit) -> Point:
        """Return the iterate."""
        active, fit = self.active, self.active.explicit(fit)
        g = np.maximum(active.forms(fit.A), 0.0) / active.rho_sq if len(active) else np.zeros(0)
        norms = active.norms(fit) if fit.W is not None else active.theta * np.sqrt(g)
        W = None
        if can(active.family, HasFeatures):
            W = getattr(active.predictor(fit, active.combination(norms)), "W", None)
        return Point(
            members=list(active.members),
            theta=active.theta.copy(),
            rho_sq=active.rho_sq.copy(),
            norms=norms,
            A=fit.A,
            W=W,
            intercept=active.intercept(fit),
            objective=active.objective(fit, norms),
            g=g,
            losses=norms,
        )

    def _move(self, z, rho_sq, eta):
        """Alg. 6, line 9."""
        if eta >= 1:
            self.active.set(np.zeros(len(self.active)))
        else:
            self.active.scale(1 - eta)
        self.active.add([z], np.array([min(eta, 1.0)]), np.array([rho_sq]))
        return self.active.solve()

    def _line_search(self, z, rho_sq, value, point):
        """Alg. 6, line 8: the zero of dJ/dη = -(λ/2) (g_z - Σ_i θ_i g_i), θ the weights before, by regula falsi.

        J is convex along the segment, so that the sign of the slope says on which side the minimum lies. The slope at
        an end that stays twice in a row is halved (the Illinois rule): the slope bends near 0, and one end would stay
        for tens of machines. It begins where the last search ended, as steps differ little in length.
        """
        if not len(self.active):
            return self._move(z, rho_sq, 1.0)
        segment = self.active.segment(z, rho_sq)
        low, high, slope_high = 0.0, 1.0, None
        slope_low = first = float(point.theta @ point.g) - segment.g(point.A)
        eta, best, last = self.eta, (value, 0.0), 0.0
        for _ in range(60):
            fit, slope = segment.at(eta)
            best = min(best, (self._value(fit), eta))
            if abs(slope) <= 1e-3 * abs(first) or high - low < 1e-12 or exhausted():
                break
            again, last = slope * last > 0, slope
            if slope < 0:
                low, slope_low = eta, slope
                slope_high = slope_high / 2 if again and slope_high is not None else slope_high
            else:
                high, slope_high = eta, slope
                slope_low = slope_low / 2 if again else slope_low
            if slope_high is None:
                eta = min(4 * eta, (low + high) / 2)
                continue
            share = slope_low / (slope_low - slope_high)
            eta = low + min(max(share, 0.05), 0.95) * (high - low)
        if best[1] == 0.0:
            return None
        self.eta = min(best[1], 0.5)
        return segment.end(best[1])

    def extra(self):
        """Return J as well, which the steps lower; the objective is P at its predictor."""
        return {**super().extra(), "value": tuple(self.values)}
