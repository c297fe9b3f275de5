"""What a fit says while it works: the plan before it starts, then how far it is; a line on terminals, lines in logs.

All of it is what estimators and solvers log: a :class:`~manykernels.estimators.forecast.Forecast`, and then stages and
steps.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

from .._util.pace import duration
from ..estimators.forecast import Forecast
from ..solvers.log import Stage, Step, logger
from .screens import count, facts_table, is_quiet, list_columns, noted, stderr

#: Seconds between two lines of a log.
EVERY = 10.0
#: A smaller share of the work says too little of the rest.
LEAST_SHARE = 0.1


@contextmanager
def watched(facts: dict[str, str] | None = None, every: float = EVERY) -> Iterator[None]:
    """Show what is logged in the body, unless --quiet was given; what is warned of is printed as notes in the end.

    `facts` begin the plan.
    """
    if is_quiet():
        with noted():
            yield
        return
    console = stderr()
    shown = Terminal(console) if console.is_terminal else Lines(console, every)
    handler, level = Watcher(console, shown, facts or {}), logger.level
    with noted():
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG)
        try:
            yield
        finally:
            logger.removeHandler(handler)
            logger.setLevel(level)
            shown.close()


class Watcher(logging.Handler):
    """Prints the plan of a fit, and shows how far it is.

    Parameters
    ----------
    console : Console
    shown : Terminal or Lines
    facts : dict of str
    """

    def __init__(self, console: Console, shown: Terminal | Lines, facts: dict[str, str]):
        super().__init__(logging.DEBUG)
        self.console, self.shown, self.facts = console, shown, facts
        self.started, self.expected = time.perf_counter(), math.nan

    def emit(self, record: logging.LogRecord) -> None:
        """Take notice of a forecast, a stage or a step; other messages are for `verbose`."""
        known: Any = record.args[0] if isinstance(record.args, tuple) and record.args else None
        if isinstance(known, Forecast):
            self.started, self.expected = time.perf_counter(), known.seconds
            self.console.print(facts_table(self.facts | plan(known)))
            self.facts = {}
        elif isinstance(known, Stage):
            found = "" if math.isnan(known.left_out) else f"left-out error {known.left_out:.4f}"
            self.shown.show(f"Learning {known.doing}", known.done, found, self._to_go(known.done))
        elif isinstance(known, Step):
            self.shown.show(f"Iteration {known.iteration}", math.nan, _step(known), self._to_go(math.nan))

    def _to_go(self, done: float) -> str:
        """Return how long it may still take: as the share done tells, before that as was expected."""
        past = time.perf_counter() - self.started
        rest = past * (1 - done) / done if done >= LEAST_SHARE else self.expected - past
        return f"about {duration(rest)} to go" if rest > 1 else ""


class Terminal:
    """One line that changes."""

    def __init__(self, console: Console):
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(16),
            TextColumn("{task.fields[facts]}"),
        )
        self._line = Progress(*columns, console=console, transient=True)
        self._task = self._line.add_task("Fitting", total=None, facts="")
        self._line.start()

    def show(self, doing: str, done: float, found: str, to_go: str) -> None:
        """Show what is done, and what is known."""
        share = {} if math.isnan(done) else {"total": 1.0, "completed": done}
        facts = ", ".join(text for text in (found, to_go) if text)
        self._line.update(self._task, description=doing, facts=facts, **share)  # type: ignore[arg-type]

    def close(self) -> None:
        """Take the line away."""
        self._line.stop()


class Lines:
    """A plain line once in a while."""

    def __init__(self, console: Console, every: float):
        self._console, self._every = console, every
        self._started = self._last = time.perf_counter()

    def show(self, doing: str, done: float, found: str, to_go: str) -> None:
        """Print a line, if the last one was some time ago."""
        now = time.perf_counter()
        if now - self._last < self._every:
            return
        self._last = now
        share = "" if math.isnan(done) else f"{100 * done:.0f} % done"
        past = f"{now - self._started:.0f} s so far"
        text = ", ".join(part for part in (doing, share, found, past, to_go) if part)
        self._console.print(text, highlight=False, soft_wrap=True)

    def close(self) -> None:
        """Nothing is left to do."""


def _step(step: Step) -> str:
    gap = step.gap / max(abs(step.objective), 1e-300)
    known = "" if math.isnan(gap) else f", gap {gap:.0e}"
    return f"objective {step.objective:.4g}{known}, {count(step.n_kernels, 'kernel')}"


def plan(forecast: Forecast) -> dict[str, str]:
    """Return what a fit is going to do, and what it may take, by label."""
    facts = {} if forecast.columns is None else list_columns(forecast.columns)
    facts["Kernels"] = forecast.kernels
    facts["Method"] = f"{type(forecast.solver).__name__}, {forecast.loss.replace('_', ' ')} loss"
    time_known = forecast.time or "time not known beforehand"
    facts["Expected"] = f"{time_known}, {forecast.memory} of memory"
    return facts
