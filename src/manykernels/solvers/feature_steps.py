"""Gradient steps on blocks of random features, for :class:`TriplyStochastic`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._blocks import product_width
from .._numba.fourier import descend, follow
from ..features import Block, generator_of
from ..problem import Problem
from .feature_state import FeatureState, closed_form
from .features_ahead import Ahead
from .row_store import dense

#: The constant of assumption A4: while it learns, no kernel's θ is below 1/20.
PSI_CAP = 20.0
#: Stands for a kernel's number where kernels are drawn.
DRAWS = 2**31 - 2
#: Rows on which the kernels' largest eigenvalues are computed.
SAMPLE = 128
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
        self.maps = family.random_features(self.members, state.n_columns, state.seed, solver.block)
        self.of = [state.blocks_of(i) for i in range(len(self.maps))]
        self.blocks: list[Block] = []
        self.columns: dict[tuple[int, int], slice] = {}
        self.W = np.zeros((0, product_width(batch.n_outputs)), dtype=np.float32)
        self._lay_out()
        m, k = len(state.alive), solver.kernels_per_step
        self.cycle = 1 if k == "all" else math.ceil(m / min(k, m))
        self.per_step = min(k, m) if solver.faithful and k != "all" else math.ceil(m / self.cycle)
        self.zero_loss = batch.loss.value(batch.Y[:1], np.zeros((1, batch.n_outputs)))
        self._order: tuple[int, list[np.ndarray]] = (-1, [])

    def run(self) -> None:
        """Take one step per `batch_size` rows."""
        batch, state, size = self.batch, self.state, self.solver.batch_size
        top, trace = self._spectrum()
        seen = state.rows / (state.rows + batch.n_rows)
        state.top = seen * state.top + (1 - seen) * top
        state.trace = seen * state.trace + (1 - seen) * trace
        # A batch on a larger scale than those before gets smaller steps, and leaves later ones as they are.
        self.top, self.trace = np.maximum(top, state.top), np.maximum(trace, state.trace)
        with Ahead(batch.X, self.blocks, size) as ahead:
            for first in range(0, batch.n_rows, size):
                self._step(ahead, slice(first, min(first + size, batch.n_rows)))

    # -- where coefficients are ----------------------------------------------------------------------------

    def _lay_out(self) -> None:
        """Give all blocks their columns: those to come as well, with coefficients 0, unless there is no end to them."""
        if self.solver.faithful:
            drawn = [0] * len(self.maps)
            for i in self.state.owner:
                self._append(i, drawn[i])
                drawn[i] += 1
        else:
            for i in self.state.alive:
                for j in range(self._most(i)):
                    self._append(i, j)
        for i, of in enumerate(self.of):
            for j, b in enumerate(of):
                V = self.state.V[b]
                self.W[self.columns[i, j], : V.shape[1]] = self.state.scale * V

    def _append(self, kernel: int, index: int) -> None:
        """Give a block of a kernel the next columns."""
        block = self.maps[kernel].block(index)
        self.blocks.append(block)
        self.columns[kernel, index] = slice(len(self.W), len(self.W) + block.width)
        self.W = np.concatenate([self.W, np.zeros((block.width, self.W.shape[1]), dtype=np.float32)])

    def _most(self, kernel: int) -> int:
        """Return how many blocks a kernel gets."""
        n_blocks = self.maps[kernel].n_blocks
        return self.solver.n_features // self.solver.block if n_blocks is None else n_blocks

    def _spectrum(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the largest eigenvalue of K_i/n and the mean diagonal on a sample, O(m SAMPLE³)."""
        rows = np.unique(np.linspace(0, self.batch.n_rows - 1, SAMPLE).astype(int))
        X, n = np.asarray(dense(self.batch.X[rows]), dtype=float), len(rows)
        top, trace = np.zeros(len(self.members)), np.zeros(len(self.members))
        for i in self.state.alive:
            K = self.batch.family.gram(X, X, [self.members[i]], [1.0])
            top[i], trace[i] = np.linalg.eigvalsh(K)[-1] / n, np.trace(K) / n
        return top, trace

    # -- one step ------------------------------------------------------------------------------------------

    def _step(self, ahead: Ahead, rows: slice) -> None:
        state, solver, n = self.state, self.solver, rows.stop - rows.start
        self._count(rows)
        drawn = self._draw()  # Alg. 3, line 3
        theta = self.theta()  # line 6: 1/ψ
        moved = {i: self._features(i) for i in drawn}  # line 4
        loss, G, gradients = self._gradients(
            ahead, rows, [(i, j) for i, js in moved.items() for j in js]
        )  # line 5
        if not math.isfinite(loss):
            raise ValueError(
                f"TriplyStochastic diverged in step {state.step}; lower C or step, or standardise the columns of X"
                + (", or use faithful=False." if solver.faithful else ".")
            )
        lam = state.lam(self.batch.C)
        gamma = self._gamma(theta, lam, n)  # line 7
        # Each kernel comes once in `cycle` steps, while all shrink in every one; the intercept is in all of them.
        times, share = (1.0, len(drawn) / len(state.alive)) if solver.faithful else (float(self.cycle), 1.0)
        state.shrink(1 - gamma * lam)  # line 10
        for i, js in moved.items():  # lines 8 and 9
            eta = gamma * times * theta[i] / (state.rho_sq[i] * len(js))
            for j in js:
                descend(state.V[self.of[i][j]], gradients[i, j], eta / (n * state.scale))
        state.intercept = (1 - gamma * lam) * state.intercept - (gamma * share / n) * G
        state.batch_loss += loss
        if loss > EXPLODED * n * state.zero_loss / state.rows:
            state.damping /= 2
        self._average()

    def _count(self, rows: slice) -> None:
        """Take notice of the rows of a step; the loss of f = 0 is the same for all classes."""
        state, loss = self.state, self.batch.loss
        assert self.batch.sample_weight is not None
        Y, s = self.batch.Y[rows], self.batch.sample_weight[rows]
        state.step += 1
        state.rows += len(Y)
        state.epoch_rows += len(Y)
        state.weight += float(s.sum())
        state.targets += s @ Y
        zero = loss.value(Y, np.zeros(Y.shape)) if loss.regression else self.zero_loss
        state.zero_loss += float(s @ np.broadcast_to(zero, len(Y)))

    def _draw(self) -> np.ndarray:
        """Return the kernels of this step, from the seed and the number of the step alone."""
        state = self.state
        if self.per_step == len(state.alive):
            return state.alive
        if self.solver.faithful:
            rng = generator_of(state.seed, DRAWS, state.step)
            return np.sort(rng.choice(state.alive, self.per_step, replace=False))
        cycle, place = divmod(state.step - 1, self.cycle)
        if self._order[0] != cycle:
            order = generator_of(state.seed, DRAWS, cycle).permutation(state.alive)
            self._order = cycle, [np.sort(part) for part in np.array_split(order, self.cycle)]
        return self._order[1][place]

    def _features(self, kernel: int) -> range:
        """Draw a block for a kernel while there is one to come; return which of its blocks this step moves."""
        of = self.of[kernel]
        endless = self.solver.faithful and self.maps[kernel].n_blocks is None
        if endless or len(of) < self._most(kernel):
            if (kernel, len(of)) not in self.columns:
                self._append(kernel, len(of))
            columns = self.columns[kernel, len(of)]
            of.append(self.state.append(kernel, columns.stop - columns.start))
        return range(len(of) - 1, len(of)) if self.solver.faithful else range(len(of))

    def theta(self) -> np.ndarray:
        """Return 1/ψ_i of every kernel: 1 until every kernel has been drawn, at least 1/PSI_CAP."""
        state = self.state
        u = state.norms(averaged=False)
        if not self.solver.learn_weights or not u[state.alive].all():
            return np.ones(len(u))
        return np.maximum(closed_form(u, self.solver.p), 1 / PSI_CAP)

    def _gamma(self, theta, lam, n) -> float:
        """Return the step size: what is stable at first, LATE/(λ i) in the end.

        A batch of n rows is stable up to 1/(L (λ₁ + trace/n)), λ₁ the largest eigenvalue of the kernel that a step
        applies. A smaller batch makes a smaller step, so that all rows count alike.
        """
        state, solver = self.state, self.solver
        if solver.faithful:
            return solver.step / (lam * state.step)
        weights = np.divide(theta, state.rho_sq, out=np.zeros(len(theta)), where=state.rho_sq > 0)
        top, trace = (
            1 + self.cycle * np.sort(weights * v)[-self.per_step :].sum() for v in (self.top, self.trace)
        )
        curvature = CURVATURE[self.batch.loss.name] * state.weight / state.rows
        gamma = solver.step * state.damping / (curvature * (top + trace / solver.batch_size) + lam)
        return gamma / (1 + gamma * lam * state.step / LATE) * min(1.0, n / solver.batch_size)

    def _gradients(self, ahead: Ahead, rows: slice, wanted: list[tuple[int, int]]):
        """Return the loss, the gradient in the intercept and in the wanted blocks, summed over rows.

        Tiles of rows are added in order, in float64. Gradients are (c, width).
        """
        batch, loss, c = self.batch, self.batch.loss, self.batch.n_outputs
        assert batch.sample_weight is not None
        runs = _runs([self.columns[key] for key in wanted])
        sums = np.zeros((c, len(self.W)))
        total, G = 0.0, np.zeros(c)
        for tile in ahead.between(rows.start, rows.stop):
            Y, s = batch.Y[tile.rows], batch.sample_weight[tile.rows]
            F = (tile.Z @ self.W)[:, :c] + self.state.intercept
            slopes = s[:, None] * loss.gradient(Y, F)
            total += float(s @ loss.value(Y, F))
            G += slopes.sum(axis=0)
            wide = np.zeros((self.W.shape[1], len(Y)), dtype=np.float32)
            wide[:c] = slopes.T
            for run in runs:
                sums[:, run] += (wide @ tile.Z[:, run])[:c]
        return total, G, {key: sums[:, self.columns[key]] for key in wanted}

    def _average(self) -> None:
        """Let the average follow the coefficients, and make the latter ready for the next step."""
        state = self.state
        share = 0.0 if self.solver.faithful else (1 + FORGET) / (state.step + FORGET)
        if share:
            state.mean_intercept += share * (state.intercept - state.mean_intercept)
        for i, of in enumerate(self.of):
            for j, b in enumerate(of):
                follow(state.V[b], state.scale, share, state.mean[b], self.W[self.columns[i, j]])


def _runs(parts: list[slice]) -> list[slice]:
    """Return neighbouring slices as one."""
    runs: list[slice] = []
    for part in sorted(parts, key=lambda p: p.start):
        if runs and runs[-1].stop == part.start:
            runs[-1] = slice(runs[-1].start, part.stop)
        else:
            runs.append(part)
    return runs


def best_constant(loss, targets: np.ndarray) -> np.ndarray:
    """Return the scores of the best predictor that does not look at the rows, from the mean of Y."""
    share = np.clip((1 + targets) / 2 if not loss.multiclass else targets, 1e-12, 1 - 1e-12)
    if loss.name == "softmax":
        return np.log(share)
    if loss.name == "logistic":
        return np.log(share / (1 - share))
    if loss.name == "hinge":
        return np.where(targets >= 0, 1.0, -1.0)
    if loss.name == "max_hinge":  # one class ahead by 1 pays if most rows are of it
        return np.where(targets > 0.5, 1.0, 0.0)
    return targets
