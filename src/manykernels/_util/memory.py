"""Amounts of memory, as users write them, and as they are free."""

from __future__ import annotations

import numbers
import os
import re
from typing import Any

from .text import brief

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 2**10, "mi": 2**20, "gi": 2**30}


def free_bytes() -> int | None:
    """Return the memory that a process could still be given, None where the system does not tell."""
    try:
        with open("/proc/meminfo") as lines:
            known = dict(line.split(":", 1) for line in lines)
        return int(known["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def gibibytes(n_bytes: float) -> str:
    """Return an amount as people read it."""
    return f"{n_bytes / 2**30:.1f} GiB"


def parse_bytes(value: Any, what: str) -> int:
    """Return the bytes meant by a positive number or a text such as ``"512MiB"``; `what` names it in an error."""
    number: Any
    if isinstance(value, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmg]i?)?b?\s*", value.lower())
        number = float(match[1]) * _UNITS[match[2] or ""] if match else 0.0
        if match and not match[2] and number < 2**20:
            raise ValueError(
                f"{what} is {brief(value)}, which are bytes; write a unit, as in '{match[1]}GiB'."
            )
    else:
        number = value if isinstance(value, numbers.Real) and not isinstance(value, bool) else 0.0
    if not 1 <= number < 2**62:
        raise ValueError(f"{what} is {brief(value)}; pass a number of bytes, or a text such as '512MiB'.")
    return int(number)
