"""The look that all figures share: colours that the colour-blind can tell apart, and no ink without data."""

from __future__ import annotations

import io
import unicodedata
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .._util.text import not_installed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

#: The colours of Okabe and Ito (2008), without yellow, which is too light for lines.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#7f7f7f")
#: From low to high, for what has a sign; nothing is the colour of the page.
BELOW, ABOVE = COLOURS[0], COLOURS[1]
#: Longest label of a bar, in letters.
LONGEST = 42


def axes_of(ax: Axes | None, who: str, size: tuple[float, float] = (6.4, 4.0)) -> tuple[Figure, Axes]:
    """Return the axes to draw in, new ones where none are given, and their figure; or say what to install."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError(not_installed(f"{who} needs matplotlib", "plot")) from None
    if ax is None:
        _, ax = plt.subplots(figsize=size, layout="constrained")
    return ax.figure, ax  # type: ignore[return-value]


def tidy(ax: Axes, grid: str = "both") -> None:
    """Leave out what does not carry data; `grid` says along which axes there are lines: "x", "y" or "both"."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis=grid, alpha=0.25)  # type: ignore[arg-type]
    ax.set_axisbelow(True)


def ink() -> str:
    """Return the colour of letters in the style in use; reference lines have it, too."""
    import matplotlib as mpl

    return mpl.rcParams["text.color"]


def diverging() -> Colormap:
    """Return a map of colours for what has a sign: clear at zero, on whatever page."""
    return _fading((BELOW, 1.0), (BELOW, 0.0), (ABOVE, 0.0), (ABOVE, 1.0), at=(0.0, 0.5, 0.5, 1.0))


def sequential() -> Colormap:
    """Return a map of colours for shares: nearly clear at zero, so that it can be seen what there is room for."""
    return _fading((COLOURS[0], 0.05), (COLOURS[0], 1.0), at=(0.0, 1.0))


def _fading(*stops: tuple[str, float], at: Sequence[float]) -> Colormap:
    from matplotlib.colors import LinearSegmentedColormap, to_rgba

    colours = [to_rgba(colour, alpha) for colour, alpha in stops]
    return LinearSegmentedColormap.from_list("fading", list(zip(at, colours, strict=True)))


def colourbar(drawn: Any, ax: Axes, **options) -> None:
    """Put a bar beside axes that says what their colours are."""
    bar = ax.figure.colorbar(drawn, ax=ax, **options)
    if bar.solids is not None:
        bar.solids.set_rasterized(True)  # clear colours that overlap by a hair would show as lines
    bar.outline.set_visible(False)


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


def told_apart(labels: Sequence[str], most: int = LONGEST) -> list[str]:
    """Return labels with something left out where they are too long: what they share, so that they still differ."""
    cut = [shortened(label, most) for label in labels]
    for same in {c for c in cut if cut.count(c) > 1}:
        group = [i for i, c in enumerate(cut) if c == same and len(labels[i]) > most]
        names = [labels[i] for i in group]
        if len(set(names)) > 1:
            start = _n_shared(names)
            end = _n_shared([name[start:][::-1] for name in names])
            for i in group:
                cut[i] = _around(labels[i], start, end, most)
    return cut


def _around(label: str, start: int, end: int, most: int) -> str:
    """Return a label with what is between its first and last so many letters, and as many of these as there is room."""
    last = len(label) - end
    while (
        start and label[start - 1 : start + 1].isalnum() and last - start < most - 4
    ):  # whole words and numbers
        start -= 1
    while end and label[last - 1 : last + 1].isalnum() and last - start < most - 4:
        last, end = last + 1, end - 1
    core = shortened(label[start:last], most - 4)
    room = max(most - len(core) - 2, 0)
    head = min(start, max(room // 2, room - end))
    tail = min(end, room - head)
    before = label[:head] + "…" * (head < start)
    return before + core + "…" * (tail < end) + label[len(label) - tail :]


def _n_shared(names: Sequence[str]) -> int:
    """Return with how many same letters names begin."""
    columns = enumerate(zip(*names, strict=False))
    return next((i for i, letters in columns if len(set(letters)) > 1), min(map(len, names)))


def svg(figure: Figure) -> str:
    """Return a figure as an SVG element for a page, light or dark: what is black takes the colour of the text.

    Letters are outlines, the same everywhere, unless the font lacks some: then they are text, for which a browser has
    other fonts.
    """
    import matplotlib as mpl

    stream = io.StringIO()
    letters = "path" if _has_all_letters(figure) else "none"
    # A fixed salt gives the same names, and the same file, for the same figure.
    with mpl.rc_context({"svg.hashsalt": "manykernels", "svg.fonttype": letters}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")
        warnings.filterwarnings("ignore", "Matplotlib currently does not support .* natively")
        figure.savefig(stream, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = stream.getvalue()
    text = text[text.index("<svg") :]
    for black in ("#000000", "black"):
        text = text.replace(f": {black}", ": currentColor")
    return text.replace(
        "<svg ", '<svg fill="currentColor" ', 1
    )  # letters are black by having no colour at all


def _has_all_letters(figure: Figure) -> bool:
    """Whether the fonts of a figure have all letters of its labels, in the order they are written in."""
    from matplotlib.font_manager import findfont, get_font
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        said = set(text.get_text()) - {"\n"}  # type: ignore[attr-defined]
        if any(unicodedata.bidirectional(letter) in ("R", "AL") for letter in said):
            return False
        font = get_font(findfont(text.get_fontproperties()))  # type: ignore[attr-defined]
        if not all(font.get_char_index(ord(letter)) for letter in said):
            return False
    return True
