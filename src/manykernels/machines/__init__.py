"""Machines: the inner problem for one fixed kernel.

    minimise over f   ||f||^2 / 2 + C sum_t s_t l(y_t, f_t)

with dual ``-C sum_t s_t l*(-A_t / (C s_t)) - tr(A'KA) / 2`` and, at the solution,
``A = -C s l'(f)``, ``f = K A``. The intercept is part of the kernel: pass ``K + 1`` or ``Z`` with
a column of ones.

A machine is written once, on a space, and so runs on both kinds. The room:

- ``spaces``: a Gram matrix, or explicit features; ``shared``: the same where all outputs share one f;
- ``fit``: what a machine is given and what it returns, with its certificate;
- ``newton``: Newton's method, and the proximal loop around it for losses with kinks;
- ``smooth``, ``hinges``, ``boxes``: the machines; ``_descent``: compiled coordinate descent for the hinges;
  ``interior``: the max-hinge of many classes;
- ``growing``: ridge regression on columns that come one after the other;
- ``sensitivity``: the second derivative of a machine's value in its kernel.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from .._util.allowance import spend
from ..losses import Loss, get_loss
from . import boxes, hinges, smooth
from .fit import Fit, Task
from .growing import GrowingRidge
from .sensitivity import value_hessian
from .shared import SharedFeatures, SharedGram, shared_scores
from .spaces import FeatureSpace, GramSpace, IndefiniteKernelError, Space

_MACHINES = {
    "squared": smooth.squared,
    "hinge": hinges.hinge,
    "squared_hinge": smooth.squared_hinge,
    "logistic": smooth.logistic,
    "max_hinge": hinges.max_hinge,
    "softmax": smooth.softmax,
    "epsilon_insensitive": boxes.epsilon_insensitive,
    "huber": smooth.huber,
    "quantile": boxes.quantile,
    "poisson": smooth.poisson,
    "one_class": boxes.one_class,
    "cox": smooth.cox,
    "ordinal": smooth.ordinal,
}

Start: TypeAlias = Fit | np.ndarray | None


def solve_dual(
    K: np.ndarray,
    Y: np.ndarray,
    loss: str | Loss,
    C: float,
    s: np.ndarray | None = None,
    start: Start = None,
    tol: float = 1e-10,
) -> Fit:
    """Solve the machine on a Gram matrix.

    Parameters
    ----------
    K : (n, n) array
        Symmetric and positive semi-definite; not modified. Without a constant where the loss is shared by the outputs:
        its intercepts are there anyway.
    Y : (n, c) array
        Targets: real for losses of numbers, one-hot for max hinge and softmax, else -1 and +1.
    loss : str or Loss
    C : float
        Weight of the losses against the norm.
    s : (n,) array, optional
        Sample weights, not negative. A weight equals a repetition.
    start : Fit or (n, c) array, optional
        Dual coefficients of a near problem.
    tol : float
        Relative accuracy of the scores. Where rounding does not allow it (very large ``C`` with a
        singular kernel) the machine stops at what it reached and says so in ``gap``.

    Returns
    -------
    Fit

    Raises
    ------
    IndefiniteKernelError
        If ``K`` is not positive semi-definite.
    """
    K = np.asarray(K, dtype=np.float64)
    Y, rows, U = _prepare(Y, C, s)
    if not len(rows):
        return Fit(np.zeros(Y.shape), np.zeros(Y.shape), None, 0, 0.0)
    whole = len(rows) == len(Y)
    loss = get_loss(loss)
    space = _gram_space(np.ascontiguousarray(K if whole else K[np.ix_(rows, rows)]), loss)
    A = _coefficients(start, Y.shape)[rows]
    fit = _solve(space, Y[rows], loss, U[rows], [A], A, tol)
    if whole:
        return fit
    full = np.zeros(Y.shape)
    full[rows] = fit.A
    F = K[:, rows] @ loss.pooled(fit.A)
    F = shared_scores(F, fit.A.sum(axis=0)) if loss.shared else F
    return Fit(full, F, None, fit.n_iter, fit.gap, fit.work)


def solve_primal(
    Z: np.ndarray,
    Y: np.ndarray,
    loss: str | Loss,
    C: float,
    s: np.ndarray | None = None,
    start: Start = None,
    tol: float = 1e-10,
) -> Fit:
    """Solve the machine on explicit features ``Z`` (n, k), with kernel ``ZZ'``.

    Parameters are those of :func:`solve_dual`. ``start`` may be a ``Fit`` of another set of
    columns: its ``A`` helps whatever the columns, its ``W`` when their number is the same, and
    the better of the two is used. With more columns than rows, or the loss of one class, the machine
    runs on ``ZZ'``.

    Returns
    -------
    Fit
        With ``W`` (k, c) and ``F = Z W``; where outputs share one f, ``W`` is (k + c, 1), with the intercepts below.
    """
    Z = np.asarray(Z, dtype=np.float64)
    Y, rows, U = _prepare(Y, C, s)
    n, k = Z.shape
    if not len(rows):
        shape = (k + Y.shape[1], 1) if get_loss(loss).shared else (k, Y.shape[1])
        return Fit(np.zeros(Y.shape), np.zeros(Y.shape), np.zeros(shape), 0, 0.0)
    used = np.ascontiguousarray(Z if len(rows) == n else Z[rows])
    A = _coefficients(start, Y.shape)[rows]
    loss = get_loss(loss)
    if k > len(rows) or (loss.joint and not loss.smooth):
        fit = _solve(_gram_space(used @ used.T, loss), Y[rows], loss, U[rows], [A], A, tol)
        W = used.T @ loss.pooled(fit.A)
        W = np.vstack([W, fit.A.sum(axis=0)[:, None]]) if loss.shared else W
    else:
        space = SharedFeatures(used) if loss.shared else FeatureSpace(used)
        starts = [space.pull(A)]
        if isinstance(start, Fit) and start.W is not None and start.W.shape == starts[0].shape:
            starts.append(start.W)
        fit = _solve(space, Y[rows], loss, U[rows], starts, A, tol)
        assert fit.W is not None
        W = fit.W
    full = np.zeros(Y.shape)
    full[rows] = fit.A
    F = shared_scores(Z @ W[:k], W[k:, 0]) if loss.shared else Z @ W
    return Fit(full, F, W, fit.n_iter, fit.gap, fit.work)


def _gram_space(K: np.ndarray, loss: Loss) -> Space:
    return SharedGram(K) if loss.shared else GramSpace(K)


def _prepare(Y: np.ndarray, C: float, s: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the targets, the rows of positive weight, and ``C s``."""
    Y = np.asarray(Y, dtype=np.float64)
    s = np.ones(len(Y)) if s is None else np.asarray(s, dtype=np.float64)
    U = C * s
    return Y, np.flatnonzero(U > 0.0), U


