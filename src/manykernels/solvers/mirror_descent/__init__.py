"""Mirror descent on the kernel weights, over exponentially many kernels drawn one at a time.

===================  ========================================================================================
``walk.py``          the steps, the average, the gap of an iterate, the bound behind the theorem's step
``potentials.py``    what a step and a projection are: one potential for every range of p
``summed.py``        the same over rows that lie elsewhere, in files or on a cluster, by sums over them
===================  ========================================================================================

Kernels that were met are in ``solvers/active.py``; drawing is the family's, from all rows
(``families/products/sampling.py``) or from some (``families/products/row_sampler.py``).
"""

from __future__ import annotations

import math
import time
from contextlib import nullcontext
from dataclasses import replace
from typing import ClassVar

from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from ..._util.allowance import limited, most_work
from ..._util.checks import FLAG, choice, number, whole
from ..._util.interrupts import Interruptible
from ..._util.text import brief, warn
from ..._util.threads import one_blas_thread
from ...families.base import Samplable
from ...losses import LOSSES
from ..active import FEW_MEMBERS
from ..base import Solver, generator
from ..log import Log
from ..loop import less_work, relative_gap, warn_early, warn_interrupted
from ..workspace import ONE_THREAD
from .potentials import NEAR
from .walk import Walk, gradient_bound

#: Steps of runs that are only compared with each other.
ROUGH_STEPS = 30


