"""Gram once: for the squared loss, all that a solver needs of any number of rows is one Gram matrix of their features.

The objective is a function of G = Σ_t s_t [1, φ_t]ᵀ [1, φ_t], Σ_t s_t [1, φ_t]ᵀ y_t and Σ_t s_t y_t² alone, which are
summed in double precision in one pass over the rows, wherever these are. A factor of G has no more rows than G, and
stands for all of them: turned so that its first column is constant, it is a table with the features and targets of a
few rows of equal weight, on which every solver finds the same weights, objective and certificate as on the rows
themselves, in a time that does not depend on n. Folds of the rows have sums of their own, so that C and p are chosen by
cross-validation over all rows, and scored along a grid, without another look at them. Targets with weights of their own
are one small problem each, on the same few rows.

===============  =====================================================================================
``features.py``  the features of all kernels, explicit, polynomial, Fourier or of views, and their sums
``moments.py``   the sums, and the few rows that have the same ones
===============  =====================================================================================
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..._util.memory import gibibytes
from ..._util.text import brief
from ...combination import Combination, TargetCombination
from ...families.base import Enumerable, HasFeatures, HasRandomFeatures, can
from ...families.finite import Finite
from ...kernels import Linear
from ...predictors import Primal
from ...problem import Problem, Result, Scale
from ...streaming.cluster import Block, Rows
from ..choosing import Found, Trial, search_C, start_of
from ..folds import has_cells
from ..log import OnIteration, logger
from .features import SEED, Features, fold_of
from .moments import Moments, few_rows

#: Most columns of a Gram matrix, and folds of the rows.
MOST_COLUMNS, FOLDS = 4096, 3
#: Copies of the sums of all folds that a pass holds, and matrices as large as those of one fold that the rest needs.
COPIES, MORE_MATRICES = 4, 3
#: Targets that C and p are chosen by, where each has weights of its own.
TRIED_TARGETS = 16


# -- what can be summed up ---------------------------------------------------------------------------------


class SolvesGrams:
    """A solver that does with the Gram matrix of all features where rows lie in files or on a cluster."""

    sums_rows = gram_once = True

    def check_sums(self) -> None:
        """Raise ValueError for parameters that ask more of the rows than their sums."""


def _has_columns(family: Any, n_columns: int) -> bool:
    """Whether all members have columns that are not mostly zero."""
    if can(family, HasFeatures):
        return True
    if not can(family, HasRandomFeatures):
        return False
    return not any(m.sparse for m in family.random_features(family.members(), n_columns, SEED, 2))


def _lacks_views(problem: Problem) -> bool:
    lacks = getattr(problem.family, "lacks", None)
    return lacks is not None and lacks(problem.X)


def is_summable(problem: Problem) -> bool:
    """Whether one Gram matrix of explicit features, fewer than rows, says all of the rows.

    Where rows lack views it does not: the last machine may be on a kernel that is balanced by its weights.
    """
    family: Any = problem.family
    if (
        _lacks_views(problem)
        or problem.loss.name != "squared"
        or not (can(family, Enumerable) and can(family, HasFeatures))
    ):
        return False
    if family.size() > MOST_COLUMNS:
        return False
    columns = int(family.widths(family.members()).sum())
    return columns < min(MOST_COLUMNS + 1, problem.n_rows)


def check_gram(solver: Any, problem: Problem, folds: int, memory: int | None = None) -> None:
    """Raise ValueError for kernels and losses that one Gram matrix does not describe, or one beyond `memory`."""
    family: Any = problem.family
    name = type(solver).__name__
    solver.check_sums()
    if not (can(family, Enumerable) and _has_columns(family, problem.X.shape[1])):
        raise ValueError(
            f"{name} takes rows from files and clusters where kernels can be listed and have explicit or Fourier "
            f"features, and kernels is {brief(family)}; use Linear, Polynomial, RBF or Products(), Blockwise, or rows "
            "in memory."
        )
    if problem.loss.name != "squared":
        raise ValueError(
            f"{name} takes rows from files and clusters with loss='squared', not {problem.loss.name!r}; pass rows in "
            "memory for others."
        )
    listed = family.size() <= MOST_COLUMNS
    columns = Features.of(family, problem.X.shape[1]).count if listed else int(family.size())
    if columns > MOST_COLUMNS:
        raise ValueError(
            f"kernels have {columns:,} features, and {name} sums up a Gram matrix of {MOST_COLUMNS:,} at the most over "
            "rows in files and on clusters; use fewer kernels, Greedy for products, or Blockwise."
        )
    need = 8 * (columns + 1) * (columns + 1 + problem.n_outputs) * (COPIES * folds + MORE_MATRICES)
    if memory is not None and need > memory:
        raise ValueError(
            f"kernels have {columns:,} features, whose Gram matrices of {folds} folds take {gibibytes(need)}, and "
            f"memory= allows {gibibytes(memory)}; raise it, or use fewer kernels."
        )


# -- sums, and solutions from them -------------------------------------------------------------------------


def _sums(block: Block, features: Features, folds: int, cells: bool) -> tuple[np.ndarray, ...]:
    return features.moments(block, fold_of(block, folds, cells), folds).arrays


@dataclass(frozen=True, eq=False)
class Solved:
    """A result on a few rows, with what it takes to make it one on all of them.

    Attributes
    ----------
    result : Result
    V : (k + 1, c) array
        Coefficients of z = [1, φ - shift].
    rho_sq : (m,) array
    ratio : float
        From a mean over the few rows to one over all.
    """

    result: Result
    V: np.ndarray
    rho_sq: np.ndarray
    ratio: float

    def theta(self) -> np.ndarray | None:
        """Return θ of the kernels that do not vanish, to start the next run from; None for several targets' own."""
        found = self.result.combination
        if isinstance(found, TargetCombination) or not found.weights.any():
            return None
        return found.weights * found.rho**2


