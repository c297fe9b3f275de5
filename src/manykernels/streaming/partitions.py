"""Dask collections as rows: their partitions, what a fit must know of all of them, and predictions that stay lazy.

A partition is computed where Dask computes it, by its own graph, as often as the fit needs it.
"""

from __future__ import annotations

import copy
import uuid
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from .._util.text import brief
from ..tables.reading import Table
from ..tables.views import Views
from .cluster import Block, DaskRows, active_client, added, check_workers, computed
from .columns import is_names, listed, predict_rows
from .sources import Batches, Chunk, Source, check_finite, keys_of, uniform
from .survey import Sample, Survey, Tally


def is_lazy(value: Any) -> bool:
    """Whether a value is a dask collection, or a dict of these; dask is not imported for that."""
    if isinstance(value, Mapping) and not hasattr(value, "shape"):  # some sparse matrices are mappings
        return len(value) > 0 and all(map(is_lazy, value.values()))
    package = type(value).__module__.partition(".")[0]  # DataFrames of 2024 are dask_expr's
    return package in ("dask", "dask_expr") and hasattr(value, "__dask_graph__")


class Partition(Batches):
    """What reads one partition: a table, or rows with targets and weights of their own."""

    word = "partition"
    #: Columns of an array, as the collection says.
    promised: int | None = None
    #: What the collection promises, without rows.
    empty: Any = None

    def chunk(self, number: int, X, y=None, s=None) -> Chunk:
        """Return the rows of a partition, checked."""
        if not isinstance(X, Mapping) and not X.shape[0]:
            X = self.empty  # without values, columns may have lost their types
        alone = y is None and s is None
        rows = (
            X if alone else (X, None if y is None else np.asarray(y), *([] if s is None else [np.asarray(s)]))
        )
        self._check_columns(number, X)
        chunk = self._chunk(rows, number, 0)
        chunk = replace(chunk, keys=keys_of(number, 0, len(chunk)))
        check_finite(chunk, self.names, gaps=self.any_kind)
        return chunk

    def _check_columns(self, number: int, X) -> None:
        """Refuse a partition without some of the columns, by its number."""
        names = getattr(X, "columns", None)
        if self.promised is not None and X.shape[1] != self.promised:
            raise ValueError(
                f"partition {number} has {X.shape[1]} columns, and the collection promises {self.promised}; make all "
                "partitions alike."
            )
        if names is None or self.names is None:
            return
        lacking = [
            n for n in (*self.names, *listed(self.y), *listed(self.sample_weight)) if n not in set(names)
        ]
        if lacking:
            raise ValueError(
                f"partition {number} has no column {brief(lacking[0])}, which the collection promises; make all "
                "partitions alike."
            )


@dataclass(frozen=True, eq=False)
class Partitions:
    """The partitions of X, and of y and the weights if they are collections of their own.

    Attributes
    ----------
    parts : list of tuples of Delayed
        (X, y, sample_weight), None for what is a column of X or missing.
    reader : Partition
        Bound to the columns.
    """

    parts: list[tuple[Any, Any, Any]]
    reader: Partition

    @property
    def sources(self) -> list[Any]:
        """The partitions of X."""
        return [X for X, _, _ in self.parts]

    def map(self, func: Callable[..., Any], *args: Any) -> list[Any]:
        """Return ``func(reader, number, X, y, s, *args)`` of every partition, each a Delayed."""
        from dask import delayed

        own = delayed((self.reader, args), traverse=False, pure=False)
        call = delayed(_called, pure=False, traverse=False)
        return [call(func, own, number, *part) for number, part in enumerate(self.parts)]


def _called(func, own, number, X, y, s):
    """Read one partition, and hand it on."""
    reader, args = own
    return func(reader.chunk(number, X, y, s), *args)


