"""Fits of the command line on tables that are read in pieces, again and again, instead of as a whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from .. import MKLClassifier
from ..estimators.streamed import streams
from ..registry import SOLVERS
from ..streaming import open_source, predict_rows
from ..streaming.files import is_pattern
from ..streaming.sources import Source
from ..streaming.views import Part, Standardised
from .models import fit_visibly, kept_beside, make_model, noted
from .screens import say
from .tables import MOST_CLASSES, is_large


def is_streamed(data: Path, solver: str) -> bool:
    """Whether a fit goes over the table in pieces: it is large, and the solver can."""
    if data.is_dir() or is_pattern(data):
        return True
    auto = solver == "auto" and "blockwise" in SOLVERS
    return is_large(data) and (auto or streams(MKLClassifier(solver=solver)))


def fit_in_pieces(
    data, target, task, *, columns, drop, standardize, test_size, seed, checkpoint, described
) -> tuple[Any, dict[str, Any]]:
    """Return a fitted model and what to keep beside it.

    Rows are held out by a hash of their place, so that no pass ever sees them.
    """
    if not 0 <= test_size < 1:
        raise ValueError(f"--test-size is {test_size:g}; use a share between 0 and 1.")
    with noted():
        source = open_source(data, columns=_split(columns), drop=_split(drop)).bind(target)
    classify = _is_class(source, target, task)
    source.numeric_targets = not classify
    train: Source = Part(source, test_size, seed, others=True) if test_size else source
    test: Source | None = Part(source, test_size, seed) if test_size else None
    names = list(source.names or ())
    mean, scale = _moments(train) if standardize else (np.zeros(len(names)), np.ones(len(names)))
    model = make_model(classify, seed=seed, **described).set_params(verbose=1)
    n = train.n_rows
    kind = "classes" if classify else "regression"
    say(f"{data.name}: {n:,} rows to learn from, {len(names)} columns, target {target} ({kind})")
    seconds = fit_visibly(model, Standardised(train, mean, scale), target, checkpoint=checkpoint)
    score = None if test is None else _score(model, Standardised(test, mean, scale), target, classify)
    return model.set_params(verbose=0), kept_beside(target, names, mean, scale, n, seconds, score)


def _split(listed) -> list[str] | None:
    return None if not listed else [name.strip() for text in listed for name in text.split(",")]


def _is_class(source: Source, target: str, task: str) -> bool:
    """Whether the target's values are classes: text, or few whole numbers."""
    if task not in ("auto", "classify", "regress"):
        raise ValueError(f"--task is {task}; use auto, classify or regress.")
    if task != "auto":
        return task == "classify"
    values: set[Any] = set()
    for chunk in source.chunks(targets_only=True):
        if chunk.y.dtype.kind in "USb":
            return True
        values.update(np.unique(chunk.y).tolist())
        if len(values) > MOST_CLASSES or any(v % 1 for v in values):
            return False
    return True


def _moments(source: Source) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and deviation of every column, in one pass; a constant one is left at its scale."""
    n, mean, square, top = 0, 0.0, 0.0, 0.0
    for chunk in source.chunks():
        X = chunk.X.astype(np.float64)
        m, k = X.mean(axis=0), len(X)
        shift = m - mean
        square = (
            square + ((X - m) ** 2).sum(axis=0) + shift**2 * n * k / (n + k)
        )  # Chan's rule, which is stable
        mean, n = mean + shift * k / (n + k), n + k
        top = np.maximum(top, np.abs(X).max(axis=0))
    deviation = np.sqrt(square / max(n, 1))
    return np.asarray(mean), np.where(deviation > 1e-12 * top, deviation, 1.0)


def _score(model, test: Source, target: str, classify: bool) -> dict[str, Any] | None:
    """Return the score on the held-out rows, beside that of the best constant for classes."""
    n, good, total, square, counts = 0, 0.0, 0.0, 0.0, np.zeros(len(getattr(model, "classes_", ())))
    for chunk in test.bind(target, features=model.feature_names_in_).chunks():
        y, answer = chunk.y, predict_rows(model, chunk.X)
        n += len(y)
        if classify:
            good += float(np.sum(y == answer))
            counts += [np.sum(y == c) for c in model.classes_]
        else:
            good += float(np.sum((y - answer) ** 2))
            total, square = (
                total + float(np.sum(y, dtype=float)),
                square + float(np.sum(np.square(y, dtype=float))),
            )
    if n == 0:
        return None
    if classify:
        return {"name": "accuracy", "value": good / n, "n_rows": n, "constant": counts.max() / n}
    variance = square - total**2 / n
    return {"name": "R²", "value": 1 - good / variance if variance > 0 else 0.0, "n_rows": n}
