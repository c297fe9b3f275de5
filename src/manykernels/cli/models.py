"""Models for the command line: rows to learn from and to test on, an estimator, its fit and its score."""

from __future__ import annotations

import fnmatch
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from sklearn.model_selection import GroupShuffleSplit, train_test_split

from .. import MKLClassifier, MKLRegressor, Views
from ..families import Products
from ..registry import SOLVERS, is_auto, solver_class
from ..streaming import check_probabilities
from ..tables.reading import Table
from .beside import kept_beside
from .progress import watched
from .screens import count, note
from .tables import groups_of, is_class, named, open_table

#: Fewer rows than this are no table to learn from.
FEWEST_ROWS = 4
#: What --kernels may be.
KERNELS = ("auto", "gaussian", "laplacian", "linear", "products")


@dataclass(frozen=True)
class Rows:
    """A table that is read as a whole.

    Attributes
    ----------
    X : table or matrix
    y : (n,) array
        Labels, or numbers.
    names : list of str
        The columns to predict from.
    groups : (n,) array or None
    classify : bool
    described : str
        What there is, in one line.
    """

    X: Any
    y: np.ndarray
    names: list[str]
    groups: np.ndarray | None
    classify: bool
    described: str


def read_rows(
    data, target, task, *, roles: dict[str, Any], dialect: dict[str, str], any_kind: bool = True
) -> Rows:
    """Return a table that is read as a whole; `any_kind` says whether columns may hold text, dates and gaps."""
    sources, groups = groups_of_columns(roles.get("view")), roles.get("groups")
    source = open_table(data, target, roles, dialect, whole=True, any_kind=any_kind)
    rows = next(source.chunks(), None)
    if rows is None:
        raise ValueError(f"{data} has no rows.")
    classify = is_class([rows.y], target, task)
    _check_target(rows.y, target, classify, data)
    y = rows.y if rows.y.dtype.kind in "Ub" else rows.y.astype(int if classify else float)
    subjects, names = None if groups is None else groups_of(source, groups), list(source.names or ())
    kind = count(len(np.unique(y)), "class", "classes") if classify else "regression"
    sizes = f"{count(len(y), 'row')}, {count(len(names), 'column')}"
    _check_views(sources, names)
    X = Views.from_columns(rows.X, sources) if sources else rows.X
    if sources:
        sizes += f" in {count(len(sources), 'view')}"
    return Rows(X, y, names, subjects, classify, f"{data.name}: {sizes}, target {target} ({kind})")


def _refuse_views(roles: dict[str, Any]) -> None:
    if roles.get("view"):
        raise ValueError(
            "--view is for --kernels auto, which learns from several sources; leave one of them out."
        )


def _check_target(y: np.ndarray, target: str, classify: bool, data) -> None:
    """Refuse a target that there is nothing to learn of, or that is neither classes nor numbers."""
    if len(y) < FEWEST_ROWS:
        raise ValueError(
            f"{data} has {count(len(y), 'row')} with a target; at least {FEWEST_ROWS} are needed."
        )
    values, counts = np.unique(y, return_counts=True)
    if len(values) == 1:
        raise ValueError(
            f"Column {target!r} has the same value in every row, {values[0]}, so there is nothing to learn; name "
            "another with --target."
        )
    if classify and y.dtype.kind == "U" and np.sum(counts == 1) > len(y) / 2:
        raise ValueError(
            f"Column {target!r} holds {len(values):,} different texts in {len(y):,} rows, such as {str(values[0])!r}, "
            "so it is neither classes nor numbers; write numbers without units, or name another with --target."
        )


def _check_views(sources: dict[str, Any], names: Sequence[str]) -> None:
    """Refuse views that no column belongs to, by their names."""
    empty = []
    for view, patterns in sources.items():
        several = [patterns] if isinstance(patterns, str) else patterns
        if not any(fnmatch.fnmatchcase(name, pattern) for name in names for pattern in several):
            empty.append(f"{view}={','.join(several)}")
    if empty:
        have = ", ".join(names[:8]) + (" and more" if len(names) > 8 else "")
        raise ValueError(f"--view {' and '.join(empty)} matches no column; there are {have}.")


def groups_of_columns(views: Sequence[str] | None) -> dict[str, Any]:
    """Return the patterns of columns that --view gives names to, such as rna=rna_*,prot_*."""
    found: dict[str, Any] = {}
    for text in views or ():
        name, sign, patterns = text.partition("=")
        if not name or not sign or not patterns:
            raise ValueError(f"--view is {text!r}; write a name and a pattern of columns, as in rna=rna_*.")
        if name in found:
            raise ValueError(f"--view has {name!r} twice; write its patterns with commas between them.")
        several = [pattern for pattern in patterns.split(",") if pattern]
        found[name] = several[0] if len(several) == 1 else several
    return found


