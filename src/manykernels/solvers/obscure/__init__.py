"""p-norm multiple kernel learning, online and then in stochastic batches, and its elastic-net relative."""

from __future__ import annotations

import numbers
import time
import warnings
from functools import partial
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..._util.memory import parse_bytes
from ...certificates import conjugate_exponent, norm
from ...certificates import penalties as group_penalties
from ...families.base import Enumerable
from ...problem import Problem, nu_of
from ..base import ROUNDING, Log, Solver, generator, result_of
from ..workspace import Iterate
from .sequential import Rule, Sweeps

#: The decrease of the objective is judged over this many epochs at least, or a quarter of all so far.
WINDOW = 10
#: The automatic step of the online stage, in units of 1/L²: Theorem 4's R is then at most 4 times the least norm.
ONLINE_STEP = 2.0


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


class _Stochastic(Solver):
    """What Obscure and Ufo share: passes over the rows in random order, the best iterate of all, and when to stop."""

    requires = (Enumerable,)
    losses = ("max_hinge", "hinge", "logistic", "squared", "squared_hinge", "softmax")
    epochs: int
    tol: float
    average: bool
    memory: Any
    random_state: Any

    def default_loss(self, n_classes):
        """Return the squared loss for regression, hinge for two classes, max-hinge for more."""
        if n_classes is None:
            return "squared"
        return "hinge" if n_classes <= 2 else "max_hinge"

    def check_params(self):
        """Check what both have."""
        self._check_whole("epochs", 1)
        if not (_is_number(self.tol) and self.tol >= 0):
            raise ValueError(f"tol of {self._name} is {self.tol!r}; it must be a number of at least 0.")
        parse_bytes(self.memory, f"memory of {self._name}")

    @property
    def _name(self) -> str:
        return type(self).__name__

    def _check_whole(self, name, least):
        value = getattr(self, name)
        if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < least:
            raise ValueError(
                f"{name} of {self._name} is {value!r}; it must be a whole number of at least {least}."
            )

    def _check_p(self):
        if not (_is_number(self.p) and 1 < self.p <= 2):
            raise ValueError(f"p of {self._name} is {self.p!r}; it must lie in (1, 2].")

    def _sweeps(self, problem: Problem, p: float) -> Sweeps:
        memory = parse_bytes(self.memory, f"memory of {self._name}")
        return Sweeps(problem, p, memory, bool(self.average), self.penalties)

    def solve(self, problem, init=None, on_iteration=None):
        """Pass over the rows until the objective has settled."""
        self.check_params()
        log = Log(on_iteration, time.perf_counter())
        run = _Run(self, problem, log)
        interrupted = False
        try:
            self._stages(run)
        except KeyboardInterrupt:
            if run.best is None:
                raise
            interrupted = True
        assert run.best is not None
        best = run.sweeps.tightened(run.best)
        relative = f"{best.gap / max(best.objective, run.floor, np.finfo(float).tiny):.1e}"
        if interrupted:
            text = f"Interrupted after {len(log)} epochs; the best so far is kept, with a relative gap of {relative}."
        else:
            text = (
                f"{self._name} stopped after {len(log)} epochs at a relative gap of {relative}, with the objective "
                f"still falling by more than tol={self.tol:g} an epoch; raise epochs or tol."
            )
        if interrupted or run.exhausted:
            warnings.warn(text, ConvergenceWarning, stacklevel=2)
        trace = log.trace(updates=tuple(run.updates), stage=tuple(run.stages))
        predictor = run.sweeps.predictor(best)
        return result_of(predictor, best, trace, n_iter=len(log), converged=run.settled and not interrupted)

    def _stages(self, run: _Run) -> None:
        raise NotImplementedError


