"""Spaces in which all outputs share one f: ``F = f 1' + 1 b'``, an intercept for every output.

    minimise over f and b   ||f||^2 / 2 + |b|^2 / 2 + sum_tk U_t l(y_tk, f_t + b_k)

Dual coefficients A are (n, c); f is that of ``a = A 1``, and ``b = 1'A``. A diagonal curvature W is (n, c). The kernel
has no constant in it: the intercepts are what would be one.
"""

from __future__ import annotations

import numpy as np

from .spaces import FeatureSpace, GramSpace, Solve, Space, factored


class SharedGram(Space):
    """On a Gram matrix; ``V`` are dual coefficients (n, c), and a Newton system costs O(m^3 + n^2 c)."""

    explicit = False

    def __init__(self, K: np.ndarray):
        self.inner = GramSpace(K)
        self.scale, self.max_dense, self.spent = (
            self.inner.scale + 1.0,
            self.inner.max_dense,
            self.inner.spent,
        )

    def scores(self, V: np.ndarray) -> np.ndarray:
        return shared_scores(self.inner.scores(V.sum(axis=1, keepdims=True)), V.sum(axis=0))

    def pull(self, A: np.ndarray) -> np.ndarray:
        return A

    def pair(self, R: np.ndarray, D: np.ndarray, G: np.ndarray) -> float:
        return float(np.vdot(R, G))

    def curved(self, W: np.ndarray) -> Solve:
        # X + W * (K x 1' + 1 b') = R with x = X 1 and b = 1'X. Over the outputs of a row: x = S(R 1 - W b), S the
        # solver for the sums of W; over rows: (I + diag(1'W) - W'K S(W)) b = 1'R - W'K S(R 1).
        solve = self.inner.curved(W.sum(axis=1))
        moved = solve(W)
        M = np.diag(1.0 + W.sum(axis=0)) - W.T @ self.inner.scores(moved)
        borders = factored((M + M.T) / 2, float(W.sum()))

        def direction(R: np.ndarray) -> np.ndarray:
            x = solve(R.sum(axis=1, keepdims=True))
            b = borders(R.sum(axis=0) - (W.T @ self.inner.scores(x))[:, 0])
            x = x - (moved @ b)[:, None]
            return R - W * shared_scores(self.inner.scores(x), b)

        return direction

    def evaluate(self, V: np.ndarray, A: np.ndarray) -> tuple[np.ndarray, np.ndarray, float, float]:
        _, f, norm, _ = self.inner.evaluate(V, A.sum(axis=1, keepdims=True))
        b = A.sum(axis=0)
        norm += float(b @ b)
        return A, shared_scores(f, b), norm, norm


class SharedFeatures(Space):
    """On features (n, k); ``V`` is (k + c, 1), the coefficients and below them b; a system costs O(n k^2 + k^3)."""

    explicit = True

    def __init__(self, Z: np.ndarray):
        self.inner = FeatureSpace(Z)
        self.scale, self.max_dense, self.spent = (
            self.inner.scale + 1.0,
            self.inner.max_dense,
            self.inner.spent,
        )

    def scores(self, V: np.ndarray) -> np.ndarray:
        k = self.inner.Z.shape[1]
        return shared_scores(self.inner.Z @ V[:k], V[k:, 0])

    def pull(self, A: np.ndarray) -> np.ndarray:
        return np.vstack([self.inner.Z.T @ A.sum(axis=1, keepdims=True), A.sum(axis=0)[:, None]])

    def pair(self, R: np.ndarray, D: np.ndarray, G: np.ndarray) -> float:
        return float(np.vdot(R, D))

    def curved(self, W: np.ndarray) -> Solve:
        Z = self.inner.Z
        self.spent.append(1.0 * Z.size * Z.shape[1])
        side = Z.T @ W
        M = np.block([[Z.T @ (W.sum(axis=1)[:, None] * Z), side], [side.T, np.diag(W.sum(axis=0))]])
        np.einsum("ii->i", M)[:] += 1.0
        return factored(M, float(np.diagonal(M).max()))

    def evaluate(self, V: np.ndarray, A: np.ndarray) -> tuple[np.ndarray, np.ndarray, float, float]:
        return V, self.scores(V), float(np.vdot(V, V)), float(np.sum(self.pull(A) ** 2))


def shared_scores(f: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return F (n, c) for f (n, 1) and the intercepts (c,)."""
    return f + b
