"""Sparse multiple kernel learning by reduced gradients on the simplex."""

from __future__ import annotations

import numpy as np

from .base import BatchSolver

#: Steps remembered by the quasi-Newton model.
MEMORY = 12
#: A kernel without weight is modelled as if it had this much, so that it can come in.
ENTRY = 1e-3


class SimpleMKL(BatchSolver):
    """Reduced gradient descent on J over the simplex, p = 1.

    minimise (1/n) Σ s_t ℓ(y_t, f(x_t)) + (λ/2) [(Σ_i ρ_i ‖w_i‖)² + ‖b‖²].

    Each iteration moves the weights within the face of the simplex that descent stays in; kernels whose
    weight reaches zero are dropped, and come back when their gradient says so. With the max-hinge loss this
    is multiclass MKL with weights shared by all classes (MC-MKL).

    Every evaluation costs two passes over the kernels, O(m n²), and one warm-started machine.

    Parameters
    ----------
    tol : float
        Relative duality gap at which to stop.
    max_iter : int
        Most evaluations of the machine.

    Notes
    -----
    Takes any loss, and families that can be listed. Departs from the reference in the metric: the reduced
    gradient is taken in a quasi-Newton model (the curvature 2 g_i/θ_i of the fixed machine, corrected by
    BFGS), which needs tens of evaluations where the plain one needs hundreds; in the line search, which
    uses the derivative that every evaluation brings along; and in stopping on the duality gap alone.

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
        model = _Model()
        while True:
            direction = model.direction(current.theta, current.g, work.alive)
            if not direction.any():
                return
            moved = current
            for trial in _line_search(work, current, direction):
                yield trial
                model.learn(trial.theta - current.theta, current.g - trial.g)
                if trial.value < moved.value:
                    moved = trial
            if moved is current:
                if not model.pairs:
                    return
                model = _Model()
            current = moved


def _line_search(work, start, direction, most=8):
    """Yield evaluated points along the direction until the objective has fallen enough.

    The full step first; then regula falsi on the derivative -(λ/2) <g, direction>. J is convex.
    """
    slope, step, low, high = -float(start.g @ direction), 1.0, 0.0, np.inf
    slope_low, slope_high = slope, np.nan
    for _ in range(most):
        trial = work.evaluate(_move(start.theta, direction, step))
        yield trial
        slope_here = -float(trial.g @ direction)
        if trial.value < start.value and abs(slope_here) <= 0.5 * abs(slope):
            return
        if slope_here < 0 and trial.value < start.value:
            low, slope_low = step, slope_here
            if np.isinf(high):
                if np.min(start.theta + step * direction) <= 0:
                    return  # the boundary was reached: the next face has a direction of its own
                step *= 3.0
                continue
        else:
            high, slope_high = step, max(slope_here, 0.0)
        share = -slope_low / (slope_high - slope_low) if slope_high > slope_low else 0.5
        step = low + min(max(share, 0.1), 0.9) * (high - low)


def _move(theta, direction, step):
    """Return the point on the simplex that is `step` along the direction; weights stop at zero."""
    moved = np.maximum(theta + step * direction, 0.0)
    moved[moved < 1e-14] = 0.0
    return moved / moved.sum()


class _Model:
    """A quasi-Newton model of J near an iterate, in units in which the gradient is -g."""

    def __init__(self):
        self.pairs: list[tuple[np.ndarray, np.ndarray]] = []

    def learn(self, step, change):
        """Remember the change of the gradient along a step."""
        if step @ change > 1e-10 * np.linalg.norm(step) * np.linalg.norm(change):
            self.pairs.append((step, change))
            del self.pairs[:-MEMORY]

    def curvature(self, theta, g):
        """Return the BFGS matrix."""
        B = np.diag(2.0 * np.maximum(g, 1e-3 * g.max()) / np.maximum(theta, ENTRY))
        for step, change in self.pairs:
            Bs = B @ step
            B += np.outer(change, change) / (step @ change) - np.outer(Bs, Bs) / (step @ Bs)
        return B

    def direction(self, theta, g, alive):
        """Return the descent direction within the face of the simplex that it stays in, or zeros."""
        if not g.any():
            return np.zeros_like(g)
        B = self.curvature(theta, g)
        level = theta @ g  # the multiplier of Σθ = 1 at a stationary point
        free = alive & ((theta > 0) | (g > level))
        while True:
            d = np.zeros(len(theta))
            d[free] = _newton_step(B[np.ix_(free, free)], g[free])
            outward = free & (theta <= 0) & (d < 0)
            if not outward.any():
                return d if d @ g > 0 else np.zeros_like(d)
            free &= ~outward


def _newton_step(B, g):
    """Return the minimiser of ½ dᵀBd - gᵀd subject to Σd = 0."""
    inverse = np.linalg.solve(B, np.column_stack([g, np.ones(len(g))]))
    return inverse[:, 0] - inverse[:, 1] * (inverse[:, 0].sum() / inverse[:, 1].sum())
