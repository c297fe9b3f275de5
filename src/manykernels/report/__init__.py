"""A report: one HTML file that says what was fitted on what, how good it is, what matters, and how sure that is.

``contents.py`` collects what there is to say of a fitted model, by its public attributes and ``findings``; ``page.py``
makes the page of it (``page.html.j2``, jinja2), with the figures of ``displays``; ``peers.py`` has the baselines.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .contents import Contents, collect
    from .page import write_report

__all__ = ["Contents", "collect", "write_report"]

_HOMES = {"Contents": "contents", "collect": "contents", "write_report": "page"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
