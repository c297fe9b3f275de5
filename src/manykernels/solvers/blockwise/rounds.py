"""A fit over rows that lie elsewhere, in few rounds: many blocks of features at a time, by sums over the rows.

Visiting hundreds of grids one by one would take hundreds of rounds of messages. So g grids are gone over in one round:
with their Gram matrix bounded from above by g times its diagonal, as a row is in one bin of each,

    W_k ← W_k + (Z_kᵀ S R - λ_k W_k)/(g n_k + λ_k)    for all g grids at once,

n_k the weight in every bin. The objective never rises; where the grids agree, which is where the function is smooth or
a row is alone, this is the exact minimum over all of them. A few Fourier blocks at a time have one Gram matrix.

Residuals stay where the rows are, and Dask makes those of a lost worker again, step by step, to the same bits.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_solve

from ..._util.arrays import row_blocks
from ...certificates import conjugate_exponent, norm
from ...features import plain_rows
from ...problem import Problem, Result, nu_of
from ...streaming.cluster import Block, Rows
from ..bandwidth_learning.error import ridge_factor
from ..log import Log, OnIteration
from ._grids import add_counts, add_sums, subtract_step, unrolled
from .plan import Plan, best_weights, first_weights, lay_plan
from .run import judged
from .sweeps import Unit, lay_out

#: Rounds of a fit, about; and Fourier features of one.
ROUNDS, DENSE_WIDTH = 36, 1024
#: Bytes of sums that one round may send from a block.
MOST_SUMS = 2**27
#: Rows that dense features are made for at a time.
TILE = 1024


@dataclass(frozen=True)
class Group:
    """Blocks that are gone over in one round.

    Attributes
    ----------
    units : list of int
        Their numbers.
    ranges : list of (member, first, last)
        Their blocks, in the order of `units`.
    sparse : bool
    """

    units: tuple[int, ...]
    ranges: tuple[tuple[int, int, int], ...]
    sparse: bool


# -- what happens where the rows are -------------------------------------------------------------------------


def _targets(block: Block) -> tuple[np.ndarray, ...]:
    """Return Σ s and Σ s y."""
    return np.asarray(block.s.sum()), block.s @ block.Y


class State(NamedTuple):
    """What stays with the rows of a block between two rounds.

    Attributes
    ----------
    R : (n, c) array
        Residuals.
    bins : (g, n) array or None
        Bins in the grids of the group that is looked at.
    """

    R: np.ndarray
    bins: np.ndarray | None = None


def _start(block: Block, b: np.ndarray) -> State:
    """Return the first residuals."""
    return State((block.Y - b).astype(np.float32))


def _turned(block: Block, state: State, maps, done: Group | None, step, group: Group | None) -> State:
    """Return the rows' state after the step in one group, ready for a look at another: one task, as tasks cost."""
    R = state.R
    if done is not None:
        R = R.copy()
        if done.sparse:
            _step_in_grids(R, state.bins, step)
        else:
            _step_in_features(R, block.X, maps, done, step)
    return State(R, _bins(block.X, maps, group) if group is not None and group.sparse else None)


def _bins(X: np.ndarray, maps, group: Group) -> np.ndarray:
    """Return the bins of all rows in the grids of a group, (g, n)."""
    X = plain_rows(X)
    return np.concatenate([maps[m].grids(a, b).bins(X) for m, a, b in group.ranges])


def _step_in_grids(R: np.ndarray, bins, step) -> None:
    for line, own in zip(bins, step, strict=True):
        subtract_step(line, own, R)


def _step_in_features(R: np.ndarray, X: np.ndarray, maps, group: Group, step) -> None:
    for rows in row_blocks(len(R), 1, TILE):
        R[rows] -= (_features(X[rows], maps, group) @ step).astype(np.float32)


def _summed(block: Block, state: State, maps, group: Group | None, width: int, counted: bool) -> tuple:
    """Return Σ s‖R‖², Σ s R, and of the group looked at the sums of `_grid_sums` or `_dense_sums`."""
    R, s = state.R, block.s
    loss = np.asarray(s @ np.square(R, dtype=np.float64).sum(axis=1)), s @ R.astype(np.float64)
    if group is None:
        return loss
    if group.sparse:
        return *loss, *_grid_sums(R, s, state.bins, width, counted)
    return *loss, *_dense_sums(block, R, maps, group, width, counted)


