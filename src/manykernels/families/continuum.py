"""What continua of kernels share: members are parameters, and the best one is found by a search on a line.

A family with one parameter evaluates <K_σ, M> on a grid fine enough that no maximum hides between two points,
then climbs each promising maximum with exact first and second derivatives (:func:`climb`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from .._util.checks import NO_NUMBERS
from .._util.threads import map_in_threads, one_blas_thread
from ..kernels import Kernel
from ..kernels.statistics import Rows
from .bank import BANK_SIZES, Bank, BankSizes, KernelBank, each_applied, row_tiles, weighted_gram
from .base import Best, Members, Scaling, Searchable

#: Steps of the climb: Newton's converge in two or three, the rest is for bisection next to a flat spot.
MAX_CLIMB = 40
#: Local maxima of the grid this much below the best, relative to it, are climbed as well.
NEAR_BEST = 0.02
#: Passes over fewer tiles than this are over before threads have started.
FEW_TILES = 8

Curve = Callable[[float], tuple[float, float, float]]


class Continuum(Searchable):
    """Base of families with a continuous parameter.

    Subclasses say what kernel a member is (``kernel``), what bounds mean, and search (``searcher``).
    """

    bounds: Any

    def kernel(self, member: Any) -> Kernel:
        """Return a member as a kernel."""
        raise NotImplementedError

    def size(self) -> float:
        """Return infinity."""
        return math.inf

    def _kernels(self, members) -> list[Kernel]:
        return [self.kernel(z) for z in members]

    def gram(self, X: Rows, Z: Rows, members: Members, weights: np.ndarray) -> np.ndarray:
        """Return the weighted sum of the Gram matrices, in blocks of rows."""
        return weighted_gram(self._kernels(members), weights, X, Z)

    def apply(self, X: Rows, Z: Rows, B: np.ndarray, members: Members) -> np.ndarray:
        """Return K_σ(X, Z) B for every member, in blocks of rows."""
        return each_applied(self._kernels(members), X, Z, B)

    def mean_diag(self, X: Rows, members: Members, sample_weight: np.ndarray) -> np.ndarray:
        """Return the weighted mean of each diagonal."""
        return np.array([float(k.diag(X[:1])[0]) for k in self._kernels(members)])  # constant over rows

    def diag(self, X: Rows, members: Members, weights: np.ndarray) -> np.ndarray:
        """Return the weighted sum of the diagonals."""
        out = np.zeros(X.shape[0])
        for k, w in zip(self._kernels(members), weights, strict=True):
            out += w * k.diag(X)
        return out

    def bank(self, X: Rows, members: Members, sizes: BankSizes = BANK_SIZES) -> Bank:
        """Bind members to rows; kernels of one statistic share it."""
        return KernelBank(self._kernels(members), X, sizes)

    def draw(
        self, X: Rows, A: np.ndarray, size: int, rng: np.random.Generator, scale: Scaling | None = None
    ) -> tuple[Members, np.ndarray]:
        """Draw members around the best for A Aᵀ, and return the density of each (Afkanpour 2013, Alg. 4)."""
        return self.drawer(X, scale)(A, size, rng)

    def factors(self, member: Any) -> list[Kernel]:
        """Return the kernel itself."""
        return [self.kernel(member)]

    def label(self, member: Any) -> str:
        """Return the kernel's own name."""
        return self.kernel(member).label()

    def parameters(self, member: Any) -> dict[str, Any]:
        """Return the bandwidth or the frequency; bandwidths per column with the columns' names."""
        if not isinstance(member, tuple):
            return {"sigma": float(member)}
        names = getattr(self, "_column_names", None)
        return {"sigma": list(member), **({} if names is None else {"columns": list(names)})}


def check_pair(bounds: Any, owner: str, *, zero: bool, rest: str) -> tuple[float, float]:
    """Return bounds as two floats, or raise; `zero` allows a lower bound of 0, `rest` ends the sentence."""
    try:
        low, high = (float(v) for v in bounds)
    except NO_NUMBERS:
        low, high = math.nan, math.nan
    fine = math.isfinite(low) and math.isfinite(high) and low < high and (low > 0 or (zero and low == 0))
    if not fine:
        least = "0 <= low < high" if zero else "0 < low < high"
        raise ValueError(f"bounds of {owner} is {bounds!r}; pass (low, high) with {least}{rest}.")
    return low, high


