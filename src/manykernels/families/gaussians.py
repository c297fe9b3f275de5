"""The continuum of Gaussian kernels, with one bandwidth or one per column."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import issparse

from ..features import Fourier
from ..kernels import RBF, Kernel, pairwise_statistic
from .bandwidth_search import BandwidthSearch, ColumnwiseSearch, draw_columnwise
from .bandwidths import distance_quantiles
from .base import Direction
from .continuum import Continuum, check_pair, draw_near, weights_of

#: Quantiles of the distances that automatic bounds start from, and the factors that widen them.
LEVELS, WIDEN = (0.01, 0.99), (1 / 4, 10.0)
#: The same per column; at the upper end a column adds at most 10^-4 to the exponent.
COLUMN_LEVELS, COLUMN_WIDEN = (0.1, 0.99), (1 / 4, 100.0)
#: Rows that the distances are taken over, and those along single columns.
BOUND_ROWS, COLUMN_ROWS = 500, 200


class Gaussians(Continuum):
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

    def __init__(self, bounds="auto", ard=False):
        self.bounds = bounds
        self.ard = ard

    @property
    def accepts_sparse(self):
        """Whether one bandwidth serves all columns."""
        return not self.ard

    @property
    def shrinks(self):
        """Whether the search knows the penalty of eq. (6.2); with one bandwidth it is zero."""
        return True

    def resolve(self, n_features, names=None):
        """Check the bounds."""
        if not isinstance(self.ard, bool | np.bool_):
            raise ValueError(f"ard of Gaussians is {self.ard!r}; use True or False.")
        return Gaussians(self._checked(n_features), self.ard)._named(names)

    def _checked(self, n_features) -> Any:
        if isinstance(self.bounds, str) and self.bounds == "auto":
            return "auto"
        rest = " or bounds='auto'"
        if not self.ard or np.ndim(self.bounds) != 2:
            pair = check_pair(self.bounds, "Gaussians", zero=False, rest=rest)
            return [pair] * n_features if self.ard else pair
        if len(self.bounds) != n_features:
            raise ValueError(
                f"bounds of Gaussians has {len(self.bounds)} pairs for {n_features} columns; give one each."
            )
        return [check_pair(pair, "Gaussians", zero=False, rest=rest) for pair in self.bounds]

    def adapt(self, X, sample_weight):
        """Set automatic bounds from the distances."""
        if not (isinstance(self.bounds, str) and self.bounds == "auto"):
            return self
        adapted = Gaussians(self._from_distances(X, sample_weight), self.ard)
        return adapted._named(getattr(self, "_column_names", None))

    def _from_distances(self, X, s) -> Any:
        if not self.ard:
            return _widened(distance_quantiles(X, s, "sqdist", LEVELS, BOUND_ROWS), WIDEN)
        columns = [X[:, [j]].toarray() if issparse(X) else X[:, [j]] for j in range(X.shape[1])]
        return [
            _widened(distance_quantiles(x, s, "l1", COLUMN_LEVELS, COLUMN_ROWS), COLUMN_WIDEN)
            for x in columns
        ]

    def _box(self, n_columns: int) -> np.ndarray:
        """Return the bounds, one row per parameter."""
        if isinstance(self.bounds, str):
            raise ValueError(
                "bounds of Gaussians is 'auto', which needs rows to become numbers; pass bounds=(low, high)."
            )
        pairs = np.asarray(self.bounds, dtype=float)
        return np.tile(pairs, (n_columns if self.ard else 1, 1)) if pairs.ndim == 1 else pairs

    def kernel(self, member):
        """Return a Gaussian kernel."""
        return ColumnwiseRBF(member) if isinstance(member, tuple) else RBF(float(member))

    def searcher(self, X, scale, shrinkage=0.0):
        """Return the search for the best bandwidths on fixed rows.

        Parameters
        ----------
        X : rows
        scale : Scale or None
        shrinkage : float
            λ of eq. (6.2): with a bandwidth per column, λ‖σ - mean(σ)‖² is subtracted from <K_σ, M>/ρ².
        """
        family = self.adapt(X, weights_of(scale, X.shape[0]))
        box = family._box(X.shape[1])
        if not self.ard:
            return BandwidthSearch(family, X, scale, *box[0])
        s = weights_of(scale, X.shape[0])
        lines = [_line(X, s, scale, None if np.ptp(box, axis=0).any() else box[0])]
        units = [np.ones(X.shape[1])]
        middle = np.sqrt(box[:, 0] * box[:, 1])
        if middle.max() > 2 * middle.min():  # columns of unequal scale: one bandwidth in their own units, too
            units.append(middle)
            lines.append(_line(X / middle, s, scale, None))
        return ColumnwiseSearch(family, X, scale, box, list(zip(lines, units, strict=True)), shrinkage)

    def drawer(self, X, scale):
        """Return draws around the best bandwidths, coordinate by coordinate (Alg. 4)."""
        search = self.searcher(X, scale)
        if not self.ard:

            def draw(A, size, rng):
                found = search.best(Direction.of_gradient(A))
                if not found.members:
                    return search.family.draw_uniform(size, rng)
                sigma, density = draw_near(found.members[0], search.low, search.high, size, rng)
                return sigma.tolist(), density

            return draw
        return lambda A, size, rng: draw_columnwise(search, A, size, rng)

    def random_features(self, members, n_features, seed, size):
        """Return random Fourier features of every member."""
        return [k.random_features(n_features, seed, i, size) for i, k in enumerate(self._kernels(members))]

    def draw_uniform(self, size, rng):
        """Draw bandwidths uniformly between the bounds, and return the density of each."""
        box = self._box(1)
        sigma = rng.uniform(box[:, 0], box[:, 1], size=(size, len(box)))
        density = np.full(size, 1 / np.prod(box[:, 1] - box[:, 0]))
        members: list = [tuple(row) for row in sigma.tolist()] if self.ard else sigma[:, 0].tolist()
        return members, density


def _line(X, sample_weight, scale, bounds) -> BandwidthSearch:
    """Return the search for a single bandwidth, by default within automatic bounds."""
    low, high = Gaussians()._from_distances(X, sample_weight) if bounds is None else bounds
    return BandwidthSearch(Gaussians((low, high)), X, scale, low, high)


def _widened(quantiles, factors) -> tuple[float, float]:
    low, high = (1.0, 1.0) if quantiles is None else quantiles  # no two rows differ: any bandwidth will do
    return float(low * factors[0]), float(high * factors[1])


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
        sigma = [f"{v:.3g}" for v in self.sigma]
        if len(sigma) > 6:
            sigma = [*sigma[:3], "…", *sigma[-2:]]
        return f"rbf(σ={','.join(sigma)})"
