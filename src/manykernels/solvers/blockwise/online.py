"""One pass over batches for :class:`~manykernels.solvers.Blockwise`: what ``partial_fit`` does.

Binning features: a diagonal Kalman filter, row after row. It has no step size and cannot diverge; the variance of a
bin's coefficient starts at its prior's, θ_i/(B_i ρ_i²), and only falls. Dense features: their Gram matrix and products
with the targets are summed up, and the model is the exact solution at any time.

Bandwidths are learned from the first 200 rows, and again from 1,000, 5,000 and 50,000. Rows are kept until then, and
the filter sees all of them anew, in random order, whenever they have doubled: it depends on the order, and rows that
come class by class would leave it with the last one.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.linalg import cho_solve

from ..._util.shapes import FLAGS, WHOLE, Stored, check_arrays, demand
from ..._util.threads import map_in_threads, one_blas_thread
from ...families.view import View
from ...kernels.statistics import dense
from ...problem import Problem, Result, Trace
from ..bandwidth_learning.error import ridge_factor
from ..calibration import LEAST, fit_calibration
from ..stream_run import State
from ..verdict import Verdict
from ._grids import filter_rows
from .plan import REMEDY, Plan, best_weights, check_known, first_weights, lay_plan, over_weights
from .preparation import moments, quick

#: Rows at which bandwidths are learned, and learned again.
STAGES = (200, 1_000, 5_000, 50_000)
#: Rows are gone over again when they have doubled; and where the means of targets have moved by the first number of
#: standard errors, over no fewer rows than the second, when rows have grown by the third factor, with new bandwidths
#: when they have by the fourth.
UNLIKE, FEWEST_NEW, GROWTH, LEARN_AGAIN = 5.0, 30, 1.1, 1.5
#: Rows that are taken at a time, and scores that calibrate probabilities.
BLOCK_ROWS, RECENT = 1024, 4_000
#: Probabilities are calibrated again when there are so many times the rows of the last time.
AGAIN = 1.2
#: Rows after which dense features are solved for the first time, and the share of new rows that is worth another time.
SOLVED_ROWS, NEW_SHARE = 256, 0.01
#: Most dense features: their Gram matrix is kept.
MOST_DENSE = 2048
#: Rows before which a stream is not compared with the mean.
COMPARED_ROWS = 1000


def start(solver, problem: Problem) -> State:
    """Return the state before any row."""
    c, d = problem.n_outputs, problem.X.shape[1]
    gathers = bool(np.isinf(problem.family.size()))
    state: State = {
        "gathers": np.array([gathers]),
        "learned": np.zeros(1, dtype=np.int64),  # rows that bandwidths were learned from
        "rows": np.zeros((0, d), dtype=dense(problem.X[:1]).dtype),
        "targets": np.zeros((0, c)),
        "weights": np.zeros(0),
    }
    if not gathers:
        state.update(_begin(solver, lay_plan(solver, problem, None), problem))
    return state


def _begin(solver, plan: Plan, problem: Problem) -> State:
    """Return coefficients and sums before any row."""
    c = problem.n_outputs
    maps = plan.maps()
    if len({m.sparse for m in maps}) > 1:
        raise ValueError(
            "partial_fit takes Laplacian kernels, or kernels with dense features, but not both; fit can mix them."
        )
    theta = first_weights(plan, problem, solver.p)
    state: State = {
        **plan.to_arrays(),
        "theta": theta,
        "totals": np.zeros(4 + c),  # rows, weight, Σ s‖e‖², Σ s‖y‖², Σ s y
        "scores": np.zeros((0, 2 * c + 1), dtype=np.float32),
        "calibration": np.zeros(0),
        "calibrated": np.zeros(1),  # rows that there were at the last calibration
    }
    if maps[0].sparse:
        width = maps[0].width
        prior = np.divide(theta, plan.blocks * plan.rho_sq, out=np.zeros(len(theta)), where=plan.rho_sq > 0)
        grids = int(plan.blocks.sum())
        state["W"] = np.zeros((grids, width, c), dtype=np.float32)
        state["variance"] = np.empty((grids, width), dtype=np.float32)
        state["variance"][...] = np.repeat(prior, plan.blocks)[:, None]
        state["intercept"] = np.append(np.zeros(c), 1.0)
    else:
        D = 1 + sum(_width(m, b) for m, b in zip(maps, _dense_blocks(plan, maps), strict=True))
        state["gram"], state["products"] = np.zeros((D, D)), np.zeros((D, c))
        state["solved"] = np.zeros(1, dtype=np.int64)  # rows of the last solution
        state["W"] = np.zeros((D, c))
    return state


#: What the arrays of a state are: of n rows gathered, with d columns and c outputs.
GATHERED = {
    "gathers": Stored("1", FLAGS),
    "learned": Stored("1", WHOLE, 0),
    "rows": Stored("n d"),
    "targets": Stored("n c"),
    "weights": Stored("n", least=0.0),
}
#: And once bandwidths are known, of m kernels.
BEGUN = {
    "theta": Stored("m", least=0.0),
    "totals": Stored("*"),
    "scores": Stored("* *"),
    "calibration": Stored("*"),
    "calibrated": Stored("1", least=0.0),
    "restarted": Stored("1", WHOLE, 1, optional=True),
}
#: With binning features, of g grids of so many bins; and with D dense ones.
BINNED = {
    "W": Stored("g bins c"),
    "variance": Stored("g bins", least=0.0),
    "intercept": Stored("*"),
}
DENSE = {
    "W": Stored("D c"),
    "gram": Stored("D D"),
    "products": Stored("D c"),
    "solved": Stored("1", WHOLE, 0),
}


def check_state(solver, state: State, problem: Problem) -> None:
    """Raise Damaged unless arrays that came from a file are a state of this solver on such a problem."""
    c, d = problem.n_outputs, problem.X.shape[1]
    check_arrays(state, GATHERED, {"d": d, "c": c})
    gathers, continuum = bool(state["gathers"][0]), bool(np.isinf(problem.family.size()))
    demand(continuum or not gathers, "rows are gathered for kernels that are known")
    if "W" not in state:
        demand(gathers, "W is missing")
        return
    check_known(state, problem.family, d)
    plan = lay_plan(solver, problem, None, state)
    check_arrays(state, BEGUN, {"m": len(plan.members)})
    demand(
        len(state["totals"]) == 4 + c and (state["totals"][:4] >= 0).all(), "totals are not sums over rows"
    )
    demand(state["scores"].shape[1] == 2 * c + 1, "scores are of another number of outputs")
    demand(not gathers or "restarted" in state, "restarted is missing")
    _check_coefficients(plan, state, c)


def _check_coefficients(plan: Plan, state: State, c: int) -> None:
    maps = plan.maps()
    demand(len({m.sparse for m in maps}) == 1, "there are kernels of two kinds")
    if not maps[0].sparse:
        blocks = _dense_blocks(plan, maps)
        width = 1 + sum(_width(m, b) for m, b in zip(maps, blocks, strict=True))
        check_arrays(state, DENSE, {"D": width, "c": c})
        _check_gram(state["gram"])
        return
    check_arrays(state, BINNED, {"g": int(plan.blocks.sum()), "bins": maps[0].width, "c": c})
    demand(
        len(state["intercept"]) == c + 1 and state["intercept"][c] >= 0, "the intercept is of other outputs"
    )
    wide = {name for name, bits in (("W", np.float32), ("variance", np.float32)) if state[name].dtype != bits}
    demand(not wide, f"{', '.join(sorted(wide))} should be in single precision")


def _check_gram(gram: np.ndarray) -> None:
    """Raise Damaged unless a matrix is symmetric and no entry is larger than the diagonal allows, to rounding."""
    size = np.diagonal(gram)
    demand((size >= 0).all(), "gram has a negative diagonal")
    root = np.sqrt(size)
    largest = np.abs(gram).max(axis=0) <= 1.001 * root * root.max(initial=0.0)
    demand(
        largest.all() and np.allclose(gram, gram.T, rtol=1e-4, atol=1e-6 * size.max()),
        "gram is no Gram matrix",
    )


def _width(feature_map, blocks) -> int:
    return feature_map.width * int(blocks)


def _dense_blocks(plan: Plan, maps) -> np.ndarray:
    """Return fewer blocks where the Gram matrix would get too large."""
    widths = np.array([_width(m, b) for m, b in zip(maps, plan.blocks, strict=True)])
    share = min(1.0, MOST_DENSE / widths.sum())
    return np.maximum(1, np.floor(plan.blocks * share)).astype(int)


def update(solver, state: State, batch: Problem, stages: tuple[int, ...] = STAGES) -> State:
    """Return the state after a batch; `stages` are the rows at which bandwidths are learned."""
    state = dict(state)
    if state["gathers"][0]:
        state["rows"] = np.concatenate([state["rows"], dense(batch.X)])
        state["targets"] = np.concatenate([state["targets"], batch.Y])
        state["weights"] = np.concatenate([state["weights"], batch.sample_weight])
        gathered, learned = _gathered(state, batch), int(state["learned"][0])
        if gathered.n_rows >= next((rows for rows in stages if rows > learned), stages[-1]):
            return _restart(solver, state, gathered, stages[-1], learn=True)
    if "W" not in state:
        return state
    _absorb(solver, lay_plan(solver, batch, None, state), state, batch)
    if not state["gathers"][0]:
        return state
    growth, sparse = gathered.n_rows / state["restarted"][0], "variance" in state
    learn = gathered.n_rows >= LEARN_AGAIN * learned
    if growth >= GROWTH and (sparse or learn) and _out_of_order(state, gathered):
        return _restart(solver, state, gathered, stages[-1], learn=learn)
    return _restart(solver, state, gathered, stages[-1], learn=False) if sparse and growth >= 2 else state


def _out_of_order(state: State, gathered: Problem) -> bool:
    """Whether the targets since all rows were last gone over are unlike those before, by more than chance.

    So it is in rows sorted by their targets, whose errors tell nothing: neighbours are alike, and errors small.
    """
    n = int(state["restarted"][0])
    before, since = gathered.rows(slice(None, n)), gathered.rows(slice(n, None))
    if since.n_rows < FEWEST_NEW or not (np.any(before.sample_weight) and np.any(since.sample_weight)):
        return False
    (mean, spread), (new, _) = (moments(part.Y, part.sample_weight) for part in (before, since))
    return bool((np.abs(new - mean) > UNLIKE * spread / np.sqrt(since.n_rows)).any())


def _gathered(state: State, batch: Problem) -> Problem:
    return replace(batch, X=state["rows"], Y=state["targets"], sample_weight=state["weights"])


def _restart(solver, state: State, gathered: Problem, last: int, *, learn: bool) -> State:
    """Go over all rows gathered so far in random order, with bandwidths learned from them or with those there are.

    When there are `last` rows, the last time, none are gathered any more.
    """
    n = gathered.n_rows
    fresh = _begin(
        solver, lay_plan(solver, gathered, None, None if learn else state, together=False), gathered
    )
    fresh["gathers"], fresh["restarted"] = np.array([n < last]), np.array([n])
    fresh["learned"] = np.array([n]) if learn else state["learned"]
    for name in ("rows", "targets", "weights"):
        fresh[name] = state[name] if n < last else state[name][:0]
    _absorb(solver, lay_plan(solver, gathered, None, fresh), fresh, _shuffled(gathered))
    return fresh


def _shuffled(problem: Problem) -> Problem:
    """Return the rows in an order that depends on their number only."""
    return problem.rows(np.random.default_rng(problem.n_rows).permutation(problem.n_rows))


def _absorb(solver, plan: Plan, state: State, batch: Problem) -> None:
    """Change coefficients and sums by a batch's rows."""
    maps = plan.maps()
    Y, s = batch.Y, batch.sample_weight
    known = plan, maps, state, dense(batch.X), Y, s
    F = _filter(*known) if maps[0].sparse else _sum_up(solver, *known)
    totals = state["totals"].copy()
    totals[:4] += len(Y), s.sum(), s @ np.square(Y - F).sum(axis=1), s @ np.square(Y).sum(axis=1)
    totals[4:] += s @ Y
    state["totals"] = totals
    seen = np.column_stack([F, Y, s]).astype(np.float32)[s > 0]
    state["scores"] = np.concatenate([state["scores"], seen])[-RECENT:]
    if len(state["scores"]) >= LEAST and totals[0] >= AGAIN * state["calibrated"][0]:
        recent, c = state["scores"].astype(float), Y.shape[1]
        calibration = fit_calibration(recent[:, :c], recent[:, c : 2 * c], recent[:, -1])
        state["calibration"] = np.zeros(0) if calibration is None else calibration
        state["calibrated"] = totals[:1]


