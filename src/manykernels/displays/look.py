"""The look that all figures share: colours that the colour-blind can tell apart, and no ink without data."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: The colours of Okabe and Ito (2008), without yellow, which is too light for lines.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#7f7f7f")
#: Colour of letters, axes and reference lines; :func:`svg` makes it the colour of the page's text.
INK = "#1b1f24"
#: From low to high through white, for what has a sign.
DIVERGING = "RdBu_r"
#: Longest label of a bar, in letters.
LONGEST = 42


def axes_of(ax: Axes | None, who: str, size: tuple[float, float] = (6.4, 4.0)) -> tuple[Figure, Axes]:
    """Return the axes to draw in, new ones where none are given, and their figure; or say what to install."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError(f"{who} draws with matplotlib; install manykernels[plot].") from None
    if ax is None:
        _, ax = plt.subplots(figsize=size, layout="constrained")
    return ax.figure, ax  # type: ignore[return-value]


def tidy(ax: Axes, grid: str = "both") -> None:
    """Leave out what does not carry data; `grid` says along which axes there are lines: "x", "y" or "both"."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis=grid, alpha=0.25)  # type: ignore[arg-type]
    ax.set_axisbelow(True)


def plain_log(axis: Any) -> None:
    """Label a logarithmic axis by plain numbers, at 1, 2 and 5 where there is room."""
    from matplotlib.ticker import LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 300 * low else (1,)))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())


def colours_of(labels: Sequence[Any]) -> dict[Any, str]:
    """Return a colour for each distinct label, in order of appearance; beyond seven they come again."""
    distinct = dict.fromkeys(labels)
    return {label: COLOURS[i % len(COLOURS)] for i, label in enumerate(distinct)}


def shortened(label: str, most: int = LONGEST) -> str:
    """Return a label with its middle left out where it is too long."""
    if len(label) <= most:
        return label
    half = (most - 1) // 2
    return f"{label[:half]}…{label[-half:]}"


def svg(figure: Figure) -> str:
    """Return a figure as an SVG element for a page, light or dark: what is black takes the colour of the text."""
    import matplotlib as mpl

    stream = io.StringIO()
    # A fixed salt gives the same names, and the same file, for the same figure.
    with mpl.rc_context({"svg.hashsalt": "manykernels", "svg.fonttype": "path"}):
        figure.savefig(stream, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = stream.getvalue()
    text = text[text.index("<svg") :]
    for black in (INK, "#000000", "black"):
        text = text.replace(f": {black}", ": currentColor")
    return text.replace(
        "<svg ", '<svg fill="currentColor" ', 1
    )  # letters are black by having no colour at all
