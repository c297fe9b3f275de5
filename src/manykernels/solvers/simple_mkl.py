"""Sparse multiple kernel learning by reduced gradients on the simplex."""

from __future__ import annotations

import numpy as np

from .base import BatchSolver
from .workspace import Iterate, Workspace


class SimpleMKL(BatchSolver):
    """Reduced gradient descent on J over the simplex, p = 1.

    minimise (1/n) Σ s_t ℓ(y_t, f(x_t)) + (λ/2) [(Σ_i ρ_i ‖w_i‖)² + ‖b‖²].

    Each iteration takes a descent direction in the simplex, walks along it as long as the objective falls,
    dropping kernels whose weight reaches zero, and ends with a line search. With the max-hinge loss this is
    multiclass MKL with weights shared by all classes (MC-MKL).

    Every evaluation costs two passes over the kernels, O(m n²), and one warm-started machine.

    Parameters
    ----------
    tol : float
        Relative duality gap at which to stop.
    max_iter : int
        Most evaluations of the machine.

    Notes
    -----
    Takes any loss, and families that can be listed. Departs from the reference in the line search, which uses
    the derivative that every evaluation brings along, and in stopping on the duality gap alone.

    References
    ----------
    Rakotomamonjy, Bach, Canu, Grandvalet (2008), *SimpleMKL*, Algorithm 1.
    """

    p = 1.0

    def __init__(self, tol=1e-3, max_iter=1000):
        self.tol = tol
        self.max_iter = max_iter

    def iterates(self, work, init):
        """Yield every evaluated iterate."""
        theta = work.alive.astype(float) if init is None else np.where(work.alive, init, 0.0)
        current = work.evaluate(theta / theta.sum())
        yield current
        while True:
            direction = reduced_direction(current.theta, current.g, work.alive)
            if not direction.any():
                return
            moved = current
            for trial in self._descend(work, current, direction):
                yield trial
                if trial.value < moved.value:
                    moved = trial
            if moved is current:
                return
            current = moved

    def _descend(self, work: Workspace, start: Iterate, direction):
        """Walk to the boundary while that pays, then search on the last segment."""
        current = start
        while True:
            longest = _longest_step(current.theta, direction)
            trial = work.evaluate(_step(current.theta, direction, longest))
            yield trial
            if not trial.value < current.value:
                break
            current = trial
            direction = _without_lost(direction, current.theta)
            if not direction @ current.g > 0:  # no longer a direction of descent
                return
        yield from _line_search(work, current, trial, direction, longest)


def reduced_direction(theta, g, alive):
    """Return the reduced gradient direction of J on the simplex; zero at a stationary point.

    The heaviest kernel balances the others, so that the direction sums to zero.
    """
    pivot = int(np.argmax(theta))
    d = g - g[pivot]
    d[(theta <= 0) & (d < 0)] = 0.0
    d[~alive] = 0.0
    d[pivot] = 0.0
    d[pivot] = -d.sum()
    return d


def _without_lost(direction, theta):
    """Return the direction without the components that would leave the simplex, balanced again."""
    d = direction.copy()
    pivot = int(np.argmax(theta))
    d[(theta <= 0) & (d < 0)] = 0.0
    d[pivot] -= d.sum()
    return d


def _longest_step(theta, direction):
    falling = direction < 0
    return float(np.min(theta[falling] / -direction[falling]))


def _step(theta, direction, step):
    moved = theta + step * direction
    moved[moved < 1e-15] = 0.0
    return moved / moved.sum()


def _line_search(work, left: Iterate, right: Iterate, direction, length, most=12):
    """Yield points between two iterates until the slope there is small; J is convex on the segment.

    Regula falsi (Illinois) on the derivative dJ/dstep = -(λ/2) <g, direction>.
    """
    a, b = 0.0, length
    slope_a, slope_b = -(left.g @ direction), -(right.g @ direction)
    first = abs(slope_a)
    for _ in range(most):
        if slope_b <= 0:
            return
        step = (a * slope_b - b * slope_a) / (slope_b - slope_a)
        step = min(max(step, a + 0.01 * (b - a)), b - 0.01 * (b - a))
        trial = work.evaluate(_step(left.theta, direction, step))
        yield trial
        slope = -(trial.g @ direction)
        if abs(slope) <= 0.05 * first:
            return
        if slope < 0:
            a, slope_a, slope_b = step, slope, slope_b / 2
        else:
            b, slope_b, slope_a = step, slope, slope_a / 2
