"""Models for the command line: rows to learn from and to test on, an estimator, its fit and its score."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from .. import MKLClassifier, MKLRegressor
from ..families import Products
from ..registry import SOLVERS, is_auto, solver_class
from ..streaming import check_probabilities
from .screens import note, say, stderr
from .tables import choose_columns, features_of, named, read_numbers, read_table, read_target

#: What --kernels may be.
KERNELS = ("gaussian", "laplacian", "linear", "products")


def fit_at_once(
    data, target, task, *, columns, drop, standardize, test_size, seed, described
) -> tuple[Any, dict[str, Any]]:
    """Return a model fitted to a table that is read as a whole, and what to keep beside it."""
    table = read_table(data)
    y, classify = read_target(table, target, task)
    names = choose_columns(table, target, columns, drop)
    X = read_numbers(table, names)
    train, test = split(len(y), y if classify else None, test_size, seed)
    mean, scale = moments(X[train]) if standardize else (np.zeros(len(names)), np.ones(len(names)))
    Z = (X - mean) / scale
    model = make_model(classify, seed=seed, **described)
    kind = f"{len(np.unique(y))} classes" if classify else "regression"
    say(f"{data.name}: {len(y):,} rows, {len(names)} columns, target {target} ({kind})")
    seconds = fit_visibly(model, named(Z[train], names), y[train])
    score = held_out(model, named(Z[test], names), y[test], y[train])
    return model, kept_beside(target, names, mean, scale, len(train), seconds, score)


def kept_beside(target, columns, mean, scale, n_train, seconds, score) -> dict[str, Any]:
    """Return what a model file keeps beside the model."""
    return {
        "target": target,
        "columns": columns,
        "mean": mean,
        "scale": scale,
        "n_train": n_train,
        "seconds": seconds,
        "score": score,
    }


def split(n, labels, test_size, seed) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of the training and of the test rows; classes keep their proportions."""
    if test_size == 0:
        return np.arange(n), np.arange(0)
    if not 0 < test_size < 1:
        raise ValueError(f"--test-size is {test_size:g}; use a share between 0 and 1.")
    if labels is not None:
        values, counts = np.unique(labels, return_counts=True)
        if counts.min() < 2:
            raise ValueError(
                f"Class {values[counts.argmin()]} has a single row, so it cannot be both fitted and tested; "
                "remove it, or fit on all rows with --test-size 0."
            )
    train, test = train_test_split(np.arange(n), test_size=test_size, random_state=seed, stratify=labels)
    return np.sort(train), np.sort(test)


def moments(X) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and deviation of every column; a constant one is left at its scale."""
    deviation = X.std(axis=0)
    return X.mean(axis=0), np.where(deviation > 1e-12 * np.abs(X).max(axis=0), deviation, 1.0)


def make_model(classify, *, kernels, degree, solver, p, max_iter, loss, C, seed):
    """Return the estimator that the options describe."""
    if kernels not in KERNELS:
        raise ValueError(f"--kernels is {kernels}; use {', '.join(KERNELS[:-1])} or {KERNELS[-1]}.")
    if degree is not None and kernels != "products":
        raise ValueError("--degree is for --kernels products; add that, or leave --degree out.")
    if kernels == "products":
        kernels = Products(degree=2 if degree is None else degree)
    return (MKLClassifier if classify else MKLRegressor)(
        kernels,
        solver=_make_solver(solver, p, max_iter),
        loss=loss.lower().replace("-", "_"),
        C=C,
        random_state=seed,
    )


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


def fit_visibly(model, X, y, **options) -> float:
    """Fit with a line of progress on a terminal, and return the seconds it took.

    What a solver warns of is printed as a note; `options` are those of ``fit``.
    """
    started = time.perf_counter()
    with noted(), stderr().status("Fitting ...") as status:

        def report(step):
            gap = step.gap / max(abs(step.objective), 1e-300)
            kernels = f"{step.n_kernels:,} kernel{'s' if step.n_kernels != 1 else ''}"
            status.update(f"Fitting: iteration {step.iteration}, relative gap {gap:.1e}, {kernels}")

        model.fit(X, y, on_iteration=report, **options)
    return time.perf_counter() - started


@contextmanager
def noted() -> Iterator[None]:
    """Print what is warned of as notes, in the end."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield
    for warning in caught:
        if issubclass(warning.category, UserWarning):
            note(warning.message)


def held_out(model, X, y, y_train) -> dict[str, Any] | None:
    """Return the score on the test rows, beside that of the best constant for classes."""
    if len(y) == 0:
        return None
    classify = hasattr(model, "classes_")
    score = {
        "name": "accuracy" if classify else "R²",
        "value": float(model.score(X, y)),
        "n_rows": len(y),
    }
    if classify:
        values, counts = np.unique(y_train, return_counts=True)
        score["constant"] = float(np.mean(y == values[counts.argmax()]))
    return score


def check_proba(model, path) -> None:
    """Refuse --proba for a model without probabilities, and say why in terms of the command line."""
    if not hasattr(model, "classes_"):
        raise ValueError(f"{path} predicts numbers, which have no probabilities; leave --proba out.")
    if hasattr(model, "predict_proba"):
        return
    if getattr(model.solver_, "calibrates", False):  # the loss is not the reason
        check_probabilities(model)
    raise ValueError(
        f"{path} has no probabilities, as its loss is {model.loss_.name}; fit it with --loss logistic."
    )


def model_columns(model, metadata) -> list[str] | None:
    """Return the names of the columns that a model predicts from, None where it knows none."""
    return metadata.get("columns", getattr(model, "feature_names_in_", None))


def model_rows(model, metadata, table, path):
    """Return the rows of a table as the model wants them: its columns, in its order and scale."""
    if model.combination_.family.pairwise:
        raise ValueError(f"{path} needs precomputed kernels; use it from Python.")
    names = model_columns(model, metadata)
    if names is None:  # fitted in Python, on an array: the columns go by their order
        names = features_of(table)
        if len(names) != model.n_features_in_:
            raise ValueError(
                f"{path} was fitted on {model.n_features_in_} columns without names, and the table has "
                f"{len(names)}; keep those columns only, in the same order."
            )
        return read_numbers(table, names)
    X = read_numbers(table, names)
    if "mean" in metadata:
        X = (X - metadata["mean"]) / metadata["scale"]
    return named(X, names)
