"""Checks of what users pass in, each with its one sentence."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .text import brief

#: What ``float`` and ``np.asarray`` raise of things that are no numbers, or none that a float can hold.
NO_NUMBERS = (TypeError, ValueError, OverflowError)


def refuse_missing(y: Any, first: int = 0, name: str = "y") -> None:
    """Raise ValueError on None, NaN, NaT or a blank text, with the number of its row, counted from `first`."""
    # Of a list NumPy would make text, and of a NaN in it the text 'nan'.
    values = np.array(y, dtype=object) if isinstance(y, list | tuple) else np.asarray(y)
    gaps = _gaps(values)
    if gaps is not None and gaps.ndim and gaps.any():
        row = first + int(np.argwhere(gaps)[0][0])
        raise ValueError(f"{name} has a missing value in row {row:,}; remove that row, or fill it in.")


def _gaps(values: np.ndarray) -> np.ndarray | None:
    """Return which values are missing, None where none can be."""
    kind = values.dtype.kind
    if kind == "f":
        return np.isnan(values)
    if kind in "mM":
        return np.isnat(values)
    if kind not in "OUST" or not values.ndim:
        return None
    return np.array([is_missing(v) for v in values.ravel().tolist()], dtype=bool).reshape(values.shape)


def is_missing(value: Any) -> bool:
    """Whether a value is None, not equal to itself, or a blank text."""
    if isinstance(value, str | bytes):
        return not value.strip()
    try:
        return value is None or bool(value != value)
    except TypeError:  # pandas' NA is neither true nor false
        return True
    except ValueError:  # an array is a value of its own, and other checks will have a word for it
        return False


# -- parameters ----------------------------------------------------------------------------------------


class Rule:
    """What a parameter may be; `words` end the sentence "name of Class is ...; use ..."."""

    def __init__(self, words: str, accepts: Callable[[Any], bool]):
        self.words, self.accepts = words, accepts

    def __or__(self, other: Rule) -> Rule:
        """Return the rule of what either accepts."""
        return Rule(
            f"{self.words} or {other.words}", lambda value: self.accepts(value) or other.accepts(value)
        )

    def __repr__(self) -> str:
        return f"Rule({self.words!r})"


def _is_number(value: Any) -> bool:
    """Whether a value is a real number that a float can hold; a whole number may be too long for that."""
    if not isinstance(value, numbers.Real) or isinstance(value, bool | np.bool_):
        return False
    try:
        float(value)
    except NO_NUMBERS:
        return False
    return True


def are_numbers(values: Any, count: int, *, positive: bool = False) -> bool:
    """Whether these are so many numbers, none of them negative, or all positive."""
    try:
        v = np.asarray(values, dtype=float)
    except NO_NUMBERS:
        return False
    return v.shape == (count,) and bool((np.isfinite(v) & ((v > 0) if positive else (v >= 0))).all())


def whole(least: int, most: int | None = None) -> Rule:
    """Return the rule of whole numbers from `least` on, up to `most` if given."""
    end = f"of at least {least:,}" if most is None else f"from {least:,} to {most:,}"

    def accepts(value: Any) -> bool:
        if not isinstance(value, numbers.Integral) or isinstance(value, bool):
            return False
        return least <= int(value) and (most is None or int(value) <= most)

    return Rule(f"a whole number {end}", accepts)


def number(least: float = 0.0, most: float = np.inf, *, open: str = "", infinite: bool = False) -> Rule:
    """Return the rule of numbers in an interval.

    Parameters
    ----------
    least, most : float
        Its ends.
    open : {"", "left", "right", "both"}
        The ends that do not belong to it; an infinite end never does, unless `infinite`.
    """
    left, right = open in ("left", "both"), open in ("right", "both") or (np.isinf(most) and not infinite)

    def accepts(value: Any) -> bool:
        if not _is_number(value):
            return False
        return (value > least if left else value >= least) and (value < most if right else value <= most)

    if np.isinf(most):
        finite = "" if infinite else "finite "
        words = (
            f"a positive {finite}number" if left and least == 0 else f"a {finite}number of at least {least:g}"
        )
    else:
        words = f"a number in {'(' if left else '['}{least:g}, {most:g}{')' if right else ']'}"
    return Rule(words, accepts)


def choice(*values: Any) -> Rule:
    """Return the rule of a few values."""
    words = [repr(value) for value in values]
    text = " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
    return Rule(text, lambda value: any(type(value) is type(known) and value == known for known in values))


#: True or False.
FLAG = Rule("True or False", lambda value: isinstance(value, bool | np.bool_))
#: The text "auto", to be combined with other rules.
AUTO = choice("auto")


def check_parameters(owner: Any, rules: Mapping[str, Rule]) -> None:
    """Raise ValueError for the first parameter of `owner` that breaks its rule."""
    for name, rule in rules.items():
        value = getattr(owner, name)
        if not rule.accepts(value):
            raise ValueError(f"{name} of {type(owner).__name__} is {brief(value)}; use {rule.words}.")
