"""What a fit says, and how sure it is.

Every finding is a function of a fitted model, or of a model to fit, and returns a frozen record of arrays; models are
asked what they can do, not what they are.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["stability", "selection_bound", "Stability"]

#: Where the names live; they are imported when first asked for. A file is called otherwise than its function, which it
#: would hide.
_ROOM = {"bounds": "selection_bound", "selection": "Stability stability"}
_HOMES = {name: home for home, names in _ROOM.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
