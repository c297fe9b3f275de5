"""Gradient steps on blocks of random features, for :class:`TriplyStochastic`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._blocks import even_parts
from .._numba.stochastic import largest, move, weigh
from .._numba.thin import thin_scores
from ..features import Block, generator_of
from ..problem import Problem
from .feature_state import FeatureState, Layout
from .features_ahead import Ahead, Tile
from .row_store import dense
from .verdict import ENOUGH, best_constant, compare

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
    """

    def __init__(self, solver, state: FeatureState, batch: Problem):
        self.solver, self.state, self.batch = solver, state, batch
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
        self.per_step = min(k, m) if solver.faithful and k != "all" else math.ceil(m / self.cycle)
        self.turns = even_parts(m, self.cycle)
        self._orders: tuple[int, np.ndarray] = (-1, np.zeros(0))
        # What compiled loops take is contiguous and can be written to: they are compiled anew for anything else.
        self.Y, self.s = (
            np.require(v, dtype=np.float64, requirements="CW") for v in (batch.Y, batch.sample_weight)
        )
        self.F, self.S = np.zeros(
            (2, min(solver.batch_size, batch.n_rows), self.layout.W.shape[1]), dtype=np.float32
        )
        self.watched, self.constant = self._new_rows()
        self.found = np.zeros(4)

    def run(self) -> None:
        """Take one step per `batch_size` rows."""
        n, size = self.batch.n_rows, int(self.solver.batch_size)
        firsts = range(0, n, size)
        weights, zeros = self._sums(list(firsts))
        with Ahead(self.batch.X, self.blocks, size) as ahead:
            ahead.begin()  # before the spectrum, which other threads need not wait for
            self._notice_scale()
            for first, weight, zero in zip(firsts, weights, zeros, strict=True):
                self._count(min(size, n - first), weight, zero)
                self._step(ahead, slice(first, min(first + size, n)))
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
        self.theta_at = np.ones(len(self.maps))
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

    def _sums(self, firsts: list[int]) -> tuple[list[float], list[float]]:
        """Return the weight of every step's rows, and their loss at f = 0, which is the same for all classes."""
        loss, Y = self.batch.loss, self.Y if self.batch.loss.regression else self.Y[:1]
        zero = self.s * loss.value(Y, np.zeros(Y.shape))
        return np.add.reduceat(self.s, firsts).tolist(), np.add.reduceat(zero, firsts).tolist()

    def _count(self, n: int, weight: float, zero: float) -> None:
        """Take notice of the rows of a step."""
        state = self.state
        state.step += 1
        state.rows += n
        state.epoch_rows += n
        state.weight += weight
        state.zero_loss += zero

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
        """Return the largest eigenvalue of K_i/n and the mean diagonal on a sample, O(m SAMPLE²)."""
        rows = np.unique(np.linspace(0, self.batch.n_rows - 1, SAMPLE).astype(int))
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
        state, n, size = self.state, self.batch.n_rows, int(self.solver.batch_size)
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
        self.found += compare(
            self.batch.loss, self.Y[tile.rows], F[:, : len(b)] + b, self.constant, self.s[tile.rows]
        )

    # -- one step ------------------------------------------------------------------------------------------

    def _step(self, ahead: Ahead, rows: slice) -> None:
        state, solver, n = self.state, self.solver, rows.stop - rows.start
        drawn = self._draw()  # Alg. 3, line 3
        theta = self.theta()  # line 6: 1/ψ
        lam = state.lam(self.batch.C)
        gamma = self._gamma(theta, lam, n)  # line 7
        # Each kernel comes once in `cycle` steps, while all shrink in every one; the intercept is in all of them.
        times, share = (1.0, len(drawn) / len(self.alive)) if solver.faithful else (float(self.cycle), 1.0)
        state.shrink(1 - gamma * lam)  # line 10
        moves = []
        for i in drawn:
            place, n_blocks = self._features(i)  # line 4
            eta = gamma * times * theta[i] / (state.rho_sq[i] * n_blocks)
            moves.append((place, eta / (n * state.scale)))
        loss, G = self._descend(ahead, rows, moves)  # lines 5, 8 and 9
        if not math.isfinite(loss):
            raise ValueError(
                f"TriplyStochastic diverged in step {state.step}; lower C or step, or standardise the columns of X"
                + (", or use faithful=False." if solver.faithful else ".")
            )
        state.intercept = (1 - gamma * lam) * state.intercept - (gamma * share / n) * G
        state.batch_loss += loss
        if loss > EXPLODED * n * state.zero_loss / state.rows:
            state.damping /= 2
        self._average()

    def _draw(self) -> list[int]:
        """Return the kernels of this step, from the seed and the number of the step alone."""
        state = self.state
        if self.per_step == len(self.alive):
            return self.alive
        if self.solver.faithful:
            rng = generator_of(state.seed, DRAWS, state.step)
            return sorted(rng.choice(self.alive, self.per_step, replace=False).tolist())
        cycle, turn = divmod(state.step - 1, self.cycle)
        group, place = divmod(cycle, CYCLES)
        if self._orders[0] != group:
            rng = generator_of(state.seed, DRAWS, group)
            self._orders = group, rng.permuted(np.tile(self.alive, (CYCLES, 1)), axis=1)
        first, last = self.turns[turn]
        return sorted(self._orders[1][place, first:last].tolist())

    def _features(self, kernel: int) -> tuple[slice, int]:
        """Draw a block for a kernel while there is one to come; return the columns that this step moves.

        These are the kernel's blocks, which lie side by side, or to the letter the last one; and how many.
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
        return (last, 1) if faithful else (slice(self.columns[kernel, 0].start, last.stop), n_blocks)

    def theta(self) -> np.ndarray:
        """Return 1/ψ_i of every kernel: 1 until every kernel has been drawn, at least 1/PSI_CAP."""
        layout, p = self.layout, float(self.solver.p) if self.solver.learn_weights else 2.0
        weigh(layout.squares, layout.counts, self.state.rho_sq, p, 1 / PSI_CAP, self.theta_at)
        return self.theta_at

    def _gamma(self, theta, lam, n) -> float:
        """Return the step size: what is stable at first, LATE/(λ i) in the end.

        A batch of n rows is stable up to 1/(L (λ₁ + trace/n)), λ₁ the largest eigenvalue of the kernel that a step
        applies. A smaller batch makes a smaller step, so that all rows count alike.
        """
        state, solver = self.state, self.solver
        if solver.faithful:
            return solver.step / (lam * state.step)
        top = 1 + self.cycle * largest(theta, state.rho_sq, self.top, self.per_step)
        trace = 1 + self.cycle * largest(theta, state.rho_sq, self.trace, self.per_step)
        curvature = CURVATURE[self.batch.loss.name] * state.weight / state.rows
        gamma = solver.step * state.damping / (curvature * (top + trace / solver.batch_size) + lam)
        return gamma / (1 + gamma * lam * state.step / LATE) * min(1.0, n / solver.batch_size)

    def _descend(
        self, ahead: Ahead, rows: slice, moves: list[tuple[slice, float]]
    ) -> tuple[float, np.ndarray]:
        """Move some columns against their gradient, each by its rate, but not yet the scores of later tiles.

        Returns the loss and the gradient in the intercept, summed over rows. Tiles of rows are added in order, in
        float64.
        """
        state, layout, code = self.state, self.layout, self.batch.loss.code
        W, total, G = layout.W[: layout.width], 0.0, np.zeros(len(state.intercept))
        places = np.array([(place.start, place.stop) for place, _ in moves])
        rates = np.array([rate for _, rate in moves])
        for tile in ahead.between(rows.start, rows.stop):
            room = self.F[: len(tile.Z)], self.S[: len(tile.Z)]
            if rows.start >= self.watched:
                self._watch(tile)
            Y, s = self.Y[tile.rows], self.s[tile.rows]
            total += move(code, tile.Z, W, state.intercept, Y, s, *room, G, places, rates, layout.V)
        return total, G

    def _average(self) -> None:
        """Let the average follow the coefficients, and make the latter ready for the next step."""
        state = self.state
        share = 0.0 if self.solver.faithful else (1 + FORGET) / (state.step + FORGET)
        if share:
            state.mean_intercept += share * (state.intercept - state.mean_intercept)
        self.layout.follow(share)


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
