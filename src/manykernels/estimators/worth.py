"""What a view is worth: how much worse the rows that have it are predicted when it is kept from them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.model_selection import check_cv

from .._util.text import brief
from ..tables.views import Views, as_views


def view_worth(
    model: Any, X: Any, y: Any, sample_weight: Any = None, *, cv: Any = None
) -> list[dict[str, Any]]:
    """Return one record per view; see :meth:`~manykernels.estimators.base.MKL.view_worth`."""
    views, names = as_views(X), model.views_
    if views is None:
        raise ValueError(f"X is a {type(X).__name__}; pass the views, such as a dict with {brief(names[0])}.")
    views = views.only([name for name in views.parts if name in names])
    y = np.asarray(y)
    s = np.ones(len(views)) if sample_weight is None else np.asarray(sample_weight, dtype=float)
    if not len(views) == len(y) == len(s):
        raise ValueError(
            f"X has {len(views):,} rows, y {len(y):,} and sample_weight {len(s):,}; they must agree."
        )
    losses = _losses(model, views, y, s, cv)
    return [_record(name, own, s) for name, own in losses.items()]


def _losses(model: Any, views: Views, y: np.ndarray, s: np.ndarray, cv: Any) -> dict[str, np.ndarray]:
    """Return per view the losses of all rows with it and without it, (2, n); NaN for rows that tell nothing."""
    found = {name: np.full((2, len(views)), np.nan) for name in views.parts}
    if cv is None:
        splits: Any = [(None, np.arange(len(views)))]
    else:
        splits = check_cv(cv, y, classifier=is_classifier(model)).split(np.zeros(len(y)), y)
    for train, test in splits:
        one = model if train is None else clone(model).fit(views[train], y[train], sample_weight=s[train])
        unit = _unit(y if train is None else y[train], is_classifier(model))
        _judge(one, views[test], y[test], unit, found, test)
    return found


def _judge(model: Any, views: Views, y: np.ndarray, unit: np.ndarray, found: dict, rows: np.ndarray) -> None:
    """Write the losses of some rows, with each view and without."""
    whole = _loss(model, views, y, unit)
    present = views.present
    for k, (name, own) in enumerate(found.items()):
        both = np.flatnonzero(present[:, k] & (present.sum(axis=1) > 1))
        if len(both):
            fewer = views.only([other for other in views.parts if other != name])[both]
            own[0, rows[both]] = whole[both]
            own[1, rows[both]] = _loss(model, fewer, y[both], unit)


def _unit(y: np.ndarray, classes: bool) -> np.ndarray:
    """Return the variance of every target: squared errors over it are what is lacking from R² = 1."""
    if classes:
        return np.ones(1)
    spread = np.var(y.reshape(len(y), -1), axis=0)
    return np.where(spread > 0, spread, 1.0)


def _loss(model: Any, views: Views, y: np.ndarray, unit: np.ndarray) -> np.ndarray:
    """Return 1 for a wrong class, or the squared error in units of the target's variance."""
    predicted = model.predict(views)
    if is_classifier(model):
        return (predicted != y).astype(float)
    errors = np.square(predicted - y).reshape(len(y), -1)
    return np.mean(errors / unit, axis=1)


def _record(name: str, losses: np.ndarray, s: np.ndarray) -> dict[str, Any]:
    """Return what a view is worth on the rows that have it and another one."""
    rows = np.flatnonzero(np.isfinite(losses[0]) & (s > 0))
    if not len(rows):
        return {
            "view": name,
            "rows": 0,
            "score": math.nan,
            "without": math.nan,
            "worth": math.nan,
            "error": math.nan,
        }
    w = s[rows] / s[rows].sum()
    score, without = (1.0 - losses[:, rows] @ w).tolist()
    gain = losses[1, rows] - losses[0, rows]
    error = math.sqrt(float(np.square(w) @ np.square(gain - w @ gain)))
    known = {"view": name, "rows": len(rows), "score": score, "without": without}
    return known | {"worth": score - without, "error": error}
