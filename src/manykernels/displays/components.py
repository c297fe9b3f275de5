"""Effects in the columns' own units: curves of one column, maps of two."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from .look import COLOURS, axes_of, colourbar, diverging, ink, shortened, tidy, told_apart

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..findings import Components, Effect

#: Panels of a figure, unless told, and how many stand beside one another.
TOP, BESIDE = 6, 3
#: Size of a panel, in inches, and how many letters are as wide, or as high.
PANEL = (3.2, 2.6)
WIDE, HIGH = 28, 22
#: Shares below this are a straight line, and written as 0.0 %.
LEAST = 5e-4


class ComponentsDisplay:
    """The largest components of a prediction, each in a panel of its own.

    Parameters
    ----------
    effects : sequence of Effect
        Of one or two columns; of several outputs, those of `output`.
    shares : sequence of float
        Of each.
    output : str
        What the values are, for the axis.

    Attributes
    ----------
    axes_, figure_ : array of Axes, Figure
        After ``plot``.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import MKLRegressor
    >>> from manykernels.displays import ComponentsDisplay
    >>> X = np.random.default_rng(0).uniform(-1, 1, (80, 2))
    >>> model = MKLRegressor(C=10.0).fit(X, X[:, 0] ** 2 + X[:, 1])
    >>> len(ComponentsDisplay.from_estimator(model, X).plot().axes_) >= 2
    True
    """

    def __init__(self, effects: Sequence[Effect], shares: Sequence[float], output: str = "effect"):
        self.effects = effects
        self.shares = shares
        self.output = output

    @classmethod
    def from_estimator(cls, estimator: Any, background: Any, *, top: int = TOP, output: int = 0) -> Self:
        """Split a fitted model into components and take the largest.

        Parameters
        ----------
        estimator : fitted MKLRegressor or MKLClassifier
        background : rows whose margins means are taken over, such as those that the model was fitted on
        top : int
            Most panels.
        output : int
            Of several classes or targets, which.

        Returns
        -------
        ComponentsDisplay
        """
        from ..findings import components

        parts, name = components(estimator, background), effect_on(estimator, output)
        return cls.from_components(parts, top=top, output=output, name=name)

    @classmethod
    def from_components(
        cls, parts: Components, *, top: int = TOP, output: int = 0, name: str = "effect"
    ) -> Self:
        """Take the largest components of one or two columns; parameters as in :meth:`from_estimator`."""
        drawable = [k for k in np.argsort(-parts.shares).tolist() if 1 <= len(parts.components[k]) <= 2]
        effects: list[Effect] = []
        shares: list[float] = []
        for k in drawable:
            if len(effects) == top or parts.shares[k] <= (LEAST if effects else 0):
                break
            effect = parts.effect(parts.names[k])
            if len(effect.grid) <= 2:  # a view is one variable of many columns, which no axis can show
                effects.append(_of_output(effect, output))
                shares.append(float(parts.shares[k]))
        return cls(effects, shares, name)

    def plot(self, ax: Axes | Sequence[Axes] | None = None) -> Self:
        """Draw a panel for each component, largest share first; curves have one scale, and so have maps.

        Parameters
        ----------
        ax : one or as many matplotlib Axes as there are components, optional

        Returns
        -------
        self
        """
        if not len(self.effects):
            raise ValueError("There is no component of one or two columns to draw.")
        self.figure_, axes = self._axes(ax)
        self.axes_ = np.array(axes, dtype=object)
        values = [v for e in self.effects if len(e.grid) == 1 for v in (e.values.min(), e.values.max())]
        reach = (min(values), max(values)) if values else (-1.0, 1.0)
        top = (
            max((float(np.abs(e.values).max()) for e in self.effects if len(e.grid) == 2), default=0.0) or 1.0
        )
        columns = list(dict.fromkeys(c for e in self.effects for c in e.columns))
        short, shorter = (
            dict(zip(columns, told_apart(columns, n), strict=True)) for n in (WIDE - 2, WIDE // 2)
        )
        for axis, effect, share in zip(self.axes_, self.effects, self.shares, strict=True):
            if len(effect.grid) == 2:
                _draw_map(axis, effect, top)
            else:
                _draw_curve(axis, effect, reach, self.output)
            name = " × ".join((shorter if len(effect.columns) > 1 else short)[c] for c in effect.columns)
            axis.set_xlabel(short[effect.columns[0]])
            if len(effect.columns) > 1:
                axis.set_ylabel(shorter[effect.columns[1]])
            between = "\n" if len(name) > WIDE - 10 else "  "
            axis.set_title(f"{name}{between}({100 * share:.1f} %)", fontsize=10)
        return self

    def _axes(self, ax: Any) -> tuple[Any, list[Any]]:
        """Return the figure and one axes for each component."""
        n = len(self.effects)
        if ax is not None:
            axes = [ax] if n == 1 and not isinstance(ax, Sequence | np.ndarray) else list(np.ravel(ax))
            if len(axes) != n:
                raise ValueError(f"ax holds {len(axes)} axes, and there are {n} components; pass as many.")
            return axes[0].figure, axes
        beside = min(BESIDE, n)
        rows = -(-n // beside)
        figure, first = axes_of(None, type(self).__name__, (PANEL[0] * beside, PANEL[1] * rows))
        first.remove()
        # A panel's title is not the label of the one above.
        figure.set_layout_engine("constrained", h_pad=0.08)
        grid = figure.subplots(rows, beside, squeeze=False)
        for spare in grid.flat[n:]:
            spare.remove()
        return figure, list(grid.flat[:n])


def effect_on(estimator: Any, output: int = 0) -> str:
    """Return what an effect is on, for an axis; two classes have one score, the second's."""
    classes = getattr(estimator, "classes_", None)
    if classes is None:
        return "effect"
    return f"effect on the score of {shortened(str(classes[1 if len(classes) == 2 else output]), 20)}"


