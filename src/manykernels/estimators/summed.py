"""``fit`` on rows that lie elsewhere, by sums over them: in files, read block by block, or on a Dask cluster.

The path is that of :mod:`.streamed`: the targets are surveyed, a first sample settles everything but the rows, and the
solver gets these as :class:`~manykernels.streaming.cluster.Rows`, wherever they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from .._util.text import brief
from ..persistence.checkpoint import Checkpoint, digest_of
from ..problem import Problem, Result
from ..solvers.gram_once import solve_grams
from ..solvers.log import OnIteration
from ..streaming.cluster import Block, LocalRows, Rows
from ..streaming.journal import Recorded
from ..streaming.sources import Chunk, Source, keys_of
from ..streaming.stream import HeldOut
from ..streaming.survey import in_order
from .streamed import Encoding, Opening, calibrated, fit_stream, identity, opened, with_C, without_rows

if TYPE_CHECKING:
    from .base import MKL


def fit_source(model: MKL, source: Source, on_iteration: OnIteration | None, checkpoint, classes) -> None:
    """Fit on rows of a source: as a stream of batches, or by sums over them."""
    saved = checkpoint if isinstance(checkpoint, Checkpoint | None) else Checkpoint(checkpoint)
    opening = opened(model, source, saved, classes)
    if opening.sums:
        fit_rows(opening, on_iteration, saved)
    else:
        fit_stream(opening, on_iteration, saved)


class ToBlock:
    """From a chunk, as it was read, to a block, as a solver sees it.

    Parameters
    ----------
    opening : Opening
        Checks rows and targets.
    encoding : Encoding
    """

    def __init__(self, opening: Opening, encoding: Encoding):
        self.check, self.encoding = opening._check_chunk, encoding

    def __call__(self, chunk: Chunk) -> Block:
        batch = self.encoding(self.check(chunk)) if len(chunk) else self.encoding.context
        return Block(batch.X, batch.Y, batch.sample_weight, chunk.keys)


def fit_rows(opening: Opening, on_iteration: OnIteration | None, saved: Checkpoint | None) -> None:
    """Hand the rows of a source to the solver, and keep what it returns."""
    model, contents = opening.model, _contents(opening)
    rows, first, apart = opened_rows(opening)
    model._say(f"{rows.n_rows:,} rows in {rows.n_blocks:,} blocks, {brief(model.solver_, 200)}")

    def so_far() -> str:
        return f"  {rows.rounds} rounds  {rows.sent / 2**20:.1f} MiB"

    try:
        with ExitStack() as watched:
            if saved is not None:
                watched.enter_context(saved.blamed())
                rows = recorded = _recorded(opening, rows, first, contents, saved)
                watched.enter_context(recorded.trusted())
            result = _solved(model, rows, first, apart, model._progress(on_iteration, so_far))
        model._say(f"{rows.rounds} rounds over the rows, {rows.sent / 2**20:.1f} MiB sent and received")
    finally:
        rows.close()
    model._store(calibrated(model, result, first), first.C, first)
    if saved is not None and not result.interrupted:  # after Ctrl-C the next fit goes on from it
        saved.remove()


def _recorded(opening: Opening, rows: Rows, first: Problem, contents, saved: Checkpoint) -> Recorded:
    """Return the rows with the journal of sums that a checkpoint is, and the one it holds already."""
    data = dict(contents()) | {f"partition {k}": repr(stamp) for k, stamp in enumerate(opening.stamps)}
    known = saved.resume(identity(opening.model, data, first, rows.n_rows), opening.seed)
    none = without_rows(first)
    found = Recorded(rows, known, saved.save, Block(none.X, none.Y, none.sample_weight, keys_of(0, 0, 0)))
    if known is not None:
        opening.model._say(f"going on from {saved.path}, which holds {found.given} rounds")
    return found


def _contents(opening: Opening) -> Callable[[], Iterator[tuple[str, str]]]:
    """Return what yields digests of what the rows are read from, where that can be told without reading them."""
    source = opening.source
    return lambda: ((name, digest_of(parts)) for name, parts in source.contents())


def opened_rows(opening: Opening) -> tuple[Rows, Problem, Problem | None]:
    """Return the rows of a source, the problem on a first sample of them, and the rows that are held out."""
    model = opening.model
    found, sample = opening._look()
    assert found.n_rows is not None
    held = _held_out(opening, found.n_rows)
    out = held.start().chosen(sample.keys)
    sample = sample if out is None or out.all() else sample.take(~out)
    first = opening._first_problem(sample, found)
    model._weighs_targets(first)  # or it says now that the solver cannot
    first = first if model.solver_.gram_once else with_C(model, first)
    rows, apart = _rows(opening, first, held, found.n_rows)
    return rows, first, apart


def _solved(model: MKL, rows: Rows, first: Problem, apart: Problem | None, on_iteration) -> Result:
    """Return the solver's result; where C or p was left open, the model gets the solver that has them."""
    if not model.solver_.gram_once:
        return model.solver_.solve_rows(rows, first, held_out=apart, on_iteration=on_iteration)
    known: dict[str, Any] = {"memory": model._memory, "on_iteration": on_iteration}
    model.solver_, result = solve_grams(
        model.solver_, rows, first, per_target=model._weighs_targets(first), **known
    )
    return result


def _held_out(opening: Opening, n_rows: int) -> HeldOut:
    """Return which rows only judge: those of a cluster's fit that calibrates by them."""
    share = getattr(opening.solver, "held_out_share", lambda n_rows: 0.0)(n_rows)
    keys = (keys_of(number, 0, stamp.rows) for number, stamp in enumerate(opening.stamps))
    return HeldOut(share if opening.stamps else 0.0, n_rows, opening.seed, keys)


def _rows(opening: Opening, first: Problem, held: HeldOut, n_rows: int) -> tuple[Rows, Problem | None]:
    """Return the rows in blocks, where they are, and those that are held out."""
    source: Any = opening.source
    to_block = ToBlock(opening, Encoding(opening.model, _without_sample(first)))
    width, memory = first.X.shape[1], opening.model._memory
    keep = not opening.solver.gram_once  # which makes a single pass
    if not hasattr(source, "partitions"):
        units = [partial(_blocks_of, source, u, to_block) for u in range(len(source.unit_rows()))]
        return LocalRows(units, n_rows, width=width, memory=memory, keep=keep), None
    from ..streaming.partitions import Prepare, dask_rows, held_out_rows, n_workers

    opening.source = Source()  # what is sent to workers has no graph in it
    opening.source.views, opening.source.names = source.views, source.names
    keep = keep and 8 * n_rows * (width + 2) <= memory * n_workers()
    prepare = Prepare(to_block, opening.stamps, held)
    rows = dask_rows(source.partitions, prepare, n_rows - held.count, keep=keep)
    if not held.count:
        return rows, None
    apart = to_block.check(in_order(held_out_rows(source.partitions, held), "the held-out rows"))
    return rows, Encoding(opening.model, without_rows(first))(apart)


def _without_sample(first: Problem) -> Problem:
    """Return all of a problem that turns rows into blocks: workers get it with every round."""
    empty = without_rows(first)
    return replace(empty, scale=replace(first.scale, X=empty.X, sample_weight=empty.sample_weight))


def _blocks_of(source: Any, unit: int, to_block: ToBlock) -> Iterator[Block]:
    return map(to_block, source.chunks([unit]))