def _filter(plan: Plan, maps, state: State, X, Y, s) -> np.ndarray:
    """Run the filter over rows, and return the score of each before it was seen."""
    grids = [m.grids(0, int(b)) for m, b in zip(maps, plan.blocks, strict=True)]
    with np.errstate(divide="ignore"):
        noise = 1.0 / (plan.C * s)
    F = np.empty(Y.shape)
    blocks = [slice(a, a + BLOCK_ROWS) for a in range(0, len(Y), BLOCK_ROWS)]
    for some in (blocks[i : i + 8] for i in range(0, len(blocks), 8)):
        bins = map_in_threads(lambda part: np.concatenate([g.bins(X[part]) for g in grids]).T.copy(), some)
        for part, places in zip(some, bins, strict=True):
            model = state["W"], state["variance"], state["intercept"]
            filter_rows(places, Y[part], noise[part], *model, F[part])
    return F


def _features(plan: Plan, maps, X) -> np.ndarray:
    """Return all dense features of rows, scaled by 1/√B_i, with a column of ones first."""
    parts = [np.ones((len(X), 1), dtype=np.float32)]
    for feature_map, blocks in zip(maps, _dense_blocks(plan, maps), strict=True):
        parts += [feature_map.block(b).transform(X) / np.float32(np.sqrt(blocks)) for b in range(blocks)]
    return np.hstack(parts)