def weights_of(scale: Scaling | None, n: int) -> np.ndarray:
    """Return the sample weights that a scale knows, ones without a scale."""
    return np.ones(n) if scale is None else scale.sample_weight


def over_tiles(func: Callable[[int, int], Any], n: int) -> list[Any]:
    """Return ``func(a, b)`` for the row tiles of n rows, in order; on threads where that pays.

    BLAS has one thread in any case: a search would amplify the rounding of several to another maximum.
    """
    tiles = row_tiles(n)
    if len(tiles) < FEW_TILES:
        with one_blas_thread():
            return [func(a, b) for a, b in tiles]
    return map_in_threads(lambda tile: func(*tile), tiles)


def climb(curve: Curve, low: float, high: float, start: float, tolerance: float) -> tuple[float, float]:
    """Return the local maximum of a smooth function inside a bracket, and its value.

    Newton's steps on exact derivatives, bisection on the sign of the slope where they leave the bracket.

    Parameters
    ----------
    curve : function of t that returns the value and the first two derivatives
    low, high, start : floats
        low <= start <= high.
    tolerance : float
        Of t.
    """
    ends = low, high
    t, best = start, (start, -math.inf)
    for _ in range(MAX_CLIMB):
        value, slope, bend = curve(t)
        if value > best[1]:
            best = (t, value)
        if slope == 0 or (t == ends[0] and slope < 0) or (t == ends[1] and slope > 0):
            break
        low, high = (t, high) if slope > 0 else (low, t)
        step = t - slope / bend if bend < 0 else math.nan
        if not low <= step <= high:  # also when it is not a number
            step = (low + high) / 2
        if abs(step - t) <= tolerance:
            if bend < 0:  # the last step's gain is below rounding: no need to look
                best = (step, max(best[1], value + 0.5 * slope * (step - t)))
            break
        t = step
    return best


def maxima(grid: np.ndarray, values: np.ndarray, curve: Curve, tolerance: float, size: int) -> list:
    """Return local maxima over a grid, climbed, as (value, t), best first.

    Climbs the `size` best of the grid and whatever comes close to the best.
    """
    inside = np.concatenate([[-np.inf], values, [-np.inf]])
    peaks = np.flatnonzero((inside[1:-1] >= inside[:-2]) & (inside[1:-1] > inside[2:]))
    peaks = peaks[np.argsort(-values[peaks], kind="stable")]
    least = values[peaks[0]] - NEAR_BEST * abs(values[peaks[0]])
    found: list[tuple[float, float]] = []
    for rank, i in enumerate(peaks.tolist()):
        if rank >= size and values[i] < least:
            break
        low, high = grid[max(i - 1, 0)], grid[min(i + 1, len(grid) - 1)]
        t, value = climb(curve, low, high, _vertex(grid, values, i), tolerance)
        if all(abs(t - other) > 10 * tolerance for _, other in found):
            found.append((value, t))
    return sorted(found, key=lambda pair: -pair[0])


def _vertex(grid, values, i) -> float:
    """Return the top of the parabola through three points of an even grid."""
    if i == 0 or i == len(grid) - 1:
        return float(grid[i])
    left, middle, right = values[i - 1 : i + 2]
    bend = left - 2 * middle + right
    shift = 0.5 * (left - right) / bend if bend < 0 else 0.0
    return float(np.clip(grid[i] + shift * (grid[i + 1] - grid[i]), grid[i - 1], grid[i + 1]))


def draw_near(
    best: float, low: float, high: float, size: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Draw from the normal with mean and deviation `best`, truncated to the bounds; return the density too."""
    spread = best if best > 0 else (high - low) / 2
    left, right = ndtr((low - best) / spread), ndtr((high - best) / spread)
    sigma = best + spread * ndtri(left + rng.random(size) * (right - left))
    sigma = np.clip(sigma, low, high)
    density = np.exp(-0.5 * np.square((sigma - best) / spread)) / math.sqrt(2 * math.pi)
    return sigma, density / (spread * (right - left))


def kept(
    found: Sequence[tuple[float, Any]], exclude: Collection[Any], same, size: int, exhaustive: bool
) -> Best:
    """Turn (value, member) pairs, best first, into a Best without the excluded; ``same`` compares two members."""
    left = [(v, z) for v, z in found if not any(same(z, other) for other in exclude)][:size]
    return Best([z for _, z in left], np.array([v for v, _ in left], dtype=float), exhaustive)
