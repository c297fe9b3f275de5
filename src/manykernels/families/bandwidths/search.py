"""Searches for the bandwidths of Gaussian and Laplacian kernels: one for all columns, or one per column.

A kernel with one bandwidth is exp(-S/σ^q), with the statistic S of a pair of rows: the squared distance and q = 2, or
the sum of absolute differences and q = 1.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import issparse

from ..._util.threads import one_blas_thread
from ...kernels import pairwise_statistic
from ...kernels._distances import add_l1_moments, l1_distances
from ...kernels.statistics import Rows
from ..base import Direction, Members, Scaling, Searcher
from ..continuum import draw_near, kept, maxima, over_tiles
from ..search import rho_sq_of

if TYPE_CHECKING:
    from . import BandwidthFamily

#: Pitch of the bins in log distance and of the grid in log σ. As a function of log σ, a Gaussian kernel's value
#: has no frequencies above 25 to speak of (they fall as exp(-πω/4)): the grid oversamples it 25 times.
PITCH = 0.005
#: S/σ^q beyond which a kernel value is 1 or 0 to nine digits.
ALL_ONE, ALL_ZERO = 1e-9, 21.0
#: q by statistic.
POWERS = {"sqdist": 2, "l1": 1}
#: Distances are kept up to this many bytes, otherwise recomputed for every pass.
KEPT_BYTES = 2**28
#: Steps of L-BFGS-B on some of the rows, from the bandwidth of the search on a line and from every restart; then on
#: all rows, in single precision and in double.
FIRST_STEPS, RESTARTS, RESTART_STEPS, FULL_STEPS, LAST_STEPS = 30, 2, 8, 10, 4
#: Rows of the first steps: half of them, between these numbers.
FEWEST_ROWS, MOST_ROWS = 250, 1000
#: Two bandwidths closer than this, relatively, are the same member.
SAME_BANDWIDTH = 1e-3
#: Of log σ; Newton's last step squares the error.
TOLERANCE = 1e-5


# -- one bandwidth -------------------------------------------------------------------------------------


class BandwidthSearch(Searcher):
    """The best single bandwidth for one direction after another, on rows whose distances are binned once.

    Parameters
    ----------
    family, X, scale :
        As for every search.
    low, high : float
        Bounds of the bandwidth.
    kept_bytes : int
        Distances are kept up to so many, otherwise recomputed for every pass.
    """

    def __init__(
        self, family: BandwidthFamily, X: Rows, scale: Scaling | None, low, high, kept_bytes: int = KEPT_BYTES
    ):
        super().__init__(family, X, scale)
        self.low, self.high = low, high
        self.power = POWERS[family.statistic]
        n = X.shape[0]
        self._keeps = 4 * n * n <= kept_bytes
        self._tiles: dict[int, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}
        # Distances come from inner products: far from the origin they would drown in rounding.
        by_products = family.statistic == "sqdist" and not issparse(X)
        self._centred = X - np.median(X, axis=0) if by_products else None
        self._norms = None if self._centred is None else np.einsum("ij,ij->i", self._centred, self._centred)
        # Bins and grid have one pitch, so that kernel values are a convolution.
        self.first = math.log(low) + math.log(ALL_ONE) / self.power
        last = math.log(high) + math.log(ALL_ZERO) / self.power
        self.n_bins = math.ceil((last - self.first) / PITCH) + 1
        steps = max(2, math.ceil((math.log(high) - math.log(low)) / PITCH))
        self.grid = math.log(low) + np.arange(steps + 1) * PITCH

    def _distances(self, a, b) -> np.ndarray:
        if a in self._tiles:
            return self._tiles[a][0]
        Z, norms = self._centred, self._norms
        if Z is None or norms is None:
            return pairwise_statistic(self.family.statistic, self.X[a:b], self.X[a:])
        S = Z[a:b] @ Z[a:].T
        S *= -2.0
        S += norms[a:b, None]
        S += norms[a:]
        np.maximum(S, 0.0, out=S)
        np.fill_diagonal(S, 0.0)
        return S

    def _binned(self, a, b):
        """Return the statistic of a tile, the bin of each pair, and its place within the bin."""
        if a in self._tiles:
            return self._tiles[a]
        S = self._distances(a, b)
        least = math.exp(self.power * self.first)
        place = np.maximum(S, max(least, np.finfo(float).tiny))  # a power of a small bandwidth may be none
        np.log(place, out=place)
        place *= 1.0 / (self.power * PITCH)
        place -= self.first / PITCH
        np.minimum(place, self.n_bins - 1, out=place)
        index = (place + 0.5).astype(np.int32)
        place -= index
        tile = S, index, place.astype(np.float32)
        if self._keeps:
            self._tiles[a] = tile
        return tile

    def curve(self, direction: Direction) -> np.ndarray:
        """Return <K_σ, M> on the grid, from sums over bins and first moments within them."""
        from scipy.signal import fftconvolve  # a fifth of the time that importing the package takes

        def partial(a, b):
            _, index, place = self._binned(a, b)
            where, weight = index.ravel(), direction.tile(a, b).ravel()
            both = weight, weight * place.ravel()
            return np.stack([np.bincount(where, weights=w, minlength=self.n_bins) for w in both])

        sums, moments = sum(over_tiles(partial, self.X.shape[0]))
        # Value at log σ of a pair at log distance v: φ(log σ - v), φ(u) = exp(-exp(-qu)), φ' = q exp(-qu) φ.
        offset = self.grid[0] - self.first
        u = offset + PITCH * np.arange(-(self.n_bins - 1), len(self.grid))
        decay = np.exp(np.minimum(-self.power * u, 700.0))
        phi = np.exp(-decay)
        values = fftconvolve(sums, phi, mode="valid")
        slope = self.power * np.where(phi > 0, decay, 0.0) * phi
        values -= PITCH * fftconvolve(moments, slope, mode="valid")
        return values

    def exact(self, direction: Direction, t: float) -> tuple[float, float, float]:
        """Return <K_σ, M> and its two derivatives at log σ = t, one pass over the pairs."""
        q = self.power
        inverse = math.exp(-q * t)

        def partial(a, b):
            r = self._distances(a, b) * inverse
            E = np.exp(-r)
            E *= direction.tile(a, b)
            value = float(E.sum())
            E *= r
            first = float(E.sum())
            return np.array([value, q * first, q * q * (float(np.vdot(E, r)) - first)])

        value, slope, bend = sum(over_tiles(partial, self.X.shape[0])).tolist()
        return value, slope, bend

    def _best(self, direction, size, exclude, rng):
        """Return the best maxima over σ."""
        grid = np.minimum(self.grid, math.log(self.high))
        values, most = self.curve(direction), size + len(exclude)
        found = maxima(grid, values, lambda t: self.exact(direction, t), TOLERANCE, most)
        members = [(v, float(np.clip(math.exp(t), self.low, self.high))) for v, t in found]
        rho_sq = rho_sq_of(self.scale, [z for _, z in members])
        members = [(v / r, z) for (v, z), r in zip(members, rho_sq, strict=True)]
        return kept(members, exclude, _same, size, True)

    def near_best(self, direction: Direction) -> float:
        """Return the best σ up to the pitch of the grid, enough to draw near it; the middle where none is positive."""
        values = self.curve(direction)
        if not values.max() > 0:
            return (self.low + self.high) / 2
        return float(np.clip(math.exp(self.grid[int(values.argmax())]), self.low, self.high))

    def gram(self, member: Any) -> np.ndarray:
        """Return a member's Gram matrix, from distances that are known."""
        n = self.X.shape[0]
        K = np.empty((n, n))

        def fill(a, b):
            T = self._distances(a, b) * (-1.0 / member**self.power)
            np.exp(T, out=T)
            K[a:b, a:] = T
            K[b:, a:b] = T[:, b - a :].T

        over_tiles(fill, n)
        return K


