"""Which kernels, or views, carry the prediction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._util.text import brief
from .look import COLOURS, axes_of, colours_of, tidy, told_apart

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..combination import Combination

#: Bars of a figure, unless told.
TOP = 15
#: Shares below this are put together.
LEAST = 1e-3


class WeightsDisplay:
    """The shares of kernels, or of views, as bars.

    Parameters
    ----------
    labels : sequence of str
        Names of the kernels or views, largest share first.
    shares : (m,) array
        Of the fitted variance; several targets with weights of their own are averaged.
    views : sequence of str, optional
        The view of each kernel, for its colour.

    Attributes
    ----------
    ax_, figure_ : Axes, Figure
        After ``plot``.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from manykernels import MKLClassifier
    >>> from manykernels.displays import WeightsDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> display = WeightsDisplay.from_estimator(MKLClassifier().fit(X, y))
    >>> display.plot().ax_.get_xlabel()
    'share of the fitted variance'
    """

    def __init__(self, labels: Sequence[str], shares: np.ndarray, views: Sequence[str] | None = None):
        self.labels = labels
        self.shares = shares
        self.views = views

    @classmethod
    def from_estimator(cls, estimator: Any, *, by: Literal["kernel", "view"] = "kernel") -> Self:
        """Take the shares from a fitted model.

        Parameters
        ----------
        estimator : fitted model with ``combination_``
        by : {"kernel", "view"}
            Whether there is a bar per kernel, or one per view.

        Returns
        -------
        WeightsDisplay
        """
        check_is_fitted(estimator)
        return cls.from_combination(estimator.combination_, by=by)

    @classmethod
    def from_combination(cls, combination: Combination, *, by: Literal["kernel", "view"] = "kernel") -> Self:
        """Take the shares from a learned combination of kernels; parameters as in :meth:`from_estimator`."""
        if by not in ("kernel", "view"):
            raise ValueError(f"by is {brief(by)}; it must be 'kernel' or 'view'.")
        records = combination.records()
        if by == "view" and not any("view" in record for record in records):
            raise ValueError("by is 'view', but the model was fitted on one table; use by='kernel'.")
        targets = len({record.get("target") for record in records}) or 1
        totals: dict[tuple[str, str], float] = {}
        views: dict[tuple[str, str], str] = {}
        for record in records:  # two kernels may have one name, of bandwidths that differ in later digits
            view = str(record.get("view", ""))
            key = (view, "") if by == "view" else (record["kernel"], repr(record.get("sigma")))
            totals[key] = totals.get(key, 0.0) + record["share"] / targets
            views[key] = view
        order = sorted(totals, key=lambda key: -totals[key])
        of = [views[key] for key in order]
        shares = np.array([totals[key] for key in order])
        return cls([label for label, _ in order], shares, of if any(of) else None)

    def plot(self, ax: Axes | None = None, *, top: int = TOP) -> Self:
        """Draw the largest shares; the others, and those below a thousandth, are one grey bar.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        top : int
            Most bars.

        Returns
        -------
        self
        """
        shares = np.asarray(self.shares)
        kept = [i for i in range(len(shares)) if shares[i] >= LEAST][:top]
        n_rest = int(np.count_nonzero(shares)) - len(kept)
        names = told_apart([self.labels[i] for i in kept]) + ([f"{n_rest:,} more"] if n_rest else [])
        self.figure_, self.ax_ = axes_of(ax, type(self).__name__, (6.4, 1.0 + 0.28 * len(names)))
        of = [self.views[i] if self.views is not None else "" for i in kept]
        palette = colours_of(of)
        bars = self.ax_.barh(range(len(kept)), shares[kept], color=[palette[view] for view in of])
        if n_rest:
            self.ax_.barh([len(kept)], [shares.sum() - shares[kept].sum()], color=COLOURS[-1], alpha=0.6)
        self._label(names, bars, of)
        return self

    def _label(self, names: list[str], bars: Any, views: list[str]) -> None:
        ax = self.ax_
        ax.set_yticks(range(len(names)), names)
        ax.invert_yaxis()
        ax.set_xlabel("share of the fitted variance")
        ax.xaxis.set_major_formatter(lambda x, _: f"{100 * x:g} %")
        ax.tick_params(axis="y", length=0)
        tidy(ax, grid="x")
        distinct = list(dict.fromkeys(views))
        if 1 < len(distinct) < len(views):  # where every bar is a view of its own, its name is enough
            first = {view: bars[views.index(view)] for view in distinct}
            ax.legend(first.values(), first.keys(), title="view", frameon=False, loc="lower right")
