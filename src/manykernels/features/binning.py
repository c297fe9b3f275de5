"""Random binning features of Laplacian kernels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ._bins import add_numbered_scores, add_scores, fill_bins
from .base import RandomMap
from .neighbours import order_of_neighbours


def plain_rows(X: np.ndarray) -> np.ndarray:
    """Return rows as compiled loops want them, a copy if need be: for others they would be compiled anew."""
    X = np.asarray(X)
    dtype = X.dtype if X.dtype in (np.float32, np.float64) else np.float64
    return np.require(X, dtype=dtype, requirements=["C", "W"])


@dataclass(frozen=True, eq=False)
class Grids:
    """Some grids of a map, side by side, for work on all of them in one pass over the rows.

    Attributes
    ----------
    columns : (k,) array of int
        The columns they see.
    inverse, shift : (g, k) arrays
        1/δ and the shift, in units of the pitch.
    factors : (g, k) array of int32
        Of the hash.
    width : int
        Size of the table that bins are hashed into.
    """

    columns: np.ndarray
    inverse: np.ndarray
    shift: np.ndarray
    factors: np.ndarray
    width: int

    def __len__(self):
        return len(self.inverse)

    @property
    def dtype(self) -> np.dtype:
        """The narrowest type that holds a bin, and the number of bins."""
        return np.dtype(np.uint16 if self.width < 2**16 else np.uint32)

    def bins(
        self, X: np.ndarray, out: np.ndarray | None = None, order: np.ndarray | None = None
    ) -> np.ndarray:
        """Return the bin of every row in every grid, (g, n), in an order of the rows, or of some of them.

        About 10 ns per row and grid for ten columns that matter; a column that does not cross an edge of a grid within
        1024 rows costs nothing there, and columns of two values cost next to nothing if few of their rows differ.
        """
        X = plain_rows(X)
        if order is None:
            order = np.arange(len(X))
        if out is None:
            out = np.empty((len(self), len(order)), dtype=self.dtype)
        inverse, shift = (np.ascontiguousarray(a, dtype=X.dtype) for a in (self.inverse, self.shift))
        fill_bins(X, order, self.columns, inverse, shift, self.factors, self.width.bit_length() - 1, out)
        return out

    def order(self, X: np.ndarray) -> np.ndarray:
        """Return an order of the rows in which neighbours share bins, so that tables are not read at random."""
        return order_of_neighbours(X, self.columns, self.inverse.mean(axis=0))  # the mean of 1/δ is 1/σ

    def add_scores(self, X: np.ndarray, W: np.ndarray, out: np.ndarray) -> None:
        """Add the scores of the rows to `out`, (n, c) in float32; W is (g, width, c) in float32."""
        add_scores(self.bins(X), W, out)

    def add_numbered_scores(
        self, X: np.ndarray, slots: np.ndarray, first: np.ndarray, W: np.ndarray, out: np.ndarray
    ) -> None:
        """Add the scores of the rows to `out`, with coefficients for some bins only.

        Parameters
        ----------
        X : rows
        slots : (g, width) array
            The number of every bin in its grid; 0 for one without coefficients, which has a row of zeros.
        first : (g,) array
            Where a grid's coefficients begin.
        W : (rows, c) array, float32
        out : (n, c) array, changed
        """
        X = plain_rows(X)
        order = self.order(X)
        scores = out[order]
        add_numbered_scores(self.bins(X, order=order), slots, first, W, scores)
        out[order] = scores


@dataclass(frozen=True, eq=False)
class Grid:
    """One grid: a row falls into exactly one of its bins.

    Attributes
    ----------
    grids : Grids
        With a single one.
    """

    grids: Grids

    @property
    def width(self) -> int:
        """Number of bins."""
        return self.grids.width

    def bins(self, X: np.ndarray) -> np.ndarray:
        """Return the bin of every row, (n,)."""
        return self.grids.bins(X)[0].astype(np.int32)

    def transform(self, X: np.ndarray, out: np.ndarray | None = None, first: int = 0) -> np.ndarray:
        """Return the features, one 1 per row, O(n width): for tests and small tables."""
        bins = self.bins(X)
        if out is None:
            out = np.empty((len(bins), self.width), dtype=np.float32)
        out[:, first : first + self.width] = 0.0
        out[np.arange(len(bins)), first + bins] = 1.0
        return out

    def scores(self, X: np.ndarray, W: np.ndarray) -> np.ndarray:
        """Return Z W, by looking up."""
        return np.asarray(W, dtype=np.float32)[self.bins(X)]


@dataclass(frozen=True, eq=False)
class Binning(RandomMap):
    """Random binning features of ``exp(-Σ_j |x_j - z_j|/σ_j)``.

    A grid has a pitch δ_j ~ Gamma(2, σ_j) and a random shift per column; the chance that two rows fall into one cell is
    the kernel. Cells are hashed into a table of `size` bins: two rows in different cells share a bin with probability
    1/size, so that the features estimate ``κ + (1 - κ)/size``, without bias up to that. It is 6e-5 at the default of
    :class:`~manykernels.solvers.Blockwise`.

    Attributes
    ----------
    sigma : float or (d,) array
        Infinity for a column to ignore.
    n_columns : int
        Number of columns the kernel sees, d.
    columns : indices or None
    seed, kernel : int
        What blocks are regenerated from.
    size : int
        Bins of a grid, rounded up to a power of two.

    References
    ----------
    Rahimi and Recht (2007), *Random Features for Large-Scale Kernel Machines*, Algorithm 2.
    """

    sparse = True

    @cached_property
    def _bandwidths(self) -> np.ndarray:
        return np.broadcast_to(np.asarray(self.sigma, dtype=float), (self.n_columns,))

    @property
    def width(self) -> int:
        """Bins of a grid: a power of two, at least 2 and at most 2³⁰."""
        return 1 << min(max(int(self.size - 1).bit_length(), 1), 30)

    def grids(self, first: int, last: int) -> Grids:
        """Return the blocks first..last-1 side by side, O(d) each."""
        kept = np.flatnonzero(np.isfinite(self._bandwidths))
        pitch, shift, factors = [], [], []
        for index in range(first, last):
            rng = self.generator(index)
            pitch.append(rng.standard_gamma(2.0, self.n_columns))
            shift.append(rng.random(self.n_columns))
            factors.append(rng.integers(0, 2**31, self.n_columns, dtype=np.int64))
        odd = (2 * np.array(factors) + 1).astype(np.uint32).view(np.int32)
        columns = np.arange(self.n_columns) if self.columns is None else np.asarray(self.columns)
        return Grids(
            np.ascontiguousarray(columns[kept]),
            1.0 / (np.maximum(np.array(pitch), 1e-12) * self._bandwidths)[:, kept],
            np.array(shift)[:, kept],
            np.ascontiguousarray(odd[:, kept]),
            self.width,
        )

    def block(self, index: int) -> Grid:
        """Return a grid."""
        return Grid(self.grids(index, index + 1))