def open_partitions(
    X,
    y=None,
    sample_weight=None,
    *,
    features: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    drop: Sequence[str] | None = None,
    any_kind: bool = False,
) -> Partitions:
    """Return the partitions of dask collections, after checks that need no computing.

    Parameters
    ----------
    X : dask DataFrame or array, or a dict of these, the views
    y, sample_weight : names of columns, or dask collections with the same partitions
    features : names of columns, optional
        Those to predict from; all others than y and the weights by default.
    columns, drop : names of columns, optional
        What the user says of these.
    any_kind : bool
        Whether columns may hold text, dates and missing values.
    """
    if getattr(X, "ndim", 2) != 2:
        how = "X.to_frame()" if hasattr(X, "to_frame") else "X[:, None]"
        raise ValueError(
            f"X must be a matrix, one line per row, and is {brief(X)}; pass {how} for a single column."
        )
    check_workers()
    frames = _delayed_parts(X)
    roles = []
    for name, value in (("y", y), ("sample_weight", sample_weight)):
        if value is None or (is_names(value) and hasattr(X, "columns")):
            roles.append([None] * len(frames))
            continue
        if not is_lazy(value):
            what, column = (
                ("several views as dask collections", "")
                if isinstance(X, Mapping)
                else ("a dask collection", ", or the name of a column of X")
            )
            raise ValueError(
                f"{name} is {brief(value)}, and X is {what}; pass a dask array or series with the same "
                f"partitions{column}."
            )
        parts = _delayed_parts(value)
        if len(parts) != len(frames):
            raise ValueError(
                f"{name} has {len(parts)} partitions, and X has {len(frames)}; repartition one like the other."
            )
        roles.append(parts)
    own = [None if not is_names(v) else v for v in (y, sample_weight)]
    first: Any = _no_rows(X)
    if not hasattr(X, "columns") or (own == [None, None] and y is not None):
        first = (first, None)
    reader: Any = Partition([first], columns, drop).bind(own[0], own[1], features, any_kind=any_kind)
    reader.batches, reader.empty = (), _no_rows(X)
    if not hasattr(X, "columns") and not isinstance(X, Mapping):
        reader.promised = int(X.shape[1])
    return Partitions(list(zip(frames, *roles, strict=True)), reader)


def _no_rows(X) -> Any:
    """Return what a partition looks like, without rows."""
    if isinstance(X, Mapping):
        return {name: _no_rows(part) for name, part in X.items()}
    return X._meta if hasattr(X, "columns") else np.zeros((0, int(X.shape[1])))


def _side_by_side(names: Sequence[Any], *parts: Any) -> dict[Any, Any]:
    return dict(zip(names, parts, strict=True))


def _delayed_views(views: Mapping[Any, Any]) -> list[Any]:
    """Return the partitions of several views, each a dict of those that lie at its place."""
    from dask import delayed

    parts = {name: _delayed_parts(view) for name, view in views.items()}
    first = next(iter(parts))
    for name, own in parts.items():
        if len(own) != len(parts[first]):
            raise ValueError(
                f"view {brief(name)} of X has {len(own)} partitions, and {brief(first)} has {len(parts[first])}; "
                "repartition one like the other, with the same rows in each."
            )
    call = delayed(_side_by_side, pure=False, traverse=False)
    return [call(list(parts), *own) for own in zip(*parts.values(), strict=True)]


def _delayed_parts(value) -> list[Any]:
    """Return the partitions of a collection, rows along the first axis, its graph made as small as it gets."""
    if isinstance(value, Mapping):
        return _delayed_views(value)
    if hasattr(value, "chunks") and not hasattr(value, "columns"):
        if value.ndim not in (1, 2):
            raise ValueError(f"X must be a matrix, one line per row, and is {brief(value)}.")
        if value.ndim == 2 and len(value.chunks[1]) > 1:
            value = value.rechunk({1: -1})
        return list(value.to_delayed().ravel())
    return _plainly(value.optimize().to_delayed() if hasattr(value, "optimize") else value.to_delayed())


def _plainly(parts: Sequence[Any]) -> list[Any]:
    """Return partitions, which share a graph, without its second names for tasks.

    As it merges the tasks of an array, dask 2026.8 loses one of two such names in a row, which partitions from
    `dask.dataframe.from_delayed` have, and predictions for these could not be computed.
    """
    from dask.delayed import Delayed
    from dask.highlevelgraph import HighLevelGraph

    graph = dict(parts[0].dask)
    names = {key: node.target for key, node in graph.items() if type(node).__name__ == "Alias"}
    if not names or any(part.key not in graph for part in parts):
        return list(parts)
    for key in names:
        while names[key] in names:
            names[key] = names[names[key]]
    layer = f"partitions-{uuid.uuid4().hex}"
    plain = {key: node.substitute(names) for key, node in graph.items() if key not in names}
    shared = HighLevelGraph.from_collections(layer, plain, dependencies=())
    return [Delayed(names.get(part.key, part.key), shared, layer=layer) for part in parts]


