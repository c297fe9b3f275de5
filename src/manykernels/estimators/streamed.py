"""Rows that come in batches: ``fit`` on a source, and ``partial_fit``.

A source is surveyed (labels, the mean of the targets, the number of rows), a first sample of it is drawn, and the
ordinary path settles everything but the rows (``MKL._problem``); then the solver gets a stream of batches.
"""

from __future__ import annotations

import numbers
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from .._util.checks import refuse_missing
from .._util.text import brief, warn
from .._version import __version__
from ..persistence.checkpoint import Checkpoint, digest, digest_of
from ..problem import Problem, Result, refuse_overflow
from ..registry import is_auto, solver_class, streaming_names, streams, sums_rows
from ..solvers import StreamingSolver
from ..solvers.base import generator
from ..solvers.choosing import Chosen, chosen
from ..solvers.log import OnIteration
from ..streaming import is_source, open_source
from ..streaming.partitions import is_lazy
from ..streaming.sources import Arrays, Batches, Chunk, Source
from ..streaming.stream import CheckedRows, HeldOut, SourceStream, Stream
from ..streaming.survey import (
    SAMPLE_BYTES,
    SAMPLE_ROWS,
    Sample,
    Survey,
    checked_weights,
    in_order,
    sample_units,
    survey,
)
from ..tables.reading import of_matrix
from ..tables.views import Views
from .targets import Known, announced_classes, balancing

if TYPE_CHECKING:
    from .base import MKL

# -- partial_fit ---------------------------------------------------------------------------------------


def take_batch(model: MKL, X, y, sample_weight, classes=None) -> None:
    """Go on with one more batch, or begin with the first."""
    if is_source(X, y):
        raise ValueError(
            f"X is {brief(X)}, and partial_fit takes a batch of rows in memory; pass it to fit instead."
        )
    announced = None if classes is None else announced_classes(classes)
    first = not hasattr(model, "state_")
    if not first:
        _same_classes(model, announced)
        rows, Y, s = model._training_data(X, y, sample_weight)
        refuse_overflow(Y, model._context.C, s, part=True)
        batch = replace(model._context, X=rows, Y=Y, sample_weight=s)
        model.solver_.check_range(batch, part=True)
    else:
        if hasattr(model, "combination_"):
            warn(
                "partial_fit begins anew and replaces the model that was fitted by fit, which it cannot go on from; to "
                "keep that one, call partial_fit on sklearn.base.clone(model)."
            )
        model.__dict__.pop("columns_", None)  # of a fit before
        batch = with_C(model, model._problem(X, y, sample_weight, Known(classes=announced)))
        model.state_ = model.solver_.start(batch)
        model._context = without_rows(batch)
    model.state_ = model.solver_.update(model.state_, batch)
    result = model.solver_.finish(model.state_, batch)
    if first:
        result = calibrated(model, result, batch)
    elif result.calibration is None:
        result = replace(result, calibration=model.result_.calibration)
    model._store(result, batch.C, batch)


def _same_classes(model: Any, announced: np.ndarray | None) -> None:
    if announced is not None and not np.array_equal(announced, model.classes_):
        raise ValueError(
            f"classes is {brief(announced.tolist())}, and was {brief(model.classes_.tolist())} on the first call; "
            "pass the same labels, or leave classes out."
        )


# -- fit on a source -----------------------------------------------------------------------------------


def source_of(model: MKL, X, y, sample_weight, checkpoint) -> Source | None:
    """Return the source to stream from, None for rows that are taken as a whole."""
    listed = model._pairwise and isinstance(X, list | tuple) and y is not None  # kernel matrices, no batches
    if is_source(X, y) and not listed:
        if is_lazy(X) and not (is_auto(model.solver) or sums_rows(model.solver)):
            raise ValueError(
                f"X is a dask collection, and solver {brief(model.solver)} does not fit by sums over its rows; use "
                "Greedy, MirrorDescent, LpNorm, Uniform, Alignment or Blockwise, or pass rows in memory."
            )
        _check_streams(model, "X is a source of rows")
        source = open_source(X)
        any_kind = model._automatic or source.views is not None
        return source.bind(y, sample_weight, any_kind=any_kind)
    mapped = isinstance(X, np.memmap) and X.ndim == 2 and streams(model.solver)
    if checkpoint is None and not (mapped and not model._pairwise):
        return None
    if checkpoint is not None:
        _check_streams(model, "checkpoint is given")
    if hasattr(X, "columns") or hasattr(X, "column_names"):
        batch = (X, y) if sample_weight is None else (X, y, sample_weight)
        return Batches([batch]).bind(any_kind=model._automatic)
    if not (isinstance(X, np.ndarray) or sp.issparse(X)):
        X = np.asarray(X, dtype=object if model._automatic else float)
    y = y if y is None or isinstance(y, np.ndarray) else np.asarray(y)
    return Arrays(X).bind(y, sample_weight, any_kind=model._automatic)


