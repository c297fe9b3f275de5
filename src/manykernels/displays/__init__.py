"""Figures, in scikit-learn's manner: arrays are stored, ``plot(ax=None)`` draws them, matplotlib is imported then.

========================  ================================================================
`WeightsDisplay`          the share of each kernel, or of each view
`ComponentsDisplay`       main effects as curves and interactions as maps, in the columns' units
`InteractionsDisplay`     which columns work together, as a matrix or a network
`BandwidthsDisplay`       the learned bandwidth of each column
`ConvergenceDisplay`      gap, objective or left-out error along the fit
`CalibrationDisplay`      how often what is said with a probability comes true
`PathDisplay`             scores of rows left out, or the kernels' shares, along C and p
========================  ================================================================

``from_estimator`` takes a fitted model, by its public attributes alone; ``look.py`` is the look they share.
"""

from __future__ import annotations

from .bandwidths import BandwidthsDisplay
from .calibration import CalibrationDisplay
from .components import ComponentsDisplay
from .convergence import ConvergenceDisplay
from .interactions import InteractionsDisplay
from .path import PathDisplay
from .weights import WeightsDisplay

__all__ = [
    "BandwidthsDisplay",
    "CalibrationDisplay",
    "ComponentsDisplay",
    "ConvergenceDisplay",
    "InteractionsDisplay",
    "PathDisplay",
    "WeightsDisplay",
]
