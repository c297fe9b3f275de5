"""Learn which kernels to combine, and the predictor on top of them."""

from .aligned import AlignedKernel
from .estimators import MKLClassifier, MKLRegressor
from .persistence import load

__version__ = "0.1.0.dev0"

__all__ = ["AlignedKernel", "MKLClassifier", "MKLRegressor", "load"]
