"""Greedy coordinate descent over families that can find their best kernel.

:class:`Greedy` minimises J(θ) by Frank-Wolfe steps (Afkanpour 2013, Algorithm 6): line 6 solves the machine at θ,
line 7 searches the family for the kernel with the largest g_i, lines 8 and 9 move towards it. By default that move is
replaced by a fit of all weights (Gehler and Nowozin 2008). The room:

- ``oracle``: line 7, what is asked of the family, and how often an expensive search is repeated;
- ``steps``: the loop of lines 4-10, with all weights fitted again or towards one kernel, its gap and its end;
- ``refits``: the problem restricted to the kernels that have entered, for any loss; ``least_squares``: the same for the
  squared loss on kernels with one feature each, much faster;
- ``summed``: the same steps over rows in files or on a cluster, by sums over them;
- ``stopping``: how many kernels the data support, by an information criterion or by rows held out.
"""

from __future__ import annotations

import math
import time
from contextlib import nullcontext
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from ..._util.allowance import limited, most_work
from ..._util.checks import AUTO, FLAG, choice, number, whole
from ..._util.interrupts import Interruptible
from ..._util.text import brief, warn
from ..._util.threads import one_blas_thread
from ...families.base import Enumerable, Maximisable, can
from ...problem import Problem, Result
from ..base import Solver, check_init, generator
from ..log import Log
from ..loop import less_work, relative_gap, warn_early, warn_interrupted
from ..workspace import ONE_THREAD
from .least_squares import LeastSquares, refitter_for
from .steps import Corrective, Limits, Pursuit, Stepwise
from .stopping import ROUGH, DistinctRows, ExtendedBIC, Folds

#: Largest number of kernels that ``max_kernels="auto"`` looks at.
MOST_KERNELS = 200
#: What to say when steps ended before their time.
ADVICE = {"max_iter": "raise max_iter or tol", "no_progress": "no other kernel lowers the objective"}


