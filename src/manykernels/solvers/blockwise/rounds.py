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
from typing import Any

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


def _start(block: Block, b: np.ndarray) -> np.ndarray:
    """Return the first residuals."""
    return (block.Y - b).astype(np.float32)


def _bins(block: Block, maps, group: Group) -> np.ndarray:
    """Return the bins of all rows in the grids of a group, (g, n)."""
    X = plain_rows(block.X)
    return np.concatenate([maps[m].grids(a, b).bins(X) for m, a, b in group.ranges])


def _grid_sums(block: Block, R, bins, width: int, counted: bool) -> tuple[np.ndarray, ...]:
    """Return ZᵀSR of every grid, and the weights in its bins if they are asked for, (g, width, c) and (g, width)."""
    s, c = block.s.astype(np.float32), R.shape[1]
    sums = np.zeros((len(bins), width, c), np.float32)
    counts = np.zeros((len(bins) if counted else 0, width), np.float32)
    for k, line in enumerate(bins):
        add_sums(line, R, s, sums[k], unrolled(c))
        if counted:
            add_counts(line, s, counts[k])
    return sums, counts


def _grids_stepped(block: Block, R, bins, step) -> np.ndarray:
    """Return the residuals after a step in all grids of a group."""
    R = R.copy()
    for line, own in zip(bins, step, strict=True):
        subtract_step(line, own, R)
    return R


def _features(X: np.ndarray, maps, group: Group) -> np.ndarray:
    blocks = [maps[m].block(i).transform(X) for m, a, b in group.ranges for i in range(a, b)]
    return np.concatenate(blocks, axis=1)


def _dense_sums(block: Block, R, maps, group: Group, counted: bool) -> tuple[np.ndarray, ...]:
    """Return ZᵀSR of a group's features, and their Gram matrix if it is asked for."""
    width = sum(maps[m].width * (b - a) for m, a, b in group.ranges)
    sums, gram = np.zeros((width, R.shape[1])), np.zeros((width, width) if counted else (0, 0))
    for rows in row_blocks(len(block.s), 1, TILE):
        Z, s = _features(block.X[rows], maps, group).astype(np.float64), block.s[rows, None]
        sums += Z.T @ (s * R[rows])
        if counted:
            gram += Z.T @ (s * Z)
    return sums, gram


def _dense_stepped(block: Block, R, maps, group: Group, step) -> np.ndarray:
    """Return the residuals after a step in a group's features."""
    R = R.copy()
    for rows in row_blocks(len(block.s), 1, TILE):
        R[rows] -= (_features(block.X[rows], maps, group) @ step).astype(np.float32)
    return R


def _loss(block: Block, R) -> np.ndarray:
    return np.asarray(block.s @ np.square(R, dtype=np.float64).sum(axis=1))


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
        self.R = rows.map(_start, self.b)
        #: What no round needs once the next one is done.
        self._old: list[Any] = []

    def visit(self, number: int, lams: np.ndarray) -> None:
        """Descend over the blocks of a group: a round."""
        group = self.groups[number]
        before, old = self.R, self._old
        if group.sparse:
            bins = self.rows.map(_bins, self.shared, group)
            step = self.rows.broadcast(self._grid_step(group, bins, lams))
            self.R = self.rows.map(_grids_stepped, before, bins, step)
            self._old = [before, bins, step]
        else:
            step = self.rows.broadcast(self._dense_step(number, group, lams))
            self.R = self.rows.map(_dense_stepped, before, self.shared, group, step)
            self._old = [before, step]
        self.rows.forget(*old)

    def _grid_step(self, group: Group, bins, lams) -> np.ndarray:
        new = [k for k in group.units if k not in self.counts]
        width = len(self.W[group.units[0]])
        sums, counts = self.rows.sum(_grid_sums, self.R, bins, width, bool(new))
        if new:
            self.counts |= dict(zip(group.units, counts, strict=True))
        g = len(group.units)
        step = np.zeros_like(sums)
        for own, k, total in zip(step, group.units, sums, strict=True):
            weight, lam = self.counts[k][:, None], lams[k]
            if np.isinf(lam):
                own[...] = -self.W[k]
            else:
                own[...] = (total - np.float32(lam) * self.W[k]) / (np.float32(g) * weight + np.float32(lam))
            self.W[k] += own
        return step

    def _dense_step(self, number: int, group: Group, lams) -> np.ndarray:
        new = number not in self.grams
        sums, gram = self.rows.sum(_dense_sums, self.R, self.shared, group, new)
        if new:
            self.grams[number] = gram
        W = np.concatenate([self.W[k] for k in group.units])
        lam = np.concatenate([np.full(len(self.W[k]), lams[k]) for k in group.units])
        kept = np.flatnonzero(np.isfinite(lam))
        step = -W
        if len(kept):
            H = self.grams[number][np.ix_(kept, kept)]
            # Features in units of their λ have λ = 1 each.
            root = np.sqrt(lam[kept])
            factor = ridge_factor(H / root / root[:, None], 1.0)
            inner = (sums[kept] - lam[kept, None] * W[kept]) / root[:, None]
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
        """Return P at the coefficients: a round."""
        n, C = self.rows.n_rows, self.plan.C
        penalty = norm(self.norms(), p) ** 2 + float(self.b @ self.b)
        return float(self.rows.sum(_loss, self.R)) / (2 * n) + penalty / (2 * C * n)

    def gap(self, p: float) -> float:
        """Return P - D of the feature problem; see ``SweepRun._gap``. A round for every group."""
        plan, n, C = self.plan, self.rows.n_rows, self.plan.C
        g, inner = np.zeros(len(plan.members)), 0.0
        for group in self.groups:
            for k, sums in zip(group.units, self._sums(group), strict=True):
                i = self.units[k].member
                inner += float(np.vdot(self.W[k].astype(float), sums))
                if plan.rho_sq[i] > 0:
                    g[i] += C**2 * float(np.vdot(sums, sums)) / (plan.blocks[i] * plan.rho_sq[i])
        ones = np.asarray(self.rows.sum(_plain, self.R), dtype=float)
        inner += float(self.b @ ones)
        dual_norm = norm(g, conjugate_exponent(nu_of(p))) + C**2 * float(ones @ ones)
        penalty = norm(self.norms(), p) ** 2 + float(self.b @ self.b)
        return max(0.0, -inner / n + (penalty + dual_norm) / (2 * C * n))

    def _sums(self, group: Group) -> Sequence[np.ndarray]:
        if not group.sparse:
            sums, _ = self.rows.sum(_dense_sums, self.R, self.shared, group, False)
            return np.split(sums, np.cumsum([len(self.W[k]) for k in group.units])[:-1])
        bins = self.rows.map(_bins, self.shared, group)
        width = len(self.W[group.units[0]])
        return list(self.rows.sum(_grid_sums, self.R, bins, width, False)[0].astype(float))

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


def _plain(block: Block, R) -> np.ndarray:
    return block.s @ R.astype(np.float64)


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
    plan = lay_plan(solver, first, rows.n_rows)
    rounds = Rounds(rows, plan, first.n_outputs)
    theta, objective = first_weights(plan, first, solver.p), math.nan
    for sweep in range(plan.sweeps):
        lams = plan.lams(rounds.units, theta)
        for number in range(len(rounds.groups)):
            rounds.visit(number, lams)
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