class MirrorDescent(Solver):
    """Stochastic gradient steps on the kernel weights, one drawn kernel at a time, 1 <= p < 2.

    minimise (1/n) Σ s_t ℓ(y_t, f(x_t)) + (λ/2) [(Σ_i ρ_i^p ‖w_i‖^p)^(2/p) + ‖b‖²],

    that is J(θ) over θ >= 0, ‖θ‖_ν <= 1, ν = p/(2 - p). At every step the machine is solved at θ, kernels are drawn,
    and θ moves along the unbiased estimate ``(λ/2) g_z/q_z`` of minus the gradient at the drawn z, in the geometry of a
    potential Ψ, and back into the ball. For p in (1, 4/3] Ψ = ½‖θ‖_ν² and the projection is a scaling: the number of
    kernels enters only through the drawing.

    Parameters
    ----------
    max_iter : int
        Steps, T.
    p : float
        Norm over kernels, 1 <= p < 2. (1, 4/3] for families of any size. Above 4/3 steps are Euclidean, with the
        Euclidean projection on the ball, and p = 1 takes the entropy, for lists of at most 5,000 kernels.
    sampling : {"gradient", "uniform"}
        Draw near proportionally to the gradient (Algorithm 3), or uniformly over the family, which is the
        uniform coordinate descent (UCD) of the papers.
    step : {"normalised", "theory"}
        ``"theory"``: the constant step of Theorem 3.1, from a bound of the gradient that holds everywhere.
        ``"normalised"``: √(2αδ/T) in units of the estimate's root mean square so far, 1/√T for p = 4/3.
    draws : int
        Kernels drawn per step; their estimates are averaged.
    rows : int, float or None
        How many rows, or which share of them, to draw kernels from, anew for every step; None for all. The machine and
        the dual coefficients A are those of all rows either way. For products of columns.
    estimate : {"all", "halves"}
        With `rows`: g_z of the drawn kernels from all rows, or from the rows drawn alone, as a product of sums over two
        halves of them, which is without bias, too, and can be negative. ``"all"`` has the smaller variance and costs a
        pass over the rows.
    average : bool
        Whether to return the average of the iterates, weighted by their steps, or the last.
    tol : float
        Relative gap at which to stop; looked at every tenth of the steps, unless it is 0.
    gap_draws : int
        Draws for the statistical gap.
    random_state : int, Generator, RandomState or None

    Notes
    -----
    Takes any loss but Poisson's, and families that can draw. Over a continuum it optimises over those drawn (Algorithm
    4), ``gap_kind_`` is ``"none"``, and ``trace_`` has J(θ) of every step, which is not below the objective. Departs
    from the references: other p than 4/3; rows drawn; the returned weights are scaled to ‖θ‖_ν = 1, which never raises
    J; with ``step="normalised"`` the average leaves out the first half of the steps, when θ is still on its way to the
    sphere. By Theorem 3.1, J at the average exceeds the optimum by at most √(2Bδ/(αT)) on average, B being the bound of
    the estimate squared. That is √(B/((ν - 1) T)) for p in (1, 4/3], whatever the number m of kernels; √(2B log m/T)
    for p = 1; and √(B m^(1 - 2/ν)/T) above 4/3, which is not free of the dimension. The theorem's step is for draws
    from all rows.

    Steps end early, with a warning, once the machines have multiplied more than some 20 s are enough for on 300 rows:
    that is counted, not timed, so that results repeat. More rows may take more, as their number to the fourth power.

    The gap is exact for families of up to 5,000 members. For larger ones it is a statistical estimate:
    ``Σ_i g_i^ν*``, 1/ν + 1/ν* = 1, is known over the kernels met and estimated without bias over the others, by the
    mean of g_z^ν*/q_z over draws; ``gap_`` is its upper 95 % confidence limit, if the mean is normal. Drawn from few
    rows it is far from that: with 20 out of 60 the limit held in 78 to 92 % of runs. The standard error is in
    ``trace_.extra``, as is the effective share of the draws, (Σw)²/(NΣw²) for the importance weights w = g_z/q_z.

    *Rows in files and on clusters*: products of columns, each counted once, with the squared loss. A step is one sum
    over the rows, and one more where a kernel is new. All products are weighed, and drawn exactly in proportion to g,
    with an exact gap, where they are at most 8 million and n times their number is affordable; else `rows` are needed.

    References
    ----------
    Afkanpour, György, Szepesvári, Bowling (2013), *A Randomized Mirror Descent Algorithm for Large Scale Multiple
    Kernel Learning*, Algorithms 1-3, Theorem 3.1. Afkanpour (2013), *Multiple Kernel Learning with Many Kernels*,
    chapter 4. The factor ½ in the gradient is that of (4.12) there.
    """

    requires = (Samplable,)
    losses = tuple(
        name for name in LOSSES if name not in ("poisson", "ordinal")
    )  # no bound of the slope; one f
    prefers_base_scale = sums_rows = True
    rules: ClassVar = {
        "max_iter": whole(1),
        "p": number(1, 2, open="right"),
        "sampling": choice("gradient", "uniform"),
        "step": choice("normalised", "theory"),
        "draws": whole(1, 2**20),
        "rows": whole(2) | number(0, 1, open="both") | choice(None),
        "estimate": choice("all", "halves"),
        "average": FLAG,
        "tol": number(),
        "gap_draws": whole(1, 2**20),
    }

    def __init__(
        self,
        max_iter=1000,
        *,
        p=4 / 3,
        sampling="gradient",
        step="normalised",
        draws=1,
        rows=None,
        estimate="all",
        average=True,
        tol=1e-3,
        gap_draws=1000,
        random_state=None,
    ):
        self.max_iter = max_iter
        self.p = p
        self.sampling = sampling
        self.step = step
        self.draws = draws
        self.rows = rows
        self.estimate = estimate
        self.average = average
        self.tol = tol
        self.gap_draws = gap_draws
        self.random_state = random_state

    def check_params(self):
        """Check the parameters, and that those on rows go with the others."""
        super().check_params()
        for name, needed in (("sampling", "gradient"), ("step", "normalised")):
            if self.rows is not None and getattr(self, name) != needed:
                raise ValueError(
                    f"rows of MirrorDescent is {self.rows!r}, which needs {name}={needed!r}; pass that, or rows=None."
                )

    def check_compatible(self, family, loss):
        """Refuse families that p or rows cannot be had with."""
        super().check_compatible(family, loss)
        free = 1 < self.p <= 4 / 3 + NEAR
        if not free and family.size() > FEW_MEMBERS:
            size = "a continuum" if math.isinf(family.size()) else f"{family.size():,} kernels"
            raise ValueError(
                f"p of MirrorDescent is {self.p:g}, which needs a list of at most {FEW_MEMBERS:,} kernels, and kernels "
                f"is {size}; use p in (1, 4/3], or Greedy for p = 1."
            )
        if self.rows is not None and not hasattr(family, "row_sampler"):
            raise ValueError(
                f"rows of MirrorDescent is {self.rows!r}, which needs products of columns, and kernels is "
                f"{brief(family)}; pass Products(degree=...) without base, or rows=None."
            )

    def rough(self):
        """Return a copy that takes a few steps: the C that is best for these weights is nearly that of later ones.

        Nobody asks for its gap, which takes hundreds of draws.
        """
        return clone(self).set_params(max_iter=min(self.max_iter, ROUGH_STEPS), tol=0.0, gap_draws=2)

    def sampled_rows(self, n_rows: int) -> int | None:
        """Return how many of the rows to draw kernels from; None for all of them."""
        if self.rows is None:
            return None
        size = int(self.rows) if self.rows >= 1 else max(2, round(self.rows * n_rows))
        return size if size < n_rows else None

    def solve(self, problem, init=None, on_iteration=None):
        """Take `max_iter` steps, or fewer when the gap is small enough."""
        self.check_params()
        run = Walk(self, problem, Log(on_iteration, time.perf_counter()), generator(self.random_state))
        # A step is many small products; threads under them cost several times what they bring.
        threads = one_blas_thread() if problem.n_rows < ONE_THREAD else nullcontext()
        with threads, limited(most_work(problem.n_rows)):
            return self._walked(run)

    def solve_rows(self, rows, first, held_out=None, on_iteration=None):
        """Take the same steps over rows that lie elsewhere, by sums over them."""
        from .summed import SummedWalk

        self.check_params()
        log = Log(on_iteration, time.perf_counter())
        return self._walked(SummedWalk(self, rows, first, log, generator(self.random_state)))

    def _walked(self, run: Walk):
        """Return the result of a walk, with a warning where it ended before its time."""
        with Interruptible(lambda: "" if len(run.active) else None) as guard:
            run.steps()
        result = run.result()
        gap = relative_gap(result.gap, result.objective, run.floor)
        if guard.interrupted:
            warn_interrupted(result.n_iter, "steps", gap)
        elif run.exhausted and not (result.converged or run.stopped or gap <= self.tol):
            known = "" if result.gap_kind == "none" else f" at a relative gap of {gap:.1e}"
            stopped = f"MirrorDescent stopped after {result.n_iter} of {self.max_iter} steps{known}"
            warn(f"{stopped}; {less_work(run.problem)}.", ConvergenceWarning)
            return replace(result, ending="max_work")
        elif not (result.gap_kind == "none" or result.converged or run.stopped or gap <= self.tol):
            why = f"above tol={self.tol:g} (gap_kind={result.gap_kind!r}); raise max_iter, draws or tol"
            warn_early(self, result.n_iter, "steps", gap, why)
        return replace(result, ending="callback") if run.stopped and not result.converged else result


__all__ = ["MirrorDescent", "Walk", "gradient_bound"]
