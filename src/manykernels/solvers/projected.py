"""Projected gradients on a smooth criterion of kernel weights, with spectral steps and a line search."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy.optimize import brentq

#: Values that a step may go back to: the steps are longer than those that always descend, and fewer.
MEMORY = 6
#: Share of the promised decrease that a step must keep.
KEPT = 1e-4
#: Longest step before its projection, for weights of the order of 1.
FARTHEST = 1e6
#: Slopes below this are none: steps are divided by them.
LEAST = 1e-200
#: Values this close, relatively, are one: the last steps go by their gradients, which have twice the digits.
SAME = 1e-13
#: Steps that promise less than this, relatively, are the end.
NOTHING = 1e-20


@dataclass(frozen=True, eq=False)
class Point:
    """Weights, the criterion there, and whatever its gradient is computed from."""

    theta: np.ndarray
    value: float
    known: Any = None


class Criterion(Protocol):
    """What is minimised: a smooth function of weights over a convex set."""

    def at(self, theta: np.ndarray) -> Point:
        """Return the value at θ, which lies in the set."""
        ...

    def slope(self, point: Point) -> np.ndarray:
        """Return the gradient."""
        ...

    def project(self, theta: np.ndarray) -> np.ndarray:
        """Return the nearest weights in the set."""
        ...


def spectral_steps(criterion: Criterion, start: np.ndarray) -> Iterator[tuple[Point, np.ndarray]]:
    """Yield points and their gradients, from the projection of `start` on, while steps bring anything.

    Spectral projected gradient: the length of a step is the inverse curvature along the last one (Barzilai and
    Borwein), and a step is shortened until the value is below the largest of the last few. Values need not descend.

    References
    ----------
    Birgin, Martínez, Raydan (2000), *Nonmonotone spectral projected gradient methods on convex sets*, Algorithm 2.1
    (SPG2).
    """
    here = criterion.at(criterion.project(start))
    slope = criterion.slope(here)
    last: deque[float] = deque([here.value], MEMORY)
    step = 1.0 / max(float(np.abs(slope).max(initial=0.0)), LEAST)
    while True:
        yield here, slope
        direction = criterion.project(here.theta - step * slope) - here.theta
        promised = -float(slope @ direction)
        if not promised > NOTHING * abs(here.value):
            return
        there = _shorter(criterion, here, direction, promised, max(last))
        if there is None:
            return
        last.append(there.value)
        steeper = criterion.slope(there)
        moved, turned = there.theta - here.theta, steeper - slope
        curved = float(moved @ turned)
        here, slope = there, steeper
        # Where the criterion bends down along the step, go as far as the projection lets it.
        most, squares = FARTHEST / max(float(np.abs(slope).max(initial=0.0)), LEAST), float(moved @ moved)
        step = squares / curved if curved * most > squares else most


def _shorter(criterion: Criterion, here: Point, direction, promised: float, limit: float) -> Point | None:
    """Return the first point along a direction that keeps its promise to rounding; None if none does."""
    length, slack = 1.0, SAME * abs(here.value)
    while length * promised > NOTHING * abs(here.value):
        there = criterion.at(here.theta + length * direction)
        if there.value <= limit + slack - KEPT * length * promised:
            return there
        # The minimum of the parabola through the value and slope here and the value there.
        bend = there.value - here.value + length * promised
        length *= min(max(0.5 * length * promised / bend, 0.1), 0.5) if bend > 0 else 0.5
    return None


# -- projections ---------------------------------------------------------------------------------------


def onto_ball(v: np.ndarray, centre: np.ndarray, radius: float, norm: int) -> np.ndarray:
    """Return the nearest θ >= 0 with ‖θ - centre‖ <= radius in the 1-norm or the 2-norm; centre >= 0.

    By the Karush-Kuhn-Tucker conditions θ = max(0, centre + S(v - centre)), where S shrinks all entries towards zero,
    by one factor (2-norm) or by one amount (1-norm). The distance falls with it, so that one number is searched for.
    """
    away = v - centre
    if norm == 2:
        return _shrunk(lambda mu: np.maximum(centre + away / (1 + mu), 0.0), centre, radius, np.linalg.norm)
    size, sign = np.abs(away), np.sign(away)
    return _shrunk(
        lambda mu: np.maximum(centre + sign * np.maximum(size - mu, 0.0), 0.0),
        centre,
        radius,
        lambda d: np.abs(d).sum(),
    )


def _shrunk(shrink: Callable[[float], np.ndarray], centre, radius: float, size: Callable[..., Any]):
    """Return the least shrunken θ that is no farther than `radius` from the centre."""

    def excess(mu: float) -> float:
        return float(size(shrink(mu) - centre)) - radius

    if excess(0.0) <= 0:
        return shrink(0.0)
    high = 1.0
    while excess(high) > 0:
        high *= 4.0
    mu = brentq(excess, 0.0, high, xtol=1e-300, rtol=4 * np.finfo(float).eps, maxiter=500)
    theta = shrink(mu)
    distance = float(size(theta - centre))
    # The last digits: towards the centre, where θ stays non-negative.
    return centre + (theta - centre) * min(1.0, radius / distance) if distance > 0 else theta


def onto_simplex(v: np.ndarray) -> np.ndarray:
    """Return the nearest θ >= 0 with Σθ = 1: all entries less one amount, O(m log m)."""
    v = v - v.max()  # all less one amount is the same, with all digits
    falling = np.sort(v)[::-1]
    excess = (np.cumsum(falling) - 1.0) / np.arange(1, len(v) + 1)
    last = np.flatnonzero(falling > excess)[-1]
    return np.maximum(v - excess[last], 0.0)
