"""Weights and λ for every target by itself, by the errors of rows left out, over candidates that all targets share.

An inverse of a kernel matrix serves all targets, so that a thousand of them cost little more than one: first a set of
weights on the simplex is tried for all targets at once (every candidate alone, then mixtures of those that are best for
most targets), with several λ each, and every target takes its best; then further mixtures near those that were taken. A
few targets get a descent of their own from there. Errors are kept fold by fold, so that a row is predicted by weights
that its fold has not taught.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ..bandwidth_learning.candidates import Effort, Weighing, descend
from ..bandwidth_learning.left_out import Rows, leave_out

#: Factors of the first λ that are tried.
NOISES = np.log(10.0) * np.array([-2.0, -1.0, 0.0, 1.0, 2.0])
#: And of those that a target has taken.
NEAR_NOISES = np.array([-0.7, 0.0, 0.7])
#: Mixtures of the first and of each further round, and further rounds.
MIXTURES, ROUNDS = 80, 1
#: Candidates of a part that are mixed: the best for most targets.
MIXED = 3
#: How near the mixtures of a further round are to those that were taken: the concentration of their draws.
NEARNESS = 30.0
#: Up to so many targets get a descent of their own.
FEW_TARGETS = 32
#: Most different pairs of weights and λ in the end: each takes a factor of a matrix of all rows.
MOST_MACHINES = 128
TINY = np.finfo(float).tiny


@dataclass(frozen=True, eq=False)
class TargetWeights:
    """Weights (c, m) and log λ (c,) of the targets."""

    theta: np.ndarray
    log_noise: np.ndarray


@dataclass(frozen=True, eq=False)
class Noises:
    """Values of log λ that candidates alone are tried with, those of mixtures, and shifts near ones that were taken.

    `near` is None where all are tried again.
    """

    alone: np.ndarray
    mixed: np.ndarray
    near: np.ndarray | None

    @classmethod
    def about(cls, log_noise: float) -> Noises:
        """Return some about a log λ to begin with, few, as each costs an inverse."""
        return cls(log_noise + NOISES[1::2], log_noise + NOISES, NEAR_NOISES)

    @classmethod
    def given(cls, log_noises: np.ndarray) -> Noises:
        """Return the same ones everywhere."""
        return cls(log_noises, log_noises, None)


class Trials(ABC):
    """Errors of weights and λ that were tried, for every target.

    Attributes
    ----------
    theta, log_noise : lists
        What was tried.
    errors : list of arrays
        What came of it; their meaning is the subclass's.
    """

    def __init__(self) -> None:
        self.theta: list[np.ndarray] = []
        self.log_noise: list[float] = []
        self.errors: list[np.ndarray] = []

    @abstractmethod
    def add(self, theta: np.ndarray, log_noises: np.ndarray) -> None:
        """Try weights with several λ for all targets."""

    @abstractmethod
    def totals(self, without: int | None) -> np.ndarray:
        """Return the errors (trials, c), by all folds or `without` one."""

    def _keep(self, theta: np.ndarray, log_noises: np.ndarray, errors: Iterable[np.ndarray]) -> None:
        for noise, own in zip(log_noises.tolist(), errors, strict=True):
            self.theta.append(theta)
            self.log_noise.append(noise)
            self.errors.append(own)

    def best(self, without: int | None = None, among: np.ndarray | None = None) -> np.ndarray:
        """Return the number of the best trial of every target, by all folds or `without` one."""
        total = self.totals(without)
        if among is not None:
            return among[np.argmin(total[among], axis=0)]
        return np.argmin(total, axis=0)

    def alone(self, m: int) -> np.ndarray:
        """Return the least error of each of m candidates by itself, relative to the best of every target, on average.

        They were tried first, each with as many λ.
        """
        total = self.totals(None)
        count = next(i for i, theta in enumerate(self.theta) if theta is not self.theta[0])
        least = total[: m * count].reshape(m, count, -1).min(axis=1)
        return np.mean(least / np.maximum(least.min(axis=0), TINY), axis=1)

    def weights(self, chosen: np.ndarray) -> TargetWeights:
        """Return what trials have tried, one for every target."""
        return TargetWeights(np.array(self.theta)[chosen], np.array(self.log_noise)[chosen])


class GroupTrials(Trials):
    """Exact errors of rows left out, in groups, by bandwidths that these have not taught, fold by fold.

    Parameters
    ----------
    weighing : Weighing
        Matrices of the candidates on groups of rows, and these rows.
    folds : (k, n) array of bool
        The rows of each fold.
    """

    def __init__(self, weighing: Weighing, folds: np.ndarray):
        super().__init__()
        self.weighing, self.folds = weighing, folds

    def add(self, theta: np.ndarray, log_noises: np.ndarray) -> None:
        """Try weights with several λ for all targets; O(groups · m² (m + c)) for m rows of a group, and each."""
        self._keep(theta, log_noises, [self._tried(theta, noise) for noise in log_noises.tolist()])

    def _tried(self, theta: np.ndarray, log_noise: float) -> np.ndarray:
        errors = np.zeros((len(self.folds), self.weighing.work[0][1].Y.shape[1]))
        for (K, part, _), i in zip(self.weighing.work, self.weighing.groups, strict=True):
            total = np.tensordot(theta.astype(np.float32), K, 1).astype(float)
            E = part.targets - leave_out(total, math.exp(log_noise), part, gradient=False).scores
            squares = part.counted[:, None] * np.square(E)
            for k, fold in enumerate(self.folds):
                errors[k] += squares[fold[i][part.units]].sum(axis=0)
        return errors

    def totals(self, without: int | None) -> np.ndarray:
        """Return the errors (trials, c), by all folds or `without` one."""
        errors = np.array(self.errors)
        return errors.sum(axis=1) - (0.0 if without is None else errors[:, without])


def weigh_targets(trials: Trials, parts: np.ndarray, noises: Noises, rng) -> None:
    """Try weights and λ for all targets.

    Parameters
    ----------
    trials : Trials
        None so far.
    parts : (m,) array of int
        The part of the family that each candidate belongs to.
    noises : Noises
    rng : Generator
    """
    m = len(parts)
    for j in range(m):
        trials.add(np.eye(m)[j], noises.alone)
    for theta in _first_mixtures(_best_of_parts(trials, parts), m, rng):
        trials.add(theta, noises.mixed)
    for _ in range(ROUNDS):
        for theta, noise in _near(trials, rng):
            trials.add(theta, noises.mixed if noises.near is None else noise + noises.near)


def _best_of_parts(trials: Trials, parts: np.ndarray) -> np.ndarray:
    """Return the candidates of every part that are best, alone, for most targets."""
    total = trials.totals(None)
    alone = total.reshape(len(parts), -1, total.shape[1]).min(axis=1)
    kept: list[int] = []
    for part in np.unique(parts).tolist():
        own = np.flatnonzero(parts == part)
        wins = np.bincount(np.argmin(alone[own], axis=0), minlength=len(own))
        kept += own[np.argsort(-wins, kind="stable")[:MIXED]][np.sort(-wins)[:MIXED] < 0].tolist()
    return np.array(kept)


def _first_mixtures(mixed: np.ndarray, m: int, rng) -> list[np.ndarray]:
    """Return the even mixture, and draws that favour few candidates."""
    draws = np.vstack(
        [np.full((1, len(mixed)), 1 / len(mixed)), rng.dirichlet(np.full(len(mixed), 0.4), MIXTURES)]
    )
    out = np.zeros((len(draws), m))
    out[:, mixed] = draws
    return list(out)


def _near(trials: Trials, rng) -> list[tuple[np.ndarray, float]]:
    """Return mixtures near those that most targets have taken, with their log λ."""
    taken, counts = np.unique(trials.best(), return_counts=True)
    draws = rng.choice(taken, MIXTURES, p=counts / counts.sum())
    out = []
    for i in draws.tolist():
        used = np.flatnonzero(trials.theta[i])
        spread = np.maximum(trials.theta[i], 0.02 / len(used)) * (trials.theta[i] > 0)
        theta = np.zeros_like(spread)
        theta[used] = rng.dirichlet(NEARNESS * spread[used] / spread.sum() + 0.05)
        out.append((theta, trials.log_noise[i]))
    return out


def few_machines(trials: Trials, without: int | None = None) -> np.ndarray:
    """Return the best trial of every target, of so many different ones that each can have a machine."""
    best = trials.best(without)
    taken, counts = np.unique(best, return_counts=True)
    if len(taken) <= MOST_MACHINES:
        return best
    most = taken[np.argsort(-counts, kind="stable")[:MOST_MACHINES]]
    return trials.best(without, np.sort(most))


def refined(weighing: Weighing, found: TargetWeights, effort: Effort, fixed: bool) -> TargetWeights:
    """Return weights from a descent for each of a few targets, where that lowers its error."""
    theta, noise = found.theta.copy(), found.log_noise.copy()
    for k in range(len(theta)):
        own = weighing.of_target(k)
        before = own(theta[k], noise[k], gradient=False)[0]
        start = np.append(np.log(np.maximum(theta[k], 1e-4)), noise[k])
        better, its_noise, _ = descend(own, start, effort.evaluations, fixed)
        if own(better, its_noise, gradient=False)[0] < before:
            theta[k], noise[k] = better, its_noise
    return TargetWeights(theta, noise)


def scores_left_out(
    trials: Trials, folds: np.ndarray, chosen: list[np.ndarray], rows: Rows, total, groups
) -> np.ndarray:
    """Return the scores (n, c) of all rows, each by the trials that its fold has not taught.

    Parameters
    ----------
    trials : Trials
    folds : (k, n) array of bool
    chosen : one array (c,) per fold
        The trial of every target.
    rows : Rows
    total : function from a fold, numbers of rows and weights to the weighted sum of the candidates' matrices
    groups : list of arrays of int
    """
    F = np.full(rows.targets.shape, np.nan)
    for i in groups:
        part = rows.take(i)
        for k, (fold, best) in enumerate(zip(folds, chosen, strict=True)):
            counted = fold[i][part.units]
            if not counted.any():
                continue
            for trial in np.unique(best).tolist():
                own = np.flatnonzero(best == trial)
                K, some = total(k, i, trials.theta[trial]), part.of_targets(own)
                found = leave_out(K, math.exp(trials.log_noise[trial]), some, gradient=False)
                F[np.ix_(part.numbers[counted], own)] = found.scores[counted]
    return F[rows.origin]
