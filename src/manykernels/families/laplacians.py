"""The continuum of Laplacian kernels, with one bandwidth or one per column."""

from __future__ import annotations

import numpy as np

from ..features import Binning
from ..kernels import Kernel, Laplacian, pairwise_statistic
from .bandwidth_family import BandwidthFamily, listed


class ColumnwiseLaplacian(Kernel):
    """``exp(-Σ_j |x_j - z_j|/σ_j)``.

    Parameters
    ----------
    sigma : tuple of float
        One positive bandwidth per column; infinity ignores a column.
    """

    accepts_sparse = False
    has_random_features = True

    def __init__(self, sigma):
        self.sigma = sigma

    def _gram(self, X, Z):
        inverse = 1.0 / np.asarray(self.sigma)
        Xs = X * inverse
        S = pairwise_statistic("l1", Xs, Xs if Z is X else Z * inverse)
        np.negative(S, out=S)
        return np.exp(S, out=S)

    def diag(self, X):
        """Return ones."""
        return np.ones(X.shape[0])

    def random_features(self, n_features, seed, index, size):
        """Return random binning features."""
        return Binning(np.asarray(self.sigma), n_features, None, seed, index, size)

    def _symbol(self):
        return f"laplacian(σ={listed(self.sigma)})"


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
