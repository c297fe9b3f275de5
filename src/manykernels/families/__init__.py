"""Sets of kernels: a list, ready-made matrices, all products of base kernels, continua, unions.

``base.py`` says what a family answers and what more it may be able to do. ``finite.py`` has lists and ready-made
matrices, ``products/`` and ``bandwidths/`` are rooms, ``dirichlets.py`` is a continuum of frequencies on what
``continuum.py`` shares, ``union.py`` puts families and kernels together. What families hand out: banks (``bank.py``,
with ``_stack.py``), values of single pairs (``values.py``), searches along a ``direction.py`` (``search.py``), draws
(``draws.py``).
"""

from .bandwidths import Gaussians, Laplacians
from .base import Enumerable, Family, HasFeatures, HasRandomFeatures, Maximisable, Samplable
from .dirichlets import Dirichlets
from .finite import Finite, Precomputed
from .products import Products
from .union import Union

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
    "Union",
]


def __dir__() -> list[str]:
    return sorted(__all__)
