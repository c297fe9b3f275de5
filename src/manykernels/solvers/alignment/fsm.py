"""Weights by the spread of the classes along the line between their means, relative to its length (FSM)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...problem import Problem
from ..base import NothingAligned
from ..calibration import are_classes, class_numbers
from ..centring import nonnegative_weights

#: Relative duality gap at which the descent ends, and the most of its steps.
TOL, MOST_STEPS = 1e-9, 1000
#: Added to the diagonal, relatively: kernels without any spread make the problem singular.
RIDGE = 1e-13
#: Squared distances of means below this, relative to the kernel's size, are rounding.
VANISHING = 1e-24


def least_spread(problem: Problem, members: Sequence[Any], rho_sq: np.ndarray) -> np.ndarray:
    """Return the θ >= 0 that minimises FSM, on an arbitrary scale.

    With a = 1₊/n₊ - 1₋/n₋ the squared distance of the means is aᵀKa, and a row's place on the line between them is
    (Ka)_t over its length. So FSM is (sd₊(Ka) + sd₋(Ka))/aᵀKa: norms that are linear in θ over what is linear in θ.
    """
    inverse = np.divide(1.0, rho_sq, out=np.zeros(len(members)), where=rho_sq > 0)
    spreads, d = spread_forms(problem, members)
    d = d * inverse
    used = np.flatnonzero(d > VANISHING * max(float(d.max(initial=0.0)), np.finfo(float).tiny))
    if not len(used):
        raise NothingAligned(
            "kernels: the classes have the same mean under every kernel; check that X is not constant."
        )
    unit = inverse[used] / d[used]  # every kernel at a distance of 1
    forms = [M[np.ix_(used, used)] * np.multiply.outer(unit, unit) for M in spreads]
    theta = np.zeros(len(members))
    theta[used] = least_sum_of_norms(forms)[0] / d[used]
    return theta


def spread_forms(problem: Problem, members: Sequence[Any]) -> tuple[list[np.ndarray], np.ndarray]:
    """Return M with vᵀMv = sd²(Ka) of either side of every contrast, and d with dᵀv = Σ aᵀKa, K = Σ v_i K_i.

    The contrast is of the two classes, or for more of each against the rest. O(m n²) and O(m² n).
    """
    if not are_classes(problem.Y):
        raise ValueError(
            "criterion='fsm' of Alignment compares classes, and y holds numbers; pass criterion='alignment' or 'kl'."
        )
    s, label = problem.sample_weight, class_numbers(problem.Y)
    present = [k for k in np.unique(label) if s[label == k].sum() > 0]
    if len(present) < 2:
        raise NothingAligned("y holds one class only, so that no kernel can tell classes apart; check y.")
    sides = [label == k for k in (present[1:] if len(present) == 2 else present)]
    family: Any = problem.family
    contrasts = np.column_stack([s * side / s[side].sum() - s * ~side / s[~side].sum() for side in sides])
    V = family.apply(problem.X, problem.X, contrasts, members)  # (m, n, contrasts)
    forms = []
    for k, side in enumerate(sides):
        for rows in (side, ~side):
            weight = float(s[rows].sum())
            B = V[:, rows, k] - (V[:, rows, k] @ s[rows] / weight)[:, None]
            B *= np.sqrt(s[rows] / max(weight - 1, 0.5 * weight))
            forms.append(B @ B.T)
    return forms, np.einsum("mnk,nk->m", V, contrasts)


def least_sum_of_norms(forms: Sequence[np.ndarray]) -> tuple[np.ndarray, float]:
    """Return the v >= 0, Σv = 1, of least Σ_k √(vᵀM_kv), and its relative duality gap.

    A convex problem. As (Σ_k x_k)² is the least Σ_k x_k²/η_k over η in the simplex, at η_k in proportion to x_k,
    the two are minimised in turn, v by non-negative least squares. The gradient G has vᵀG = F and
    F(v') >= v'ᵀG >= min_i G_i for all v', which is the bound.
    """
    m = len(forms[0])
    size = float(np.mean([np.trace(M) for M in forms])) / m
    ridge = RIDGE * max(size, np.finfo(float).tiny) * np.eye(m)
    forms = [M + ridge for M in forms]
    v, gap = np.full(m, 1 / m), np.inf
    best = v, np.inf
    for _ in range(MOST_STEPS):
        norms = np.sqrt([max(float(v @ M @ v), 0.0) for M in forms])
        slopes = sum(M @ v / x for M, x in zip(forms, norms, strict=True))
        value = float(norms.sum())
        gap = 1 - float(np.min(slopes)) / value
        if value <= best[1]:
            best = v, value
        if gap <= TOL:
            break
        found = nonnegative_weights(
            sum((M / x for M, x in zip(forms, norms, strict=True)), np.zeros((m, m))), np.ones(m)
        )
        v = found / found.sum()
    return best[0], gap
