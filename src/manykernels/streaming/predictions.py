"""Predictions for the rows of a source: batch by batch, or straight to a file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..tables.reading import of_matrix
from ..tables.views import Views
from .arrow import TableWriter
from .columns import predict_rows
from .files import is_input
from .opening import open_source
from .sources import Source
from .stream import RowReport
from .views import View


def predict_batches(model, source, *, method: str = "predict") -> Iterator[np.ndarray]:
    """Yield predictions for the rows of a source, in order and batch by batch.

    Parameters
    ----------
    model : fitted MKLClassifier or MKLRegressor
    source : what :func:`open_source` takes
        Columns are found by their names if the model knows names, else by their order.
    method : {"predict", "predict_proba", "decision_function"}

    Yields
    ------
    array
        The predictions of some 65,000 rows at most.
    """
    check_is_fitted(model)
    rows = bind_for(model, open_source(source))
    named = rows.names is not None and hasattr(model, "feature_names_in_")
    several = hasattr(getattr(model, "columns_", None), "of_table")
    for chunk in rows.chunks():
        if several:
            yield predict_rows(model, views_of(model, rows, chunk.X), method)
            continue
        if not named and chunk.X.shape[1] != model.n_features_in_:
            raise ValueError(
                f"The source has {chunk.X.shape[1]} columns, and the model was fitted on {model.n_features_in_}; keep "
                "those columns only, in the same order."
            )
        yield predict_rows(model, chunk.X, method)


def bind_for(model, source: Source, y=None) -> Source:
    """Return a source with the columns that a model needs, and their targets if they are asked for."""
    columns = getattr(model, "columns_", None)
    names = getattr(model, "feature_names_in_", None)
    if columns is None:
        return source.bind(y, features=names)
    if hasattr(columns, "of_table"):
        return source.bind(y, features=columns.known_in(source.column_names), any_kind=True)
    return source.bind(y, features=columns.needed if columns.named else None, any_kind=True)


def views_of(model, source: Source, X: Any) -> Any:
    """Return the rows of a chunk as the views that a model knows."""
    if isinstance(X, Views):
        return X
    if isinstance(X, np.ndarray) and source.names is not None:
        X = of_matrix(X, source.names)
    return model.columns_.of_table(X)


def predict_to(model, source, path, *, proba: bool = False) -> int:
    """Write predictions for the rows of a source to a file, batch by batch.

    The file appears when it is complete.

    Parameters
    ----------
    model : fitted MKLClassifier or MKLRegressor
    source : what :func:`open_source` takes
    path : path that ends in .parquet, .csv, .feather or .arrow
        It gets a column ``prediction`` (``prediction_0``, ... for several targets).
    proba : bool
        Whether to add a column ``probability_<class>`` for every class.

    Returns
    -------
    int
        The number of rows.
    """
    if proba:
        check_probabilities(model)
    source = open_source(source)
    refuse_input(path, source)
    say = model._say if getattr(model, "verbose", 0) else None
    report = RowReport(say, "predictions", None)
    method = "predict_proba" if proba else "predict"
    with TableWriter(path) as writer:
        for answer in predict_batches(model, source, method=method):
            writer.write(prediction_columns(model, answer, proba))
            report.add(len(answer))
        if writer.n_rows == 0:
            raise ValueError("The source is empty; there is nothing to predict.")
    report.end()
    return writer.n_rows


def refuse_input(path, source) -> None:
    """Refuse to write to a file that the rows come from, or to where it would be read as rows the next time.

    `source` is a path, a pattern, a list of paths, or a Source.
    """
    while isinstance(source, View):
        source = source.inner
    origin = source
    if isinstance(source, Source):
        origin = getattr(source, "origin", None) or getattr(getattr(source, "dataset", None), "files", [])
    if is_input(path, origin):
        raise ValueError(
            f"{path} would be among the files that rows are read from; write the predictions to another place."
        )


def check_probabilities(model) -> None:
    """Raise ValueError, with the reason, for a model without probabilities."""
    if not hasattr(model, "classes_"):
        raise ValueError("The model predicts numbers, which have no probabilities; leave proba out.")
    try:
        model.predict_proba  # noqa: B018
    except AttributeError as error:
        raise ValueError(str(error)) from None


def prediction_columns(model, answer: np.ndarray, proba: bool = False) -> dict[str, np.ndarray]:
    """Return predictions, or probabilities and what they predict, as named columns."""
    if proba:
        best = {"prediction": model.classes_[answer.argmax(axis=1)]}
        return best | {f"probability_{c}": answer[:, k] for k, c in enumerate(model.classes_)}
    if answer.ndim == 1:
        return {"prediction": answer}
    return {f"prediction_{k}": answer[:, k] for k in range(answer.shape[1])}
