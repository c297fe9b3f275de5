"""The second derivative of a machine's value in its kernel.

With phi = C s l the solution has ``A = -phi'(F)``, ``F = K A``, and the value's derivative along dK is ``-tr(A' dK A)
/ 2``. When K moves by dK, A moves by ``-T dK A`` with ``T = (I + H K)^-1 H``, ``H = phi''(F)``, so that the second
derivative along dK_i and dK_j is ``tr((dK_i A)' T dK_j A)``.

Where the loss has kinks H is that of the face of the dual that A lies in: infinite on rows that are free to move in
it (here ``STIFF`` over the scale of the kernel), zero on all others. It is the derivative wherever the face does not
change, which is almost everywhere, and a generalised one elsewhere.

References
----------
Chapelle and Rakotomamonjy, "Second order optimization of kernel parameters", 2008.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import expit

from .._util.allowance import spend
from ..losses import Loss, get_loss
from .boxes import BOXES
from .fit import Fit
from .spaces import FeatureSpace, GramSpace, Solve, Space, simplex_curvature

#: Curvature of a loss at a kink, times the kernel's scale: the systems have half of the digits left.
STIFF = 1e9
#: Coefficients so near to a bound, in units of it, count as being there.
AT_BOUND = 1e-9


def value_hessian(
    Q: np.ndarray, matrix: np.ndarray, Y, loss: str | Loss, C: float, s, fit: Fit, *, explicit: bool
) -> np.ndarray:
    """Return tr(Q_i' T Q_j), the second derivatives of the value of a machine.

    Parameters
    ----------
    Q : (m, n, c) array
        ``dK_i A`` of every direction.
    matrix : (n, n) or (n, k) array
        The Gram matrix K, or the features Z; `explicit` says which.
    Y, loss, C, s :
        As in :func:`manykernels.machines.solve_dual`.
    fit : Fit
        The solution.

    Returns
    -------
    (m, m) array
        Symmetric and positive semi-definite. Cost: a Newton step of the machine for every output, and
        O(m n^2 c + m^2 n c); with coupled outputs m solves with its system.
    """
    loss, U = get_loss(loss), C * np.asarray(s, dtype=np.float64)
    if loss.multiclass:
        return _coupled(Q, matrix, Y, loss, U, fit, explicit)
    H = np.zeros((len(Q), len(Q)))
    last: tuple[np.ndarray, Solve | None] = (np.empty(0), None)
    for j in range(Y.shape[1]):
        W = _curvature(loss.output(j), Y[:, j], fit.A[:, j], fit.F[:, j], U, _scale(matrix, explicit))
        rows = np.flatnonzero(1e-30 * W.max(initial=0.0) < W)
        if not len(rows):
            continue
        part, q = W[rows, None], Q[:, rows, j].T
        space = _space(matrix, rows, explicit, loss)
        if last[1] is None or not np.array_equal(W, last[0]):  # of the squared loss all outputs have the same
            last = W, space.curved(W[rows])
        assert last[1] is not None
        H += q.T @ _pushed(space, last[1], lambda R, part=part: part * R, q)
    return (H + H.T) / 2


def _coupled(Q, matrix, Y, loss: Loss, U, fit: Fit, explicit: bool) -> np.ndarray:
    """Return the same for losses that couple the outputs of a row."""
    if loss.smooth:
        rows = np.flatnonzero(U > 0)
        D = U[rows, None] * np.maximum(loss.probabilities(fit.F[rows]), 1e-25)
    else:
        bound = AT_BOUND * U[:, None]
        support = np.where(Y > 0.5, U[:, None] - bound > fit.A, -bound > fit.A)
        rows = np.flatnonzero(support.sum(axis=1) > 1)
        D = support[rows] * (STIFF / _scale(matrix, explicit))
    H = np.zeros((len(Q), len(Q)))
    if not len(rows):
        return H
    space = _space(matrix, rows, explicit, loss)
    solve = space.coupled(D) if loss.smooth else space.face(D > 0, float(D.max()))
    q = Q[:, rows]
    for i in range(len(Q)):
        moved = _pushed(space, solve, lambda R: simplex_curvature(D, R), q[i])
        H[i] = np.tensordot(q, moved, 2)
    spend(math.fsum(space.spent) + len(Q) * 2.0 * q.size * min(matrix.shape))
    return (H + H.T) / 2


def _pushed(space: Space, solve: Solve, curve, Q: np.ndarray) -> np.ndarray:
    """Return T Q, from the solver of the Newton systems and the curvature of the loss."""
    R = curve(Q)
    if not space.explicit:
        return solve(R)
    return curve(Q - space.scores(solve(space.pull(R))))


def _curvature(loss: Loss, y, a, f, U, scale: float) -> np.ndarray:
    """Return the second derivative of U l at the solution of one output."""
    if loss.name == "squared":
        return U
    if loss.name == "logistic":
        return U * expit(f) * expit(-f)
    if loss.name == "huber":
        return np.where(np.abs(a) < (1 - AT_BOUND) * loss.slope * U, U, 0.0)
    if loss.name == "poisson":  # the expected counts
        return np.maximum(U * y - a, 0.0)
    if loss.name in BOXES:
        box = BOXES[loss.name](loss)
        free = (a > (box.low + AT_BOUND) * U) & (a < (box.high - AT_BOUND) * U)
        return np.where(free & ((np.abs(a) > AT_BOUND * U) | (box.epsilon == 0.0)), STIFF / scale, 0.0)
    b = y * a
    if loss.name == "squared_hinge":
        return np.where(b > 0, 2.0 * U, 0.0)
    return np.where((b > AT_BOUND * U) & (b < (1 - AT_BOUND) * U), STIFF / scale, 0.0)


def _scale(matrix: np.ndarray, explicit: bool) -> float:
    diagonal = np.einsum("ij,ij->i", matrix, matrix) if explicit else np.diagonal(matrix)
    return float(diagonal.max(initial=0.0)) or 1.0


def _space(matrix: np.ndarray, rows: np.ndarray, explicit: bool, loss: Loss) -> Space:
    """Return the space of some rows: features while these are fewer than the rows, else a Gram matrix.

    At kinks always the latter: with features T would be a small difference of large numbers. Rows there are few.
    """
    if not explicit:
        return GramSpace(matrix[np.ix_(rows, rows)])
    Z = matrix[rows]
    return FeatureSpace(Z) if loss.smooth and Z.shape[1] < len(rows) else GramSpace(Z @ Z.T)
