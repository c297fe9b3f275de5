"""Gradient steps on blocks of random features, for :class:`TriplyStochastic`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..._util.arrays import even_parts
from ..._util.shapes import Diverged
from ...features import Block, generator_of
from ...features._thin import thin_scores
from ...kernels.statistics import dense
from ...problem import Problem
from ..verdict import ENOUGH, best_constant, compare
from ._steps import STEP, Coefficients, Kernels, Settings, begin_step, end_step, meet, move, take_steps
from .ahead import Ahead, Tile
from .state import FeatureState, Layout

#: The constant of assumption A4: while it learns, no kernel's θ is below 1/20.
PSI_CAP = 20.0
#: Stands for a kernel's number where kernels are drawn.
DRAWS = 2**31 - 2
#: Cycles over all kernels whose orders are drawn together.
CYCLES = 64
#: Rows on which the kernels' largest eigenvalues are estimated, and products with the matrix that this takes.
SAMPLE, PRODUCTS = 128, 16
#: Kernels of which distances between these rows are shared.
TOGETHER = 16
#: Bounds of the losses' second derivatives; for those that have none, of the first. Softmax's bound is 1/2, but two
#: classes at evens and no third are needed for it; 1/4 is what two classes of many come to, and twice as fast.
CURVATURE = {
    "squared": 1.0,
    "logistic": 0.25,
    "softmax": 0.25,
    "squared_hinge": 2.0,
    "hinge": 1.0,
    "max_hinge": 1.0,
}
#: In the end γ_i = LATE/(λ i); Theorem 5.1 wants it in (1, 2).
LATE = 1.5
#: The average gives iterate j a weight near j^FORGET, so that it is made of the last i/FORGET iterates or so.
FORGET = 8
#: The step is halved when the loss of a batch is this many times that of f = 0.
EXPLODED = 10.0


class Steps:
    """Takes the steps of one batch, on a state of its own.

    Parameters
    ----------
    solver : TriplyStochastic
    state : FeatureState
        Changed in place.
    batch : Problem
    together : bool
        Whether steps whose features are made are taken in one call, and not one by one.
    ahead : dict
        Options of :class:`Ahead`.
    """

    def __init__(self, solver, state: FeatureState, batch: Problem, *, together: bool = True, **ahead: int):
        self.solver, self.state, self.batch = solver, state, batch
        self.together, self.ahead = together, ahead
        family: Any = batch.family
        self.members = family.members()
        self.maps = family.random_features(self.members, state.n_columns, state.seed, solver.width)
        self.alive = state.alive.tolist()
        self.blocks: list[Block] = []
        self.columns: dict[tuple[int, int], slice] = {}
        self.layout = Layout(state)
        self._lay_out()
        m, k = len(self.alive), solver.kernels_per_step
        self.cycle = 1 if k == "all" else math.ceil(m / min(k, m))
        self.per_step = int(min(k, m)) if solver.faithful and k != "all" else math.ceil(m / self.cycle)
        self.turns = even_parts(m, self.cycle)
        self._orders: tuple[int, np.ndarray] = (-1, np.zeros(0))
        # What compiled loops take is contiguous and can be written to: they are compiled anew for anything else.
        self.Y, self.s = (
            np.require(v, dtype=np.float64, requirements=["C", "W"]) for v in (batch.Y, batch.sample_weight)
        )
        self.size = solver.rows_of_step(state.n_rows)
        self.F, self.S = np.zeros((2, min(self.size, batch.n_rows), self.layout.W.shape[1]), dtype=np.float32)
        self.watched, self.constant = self._new_rows()
        self.found = np.zeros(4)
        self.settings = self._settings()
        self.now = state.numbers()

    def _settings(self) -> Settings:
        solver, batch = self.solver, self.batch
        return Settings(
            code=int(batch.loss.code),
            curvature=CURVATURE[batch.loss.name],
            C=float(batch.C),
            n_rows=int(self.state.n_rows),
            p=float(solver.p) if solver.learn_weights else 2.0,
            least=1.0 / PSI_CAP,
            step=float(solver.step),
            late=LATE,
            batch_size=self.size,
            n_kernels=len(self.alive),
            cycle=self.cycle,
            per_step=self.per_step,
            forget=float(FORGET),
            exploded=EXPLODED,
            faithful=bool(solver.faithful),
        )

    def run(self) -> None:
        """Take one step per `size` rows."""
        n, size = self.batch.n_rows, self.size
        edges = np.append(np.arange(0, n, size), n)
        sums, at = self._sums(edges), 0
        with Ahead(self.batch.X, self.blocks, size, **self.ahead) as ahead:
            ahead.begin()  # before the spectrum, which other threads need not wait for
            self._notice_scale()
            while at < len(sums):
                count = self._together(ahead, edges[at:])
                self._take(ahead, edges[at : at + count + 1], sums[at : at + count])
                at += count
        self.state.take_over(self.now)
        self.state.epoch_rows += n
        self.state.targets += self.s @ self.Y
        self.state.watch(self.found)

    # -- where coefficients are ----------------------------------------------------------------------------

    def _lay_out(self) -> None:
        """Give all blocks their columns: those to come as well, with coefficients 0, unless there is no end to them."""
        drawn = [0] * len(self.maps)
        if not self.solver.faithful:
            for i in self.alive:
                for j in range(self._most(i)):
                    self._append(i, j)
        for b, i in enumerate(self.state.owner):
            if (i, drawn[i]) not in self.columns:
                self._append(i, drawn[i])
            self.layout.bind(b, self.columns[i, drawn[i]])
            drawn[i] += 1
        self.theta = np.ones(len(self.maps))
        self.layout.follow(0.0)

    def _append(self, kernel: int, index: int) -> None:
        """Give a block of a kernel the next columns."""
        block = self.maps[kernel].block(index)
        self.blocks.append(block)
        self.columns[kernel, index] = self.layout.append(kernel, block.width)

    def _most(self, kernel: int) -> int:
        """Return how many blocks a kernel gets."""
        n_blocks = self.maps[kernel].n_blocks
        return self.solver.n_features // self.solver.width if n_blocks is None else n_blocks

    # -- what is known of the rows -------------------------------------------------------------------------

    def _sums(self, edges: np.ndarray) -> np.ndarray:
        """Return the number of every step's rows, their weight, and their loss at f = 0: the same for all classes."""
        loss, Y = self.batch.loss, self.Y if self.batch.loss.regression else self.Y[:1]
        zero = self.s * loss.value(Y, np.zeros(Y.shape))
        return np.column_stack(
            [np.diff(edges), np.add.reduceat(self.s, edges[:-1]), np.add.reduceat(zero, edges[:-1])]
        )

    def _notice_scale(self) -> None:
        """Average the kernels' largest eigenvalues and mean diagonals over the batches."""
        top, trace = self._spectrum()
        state = self.state
        seen = state.rows / (state.rows + self.batch.n_rows)
        state.top = seen * state.top + (1 - seen) * top
        state.trace = seen * state.trace + (1 - seen) * trace
        # A batch on a larger scale than those before gets smaller steps, and leaves later ones as they are.
        self.top, self.trace = np.maximum(top, state.top), np.maximum(trace, state.trace)

    def _spectrum(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the largest eigenvalue of K_i/n and the mean diagonal on some rows with weight, O(m SAMPLE²)."""
        weighty = np.flatnonzero(self.s) if self.s.any() else np.arange(self.batch.n_rows)
        rows = weighty[np.unique(np.linspace(0, len(weighty) - 1, SAMPLE).astype(int))]
        X, n = np.asarray(dense(self.batch.X[rows]), dtype=float), len(rows)
        top, trace = np.zeros(len(self.members)), np.zeros(len(self.members))
        for first in range(0, len(self.alive), TOGETHER):
            some = self.alive[first : first + TOGETHER]
            bank = self.batch.family.bank(X, [self.members[i] for i in some])
            for i, alone in zip(some, np.eye(len(some)), strict=True):
                K = bank.gram(alone)
                top[i], trace[i] = largest_eigenvalue(K) / n, np.trace(K) / n
        return top, trace

    def _new_rows(self) -> tuple[int, np.ndarray]:
        """Return the first row to be scored before its step, and the best constant before it.

        Where rows come once, each is new to the model until its step. The last ENOUGH rows of a batch will do, and
        none as long as hardly any row has been seen.
        """
        state, n, size = self.state, self.batch.n_rows, self.size
        first = max(0, (n - ENOUGH) // size * size)
        if state.n_rows or state.rows + first < ENOUGH:
            first = n
        s = self.s[:first]
        mean = (state.targets + s @ self.Y[:first]) / max(state.weight + s.sum(), 1e-300)
        return first, best_constant(self.batch.loss, mean)

    def _watch(self, tile: Tile) -> None:
        """Compare the model that `finish` would return with the constant, on rows before their step."""
        state, F = self.state, self.F[: len(tile.Z)]
        blocks, b = (self.layout.W, state.intercept)
        if not self.solver.faithful:
            blocks, b = self.layout.mean.astype(np.float32), state.mean_intercept
        thin_scores(tile.Z, blocks[: self.layout.width], F)
        Y, s = self.Y[tile.rows], self.s[tile.rows]
        self.found += compare(self.batch.loss, Y, F[:, : len(b)] + b, self.constant, s)

    # -- steps ---------------------------------------------------------------------------------------------

    def _together(self, ahead: Ahead, edges: np.ndarray) -> int:
        """Return how many steps to take in one go: those whose rows are in the next tile.

        A single one where its rows are scored before, or where it has new features, which all later ones need.
        """
        first = int(edges[0])
        if self.solver.faithful or not self.together or first >= self.watched:
            return 1
        last = min(ahead.end_of(first), self.watched)
        return max(1, int(np.searchsorted(edges, last, side="right")) - 1)

    def _take(self, ahead: Ahead, edges: np.ndarray, sums: np.ndarray) -> None:
        """Take some steps together, or a single one tile by tile."""
        counts = self.layout.counts.copy()  # before the draws: each step knows those before it
        draws = self._draws(len(sums))
        state, known = self.state, (self.theta, self.top, self.trace)
        kernels = Kernels(self.layout.squares, counts, state.cross, state.rho_sq, *known)
        first, last = int(edges[0]), int(edges[-1])
        if self.together and first < self.watched and ahead.end_of(first) >= last:
            finite = self._take_together(ahead, slice(first, last), sums, draws, kernels)
        else:
            finite = self._take_one(ahead, slice(first, last), sums[0], draws[0], kernels)
        if not finite:
            raise Diverged(
                f"TriplyStochastic diverged in step {int(self.now[STEP])}; lower C or step, or standardise the columns "
                "of X" + (", or use faithful=False." if self.solver.faithful else ".")
            )

    def _take_together(self, ahead: Ahead, rows: slice, sums, draws, kernels: Kernels) -> bool:
        """Take steps on one tile, in one compiled call; return whether their losses are finite."""
        (tile,) = ahead.between(rows.start, rows.stop)
        known = tile.Z, self.Y[rows], self.s[rows], self.F, self.S
        w = self._coefficients()
        return take_steps(self.settings, self.now, sums, draws, kernels, w, *known) == len(draws)

    def _take_one(self, ahead: Ahead, rows: slice, sums, draw, kernels: Kernels) -> bool:
        """Take a step on one or more tiles, whose parts of the gradient are added in order; return the same."""
        w, rates, total = self._coefficients(), np.empty(len(draw)), 0.0
        G, inner = np.zeros(len(w.b)), np.zeros(len(draw))
        gamma, lam = begin_step(self.settings, self.now, sums, draw, kernels, w.V, rates)
        for tile in ahead.between(rows.start, rows.stop):
            if rows.start >= self.watched:
                self._watch(tile)
            n, width = tile.Z.shape
            known = self.Y[tile.rows], self.s[tile.rows], self.F[:n], self.S[:n]
            total += move(self.settings.code, tile.Z, w.W[:width], w.b, *known, G, draw, rates, w.V)
            if self.solver.faithful:
                meet(tile.Z, w.W, self.S, len(w.b), w.edges, w.owner, draw, inner)
        if not math.isfinite(total):
            return False
        n = rows.stop - rows.start
        end_step(self.settings, self.now, n, draw, rates, total, gamma, lam, G, inner, w, kernels)
        return True

    def _coefficients(self) -> Coefficients:
        state, layout = self.state, self.layout
        arrays = layout.V, layout.mean, layout.W, layout.edges, layout.owner
        return Coefficients(state.intercept, state.mean_intercept, *arrays)

    def _draws(self, count: int) -> np.ndarray:
        """Draw the kernels of the next steps, and features for them; see `begin_step`."""
        draws = np.zeros((count, self.per_step, 4), dtype=np.int64)
        draws[:, :, 0] = -1
        for u in range(count):
            for j, i in enumerate(self._draw(int(self.now[STEP]) + 1 + u)):  # Alg. 3, line 3
                place = self._features(i)  # line 4
                draws[u, j] = i, place.start, place.stop, self.layout.counts[i]
        return draws

    def _draw(self, step: int) -> list[int]:
        """Return the kernels of a step, from the seed and its number alone."""
        state = self.state
        if self.per_step == len(self.alive):
            return self.alive
        if self.solver.faithful:
            rng = generator_of(state.seed, DRAWS, step)
            return sorted(rng.choice(self.alive, self.per_step, replace=False).tolist())
        cycle, turn = divmod(step - 1, self.cycle)
        group, place = divmod(cycle, CYCLES)
        if self._orders[0] != group:
            rng = generator_of(state.seed, DRAWS, group)
            self._orders = group, rng.permuted(np.tile(self.alive, (CYCLES, 1)), axis=1)
        first, last = self.turns[turn]
        return sorted(self._orders[1][place, first:last].tolist())

    def _features(self, kernel: int) -> slice:
        """Draw a block for a kernel while there is one to come; return the columns that a step moves.

        These are those of the kernel's blocks, which lie side by side, or to the letter of the last one.
        """
        n_blocks, faithful = int(self.layout.counts[kernel]), self.solver.faithful
        endless = faithful and self.maps[kernel].n_blocks is None
        if endless or n_blocks < self._most(kernel):
            if (kernel, n_blocks) not in self.columns:
                self._append(kernel, n_blocks)
            place = self.columns[kernel, n_blocks]
            self.layout.bind(self.state.append(kernel, place.stop - place.start), place)
            n_blocks += 1
        last = self.columns[kernel, n_blocks - 1]
        return last if faithful else slice(self.columns[kernel, 0].start, last.stop)


def largest_eigenvalue(K: np.ndarray) -> float:
    """Return an estimate for a positive semi-definite matrix, at most 15 % too small, by the power method.

    A tenth of the time of the exact value on SAMPLE rows; those are a sample, and steps twice as long would be stable.
    """
    total = float(np.trace(K))
    if not total > 0:
        return 0.0
    v = generator_of(0, DRAWS, 0).standard_normal(len(K))
    before = 1.0
    for _ in range(PRODUCTS):
        before, v = float(np.linalg.norm(v)), K @ v / total
    return total * float(np.linalg.norm(v)) / before
