"""Gradient steps on blocks of random features, for :class:`TriplyStochastic`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp

from .._threads import map_in_threads
from ..features import Block, generator_of
from ..problem import Problem
from .feature_state import FeatureState, closed_form

#: The constant of assumption A4: while it learns, no kernel's θ is below 1/20.
PSI_CAP = 20.0
#: Stands for a kernel's number where kernels are drawn.
DRAWS = 2**31 - 2
#: Rows of a tile, so that the features of a block stay in the cache.
TILE = 64
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
        place = {b: j for of in self.of for j, b in enumerate(of)}
        self.blocks: list[Block] = [self.maps[i].block(place[b]) for b, i in enumerate(state.owner)]
        m, k = len(state.alive), solver.kernels_per_step
        self.cycle = 1 if k == "all" else math.ceil(m / min(k, m))
        self.per_step = min(k, m) if solver.faithful and k != "all" else math.ceil(m / self.cycle)

    def run(self) -> None:
        """Take one step per `batch_size` rows."""
        batch, state = self.batch, self.state
        assert batch.sample_weight is not None
        top, trace = self._spectrum()
        seen = state.rows / (state.rows + batch.n_rows)
        state.top = seen * state.top + (1 - seen) * top
        state.trace = seen * state.trace + (1 - seen) * trace
        # A batch on a larger scale than those before gets smaller steps, and leaves later ones as they are.
        self.top, self.trace = np.maximum(top, state.top), np.maximum(trace, state.trace)
        for first in range(0, batch.n_rows, self.solver.batch_size):
            part = slice(first, first + self.solver.batch_size)
            self._step(batch.X[part], batch.Y[part], batch.sample_weight[part])

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

    def _step(self, X, Y, s) -> None:
        state, solver = self.state, self.solver
        self._count(Y, s)
        drawn = self._draw()  # Alg. 3, line 3
        theta = self.theta()  # line 6: 1/ψ
        moved = {i: self._features(i) for i in drawn}  # line 4
        loss, G, gradients = self._gradients(X, Y, s, [b for of in moved.values() for b in of])  # line 5
        if not math.isfinite(loss):
            raise ValueError(
                f"TriplyStochastic diverged in step {state.step}; lower C or step, or standardise the columns of X"
                + (", or use faithful=False." if solver.faithful else ".")
            )
        lam = state.lam(self.batch.C)
        gamma = self._gamma(theta, lam, len(Y))  # line 7
        # Each kernel comes once in `cycle` steps, while all shrink in every one; the intercept is in all of them.
        times, share = (1.0, len(drawn) / len(state.alive)) if solver.faithful else (float(self.cycle), 1.0)
        state.shrink(1 - gamma * lam)  # line 10
        for i, of in moved.items():  # lines 8 and 9
            eta = gamma * times * theta[i] / (state.rho_sq[i] * len(of))
            for b in of:
                state.V[b] -= (eta / (len(Y) * state.scale)) * gradients[b]
        state.intercept = (1 - gamma * lam) * state.intercept - (gamma * share / len(Y)) * G
        state.batch_loss += loss
        if loss > EXPLODED * len(Y) * state.zero_loss / state.rows:
            state.damping /= 2
        self._average()

    def _count(self, Y, s) -> None:
        """Take notice of the rows of a step; the loss of f = 0 is the same for all classes."""
        state, loss = self.state, self.batch.loss
        state.step += 1
        state.rows += len(Y)
        state.epoch_rows += len(Y)
        state.weight += float(s.sum())
        state.targets += s @ Y
        rows = slice(None) if loss.regression else slice(1)
        zero = loss.value(Y[rows], np.zeros(Y[rows].shape))
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
        order = generator_of(state.seed, DRAWS, cycle).permutation(state.alive)
        return np.sort(np.array_split(order, self.cycle)[place])

    def _features(self, kernel: int) -> list[int]:
        """Draw a block for a kernel while there is one to come; return the blocks that this step moves."""
        feature_map, of = self.maps[kernel], self.of[kernel]
        most = (
            self.solver.n_features // self.solver.block
            if feature_map.n_blocks is None
            else feature_map.n_blocks
        )
        endless = self.solver.faithful and feature_map.n_blocks is None
        if endless or len(of) < most:
            block = feature_map.block(len(of))
            self.blocks.append(block)
            of.append(self.state.append(kernel, block.width))
        return of[-1:] if self.solver.faithful else of

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

    def _gradients(self, X, Y, s, wanted) -> tuple[float, np.ndarray, dict[int, np.ndarray]]:
        """Return the loss, the gradient in the intercept and in the wanted blocks, summed over rows.

        Tiles of rows run on several threads; they are added in order, so that results do not depend on how many.
        """
        state, loss = self.state, self.batch.loss
        W = [np.asarray(state.scale * v, dtype=np.float32) for v in state.V]
        wanted = set(wanted)

        def of_tile(part):
            rows = np.ascontiguousarray(dense(X[part]), dtype=np.float32)
            F = np.tile(state.intercept, (len(rows), 1))
            kept = {}
            for b, block in enumerate(self.blocks):
                Z = block.transform(rows)
                F += Z @ W[b]
                if b in wanted:
                    kept[b] = Z
            G = s[part, None] * loss.gradient(Y[part], F)
            single = np.ascontiguousarray(G.T, dtype=np.float32)
            return float(s[part] @ loss.value(Y[part], F)), G.sum(axis=0), {b: single @ kept[b] for b in kept}

        tiles = map_in_threads(of_tile, [slice(a, a + TILE) for a in range(0, len(Y), TILE)])
        total = {b: sum(tile[2][b].T.astype(float) for tile in tiles) for b in wanted}
        return sum(tile[0] for tile in tiles), sum(tile[1] for tile in tiles), total

    def _average(self) -> None:
        state = self.state
        if self.solver.faithful:
            return
        share = (1 + FORGET) / (state.step + FORGET)
        state.mean_intercept += share * (state.intercept - state.mean_intercept)
        for mean, v in zip(state.mean, state.V, strict=True):
            mean *= 1 - share
            mean += (share * state.scale) * v


def dense(rows):
    """Return rows as an array."""
    return rows.toarray() if sp.issparse(rows) else rows


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
