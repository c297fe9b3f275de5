"""Random and exact features of kernels, in blocks that are regenerated from a seed and never stored.

``base.py`` is what maps and blocks answer; ``fourier.py`` is for Gaussian kernels, ``binning.py`` for Laplacian ones
(Rahimi and Recht 2007, Algorithms 1 and 2), ``exact.py`` for kernels with finitely many features. ``neighbours.py``
orders rows so that neighbours share bins. Compiled loops: ``_fourier.py``, ``_bins.py``, and ``_thin.py`` for products
with few outputs.
"""

from .base import Block, FeatureMap, generator_of
from .binning import Binning, Grid, Grids, plain_rows
from .exact import Exact
from .fourier import Fourier, FourierBlocks
from .neighbours import order_of_neighbours

__all__ = [
    "Binning",
    "Block",
    "Exact",
    "FeatureMap",
    "Fourier",
    "FourierBlocks",
    "Grid",
    "Grids",
    "generator_of",
    "order_of_neighbours",
    "plain_rows",
]


def __dir__() -> list[str]:
    return sorted(__all__)