def _same(a, b) -> bool:
    return bool(np.all(np.abs(np.log(np.asarray(a) / np.asarray(b))) <= SAME_BANDWIDTH))


# -- one bandwidth per column --------------------------------------------------------------------------


class ColumnwiseSearch(Searcher):
    """A local search for one bandwidth per column.

    Parameters
    ----------
    family, X, scale :
        As for every search.
    box : (d, 2) array
        Bounds of the bandwidths.
    lines : list of (BandwidthSearch, (d,) array)
        Searches on lines σ = s · unit to start from, with the units.
    shrinkage : float
        λ of Afkanpour (2013), eq. (6.2).
    """

    exhausts = False

    def __init__(
        self, family: BandwidthFamily, X: Rows, scale: Scaling | None, box: np.ndarray, lines, shrinkage=0.0
    ):
        super().__init__(family, X, scale)
        self.box, self.lines, self.shrinkage = box, lines, float(shrinkage)
        self.by_products = family.statistic == "sqdist"
        # Distances come from inner products: far from the origin they would drown in rounding.
        self.centred = X - np.median(X, axis=0)

    def value(
        self, M: np.ndarray, t: np.ndarray, rows: np.ndarray | slice = slice(None), unit: float = 1.0
    ) -> tuple[float, np.ndarray]:
        """Return <K_σ, M> - λ‖σ - mean(σ)‖² at t = log σ, and its gradient; M symmetric, O(n² d).

        Parameters
        ----------
        M : (m, m) array, in the precision to work in
        t : (d,) array
        rows : which rows M is about
        unit : float
            What M was divided by; λ is divided by it too.
        """
        sigma, shrinkage = np.exp(t), self.shrinkage / unit
        Z = (self.centred[rows] / sigma).astype(M.dtype)
        value, gradient = _gaussian_moments(Z, M) if self.by_products else _laplacian_moments(Z, M)
        away = sigma - sigma.mean()
        value -= shrinkage * float(away @ away)
        return value, gradient - 2.0 * shrinkage * away * sigma

    def _ascend(self, M, start, steps, rows, unit):
        """Climb from a start: roughly in single precision, finely in double."""
        fine = M.dtype == np.float64
        low, high = np.log(self.box).T

        def negative(t):
            value, gradient = self.value(M, t, rows, unit)
            return -value, -gradient

        limits = {"maxiter": steps, "maxfun": 2 * steps, "ftol": 1e-9 if fine else 1e-6, "gtol": 1e-6}
        start, bounds = np.clip(start, low, high), np.column_stack([low, high])
        found = minimize(negative, start, jac=True, method="L-BFGS-B", bounds=bounds, options=limits)
        return -float(found.fun), found.x

    def _best(self, direction, size, exclude, rng):
        """Return the best maxima that were found; hardly ever worse than the best on a line."""
        with one_blas_thread():  # a climb would amplify the rounding of several
            return self._found(direction, size, exclude, np.random.default_rng(0) if rng is None else rng)

    def _found(self, direction, size, exclude, rng):
        M = direction.matrix()
        unit = float(np.linalg.norm(M))
        whole = (M / unit).astype(np.float32)
        lines = [(line.best(direction), units) for line, units in self.lines]
        lines.sort(key=lambda pair: -pair[0].values[0])
        starts = [math.log(found.members[0]) + np.log(units) for found, units in lines]
        tops = self._explore(whole, starts, unit, rng)
        # On all rows, from the best on some of them, or from the best of a line should that be better.
        starts = sorted([*tops[:size], starts[0]], key=lambda t: -self.value(whole, t, unit=unit)[0])[:size]
        pairs: list[tuple[float, Any]] = []
        for start in starts:
            _, t = self._ascend(whole, start, FULL_STEPS, slice(None), unit)
            _, t = self._ascend(M / unit, t, LAST_STEPS, slice(None), unit)
            member = tuple(np.exp(t).tolist())
            if not any(_same(member, z) for _, z in pairs):
                pairs.append((self.value_of(M, member), member))
        rho_sq = rho_sq_of(self.scale, [z for _, z in pairs])
        found = [(v / r, z) for (v, z), r in zip(pairs, rho_sq, strict=True)]
        return kept(sorted(found, key=lambda pair: -pair[0]), exclude, _same, size, False)

    def _explore(self, whole, starts, unit, rng) -> list[np.ndarray]:
        """Return log bandwidths to go on from, best first, from climbs on some of the rows."""
        first = starts[0]
        n = len(whole)
        few = min(n, max(FEWEST_ROWS, min(n // 2, MOST_ROWS)))
        some = np.linspace(0, n - 1, few).astype(int)
        rows, part = (some, whole[np.ix_(some, some)]) if few < n else (slice(None), whole)
        unit = unit * (n / few) ** 2  # inner products shrink with the rows, and so must the penalty
        others = [*starts[1:], *(first + rng.normal(0, 0.5, len(first)) for _ in range(RESTARTS))]
        found = [self._ascend(part, first, FIRST_STEPS, rows, unit)]
        found += [self._ascend(part, other, RESTART_STEPS, rows, unit) for other in others]
        found.sort(key=lambda pair: -pair[0])
        return [t for _, t in found]

    def value_of(self, M: np.ndarray, member: Any) -> float:
        """Return <K_σ, M> without a penalty."""
        sigma = np.asarray(member)
        away = sigma - sigma.mean()
        return self.value(M, np.log(sigma))[0] + self.shrinkage * float(away @ away)


def _gaussian_moments(Z: np.ndarray, M: np.ndarray) -> tuple[float, np.ndarray]:
    """Return Σ W and 2 Σ_st W_st (z_si - z_ti)² for W = M∘K: the value of <K, M> and its gradient in log σ.

    Σ_st W_st (z_si - z_ti)² = Σ_s r_s z_si² + Σ_t c_t z_ti² - 2 (ZᵀWZ)_ii, r and c the sums of W over rows and columns.
    """
    squares = np.square(Z)
    norms = squares.sum(axis=1)

    def partial(a: int, b: int):  # the upper triangle, in tiles that stay in cache
        W = Z[a:b] @ Z[a:].T
        W *= 2.0
        W -= norms[a:b, None]
        W -= norms[a:]
        np.minimum(W, 0.0, out=W)
        np.exp(W, out=W)
        W *= M[a:b, a:]
        W[:, b - a :] *= 2.0  # the mirror image
        sums = W.sum(axis=1)
        gradient = (sums @ squares[a:b] + W.sum(axis=0) @ squares[a:]).astype(float)
        gradient -= 2.0 * np.einsum("ij,ij->j", Z[a:b], W @ Z[a:])
        return np.append(gradient, sums.sum(dtype=float))

    total = sum(over_tiles(partial, len(Z)))
    return float(total[-1]), 2.0 * total[:-1]


def _laplacian_moments(Z: np.ndarray, M: np.ndarray) -> tuple[float, np.ndarray]:
    """Return Σ W and Σ_st W_st |z_si - z_ti| for W = M∘K."""
    Z = np.ascontiguousarray(Z)

    def partial(a: int, b: int):
        W = np.empty((b - a, len(Z) - a), dtype=Z.dtype)
        l1_distances(Z, a, b, W)
        np.negative(W, out=W)
        np.exp(W, out=W)
        W *= M[a:b, a:]
        W[:, b - a :] *= 2.0  # the mirror image
        gradient = np.zeros(Z.shape[1])
        add_l1_moments(Z, W, a, b, gradient)
        return np.append(gradient, W.sum(dtype=float))

    total = sum(over_tiles(partial, len(Z)))
    return float(total[-1]), total[:-1]


def draw_columnwise(
    search: ColumnwiseSearch, A: np.ndarray, size: int, rng: np.random.Generator
) -> tuple[Members, np.ndarray]:
    """Draw tuples of bandwidths, one column after the other (Afkanpour 2013, Alg. 4, lines 7-13)."""
    if not A.any():
        return search.family.draw_uniform(size, rng)
    members, density = [], np.ones(size)
    X, box = search.X, search.box
    columns = [BandwidthSearch(search.family, X[:, [i]], None, *bounds) for i, bounds in enumerate(box)]
    start = A @ A.T
    for k in range(size):
        M, sigma = start.copy(), []
        for column, (low, high) in zip(columns, search.box, strict=True):
            best = column.near_best(Direction(dense=M))  # line 8
            drawn, chance = draw_near(best, low, high, 1, rng)  # lines 9-10
            M *= column.gram(float(drawn[0]))  # line 11
            sigma.append(float(drawn[0]))
            density[k] *= chance[0]  # line 12
        members.append(tuple(sigma))
    return members, density
