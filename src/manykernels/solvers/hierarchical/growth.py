"""The active set: hulls that grow through the graph until nothing outside has anything to gain."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from ...machines import solve_primal
from ...problem import Problem
from ..base import ROUGH
from ..loop import PATIENCE, Descent, relative_gap, small_gap
from .frontier import LISTED, Frontier
from .graph import Hull, Vertex, frontier
from .reduced import Point, Reduced

#: Products that a hull grows by at once: so many, or a share of its size where that is more.
BATCH, GROWTH = 32, 0.5
#: Products enter together with the one that is missed most, if they are missed this much as much.
MISSED = 0.02
#: Newton steps on one hull: some tens are enough, and rounding ends the others.
MOST_STEPS = 200
#: Share of the tolerance for each of three things: the gap on the hull, the frontier's excess, and products dropped.
THIRD = 0.3


class Growth:
    """Hulls that grow until their frontier has nothing to gain.

    Parameters
    ----------
    problem : Problem
    beta, tol, max_kernels :
        As in :class:`Hierarchical`.
    floor : float
        Gaps up to this are rounding.
    listed : float
        As in :class:`Frontier`.

    Attributes
    ----------
    advice : str
        What to say where it ends early.
    """

    def __init__(
        self,
        problem: Problem,
        beta: float,
        tol: float,
        max_kernels: int,
        floor: float,
        listed: float = LISTED,
    ):
        self.problem, self.beta, self.tol = problem, beta, tol
        self.max_kernels, self.floor = max_kernels, floor
        self.front = Frontier(problem, beta, listed)
        self.advice = "raise max_iter or tol"

    def points(self) -> Iterator[Point]:
        """Yield the solution of every hull, with a certificate for all products."""
        hull, eta = self._first()
        point, tol = None, ROUGH
        while True:
            point = self._solved(hull, eta, tol, point)
            outside, sums = self._frontier(point)
            certified, shares = self._certified(point, sums)
            if small_gap(certified, self.tol, self.floor):
                certified = self._pruned(point) or certified
            yield certified
            entering = self._entering(point, certified, outside, sums, shares)
            if entering:
                hull, eta = self._grown(point, entering)
                left = relative_gap(certified.gap, certified.objective, self.floor)
                tol = max(THIRD * self.tol, min(tol, THIRD * left))
            elif tol > THIRD * self.tol:
                eta, tol = point.eta, THIRD * self.tol
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
        chosen = best[: min(BATCH, self.max_kernels)]
        return Hull([roots[i] for i in chosen], self.beta), np.full(len(chosen), 1.0 / len(chosen))

    def _solved(self, hull: Hull, eta: np.ndarray, tol: float, start: Point | None) -> Point:
        """Return the best point on a hull."""
        rho_sq = self.problem.scale.rho_sq(hull.members, 1.0)
        descent = Descent(tol, self.floor, MOST_STEPS, patience=PATIENCE)
        descent.follow(Reduced(self.problem, hull, rho_sq, start).steps(eta, tol, self.floor))
        answer: Any = descent.answer
        return answer

    def _frontier(self, point: Point) -> tuple[list[Vertex], np.ndarray]:
        family: Any = self.problem.family
        outside = frontier(set(point.reduced.hull.members), self.front.bases, family.degree)
        return outside, self.front.bounds(point.A, outside)

    def _certified(self, point: Point, sums: np.ndarray) -> tuple[Point, np.ndarray | None]:
        """Return a point with the dual that holds for all products, and how much each is missed, if known."""
        level, shares = self.front.level(point, sums)
        half = point.reduced.work.lam / 2
        return replace(point, dual=point.dual - half * (level - point.level), level=level), shares

    def _entering(self, point: Point, certified: Point, outside, sums, shares) -> list[Vertex]:
        """Return the products that enter, none where the frontier's excess is within its share of the tolerance."""
        room = THIRD * self.tol * max(point.objective, 0.0) / (point.reduced.work.lam / 2)
        if certified.level <= point.level + room:
            return []
        most = min(max(BATCH, int(GROWTH * len(point.theta))), self.max_kernels - len(point.theta))
        if most <= 0:
            self.advice = "raise max_kernels, beta or tol, or lower C"
            return []
        if shares is not None:
            return self._missed(point, shares)[:most]
        rho_sq = self.problem.scale.rho_sq(outside, 1.0)
        slopes = self.front.slopes(point.A, outside, rho_sq)
        # Those that gain alone; where there is none, those whose multiples may.
        measure = slopes if (slopes > point.level + room).any() else sums
        order = np.argsort(-measure, kind="stable")[:most]
        return [outside[i] for i in order if measure[i] > point.level + room]

    def _missed(self, point: Point, shares: np.ndarray) -> list[Vertex]:
        """Return products outside the hull with a large share of η; what divides them has a larger one."""
        listed: Any = self.front.all
        shares[[listed.place[z] for z in point.reduced.hull.members]] = 0.0
        order = np.argsort(-shares, kind="stable")  # by degree where shares are alike
        return [listed.members[i] for i in order[shares[order] > MISSED * shares.max()]]

    def _grown(self, point: Point, entering: list[Vertex]) -> tuple[Hull, np.ndarray]:
        """Return the hull with what enters, which shares a tenth of the weight."""
        hull = Hull([*point.reduced.hull.members, *entering], self.beta)
        eta = np.full(len(hull), 0.1 / len(entering))
        eta[[hull.place[z] for z in point.reduced.hull.members]] = 0.9 * point.eta
        return hull, eta / eta.sum()

    def _pruned(self, point: Point) -> Point | None:
        """Return a certified point without the products of least weight that the certificate does not need, if any."""
        hull = point.reduced.hull
        weight = point.eta @ hull.above  # of a product with its multiples
        spare = np.arange(len(hull))
        if (
            self.front.all is None
        ):  # the bound is what the frontier says, so that it must be content with what goes
            spare = np.flatnonzero(self.front.bounds(point.A, hull.members) <= point.level)
        gone = np.zeros(len(hull), dtype=bool)
        for v in spare[np.argsort(weight[spare], kind="stable")]:
            with_v = gone | (hull.above[:, v] > 0)
            if point.eta[with_v].sum() <= THIRD * self.tol and not with_v.all():
                gone = with_v
        if not gone.any():
            return None
        smaller = Hull([z for z, out in zip(hull.members, gone, strict=True) if not out], self.beta)
        eta = point.eta[~gone] / point.eta[~gone].sum()
        found = self._solved(smaller, eta, THIRD * self.tol, point)
        certified, _ = self._certified(found, self._frontier(found)[1])
        return certified if small_gap(certified, self.tol, self.floor) else None
