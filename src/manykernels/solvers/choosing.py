"""C by rows left out: in closed form where the machine is a ridge on a learned kernel, by folds elsewhere.

A two-stage solver learns the kernel once, as C has no part in that; only its machine is tried with many C. With the
squared loss one decomposition of the kernel matrix gives the error of every row left out for all C. Any other solver is
run on folds, from small C to large, each run from the weights of the last where it takes any.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import eigh

from ..combination import Combination
from ..problem import Problem
from .base import NothingAligned, Solver, TwoStageSolver, any_kernel, generator, machine_on
from .log import Log

#: What is tried: by closed form, and by folds.
FINE, COARSE = 10.0 ** np.arange(-3.0, 6.01, 0.25), 10.0 ** np.arange(-2.0, 4.01)
#: Folds, and fewer of them for more rows than this.
FOLDS, FEW_FOLDS, FEW_FOLDS_ROWS = 5, 3, 3_000
#: Rows beyond which a decomposition takes longer than folds.
DECOMPOSED_ROWS = 3_000
#: Errors this close, relatively, are one: the smaller C is taken.
SAME = 1e-6


@dataclass(frozen=True, eq=False)
class Choice:
    """What was tried and found.

    Attributes
    ----------
    C : float
    tried : (k,) array
    errors : (k,) array
        The mean error of rows left out: squares for numbers, wrong labels for classes.
    """

    C: float
    tried: np.ndarray
    errors: np.ndarray


def choose_C(solver: Solver, problem: Problem) -> Choice:
    """Return the C with the least error of rows left out; of equal ones the smallest.

    O(n³) for two stages and the squared loss; otherwise folds × values of C runs on most of the rows.
    """
    if isinstance(solver, TwoStageSolver):
        try:
            combination = solver.learn(problem)
        except NothingAligned:
            combination = any_kernel(problem)
        if problem.loss.name == "squared" and problem.n_rows <= DECOMPOSED_ROWS:
            return _best(FINE, _in_closed_form(problem, combination))
        return _best(
            COARSE,
            _by_folds(problem, COARSE, lambda part, init: machine_on(part, combination, Log(None, 0.0))),
        )
    errors = _by_folds(problem, COARSE, lambda part, init: solver.solve(part, init=init))
    return _best(COARSE, errors)


def _best(tried: np.ndarray, errors: np.ndarray) -> Choice:
    least = float(np.nanmin(errors)) if np.isfinite(errors).any() else 0.0
    good = np.flatnonzero(errors <= least * (1 + SAME) + np.finfo(float).tiny)
    return Choice(float(tried[good[0]]) if len(good) else 1.0, tried, errors)


def _in_closed_form(problem: Problem, combination: Combination) -> np.ndarray:
    """Return the mean squared error of rows left out for every C, from one decomposition.

    With S = √s, S(K + 11ᵀ)S = Q diag(w) Qᵀ and H = (K + 11ᵀ + diag(1/(Cs)))⁻¹ = S Q diag(1/(w + 1/C)) Qᵀ S.
    """
    used = problem.sample_weight > 0
    s = problem.sample_weight[used]
    X = problem.X[np.ix_(used, used)] if problem.family.pairwise else problem.X[used]
    root = np.sqrt(s)
    w, Q = eigh((combination.gram(X) + 1.0) * np.multiply.outer(root, root))
    w, T = np.maximum(w, 0.0), Q.T @ (root[:, None] * problem.Y[used])
    errors = []
    for C in FINE:
        inner = 1.0 / (w + 1.0 / C)
        alpha = root[:, None] * (Q @ (inner[:, None] * T))
        h = s * (np.square(Q) @ inner)
        errors.append(float(s @ _wrong(problem, problem.Y[used], problem.Y[used] - alpha / h[:, None])))
    return np.array(errors) / s.sum()


def _by_folds(problem: Problem, tried: np.ndarray, run) -> np.ndarray:
    """Return the mean error of rows left out for every C, from runs on folds."""
    totals, mass = np.zeros(len(tried)), 0.0
    for train, test, Xt in _folds(problem):
        init, s = None, problem.sample_weight[test]
        for k, C in enumerate(tried):
            result = run(replace(train, C=float(C), choose_C=False), init)
            totals[k] += float(s @ _wrong(problem, problem.Y[test], result.predictor.scores(Xt)))
            init = _weights_of(result.combination, train)
        mass += float(s.sum())
    return totals / max(mass, np.finfo(float).tiny)


def _weights_of(combination: Combination, train: Problem) -> np.ndarray | None:
    """Return θ of all members of a list, to start the next run from."""
    theta = combination.weights * combination.rho**2
    return theta if len(theta) == train.family.size() and theta.any() else None


def _folds(problem: Problem) -> Iterator[tuple[Problem, np.ndarray, np.ndarray]]:
    """Yield training problems, the numbers of their test rows, and these rows; classes are spread evenly."""
    used = np.flatnonzero(problem.sample_weight > 0)
    count = min(FOLDS if len(used) <= FEW_FOLDS_ROWS else FEW_FOLDS, len(used))
    order = generator(0).permutation(len(used))
    if not problem.loss.regression or _are_classes(problem.Y):
        label = problem.Y[used[order]] @ np.arange(1.0, 1 + problem.n_outputs)
        order = order[np.argsort(label, kind="stable")]
    fold = np.empty(len(used), dtype=int)
    fold[order] = np.arange(len(used)) % max(count, 1)
    for k in range(count):
        train, test = used[fold != k], used[fold == k]
        if not len(train):
            return
        part, rows = problem.apart(train, test)
        yield part, test, rows


def _are_classes(Y: np.ndarray) -> bool:
    return bool(np.isin(Y, (-1.0, 0.0, 1.0)).all())


def _wrong(problem: Problem, Y: np.ndarray, F: np.ndarray) -> np.ndarray:
    """Return the error of every row: its square, or whether its label is wrong."""
    if not _are_classes(problem.Y):
        return np.square(Y - F).sum(axis=1)
    if Y.shape[1] == 1:
        return (Y[:, 0] * F[:, 0] <= 0).astype(float)
    return (Y.argmax(axis=1) != F.argmax(axis=1)).astype(float)