def fit_at_once(
    data, target, task, *, standardize, test_size, seed, described, in_order=False, **reading
) -> tuple[Any, dict[str, Any]]:
    """Return a model fitted to a table that is read as a whole, and what to keep beside it."""
    kernels = described["kernels"]
    scaled, any_kind = scales(kernels, standardize), reads_tables(kernels)
    if not any_kind:
        _refuse_views(reading["roles"])
    if kernels == "products" and standardize:  # in memory they scale by themselves, and take text and dates
        scaled, any_kind = False, True
    rows = read_rows(data, target, task, any_kind=any_kind, **reading)
    X, y, names = rows.X, rows.y, rows.names
    train, test = split(len(y), y if rows.classify else None, test_size, seed, rows.groups, in_order=in_order)
    if not in_order and (dates := dates_in_order(X)):
        note(
            f"The rows are in the order of {dates[0]}, and those that score the model lie among the others; with "
            "--in-order they are the last ones, as where later rows are to be predicted."
        )
    units = moments(X[train]) if scaled else None
    model = make_model(rows.classify, seed=seed, standardize=standardize, **described)

    def part(some):
        return (
            X[some]
            if any_kind
            else named(X[some] if units is None else (X[some] - units[0]) / units[1], names)
        )

    options = {} if rows.groups is None else {"groups": rows.groups[train]}
    told = {"Table": rows.described, "Rows": f"{len(train):,} to learn from, {len(test):,} to score"}
    seconds = fit_visibly(model, part(train), y[train], told, **options)
    score = held_out(model, part(test), y[test], y[train])
    return model, kept_beside(target, names, units, len(train), seconds, score)


def reads_tables(kernels: str) -> bool:
    """Whether columns may hold text, dates and gaps."""
    return kernels == "auto"


def scales(kernels: str, standardize: bool) -> bool:
    """Whether columns are brought to mean 0 and deviation 1 before the fit."""
    if not reads_tables(kernels):
        return standardize
    if not standardize:
        raise ValueError(
            "--no-standardize is given, and --kernels auto brings every column to a unit of its own; leave it out, or "
            "name kernels such as --kernels gaussian."
        )
    return False


def check_test_size(test_size: float) -> None:
    """Refuse a --test-size that is no share."""
    if not 0 <= test_size < 1:
        raise ValueError(f"--test-size is {test_size:g}; use a share of at least 0 and below 1.")


def split(n, labels, test_size, seed, groups=None, *, in_order=False) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of the training and of the test rows.

    Classes keep their proportions; if there are groups, those stay together instead. The training rows are in the order
    drawn, as `train_test_split` has them: solvers of many rows judge bandwidths by rows that follow each other, and of
    rows in their order those would be unlike any row that is tested. With `in_order` the last rows are tested, and the
    others keep their order.
    """
    check_test_size(test_size)
    if in_order:
        return _last(n, test_size, groups)
    if test_size == 0:
        return np.random.default_rng(seed).permutation(n), np.arange(0)
    if groups is not None:
        if len(np.unique(groups)) < 3:
            raise ValueError(
                "--groups holds fewer than three groups, and one is held out for the score; fit on all rows with "
                "--test-size 0."
            )
        drawn = GroupShuffleSplit(1, test_size=test_size, random_state=seed)
        train, test = next(drawn.split(np.zeros(n), groups=groups))
        return np.sort(train), np.sort(test)
    if labels is not None:
        values, counts = np.unique(labels, return_counts=True)
        if counts.min() < 2:
            raise ValueError(
                f"Class {values[counts.argmin()]} has a single row, so it cannot be both fitted and tested; "
                "remove it, or fit on all rows with --test-size 0."
            )
    try:
        train, test = train_test_split(np.arange(n), test_size=test_size, random_state=seed, stratify=labels)
    except ValueError:
        raise ValueError(
            f"--test-size is {test_size:g}, and of {count(n, 'row')} that leaves too few to learn from or to test on; "
            "use another share, or 0 to fit on all rows."
        ) from None
    return train, np.sort(test)


def _last(n: int, test_size: float, groups) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows before the last ones, and those."""
    if groups is not None:
        raise ValueError(
            "--in-order holds out the last rows, and --groups whole groups; leave one of them out."
        )
    cut = n - math.ceil(test_size * n)
    if cut < FEWEST_ROWS:
        raise ValueError(
            f"--test-size is {test_size:g}, and of {count(n, 'row')} that leaves {cut} to learn from; use a smaller "
            "share."
        )
    return np.arange(cut), np.arange(cut, n)


