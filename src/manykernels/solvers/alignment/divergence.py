"""Weights by the Kullback-Leibler divergence of the combined kernel from the targets' kernel."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from ...problem import Problem
from ..aligning import aligned_targets
from ..centring import Centring
from ..projected import Point, onto_simplex, spectral_steps

#: A descent ends where the linearised criterion falls by no more than this per row, and after so many steps.
TOL, MOST_STEPS = 1e-6, 200
#: Descents start from even weights and from so many of the best kernels, which are looked for among the first so many.
BEST, FIRST = 2, 50


class Divergence:
    """tr(K̃*(K̃_θ + εI)⁻¹) + log|K̃_θ + εI|: twice the divergence of two normal laws, but for a constant."""

    def __init__(
        self, problem: Problem, members: Sequence[Any], rho_sq: np.ndarray, epsilon: float, centred: bool
    ):
        self.centring = Centring(problem.sample_weight, centred)
        Y = aligned_targets(problem, self.centring)
        self.Y = Y * np.sqrt(self.centring.total / np.square(Y).sum())
        self.rho_sq, self.epsilon = rho_sq, epsilon
        self.bank = problem.family.bank(problem.X, members)
        self.project = onto_simplex

    def at(self, theta: np.ndarray) -> Point:
        """Return the criterion: one pass over the kernels and a factorisation."""
        K = self.centring.matrix(self.bank.gram(theta / self.rho_sq))
        K[np.diag_indices_from(K)] += self.epsilon
        factor = cho_factor(K, lower=True, overwrite_a=True)
        Z = cho_solve(factor, self.Y)
        value = float(np.vdot(self.Y, Z)) + 2 * float(np.log(np.diagonal(factor[0])).sum())
        return Point(theta, value, (factor, Z))

    def slope(self, point: Point) -> np.ndarray:
        """Return <K̃_i, P - P K̃* P>/ρ_i², P the inverse: one more pass."""
        factor, Z = point.known
        inverse = cho_solve(factor, np.eye(len(Z)))
        return self.bank.inner_products(self.centring.pulled(inverse - Z @ Z.T)) / self.rho_sq


def least_divergence(
    problem: Problem, members: Sequence[Any], rho_sq: np.ndarray, epsilon: float, centred: bool
) -> np.ndarray:
    """Return the θ in the simplex of the least divergence found, from even weights and from the best kernels."""
    alive = np.flatnonzero(rho_sq > 0)
    criterion = Divergence(problem, [members[i] for i in alive.tolist()], rho_sq[alive], epsilon, centred)
    m = len(alive)
    even = np.full(m, 1 / m)
    alone = 0.9 * np.eye(min(m, FIRST), m) + 0.1 * even
    order = np.argsort([criterion.at(start).value for start in alone], kind="stable")
    starts = [even, *alone[order[:BEST]]] if m > 1 else [even]
    enough = TOL * problem.n_rows
    best: Point | None = None
    for start in starts:
        for point, slope in itertools.islice(spectral_steps(criterion, start), MOST_STEPS):
            if best is None or point.value < best.value:
                best = point
            if point.theta @ slope - slope.min() <= enough:
                break
    assert best is not None
    theta = np.zeros(len(members))
    theta[alive] = best.theta
    return theta
