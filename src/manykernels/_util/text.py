"""Words for messages, and warnings."""

from __future__ import annotations

import sys
import warnings
from typing import Any


def brief(value: Any, width: int = 60) -> str:
    """Return the repr of a value on one line, cut to `width` characters."""
    text = " ".join(repr(value).split())
    return text if len(text) <= width else text[: width - 1] + "…"


def figure(value: float) -> str:
    """Return a number in three digits, and with all of those before the point up to a million: 4840, not 4.84e+03."""
    short = f"{value:.3g}"
    return f"{float(short):.0f}" if "e+" in short and abs(float(short)) < 1e6 else short


def as_share(gap: float, objective: float) -> str:
    """Return a gap as a share of the objective, in words where rounding leaves nothing of it."""
    share = max(gap, 0.0) / max(abs(objective), 1e-300)
    return "less than 1e-15" if share < 1e-15 else f"{share:.1e}"


def not_installed(need: str, extra: str) -> str:
    """Return what to say where a package is missing that only some uses need.

    Parameters
    ----------
    need : str
        What needs which packages: "A report needs jinja2 and matplotlib".
    extra : str
        The extra of this package that brings them.
    """
    return f'{need}: pip install "manykernels[{extra}]"'


def warn(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn, and point at the first line outside this package: the user's call, however deep the reason lies.

    scikit-learn's support of callbacks, which a fit passes through, is not the user's either.
    """
    ours, level = (__name__.split(".")[0] + ".", "sklearn.callback."), 2
    while (sys._getframe(level - 1).f_globals.get("__name__", "") + ".").startswith(ours):
        level += 1
    warnings.warn(text, category, stacklevel=level)
