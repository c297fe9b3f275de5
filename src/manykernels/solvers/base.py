"""The contracts of solvers, and the loop that all iterative batch solvers share."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning

from .._util.allowance import limited, most_work
from .._util.checks import NO_NUMBERS, Rule, check_parameters, number, whole
from .._util.text import brief, warn
from ..certificates import penalties
from ..combination import Combination
from ..families.base import CAPABILITIES, Direction, Enumerable, Family, can
from ..families.finite import Precomputed
from ..kernels.statistics import dense
from ..losses import Loss, get_loss
from ..predictors import Dual, Predictor
from ..problem import Problem, Result, Trace
from ..streaming.stream import MemoryStream, Stream
from .balancing import balance_pays, balanced_if_better
from .log import Log, OnIteration, Progress
from .log import Step as Step
from .log import logger as logger
from .loop import (
    PATIENCE,
    ROUNDING,
    Descent,
    less_work,
    relative_gap,
    small_gap,
    warn_early,
    warn_interrupted,
)
from .per_target import joined, of_targets
from .stream_run import BatchRun, Save, State, StreamRun, run_to_end
from .workspace import Iterate, Workspace

#: What to say where rounding ends the steps.
STALLED = "the last ones brought no progress: raise tol, lower C, or standardise the columns of X"
#: What columns of X and mean diagonals of kernels, and what targets, may be where features are in single precision.
FARTHEST_X, FARTHEST_Y = 1e30, 1e15
#: Relative gap of runs that are only compared with each other.
ROUGH = 1e-2


class Solver(BaseEstimator):
    """Base of all solvers.

    A solver takes a :class:`~manykernels.problem.Problem` and returns a
    :class:`~manykernels.problem.Result`. It declares what it needs of its partners, and
    ``check_compatible`` says in one sentence what is missing.

    Attributes
    ----------
    requires : tuple of protocols
        What the family must be able to do.
    losses : tuple of str or None
        Names of the losses it takes; None for all of targets.
    takes_joint : bool
        Whether it takes losses that are no sums over rows, or whose outputs share one f.
    accepts_init : bool
        Whether `init` means something: weights to start from.
    learns_bandwidths : bool
        Whether it chooses the bandwidths of a continuum, one per column, before it starts.
    chooses_C : bool
        Whether ``C="auto"`` means something.
    prefers_base_scale : bool
        Whether ``normalize="auto"`` means ``"base"`` on families that factorise.
    needs_grams : bool
        Whether it needs matrices of all pairs of rows even where kernels have explicit features.
    heredities : tuple of str
        Kinds of heredity of products that it respects.
    sums_rows : bool
        Whether it can do with sums over the rows, which may then lie in files or on a cluster: ``solve_rows``.
    gram_once : bool
        Whether these are a Gram matrix of all features, by which C is chosen, too: ``gram_once.solve_grams``.
    honest_left_out : bool
        Whether its scores of rows left out rest on kernels that these rows did not teach; those of other solvers are to
        calibrate by.
    cores : int
        Most cores that bring a fit forward; what ``work`` says is shared among them.
    rules : dict of str to Rule
        What each parameter may be.
    """

    requires: ClassVar[tuple[type, ...]] = ()
    losses: ClassVar[tuple[str, ...] | None] = None
    takes_joint: ClassVar[bool] = False
    prefers_base_scale: ClassVar[bool] = False
    accepts_init: ClassVar[bool] = False
    learns_bandwidths: ClassVar[bool] = False
    chooses_C: ClassVar[bool] = False
    needs_grams: ClassVar[bool] = False
    heredities: ClassVar[tuple[str, ...]] = ()
    sums_rows: ClassVar[bool] = False
    gram_once: ClassVar[bool] = False
    honest_left_out: ClassVar[bool] = False
    cores: ClassVar[int] = 8
    rules: ClassVar[Mapping[str, Rule]] = {}
    p: Any

    def work(self, problem: Problem, n_rows: int) -> dict[str, float]:
        """Return what there is to do, in order, and the seconds of each part on one core of the reference machine.

        `n_rows` are those of all batches. Empty where nobody knows beforehand; see :mod:`manykernels._util.pace`.
        """
        return {}

    def footprint(self, problem: Problem, n_rows: int) -> int:
        """Return about the bytes that a fit takes beside its rows and matrices of all pairs of them."""
        return 0

    @abstractmethod
    def solve(self, problem: Problem, init: Any = None, on_iteration: OnIteration | None = None) -> Result:
        """Solve the problem.

        Parameters
        ----------
        problem : Problem
        init : array, optional
            θ to start from, one entry per member.
        on_iteration : callable, optional
            Called with a :class:`Step` after every iteration; a true return value stops.
        """

    def candidates(self) -> list[Solver]:
        """Return the solvers to choose from: itself, or one for each value of a parameter that is ``"auto"``."""
        return [self]

    def rough(self) -> Solver:
        """Return a copy for runs that are only compared with each other, and need not be exact."""
        return clone(self)

    def check_params(self) -> None:
        """Raise ValueError when a parameter makes no sense; subclasses add what involves several of them."""
        check_parameters(self, self.rules)

    def check_weighs_targets(self) -> None:
        """Raise ValueError where the solver cannot give every target weights of its own."""
        if not hasattr(self, "solve_targets"):
            raise ValueError(
                f"weights='per_target' needs a solver that weighs kernels target by target, such as LpNorm or "
                f"LeaveOneOut, and {type(self).__name__} is none; pass one of these, or weights='shared'."
            )

    def check_compatible(self, family: Family, loss: Loss) -> None:
        """Raise ValueError, in one sentence, when the family or the loss does not fit this solver."""
        name = type(self).__name__
        for need in self.requires:
            if not can(family, need):
                raise ValueError(
                    f"{name} needs a family {CAPABILITIES[need]}, and {family.shortfall(need)}; "
                    "pass another solver or other kernels."
                )
        asked = getattr(family, "heredity", "none")
        if asked != "none" and asked not in self.heredities:
            raise ValueError(
                f"kernels asks for {asked} heredity of products, which {name} cannot respect; use Greedy (or "
                "Hierarchical, which keeps all parts, for 'strong'), or heredity='none'."
            )
        if (loss.joint or loss.shared) and not self.takes_joint:
            kind = "is that of all rows together" if loss.joint else "has one score for all outputs"
            taught = (
                "Uniform, Single, LpNorm, SimpleMKL" + (" or SILP", ", SILP or LeaveOneOut")[loss.has_targets]
            )
            raise ValueError(f"{name} does not take the loss {loss.name!r}, which {kind}; pass {taught}.")
        if self.losses is not None and loss.name not in self.losses:
            raise ValueError(f"{name} takes loss {', '.join(self.losses)}, not {loss.name!r}.")

    def settle(self, family: Family, loss: str | Loss, n_classes: int | None) -> Loss:
        """Return the loss, the one given or what ``"auto"`` means here, after a check that all go together."""
        name = self.default_loss(n_classes) if isinstance(loss, str) and loss == "auto" else loss
        settled = get_loss(name)
        if settled.structured:
            raise ValueError(
                f"loss is {brief(settled)}, whose outputs span several rows, and an estimator predicts row by row; "
                "pass a Problem with groups to Obscure().solve instead."
            )
        self.check_compatible(family, settled)
        return settled

    def settles_C(self, problem: Problem) -> bool:
        """Whether it chooses C itself for this problem, where that is left open."""
        return self.chooses_C

    def penalties(
        self, u: np.ndarray, g: np.ndarray, lam: float, members: Sequence[Any] = ()
    ) -> tuple[float, float]:
        """Return the penalty of the norms u of members, over λ/2, and its conjugate at g: what a certificate needs."""
        return penalties(u, g, self.p)

    def default_loss(self, n_classes: int | None) -> str:
        """Return the name of the loss for regression (None), two classes, or more."""
        if n_classes is None:
            return "squared"
        return "hinge" if n_classes <= 2 else "squared_hinge"


class NothingAligned(ValueError):
    """Raised by ``learn`` where no kernel is better than another: the targets or all kernels are constant."""


class TwoStageSolver(Solver):
    """A solver that learns the kernel alone, then trains the machine on it.

    Subclasses implement ``learn``; the gap is that of the machine on the fixed kernel. Where there is nothing to learn
    (:class:`NothingAligned`) ``solve`` warns and trains on any kernel: the best predictor is a constant.
    """

    p: Any = None

    @abstractmethod
    def learn(self, problem: Problem) -> Combination:
        """Return the learned combination of kernels."""

    def solve(self, problem, init=None, on_iteration=None):
        """Learn the kernel, then solve the machine."""
        started = time.perf_counter()
        return machine_on(problem, self.learned(problem), Log(on_iteration, started))

    def learned(self, problem: Problem) -> Combination:
        """Return what `learn` does, or any kernel, with a warning, where there is nothing to learn.

        Where rows lack views, now or later, and rows left out gain by it, it is balanced by its weights.
        """
        try:
            return balanced_if_better(problem, self.learn(problem))
        except NothingAligned as error:
            warn(f"{error} The predictions will be constant.")
            return any_kernel(problem)


def machine_on(
    problem: Problem, combination: Combination, log: Log, start: np.ndarray | None = None
) -> Result:
    """Return the machine on a fixed kernel, with the gap of that problem; `start` has dual coefficients near by."""
    if combination.degree > 1:
        return _machine_on_power(problem, combination, log, start)
    theta = combination.weights * combination.rho**2
    work = Workspace(problem, combination.family, combination.members, combination.rho**2, None)
    work._last = start
    iterate = work.evaluate(theta)
    log.add(iterate.objective, iterate.gap, int(np.count_nonzero(theta)))
    # The machine is solved to 1e-10 where rounding allows it; a gap above this means that it was not.
    floor = ROUNDING * work.start_value()
    converged = small_gap(iterate, 1e-6, floor)
    if not converged:
        gap = relative_gap(iterate.gap, iterate.objective, floor)
        warn(
            f"the machine stopped at a relative gap of {gap:.1e}, where rounding ends it; lower C, or standardise the "
            "columns of X.",
            ConvergenceWarning,
        )
    return result_of(work.predictor(iterate), iterate, log.trace(), n_iter=1, converged=converged)


def _machine_on_power(problem: Problem, combination: Combination, log: Log, start) -> Result:
    """Return the machine on a power of kernels, as on one kernel matrix."""
    found = machine_on(*as_one_kernel(problem, combination), log, start)
    assert found.dual_coef is not None
    predictor = Dual.from_training(combination, problem.X, found.dual_coef, found.intercept)
    return replace(found, predictor=predictor, combination=combination)


def as_one_kernel(problem: Problem, combination: Combination) -> tuple[Problem, Combination]:
    """Return a problem on the matrix of a kernel that is learned already, and that kernel; the scale stays."""
    family = Precomputed().resolve(1)
    K = combination.gram(problem.X)[:, :, None]
    return replace(problem, X=K, family=family), Combination(family, [0], np.ones(1), np.ones(1))


def any_kernel(problem: Problem) -> Combination:
    """Return one kernel of the family, the largest on the rows; all are as good where there is nothing to learn."""
    search: Any = problem.family.searcher(problem.X, problem.scale)
    members = search.best(Direction(dense=np.eye(problem.n_rows))).members
    rho_sq = problem.scale.rho_sq(members, 1.0)
    weights = np.divide(1.0, rho_sq, out=np.zeros(len(members)), where=rho_sq > 0)
    return Combination(problem.family, members, weights, np.sqrt(rho_sq))


class StreamingSolver(Solver):
    """A solver that sees the rows in batches.

    The state is a dict of arrays: it is also the checkpoint. A batch is a
    :class:`~manykernels.problem.Problem` that shares everything but the rows with the first. Subclasses implement
    ``start``, ``update`` and ``finish``; ``update`` must leave the state it was given as it is, so that a batch that
    is refused, or Ctrl-C, loses nothing. The other methods are hooks of the loop over a stream
    (:mod:`manykernels.solvers.stream_run`).
    """

    batch_size: int = 1024
    epochs: int = 1

    @abstractmethod
    def start(self, problem: Problem) -> State:
        """Return the state before any row, given the first batch."""

    @abstractmethod
    def update(self, state: State, batch: Problem) -> State:
        """Return the state after a batch."""

    @abstractmethod
    def finish(self, state: State, problem: Problem) -> Result:
        """Turn the state into a result; the state can go on afterwards."""

    def check_state(self, state: State, problem: Problem) -> None:
        """Raise Damaged where a state that came from a file is none of this solver's on such a problem."""

    def check_range(self, batch: Problem, *, part: bool = False) -> None:
        """Raise ValueError for rows, targets or kernels beyond single precision, which features are computed in.

        `part` says that there are other rows, beside which these may be as small as they like.
        """
        tops = np.ravel(dense(abs(batch.X).max(axis=0))) if batch.n_rows else np.zeros(0)
        found = [(f"column {j} of X", top, FARTHEST_X) for j, top in enumerate(tops.tolist())]
        if batch.loss.regression:
            found.append(("y", float(np.abs(batch.Y).max(initial=0.0)), FARTHEST_Y))
        for what, top, most in found:
            if top > most or (0.0 < top < 1 / most and not part):
                raise ValueError(
                    f"{what} has values up to {top:.0e}, and {type(self).__name__} computes in single precision; "
                    "rescale it."
                )
        for family in () if part else batch.family.families():
            if not np.isinf(family.size()):
                self._check_sizes(family, batch)

    def _check_sizes(self, family: Any, batch: Problem) -> None:
        members = family.members()
        size = family.mean_diag(batch.X, members, batch.sample_weight)
        extreme = np.flatnonzero(~(size <= FARTHEST_X) | ((size < 1 / FARTHEST_X) & (size > 0)))
        if len(extreme):
            raise ValueError(
                f"kernels: {family.label(members[extreme[0]])} has values of {size[extreme[0]]:.0e} on these rows, and "
                f"{type(self).__name__} computes in single precision; standardise the columns of X."
            )

    @property
    def rows_at_once(self) -> int:
        """Rows that a stream hands to `update` together."""
        return self.batch_size

    def held_out_share(self, n_rows: int | None) -> float:
        """Return the share of so many rows (None: nobody knows) that a stream keeps out of all epochs."""
        return float(getattr(self, "validation_fraction", None) or 0.0)

    def validate(self, state: State, held_out: Problem) -> State:
        """Take notice of the rows held out, at the end of an epoch."""
        return state

    def settled(self, state: State) -> bool:
        """Whether more epochs would not help."""
        return False

    def expect(self, state: State, n_rows: int) -> State:
        """Take notice of how many rows an epoch has, where that is known from the start."""
        return state

    def end_epoch(self, state: State) -> State:
        """Take notice of the end of an epoch."""
        return state

    def progress(self, state: State, problem: Problem) -> Progress:
        """Return what is known at the end of an epoch without another look at the rows."""
        return Progress(np.nan, np.nan, 0)

    def memory_stream(self, problem: Problem) -> Stream:
        """Return the rows of a problem as a stream, here in their order."""
        return MemoryStream(problem, self.rows_at_once)

    def run_over(self, stream: Stream) -> StreamRun:
        """Return the fit over a stream that is to be run: here `epochs` times over its batches."""
        return BatchRun(self, stream)

    def solve(self, problem, init=None, on_iteration=None):
        """Stream over the rows."""
        self.check_params()
        return self.solve_stream(self.memory_stream(problem), on_iteration=on_iteration)

    def solve_stream(
        self,
        stream: Stream,
        *,
        resume: State | None = None,
        save: Save | None = None,
        on_iteration: OnIteration | None = None,
    ) -> Result:
        """Run over a stream.

        Parameters
        ----------
        stream : Stream
        resume : dict of arrays, optional
            What `save` was given in an earlier run over the same stream; this run ends bit-identical to one that
            was never interrupted.
        save : callable, optional
            Called after every batch, or other part of the work, with a function that returns the state, a dict of
            arrays: it decides whether it is time to save one.
        on_iteration : callable, optional
            Called with a :class:`Step` after every epoch; a true return value stops.
        """
        self.check_params()
        return run_to_end(self.run_over(stream), resume=resume, save=save, on_iteration=on_iteration)