def dates_in_order(X) -> list[str]:
    """Return the columns of dates that rise or fall from row to row, and are known in every row."""
    found = []
    for j, name in enumerate(X.names if isinstance(X, Table) and X.matrix is None else ()):
        column = X.read(j)
        steps = np.diff(column.values) if column.held == "date" else np.zeros(0)
        if steps.any() and ((steps >= 0).all() or (steps <= 0).all()):
            found.append(name)
    return found


def moments(X) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and deviation of every column; a constant one is left at its scale."""
    return X.mean(axis=0), scale_of(X.std(axis=0), np.abs(X).max(axis=0))


def scale_of(deviation: np.ndarray, largest: np.ndarray) -> np.ndarray:
    """Return what to divide columns by: their deviation, or 1 where rounding is all there is of it."""
    return np.where(deviation > 1e-12 * largest, deviation, 1.0)


def make_model(classify, *, kernels, degree, solver, p, max_iter, loss, C, memory, seed, standardize=True):
    """Return the estimator that the options describe; `standardize` whether products may scale their columns."""
    if kernels not in KERNELS:
        raise ValueError(f"--kernels is {kernels}; use {', '.join(KERNELS[:-1])} or {KERNELS[-1]}.")
    if degree is not None and kernels != "products":
        raise ValueError("--degree is for --kernels products; add that, or leave --degree out.")
    if kernels == "products":
        kernels = Products(
            degree=2 if degree is None else degree, standardize="auto" if standardize else False
        )
    return (MKLClassifier if classify else MKLRegressor)(
        kernels,
        solver=_make_solver(solver, p, max_iter),
        loss=loss.lower().replace("-", "_"),
        C=_cost(C),
        memory=memory,
        random_state=seed,
    )


def _cost(C: str) -> float | Literal["auto"]:
    """Return what --C says."""
    if is_auto(C):
        return "auto"
    try:
        return float(C)
    except ValueError:
        raise ValueError(f"--C is {C}; use a positive number, or auto.") from None


def _make_solver(name: str, p: float | None, max_iter: int | None) -> Any:
    """Return a solver with the options that were given; the name where there are none, or it is unknown."""
    given = {key: value for key, value in (("p", p), ("max_iter", max_iter)) if value is not None}
    if is_auto(name) and p is not None:
        name = "lp-norm"
    cls = solver_class(name)
    if not given or (cls is None and not is_auto(name)):
        return name  # the estimator says which names there are
    for key in given:
        if cls is None or key not in cls().get_params():
            raise ValueError(
                f"--{key.replace('_', '-')} is for --solver {_solvers_with(key)}; {name} does not have it."
            )
    assert cls is not None
    return cls().set_params(**given)


def _solvers_with(parameter: str) -> str:
    names = sorted(name.replace("_", "-") for name, cls in SOLVERS.items() if parameter in cls().get_params())
    return " or ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def fit_visibly(model, X, y, told: dict[str, str] | None = None, **options) -> float:
    """Fit with a plan and progress, and return the seconds it took.

    What a solver warns of is printed as a note; `told` begins the plan, `options` are those of ``fit``.
    """
    started = time.perf_counter()
    with watched(told):
        model.fit(X, y, **options)
    return time.perf_counter() - started


def held_out(model, X, y, y_train) -> dict[str, Any] | None:
    """Return the score on the test rows, beside that of the best constant for classes."""
    if len(y) == 0:
        return None
    classify = hasattr(model, "classes_")
    score = {"name": "accuracy" if classify else "R²", "value": float(model.score(X, y)), "n_rows": len(y)}
    if classify:
        values, counts = np.unique(y_train, return_counts=True)
        score["constant"] = float(np.mean(y == values[counts.argmax()]))
    return score


def check_model(model, path, *, proba: bool) -> None:
    """Refuse a model that cannot predict what is asked for, and say why in terms of the command line."""
    if not hasattr(model, "predict"):
        raise ValueError(f"{path} is a kernel, which predicts nothing by itself; use it from Python.")
    if model.combination_.family.pairwise:
        raise ValueError(f"{path} needs precomputed kernels; use it from Python.")
    if not proba:
        return
    if not hasattr(model, "classes_"):
        raise ValueError(f"{path} predicts numbers, which have no probabilities; leave --proba out.")
    check_probabilities(model)
