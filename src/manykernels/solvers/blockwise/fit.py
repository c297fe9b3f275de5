"""A fit of :class:`~manykernels.solvers.Blockwise`: the plan, the rows, the sweeps, and what comes of them."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..._util.threads import one_blas_thread
from ...certificates import conjugate_exponent, norm
from ...combination import Combination
from ...predictors import RandomFeature, feature_maps
from ...problem import Problem, Result, nu_of
from ..base import Log, Step
from ..calibration import HeldOut
from ..stream_run import epoch_of
from ._grids import sum_of_squares
from .preparation import Prepared
from .row_store import RowStore
from .sweeps import Sweeps, Unit, lay_out

logger = logging.getLogger("manykernels")

#: Of the arrays in a state: bins by their numbers, rows in the order of the store, outputs by fours and eights.
LAYOUT = 3
#: Seconds between two states that are saved.
SAVE_EVERY = 5.0
#: Rows to look at where there are no bandwidths to learn.
LOOK_ROWS = 20_000
#: Below this many rows a fifth is held out first, and the model is fitted again on all rows.
FEW_ROWS = 20_000


@dataclass(frozen=True)
class Plan:
    """Everything of a fit that does not change once its bandwidths are known.

    Attributes
    ----------
    family, members, rho_sq : the kernels and their squared scales
    C : float
    seed, n_features : int
    sizes, blocks : (m,) arrays of int
        Features of a block, and blocks, of every kernel.
    sweeps : int
    prepared : Prepared or None
    """

    family: Any
    members: list[Any]
    rho_sq: np.ndarray
    C: float
    seed: int
    n_features: int
    sizes: np.ndarray
    blocks: np.ndarray
    sweeps: int
    prepared: Prepared | None

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return what a state needs, to be made into a plan again."""
        member = [] if self.prepared is None else self.prepared.member
        bounds = {} if self.prepared is None else {"bounds": self.family._box(self.n_features)}
        return {
            **bounds,
            "seed": np.array([self.seed]),
            "C": np.array([self.C]),
            "member": np.atleast_1d(np.asarray(member, dtype=float)),
        }

    def maps(self) -> list[Any]:
        """Return the maps of all kernels."""
        return feature_maps(self.family, self.members, self.n_features, self.seed, self.sizes)

    def lams(self, units: list[Unit], theta: np.ndarray) -> np.ndarray:
        """Return λ_k = B_i ρ_i²/(C θ_i) of every unit; 1/C for the intercept, infinity without weight."""
        with np.errstate(divide="ignore"):
            each = np.where(theta > 0, self.blocks * self.rho_sq / (self.C * theta), np.inf)
        return np.array([1 / self.C if u.member < 0 else each[u.member] for u in units])

    def norms(self, units: list[Unit], W: np.ndarray) -> np.ndarray:
        """Return u_i = ρ_i‖w_i‖, with ‖w_i‖² = B_i Σ_b ‖W_ib‖²."""
        squares = np.zeros(len(self.members))
        for u in units[1:]:
            squares[u.member] += sum_of_squares(W[u.part])
        return np.sqrt(self.rho_sq * self.blocks * squares)


class InMemory:
    """A problem as a stream."""

    def __init__(self, problem: Problem, rows: int, seed: int):
        self.problem, self.n_rows = problem, problem.n_rows
        if np.isfinite(problem.family.size()):
            rows = min(rows, LOOK_ROWS)
        self.first = problem
        if self.n_rows > rows:
            chosen = np.random.default_rng(seed).choice(self.n_rows, rows, replace=False, shuffle=False)
            self.first = problem.rows(np.sort(chosen))

    def __iter__(self) -> Iterator[Problem]:
        return self.problem.batches(65_536)


@dataclass(frozen=True)
class Outcome:
    """What sweeps end with.

    Attributes
    ----------
    sweeps : Sweeps
    held : HeldOut
    objective : float
        After the last sweep that was completed.
    interrupted : bool
        By Ctrl-C.
    """

    sweeps: Sweeps
    held: HeldOut
    objective: float
    interrupted: bool

    def close(self) -> None:
        """Give threads, files and memory back."""
        self.sweeps.close()
        self.sweeps.store.close()


