"""Sparse multiple kernel learning by cutting planes."""

from __future__ import annotations

import numpy as np

from .base import BatchSolver
from .weights import simplex_start

#: How far from the best point towards the master's solution a cut is taken.
INWARD = 0.5
#: Weights that differ by less are the same.
SAME = 1e-13


class SILP(BatchSolver):
    """A linear program over the kernel weights, one cut per machine, p = 1.

    minimise (1/n) Σ s_t ℓ(y_t, f(x_t)) + (λ/2) [(Σ_i ρ_i ‖w_i‖)² + ‖b‖²].

    Every dual point A gives a linear lower bound of J, ``J(θ) >= c_A - (λ/2) <g_A, θ>``. The master program
    minimises the largest of these bounds over the simplex (HiGHS); the machine at its solution gives the next
    cut. With the max-hinge loss this is multiclass MKL with weights shared by all classes (MC-MKL).

    Every evaluation costs two passes over the kernels, O(m n²), one warm-started machine and one linear
    program of m variables.

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

    def __init__(self, tol=1e-3, max_iter=1000):
        self.tol = tol
        self.max_iter = max_iter

    def iterates(self, work, init):
        """Yield every evaluated iterate."""
        best = current = work.evaluate(simplex_start(work, init))
        yield current
        slopes, offsets = [], []
        share = INWARD
        while True:
            slopes.append(-(work.lam / 2) * current.g)
            offsets.append(current.value - slopes[-1] @ current.theta)
            corner = solve_master(np.array(slopes), np.array(offsets), work.alive)
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


def solve_master(slopes, offsets, alive):
    """Return the minimiser over the simplex of max_k (offsets_k + <slopes_k, θ>)."""
    from scipy.optimize import linprog

    k, m = slopes.shape
    # HiGHS has absolute tolerances. On the simplex a cut is the mean of its values at the corners; measured
    # from the best corner and each in a unit of its own, steep old cuts do not blur the flat ones that count.
    corners = slopes + offsets[:, None]
    corners = corners - corners[:, alive].max(axis=0).min()
    units = np.maximum(np.abs(corners[:, alive]).max(axis=1), np.finfo(float).tiny)
    answer = linprog(
        np.r_[np.zeros(m), 1.0],
        A_ub=np.column_stack([corners / units[:, None], -units.min() / units]),
        b_ub=np.zeros(k),
        A_eq=np.r_[np.ones(m), 0.0][None, :],
        b_eq=[1.0],
        bounds=[(0.0, None if ok else 0.0) for ok in alive] + [(None, None)],
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if answer.x is None:
        raise RuntimeError(f"the linear program of SILP failed: {answer.message}")
    theta = np.maximum(answer.x[:m], 0.0)
    return theta / theta.sum()