class BatchSolver(Solver):
    """An iterative solver over all members of a family that can be listed.

    Subclasses implement ``iterates``, a generator of evaluated iterates; the loop around it keeps the
    best one, stops on the gap, warns, calls back and survives Ctrl-C. `tol` is the relative duality gap
    ``P - D <= tol · P``.
    """

    requires = (Enumerable,)
    takes_joint = True
    accepts_init = True
    rules: ClassVar[Mapping[str, Rule]] = {"tol": number(), "max_iter": whole(1)}
    patience: ClassVar[int] = PATIENCE
    max_iter: int
    tol: float

    def rough(self):
        """Return a copy that stops at a relative gap of 1 %."""
        return clone(self).set_params(tol=max(self.tol, ROUGH))

    @abstractmethod
    def iterates(self, work: Workspace, init: np.ndarray | None) -> Iterator[Iterate]:
        """Yield evaluated iterates, as long as there is progress to be made."""

    def solve(self, problem, init=None, on_iteration=None):
        """Iterate until the relative gap is at most `tol`.

        Where rows lack views, and rows left out gain by it, the kernel is then balanced by these weights, and the
        machine trained once more, on the fixed kernel: objective and gap are those of that machine.
        """
        result = self._weighed(problem, init, on_iteration)
        return _on_balanced(problem, result) if balance_pays(problem, result.combination) else result

    def _weighed(self, problem: Problem, init, on_iteration: OnIteration | None) -> Result:
        """Return the result on the kernels as they are."""
        self.check_params()
        log = Log(on_iteration, time.perf_counter())
        work = Workspace.over_all(problem, self.p)
        floor = ROUNDING * work.start_value()
        descent = Descent(self.tol, floor, self.max_iter, log, patience=self.patience)
        with limited(most_work(problem.n_rows)):
            descent.run(self.iterates(work, check_init(init, work.alive)))
        best, n_iter = descent.answer, descent.n_iter
        gap = relative_gap(best.gap, best.objective, floor)
        if descent.interrupted:
            warn_interrupted(n_iter, "iterations", gap)
        elif not (descent.closed or descent.stopped):
            advice = "raise max_iter or tol" if n_iter >= self.max_iter else STALLED
            advice = less_work(problem) if descent.exhausted else advice
            warn_early(self, n_iter, "iterations", gap, f"above tol={self.tol:g}; {advice}")
        result = result_of(work.predictor(best), best, log.trace(), n_iter=n_iter, converged=descent.closed)
        return replace(result, ending=descent.ending)

    def solve_targets(self, problem: Problem, on_iteration: OnIteration | None = None) -> Result:
        """Give every target weights of its own: one problem after the other, on the same kernels.

        The objective and the gap are sums over the targets. Rows that lack views are balanced for all or for none.
        """
        parts = [(np.array([k]), of_targets(problem, np.array([k]))) for k in range(problem.n_outputs)]
        solved: list[tuple[np.ndarray, Result]] = []
        with limited(most_work(problem.n_rows)):
            for k, part in parts:
                with limited(share=1 / (len(parts) - len(solved))):
                    solved.append((k, self._weighed(part, None, on_iteration)))
        mean = np.mean([result.combination.weights for _, result in solved], axis=0)
        pays = balance_pays(problem, replace(solved[0][1].combination, weights=mean))
        if pays:
            solved = [(k, _on_balanced(p, r)) for (k, p), (_, r) in zip(parts, solved, strict=True)]
        return joined(problem, solved, balanced=pays)


