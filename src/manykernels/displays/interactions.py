"""Which columns work together: a matrix or a network of pairs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from .._util.text import brief
from .look import COLOURS, axes_of, colourbar, ink, sequential, tidy, told_apart

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..findings import Components

#: Columns of a figure, unless told.
TOP = 12


class InteractionsDisplay:
    """Shares of columns alone and of pairs of columns, with how often each pair is selected.

    Parameters
    ----------
    columns : sequence of str
    main : (d,) array
        Share of each column's main effect.
    pairs : (d, d) array, symmetric
        Share of the interactions in which both columns take part; of one of k columns, each of its pairs has the
        k(k-1)/2-th part.
    frequency : (d, d) array, optional
        How often an interaction of both is selected over half samples; NaN where that is not known.

    Attributes
    ----------
    ax_, figure_ : Axes, Figure
        After ``plot``.
    """

    def __init__(
        self, columns: Sequence[str], main: np.ndarray, pairs: np.ndarray, frequency: np.ndarray | None = None
    ):
        self.columns = columns
        self.main = main
        self.pairs = pairs
        self.frequency = frequency

    @classmethod
    def from_estimator(cls, estimator: Any, background: Any, *, stability: Any = None) -> Self:
        """Split a fitted model into components and add them up by pairs.

        Parameters
        ----------
        estimator : fitted MKLRegressor or MKLClassifier
        background : rows whose margins means are taken over
        stability : what :func:`~manykernels.findings.stability` returned for it, optional
            For how often each product is selected.

        Returns
        -------
        InteractionsDisplay
        """
        from ..findings import components

        return cls.from_components(components(estimator, background), stability=stability)

    @classmethod
    def from_components(cls, parts: Components, *, stability: Any = None) -> Self:
        """Add up the components by pairs; parameters as in :meth:`from_estimator`."""
        singles = [k for k, S in enumerate(parts.components) if parts.orders[k] == 1]
        together = [S for k, S in enumerate(parts.components) if parts.orders[k] >= 2 and S]
        known = dict.fromkeys(j for S in (*(parts.components[k] for k in singles), *together) for j in S)
        place = {j: i for i, j in enumerate(sorted(known))}
        names = [parts.column_names.get(j, f"x{j}") for j in sorted(known)]
        main, pairs = np.zeros(len(place)), np.zeros((len(place), len(place)))
        for k, S in enumerate(parts.components):
            share = float(parts.shares[k])
            if parts.orders[k] == 1:
                main[place[S[0]]] += share
                names[place[S[0]]] = parts.names[k]
            elif S:
                for a, b in combinations(sorted(place[j] for j in S), 2):
                    pairs[a, b] += share * 2 / (len(S) * (len(S) - 1))
        pairs += pairs.T
        frequency = None if stability is None else _frequencies(stability, place)
        return cls(names, main, pairs, frequency)

    def plot(
        self, ax: Axes | None = None, *, kind: Literal["matrix", "network"] = "matrix", top: int = TOP
    ) -> Self:
        """Draw the columns that carry most.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        kind : {"matrix", "network"}
            A matrix has main effects on its diagonal, and above it how often a pair is selected where that is known; a
            network has a dot for each column and a line for each pair, as thick as their shares.
        top : int
            Most columns.

        Returns
        -------
        self
        """
        if kind not in ("matrix", "network"):
            raise ValueError(f"kind is {brief(kind)}; it must be 'matrix' or 'network'.")
        carried = self.main + self.pairs.sum(axis=1) / 2
        kept = np.sort(np.argsort(-carried, kind="stable")[:top])
        kept = kept[carried[kept] > 0]
        names = told_apart([str(self.columns[i]) for i in kept], 18)
        side = 1.6 + 0.42 * max(len(kept), 5)
        wide = side + (2.0 if kind == "network" else 0.9 + 0.04 * max(map(len, names), default=0))
        self.figure_, self.ax_ = axes_of(ax, type(self).__name__, (wide, side))
        part = self.pairs[np.ix_(kept, kept)]
        if kind == "network":
            _draw_network(self.ax_, names, self.main[kept], part)
        else:
            frequency = None if self.frequency is None else self.frequency[np.ix_(kept, kept)]
            _draw_matrix(self.ax_, names, self.main[kept], part, frequency)
        return self


def _frequencies(stability: Any, place: dict[int, int]) -> np.ndarray:
    """Return how often products of two different columns or more are selected, by pairs: the most frequent counts."""
    out = np.full((len(place), len(place)), np.nan)
    for member, frequency in zip(stability["member"], stability["frequency"], strict=True):
        inside = sorted({place[j] for j in np.ravel(member).tolist() if j in place})
        for a, b in combinations(inside, 2):
            out[a, b] = out[b, a] = np.fmax(out[a, b], frequency)
    return out


def _draw_matrix(ax: Any, names: list[str], main: np.ndarray, pairs: np.ndarray, frequency: Any) -> None:
    """Draw shares below and on the diagonal; above it frequencies, or nothing."""
    shown = np.where(np.tri(len(names), k=-1, dtype=bool), pairs, np.nan)
    np.fill_diagonal(shown, main)
    mesh = ax.imshow(100 * shown, cmap=sequential(), vmin=0)
    for a in range(len(names)):
        for b in range(len(names)):
            if a >= b and shown[a, b] >= 5e-4:
                dark = shown[a, b] > 0.6 * np.nanmax(shown)
                ax.text(
                    b,
                    a,
                    f"{100 * shown[a, b]:.1f}",
                    ha="center",
                    va="center",
                    fontsize=7,
                    color="white" if dark else ink(),
                )
            if a < b and frequency is not None and np.isfinite(frequency[a, b]):
                ax.scatter([b], [a], s=160 * frequency[a, b], color=COLOURS[1])
    ax.set_xticks(range(len(names)), names, rotation=40, ha="right", rotation_mode="anchor")
    ax.set_yticks(range(len(names)), names)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
    colourbar(mesh, ax, shrink=0.7, label="share of the variance, %")
    if frequency is not None:
        ax.scatter([], [], s=160, color=COLOURS[1], label="always selected")
        ax.scatter([], [], s=80, color=COLOURS[1], label="in half of the half samples")
        ax.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, fontsize=8)


def _draw_network(ax: Any, names: list[str], main: np.ndarray, pairs: np.ndarray) -> None:
    """Draw the columns around a circle."""
    angle = 2 * np.pi * np.arange(len(names)) / max(len(names), 1) + np.pi / 2
    x, y = np.cos(angle), np.sin(angle)
    largest, strongest = float(main.max(initial=0.0)) or 1.0, float(pairs.max(initial=0.0)) or 1.0
    for a, b in combinations(range(len(names)), 2):
        if pairs[a, b] > 0.005 * strongest:
            width = 0.5 + 6 * pairs[a, b] / strongest
            ax.plot(x[[a, b]], y[[a, b]], color=COLOURS[1], linewidth=width, alpha=0.75, zorder=1)
    size = 30 + 600 * main / largest
    ax.scatter(x, y, s=size, color=COLOURS[0], zorder=2)
    for name, u, v, s in zip(names, x, y, size, strict=True):
        away = 4 + np.sqrt(s) / 2  # points, from the middle of the dot
        side = "left" if u > 0.2 else "right" if u < -0.2 else "center"
        height = "bottom" if v > 0.8 else "top" if v < -0.8 else "center"
        ax.annotate(name, (u, v), (away * u, away * v), textcoords="offset points", ha=side, va=height)
    room = 1.15 + 0.065 * max(map(len, names), default=0)  # for the names beside the circle
    ax.set_xlim(-room, room)
    ax.set_ylim(-1.45, 1.45)
    ax.set_aspect("equal")
    tidy(ax)
    ax.set_axis_off()