class Greedy(Solver):
    """Frank-Wolfe steps on the kernel weights: the best kernel of the family enters at each step.

    minimise (1/n) Σ s_t ℓ(y_t, f(x_t)) + (λ/2) [(Σ_i ρ_i^p ‖w_i‖^p)^(2/p) + ‖b‖²],

    for p = 1 that is J(θ) over the simplex. At every step the machine is solved at θ, and the kernel with the largest
    g_i = tr(AᵀK_iA)/ρ_i² is searched for; the family may be exponentially large or a continuum.

    Parameters
    ----------
    max_kernels : "auto" or int
        The most kernels with weight. ``"auto"``: as many as an extended BIC over the size of the family (squared
        loss, kernels with one feature) or rows held out (otherwise, on a continuum too) support, so that kernels
        are not chosen because one of very many looks good by chance.
    corrective : bool
        Whether all weights are fitted again at every step (IKL); kernels whose weight vanishes are dropped.
        Otherwise a step moves towards the new kernel alone (GCD-1s, CKL).
    step : {"line_search", "classic"}
        The step when not corrective: to the minimum of J on the segment, or 2/(k+1).
    p : float
        Norm over kernels, 1 <= p <= 2. More than 1 needs corrective steps, and a list or products of kernels: on a
        continuum, splitting a kernel into copies would make its norm as small as one likes.
    tol : float
        Relative duality gap at which to stop.
    max_iter : int
        Most steps.
    swaps : int
        How often, once `max_kernels` (a number) have weight, some of them are exchanged for others to lower the
        objective further; corrective fits only.
    random_state : int, Generator, RandomState or None
        For searches that draw at random, and for the rows held out.

    Notes
    -----
    Takes any loss, and families that can find their best kernel. The gap is over the whole family: exact when the
    last search was exhaustive, and a lower bound otherwise.

    ``converged_`` says that an exact gap is within `tol`, and ``stop_reason_`` why the steps ended:

    - ``"gap"``: it is within `tol`, as far as is known;
    - ``"max_kernels"``, ``"criterion"``: as many kernels as were asked for, or as the criterion supports. The gap
      stays open, which is the price of fewer kernels, and there is no warning;
    - ``"exact_fit"``: far fewer kernels than rows reproduce the targets (squared loss on monomials, noiseless, with
      a very large C). More could only make the norm smaller, not the fit better: instead, those that it does not
      need are taken away. The gap stays open, without a warning;
    - ``"callback"``: `on_iteration` said so;
    - ``"max_iter"``, ``"max_work"`` (its machines have multiplied all that the rows are worth), ``"no_progress"``,
      ``"interrupted"``: with a warning that says how large the gap is.

    Departs from the references: for the squared loss on monomials the 32 best kernels by gradient are compared by
    what least squares gains from each beside the active ones; when a search is expensive its candidates, and kernels
    that share factors with active ones, are used up first, as long as they stand out from what is best by chance,
    2 log|I|/n of the squared norm. With the extended BIC the trace goes a few steps beyond the result. Rows are held
    out in five parts in turn (of more than 2000 rows one part only), and the fewest steps are taken whose loss there
    is within a standard error of the least. Copies of rows, as a bootstrap sample has, count as one row with their
    weights added up when either judges, and unequal weights count as the number of equal ones with the same sampling
    error; equal rows that a table of categories has by chance count fully.

    With ``Products(heredity=...)`` a search compares all products that may join those in the model, one factor more
    than one of them, or single factors; whatever has lost its parts to a refit leaves. Products that may join later are
    not looked at, and the gap is a lower bound.

    `init` gives one weight per kernel of a list: the steps begin at the fit of those with weight.

    References
    ----------
    Afkanpour (2013), *Multiple Kernel Learning with Many Kernels*, Algorithms 5-6, Theorem 5.1. Argyriou, Micchelli,
    Pontil (2005), *Learning convex combinations of continuously parameterized basic kernels* (CKL). Gehler, Nowozin
    (2008), *Infinite kernel learning* (IKL). Chen, Chen (2008), *Extended Bayesian information criteria*.
    """

    requires = (Maximisable,)
    heredities = ("weak", "strong")
    accepts_init = True
    accepts_init = sums_rows = True
    rules: ClassVar = {
        "max_kernels": AUTO | whole(1),
        "corrective": FLAG,
        "step": choice("line_search", "classic"),
        "p": number(1, 2),
        "tol": number(),
        "max_iter": whole(1),
        "swaps": whole(0),
    }

    def __init__(
        self,
        max_kernels="auto",
        *,
        corrective=True,
        step="line_search",
        p=1.0,
        tol=1e-3,
        max_iter=1000,
        swaps=10,
        random_state=None,
    ):
        self.max_kernels = max_kernels
        self.corrective = corrective
        self.step = step
        self.p = p
        self.tol = tol
        self.max_iter = max_iter
        self.swaps = swaps
        self.random_state = random_state

    def check_params(self):
        """Refuse p > 1 with steps towards one kernel, besides what the rules refuse."""
        super().check_params()
        if self.p > 1 and not self.corrective:
            raise ValueError(f"p of Greedy is {self.p!r}, which needs corrective=True; or use p=1.")

    def check_compatible(self, family, loss):
        """Refuse p > 1 on a continuum, besides what every solver refuses."""
        super().check_compatible(family, loss)
        if self.p > 1 and math.isinf(family.size()):
            raise ValueError(
                f"p of Greedy is {self.p!r}, but kernels is {brief(family)}, a continuum, on which only p=1 makes "
                "sense: a kernel split into copies would cost nothing."
            )

    def solve(self, problem, init=None, on_iteration=None):
        """Take steps until the gap, the number of kernels or the criterion says stop."""
        self.check_params()
        self.check_compatible(problem.family, problem.loss)
        theta = _checked_start(problem, init, self.p)
        log = Log(on_iteration, time.perf_counter())
        rng = generator(self.random_state)
        # A search would amplify the rounding of several threads.
        threads = one_blas_thread() if problem.n_rows < ONE_THREAD else nullcontext()
        with threads, limited(most_work(problem.n_rows)):
            limits, interrupted = self._limits(problem, rng, theta)
            pursuit = self._kind()(self, problem, log, rng, limits, theta)
            pursuit.interrupted = interrupted
            result = pursuit.run()
        return self._warned(result, pursuit)

    def _warned(self, result: Result, pursuit: Pursuit) -> Result:
        """Return a result, with a warning where the steps ended before their time."""
        gap = relative_gap(result.gap, result.objective, pursuit.floor)
        if pursuit.interrupted:
            warn_interrupted(result.n_iter, "iterations", gap)
        elif pursuit.ending in (*ADVICE, "max_work") and not pursuit.small(result.gap, result.objective):
            why = f"above tol={self.tol:g}; {ADVICE.get(pursuit.ending) or less_work(pursuit.problem)}"
            warn_early(self, result.n_iter, "iterations", gap, why)
        return result

    def solve_rows(self, rows, first, held_out=None, on_iteration=None):
        """Take the same steps over rows that lie elsewhere, by sums over them."""
        from .summed import solve_summed

        self.check_params()
        if getattr(first.family, "heredity", "none") != "none":
            raise ValueError(
                "kernels asks for heredity of products, which Greedy respects over rows in memory only; pass those, or "
                "heredity='none'."
            )
        return self._warned(*solve_summed(self, rows, first, on_iteration))

    def _kind(self) -> type[Pursuit]:
        """Return the kind of steps."""
        return Corrective if self.corrective else Stepwise

    def _limits(self, problem: Problem, rng, theta) -> tuple[Limits, bool]:
        """Return where to stop, and whether finding that out was interrupted."""
        size = problem.family.size()
        if self.max_kernels != "auto":
            return Limits(int(min(self.max_kernels, size)), swaps=self.swaps), False
        rows = DistinctRows(problem)
        most = int(min(MOST_KERNELS, size, max(rows.count // 3, 1)))
        if self.corrective and isinstance(refitter_for(problem, self.tol, self.p), LeastSquares):
            return Limits(most, criterion=ExtendedBIC(rows.effective, size)), False
        trial = clone(self).set_params(tol=max(self.tol, ROUGH))

        def start(part, log):
            return self._kind()(trial, part, log, rng, Limits(most), theta)

        folds = Folds(problem, start, rng, rows)
        with Interruptible(lambda: "" if any(folds.paths) else None) as guard:
            folds.run()
        if folds.cut_short:
            found = f"after {max(map(len, folds.paths))} steps with rows held out, where {less_work(problem)}"
            warn(f"Greedy chose max_kernels='auto' {found}, or pass max_kernels.", ConvergenceWarning)
        steps = folds.n_steps()
        if guard.interrupted and not steps:
            steps = max(map(len, folds.paths))
        return Limits(most, steps), guard.interrupted


def _checked_start(problem: Problem, init: Any, p: float) -> np.ndarray | None:
    """Return `init` as one weight per kernel, those that vanish left out."""
    if init is None:
        return None
    family: Any = problem.family
    if not can(family, Enumerable):
        raise ValueError(
            f"init gives one weight per kernel, but the kernels of {brief(family)} cannot be listed; leave it out."
        )
    alive = problem.scale.rho_sq(family.members(), p) > 0
    theta = check_init(init, alive)
    return None if theta is None else np.where(alive, theta, 0.0)
