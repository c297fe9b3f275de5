"""Random and exact features of kernels, in blocks that are regenerated from a seed and never stored."""

from .base import Block, FeatureMap, generator_of
from .exact import Exact
from .fourier import Fourier

__all__ = ["Block", "Exact", "FeatureMap", "Fourier", "generator_of"]
