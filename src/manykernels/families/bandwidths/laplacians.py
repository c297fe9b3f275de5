"""The continuum of Laplacian kernels, with one bandwidth or one per column."""

from __future__ import annotations

from ...features import Binning
from ...kernels import Laplacian
from .family import BandwidthFamily, Columnwise


class ColumnwiseLaplacian(Columnwise):
    """``exp(-Σ_j |x_j - z_j|/σ_j)``.

    Parameters
    ----------
    sigma : tuple of float
        One positive bandwidth per column; infinity ignores a column.
    """

    scaled_statistic, symbol, feature_map = "l1", "laplacian", Binning


class Laplacians(BandwidthFamily):
    """All kernels ``exp(-Σ_i |x_i - z_i|/σ_i)`` with bandwidths between bounds.

    Members are σ, or tuples of one σ per column. Their random *binning* features (a row falls into one bin of each
    grid) are what makes tables with many rows fast, see :class:`~manykernels.solvers.Blockwise`.

    Parameters
    ----------
    bounds : "auto", (low, high), or with ``ard=True`` a list of one such pair per column
        Of the bandwidths. ``"auto"`` as for :class:`Gaussians`, from sums of absolute differences as distances.
    ard : bool
        Whether every column has a bandwidth of its own.

    Notes
    -----
    The searches are those of :class:`Gaussians`: exhaustive for one bandwidth, on pairs of rows binned by log distance;
    local for one bandwidth per column, with analytic gradients, O(n² d) per step. Distances along columns have no
    matrix product to be computed by, so that a step takes longer than for Gaussians.

    Examples
    --------
    >>> from manykernels.families import Laplacians
    >>> Laplacians(bounds=(0.1, 10.0)).label(1.5)
    'laplacian(σ=1.5)'
    """

    statistic = "l1"
    single = Laplacian
    per_column = ColumnwiseLaplacian
