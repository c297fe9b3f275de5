"""The last look at a model from a file: whether its parts go together, and whether it predicts a row.

Every part has checked its own arrays by then (``check_stored``), so that nothing here reads beyond one of them; what
is left are parts that do not belong to one another.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from .._util.checks import check_parameters
from .._util.shapes import Damaged, Stored, check_arrays, demand
from .._util.text import brief
from ..tables import Columns, ViewColumns

#: Most columns of a table, and most of a row that is not sparse; most kernel values of a row.
MOST_COLUMNS, DENSE_COLUMNS, MOST_VALUES = 2**28, 2**16, 2**28


def check_model(model: Any) -> None:
    """Raise Damaged unless a model's parts go together and it predicts."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            _check(model)
        except Damaged:
            raise
        except MemoryError:
            raise Damaged("to predict a row takes more memory than there is") from None
        except ValueError as error:
            raise Damaged(str(error)) from error
        except Exception as error:  # parts may disagree in any way
            raise Damaged(f"its parts do not go together ({brief(error)})") from error


def _check(model) -> None:
    C = getattr(model, "C", "auto")
    known = C == "auto" if isinstance(C, str) else isinstance(C, int | float | np.number) and 0 < C < np.inf
    demand(known, f"C is {brief(C)}, and no positive number")
    check_parameters(model, getattr(model, "rules", {}))
    for solver in (model.solver, model.solver_):
        learns = hasattr(solver, "solve") or (isinstance(solver, str) and solver is not model.solver_)
        demand(learns, f"{brief(solver)} is no solver")
    width = _width(model)
    _check_family(model.combination_.family, width)
    if hasattr(model, "result_"):
        _check_result(model, width)
        _predict(model, width)
    else:
        _transform(model, width)
    model.combination_.records()
    if hasattr(model, "state_"):
        _check_state(model, width)


def _width(model) -> int:
    """Return the number of columns that kernels see."""
    n = model.n_features_in_
    demand(type(n) is int and 1 <= n <= MOST_COLUMNS, "the number of columns makes no sense")
    if hasattr(model, "feature_names_in_"):
        names = model.feature_names_in_
        demand(
            isinstance(names, np.ndarray) and names.shape == (n,), "the columns have other names than these"
        )
    if not hasattr(model, "columns_"):
        return n
    demand(isinstance(model.columns_, Columns | ViewColumns), "the table's columns are missing")
    demand(
        model.columns_.n_in == n, "the table has other columns than the model"
    )  # before any is given a name
    return model.columns_.width


def _check_family(family, width: int) -> None:
    """Check parameters and columns by the rules for new ones; what was known of the columns must be the same."""
    if family.pairwise:
        kernels = family.size()
        demand(
            type(kernels) is int and kernels >= 1 and kernels * width <= MOST_VALUES, "there are no kernels"
        )
        family.resolve(kernels)
        return
    again = family.resolve(width)
    for name in ("_n_features", "_r"):
        known = getattr(family, name, None)
        demand(known is None or known == getattr(again, name), "the kernels are about other columns")


def _check_result(model, width: int) -> None:
    predictor = model.result_.predictor
    c = len(predictor.intercept)
    if hasattr(model, "classes_"):
        classes = model.classes_
        demand(
            isinstance(classes, np.ndarray) and classes.ndim == 1 and len(classes) >= 2,
            "there are no classes",
        )
        demand(np.array_equal(np.unique(classes), classes), "the classes are not in order")
        wanted = 1 if len(classes) == 2 and not model.loss_.multiclass else len(classes)
        wanted -= model.loss_.shared and wanted > 1
        demand(c == wanted, f"there are {c:,} outputs, and {len(classes):,} classes")
    mean = model.target_mean_
    check_arrays({"the mean": mean}, {"the mean": Stored("*")})
    demand(not (hasattr(model, "classes_") and mean.any()), "classes have a mean")
    demand(len(mean) in (1, c), "the mean of the targets has other outputs")
    rows = getattr(predictor, "rows", None)
    if rows is not None:
        demand(rows.shape[1] == width, f"rows has {rows.shape[1]:,} columns, and not {width:,}")
    elif model.combination_.family.pairwise:
        n = len(predictor.A)
        demand(n == width, f"there are {n:,} coefficients for kernels with {width:,} rows")


def _row(model, width: int, predictor=None) -> Any:
    """Return a row as the predictor sees it: one it was taught, or zeros."""
    rows = getattr(predictor, "rows", None)
    if rows is not None and rows.shape[0]:
        return rows[:1]
    if model.combination_.family.pairwise:
        return np.zeros((1, width, int(model.combination_.family.size())))
    if width <= DENSE_COLUMNS:
        return np.zeros((1, width))
    return csr_array((1, width))


def _predict(model, width: int) -> None:
    predictor = model.result_.predictor
    row = _row(model, width, predictor)
    if not (issparse(row) and not model.combination_.family.accepts_sparse):
        F = predictor.scores(row)
        demand(F.shape == (1, len(predictor.intercept)), "its scores have another shape")
        demand(np.isfinite(F).all(), "its scores are not finite")
    raw: Any = row
    if hasattr(model, "columns_"):
        raw = model.columns_.example()
    for name in ("predict", "decision_function", "predict_proba", "contributions"):
        if hasattr(model, name):
            getattr(model, name)(raw)


def _transform(model, width: int) -> None:
    rows = model.rows_
    if rows is not None:
        demand(getattr(rows, "ndim", 0) == 2 and rows.shape[1] == width, "the rows have other columns")
        check_arrays({"rows": rows.data if issparse(rows) else rows.ravel()}, {"rows": Stored("*")})
    K = model.transform(_row(model, width, None))
    demand(K.ndim == 2 and K.shape[1] == model._n_features_out, "its kernel has another shape")
    demand(np.isfinite(K).all(), "its kernel is not finite")


def _check_state(model, width: int) -> None:
    """Check what `partial_fit` goes on from."""
    context: Any = getattr(model, "_context", None)
    demand(hasattr(context, "scale") and isinstance(model.state_, dict), "the state of the stream is missing")
    demand(context.X.shape[1] == width == context.scale.X.shape[1], "the stream had other columns")
    demand(context.Y.shape[1] == len(model.result_.predictor.intercept), "the stream had other targets")
    demand(context.loss is not None and context.loss == model.loss_, "the stream had another loss")
    demand(hasattr(model.solver_, "check_state"), "the solver takes no batches")
    for family in (context.family, context.scale.family):
        _check_family(family, width)
    model.solver_.check_state(model.state_, context)
