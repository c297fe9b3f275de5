"""Small pieces of HTML for notebooks: a table with bars, and a curve. No library, no script, light or dark."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

#: Rows of a table, unless told.
TOP = 12
#: Colours come from the page, but for the bars.
_TABLE = "border-collapse:collapse;font-size:90%;margin:.3em 0"
_CELL = "text-align:left;padding:.15em .9em .15em 0;border:none"
#: Names break anywhere, so that figures stay on the page; these do not.
_NAME, _FIGURE = f"{_CELL};overflow-wrap:anywhere;min-width:8em;max-width:40em", f"{_CELL};white-space:nowrap"
_BAR = "display:inline-block;height:.7em;background:#0072b2;vertical-align:baseline"
#: Width of the longest bar, in letters.
LONGEST = 12


def escaped(value: Any) -> str:
    """Return a value as text for a page; numbers with four digits."""
    return html.escape(f"{value:.4g}" if isinstance(value, float) else str(value))


def bar_table(
    records: Sequence[Mapping[str, Any]],
    columns: Mapping[str, str],
    bar: str,
    *,
    percentages: Sequence[str] = (),
    parts: bool = True,
    top: int = TOP,
) -> str:
    """Return records as a table, with the column `bar`, a share, as a percentage and a bar.

    Parameters
    ----------
    records : sequence of dicts, in the order to be shown
    columns : dict from keys to headings
    bar : one of the keys
    percentages : some of the keys, of other shares
    parts : bool
        Whether the bars are parts of a whole.
    top : int
        Most rows; the last line counts the others, and adds up their parts.
    """
    head = "".join(f"<th style='{_CELL}'>{escaped(name)}</th>" for name in columns.values())
    most = max((float(record[bar]) for record in records), default=0.0) or 1.0
    lines = []
    for record in records[:top]:
        cells = [
            _bar(float(record[key]), most)
            if key == bar
            else f"{100 * record[key]:.1f} %"
            if key in percentages
            else escaped(record.get(key, ""))
            for key in columns
        ]
        styles = [_NAME, *[_FIGURE] * (len(cells) - 1)]
        lines.append(
            "<tr>"
            + "".join(f"<td style='{s}'>{cell}</td>" for s, cell in zip(styles, cells, strict=True))
            + "</tr>"
        )
    more = len(records) - top
    if more > 0:
        rest = sum(float(record[bar]) for record in records[top:])
        said = f"{more:,} more" + (f", {100 * rest:.1f} %" if parts else "")
        lines.append(f"<tr><td style='{_CELL};opacity:.7'>{said}</td></tr>")
    return f"<table style='{_TABLE}'><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def _bar(share: float, most: float) -> str:
    width = LONGEST * max(share, 0.0) / most
    return f"<span style='{_BAR};width:{width:.2f}em'></span> {100 * share:.1f} %"


def facts(known: Mapping[str, str]) -> str:
    """Return labelled facts, one a line."""
    rows = "".join(
        f"<tr><td style='{_CELL};opacity:.7'>{escaped(label)}</td><td style='{_CELL}'>{escaped(text)}</td></tr>"
        for label, text in known.items()
    )
    return f"<table style='{_TABLE}'><tbody>{rows}</tbody></table>"


def curve(x: Sequence[float], y: Sequence[float], title: str, *, width: int = 150, height: int = 70) -> str:
    """Return a line as a small picture, with its title and the range of its values."""
    low, high = min(y), max(y)
    left, right = min(x), max(x)
    points = " ".join(
        f"{2 + (width - 4) * (u - left) / ((right - left) or 1):.1f},"
        f"{height - 2 - (height - 4) * (v - low) / ((high - low) or 1):.1f}"
        for u, v in zip(x, y, strict=True)
    )
    picture = (
        f"<svg width='{width}' height='{height}' role='img' aria-label='{escaped(title)}'>"
        f"<polyline points='{points}' fill='none' stroke='#0072b2' stroke-width='1.6'/></svg>"
    )
    caption = f"{escaped(title)}<br/><span style='opacity:.7'>{low:.3g} … {high:.3g}</span>"
    return f"<div style='display:inline-block;margin:.2em 1em .2em 0;font-size:80%'>{picture}<br/>{caption}</div>"
