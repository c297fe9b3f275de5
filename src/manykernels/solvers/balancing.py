"""Rows that lack views: whether what is left of a row should stand for the whole.

Sources that tell the same should: with q the share of the weight whose views a row has, the sum of kernels is divided
by √(q(x) q(z)). Sources whose effects add up should not: what one of them says is no more for another's being away.
Rows left out tell which it is.
"""

from __future__ import annotations

import numpy as np

from ..combination import Combination
from ..families.union import Union
from ..problem import Problem
from .bandwidth_learning.left_out import Rows, criterion_of, leave_out

#: Most rows that are looked at, and the ridges λ = 1/C that both kernels are tried with.
MOST_ROWS, RIDGES = 800, 10.0 ** np.arange(-3, 2)


def balanced_if_better(problem: Problem, combination: Combination) -> Combination:
    """Return the combination, balanced where rows lack views and rows left out are predicted better so."""
    return combination.balanced() if balance_pays(problem, combination) else combination


def balance_pays(problem: Problem, combination: Combination) -> bool:
    """Whether rows lack views, and those left out of a ridge machine have a smaller error with the balanced kernel.

    Without targets there is no error, and what is left of a row stands for the whole. O(n³), n at most 800 rows.
    """
    if not (isinstance(problem.family, Union) and problem.family.lacks(problem.X)):
        return False
    if not problem.loss.has_targets:
        return True
    some = np.flatnonzero(problem.sample_weight > 0)
    if len(some) > MOST_ROWS:
        some = some[np.linspace(0, len(some) - 1, MOST_ROWS).astype(int)]
    X, s = problem.X[some], problem.sample_weight[some]
    Y = problem.loss.residuals(problem.Y[some], s)
    rows = Rows.plain(Y, s / s.mean(), criterion_of(Y))

    def error(kernel: Combination) -> float:
        K = kernel.gram(X)
        K = K / max(float(np.mean(np.diagonal(K))), np.finfo(float).tiny)
        return min(leave_out(K, float(ridge), rows, gradient=False).error for ridge in RIDGES)

    return error(combination.balanced()) < error(combination)
