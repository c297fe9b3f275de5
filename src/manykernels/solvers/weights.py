"""Two descents on kernel weights over a list of kernels: alternation for p > 1, reduced gradients for p = 1.

:func:`closed_form` gives the best weights for the kernels' norms. Each descent is a generator of evaluated iterates, as
bare as the algorithm; whoever runs it decides when to stop.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..certificates import norm
from ..problem import nu_of
from .workspace import Iterate, Workspace

#: Differences remembered by the Anderson acceleration; five is customary and the least-squares are tiny.
MIXED = 5
#: Steps remembered by the quasi-Newton model.
PAIRS = 12
#: Kernels up to which their curvature is a matrix.
FEW = 512
#: A kernel without weight is modelled as if it had this much, so that it can come in.
ENTRY = 1e-3


def simplex_start(work: Workspace, init: np.ndarray | None) -> np.ndarray:
    """Return a point of the simplex: `init` scaled, or equal weights of the kernels that do not vanish."""
    theta = work.alive.astype(float) if init is None else np.where(work.alive, init, 0.0)
    return theta / theta.sum()


# -- alternation with closed-form weights, 1 < p <= 2 ----------------------------------------------------


def closed_form(u: np.ndarray, p: float) -> np.ndarray:
    """Return θ_i = u_i^(2-p)/(Σ_j u_j^p)^((2-p)/p), the best weights for the norms u."""
    return (u / norm(u, p)) ** (2 - p)


def alternation(work: Workspace, init: np.ndarray | None, p: float) -> Iterator[Iterate]:
    """Yield the iterates of θ_i ∝ u_i^(2-p), ‖θ‖_ν = 1, a fixed-point iteration on log θ as u_i = θ_i √g_i.

    The plain step never increases the objective, and contracts by up to 2 - p only. Anderson mixing accelerates it; a
    mixed step is kept only if the objective falls, otherwise the plain step follows.
    """
    nu = nu_of(p)
    log_theta = np.log(_positive_start(init, work))
    current = work.evaluate(_on_sphere(log_theta, nu, work.alive))
    yield current
    mixing = _Anderson()
    while p < 2:
        log_theta = _log(current.theta)
        target = (2 - p) * (log_theta + 0.5 * _log(current.g))
        target -= np.log(norm(np.exp(target - target.max()), nu)) + target.max()
        mixed = mixing(log_theta, target, importance=np.sqrt(current.theta))
        trial = work.evaluate(_on_sphere(mixed, nu, work.alive))
        yield trial
        if trial.value > current.value and mixed is not target:
            mixing = _Anderson()
            trial = work.evaluate(_on_sphere(target, nu, work.alive))
            yield trial
        current = trial


def _positive_start(init, work):
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
        del self.points[: -MIXED - 1], self.residuals[: -MIXED - 1]
        if len(self.points) < 2:
            return target
        dX = np.diff(self.points, axis=0).T
        dR = np.diff(self.residuals, axis=0).T
        scale = importance[:, None]
        gamma, *_ = np.linalg.lstsq(dR * scale, self.residuals[-1] * importance, rcond=1e-8)
        return target - (dX + dR) @ gamma


# -- reduced gradients on the simplex, p = 1 -------------------------------------------------------------


def reduced_gradient(work: Workspace, init: np.ndarray | None) -> Iterator[Iterate]:
    """Yield the iterates of a descent on J within the face of the simplex that it stays in.

    The gradient is reduced in a quasi-Newton metric: the curvature 2 g_i/θ_i of the fixed machine, corrected by BFGS.
    Kernels whose weight reaches zero are dropped, and come back when their gradient says so.
    """
    current = work.evaluate(simplex_start(work, init))
    yield current
    model = _Curvature()
    while True:
        direction = model.direction(current.theta, current.g, work.alive)
        if not direction.any():
            return
        moved = current
        for trial in line_search(work, current, direction):
            yield trial
            model.learn(trial.theta - current.theta, current.g - trial.g)
            if trial.value < moved.value:
                moved = trial
        if moved is current:
            if not model.pairs:
                return
            model = _Curvature()
        current = moved


def line_search(work, start, direction, most=8):
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
        # Weights that stop at zero bend the way: J may rise along it without a slope that says so.
        share = -slope_low / (slope_high - slope_low) if slope_high > 0 else 0.1
        step = low + min(max(share, 0.1), 0.9) * (high - low)


def fixed_curvature(theta, g) -> np.ndarray:
    """Return 2 g_i/θ_i, the curvature of J with the machine's coefficients fixed, where its gradient is -g."""
    return 2.0 * np.maximum(g, 1e-3 * g.max()) / np.maximum(theta, ENTRY)


