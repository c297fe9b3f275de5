"""Hierarchical multiple kernel learning: products are selected only with all products that divide them.

The class is :class:`Hierarchical`.

=================  ========================================================================================
``graph.py``       the directed acyclic graph of products: ancestors, hulls, the frontier, the weights d_v
``reduced.py``     the problem on a hull: Newton steps on η, with a certificate
``frontier.py``    the sufficient condition on the frontier, which extends that certificate to all products
=================  ========================================================================================
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from sklearn.base import clone

from ..._util.checks import number, whole
from ...certificates import mean_loss
from ...families.base import Graded
from ...machines import solve_primal
from ...problem import Problem
from ..base import ROUGH, Solver, result_of
from ..log import Log
from ..loop import PATIENCE, ROUNDING, Descent, relative_gap, small_gap, warn_early, warn_interrupted
from .frontier import Frontier, listed_bounds
from .graph import Hull, Vertex, ancestors, frontier
from .reduced import Point, Reduced, hull_penalties

#: Products that a hull grows by at once: so many, or a share of its size where that is more.
BATCH, GROWTH = 32, 0.5
#: Newton steps on one hull: some tens are enough, and rounding ends the others.
MOST_STEPS = 200
#: Share of the tolerance for each of three things: the gap on the hull, the frontier's excess, and products dropped.
THIRD = 0.3


class Hierarchical(Solver):
    """Products of base kernels, each only with all that divide it: an active set that grows through their graph.

    minimise (1/n) Σ s_t ℓ(y_t, f(x_t)) + (λ/2) [Ω(w)² + ‖b‖²],   Ω(w) = Σ_v d_v (Σ_{w below v} ρ_w² ‖w_w‖²)^½.

    The vertices v are the products of 1 to D base kernels (multisets: powers included), an arrow leads from each to its
    multiples by one more factor, and the sum in Ω's v-th term is over all multiples of v, itself included. As in the group
    lasso terms vanish, and with a product all its multiples: those with weight form a *hull*, closed under divisors.
    d_v = β^(degree - 1) makes deeper products dearer. With D = 1 this is p = 1 MKL.

    In kernel weights: Ω² = min over η >= 0, Σ η_v = 1, of Σ_w ρ_w²‖w_w‖²/ζ_w, 1/ζ_w = Σ_{v divides w} d_v²/η_v, and the
    learned kernel is Σ_w ζ_w κ_w/ρ_w². On a hull this is a convex problem in η, solved by Newton steps with a barrier. Then the
    frontier is looked at, the products next to the hull: those that would gain by themselves enter (the necessary
    condition), and where there is none, those whose multiples might (the sufficient condition), until none is left.
    A product's multiples are never listed: what they could gain together is one quadratic form, in closed form.

    Costs O(n² r D²) once; then for every hull of k products n² for each product of its frontier, at most k r, and about
    ten Newton steps of O(n k² + k³), with n³ instead of n k² for kernels without explicit features.

    Parameters
    ----------
    beta : float
        β; positive. The larger, the more products of many factors are penalised.
    tol : float
        Relative gap at which to stop.
    max_iter : int
        Most hulls.
    max_kernels : int
        Most products in a hull.

    Notes
    -----
    Takes any loss, and families of products with scales that factorise, ``normalize="base"`` (the default here) or None.
    ``gap_kind_`` is ``"exact"``: ``gap_`` is an upper bound of the distance to the optimum over *all* products, as a gap
    always is. Its dual part is the bound of the sufficient condition, not the exact conjugate of Ω, so that it may be above
    the least gap that the same A proves; the hull may then hold products of next to no weight that the bound needs.
    Those that it does not need are dropped in the end, weights of less than a third of `tol` together.

    Departs from the reference: the constant is not in the graph, it is the intercept; the graph is that of multisets up to
    a total degree, where the reference has a degree for each base kernel; Newton steps with a barrier take the place
    of projected gradients on a smoothed problem; several products enter at once, at most half as many as there are.

    References
    ----------
    Bach (2008), *Exploring Large Feature Spaces with Hierarchical Multiple Kernel Learning*, section 4; Afkanpour
    (2013), *Multiple Kernel Learning with Many Kernels*, (2.13)-(2.15), has the same problem in kernel weights.
    """

    requires = (Graded,)
    prefers_base_scale = True
    rules: ClassVar = {
        "beta": number(open="left"),
        "tol": number(),
        "max_iter": whole(1),
        "max_kernels": whole(1),
    }
    p = 1.0

    def __init__(self, beta=2.0, *, tol=1e-3, max_iter=200, max_kernels=1000):
        self.beta = beta
        self.tol = tol
        self.max_iter = max_iter
        self.max_kernels = max_kernels

    def rough(self):
        """Return a copy that stops at a relative gap of 1 %."""
        return clone(self).set_params(tol=max(self.tol, ROUGH))

    def penalties(self, u, g, lam, members=()):
        """Return Ω² and the bound of its conjugate, from a list of all products: the certificate once more, the long way."""
        hull = {z for w, size in zip(members, u, strict=True) if size > 0 for z in ancestors(w)}
        beyond = listed_bounds(members, g, hull, self.beta)
        if not hull:
            return 0.0, beyond
        at = [members.index(z) for z in Hull(hull, self.beta).members]
        penalty, level = hull_penalties(Hull(hull, self.beta), u[at], g[at])
        return penalty, max(level, beyond)

    def solve(self, problem, init=None, on_iteration=None):
        """Solve one hull after another, until the gap is at most `tol`."""
        self.check_params()
        if problem.scale.how is not None and problem.scale.base is None:
            raise ValueError(
                "Hierarchical needs normalize='base' or None: with other scales the products behind the frontier do not add up "
                "in closed form."
            )
        log = Log(on_iteration, time.perf_counter())
        zero = np.zeros(problem.Y.shape)
        floor = ROUNDING * mean_loss(problem.loss, problem.Y, zero, problem.sample_weight)
        descent = Descent(self.tol, floor, self.max_iter, log)
        growth = Growth(self, problem, floor)
        descent.run(growth.points())
        best: Any = descent.answer
        gap = relative_gap(best.gap, best.objective, floor)
        if descent.interrupted:
            warn_interrupted(descent.n_iter, "hulls", gap)
        elif not (descent.closed or descent.stopped):
            warn_early(self, descent.n_iter, "hulls", gap, f"above tol={self.tol:g}; {growth.advice}")
        predictor = best.reduced.work.predictor(best)
        return result_of(predictor, best, log.trace(), n_iter=descent.n_iter, converged=descent.closed)


class Growth:
    """Hulls that grow until their frontier has nothing to gain.

    Parameters
    ----------
    solver : Hierarchical
    problem : Problem
    floor : float
        Gaps up to this are rounding.

    Attributes
    ----------
    advice : str
        What to say where it ends early.
    """

    def __init__(self, solver: Hierarchical, problem: Problem, floor: float):
        self.solver, self.problem, self.floor = solver, problem, floor
        self.front = Frontier(problem, solver.beta)
        self.advice = "raise max_iter or tol"

    def points(self) -> Iterator[Point]:
        """Yield the solution of every hull, with a certificate for all products."""
        hull, eta = self._first()
        point, tol = None, ROUGH
        while True:
            point = self._solved(hull, eta, tol, point)
            outside, bounds = self._frontier(point)
            certified = with_frontier(point, bounds)
            if small_gap(certified, self.solver.tol, self.floor):
                certified = self._pruned(point) or certified
            yield certified
            entering = self._entering(point, outside, bounds)
            if entering:
                hull, eta = self._grown(point, entering)
                tol = max(THIRD * self.solver.tol, min(tol, THIRD * certified.gap / certified.objective))
            elif tol > THIRD * self.solver.tol:
                eta, tol = point.eta, THIRD * self.solver.tol
            else:
                return

    def _first(self) -> tuple[Hull, np.ndarray]:
        """Return the base kernels whose multiples could gain most over a constant predictor."""
        pb = self.problem
        fit = solve_primal(np.ones((pb.n_rows, 1)), pb.Y, pb.loss, pb.C, pb.sample_weight)
        roots = [(j,) for j in self.front.bases]
        if not roots:
            raise ValueError(
                "kernels: every kernel vanishes on the training rows; check that X is not all zeros."
            )
        best = np.argsort(-self.front.bounds(fit.A, roots), kind="stable")
        chosen = best[: min(BATCH, self.solver.max_kernels)]
        return Hull([roots[i] for i in chosen], self.solver.beta), np.full(len(chosen), 1.0 / len(chosen))

    def _solved(self, hull: Hull, eta: np.ndarray, tol: float, start: Point | None) -> Point:
        """Return the best point on a hull."""
        rho_sq = self.problem.scale.rho_sq(hull.members, self.solver.p)
        descent = Descent(tol, self.floor, MOST_STEPS, patience=PATIENCE)
        descent.follow(Reduced(self.problem, hull, rho_sq, start).steps(eta, tol, self.floor))
        answer: Any = descent.answer
        return answer

    def _frontier(self, point: Point) -> tuple[list[Vertex], np.ndarray]:
        family: Any = self.problem.family
        outside = frontier(set(point.reduced.hull.members), self.front.bases, family.degree)
        return outside, self.front.bounds(point.A, outside)

    def _entering(self, point: Point, outside: list[Vertex], bounds: np.ndarray) -> list[Vertex]:
        """Return the products of the frontier that enter: of those that gain alone, else of those whose multiples may."""
        room = THIRD * self.solver.tol * max(point.objective, 0.0) / (point.reduced.work.lam / 2)
        most = min(
            max(BATCH, int(GROWTH * len(point.theta))), self.solver.max_kernels - len(point.theta)
        )
        if not (bounds > point.level + room).any():
            return []
        if most <= 0:
            self.advice = "raise max_kernels, beta or tol, or lower C"
            return []
        rho_sq = self.problem.scale.rho_sq(outside, self.solver.p)
        slopes = self.front.slopes(point.A, outside, rho_sq)
        measure = slopes if (slopes > point.level + room).any() else bounds
        order = np.argsort(-measure, kind="stable")[:most]
        return [outside[i] for i in order if measure[i] > point.level + room]

    def _grown(self, point: Point, entering: list[Vertex]) -> tuple[Hull, np.ndarray]:
        """Return the hull with what enters, which shares a tenth of the weight."""
        hull = Hull([*point.reduced.hull.members, *entering], self.solver.beta)
        eta = np.full(len(hull), 0.1 / len(entering))
        eta[[hull.place[z] for z in point.reduced.hull.members]] = 0.9 * point.eta
        return hull, eta / eta.sum()

    def _pruned(self, point: Point) -> Point | None:
        """Return a certified point without the products of least weight that the certificate does not need, if any."""
        hull = point.reduced.hull
        weight = point.eta @ hull.above  # of a product with its multiples
        spare = np.flatnonzero(self.front.bounds(point.A, hull.members) <= point.level)
        gone = np.zeros(len(hull), dtype=bool)
        for v in spare[np.argsort(weight[spare], kind="stable")]:
            with_v = gone | (hull.above[:, v] > 0)
            if point.eta[with_v].sum() <= THIRD * self.solver.tol and not with_v.all():
                gone = with_v
        if not gone.any():
            return None
        smaller = Hull([z for z, out in zip(hull.members, gone, strict=True) if not out], self.solver.beta)
        eta = point.eta[~gone] / point.eta[~gone].sum()
        found = self._solved(smaller, eta, THIRD * self.solver.tol, point)
        certified = with_frontier(found, self._frontier(found)[1])
        return certified if small_gap(certified, self.solver.tol, self.floor) else None


def with_frontier(point: Point, bounds: np.ndarray) -> Point:
    """Return a point with the dual that holds for all products."""
    excess = max(float(bounds.max(initial=0.0)) - point.level, 0.0)
    return replace(point, dual=point.dual - point.reduced.work.lam / 2 * excess)
