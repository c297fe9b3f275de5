"""How much each column counts in a fitted model: ``feature_importances_``."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..findings.attribution import importances
from ..kernels.statistics import dense
from ..predictors import some_rows


def why_no_importances(model: Any) -> str | None:
    """Return why a fitted model has no importances, None where it has."""
    if model.combination_.family.pairwise:
        return (
            "The model was fitted on precomputed kernels, which are no functions of columns; fit it on rows."
        )
    if _margins(model) is None:
        return (
            "The model keeps no training rows to take the margins of columns from, as it comes from a file or was "
            "fitted on a stream; manykernels.findings.shapley(model, rows, background) takes them from you."
        )
    return None


def column_importances(model: Any) -> np.ndarray:
    """Return the importances of a fitted model's columns, computed once."""
    reason = why_no_importances(model)
    if reason is not None:
        raise AttributeError(reason)
    if "_importances" not in model.__dict__:
        model._importances = importances(model, dense(_margins(model)).astype(float, copy=False))
    return model._importances.copy()


def _margins(model: Any) -> Any:
    """Return rows of the training table as the predictor sees them, None if there are none."""
    kept = model.__dict__.get("_background")
    if kept is not None:
        return kept
    rows, A = getattr(model.result_.predictor, "rows", None), model.dual_coef_
    if rows is None or A is None or rows.shape[0] != len(A):  # of a part of the rows margins are others
        return None
    return rows[some_rows(np.ones(len(A)))]