def _of_output(effect: Effect, output: int) -> Effect:
    """Return the effect on one of several outputs."""
    if effect.values.ndim == len(effect.grid):
        return effect
    return replace(effect, values=effect.values[..., output])


def _is_ordered(values: np.ndarray) -> bool:
    """Whether values are numbers or dates, and no levels; two values, such as no and yes, are levels."""
    return np.asarray(values).dtype.kind in "iufM" and len(values) > 2


def _draw_curve(ax: Any, effect: Effect, reach: tuple[float, float], name: str) -> None:
    """Draw a curve over a column of numbers or dates, points over levels."""
    grid = effect.grid[0]
    ax.axhline(0, color=ink(), linewidth=0.8, alpha=0.5)
    if _is_ordered(grid):
        ax.plot(grid, effect.values, color=COLOURS[0], linewidth=1.8)
        _label_dates(ax.xaxis, grid)
    else:
        places = np.arange(len(grid))
        ax.vlines(places, 0, effect.values, color=COLOURS[0], linewidth=2)
        ax.plot(places, effect.values, "o", color=COLOURS[0])
        _label_levels(ax.xaxis, grid)
    ax.set_ylabel(textwrap.fill(name, HIGH))
    room = 0.06 * (reach[1] - reach[0] or 1.0)
    ax.set_ylim(reach[0] - room, reach[1] + room)
    tidy(ax)


def _draw_map(ax: Any, effect: Effect, top: float) -> None:
    """Draw an interaction of two columns, blue below and red above zero; `top` has the darkest colour."""
    x, y = effect.grid
    places = [g if _is_ordered(g) else np.arange(len(g)) for g in (x, y)]
    mesh = ax.pcolormesh(
        *places, effect.values.T, cmap=diverging(), vmin=-top, vmax=top, shading="nearest", rasterized=True
    )
    for axis, grid in ((ax.xaxis, x), (ax.yaxis, y)):
        if not _is_ordered(grid):
            _label_levels(axis, grid)
        _label_dates(axis, grid)
    colourbar(mesh, ax, shrink=0.9)


def _label_dates(axis: Any, grid: Any) -> None:
    """Label an axis of dates by a few short ones; other axes stay as they are."""
    if np.asarray(grid).dtype.kind == "M" and _is_ordered(grid):
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

        locator = AutoDateLocator(minticks=2, maxticks=5)
        axis.set_major_locator(locator)
        axis.set_major_formatter(ConciseDateFormatter(locator))


def _label_levels(axis: Any, levels: Any) -> None:
    """Name the levels of a category, slanted where there are many."""
    numbers = np.asarray(levels).dtype.kind in "iuf"
    names = [f"{level:g}" if numbers else shortened(str(level), 14) for level in levels]
    long = sum(map(len, names)) > 20
    axis.set_ticks(range(len(names)), names)
    if long and axis.axis_name == "x":
        for label in axis.get_ticklabels():
            label.set(rotation=40, ha="right", rotation_mode="anchor")
