"""How far each column is looked along: small bandwidths tell rows apart, large ones hardly do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .look import COLOURS, axes_of, plain_log, tidy, told_apart

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Columns of a figure, unless told.
TOP = 20
MARKERS = "osD^v"


class BandwidthsDisplay:
    """The bandwidth of each column, for the kernels of each kind that have one per column.

    Parameters
    ----------
    columns : sequence of str
        Names of the columns.
    sigma : dict of str to (d,) array
        For each kind of kernel the bandwidths, in units of the columns' own spread; NaN where it has none.

    Attributes
    ----------
    ax_, figure_ : Axes, Figure
        After ``plot``.
    """

    def __init__(self, columns: Sequence[str], sigma: Mapping[str, np.ndarray]):
        self.columns = columns
        self.sigma = sigma

    @classmethod
    def from_estimator(cls, estimator: Any) -> Self:
        """Take the bandwidths from a fitted model.

        Of kernels of one kind that differ by a common factor only, as the halves, ones and doubles of the default
        do, those with the largest share are taken.

        Parameters
        ----------
        estimator : fitted model with ``combination_``

        Returns
        -------
        BandwidthsDisplay
        """
        check_is_fitted(estimator)
        found: dict[str, dict[str, float]] = {}
        for record in estimator.combination_.records():
            kind = record["kernel"].partition("(")[0]
            view = str(record.get("view", ""))
            sigma = np.ravel(record.get("sigma", ()))
            if record["weight"] > 0 and len(sigma) > 1 and np.ptp(sigma) > 0:
                names = _sources(record.get("columns", range(len(sigma))), sigma)
                own = {f"{view}: {name}" if view else name: s for name, s in names.items()}
                if not set(own) & set(found.get(kind, ())):  # the heaviest comes first
                    found.setdefault(kind, {}).update(own)
        if not found:
            raise ValueError(
                "The model has no kernel with a bandwidth per column; use kernels='auto', Gaussians(ard=True) or "
                "Laplacians(ard=True)."
            )
        columns = list(dict.fromkeys(name for kind in found.values() for name in kind))
        learned = {kind: np.array([own.get(c, np.nan) for c in columns]) for kind, own in found.items()}
        return cls(columns, learned)

    def plot(self, ax: Axes | None = None, *, top: int = TOP) -> Self:
        """Draw the columns with the smallest bandwidths, which tell most, the smallest at the top.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        top : int
            Most columns.

        Returns
        -------
        self
        """
        least = np.nanmin(np.array(list(self.sigma.values())), axis=0)
        order = np.argsort(least, kind="stable")[:top]
        self.figure_, self.ax_ = axes_of(ax, type(self).__name__, (6.4, 1.3 + 0.26 * len(order)))
        ax = self.ax_
        for i, (kind, sigma) in enumerate(self.sigma.items()):
            style: dict[str, Any] = {
                "color": COLOURS[i % len(COLOURS)],
                "marker": MARKERS[i % len(MARKERS)],
                "s": 32,
            }
            ax.scatter(sigma[order], range(len(order)), label=kind, zorder=3, **style)
        more = len(self.columns) - len(order)
        ax.set_yticks(range(len(order)), told_apart([str(self.columns[i]) for i in order]))
        ax.invert_yaxis()
        ax.set_xscale("log")
        plain_log(ax.xaxis)
        ax.set_xlabel(
            "bandwidth, in spreads of the column" + (f"\n({more:,} more are larger)" if more else "")
        )
        tidy(ax)
        if len(self.sigma) > 1:
            ax.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
        return self


def _sources(columns: Any, sigma: np.ndarray) -> dict[str, float]:
    """Return bandwidths by column of the table; a category, such as ``colour=red``, is of its column."""
    names = [str(c) for c in columns]
    out: dict[str, float] = {}
    for name, s in zip(names, sigma, strict=True):
        stem = name.partition("=")[0]
        out[stem] = min(float(s), out.get(stem, np.inf))
    return out