class Fit:
    """One run over a stream of rows.

    Parameters
    ----------
    solver : Blockwise
    stream : object with ``first``, ``n_rows`` and an iterator over batches
    scratch : bool
        Whether rows go to files.
    """

    def __init__(self, solver, stream, *, scratch: bool):
        self.solver, self.stream, self.scratch = solver, stream, scratch
        self.started = time.perf_counter()

    def run(self, resume, save, on_iteration) -> Result:
        """Prepare, read the rows, sweep, and return the result."""
        if resume is not None and not np.array_equal(resume.get("layout", ()), [LAYOUT]):
            raise ValueError(
                "checkpoint: it is of another version of manykernels, whose arrays have another layout; delete it to "
                "start anew, or name another file."
            )
        log = Log(on_iteration, self.started)
        plan = self.solver._plan(self.stream.first, self.stream.n_rows, resume)
        if save is not None and resume is None and plan.prepared is not None:  # seconds of work already
            save({**plan.to_arrays(), "layout": np.array([LAYOUT])})
        share = self._share()
        n = self.stream.n_rows
        twice = self.solver.holdout == "auto" and n is not None and n < FEW_ROWS
        if resume is not None and "W" not in resume:
            resume = None  # nothing but the plan was known
        phase = 0 if resume is None else int(resume["position"][2])
        calibration = None if resume is None else resume.get("calibration")
        # BLAS's own threads look for work for a while after each product, on cores that ours need.
        with one_blas_thread():
            return self._swept(plan, share, twice, resume, save, log, phase, calibration)

    def _swept(self, plan, share, twice, resume, save, log, phase, calibration) -> Result:
        """Sweep, with few rows a second time and then over all of them."""
        if twice and phase == 0:
            outcome = self._sweep(plan, share, resume, save, Log(None, self.started), 0, None)
            if outcome.interrupted:
                return self._result(plan, outcome, log)
            outcome.held.warn_if_trivial()
            calibration, resume, phase = outcome.held.calibration(), None, 1
            outcome.close()
        outcome = self._sweep(plan, 0.0 if twice else share, resume, save, log, phase, calibration)
        return self._result(plan, outcome, log)

    def _share(self) -> float:
        """Return the share of the rows that are held out."""
        share, n = self.solver.holdout, self.stream.n_rows
        if share != "auto":
            return float(share)
        if n is None:
            return 0.02
        return 0.2 if n < FEW_ROWS else min(0.02, 10_000 / n)

    def _read(self, plan: Plan, maps, share: float) -> tuple[RowStore, HeldOut]:
        grids = [m.grids(0, int(b)) for m, b in zip(maps, plan.blocks, strict=True) if m.sparse]
        keep = any(not m.sparse for m in maps)
        store = RowStore(grids, keep_rows=keep, scratch=self.scratch, n_rows=self.stream.n_rows)
        held = HeldOut(share, plan.seed)
        try:
            for batch in epoch_of(
                self.stream, 0
            ):  # the same order in both fits of few rows, and after a resume
                assert batch.sample_weight is not None
                store.append(batch.X, batch.Y, held.taken_out(batch.Y, batch.sample_weight))
            store.close_input()
            if store.n_rows == 0:
                raise ValueError("the source of batches is empty; pass at least one row.")
        except BaseException:
            store.close()  # scratch files have no name, and would stay for as long as the process
            raise
        return store, held

    def _sweep(self, plan, share, resume, save, log, phase, calibration) -> Outcome:
        """Read the rows and sweep over the blocks, from the beginning or from a saved state."""
        solver, nu = self.solver, nu_of(self.solver.p)
        maps = plan.maps()
        store, held = self._read(plan, maps, share)
        units = lay_out(maps, plan.blocks, store.seen)
        if resume is None:
            state = Sweeps.fresh_state(units, self.stream.first.n_outputs)
            state["theta"] = solver._first_theta(plan, self.stream.first, nu)
            state["position"], state["layout"] = np.array([0, 0, phase]), np.array([LAYOUT])
        else:
            state = {k: v.copy() for k, v in resume.items() if k != "residuals"}
            store.restore_residuals(resume["residuals"])
        if calibration is not None:
            state["calibration"] = calibration
        sweeps = Sweeps(store, maps, units, state)
        saver = _Saver(save, plan, sweeps)
        objective, stopped, interrupted = np.nan, False, False
        try:
            while state["position"][0] < plan.sweeps and not stopped:
                lams = plan.lams(units, state["theta"])
                sweeps.last = state["position"][0] + 1 == plan.sweeps and not solver.certify
                while state["position"][1] < len(units):
                    state["position"][1] += sweeps.descend(int(state["position"][1]), lams)
                    saver()
                total = sweeps.settle()
                objective, norms = self._objective(plan, units, state, total, store.n_rows)
                state["position"][:2] = state["position"][0] + 1, 0
                if state["position"][0] < plan.sweeps:
                    state["theta"] = best_weights(norms, solver.p, plan.rho_sq > 0)
                kernels = int(np.count_nonzero(norms))
                seconds = time.perf_counter() - self.started
                stopped = log(Step(int(state["position"][0]), objective, np.nan, seconds, kernels))
        except KeyboardInterrupt:
            interrupted = True
            warnings.warn(
                f"Interrupted in sweep {int(state['position'][0]) + 1} of {plan.sweeps}; the model so far is kept.",
                ConvergenceWarning,
                stacklevel=2,
            )
        held.judge(store)
        return Outcome(sweeps, held, objective, interrupted)

    def _objective(self, plan: Plan, units, state, total: float, n: int) -> tuple[float, np.ndarray]:
        """Return P, and the kernels' norms."""
        norms = plan.norms(units, state["W"])
        b = state["W"][0].astype(float)
        penalty = norm(norms, self.solver.p) ** 2 + float(b @ b)
        return total / (2 * n) + penalty / (2 * plan.C * n), norms

    def _gap(self, plan: Plan, sweeps: Sweeps) -> float:
        """Return P - D of the feature problem, with A = C S R: then D follows from P's own residuals.

        ℓ*(-A/(C s)) = ½‖R‖² - <R, Y> and Y = R + f, so that D needs Σ s <R, f> = Σ_k <W_k, Z_kᵀ S R> and g alone.
        """
        n, C, state = sweeps.store.n_rows, plan.C, sweeps.state
        squares, products = sweeps.dual_sums()
        g = np.zeros(len(plan.members))
        inner = 0.0
        for unit, square, product in zip(sweeps.units, squares, products, strict=True):
            inner += product
            if unit.member >= 0 and plan.rho_sq[unit.member] > 0:
                g[unit.member] += C**2 * square / (plan.blocks[unit.member] * plan.rho_sq[unit.member])
        dual_norm = norm(g, conjugate_exponent(nu_of(self.solver.p))) + C**2 * squares[0]
        b = state["W"][0].astype(float)
        penalty = norm(plan.norms(sweeps.units, state["W"]), self.solver.p) ** 2 + float(b @ b)
        # P - D = (1/n) [Σ s (½R² + ½R² - <R, R + f>)] + ... = -(1/n) Σ s <R, f> + (λ/2) (penalty + dual norm)
        return max(0.0, -inner / n + (penalty + dual_norm) / (2 * C * n))

    def _result(self, plan: Plan, outcome: Outcome, log: Log) -> Result:
        sweeps, held, objective = outcome.sweeps, outcome.held, outcome.objective
        state = sweeps.state
        gap, kind = np.nan, "none"
        if self.solver.certify and not outcome.interrupted:
            gap, kind = self._gap(plan, sweeps), "features"
        calibration = state.get("calibration")
        if held.share > 0:
            held.warn_if_trivial()
            calibration = held.calibration()
        norms = plan.norms(sweeps.units, state["W"])
        store = sweeps.store
        tables = [
            None if not t else t[0] if len(t) == 1 else np.concatenate(t) for t in (store.slots, store.seen)
        ]
        outcome.close()
        extra: dict[str, tuple] = {"C": (plan.C,)}
        if plan.prepared is not None:
            extra["bandwidths"] = (plan.prepared.shape, plan.prepared.error)
        return finished(
            plan,
            state["W"][1:],
            state["W"][0],
            state["theta"],
            norms,
            *tables,
            objective=objective,
            gap=gap,
            gap_kind=kind,
            n_iter=int(state["position"][0]),
            converged=bool(gap <= 1e-3 * objective),
            trace=log.trace(**extra),
            calibration=calibration,
            interrupted=outcome.interrupted,
        )