def _sum_up(solver, plan: Plan, maps, state: State, X, Y, s) -> np.ndarray:
    """Add rows to the Gram matrix, solve, and return the score of each row before.

    The model is solved anew whenever the rows have doubled, so that the first rows of a large batch do not count as
    unseen for all of it; and at the end of a batch, unless its rows are next to none.
    """
    F = np.empty(Y.shape)
    blocks = _dense_blocks(plan, maps)
    owner = np.repeat(np.arange(len(maps)), [_width(m, b) for m, b in zip(maps, blocks, strict=True)])
    state["gram"], state["products"] = state["gram"].copy(), state["products"].copy()
    first, seen = 0, int(state["totals"][0])
    with one_blas_thread():
        while first < len(Y):
            last = min(len(Y), first + max(SOLVED_ROWS, seen + first))
            for part in (slice(a, min(a + BLOCK_ROWS, last)) for a in range(first, last, BLOCK_ROWS)):
                Z = _features(plan, maps, X[part])
                F[part] = Z @ state["W"]
                ZS = Z * np.sqrt(s[part, None]).astype(np.float32)
                state["gram"] += ZS.T @ ZS
                state["products"] += Z.T.astype(float) @ (s[part, None] * Y[part])
            first = last
            if first < len(Y) or (seen + first) * (1 - NEW_SHARE) >= state["solved"][0]:
                _solve(solver, plan, state, owner)
                state["solved"] = np.array([seen + first])
    return F