class Lazy(Source):
    """The rows of a dask collection, as a source whose rows are read where Dask computes them.

    Parameters
    ----------
    data : dask DataFrame or array, or a dict of these, the views
    columns, drop : lists of str, optional
        The columns to predict from, or those to leave out.
    """

    #: Once bound.
    partitions: Partitions

    def __init__(self, data, columns=None, drop=None):
        if isinstance(data, Mapping) and not (columns is None and drop is None):
            raise ValueError(
                "columns and drop are for one table; choose the columns of every view beforehand."
            )
        self.data, self.columns, self.drop = data, columns, drop

    @property
    def column_names(self):
        """Names of all columns, whatever their roles."""
        return tuple(map(str, self.data.columns)) if hasattr(self.data, "columns") else None

    @property
    def width(self):
        """Number of features."""
        if self.names is not None:
            return len(self.names)
        parts = self.data.values() if isinstance(self.data, Mapping) else [self.data]
        return sum(len(part.columns) if hasattr(part, "columns") else int(part.shape[1]) for part in parts)

    def bind(self, y=None, sample_weight=None, features=None, *, any_kind=False):
        bound = copy.copy(self)
        reader = {"features": features, "columns": self.columns, "drop": self.drop, "any_kind": any_kind}
        bound.partitions = open_partitions(self.data, y, sample_weight, **reader)
        bound.names, bound.any_kind = bound.partitions.reader.names, any_kind
        return bound

    def unit_rows(self):
        one = next(iter(self.data.values())) if isinstance(self.data, Mapping) else self.data
        return [None] * one.npartitions


# -- what a fit must know first --------------------------------------------------------------------------


@dataclass(frozen=True)
class Stamp:
    """How a partition looked when it was first read.

    Attributes
    ----------
    rows : int
    sum : int
        A check sum of its numbers and its text.
    """

    rows: int
    sum: int

    @classmethod
    def of(cls, chunk: Chunk) -> Stamp:
        """Return the stamp of rows."""
        total = 0
        for values in (*_arrays_of(chunk.X), chunk.y, chunk.sample_weight):
            if values is not None:
                total = zlib.crc32(_bytes_of(np.asarray(values)), total)
        return cls(len(chunk), total)


def _arrays_of(X: Any) -> Iterator[np.ndarray]:
    """Yield the arrays that rows consist of: numbers, text, and which views they have."""
    if isinstance(X, Views):
        for part in X.parts.values():
            yield part.present
            yield from _arrays_of(part.table)
    elif isinstance(X, Table):
        columns = (X.read(j).values for j in range(len(X.names)))
        yield from columns if X.matrix is None else [X.matrix]
    elif sp.issparse(X):
        X = X.tocsr()
        yield from (X.data, X.indices, X.indptr)
    else:
        yield X


def _bytes_of(values: np.ndarray) -> Any:
    if values.dtype.hasobject:  # whose bytes are addresses
        return repr(values.tolist()).encode("utf-8", "replace")
    return np.ascontiguousarray(values).ravel().view(np.uint8).data


def _tallied(chunk: Chunk, classify: bool, check) -> tuple[Tally, Stamp]:
    tally = Tally(classify)
    if check is not None and len(chunk):
        check(chunk)
    if len(chunk):
        tally.add(chunk)
    return tally, Stamp.of(chunk)


def survey_partitions(partitions: Partitions, classify: bool, check=None) -> tuple[Survey, list[Stamp]]:
    """Return what all targets tell, and the stamp of every partition: one round."""
    tally, stamps = Tally(classify), []
    for other, stamp in computed(partitions.map(_tallied, classify, check), partitions.sources):
        tally.join(other)
        stamps.append(stamp)
    return tally.found(), stamps


def _sampled(chunk: Chunk, below: float, seed: int) -> Chunk:
    return chunk.take(np.flatnonzero(uniform(chunk.keys, seed) < below))


def sample_partitions(partitions: Partitions, n_rows: int, sample: Sample) -> Chunk:
    """Return a sample of all rows: one round, which sends little more than that."""
    # A few standard deviations more than are wanted; the least hashes of all are taken in the end.
    below = (sample.size + 6 * sample.size**0.5) / n_rows
    for chunk in computed(partitions.map(_sampled, below, sample.seed), partitions.sources):
        if len(chunk):
            sample.offer(chunk)
    return sample.rows()


def _held(chunk: Chunk, held) -> Chunk:
    out = held.start().chosen(chunk.keys)
    return chunk.take(np.zeros(0, dtype=np.intp) if out is None else out)


def held_out_rows(partitions: Partitions, held) -> list[Chunk]:
    """Return the rows that are held out, of those partitions that have some: one round."""
    return [chunk for chunk in computed(partitions.map(_held, held), partitions.sources) if len(chunk)]


# -- rows for a solver -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Prepare:
    """From a partition's rows to a block.

    Attributes
    ----------
    encode : callable
        From a chunk to a block.
    stamps : list of Stamp
    held : HeldOut or None
        Which rows are left out.
    """

    encode: Callable[[Chunk], Block]
    stamps: list[Stamp] = field(repr=False)
    held: Any = None

    def __call__(self, chunk: Chunk) -> Block:
        """Return the block, or say that the rows are no longer what they were."""
        number = int(chunk.where.split()[-1])
        if Stamp.of(chunk) != self.stamps[number]:
            raise ValueError(
                f"{chunk.where} has changed since the fit began: it had {self.stamps[number].rows:,} rows, and has "
                f"{len(chunk):,} now, or other values; fit again when nobody writes to it."
            )
        out = None if self.held is None else self.held.start().chosen(chunk.keys)
        return self.encode(chunk if out is None else chunk.take(~out))


