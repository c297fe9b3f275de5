"""The continuum of Gaussian kernels, with one bandwidth or one per column."""

from __future__ import annotations

import numpy as np

from ..features import Fourier
from ..kernels import RBF, Kernel, pairwise_statistic
from .bandwidth_family import BandwidthFamily, listed


class ColumnwiseRBF(Kernel):
    """``exp(-Σ_j (x_j - z_j)²/σ_j²)``.

    Parameters
    ----------
    sigma : tuple of float
        One positive bandwidth per column.
    """

    accepts_sparse = False
    has_random_features = True

    def __init__(self, sigma):
        self.sigma = sigma

    def _gram(self, X, Z):
        inverse = 1.0 / np.asarray(self.sigma)
        Xs = X * inverse
        S = pairwise_statistic("sqdist", Xs, Xs if Z is X else Z * inverse)
        np.negative(S, out=S)
        return np.exp(S, out=S)

    def diag(self, X):
        """Return ones."""
        return np.ones(X.shape[0])

    def random_features(self, n_features, seed, index, size):
        """Return random Fourier features."""
        return Fourier(np.asarray(self.sigma), n_features, None, seed, index, size)

    def _symbol(self):
        return f"rbf(σ={listed(self.sigma)})"


class Gaussians(BandwidthFamily):
    """All kernels ``exp(-Σ_i (x_i - z_i)²/σ_i²)`` with bandwidths between bounds.

    Members are σ, or tuples of one σ per column.

    Parameters
    ----------
    bounds : "auto", (low, high), or with ``ard=True`` a list of one such pair per column
        Of the bandwidths. ``"auto"``: from a quarter of the 1 % quantile of the distances between rows to ten
        times their 99 % quantile; with ``ard=True`` per column, from a quarter of the 10 % quantile to 100 times
        the 99 % quantile of the distances along it, so that a column can be ignored.
    ard : bool
        Whether every column has a bandwidth of its own.

    Notes
    -----
    With one bandwidth the search for the best member is exhaustive: pairs of rows are binned by log distance, so
    that <K_σ, M> is a convolution in log σ, O(n²) once per direction and O(bins log bins) for the whole grid;
    the maxima found are climbed with exact derivatives. With one bandwidth per column it is a local search
    (L-BFGS-B in log σ, O(n² d) per step) from the best single bandwidth and a few restarts.

    References
    ----------
    Afkanpour (2013), *Multiple Kernel Learning with Many Kernels*, section 4.2.2, Algorithm 4, eq. (6.2).

    Examples
    --------
    >>> from manykernels.families import Gaussians
    >>> Gaussians(bounds=(0.1, 10.0)).label(1.5)
    'rbf(σ=1.5)'
    """

    statistic = "sqdist"
    single = RBF
    per_column = ColumnwiseRBF
