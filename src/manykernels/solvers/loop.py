"""What loops share: Ctrl-C ends them with what they have, and a warning carries the figure."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from types import TracebackType

from sklearn.exceptions import ConvergenceWarning


class Interruptible:
    """The body of a ``with`` that Ctrl-C ends as if it had come to its end, if there is something to keep.

    Parameters
    ----------
    kept : callable
        Returns what is kept, as the end of the sentence "Interrupted ...", or None where there is nothing yet: then
        the interrupt goes on its way.

    Attributes
    ----------
    interrupted : bool
    """

    def __init__(self, kept: Callable[[], str | None]):
        self.kept, self.interrupted = kept, False

    def __enter__(self) -> Interruptible:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if kind is None or not issubclass(kind, KeyboardInterrupt):
            return False
        said = self.kept()
        if said is None:
            return False
        self.interrupted = True
        warnings.warn(f"Interrupted {said}", ConvergenceWarning, stacklevel=3)
        return True