def _prepared(chunk: Chunk, prepare: Prepare) -> Block:
    return prepare(chunk)


def dask_rows(partitions: Partitions, prepare: Prepare, n_rows: int, *, keep: bool) -> DaskRows:
    """Return the rows of partitions as blocks."""
    return DaskRows(partitions.map(_prepared, prepare), n_rows, keep=keep, parts=partitions.sources)


def n_workers() -> int:
    """Return how many workers the active cluster has; 1 without one."""
    client = active_client()
    return 1 if client is None else max(1, len(client.nthreads()))


# -- predictions ------------------------------------------------------------------------------------------


def predict_lazily(model, X, method: str):
    """Return the predictions of a model for a dask collection, a dask array that is computed when asked for."""
    import dask.array as da
    from dask import delayed

    outputs = _outputs(model, X, method)
    kept = delayed(model, traverse=False, pure=False)
    call = delayed(_predicted, pure=False, traverse=False)
    parts = [call(kept, method, part) for part in _delayed_parts(X)]
    one = next(iter(X.values())) if isinstance(X, Mapping) else X
    known = hasattr(one, "chunks") and not hasattr(one, "columns")
    sizes = one.chunks[0] if known else [np.nan] * len(parts)
    shapes = [(size, *outputs.shape[1:]) for size in sizes]
    arrays = [da.from_delayed(p, shape, meta=outputs) for p, shape in zip(parts, shapes, strict=True)]
    return da.concatenate(arrays, axis=0, allow_unknown_chunksizes=True)


def _outputs(model, X, method: str) -> np.ndarray:
    """Return no predictions, of the right type and width."""
    classes = getattr(model, "classes_", None)
    if method == "predict" and classes is not None:
        return np.zeros(0, dtype=classes.dtype)
    if method == "predict_proba" and classes is not None:
        return np.zeros((0, len(classes)))
    wide = len(model.intercept_) > 1 or (method == "predict" and not getattr(model, "_flat", True))
    return np.zeros((0, len(model.intercept_)) if wide else 0)


def _predicted(model, method: str, X) -> np.ndarray:
    if isinstance(X, Mapping):
        X = Views(X)
    if not len(X):
        return _outputs(model, X, method)
    columns: Any = getattr(model, "columns_", None)
    names = getattr(model, "feature_names_in_", None)
    if hasattr(columns, "of_table"):  # the model has views, whose columns may lie side by side
        X = X if isinstance(X, Views) else columns.of_table(X)
    elif names is not None and hasattr(X, "columns") and hasattr(X, "iloc"):
        X = X[[name for name in names if name in set(X.columns)]]  # targets may lie beside them
    return predict_rows(model, X, method)


def score_lazily(model, X, y, sample_weight=None) -> float:
    """Return the accuracy of a classifier or the R² of a regressor on dask collections: one round of small sums."""
    partitions = open_partitions(
        X, y, sample_weight, features=_features(model), any_kind=_reads_tables(model)
    )
    parts = computed(partitions.map(_judged, model))
    total = added(*parts)
    if hasattr(model, "classes_"):
        return float(total[1] / total[0])
    mass, sums, squares, errors = total
    spread = squares - sums**2 / mass
    return float(np.mean(1 - errors / spread))


def _reads_tables(model) -> bool:
    return getattr(model, "columns_", None) is not None


def _features(model) -> Sequence[str] | None:
    columns = getattr(model, "columns_", None)
    return getattr(model, "feature_names_in_", None) if columns is None or columns.named else None


def _judged(chunk: Chunk, model) -> tuple[np.ndarray, ...]:
    """Return the sums of a partition that a score is made of."""
    s = np.ones(len(chunk)) if chunk.sample_weight is None else chunk.sample_weight
    if chunk.y is None:
        raise ValueError(f"{chunk.where} has no targets; pass y, the name of a column or a dask collection.")
    predicted = _predicted(model, "predict", chunk.X)
    if hasattr(model, "classes_"):
        return np.asarray(s.sum()), np.asarray(s @ (predicted == chunk.y).astype(float))
    shape = len(chunk), len(model.intercept_)
    if len(chunk) and np.size(chunk.y) != np.prod(shape):
        raise ValueError(
            f"y has {np.size(chunk.y) // len(chunk)} targets, and the model predicts {shape[1]}; pass those it was "
            "fitted to."
        )
    # About the mean of the training rows, so that squares lose no digits.
    Y, F = (np.reshape(v, shape).astype(float) - model.target_mean_ for v in (chunk.y, predicted))
    return np.asarray(s.sum()), s @ Y, s @ np.square(Y), s @ np.square(Y - F)
