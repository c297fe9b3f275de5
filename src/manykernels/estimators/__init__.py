"""The public estimators.

``base.py`` is the path of a fit, from top to bottom: validate, family, solver, scale, problem, result.
``classifier.py``, ``regressor.py``, ``survival.py``, ``outlier.py`` and ``aligned.py`` hold the classes, with what is
theirs of targets and predictions; ``targets.py`` encodes and decodes; ``streamed.py`` is the side door for rows that
come in batches; ``available.py`` makes methods that are there for some parameters only.
"""

from .aligned import AlignedKernel
from .classifier import MKLClassifier
from .outlier import MKLOutlier
from .regressor import MKLRegressor
from .survival import MKLSurvival

__all__ = ["AlignedKernel", "MKLClassifier", "MKLOutlier", "MKLRegressor", "MKLSurvival"]