def _move(theta, direction, step):
    """Return the point on the simplex that is `step` along the direction; weights stop at zero."""
    moved = np.maximum(theta + step * direction, 0.0)
    moved[moved < 1e-14] = 0.0
    return moved / moved.sum()


class _Curvature:
    """A quasi-Newton model of J near an iterate, in units in which the gradient is -g."""

    def __init__(self):
        self.pairs: list[tuple[np.ndarray, np.ndarray]] = []

    def learn(self, step, change):
        """Remember the change of the gradient along a step."""
        if step @ change > 1e-10 * np.linalg.norm(step) * np.linalg.norm(change):
            self.pairs.append((step, change))
            del self.pairs[:-PAIRS]

    def factors(self, theta, g):
        """Return D, U and signs of the BFGS matrix diag(D) + U diag(signs) Uᵀ, which is not formed: m may be large."""
        D, signs = fixed_curvature(theta, g), np.tile([1.0, -1.0], len(self.pairs))
        U = np.zeros((len(theta), len(signs)))
        for k, (step, change) in enumerate(self.pairs):
            Bs = D * step + U @ (signs * (U.T @ step))  # columns to come are zero
            if step @ Bs > 0:  # else rounding is all there is
                U[:, 2 * k] = change / np.sqrt(step @ change)
                U[:, 2 * k + 1] = Bs / np.sqrt(step @ Bs)
        return D, U, signs

    def direction(self, theta, g, alive):
        """Return the descent direction within the face of the simplex that it stays in, or zeros."""
        if not g.any():
            return np.zeros_like(g)
        D, U, signs = self.factors(theta, g)
        level = theta @ g  # the multiplier of Σθ = 1 at a stationary point
        free = alive & ((theta > 0) | (g > level))
        while True:
            d = np.zeros(len(theta))
            d[free] = constrained(solve_low_rank(D[free], U[free], signs, _with_ones(g[free])))
            outward = free & (theta <= 0) & (d < 0)
            if not outward.any():
                return d if d @ g > 0 else np.zeros_like(d)
            free &= ~outward


def solved(B, right):
    """Return B⁻¹ right; where rounding has left B singular, the least solution."""
    try:
        return np.linalg.solve(B, right)
    except np.linalg.LinAlgError:
        return np.linalg.lstsq(B, right, rcond=None)[0]


def newton_step(B, g):
    """Return the minimiser of ½ dᵀBd - gᵀd subject to Σd = 0."""
    return constrained(solved(B, _with_ones(g)))


def _with_ones(g):
    return np.column_stack([g, np.ones(len(g))])


def constrained(inverse):
    """Return B⁻¹g moved along B⁻¹1 to where its sum is zero."""
    return inverse[:, 0] - inverse[:, 1] * (inverse[:, 0].sum() / inverse[:, 1].sum())


def solve_low_rank(D, U, signs, right, few=FEW):
    """Return (diag(D) + U diag(signs) Uᵀ)⁻¹ right, by Woodbury's identity where m is large: O(m k²) for k columns of U.

    The matrix itself, which keeps more digits where it can be formed, costs O(m³).
    """
    if len(D) <= few:
        return solved(np.diag(D) + (U * signs) @ U.T, right)
    inverse, V = right / D[:, None], U / D[:, None]
    core = np.diag(signs) + U.T @ V  # pairs that tell the same make it singular
    return inverse - V @ np.linalg.lstsq(core, U.T @ inverse, rcond=None)[0]
