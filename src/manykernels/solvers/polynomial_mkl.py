"""A power of a learned sum of kernels: polynomial kernels with one weight per base kernel."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from .._util.allowance import exhausted, limited, most_work
from .._util.checks import FLAG, NO_NUMBERS, Rule, choice, number, whole
from .._util.interrupts import Interruptible
from .._util.text import brief, warn
from .._util.threads import one_blas_thread
from ..certificates import mean_loss
from ..combination import Combination, power, quotient
from ..families import Products
from ..families.base import Enumerable
from ..kernels.plain import whole_power
from ..machines import Fit, solve_dual
from ..predictors import Dual
from ..problem import Problem, Result
from .base import ROUGH, Solver, check_init, generator
from .log import Log
from .loop import ROUNDING, less_work
from .projected import SAME, Point, onto_ball, spectral_steps
from .workspace import ONE_THREAD, check_size

#: Degree where neither the solver nor the family has one.
DEGREE = 2


class PolynomialMKL(Solver):
    r"""A power of a weighted sum of base kernels, the weights learned together with a ridge machine (NLMKL).

    minimise over θ in the set and f:  (1/n) Σ s_t ½(y_t - f(x_t))² + (λ/2) (‖f‖²_κ + ‖b‖²),

    κ = (θ_0 + Σ_i θ_i κ_i/ρ_i²)^D - θ_0^D,  θ >= 0,  ‖θ - centre‖ <= radius in the 1-norm or the 2-norm.

    All products of D base kernels, r^D of them with their orderings, share r weights: that of a product is the product
    of its factors' weights. **The problem is not convex** for D > 1. What is returned is the best of several starts,
    each of which ends where the gradient allows no more descent; no gap is known, and ``gap_kind_`` is ``"none"``.

    Parameters
    ----------
    degree : int, optional
        D. By default that of the family for :class:`Products`, and 2 for a list.
    constant : bool
        Whether a constant is among the base kernels, with a weight θ_0 of its own: then products of fewer than D
        factors belong to the kernel, too. The constant alone is the intercept's. Nothing for D = 1.
    norm : {1, 2}
        Of the set.
    radius : float
        Λ, of the set. With ``centre=0`` it says no more than C does: κ grows by radius^D.
    centre : float or sequence of float
        θ₀ of the reference: one number for all, or one for every base kernel, and then one for the constant.
        Not negative.
    starts : int
        Even weights first (or `init`), then random ones.
    tol : float
        A start ends where the linearised objective falls by no more than this, relatively, anywhere in the set.
    max_iter : int
        Most steps of a start.
    random_state : int, Generator, RandomState or None
        For the starts.

    Notes
    -----
    Squared loss; regression of one or several targets, and classes by their codes. Families that can be listed, whose
    members are the base kernels; of :class:`Products` the base kernels, and the degree. ``combination_`` and
    ``weights_`` have one entry per base kernel, ``combination_.constant`` is θ_0 and ``combination_.degree`` is D.
    ``contributions`` shares every product out evenly among its factors. ``trace_.extra`` has the objective that each
    start reached (``"starts"``), and for the best one the relative decrease that `tol` speaks of (``"slope"``), which
    for D = 1, a convex problem, is the duality gap.

    A step costs one factorisation of a matrix of all pairs of rows, n³/3, and two passes over the base kernels, r n²
    each. As κ grows with every weight the best weights lie on the boundary of the set that is farther from zero.

    D = 1 on the 2-norm ball around zero is :class:`LpNorm` with p = 4/3, and on the 1-norm ball p = 1.

    Departures from the reference: an intercept, and the power of the constant alone left to it; scales ρ_i; the length
    of a step by the last one's curvature and a line search, in place of a fixed rate; several starts; and stopping on
    the decrease that is left, to first order.

    References
    ----------
    Cortes, Mohri, Rostamizadeh (2009), *Learning non-linear combinations of kernels*, Algorithm 1 (NLMKL).
    Afkanpour (2013), *Multiple Kernel Learning with Many Kernels*, eq. (2.16), (2.17).
    """

    requires = (Enumerable,)
    losses = ("squared",)
    accepts_init = True
    needs_grams = True
    p = None
    rules: ClassVar = {
        "degree": whole(1, 100) | Rule("None", lambda value: value is None),
        "constant": FLAG,
        "norm": choice(1, 2),
        "radius": number(open="left"),
        "starts": whole(1),
        "tol": number(),
        "max_iter": whole(1),
    }

    def __init__(
        self,
        degree=None,
        *,
        constant=True,
        norm=2,
        radius=1.0,
        centre=0.0,
        starts=3,
        tol=1e-4,
        max_iter=200,
        random_state=None,
    ):
        self.degree = degree
        self.constant = constant
        self.norm = norm
        self.radius = radius
        self.centre = centre
        self.starts = starts
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def check_params(self):
        """Check the centre, too."""
        super().check_params()
        try:
            centre = np.asarray(self.centre, dtype=float)
            fine = centre.ndim <= 1 and bool((np.isfinite(centre) & (centre >= 0)).all())
        except NO_NUMBERS:
            fine = False
        if not fine:
            raise ValueError(
                f"centre of PolynomialMKL is {brief(self.centre)}; use a number of at least 0, or a list of them."
            )

    def check_compatible(self, family, loss):
        """Refuse priors and degrees that the power has no room for."""
        super().check_compatible(family, loss)
        if not isinstance(family, Products):
            return
        if family.degree_prior is not None:
            raise ValueError(
                "degree_prior of Products is given, but PolynomialMKL weighs degrees by the constant; leave it out."
            )
        if self.degree not in (None, family.degree):
            raise ValueError(
                f"degree of PolynomialMKL is {self.degree}, and that of Products {family.degree}; leave the former out."
            )

    def default_loss(self, n_classes):
        """Return the squared loss, whatever the targets are."""
        return "squared"

    def rough(self):
        """Return a copy with one start that stops early."""
        return clone(self).set_params(starts=1, tol=max(self.tol, ROUGH))

    def solve(self, problem, init=None, on_iteration=None):
        """Descend from every start, and keep the best end."""
        self.check_params()
        self.check_compatible(problem.family, problem.loss)
        task = _Power(self, problem)
        run = _Descents(self, task, Log(on_iteration, time.perf_counter()))
        small = problem.n_rows < ONE_THREAD  # threads under small matrices cost more than they bring
        with (
            Interruptible(lambda: None if run.best is None else "") as guard,
            one_blas_thread() if small else nullcontext(),
            limited(most_work(problem.n_rows)),
        ):
            run.all_starts(task.starts(init, generator(self.random_state)))
        run.warn(guard.interrupted)
        return run.result()


@dataclass(frozen=True, eq=False)
class _Known:
    """At a θ: the sum of the base kernels with the constant, entry by entry, and the machine on its power."""

    total: np.ndarray
    fit: Fit


class _Power:
    """J(θ), its gradient -(λ/2) g and the set of weights: of base kernels that do not vanish, then of the constant."""

    def __init__(self, solver: PolynomialMKL, problem: Problem):
        self.solver, self.problem = solver, problem
        family: Any = problem.family
        products = isinstance(family, Products)
        self.family = family.base_kernels(problem.X.shape[1]) if products else family
        self.degree = solver.degree or (family.degree if products else DEGREE)
        self.members = self.family.members()
        self.rho_sq = self._scales(products)
        self.alive = np.flatnonzero(self.rho_sq > 0)
        if not len(self.alive):
            raise ValueError(
                "kernels: every kernel vanishes on the training rows; check that X is not all zeros."
            )
        self.bank = self.family.bank(problem.X, [self.members[i] for i in self.alive.tolist()])
        self.has_constant = solver.constant and self.degree > 1
        self.size = len(self.alive) + self.has_constant
        self.centre = self._centre()
        self.lam = 1.0 / (problem.C * problem.n_rows)
        self._last: Fit | None = None

    def _scales(self, products) -> np.ndarray:
        """Return ρ_i² of the base kernels."""
        scale, family = self.problem.scale, self.problem.family
        if not products:
            return scale.rho_sq(self.members, 1.0)
        if isinstance(scale.how, np.ndarray):
            raise ValueError(
                "normalize has one number for each product, but PolynomialMKL weighs base kernels; use 'trace', 'base' "
                "or None."
            )
        means = family.base_means(scale)  # type: ignore[attr-defined]
        return np.ones(len(self.members)) if means is None else means

    def _centre(self) -> np.ndarray:
        given, r = np.asarray(self.solver.centre, dtype=float), len(self.members)
        if given.ndim and len(given) not in (r, r + self.has_constant):
            raise ValueError(
                f"centre of PolynomialMKL has {len(given)} numbers for {r} base kernels; give one each, and one more "
                "for the constant."
            )
        full = np.broadcast_to(given, r + 1) if not given.ndim else np.append(given, 0.0)[: r + 1]
        return np.append(full[self.alive], full[r])[: self.size]

    # -- the set -----------------------------------------------------------------------------------------

    def project(self, theta):
        """Return the nearest weights in the set."""
        return onto_ball(theta, self.centre, float(self.solver.radius), self.solver.norm)

    def starts(self, init, rng) -> Iterator[np.ndarray]:
        """Yield even weights, or those given, then random ones, all on the boundary."""
        alive = np.zeros(len(self.members), dtype=bool)
        alive[self.alive] = True
        given = check_init(init, alive)
        if given is None:
            yield self._boundary(np.ones(self.size))
        else:
            yield np.append(given[self.alive], given[self.alive].mean())[: self.size]
        for _ in range(self.solver.starts - 1):
            yield self._boundary(np.square(rng.exponential(size=self.size)))

    def _boundary(self, away: np.ndarray) -> np.ndarray:
        return self.centre + float(self.solver.radius) * away / np.linalg.norm(away, self.solver.norm)

    def left(self, point: Point, slope: np.ndarray) -> float:
        """Return how much the linearised objective can fall within the set: its gradient is nowhere positive."""
        dual = np.linalg.norm(slope, np.inf if self.solver.norm == 1 else 2)
        return float(self.solver.radius * dual + slope @ (point.theta - self.centre))

    # -- the objective -------------------------------------------------------------------------------------

    def weights(self, theta) -> tuple[np.ndarray, float]:
        """Return the factors of the base kernels that do not vanish, and the constant."""
        r = len(self.alive)
        return theta[:r] / self.rho_sq[self.alive], float(theta[r]) if self.has_constant else 0.0

    def at(self, theta):
        """Return J(θ): one pass over the base kernels, and the machine."""
        pb = self.problem
        weights, constant = self.weights(theta)
        T = self.bank.gram(weights)
        with np.errstate(over="ignore", invalid="ignore"):
            K = power(T, self.degree, constant)
        check_size(K.sum(), K.trace())
        K += 1.0  # the intercept: a constant kernel of weight 1
        fit = solve_dual(K, pb.Y, pb.loss, pb.C, pb.sample_weight, start=self._last)
        self._last = fit
        value = mean_loss(pb.loss, pb.Y, fit.F, pb.sample_weight) + self.lam / 2 * float(
            np.vdot(fit.A, fit.F)
        )
        T += constant
        return Point(theta, value, _Known(T, fit))

    def slope(self, point):
        """Return -(λ/2) g with g_i = D <AAᵀ ∘ (θ_0 + T)^(D-1), K_i>/ρ_i²: one more pass."""
        A, D = point.known.fit.A, self.degree
        M = D * (A @ A.T) * whole_power(point.known.total, D - 1)
        g = self.bank.inner_products(M) / self.rho_sq[self.alive]
        if self.has_constant:
            _, constant = self.weights(point.theta)
            g = np.append(g, M.sum() - D * constant ** (D - 1) * float(np.square(A.sum(axis=0)).sum()))
        return -self.lam / 2 * np.maximum(g, 0.0)

    def combination(self, point: Point) -> Combination:
        """Return the kernel, with the norms of the parts that the products have when shared out among their factors."""
        weights, constant = self.weights(point.theta)
        A, theta = point.known.fit.A, point.theta[: len(self.alive)]
        rest = quotient(point.known.total - constant, self.degree, constant)
        forms = self.bank.inner_products((A @ A.T) * rest) / self.rho_sq[self.alive]
        full, norms = np.zeros(len(self.members)), np.zeros(len(self.members))
        full[self.alive], norms[self.alive] = weights, theta * np.sqrt(np.maximum(forms, 0.0))
        return Combination(
            self.family, self.members, full, np.sqrt(self.rho_sq), norms, self.degree, constant
        )


class _Descents:
    """Descents from several starts: the best point of all, and how each of them ended."""

    def __init__(self, solver: PolynomialMKL, task: _Power, log: Log):
        self.solver, self.task, self.log = solver, task, log
        self.best: Point | None = None
        self.left = np.inf  # what the linearised objective could still fall by, at the best
        self.ends: list[float] = []
        self.stopped = self.exhausted = False

    def all_starts(self, starts) -> None:
        """Descend from one start after the other."""
        for start in starts:
            self.ends.append(np.inf)
            self._descend(start)
            self.exhausted = exhausted()
            if self.stopped or self.exhausted:
                return

    def _descend(self, start) -> None:
        for k, (point, slope) in enumerate(spectral_steps(self.task, start), start=1):
            left = self.task.left(point, slope)
            self.ends[-1] = min(self.ends[-1], point.value)
            if self._better(point, left):
                self.best, self.left = point, left
            self.stopped = self.log.add(point.value, np.nan, int(np.count_nonzero(point.theta)))
            if (
                self.stopped
                or left <= self.solver.tol * point.value + self._floor
                or k >= self.solver.max_iter
                or exhausted()
            ):
                return

    def _better(self, point: Point, left: float) -> bool:
        """Whether a point's value is lower than the best, or the same to rounding where less is left to gain."""
        if self.best is None:
            return True
        below = (self.best.value - point.value) / max(abs(self.best.value), np.finfo(float).tiny)
        return below > SAME or (below >= -SAME and left < self.left)

    @property
    def _floor(self) -> float:
        pb = self.task.problem
        return ROUNDING * mean_loss(pb.loss, pb.Y, np.zeros(pb.Y.shape), pb.sample_weight)

    @property
    def converged(self) -> bool:
        """Whether the best point is stationary, to the tolerance."""
        return self.best is not None and self.left <= self.solver.tol * self.best.value + self._floor

    def warn(self, interrupted: bool) -> None:
        """Say what ended the descents too early."""
        assert self.best is not None
        left = self.left / max(self.best.value, np.finfo(float).tiny)
        if interrupted:
            warn(
                f"Interrupted after {len(self.log)} steps; the best result so far is kept, where the linearised "
                f"objective can fall by {left:.1e} of it.",
                ConvergenceWarning,
            )
        elif not self.converged and not self.stopped:
            advice = less_work(self.task.problem) if self.exhausted else "raise max_iter or tol"
            warn(
                f"PolynomialMKL stopped after {len(self.log)} steps where the linearised objective can still fall by "
                f"{left:.1e} of it, above tol={self.solver.tol:g}; {advice}.",
                ConvergenceWarning,
            )

    def result(self) -> Result:
        """Return the best point, with its predictor."""
        assert self.best is not None
        fit, combination = self.best.known.fit, self.task.combination(self.best)
        b = fit.A.sum(axis=0)
        left = self.left / max(self.best.value, np.finfo(float).tiny)
        return Result(
            predictor=Dual.from_training(combination, self.task.problem.X, fit.A, b),
            combination=combination,
            objective=self.best.value,
            gap=np.nan,
            gap_kind="none",
            n_iter=len(self.log),
            converged=self.converged,
            trace=self.log.trace(starts=tuple(self.ends), slope=(left,)),
            dual_coef=fit.A,
            intercept=b,
            ending="max_work" if self.exhausted and not self.converged else None,
        )