def _on_balanced(problem: Problem, result: Result) -> Result:
    """Return the machine on the same kernel, balanced for rows that lack views; all else is the result's."""
    log = Log(None, time.perf_counter())
    last = machine_on(problem, result.combination.balanced(), log, result.dual_coef)
    return replace(
        last,
        n_iter=result.n_iter,
        converged=result.converged and last.converged,
        trace=result.trace,
        ending=result.ending,
    )


def generator(random_state: Any) -> np.random.Generator:
    """Return a generator from whatever scikit-learn's users pass as random_state."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31 - 1))
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise ValueError(
            f"random_state is {brief(random_state)}; use a whole number, a generator, or None."
        ) from None


def check_init(init, alive: np.ndarray) -> np.ndarray | None:
    """Return `init` as θ, after a check of its shape; `alive` says which kernels do not vanish."""
    if init is None:
        return None
    try:
        theta = np.asarray(init, dtype=float)
    except NO_NUMBERS:
        theta = np.empty(0)
    if theta.shape != alive.shape or not (np.isfinite(theta) & (theta >= 0)).all():
        raise ValueError(f"init must hold {len(alive)} non-negative weights, one per kernel.")
    if not theta[alive].any():
        raise ValueError("init must give weight to a kernel that does not vanish on the training rows.")
    return theta


def result_of(
    predictor: Predictor, iterate: Iterate, trace: Trace, *, n_iter: int, converged: bool
) -> Result:
    """Turn an iterate and its predictor into a result."""
    return Result(
        predictor=predictor,
        combination=predictor.combination,
        objective=iterate.objective,
        gap=iterate.gap,
        gap_kind="exact",
        n_iter=n_iter,
        converged=converged,
        trace=trace,
        dual_coef=iterate.A,
        intercept=iterate.intercept,
    )