class GramOnce:
    """The problem on all rows, and on all but one of the folds, as problems on a few rows.

    Parameters
    ----------
    first : Problem
        A sample of the rows, or all, with the family, the scale, the loss and C.
    features : Features
    total : Moments
        Of all rows.
    tests : list of Moments
        Of the rows left out, fold by fold.
    n_rows : int
    trains : list of Moments, optional
        Of the rows that teach, fold by fold; all others, by default.
    """

    def __init__(
        self,
        first: Problem,
        features: Features,
        total: Moments,
        tests: Sequence[Moments],
        n_rows: int,
        trains: Sequence[Moments] | None = None,
    ):
        self.first, self.features, self.total, self.n_rows = first, features, total, n_rows
        self.family: Any = first.family
        self.members, self.widths = list(features.members), features.widths
        pairs = zip(tests, [total.less(test) for test in tests] if trains is None else trains, strict=True)
        #: What teaches and what judges; a fold that holds no row, or all, does neither.
        self.folds = [(rest, test) for test, rest in pairs if test.weight > 0 and rest.weight > 0]
        self._few: dict[int, tuple[Moments, tuple[np.ndarray, ...]]] = {}

    @classmethod
    def over(cls, rows: Rows, first: Problem, folds: int) -> GramOnce:
        """Sum up over rows, wherever they are, in one round."""
        features = Features.of(first.family, first.X.shape[1]).about(first.X, first.sample_weight)
        cells = folds > 1 and has_cells(first)
        size = 8 * folds * (features.count + 1) * (features.count + 1 + first.n_outputs)
        sums = Moments(*rows.sum(_sums, rows.broadcast(features), folds, cells, size=size))
        tests = [sums.fold(k) for k in range(folds)] if folds > 1 else []
        return cls(first, features, sums.total(), tests, rows.n_rows)

    @classmethod
    def within(cls, problem: Problem, splits: Sequence[tuple[np.ndarray, np.ndarray]]) -> GramOnce:
        """Sum up over rows in memory, and over the rows that teach and that judge, split by split."""
        features = Features.of(problem.family, problem.X.shape[1]).about(problem.X, problem.sample_weight)

        def of(rows: Any) -> Moments:
            block = Block(problem.X[rows], problem.Y[rows], problem.sample_weight[rows])
            return features.moments(block, np.zeros(len(block.s), dtype=int), 1).fold(0)

        trains, tests = [of(train) for train, _ in splits], [of(test) for _, test in splits]
        return cls(problem, features, of(slice(None)), tests, problem.n_rows, trains)

    def rho_sq(self, sums: Moments, p: float) -> np.ndarray:
        """Return ρ_i² on the rows that were summed over."""
        scale = self.first.scale
        if not (isinstance(scale.how, str) and scale.how == "trace") and scale.how != "base":
            return scale.rho_sq(self.members, p)
        penalty = self.family.penalty(self.members, 1.0 if p == 1 else p / (2 - p) if p < 2 else np.inf)
        squares = sums.squares(self.features.shift)
        if scale.how == "trace":
            ends = np.concatenate([[0], np.cumsum(self.widths)])
            each = np.array([squares[a:b].sum() for a, b in pairwise(ends)])
            return np.divide(each, sums.mass, out=np.zeros(len(each)), where=sums.mass > 0) * penalty
        own = [self.members.index((j,)) for j in range(self.family._r)]
        return self.family.factor_scale(squares[own] / sums.weight, self.members) * penalty

    def problem(self, sums: Moments, C: float, p: float) -> tuple[Problem, np.ndarray]:
        """Return a problem on a few rows with these sums, and ρ²; a kernel that vanishes is left out."""
        rho_sq = self.rho_sq(sums, p)
        if id(sums) not in self._few:  # kept along with them, so that no other has their number
            self._few[id(sums)] = sums, few_rows(sums, self.features.shift)
        X, Y, s = self._few[id(sums)][1]
        ends = np.concatenate([[0], np.cumsum(self.widths)])
        kernels = [
            Linear(columns=np.arange(a, b))
            for a, b, r in zip(ends[:-1], ends[1:], rho_sq, strict=True)
            if r > 0
        ]
        if not kernels:
            raise ValueError(
                "kernels: every kernel vanishes on the training rows; check that X is not all zeros."
            )
        family = Finite(kernels).resolve(X.shape[1])
        known: dict[str, Any] = {
            "X": X,
            "Y": Y,
            "sample_weight": s,
            "family": family,
            "scale": Scale(family, np.sqrt(rho_sq[rho_sq > 0]), X, s),
            "groups": None,
        }
        return replace(self.first, **known, C=C, choose_C=False), rho_sq

    def solve(
        self,
        solver: Any,
        C: float,
        sums: Moments | None = None,
        *,
        init: np.ndarray | None = None,
        per_target: bool = False,
        on_iteration: OnIteration | None = None,
    ) -> Solved:
        """Solve on the rows that were summed over, all by default; `per_target` gives each target its own weights."""
        sums = self.total if sums is None else sums
        problem, rho_sq = self.problem(sums, C, solver.p or 2.0)
        if per_target:
            result = solver.solve_targets(problem, on_iteration)
        else:
            fits = init is not None and solver.accepts_init and len(init) == problem.family.size()
            result = solver.solve(problem, init=init if fits else None, on_iteration=on_iteration)
        V = self._coefficients(problem, result, rho_sq)
        return Solved(result, V, rho_sq, problem.n_rows / self.n_rows)

    def _coefficients(self, problem: Problem, result: Result, rho_sq: np.ndarray) -> np.ndarray:
        """Return V from a result on the few rows: the intercept, and W of all features."""
        weights = _spread(np.atleast_2d(result.combination.weights), rho_sq > 0)
        used, shift = (
            np.repeat(weights, self.widths, axis=1).T,
            self.features.shift * np.ones(problem.X.shape[1]),
        )
        if isinstance(result.predictor, Primal):
            W = np.zeros((len(used), problem.n_outputs))
            W[used.any(axis=1)] = result.predictor.W
        else:  # Φᵀ A, and 1ᵀ A = b: large means would cancel
            assert result.dual_coef is not None
            W = ((problem.X - shift).T @ result.dual_coef + np.outer(shift, result.intercept)) * used
        return np.concatenate([result.intercept[None] + shift @ W, W])

    def whole(self, solved: Solved, C: float, extra: dict[str, tuple]) -> Result:
        """Return a result on the few rows as one on all rows."""
        result, rho_sq, ratio = solved.result, solved.rho_sq, solved.ratio
        alive, found = rho_sq > 0, result.combination
        combination: Combination = replace(
            found,
            family=self.family,
            members=self.members,
            weights=_spread(found.weights, alive),
            rho=np.sqrt(rho_sq),
            norms=None if found.norms is None else _spread(found.norms, alive),
        )
        trace = replace(
            result.trace,
            objective=tuple(ratio * v for v in result.trace.objective),
            gap=tuple(ratio * v for v in result.trace.gap),
            extra={**result.trace.extra, **extra},
        )
        return replace(
            result,
            predictor=self.features.predictor(combination, solved.V[1:], result.intercept),
            combination=combination,
            gap_kind="features" if self.features.random else result.gap_kind,
            objective=ratio * result.objective,
            gap=ratio * result.gap,
            trace=trace,
            dual_coef=None,
            left_out=None,
            C=C,
        )

    def settled(self, solver: Any, *, per_target: bool = False) -> tuple[Any, float]:
        """Return the solver and the C with the least error of the folds, each by a model of the others."""
        candidates, first = solver.candidates(), self.first
        if not first.choose_C and len(candidates) == 1:
            return solver, first.C
        if len(self.folds) < 2:
            return candidates[0], first.C
        folds = self.folds
        if per_target and first.n_outputs > TRIED_TARGETS:
            some = np.linspace(0, first.n_outputs - 1, TRIED_TARGETS).astype(int)
            folds = [(rest.of_targets(some), test.of_targets(some)) for rest, test in folds]
        trials, start = [], start_of(first)
        for one in candidates:
            trial = _Trials(self, one.rough(), folds, per_target)
            trials.append(list(search_C(trial, start)) if first.choose_C else [trial(first.C)])
        at, best = Found(*trials).best()
        C = first.C if best is None else best.C
        logger.info("C = %.3g%s, by folds", C, "" if len(candidates) == 1 else f", {candidates[at]}")
        return candidates[at], C


