"""Alignment with the targets, centred or not: the weights of given kernels, and the scale of what they add up to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..combination import Combination
from ..families.base import Family
from ..problem import Problem
from .base import NothingAligned
from .calibration import are_classes
from .centring import Centring, centred_products, nonnegative_weights, squares_less_identity

#: Least variance of a combination, relative to its mean diagonal, that is scaled to 1; less is next to rounding.
LEAST_VARIANCE = 1e-6
#: What the scale of a kernel may be, whose inner products with others and their weights are computed with.
LARGEST = 1e70


def weigh(
    problem: Problem,
    members: Sequence[Any],
    rho_sq: np.ndarray,
    own_pairs: bool = True,
    centred: bool = True,
) -> tuple[np.ndarray, float]:
    """Return the best aligned θ of some members, on an arbitrary scale, and the alignment it reaches."""
    check_alignable(problem, members, rho_sq)
    M, b, norm = _products(problem, members, own_pairs, centred, diagonal_only=False)
    inverse = np.divide(1.0, rho_sq, out=np.zeros(len(members)), where=rho_sq > 0)
    M, b = M * np.multiply.outer(inverse, inverse), b * inverse
    theta = nonnegative_weights(M, b)
    if not own_pairs and not theta.any():  # all turn away from y, as on noise: the one that does so least
        norms = np.sqrt(np.diagonal(M))
        theta[np.argmax(np.where(norms > 0, _ratios(b, norms), -np.inf))] = 1.0
    length = float(np.sqrt(max(theta @ M @ theta, 0.0)))
    return theta, float(b @ theta) / (length * norm) if length > 0 else 0.0


def check_alignable(problem: Problem, members: Sequence[Any], rho_sq: np.ndarray) -> None:
    """Raise ValueError for members whose squares leave the range of floats: alignment is made of those."""
    extreme = np.flatnonzero((rho_sq > LARGEST) | ((rho_sq < 1 / LARGEST) & (rho_sq > 0)))
    if len(extreme):
        name, scale = problem.family.label(members[extreme[0]]), rho_sq[extreme[0]]
        raise ValueError(
            f"kernels: {name} has the scale {scale:.1e} on these rows, too extreme to align; standardise the columns "
            "of X."
        )


def own_alignments(
    problem: Problem, members: Sequence[Any], own_pairs: bool = True, centred: bool = True
) -> np.ndarray:
    """Return the alignment of every member with the targets; 0 for a negative one, or where centring leaves nothing."""
    squares, b, norm = _products(problem, members, own_pairs, centred, diagonal_only=True)
    return np.maximum(_ratios(b, np.sqrt(squares) * norm), 0.0)


def _ratios(b, norms):
    return np.divide(b, norms, out=np.zeros(len(b)), where=norms > 0)


def _products(problem: Problem, members, own_pairs, centred, *, diagonal_only):
    """Return inner products of members with each other and with the targets, and the targets' norm."""
    centring = Centring(problem.sample_weight, centred)
    Y = aligned_targets(problem, centring)
    bank = problem.family.bank(problem.X, members)
    M, b = centred_products(bank, centring, Y, diagonal_only=diagonal_only)
    if not own_pairs:
        M, b = _without_identity(problem, members, centring, Y, M, b)
    return M, b, float(np.linalg.norm(Y.T @ Y))


def _without_identity(problem: Problem, members, centring: Centring, Y, M, b):
    """Return the inner products of K_i - d_i I, d_i the mean diagonal; <K̃, I> = tr K̃ and <I, I> = N - 1, or N."""
    family: Any = problem.family
    own = family.mean_diag(problem.X, members, problem.sample_weight)
    traces = centring.total * (own - family.forms(problem.X, centring.shift[:, None], members))
    identity = centring.identity
    b = b - own * np.square(Y).sum()
    squares = squares_less_identity(M if M.ndim == 1 else np.diagonal(M), own, traces, identity)
    kept = squares > 0  # of a kernel next to the identity nothing is left
    if M.ndim == 1:
        return squares, np.where(kept, b, 0.0)
    cross = np.multiply.outer(own, traces)
    M = M + np.multiply.outer(own, own) * identity - cross - cross.T
    return np.where(np.logical_and.outer(kept, kept), M, 0.0), np.where(kept, b, 0.0)


def aligned_targets(problem: Problem, centring: Centring) -> np.ndarray:
    """Return Ỹ, or raise when nothing can be aligned with it.

    Classes are coded so that two rows of one class have the product 1, and of two of k classes -1/(k - 1): for two
    classes that is 1 and -1. Centring leaves the same of it, up to a factor, as of any other code.
    """
    Y = problem.loss.residuals(problem.Y, problem.sample_weight) if problem.loss.regression else problem.Y
    if Y.shape[1] > 1 and are_classes(Y):
        k = Y.shape[1]
        Y = ((Y > 0) - 1 / k) * np.sqrt(k / (k - 1))
    Y = centring.targets(Y)
    if not Y.any():
        raise NothingAligned(
            "y is constant, so that no kernel can be aligned with it; check y and sample_weight."
        )
    return Y


def scaled_combination(problem: Problem, family: Family, members, theta, rho_sq) -> Combination:
    """Return the combination with weights θ_i/ρ_i², scaled so that the rows have unit variance in its space.

    The variance is the mean diagonal less the mean of all entries, the mean diagonal of the centred Gram matrix: what
    a kernel adds to all rows alike is the intercept's affair, and would take its share of C. O(m n²).
    """
    if not np.any(theta > 0):
        raise NothingAligned(
            "kernels: every kernel is constant on the training rows, so that none can be aligned with y; check "
            "that X is not constant."
        )
    weights = np.divide(theta, rho_sq, out=np.zeros(len(members)), where=rho_sq > 0)
    used = np.flatnonzero(weights)
    chosen = [members[i] for i in used]
    mean = (problem.sample_weight / problem.sample_weight.sum())[:, None]
    diagonal = float(weights[used] @ family.mean_diag(problem.X, chosen, problem.sample_weight))
    level = float(weights[used] @ family.forms(problem.X, mean, chosen))
    weights /= max(diagonal - level, LEAST_VARIANCE * diagonal)
    return Combination(family, members, weights, np.sqrt(rho_sq))
