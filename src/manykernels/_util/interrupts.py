"""Ctrl-C: what is there is kept, unless it is for comparison only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from .text import warn

#: Whether runs are trials, of which none is the answer: Ctrl-C then ends all of them.
_TRYING: ContextVar[bool] = ContextVar("trying", default=False)


@contextmanager
def trials() -> Iterator[None]:
    """Let Ctrl-C go through the loops in the body: what they would keep is for comparison only."""
    token = _TRYING.set(True)
    try:
        yield
    finally:
        _TRYING.reset(token)


def trying() -> bool:
    """Whether runs are trials at the moment."""
    return _TRYING.get()


class Interruptible:
    """The body of a ``with`` that Ctrl-C ends as if it had come to its end, if there is something to keep.

    Parameters
    ----------
    kept : callable
        Returns what is kept, as the end of the sentence "Interrupted ...", or None where there is nothing yet: then
        the interrupt goes on its way. An empty text says nothing here: the warning follows when its figure is known.

    Attributes
    ----------
    interrupted : bool
    """

    def __init__(self, kept: Callable[[], str | None]):
        self.kept, self.interrupted = kept, False

    def __enter__(self) -> Interruptible:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: Any) -> bool:
        if kind is None or not issubclass(kind, KeyboardInterrupt) or trying():
            return False
        said = self.kept()
        if said is None:
            return False
        self.interrupted = True
        if said:
            from sklearn.exceptions import ConvergenceWarning

            warn(f"Interrupted {said}", ConvergenceWarning)
        return True
