"""Kernel weights by centred alignment with the targets."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from .._util.checks import FLAG
from ..combination import Combination
from ..families.base import Enumerable
from ..problem import Problem
from .aligning import check_alignable, own_alignments, scaled_combination, weigh
from .base import TwoStageSolver

#: More members than this would need a matrix of inner products that does not fit.
MAX_MEMBERS = 10_000


class Alignment(TwoStageSolver):
    r"""Weights that maximise the centred alignment of the combined kernel with the targets.

    maximise over θ >= 0:  <K_θ, YYᵀ> / (‖K_θ‖ ‖YYᵀ‖),  K_θ = Σ_i (θ_i/ρ_i²) K_i,

    all matrices centred, by the equivalent non-negative least squares problem min ‖K_θ - YYᵀ‖². The combination is
    scaled to unit variance, a centred mean diagonal of 1; then the machine is trained on it. For classes Y is one-hot.

    Parameters
    ----------
    independent : bool
        Whether to weigh each scaled kernel by its own alignment instead, O(m n²).
    own_pairs : bool
        Whether a row's similarity to itself counts. False takes the mean diagonal off every kernel, K_i - d_i I,
        which favours narrower kernels.

    Notes
    -----
    Families that can be listed; any loss; regression, two classes or more. O(m² n²) time for m kernels, memory
    O(n² + m n). A sample weight equals a repetition, in the centring and in the inner products. Singular inner
    products (copies of a kernel, kernels that add up to another) are handled: one of the optimal weights is
    returned, and all of them give the same kernel on the training rows.

    References
    ----------
    Cortes, Mohri, Rostamizadeh (2010), *Two-stage learning kernel algorithms* (AMKL; "align" when independent).
    Afkanpour (2013), *Multiple Kernel Learning with Many Kernels*, section 2.2.2.
    """

    requires = (Enumerable,)
    rules: ClassVar = {"independent": FLAG, "own_pairs": FLAG}

    def __init__(self, independent=False, *, own_pairs=True):
        self.independent = independent
        self.own_pairs = own_pairs

    def learn(self, problem: Problem) -> Combination:
        """Return the best aligned combination."""
        self.check_params()
        family: Any = problem.family
        if family.size() > MAX_MEMBERS and not self.independent:
            raise ValueError(
                f"Alignment needs the inner products of all pairs of kernels, and there are {family.size():,} "
                f"(limit {MAX_MEMBERS:,}); pass GreedyAlignment() or independent=True."
            )
        members = family.members()
        rho_sq = problem.scale.rho_sq(members, 1.0)
        if self.independent:
            check_alignable(problem, members, rho_sq)
            theta = own_alignments(problem, members, self.own_pairs)
        else:
            theta = weigh(problem, members, rho_sq, self.own_pairs)[0]
        return scaled_combination(problem, family, members, np.where(rho_sq > 0, theta, 0.0), rho_sq)
