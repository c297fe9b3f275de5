"""Folds: rows that teach and rows that judge, and the scores of rows by machines that have not seen them."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..combination import Combination
from ..machines import solve_primal
from ..problem import Problem
from .base import as_one_kernel, generator, machine_on
from .calibration import are_classes, class_numbers
from .log import Log

#: Refits that calibrate, and the rows beyond which one of them, without a fifth of the rows, is enough.
REFITS, REFIT_ROWS, FEW_REFIT_ROWS = 5, 2_000, 1_000

#: Where a row has this many equals, itself included, a table has cells: without a whole one nobody knows about it.
CELL_ROWS = 5


def folds(problem: Problem, count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the rows that teach and those that judge, fold by fold; none where no row can be spared.

    A group is in one fold whole; so are equal rows, unless a row has many, as in a table of categories. Classes
    are spread evenly, and a class of one row, or in one group only, always teaches. Rows without weight do neither.
    The folds are the same whatever the order of the rows.
    """
    used, unit = units(problem)
    label = _kinds(problem, used)
    free = ~np.isin(unit, unit[_alone(label, unit)])
    if len(np.unique(unit[free])) < 2:
        return []
    if problem.groups is None:
        parts = _split_equals(label[free], unit[free], count)
    else:
        parts = _split(label[free], unit[free], count)
    kept, free_rows = used[~free], used[free]
    return [
        (np.sort(np.concatenate([kept, free_rows[train]])), np.sort(free_rows[test]))
        for train, test in parts
        if len(test) and len(train) + len(kept)
    ]


def _kinds(problem: Problem, used: np.ndarray) -> np.ndarray:
    """Return the number of the class, or of what else there are kinds of, for some rows."""
    Y = problem.Y[used]
    strata = problem.loss.strata(Y)
    if strata is not None:
        return strata
    known = not problem.loss.regression or are_classes(problem.Y)
    return class_numbers(Y) if known else np.zeros(len(used), dtype=int)


