"""``path``: the models of a grid of C and p, and their errors on rows left out.

Where one Gram matrix of explicit features says all of the rows, in files, on a cluster or in memory, it is summed up
once for all models and folds (:mod:`manykernels.solvers.gram_once`). Other kernels and losses are fitted fold by fold.
"""

from __future__ import annotations

import copy
import numbers
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import check_cv
from sklearn.utils.metaestimators import _safe_split

from .._util.text import brief
from ..findings.path import SolutionPath
from ..problem import Problem, Result
from ..solvers.gram_once import GramOnce, Solved, check_gram, is_summable
from ..solvers.gram_once.moments import Moments
from .base import MKL, POSITIVE, _is_plain, all_or_nothing
from .streamed import calibrated, is_lazy, opened, source_of
from .summed import opened_rows

#: What C is by default.
GRID = 10.0 ** np.arange(-3.0, 4.01, 0.5)

Splits = list[tuple[np.ndarray, np.ndarray]]


def solution_path(model: MKL, X, y=None, sample_weight=None, *, C=None, p=None, cv=5) -> SolutionPath:
    """Return the models of a grid; see :meth:`manykernels.MKLRegressor.path`."""
    grid = _grid(C)
    shell: Any = clone(model)
    shell._check_arguments()
    with all_or_nothing(shell):
        if not _is_plain(X):
            if y is not None and not isinstance(y, str) and not shell._pairwise and not is_lazy(X):
                X = shell._views(X) or X
            source = source_of(shell, X, y, sample_weight, None)
            if source is not None:
                return _from_source(shell, source, grid, p, cv)
        problem = shell._problem(X, y, sample_weight)
        solvers = _solvers(shell.solver_, p)
        y = np.asarray(y)
        splits = list(check_cv(cv, y, classifier=is_classifier(model)).split(np.zeros(len(y)), y))
        if shell.solver_.gram_once and is_summable(problem):
            return _Summed(shell, GramOnce.within(problem, splits), (X, y, sample_weight, splits)).path(
                solvers, grid
            )
        return _by_fits(shell, (X, y, sample_weight, splits), solvers, grid)


def _grid(C) -> np.ndarray:
    values = GRID if C is None else np.ravel(np.asarray(C, dtype=object))
    if not len(values) or not all(POSITIVE.accepts(value) for value in values):
        raise ValueError(f"C is {brief(C)}; pass positive numbers, such as [0.1, 1, 10].")
    return np.unique(np.array(values, dtype=float))


def _solvers(solver: Any, p) -> list[Any]:
    """Return one solver for every p."""
    if p is None:
        return solver.candidates()
    if "p" not in solver.get_params():
        raise ValueError(f"p is {brief(p)}, and {brief(solver)} has none; use LpNorm, or leave p out.")
    solvers = [clone(solver).set_params(p=value) for value in np.ravel(np.asarray(p, dtype=object)).tolist()]
    for one in solvers:
        one.check_params()
    if not solvers:
        raise ValueError("p is empty; pass numbers from 1 to 2, or leave it out.")
    return solvers


def _from_source(shell: Any, source, grid: np.ndarray, p, cv) -> SolutionPath:
    """Sum up over rows in files or on a cluster."""
    if not isinstance(cv, numbers.Integral) or isinstance(cv, bool) or cv < 2:
        raise ValueError(
            f"cv is {brief(cv)}; for rows in files and on clusters it is a number of folds, 2 or more."
        )
    opening = opened(shell, source, None, None)
    if not opening.solver.gram_once:
        raise ValueError(
            f"path sums up the features of rows in files and on clusters, and solver {brief(shell.solver)} does not; "
            "use LpNorm, Uniform or Alignment, or rows in memory."
        )
    rows, first, _ = opened_rows(opening)
    try:
        check_gram(shell.solver_, first, int(cv), shell._memory)
        once = GramOnce.over(rows, first, int(cv))
    finally:
        rows.close()
    return _Summed(shell, once).path(_solvers(shell.solver_, p), grid)


def _fitted(shell: Any, solver: Any, C: float, result: Result, problem: Problem) -> Any:
    """Return the model that a fit with this solver and C gives."""
    model = copy.copy(shell)
    model.set_params(C=C, solver=clone(solver))
    model.solver_ = solver
    model._store(result, C, problem)
    return model


