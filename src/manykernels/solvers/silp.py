"""Sparse multiple kernel learning by cutting planes."""

from __future__ import annotations

from typing import Any

import numpy as np

from .base import BatchSolver
from .weights import simplex_start

#: How far from the best point towards the master's solution a cut is taken.
INWARD = 0.5
#: Weights that differ by less are the same.
SAME = 1e-13
#: The linear program is solved over all kernels at once where they are no more than this.
FEW = 256
#: Kernels that come in at once.
ENTERING = 32
#: Solutions in a row that a cut may be slack in before it is forgotten.
IDLE = 30
#: Tolerances of the linear program, and the price below which a kernel comes in, in the unit of the cuts.
TOLERANCE, PRICE = 1e-10, 1e-9


class SILP(BatchSolver):
    """A linear program over the kernel weights, one cut per machine, p = 1.

    minimise (1/n) Σ s_t ℓ(y_t, f(x_t)) + (λ/2) [(Σ_i ρ_i ‖w_i‖)² + ‖b‖²].

    Every dual point A gives a linear lower bound of J, ``J(θ) >= c_A - (λ/2) <g_A, θ>``. The master program
    minimises the largest of these bounds over the simplex (HiGHS); the machine at its solution gives the next
    cut. With the max-hinge loss this is multiclass MKL with weights shared by all classes (MC-MKL).

    Every evaluation costs two passes over the kernels, O(m n²), one warm-started machine and one linear
    program, of m variables up to 256 kernels and of the few hundred that matter beyond.

    Parameters
    ----------
    tol : float
        Relative duality gap at which to stop.
    max_iter : int
        Most evaluations of the machine.

    Notes
    -----
    Takes any loss, and families that can be listed. Departs from the reference in where cuts are taken: between
    the best point so far and the solution of the master program (in-out separation, Ben-Ameur and Neto 2007),
    which tames the zigzag of plain cutting planes.

    References
    ----------
    Sonnenburg, Rätsch, Schäfer, Schölkopf (2006), *Large Scale Multiple Kernel Learning*, Algorithm 1.
    """

    p = 1.0
    patience = 120  # cuts may come in between for dozens of iterations before the bounds move

    def __init__(self, tol=1e-3, max_iter=300):
        self.tol = tol
        self.max_iter = max_iter

    def iterates(self, work, init):
        """Yield every evaluated iterate."""
        best = current = work.evaluate(simplex_start(work, init))
        yield current
        master, share = Master(work.alive), INWARD
        while True:
            slope = -(work.lam / 2) * current.g
            master.cut(slope, current.value - slope @ current.theta)
            corner = master.solve()
            theta = share * corner + (1 - share) * best.theta
            theta[theta < 1e-6] = 0.0  # else a kernel that the master dropped would linger
            theta /= theta.sum()
            if np.abs(theta - current.theta).max() <= SAME:  # the same machine would give the same cut
                return
            current = work.evaluate(theta)
            yield current
            if current.value < best.value:
                best, share = current, INWARD
            else:  # the cut between the best point and the corner did not help: go nearer
                share = max(share / 2, 0.05)


class Master:
    """The linear program: the minimiser over the simplex of the largest cut, max_k (offsets_k + <slopes_k, θ>).

    Of many kernels few have weight. The program is solved over some of them, and those that its multipliers price
    below zero come in, until there are none: the solution over all, at the cost of one over few hundred.

    Parameters
    ----------
    alive : array of bool, shape (m,)
        Kernels that may have weight.
    """

    def __init__(self, alive: np.ndarray):
        self.alive = alive
        self.slopes: list[np.ndarray] = []
        self.offsets: list[float] = []
        self.idle: list[int] = []
        self.held = alive.copy() if alive.sum() <= FEW else np.zeros(len(alive), dtype=bool)

    def cut(self, slope: np.ndarray, offset: float) -> None:
        """Add a cut."""
        self.slopes.append(slope)
        self.offsets.append(offset)
        self.idle.append(0)
        self.held[np.argmin(np.where(self.alive, slope, np.inf))] = True

    def solve(self) -> np.ndarray:
        """Return θ."""
        # HiGHS has absolute tolerances. On the simplex a cut is the mean of its values at the corners; measured
        # from the best corner and each in a unit of its own, steep old cuts do not blur the flat ones that count.
        corners = np.array(self.slopes) + np.array(self.offsets)[:, None]
        corners -= corners[:, self.alive].max(axis=0).min()
        units = np.maximum(np.abs(corners[:, self.alive]).max(axis=1), np.finfo(float).tiny)
        corners /= units[:, None]
        while True:
            answer = self._solve_held(corners[:, self.held], -units.min() / units)
            prices = -answer.ineqlin.marginals @ corners - answer.eqlin.marginals[0]
            wanted = np.flatnonzero(self.alive & ~self.held & (prices < -PRICE))
            if not len(wanted):
                self._drop(answer.ineqlin.marginals)
                theta = np.zeros(len(self.alive))
                theta[self.held] = np.maximum(answer.x[:-1], 0.0)
                return theta / theta.sum()
            self.held[wanted[np.argsort(prices[wanted])[:ENTERING]]] = True

    def _drop(self, multipliers: np.ndarray) -> None:
        """Forget cuts that have long borne nothing; one that is missed comes again."""
        self.idle = [0 if y else age + 1 for y, age in zip(multipliers, self.idle, strict=True)]
        kept = [k for k, age in enumerate(self.idle) if age <= IDLE]
        self.slopes, self.offsets = [self.slopes[k] for k in kept], [self.offsets[k] for k in kept]
        self.idle = [self.idle[k] for k in kept]

    @staticmethod
    def _solve_held(corners: np.ndarray, last: np.ndarray) -> Any:
        from scipy.optimize import linprog

        k, m = corners.shape
        answer = linprog(
            np.r_[np.zeros(m), 1.0],
            A_ub=np.column_stack([corners, last]),
            b_ub=np.zeros(k),
            A_eq=np.r_[np.ones(m), 0.0][None, :],
            b_eq=[1.0],
            bounds=[(0.0, None)] * m + [(None, None)],
            method="highs",
            options={"primal_feasibility_tolerance": TOLERANCE, "dual_feasibility_tolerance": TOLERANCE},
        )
        if answer.x is None:
            raise RuntimeError(f"the linear program of SILP failed: {answer.message}")
        return answer
