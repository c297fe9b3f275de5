"""What C and p do: how well rows left out are predicted along a grid of them, and which kernels carry it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

import numpy as np

from .._util.text import brief
from ..findings.path import SolutionPath
from .look import COLOURS, axes_of, ink, plain_log, tidy, told_apart

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Curve = Literal["auto", "score", "error", "shares"]
MARKERS = "os^Dv"
#: Kernels that have a colour of their own.
TOP = 6


class PathDisplay:
    """Curves over C, one for each p.

    Parameters
    ----------
    C : (k,) array
    p : (l,) array
        NaN where the solver has none.
    error : (l, k, folds) array
        Mean losses of rows left out.
    score : (l, k, folds) array, optional
        R² or accuracy of rows left out.
    shares : (l, k, m) array, optional
        Of the kernels.
    labels : sequence of str
        Names of the kernels.
    best : (int, int)
        Numbers of the best p and C.
    score_name : str

    Attributes
    ----------
    ax_, figure_ : Axes, Figure
        After ``plot``.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from manykernels import MKLRegressor
    >>> from manykernels.displays import PathDisplay
    >>> from manykernels.kernels import Linear
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = MKLRegressor([Linear(columns=[j]) for j in range(10)], solver="lp_norm")
    >>> display = PathDisplay.from_estimator(model, X, y, C=[0.01, 0.1, 1, 10], p=[1, 4 / 3])
    >>> display.plot().ax_.get_ylabel()
    'R² of rows left out'
    """

    def __init__(
        self,
        C: np.ndarray,
        p: np.ndarray,
        error: np.ndarray,
        score: np.ndarray | None = None,
        shares: np.ndarray | None = None,
        labels: Sequence[str] = (),
        best: tuple[int, int] = (0, 0),
        score_name: str = "score",
    ):
        self.C = C
        self.p = p
        self.error = error
        self.score = score
        self.shares = shares
        self.labels = labels
        self.best = best
        self.score_name = score_name

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any = None, *, sample_weight=None, C=None, p=None, cv=5
    ) -> Self:
        """Go along the path of a model, which need not be fitted.

        Parameters
        ----------
        estimator : model with ``path``
        X, y, sample_weight, C, p, cv : see :meth:`manykernels.MKLRegressor.path`

        Returns
        -------
        PathDisplay
        """
        return cls.from_path(estimator.path(X, y, sample_weight, C=C, p=p, cv=cv))

    @classmethod
    def from_path(cls, path: SolutionPath) -> Self:
        """Take the curves from a path."""
        same = len({len(model.weights_.T) for model in path.models.flat}) == 1
        return cls(
            path.C,
            path.p,
            path.error,
            path.score,
            path.shares() if same else None,
            path.labels() if same else (),
            path.best,
            path.score_name,
        )

    def plot(self, ax: Axes | None = None, *, what: Curve = "auto", p: float | None = None) -> Self:
        """Draw means over the folds with bands of one standard error, or the shares of the kernels.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        what : {"auto", "score", "error", "shares"}
            ``"auto"``: the score where it is known, else the error.
        p : float, optional
            Of ``"shares"``: which p; the best by default.

        Returns
        -------
        self
        """
        known = {"score": self.score, "error": self.error, "shares": self.shares}
        kind = what if what != "auto" else "error" if self.score is None else "score"
        if what not in get_args(Curve) or known.get(kind) is None:
            fit = [repr(name) for name, values in known.items() if values is not None]
            raise ValueError(f"what is {brief(what)}; it must be 'auto' or one of {', '.join(fit)}.")
        self.figure_, self.ax_ = axes_of(ax, type(self).__name__, (6.4, 3.8))
        if kind == "shares":
            self._draw_shares(self._place(p))
        else:
            self._draw_means(np.asarray(known[kind]), kind)
        self._finish()
        return self

    def _place(self, p: float | None) -> int:
        if p is None:
            return self.best[0]
        at = np.flatnonzero(np.isclose(self.p, p))
        if not len(at):
            raise ValueError(f"p is {brief(p)}; the path has {', '.join(f'{v:g}' for v in self.p)}.")
        return int(at[0])

    def _draw_means(self, values: np.ndarray, kind: str) -> None:
        ax, n = self.ax_, values.shape[2]
        for i, curve in enumerate(values):
            mean, colour = curve.mean(axis=1), COLOURS[i % len(COLOURS)]
            name = None if np.isnan(self.p[i]) else f"p = {self.p[i]:.3g}"
            ax.plot(self.C, mean, color=colour, marker=MARKERS[i % len(MARKERS)], markersize=4, label=name)
            if n > 1:
                band = curve.std(axis=1, ddof=1) / np.sqrt(n)
                ax.fill_between(self.C, mean - band, mean + band, color=colour, alpha=0.13, linewidth=0)
        i, j = self.best
        best = float(values[i, j].mean())
        ax.scatter([self.C[j]], [best], s=110, facecolors="none", edgecolors=ink(), linewidths=1.4, zorder=4)
        away = 9 if kind == "score" else -17  # beyond the curve
        ax.annotate("least loss", (self.C[j], best), (0, away), textcoords="offset points", ha="center")
        ax.set_ylabel(f"{self.score_name if kind == 'score' else 'mean loss'} of rows left out")
        ax.margins(y=0.1)  # room for the word
        means = values.mean(axis=2)
        if (
            kind == "score" and means.min() < 0 < means.max()
        ):  # worse than a constant, and there is no end to that
            ax.set_ylim(bottom=-0.1 * means.max())

    def _draw_shares(self, at: int) -> None:
        assert self.shares is not None
        ax, shares = self.ax_, np.asarray(self.shares[at])
        order = np.argsort(-shares.max(axis=0), kind="stable")
        order = order[shares[:, order].max(axis=0) > 0]
        for i in order[TOP:]:
            ax.plot(self.C, shares[:, i], color=COLOURS[-1], alpha=0.5, linewidth=0.9)
        labels = told_apart([self.labels[i] for i in order[:TOP]], 28)
        for k, i in enumerate(order[:TOP]):
            style: dict[str, Any] = {
                "color": COLOURS[k],
                "marker": MARKERS[k % len(MARKERS)],
                "markersize": 4,
            }
            ax.plot(self.C, shares[:, i], label=labels[k], **style)
        if len(order) > TOP:
            ax.plot([], [], color=COLOURS[-1], alpha=0.5, linewidth=0.9, label=f"{len(order) - TOP:,} more")
        ax.axvline(self.C[self.best[1]], color=ink(), linestyle="--", linewidth=0.9)
        ax.annotate(
            "best C", (self.C[self.best[1]], 1), (3, -2), ("data", "axes fraction"), "offset points", va="top"
        )
        ax.set_ylim(-0.02 * shares.max(), 1.05 * shares.max())
        name = "" if np.isnan(self.p[at]) else f" (p = {self.p[at]:.3g})"
        ax.set_ylabel(f"share of the fitted variance{name}")
        ax.yaxis.set_major_formatter(lambda y, _: f"{100 * y:g} %")

    def _finish(self) -> None:
        ax = self.ax_
        ax.set_xscale("log")
        plain_log(ax.xaxis)
        ax.set_xlabel("C")
        tidy(ax)
        if ax.get_legend_handles_labels()[0]:
            ax.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