def _grid_sums(R: np.ndarray, s: np.ndarray, bins, width: int, counted: bool) -> tuple[np.ndarray, ...]:
    """Return ZᵀSR of every grid, and the weights in its bins if they are asked for, (g, width, c) and (g, width)."""
    s, c = s.astype(np.float32), R.shape[1]
    sums = np.zeros((len(bins), width, c), np.float32)
    counts = np.zeros((len(bins) if counted else 0, width), np.float32)
    for k, line in enumerate(bins):
        add_sums(line, R, s, sums[k], unrolled(c))
        if counted:
            add_counts(line, s, counts[k])
    return sums, counts


def _features(X: np.ndarray, maps, group: Group) -> np.ndarray:
    blocks = [maps[m].block(i).transform(X) for m, a, b in group.ranges for i in range(a, b)]
    return np.concatenate(blocks, axis=1)


def _dense_sums(block: Block, R, maps, group: Group, width: int, counted: bool) -> tuple[np.ndarray, ...]:
    """Return ZᵀSR of a group's features, and their Gram matrix if it is asked for."""
    sums, gram = np.zeros((width, R.shape[1])), np.zeros((width, width) if counted else (0, 0))
    for rows in row_blocks(len(block.s), 1, TILE):
        Z, s = _features(block.X[rows], maps, group).astype(np.float64), block.s[rows, None]
        sums += Z.T @ (s * R[rows])
        if counted:
            gram += Z.T @ (s * Z)
    return sums, gram


# -- the rounds ----------------------------------------------------------------------------------------------


