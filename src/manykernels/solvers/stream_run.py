"""The loop over a stream that streaming solvers share: epochs, batches, checkpoints."""

from __future__ import annotations

import time
from collections.abc import Iterable
from itertools import islice
from typing import Any

import numpy as np

from ..problem import Problem, Stream
from .log import Log, Step

#: Least number of seconds between two checkpoints of a stream.
SAVE_EVERY = 5.0
#: What the loop over a stream adds to a checkpoint: epochs and batches done, and the epochs' steps.
POSITION, STEPS = "stream_position", "stream_steps"


class StreamRun:
    """One run over a stream: where it is, what it knows, and when it saved that last."""

    def __init__(self, solver: Any, stream: Stream, save, log: Log):
        self.solver, self.stream, self.save, self.log = solver, stream, save, log
        self.state: dict[str, np.ndarray] = {}
        self.epoch = self.done = 0
        self.saved = time.perf_counter()

    def start(self) -> None:
        """Begin before the first row."""
        self.state = self.solver.start(self.stream.first)
        if self.stream.n_rows is not None:
            self.state = self.solver.expect(self.state, self.stream.n_rows)

    def resume(self, checkpoint: dict[str, np.ndarray]) -> None:
        """Begin where a checkpoint was taken."""
        state = dict(checkpoint)
        if POSITION not in state or STEPS not in state:
            raise ValueError("resume is not a checkpoint of a stream; pass what save() was given.")
        self.epoch, self.done = (int(v) for v in state.pop(POSITION))
        for k, (objective, gap, seconds, kernels) in enumerate(state.pop(STEPS).tolist()):
            self.log.steps.append(Step(k + 1, objective, gap, seconds, int(kernels)))
        if self.log.steps:
            self.log.started -= self.log.steps[-1].seconds  # the clock goes on from there
        self.state = state

    def checkpoint(self) -> dict[str, np.ndarray]:
        """Return the state and the position in the stream."""
        steps = [(s.objective, s.gap, s.seconds, s.n_kernels) for s in self.log.steps]
        return {
            **self.state,
            POSITION: np.array([self.epoch, self.done]),
            STEPS: np.array(steps, dtype=float).reshape(-1, 4),
        }

    def keep(self) -> None:
        """Hand the checkpoint to whoever saves it."""
        if self.save is not None:
            self.save(self.checkpoint())
            self.saved = time.perf_counter()

    def go(self) -> None:
        """Take batch after batch until the epochs are over, more would not help, or the callback says stop."""
        while self.epoch < self.solver.epochs and not self.solver.settled(self.state):
            for batch in islice(epoch_of(self.stream, self.epoch), self.done, None):
                # Together, so that Ctrl-C does not come between the state and the count.
                self.state, self.done = self._update(batch), self.done + 1
                if time.perf_counter() - self.saved > SAVE_EVERY:
                    self.keep()
            if self.done == 0:
                raise ValueError(self._nothing())
            self.state, self.epoch, self.done = self._ended(), self.epoch + 1, 0
            known = self.solver.progress(self.state, self.stream.first)
            seconds = time.perf_counter() - self.log.started
            if self.log(Step(self.epoch, known.objective, known.gap, seconds, known.n_kernels)):
                return

    def _ended(self) -> dict[str, np.ndarray]:
        """Return the state at the end of an epoch, which a solver that validates has compared with the best one."""
        state, held_out = self.solver.end_epoch(self.state), getattr(self.stream, "held_out", None)
        return state if held_out is None else self.solver.validate(state, held_out)

    def _nothing(self) -> str:
        if self.epoch == 0:
            return "The stream is empty."
        return (
            f"The stream gave nothing in epoch {self.epoch + 1}; with epochs={self.solver.epochs} it must be iterable "
            "again, as a list is and a generator is not."
        )

    def _update(self, batch: Problem) -> dict[str, np.ndarray]:
        try:
            return self.solver.update(self.state, batch)
        except ValueError as error:
            raise ValueError(f"Batch {self.done + 1} of epoch {self.epoch + 1}: {error}") from error


def epoch_of(stream: Stream, number: int) -> Iterable[Problem]:
    """Return the batches of an epoch; a stream that shuffles has a method for it."""
    epoch = getattr(stream, "epoch", None)
    return iter(stream) if epoch is None else epoch(number)
