"""Continua of bandwidths: Gaussian and Laplacian kernels of one width, or of one per column.

``family.py`` is what both share, ``gaussians.py`` and ``laplacians.py`` what each adds; ``search.py`` finds the best
width along a direction, by binned distances for one width and by gradients for one per column; ``grids.py`` takes
widths from the distances in the data.
"""

from .gaussians import Gaussians
from .grids import bandwidth_grid, median_distance
from .laplacians import Laplacians

__all__ = ["Gaussians", "Laplacians", "bandwidth_grid", "median_distance"]
