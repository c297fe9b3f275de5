"""What the estimators do with rows that come in batches: ``partial_fit``, and ``fit`` on a source."""

from __future__ import annotations

import numbers
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import RegressorMixin, clone
from sklearn.utils.validation import check_consistent_length

from .._util.checks import refuse_missing
from .._util.text import brief
from ..persistence.checkpoint import Checkpoint, digest
from ..problem import Problem
from ..registry import SOLVERS, is_pairwise, solver_class
from ..solvers import Solver, StreamingSolver
from ..solvers.base import generator
from ..solvers.log import heard
from ..streaming.sources import Arrays, Batches, Chunk, Source
from ..streaming.stream import HeldOut, Rows, SourceStream, Stream
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
from .rows import all_or_nothing
from .targets import announced_classes


def streams(estimator) -> bool:
    """Whether the estimator's solver takes rows in batches."""
    solver = estimator.solver
    if isinstance(solver, str):
        return issubclass(solver_class(solver) or Solver, StreamingSolver)
    return isinstance(solver, StreamingSolver)


def why_no_batches(estimator) -> str | None:
    """Return why there is no ``partial_fit``, None where there is one."""
    if streams(estimator):
        return None
    return (
        f"solver {brief(estimator.solver)} takes all rows at once, and has no partial_fit; name a solver that streams"
        f"{_streaming_names()}."
    )


def _streaming_names() -> str:
    known = sorted(name for name, cls in SOLVERS.items() if issubclass(cls, StreamingSolver))
    return f" ({', '.join(known).replace('_', '-')})" if known else ""


