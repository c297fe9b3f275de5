"""A fit in the loop of streaming solvers: the plan, the rows, which are read once, and the sweeps over them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ..._util.shapes import WHOLE, Damaged, Stored, check_arrays, check_like, demand
from ...certificates import conjugate_exponent, norm
from ...problem import Problem, Result, Trace, nu_of
from ...streaming.stream import Stream
from ..calibration import LEAST, fit_calibration
from ..log import Course, Progress
from ..stream_run import State, StreamRun
from ..verdict import Verdict, compare
from ._grids import shared_among
from .online import quick_model
from .plan import REMEDY, Plan, best_weights, check_known, expected, first_weights, lay_plan
from .rows import RowStore, Sizes, joined
from .sweeps import Sweeps, Unit, lay_out

#: Of the arrays in a state: bins by their numbers, rows in the order of the store, outputs by fours and eights.
LAYOUT = 5
#: Rows of a model where Ctrl-C comes before the first sweep.
QUICK_ROWS = 2_000
#: Share that is held out first where there are few rows, before the model is fitted again on all of them.
FIRST_SHARE = 0.2


#: What the arrays of a state are, besides those of the blocks: of m kernels.
SWEPT = {
    "theta": Stored("m", least=0.0),
    "position": Stored("3", WHOLE, 0),
    "objective": Stored("1", finite=False),
    "calibration": Stored("*", optional=True),
    "residuals": Stored("* *"),
}


def _check_swept(saved: State, units: list[Unit], n_outputs: int, sweeps: int) -> None:
    """Raise Damaged unless a state from a file has the coefficients of these blocks, and a place among them."""
    check_like(saved, Sweeps.fresh_state(units, n_outputs))
    demand(-1 <= saved["pending"][0] < len(units), "pending is no block")
    done, at, _ = saved["position"].tolist()
    demand(done <= sweeps and at <= len(units), "position is beyond the end")
    demand(
        (saved["curvature"] >= 0).all() or any(u.line == -1 for u in units),
        "curvature holds a negative count",
    )


class SweepRun(StreamRun):
    """Sweeps over the blocks of features, after the rows were read once.

    Few rows are gone over in two phases: first without a share of them, which calibrates and tells whether the model
    is any good, then with all.

    Parameters
    ----------
    solver : Blockwise
    stream : Stream
    scratch : bool or None
        Whether rows go to files; None: those that are not in memory.
    sizes : Sizes
    """

    def __init__(self, solver, stream: Stream, *, scratch: bool | None = None, sizes: Sizes = Sizes()):  # noqa: B008
        super().__init__(solver, stream)
        self.scratch = not stream.in_memory if scratch is None else scratch
        self.sizes = sizes
        self.twice = solver.validation_fraction == "auto" and stream.share == 0
        self.saved: State | None = None
        self.held_out: Problem | None = None
        self.targets: np.ndarray = np.zeros(1)
        self.weight = 0.0
        #: The model of the first of two phases.
        self.before: Result | None = None

    #: There once they are laid; the latter until `close`.
    plan: Plan
    sweeps: Sweeps

    # -- the loop --------------------------------------------------------------------------------------

    def resume(self, state):
        if not np.array_equal(state.get("layout", ()), [LAYOUT]):
            raise Damaged("it is of another version of manykernels, whose arrays have another layout")
        check_known(state, self.stream.first.family, self.stream.first.X.shape[1])
        self.saved = state

    def state(self):
        state = {**self.plan.to_arrays(), "layout": np.array([LAYOUT])}
        if not hasattr(self, "sweeps"):
            return state
        swept = {name: value.copy() for name, value in self.sweeps.state.items()}
        return {**state, **swept, "residuals": self.sweeps.store.all_residuals()}

    def kept(self):
        if not hasattr(self, "sweeps"):
            if self.before is not None:
                return "before all rows were read again; the model without those held out is kept."
            n = min(len(self.stream.first.Y), QUICK_ROWS)
            what = "bandwidths from distances" if not hasattr(self, "plan") else "the bandwidths found"
            return (
                f"before the first sweep; a quick model of {n:,} rows, with {what}, is kept." if n else None
            )
        return f"in sweep {self._position[0] + 1} of {self.plan.sweeps}; the model so far is kept."

    @property
    def _position(self) -> np.ndarray:
        """Sweeps done, units done of the next one, and which of the two phases."""
        return self.sweeps.state["position"]

    def work(self):
        saved = self.saved
        first, n = self.stream.first, self.stream.n_rows or 0
        course = self.course = Course(expected(first, n) or {"bandwidths": 1.0, "sweeps": 3.0})
        course.at("bandwidths")
        self.plan = lay_plan(self.solver, self.stream.first, self.stream.n_rows, saved)
        if saved is None:
            yield None  # seconds of work already
        elif "W" not in saved:
            saved = None  # nothing but the plan was known
        if saved is not None:
            check_arrays(saved, SWEPT, {"m": len(self.plan.members)})
        phase = 0 if saved is None else int(saved["position"][2])
        calibration = None if saved is None else saved.get("calibration")
        if self.twice and phase == 0:
            self._begin(self.stream.holding_out(FIRST_SHARE), 0, saved, None)
            for _ in self._swept():
                yield None
            self.before = self._model(objective=float(self.sweeps.state["objective"][0]))
            calibration, saved = self._judged(self.before), None
            self.before = replace(self.before, calibration=calibration)
            self.close()
        self._begin(self.stream, 1 if self.twice else 0, saved, calibration)
        yield from self._swept()

    def _begin(self, stream: Stream, phase: int, saved: State | None, calibration) -> None:
        """Read the rows, and set out from zero or from a saved state."""
        plan = self.plan
        maps = plan.maps()
        store = self._read(stream, maps)
        units = lay_out(maps, plan.blocks, store.seen)
        if saved is None:
            state = Sweeps.fresh_state(units, stream.first.n_outputs)
            state["theta"] = first_weights(plan, stream.first, self.solver.p)
            state["position"], state["objective"] = np.array([0, 0, phase]), np.array([np.nan])
        else:
            _check_swept(saved, units, stream.first.n_outputs, plan.sweeps)
            state = {name: saved[name].copy() for name in (*Sweeps.NAMES, "theta", "position", "objective")}
            store.restore_residuals(saved["residuals"])
        if calibration is not None:
            state["calibration"] = calibration
        self.sweeps, self.held_out = Sweeps(store, maps, units, state), stream.held_out

    def _read(self, stream: Stream, maps) -> RowStore:
        grids = [m.grids(0, int(b)) for m, b in zip(maps, self.plan.blocks, strict=True) if m.sparse]
        kept = {"keep_rows": any(not m.sparse for m in maps), "scratch": self.scratch}
        store = RowStore(grids, **kept, n_rows=stream.n_rows, sizes=self.sizes)
        self.targets, self.weight = np.zeros(1), 0.0
        try:
            for batch in stream.epoch(0):  # the same order after a resume
                s = batch.sample_weight
                store.append(batch.X, batch.Y, s)
                self.targets, self.weight = self.targets + s @ batch.Y, self.weight + float(s.sum())
            store.close_input()
            if store.n_rows == 0:
                raise ValueError("the source of batches is empty; pass at least one row.")
        except BaseException:
            store.close()  # scratch files have no name, and would stay for as long as the process
            raise
        return store

    def _swept(self) -> Iterator[Progress | None]:
        """Sweep over the blocks, and yield after each, or some grids."""
        plan, sweeps, at = self.plan, self.sweeps, self._position
        state, grids = sweeps.state, sum(unit.line >= 0 for unit in sweeps.units)
        phases = 2 if self.twice else 1
        while at[0] < plan.sweeps:
            lams = plan.lams(sweeps.units, state["theta"])
            sweeps.share = shared_among(grids, plan.sweeps, int(at[0]))
            sweeps.last = at[0] + 1 == plan.sweeps and not self.solver.certify
            while at[1] < len(sweeps.units):
                at[1] += sweeps.descend(int(at[1]), lams)
                swept = (at[0] + at[1] / len(sweeps.units)) / plan.sweeps
                self.course.at("sweeps", float(at[2] + swept) / phases)
                yield None
            state["objective"][0], norms = self._objective(sweeps.settle())
            at[:2] = at[0] + 1, 0
            if at[0] < plan.sweeps:
                state["theta"] = best_weights(plan, norms, self.solver.p)
            yield Progress(float(state["objective"][0]), np.nan, int(np.count_nonzero(norms)))

    def close(self):
        """Give threads, files and memory back."""
        if hasattr(self, "sweeps"):
            self.sweeps.close()
            self.sweeps.store.close()
            del self.sweeps

    # -- the result ------------------------------------------------------------------------------------

    def result(self, *, interrupted):
        if not hasattr(self, "sweeps"):
            return self.before or self._quick()
        sweeps, plan = self.sweeps, self.plan
        state, gap, kind = sweeps.state, np.nan, "none"
        if self.solver.certify and not interrupted:
            gap, kind = self._gap(), "features"
        extra: dict[str, tuple] = {"C": (plan.C,)}
        if plan.prepared is not None and np.isinf(plan.family.size()):
            extra["bandwidths"] = (plan.prepared.shape, plan.prepared.error)
        objective = float(state["objective"][0])
        known = {"objective": objective, "gap": gap, "gap_kind": kind, "trace": Trace(extra=extra)}
        result = self._model(**known, converged=bool(gap <= 1e-3 * objective))
        calibration = state.get("calibration") if self.held_out is None else self._judged(result)
        return replace(result, calibration=calibration)

    def _quick(self) -> Result:
        """Return a model of some rows, with the bandwidths if they are known."""
        known = self.plan.to_arrays() if hasattr(self, "plan") else None
        return quick_model(self.solver, self.stream.first.rows(slice(None, QUICK_ROWS)), known)

    def _model(self, **fields) -> Result:
        """Return the model of the sweeps so far."""
        sweeps, plan = self.sweeps, self.plan
        W, store = sweeps.state["W"], sweeps.store
        tables = [joined(t) if t else None for t in (store.slots, store.seen)]
        unknown = {
            "objective": np.nan,
            "gap": np.nan,
            "gap_kind": "none",
            "converged": False,
            "trace": Trace(),
        }
        fields = unknown | fields | {"n_iter": int(self._position[0])}
        norms = plan.norms(sweeps.units, W)
        return plan.result(W[1:], W[0], sweeps.state["theta"], norms, *tables, **fields)

    def _judged(self, result: Result) -> np.ndarray | None:
        """Return what turns scores into probabilities, by the rows held out."""
        mean = self.targets / max(self.weight, 1e-300)
        return None if self.held_out is None else judged(result, self.held_out, mean)

    def _objective(self, total: float) -> tuple[float, np.ndarray]:
        """Return P, and the kernels' norms, from Σ_t s_t ‖R_t‖²."""
        sweeps, plan = self.sweeps, self.plan
        norms, n = plan.norms(sweeps.units, sweeps.state["W"]), sweeps.store.n_rows
        b = sweeps.state["W"][0].astype(float)
        penalty = norm(norms, self.solver.p) ** 2 + float(b @ b)
        return total / (2 * n) + penalty / (2 * plan.C * n), norms

    def _gap(self) -> float:
        """Return P - D of the feature problem, with A = C S R: then D follows from P's own residuals.

        ℓ*(-A/(C s)) = ½‖R‖² - <R, Y> and Y = R + f, so that D needs Σ s <R, f> = Σ_k <W_k, Z_kᵀ S R> and g alone.
        """
        sweeps, plan = self.sweeps, self.plan
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


def judged(result: Result, held: Problem, mean: np.ndarray) -> np.ndarray | None:
    """Warn if the mean is as good on rows held out, and return what turns scores into probabilities."""
    if np.count_nonzero(held.sample_weight) < LEAST:
        return None
    F = result.predictor.scores(held.X)
    verdict = Verdict.of(compare(held.loss, held.Y, F, mean, held.sample_weight))
    verdict.warn("Blockwise", "rows held out", REMEDY)
    return fit_calibration(F, held.Y, held.sample_weight)