class _Saver:
    """Hands the state over every few seconds."""

    def __init__(self, save, plan: Plan, sweeps: Sweeps):
        self.save, self.sweeps, self.last = save, sweeps, time.perf_counter()
        self.fixed = plan.to_arrays()

    def __call__(self) -> None:
        if self.save is None or time.perf_counter() - self.last < SAVE_EVERY:
            return
        residuals = self.sweeps.store.all_residuals()
        self.save(
            {**self.fixed, **{k: v.copy() for k, v in self.sweeps.state.items()}, "residuals": residuals}
        )
        self.last = time.perf_counter()


def best_weights(norms: np.ndarray, p: float, alive: np.ndarray) -> np.ndarray:
    """Return θ_i = u_i^(2-p)/(Σ_j u_j^p)^((2-p)/p); equal weights where there is no norm."""
    if not norms.any() or p == 2:
        theta = alive.astype(float)
        return theta / norm(theta, nu_of(p)) if theta.any() else theta
    return (norms / norm(norms, p)) ** (2 - p)


def finished(plan: Plan, W, intercept, theta, norms, slots=None, seen=None, **fields) -> Result:
    """Return a result on random features; see :class:`~manykernels.predictors.RandomFeature` for slots and seen."""
    weights = np.divide(theta, plan.rho_sq, out=np.zeros(len(theta)), where=plan.rho_sq > 0)
    combination = Combination(plan.family, plan.members, weights, np.sqrt(plan.rho_sq), norms)
    b = np.asarray(intercept, dtype=np.float64)
    predictor = RandomFeature(
        combination,
        np.array([plan.n_features]),
        np.array([plan.seed]),
        plan.sizes,
        plan.blocks,
        W,
        b,
        slots,
        seen,
    )
    return Result(
        predictor=predictor, combination=combination, dual_coef=None, intercept=b, C=plan.C, **fields
    )
