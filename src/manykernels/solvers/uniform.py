"""The baselines that must be beaten: all kernels alike, and the best single kernel."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from .._util.allowance import limited, most_work
from .._util.checks import number
from .._util.interrupts import trying
from ..combination import Combination
from ..families.base import Enumerable
from ..families.finite import Finite
from ..problem import Problem
from .base import ROUNDING, Solver, TwoStageSolver, result_of
from .gram_once import SolvesGrams
from .log import Log
from .loop import Descent, less_work, relative_gap, small_gap, warn_early, warn_interrupted
from .workspace import Iterate, Workspace

#: Values of kernels that `Single` looks at, at the most.
MOST_VALUES = 2e12
#: Rows that what a step does with the bounds of all kernels is worth, however few there are.
LEAST_ROWS = 1000
#: Families up to this size are listed, so that the table shows every kernel; larger ones use a closed form.
LONGEST_TABLE = 2000


class Uniform(SolvesGrams, TwoStageSolver):
    """Equal weights, the case p = 2: a plain sum of the scaled kernels.

    minimise (1/n) Σ s_t ℓ(y_t, f(x_t)) + (λ/2) (Σ_i ρ_i² ‖w_i‖² + ‖b‖²).

    Any loss. Needs a family that can be listed; on Products with ``normalize="base"`` the sum of all
    members, however many, has a closed form of cost O(n² r D)
    (:class:`~manykernels.families.products.product_sum.ProductSum`).

    Attributes
    ----------
    p : float
        2, the norm of the objective.
    """

    requires = (Enumerable,)
    takes_joint = True
    prefers_base_scale = True
    p = 2.0

    def learn(self, problem: Problem) -> Combination:
        """Return the sum of all kernels over their squared scale."""
        family: Any = problem.family
        closed = in_closed_form(problem) if family.size() > LONGEST_TABLE else None
        if closed is not None:
            return closed
        members = family.members()
        rho_sq = problem.scale.rho_sq(members, self.p)
        weights = np.divide(1.0, rho_sq, out=np.zeros(len(members)), where=rho_sq > 0)
        return Combination(family, members, weights, np.sqrt(rho_sq))


def in_closed_form(problem: Problem) -> Combination | None:
    """Return the sum of all products of a family as one kernel, where it has a closed form."""
    family: Any = problem.family
    total = None if problem.scale.base is None else family.total(problem.scale.base)
    if total is None:
        return None
    one = Finite([total]).resolve(problem.X.shape[1])
    return Combination(one, [0], np.ones(1), np.ones(1))


class Single(Solver):
    """The best single kernel, by the objective.

    minimise over i and f in H_i:  (1/n) Σ s_t ℓ(y_t, f(x_t)) + (λ/2) (ρ_i² ‖f‖² + ‖b‖²).

    One machine per kernel, each with its gap over all of them: m machines and O(m² n); any loss; needs a family that
    can be listed. The gap reported is that of the convex problem with p = 1 over all kernels: what a combination could
    still gain.

    Parameters
    ----------
    tol : float
        Relative gap below which the single kernel counts as optimal among all combinations.

    Attributes
    ----------
    p : float
        1, the norm of the gap.
    """

    requires = (Enumerable,)
    takes_joint = True
    rules: ClassVar = {"tol": number()}
    p = 1.0

    def __init__(self, tol=1e-3):
        self.tol = tol

    def solve(self, problem, init=None, on_iteration=None):
        """Fit every kernel alone and keep the best; of equals, the first."""
        self.check_params()
        log = Log(on_iteration, time.perf_counter())
        _refuse_vast(problem.family.size(), problem.n_rows)
        work = Workspace.over_all(problem, self.p)
        descent = Descent(None, ROUNDING * work.start_value(), log=log, later=False)
        try:
            with limited(most_work(problem.n_rows)):
                descent.run(_each_alone(work))
        except KeyboardInterrupt:  # not even one kernel is done
            if trying():
                raise
            descent.best, descent.interrupted = work.nothing(), True
        best = descent.answer
        if descent.interrupted:
            warn_interrupted(descent.n_iter, "kernels", relative_gap(best.gap, best.objective, descent.floor))
        elif descent.exhausted:
            gap = relative_gap(best.gap, best.objective, descent.floor)
            warn_early(self, descent.n_iter, f"of {work.n_members:,} kernels", gap, less_work(problem))
        converged = small_gap(best, self.tol, descent.floor)
        result = result_of(
            work.predictor(best), best, log.trace(), n_iter=descent.n_iter, converged=converged
        )
        early = descent.interrupted or descent.stopped or descent.exhausted
        return replace(result, ending=descent.ending if early else None)


def _refuse_vast(m: int, n: int) -> None:
    """Raise ValueError for more kernels than could be compared within an hour or so."""
    if m * m * max(n, LEAST_ROWS) > MOST_VALUES:
        raise ValueError(
            f"solver Single fits each of {m:,} kernels alone and looks at all of them every time, {m * m * n:.0e} "
            "values; use Greedy(max_kernels=1), or fewer kernels."
        )


def _each_alone(work: Workspace) -> Iterator[Iterate]:
    for i in np.flatnonzero(work.alive):
        theta = np.zeros(work.n_members)
        theta[i] = 1.0
        yield work.evaluate(theta)
