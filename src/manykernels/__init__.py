"""Learn which kernels to combine, and the predictor on top of them."""

from .estimators import MKLClassifier, MKLRegressor
from .estimators.aligned import AlignedKernel
from .persistence import load

__version__ = "0.1.0.dev0"

__all__ = ["AlignedKernel", "MKLClassifier", "MKLRegressor", "load"]
