r"""Weights, bandwidths and C by the errors of rows left out of the ridge machine.

:mod:`~manykernels.solvers.bandwidth_learning` has the error of rows left out and its gradient, in closed form, and
takes steps on it: the best single bandwidth, one per column, then the weights of all candidates and C. This file says
which candidates a family has, and trains the machine on what was learned.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.spatial.distance import pdist

from ..._util.checks import Rule, number, whole
from ..._util.threads import one_blas_thread
from ...combination import Combination
from ...families.bandwidths import block_numbers
from ...families.base import Family
from ...families.union import Union
from ...families.view import View
from ...kernels.statistics import dense
from ...problem import Problem, Result
from ..balancing import balance_pays, balance_will_pay
from ..bandwidth_learning.candidates import (
    Candidate,
    Effort,
    Weighed,
    Weighing,
    balance_factor,
    balanced,
    best_single,
    groups_by_kernel,
    groups_of,
    learn_columns,
    left_out_scores,
    log_likelihood,
    matrices,
    some,
    weigh,
    weigh_again,
    weighted_sum,
)
from ..bandwidth_learning.left_out import (
    DIGITS,
    Rows,
    criterion_of,
    merged,
    power_of_ten,
    significant,
    softmax_loss,
)
from ..base import TwoStageSolver, generator, machine_on
from ..calibration import LEAST
from ..log import Course, Log, OnIteration
from ..per_target import joined, of_targets
from ..verdict import warn_if_constant
from .spectra import LOG_NOISES, PAIR_GROUPS, PAIR_ROWS, ColumnSystem, PairSystem, SpectralTrials, System
from .targets import (
    FEW_TARGETS,
    GroupTrials,
    Noises,
    TargetWeights,
    Trials,
    few_machines,
    refined,
    scores_left_out,
    weigh_targets,
)

#: Most kernels of a list: every one costs a matrix in every group.
MOST_LISTED = 500
#: Bandwidths to begin with, as multiples of the median distance, and ridges λ = 1/C.
WIDTHS, RIDGES = 2.0 ** np.arange(-3, 3), (1e-2, 1e-1, 1.0)
#: Learned bandwidths times these powers of two are candidates.
POWERS = (-1, 0, 1)
#: Kernels with a smaller share of the largest weight are left out, if that costs less than this log likelihood.
LEAST_SHARE, NEGLIGIBLE = 0.01, 1.0
TINY = np.finfo(float).tiny
#: What all kernels of a view have together at least, where rows lack views.
FLOOR = 0.002
#: With more parts than this, bandwidths come without their halves and doubles.
MANY_PARTS = 12
#: Rows per class, on average, that a group must hold to weigh kernels in; and most rows of such a group.
CLASS_ROWS, MOST_WEIGHT_ROWS = 4, 512
#: Fewer rows than this teach no bandwidths per column.
FEW_TEACHERS = 20
#: Most that scores of -1 and 1 are multiplied by for probabilities where few rows were left out: .88 is the largest.
UNSURE = 2.0
#: Shares of the rows that bandwidths are learned without, and fewer of them for more rows than this, which tell enough.
FOLDS, FEW_FOLDS, FEW_FOLDS_ROWS = 3, 2, 2_000
#: Rows that are left out of all others, and the rows of a group beyond.
WHOLE_ROWS, LEFT_OUT_ROWS = 2_000, 1_000


class LeaveOneOut(TwoStageSolver):
    r"""Weights, bandwidths and C with the least error of rows left out of the ridge machine.

    minimise over θ >= 0, Σθ = 1, bandwidths σ and C:  the mean loss of f_{-t}(x_t), row t left out of

    f = argmin  (1/n) Σ_t s_t ½‖y_t - f(x_t)‖² + (λ/2) ‖f‖²_{κ+1},   κ = Σ_i (θ_i/ρ_i²) κ_i,  λ = 1/(C n),

    the squares of the errors for numbers, the softmax loss of a multiple of f_{-t}, fitted along, for classes. With
    H = (K + 11ᵀ + diag(1/(C s)))⁻¹ and α = HY the error of row t is α_t/H_tt: one inverse gives all of them, and the
    gradient in every weight, every bandwidth and C.

    First the best single bandwidth of every continuum; from it, where ``ard=True``, one per column, learned by steps of
    Adam three times, each time without another third of the rows (of more than 2,000, twice, without a half); then the
    weights of {one bandwidth, one per column} × {½, 1, 2}, and of all kernels that are given, and C, with bandwidths
    judged by the third that has not taught them.
    Errors are taken within groups of neighbours, which are as dense as all rows are. Then the machine is trained on all
    rows, with the mean bandwidths.

    Scores of rows left out, by bandwidths and weights of the other two thirds, calibrate probabilities, and are the
    result's ``left_out``: within all rows up to 2,000, else within groups of 1,000 neighbours. With ``groups`` a
    subject's rows are always left out together.

    Parameters
    ----------
    steps : int
        Steps of Adam for bandwidths per column.
    group_rows, groups : int
        Rows of a group, and groups of a step.
    shrinkage : float
        Bandwidths per column are drawn towards the single one by a normal prior on their logarithms: this is its
        precision.
    random_state : int, Generator, RandomState or None
        For the groups of a step, where there are more of them; few rows leave nothing to chance. None: the same ones
        every time.

    Notes
    -----
    Takes continua of bandwidths, lists of up to 500 kernels, and unions of both; numbers (several targets share one
    kernel), two classes or more. With ``C="auto"`` it chooses C; a number is kept. With another loss than the squared
    one the kernel is learned all the same by the ridge machine, and then the machine of that loss is trained on it.

    Rows with equal columns are merged: such a row leaves as a whole, or, where most have several targets or many
    copies, one unit of weight at a time.

    Weights are learned in groups of 192 rows, or of four for every class, where these are many.

    O(steps · groups · m³) for m rows of a group, and one machine of all rows.

    The landscape is not convex; what is returned is never worse, left out, than the best single candidate.

    References
    ----------
    Allen (1974), *The relationship between variable selection and data augmentation and a method for prediction* (the
    error of a row left out in closed form).
    """

    calibrates = True
    takes_joint = True
    chooses_C = learns_bandwidths = honest_left_out = True
    rules: ClassVar[dict[str, Rule]] = {
        "steps": whole(1, 10**5),
        "group_rows": whole(10, 10**6),
        "groups": whole(1, 10**4),
        "shrinkage": number(),
    }

    def __init__(self, *, steps=25, group_rows=160, groups=8, shrinkage=1.0, random_state=None):
        self.steps = steps
        self.group_rows = group_rows
        self.groups = groups
        self.shrinkage = shrinkage
        self.random_state = random_state

    def check_compatible(self, family: Family, loss) -> None:
        """Refuse families that are neither bandwidths nor a short list."""
        unfit = self.not_taken(family)
        super().check_compatible(family, loss)
        if not loss.has_targets:
            raise ValueError(
                f"LeaveOneOut learns kernels from targets, and the loss {loss.name!r} has none; pass Uniform, Single, "
                "LpNorm, SimpleMKL or SILP."
            )
        if unfit:
            raise ValueError(
                f"LeaveOneOut needs bandwidths to learn, or a list of at most {MOST_LISTED} kernels on rows, and "
                f"{type(unfit[0]).__name__} is neither; pass another solver or other kernels."
            )

    @staticmethod
    def not_taken(family: Family) -> list[Family]:
        """Return the parts of a family that are neither bandwidths nor a short list."""
        listed = [part for part in family.families() if not hasattr(part, "statistic")]
        return [part for part in listed if part.size() > MOST_LISTED]  # what cannot be listed has no end

    def default_loss(self, n_classes: int | None) -> str:
        """Return the squared loss."""
        return "squared"

    def settles_C(self, problem: Problem) -> bool:
        """Whether C is chosen along with the kernel: for the squared loss, by which kernels are judged."""
        return problem.loss.name == "squared"

    def work(self, problem: Problem, n_rows: int) -> dict[str, float]:
        """Return what there is to do; fitted to times at 200 to 6,600 rows, 5 to 10,000 columns and up to 10 classes.

        Groups of rows are learned from until there are enough of them; what takes all rows follows their number. Kernel
        values of few columns cost no more than what is done with them; of many, their columns are all that counts.
        """
        n, d, parts = problem.n_rows, problem.X.shape[-1], problem.family.families()
        continua = sum(bool(getattr(part, "ard", False)) for part in parts)
        listed = sum(part.size() for part in parts if not hasattr(part, "statistic"))
        candidates = min(1.0 + (6 * continua + listed) / 13, 20.0) / 2
        many = 1 + 0.03 * problem.n_outputs
        enough = min(1.0, n / 1100) * (self.group_rows / 160) ** 2 * self.groups / 8
        together = min(n, WHOLE_ROWS if n <= WHOLE_ROWS else LEFT_OUT_ROWS)
        wide = d * min(1.0, d / 3000)  # two rows of more columns leave the fast cache
        pairs, values = 1e-7 * n**2 * (1 + wide / 100), 5e-10 * n * together * wide
        steps = 0.4 * continua * enough * many * (1 + d / 400) * self.steps / 25
        return {
            "bandwidths": 0.03 + 2.5e-7 * n * d + steps,
            "weights": 0.03 + 0.55 * enough * many * candidates * (1 + d / 4000),
            "rows left out": (0.25 * enough * many + values) * candidates + 9e-11 * n * together**2,
            "the machine": pairs * candidates + 7e-12 * n**3 if problem.loss.name == "squared" else 3 * pairs,
        }

    def learn(self, problem: Problem) -> Combination:
        """Return the learned combination of kernels."""
        self.check_params()
        with one_blas_thread():  # many small systems
            return Learning(self, problem).run().combination

    def solve(self, problem, init=None, on_iteration=None):
        """Learn kernel and C, then train the machine on all rows."""
        self.check_params()
        log = Log(on_iteration, time.perf_counter())
        with one_blas_thread():
            learning = Learning(self, problem)
            learned = learning.run()
            if not self.settles_C(problem):
                return machine_on(problem, learned.combination, log)
            F = learning.left_out(learned)
        learning.course.at("the machine")
        result = machine_on(replace(problem, C=learned.C), learned.combination, log)
        calibration = learning.calibration(F)
        learning.verdict(F, calibration)
        extra = {"left_out": learned.weighed.errors, "steps": learned.steps, "C": (learned.C,)}
        trace = replace(result.trace, extra=extra)
        return replace(result, C=learned.C, calibration=calibration, left_out=F, trace=trace)

    def solve_targets(self, problem: Problem, on_iteration: OnIteration | None = None) -> Result:
        """Learn bandwidths for all targets together, then weights and C for each, and train a machine for each."""
        self.check_params()
        if not self.settles_C(problem):
            raise ValueError(
                f"weights='per_target' with LeaveOneOut takes loss 'squared', not {problem.loss.name!r}."
            )
        log = Log(on_iteration, time.perf_counter())
        with one_blas_thread():
            learning = Learning(self, problem)
            kernels, found, F = learning.run_targets()
            learning.verdict(F, None)
        return learning.machines(kernels, found, F, log)


@dataclass(frozen=True, eq=False)
class Learned:
    """What was learned.

    Attributes
    ----------
    combination : Combination
    C : float
    candidates : lists of Candidate
        The same kernels, with bandwidths that different rows have taught.
    weighed : Weighed
        Their weights.
    steps : tuple of float
        The error of rows left out in every step of bandwidths, on average over all that was learned.
    """

    combination: Combination
    C: float
    candidates: list[list[Candidate]]
    weighed: Weighed
    steps: tuple[float, ...]


class Learning:
    """One run: from a problem to a kernel and C."""

    def __init__(self, solver: LeaveOneOut, problem: Problem):
        self.solver, self.problem = solver, problem
        self.course = Course(solver.work(problem, problem.n_rows))
        self.rng = generator(0 if solver.random_state is None else solver.random_state)
        # Where subjects leave, fewer rows of a group are left to teach.
        times = 1 if problem.groups is None else 2
        self.effort = Effort(times * solver.group_rows, solver.groups, solver.steps)
        self.used = np.flatnonzero(problem.sample_weight > 0)
        s = problem.sample_weight[self.used]
        # Neither the unit of the targets nor that of the weights says anything, and nor does rounding.
        Y = problem.loss.residuals(problem.Y[self.used], s)
        self.target_unit = power_of_ten(np.abs(Y).max(initial=0.0))
        Y = np.round(Y / self.target_unit, DIGITS)
        subjects = None if problem.groups is None else problem.groups[self.used]
        if subjects is not None and not np.ptp(subjects):
            raise ValueError(
                "groups holds one group only among the rows with weight, and no row is left when it leaves; pass at "
                "least two groups, or none."
            )
        if problem.family.pairwise:
            self.rows = Rows.plain(Y, s, criterion_of(Y), subjects)
        else:
            self._set_columns(dense(problem.X)[self.used], Y, s, subjects)
        self.weight_unit = float(significant(self.rows.s.mean()))
        mean_targets = np.round(self.rows.Y, DIGITS)
        self.rows = replace(self.rows, Y=mean_targets).weighed_in(self.weight_unit)
        if self.rows.criterion == "softmax":
            self.effort = enough_for(Y.shape[1], self.effort)
        self.folds = self._deal()
        self.errors: list[list[float]] = []
        #: Whether the kernel is balanced for rows that lack views; rows left out decide it.
        self.balances = False

    def _set_columns(self, X, Y, s, subjects) -> None:
        """Merge equal rows, and bring rows and columns into an order that depends neither on theirs nor on units."""
        self.mean = _ordered_sum(s[:, None] * X) / s.sum()
        self.variance = _ordered_sum(s[:, None] * np.square(X - self.mean)) / s.sum()
        # A column without spread, to rounding, is constant.
        self.variance[np.sqrt(self.variance) <= 1e-12 * np.abs(X).max(axis=0, initial=0.0)] = 0.0
        first, rows = merged(X, Y, s, criterion_of(Y), subjects)
        # Rounded: what differs in the last bits only must teach the same, and steps would magnify these bits.
        Z = np.round((X[first] - self.mean) / self._unit(True), DIGITS)
        order = np.lexsort((np.round(np.sum(Z**3, axis=1), 9), np.round(np.sum(Z**2, axis=1), 9)))
        # Sums over columns in single precision know their order, and steps would magnify that.
        self.columns = np.lexsort([np.round(_ordered_sum(Z**k), 9) for k in (4, 3)])
        self.X, self.Z, self.rows = X[first][order], Z[order][:, self.columns], rows.take(order)

    def _unit(self, ard: Any, part: Any = None) -> np.ndarray:
        """Return the units that bandwidths per column, or per block of columns, are in; of a view, those of its own."""
        variance = self.variance[part.first : part.last] if isinstance(part, View) else self.variance
        if not isinstance(ard, bool):
            block = block_numbers(ard)
            variance = np.bincount(block, weights=variance)[block]
        return np.where(variance > 0, significant(np.sqrt(variance)), 1.0)

    def _own(self, part: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return where the columns of a part lie among those of Z, and their numbers among those of the part."""
        if not isinstance(part, View):
            return np.arange(len(self.columns)), self.columns
        own = np.flatnonzero((part.first <= self.columns) & (self.columns < part.last))
        return own, self.columns[own] - part.first

    def _present(self, part: Any) -> np.ndarray | None:
        """Return 1 for the rows that have the view of a part, 0 for others; None where all have it."""
        present = part.presence_of(self.X) if isinstance(part, View) else np.ones(1)
        return None if (present == 1).all() else present

    @cached_property
    def _lacking(self) -> bool:
        """Whether rows lack views."""
        family = self.problem.family
        return isinstance(family, Union) and family.lacks(self.problem.X)

    def _nearness(self) -> np.ndarray:
        """Return rows among which neighbours are looked for: every view counts as much, however wide."""
        views = {(p.first, p.last): p for p in self.problem.family.families() if isinstance(p, View)}
        if not views:
            return self.Z
        own = [self._own(part)[0] for part in views.values()]
        return np.hstack([self.Z[:, at] / math.sqrt(len(at)) for at in own])

    def _deal(self) -> np.ndarray:
        """Return the rows of every fold, (k, n): those that bandwidths and weights are learned without, to be judged.

        Rows, or subjects, are dealt out in an order of neighbours, class by class, so that all folds are alike. Too few
        of them are one fold.
        """
        n, subjects = len(self.rows), self.rows.subjects
        most = FOLDS if n <= FEW_FOLDS_ROWS else FEW_FOLDS
        near = np.arange(n)
        if not self.problem.family.pairwise:
            Z = self._nearness()
            near = np.concatenate(groups_of(Z, np.zeros(Z.shape[1]), self.rows, 1))
        if subjects is None:
            label = self.rows.Y @ np.arange(1.0, 1.0 + self.rows.Y.shape[1])
            order = near[np.argsort(label[near], kind="stable")] if self.rows.criterion == "softmax" else near
            count = most if n >= FEW_TEACHERS else 1
            return _dealt(order, count) == np.arange(count)[:, None]
        _, first, which = np.unique(subjects, return_index=True, return_inverse=True)
        rank = np.empty(n)
        rank[near] = np.arange(n)
        count = max(1, min(most, len(first) // 2)) if n >= FEW_TEACHERS else 1
        return _dealt(np.argsort(rank[first]), count)[which.ravel()] == np.arange(count)[:, None]

    @property
    def _fixed(self) -> float | None:
        """Log λ where C is given, and counts here."""
        keeps = self.solver.settles_C(self.problem) and not self.problem.choose_C
        return -math.log(self.problem.C * self.weight_unit) if keeps else None

    def _candidates(self) -> tuple[list[list[Candidate]], float]:
        """Return the candidates, by the folds that taught their bandwidths, and a log λ to begin with."""
        problem, fixed = self.problem, self._fixed
        learns = any(getattr(part, "ard", False) for part in problem.family.families())
        candidates: list[list[Candidate]] = [[] for _ in (self.folds if learns else [None])]
        self.course.at("bandwidths")
        ridges: list[float] = []
        for k, part in enumerate(problem.family.families()):
            if hasattr(part, "statistic"):
                ridges += self._learn_part(k, part, candidates, fixed)
            else:
                listed = self._listed(k, part)
                for own in candidates:
                    own += listed
        if not candidates[0]:
            raise ValueError("kernels all vanish on the rows of X; pass others.")
        return candidates, fixed if fixed is not None else float(np.mean(ridges)) if ridges else math.log(0.1)

    def run(self) -> Learned:
        """Return what the errors of rows left out teach."""
        problem, fixed = self.problem, self._fixed
        candidates, log_noise = self._candidates()
        self.course.at("weights")
        self.weighing = self._weighing(candidates)
        weighed = weigh(self.weighing, log_noise, self.effort, fixed_noise=fixed is not None)
        self.course.at("weights", 0.9, weighed.error)
        kept = self._busy(candidates[0], weighed)
        if not kept.all():
            candidates = [[c for c, keep in zip(own, kept, strict=True) if keep] for own in candidates]
            self.weighing = self.weighing.only(kept)
            weighed = weigh(self.weighing, log_noise, self.effort, fixed_noise=fixed is not None)
        self.singles = weighed.singles
        weighed = replace(weighed, theta=self._trimmed(weighed))
        C = math.exp(-weighed.log_noise) / self.weight_unit if problem.choose_C else problem.C
        steps = tuple(np.mean(self.errors, axis=0).tolist()) if self.errors else ()
        return Learned(self._combination(candidates, weighed.theta), C, candidates, weighed, steps)

    # -- weights per target ----------------------------------------------------------------------------

    def run_targets(self) -> tuple[Combination, TargetWeights, np.ndarray]:
        """Return the candidates as kernels, the weights and log λ of every target, and scores of rows left out."""
        fixed = self._fixed
        candidates, log_noise = self._candidates()
        kernels, parts = self._kernels(candidates), np.array([c.part for c in candidates[0]])
        rng = generator(0 if self.solver.random_state is None else self.solver.random_state)
        few = self.problem.n_outputs <= FEW_TARGETS
        # Bandwidths that rows have taught are judged by other rows, one by one.
        if few or len(candidates) > 1 or not self.rows.alone:
            weighing = self._weighing(candidates)
            folds = self.folds if len(candidates) > 1 else np.ones((1, len(self.rows)), dtype=bool)
            trials: Trials = GroupTrials(weighing, folds)
            noises = Noises.about(log_noise)
        else:
            folds, systems = self.folds, self._systems(candidates, kernels)
            trials, noises = SpectralTrials(systems, folds), Noises.given(LOG_NOISES)
        weigh_targets(trials, parts, noises if fixed is None else Noises.given(np.array([fixed])), rng)
        found = trials.weights(few_machines(trials))
        if few:
            found = refined(weighing, found, self.effort, fixed is not None)
        mean = replace(kernels, weights=found.theta.mean(axis=0) * kernels.weights)
        self.balances = balance_pays(self.problem, mean)
        chosen = [few_machines(trials, k if len(folds) > 1 else None) for k in range(len(folds))]
        F = np.full(self.problem.Y.shape, np.nan)
        F[self.used] = self.target_unit * self._target_scores(trials, folds, chosen, candidates)
        theta = np.array(
            [_without_small(row, math.exp(t)) for row, t in zip(found.theta, found.log_noise, strict=True)]
        )
        if self._lacking:
            self.singles = trials.alone(len(parts))
            theta = np.array([self._with_floor(candidates[0], row) for row in theta])
        return kernels, replace(found, theta=theta), F

    def _systems(self, candidates, kernels: Combination) -> list[tuple[System, np.ndarray]]:
        """Return all rows with their features where these are fewer, else groups of rows with their kernels."""
        n, Y, s = len(self.rows), self.rows.Y, self.rows.s
        if not self.problem.family.pairwise:
            bank = kernels.family.bank(self.X, kernels.members)
            columns = bank.n_columns(kernels.weights)
            if columns is not None and columns < n:
                phi, owner = bank.features(kernels.weights)
                return [(ColumnSystem(phi * np.sqrt(kernels.weights[owner]), owner, Y, s), np.arange(n))]
        groups = some(self._groups(candidates, n if n <= PAIR_ROWS else PAIR_ROWS), PAIR_GROUPS)
        return [(PairSystem(self._stack(candidates, 0, i), Y[i], s[i]), i) for i in groups]

    @staticmethod
    def _stack(candidates, k: int, i: np.ndarray) -> np.ndarray:
        return np.stack([K.astype(np.float32) for K in matrices(candidates[k], i)])

    def _target_scores(self, trials: Trials, folds, chosen, candidates) -> np.ndarray:
        """Return the scores (n, c) of all rows, each left out, by weights that its fold has not chosen."""
        if isinstance(trials, SpectralTrials) and isinstance(trials.variants[0][0], ColumnSystem):
            F = np.empty(self.rows.Y.shape)
            for fold, best in zip(folds, chosen, strict=True):
                for trial in np.unique(best).tolist():
                    own, theta = np.flatnonzero(best == trial), trials.theta[trial]
                    factor = (
                        balance_factor(candidates[0], theta, np.arange(len(F))) if self.balances else None
                    )
                    found = trials.variants[0][0].left_out(theta, trials.log_noise[trial], own, factor)
                    F[np.ix_(self.rows.numbers[fold], own)] = found[fold]
            return F[self.rows.origin]

        def total(k: int, i: np.ndarray, theta: np.ndarray) -> np.ndarray:
            own = candidates[k if len(candidates) > 1 else 0]
            K = weighted_sum(own, theta, i)
            return balanced(K, own, theta, i) if self.balances else K

        size = PAIR_ROWS if isinstance(trials, SpectralTrials) else self.effort.weight_rows
        return scores_left_out(trials, folds, chosen, self.rows, total, self._groups(candidates, size))

    def _kernels(self, candidates) -> Combination:
        """Return all candidates as members, with weights of one over their scales."""
        members = [self._member(list(same)) for same in zip(*candidates, strict=True)]
        rho_sq = self.problem.scale.rho_sq(members, 1.0)
        return Combination(self.problem.family, members, 1.0 / rho_sq, np.sqrt(rho_sq))

    def machines(self, kernels: Combination, found: TargetWeights, F: np.ndarray, log: Log) -> Result:
        """Return a machine for every target; those with the same weights and λ are solved together."""
        problem, C = self.problem, np.exp(-found.log_noise) / self.weight_unit
        if not problem.choose_C:
            C = np.full(len(C), problem.C)
        pairs, which = np.unique(np.column_stack([found.theta, C]), axis=0, return_inverse=True)
        solved = []
        for k, pair in enumerate(pairs):
            own = np.flatnonzero(which.ravel() == k)
            part = replace(of_targets(problem, own), C=float(pair[-1]), choose_C=False)
            one = replace(kernels, weights=pair[:-1] * kernels.weights)
            solved.append((own, machine_on(part, one.balanced() if self.balances else one, log)))
        result = joined(problem, solved, balanced=self.balances)
        trace = replace(result.trace, extra={"C": tuple(C.tolist())})
        return replace(result, C=float(np.exp(np.mean(np.log(C)))), left_out=F, trace=trace)

    # -- candidates ------------------------------------------------------------------------------------

    def _learn_part(self, k: int, part: Any, candidates, fixed) -> list[float]:
        """Add the candidates of a continuum, and return the ridges that went with them."""
        Z, present = self._rows_of(part), self._present(part)
        has = np.arange(len(Z)) if present is None else np.flatnonzero(present)
        start = self._start(part, Z[has], self.rows.take(has), fixed)
        found = [start] * len(candidates)
        if part.ard and len(candidates) > 1:
            taught = [has[~fold[has]] for fold in self.folds]
            found = [self._per_column(part, Z, at, start, fixed) if len(at) else start for at in taught]
        several = len(self.problem.family.families()) > MANY_PARTS
        for own, t in zip(candidates, found, strict=True):
            shapes = [start, t] if part.ard and len(candidates) > 1 else [start]
            own += [
                Candidate(part.statistic, log_sigma, part=k, Z=Z, power=power, present=present)
                for log_sigma in (shape[:-1] for shape in shapes)
                for power in ((0,) if several else POWERS)
            ]
        return [float(t[-1]) for t in found]

    def _rows_of(self, part) -> np.ndarray:
        """Return rows in the units of a continuum's bandwidths."""
        own, numbers = self._own(part)
        if part.ard is True:
            return self.Z[:, own]
        units = self._unit(True, part) / (self._unit(part.ard, part) if part.ard else 1.0)
        return self.Z[:, own] * units[numbers]

    def _start(self, part, Z, rows, fixed) -> np.ndarray:
        widths = _median_distance(part.statistic, Z) * WIDTHS
        if not isinstance(part.bounds, str) and np.ndim(part.bounds) == 1 and not part.ard:
            widths = np.clip(widths, *part.bounds)
        ridges = RIDGES if fixed is None else (math.exp(fixed),)
        return best_single(part.statistic, Z, rows, widths, ridges, self.effort)

    def _per_column(self, part, Z, taught, start, fixed) -> np.ndarray:
        self.errors.append([])
        return learn_columns(
            part.statistic,
            Z[taught],
            self.rows.take(taught),
            start,
            self.solver.shrinkage / len(taught),
            self.effort,
            self.rng,
            fixed_noise=fixed is not None,
            blocks=None if part.ard is True else block_numbers(part.ard)[self._own(part)[1]],
            seen=self._note_step,
        )

    def _note_step(self, error: float) -> None:
        """Keep the error of a step of bandwidths."""
        self.errors[-1].append(error)
        learned = sum(bool(getattr(part, "ard", False)) for part in self.problem.family.families())
        done = (len(self.errors) - 1) * self.solver.steps + len(self.errors[-1])
        self.course.at("bandwidths", done / (learned * len(self.folds) * self.solver.steps), error)

    def _listed(self, k: int, part: Any) -> list[Candidate]:
        """Return the kernels of a list, each over its scale."""
        out = []
        for member in part.members():
            z = self.problem.family.member_of(k, member)
            rho_sq = float(significant(self.problem.scale.rho_sq([z], 1.0))[0])
            if rho_sq > 0:
                own = self._gram_of(part, member, rho_sq)
                out.append(Candidate(gram=own, part=k, member=member, present=self._present(part)))
        return out

    def _gram_of(self, part, member, rho_sq: float):
        weight = np.array([1.0 / rho_sq])

        def gram(i: np.ndarray) -> np.ndarray:
            if part.pairwise:
                rows = self.used[i]
                K = part.gram(self.problem.X[np.ix_(rows, rows)], None, [member], weight)
            else:
                K = part.gram(self.X[i], self.X[i], [member], weight)
            return np.round(K, DIGITS)  # as columns are

        return gram

    # -- weights ---------------------------------------------------------------------------------------

    def _groups(self, candidates, size: int) -> list[np.ndarray]:
        """Return all rows in groups of neighbours, by the first bandwidths, or by the sum of ready-made kernels."""
        if self.problem.family.pairwise:
            return groups_by_kernel(
                np.sum([*matrices(candidates[0], np.arange(len(self.rows)))], axis=0), size
            )
        first = next((c for c in candidates[0] if c.log_sigma is not None), None)
        Z, near = self._nearness(), None
        if first is not None and Z is self.Z:
            Z, near = first.Z, first.log_sigma
        return groups_of(Z, np.zeros(Z.shape[1]) if near is None else near, self.rows, size)

    def _weighing(self, candidates) -> Weighing:
        groups = some(self._groups(candidates, self.effort.weight_rows), self.effort.weight_groups)
        return Weighing(self.rows, candidates, ~self.folds, groups)

    def _combination(self, candidates, theta: np.ndarray) -> Combination:
        if self._lacking:
            theta = self._with_floor(candidates[0], theta)
        used = np.flatnonzero(theta).tolist()
        members = [self._member([own[i] for own in candidates]) for i in used]
        rho_sq = self.problem.scale.rho_sq(members, 1.0)
        plain = Combination(self.problem.family, members, theta[used] / rho_sq, np.sqrt(rho_sq))
        self.balances = balance_pays(self.problem, plain) or balance_will_pay(self.problem, plain)
        return plain.balanced() if self.balances else plain

    def _views_of(self, candidates: list[Candidate]) -> np.ndarray:
        """Return the name of the view that each candidate is on, None where there are no views."""
        names = [part.name if isinstance(part, View) else None for part in self.problem.family.families()]
        return np.array([names[c.part] for c in candidates], dtype=object)

    def _busy(self, candidates: list[Candidate], weighed: Weighed) -> np.ndarray:
        """Return which candidates are on views that earn their keep; most others are noise.

        A view that alone is no better than a constant must gain twice 1 + log(views) of the log likelihood of rows left
        out, more than the best of so many does by chance. One that alone tells something stays unless rows left out
        gain a unit by its absence: where many views tell the same none of them seems to be needed, and few are worse
        than all. Those whose absence alone does least harm go first. Where rows lack views all stay: a row may
        have no other. O(views) errors of rows left out.
        """
        views = self._views_of(candidates)
        names = [name for name in dict.fromkeys(views.tolist()) if name is not None]
        idle: list[str] = []
        if len(names) < 2 or self._lacking:
            return np.ones(len(views), dtype=bool)
        chance = 1.0 + math.log(len(names))

        def loss(error: float) -> float:
            return self.weighing.mass * log_likelihood(error, self.rows.criterion)[0]

        def loss_without(idle: list[str]) -> float:
            theta = np.where(np.isin(views, idle), 0.0, weighed.theta)
            return loss(self.weighing(theta / max(theta.sum(), TINY), weighed.log_noise, gradient=False)[0])

        reached, constant = loss_without(idle), loss_without(names) - chance
        alone = {name: loss(float(weighed.singles[views == name].min())) for name in names}
        for name in sorted(names, key=lambda name: loss_without([name])):
            now = loss_without([*idle, name])
            harm = -1.0 if alone[name] < constant else 2.0 * chance
            if now <= reached + harm and len(idle) + 1 < len(names):
                reached, idle = now, [*idle, name]
        return ~np.isin(views, idle)

    def _trimmed(self, weighed: Weighed) -> np.ndarray:
        """Return the weights without small ones, unless rows left out need them: without noise little is enough."""
        reached = log_likelihood(weighed.error, self.rows.criterion)[0]
        for power in range(1, 7):
            theta = _shares(
                np.where(weighed.theta >= LEAST_SHARE**power * weighed.theta.max(), weighed.theta, 0.0)
            )
            error = self.weighing(theta, weighed.log_noise, gradient=False)[0]
            if self.weighing.mass * (log_likelihood(error, self.rows.criterion)[0] - reached) <= NEGLIGIBLE:
                return theta
        return weighed.theta

    def _with_floor(self, candidates: list[Candidate], theta: np.ndarray) -> np.ndarray:
        """Return weights of which every view has some: a row that has no other view must not get a constant."""
        views, theta = self._views_of(candidates), theta.copy()
        for view in dict.fromkeys(views.tolist()):
            own = np.flatnonzero(views == view)
            if theta[own].sum() < FLOOR:
                theta[own[np.argmin(self.singles[own])]] += FLOOR - theta[own].sum()
        return theta / theta.sum()

    def _member(self, same: list[Candidate]) -> Any:
        """Return a candidate as a member; of bandwidths per column, the mean of what all parts of the rows taught."""
        part, member = self.problem.family.families()[same[0].part], same[0].member
        if same[0].log_sigma is not None:
            sigma = np.exp(np.mean([c.log_sigma for c in same if c.log_sigma is not None], axis=0))
            sigma = sigma[np.argsort(self._own(part)[1])]
            sigma = np.ldexp(sigma * self._unit(part.ard, part) if part.ard else sigma, same[0].power)
            member = tuple(sigma.tolist()) if part.ard else float(sigma[0])
        return self.problem.family.member_of(same[0].part, member)

    # -- rows left out ---------------------------------------------------------------------------------

    def left_out(self, learned: Learned) -> np.ndarray:
        """Return the scores (n, c) of all rows of the problem, each left out; NaN for those without weight.

        Neither the bandwidths nor the weights behind a row's score have been taught by that row's fold.
        """
        self.course.at("rows left out", 0.0, learned.weighed.error)
        n, candidates, weights = len(self.rows), learned.candidates, [learned.weighed]
        if len(self.folds) > 1:
            weights = [self._weighed_without(fold, learned.weighed) for fold in self.folds]
            candidates = candidates if len(candidates) > 1 else candidates * len(self.folds)
        used = learned.weighed.theta > 0  # what was of no account for all rows is of none here
        weights = [replace(w, theta=_shares(np.where(used, w.theta, 0.0))) for w in weights]
        groups = self._groups(candidates, n if n <= WHOLE_ROWS else LEFT_OUT_ROWS)
        F = np.full(self.problem.Y.shape, np.nan)
        F[self.used] = self.target_unit * left_out_scores(
            self.rows, candidates, self.folds, groups, weights, balance=self.balances
        )
        return F

    def _weighed_without(self, fold: np.ndarray, weighed: Weighed) -> Weighed:
        fewer = self.weighing.without(fold)
        return weigh_again(fewer, weighed, self.effort, not self.problem.choose_C) if fewer.work else weighed

    def calibration(self, F: np.ndarray) -> np.ndarray | None:
        """Return what turns scores into probabilities, None for numbers."""
        if self.rows.criterion != "softmax":
            return None
        pb, at = self.problem, self.used
        factor = softmax_loss(F[at], pb.Y[at], pb.sample_weight[at])[2]
        return np.array([factor if len(at) >= LEAST else min(factor, UNSURE)])

    def verdict(self, F: np.ndarray, calibration: np.ndarray | None) -> None:
        """Warn of scores of rows left out that are hardly better than a constant."""
        pb, at, classes = self.problem, self.used, self.rows.criterion == "softmax"
        if len(at) >= LEAST:
            F = F[at] if calibration is None else calibration * F[at]
            warn_if_constant("LeaveOneOut", F, pb.Y[at], pb.sample_weight[at], classes=classes)


def enough_for(classes: int, effort: Effort) -> Effort:
    """Return the effort with larger groups, and fewer, where classes are so many that a group had few rows of each.

    Rows whose class is elsewhere cannot be predicted from their group, whatever the kernel.
    """
    rows = max(effort.weight_rows, min(CLASS_ROWS * classes, MOST_WEIGHT_ROWS))
    return replace(
        effort, weight_rows=rows, weight_groups=-(-effort.weight_groups * effort.weight_rows // rows)
    )


def _dealt(order: np.ndarray, count: int) -> np.ndarray:
    """Return a number below `count` for each: of so many that follow each other in an order, each gets another.

    Which one does not depend on any random state: of few rows, another draw would give another model.
    """
    draws = generator(0).random((-(-len(order) // count), count)).argsort(axis=1)
    out = np.empty(len(order), dtype=int)
    out[order] = draws.ravel()[: len(order)]
    return out


def _without_small(theta: np.ndarray, least: float) -> np.ndarray:
    """Return weights that sum to one, those being zero that are small beside the largest, and below `least`."""
    return _shares(np.where(theta >= min(LEAST_SHARE * theta.max(), least), theta, 0.0))


def _shares(theta: np.ndarray) -> np.ndarray:
    """Return weights that sum to one."""
    return theta / max(theta.sum(), TINY)


def _ordered_sum(values: np.ndarray) -> np.ndarray:
    """Return sums over rows that do not depend on their order, to the last bit."""
    return np.sort(values, axis=0).sum(axis=0)


def _median_distance(statistic: str, Z: np.ndarray) -> float:
    """Return the median distance between rows, of at most 300 of them; 1 where all are equal."""
    some_rows = Z[np.linspace(0, len(Z) - 1, min(len(Z), 300)).astype(int)]
    distances = pdist(some_rows, "cityblock" if statistic == "l1" else "euclidean")
    return float(np.median(distances[distances > 0])) if np.any(distances > 0) else 1.0
