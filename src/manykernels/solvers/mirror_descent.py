"""Projected stochastic gradient over exponentially many kernels."""

from __future__ import annotations

import math
import time
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .._util.checks import FLAG, choice, number, whole
from .._util.threads import one_blas_thread
from ..families.base import Enumerable, Samplable, can
from ..losses import LOSSES
from ..problem import GapKind, Problem, Result
from .active import FEW_MEMBERS, Active
from .base import Solver, generator
from .log import Log
from .loop import ROUNDING, Interruptible, relative_gap, warn_early, warn_interrupted
from .workspace import ONE_THREAD

#: One-sided 95 % limit of a normal variable: what "upper confidence limit" means here.
QUANTILE = 1.645


class MirrorDescent(Solver):
    """Stochastic gradient steps on the kernel weights, one drawn kernel at a time, p = 4/3.

    minimise (1/n) Σ s_t ℓ(y_t, f(x_t)) + (λ/2) [(Σ_i ρ_i^(4/3) ‖w_i‖^(4/3))^(3/2) + ‖b‖²],

    that is J(θ) over θ >= 0, ‖θ‖₂ <= 1. At every step the machine is solved at θ, kernels are drawn, and θ moves
    along the unbiased estimate ``(λ/2) g_z/q_z`` of minus the gradient at the drawn z; the projection is a
    scaling. The number of kernels enters only through the drawing.

    Parameters
    ----------
    max_iter : int
        Steps, T.
    sampling : {"gradient", "uniform"}
        Draw near proportionally to the gradient (Algorithm 3), or uniformly over the family, which is the
        uniform coordinate descent (UCD) of the papers.
    step : {"normalised", "theory"}
        ``"theory"``: the constant step of Theorem 3.1, from a bound of the gradient that holds everywhere.
        ``"normalised"``: 1/√T in units of the estimate's root mean square so far.
    draws : int
        Kernels drawn per step; their estimates are averaged.
    average : bool
        Whether to return the average of the iterates, weighted by their steps, or the last.
    tol : float
        Relative gap at which to stop; looked at every tenth of the steps.
    gap_draws : int
        Draws for the statistical gap.
    random_state : int, Generator, RandomState or None

    Notes
    -----
    Takes any loss but Poisson's, and families that can draw. Over a continuum it optimises over the kernels drawn
    (Algorithm 4), and ``gap_kind_`` is ``"none"``. Departs from the references: the returned weights are scaled to
    ‖θ‖₂ = 1, which never raises J; with ``step="normalised"`` the average leaves out the first half of the steps,
    when θ is still on its way to the sphere. The gap is exact for families of up to 5,000 members. For larger ones
    it is a statistical estimate: ``Σ_i g_i²`` is estimated without bias by the mean of g_z²/q_z over draws, and
    ``gap_`` is its upper 95 % confidence limit; the standard error is in ``trace_.extra``, as is the effective
    share of the draws, (Σw)²/(NΣw²) for the importance weights w = g_z/q_z.

    References
    ----------
    Afkanpour, György, Szepesvári, Bowling (2013), *A Randomized Mirror Descent Algorithm for Large Scale Multiple
    Kernel Learning*, Algorithms 1-3, Theorem 3.1. Afkanpour (2013), *Multiple Kernel Learning with Many Kernels*,
    chapter 4. The factor ½ in the gradient is that of (4.12) there.
    """

    requires = (Samplable,)
    losses = tuple(name for name in LOSSES if name != "poisson")  # whose slope nothing bounds
    prefers_base_scale = True
    rules: ClassVar = {
        "max_iter": whole(1),
        "sampling": choice("gradient", "uniform"),
        "step": choice("normalised", "theory"),
        "draws": whole(1),
        "average": FLAG,
        "tol": number(),
        "gap_draws": whole(1),
    }
    p = 4 / 3

    def __init__(
        self,
        max_iter=1000,
        *,
        sampling="gradient",
        step="normalised",
        draws=1,
        average=True,
        tol=1e-3,
        gap_draws=1000,
        random_state=None,
    ):
        self.max_iter = max_iter
        self.sampling = sampling
        self.step = step
        self.draws = draws
        self.average = average
        self.tol = tol
        self.gap_draws = gap_draws
        self.random_state = random_state

    def solve(self, problem, init=None, on_iteration=None):
        """Take `max_iter` steps, or fewer when the gap is small enough."""
        self.check_params()
        run = Walk(self, problem, Log(on_iteration, time.perf_counter()), generator(self.random_state))
        # A step is many small products; threads under them cost several times what they bring.
        with (
            Interruptible(lambda: "" if len(run.active) else None) as guard,
            one_blas_thread() if problem.n_rows < ONE_THREAD else nullcontext(),
        ):
            run.steps()
        result = run.result()
        gap = relative_gap(result.gap, result.objective, run.floor)
        if guard.interrupted:
            warn_interrupted(result.n_iter, "steps", gap)
        elif not (result.gap_kind == "none" or result.converged or run.stopped or gap <= self.tol):
            why = f"above tol={self.tol:g} (gap_kind={result.gap_kind!r}); raise max_iter, draws or tol"
            warn_early(self, result.n_iter, "steps", gap, why)
        return result


