"""Sparse multiple kernel learning by reduced gradients on the simplex."""

from __future__ import annotations

from .base import BatchSolver
from .weights import reduced_gradient


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
        return reduced_gradient(work, init)
