"""A report: one HTML file that says what was fitted on what, how good it is, what matters, and how sure that is.

``contents.py`` collects what there is to say of a fitted model, by its public attributes and ``findings``; ``page.py``
makes the page of it (``page.html.j2``, jinja2), with the figures of ``displays``; ``peers.py`` has the baselines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .._util.lazy import looked_up

if TYPE_CHECKING:
    from .contents import Contents, collect
    from .page import write_report

__all__ = ["Contents", "collect", "write_report"]

_HOMES = {"Contents": "contents", "collect": "contents", "write_report": "page"}


def __getattr__(name: str) -> Any:
    return looked_up(name, globals(), _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
