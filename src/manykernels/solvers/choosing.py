"""C, and what else a solver leaves open, by rows left out: in closed form for a ridge on a learned kernel, or by folds.

A two-stage solver learns the kernel once, as C has no part in that, and only its machine is tried with many C. With the
squared loss one decomposition of the kernel matrix gives the score of every row left out for all C. Any other solver is
run on three folds, each run from the weights of the last where it takes any: first in powers of ten, as long as the
error falls, then between them. Many rows are stood for by a sample.

What is minimised is the loss of numbers, and for classes the log loss of probabilities calibrated on the same
scores. Wrong labels are too coarse a measure: on twelve tables, three splits each, C by their number had more errors on
new rows in 5 of 36 and fewer in 1, and a larger log loss in 12 and a smaller one in 7.

The scores left out at the chosen C are kept: they calibrate probabilities.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.linalg import eigh
from sklearn.exceptions import ConvergenceWarning

from .._util.allowance import limited, most_work, scarce
from .._util.interrupts import Interruptible, trials
from .._util.text import warn
from ..combination import Combination
from ..families.base import Enumerable, can
from ..problem import Problem, Result
from .base import Solver, StreamingSolver, TwoStageSolver, machine_on
from .calibration import are_classes, fit_calibration, log_loss
from .folds import FEW_REFIT_ROWS, folds, left_out_at, some_rows, units
from .log import Log, logger

#: Values of C that are tried in closed form, for a kernel of size 1; where the best is at an end, more follow.
FINE = 10.0 ** np.arange(-3.0, 6.01, 0.25)
#: Folds, and the most rows that are cut into them or decomposed.
FOLDS, MOST_ROWS = 3, 2_000
#: How far from its start a search goes, in half powers of ten.
FARTHEST = 14
#: Families up to this size are asked how large their kernels are.
LONGEST = 2_000
#: Errors this close, relatively, are one: the smaller C is taken.
SAME = 1e-3
#: A search goes on where the error falls by this much, relatively, and ends where it rises by it.
CLEAR = 0.01


@dataclass(frozen=True, eq=False)
class Chosen:
    """A solver and a problem with nothing left open.

    Attributes
    ----------
    solver : Solver
    problem : Problem
        With C.
    combination : Combination or None
        The kernel, where the solver has learned it already.
    left_out : (n, c) array or None
        Scores of all rows, each by a model that has not seen it.
    tried, errors : arrays
        The values of C, with the best of what else was open, and the errors of rows left out.
    """

    solver: Solver
    problem: Problem
    combination: Combination | None = field(default=None, repr=False)
    left_out: np.ndarray | None = field(default=None, repr=False)
    tried: np.ndarray = field(default_factory=lambda: np.zeros(0), repr=False)
    errors: np.ndarray = field(default_factory=lambda: np.zeros(0), repr=False)

    def solve(self, init: Any = None, on_iteration=None, *, calibrate: bool = False) -> Result:
        """Solve the problem; with `calibrate` the result has what turns scores into probabilities, whatever the loss.

        Where no scores are left out yet, that takes five machines on the learned kernel, see
        :func:`~manykernels.solvers.folds.left_out_at`.
        """
        if self.combination is None:
            result = self.solver.solve(self.problem, init=init, on_iteration=on_iteration)
        else:
            result = machine_on(self.problem, self.combination, Log(on_iteration, time.perf_counter()))
        if result.left_out is None:
            result = replace(result, left_out=self.left_out)
        if calibrate:
            with Interruptible(lambda: "after the fit; probabilities are not calibrated."):
                result = self.calibrated(result)
        return result

    def calibrated(self, result: Result) -> Result:
        """Return a result with what turns scores into probabilities, where the loss and the solver have none."""
        if result.calibration is not None or self.problem.loss.probabilistic:
            return result
        problem, scores = self.problem, result.left_out
        if scores is None:
            problem = problem if result.C is None else replace(problem, C=result.C)
            # Rows that are streamed, or whose kernels come on the fly, may be too many for machines on pairs of them.
            if isinstance(self.solver, StreamingSolver) or hasattr(self.solver, "memory"):
                problem = some_rows(problem, FEW_REFIT_ROWS)
            A = result.dual_coef if len(problem.Y) == len(self.problem.Y) else None
            scores = left_out_at(problem, result.combination, A)
        if len(scores) == len(self.problem.Y):
            result = replace(result, left_out=scores)
        known = np.isfinite(scores).all(axis=1)
        taught = fit_calibration(scores[known], problem.Y[known], problem.sample_weight[known])
        return replace(result, calibration=taught)


def chosen(solver: Solver, problem: Problem, most_rows: int = MOST_ROWS) -> Chosen:
    """Return the solver and the problem with the C, and what else is open, that have the least error of rows left out.

    Of equal ones the smallest C is taken, and 1 where no row can be left out. Of more than `most_rows` a sample is.
    Trials may take half of the multiplications that a fit is worth; what they have found by then is chosen from, with a
    warning.
    """
    candidates = solver.candidates()
    open_C = problem.choose_C and not solver.settles_C(problem)
    if not open_C and len(candidates) == 1:
        return Chosen(candidates[0], problem)
    some = some_rows(problem, most_rows)
    combination = solver.learned(problem) if isinstance(solver, TwoStageSolver) else None
    with limited(0.5 * most_work(some.n_rows), share=0.5):  # as much is left for the answer
        if combination is not None:
            found = _of_machines(some, combination)
        else:
            found = _of_solvers(some, candidates, open_C)
        cut_short = scarce()
    at, trial = found.best()
    if cut_short:
        _warn_of_few(problem, found, "C" if open_C else "p")
    C = trial.C if trial is not None else problem.C
    logger.info("C = %.3g%s, by rows left out", C, "" if len(candidates) == 1 else f", {candidates[at]}")
    return Chosen(
        candidates[at],
        replace(problem, C=C, choose_C=False),
        combination,
        trial.scores if trial is not None and some is problem else None,
        np.array([t.C for t in found.trials[at]]),
        np.array([t.error for t in found.trials[at]]),
    )


def _warn_of_few(problem: Problem, found: Found, name: str) -> None:
    """Warn that the search ended before its time."""
    tried = sorted({t.C for some in found.trials for t in some})
    what = f"{len(tried)} values of C, {tried[0]:.2g} to {tried[-1]:.2g}," if len(tried) > 1 else "one C"
    rows = f"{problem.n_rows:,} rows are worth"
    warn(
        f"{name}='auto' was chosen after trials of {what} which took all the multiplications that {rows}; pass {name}, "
        "or fewer kernels.",
        ConvergenceWarning,
    )


# -- what is tried ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Trial:
    """A value of C, the error of rows left out, and their scores."""

    C: float
    error: float
    scores: np.ndarray


class Found:
    """Trials by candidate, in the order of C."""

    def __init__(self, *trials: list[Trial]):
        self.trials = [sorted(some, key=lambda trial: trial.C) for some in trials]

    def best(self) -> tuple[int, Trial | None]:
        """Return the number of the best candidate, and its best trial: of equal ones that with the smallest C."""
        bests = [_best(some) for some in self.trials]
        errors = [np.inf if trial is None else trial.error for trial in bests]
        at = int(np.argmin(errors))
        return at, bests[at]


def _best(trials: list[Trial]) -> Trial | None:
    known = [trial for trial in trials if np.isfinite(trial.error)]
    if not known:
        return None
    least = min(trial.error for trial in known)
    level = (
        least + SAME * abs(least) + np.finfo(float).tiny
    )  # what a row adds to a likelihood may round to below 0
    return next(trial for trial in known if trial.error <= level)


def _error(problem: Problem, scores: np.ndarray) -> float:
    """Return the mean error of the rows that have scores."""
    judged = np.isfinite(scores).all(axis=1)
    F, Y, s = scores[judged], problem.Y[judged], problem.sample_weight[judged]
    if not len(s):
        return np.nan
    classes = problem.loss.classifies and not problem.loss.shared and are_classes(problem.Y)
    calibration = fit_calibration(F, Y, s) if classes else None
    if calibration is not None:
        return log_loss(F, Y, s, calibration)
    return float(s @ problem.loss.value(Y, F)) / float(s.sum())


def search_C(trial: Callable[[float], Trial], start: int) -> Iterator[Trial]:
    """Yield trials in powers of ten from 10^(start/2) on, as long as the error falls, and then around the best.

    A search goes over one power without a fall, as errors may be level, but not over a clear rise. It ends where
    machines have worked enough.
    """
    found = {start: trial(10.0 ** (start / 2))}
    for step in (2, -2):
        at, waited = start, 0
        while waited < 2 and abs(at + step - start) <= FARTHEST and not scarce():
            at += step
            least = min(t.error for t in found.values())
            found[at] = trial(10.0 ** (at / 2))
            waited = 0 if found[at].error < least - CLEAR * abs(least) else waited + 1
            if not found[at].error <= least + CLEAR * abs(least):  # or it is not a number
                break
        if min(found.values(), key=lambda t: t.error) is not found[start]:
            break
    # Of errors that are level to rounding the same one every time.
    best = _best([found[at] for at in sorted(found)])
    middle = next((at for at, t in found.items() if t is best), start)
    for at in (middle - 1, middle + 1):
        if not scarce():
            found[at] = trial(10.0 ** (at / 2))
    yield from found.values()


# -- by folds --------------------------------------------------------------------------------------------


def _of_solvers(problem: Problem, candidates: list[Solver], open_C: bool) -> Found:
    """Run every candidate on folds."""
    cut = _Cut(problem)
    if not cut:
        return Found(*[[] for _ in candidates])
    all_trials: list[list[Trial]] = []
    start = start_of(problem)
    for solver in candidates:
        if all_trials and scarce():
            all_trials.append([])
            continue
        rough = solver.rough()

        def run(part: Problem, last: Result | None, rough: Solver = rough) -> Result:
            return rough.solve(part, init=_weights_of(last, part) if rough.accepts_init else None)

        def trial(C: float, run=run) -> Trial:
            return cut.trial(C, run)

        all_trials.append(list(search_C(trial, start)) if open_C else [trial(problem.C)])
        best = _best(all_trials[-1])
        start = start if best is None else round(2 * np.log10(best.C))
    return Found(*all_trials)


def start_of(problem: Problem) -> int:
    """Return where C is 1 over the size of the kernels times that of the weights, in half powers of ten.

    Scaled kernels have size 1. A factor of all weights is one of C, and must not change what is chosen.
    """
    family: Any = problem.family
    if problem.scale.how is not None or not can(family, Enumerable) or family.size() > LONGEST:
        return _half_powers(_typical_weight(problem))
    size = family.mean_diag(problem.X, family.members(), problem.sample_weight).mean()
    return _half_powers(size * _typical_weight(problem))


def _typical_weight(problem: Problem) -> float:
    s = problem.sample_weight
    return float(s[s > 0].mean()) if s.any() else 1.0


def _half_powers(size: float) -> int:
    return -2 * round(np.log10(size)) if 0 < size < np.inf else 0


class _Cut:
    """A problem in folds, each with the last result on it, to start from."""

    def __init__(self, problem: Problem):
        self.problem = problem
        parts = folds(problem, FOLDS)
        self.tests = [test for _, test in parts]
        self.parts = [problem.apart(train, test) for train, test in parts]
        self.last: list[Result | None] = [None] * len(parts)

    def __len__(self) -> int:
        return len(self.parts)

    def trial(self, C: float, run: Callable[[Problem, Result | None], Result]) -> Trial:
        """Return the error with one C."""
        scores, error = np.full(self.problem.Y.shape, np.nan), 0.0
        with trials(), warnings.catch_warnings():  # that a trial is not exact needs no saying
            warnings.simplefilter("ignore", ConvergenceWarning)
            for k, (part, rows) in enumerate(self.parts):
                with limited(share=0.5 / (len(self.parts) - 0.5 * k)):  # half of what is left for all of them
                    self.last[k] = result = run(replace(part, C=C, choose_C=False), self.last[k])
                scores[self.tests[k]] = result.predictor.scores(rows)
                if self.problem.loss.joint:
                    error += self._added(part, self.tests[k], result, scores[self.tests[k]])
        return Trial(C, error if self.problem.loss.joint else _error(self.problem, scores), scores)

    def _added(self, part: Problem, test: np.ndarray, result: Result, F: np.ndarray) -> float:
        """Return what rows left out add to the loss of all rows together, per weight.

        For the partial likelihood that is Verweij and van Houwelingen's, "Cross-validation in survival analysis", 1993:
        rows left out are judged in the risk sets of all.
        """
        loss, problem = self.problem.loss, self.problem
        taught = result.predictor.scores(part.X)
        Y, s = (
            np.concatenate([part.Y, problem.Y[test]]),
            np.r_[part.sample_weight, problem.sample_weight[test]],
        )
        more = loss.total(Y, np.concatenate([taught, F]), s) - loss.total(part.Y, taught, part.sample_weight)
        return more / float(problem.sample_weight.sum())


def _weights_of(last: Result | None, part: Problem) -> np.ndarray | None:
    """Return θ of all members of a list, to start the next run from."""
    if last is None:
        return None
    theta = last.combination.weights * last.combination.rho**2
    return theta if len(theta) == part.family.size() and theta.any() else None


# -- machines on a kernel that is learned ----------------------------------------------------------------


def _of_machines(problem: Problem, combination: Combination) -> Found:
    """Try C on a fixed kernel."""
    if problem.loss.name == "squared":
        return Found(_in_closed_form(problem, combination))
    cut = _Cut(problem)
    if not cut:
        return Found([])

    def run(part: Problem, last: Result | None) -> Result:
        return machine_on(
            part, combination, Log(None, time.perf_counter()), None if last is None else last.dual_coef
        )

    def trial(C: float) -> Trial:
        return cut.trial(C, run)

    return Found(list(search_C(trial, start_of(problem))))


def _in_closed_form(problem: Problem, combination: Combination) -> list[Trial]:
    """Return the trials of every C, from one decomposition.

    With S = √s, S(K + 11ᵀ)S = Q diag(w) Qᵀ and H = (K + 11ᵀ + diag(1/(Cs)))⁻¹ = S Q diag(1/(w + 1/C)) Qᵀ S, a row left
    out errs by α_t/H_tt, and the rows B of a group, or equal rows, by H_BB⁻¹ α_B.
    """
    used, unit = units(problem)
    _, which, sizes = np.unique(unit, return_inverse=True, return_counts=True)
    if len(sizes) < 2:
        return []
    blocks = [np.flatnonzero(which.ravel() == k) for k in np.flatnonzero(sizes > 1)]
    root = np.sqrt(problem.sample_weight[used])
    X = problem.X[np.ix_(used, used)] if problem.family.pairwise else problem.X[used]
    K = combination.gram(X)
    unit = 10.0 ** (_half_powers(float(np.mean(np.diag(K))) * _typical_weight(problem)) / 2)
    w, Q = eigh((K + 1.0) * np.multiply.outer(root, root))
    w, Q, T = np.maximum(w, 0.0), root[:, None] * Q, Q.T @ (root[:, None] * problem.Y[used])

    def trial(C: float) -> Trial:
        inner = 1.0 / (w + 1.0 / C)
        scores = np.full(problem.Y.shape, np.nan)
        scores[used] = problem.Y[used] - _errors_left_out(Q, inner, T, blocks)
        return Trial(C, _error(problem, scores), scores)

    trials = [trial(float(C)) for C in unit * FINE]
    while len(trials) < 2 * len(FINE):  # the best may lie beyond an end
        best = _best(trials)
        if best is trials[0] and best.error < trials[1].error * (1 - SAME):
            trials.insert(0, trial(trials[0].C / 10))
        elif best is trials[-1]:
            trials.append(trial(trials[-1].C * 10))
        else:
            break
    return trials


def _errors_left_out(Q: np.ndarray, inner: np.ndarray, T: np.ndarray, blocks) -> np.ndarray:
    alpha = Q @ (inner[:, None] * T)
    errors = alpha / (np.square(Q) @ inner)[:, None]
    for rows in blocks:
        H = (Q[rows] * inner) @ Q[rows].T
        errors[rows] = np.linalg.solve(H, alpha[rows])
    return errors
