"""The steps of mirror descent, the gap of an iterate, and the bound that the theorem's step needs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._util.allowance import exhausted
from ...certificates import conjugate_exponent, norm
from ...families.bank import BANK_SIZES
from ...families.base import Enumerable, can
from ...problem import GapKind, Problem, Result
from ..active import FEW_MEMBERS, Active
from ..log import Log
from ..loop import ROUNDING
from .potentials import Power, potential_of

#: One-sided 95 % limit of a normal variable: what "upper confidence limit" means here.
QUANTILE = 1.645


@dataclass(frozen=True)
class _Gap:
    """An upper limit of the gap, its standard error (0 if exact), and what kind it is."""

    value: float
    error: float
    kind: GapKind


class Walk:
    """The state of Algorithm 1: kernels met, their weights, and the average."""

    def __init__(self, solver: Any, problem: Problem, log: Log, rng: np.random.Generator):
        self.solver, self.problem, self.log, self.rng = solver, problem, log, rng
        self.family: Any = problem.family
        self.potential = potential_of(solver.p, self.family.size())
        self.rows: Any = None  # draws from some rows, where not all are to be looked at
        self.open(solver.sampled_rows(problem.n_rows))
        self.draw = self.active.drawer() if self.rows is None else self.rows.draw
        self.forms = self.active.forms if self.rows is None else self.rows.forms
        self.sum = np.zeros(0)  # Σ η_k θ_k of the average
        self.squares = 0.0  # Σ_k of the squared estimates, for the normalised step
        self.unit = 1.0  # the step in units of the gradient, up to a constant
        self.stopped = self.exhausted = False
        self.floor = ROUNDING * self.loss_at_zero()
        self.eta = self.theory_step() if solver.step == "theory" else None
        self.potential.start(self.active)

    #: Once open.
    active: Active

    def open(self, n_rows: int | None) -> None:
        """Bind the kernels to the rows, and draws to some of these where a number of them is given."""
        problem = self.problem
        # Where weights are scaled and added to, so is the sum of the kernels, and none is needed twice.
        kept = BANK_SIZES.cache_bytes if isinstance(self.potential, Power) else 0
        self.active = Active(problem, self.solver.p, kept_bytes=kept)
        if n_rows is not None:
            self.rows = self.family.row_sampler(problem.X, problem.scale, n_rows)

    def loss_at_zero(self) -> float:
        """Return the mean loss at f = 0."""
        pb = self.problem
        return float(np.mean(pb.sample_weight * pb.loss.value(pb.Y, np.zeros(pb.Y.shape))))

    def steps(self) -> None:
        """Alg. 1, lines 2-7."""
        T = self.solver.max_iter
        check = max(1, T // 10)
        for k in range(1, T + 1):
            fit = self.active.solve()
            objective = self.objective_at(fit)
            due = k % check == 0 and k < T and self.solver.tol > 0
            gap = self.gap_at(fit, objective) if due else None
            known = math.nan if gap is None else gap.value
            self.stopped = self.log.add(objective, known, int(np.count_nonzero(self.active.theta)))
            if gap is not None and gap.value <= self.solver.tol * objective + self.floor:
                self.sum = self.active.theta.copy()  # the iterate itself is good enough
                return
            self.exhausted = exhausted()
            self.remember(k)
            if self.stopped or self.exhausted:
                return
            self.move(fit.A)

    def objective_at(self, fit) -> float:
        """Return P, or J(θ) over a continuum: there P would take all kernels met, evaluated anew in every step."""
        if math.isinf(self.family.size()):
            return self.active.value(fit)
        return self.active.objective(fit, self.active.norms(fit))

    def remember(self, k: int) -> None:
        """Add the iterate to the average; θ_0 counts for the theorem's step only."""
        if self.solver.average and (
            self.eta is not None or 2 * k > self.solver.max_iter or self.stopped or self.exhausted
        ):
            self.sum = np.pad(self.sum, (0, len(self.active) - len(self.sum)))
            self.sum += self.unit * self.active.theta

    def move(self, A) -> None:
        """Draw, step and project: Alg. 1, lines 3-6."""
        s = self.solver
        members, ratio, rho_sq = self.estimate(A)
        if not len(members):
            return
        if self.eta is not None:
            increments = self.eta * (self.active.lam / 2) * ratio
        else:
            self.squares += float(np.sum(np.abs(ratio))) ** 2 if s.draws > 1 else float(ratio @ ratio)
            mean_square = self.squares / len(self.log)
            if mean_square == 0:
                return
            self.unit = 1 / math.sqrt(mean_square)
            increments = ratio * self.unit * self.potential.reach / math.sqrt(s.max_iter)
        if (increments < 0).any():
            members, increments, rho_sq = self.merged(members, increments, rho_sq)
        self.potential.move(self.active, members, increments, rho_sq)

    def estimate(self, A):
        """Return drawn members, which may be repeated, with their share in the estimate of g (line 3), and ρ²."""
        s = self.solver
        if self.rows is not None and s.estimate == "halves":
            drawn = self.rows.draw_halves(A, s.draws, self.rng)
            members, q, g, rho_sq = self.gradients(A, drawn.members, drawn.probability, drawn.forms)
        else:
            draw = self.draw if s.sampling == "gradient" else self._uniform
            members, q, g, rho_sq = self.gradients(A, *draw(A, s.draws, self.rng))
        return members, g / (q * s.draws), rho_sq

    def merged(self, members, increments, rho_sq):
        """Return every member once; not those that would come in with a negative weight."""
        total: dict[Any, float] = {}
        for z, step in zip(members, increments.tolist(), strict=True):
            total[z] = total.get(z, 0.0) + step
        scale = dict(zip(members, rho_sq.tolist(), strict=True))
        kept = [z for z, step in total.items() if step > 0 or z in self.active.place]
        return kept, np.array([total[z] for z in kept]), np.array([scale[z] for z in kept])

    def gradients(self, A, members, q, forms=None):
        """Return the draws that can be fitted, with their g: not the constant, and not what vanishes.

        `forms` has estimates of tr(AᵀK_zA) where g is not to be computed from all rows.
        """
        keep = [i for i, z in enumerate(members) if z != ()]
        members, q = [members[i] for i in keep], q[keep]
        if not members:
            return members, q, np.zeros(0), np.zeros(0)
        distinct = list(dict.fromkeys(members))
        place = {z: i for i, z in enumerate(distinct)}
        of = [place[z] for z in members]
        rho_sq = self.active.rho_of(distinct)[of]
        forms = self.forms(A, distinct)[of] if forms is None else forms[keep]
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
        forms = self.forms(fit.A, members)
        g = np.divide(forms, rho_sq, out=np.zeros(len(members)), where=rho_sq > 0)
        return _Gap(objective - self.active.dual(fit, _dual_norm(g, self.potential.nu)), 0.0, "exact")

    def estimated_gap(self, fit, objective: float) -> _Gap:
        """Return the upper confidence limit of the gap, from Σ_i g_i^ν*.

        The sum is known over the kernels met, which have the largest g as a rule; over the others it is the mean of
        g_z^ν*/q_z over draws, in which a kernel that was met, or the constant, counts as 0.
        """
        size = self.solver.gap_draws
        exponent = conjugate_exponent(self.potential.nu)
        members, q, g, _ = self.gradients(fit.A, *self.draw(fit.A, size, self.rng))
        new = np.array([z not in self.active.place for z in members], dtype=bool)
        powers = np.pad(g[new] ** exponent / q[new], (0, size - int(new.sum())))
        error = float(powers.std(ddof=1) / math.sqrt(size)) if size > 1 else 0.0
        met = (
            np.maximum(self.active.forms(fit.A), 0.0) / self.active.rho_sq
            if len(self.active)
            else np.zeros(1)
        )
        total = float(np.sum(met**exponent)) + float(powers.mean())
        high, middle = _root(total + QUANTILE * error, exponent), _root(total, exponent)
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
        """Return η = √(2αδ/(BT)), α and δ the potential's (Theorem 3.1), with B from :func:`gradient_bound`."""
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
        # Of a single row there is nothing to learn but its mean, and any step will do.
        bound = gradient_bound(self.problem, self.solver.p, self.solver.sampling) or 1.0
        return self.potential.reach / (bound * math.sqrt(self.solver.max_iter))

    # -- the end -----------------------------------------------------------------------------------------

    def result(self) -> Result:
        """Solve the machine at the average, scaled to the sphere, and certify it."""
        active = self.active
        theta = np.pad(self.sum, (0, len(active) - len(self.sum))) if self.sum.any() else active.theta
        length = self.potential.size(theta)
        active.set(theta / length if length > 0 else theta)
        fit = active.explicit(active.solve())
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


def _root(value: float, exponent: float) -> float:
    return math.sqrt(value) if exponent == 2 else value ** (1 / exponent)


def _dual_norm(g: np.ndarray, nu: float) -> float:
    """Return ‖g‖_ν*."""
    return float(np.linalg.norm(g)) if nu == 2 else norm(g, conjugate_exponent(nu))


def gradient_bound(problem: Problem, p: float, sampling: str) -> float:
    """Return √B: a bound on the norm of the gradient estimate that holds at every θ.

    The estimate is (λ/2) g_z/q_z. When z is drawn in proportion to g (over ordered tuples, for products) that is at
    most (λ/2) Σ_z g_z = (λ/2) tr(Aᵀ K A) with K the sum of all scaled kernels, and
    tr(Aᵀ K A) <= λ_max(K) ‖A‖². Uniform drawing multiplies it by the number of members, or of ordered tuples. ‖A‖ is
    bounded by the slope of the loss, or by its value at f = 0 where the slope is not bounded.
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
    members = pb.family.n_uniform() if sampling == "uniform" else 1.0
    return members * norm_sq * top / (2 * pb.C * pb.n_rows)
