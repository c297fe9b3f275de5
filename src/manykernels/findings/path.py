"""Solutions along a grid of C and p, and how well each predicts rows that it has not seen."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

#: Errors this close, relatively, are one: the smaller C is taken.
SAME = 1e-3


@dataclass(frozen=True, eq=False)
class SolutionPath:
    """The models of a grid of C and p, with their errors on rows left out; what ``model.path(X, y)`` returns.

    Attributes
    ----------
    C : (k,) array
        In ascending order.
    p : (l,) array
        Norms over kernels; NaN where the solver has none.
    error : (l, k, folds) array
        The mean loss of the rows of every fold, by a model of the others.
    score : (l, k, folds) array or None
        R² or accuracy likewise. None for labels of rows in files and on clusters: of these there are only sums.
    models : (l, k) array of objects
        The fitted model of every p and C, on all rows: what ``fit`` gives with these.
    score_name : {"R²", "accuracy"}
    """

    C: np.ndarray
    p: np.ndarray
    error: np.ndarray = field(repr=False)
    score: np.ndarray | None = field(repr=False)
    models: np.ndarray = field(repr=False)
    score_name: Literal["R²", "accuracy"] = "R²"

    @property
    def best(self) -> tuple[int, int]:
        """Numbers of the p and the C with the least mean error; of equal ones the smallest C."""
        mean = self.error.mean(axis=2)
        at = int(np.argmin(mean.min(axis=1)))
        return at, int(np.flatnonzero(mean[at] <= mean[at].min() * (1 + SAME) + np.finfo(float).tiny)[0])

    @property
    def best_model(self) -> Any:
        """The model of the best p and C."""
        return self.models[self.best]

    def shares(self) -> np.ndarray:
        """Return the share of every kernel in every model, (l, k, m), in the order of ``combination_.members``.

        Where targets have weights of their own, these are means over the targets.
        """
        found = [[np.atleast_2d(m.combination_.shares()).mean(axis=0) for m in row] for row in self.models]
        return np.array(found)

    def labels(self) -> list[str]:
        """Return the names of the kernels, in the order of :meth:`shares`."""
        combination = self.models[0, 0].combination_
        return [combination.family.label(member) for member in combination.members]

    def records(self) -> list[dict[str, Any]]:
        """Return one record per model; see :meth:`table`."""
        return [self._record(i, j) for i, j in np.ndindex(*self.models.shape)]

    def _record(self, i: int, j: int) -> dict[str, Any]:
        model = self.models[i, j]
        known: dict[str, Any] = {"p": float(self.p[i]), "C": float(self.C[j])}
        if self.score is not None:
            known |= {"score": float(self.score[i, j].mean()), "score_se": standard_error(self.score[i, j])}
        return known | {
            "error": float(self.error[i, j].mean()),
            "error_se": standard_error(self.error[i, j]),
            "objective": model.objective_,
            "gap": model.gap_,
            "gap_kind": model.gap_kind_,
            "kernels": int(np.atleast_2d(model.weights_).any(axis=0).sum()),
            "best": (i, j) == self.best,
        }

    def table(self) -> Any:
        """Return one row per p and C as a DataFrame; without pandas, as :meth:`records`.

        Columns are ``p``, ``C``, the mean ``score`` and ``error`` of the folds with the standard error of each mean
        (``_se``), ``objective``, ``gap`` and ``gap_kind`` of the model of all rows, how many ``kernels`` have weight,
        and whether it is the ``best``.
        """
        try:
            from pandas import DataFrame
        except ImportError:
            return self.records()
        return DataFrame(self.records())


def standard_error(values: np.ndarray) -> float:
    """Return the standard error of the mean of some folds."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")