def _split_equals(label: np.ndarray, unit: np.ndarray, count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Split as if equal rows were one, so that a repetition is the same as a weight."""
    _, first, which = np.unique(unit, return_index=True, return_inverse=True)
    parts = _split(label[first], np.arange(len(first)), count)
    return [tuple(np.flatnonzero(np.isin(which.ravel(), side)) for side in part) for part in parts]  # type: ignore[misc]


def units(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows with weight in an order of their own, not that of the table, and the unit each belongs to.

    A unit is what leaves together: a group, or rows with equal columns, unless a table has cells of them.
    """
    used = np.flatnonzero(problem.sample_weight > 0)
    rank = np.arange(len(used))
    if not problem.family.pairwise and problem.X.shape[1]:
        rank = np.unique(_words(problem.X[used]), return_inverse=True)[1].ravel()
        order = np.lexsort((*problem.Y[used].T, rank))
        used, rank = used[order], rank[order]
    if problem.groups is not None:
        return used, problem.groups[used]
    return used, np.arange(len(rank)) if _are_cells(rank) else rank


def has_cells(problem: Problem) -> bool:
    """Whether a row has many equals as a rule, as in a table of categories."""
    used = np.flatnonzero(problem.sample_weight > 0)
    return _are_cells(_words(problem.X[used]))


def _are_cells(rank: np.ndarray) -> bool:
    return len(np.unique(rank)) < len(rank) / CELL_ROWS


def _words(X) -> np.ndarray:
    """Return one value for every row, equal for equal rows."""
    if sp.issparse(X):
        X = sp.csr_array(X, copy=True)
        X.sum_duplicates()
        X.eliminate_zeros()
        parts = zip(X.indptr[:-1], X.indptr[1:], strict=True)
        rows = [X.indices[a:b].tobytes() + b"|" + X.data[a:b].tobytes() for a, b in parts]
        words = np.empty(len(rows), dtype=object)
        words[:] = rows
        return words
    X = np.ascontiguousarray(X) + 0.0  # a negative zero equals zero
    return X.view(np.dtype((np.void, X.itemsize * X.shape[1])))[:, 0]


def _alone(label: np.ndarray, unit: np.ndarray) -> np.ndarray:
    """Return whether a row's class is in one unit only, where there are several classes."""
    pairs = np.unique(np.column_stack([label, unit]), axis=0)
    units = np.bincount(pairs[:, 0], minlength=label.max(initial=0) + 1)
    return (units[label] < 2) & (np.count_nonzero(units) > 1)


def _split(label: np.ndarray, unit: np.ndarray, count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    # Here, as it takes a while, and many fits cut no folds.
    from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold

    n_units, classes = len(np.unique(unit)), np.bincount(label)
    grouped = n_units < len(unit)
    # Equal rows are one unit, with one of their labels: no class may be left with two.
    several = np.count_nonzero(classes) > 1 and classes.max() > 1
    count = min(count, n_units, int(classes.max()) if several else n_units)
    kind: Any
    if several:
        kind = (StratifiedGroupKFold if grouped else StratifiedKFold)(count, shuffle=True, random_state=0)
    else:
        kind = GroupKFold(count) if grouped else KFold(count, shuffle=True, random_state=0)
    with warnings.catch_warnings():  # a class of fewer rows than folds is no mistake here
        warnings.simplefilter("ignore", UserWarning)
        return list(kind.split(label, label, unit))


def some_rows(problem: Problem, most: int) -> Problem:
    """Return the problem on about `most` of its rows, or all; groups are whole, and classes have their shares."""
    if np.count_nonzero(problem.sample_weight) <= most:
        return problem
    used, unit = units(problem)
    rng = generator(0)
    shuffled = rng.permutation(len(used))
    label = _kinds(problem, used)
    # Where a row stands among those of its class: two of every class come first.
    place = np.empty(len(used))
    for k in np.unique(label):
        own = shuffled[label[shuffled] == k]
        place[own] = np.maximum(np.arange(len(own)) - 1, 0) / len(own)
    _, which = np.unique(unit, return_inverse=True)
    first = np.full(which.max() + 1, np.inf)
    np.minimum.at(first, which.ravel(), place)
    order = np.lexsort((which.ravel(), first[which.ravel()]))
    last = unit[order[most - 1]]
    size = max(most, int(np.flatnonzero(unit[order] == last)[-1]) + 1)  # the last group is whole
    chosen = np.sort(used[order[:size]])
    return problem.apart(chosen, chosen[:0])[0]


def left_out_at(problem: Problem, combination: Combination, A: np.ndarray | None = None) -> np.ndarray:
    """Return the scores of rows left out, by five machines on a kernel that is learned already, (n, c).

    Of many rows one machine leaves a fifth out; the others' scores are NaN. `A` has the dual coefficients of all rows,
    to start from. Of kernel matrices the sum alone is cut into parts, not all of them.
    """
    if problem.family.pairwise and len(combination.members):
        problem, combination = as_one_kernel(problem, combination)
    parts = folds(problem, REFITS)
    if np.count_nonzero(problem.sample_weight) > REFIT_ROWS:
        parts = parts[:1]
    scores = np.full(problem.Y.shape, np.nan)
    for train, test in parts:
        part, rows = problem.apart(train, test)
        start = None if A is None else A[train]
        if len(combination.members):
            scores[test] = machine_on(
                part, combination, Log(None, time.perf_counter()), start
            ).predictor.scores(rows)
        else:
            scores[test] = _constant(part)
    return scores


def _constant(problem: Problem) -> np.ndarray:
    """Return the intercept of a machine without kernels, which may be the best there is."""
    pb = problem
    fit = solve_primal(np.ones((pb.n_rows, 1)), pb.Y, pb.loss, pb.C, pb.sample_weight)
    assert fit.W is not None
    return fit.W[0]
