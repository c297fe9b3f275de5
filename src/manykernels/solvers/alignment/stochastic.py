"""Alignment over products that are too many to list, by stochastic steps on the weights of those that are drawn."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..._util.interrupts import Interruptible
from ..._util.threads import one_blas_thread
from ...families.products.signed import SignedDraws, SignedSampler
from ...problem import Problem
from ..aligning import aligned_targets, weigh
from ..base import NothingAligned
from ..centring import Centring
from ..log import logger

#: Most kernels whose weights are fitted anew at the end: non-negative least squares on so many takes seconds.
MOST_REFITTED = 1000
#: A step along which the distance falls by less than this, of the targets' norm, is rounding.
LEAST_SLOPE = 1e-14


class StochasticSteps:
    """Euclidean steps on J(v) = ½‖K̃_v - K̃*‖², v >= 0, along unbiased estimates of its gradient.

    The gradient is g_z = <K̃_z, K̃_v - K̃*>/ρ_z² = <K_z, N>/ρ_z². A step draws products with probabilities q_z near
    proportional to a bound of |g_z|, and goes along -Σ_z e_z g_z/q_z over the draws, their mean. Every entry has the
    sign of the gradient's, so that it descends; J is quadratic, and the step ends at its least value on the way, cut
    where weights reach zero. Then all weights are scaled by the best factor, which alignment does not see.
    """

    def __init__(self, problem: Problem, draws: int, centred: bool, rng: np.random.Generator):
        self.problem, self.draws, self.centred, self.rng = problem, draws, centred, rng
        self.family: Any = problem.family
        self.centring = Centring(problem.sample_weight, centred)
        Y = aligned_targets(problem, self.centring)
        self.Y = Y / math.sqrt(float(np.linalg.norm(Y.T @ Y)))  # ‖K̃*‖ = 1
        self.sampler = SignedSampler(self.family, problem.X, problem.scale)
        self.K = np.zeros((problem.n_rows, problem.n_rows))
        self.weights: dict[Any, float] = {}
        self.alignments: list[float] = []

    def gradient(self) -> np.ndarray:
        """Return N, with <K_z, N>/ρ_z² the gradient."""
        return self.centring.pulled(self.K - self.Y @ self.Y.T)

    def estimate(self, drawn: SignedDraws) -> tuple[list[Any], np.ndarray, np.ndarray, np.ndarray]:
        """Return the products drawn, their part of the gradient's estimate, the gradient itself, and ρ²."""
        rho_sq = self.problem.scale.rho_sq(drawn.members, 1.0) if drawn.members else np.zeros(0)
        alive = np.flatnonzero((rho_sq > 0) & (drawn.probability > 0))
        g = drawn.forms[alive] / rho_sq[alive]
        guess = drawn.counts[alive] / self.draws * g / drawn.probability[alive]
        return [drawn.members[i] for i in alive.tolist()], guess, g, rho_sq[alive]

    def step(self) -> bool:
        """Take one step; False where nothing that was drawn leads further down."""
        drawn = self.sampler.draw(self.gradient(), self.draws, self.rng)
        if drawn is None:
            return False
        members, guess, g, rho_sq = self.estimate(drawn)
        v = np.array([self.weights.get(z, 0.0) for z in members])
        guess = np.where((v == 0) & (guess > 0), 0.0, guess)
        if not guess.any():
            self.alignments.append(self.alignments[-1] if self.alignments else 0.0)
            return True
        way, K = self._least(-guess, g, members, rho_sq)
        cut = np.maximum(v + way, 0.0) - v
        if (cut != way).any():
            way, K = self._least(cut, g, members, rho_sq, most=1.0)
        if K is None:
            return False
        self.K += K
        moved = np.maximum(v + way, 0.0)
        self.weights.update(zip(members, moved.tolist(), strict=True))
        self._rescale()
        return True

    def _least(self, way, g, members, rho_sq, most=np.inf):
        """Return the part of a way at whose end J is least, at most `most` of it, and K̃ of that part."""
        K = self.centring.matrix(self.family.gram(self.problem.X, self.problem.X, members, way / rho_sq))
        slope, bend = -float(way @ g), float(np.vdot(K, K))
        if not (slope > LEAST_SLOPE * math.sqrt(bend) and bend > 0):
            return way, None
        length = min(slope / bend, most)
        K *= length
        return length * way, K

    def _rescale(self) -> None:
        """Scale to the least distance from K̃*."""
        a, c = float(np.vdot(self.Y, self.K @ self.Y)), float(np.vdot(self.K, self.K))
        if a > 0 and c > 0:
            self.K *= a / c
            self.weights = {z: v * a / c for z, v in self.weights.items()}
        self.alignments.append(a / math.sqrt(c) if c > 0 else 0.0)

    def run(self, steps: int) -> None:
        """Take so many steps, or fewer where Ctrl-C comes or nothing is left to gain."""
        with one_blas_thread(), Interruptible(self._kept):
            for k in range(steps):
                if not self.step():
                    return
                logger.debug("alignment %.6f after %d steps", self.alignments[-1], k + 1)

    def _kept(self) -> str | None:
        if not self.alignments:
            return None
        return f"after {len(self.alignments)} steps, with an alignment of {self.alignments[-1]:.3f}, which is kept."

    def result(self, corrective: bool) -> tuple[list[Any], np.ndarray, np.ndarray]:
        """Return products with weight, θ and ρ²; all weights fitted anew where that is better and asked for."""
        used = {z: v for z, v in self.weights.items() if v > 0}
        if not used:
            raise NothingAligned(
                "kernels: no product that was drawn is aligned with y; raise max_iter or draws."
            )
        members = sorted(used, key=lambda z: -used[z])
        theta = np.array([used[z] for z in members])
        rho_sq = self.problem.scale.rho_sq(members, 1.0)
        if not corrective:
            return members, theta, rho_sq
        few, few_rho = members[:MOST_REFITTED], rho_sq[:MOST_REFITTED]
        fitted, reached = weigh(self.problem, few, few_rho, centred=self.centred)
        if reached < self.alignments[-1]:
            return members, theta, rho_sq
        self.alignments.append(reached)
        keep = np.flatnonzero(fitted > 0)
        return [few[i] for i in keep.tolist()], fitted[keep], few_rho[keep]
