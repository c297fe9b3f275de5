"""The public estimators."""

from .aligned import AlignedKernel
from .classifier import MKLClassifier
from .regressor import MKLRegressor

__all__ = ["AlignedKernel", "MKLClassifier", "MKLRegressor"]
