"""Ridge regression on columns that come one after the other: the sums over rows are made once for each."""

from __future__ import annotations

import numpy as np

from .fit import Fit
from .spaces import factored

#: Refinements with the same factor, at most; one is enough unless C is very large.
MOST_REFINED = 20


class GrowingRidge:
    """The squared machine on features √weight_i · φ_i and a constant one, for one set of weights after another.

    Σ_t s_t φ_i φ_j is kept. A solve costs O(n k) for every new column, O(k³) and a few passes over the columns, O(n k
    c), where :func:`~manykernels.machines.solve_primal` takes O(n k²).

    Parameters
    ----------
    Y : (n, c) array
    C : float
    s : (n,) array
        Sample weights, not negative.
    tol : float
        Relative accuracy of the coefficients.
    """

    def __init__(self, Y: np.ndarray, C: float, s: np.ndarray, tol: float = 1e-10):
        self.Y, self.tol = Y, tol
        self.U = C * s
        self.gram = np.array([[self.U.sum()]])  # the constant column comes first here
        self.pulled = (self.U @ Y)[None]

    @property
    def n_columns(self) -> int:
        """How many columns it knows."""
        return len(self.gram) - 1

    def keep(self, columns: np.ndarray) -> None:
        """Forget all columns but these."""
        at = np.concatenate([[0], np.asarray(columns, dtype=np.intp) + 1])
        self.gram, self.pulled = self.gram[np.ix_(at, at)], self.pulled[at]

    def _take(self, columns):
        """Make the sums of the columns that are new."""
        known, k = self.n_columns, columns.shape[1]
        if known == k:
            return
        new = columns[:, known:] * self.U[:, None]
        gram = np.empty((k + 1, k + 1))
        gram[: known + 1, : known + 1] = self.gram
        gram[0, known + 1 :] = new.sum(axis=0)
        gram[1:, known + 1 :] = columns.T @ new
        gram[known + 1 :, : known + 1] = gram[: known + 1, known + 1 :].T
        self.gram, self.pulled = gram, np.concatenate([self.pulled, new.T @ self.Y])

    def solve(self, columns: np.ndarray, weights: np.ndarray) -> Fit:
        """Return the machine on columns (n, k), of which the first are those of the last call."""
        self._take(columns)
        root = np.concatenate([[1.0], np.sqrt(weights)])[:, None]
        M = self.gram * root * root.T
        np.einsum("ii->i", M)[:] += 1.0
        solve = factored(M, float(np.diagonal(M).max()))
        W = solve(root * self.pulled)
        for n_iter in range(1, MOST_REFINED + 1):
            F = columns @ (root[1:] * W[1:]) + W[0]
            A = self.U[:, None] * (self.Y - F)
            pulled = root * np.concatenate([A.sum(axis=0)[None], columns.T @ A])
            step = solve(pulled - W)
            if np.linalg.norm(step) <= self.tol * np.linalg.norm(W) or n_iter == MOST_REFINED:
                break
            W = W + step
        return Fit(A, F, np.concatenate([W[1:], W[:1]]), n_iter, self._gap(W, F, A, pulled))

    def _gap(self, W, F, A, pulled):
        """Return the relative duality gap; with A = U(Y - F) it is half of ‖W - ZᵀA‖²."""
        primal = 0.5 * float(np.vdot(W, W)) + 0.5 * float(np.vdot(A, self.Y - F))
        return 0.5 * float(np.square(W - pulled).sum()) / max(primal, np.finfo(float).tiny)
