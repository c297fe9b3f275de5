"""Sets of kernels: a list, ready-made matrices, all products of base kernels."""

from .base import (
    Enumerable,
    Family,
    HasFeatures,
    HasRandomFeatures,
    Maximisable,
    Samplable,
)
from .finite import Finite, Precomputed
from .products import Products

__all__ = [
    "Enumerable",
    "Family",
    "Finite",
    "HasFeatures",
    "HasRandomFeatures",
    "Maximisable",
    "Precomputed",
    "Products",
    "Samplable",
]
