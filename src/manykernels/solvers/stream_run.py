"""The loop that streaming solvers share: Ctrl-C, states to save and to go on from, callbacks, the trace."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from .._util.interrupts import Interruptible
from .._util.shapes import WHOLE, Damaged, Diverged, Stored, check_arrays
from .._util.threads import one_blas_thread
from ..problem import Problem, Result
from ..streaming.stream import Stream
from .log import Log, OnIteration, Progress, Step

State = dict[str, np.ndarray]
#: Is handed a function that returns the state, and decides whether to call it: to make a state may take a while.
Save = Callable[[Callable[[], State]], Any]

#: What the loop adds to a state: the epochs' steps; and a run over batches: epochs and batches done.
STEPS_KEY, POSITION_KEY = "stream_steps", "stream_position"


class StreamRun(ABC):
    """One fit over a stream, which goes on part by part and can be saved after each.

    Parameters
    ----------
    solver : StreamingSolver
    stream : Stream
    """

    def __init__(self, solver: Any, stream: Stream):
        self.solver, self.stream = solver, stream

    @abstractmethod
    def resume(self, state: State) -> None:
        """Set out from what `state` returned, in place of the beginning."""

    @abstractmethod
    def work(self) -> Iterator[Progress | None]:
        """Do the work, and yield after each part of it: what is known at the end of an epoch, else None."""

    @abstractmethod
    def state(self) -> State:
        """Return what the next parts need to know; called between two of them."""

    @abstractmethod
    def kept(self) -> str | None:
        """Return what Ctrl-C leaves, as the end of the sentence "Interrupted ...", None where there is nothing yet."""

    @abstractmethod
    def result(self, *, interrupted: bool) -> Result:
        """Return the model so far."""

    def close(self) -> None:  # noqa: B027 - most have taken nothing
        """Give back what the work has taken."""


def run_to_end(
    run: StreamRun,
    *,
    resume: State | None = None,
    save: Save | None = None,
    on_iteration: OnIteration | None = None,
) -> Result:
    """Work until the end, until the callback says stop, or until Ctrl-C; see `StreamingSolver.solve_stream`."""
    log = Log(on_iteration, time.perf_counter())
    if resume is not None:
        run.resume(_restored(resume, log))

    def state() -> State:
        steps = [(s.objective, s.gap, s.seconds, s.n_kernels) for s in log.steps]
        return {**run.state(), STEPS_KEY: np.array(steps, dtype=float).reshape(-1, 4)}

    # BLAS's own threads look for work for a while after each product, on cores that ours need.
    with closing(run), one_blas_thread():
        with Interruptible(run.kept) as loop, closing(run.work()) as parts:  # type: ignore[type-var]
            for known in parts:
                if known is not None and log.add(known.objective, known.gap, known.n_kernels):
                    break
                if save is not None:
                    save(state)
        result = run.result(interrupted=loop.interrupted)
    trace = log.trace(**result.trace.extra)
    return replace(result, trace=trace, n_iter=len(log), interrupted=loop.interrupted)


def _restored(saved: State, log: Log) -> State:
    """Return the run's part of a state, and give the log its own; the clock goes on from there."""
    state = dict(saved)
    if STEPS_KEY not in state:
        raise Damaged("it is not a checkpoint of a stream")
    check_arrays(state, {STEPS_KEY: Stored("* 4", finite=False)})
    for k, (objective, gap, seconds, kernels) in enumerate(state.pop(STEPS_KEY).tolist()):
        log.steps.append(Step(k + 1, objective, gap, seconds, int(np.nan_to_num(kernels))))
    if log.steps:
        log.started -= log.steps[-1].seconds
    return state


class BatchRun(StreamRun):
    """`epochs` times over the batches of a stream, by the hooks of a :class:`StreamingSolver`."""

    def __init__(self, solver: Any, stream: Stream):
        super().__init__(solver, stream)
        self.known: State | None = None
        self.epoch = self.done = 0

    def resume(self, state):
        check_arrays(state, {POSITION_KEY: Stored("2", WHOLE, 0)})
        self.epoch, self.done = (int(v) for v in state.pop(POSITION_KEY))
        self.solver.check_state(state, self.stream.first)
        self.known = state

    def state(self):
        assert self.known is not None
        return {**self.known, POSITION_KEY: np.array([self.epoch, self.done])}

    def kept(self):
        if self.epoch == self.done == 0:
            return None
        return (
            f"in epoch {self.epoch + 1}, after {self.done} of its batches; what was learned so far is kept."
        )

    def result(self, *, interrupted):
        return self.solver.finish(self.known, self.stream.first)

    def work(self):
        solver, stream = self.solver, self.stream
        if self.known is None:
            self.known = solver.start(stream.first)
            if stream.n_rows is not None:
                self.known = solver.expect(self.known, stream.n_rows)
        while self.epoch < solver.epochs and not solver.settled(self.known):
            for batch in islice(stream.epoch(self.epoch), self.done, None):
                # Together, so that Ctrl-C does not come between the state and the count.
                self.known, self.done = self._updated(batch), self.done + 1
                yield None
            if self.done == 0:
                raise ValueError(self._nothing())
            self.known, self.epoch, self.done = self._ended(), self.epoch + 1, 0
            yield solver.progress(self.known, stream.first)

    def _updated(self, batch: Problem) -> State:
        try:
            return self.solver.update(self.known, batch)
        except ValueError as error:
            kind = Diverged if isinstance(error, Diverged) else ValueError
            raise kind(f"Batch {self.done + 1} of epoch {self.epoch + 1}: {error}") from error

    def _ended(self) -> State:
        """Return the state at the end of an epoch, which a solver that validates has compared with the best one."""
        state, held_out = self.solver.end_epoch(self.known), self.stream.held_out
        return state if held_out is None else self.solver.validate(state, held_out)

    def _nothing(self) -> str:
        if self.epoch == 0:
            return "The stream is empty."
        return (
            f"The stream gave nothing in epoch {self.epoch + 1}; with epochs={self.solver.epochs} it must be readable "
            "again, as a list of batches is and a generator is not."
        )
