"""Fits of the command line on large tables, read batch by batch and again and again instead of as a whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from .. import MKLClassifier
from ..streaming import Part, Source, Standardised, bind_for, predict_rows
from .beside import kept_beside
from .models import check_test_size, fit_visibly, make_model, reads_tables, scale_of, scales
from .screens import count
from .tables import is_class, is_large, open_table


def is_streamed(data: Path, solver: str) -> bool:
    """Whether a fit goes over the table batch by batch: several files, or a large one and a solver that can."""
    if not data.is_file():
        return True
    return is_large(data) and (solver == "auto" or hasattr(MKLClassifier(solver=solver), "partial_fit"))


def fit_batchwise(
    data,
    target,
    task,
    *,
    roles,
    dialect,
    standardize,
    test_size,
    seed,
    checkpoint,
    described,
) -> tuple[Any, dict[str, Any]]:
    """Return a fitted model and what to keep beside it.

    Rows are held out by a hash of their place, so that no pass ever sees them.
    """
    check_test_size(test_size)
    if roles.get("view"):
        raise ValueError(
            f"--view is for a table that is read as a whole, and {data.name} is read batch by batch; use Python, with "
            "manykernels.streaming.open_source(..., views=...)."
        )
    if "groups" in roles:
        raise ValueError(
            f"--groups is for a table that is read as a whole, and {data.name} is read batch by batch; leave it out."
        )
    scaled = scales(described["kernels"], standardize)
    any_kind = reads_tables(described["kernels"])
    source = open_table(data, target, roles, dialect, whole=False, any_kind=any_kind)
    source.numeric_targets = source.holds_numbers(target)  # in text they may be fractions further down
    classify = is_class((chunk.y for chunk in source.chunks(targets_only=True)), target, task)
    source.numeric_targets = not classify
    train: Source = Part(source, test_size, seed, others=True) if test_size else source
    test: Source | None = Part(source, test_size, seed) if test_size else None
    names = list(source.names or ())
    model = make_model(classify, seed=seed, **described)
    n = train.n_rows or 0
    if n == 0:
        raise ValueError(f"{data} has no rows to learn from.")
    kind = "classes" if classify else "regression"
    columns = count(len(names), "column")
    units = _moments(train) if scaled else None
    if units is not None:
        train = Standardised(train, *units)
        test = None if test is None else Standardised(test, *units)
    told = {
        "Table": f"{data.name}: {columns}, target {target} ({kind})",
        "Rows": f"{n:,} to learn from, read batch by batch",
    }
    seconds = fit_visibly(model, train, target, told, checkpoint=checkpoint)
    score = None if test is None else _score(model, test, target, classify)
    return model, kept_beside(target, names, units, n, seconds, score)


def _moments(source: Source) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and deviation of every column, in one pass; a constant one is left at its scale."""
    n, mean, square, top = 0, 0.0, 0.0, 0.0
    for chunk in source.chunks():
        X = chunk.X.astype(np.float64)
        m, k = X.mean(axis=0), len(X)
        shift = m - mean
        # Chan's rule, which is stable.
        square = square + ((X - m) ** 2).sum(axis=0) + shift**2 * n * k / (n + k)
        mean, n = mean + shift * k / (n + k), n + k
        top = np.maximum(top, np.abs(X).max(axis=0))
    return np.asarray(mean), scale_of(np.sqrt(square / max(n, 1)), np.asarray(top))


def _score(model, test: Source, target: str, classify: bool) -> dict[str, Any] | None:
    """Return the score on the held-out rows, beside that of the best constant for classes."""
    n, good, total, square, counts = 0, 0.0, 0.0, 0.0, np.zeros(len(getattr(model, "classes_", ())))
    for chunk in bind_for(model, test, target).chunks():
        y, answer = chunk.y, predict_rows(model, chunk.X)
        n += len(y)
        if classify:
            good += float(np.sum(y == answer))
            counts += [np.sum(y == c) for c in model.classes_]
        else:
            good += float(np.sum((y - answer) ** 2))
            total += float(np.sum(y, dtype=float))
            square += float(np.sum(np.square(y, dtype=float)))
    if n == 0:
        return None
    if classify:
        return {"name": "accuracy", "value": good / n, "n_rows": n, "constant": counts.max() / n}
    variance = square - total**2 / n
    return {"name": "R²", "value": 1 - good / variance if variance > 0 else 0.0, "n_rows": n}