class _Summed:
    """The path from sums over rows.

    Parameters
    ----------
    shell : MKL
        With everything that does not depend on C and p.
    once : GramOnce
    data : tuple, optional
        X, y, weights and splits, where these are in memory.
    """

    def __init__(self, shell: Any, once: GramOnce, data: tuple[Any, ...] | None = None):
        self.shell, self.once, self.data = shell, once, data
        self.per_target = shell._weighs_targets(once.first)
        if len(once.folds) < 2:
            raise ValueError("cv leaves rows in one fold only; pass more rows, or other folds.")
        # A fit on some of the rows takes the mean of its own targets off.
        self.folds = [
            (rest.about(y0), test.about(y0)) if shell._regresses else (rest, test)
            for rest, test in once.folds
            for y0 in [rest.means()]
        ]

    def path(self, solvers: Sequence[Any], grid: np.ndarray) -> SolutionPath:
        """Solve on all rows and on those of every fold, from the smallest C to the largest."""
        shape = len(solvers), len(grid)
        models = np.empty(shape, dtype=object)
        error = np.empty((*shape, len(self.folds)))
        score = np.empty(error.shape) if self.shell._regresses or self.data is not None else None
        for i, solver in enumerate(solvers):
            last: list[np.ndarray | None] = [None] * (1 + len(self.folds))
            for j, C in enumerate(grid.tolist()):
                solved = self._solve(solver, C, None, last, 0)
                models[i, j] = self._model(solver, C, solved)
                for k, (rest, test) in enumerate(self.folds):
                    with warnings.catch_warnings():  # the model on all rows says it
                        warnings.simplefilter("ignore", ConvergenceWarning)
                        solved = self._solve(solver, C, rest, last, k + 1)
                    errors = test.errors(solved.V)
                    error[i, j, k] = 0.5 * errors.sum() / test.weight
                    if score is not None:
                        score[i, j, k] = self._score(solver, C, solved, k, errors, test)
        return SolutionPath(
            grid, _norms(solvers), error, score, models, "R²" if self.shell._regresses else "accuracy"
        )

    def _solve(self, solver: Any, C: float, sums: Moments | None, last: list, at: int) -> Solved:
        solved = self.once.solve(solver, C, sums, init=last[at], per_target=self.per_target)
        last[at] = solved.theta()
        return solved

    def _model(self, solver: Any, C: float, solved: Solved) -> Any:
        result, first = self.once.whole(solved, C, {}), replace(self.once.first, C=C)
        made = copy.copy(self.shell)
        made.solver_ = solver
        return _fitted(self.shell, solver, C, calibrated(made, result, first), first)

    def _score(self, solver: Any, C: float, solved: Solved, k: int, errors, test: Moments) -> float:
        if self.shell._regresses:
            spread = test.spread()
            known = np.divide(errors, spread, out=(errors > 0).astype(float), where=spread > 0)
            return float(np.mean(1 - known))
        assert self.data is not None
        X, y, s, splits = self.data
        model = _fitted(self.shell, solver, C, self.once.whole(solved, C, {}), self.once.first)
        rows = splits[k][1]
        return model.score(_some(model, X, rows), y[rows], None if s is None else np.asarray(s)[rows])


def _norms(solvers: Sequence[Any]) -> np.ndarray:
    """Return the p of every solver, NaN where it has none."""
    found = [getattr(solver, "p", None) for solver in solvers]
    return np.array([np.nan if p is None else float(p) for p in found])


def _some(model: Any, X, rows: np.ndarray) -> Any:
    return _safe_split(model, X, None, rows)[0]


def _by_fits(shell: Any, data: tuple[Any, ...], solvers: Sequence[Any], grid: np.ndarray) -> SolutionPath:
    """Fit on all rows and on those of every fold, from the smallest C to the largest."""
    X, y, s, splits = data
    parts = [_Split(shell, X, y, s, *split) for split in splits]
    shape = len(solvers), len(grid)
    models, error = np.empty(shape, dtype=object), np.empty((*shape, len(parts)))
    score = np.empty(error.shape)
    for i, solver in enumerate(solvers):
        last: list[Any] = [None] * (1 + len(parts))
        for j, C in enumerate(grid.tolist()):
            model = clone(shell).set_params(C=C, solver=clone(solver))
            models[i, j] = last[0] = _fit(clone(model), X, y, s, last[0])
            for k, part in enumerate(parts):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    last[k + 1] = _fit(clone(model), *part.taught, last[k + 1])
                error[i, j, k], score[i, j, k] = _judged(last[k + 1], *part.judged)
    return SolutionPath(grid, _norms(solvers), error, score, models, "R²" if shell._regresses else "accuracy")


class _Split:
    """Rows, targets and weights that teach, and those that judge."""

    def __init__(self, model: Any, X, y, s, train: np.ndarray, test: np.ndarray):
        weights = [None if s is None else np.asarray(s)[rows] for rows in (train, test)]
        (X_there, y_there), (X_here, y_here) = (
            _safe_split(model, X, y, train),
            _safe_split(model, X, y, test, train),
        )
        self.taught: tuple[Any, Any, Any] = (X_there, y_there, weights[0])
        self.judged: tuple[Any, Any, Any] = (X_here, y_here, weights[1])


def _fit(model: Any, X, y, s, last: Any) -> Any:
    """Fit from the weights of the last fit on the same rows, where the solver takes any."""
    starts = last is not None and model.solver.accepts_init and last.weights_.ndim == 1
    init = last.weights_ * last.rho_**2 if starts and last.weights_.any() else None
    return model.fit(X, y, s, init=init)


def _judged(model: Any, X, y, s) -> tuple[float, float]:
    """Return the mean loss of rows and their score."""
    rows, Y, weights = model._training_data(X, y, s)
    F = model.result_.predictor.scores(rows) - model.target_mean_
    return float(weights @ model.loss_.value(Y, F)) / float(weights.sum()), model.score(X, y, s)
