"""p-norm multiple kernel learning by alternation with closed-form weights."""

from __future__ import annotations

import numpy as np

from ..certificates import norm
from ..problem import nu_of
from .base import BatchSolver

#: Differences remembered by the Anderson acceleration; five is customary and the least-squares are tiny.
MEMORY = 5


class LpNorm(BatchSolver):
    """Alternate between the machine and the optimal kernel weights, 1 < p <= 2.

    minimise (1/n) Σ s_t ℓ(y_t, f(x_t)) + (λ/2) [(Σ_i ρ_i^p ‖w_i‖^p)^(2/p) + ‖b‖²].

    Given the norms u_i = ρ_i‖w_i‖ the optimal weights are θ_i ∝ u_i^(2-p), with ‖θ‖_ν = 1. As u_i = θ_i √g_i,
    that is a fixed-point iteration on log θ, which never increases the objective. It is accelerated by
    Anderson mixing; a mixed step is kept only if the objective falls, otherwise the plain step follows.

    Every iteration costs two passes over the kernels, O(m n²), and one warm-started machine.

    Parameters
    ----------
    p : float
        Norm over kernels, 1 < p <= 2; small p is sparser, p = 2 is the plain sum.
    tol : float
        Relative duality gap at which to stop.
    max_iter : int
        Most evaluations of the machine.

    Notes
    -----
    Takes any loss, and families that can be listed. Departs from the reference by the acceleration (the plain
    iteration contracts by up to 2 - p only) and by stopping on the duality gap.

    References
    ----------
    Kloft, Brefeld, Sonnenburg, Zien (2011), *lp-Norm Multiple Kernel Learning*, Algorithm 1.
    """

    prefers_base_scale = True

    def __init__(self, p=4 / 3, tol=1e-3, max_iter=200):
        self.p = p
        self.tol = tol
        self.max_iter = max_iter

    def check_params(self):
        """Check p besides the rest."""
        super().check_params()
        if not (isinstance(self.p, int | float | np.number) and 1 < self.p <= 2):
            raise ValueError(
                f"p of LpNorm is {self.p!r}; it must lie in (1, 2]. For p = 1 use SimpleMKL or SILP."
            )

    def iterates(self, work, init):
        """Yield every evaluated iterate."""
        nu = nu_of(self.p)
        log_theta = np.log(_start(init, work))
        current = work.evaluate(_on_sphere(log_theta, nu, work.alive))
        yield current
        mixing = _Anderson()
        while self.p < 2:
            log_theta = _log(current.theta)
            target = (2 - self.p) * (log_theta + 0.5 * _log(current.g))
            target -= np.log(norm(np.exp(target - target.max()), nu)) + target.max()
            mixed = mixing(log_theta, target, importance=np.sqrt(current.theta))
            trial = work.evaluate(_on_sphere(mixed, nu, work.alive))
            yield trial
            if trial.value > current.value and mixed is not target:
                mixing = _Anderson()
                trial = work.evaluate(_on_sphere(target, nu, work.alive))
                yield trial
            current = trial


def _start(init, work):
    if init is None:
        return np.ones(work.n_members)
    return np.maximum(init, 1e-8 * init.max())  # a zero would never come back


def _log(v):
    """Return log v, with zeros far below but finite."""
    return np.log(np.maximum(v, 1e-200 * max(v.max(), 1e-100)))


def _on_sphere(log_theta, nu, alive):
    """Return θ with ‖θ‖_ν = 1 on the members that are alive."""
    theta = np.where(alive, np.exp(log_theta - log_theta[alive].max()), 0.0)
    return theta / norm(theta, nu)


class _Anderson:
    """Anderson mixing of a fixed-point iteration, with weighted least squares."""

    def __init__(self):
        self.points: list[np.ndarray] = []
        self.residuals: list[np.ndarray] = []

    def __call__(self, point, target, importance):
        """Return the mixed next point, or `target` itself while there is nothing to mix."""
        self.points.append(point)
        self.residuals.append(target - point)
        del self.points[: -MEMORY - 1], self.residuals[: -MEMORY - 1]
        if len(self.points) < 2:
            return target
        dX = np.diff(self.points, axis=0).T
        dR = np.diff(self.residuals, axis=0).T
        scale = importance[:, None]
        gamma, *_ = np.linalg.lstsq(dR * scale, self.residuals[-1] * importance, rcond=1e-8)
        return target - (dX + dR) @ gamma
