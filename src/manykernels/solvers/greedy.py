"""Greedy coordinate descent over families that can find their best kernel."""

from __future__ import annotations

import math
import numbers
import time
import warnings
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import gammaln
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from ..certificates import mean_loss
from ..combination import Combination
from ..families.base import Best, Direction, Enumerable, HasFeatures, Maximisable, can
from ..problem import Problem, Result, Scale
from .active import Active
from .base import ROUNDING, Log, Solver, Step, generator
from .refits import LeastSquares, Point, refitter_for

#: Candidates that a search returns; the one whose addition gains most is taken.
CANDIDATES = 32
#: Searches that cost more multiply-adds than this are made only when the last one's candidates are used up.
LAZY = 2e10
#: Candidates that are kept from an expensive search.
POOL = 2000
#: Families up to this size are listed in full in the result, zeros included.
LISTED = 5000
#: Largest number of kernels that ``max_kernels="auto"`` looks at.
MOST = 200
#: Up to this many rows every fifth is held out in turn; of more, one fifth only.
FOLDED = 2000


class Greedy(Solver):
    """Frank-Wolfe steps on the kernel weights: the best kernel of the family enters at each step, p = 1.

    minimise (1/n) Σ s_t ℓ(y_t, f(x_t)) + (λ/2) [(Σ_i ρ_i ‖w_i‖)² + ‖b‖²],

    that is J(θ) over the simplex. At every step the machine is solved at θ, and the kernel with the largest
    g_i = tr(AᵀK_iA)/ρ_i² is searched for; the family may be exponentially large or a continuum.

    Parameters
    ----------
    max_kernels : "auto" or int
        The most kernels with weight. ``"auto"``: as many as an extended BIC over the size of the family (squared
        loss, kernels with one feature) or rows held out (otherwise) support, so that kernels are not chosen
        because one of very many looks good by chance.
    corrective : bool
        Whether all weights are fitted again at every step (IKL); kernels whose weight vanishes are dropped.
        Otherwise a step moves towards the new kernel alone (GCD-1s, CKL).
    step : {"line_search", "classic"}
        The step when not corrective: to the minimum of J on the segment, or 2/(k+1).
    tol : float
        Relative duality gap at which to stop.
    max_iter : int
        Most steps.
    swaps : int
        How often, once `max_kernels` have weight, some of them are exchanged for others to lower the objective
        further; corrective fits only.
    random_state : int, Generator, RandomState or None
        For searches that draw at random, and for the rows held out.

    Notes
    -----
    Takes any loss, and families that can find their best kernel. The gap is exact when the last search was
    exhaustive, and a lower bound otherwise. Departs from the references: for the squared loss on monomials the 32
    best kernels by gradient are compared by what least squares gains from each beside the active ones; when a
    search is expensive its candidates, and kernels that share factors with active ones, are used up first, as
    long as they stand out from what is best by chance, 2 log|I|/n of the squared norm. There too a fit that
    reproduces the targets (noiseless, with a very large C) ends the steps: more kernels could only make its norm
    smaller, not itself better, and the gap stays open. With ``"auto"`` the trace goes a few steps beyond the result.

    References
    ----------
    Afkanpour (2013), *Multiple Kernel Learning with Many Kernels*, Algorithms 5-6, Theorem 5.1. Argyriou, Micchelli,
    Pontil (2005), *Learning convex combinations of continuously parameterized basic kernels* (CKL). Gehler, Nowozin
    (2008), *Infinite kernel learning* (IKL). Chen, Chen (2008), *Extended Bayesian information criteria*.
    """

    requires = (Maximisable,)
    p = 1.0

    def __init__(
        self,
        max_kernels="auto",
        *,
        corrective=True,
        step="line_search",
        tol=1e-3,
        max_iter=1000,
        swaps=10,
        random_state=None,
    ):
        self.max_kernels = max_kernels
        self.corrective = corrective
        self.step = step
        self.tol = tol
        self.max_iter = max_iter
        self.swaps = swaps
        self.random_state = random_state

    def check_params(self):
        """Check the numbers and the names."""
        if self.max_kernels != "auto" and (
            not isinstance(self.max_kernels, numbers.Integral) or self.max_kernels < 1
        ):
            raise ValueError(
                f"max_kernels of Greedy is {self.max_kernels!r}; use 'auto' or a whole number of at least 1."
            )
        if self.step not in ("line_search", "classic"):
            raise ValueError(f"step of Greedy is {self.step!r}; use 'line_search' or 'classic'.")
        if not isinstance(self.max_iter, numbers.Integral) or self.max_iter < 1:
            raise ValueError(
                f"max_iter of Greedy is {self.max_iter!r}; it must be a whole number of at least 1."
            )
        if not isinstance(self.swaps, numbers.Integral) or self.swaps < 0:
            raise ValueError(f"swaps of Greedy is {self.swaps!r}; it must be a whole number of at least 0.")
        if not (isinstance(self.tol, int | float | np.number) and self.tol >= 0):
            raise ValueError(f"tol of Greedy is {self.tol!r}; it must be a number of at least 0.")

    def solve(self, problem, init=None, on_iteration=None):
        """Take steps until the gap, the number of kernels or the criterion says stop."""
        self.check_params()
        log = Log(on_iteration, time.perf_counter())
        rng = generator(self.random_state)
        most, criterion = self._limit(problem, rng)
        run = self.kind()(self, problem, log, rng, most, criterion)
        interrupted = False
        try:
            run.steps()
        except KeyboardInterrupt:
            if run.best is None:
                raise
            interrupted = True
        result = run.result()
        relative = result.gap / max(result.objective, run.floor, np.finfo(float).tiny)
        if interrupted or run.exhausted:
            how = "Interrupted" if interrupted else "Greedy stopped"
            kept = "; the best result so far is kept, with" if interrupted else " at"
            advice = "" if interrupted else f", above tol={self.tol:g}; raise max_iter or tol"
            warnings.warn(
                f"{how} after {result.n_iter} iterations{kept} a relative gap of {relative:.1e}{advice}.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return result

    def kind(self) -> type[_Run]:
        """Return the kind of steps."""
        return _Corrective if self.corrective else _Stepwise

    def _limit(self, problem: Problem, rng) -> tuple[int, _Criterion | None]:
        """Return the most kernels, and the criterion that stops earlier."""
        size = problem.family.size()
        if self.max_kernels != "auto":
            return int(min(self.max_kernels, size)), None
        most = int(min(MOST, size, max(problem.n_rows // 3, 1)))
        if self.corrective and isinstance(refitter_for(problem, self.tol), LeastSquares):
            return most, _Criterion(problem, size)
        return min(_held_out(self, problem, most, rng), most), None


# -- when to stop --------------------------------------------------------------------------------------------


class _Criterion:
    """The extended BIC with γ = 1: deviance + k log N + 2 log C(|I|, k), N = Σ_t s_t."""

    def __init__(self, problem: Problem, size: float):
        assert problem.sample_weight is not None
        self.unit = math.log(max(float(problem.sample_weight.sum()), 2.0))
        self.size = size

    def __call__(self, refitter, members) -> float:
        k = len(members)
        chosen = gammaln(self.size + 1) - gammaln(k + 1) - gammaln(self.size - k + 1)
        return refitter.deviance(members) + k * self.unit + 2 * chosen


def _held_out(solver: Greedy, problem: Problem, most: int, rng) -> int:
    """Return the number of kernels that rows held out support.

    It is the smallest whose loss on those rows is within a standard error, of the differences, of the least. Of few
    rows each fifth is held out in turn.
    """
    n, s = problem.n_rows, problem.sample_weight
    assert s is not None
    parts = [np.sort(part) for part in np.array_split(rng.permutation(n), 5)]
    paths = []
    for test in parts[: 5 if n <= FOLDED else 1]:
        train = np.setdiff1d(np.arange(n), test)
        if s[train].any() and s[test].any():
            paths.append(_path(solver, problem, train, test, most, rng))
    if not paths or not all(paths):
        return most
    # A path that ended early stays where it was.
    losses = {
        k: np.concatenate([path[max((i for i in path if i <= k), default=min(path))] for path in paths])
        for k in sorted(set().union(*paths))
    }
    leader = min(losses, key=lambda k: losses[k].sum())
    for k, here in losses.items():
        apart = here - losses[leader]
        if apart.sum() <= math.sqrt(len(apart)) * float(apart.std()):
            return max(k, 1)
    return max(leader, 1)


def _path(solver: Greedy, problem: Problem, train, test, most: int, rng) -> dict[int, np.ndarray]:
    """Return the losses of held-out rows after 1, 2, ... kernels, until they have not fallen for a while."""
    s = problem.sample_weight
    assert s is not None
    pairwise = problem.family.pairwise
    X = problem.X[np.ix_(train, train)] if pairwise else problem.X[train]
    Xt = problem.X[np.ix_(test, train)] if pairwise else problem.X[test]
    scale = Scale.fit(problem.family, X, problem.scale.how, s[train])
    part = replace(problem, X=X, Y=problem.Y[train], sample_weight=s[train], scale=scale)
    losses: dict[int, np.ndarray] = {}

    def watch(run):
        scores = run.result(certified=False).predictor.scores(Xt)
        losses[run.n_kernels()] = s[test] * problem.loss.value(problem.Y[test], scores)
        leader = min(losses, key=lambda k: losses[k].sum())
        return run.n_kernels() >= 2 * leader + 5

    trial = clone(solver).set_params(max_kernels=most, swaps=0)
    run = solver.kind()(trial, part, Log(None, time.perf_counter()), rng, most, None)
    run.watch = watch
    run.steps()
    return losses


# -- the oracle ----------------------------------------------------------------------------------------------


class _Oracle:
    """The family's search; an expensive one is repeated only when its candidates are used up."""

    def __init__(self, problem: Problem, rng):
        self.problem, self.rng = problem, rng
        self.searcher: Any = problem.family.searcher(problem.X, problem.scale)
        trace = isinstance(problem.scale.how, str) and problem.scale.how == "trace"
        self.lazy = trace and getattr(self.searcher, "cost", 0.0) > LAZY
        self.pool: list[Any] = []
        self.searches = 0
        self._at: np.ndarray | None = None
        self._found: Best | None = None

    def __call__(self, A, active, level: float) -> tuple[Best, bool]:
        """Return the best kernels that are not active, and whether they come from a full search."""
        direction = Direction.of_gradient(A)
        if self.lazy:
            found = self._known(direction, active, level)
            if found is not None:
                return found, False
        return self.search(direction, active), True

    def last(self, point: Point) -> Best | None:
        """Return what the last search found, if it was at this point."""
        return self._found if self._at is point.A else None

    def search(self, direction, active) -> Best:
        """Search the whole family."""
        self.searches += 1
        size = POOL if self.lazy else CANDIDATES
        found = self.searcher.best(direction, size=size, exclude=active, rng=self.rng)
        self.pool = found.members
        self._at, self._found = direction.V, found
        return found

    def _known(self, direction, active, level) -> Best | None:
        """Return the best of the pool and of what is near the active kernels, if it stands out."""
        known = set(active)
        near = self.searcher.nearby(direction, active, CANDIDATES)
        pool = [z for z in dict.fromkeys([*near, *self.pool]) if z not in known]
        if not pool:
            return None
        values = self.searcher.values(direction, pool)
        order = np.argsort(-values, kind="stable")[:CANDIDATES]
        chance = (2 * math.log(self.problem.family.size()) + direction.V.shape[1]) / self.problem.n_rows
        least = max(
            level * 1.01, 1.5 * chance * self.problem.n_rows * float(np.vdot(direction.V, direction.V))
        )
        order = order[values[order] > least]
        if not len(order):
            return None
        return Best([pool[i] for i in order], values[order], False)


# -- runs ----------------------------------------------------------------------------------------------------


class _Run(ABC):
    """What both kinds of steps share: the search, the gap, and the end."""

    def __init__(self, solver: Greedy, problem: Problem, log: Log, rng, most: int, criterion):
        self.solver, self.problem, self.log, self.rng = solver, problem, log, rng
        self.most, self.criterion = most, criterion
        self.oracle = _Oracle(problem, rng)
        self.lam = 1.0 / (problem.C * problem.n_rows)
        zero = np.zeros(problem.Y.shape)
        self.start_value = float(np.mean(problem.sample_weight * problem.loss.value(problem.Y, zero)))
        self.floor = ROUNDING * self.start_value
        self.best: Point | None = None
        self.converged = self.stopped = self.exhausted = False
        self.watch: Any = None

    @abstractmethod
    def steps(self) -> None:
        """Take steps, keeping the best point."""

    def n_kernels(self) -> int:
        """Return how many kernels have weight."""
        return 0 if self.best is None else len(self.best)

    def record(self, point: Point, objective: float, gap: float, exhaustive: bool) -> bool:
        """Log a step; whether to stop."""
        now = time.perf_counter() - self.log.started
        self.stopped = self.log(Step(len(self.log) + 1, objective, gap, now, len(point)))
        self.converged = exhaustive and gap <= self.solver.tol * objective + self.floor
        small = gap <= self.solver.tol * objective + self.floor
        if self.watch is not None and self.watch(self):
            self.stopped = True
        if not (small or self.stopped) and len(self.log) >= self.solver.max_iter:
            self.exhausted = True
        return small or self.stopped or self.exhausted

    def gap(self, point: Point, found: Best) -> float:
        """Return P - D, with max g over what has been looked at."""
        top = max(point.level, float(found.values[0]) if len(found.values) else 0.0)
        return point.objective - point.dual(self.problem, top)

    def result(self, certified: bool = True) -> Result:
        """Return the best point with its certificate, from a full search."""
        assert self.best is not None
        point = self.best
        gap, kind = math.nan, "none"
        if certified:
            found = self.oracle.last(point)
            if found is None:
                found = self.oracle.search(Direction.of_gradient(point.A), point.members)
            gap, kind = self.gap(point, found), "exact" if found.exhaustive else "lower_bound"
        combination = _listed(self.problem, point) if certified else point.combination(self.problem.family)
        small = certified and kind == "exact" and gap <= self.solver.tol * point.objective + self.floor
        return Result(
            predictor=point.predictor(combination, self.problem.X),
            combination=combination,
            objective=point.objective,
            gap=gap,
            gap_kind=kind,
            n_iter=len(self.log),
            converged=bool(small and not self.stopped),
            trace=self.log.trace(**self.extra()),
            dual_coef=point.A,
            intercept=point.intercept,
        )

    def extra(self) -> dict[str, tuple]:
        """Return what else the trace says."""
        return {"searches": (self.oracle.searches,)}


def _listed(problem: Problem, point: Point) -> Combination:
    """Return the kernel over all members of a short list, zeros included; otherwise over those with weight."""
    family: Any = problem.family
    if family.factorises or not can(family, Enumerable) or family.size() > LISTED:
        return point.combination(family)
    members = list(family.members())
    rho_sq = problem.scale.rho_sq(members, 1.0)
    place = {z: i for i, z in enumerate(members)}
    at = [place[z] for z in point.members]
    weights, norms = np.zeros(len(members)), np.zeros(len(members))
    weights[at], norms[at] = point.theta / point.rho_sq, point.norms
    order = np.argsort(at)
    if point.W is not None and not np.all(order == np.arange(len(at))):
        edges = np.concatenate([[0], np.cumsum(family.widths(point.members))])
        rows = np.concatenate([np.arange(edges[i], edges[i + 1]) for i in order])
        point.W[...] = point.W[rows]
    return Combination(family, members, weights, np.sqrt(rho_sq), norms)


class _Corrective(_Run):
    """All weights are fitted again after every kernel that enters."""

    def __init__(self, *args):
        super().__init__(*args)
        self.refitter = refitter_for(self.problem, min(0.1 * self.solver.tol, 1e-4))
        self.scores: list[tuple[float, list[Any]]] = []  # without the points: rows may be millions

    def steps(self) -> None:
        """Alg. 6 with line 8 replaced by a fit of all weights."""
        point = self.refitter.empty()
        if self.criterion is not None:
            self.scores.append((self.criterion(self.refitter, []), []))
        while True:
            found, full = self.oracle(point.A, point.members, point.level)
            self.best = point
            if len(point) or not found.members:
                gap = self.gap(point, found)
                if self.record(point, point.objective, gap, found.exhaustive and full):
                    break
            if not found.members or found.values[0] <= point.level * (1 + 1e-9) or self.refitter.exact(point):
                break
            if len(point) >= self.most:
                point = self._swapped(point)
                break
            moved = self._enter(point, found)
            if moved is None:
                break
            point = moved
            if self.criterion is not None and self._enough(point):
                break
        self.best = point
        if self.criterion is not None:
            self.best = self._selected(point)

    def _enter(self, point: Point, found: Best) -> Point | None:
        """Add the most promising kernel that lowers the objective."""
        useful = [z for z, v in zip(found.members, found.values, strict=True) if v > point.level * (1 + 1e-9)]
        for z in self.refitter.promising(point, useful[:CANDIDATES])[:4]:
            moved = self.refitter.refit([*point.members, z], point)
            if moved.objective < point.objective:
                return moved
        return None

    def _swapped(self, point: Point) -> Point:
        """Grow beyond the limit and cut back to it, as long as that lowers the objective."""
        width = max(1, self.most // 2)
        for _ in range(self.solver.swaps):
            trial = point
            for _ in range(width):
                found, _ = self.oracle(trial.A, trial.members, trial.level)
                moved = self._enter(trial, found) if found.members else None
                if moved is None:
                    break
                trial = moved
            trial = self._cut(trial, self.most)
            if trial.objective < point.objective * (1 - 1e-3 * self.solver.tol):
                point = self.best = trial
                found, full = self.oracle(point.A, point.members, point.level)
                gap = self.gap(point, found)
                if self.record(point, point.objective, gap, found.exhaustive and full):
                    break
            elif width > 1:
                width = max(1, width // 4)
            else:
                break
        return point

    def _cut(self, point: Point, most: int) -> Point:
        """Take away the kernels that cost least, one at a time."""
        while len(point) > most:
            weakest = int(np.argmin(point.losses))
            kept = [z for i, z in enumerate(point.members) if i != weakest]
            point = self.refitter.refit(kept, point)
        return point

    # -- the criterion

    def _enough(self, point: Point) -> bool:
        """Whether the criterion has not improved for a while."""
        assert self.criterion is not None
        self.scores.append((self.criterion(self.refitter, point.members), point.members))
        lead = min(range(len(self.scores)), key=lambda i: self.scores[i][0])
        return len(self.scores) - 1 - lead >= 5 + len(self.scores[lead][1]) // 4

    def _selected(self, point: Point) -> Point:
        """Return the best point by the criterion, without the kernels that it is better off without."""
        assert self.criterion is not None
        score, members = min(self.scores, key=lambda pair: pair[0])
        if members != point.members:
            point = self.refitter.refit(members, point) if members else self.refitter.empty()
        while len(point) > 1:
            weakest = int(np.argmin(point.losses))
            kept = [z for i, z in enumerate(point.members) if i != weakest]
            trial = self.criterion(self.refitter, kept)
            if trial > score:
                break
            score, point = trial, self.refitter.refit(kept, point)
        return point


class _Stepwise(_Run):
    """Steps towards one kernel at a time: Algorithms 5 and 6 to the letter."""

    def __init__(self, *args):
        super().__init__(*args)
        self.active = Active(self.problem, 1.0)
        self.values: list[float] = []

    def steps(self) -> None:
        """Alg. 6, lines 4-10."""
        active = self.active
        fit = active.solve()  # line 6
        while True:
            point, value = self._point(fit), self._value(fit)
            self.A, self.theta_g = fit.A, float(active.theta @ self.g)
            found, full = self.oracle(fit.A, point.members, point.level)  # line 7
            if len(point) or not found.members:
                self.values.append(value)
                if self.best is None or point.objective <= self.best.objective:
                    self.best = point
                gap = self.gap(point, found)
                if self.record(point, point.objective, gap, found.exhaustive and full):
                    return
            chosen = self._choose(point, found)
            if chosen is None:
                self.best = self.best or point
                return
            if self.solver.step == "classic":
                fit = self._move(*chosen, 2.0 / (len(self.log) + 2))
            else:
                moved = self._line_search(*chosen, value)
                if moved is None:
                    return
                fit = moved

    def _choose(self, point: Point, found: Best) -> tuple[Any, float] | None:
        """Return the best kernel and its ρ²; one that is active already once the limit is reached."""
        if found.members and len(point) < self.most and found.values[0] > point.level:
            z = found.members[0]
            return z, self.active.rho_of([z])[0]
        if len(point) < 2:
            return None
        i = int(np.argmax(self.g))
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
        active = self.active
        norms = active.norms(fit)
        self.g = np.maximum(active.forms(fit.A), 0.0) / active.rho_sq if len(active) else np.zeros(0)
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
            level=float(self.g.max(initial=0.0)),
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

    def _line_search(self, z, rho_sq, value):
        """Alg. 6, line 8: the zero of dJ/dη = -(λ/2) (g_z - Σ_i θ_i g_i), θ the weights before, by regula falsi.

        J is convex along the segment, so that the sign of the slope says on which side the minimum lies.
        """
        active = self.active
        if not len(active):
            return self._move(z, rho_sq, 1.0)
        segment = active.segment(z, rho_sq)
        low, high, slope_high = 0.0, 1.0, None
        slope_low = first = float(self.theta_g - segment.g(self.A))
        eta, best = 0.5, (value, 0.0)
        for _ in range(60):
            fit, slope = segment.at(eta)
            best = min(best, (self._value(fit), eta))
            if abs(slope) <= 1e-3 * abs(first) or high - low < 1e-12:
                break
            if slope < 0:
                low, slope_low = eta, slope
            else:
                high, slope_high = eta, slope
            share = 0.5 if slope_high is None else slope_low / (slope_low - slope_high)
            eta = low + min(max(share, 0.05), 0.95) * (high - low)
        if best[1] == 0.0:
            return None
        return segment.end(best[1])

    def extra(self):
        """Return J as well, which the steps lower; the objective is P at its predictor."""
        return {**super().extra(), "value": tuple(self.values)}