class Streamed:
    """The part of an estimator that deals with batches; the rest is :mod:`manykernels.estimators.base`."""

    # -- partial_fit -----------------------------------------------------------------------------------

    def _partial_fit(self: Any, X, y, sample_weight, classes=None):
        from ..streaming import is_source

        if is_source(X, y):
            raise ValueError(
                f"X is {brief(X)}, and partial_fit takes a batch of rows in memory; pass it to fit instead."
            )
        if hasattr(self, "combination_") and not hasattr(self, "state_"):
            warnings.warn(
                "partial_fit begins anew and replaces the model that was fitted by fit, which it cannot go on from; to "
                "keep that one, call partial_fit on sklearn.base.clone(model).",
                UserWarning,
                stacklevel=3,
            )
        with all_or_nothing(self), heard(self.verbose):
            if not hasattr(self, "state_"):
                for name in ("_context", "_announced", "_balance"):
                    self.__dict__.pop(name, None)
            if classes is not None:
                self._announce(announced_classes(classes))
            self._take_batch(X, y, sample_weight)

    def _announce(self: Any, classes: np.ndarray) -> None:
        if not hasattr(self, "state_"):
            self._announced = classes
        elif not np.array_equal(classes, self.classes_):
            raise ValueError(
                f"classes is {brief(classes.tolist())}, and was {brief(self.classes_.tolist())} on the first call; "
                "pass the same labels, or leave classes out."
            )

    def _take_batch(self: Any, X, y, sample_weight):
        if not hasattr(self, "state_"):
            batch = self._problem(X, y, sample_weight)
            self.state_ = self.solver_.start(batch)
            self._context = _without_rows(batch)
        else:
            rows, Y, s = self._training_data(X, y, sample_weight)
            batch = replace(self._context, X=rows, Y=Y, sample_weight=s)
        self.state_ = self.solver_.update(self.state_, batch)
        self._store(self.solver_.finish(self.state_, batch))

    def _training_data(self: Any, X, y, sample_weight=None):
        """Return rows, encoded and centred targets and weights for a fitted model."""
        rows = self._rows(X)
        y = self._check_targets(y)
        check_consistent_length(rows, y)
        return rows, self._encode(y) - self.target_mean_, self._weights(sample_weight, rows, y)

    # -- fit on a source -------------------------------------------------------------------------------

    def _source_of(self: Any, X, y, sample_weight, checkpoint) -> Source | None:
        """Return the source to stream from, None for rows that are taken as a whole."""
        from ..streaming import is_source, open_source

        if is_source(X, y):
            self._check_streams("X is a source of rows")
            return open_source(X).bind(y, sample_weight)
        mapped = isinstance(X, np.memmap) and X.ndim == 2 and streams(self)
        if checkpoint is None and not (mapped and not is_pairwise(self.kernels)):
            return None
        if checkpoint is not None:
            self._check_streams("checkpoint is given")
        if hasattr(X, "columns") or hasattr(X, "column_names"):
            return Batches([(X, y) if sample_weight is None else (X, y, sample_weight)]).bind()
        X = X if isinstance(X, np.ndarray) or sp.issparse(X) else np.asarray(X, dtype=float)
        return Arrays(X).bind(y if y is None else _array(y), sample_weight)

    def _check_streams(self: Any, why: str) -> None:
        if streams(self) or self._means_blockwise():
            return
        raise ValueError(
            f"{why}, but solver {brief(self.solver)} needs all rows in memory at once; use a solver that streams"
            f"{_streaming_names()}, or pass arrays and no checkpoint."
        )

    def _means_blockwise(self: Any) -> bool:
        return isinstance(self.solver, str) and self.solver == "auto" and "blockwise" in SOLVERS

    def _streaming_solver(self: Any, seed: int):
        """Return a fresh solver, with a seed of its own: a generator could not be wound back."""
        solver = self.solver
        if isinstance(solver, str):
            made = solver_class("blockwise" if self._means_blockwise() else solver)
            assert made is not None  # _check_streams has seen to it
            solver = made()
        solver = clone(solver)
        given = solver.get_params().get("random_state", seed)
        if not isinstance(given, numbers.Integral):
            solver.set_params(random_state=seed)
        solver.check_params()
        return solver

    def _fit_source(self: Any, source: Source, on_iteration, checkpoint, classes) -> None:
        """Open the stream, hand it to the solver, keep what it returns."""
        if is_pairwise(self.kernels):
            raise ValueError("kernels='precomputed' needs all rows at once; pass a stack of matrices as X.")
        self._check_C()
        source.numeric_targets = isinstance(self, RegressorMixin)
        saved = checkpoint if isinstance(checkpoint, Checkpoint | None) else Checkpoint(checkpoint)
        seed = self._stream_seed(saved)
        stream = self._open_stream(source, classes, seed)
        known = "rows of unknown number" if stream.n_rows is None else f"{stream.n_rows:,} rows"
        size = stream.first.family.size()
        kernels = "a continuum of kernels" if np.isinf(size) else f"{size:,} kernels"
        self._say(f"{known}, {kernels}, {brief(self.solver_, 200)}")
        resume = None if saved is None else saved.resume(self._identity(stream), seed)
        if saved is not None and resume is not None:
            self._say(f"going on from {saved.path}")
        result = self.solver_.solve_stream(
            stream,
            resume=resume,
            save=None if saved is None else saved.save,
            on_iteration=self._progress(on_iteration),
        )
        self._store(result)
        if saved is not None and not result.interrupted:  # after Ctrl-C the next fit goes on from it
            saved.remove()

    def _open_stream(self: Any, source: Source, classes, seed: int) -> Stream:
        """Survey the targets, draw the first sample, and settle everything but the rows."""
        solver = self._streaming_solver(seed)
        found, sample = self._look(source, solver, classes, seed)
        held = HeldOut(solver.held_out_share(found.n_rows), found.n_rows, seed, source.row_keys())
        out = held.start().chosen(sample.keys)
        sample = sample if out is None or out.all() else sample.take(~out)
        problem = self._first_problem(source, sample, found, solver)
        context = _without_rows(problem)

        def encode(rows: Rows) -> Problem:
            X, t, s = rows
            return replace(context, X=X, Y=self._encode(t) - self.target_mean_, sample_weight=s)

        return SourceStream(
            source,
            self._check_chunk,
            encode,
            problem,
            n_rows=found.n_rows,
            batch_size=int(solver.rows_at_once),
            seed=seed,
            held_out=held,
            say=self._say if self.verbose else None,
        )

    def _stream_seed(self: Any, saved: Checkpoint | None) -> int:
        """Return the seed of everything random: the user's, the interrupted fit's, or a fresh one."""
        for given in (getattr(self.solver, "random_state", None), self.random_state):
            if isinstance(given, int | np.integer) and given >= 0:
                return int(given)
        if saved is not None and saved.seed is not None:
            return saved.seed
        return int(generator(self.random_state).integers(2**31))

    def _look(self: Any, source: Source, solver, classes, seed: int) -> tuple[Survey, Chunk]:
        """Return what the targets tell, and the first sample."""
        classify = not isinstance(self, RegressorMixin)
        width = source.width or 100  # bytes, so a guess will do
        sample = Sample(max(1, min(SAMPLE_ROWS, SAMPLE_BYTES // (8 * width))), seed)
        if not source.repeatable:
            return self._look_once(source, solver, classes, sample.size)
        check = None
        if classify and classes is not None:
            self.classes_, check = announced_classes(classes), self._targets_of
        if not source.columnar:
            found = survey(source, classify=classify, sample=sample, check=check)
        elif classes is None or not classify or self.class_weight == "balanced":
            found = survey(source, classify=classify, check=check)
        else:
            found = Survey(source.n_rows)
        if source.columnar:
            for chunk in source.chunks(sample_units(source, sample.size, seed)):
                if check is not None:
                    check(chunk)
                sample.offer(chunk)
        if found.n_rows == 0:
            raise ValueError("The source is empty; it must hold at least one row.")
        if check is not None:
            found = replace(found, classes=self.classes_, mass=_mass(found, self.classes_))
        return found, sample.rows()

    def _look_once(self: Any, source, solver, classes, size) -> tuple[Survey, Chunk]:
        """Do without a survey, for a source that can be read only once."""
        classify = not isinstance(self, RegressorMixin)
        if classify and (classes is None or self.class_weight == "balanced"):
            raise ValueError(
                "X is an iterator, which can be read only once, and finding the labels takes a pass; pass classes= "
                "(and no class_weight='balanced'), a list of batches, a file, or an object whose __iter__ starts anew."
            )
        if (getattr(solver, "epochs", None) or 1) > 1:
            raise ValueError(
                f"X is an iterator, which can be read only once, and {brief(solver)} makes several passes; pass a "
                "list of batches, a file, or an object whose __iter__ starts anew."
            )
        found = Survey(None, announced_classes(classes) if classify else None)
        return found, in_order(source.head(size), "the first sample")

    def _first_problem(self: Any, source: Source, sample: Chunk, found: Survey, solver) -> Problem:
        """Return the problem on the first sample; the classes and the mean are those of all rows."""
        if found.classes is not None:
            self._announced = found.classes
            mass = found.mass
            if mass is not None and isinstance(self.class_weight, str) and self.class_weight == "balanced":
                self._balance = mass.sum() / (np.count_nonzero(mass) * np.where(mass > 0, mass, 1.0))
        return self._problem(
            sample.X,
            sample.y,
            sample.sample_weight,
            names=source.names,
            mean=found.mean,
            solver=solver,
        )

    def _check_chunk(self: Any, chunk: Chunk) -> Rows:
        """Return rows, targets in the plain form and weights; what is wrong with them is said with their place."""
        if chunk.X.shape[1] != self.n_features_in_:
            raise ValueError(
                f"{chunk.place} has {chunk.X.shape[1]} columns, and the rows before it have {self.n_features_in_}."
            )
        t = self._targets_of(chunk)
        return chunk.X, t, self._times_class_weight(checked_weights(chunk), t)

    def _targets_of(self: Any, chunk: Chunk):
        if chunk.y is None:
            raise ValueError(f"{chunk.place} has no targets; pass y='column', or batches (X, y).")
        try:
            refuse_missing(chunk.y, chunk.first)
            return self._check_targets(chunk.y)
        except ValueError as error:
            raise ValueError(f"{chunk.place}: {error}") from None

    def _times_class_weight(self: Any, s, t):
        return s

    def _identity(self: Any, stream: Stream) -> dict[str, Any]:
        """Return what a checkpoint must agree on with this fit."""
        from .._version import __version__

        first = stream.first
        return {
            "the version of manykernels": __version__,
            "the estimator": type(self).__name__,
            "solver": brief(self.solver_, 90),
            "the solver's parameters": digest(self.solver_),
            "loss": self.loss_.name,
            "C": float(self.C),
            "normalize": brief(self.normalize_),
            "class_weight": brief(getattr(self, "class_weight", None)),
            "the number of columns": int(self.n_features_in_),
            "the names of the columns": digest(getattr(self, "feature_names_in_", None)),
            "the classes": digest(getattr(self, "classes_", None)),
            "the number of rows": stream.n_rows,
            "the first rows": digest([first.X, first.Y, first.sample_weight]),
            "kernels": brief(first.family, 90),
            "the kernels": digest(first.family),
        }

    def predict_to(self: Any, source, path, *, proba: bool = False) -> int:
        """Write predictions for the rows of a source to a file, batch by batch.

        Parameters
        ----------
        source : path, pyarrow Dataset, table, array, or iterable of batches
            See :func:`manykernels.streaming.open_source`.
        path : path that ends in .parquet, .csv, .feather or .arrow
            It appears when it is complete.
        proba : bool
            Whether to add the class probabilities.

        Returns
        -------
        int
            The number of rows.
        """
        from ..streaming import predict_to

        return predict_to(self, source, path, proba=proba)


def _without_rows(problem: Problem) -> Problem:
    return replace(problem, X=problem.X[:0], Y=problem.Y[:0], sample_weight=np.ones(0))


def _array(y):
    return y if isinstance(y, np.ndarray) else np.asarray(y)


def _mass(found: Survey, classes: np.ndarray) -> np.ndarray | None:
    """Return the weight of the classes announced; those never met have none."""
    if found.classes is None or found.mass is None:
        return None
    met = dict(zip(found.classes.tolist(), found.mass.tolist(), strict=True))
    return np.array([met.get(c, 0.0) for c in classes.tolist()])
