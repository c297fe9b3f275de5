"""What stored arrays must be: declared once, and checked before anything is built on them.

Files can hold anything, and compiled loops follow the numbers they are given. So whatever comes from a file says what
its arrays are, by a :class:`Stored` for each, and :func:`check_arrays` compares.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

#: Kinds of numbers, as NumPy has them.
REAL, WHOLE, FLAGS = "f", "iu", "b"
#: Numbers beyond this are finite, and products and sums of a few of them are not. No fit comes near it.
LARGEST = 1e300
#: What an axis is called.
AXES = ("rows", "columns", "layers")
WORDS = {"f": "real numbers", "iu": "whole numbers", "b": "flags"}


class Damaged(ValueError):
    """What is wrong with stored values, as the end of a sentence that begins with the file."""

    def __str__(self) -> str:
        return " ".join(super().__str__().split()).rstrip(".")  # arrays are shown on several lines


class Diverged(ValueError):
    """A fit whose numbers grow beyond all bounds; where it went on from a file, that may be why."""


@dataclass(frozen=True)
class Stored:
    """What a stored array must be.

    Attributes
    ----------
    shape : str
        Sizes of the axes, one after the other: numbers, or names of sizes, which are the same for all arrays that are
        checked together; ``"*"`` for any.
    kinds : str
        Kinds of numbers.
    least, most : float or None
        Between which they lie; neither bound is needed for what is any finite number.
    finite : bool
        Whether NaN, infinity and numbers that are close to it are refused.
    optional : bool
        Whether the array may be absent.
    """

    shape: str
    kinds: str = REAL
    least: float | None = None
    most: float | None = None
    finite: bool = True
    optional: bool = False


def check_arrays(
    arrays: Mapping[str, Any], declared: Mapping[str, Stored], sizes: Mapping[str, int] | None = None
) -> dict[str, int]:
    """Raise Damaged for the first array that is not as declared; return the sizes that have names.

    Parameters
    ----------
    arrays : dict of arrays
    declared : dict of Stored
        In an order in which the first array that names a size tells it.
    sizes : dict of int, optional
        Those that are known already.
    """
    known = dict(sizes or {})
    for name, stored in declared.items():
        value = arrays.get(name)
        if value is None:
            demand(stored.optional, f"{name} is missing")
            continue
        demand(isinstance(value, np.ndarray), f"{name} is no array")
        demand(value.dtype.kind in stored.kinds, f"{name} does not hold {WORDS.get(stored.kinds, 'numbers')}")
        # Compiled loops know no others.
        usual = value.dtype.isnative and (value.dtype.kind != "f" or value.itemsize in (4, 8))
        demand(usual, f"{name} holds numbers of {8 * value.itemsize} bits")
        _check_shape(name, value.shape, stored.shape.split(), known)
        _check_range(name, value, stored)
    return known


def _check_shape(name: str, found: tuple[int, ...], wanted: list[str], known: dict[str, int]) -> None:
    demand(len(found) == len(wanted), f"{name} has {len(found)} axes, and not {len(wanted)}")
    for axis, (size, symbol) in enumerate(zip(found, wanted, strict=True)):
        if symbol == "*":
            continue
        right = int(symbol) if symbol.isdigit() else known.setdefault(symbol, size)
        demand(size == right, f"{name} has {size:,} {AXES[axis]}, and not {right:,}")


def _check_range(name: str, value: np.ndarray, stored: Stored) -> None:
    if not value.size or value.dtype.kind == "b":
        return
    if stored.finite and value.dtype.kind == "f":
        low, high = float(value.min()), float(value.max())  # NaN, if there is one
        demand(np.isfinite(low) and np.isfinite(high), f"{name} holds a number that is not finite")
        usable = low >= -LARGEST and high <= LARGEST
        demand(usable, f"{name} holds a number beyond {LARGEST:.0e}, too extreme to compute with")
    if stored.least is not None:
        demand(not value.min() < stored.least, f"{name} holds a number below {stored.least:,}")
    if stored.most is not None:
        demand(not value.max() > stored.most, f"{name} holds a number above {stored.most:,}")


def check_like(arrays: Mapping[str, Any], pattern: Mapping[str, np.ndarray]) -> None:
    """Raise Damaged unless arrays have the types and shapes of others, and finite numbers."""
    check_arrays(
        arrays,
        {name: Stored(" ".join(map(str, like.shape)), like.dtype.kind) for name, like in pattern.items()},
    )
    for name, like in pattern.items():
        demand(arrays[name].dtype == like.dtype, f"{name} has numbers of {8 * arrays[name].itemsize} bits")


def demand(condition: Any, otherwise: str) -> None:
    """Raise Damaged unless a condition is met."""
    if not condition:
        raise Damaged(otherwise)
