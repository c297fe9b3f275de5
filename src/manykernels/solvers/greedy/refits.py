"""The problem restricted to a few kernels, solved to the end: what a totally corrective step needs.

``Refitter`` takes any loss, family and norm; :mod:`.least_squares` is faster where it applies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...certificates import mean_conjugate, mean_loss
from ...combination import Combination
from ...families.base import HasFeatures, can
from ...machines import Fit, solve_primal
from ...predictors import Dual, Predictor, Primal
from ...problem import Problem
from ..loop import PATIENCE, ROUNDING, Descent
from ..weights import alternation, reduced_gradient
from ..workspace import Iterate, Workspace

#: Most machines that a restricted problem may take.
MOST_MACHINES = 301


@dataclass(frozen=True, eq=False)
class Point:
    """The predictor that is optimal over some kernels; those without weight are left out.

    Attributes
    ----------
    members : list
    theta, rho_sq, norms : (k,) arrays
        θ_i, ρ_i² and u_i = ρ_i‖w_i‖.
    A : (n, c) array
    W : (Σ widths, c) array or None
        Coefficients of explicit features.
    intercept : (c,) array
    objective : float
    g : (k,) array
        tr(AᵀK_iA)/ρ_i², about the same for all kernels at the optimum for p = 1.
    losses : (k,) array
        About how much the objective rises when a kernel is taken away.
    """

    members: list[Any]
    theta: np.ndarray
    rho_sq: np.ndarray
    norms: np.ndarray
    A: np.ndarray
    W: np.ndarray | None
    intercept: np.ndarray
    objective: float
    g: np.ndarray
    losses: np.ndarray

    def __len__(self) -> int:
        return len(self.members)

    @property
    def level(self) -> float:
        """Return max_i g_i."""
        return float(self.g.max(initial=0.0))

    def combination(self, family) -> Combination:
        """Return the kernel."""
        return Combination(family, self.members, self.theta / self.rho_sq, np.sqrt(self.rho_sq), self.norms)

    def predictor(self, combination: Combination, X) -> Predictor:
        """Return the predictor."""
        if self.W is not None:
            return Primal(combination, self.W, self.intercept)
        return Dual.from_training(combination, X, self.A, self.intercept)

    def dual(self, problem: Problem, dual_norm: float) -> float:
        """Return D at A, given ‖g‖_ν* over the whole family."""
        pb = problem
        ones = self.A.sum(axis=0)
        conjugate = mean_conjugate(pb.loss, pb.Y, self.A, pb.C, pb.sample_weight)
        return -conjugate - (dual_norm + float(ones @ ones)) / (2 * pb.C * pb.n_rows)


class Refitter:
    """Restricted problems by reduced gradients (p = 1) or closed-form weights, from the last solution.

    Every machine costs O(k n²) for k kernels besides its own work, or products with their columns.

    Parameters
    ----------
    problem : Problem
    tol : float
        Relative duality gap of the restricted problem.
    p : float
        Norm over kernels.
    """

    def __init__(self, problem: Problem, tol: float, p: float = 1.0):
        self.problem, self.tol, self.p = problem, tol, p
        self.family: Any = problem.family
        self.lam = 1.0 / (problem.C * problem.n_rows)
        self._last: Fit | None = None

    def empty(self) -> Point:
        """Return the best constant."""
        pb = self.problem
        fit = solve_primal(np.ones((pb.n_rows, 1)), pb.Y, pb.loss, pb.C, pb.sample_weight)
        assert fit.W is not None
        self._last = fit
        b = fit.W[0]
        objective = mean_loss(pb.loss, pb.Y, fit.F, pb.sample_weight) + self.lam / 2 * float(b @ b)
        none = np.zeros(0)
        W = np.zeros((0, pb.n_outputs)) if can(self.family, HasFeatures) else None
        return Point([], none, none, none, fit.A, W, b, objective, none, none)

    def refit(self, members: Sequence[Any], start: Point) -> Point:
        """Solve over `members`, from the weights that they have at `start`."""
        pb = self.problem
        rho_sq = pb.scale.rho_sq(members, self.p)
        work = Workspace(pb, self.family, members, rho_sq, self.p)
        work._last = self._last
        before = dict(zip(start.members, start.theta, strict=True))
        theta = np.array([before.get(z, 0.0) for z in members])
        best = self._solve(work, theta if theta.any() else None)
        self._last = work._last
        return self._kept(members, rho_sq, best)

    def _solve(self, work: Workspace, theta) -> Iterate:
        """Return the solution, or the best iterate where rounding ends the steps."""
        steps = reduced_gradient(work, theta) if self.p == 1 else alternation(work, theta, self.p)
        descent = Descent(self.tol, ROUNDING * work.start_value(), MOST_MACHINES, patience=PATIENCE)
        descent.follow(steps)
        return descent.answer

    def _kept(self, members, rho_sq, best: Iterate) -> Point:
        """Return the point of an iterate, without the kernels that have no weight."""
        pb = self.problem
        keep = np.flatnonzero(best.theta > 0)
        W = best.W if can(self.family, HasFeatures) else None
        if W is None and can(self.family, HasFeatures):
            phi = self.family.features(pb.X, [members[i] for i in keep])
            widths = self.family.widths([members[i] for i in keep])
            W = (phi.T @ best.A) * np.repeat(best.theta[keep] / rho_sq[keep], widths)[:, None]
        return Point(
            members=[members[i] for i in keep],
            theta=best.theta[keep],
            rho_sq=rho_sq[keep],
            norms=best.u[keep],
            A=best.A,
            W=W,
            intercept=best.intercept,
            objective=best.objective,
            g=best.g[keep],
            losses=best.u[keep],
        )

    def log_error(self, members: Sequence[Any]) -> float:
        """Return the log of the mean squared error of the unpenalised fit on members, where there is such a thing."""
        raise NotImplementedError

    def exact(self, point: Point) -> bool:
        """Whether far fewer kernels than rows reproduce the targets."""
        return False

    def promising(self, point: Point, candidates: list[Any]) -> list[Any]:
        """Return candidates, those first whose addition lowers the objective most, as far as is known."""
        return candidates
