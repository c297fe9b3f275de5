"""Words for messages."""

from __future__ import annotations

from typing import Any


def brief(value: Any, width: int = 60) -> str:
    """Return the repr of a value on one line, cut to `width` characters."""
    text = " ".join(repr(value).split())
    return text if len(text) <= width else text[: width - 1] + "…"