def _check_streams(model: MKL, why: str) -> None:
    if not (streams(model.solver) or is_auto(model.solver) or sums_rows(model.solver)):
        raise ValueError(
            f"{why}, but solver {brief(model.solver)} needs all rows in memory at once; use a solver that streams"
            f" ({streaming_names()}), or pass arrays and no checkpoint."
        )


def with_C(model: MKL, first: Problem) -> Problem:
    """Return the first rows with C, chosen by them where the solver cannot choose it on the way."""
    return chosen(model.solver_, first).problem


def calibrated(model: MKL, result: Result, first: Problem) -> Result:
    """Return the result with what turns scores into probabilities, taught by the first rows if not by the solver."""
    if not getattr(model, "calibrate", False) or not first.n_rows:
        return result
    return Chosen(model.solver_, first).calibrated(result)


def opened(model: MKL, source: Source, saved: Checkpoint | None, classes) -> Opening:
    """Return what opens a source for a model, whose solver it has made."""
    if model._pairwise:
        raise ValueError("kernels='precomputed' needs all rows at once; pass a stack of matrices as X.")
    source.numeric_targets = model._regresses
    return Opening(model, source, classes, _seed(model, saved))


def fit_stream(opening: Opening, on_iteration: OnIteration | None, saved: Checkpoint | None) -> None:
    """Open the stream, hand it to the solver, keep what it returns."""
    model, source, seed = opening.model, opening.source, opening.seed
    stream = opening.stream()
    model._announce(stream.first, stream.n_rows)
    resume = None if saved is None else saved.resume(_identity(model, source, stream), seed)
    if saved is not None and resume is not None:
        model._say(f"going on from {saved.path}")
    with nullcontext() if saved is None else saved.blamed():
        result = model.solver_.solve_stream(
            stream,
            resume=resume,
            save=None if saved is None else saved.save,
            on_iteration=model._progress(on_iteration),
        )
    model._store(calibrated(model, result, stream.first), stream.first.C, stream.first)
    if saved is not None and not result.interrupted:  # after Ctrl-C the next fit goes on from it
        saved.remove()


def _seed(model: MKL, saved: Checkpoint | None) -> int:
    """Return the seed of everything random: the user's, the interrupted fit's, or a fresh one."""
    for given in (getattr(model.solver, "random_state", None), model.random_state):
        if isinstance(given, int | np.integer) and given >= 0:
            return int(given)
    if saved is not None and saved.seed is not None:
        return saved.seed
    return int(generator(model.random_state).integers(2**31))


def _solver_of(model: MKL, seed: int) -> Any:
    """Return a fresh solver, with a seed of its own: a generator could not be wound back."""
    solver = model.solver
    if isinstance(solver, str):
        made = solver_class(_automatic(model) if is_auto(solver) else solver)
        assert made is not None  # _check_streams has seen to it
        solver = made()
    fresh: Any = clone(solver)
    if not isinstance(fresh.get_params().get("random_state", seed), numbers.Integral):
        fresh.set_params(random_state=seed)
    fresh.check_params()
    return fresh


def _automatic(model: MKL) -> str:
    """Return the solver for rows of a source: products of columns are searched, all else has random features."""
    kernels: Any = model.kernels
    return "greedy" if getattr(kernels, "factorises", False) and kernels.base is None else "blockwise"


class Encoding:
    """From checked rows to a batch.

    Parameters
    ----------
    model : MKL
    context : Problem
        Without rows.
    """

    def __init__(self, model: MKL, context: Problem):
        self.model, self.context = model, context

    def __call__(self, rows: CheckedRows) -> Problem:
        X, t, s = rows
        refuse_overflow(t if self.model._regresses else None, self.context.C, s, part=True)
        batch = replace(self.context, X=X, Y=self.model._encode(t), sample_weight=s)
        if isinstance(self.model.solver_, StreamingSolver):
            self.model.solver_.check_range(batch, part=True)
        return batch


