"""Values of columns as people have them, and the numbers that a predictor sees for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..kernels.statistics import dense
from ..tables import Origin
from .expansion import Variable
from .reading import rows_of

#: Values on an axis, by the number of axes; all that there are where they are few; quantiles that numbers lie between.
AXIS, MORE_AXES, FEW, QUANTILES = {1: 101, 2: 33}, 11, 12, (0.01, 0.99)


class Units:
    """The columns of a model's tables.

    Parameters
    ----------
    model : fitted estimator
    background : rows that grids are laid over
    """

    def __init__(self, model: Any, background: Any):
        self.model, self.background = model, background

    def grids(
        self, variables: Sequence[Origin | Variable], grid: Any
    ) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Return values of each variable in its own units, and as the predictor sees them, (n, width) each."""
        for variable in variables:
            if len(variable.inside) > 1:
                raise ValueError(
                    f"component {variable.name!r} is a function of {len(variable.inside):,} columns at once, and has "
                    "no axis; use its column of `values`."
                )
        size = AXIS.get(len(variables), MORE_AXES)
        if grid is None:
            given = [self._values(variable, size) for variable in variables]
        else:
            given = (
                [np.asarray(grid)]
                if len(variables) == 1 and np.ndim(grid[0]) == 0
                else [*map(np.asarray, grid)]
            )
        if len(given) != len(variables) or any(values.ndim != 1 or not len(values) for values in given):
            raise ValueError(
                f"grid must be {len(variables)} arrays of values, one for each column of the component."
            )
        return given, [self._numbers(v, values) for v, values in zip(variables, given, strict=True)]

    @property
    def _columns(self) -> Any:
        return getattr(self.model, "columns_", None)

    def _values(self, variable: Origin | Variable, size: int) -> np.ndarray:
        """Return values to lay a curve over: numbers from quantile to quantile, levels, or all where there are few."""
        if self._columns is None:
            held, values = (
                "number",
                dense(rows_of(self.model, self.background, "background"))[:, variable.outside[0]],
            )
        else:
            column = self._columns.read(self.background, variable.inside[0])
            held, values = column.held, column.values
        if held == "category":
            return np.array(sorted({v for v in values.tolist() if v is not None}), dtype=object)
        known = np.unique(values[np.isfinite(values)])
        if len(known) > FEW:
            low, high = np.quantile(values[np.isfinite(values)], QUANTILES)
            known = np.linspace(low, high, size)
        return known.astype("datetime64[s]") if held == "date" else known

    def _numbers(self, variable: Origin | Variable, values: np.ndarray) -> np.ndarray:
        if self._columns is None:
            return values.astype(float)[:, None]
        return self._columns.transform_column(variable.inside[0], values)
