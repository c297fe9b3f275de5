"""Rows that do not fit in memory: where they come from, and predictions for them.

``fit`` takes a path, a pyarrow Dataset, a memory map or an iterable of batches in place of X, with a solver that
streams; :func:`open_source` is for choosing columns. Predictions come batch by batch, or go straight to a file.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from .._util.text import brief
from .arrow import Tables, TableWriter
from .columns import MissingColumn, NewColumn, NotNumbers
from .files import is_input, open_dataset, read_whole
from .sources import CHUNK_ROWS, Arrays, Batches, Source
from .stream import Progress, Stream
from .views import Part, Standardised, View, Whole

__all__ = [
    "MissingColumn",
    "NewColumn",
    "NotNumbers",
    "Part",
    "Source",
    "Standardised",
    "Stream",
    "TableWriter",
    "open_source",
    "predict_batches",
    "predict_to",
]


def open_source(
    data, *, columns=None, drop=None, whole: bool = False, chunk_rows: int = CHUNK_ROWS
) -> Source:
    """Return rows that can be read chunk by chunk.

    Parameters
    ----------
    data : path, list of paths, pyarrow Dataset, table, array, or iterable of batches
        A path names a Parquet, CSV, TSV, Feather or Arrow file, a folder of them, or those that match a pattern such
        as ``"rows/*.parquet"``. Batches are pairs (X, y), triples
        (X, y, sample_weight), or tables with named columns (dicts, DataFrames, Arrow record batches). An iterator,
        such as a generator, can be read once only.
    columns : list of str, optional
        The columns to predict from; all but the target and the weights by default. They must hold numbers; booleans
        count as 0 and 1.
    drop : list of str, optional
        Columns to leave out.
    whole : bool
        Whether to read a file at once, for one that fits in memory: all its rows are one chunk, and the types of
        columns in text are told by all of them, where otherwise the first megabyte tells.
    chunk_rows : int
        Most rows that are read from a file together.

    Returns
    -------
    Source
    """
    if columns is not None and drop is not None:
        raise ValueError("columns and drop exclude each other; give one of them.")
    if isinstance(data, Source):
        return data if columns is None and drop is None else data.choosing(columns, drop)
    if _is_path(data) and whole:
        return Whole(Tables(read_whole(data), columns, drop, data, chunk_rows))
    if _is_path(data) or (isinstance(data, list) and data and all(_is_path(d) for d in data)):
        return Tables(open_dataset(data), columns, drop, data, chunk_rows)
    if _is_dataset(data):
        return Tables(data, columns, drop, chunk_rows=chunk_rows)
    if isinstance(data, np.ndarray) or sp.issparse(data):
        return Arrays(data)
    if _is_table(data):
        return Batches([data], columns, drop)
    if hasattr(data, "__iter__") and not isinstance(data, str | bytes):
        return Batches(data, columns, drop)
    raise ValueError(
        f"{brief(data)} is no source of rows; pass a path, a pyarrow Dataset, a table, an array, or an iterable of "
        "batches."
    )


def is_source(X: Any, y: Any) -> bool:
    """Whether X, given to ``fit`` with y, is a source of rows rather than the rows themselves."""
    if isinstance(X, Source) or _is_path(X) or _is_dataset(X):
        return True
    if _is_table(X):
        return isinstance(y, str) or (isinstance(y, list) and all(isinstance(v, str) for v in y))
    if hasattr(X, "__array__") or hasattr(X, "shape") or not hasattr(X, "__iter__"):
        return False
    if isinstance(X, list | tuple):
        return bool(X) and _is_batch(X[0])
    return y is None or isinstance(y, str) or isinstance(X, Iterator)


def _is_batch(value) -> bool:
    if isinstance(value, tuple):
        return len(value) in (2, 3) and (getattr(value[0], "ndim", 0) == 2 or _is_table(value[0]))
    return _is_table(value) or _is_path(value)


def _is_path(value) -> bool:
    return isinstance(value, str | os.PathLike)


def _is_dataset(value) -> bool:
    return type(value).__module__.startswith("pyarrow") and hasattr(value, "get_fragments")


def _is_table(value) -> bool:
    return isinstance(value, Mapping) or hasattr(value, "column_names") or hasattr(value, "columns")


# -- predictions ---------------------------------------------------------------------------------------


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
    rows = open_source(source).bind(features=getattr(model, "feature_names_in_", None))
    for chunk in rows.chunks():
        if chunk.X.shape[1] != model.n_features_in_:
            raise ValueError(
                f"The source has {chunk.X.shape[1]} columns, and the model was fitted on {model.n_features_in_}; keep "
                "those columns only, in the same order."
            )
        yield predict_rows(model, chunk.X, method)


def predict_rows(model, X: np.ndarray, method: str = "predict") -> np.ndarray:
    """Return predictions for rows whose columns are in the model's order, with or without names."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        return getattr(model, method)(X)


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
    report = Progress(say, "predictions", None)
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