def _coefficients(start: Start, shape: tuple[int, ...]) -> np.ndarray:
    if start is None:
        return np.zeros(shape)
    A = np.asarray(start.A if isinstance(start, Fit) else start, dtype=np.float64)
    if A.shape != shape:
        raise ValueError(f"start has dual coefficients of shape {A.shape}; expected {shape}.")
    return A


def _solve(space: Space, Y, loss: Loss, U, starts: list[np.ndarray], A, tol: float) -> Fit:
    """Begin at the best of the starts, or at zero where that is better."""
    Y, U = np.ascontiguousarray(Y), np.ascontiguousarray(U)
    V = np.zeros_like(starts[0])
    best = loss.total(Y, np.zeros_like(Y), U)
    for candidate in starts:
        if not candidate.any():
            continue
        F = space.scores(candidate)
        value = 0.5 * space.pair(candidate, candidate, F) + loss.total(Y, F, U)
        if value < best:
            V, best = candidate, value
    fit = _MACHINES[loss.name](Task(space, Y, loss, U), V, A, tol)
    work = math.fsum(space.spent)
    spend(work)
    return replace(fit, work=work)


__all__ = [
    "Fit",
    "GrowingRidge",
    "IndefiniteKernelError",
    "solve_dual",
    "solve_primal",
    "value_hessian",
]


def __dir__() -> list[str]:
    return sorted(__all__)
