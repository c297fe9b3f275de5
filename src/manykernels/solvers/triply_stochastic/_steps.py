"""Stochastic gradient steps.

Those whose features are made are taken in one call, so that the thread that takes them hardly ever has to wait for the
interpreter's lock, which others want that make the features to come.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from ._features import follow, largest, move, weigh


class Rule(NamedTuple):
    """What does not change from one step of a batch to the next.

    Attributes
    ----------
    code : int
        The loss.
    curvature : float
        A bound of its second derivative.
    C : float
    n_rows : int
        n of the objective; 0: the rows seen so far.
    p, least : float
        Norm over the kernels, and the smallest θ_i.
    step, late : float
        The step size in units of what is stable, and λ i γ_i in the end.
    batch_size, n_kernels : int
        Rows of a whole step; kernels that do not vanish.
    cycle, per_step : int
        Steps in which every kernel is drawn once, and the most kernels of a step.
    forget : float
        The average gives iterate j a weight near j to this power.
    exploded : float
        The step is halved when the loss of its rows is this many times that of f = 0.
    faithful : bool
        Whether steps are γ_i = step/(λ i), and nothing is averaged or multiplied.
    """

    code: int
    curvature: float
    C: float
    n_rows: int
    p: float
    least: float
    step: float
    late: float
    batch_size: int
    n_kernels: int
    cycle: int
    per_step: int
    forget: float
    exploded: float
    faithful: bool


class Kernels(NamedTuple):
    """What is known of the m kernels, (m,) arrays.

    Attributes
    ----------
    squares, counts, rho_sq, theta : see `weigh`; counts and θ are changed in every step, squares in `follow`
    top, trace : largest eigenvalues and mean diagonals
    """

    squares: np.ndarray
    counts: np.ndarray
    rho_sq: np.ndarray
    theta: np.ndarray
    top: np.ndarray
    trace: np.ndarray


class Coefficients(NamedTuple):
    """What steps move.

    Attributes
    ----------
    b, mean_b : (c,) arrays
        The intercept and its average.
    V, mean, W, edges, owner : see `follow`
    """

    b: np.ndarray
    mean_b: np.ndarray
    V: np.ndarray
    mean: np.ndarray
    W: np.ndarray
    edges: np.ndarray
    owner: np.ndarray


#: What changes: steps and rows so far, their weight, losses of batches and of f = 0, damping, and the scale of V.
NUMBERS = ("step", "rows", "weight", "batch_loss", "zero_loss", "damping", "scale")
STEP, ROWS, WEIGHT, LOSS, ZERO_LOSS, DAMPING, SCALE = range(len(NUMBERS))


@njit(cache=True, nogil=True)
def lam_of(C, n_rows, rows):  # type: ignore[no-untyped-def]
    """Return λ = 1/(C n), with the rows seen so far for n while an epoch's are not known (0)."""
    return 1.0 / (C * max(1.0, n_rows or rows))


@njit(cache=True, nogil=True)
def _gamma(rule, now, n, lam, kernels):  # type: ignore[no-untyped-def]
    """Return the step size of n rows: what is stable at first, LATE/(λ i) in the end.

    A batch of n rows is stable up to 1/(L (λ₁ + trace/n)), λ₁ the largest eigenvalue of the kernel that a step applies.
    A smaller batch makes a smaller step, so that all rows count alike.
    """
    if rule.faithful:
        return rule.step / (lam * now[STEP])
    first = 1.0 + rule.cycle * largest(kernels.theta, kernels.rho_sq, kernels.top, rule.per_step)
    mean = 1.0 + rule.cycle * largest(kernels.theta, kernels.rho_sq, kernels.trace, rule.per_step)
    curvature = rule.curvature * now[WEIGHT] / now[ROWS]
    gamma = rule.step * now[DAMPING] / (curvature * (first + mean / rule.batch_size) + lam)
    return gamma / (1.0 + gamma * lam * now[STEP] / rule.late) * min(1.0, n / rule.batch_size)


