"""The problem on a hull: J as a function of η on the simplex, minimised by Newton steps from inside.

J(η) = min_f (1/n) Σ s ℓ + (λ/2) (Σ_w u_w²/ζ_w(η) + ‖b‖²) is convex, and its gradient is -(λ/2) times the `slopes`
(d_v/η_v)² Σ_{w below v} ζ_w² g_w. With a barrier, J - (λ/2) μ Σ log η_v, the slopes at the minimum are all below one
number, and above Σ_v η_v slopes_v by kμ: the barrier's gap is the certificate's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ...problem import Problem
from ..weights import solved
from ..workspace import Iterate, Workspace
from .graph import Hull, best_eta

#: How far a step may go towards zero, relative to η.
INSIDE = 0.95
#: The barrier aimed at, relative to the gap that is left.
CENTRED = 0.1
#: Differences of J that are rounding, relative to it: of a machine solved to 1e-10.
NOISE = 1e-12
#: Halvings of a step before the plain one is taken.
HALVINGS = 12


@dataclass(frozen=True, eq=False)
class Point(Iterate):
    """An iterate with weights ζ(η) as its theta, and what belongs to the hull.

    Attributes
    ----------
    reduced : Reduced
    eta : (k,) array
    slopes : (k,) array
    level : float
        An upper bound of max_η Σ_w ζ_w(η) g_w over the hull: what the dual of the reduced problem has for a penalty.
    """

    reduced: Reduced
    eta: np.ndarray
    slopes: np.ndarray
    level: float


class Reduced:
    """The problem on a hull.

    Parameters
    ----------
    problem : Problem
    hull : Hull
    rho_sq : (k,) array
    start : Point or None
        Of a problem near by, whose machine is where the first one starts.
    """

    def __init__(self, problem: Problem, hull: Hull, rho_sq: np.ndarray, start: Point | None = None):
        self.hull = hull
        self.work = Workspace(problem, problem.family, hull.members, rho_sq, None)
        if start is not None:
            self.work._last = start.A

    def at(self, eta: np.ndarray) -> Point:
        """Solve the machine at ζ(η), and certify it on the hull."""
        hull, half = self.hull, self.work.lam / 2
        found = self.work.evaluate(hull.zeta(eta))
        fixed = float(found.u @ (found.u / found.theta))
        penalty, level = hull_penalties(hull, found.u, found.g)
        found = replace(
            found,
            objective=found.objective + half * (penalty - fixed),
            dual=found.dual + half * (float(found.theta @ found.g) - level),
        )
        return Point(**vars(found), reduced=self, eta=eta, slopes=hull.slopes(eta, found.g), level=level)

    def steps(self, eta: np.ndarray, tol: float, floor: float) -> Iterator[Point]:
        """Yield points whose J falls, until the gap on the hull is at most `tol` · P, or no step helps."""
        half, mu = self.work.lam / 2, np.inf
        point = self.at(eta)
        yield point
        while point.gap > tol * max(point.objective, 0.0) + floor:
            goal = (tol * max(point.objective, 0.0) + floor) / (2 * half)
            left = float(point.slopes.max() - point.eta @ point.slopes)
            if left <= 2 * len(self.hull) * mu:  # near enough to the minimum with this barrier
                mu = max(CENTRED * left, goal) / len(self.hull)
            moved = self._newton(point, mu) or self._plain(point)
            if moved is None:
                return
            point = moved
            yield point

    def _newton(self, point: Point, mu: float) -> Point | None:
        """Return a point along Newton's step on J with the barrier, None where none of them is lower."""
        step, slope = self._direction(point, mu)
        if not slope > 0:
            return None
        share = min(1.0, INSIDE / max(float(-step.min()), INSIDE))
        before = self._merit(point, mu)
        for _ in range(HALVINGS):
            eta = point.eta * (1 + share * step)
            trial = self.at(eta / eta.sum())
            if self._merit(trial, mu) <= before - 1e-4 * share * slope + NOISE * abs(before):
                return trial
            share /= 2
        return None

    def _merit(self, point: Point, mu: float) -> float:
        return point.value / (self.work.lam / 2) - mu * float(np.log(point.eta).sum())

    def _direction(self, point: Point, mu: float) -> tuple[np.ndarray, float]:
        """Return Newton's step relative to η, and how fast the merit falls along it."""
        hull, eta = self.hull, point.eta
        H = self.work.hessian(point, np.arange(len(hull)))
        # ∂ζ_w/∂log η_v = ζ_w² d_v²/η_v where v is above w
        jacobian = point.theta[:, None] ** 2 * hull.above * (hull.d**2 / eta)
        pulls = jacobian.T * np.sqrt(
            point.g / point.theta
        )  # the curvature of ζ itself: ∂²ζ_w = 2 ∂ζ_w ∂ζ_wᵀ/ζ_w - ...
        B = jacobian.T @ H @ jacobian - 2.0 * pulls @ pulls.T
        B[np.diag_indices(len(eta))] += 2.0 * eta * point.slopes + mu
        fall = eta * point.slopes + mu
        both = solved(B, np.column_stack([fall, eta]))
        step = both[:, 0] - both[:, 1] * (eta @ both[:, 0]) / (eta @ both[:, 1])
        return step, float(fall @ step)

    def _plain(self, point: Point) -> Point | None:
        """Return the point at the best η for the norms of this one, which is never worse; None at the end."""
        trial = self.at(best_eta(self.hull, point.u))
        return trial if trial.value < point.value else None


def hull_penalties(hull: Hull, u: np.ndarray, g: np.ndarray) -> tuple[float, float]:
    """Return Ω(u)² and an upper bound of its conjugate max_η Σ_w ζ_w(η) g_w over the hull, tight at the optimum.

    The function of η is concave and homogeneous, so that it is at most the largest of its slopes anywhere; here at the
    best η for u.
    """
    omega = float(hull.norms(u).sum())
    if omega == 0.0:  # no predictor: all that is known is that the sum is at most that of all g
        return 0.0, float(g.sum())
    return omega**2, float(hull.slopes(best_eta(hull, u), g).max())