def _solve(solver, plan: Plan, state: State, owner) -> None:
    """Fit coefficients, and weights of several kernels, to the sums."""
    for _ in range(3 if len(plan.members) > 1 and solver.p < 2 else 1):
        state["W"], norms = _ridge(plan, state["gram"], state["products"], state["theta"], owner)
        state["theta"] = best_weights(plan, norms, solver.p)


def _ridge(plan: Plan, gram, products, theta, owner) -> tuple[np.ndarray, np.ndarray]:
    """Return the coefficients at fixed weights, and the kernels' norms, O(D³)."""
    lam = np.append(1.0, over_weights(plan.rho_sq, theta)[owner]) / plan.C
    used = np.isfinite(lam)
    W, factor = np.zeros_like(products), ridge_factor(gram[np.ix_(used, used)], lam[used])
    W[used] = cho_solve((factor, True), products[used], check_finite=False)
    squares = np.bincount(owner, np.square(W[1:]).sum(axis=1), minlength=len(theta))
    return W, np.sqrt(plan.rho_sq * squares)


def finish(solver, state: State, problem: Problem) -> Result:
    """Return the model so far."""
    if "W" not in state:
        return _provisional(solver, state, problem)
    return _result(lay_plan(solver, problem, None, state), state, problem.n_outputs)


