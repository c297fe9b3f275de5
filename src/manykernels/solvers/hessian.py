"""Sparse multiple kernel learning by Newton steps on the simplex."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .base import BatchSolver
from .weights import fixed_curvature, line_search, newton_step, reduced_gradient
from .workspace import Iterate, Workspace

#: Kernels without weight that are let in by one step, those with the largest gradient: the others have their turn.
ENTERING = 200
#: Kernels with weight up to which there is a Hessian: it is a matrix of all their pairs.
MOST = 500
#: Operations that one quadratic program may take; what it has by then lowers its value as well.
OPERATIONS = 5e9
#: Share of the fixed machine's curvature that is added to the Hessian: at first, and at the most.
DAMPING, MOST_DAMPING = 1e-9, 10.0


class HessianMKL(BatchSolver):
    """Newton steps on J over the simplex, p = 1.

    minimise (1/n) Σ s_t ℓ(y_t, f(x_t)) + (λ/2) [(Σ_i ρ_i ‖w_i‖)² + ‖b‖²].

    With T = (I + LK)⁻¹L, where L is the second derivative of C Σ s ℓ in the scores and K that of the machine, J has the
    Hessian λ tr((M_iA)ᵀ T M_jA), M_i = K_i/ρ_i². The step is the minimiser over the simplex of the quadratic model, a
    small quadratic program; then follows a line search. With the max-hinge loss this is multiclass MKL with weights
    shared by all classes.

    Every step costs about two passes over the kernels more than one of SimpleMKL, O(m n² c), and the factorisation of
    a system of the machine; there are few of them, about 10 to 25 where SimpleMKL takes 25 to 220 (285 and 1,770
    products of columns, 500 rows).

    Parameters
    ----------
    tol : float
        Relative duality gap at which to stop.
    max_iter : int
        Most evaluations of the machine.

    Notes
    -----
    Takes any loss, and families that can be listed. The Hessian is exact for the squared, the logistic and the Poisson
    loss and for softmax; for the others, which have kinks or whose slope has, it is that of the face of the dual that A
    lies in (the free support vectors), which is the Hessian almost everywhere. Departs from the reference in four
    things: while more than 500 kernels have weight it takes the steps of SimpleMKL, whose curvature is no matrix of
    all their pairs; kernels without weight enter at most 200 at a time, those with the largest gradient; where a step
    brings no descent, as at a kink, the Hessian is damped by the curvature 2 g_i/θ_i of the fixed machine until one
    does; and it stops on the duality gap alone.

    References
    ----------
    Chapelle, Rakotomamonjy (2008), *Second Order Optimization of Kernel Parameters*.
    """

    takes_joint = False
    p = 1.0

    def __init__(self, tol=1e-3, max_iter=500):
        self.tol = tol
        self.max_iter = max_iter

    def iterates(self, work, init, most=MOST):
        """Yield every evaluated iterate; those of reduced gradients until at most `most` kernels have weight."""
        current = None
        for trial in reduced_gradient(work, init):
            yield trial
            if current is None or trial.value < current.value:
                current = trial
                if np.count_nonzero(current.theta) <= most:
                    yield from _newton_steps(work, current)
                    return


def _newton_steps(work: Workspace, current: Iterate) -> Iterator[Iterate]:
    """Yield the iterates of Newton steps from one of them."""
    damping = DAMPING
    while current.g.any():
        some = _candidates(current, work.alive)
        H = work.hessian(current, some)
        while True:
            moved = current
            direction = newton_direction(current, some, H, damping)
            if direction @ current.g > 0:
                for trial in line_search(work, current, direction):
                    yield trial
                    if trial.value < moved.value:
                        moved = trial
            if moved is not current:
                break
            damping *= 100
            if damping > MOST_DAMPING:
                return
        current, damping = moved, max(damping / 100, DAMPING)


def _candidates(point, alive) -> np.ndarray:
    """Return the kernels with weight, and those without that would lower J most: their g is above the mean's."""
    outside = np.flatnonzero(alive & (point.theta <= 0) & (point.g > point.theta @ point.g))
    entering = outside[np.argsort(-point.g[outside], kind="stable")[:ENTERING]]
    return np.sort(np.concatenate([np.flatnonzero(point.theta), entering]))


def newton_direction(point, some, H, damping: float) -> np.ndarray:
    """Return the way from θ to the minimiser over the simplex of J's quadratic model there, in some coordinates."""
    theta, g = point.theta[some], point.g[some]
    B = H + np.diag(damping * fixed_curvature(theta, g))
    direction = np.zeros(len(point.theta))
    direction[some] = simplex_minimum(B, -g - B @ theta, theta) - theta
    return direction


def simplex_minimum(B: np.ndarray, q: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Return the minimiser of ½ xᵀBx + qᵀx over the simplex, B positive definite, by an active-set method.

    From a point of the simplex: minimise over the face of the free coordinates. Those that would become negative are
    fixed at zero, all at once where that lowers the value, else the first on the way; at the minimum of a face those
    are freed that would lower the value most. O(k³) for every face, mostly some ten of them. A program that takes too
    many ends at a point with a smaller value than the start.
    """

    def value(x):
        return 0.5 * x @ (B @ x) + q @ x

    x, free = start.copy(), start > 0
    for _ in range(min(20 * len(x) + 50, 2 + int(OPERATIONS / len(x) ** 3))):
        slope = B @ x + q
        d = np.zeros(len(x))
        d[free] = newton_step(B[np.ix_(free, free)], -slope[free])
        shrinking = np.flatnonzero(free & (x + d < 0))
        if len(shrinking):
            x, free = _next_face(x, d, free, shrinking, value)
            continue
        x = x + d
        slope = B @ x + q
        violation = np.where(free, 0.0, float(slope[free] @ x[free]) - slope)
        if violation.max() <= 1e-12 * np.abs(slope).max():
            break
        free |= violation > 0.1 * violation.max()
    return x / x.sum()


def _next_face(x, d, free, shrinking, value):
    """Return a point with fewer free coordinates on the way from x to x + d, and which are free."""
    clipped = np.maximum(x + d, 0.0)
    clipped /= clipped.sum()
    if value(clipped) < value(x):
        return clipped, clipped > 0
    shares = x[shrinking] / -d[shrinking]
    nearest = shrinking[shares <= shares.min()]
    x, free = np.maximum(x + shares.min() * d, 0.0), free.copy()
    first = nearest[np.argmin(d[nearest])]
    x[first], free[first] = 0.0, False
    return x, free
