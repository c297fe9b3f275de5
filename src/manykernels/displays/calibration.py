"""Whether probabilities, and intervals, keep their word."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.stats import norm
from sklearn.base import is_classifier
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d

from .look import COLOURS, axes_of, ink, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Levels at which intervals of a regression are tried.
LEVELS = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95])


class CalibrationDisplay:
    """What was said with a probability, against how often it came true, with 95 % intervals (Wilson, 1927).

    Parameters
    ----------
    said, true : (k,) arrays
        Mean probability, and share that came true, of each bin of predictions; or level and coverage of intervals.
    counts : (k,) array
        Rows in each.
    what : {"probability", "interval"}

    Attributes
    ----------
    ax_, figure_ : Axes, Figure
        After ``plot``.
    """

    def __init__(self, said: np.ndarray, true: np.ndarray, counts: np.ndarray, what: str = "probability"):
        self.said = said
        self.true = true
        self.counts = counts
        self.what = what

    @classmethod
    def from_estimator(cls, estimator: Any, X, y, *, n_bins: int = 10) -> Self:
        """Predict rows that were not learned from: probabilities of a classifier, intervals of a regressor.

        Parameters
        ----------
        estimator : fitted classifier with ``predict_proba``, or regressor with ``predict_interval``
        X, y : rows and their targets
        n_bins : int
            Of probabilities; each holds as many predictions.

        Returns
        -------
        CalibrationDisplay
        """
        check_is_fitted(estimator)
        if is_classifier(estimator):
            return cls.from_predictions(y, estimator.predict_proba(X), estimator.classes_, n_bins=n_bins)
        y = column_or_1d(y)
        ends = [estimator.predict_interval(X, alpha=1 - level) for level in LEVELS]
        inside = np.array([np.mean((y >= e[:, 0]) & (y <= e[:, 1])) for e in ends])
        return cls(LEVELS, inside, np.full(len(LEVELS), len(y)), "interval")

    @classmethod
    def from_predictions(cls, y_true, y_prob, classes=None, *, n_bins: int = 10) -> Self:
        """Compare probabilities with what came true.

        Parameters
        ----------
        y_true : (n,) labels
        y_prob : (n,) array, the probabilities of the second class; or (n, c) array
            Of more than two classes, that of each row's likeliest class is judged.
        classes : (c,) array, optional
            The labels, in the order of the columns; by default those in `y_true`, sorted.
        n_bins : int
            Each holds as many predictions; equal probabilities stay together.

        Returns
        -------
        CalibrationDisplay
        """
        y, P = column_or_1d(y_true), np.asarray(y_prob, dtype=float)
        check_consistent_length(y, P)
        labels = np.unique(y) if classes is None else np.asarray(classes)
        if P.ndim == 2 and P.shape[1] > 2:
            p, hit = P.max(axis=1), labels[P.argmax(axis=1)] == y
        else:
            p, hit = P if P.ndim == 1 else P[:, 1], y == labels[-1]
        edges = np.quantile(p, np.linspace(0, 1, n_bins + 1)[1:-1])
        bins = np.searchsorted(np.unique(edges), p, side="right")
        counts = np.bincount(bins)
        kept = counts > 0
        sums = [np.bincount(bins, weights=w)[kept] / counts[kept] for w in (p, hit)]
        return cls(sums[0], sums[1], counts[kept])

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw what came true over what was said; on the dotted line both are equal.

        Parameters
        ----------
        ax : matplotlib Axes, optional

        Returns
        -------
        self
        """
        self.figure_, self.ax_ = axes_of(ax, type(self).__name__, (4.2, 4.0))
        ax = self.ax_
        low, high = wilson(self.true, self.counts)
        ax.plot([0, 1], [0, 1], color=ink(), linestyle=":", linewidth=1)
        ax.vlines(self.said, low, high, color=COLOURS[0], alpha=0.5)
        ax.plot(self.said, self.true, color=COLOURS[0], marker="o", markersize=4)
        names = {
            "probability": ("predicted probability", "share that came true"),
            "interval": ("level of the interval", "share of targets inside"),
        }
        ax.set_xlabel(names[self.what][0])
        ax.set_ylabel(names[self.what][1])
        ax.set_xlim(-0.02, 1.02)
        ax.set_ylim(-0.02, 1.02)
        ax.set_aspect("equal")
        tidy(ax)
        return self


def wilson(share: np.ndarray, counts: np.ndarray, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of Wilson's interval for shares of so many tries."""
    z = norm.ppf(0.5 + level / 2)
    centre = (share + z**2 / (2 * counts)) / (1 + z**2 / counts)
    half = z / (1 + z**2 / counts) * np.sqrt(share * (1 - share) / counts + z**2 / (4 * counts**2))
    return centre - half, centre + half
