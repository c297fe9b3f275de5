"""Kernel weights by a criterion that compares the combined kernel with the targets.

The class is :class:`Alignment`; what all its criteria share with :class:`GreedyAlignment` is ``solvers/aligning.py``.

=================  ========================================================================================
``fsm.py``         the spread of classes along the line between their means: a convex problem
``divergence.py``  the Kullback-Leibler divergence from the targets' kernel: descents from several starts
``stochastic.py``  alignment over products that are too many to list: stochastic steps on those drawn
=================  ========================================================================================
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ..._util.checks import FLAG, Rule, choice, number, whole
from ...combination import Combination
from ...families import Products
from ...families.base import Enumerable
from ...problem import Problem
from ..aligning import check_alignable, own_alignments, scaled_combination, weigh
from ..base import TwoStageSolver, generator
from ..gram_once import SolvesGrams
from .divergence import least_divergence
from .fsm import least_spread
from .stochastic import StochasticSteps

#: More members than this would need a matrix of inner products that does not fit.
MAX_MEMBERS = 10_000


class Alignment(SolvesGrams, TwoStageSolver):
    r"""Weights that maximise the alignment of the combined kernel with the targets, or another such criterion.

    maximise over θ >= 0:  <K_θ, YYᵀ> / (‖K_θ‖ ‖YYᵀ‖),  K_θ = Σ_i (θ_i/ρ_i²) K_i,

    all matrices centred, by the equivalent non-negative least squares problem min ‖K_θ - YYᵀ‖². The combination is
    scaled to unit variance, a centred mean diagonal of 1; then the machine is trained on it. For classes Y is one-hot.

    Parameters
    ----------
    independent : bool
        Whether to weigh each scaled kernel by its own alignment instead, O(m n²).
    criterion : {"alignment", "fsm", "kl"}
        ``"fsm"``, for classes: minimise (sd₊ + sd₋)/‖φ₊ - φ₋‖, the spread of either class along the line between their
        means in the kernel's space, over the length of that line; for more than two classes each against the rest,
        sums over sums. It is convex, and centring changes nothing.
        ``"kl"``: minimise tr(K* (K_θ + εI)⁻¹) + log|K_θ + εI| over θ in the simplex, the divergence of a normal law
        with the covariance K* = YYᵀ, at a mean diagonal of 1, from one with K_θ. Not convex.
    centred : bool
        Whether matrices are centred; False is the alignment of Cristianini et al., which a constant kernel can have.
        Two rows of one class then have the product 1 in K*, and of two of k classes -1/(k - 1).
    own_pairs : bool
        Whether a row's similarity to itself counts. False takes the mean diagonal off every kernel, K_i - d_i I,
        which favours narrower kernels.
    epsilon : float
        ε of ``"kl"``, for kernels of size 1.
    max_iter : int, optional
        None: all kernels are listed and compared with each other. A number: so many stochastic steps on the alignment
        over :class:`Products`, however many there are.
    draws : int
        Products drawn for each of these steps.
    corrective : bool
        Whether the weights of the products drawn are fitted anew at the end, by non-negative least squares over the
        1,000 heaviest.
    random_state : int, Generator, RandomState or None
        For the draws.

    Attributes
    ----------
    alignments_ : list of float
        After ``learn`` with `max_iter`: the alignment after every step (and after the refit). It never decreases.

    Notes
    -----
    Families that can be listed; any loss; regression, two classes or more. O(m² n²) time for m kernels, memory
    O(n² + m n); ``"fsm"`` O(m n² + m² n), ``"kl"`` O(n³ + m n²) for each of some tens of steps from three starts, even
    weights and the two best kernels. A sample weight equals a repetition, in the centring and in the inner products.
    Singular inner products (copies of a kernel, kernels that add up to another) are handled: one of the optimal weights
    is returned, and all of them give the same kernel on the training rows.

    Stochastic steps (`max_iter`) are what Afkanpour (2013) leaves open in section 4.3, as the gradient is signed there.
    They draw products near proportionally to a bound of its size, see
    :mod:`manykernels.families.products.signed`, and so have an unbiased and bounded estimate of it;
    a step takes O(n³) and `draws` draws by Algorithm 3, each O(n² r) at the most, whatever the number of products.

    References
    ----------
    Cortes, Mohri, Rostamizadeh (2010), *Two-stage learning kernel algorithms* (AMKL; "align" when independent).
    Afkanpour (2013), *Multiple Kernel Learning with Many Kernels*, sections 2.2.2, 2.3.2 and 4.3.
    Cristianini, Shawe-Taylor, Elisseeff, Kandola (2002), *On kernel-target alignment* (``centred=False``).
    Nguyen, Ho (2008), *An efficient kernel matrix evaluation measure*; Tanabe, Ho, Nguyen, Kawasaki (2008), *Simple but
    effective methods for combining kernels in computational biology* (``"fsm"``).
    Ying, Huang, Campbell (2009), *Enhanced protein fold recognition through a novel data integration approach*
    (``"kl"``).
    """

    requires = (Enumerable,)
    rules: ClassVar = {
        "independent": FLAG,
        "criterion": choice("alignment", "fsm", "kl"),
        "centred": FLAG,
        "own_pairs": FLAG,
        "epsilon": number(1e-12, 1e6),
        "max_iter": whole(1) | Rule("None", lambda value: value is None),
        "draws": whole(1),
        "corrective": FLAG,
    }

    def __init__(
        self,
        independent=False,
        *,
        criterion="alignment",
        centred=True,
        own_pairs=True,
        epsilon=1e-5,
        max_iter=None,
        draws=32,
        corrective=True,
        random_state=None,
    ):
        self.independent = independent
        self.criterion = criterion
        self.centred = centred
        self.own_pairs = own_pairs
        self.epsilon = epsilon
        self.max_iter = max_iter
        self.draws = draws
        self.corrective = corrective
        self.random_state = random_state

    def check_params(self):
        """Refuse what only the alignment of a list has, for other criteria and for stochastic steps."""
        super().check_params()
        other = {"independent": self.independent, "own_pairs": not self.own_pairs}
        given = next((name for name, changed in other.items() if changed), None)
        if self.max_iter is not None and self.criterion != "alignment":
            given = "max_iter"
        if given is not None and (self.criterion != "alignment" or self.max_iter is not None):
            where = f"criterion={self.criterion!r}" if self.criterion != "alignment" else "max_iter"
            raise ValueError(
                f"{given} of Alignment is {getattr(self, given)!r}, which {where} does not know; leave it out."
            )

    def check_sums(self):
        """Refuse criteria that ask for the rows' classes or pairs, where there are only sums over rows."""
        asked = {"criterion": self.criterion != "alignment", "centred": not self.centred}
        asked["max_iter"] = self.max_iter is not None
        given = next((name for name, changed in asked.items() if changed), None)
        if given is not None:
            raise ValueError(
                f"{given} of Alignment is {getattr(self, given)!r}, which needs rows in memory; leave it out for "
                "rows in files and on clusters."
            )

    def check_compatible(self, family, loss):
        """Refuse stochastic steps over anything but products."""
        super().check_compatible(family, loss)
        if self.max_iter is not None and not isinstance(family, Products):
            raise ValueError(
                f"max_iter of Alignment is {self.max_iter}, for stochastic steps over Products, and kernels are "
                f"{type(family).__name__}; leave it out."
            )

    def learn(self, problem: Problem) -> Combination:
        """Return the best combination by the criterion."""
        self.check_params()
        self.check_compatible(problem.family, problem.loss)
        family: Any = problem.family
        if self.max_iter is not None:
            return self._by_steps(problem)
        if family.size() > MAX_MEMBERS and not self.independent:
            instead = " or max_iter=100" if isinstance(family, Products) else ""
            raise ValueError(
                f"Alignment needs the inner products of all pairs of kernels, and there are {family.size():,} "
                f"(limit {MAX_MEMBERS:,}); pass GreedyAlignment(), independent=True{instead}."
            )
        members = family.members()
        rho_sq = problem.scale.rho_sq(members, 1.0)
        theta = self._theta(problem, members, rho_sq)
        return scaled_combination(problem, family, members, np.where(rho_sq > 0, theta, 0.0), rho_sq)

    def _theta(self, problem: Problem, members, rho_sq) -> np.ndarray:
        """Return θ of a list, on an arbitrary scale."""
        check_alignable(problem, members, rho_sq)
        if self.criterion == "fsm":
            return least_spread(problem, members, rho_sq)
        if self.criterion == "kl":
            return least_divergence(problem, members, rho_sq, float(self.epsilon), self.centred)
        if self.independent:
            return own_alignments(problem, members, self.own_pairs, self.centred)
        return weigh(problem, members, rho_sq, self.own_pairs, self.centred)[0]

    def _by_steps(self, problem: Problem) -> Combination:
        steps = StochasticSteps(problem, self.draws, self.centred, generator(self.random_state))
        steps.run(self.max_iter)
        members, theta, rho_sq = steps.result(self.corrective)
        self.alignments_ = steps.alignments
        return scaled_combination(problem, problem.family, members, theta, rho_sq)
