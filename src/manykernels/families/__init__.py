"""Sets of kernels: a list, ready-made matrices, all products of base kernels, continua."""

from .bandwidths import Gaussians, Laplacians
from .base import Enumerable, Family, HasFeatures, HasRandomFeatures, Maximisable, Samplable
from .dirichlets import Dirichlets
from .finite import Finite, Precomputed
from .products import Products

__all__ = [
    "Dirichlets",
    "Enumerable",
    "Family",
    "Finite",
    "Gaussians",
    "HasFeatures",
    "HasRandomFeatures",
    "Laplacians",
    "Maximisable",
    "Precomputed",
    "Products",
    "Samplable",
]


def __dir__() -> list[str]:
    return sorted(__all__)