class _Run:
    """The epochs of one fit."""

    def __init__(self, solver: Any, problem: Problem, log: Log):
        self.solver, self.log = solver, log
        self.rng = generator(solver.random_state)
        self.sweeps = solver._sweeps(problem, solver.norm(problem.family.size()))
        self.start = self.sweeps.start_value()
        self.floor = ROUNDING * self.start
        self.best: Iterate | None = None
        self.updates: list[int] = []
        self.stages: list[str] = []
        self.settled = self.closed = self.stopped = self.exhausted = False

    def epochs(self, stage: str, rule: Rule, most: int) -> None:
        """Run up to `most` epochs; fewer when the objective settles, the gap closes, or the callback says so."""
        n = self.sweeps.problem.n_rows
        values: list[float] = []
        self.settled = False
        for _ in range(most):
            updates = self.sweeps.run(self.rng.permutation(n), rule)
            iterate = self.sweeps.evaluate(rule)
            self.updates.append(updates)
            self.stages.append(stage)
            if self.best is None or iterate.objective < self.best.objective:
                self.best = iterate
            values.append(iterate.objective)
            self.stopped = self.log.add(iterate, partial(self.sweeps.predictor, iterate))
            self.closed = iterate.gap <= self.solver.tol * max(iterate.objective, 0.0) + self.floor
            done = not (rule.batch or updates)  # nothing left to correct
            self.settled = self.closed or done or self._has_settled(values)
            if self.stopped or self.settled:
                return
        self.exhausted = rule.batch

    def _has_settled(self, values) -> bool:
        """Whether the mean objective of a window is hardly below that of the window before.

        Single epochs are too noisy to tell a stall from the end.
        """
        window = max(WINDOW, len(values) // 4)
        if len(values) < 2 * window:
            return False
        last = float(np.mean(values[-window:]))
        return float(np.mean(values[-2 * window : -window])) - last <= window * self.solver.tol * abs(last)


class Obscure(_Stochastic):
    """OBSCURE: an online stage that finds the region, then proximal stochastic steps within it, 1 < p <= 2.

    minimise (1/n) Σ s_t ℓ(y_t, f(x_t)) + (λ/2) [(Σ_i ρ_i^p ‖w_i‖^p)^(2/p) + ‖b‖²].

    Both stages take the rows one by one, move the dual variable against the loss's subgradient at that row, and map
    it to all w_i at once: w_i ∝ (‖θ_i‖/‖θ‖_q)^(q-2) θ_i, q = p/(p-1). The rate does not depend on the number of rows,
    and falls with more kernels only by m^(1/q).

    Parameters
    ----------
    p : float
        Norm over kernels, 1 < p <= 2; small p is sparser, p = 2 is the plain sum.
    stage : {"both", "online", "batch"}
        Algorithm 1 and then 2, or one of them alone. ``stage="batch", radius=np.inf`` is Pegasos-MKL.
    eta : "auto" or float
        Step of the online stage. Larger steps need fewer updates and give a worse bound R.
    online_epochs : int
        Most passes of the online stage; it ends earlier when a pass has nothing to correct.
    epochs : int
        Most passes of the second stage.
    tol : float
        Relative decrease of the objective per epoch at which a stage has settled; the mean over the last quarter of
        the epochs is compared with that of the quarter before.
    radius : "auto" or float
        R, a bound on the norm of the optimal predictor. ``"auto"``: from the online stage (Alg. 1, line 10), or from
        f = 0 without one.
    average : bool
        Whether to look at the average of the dual variable over each epoch rather than at its last value.
    memory : int or str
        Bytes for kernel values, such as ``"1GiB"``. When all of them do not fit, those of the rows updated are
        computed in blocks. Tables of 8 n m c bytes, twice with `average`, come on top.
    random_state : int, Generator, RandomState or None

    Notes
    -----
    Takes families that can be listed, and every loss of the package. A pass costs O(n m c), and O(n m) for each update
    and each output it touches: two for the max-hinge.

    ``converged_`` means that the objective has settled; how far it may still be from the optimum is ``gap_``, exact at
    the returned coefficients; where these leave the dual's domain, at their largest feasible multiple or at the nearest
    feasible point, whichever is better (in ``trace_`` at the former). The best iterate of both stages is
    returned. A weight s_t scales the row's subgradient; as rows come in random order, it is not the same as a
    repetition of the row except at the optimum.

    Departs from the reference: rows come in a random order without repetition within an epoch; the intercept is a group
    of its own outside the norm; iterates are looked at once an epoch, averaged in the dual; the squared losses, whose
    slope is not bounded, never take a step at which one row's correction could overshoot. The second
    stage starts from zero when the first did not improve on that (it knows nothing of C), and with ``radius=np.inf``,
    as Pegasos' first step forgets where it came from.

    References
    ----------
    Orabona, Jie, Caputo (2012), *Multi Kernel Learning with Online-Batch Optimization*, JMLR 13, Algorithms 1 and 2.
    """

    def __init__(
        self,
        p=1.1,
        *,
        stage="both",
        eta="auto",
        online_epochs=10,
        epochs=120,
        tol=1e-4,
        radius="auto",
        average=True,
        memory="1GiB",
        random_state=None,
    ):
        self.p = p
        self.stage = stage
        self.eta = eta
        self.online_epochs = online_epochs
        self.epochs = epochs
        self.tol = tol
        self.radius = radius
        self.average = average
        self.memory = memory
        self.random_state = random_state

    def check_params(self):
        """Check the numbers and the names."""
        super().check_params()
        self._check_p()
        self._check_whole("online_epochs", 1)
        if self.stage not in ("both", "online", "batch"):
            raise ValueError(f"stage of Obscure is {self.stage!r}; use 'both', 'online' or 'batch'.")
        for name in ("eta", "radius"):
            value = getattr(self, name)
            if isinstance(value, str) and value == "auto":
                continue
            if not (_is_number(value) and value > 0) or (name == "eta" and np.isinf(value)):
                raise ValueError(f"{name} of Obscure is {value!r}; use 'auto' or a positive number.")

    def norm(self, n_members: int) -> float:
        """Return p."""
        return self.p

    def _stages(self, run):
        sweeps = run.sweeps
        longest = longest_step(sweeps)
        if self.stage != "batch":
            eta = min(online_step(sweeps) if self.eta == "auto" else float(self.eta), longest)
            run.epochs("online", Rule(batch=False, eta=eta), self.online_epochs)
        if self.stage == "online" or run.stopped or run.closed:
            return
        radius = self._radius(run)
        if np.isinf(radius) or (run.best is not None and run.best.objective >= run.start):
            sweeps.restart()
        sweeps.project(radius)
        run.epochs("batch", Rule(batch=True, eta=longest, radius=radius), self.epochs)

    def _radius(self, run) -> float:
        """Return R (Alg. 1, line 10): no better predictor can have a larger norm."""
        if self.radius != "auto":
            return float(self.radius)
        value = run.start if run.best is None else min(run.start, run.best.objective)
        return float(np.sqrt(2.0 * value / run.sweeps.lam))


class Ufo(_Stochastic):
    """UFO-MKL: dual averaging with an elastic-net penalty over kernels.

    minimise (1/n) Σ s_t ℓ(y_t, f(x_t)) + (λ/2) [(Σ_i ρ_i^p ‖w_i‖^p)^(2/p) + ‖b‖²] + α Σ_i ρ_i ‖w_i‖,

    with p = 2 log m/(2 log m - 1) unless given. After t rows with subgradients z, θ_i = -Σ z_i,
    v_i = max(‖θ_i‖ - αt, 0) and w_i = (v_i/‖θ_i‖) (v_i/‖v‖_q)^(q-2) θ_i/(λt): kernels below
    the threshold are exactly zero.

    Parameters
    ----------
    alpha : float
        Weight of the sum of norms; 0 gives the p-norm problem itself.
    p : "auto" or float
        Norm over kernels, 1 < p <= 2.
    epochs, tol, average, memory, random_state :
        As for :class:`Obscure`.

    Notes
    -----
    Takes families that can be listed, and every loss of the package. At alpha = 0 its iterates are those of
    Pegasos-MKL, ``Obscure(p, stage="batch", radius=np.inf)``. With alpha > 0 the weights have ‖θ‖_ν
    below 1, and ``objective_`` and ``gap_`` include the sum of norms. Departs from the reference as Obscure does.

    References
    ----------
    Orabona, Jie (2011), *Ultra-Fast Optimization Algorithm for Sparse Multi Kernel Learning*, ICML, Algorithm 1.
    """

    def __init__(
        self, alpha=0.0, *, p="auto", epochs=200, tol=1e-4, average=True, memory="1GiB", random_state=None
    ):
        self.alpha = alpha
        self.p = p
        self.epochs = epochs
        self.tol = tol
        self.average = average
        self.memory = memory
        self.random_state = random_state

    def check_params(self):
        """Check the numbers."""
        super().check_params()
        if not (_is_number(self.alpha) and np.isfinite(self.alpha) and self.alpha >= 0):
            raise ValueError(f"alpha of Ufo is {self.alpha!r}; it must be a finite number of at least 0.")
        if not (isinstance(self.p, str) and self.p == "auto"):
            self._check_p()

    def norm(self, n_members: int) -> float:
        """Return p for a number of kernels."""
        if self.p != "auto":
            return float(self.p)
        q = max(2.0, 2.0 * np.log(n_members))
        return float(q / (q - 1.0))

    def penalties(self, u, g, lam):
        """Return the elastic-net penalty of the norms u, over λ/2, and its conjugate at g."""
        p, threshold = self.norm(len(u)), self.alpha / lam
        if threshold == 0:
            return group_penalties(u, g, p)
        left = np.maximum(np.sqrt(g) - threshold, 0.0)
        return norm(u, p) ** 2 + 2 * threshold * float(u.sum()), norm(left**2, conjugate_exponent(nu_of(p)))

    def _stages(self, run):
        sweeps = run.sweeps
        rule = Rule(batch=True, eta=longest_step(sweeps), threshold=self.alpha / sweeps.lam)
        run.epochs("batch", rule, self.epochs)


def online_step(sweeps: Sweeps) -> float:
    """Return the automatic step of the online stage."""
    loss, c = sweeps.problem.loss, sweeps.Y.shape[1]
    slope_sq = min(c, 2) if loss.multiclass else c
    return ONLINE_STEP / (slope_sq * float(np.average(sweeps.push_sq(), weights=sweeps.s)))


def longest_step(sweeps: Sweeps) -> float:
    """Return the longest step at which no row's correction overshoots; any will do when the slope is bounded."""
    loss = sweeps.problem.loss
    if loss.lipschitz:
        return np.inf
    curvature = 2.0 if loss.name == "squared_hinge" else 1.0
    return 1.0 / (curvature * float(np.max(sweeps.push_sq() * sweeps.s)))
