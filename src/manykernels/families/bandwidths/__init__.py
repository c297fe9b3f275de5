"""Continua of bandwidths: Gaussian and Laplacian kernels of one width, or of one per column.

The classes are :class:`Gaussians` and :class:`Laplacians`; what they share is :class:`BandwidthFamily`. ``search.py``
finds the best width along a direction, by binned distances for one width and by gradients for one per column, and draws
widths around it; ``grids.py`` takes widths from the distances in the data.

Algorithm 4 of Afkanpour (2013) draws bandwidths one column after the other: the best one along M (line 8), a draw from
a normal around it, truncated to the bounds (lines 9-10), M ← M ∘ K (line 11), and the product of the densities
(line 12).

References
----------
Afkanpour (2013), *Multiple Kernel Learning with Many Kernels*, section 4.2.2, Algorithm 4, eq. (6.2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

import numpy as np
from scipy.sparse import issparse

from ..._util.checks import FLAG, Rule, check_parameters
from ..._util.text import figure
from ...features import Binning, FeatureMap, Fourier
from ...kernels import RBF, Kernel, Laplacian
from ...kernels.statistics import Rows, dense
from ..base import Direction, Drawer, Members, Scaling
from ..continuum import Continuum, check_pair, draw_near, weights_of
from .grids import bandwidth_grid, distance_quantiles, median_distance
from .search import BandwidthSearch, ColumnwiseSearch, draw_columnwise

__all__ = ["Gaussians", "Laplacians", "bandwidth_grid", "median_distance"]

#: "auto", (low, high), or one pair per column.
Bounds = Literal["auto"] | tuple[float, float] | Sequence[tuple[float, float]]

#: Whether every column has a bandwidth, or which columns share one.
Ard = bool | Sequence[Sequence[int]]

#: Quantiles of the distances that automatic bounds start from, and the factors that widen them.
LEVELS, WIDEN = (0.01, 0.99), (1 / 4, 10.0)
#: The same per column; at the upper end a column adds at most 10^-4 to the exponent.
COLUMN_LEVELS, COLUMN_WIDEN = (0.1, 0.99), (1 / 4, 100.0)
#: Rows that the distances are taken over, and those along single columns.
BOUND_ROWS, COLUMN_ROWS = 500, 200


def _are_blocks(value: Any) -> bool:
    if isinstance(value, str) or not isinstance(value, Sequence) or len(value) == 0:
        return False
    whole = [np.asarray(columns) for columns in value]
    return all(columns.ndim == 1 and len(columns) and columns.dtype.kind in "iu" for columns in whole)


#: Blocks of columns.
BLOCKS = Rule("a list of lists of column numbers", _are_blocks)


def block_numbers(blocks: Sequence[Sequence[int]]) -> np.ndarray:
    """Return the block of every column, for blocks that hold each column once."""
    out = np.empty(sum(map(len, blocks)), dtype=int)
    for k, columns in enumerate(blocks):
        out[list(columns)] = k
    return out


class Columnwise(Kernel):
    """``exp(-S)`` of a statistic S of rows whose columns are divided by a bandwidth each."""

    accepts_sparse = False
    has_random_features = True
    splits = "product"
    power: ClassVar[int]
    symbol: ClassVar[str]
    feature_map: ClassVar[type[Binning] | type[Fourier]]

    def __init__(self, sigma: Sequence[float]):
        self.sigma = sigma

    @cached_property
    def _exponent(self) -> int:
        """The power of two in the first finite bandwidth: multiples by such powers share their statistic."""
        finite = [s for s in self.sigma if math.isfinite(s)]
        return math.frexp(finite[0])[1] if finite else 0

    @cached_property
    def _shape(self) -> np.ndarray:
        return np.ldexp(np.asarray(self.sigma, dtype=float), -self._exponent)

    @property
    def shares(self) -> tuple[float, ...]:
        """Return what kernels have in common that need the same statistic: bandwidths, but for a power of two."""
        return tuple(self._shape.tolist())

    def select(self, X: Rows) -> Rows:
        """Return the rows in units of the bandwidths, but for a power of two."""
        return dense(X) * (1.0 / self._shape)

    def on(self, columns: Sequence[int]) -> Columnwise:
        """Return the kernel with the bandwidths of some columns."""
        return type(self)([self.sigma[j] for j in columns])

    def from_statistic(self, S: np.ndarray) -> np.ndarray:
        """Return exp(-S) of rows in units of the bandwidths."""
        out = S * -math.ldexp(1.0, -self.power * self._exponent)
        return np.exp(out, out=out)

    def diag(self, X: Rows) -> np.ndarray:
        """Return ones."""
        return np.ones(X.shape[0])

    def random_features(self, n_features: int, seed: int, index: int, size: int) -> FeatureMap:
        """Return the random features that suit the kernel."""
        return self.feature_map(np.asarray(self.sigma), n_features, None, seed, index, size)

    def _symbol(self):
        return f"{self.symbol}(σ={_shortened(self.sigma)})"


class BandwidthFamily(Continuum):
    """Kernels with one bandwidth, or one per column.

    Attributes
    ----------
    statistic : {"sqdist", "l1"}
        What a kernel with one bandwidth knows of a pair of rows.
    single, per_column : kernels
        With one bandwidth, and with a tuple of one per column.
    """

    rules = {"ard": FLAG | BLOCKS}
    statistic: ClassVar[str]
    single: ClassVar[type[RBF] | type[Laplacian]]
    per_column: ClassVar[type[Columnwise]]

    def __init__(self, bounds: Bounds = "auto", ard: Ard = False):
        self.bounds = bounds
        self.ard = ard

    @property
    def _name(self):
        return type(self).__name__

    @property
    def accepts_sparse(self) -> bool:
        """Whether one bandwidth serves all columns."""
        return not self.ard

    @property
    def shrinks(self) -> bool:
        """Whether the search knows the penalty of Afkanpour (2013), eq. (6.2); with one bandwidth it is zero."""
        return True

    def resolve(self, n_features: int, names: Sequence[str] | None = None) -> BandwidthFamily:
        """Check the bounds."""
        check_parameters(self, self.rules)
        return self.over(n_features, names, self._blocks(n_features), self._checked(n_features))

    @classmethod
    def over(cls, n_features: int, names: Sequence[str] | None, ard: Ard, bounds: Any = "auto") -> Self:
        """Return the family over so many columns; blocks of one column each are no blocks."""
        alone = isinstance(ard, Sequence) and len(ard) == n_features
        family = cls(bounds, True if alone else ard)
        if names is not None:
            family._column_names = [str(name) for name in names]
        return family

    def _blocks(self, n_features: int) -> Ard:
        """Return `ard` in plain form."""
        if isinstance(self.ard, bool | np.bool_):
            return bool(self.ard)
        blocks = tuple(tuple(np.asarray(columns).tolist()) for columns in self.ard)
        if sorted(j for columns in blocks for j in columns) != list(range(n_features)):
            raise ValueError(
                f"ard of {self._name} lists blocks of columns, and each of the {n_features} columns, from 0 on, must "
                "be in one of them, once."
            )
        return blocks

    def _checked(self, n_features) -> Any:
        if isinstance(self.bounds, str) and self.bounds == "auto":
            return "auto"
        rest = " or bounds='auto'"
        if not self.ard or np.ndim(self.bounds) != 2:
            pair = check_pair(self.bounds, self._name, zero=False, rest=rest)
            return [pair] * n_features if self.ard else pair
        if len(self.bounds) != n_features:
            raise ValueError(
                f"bounds of {self._name} has {len(self.bounds)} pairs for {n_features} columns; give one each."
            )
        return [check_pair(pair, self._name, zero=False, rest=rest) for pair in self.bounds]

    def adapt(self, X: Rows, sample_weight: np.ndarray) -> BandwidthFamily:
        """Set automatic bounds from the distances."""
        if not (isinstance(self.bounds, str) and self.bounds == "auto"):
            return self
        return self.within(self._from_distances(X, sample_weight))

    def within(self, bounds: Any) -> BandwidthFamily:
        """Return the same family with other bounds."""
        other = type(self)(bounds, self.ard)
        if hasattr(self, "_column_names"):
            other._column_names = self._column_names
        return other

    def _from_distances(self, X, s) -> Any:
        if not self.ard:
            return _widened(distance_quantiles(X, s, self.statistic, LEVELS, BOUND_ROWS), WIDEN)
        rows = np.flatnonzero(s > 0)
        if len(rows) > COLUMN_ROWS:  # those that the quantiles would look at, once for all columns
            rows = rows[np.linspace(0, len(rows) - 1, COLUMN_ROWS).astype(int)]
        X, s = X[rows], s[rows]
        columns = [X[:, [j]].toarray() if issparse(X) else X[:, [j]] for j in range(X.shape[1])]
        found = [distance_quantiles(x, s, "l1", COLUMN_LEVELS, COLUMN_ROWS) for x in columns]
        return [_widened(quantiles, COLUMN_WIDEN) for quantiles in found]

    def _box(self, n_columns: int) -> np.ndarray:
        """Return the bounds, one row per parameter."""
        if isinstance(self.bounds, str):
            raise ValueError(
                f"bounds of {self._name} is 'auto', which needs rows to become numbers; pass bounds=(low, high)."
            )
        pairs = np.asarray(self.bounds, dtype=float)
        return np.tile(pairs, (n_columns if self.ard else 1, 1)) if pairs.ndim == 1 else pairs

    def kernel(self, member: Any) -> Kernel:
        """Return a member as a kernel."""
        return self.per_column(member) if isinstance(member, tuple) else self.single(float(member))

    def searcher(
        self, X: Rows, scale: Scaling | None, shrinkage: float = 0.0
    ) -> BandwidthSearch | ColumnwiseSearch:
        """Return the search for the best bandwidths on fixed rows.

        Parameters
        ----------
        X : rows
        scale : Scale or None
        shrinkage : float
            λ of Afkanpour (2013), eq. (6.2): with a bandwidth per column, λ‖σ - mean(σ)‖² is subtracted from
            <K_σ, M>/ρ².
        """
        if not isinstance(self.ard, bool):
            raise ValueError(
                f"ard of {self._name} lists blocks of columns, and a search knows one bandwidth, or one per column; "
                "pass ard=True, or the solver LeaveOneOut."
            )
        family = self.adapt(X, weights_of(scale, X.shape[0]))
        box = family._box(X.shape[1])
        if not self.ard:
            return BandwidthSearch(family, X, scale, *box[0])
        s = weights_of(scale, X.shape[0])
        lines = [self._line(X, s, scale, None if np.ptp(box, axis=0).any() else box[0])]
        units = [np.ones(X.shape[1])]
        middle = np.sqrt(box[:, 0] * box[:, 1])
        if middle.max() > 2 * middle.min():  # columns of unequal scale: one bandwidth in their own units, too
            units.append(middle)
            lines.append(self._line(X / middle, s, scale, None))
        return ColumnwiseSearch(family, X, scale, box, list(zip(lines, units, strict=True)), shrinkage)

    def _line(self, X, sample_weight, scale, bounds) -> BandwidthSearch:
        """Return the search for a single bandwidth, by default within automatic bounds."""
        low, high = type(self)()._from_distances(X, sample_weight) if bounds is None else bounds
        return BandwidthSearch(type(self)((low, high)), X, scale, low, high)

    def drawer(self, X: Rows, scale: Scaling | None) -> Drawer:
        """Return draws around the best bandwidths, coordinate by coordinate (Afkanpour 2013, Alg. 4)."""
        search = self.searcher(X, scale)
        if isinstance(search, ColumnwiseSearch):
            return lambda A, size, rng: draw_columnwise(search, A, size, rng)

        def draw(A, size, rng):
            found = search.best(Direction.of_gradient(A))
            if not found.members:
                return search.family.draw_uniform(size, rng)
            sigma, density = draw_near(found.members[0], search.low, search.high, size, rng)
            return sigma.tolist(), density

        return draw

    def random_features(self, members: Members, n_features: int, seed: int, size: int) -> list[FeatureMap]:
        """Return random features of every member."""
        return [k.random_features(n_features, seed, i, size) for i, k in enumerate(self._kernels(members))]

    def draw_uniform(self, size: int, rng: np.random.Generator) -> tuple[list[Any], np.ndarray]:
        """Draw bandwidths uniformly between the bounds, and return the density of each."""
        box = self._box(1)
        sigma = rng.uniform(box[:, 0], box[:, 1], size=(size, len(box)))
        density = np.full(size, 1 / np.prod(box[:, 1] - box[:, 0]))
        members: list = [tuple(row) for row in sigma.tolist()] if self.ard else sigma[:, 0].tolist()
        return members, density


class ColumnwiseRBF(Columnwise):
    """``exp(-Σ_j (x_j - z_j)²/σ_j²)``.

    Parameters
    ----------
    sigma : tuple of float
        One positive bandwidth per column.
    """

    statistic, power, symbol, feature_map = "sqdist", 2, "rbf", Fourier


class Gaussians(BandwidthFamily):
    """All kernels ``exp(-Σ_i (x_i - z_i)²/σ_i²)`` with bandwidths between bounds.

    Members are σ, or tuples of one σ per column.

    Parameters
    ----------
    bounds : "auto", (low, high), or with ``ard=True`` a list of one such pair per column
        Of the bandwidths. ``"auto"``: from a quarter of the 1 % quantile of the distances between rows to ten
        times their 99 % quantile; with ``ard=True`` per column, from a quarter of the 10 % quantile to 100 times
        the 99 % quantile of the distances along it, so that a column can be ignored.
    ard : bool or list of lists of int
        Whether every column has a bandwidth of its own; or blocks of columns, such as the indicators of a category's
        levels, with one bandwidth each, which LeaveOneOut learns.

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


