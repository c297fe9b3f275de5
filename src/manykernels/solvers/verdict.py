"""Whether a model is better than the best constant, on rows that it has not learned from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._util.text import warn
from ..certificates import Cs_of_targets, rounding
from ..combination import Combination, TargetCombination
from ..families.base import Enumerable, can
from ..losses import Loss, get_loss
from ..problem import Problem, Result

#: A certificate with more rounding than this has a warning: ten times as much is where its eighth digit goes.
FEW_DIGITS = 1e-9
#: Kernels up to which it is asked how their g is computed.
LISTED = 1000
#: Rows that are enough for a verdict.
ENOUGH = 256
#: A constant with this share of the loss of f = 0 has met no two different targets.
NO_LOSS = 1e-9


def compare(loss: Loss, Y, F, b: np.ndarray, s: np.ndarray) -> np.ndarray:
    """Return what a :class:`Verdict` is made of, for scores F and a constant b: sums, which add up over rows."""
    model, constant = s * loss.value(Y, F), s * loss.value(Y, np.broadcast_to(b, Y.shape))
    more = model - constant
    return np.array([np.count_nonzero(s), model.sum(), constant.sum(), more @ more])


@dataclass(frozen=True)
class Verdict:
    """Losses of a model and of a constant on the same rows.

    Attributes
    ----------
    rows : int
        Those with weight.
    loss, constant : float
        Mean losses over these rows.
    error : float
        The standard error of their difference.
    """

    rows: int
    loss: float
    constant: float
    error: float

    @classmethod
    def of(cls, sums: np.ndarray) -> Verdict:
        """Return the verdict from the sums of `compare`."""
        n, model, constant, squares = sums.tolist()
        more = (model - constant) / n
        variance = squares / n - more * more
        return cls(int(n), model / n, constant / n, math.sqrt(max(variance, 0.0) / n))

    def warn(self, solver: str, kind: str, remedy: str, *, least: float = 0.0, slack: float = 0.0) -> None:
        """Warn unless the model is better than the constant by more than `slack`.

        Parameters
        ----------
        solver, kind, remedy : str
            Who has fitted it, what these rows are, and what to do.
        least : float
            A constant with no larger loss has met only one target, and is no measure.
        slack : float
            What a model of pure noise may gain by chance.
        """
        if self.loss < self.constant - slack or (self.constant <= least and math.isfinite(self.loss)):
            return
        chance = f", give or take {slack:.2g}" if slack else ""
        warn(
            f"{solver} has a mean loss of {self.loss:.4g} on {self.rows:,} {kind}, no better than the "
            f"{self.constant:.4g} of the best constant{chance}; {remedy}.",
            ConvergenceWarning,
        )


def warn_if_constant(solver: str, F: np.ndarray, Y: np.ndarray, s: np.ndarray, *, classes: bool) -> None:
    """Warn of scores F of rows left out that are hardly better than a constant.

    Of numbers, if their R² is below .02. Of classes, -1 and 1, with scores that are logarithms of odds: if no more
    labels are right than with the commonest class, and the loss is within 1 % of that of the classes' frequencies.
    """
    loss = get_loss(("logistic" if Y.shape[1] == 1 else "softmax") if classes else "squared")
    Y = (Y > 0).astype(float) if loss.multiclass else Y
    constant = best_constant(loss, np.average(Y, axis=0, weights=s))
    if classes and _right(F, Y, s) > _right(np.broadcast_to(constant, F.shape), Y, s):
        return
    verdict = Verdict.of(compare(loss, Y, F, constant, s))
    least = NO_LOSS * float(np.average(loss.value(Y, np.zeros_like(F)), weights=s))
    remedy = "the columns may say nothing about the target, or not enough for so few rows"
    slack = (0.01 if classes else 0.02) * verdict.constant
    verdict.warn(solver, "rows left out", remedy, least=least, slack=slack)


def _right(F: np.ndarray, Y: np.ndarray, s: np.ndarray) -> float:
    """Return the share of rows whose class has the largest score."""
    same = (F > 0) == (Y > 0) if Y.shape[1] == 1 else F.argmax(axis=1) == Y.argmax(axis=1)
    return float(np.average(same.ravel(), weights=s))


def warn_of_rounding(problem: Problem, result: Result, mean: np.ndarray) -> None:
    """Warn where a certificate from the dual coefficients has fewer than eight digits, whoever computes it.

    `mean` was taken off the targets, and is part of the scores that anybody else sees.
    """
    A = result.dual_coef
    if A is None or result.gap_kind != "exact" or not A.any():
        return
    learned, C = result.combination, problem.C if result.C is None else result.C
    parts = [(slice(None), learned, C)]
    if isinstance(learned, TargetCombination):
        Cs = enumerate(Cs_of_targets(result.trace, C, A.shape[1]))
        parts = [(slice(k, k + 1), learned.of_target(k), own) for k, own in Cs]

    def share(means: np.ndarray) -> float:
        noise = sum(_noise(problem, result, *part, np.abs(means[part[0]]).max()) for part in parts)
        return noise / max(abs(result.objective), np.finfo(float).tiny)

    mean = np.broadcast_to(mean, A.shape[1:])
    if share(mean) > FEW_DIGITS:
        why = (
            f"losses are that small beside what scores are made of, with {C * float(problem.sample_weight.max()):.0e} "
            "for C times the largest weight; lower C, or weights that stand out"
        )
        if share(0.0 * mean) < 0.5 * share(mean):
            why = (
                f"the mean of y is {np.abs(mean).max():.0e} and hides what differs between rows; subtract it"
            )
        warn(
            f"rounding limits objective_ and gap_ to about {10 * share(mean):.0e} of the objective, as {why}.",
            ConvergenceWarning,
        )


def _noise(
    problem: Problem, result: Result, own: slice, kernel: Combination, C: float, offset: float
) -> float:
    """Return about how much of the certificate of some targets, with one kernel, is rounding."""
    assert result.dual_coef is not None
    A, s = result.dual_coef[:, own], problem.sample_weight
    explicit, form = hasattr(result.predictor, "W") and _knows_features(problem), 0.0
    if explicit:
        form = float(np.vdot(A, (result.predictor.scores(problem.X) - result.predictor.intercept)[:, own]))
    largest = 1.0 + float(kernel.diag(problem.X).max())
    if result.gap > abs(result.objective):  # as kernels have it that are not part of the predictor
        largest = max(largest, _largest_of_all(problem))
    kinks = 0.0 if problem.loss.smooth else float(s @ A.any(axis=1)) / len(s)
    used = s > 0
    shares = problem.loss.conjugate_size(problem.Y[used][:, own], A[used], C * s[used])
    return rounding(A, form, largest, C, s, explicit=explicit, kinks=kinks, offset=offset, shares=shares)


def _largest_of_all(problem: Problem) -> float:
    """Return the largest κ_i(x_t, x_t)/ρ_i² of all kernels; 0 where these are too many to list."""
    family: Any = problem.family
    if not can(family, Enumerable) or family.size() > LISTED:
        return 0.0
    members, one = family.members(), np.ones(1)
    most = np.array([family.diag(problem.X, [z], one).max() for z in members])
    rho_sq = problem.scale.rho_sq(members, 1.0)
    return float(np.divide(most, rho_sq, out=np.zeros(len(most)), where=rho_sq > 0).max(initial=0.0))


def _knows_features(problem: Problem) -> bool:
    """Whether g of all kernels comes from explicit features: of few rows it may be of matrices, whatever predicts."""
    family: Any = problem.family
    if not can(family, Enumerable) or family.size() > LISTED:
        return True
    members = family.members()
    return family.bank(problem.X, members).n_columns(np.ones(len(members))) is not None


def best_constant(loss: Loss, targets: np.ndarray) -> np.ndarray:
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
