"""The continuum of Dirichlet kernels on one column: frequencies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._util.arrays import row_blocks
from ..kernels import Dirichlet
from ..kernels.statistics import Rows
from .bank import BANK_SIZES, Bank, BankSizes, FeatureBank
from .base import Direction, Drawer, Members, Scaling, Searcher
from .continuum import Continuum, check_pair, draw_near, kept, maxima

#: Points of the grid per half period of the highest frequency in <K_σ, M>, which is the range of the column:
#: a maximum between two of them is at most 1/cos(π/16) = 1.02 times as high.
OVERSAMPLING = 8
#: Frequencies closer than this share of the grid's pitch are the same member.
SAME_FREQUENCY = 1e-2
#: Frequencies of the grid at most; each costs O(n) for every direction.
MOST_POINTS = 1_000_000


class Dirichlets(Continuum):
    """All kernels ``1 + 2 cos(σ (x - z))`` on one column, with frequencies σ between bounds.

    Members are σ. Every member has explicit features, 1, √2 cos(σx), √2 sin(σx).

    Parameters
    ----------
    bounds : (low, high)
        Of the frequencies, 0 <= low < high. In a column of range R, frequencies closer than about 1/R cannot be
        told apart.

    Notes
    -----
    <K_σ, M> = Σ M + 2 (cᵀMc + sᵀMs) with c = cos(σx), s = sin(σx): a grid of frequencies is two matrix products.
    As a function of σ it holds no frequency above the range R of the column, so that a grid of pitch π/(8R)
    misses no maximum, and the search is exhaustive.

    References
    ----------
    Afkanpour (2013), *Multiple Kernel Learning with Many Kernels*, chapter 3.

    Examples
    --------
    >>> from manykernels.families import Dirichlets
    >>> Dirichlets(bounds=(0, 20)).label(3.5)
    'dirichlet(σ=3.5)'
    """

    def __init__(self, bounds: tuple[float, float]):
        self.bounds = bounds

    def resolve(self, n_features: int, names: Sequence[str] | None = None) -> Dirichlets:
        """Check the bounds, and that there is one column."""
        if n_features != 1:
            raise ValueError(
                f"kernels is Dirichlets and X has {n_features} columns, but the Dirichlet kernel is positive "
                "definite on one column only; select one."
            )
        return Dirichlets(check_pair(self.bounds, "Dirichlets", zero=True, rest=""))

    def kernel(self, member: Any) -> Dirichlet:
        """Return a Dirichlet kernel."""
        return Dirichlet(float(member))

    def features(self, X: Rows, members: Members) -> np.ndarray:
        """Return 1, √2 cos(σx), √2 sin(σx) of every member, side by side."""
        return np.hstack([k.features(X) for k in self._kernels(members)])

    def widths(self, members: Members) -> np.ndarray:
        """Return threes."""
        return np.full(len(members), 3, dtype=np.intp)

    def bank(self, X: Rows, members: Members, sizes: BankSizes = BANK_SIZES) -> Bank:
        """Return features while they are narrower than the Gram matrix, else tiles."""
        if 3 * len(members) >= X.shape[0]:
            return super().bank(X, members, sizes)
        return FeatureBank(
            lambda a, b: self.features(X, members[a:b]), self.widths(members), X.shape[0], sizes
        )

    def searcher(self, X: Rows, scale: Scaling | None) -> FrequencySearch:
        """Return the search for the best frequency on fixed rows."""
        return FrequencySearch(self, X, scale)

    def drawer(self, X: Rows, scale: Scaling | None) -> Drawer:
        """Return draws around the best frequency."""
        search = self.searcher(X, scale)
        low, high = (float(v) for v in self.bounds)

        def draw(A, size, rng):
            found = search.best(Direction.of_gradient(A))
            if not found.members:
                return self.draw_uniform(size, rng)
            sigma, density = draw_near(found.members[0], low, high, size, rng)
            return sigma.tolist(), density

        return draw

    def draw_uniform(self, size: int, rng: np.random.Generator) -> tuple[list[Any], np.ndarray]:
        """Draw frequencies uniformly between the bounds, and return the density of each."""
        low, high = (float(v) for v in self.bounds)
        return rng.uniform(low, high, size).tolist(), np.full(size, 1 / (high - low))


class FrequencySearch(Searcher):
    """The best frequency for one direction after another."""

    def __init__(self, family: Dirichlets, X: Rows, scale: Scaling | None):
        super().__init__(family, X, scale)
        low, high = (float(v) for v in family.bounds)
        x = np.asarray(X, dtype=float)[:, 0]
        self.x = x - (x.max() + x.min()) / 2  # differences are what counts
        width = float(np.ptp(x))
        self.pitch = math.pi / (OVERSAMPLING * width) if width > 0 else high - low
        points = (high - low) / self.pitch
        if points > MOST_POINTS:
            raise ValueError(
                f"kernels is Dirichlets with frequencies up to {high:g}, and the column ranges over {width:g}: "
                f"{points:.2g} frequencies can be told apart, more than the {MOST_POINTS:,} that are searched; lower "
                "bounds, or rescale the column or clip what lies far out."
            )
        self.grid = np.linspace(low, high, max(3, math.ceil(points) + 1))

    def curve(self, direction: Direction) -> np.ndarray:
        """Return <K_σ, M> on the grid: two products with M, in blocks of frequencies."""
        values = np.empty(len(self.grid))
        for part in row_blocks(len(self.grid), len(self.x)):
            angles = np.outer(self.x, self.grid[part])
            values[part] = sum(direction.forms(wave(angles)) for wave in (np.cos, np.sin))
        return direction.total() + 2 * values

    def exact(self, direction: Direction, t: float) -> tuple[float, float, float]:
        """Return <K_σ, M> and its two derivatives, one product of M with four columns."""
        x, c, s = self.x, np.cos(t * self.x), np.sin(t * self.x)
        B = np.column_stack([c, s, -x * s, x * c])
        MB = direction.times(B)
        second = np.column_stack([-x * x * c, -x * x * s])
        value = direction.total() + 2 * float(np.vdot(B[:, :2], MB[:, :2]))
        slope = 4 * float(np.vdot(B[:, 2:], MB[:, :2]))
        bend = 4 * float(np.vdot(second, MB[:, :2]) + np.vdot(B[:, 2:], MB[:, 2:]))
        return value, slope, bend

    def _best(self, direction, size, exclude, rng):
        """Return the best maxima over σ."""
        values, tolerance, most = self.curve(direction), 1e-4 * self.pitch, size + len(exclude)
        found = maxima(self.grid, values, lambda t: self.exact(direction, t), tolerance, most)
        rho_sq = np.ones(1) if self.scale is None else self.scale.rho_sq([0.0], 1.0)  # the same for all
        pairs = [(v / rho_sq[0], float(np.clip(t, self.grid[0], self.grid[-1]))) for v, t in found]
        return kept(pairs, exclude, lambda a, b: abs(a - b) <= SAME_FREQUENCY * self.pitch, size, True)
