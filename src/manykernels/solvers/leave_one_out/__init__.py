r"""Weights, bandwidths and C by the errors of rows left out of the ridge machine.

:mod:`~manykernels.solvers.bandwidth_learning` has the error of rows left out and its gradient, in closed form, and
takes steps on it: the best single bandwidth, one per column, then the weights of all candidates and C. This file says
which candidates a family has, and trains the machine on what was learned.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.spatial.distance import pdist

from ..._util.checks import Rule, number, whole
from ..._util.threads import one_blas_thread
from ...combination import Combination
from ...families.base import Enumerable, Family, can
from ...kernels.statistics import dense
from ...problem import Problem
from ..bandwidth_learning.candidates import (
    Candidate,
    Effort,
    Weighed,
    Weighing,
    best_single,
    groups_of,
    learn_columns,
    some,
    weigh,
)
from ..bandwidth_learning.left_out import criterion_of, merged, softmax_loss
from ..base import TwoStageSolver, generator, machine_on
from ..calibration import LEAST
from ..log import Log

#: Most kernels of a list: every one costs a matrix in every group.
MOST_LISTED = 500
#: Bandwidths to begin with, as multiples of the median distance, and ridges λ = 1/C.
WIDTHS, RIDGES = 2.0 ** np.arange(-3, 3), (1e-2, 1e-1, 1.0)
#: Multiples of learned bandwidths that are candidates, too.
MULTIPLES = (-math.log(2.0), 0.0, math.log(2.0))
#: Kernels with a smaller share of the largest weight are left out.
LEAST_SHARE = 0.01
#: Fewer rows than this teach no bandwidths per column.
FEW_TEACHERS = 20


class LeaveOneOut(TwoStageSolver):
    r"""Weights, bandwidths and C with the least error of rows left out of the ridge machine.

    minimise over θ >= 0, Σθ = 1, bandwidths σ and C:  the mean loss of f_{-t}(x_t), row t left out of

    f = argmin  (1/n) Σ_t s_t ½‖y_t - f(x_t)‖² + (λ/2) ‖f‖²_{κ+1},   κ = Σ_i (θ_i/ρ_i²) κ_i,  λ = 1/(C n),

    the squares of the errors for numbers, the softmax loss of a multiple of f_{-t}, fitted along, for classes. With
    H = (K + 11ᵀ + diag(1/(C s)))⁻¹ and α = HY the error of row t is α_t/H_tt: one inverse gives all of them, and the
    gradient in every weight, every bandwidth and C.

    First the best single bandwidth of every continuum; from it, where ``ard=True``, one per column, learned on either
    half of the rows by steps of Adam; then the weights of {one bandwidth, one per column} × {½, 1, 2}, and of all
    kernels that are given, and C, with every half's bandwidths judged by the other half. Errors are taken within groups
    of neighbours, which are as dense as all rows are. Then the machine is trained on all rows.

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
        For halves and groups; None: the same ones every time.

    Notes
    -----
    Takes continua of bandwidths, lists of up to 500 kernels, and unions of both; numbers (several targets share one
    kernel), two classes or more. With ``C="auto"`` it chooses C; a number is kept. With another loss than the squared
    one the kernel is learned all the same by the ridge machine, and then the machine of that loss is trained on it.

    Rows with equal columns are merged: such a row leaves as a whole, or, where most rows have copies with other
    targets, one unit of weight at a time.

    O(steps · groups · m³) for m rows of a group, and one machine of all rows.

    The landscape is not convex; what is returned is never worse, left out, than the best single candidate.

    References
    ----------
    Allen (1974), *The relationship between variable selection and data augmentation and a method for prediction* (the
    error of a row left out in closed form).
    """

    calibrates = True
    chooses_C = learns_bandwidths = True
    rules: ClassVar[dict[str, Rule]] = {
        "steps": whole(1),
        "group_rows": whole(10),
        "groups": whole(1),
        "shrinkage": number(),
    }

    def __init__(self, *, steps=40, group_rows=200, groups=8, shrinkage=1.0, random_state=None):
        self.steps = steps
        self.group_rows = group_rows
        self.groups = groups
        self.shrinkage = shrinkage
        self.random_state = random_state

    def check_compatible(self, family: Family, loss) -> None:
        """Refuse families that are neither bandwidths nor a short list."""
        super().check_compatible(family, loss)
        for part in family.families():
            if not _is_learnable(part):
                raise ValueError(
                    f"LeaveOneOut needs bandwidths to learn, or a list of at most {MOST_LISTED} kernels on rows, and "
                    f"{type(part).__name__} is neither; pass another solver or other kernels."
                )

    @staticmethod
    def takes(family: Family) -> bool:
        """Whether a family is bandwidths, a short list, or made of these."""
        return all(_is_learnable(part) for part in family.families())

    def default_loss(self, n_classes: int | None) -> str:
        """Return the squared loss."""
        return "squared"

    def settles_C(self, problem: Problem) -> bool:
        """Whether C is chosen along with the kernel: for the squared loss, by which kernels are judged."""
        return problem.loss.name == "squared"

    def learn(self, problem: Problem) -> Combination:
        """Return the learned combination of kernels."""
        return self._learned(problem).combination

    def solve(self, problem, init=None, on_iteration=None):
        """Learn kernel and C, then train the machine on all rows."""
        log = Log(on_iteration, time.perf_counter())
        learned = self._learned(problem)
        C = learned.C if self.settles_C(problem) else problem.C
        result = machine_on(replace(problem, C=C), learned.combination, log)
        trace = replace(result.trace, extra={"left_out": (learned.error,), "C": (C,)})
        calibration = learned.calibration if self.settles_C(problem) else None
        return replace(result, C=C, calibration=calibration, trace=trace)

    def _learned(self, problem: Problem) -> Learned:
        self.check_params()
        with one_blas_thread():  # many small systems
            return Learning(self, problem).run()


@dataclass(frozen=True, eq=False)
class Learned:
    """What was learned: the kernel, C, the error of rows left out, and what turns scores into probabilities."""

    combination: Combination
    C: float
    error: float
    calibration: np.ndarray | None


class Learning:
    """One run: from a problem to a kernel and C."""

    def __init__(self, solver: LeaveOneOut, problem: Problem):
        self.solver, self.problem = solver, problem
        self.rng = generator(0 if solver.random_state is None else solver.random_state)
        self.effort = Effort(solver.group_rows, solver.groups, solver.steps)
        used = problem.sample_weight > 0
        X, s = dense(problem.X)[used], problem.sample_weight[used]
        self.mean = _ordered_sum(s[:, None] * X) / s.sum()
        spread = np.sqrt(_ordered_sum(s[:, None] * np.square(X - self.mean)) / s.sum())
        # A column without spread, to rounding, is constant.
        self.unit = np.where(spread > 1e-12 * np.abs(X).max(axis=0, initial=0.0), spread, 1.0)
        Y = problem.Y[used] if not problem.loss.multiclass else 2.0 * problem.Y[used] - 1.0
        first, rows = merged(X, Y, s, criterion_of(Y))
        Z = (X[first] - self.mean) / self.unit
        # In an order that depends neither on that of rows and columns nor on units: draws are made in it.
        order = np.lexsort((np.round(np.sum(Z**3, axis=1), 9), np.round(np.sum(Z**2, axis=1), 9)))
        self.X, self.Z, self.rows = X[first][order], Z[order], rows.take(order)

    def run(self) -> Learned:
        """Return what the errors of rows left out teach."""
        problem, n = self.problem, len(self.rows)
        keeps = self.solver.settles_C(problem) and not problem.choose_C
        fixed = -math.log(problem.C) if keeps else None
        halves = np.zeros(n, dtype=int)
        halves[self.rng.permutation(n)[n // 2 :]] = 1
        candidates: list[list[Candidate]] = [[], []]
        ridges: list[float] = []
        for k, part in enumerate(problem.family.families()):
            if hasattr(part, "statistic"):
                ridges += self._learn_part(k, part, halves, candidates, fixed)
            else:
                for own in candidates:
                    own += self._listed(k, part)
        log_noise = fixed if fixed is not None else float(np.mean(ridges)) if ridges else math.log(0.1)
        weighed, weighing = self._weigh(candidates, halves, log_noise, fixed is not None)
        return self._learned(candidates, weighed, weighing)

    # -- candidates ------------------------------------------------------------------------------------

    def _learn_part(self, k: int, part: Any, halves, candidates, fixed) -> list[float]:
        """Add the candidates of a continuum, and return the ridges that went with them."""
        Z = self.Z if part.ard else self.X - self.mean
        start = self._start(part, Z, fixed)
        found = [start, start]
        if part.ard and len(Z) >= FEW_TEACHERS:
            found = [self._per_column(part, Z, np.flatnonzero(halves == h), start, fixed) for h in (0, 1)]
        for own, t in zip(candidates, found, strict=True):
            shapes = [start] if t is start else [start, t]
            own += [
                Candidate(part.statistic, shape[:-1] + m, part=k, Z=Z) for shape in shapes for m in MULTIPLES
            ]
        return [float(t[-1]) for t in found]

    def _start(self, part, Z, fixed) -> np.ndarray:
        widths = _median_distance(part.statistic, Z, self.rng) * WIDTHS
        if not isinstance(part.bounds, str) and np.ndim(part.bounds) == 1 and not part.ard:
            widths = np.clip(widths, *part.bounds)
        ridges = RIDGES if fixed is None else (math.exp(fixed),)
        return best_single(part.statistic, Z, self.rows, widths, ridges, self.effort, self.rng)[1]

    def _per_column(self, part, Z, taught, start, fixed) -> np.ndarray:
        return learn_columns(
            part.statistic,
            Z[taught],
            self.rows.take(taught),
            start,
            self.solver.shrinkage / len(taught),
            self.effort,
            self.rng,
            fixed_noise=fixed is not None,
        )

    def _listed(self, k: int, part: Any) -> list[Candidate]:
        """Return the kernels of a list, each over its scale."""
        out = []
        for member in part.members():
            z = self.problem.family.member_of(k, member)
            rho_sq = float(self.problem.scale.rho_sq([z], 1.0)[0])
            if rho_sq > 0:
                out.append(Candidate(gram=_gram_of(part, self.X, member, rho_sq), part=k, member=member))
        return out

    # -- weights ---------------------------------------------------------------------------------------

    def _weigh(self, candidates, halves, log_noise: float, fixed: bool) -> tuple[Weighed, Weighing]:
        shape = next((c.log_sigma for c in candidates[0] if c.log_sigma is not None and c.Z is self.Z), None)
        near = np.zeros(self.Z.shape[1]) if shape is None else shape
        groups = groups_of(self.Z, near, self.rows, self.effort.weight_rows)
        chosen = some(groups, self.effort.weight_groups, self.rng)
        learned = any(c.log_sigma is not None for c in candidates[0])
        weighing = Weighing(self.rows, candidates if learned else candidates[:1], halves, chosen)
        return weigh(weighing, len(candidates[0]), log_noise, self.effort, fixed_noise=fixed), weighing

    def _learned(self, candidates, weighed: Weighed, weighing: Weighing) -> Learned:
        theta = np.where(weighed.theta >= LEAST_SHARE * weighed.theta.max(), weighed.theta, 0.0)
        used = np.flatnonzero(theta).tolist()
        members = [self._member(candidates[0][i], candidates[1][i]) for i in used]
        rho_sq = self.problem.scale.rho_sq(members, 1.0)
        weights = theta[used] / theta.sum() / rho_sq
        combination = Combination(self.problem.family, members, weights, np.sqrt(rho_sq))
        calibration = None
        if self.rows.criterion == "softmax":
            F, T, w = weighing.scores(weighed.theta, weighed.log_noise)
            calibration = np.array([softmax_loss(F, T, w)[2]]) if len(w) >= LEAST else None
        C = math.exp(-weighed.log_noise) if self.problem.choose_C else self.problem.C
        return Learned(combination, C, weighed.error, calibration)

    def _member(self, one: Candidate, other: Candidate) -> Any:
        """Return a candidate as a member; of bandwidths per column, the mean of what either half taught."""
        part = self.problem.family.families()[one.part]
        member = one.member
        if one.log_sigma is not None and other.log_sigma is not None:
            log_sigma = 0.5 * (one.log_sigma + other.log_sigma)
            sigma = np.exp(log_sigma) * self.unit if part.ard else np.exp(log_sigma)
            member = tuple(sigma.tolist()) if part.ard else float(sigma[0])
        return self.problem.family.member_of(one.part, member)


def _is_learnable(part: Family) -> bool:
    listed = can(part, Enumerable) and part.size() <= MOST_LISTED
    return (listed or hasattr(part, "statistic")) and not part.pairwise


def _ordered_sum(values: np.ndarray) -> np.ndarray:
    """Return sums over rows that do not depend on their order, to the last bit."""
    return np.sort(values, axis=0).sum(axis=0)


def _gram_of(part, X, member, rho_sq: float):
    return lambda chosen: part.gram(X[chosen], X[chosen], [member], np.array([1.0 / rho_sq]))


def _median_distance(statistic: str, Z: np.ndarray, rng) -> float:
    """Return the median distance between rows, of at most 300 of them; 1 where all are equal."""
    some_rows = Z[rng.permutation(len(Z))[:300]]
    distances = pdist(some_rows, "cityblock" if statistic == "l1" else "euclidean")
    return float(np.median(distances[distances > 0])) if np.any(distances > 0) else 1.0