class Opening:
    """From a source to a stream: survey the targets, draw the first sample, settle everything but the rows.

    Parameters
    ----------
    model : MKL
        Gets ``solver_``, ``loss_`` and all else that belongs to the problem.
    source : Source
    classes : array of labels or None
        As the user announced them.
    seed : int
    """

    def __init__(self, model: MKL, source: Source, classes, seed: int):
        self.model, self.source, self.seed = model, source, seed
        self.solver = _solver_of(model, seed)
        #: Whether the fit is made of sums over rows.
        self.sums = not isinstance(self.solver, StreamingSolver) or hasattr(source, "partitions")
        labels = classes is not None and not model._regresses
        self.announced = announced_classes(classes) if labels else None
        weight = getattr(model, "class_weight", None)
        self.balances = isinstance(weight, str) and weight == "balanced"
        self.balance: np.ndarray | None = None
        #: Of partitions: how each looked when it was first read.
        self.stamps: list[Any] = []

    def stream(self) -> Stream:
        """Return the stream."""
        found, sample = self._look()
        share = self.solver.held_out_share(found.n_rows)
        held = HeldOut(share, found.n_rows, self.seed, self.source.row_keys())
        out = held.start().chosen(sample.keys)
        sample = sample if out is None or out.all() else sample.take(~out)
        problem = with_C(self.model, self._first_problem(sample, found))

        return SourceStream(
            self.source,
            self._check_chunk,
            Encoding(self.model, without_rows(problem)),
            problem,
            n_rows=found.n_rows,
            batch_size=int(self.solver.rows_at_once),
            seed=self.seed,
            held_out=held,
            say=self.model._say if self.model.verbose else None,
        )

    def _look(self) -> tuple[Survey, Chunk]:
        """Return what the targets tell, and the first sample."""
        source, classify = self.source, not self.model._regresses
        width = source.width or 100  # bytes, so a guess will do
        wanted = int(getattr(self.solver, "sample", SAMPLE_ROWS))  # as many as of rows in memory
        sample = Sample(max(1, min(wanted, SAMPLE_BYTES // (8 * width))), self.seed)
        if not source.repeatable:
            return self._look_once(sample.size)
        if hasattr(source, "partitions"):
            return self._look_around(sample)
        check = None if self.announced is None else self._check_labels
        if not source.columnar:
            found = survey(source, classify=classify, sample=sample, check=check)
        elif self.announced is None or self.balances:
            found = survey(source, classify=classify, check=check)
        else:
            found = Survey(source.n_rows)
        if source.columnar:
            for chunk in source.chunks(sample_units(source, sample.size, self.seed)):
                if check is not None:
                    check(chunk)
                sample.offer(chunk)
        if found.n_rows == 0:
            raise ValueError("The source is empty; it must hold at least one row.")
        if self.announced is not None:
            found = replace(found, classes=self.announced, mass=_mass(found, self.announced))
        return found, sample.rows()

    def _look_around(self, sample: Sample) -> tuple[Survey, Chunk]:
        """Look at partitions where they are: one round for the targets, one for the sample."""
        from ..streaming.partitions import sample_partitions, survey_partitions

        source: Any = self.source
        check = None if self.announced is None else self._check_labels
        found, self.stamps = survey_partitions(source.partitions, not self.model._regresses, check)
        if self.announced is not None:
            found = replace(found, classes=self.announced, mass=_mass(found, self.announced))
        assert found.n_rows is not None
        return found, sample_partitions(source.partitions, found.n_rows, sample)

    def _look_once(self, size: int) -> tuple[Survey, Chunk]:
        """Do without a survey, for a source that can be read only once."""
        source: Any = self.source
        if not self.model._regresses and (self.announced is None or self.balances):
            raise ValueError(
                "X is an iterator, which can be read only once, and finding the labels takes a pass; pass classes= "
                "(and no class_weight='balanced'), a list of batches, a file, or an object whose __iter__ starts anew."
            )
        if self.sums or (getattr(self.solver, "epochs", None) or 1) > 1:
            raise ValueError(
                f"X is an iterator, which can be read only once, and {brief(self.solver)} makes several passes; pass a "
                "list of batches, a file, or an object whose __iter__ starts anew."
            )
        return Survey(None, self.announced), in_order(source.head(size), "the first sample")

    def _first_problem(self, sample: Chunk, found: Survey) -> Problem:
        """Return the problem on the first sample; the classes and the mean are those of all rows."""
        mass = found.mass
        if mass is not None and self.balances:
            self.balance = balancing(mass)
        rows = self._as_views(sample.X)
        names = None if isinstance(rows, Views) else self.source.names
        loss = "squared" if self.sums and self.model.loss == "auto" else None
        known = Known(found.classes, names, found.mean, self.solver, self.balance, loss)
        if self.model._automatic and isinstance(rows, np.ndarray) and names is not None:
            rows = of_matrix(rows, names)
        return self.model._problem(rows, sample.y, sample.sample_weight, known)

    def _as_views(self, X: Any) -> Any:
        """Return rows as views, where columns of the source are grouped."""
        if self.source.views is None:
            return X
        if isinstance(X, np.ndarray) and self.source.names is not None:
            X = of_matrix(X, self.source.names)
        return Views.from_columns(X, self.source.views)

    def _check_labels(self, chunk: Chunk) -> None:
        """Refuse labels that were not announced, before the classes are known otherwise."""
        self.model.classes_ = self.announced  # type: ignore[attr-defined]
        self._targets(chunk)

    def _check_chunk(self, chunk: Chunk) -> CheckedRows:
        """Return rows, targets in the plain form and weights; what is wrong with them is said with their place."""
        width, several = (
            self.model.n_features_in_,
            isinstance(chunk.X, Views) or self.source.views is not None,
        )
        if chunk.X.shape[1] != width and not several:
            raise ValueError(
                f"{chunk.place} has {chunk.X.shape[1]} columns, and the rows before it have {width}."
            )
        t, s = self._targets(chunk), checked_weights(chunk)
        if getattr(self.model, "class_weight", None) is not None:
            s = self.model._times_class_weight(s, t, self.balance)
        return self._numbers(chunk), t, s

    def _numbers(self, chunk: Chunk) -> np.ndarray:
        """Return the rows as the solver sees them."""
        try:
            if hasattr(self.model, "columns_"):
                return self.model.columns_.transform(self._as_views(chunk.X))
            self.model._refuse_vast(chunk.X, part=True)
            return chunk.X
        except ValueError as error:
            raise ValueError(f"{chunk.place}: {error}") from None

    def _targets(self, chunk: Chunk) -> np.ndarray:
        if chunk.y is None:
            raise ValueError(f"{chunk.place} has no targets; pass y='column', or batches (X, y).")
        try:
            refuse_missing(chunk.y, chunk.first)
            return self.model._check_targets(chunk.y)
        except ValueError as error:
            raise ValueError(f"{chunk.place}: {error}") from None


def without_rows(problem: Problem) -> Problem:
    """Return all of a problem but its rows."""
    return replace(problem, X=problem.X[:0], Y=problem.Y[:0], sample_weight=np.ones(0))


def _mass(found: Survey, classes: np.ndarray) -> np.ndarray | None:
    """Return the weight of the classes announced; those never met have none."""
    if found.classes is None or found.mass is None:
        return None
    met = dict(zip(found.classes.tolist(), found.mass.tolist(), strict=True))
    return np.array([met.get(c, 0.0) for c in classes.tolist()])


def _identity(model: MKL, source: Source, stream: Stream) -> dict[str, Any]:
    """Return what a checkpoint must agree on with a fit over a stream."""
    data = {name: digest_of(parts) for name, parts in source.contents()}
    return identity(model, data, stream.first, stream.n_rows)


def identity(model: MKL, data: dict[str, str], first: Problem, n_rows: int | None) -> dict[str, Any]:
    """Return what a checkpoint must agree on with this fit; what the rows are read from comes before what follows."""
    return {
        "the version of manykernels": __version__,
        "the estimator": type(model).__name__,
        "data": data,
        "solver": brief(model.solver_, 90),
        "the solver's parameters": digest(model.solver_),
        "loss": model.loss_.name,
        "C": model.C if isinstance(model.C, str) else float(model.C),
        "normalize": brief(model.normalize_),
        "class_weight": brief(getattr(model, "class_weight", None)),
        "the number of columns": int(model.n_features_in_),
        "the names of the columns": digest(getattr(model, "feature_names_in_", None)),
        "the classes": digest(getattr(model, "classes_", None)),
        "the number of rows": n_rows,
        "the first rows": digest([first.X, first.Y, first.sample_weight]),
        "kernels": brief(first.family, 90),
        "the kernels": digest(first.family),
    }
