"""How a fit went: the gap that certifies it, its objective, or the error of rows left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self, get_args

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._util.text import brief
from .look import COLOURS, axes_of, ink, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Known = Literal["gap", "objective", "left_out"]
Curve = Literal["auto", "gap", "objective", "left_out"]
WORDS: dict[Known, str] = {
    "gap": "relative duality gap",
    "objective": "objective",
    "left_out": "error of rows left out",
}


class ConvergenceDisplay:
    """One figure of a fit along its iterations.

    Parameters
    ----------
    values : (t,) array
        What is drawn; NaN where it was not known.
    what : {"gap", "objective", "left_out"}
        What that is: the gap over the objective, the objective, or the error of rows left out.
    seconds : (t,) array, optional
        The time since the start, where it is known for each.
    tol : float, optional
        The tolerance, for a line across.

    Attributes
    ----------
    ax_, figure_ : Axes, Figure
        After ``plot``.
    """

    def __init__(
        self,
        values: np.ndarray,
        what: Known,
        seconds: np.ndarray | None = None,
        tol: float | None = None,
    ):
        self.values = values
        self.what = what
        self.seconds = seconds
        self.tol = tol

    @classmethod
    def from_estimator(cls, estimator: Any, *, what: Curve = "auto") -> Self:
        """Take the course from a fitted model's ``trace_``.

        Parameters
        ----------
        estimator : fitted model with ``trace_``
        what : {"auto", "gap", "objective", "left_out"}
            ``"auto"``: the error of rows left out where the fit went down on that (LeaveOneOut), else the gap where
            it was known at least twice, else the objective.

        Returns
        -------
        ConvergenceDisplay
        """
        check_is_fitted(estimator)
        trace = estimator.trace_
        objective, gap = np.array(trace.objective, dtype=float), np.array(trace.gap, dtype=float)
        curves: dict[Known, np.ndarray] = {
            "left_out": np.array(trace.extra.get("left_out", ()), dtype=float),
            "gap": np.maximum(gap, 0.0) / np.maximum(np.abs(objective), 1e-300),
            "objective": objective,
        }
        if what not in get_args(Curve):
            raise ValueError(
                f"what is {brief(what)}; it must be one of {', '.join(map(repr, get_args(Curve)))}."
            )
        kind: Known = (
            what if what != "auto" else next((k for k in curves if _known(curves[k]) > 1), "objective")
        )
        if not _known(curves[kind]):
            known = [repr(k) for k in curves if _known(curves[k])]
            raise ValueError(f"what is {kind!r}, which this fit did not record; use {' or '.join(known)}.")
        seconds = np.array(trace.seconds, dtype=float)
        timed = len(seconds) == len(curves[kind]) and kind != "left_out"
        tol = getattr(estimator.solver_, "tol", None) if kind == "gap" else None
        return cls(curves[kind], kind, seconds if timed else None, tol if isinstance(tol, float) else None)

    def plot(self, ax: Axes | None = None, *, over: Literal["iterations", "seconds"] = "iterations") -> Self:
        """Draw the course.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        over : {"iterations", "seconds"}

        Returns
        -------
        self
        """
        if over not in ("iterations", "seconds") or (over == "seconds" and self.seconds is None):
            raise ValueError(
                f"over is {brief(over)}; it must be 'iterations', or 'seconds' where times are known."
            )
        self.figure_, self.ax_ = axes_of(ax, type(self).__name__, (6.0, 3.2))
        ax = self.ax_
        x: Any = self.seconds if over == "seconds" else np.arange(1, len(self.values) + 1)
        ax.plot(
            x, self.values, color=COLOURS[0], marker="o" if len(self.values) < 40 else None, markersize=3.5
        )
        if self.what == "gap":
            ax.set_yscale("log")
            if self.tol:
                ax.axhline(self.tol, color=ink(), linestyle="--", linewidth=0.9)
                ax.annotate("tolerance", (0, self.tol), (4, 2), ("axes fraction", "data"), "offset points")
        if over == "iterations":
            ax.locator_params(axis="x", integer=True, min_n_ticks=1)
        ax.set_xlabel("iteration" if over == "iterations" else "seconds")
        ax.set_ylabel(WORDS[self.what])
        tidy(ax)
        return self


def _known(values: np.ndarray) -> int:
    return int(np.isfinite(values).sum())
