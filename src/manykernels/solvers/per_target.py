"""Several targets with kernel weights of their own: one problem per target, on the same kernels and rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..combination import TargetCombination
from ..predictors import PerTarget
from ..problem import Problem, Result, Trace


def of_targets(problem: Problem, chosen: np.ndarray) -> Problem:
    """Return the problem of some of the targets."""
    return replace(problem, Y=problem.Y[:, chosen], loss=problem.loss.output(chosen))


def joined(
    problem: Problem, solved: Sequence[tuple[np.ndarray, Result]], *, balanced: bool = False
) -> Result:
    """Return results on the same members, each with the numbers of its targets, as one: objective and gap are sums.

    `balanced` says whether each target's kernels were balanced by its weights. The trace has the objective and the gap
    of every result, in order.
    """
    results = [result for _, result in solved]
    order = np.argsort(np.concatenate([targets for targets, _ in solved]))
    first = results[0].combination

    def per_target(values: Sequence[Any]) -> np.ndarray:
        rows = [np.tile(v, (len(targets), 1)) for v, (targets, _) in zip(values, solved, strict=True)]
        return np.concatenate(rows)[order]

    norms = [r.combination.norms for r in results]
    combination = TargetCombination(
        problem.family,
        first.members,
        per_target([r.combination.weights for r in results]),
        first.rho,
        None if any(u is None for u in norms) else per_target(norms),
        balances=balanced,
    )
    A = np.hstack([_dual(r) for r in results])[:, order]
    intercept = np.concatenate([r.intercept for r in results])[order]
    rows = first.family.support(problem.X, np.arange(problem.n_rows))
    trace = Trace(
        tuple(r.objective for r in results),
        tuple(r.gap for r in results),
        tuple(r.trace.seconds[-1] if len(r.trace) else 0.0 for r in results),
        tuple(int(np.count_nonzero(r.combination.weights)) for r in results),
    )
    return Result(
        predictor=PerTarget(combination, rows, A, intercept),
        combination=combination,
        objective=float(sum(r.objective for r in results)),
        gap=float(sum(r.gap for r in results)),
        gap_kind=results[0].gap_kind,
        n_iter=max(r.n_iter for r in results),
        converged=all(r.converged for r in results),
        trace=trace,
        dual_coef=A,
        intercept=intercept,
    )


def _dual(result: Result) -> np.ndarray:
    assert result.dual_coef is not None  # machines on all rows have them
    return result.dual_coef