class ColumnwiseLaplacian(Columnwise):
    """``exp(-Σ_j |x_j - z_j|/σ_j)``.

    Parameters
    ----------
    sigma : tuple of float
        One positive bandwidth per column; infinity ignores a column.
    """

    statistic, power, symbol, feature_map = "l1", 1, "laplacian", Binning


class Laplacians(BandwidthFamily):
    """All kernels ``exp(-Σ_i |x_i - z_i|/σ_i)`` with bandwidths between bounds.

    Members are σ, or tuples of one σ per column. Their random *binning* features (a row falls into one bin of each
    grid) are what makes tables with many rows fast, see :class:`~manykernels.solvers.Blockwise`.

    Parameters
    ----------
    bounds : "auto", (low, high), or with ``ard=True`` a list of one such pair per column
        Of the bandwidths. ``"auto"`` as for :class:`Gaussians`, from sums of absolute differences as distances.
    ard : bool or list of lists of int
        Whether every column has a bandwidth of its own; or blocks of columns, such as the indicators of a category's
        levels, with one bandwidth each, which LeaveOneOut learns.

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


def _widened(quantiles, factors) -> tuple[float, float]:
    low, high = (1.0, 1.0) if quantiles is None else quantiles  # no two rows differ: any bandwidth will do
    return float(low * factors[0]), float(high * factors[1])


def _shortened(sigma: Sequence[float]) -> str:
    """Return bandwidths as a short text: one for all, each of a few, or the smallest and the largest of many."""
    texts = [figure(v) for v in sigma]
    if len(set(texts)) == 1:
        return texts[0]
    return ",".join(texts) if len(texts) <= 6 else f"{figure(min(sigma))}…{figure(max(sigma))} per column"