def _result(plan: Plan, state: State, c: int) -> Result:
    """Turn coefficients into a result, with a warning where they are no good."""
    n, mass, error, power = state["totals"][:4]
    mean = state["totals"][4:] / max(mass, 1e-300)
    trivial = power / max(mass, 1e-300) - float(mean @ mean)
    if n >= COMPARED_ROWS:
        Verdict(int(n), error / (2 * mass), trivial / 2, 0.0).warn("Blockwise", "new rows", REMEDY)
    calibration = state["calibration"] if len(state["calibration"]) else None
    maps = plan.maps()
    if maps[0].sparse:
        W, b = state["W"].reshape(-1, c), state["intercept"][:c]
    else:
        blocks = _dense_blocks(plan, maps)
        plan = replace(plan, blocks=blocks)
        scale = np.repeat(np.sqrt(blocks), [_width(m, k) for m, k in zip(maps, blocks, strict=True)])
        W, b = state["W"][1:] / scale[:, None], state["W"][0]
    loss = float(0.5 * error / max(n, 1))
    trace = Trace((loss,), (np.nan,), (0.0,), (len(plan.members),), {"C": (plan.C,)})
    known = {"objective": loss, "gap": np.nan, "gap_kind": "none", "n_iter": 1, "converged": False}
    return plan.result(W, b, state["theta"], None, **known, trace=trace, calibration=calibration)


def _provisional(solver, state: State, problem: Problem) -> Result:
    """Return a model on few rows, with equal bandwidths from their distances; the state stays as it is."""
    return quick_model(solver, _gathered(state, problem), None)


def quick_model(solver, some: Problem, known: State | None) -> Result:
    """Return a model of few rows, with what a state knows, else equal bandwidths from their distances."""
    known = _from_distances(some) if known is None else known
    plan = lay_plan(solver, some, None, known)
    plan = plan.some(_of_one_kind(plan))
    plan = replace(plan, blocks=np.minimum(plan.blocks, 64))
    fresh = _begin(solver, plan, some)
    _absorb(solver, plan, fresh, _shuffled(some))
    return _result(plan, fresh, some.n_outputs)


def _of_one_kind(plan: Plan) -> np.ndarray:
    """Return which kernels have the kind of features that the first of them has: one pass takes no others."""
    sparse = np.array([m.sparse for m in plan.maps()])
    return sparse == sparse[0]


def _from_distances(some: Problem) -> State:
    """Return what a state knows of bandwidths: of the first continuum, equal ones from the distances of rows."""
    known = {"seed": np.array([0]), "C": np.array([some.C])}
    parts = some.family.families()
    part = next((k for k, part in enumerate(parts) if hasattr(part, "statistic")), None)
    if part is None:
        return known
    values = np.full((1, some.X.shape[1]), np.nan)
    own, X = parts[part], some.X
    if isinstance(own, View):
        has = own.presence_of(X) > 0
        own, X = own.family, own.columns_of(X)[has if has.any() else slice(None)]
    values[0, : X.shape[1] if own.ard else 1] = quick(own, X)
    return known | {"chosen": np.zeros(0), "part": np.array([part]), "values": values}
