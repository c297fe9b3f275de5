"""p-norm multiple kernel learning, online and then in stochastic batches, and its elastic-net relative.

:class:`Obscure` (Orabona, Jie and Caputo 2012) takes an online stage (Algorithm 1) whose last line bounds the norm of
the optimal predictor by R, then proximal stochastic steps within that ball (Algorithm 2); :class:`Ufo` (Orabona and Jie
2011) is the second stage alone, with a threshold on the kernels' norms. An epoch is one pass over the rows in random
order. The room:

- ``sequential``: the state, which is one set of coefficients shared by all kernels, and its passes, in memory or in
  blocks of rows;
- ``examples``: the same for losses that are known by their most violating output, over examples of several rows;
- ``_steps``: the compiled loop over the rows, with the line numbers of the algorithms.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from ..._util.checks import AUTO, FLAG, Rule, choice, number, whole
from ..._util.memory import parse_bytes
from ...certificates import conjugate_exponent, norm
from ...certificates import penalties as group_penalties
from ...families.base import Enumerable
from ...problem import StopReason, nu_of
from ..base import Solver, generator, result_of
from ..log import Log
from ..loop import ROUNDING, Descent, relative_gap, small_gap, warn_early, warn_interrupted
from ..workspace import Iterate
from .examples import ExamplePasses
from .sequential import Passes, StepRule

#: The decrease of the objective is judged over this many epochs: exactly in the online stage; in the second at least,
#: or over a quarter of all so far.
WINDOW = 10
#: Epochs of an online stage with a smaller relative decrease than this, whatever `tol`, find no better region.
LEAST_FALL = 1e-5
#: Most epochs of an online stage that runs to its end: none of our data sets needed more (q = 10,001).
ENOUGH_ONLINE = 3000
#: Of one that another stage follows, the most in units of q = p/(p - 1), which Theorem 4's number grows with: pendigits
#: took 7 at q = 101 and 16 at q = 2. What is left to find is then left to the second stage.
MOST_ONLINE_PER_Q = 30
#: Kernel values that updates of an online stage may take, half a minute's work, before as many epochs are enough.
MOST_VALUES = 1e10
#: What to say of an end at a gap that was not asked for. The end of an online stage alone is no such end.
ADVICE = {
    "settled": "the objective hardly falls any more: raise tol, or use LpNorm, which closes the gap",
    "epochs": "the objective is still falling: raise epochs or tol",
    "online_epochs": "R is still falling: raise online_epochs",
}
#: What these ends are called for all solvers.
ENDINGS: dict[str, StopReason] = {
    "settled": "no_progress",
    "online": "no_progress",
    "epochs": "max_iter",
    "online_epochs": "max_iter",
    "gap": "gap",
    "callback": "callback",
    "interrupted": "interrupted",
}
#: The automatic step of the online stage, in units of 1/L²: Theorem 4's R is then at most 4 times the least norm.
ONLINE_STEP = 2.0


class _Stochastic(Solver):
    """What Obscure and Ufo share: passes over the rows in random order, the best iterate of all, and when to stop."""

    requires = (Enumerable,)
    losses = ("max_hinge", "hinge", "logistic", "squared", "squared_hinge", "softmax")
    rules: ClassVar[Mapping[str, Rule]] = {"epochs": whole(1), "tol": number(), "average": FLAG}
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
        """Check `memory`, besides the rules."""
        super().check_params()
        self._bytes()

    def _bytes(self) -> int:
        return parse_bytes(self.memory, f"memory of {type(self).__name__}")

    @abstractmethod
    def norm(self, n_members: int) -> float:
        """Return p for a number of kernels."""

    @abstractmethod
    def _stages(self, run: _Epochs) -> Iterator[Iterate]:
        """Yield an iterate an epoch."""

    def solve(self, problem, init=None, on_iteration=None):
        """Pass over the rows until the objective has settled."""
        self.check_params()
        log = Log(on_iteration, time.perf_counter())
        p = self.norm(problem.family.size())
        kind = ExamplePasses if problem.loss.structured else Passes
        passes = kind(problem, p, self._bytes(), bool(self.average), self.penalties)
        run = _Epochs(self, passes, log)
        descent = run.descent
        descent.run(self._stages(run))
        best = passes.tightened(run.best())
        converged = small_gap(best, self.tol, descent.floor)
        self._say(run, relative_gap(best.gap, best.objective, descent.floor), converged)
        trace = log.trace(updates=tuple(run.updates), stage=tuple(run.stages), ending=(run.ending,))
        result = result_of(passes.predictor(best), best, trace, n_iter=len(log), converged=converged)
        return replace(result, ending="gap" if converged else ENDINGS[run.ending])

    def _say(self, run: _Epochs, gap: float, converged: bool) -> None:
        """Warn of an end at a gap above `tol`, with its reason, unless the callback asked for it."""
        n_iter = run.descent.n_iter
        if run.descent.interrupted:
            warn_interrupted(n_iter, "epochs", gap)
        elif not converged and run.ending in ADVICE:
            warn_early(self, n_iter, "epochs", gap, f"above tol={self.tol:g}; {ADVICE[run.ending]}")


class _Epochs:
    """The epochs of one fit.

    Attributes
    ----------
    descent : Descent
        Keeps the best iterate; of equals, the first.
    start : float
        P at f = 0.
    updates, stages : list
        The number of updates in every epoch, and the name of its stage.
    settled : bool
        Whether the objective of the last stage has settled.

    An online stage ends when an epoch has nothing left to correct (Theorem 4: where the rows can be separated, after a
    finite number of updates), or when the least R so far, R² = 2P/λ (Alg. 1, line 10), is what it was ten epochs ago.
    """

    def __init__(self, solver: _Stochastic, passes: Passes, log: Log):
        self.tol, self.passes = solver.tol, passes
        self.rng = generator(solver.random_state)
        self.start = passes.start_value()
        floor = ROUNDING * self.start
        self.descent = Descent(solver.tol, floor, log=log, predictor=passes.predictor, later=False)
        self.updates: list[int] = []
        self.stages: list[str] = []
        self.settled = False

    @property
    def ending(self) -> str:
        """Why the epochs ended."""
        descent = self.descent
        told = (("interrupted", descent.interrupted), ("gap", descent.closed), ("callback", descent.stopped))
        online = self.stages[-1] == "online"
        own = ("online", "online_epochs") if online else ("settled", "epochs")
        return next((why for why, holds in told if holds), own[0] if self.settled else own[1])

    def best(self) -> Iterate:
        """Return the best iterate; f = 0 where rows of very unequal weight have left none that is better."""
        found = self.descent.answer
        better = self.descent.closed or found.objective <= self.start
        return found if better else self.passes.nothing()

    def __call__(
        self, stage: str, rule: StepRule, most: int, most_updates: float = np.inf
    ) -> Iterator[Iterate]:
        """Yield the iterates of up to `most` epochs, fewer when the objective settles or updates have been very many.

        Updates count after the first `MOST_ONLINE_PER_Q` epochs only.
        """
        n, first = self.passes.n_visits, len(self.updates)
        values: list[float] = []
        self.settled = False
        for epoch in range(1, most + 1):
            updates = self.passes.run(self.rng.permutation(n), rule)
            iterate = self.passes.evaluate(rule)
            self.updates.append(updates)
            self.stages.append(stage)
            values.append(iterate.objective)
            self.settled = self._has_settled(values) if rule.batch else self._is_through(updates, values)
            yield iterate
            many = epoch >= MOST_ONLINE_PER_Q and sum(self.updates[first:]) > most_updates
            if self.settled or many:
                return

    def _is_through(self, updates: int, values: list[float]) -> bool:
        """Whether an online stage is at its end: no updates, or ten epochs that did not lower the least objective.

        By more than `tol` each, or `LEAST_FALL` where that is more. One such epoch would do but for chance: it ends
        with up to four times the objective that is possible.
        """
        if not updates or len(values) <= WINDOW:
            return not updates
        before = min(values[:-WINDOW])
        return before - min(values[-WINDOW:]) <= WINDOW * max(self.tol, LEAST_FALL) * abs(before)

    def _has_settled(self, values: list[float]) -> bool:
        """Whether the mean objective of a window is hardly below that of the window before.

        Single epochs are too noisy to tell a stall from the end.
        """
        window = max(WINDOW, len(values) // 4)
        if len(values) < 2 * window:
            return False
        last = float(np.mean(values[-window:]))
        return float(np.mean(values[-2 * window : -window])) - last <= window * self.tol * abs(last)


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
    online_epochs : "auto" or int
        Most passes of the online stage. ``"auto"`` lets it run to its end: a pass that has nothing to correct, or ten
        that do not lower R by `tol` each, or by 1e-5 where `tol` is less; 3,000 at most, and 30 p/(p-1) where a second
        stage follows; no more than 30 where their updates took 10^10 kernel values. Theorem 4 allows for passes in
        proportion to p/(p-1).
    epochs : int
        Most passes of the second stage.
    tol : float
        Relative duality gap at which to stop, and relative decrease of the objective per epoch at which a stage has
        settled, online 1e-5 at least. Online the least so far is compared with that of ten epochs before; in the second
        stage, which is noisier, the mean over the last quarter of the epochs with that of the quarter before.
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
    Takes families that can be listed, the losses of classes, and the squared one. A pass costs O(n m c), and O(n m) for
    each update and each output it touches: two for the max-hinge. :class:`~manykernels.losses.Structured` losses go
    with `solve` on a problem with ``groups``, not with estimators: P is then a mean over examples, D that of the
    outputs met.

    ``converged_`` says that the gap is within `tol`. Stochastic steps seldom get there: most fits end when the
    objective has settled, with a warning that says how large the gap is (``trace_.extra["ending"]``: ``"gap"``,
    ``"settled"``, ``"epochs"``, ``"callback"`` or ``"interrupted"``). ``stage="online"`` is not after the gap: it ends
    as ``"online"``, without a warning, or as ``"online_epochs"``. ``gap_`` is exact at the returned coefficients;
    where these leave the dual's domain, at their largest feasible multiple or at the nearest feasible point, whichever
    is better (in ``trace_`` at the former). The best iterate of both stages, f = 0 included, is
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

    rules: ClassVar = {
        **_Stochastic.rules,
        "p": number(1, 2, open="left"),
        "stage": choice("both", "online", "batch"),
        "eta": AUTO | number(open="left"),
        "online_epochs": AUTO | whole(1),
        "radius": AUTO | number(open="left", infinite=True),
    }

    def __init__(
        self,
        p=1.1,
        *,
        stage="both",
        eta="auto",
        online_epochs="auto",
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

    def norm(self, n_members: int) -> float:
        """Return p."""
        return self.p

    def _stages(self, run):
        passes = run.passes
        longest = longest_step(passes)
        if self.stage != "batch":
            eta = min(online_step(passes) if self.eta == "auto" else float(self.eta), longest)
            yield from run("online", StepRule(batch=False, eta=eta), *self._most_online(passes))
        if self.stage == "online":
            return
        radius, best = self._radius(run), run.descent.best
        if np.isinf(radius) or (best is not None and best.objective >= run.start):
            passes.restart()
        passes.project(radius)
        yield from run("batch", StepRule(batch=True, eta=longest, radius=radius), self.epochs)

    def _most_online(self, passes: Passes) -> tuple[int, float]:
        """Return the most epochs of the online stage, and its most updates."""
        if self.online_epochs != "auto":
            return self.online_epochs, np.inf
        own = MOST_ONLINE_PER_Q * conjugate_exponent(self.p)
        epochs = ENOUGH_ONLINE if self.stage == "online" else int(min(ENOUGH_ONLINE, own))
        return epochs, MOST_VALUES / (len(passes.Y) * len(passes.members))

    def _radius(self, run) -> float:
        """Return R (Alg. 1, line 10): no better predictor can have a larger norm."""
        if self.radius != "auto":
            return float(self.radius)
        best = run.descent.best
        value = run.start if best is None else min(run.start, best.objective)
        return float(np.sqrt(2.0 * value / run.passes.lam))


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
    Takes families that can be listed, the losses of classes, and the squared one.
    At alpha = 0 its iterates are those of
    Pegasos-MKL, ``Obscure(p, stage="batch", radius=np.inf)``. With alpha > 0 the weights have ‖θ‖_ν
    below 1, and ``objective_`` and ``gap_`` include the sum of norms. Departs from the reference as Obscure does.

    References
    ----------
    Orabona, Jie (2011), *Ultra-Fast Optimization Algorithm for Sparse Multi Kernel Learning*, ICML, Algorithm 1.
    """

    rules: ClassVar = {**_Stochastic.rules, "alpha": number(), "p": AUTO | number(1, 2, open="left")}

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

    def norm(self, n_members: int) -> float:
        """Return p for a number of kernels."""
        if self.p != "auto":
            return float(self.p)
        q = max(2.0, 2.0 * np.log(n_members))
        return float(q / (q - 1.0))

    def penalties(self, u, g, lam, members=()):
        """Return the elastic-net penalty of the norms u, over λ/2, and its conjugate at g."""
        p, threshold = self.norm(len(u)), self.alpha / lam
        if threshold == 0:
            return group_penalties(u, g, p)
        left = np.maximum(np.sqrt(g) - threshold, 0.0)
        return norm(u, p) ** 2 + 2 * threshold * float(u.sum()), norm(left**2, conjugate_exponent(nu_of(p)))

    def _stages(self, run):
        passes = run.passes
        rule = StepRule(batch=True, eta=longest_step(passes), threshold=self.alpha / passes.lam)
        yield from run("batch", rule, self.epochs)


def online_step(passes: Passes) -> float:
    """Return the automatic step of the online stage."""
    loss, c = passes.problem.loss, passes.Y.shape[1]
    slope_sq = min(c, 2) if loss.multiclass else c
    return ONLINE_STEP / (slope_sq * float(np.average(passes.push_sq(), weights=passes.s)))


def longest_step(passes: Passes) -> float:
    """Return the longest step at which no row's correction overshoots; any will do when the slope is bounded."""
    loss = passes.problem.loss
    if loss.lipschitz:
        return np.inf
    curvature = 2.0 if loss.name == "squared_hinge" else 1.0
    return 1.0 / (curvature * float(np.max(passes.push_sq() * passes.s)))
