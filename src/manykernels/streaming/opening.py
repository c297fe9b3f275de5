"""Which data are a source of rows, and the source that reads them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from copy import copy
from typing import Any

import numpy as np
import scipy.sparse as sp

from .._util.text import brief
from ..tables.reading import refuse_uncollected
from ..tables.views import are_views
from .partitions import Lazy, is_lazy
from .sources import CHUNK_ROWS, Arrays, Batches, Source
from .views import Whole


def open_source(
    data,
    *,
    columns=None,
    drop=None,
    views=None,
    whole: bool = False,
    chunk_rows: int = CHUNK_ROWS,
    sep: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
) -> Source:
    """Return rows that can be read chunk by chunk.

    Parameters
    ----------
    data : path, list of paths, pyarrow Dataset, table, array, dask collection, or iterable of batches
        A path names a Parquet, CSV, TSV, Feather or Arrow file, a folder of them, or those that match a pattern such
        as ``"rows/*.parquet"``; with `whole` also an Excel, NumPy (npz) or svmlight file. Batches are pairs (X, y),
        triples (X, y, sample_weight), or tables with named columns (dicts, DataFrames, Arrow record batches). An
        iterator, such as a generator, can be read once only.
    columns : list of str, optional
        The columns to predict from; all but the target and the weights by default. They must hold numbers; booleans
        count as 0 and 1.
    drop : list of str, optional
        Columns to leave out.
    views : dict, or path of a GMT file, optional
        Groups of columns that are views, such as ``{"rna": "rna_*", "clinical": ["age", "sex"]}``; see
        :meth:`manykernels.Views.from_columns`. A row lacks a view where all its values there are missing. Columns
        of no group are not used. A model that was fitted on views finds their columns by name and needs no groups.
    whole : bool
        Whether to read a file at once, for one that fits in memory: all its rows are one chunk, and the types of
        columns in text are told by all of them, where otherwise the first megabyte tells. Marks between thousands
        and dates in other orders than ISO's are understood then.
    chunk_rows : int
        Most rows that are read from a file together.
    sep, decimal, encoding : str, optional
        Of text: what stands between two values, the decimal mark, and the encoding. By default the text itself tells.

    Returns
    -------
    Source
    """
    from .arrow import Tables  # here, so that a fit of rows in memory does without
    from .dialect import Dialect
    from .files import open_dataset, read_whole

    if columns is not None and drop is not None:
        raise ValueError("columns and drop exclude each other; give one of them.")
    if views is not None:
        text: dict[str, Any] = {"sep": sep, "decimal": decimal, "encoding": encoding}
        source = copy(
            open_source(data, columns=columns, drop=drop, whole=whole, chunk_rows=chunk_rows, **text)
        )
        source.views = views
        return source
    if isinstance(data, Source):
        return data if columns is None and drop is None else data.choosing(columns, drop)
    if is_lazy(data):
        return Lazy(data, columns, drop)
    dialect = Dialect(sep, decimal, encoding)
    if _is_path(data) and whole:
        return Whole(Tables(read_whole(data, dialect), columns, drop, data, chunk_rows))
    if _is_path(data) or (isinstance(data, list) and data and all(_is_path(d) for d in data)):
        return Tables(open_dataset(data, dialect), columns, drop, data, chunk_rows)
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
    if isinstance(X, Source) or _is_path(X) or _is_dataset(X) or is_lazy(X):
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
        one = value[0]
        return len(value) in (2, 3) and (getattr(one, "ndim", 0) == 2 or _is_table(one) or are_views(one))
    return _is_table(value) or _is_path(value)


def _is_path(value) -> bool:
    return isinstance(value, str | os.PathLike)


def _is_dataset(value) -> bool:
    return type(value).__module__.startswith("pyarrow") and hasattr(value, "get_fragments")


def _is_table(value) -> bool:
    refuse_uncollected(value)
    return isinstance(value, Mapping) or hasattr(value, "column_names") or hasattr(value, "columns")
