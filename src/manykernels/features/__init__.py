"""Random and exact features of kernels, in blocks that are regenerated from a seed and never stored."""

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
