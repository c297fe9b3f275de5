"""How much the machines of a fit may do: multiplications are counted, not seconds, so that results repeat."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

#: Multiplications, as machines count them, that a fit of up to 300 rows is worth: 10 to 20 seconds' on one core.
MOST_WORK = 1.6e11
#: Share of what may be multiplied that is too little for another trial: three that each take half of the rest leave it.
SCARCE = 0.13


class Allowance:
    """What may be multiplied, and what has been.

    Attributes
    ----------
    most, spent : float
    """

    def __init__(self, most: float):
        self.most, self.spent = most, 0.0

    @property
    def left(self) -> float:
        """What may still be multiplied."""
        return max(self.most - self.spent, 0.0)


_ALLOWANCE: ContextVar[Allowance | None] = ContextVar("allowance", default=None)


def most_work(n_rows: int) -> float:
    """Return the multiplications that a fit is worth: hardly a limit for thousands of rows."""
    return MOST_WORK * max(1.0, n_rows / 300) ** 4


@contextmanager
def limited(most: float = float("inf"), share: float = 1.0) -> Iterator[Allowance]:
    """Let machines in the body multiply so much, and no more than a share of what a body around it has left.

    It is for loops to ask whether that is :func:`exhausted`, between one machine and the next.
    """
    outer = _ALLOWANCE.get()
    allowance = Allowance(most if outer is None else min(most, share * outer.left))
    token = _ALLOWANCE.set(allowance)
    try:
        yield allowance
    finally:
        _ALLOWANCE.reset(token)
        if outer is not None:
            outer.spent += allowance.spent


def spend(work: float) -> None:
    """Count multiplications."""
    allowance = _ALLOWANCE.get()
    if allowance is not None:
        allowance.spent += work


def scarce() -> bool:
    """Whether hardly anything is left of what may be multiplied: too little for another trial."""
    allowance = _ALLOWANCE.get()
    return allowance is not None and allowance.left < SCARCE * allowance.most


def exhausted() -> bool:
    """Whether all that may be multiplied has been."""
    allowance = _ALLOWANCE.get()
    return allowance is not None and allowance.spent >= allowance.most