class _Trials:
    """The error of folds by C, each fold's runs from the weights of its last."""

    def __init__(self, once: GramOnce, solver: Any, folds: list[tuple[Moments, Moments]], per_target: bool):
        self.once, self.solver, self.folds, self.per_target = once, solver, folds, per_target
        self.last: list[np.ndarray | None] = [None] * len(folds)

    def __call__(self, C: float) -> Trial:
        error = weight = 0.0
        with warnings.catch_warnings():  # that a trial is not exact needs no saying
            warnings.simplefilter("ignore", ConvergenceWarning)
            for k, (rest, test) in enumerate(self.folds):
                known: dict[str, Any] = {"init": self.last[k], "per_target": self.per_target}
                solved = self.once.solve(self.solver, C, rest, **known)
                self.last[k] = solved.theta()
                error += 0.5 * float(test.errors(solved.V).sum())
                weight += test.weight
        return Trial(C, error / weight, np.zeros(0))


def _spread(values: np.ndarray, alive: np.ndarray) -> np.ndarray:
    """Return values of the kernels that do not vanish as values of all, along the last axis."""
    out = np.zeros((*values.shape[:-1], len(alive)))
    out[..., alive] = values
    return out


def solve_grams(
    solver: Any,
    rows: Rows,
    first: Problem,
    *,
    per_target: bool = False,
    memory: int | None = None,
    on_iteration: OnIteration | None = None,
) -> tuple[Any, Result]:
    """Sum up in one pass over the rows, choose C and p by folds where they are open, and solve on the few rows.

    Returns the solver with nothing left open, and the result.
    """
    solver.check_params()
    folds = FOLDS if first.choose_C or len(solver.candidates()) > 1 else 1
    check_gram(solver, first, folds, memory)
    once = GramOnce.over(rows, first, folds)
    solver, C = once.settled(solver, per_target=per_target)
    solved = once.solve(solver, C, per_target=per_target, on_iteration=on_iteration)
    return solver, once.whole(solved, C, {"rounds": (rows.rounds,), "bytes": (rows.sent,)})