@njit(cache=True, nogil=True)
def begin_step(rule, now, row_sums, draw, kernels, V, rates):  # type: ignore[no-untyped-def]
    """Count a step's rows, weigh the kernels, shrink all coefficients, and write by how much to move those drawn.

    Parameters
    ----------
    rule : Rule
    now : (7,) array, changed
    row_sums : (3,) array
        Of the step's rows: how many, their weight, and their loss at f = 0.
    draw : (k, 4) array of int
        Of every kernel drawn: which (-1: none), where its features begin and end, and how many blocks it has from now.
    kernels : Kernels
    V : array, changed
    rates : (k,) array, written

    Returns
    -------
    gamma, lam : float
    """
    counts, rho_sq, theta, n = kernels.counts, kernels.rho_sq, kernels.theta, row_sums[0]
    now[STEP] += 1.0
    now[ROWS] += n
    now[WEIGHT] += row_sums[1]
    now[ZERO_LOSS] += row_sums[2]
    weigh(kernels.squares, counts, rho_sq, rule.p, rule.least, theta)  # Alg. 3, line 6: 1/ψ
    lam = lam_of(rule.C, rule.n_rows, now[ROWS])
    gamma = _gamma(rule, now, n, lam, kernels)  # line 7
    now[SCALE] *= 1.0 - gamma * lam  # line 10
    if abs(now[SCALE]) < 1e-100:  # also zero, at i = θν of the paper's steps
        V *= now[SCALE]
        now[SCALE] = 1.0
    # Each kernel comes once in `cycle` steps, while all shrink in every one; the intercept is in all of them.
    times = 1.0 if rule.faithful else float(rule.cycle)
    for j in range(len(draw)):
        i = draw[j, 0]
        if i < 0:
            rates[j] = 0.0
            continue
        counts[i] = draw[j, 3]
        moved = 1.0 if rule.faithful else float(counts[i])
        eta = gamma * times * theta[i] / (rho_sq[i] * moved)
        rates[j] = eta / (n * now[SCALE])
    return gamma, lam


@njit(cache=True, nogil=True)
def end_step(rule, now, n, drawn, loss, gamma, lam, G, coefficients, squares):  # type: ignore[no-untyped-def]
    """Move the intercept, take notice of the loss, and let the averages follow.

    Parameters
    ----------
    rule, now : as in `begin_step`
    n, drawn : int
        Rows and kernels of the step.
    loss, G : float and (c,) array
        Summed over the rows, from `move`.
    gamma, lam : float
        From `begin_step`.
    coefficients : Coefficients
        Changed.
    squares : as in `follow`
    """
    b, mean_b, V, mean, W, edges, owner = coefficients
    share = drawn / rule.n_kernels if rule.faithful else 1.0
    average = 0.0 if rule.faithful else (1.0 + rule.forget) / (now[STEP] + rule.forget)
    for k in range(len(b)):
        b[k] = (1.0 - gamma * lam) * b[k] - (gamma * share / n) * G[k]
        mean_b[k] += average * (b[k] - mean_b[k])
    now[LOSS] += loss
    if loss > rule.exploded * n * now[ZERO_LOSS] / now[ROWS]:
        now[DAMPING] /= 2.0
    follow(V, now[SCALE], average, mean, W, edges, owner, squares)


@njit(cache=True, nogil=True)
def take_steps(rule, now, row_sums, draws, kernels, coefficients, Z, Y, s, F, S):  # type: ignore[no-untyped-def]
    """Take one step after the other on rows whose features are made, and return how many had a finite loss.

    Parameters
    ----------
    rule, now, kernels, coefficients : as in `begin_step` and `end_step`
    row_sums, draws : (steps, 3) and (steps, k, 4) arrays
        What `begin_step` wants to know of each.
    Z, Y, s : (n, w), (n, c) and (n,) arrays
        Features, targets and weights of all the steps' rows.
    F, S : as in `move`
    """
    b, V, W = coefficients.b, coefficients.V, coefficients.W[: Z.shape[1]]
    G, rates, first = np.zeros(len(b)), np.empty(draws.shape[1]), 0
    for u in range(len(draws)):
        n, draw = int(row_sums[u, 0]), draws[u]
        some, first = slice(first, first + n), first + n
        gamma, lam = begin_step(rule, now, row_sums[u], draw, kernels, V, rates)
        G[:] = 0.0
        known = Y[some], s[some], F[:n], S[:n]
        loss = move(rule.code, Z[some], W, b, *known, G, draw, rates, V)  # lines 5, 8 and 9
        if not np.isfinite(loss):
            return u
        drawn = np.sum(draw[:, 0] >= 0)
        end_step(rule, now, n, drawn, loss, gamma, lam, G, coefficients, kernels.squares)
    return len(draws)