@dataclass(frozen=True)
class _Gap:
    """An upper limit of the gap, its standard error (0 if exact), and what kind it is."""

    value: float
    error: float
    kind: GapKind


class Walk:
    """The state of Algorithm 2."""

    def __init__(self, solver: MirrorDescent, problem: Problem, log: Log, rng: np.random.Generator):
        self.solver, self.problem, self.log, self.rng = solver, problem, log, rng
        self.family: Any = problem.family
        self.active = Active(problem, solver.p)
        self.draw = self.active.drawer()
        self.sum = np.zeros(0)  # Σ η_k θ_k of the average
        self.squares = 0.0  # Σ_k of the squared estimates, for the normalised step
        self.unit = 1.0  # the step in units of the gradient, up to a constant
        self.stopped = False
        zero = np.zeros(problem.Y.shape)
        self.floor = ROUNDING * float(np.mean(problem.sample_weight * problem.loss.value(problem.Y, zero)))
        self.eta = self.theory_step() if solver.step == "theory" else None

    def steps(self) -> None:
        """Alg. 2, lines 2-5."""
        T = self.solver.max_iter
        check = max(1, T // 10)
        for k in range(1, T + 1):
            fit = self.active.solve()
            objective = self.active.objective(fit, self.active.norms(fit))
            due = k % check == 0 and k < T
            gap = self.gap_at(fit, objective) if due else None
            known = math.nan if gap is None else gap.value
            self.stopped = self.log.add(objective, known, int(np.count_nonzero(self.active.theta)))
            if gap is not None and gap.value <= self.solver.tol * objective + self.floor:
                self.sum = self.active.theta.copy()  # the iterate itself is good enough
                return
            self.remember(k)
            if self.stopped:
                return
            self.move(fit.A)

    def remember(self, k: int) -> None:
        """Add the iterate to the average; θ_0 counts for the theorem's step only."""
        if self.solver.average and (self.eta is not None or 2 * k > self.solver.max_iter or self.stopped):
            self.sum = np.pad(self.sum, (0, len(self.active) - len(self.sum)))
            self.sum += self.unit * self.active.theta

    def move(self, A) -> None:
        """Draw, step and project: Alg. 2, lines 3-4."""
        s = self.solver
        draw = self.draw if s.sampling == "gradient" else self._uniform
        members, q = draw(A, s.draws, self.rng)
        members, q, g, rho_sq = self.gradients(A, members, q)
        if not len(members):
            return
        ratio = g / (q * s.draws)
        if self.eta is not None:
            increments = self.eta * (self.active.lam / 2) * ratio
        else:
            self.squares += float(np.sum(ratio)) ** 2 if s.draws > 1 else float(ratio @ ratio)
            mean_square = self.squares / len(self.log)
            if mean_square == 0:
                return
            self.unit = 1 / math.sqrt(mean_square)
            increments = ratio * self.unit / math.sqrt(s.max_iter)
        self.active.add(members, increments, rho_sq)
        length = float(np.linalg.norm(self.active.theta))
        if length > 1:
            self.active.scale(1 / length)

    def gradients(self, A, members, q):
        """Return the draws that can be fitted, with their g: not the constant, and not what vanishes."""
        keep = [i for i, z in enumerate(members) if z != ()]
        members, q = [members[i] for i in keep], q[keep]
        if not members:
            return members, q, np.zeros(0), np.zeros(0)
        distinct = list(dict.fromkeys(members))
        place = {z: i for i, z in enumerate(distinct)}
        of = [place[z] for z in members]
        rho_sq = self.active.rho_of(distinct)[of]
        forms = self.active.forms(A, distinct)[of]
        alive = rho_sq > 0
        members = [z for z, ok in zip(members, alive, strict=True) if ok]
        return members, q[alive], forms[alive] / rho_sq[alive], rho_sq[alive]

    # -- the certificate ---------------------------------------------------------------------------------

    def gap_at(self, fit, objective: float) -> _Gap:
        """Return the gap of an iterate, exact or as an upper confidence limit."""
        if can(self.family, Enumerable) and self.family.size() <= FEW_MEMBERS:
            return self.exact_gap(fit, objective)
        if math.isinf(self.family.size()):  # there Σ g² is infinite, and the atoms' own gap proves nothing
            return _Gap(math.nan, 0.0, "none")
        return self.estimated_gap(fit, objective)

    def exact_gap(self, fit, objective: float) -> _Gap:
        """Return the gap from a pass over all members."""
        members = self.family.members()
        rho_sq = self.active.rho_of(members)
        forms = self.active.forms(fit.A, members)
        g = np.divide(forms, rho_sq, out=np.zeros(len(members)), where=rho_sq > 0)
        return _Gap(objective - self.active.dual(fit, float(np.linalg.norm(g))), 0.0, "exact")

    def estimated_gap(self, fit, objective: float) -> _Gap:
        """Return the upper confidence limit of the gap: Σ_i g_i² is the mean of g_z²/q_z over draws."""
        size = self.solver.gap_draws
        members, q = self.draw(fit.A, size, self.rng)
        _, q, g, _ = self.gradients(fit.A, members, q)
        squares = np.pad(g**2 / q, (0, size - len(g)))  # the constant counts as a draw of 0
        mean, error = float(squares.mean()), float(squares.std(ddof=1) / math.sqrt(size)) if size > 1 else 0.0
        high = math.sqrt(mean + QUANTILE * error)
        middle = math.sqrt(mean)
        value = objective - self.active.dual(fit, high)
        return _Gap(value, self.active.lam / 2 * (high - middle) / QUANTILE, "estimate")

    def effective_share(self, A) -> float:
        """Return (Σw)²/(NΣw²) of the importance weights w = g_z/q_z: 1 when drawing is just right."""
        if math.isinf(self.family.size()):
            return math.nan  # a draw may cost as much as a step
        size = self.solver.gap_draws
        draw = self.draw if self.solver.sampling == "gradient" else self._uniform
        members, q = draw(A, size, self.rng)
        _, q, g, _ = self.gradients(A, members, q)
        w = g / q
        return float(w.sum() ** 2 / (size * (w @ w))) if w.any() else 0.0

    def _uniform(self, A, size, rng):
        return self.family.draw_uniform(size, rng)

    def theory_step(self) -> float:
        """Return η = √(2αδ/(BT)), α = 1, δ = ½ (Theorem 3.1), with B from :func:`gradient_bound`."""
        scale = self.problem.scale
        if math.isinf(self.family.size()):
            raise ValueError(
                "step='theory' of MirrorDescent needs a family of finitely many kernels: over a continuum the gradient "
                "estimate has no bound; use step='normalised'."
            )
        if self.family.factorises and scale.base is None and scale.how is not None:
            raise ValueError(
                "step='theory' of MirrorDescent needs normalize='base' or None on a family of products: other "
                "scales leave the gradient estimate without a bound."
            )
        bound = gradient_bound(self.problem, self.solver.p, self.solver.sampling)
        return 1.0 / (bound * math.sqrt(self.solver.max_iter))

    # -- the end -----------------------------------------------------------------------------------------

    def result(self) -> Result:
        """Solve the machine at the average, scaled to the sphere, and certify it."""
        active = self.active
        theta = np.pad(self.sum, (0, len(active) - len(self.sum))) if self.sum.any() else active.theta
        length = float(np.linalg.norm(theta))
        active.set(theta / length if length > 0 else theta)
        fit = active.solve()
        norms = active.norms(fit)
        objective = active.objective(fit, norms)
        gap = self.gap_at(fit, objective)
        combination = active.combination(norms)
        return Result(
            predictor=active.predictor(fit, combination),
            combination=combination,
            objective=objective,
            gap=gap.value,
            gap_kind=gap.kind,
            n_iter=len(self.log),
            converged=gap.kind == "exact" and gap.value <= self.solver.tol * objective + self.floor,
            trace=self.log.trace(gap_error=(gap.error,), effective_share=(self.effective_share(fit.A),)),
            dual_coef=fit.A,
            intercept=active.intercept(fit),
        )


def gradient_bound(problem: Problem, p: float, sampling: str) -> float:
    """Return √B: a bound on the norm of the gradient estimate that holds at every θ.

    The estimate is (λ/2) g_z/q_z. When z is drawn in proportion to g (over ordered tuples, for products) that is at
    most (λ/2) Σ_z g_z = (λ/2) tr(Aᵀ K A) with K the sum of all scaled kernels, and
    tr(Aᵀ K A) <= λ_max(K) ‖A‖². Uniform drawing multiplies it by the number of members. ‖A‖ is bounded by the slope
    of the loss, or by its value at f = 0 where the slope is not bounded.
    """
    pb = problem
    s = pb.sample_weight
    start = float(s @ pb.loss.value(pb.Y, np.zeros(pb.Y.shape)))
    if pb.loss.lipschitz:
        slope_sq = 2.0 if pb.loss.multiclass else pb.n_outputs * pb.loss.slope**2
        norm_sq = pb.C**2 * slope_sq * float(s @ s)
    else:  # |ℓ'|² <= 2ℓ for the squared loss, 4ℓ for the squared hinge, and Σ s ℓ never exceeds its start
        norm_sq = pb.C**2 * {"squared": 2.0, "squared_hinge": 4.0}[pb.loss.name] * float(s.max()) * start
    K = pb.family.proposal_gram(pb.X, pb.scale, p)
    top = float(np.linalg.eigvalsh(K)[-1]) if K.ndim == 2 else float(K.sum())  # a diagonal: its trace
    members = pb.family.size() if sampling == "uniform" else 1.0
    return members * norm_sq * top / (2 * pb.C * pb.n_rows)