class Rounds:
    """Coefficients of all blocks, here, and residuals of all rows, where these are.

    Parameters
    ----------
    rows : Rows
    plan : Plan
    n_outputs : int
    """

    def __init__(self, rows: Rows, plan: Plan, n_outputs: int):
        self.rows, self.plan, self.c = rows, plan, n_outputs
        maps = plan.maps()
        self.maps, self.shared = maps, rows.broadcast(maps)
        every = [
            np.full(int(b), m.width, np.int64) for m, b in zip(maps, plan.blocks, strict=True) if m.sparse
        ]
        self.units = lay_out(maps, plan.blocks, every)
        self.groups = list(groups(self.units, maps, plan.sweeps, n_outputs))
        #: Of every unit: all bins of a grid, in its own order.
        self.W = {
            k: np.zeros(
                (maps[u.member].width, n_outputs), np.float32 if maps[u.member].sparse else np.float64
            )
            for k, u in enumerate(self.units)
            if u.member >= 0
        }
        self.counts: dict[int, np.ndarray] = {}
        self.grams: dict[int, np.ndarray] = {}
        self.weight, targets = rows.sum(_targets)
        self.targets = np.asarray(targets, dtype=float)
        self.b = self.targets / (float(self.weight) + 1.0 / plan.C)
        self.state = rows.map(_start, self.b)
        #: The group whose step the rows have not taken yet, with the step.
        self._pending: tuple[Group | None, Any] = None, None
        #: Σ s‖R‖² and Σ s R at the last look, and the sums of the group looked at.
        self.loss, self.plain = 0.0, np.zeros(n_outputs)
        self.sums: np.ndarray = np.zeros(0)

    def look(self, number: int | None) -> None:
        """Let the rows take the last step, and sum up for a group, or for the loss alone: a round."""
        group = None if number is None else self.groups[number]
        before, (done, step) = self.state, self._pending
        self.state = self.rows.map(_turned, before, self.shared, done, step, group)
        self._pending = None, None
        new, width = self._is_new(number), 0
        if group is not None:
            width = sum(len(self.W[k]) for k in group.units[: 1 if group.sparse else None])
        loss, plain, *found = self.rows.sum(_summed, self.state, self.shared, group, width, new)
        self.loss, self.plain = float(loss), np.asarray(plain, dtype=float)
        self.rows.forget(before, *([] if done is None else [step]))
        if group is None:
            return
        self.sums = found[0]
        if new and group.sparse:
            self.counts |= dict(zip(group.units, found[1], strict=True))
        elif new and number is not None:
            self.grams[number] = found[1]

    def _is_new(self, number: int | None) -> bool:
        """Whether the weights in the bins of a group, or its Gram matrix, are not known yet."""
        if number is None:
            return False
        group = self.groups[number]
        return group.units[0] not in self.counts if group.sparse else number not in self.grams

    def step(self, number: int, lams: np.ndarray) -> None:
        """Descend over the blocks of the group looked at last; the rows take the step with the next look."""
        group = self.groups[number]
        step = self._grid_step(group, lams) if group.sparse else self._dense_step(number, group, lams)
        self._pending = group, self.rows.broadcast(step)

    def _grid_step(self, group: Group, lams) -> np.ndarray:
        g = len(group.units)
        step: np.ndarray = np.zeros_like(self.sums)
        for own, k, total in zip(step, group.units, self.sums, strict=True):
            weight, lam = self.counts[k][:, None], lams[k]
            if np.isinf(lam):
                own[...] = -self.W[k]
            else:
                own[...] = (total - np.float32(lam) * self.W[k]) / (np.float32(g) * weight + np.float32(lam))
            self.W[k] += own
        return step

    def _dense_step(self, number: int, group: Group, lams) -> np.ndarray:
        W = np.concatenate([self.W[k] for k in group.units])
        lam = np.concatenate([np.full(len(self.W[k]), lams[k]) for k in group.units])
        kept = np.flatnonzero(np.isfinite(lam))
        step = -W
        if len(kept):
            H = self.grams[number][np.ix_(kept, kept)]
            # Features in units of their λ have λ = 1 each.
            root = np.sqrt(lam[kept])
            factor = ridge_factor(H / root / root[:, None], 1.0)
            inner = (self.sums[kept] - lam[kept, None] * W[kept]) / root[:, None]
            step[kept] = cho_solve((factor, True), inner, check_finite=False) / root[:, None]
        first = 0
        for k in group.units:
            self.W[k] += step[first : first + len(self.W[k])]
            first += len(self.W[k])
        return step

    def norms(self) -> np.ndarray:
        """Return u_i = ρ_i‖w_i‖."""
        squares = np.zeros(len(self.plan.members))
        for k, W in self.W.items():
            squares[self.units[k].member] += float(np.vdot(W, W.astype(np.float64)))
        return np.sqrt(self.plan.rho_sq * self.plan.blocks * squares)

    def objective(self, p: float) -> float:
        """Return P at the coefficients, as of the last look."""
        n, C = self.rows.n_rows, self.plan.C
        penalty = norm(self.norms(), p) ** 2 + float(self.b @ self.b)
        return self.loss / (2 * n) + penalty / (2 * C * n)

    def gap(self, p: float) -> float:
        """Return P - D of the feature problem; see ``SweepRun._gap``. A round for every group."""
        plan, n, C = self.plan, self.rows.n_rows, self.plan.C
        g, inner = np.zeros(len(plan.members)), 0.0
        for number, group in enumerate(self.groups):
            self.look(number)
            for k, sums in zip(group.units, self._by_unit(group), strict=True):
                i = self.units[k].member
                inner += float(np.vdot(self.W[k].astype(float), sums))
                if plan.rho_sq[i] > 0:
                    g[i] += C**2 * float(np.vdot(sums, sums)) / (plan.blocks[i] * plan.rho_sq[i])
        inner += float(self.b @ self.plain)
        dual_norm = norm(g, conjugate_exponent(nu_of(p))) + C**2 * float(self.plain @ self.plain)
        penalty = norm(self.norms(), p) ** 2 + float(self.b @ self.b)
        return max(0.0, -inner / n + (penalty + dual_norm) / (2 * C * n))

    def _by_unit(self, group: Group) -> Sequence[np.ndarray]:
        """Return the sums of the group looked at, unit by unit."""
        if group.sparse:
            return list(self.sums.astype(float))
        return np.split(self.sums, np.cumsum([len(self.W[k]) for k in group.units])[:-1])

    def result(self, theta: np.ndarray, **fields) -> Result:
        """Return the model, with coefficients for the bins that rows have met."""
        grids = sorted((k for k in self.counts), key=lambda k: self.units[k].line)
        met = [np.flatnonzero(self.counts[k] > 0) for k in grids]
        seen = np.array([len(bins) for bins in met], dtype=np.int64)
        sparse = [m for m in self.maps if m.sparse]
        slots = None
        if sparse:
            slots = np.zeros((len(grids), max(m.width for m in sparse)), sparse[0].grids(0, 1).dtype)
            for line, bins in zip(slots, met, strict=True):
                line[bins] = np.arange(1, len(bins) + 1)
        own = iter(met)
        order = sorted(self.W, key=lambda k: self.units[k].first)
        parts = []
        for k in order:
            sparse_unit = self.units[k].line >= 0
            W = self.W[k]
            parts.append(np.concatenate([np.zeros((1, self.c), W.dtype), W[next(own)]]) if sparse_unit else W)
        W = np.concatenate([part.astype(np.float32) if sparse else part for part in parts])
        tables = (slots, seen) if sparse else (None, None)
        return self.plan.result(W, self.b, theta, self.norms(), *tables, **fields)


