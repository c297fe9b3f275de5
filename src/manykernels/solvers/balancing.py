"""Rows that lack views: whether what is left of a row should stand for the whole.

Sources that tell the same should: with q the share of the weight whose views a row has, the sum of kernels is divided
by √(q(x) q(z)). Sources whose effects add up should not: what one of them says is no more for another's being away.
Rows left out tell which it is. Where no training row lacks a view rows to come may, and what is left of rows left out
when their views are taken away one by one tells it as well; the machine on the training rows is the same either way.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import lapack

from ..combination import Combination
from ..families.union import Union
from ..families.view import View
from ..problem import Problem
from .bandwidth_learning.left_out import Rows, criterion_of, factored, inverse_of, leave_out, softmax_loss

#: Most rows that are looked at, those of them whose views are taken away, and the ridges λ = 1/C that are tried.
MOST_ROWS, FEW_ROWS, RIDGES = 800, 400, 10.0 ** np.arange(-3, 2)


def balanced_if_better(problem: Problem, combination: Combination) -> Combination:
    """Return the combination, balanced where rows that lack views, now or later, are predicted better so."""
    pays = balance_pays(problem, combination) or balance_will_pay(problem, combination)
    return combination.balanced() if pays else combination


def balance_pays(problem: Problem, combination: Combination) -> bool:
    """Whether rows lack views, and those left out of a ridge machine have a smaller error with the balanced kernel.

    Without targets there is no error, and what is left of a row stands for the whole. O(n³), n at most 800 rows.
    """
    if not (isinstance(problem.family, Union) and problem.family.lacks(problem.X)):
        return False
    if not problem.loss.has_targets:
        return True
    X, rows = _some_rows(problem, MOST_ROWS)

    def error(kernel: Combination) -> float:
        K = kernel.gram(X)
        K = K / max(float(np.mean(np.diagonal(K))), np.finfo(float).tiny)
        return min(leave_out(K, float(ridge), rows, gradient=False).error for ridge in RIDGES)

    return error(combination.balanced()) < error(combination)


def balance_will_pay(problem: Problem, combination: Combination) -> bool:
    """Whether rows left out of which each view is taken away in turn have a smaller error with the balanced kernel.

    For training rows that have all views. With H the inverse of the ridge machine's matrix and α = HY, row t is left
    out with α - H_:t α_t/H_tt, of which the share of a view is (K_v α)_t - (K_v H)_tt α_t/H_tt. O(views · n³) for at
    most 400 rows.
    """
    family = problem.family
    if not (isinstance(family, Union) and problem.loss.has_targets) or family.lacks(problem.X):
        return False
    theta, names = combination.weights * combination.rho**2, _view_names(family, combination)
    used = [name for name in dict.fromkeys(names.tolist()) if name is not None and theta[names == name].any()]
    if len(used) < 2:
        return False
    X, rows = _some_rows(problem, FEW_ROWS)
    K = combination.gram(X)
    unit = max(float(np.mean(np.diagonal(K))), np.finfo(float).tiny)
    ridge = min(RIDGES, key=lambda r: leave_out(K / unit, float(r), rows, gradient=False).error)
    factor = factored(K / unit, ridge / rows.s)
    H, alpha = inverse_of(factor), lapack.dpotrs(factor, rows.Y, lower=1)[0]
    out = alpha / np.diagonal(H)[:, None]
    whole, offset = rows.Y - out, alpha.sum(axis=0) - H.sum(axis=1)[:, None] * out
    left, stretched = [whole], [whole]
    for name in used:
        own = np.flatnonzero(names == name)
        K_v = (
            family.gram(X, X, [combination.members[i] for i in own.tolist()], combination.weights[own]) / unit
        )
        rest = whole - offset - (K_v @ alpha - np.einsum("ij,ji->i", K_v, H)[:, None] * out)
        left.append(offset + rest)
        stretched.append(offset + rest / np.sqrt(1.0 - theta[own].sum() / theta.sum()))
    return _pooled_error(stretched, rows) < _pooled_error(left, rows)


def _view_names(family: Union, combination: Combination) -> np.ndarray:
    """Return the name of the view that each member is on, None where it is on none."""
    names = [part.name if isinstance(part, View) else None for part in family.families()]
    return np.array([names[k] for k, _ in combination.members], dtype=object)


def _some_rows(problem: Problem, most: int) -> tuple[np.ndarray, Rows]:
    """Return at most so many of the rows with weight, and their targets."""
    some = np.flatnonzero(problem.sample_weight > 0)
    if len(some) > most:
        some = some[np.linspace(0, len(some) - 1, most).astype(int)]
    X, s = problem.X[some], problem.sample_weight[some]
    Y = problem.loss.residuals(problem.Y[some], s)
    return X, Rows.plain(Y, s / s.mean(), criterion_of(Y))


def _pooled_error(scores: list[np.ndarray], rows: Rows) -> float:
    """Return the error of several scores of the same rows; of classes with one temperature for all of them."""
    F, Y, s = np.concatenate(scores), np.tile(rows.Y, (len(scores), 1)), np.tile(rows.s, len(scores))
    if rows.criterion == "softmax":
        return softmax_loss(F, Y, s)[0]
    return float(s @ np.square(Y - F).sum(axis=1))
