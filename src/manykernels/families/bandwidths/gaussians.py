"""The continuum of Gaussian kernels, with one bandwidth or one per column."""

from __future__ import annotations

from ...features import Fourier
from ...kernels import RBF
from .family import BandwidthFamily, Columnwise


class ColumnwiseRBF(Columnwise):
    """``exp(-Σ_j (x_j - z_j)²/σ_j²)``.

    Parameters
    ----------
    sigma : tuple of float
        One positive bandwidth per column.
    """

    scaled_statistic, symbol, feature_map = "sqdist", "rbf", Fourier


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