def groups(units: list[Unit], maps, sweeps: int, n_outputs: int) -> Iterator[Group]:
    """Yield the groups of a sweep: as many grids each as make about ROUNDS rounds, in the order of the units."""
    lines = [k for k, u in enumerate(units) if u.line >= 0]
    dense = [k for k, u in enumerate(units) if u.line == -1]
    cut: list[tuple[float, Group]] = []
    wide = _dense_parts(units, maps, dense)
    left = max(4, ROUNDS // sweeps - len(wide))
    room = max(
        1, MOST_SUMS // (4 * (n_outputs + 1) * max([maps[units[k].member].width for k in lines] or [1]))
    )
    size = min(room, math.ceil(len(lines) / left)) if lines else 1
    narrow = [lines[a : a + size] for a in range(0, len(lines), size)]
    for parts, sparse in ((narrow, True), (wide, False)):
        for at, part in enumerate(parts):
            # Grids of equal width: tables lie side by side.
            for some in _alike(units, maps, part) if sparse else [part]:
                cut.append((at / len(parts), Group(tuple(some), _ranges(units, some), sparse)))
    # Kernels take turns; those without bins go first, as in sweeps over one block after the other.
    cut.sort(key=lambda pair: (pair[0], pair[1].sparse))
    yield from (group for _, group in cut)


def _dense_parts(units, maps, dense: list[int]) -> list[list[int]]:
    parts: list[list[int]] = []
    width = DENSE_WIDTH
    for k in dense:
        own = maps[units[k].member].width
        if not parts or width + own > DENSE_WIDTH:
            parts.append([])
            width = 0
        parts[-1].append(k)
        width += own
    return parts


def _alike(units, maps, part: list[int]) -> list[list[int]]:
    widths = sorted({maps[units[k].member].width for k in part})
    return [[k for k in part if maps[units[k].member].width == w] for w in widths]


def _ranges(units, part: Sequence[int]) -> tuple[tuple[int, int, int], ...]:
    """Return the blocks of units one by one, those that follow each other together."""
    out: list[tuple[int, int, int]] = []
    for k in part:
        member, index = units[k].member, units[k].index
        if out and out[-1][0] == member and out[-1][2] == index:
            out[-1] = (member, out[-1][1], index + 1)
        else:
            out.append((member, index, index + 1))
    return tuple(out)


def solve_in_rounds(
    solver, rows: Rows, first: Problem, held_out: Problem | None, on_iteration: OnIteration | None
) -> Result:
    """Lay a plan by the sample, go over all blocks in rounds, and judge the model by the rows held out."""
    log = Log(on_iteration, time.perf_counter())
    plan = lay_plan(solver, first, rows.n_rows, rows=rows)
    rounds = Rounds(rows, plan, first.n_outputs)
    theta, objective = first_weights(plan, first, solver.p), math.nan
    last = len(rounds.groups) - 1
    rounds.look(0 if last >= 0 else None)
    for sweep in range(plan.sweeps):
        lams = plan.lams(rounds.units, theta)
        for number in range(last + 1):
            rounds.step(number, lams)
            # The look for the next step tells the loss after this one.
            rounds.look(number + 1 if number < last else 0 if sweep + 1 < plan.sweeps else None)
        norms = rounds.norms()
        if sweep + 1 < plan.sweeps:
            theta = best_weights(plan, norms, solver.p)
        objective = rounds.objective(solver.p)
        if log.add(objective, math.nan, int(np.count_nonzero(norms))):
            break
    gap = rounds.gap(solver.p) if solver.certify else math.nan
    extra: dict[str, tuple] = {"C": (plan.C,), "rounds": (rows.rounds,), "bytes": (rows.sent,)}
    if plan.prepared is not None and np.isinf(plan.family.size()):
        extra["bandwidths"] = (plan.prepared.shape, plan.prepared.error)
    result = rounds.result(
        theta,
        objective=objective,
        gap=gap,
        gap_kind="features" if solver.certify else "none",
        converged=bool(gap <= 1e-3 * objective),
        trace=log.trace(**extra),
        n_iter=len(log),
    )
    mean = rounds.targets / max(float(rounds.weight), 1e-300)
    calibration = None if held_out is None else judged(result, held_out, mean)
    return replace(result, calibration=calibration)
