"""Primal and dual values, and the duality gap that certifies a fit.

With ``u_i = ρ_i‖w_i‖``, ``g_i = tr(Aᵀ K_i A)/ρ_i²``, ``λ = 1/(C n)``, ``ν = p/(2 - p)``, ``1/ν + 1/ν* = 1``:

    P = (1/n) Σ_t s_t ℓ(y_t, f_t) + (λ/2) (‖u‖_p² + ‖b‖²)
    D = -(1/n) Σ_t s_t ℓ*(-A_t/(C s_t)) - (λ/2) (‖g‖_ν* + ‖1ᵀA‖²)

P is an upper and D a lower bound of the optimum, for any w, b and any A at which ℓ* is finite. P is that of the
predictor as it is: on explicit features it has coefficients w of its own, and A serves D alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .combination import Combination, TargetCombination
from .families.base import Enumerable, HasFeatures, can
from .losses import Loss
from .losses.base import DOMAIN_SLACK
from .problem import Scale, Trace, nu_of

__all__ = ["Certificate", "certificate", "certify", "penalties", "rounding"]

EPSILON = float(np.finfo(float).eps)


@dataclass(frozen=True)
class Certificate:
    """A pair of bounds on the optimal objective.

    Attributes
    ----------
    primal, dual : float
        The objective reached, and what no predictor can go below.
    """

    primal: float
    dual: float

    @property
    def gap(self) -> float:
        """Return primal - dual."""
        return self.primal - self.dual


def norm(v: np.ndarray, q: float) -> float:
    """Return ‖v‖_q of a non-negative vector, safe for very large q."""
    top = float(np.max(v, initial=0.0))
    if top == 0.0 or np.isinf(q):
        return top
    return top * float(np.sum((v / top) ** q)) ** (1.0 / q)


def conjugate_exponent(nu: float) -> float:
    """Return ν* with 1/ν + 1/ν* = 1."""
    if nu == 1:
        return np.inf
    return 1.0 if np.isinf(nu) else nu / (nu - 1)


def mean_loss(loss: Loss, Y, F, sample_weight) -> float:
    """Return (1/n) Σ_t s_t ℓ(y_t, f_t)."""
    used = sample_weight > 0 if loss.joint else slice(None)
    return loss.total(Y[used], F[used], sample_weight[used]) / len(Y)


def mean_conjugate(loss: Loss, Y, A, C: float, sample_weight) -> float:
    """Return (1/n) Σ_t s_t ℓ*(-A_t/(C s_t)); a row without weight must have A_t = 0."""
    used = sample_weight > 0
    if np.any(A[~used]):
        return np.inf
    return loss.total_conjugate(Y[used], A[used], C * sample_weight[used]) / (C * len(Y))


def certificate(
    loss: Loss, Y, F, A, C: float, sample_weight, *, penalty: float, dual_penalty: float, intercept
) -> Certificate:
    """Assemble P and D from the two penalties (‖u‖_p² and ‖g‖_ν*)."""
    lam = 1.0 / (C * len(Y))
    ones = A.sum(axis=0)
    primal = mean_loss(loss, Y, F, sample_weight) + lam / 2 * (penalty + float(intercept @ intercept))
    dual = -mean_conjugate(loss, Y, A, C, sample_weight) - lam / 2 * (dual_penalty + float(ones @ ones))
    return Certificate(primal, dual)


def penalties(u: np.ndarray, g: np.ndarray, p: float) -> tuple[float, float]:
    """Return ‖u‖_p² and ‖g‖_ν*."""
    return norm(u, p) ** 2, norm(g, conjugate_exponent(nu_of(p)))


def feasible_multiple(loss: Loss, Y, A, C: float, sample_weight) -> float:
    """Return the largest γ <= 1 for which γA is dual feasible, for A that points the right way.

    The iterates of stochastic solvers are sums of negative subgradients, each row's in the cone of its loss; only
    their size may be too large, and only when the loss is one of classes with a bounded slope.
    """
    if not loss.lipschitz or loss.regression:
        return 1.0
    used = sample_weight > 0
    top = float(np.max(Y[used] * A[used] / (C * sample_weight[used])[:, None], initial=0.0))
    return 1.0 if top <= 1.0 else 1.0 / top


def feasible_projection(loss: Loss, Y, A, C: float, sample_weight) -> np.ndarray:
    """Return the dual feasible coefficients nearest to A, row by row; zero for rows without weight."""
    used = sample_weight > 0
    out = np.zeros_like(A)
    out[used] = loss.nearest(Y[used], A[used], C * sample_weight[used])
    return out


def rounding(
    A: np.ndarray,
    form: float,
    largest: float,
    C: float,
    s: np.ndarray,
    *,
    explicit: bool,
    kinks: float,
    offset: float,
    shares: float = 0.0,
) -> float:
    """Return about how much of a certificate is rounding, for dual coefficients A with tr(AᵀKA) = `form`.

    Coefficients go up to C s and may cancel almost wholly. Sums ΦᵀA over explicit features err by ε‖A‖√κ, κ being the
    largest κ(x_t, x_t), and their squares by that times their size; tr(AᵀKA) errs by ε κ‖A‖². Scores err by ε times
    the size of what they are made of, √κ‖f‖ with features, else κ‖A‖, and the mean of the targets, `offset`; their
    losses by that times the slope, A/(C s), and where that is small by its square. Rows at a kink of the loss, of mean
    weight `kinks` over all rows, err at its full slope. A conjugate that is a difference of much larger terms errs by ε
    times their sum, `shares`.
    """
    n, size = len(A), np.linalg.norm(A) * np.sqrt(largest)
    reach = np.sqrt(largest * max(form, 0.0)) if explicit else np.sqrt(largest) * size
    error = EPSILON * (reach + offset)
    losses = error * (np.linalg.norm(A) / (C * n) + kinks) + float(np.mean(s)) * error**2 / 2
    squares = np.sqrt(max(form, 0.0)) + EPSILON * size if explicit else size
    return float(losses + EPSILON * (size * squares + shares) / (C * n))


def _over_all(model, met: Combination, rows, sample_weight) -> Combination:
    """Return a combination of the model with every member of its family, those it never met with weight zero.

    After two stages the kernel is fixed, and members without weight do not matter.
    """
    if len(met) == met.family.size() or model.solver_.p is None:
        return met
    if not can(met.family, Enumerable):
        raise ValueError(
            "the model's kernels form a continuum, which cannot be listed; its certificate cannot be recomputed."
        )
    members = met.family.members()
    scale = Scale.fit(met.family, rows, model.normalize_, sample_weight)
    weight = dict(zip(met.members, met.weights, strict=True))
    return Combination(
        met.family,
        members,
        np.array([weight.get(member, 0.0) for member in members]),
        np.sqrt(scale.rho_sq(members, model.solver_.p)),
    )


def certify(model, X, y, sample_weight=None) -> Certificate:
    """Recompute a fitted model's certificate from its public attributes and the training data.

    Nothing is taken from the solver's own book-keeping: g comes from ``dual_coef_``, kernel by kernel, the scores are
    those that the model predicts, and the norms those of its coefficients. O(m n²) for kernels without explicit
    features. A fit warns where rounding keeps the result from agreeing with ``objective_`` and ``gap_``.

    Parameters
    ----------
    model : fitted MKLClassifier or MKLRegressor
        With an exact gap, over a family that can be listed.
    X, y, sample_weight :
        The training data.

    Returns
    -------
    Certificate
    """
    if model.dual_coef_ is None:
        raise ValueError("model has no dual_coef_, so its certificate cannot be recomputed.")
    if model.gap_kind_ != "exact":
        raise ValueError(
            f"the model's gap is of kind {model.gap_kind_!r}; only an exact one can be recomputed."
        )
    rows, Y, s = model._training_data(X, y, sample_weight)
    F = model.result_.predictor.scores(rows) - model.target_mean_
    learned = model.combination_
    if not isinstance(learned, TargetCombination):
        return _certified(model, learned, model.loss_, model.C_, rows, Y, F, s)
    each = [
        _certified(model, learned.of_target(k), model.loss_.output(k), C, rows, Y, F, s, slice(k, k + 1))
        for k, C in enumerate(Cs_of_targets(model.trace_, model.C_, Y.shape[1]))
    ]
    return Certificate(sum(one.primal for one in each), sum(one.dual for one in each))


def Cs_of_targets(trace: Trace, C: float, count: int) -> Sequence[float]:
    """Return the C of every target: with weights of its own a target may have chosen its own C, too."""
    return trace.extra.get("C", (C,) * count)


def _certified(
    model, met: Combination, loss: Loss, C: float, rows, Y, F, s, targets: slice = slice(None)
) -> Certificate:
    """Return the certificate of some targets, which share a combination and C."""
    combination = _over_all(model, met, rows, s)
    A = model.dual_coef_[:, targets]
    Y, F = Y[:, targets], F[:, targets]
    b = (model.intercept_ - model.target_mean_)[targets]
    weights, rho = combination.weights, combination.rho
    pooled = loss.pooled
    # In two stages, and where it was balanced for rows that lack views, the kernel was fixed for the last machine.
    balanced = getattr(met.family, "balance", None) is not None
    fixed = model.solver_.p is None or (balanced and getattr(model.kernels, "balance", None) is None)
    forms = _forms(combination, rows, pooled(A))
    inverse = np.divide(1.0, rho**2, out=np.zeros(len(rho)), where=rho > 0)
    norms = _norms(model.result_.predictor, combination, forms, 1 if loss.shared else None)

    def bounds(point, forms_there):
        if fixed:
            used = weights > 0
            penalty, dual_penalty = (
                float(np.sum(norms[used] ** 2 / weights[used])),
                float(weights @ forms_there),
            )
        else:
            penalty, dual_penalty = model.solver_.penalties(
                rho * norms, forms_there * inverse, 1.0 / (C * len(A)), combination.members
            )
        return certificate(loss, Y, F, point, C, s, penalty=penalty, dual_penalty=dual_penalty, intercept=b)

    multiple = feasible_multiple(loss, Y, A, C, s)
    found = bounds(A * multiple, forms * multiple**2)
    if multiple < 1 - DOMAIN_SLACK:  # the nearest feasible point may be a better one than the multiple
        nearest = feasible_projection(loss, Y, A, C, s)
        other = bounds(nearest, _forms(combination, rows, pooled(nearest)))
        found = Certificate(found.primal, max(found.dual, other.dual))
    return found


def _forms(combination: Combination, rows, A) -> np.ndarray:
    """Return tr(AᵀK_iA) of every kernel, one after the other; from ΦᵀA, which loses fewer digits, where there is Φ."""
    family: Any = combination.family
    if can(family, HasFeatures):
        phis = (family.features(rows, [member]) for member in combination.members)
        return np.array([np.square(phi.T @ A).sum() for phi in phis])
    forms = [np.vdot(A, family.apply(rows, rows, A, [member])[0]) for member in combination.members]
    return np.maximum(forms, 0.0)


def _norms(
    predictor: Any, combination: Combination, forms: np.ndarray, outputs: int | None = None
) -> np.ndarray:
    """Return ‖w_i‖ of every kernel: of the coefficients of explicit features, or of those that A stands for.

    Where the outputs share one f, their coefficients are equal, and count once.
    """
    if not hasattr(predictor, "W"):
        return combination.weights * np.sqrt(forms)
    met, family = predictor.combination, predictor.combination.family
    used = np.flatnonzero(met.weights).tolist()
    owner = np.repeat(np.arange(len(used)), family.widths([met.members[i] for i in used]))
    squares = np.bincount(owner, weights=np.square(predictor.W[:, :outputs]).sum(axis=1), minlength=len(used))
    norms = dict(zip((met.members[i] for i in used), np.sqrt(squares), strict=True))
    return np.array([norms.get(member, 0.0) for member in combination.members])
