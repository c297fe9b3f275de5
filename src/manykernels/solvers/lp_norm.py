"""p-norm multiple kernel learning by alternation with closed-form weights."""

from __future__ import annotations

from typing import ClassVar

from .._util.checks import Rule, number
from .base import BatchSolver
from .weights import alternation

#: What p may be.
EXPONENT = number(1, 2, open="left")


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
    rules: ClassVar = {
        **BatchSolver.rules,
        "p": Rule(f"{EXPONENT.words}, or SimpleMKL or SILP for p = 1", EXPONENT.accepts),
    }

    def __init__(self, p=4 / 3, tol=1e-3, max_iter=200):
        self.p = p
        self.tol = tol
        self.max_iter = max_iter

    def iterates(self, work, init):
        """Yield every evaluated iterate."""
        return alternation(work, init, self.p)
