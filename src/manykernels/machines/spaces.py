"""Where a machine lives: a Gram matrix or explicit features.

Both hold a predictor ``f`` by a matrix ``V``: dual coefficients with ``F = K V``, or primal
coefficients with ``F = Z V``. A Newton method on ``||f||^2 / 2 + sum_t phi_t(f_t)`` with
``A(F) = -phi'(F)`` (the *response*) and ``H = phi''`` needs the same few operations of either:

- the residual ``R = A - V`` or ``Z'A - V``, zero at the solution;
- the direction ``(I + H K)^{-1} R`` or ``(I + Z'HZ)^{-1} R``;
- the inner product ``<f_R, f_D>``.

Machines are written once, on a space, and so run on both.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
from scipy.linalg import lu_factor, lu_solve
from scipy.linalg.lapack import dpotrf, dpotrs

from .._util.arrays import row_blocks

#: Sizes of a dense Newton system above which conjugate gradients take over.
MAX_DENSE = 6000
#: The blocks of a coupled system come from one product, rather than from one for each pair of outputs, above so many of
#: these, and up to so many features for each: calls would take longer than what they multiply.
FEW_OUTPUTS, FEW_FEATURES = 32, 2
#: Curvature times the square of features up to which a coupled system of many outputs is one of the rows: ten digits
#: are left then, which is enough for a loss that is smooth.
MOST_BORDERED = 1e6
#: Multiplications that it is worth to pick an entry of a matrix and to scale it, and to put a coupled system together.
COPY_WORK, COUPLED_WORK = 50.0, 7e5
_JITTERS = (0.0, 1e-15, 1e-13, 1e-11, 1e-9)

Solve = Callable[[np.ndarray], np.ndarray]
Curve = Callable[[np.ndarray], np.ndarray]


class IndefiniteKernelError(np.linalg.LinAlgError):
    """The combined kernel matrix has a negative eigenvalue beyond rounding."""

    def __init__(self) -> None:
        super().__init__(
            "the combined kernel is not positive semi-definite; check precomputed matrices and "
            "custom kernels, or add a multiple of the identity."
        )


def factored(B: np.ndarray, jitter: np.ndarray | float) -> Solve:
    """Return the solver of ``B x = r`` for a symmetric positive definite ``B``.

    ``B`` is overwritten. When rounding has left it indefinite, growing multiples of ``jitter``
    are added to its diagonal; Newton's method corrects for that in its next steps.
    """
    if not len(B):
        return np.copy
    diagonal = np.einsum("ii->i", B)
    original = diagonal.copy()
    for size in _JITTERS:
        diagonal[:] = original + size * len(B) * jitter
        # B itself is left as it is, so that it can be tried again. SciPy's cho_factor and cho_solve are these two calls
        # of LAPACK and several times as long for the small systems that machines solve by the thousand.
        factor, info = dpotrf(B.T, lower=1, clean=0)
        if info == 0:
            return lambda R: dpotrs(factor, R, lower=1)[0]
    raise IndefiniteKernelError


def conjugate_gradients(
    apply: Callable[[np.ndarray], np.ndarray], R: np.ndarray, tol: float = 1e-12, max_iter: int = 1000
) -> np.ndarray:
    """Solve ``apply(X) = R`` for a symmetric positive definite operator on matrices."""
    X = np.zeros_like(R)
    residual = R.copy()
    P = R.copy()
    rho = np.vdot(residual, residual)
    stop = tol * tol * rho
    for _ in range(max_iter):
        if rho <= stop:
            break
        Q = apply(P)
        curvature = np.vdot(P, Q)
        if curvature <= 0.0:
            break
        alpha = rho / curvature
        X += alpha * P
        residual -= alpha * Q
        rho, previous = np.vdot(residual, residual), rho
        P = residual + (rho / previous) * P
    return X


def simplex_curvature(D: np.ndarray, G: np.ndarray) -> np.ndarray:
    """Apply ``diag(d) - d d' / sum(d)`` to every row of ``G``, with ``d`` the row of ``D``."""
    total = D.sum(axis=1, keepdims=True)
    mean = np.divide((D * G).sum(axis=1, keepdims=True), total, where=total > 0, out=0.0 * total)
    return D * (G - mean)


class Space(ABC):
    """A Gram matrix or explicit features, behind one face.

    Attributes
    ----------
    explicit : bool
        Whether it has features.
    scale : float
        The largest squared norm of a row.
    max_dense : int
        Size of a dense Newton system above which conjugate gradients take over.
    spent : list of floats
        What has been multiplied here, roughly: systems, and what the calls and scores of each of Newton's steps are
        worth. Threads append, and the sum does not depend on their order.
    """

    explicit: bool
    scale: float
    max_dense: int
    spent: list[float]

    @abstractmethod
    def scores(self, V: np.ndarray) -> np.ndarray:
        """Return the scores ``F`` of the predictor ``V``."""

    @abstractmethod
    def pull(self, A: np.ndarray) -> np.ndarray:
        """Return the predictor ``V`` with the dual coefficients ``A``."""

    @abstractmethod
    def pair(self, R: np.ndarray, D: np.ndarray, G: np.ndarray) -> float:
        """Return ``<f_R, f_D>``, given also ``G = scores(D)``."""

    @abstractmethod
    def curved(self, W: np.ndarray) -> Solve:
        """Return the Newton solver for the diagonal curvature ``W`` (n,), for any number of R."""

    # Only where every output is a predictor of its own.

    def coupled(self, D: np.ndarray, *, smooth: bool = True) -> Solve:
        """Return the Newton solver for the curvature ``diag(d) - dd'/sum(d)``, d >= 0 dense.

        That of a loss that is not `smooth` has entries of all sizes, and asks for all digits.
        """
        raise NotImplementedError

    def across(self, curve: Curve) -> Solve:
        """Return the Newton solver for a curvature that ties rows, given by its products with matrices (n, k)."""
        raise NotImplementedError

    def face(self, support: np.ndarray, tau: float) -> Solve:
        """Return the Newton solver for ``d = tau * support``, support boolean (n, c) and sparse."""
        raise NotImplementedError

    @abstractmethod
    def evaluate(self, V: np.ndarray, A: np.ndarray) -> tuple[np.ndarray, np.ndarray, float, float]:
        """Return the predictor, its scores, its squared norm and the squared norm of ``f_A``."""


class GramSpace(Space):
    """The space of a Gram matrix ``K`` (n, n); a Newton system costs O(m^3), m curved rows."""

    explicit = False

    def __init__(self, K: np.ndarray, max_dense: int = MAX_DENSE):
        self.K, self.max_dense, self.spent = K, max_dense, []
        self.diagonal = np.diagonal(K).copy()
        self.scale = float(self.diagonal.max(initial=0.0)) or 1.0
        if self.diagonal.min(initial=0.0) < -1e-9 * self.scale:
            raise IndefiniteKernelError

    def scores(self, V: np.ndarray) -> np.ndarray:
        rows = np.flatnonzero(V.any(axis=1))
        if 2 * len(rows) < len(V):
            return self.K[rows].T @ V[rows]
        return self.K @ V

    def pull(self, A: np.ndarray) -> np.ndarray:
        return A

    def pair(self, R: np.ndarray, D: np.ndarray, G: np.ndarray) -> float:
        return float(np.vdot(R, G))

    def curved(self, W: np.ndarray) -> Solve:
        # With B = I + W^1/2 K W^1/2 on the curved rows c and the flat rows d:
        # x_d = r_d and x_c = W^1/2 B^-1 (W^-1/2 r_c - W^1/2 K_cd r_d); see Rasmussen and
        # Williams, "Gaussian processes for machine learning", 2006, algorithm 3.1.
        curved = 1e-30 * W.max(initial=0.0) < W
        rows, flat = np.flatnonzero(curved), np.flatnonzero(~curved)
        self.spent.append((len(rows) / 3 + COPY_WORK) * len(rows) ** 2)
        root = np.sqrt(W[rows])[:, None]
        K = self.K if not len(flat) else self.K[np.ix_(rows, rows)]
        B = K * root
        B *= root.T
        np.einsum("ii->i", B)[:] += 1.0
        solve = factored(B, self.scale * W[rows])

        def direction(R: np.ndarray) -> np.ndarray:
            X = R.copy()
            right = R[rows] / root
            moved = flat[R[flat].any(axis=1)]
            if len(moved):
                right -= root * (self.K[np.ix_(rows, moved)] @ R[moved])
            X[rows] = root * solve(right)
            return X

        return direction

    def coupled(self, D: np.ndarray, *, smooth: bool = True) -> Solve:
        # Rasmussen and Williams, algorithm 3.3, in a form that does not cancel: with
        # E_k = (D_k^-1 + K)^-1 and rows of R that sum to zero the step is
        # X_k = E_k (R_k / D_k - mu), where mu makes the rows of X sum to zero.
        n, c = D.shape
        self.spent.append(4 / 3 * c * float(n) ** 3)
        roots = np.sqrt(D)
        total = np.zeros((n, n))
        solves = []
        eye = np.eye(n)
        for k in range(c):
            root = roots[:, k, None]
            B = self.K * root
            B *= root.T
            np.einsum("ii->i", B)[:] += 1.0
            solve = factored(B, self.scale * D[:, k])
            solves.append(solve)
            inverse = solve(eye)
            inverse *= root
            inverse *= root.T
            total += inverse
        tiny = np.finfo(float).eps * max(float(np.diagonal(total).max()), np.finfo(float).tiny)
        balance = factored(total, tiny)

        def direction(R: np.ndarray) -> np.ndarray:
            T = R / roots
            X = np.column_stack([roots[:, k] * solves[k](T[:, k]) for k in range(c)])
            mu = balance(X.sum(axis=1))
            for k in range(c):
                X[:, k] -= roots[:, k] * solves[k](roots[:, k] * mu)
            return X - D * (X.sum(axis=1) / D.sum(axis=1))[:, None]

        return direction

    def across(self, curve: Curve) -> Solve:
        # The curvature has directions without any, so there is no symmetric form to factor that does not cancel.
        self.spent.append(float(len(self.K)) ** 3)
        system = np.empty_like(self.K)
        for part in row_blocks(
            len(self.K), len(self.K)
        ):  # by columns: products take several copies of theirs
            system[:, part] = curve(self.K[:, part])
        np.einsum("ii->i", system)[:] += 1.0
        factor = lu_factor(system, overwrite_a=True, check_finite=False)
        return lambda R: lu_solve(factor, R, check_finite=False)

    def face(self, support: np.ndarray, tau: float) -> Solve:
        # A face is {rows sum to zero, zero off the support}, with basis e_k - e_ref row by row.
        # The step keeps the part of R off the face, S, and adds X on it such that
        # X/tau + KX = R/tau - KS along the face.
        rows, classes, refs = face_basis(support)
        mask = support.astype(np.float64)
        if len(rows) > self.max_dense:
            return self._face_by_gradients(mask, tau)
        self.spent.append((len(rows) / 3 + COPY_WORK) * len(rows) ** 2 + COUPLED_WORK)
        c = support.shape[1]
        E = np.zeros((len(rows), c))
        E[np.arange(len(rows)), classes] = 1.0
        E[np.arange(len(rows)), refs] = -1.0
        M = self.K[np.ix_(rows, rows)]
        M[rows[:, None] == rows] += 1.0 / tau
        M *= E @ E.T
        solve = factored(M, self.scale)

        def direction(R: np.ndarray) -> np.ndarray:
            X = R - simplex_curvature(mask, R)
            x = solve(np.sum(E * (R / tau - self.scores(X))[rows], axis=1))
            np.add.at(X, (rows, classes), x)
            np.subtract.at(X, (rows, refs), x)
            return X

        return direction

    def _face_by_gradients(self, mask: np.ndarray, tau: float) -> Solve:
        def curve(P: np.ndarray) -> np.ndarray:
            self.spent.append(1.0 * len(self.K) * P.size)
            return P / tau + simplex_curvature(mask, self.K @ P)

        def direction(R: np.ndarray) -> np.ndarray:
            S = R - simplex_curvature(mask, R)
            return S + conjugate_gradients(
                curve,
                simplex_curvature(mask, R / tau - self.K @ S),
            )

        return direction

    def evaluate(self, V: np.ndarray, A: np.ndarray) -> tuple[np.ndarray, np.ndarray, float, float]:
        F = self.K @ A
        norm = float(np.vdot(A, F))
        if norm < -1e-8 * self.scale * float(np.abs(A).sum()) ** 2 / max(len(A), 1):
            raise IndefiniteKernelError
        return A, F, norm, norm


class FeatureSpace(Space):
    """The space of features ``Z`` (n, k); a Newton system costs O(n k^2 + k^3)."""

    explicit = True

    def __init__(self, Z: np.ndarray, max_dense: int = MAX_DENSE):
        self.Z, self.max_dense, self.spent = Z, max_dense, []
        self.diagonal = np.einsum("ij,ij->i", Z, Z)
        self.scale = float(self.diagonal.max(initial=0.0)) or 1.0

    def scores(self, V: np.ndarray) -> np.ndarray:
        return self.Z @ V

    def pull(self, A: np.ndarray) -> np.ndarray:
        return self.Z.T @ A

    def pair(self, R: np.ndarray, D: np.ndarray, G: np.ndarray) -> float:
        return float(np.vdot(R, D))

    def curved(self, W: np.ndarray) -> Solve:
        rows = np.flatnonzero(1e-30 * W.max(initial=0.0) < W)
        Z = (self.Z if len(rows) == len(W) else self.Z[rows]) * np.sqrt(W[rows])[:, None]
        self.spent.append(Z.size * (min(Z.shape) + COPY_WORK))
        if len(rows) < Z.shape[1]:
            small = Z @ Z.T
            np.einsum("ii->i", small)[:] += 1.0
            solve_small = factored(small, float(np.diagonal(small).max(initial=0.0)))
            return lambda R: R - Z.T @ solve_small(Z @ R)
        M = Z.T @ Z
        np.einsum("ii->i", M)[:] += 1.0
        return factored(M, float(np.diagonal(M).max()))

    def coupled(self, D: np.ndarray, *, smooth: bool = True) -> Solve:
        k, c = self.Z.shape[1], D.shape[1]
        total = D.sum(axis=1)
        rows = np.flatnonzero((total > 0) & (np.count_nonzero(D, axis=1) > 1))
        Z, D, total = self.Z[rows], D[rows], total[rows]
        if k * c > self.max_dense:

            def curve(P: np.ndarray) -> np.ndarray:
                self.spent.append(2.0 * len(Z) * P.size)
                return P + Z.T @ simplex_curvature(D, Z @ P)

            return lambda R: conjugate_gradients(curve, R)
        whole, bordered = (len(Z) / 2 + k * c / 3) * float(k * c) ** 2, _border_cost(len(Z), k, c)
        if smooth and 2.0 * bordered < whole:
            solve_bordered = _bordered(Z, D, total)
            if solve_bordered is not None:
                self.spent.append(bordered + COUPLED_WORK)
                return solve_bordered
        self.spent.append(whole + COUPLED_WORK)
        at_once = c > FEW_OUTPUTS or k <= FEW_FEATURES * c
        M = _simplex_gram_at_once(Z, D, total) if at_once else _simplex_gram(Z, D, total)
        square = M.reshape(c * k, c * k)
        np.einsum("ii->i", square)[:] += 1.0
        solve = factored(square, float(np.diagonal(square).max()))
        return lambda R: solve(R.T.ravel()).reshape(c, k).T

    def across(self, curve: Curve) -> Solve:
        self.spent.append(1.0 * self.Z.size * self.Z.shape[1])
        M = self.Z.T @ curve(self.Z)
        M = (M + M.T) / 2
        np.einsum("ii->i", M)[:] += 1.0
        return factored(M, float(np.diagonal(M).max()))

    def face(self, support: np.ndarray, tau: float) -> Solve:
        return self.coupled(tau * support.astype(np.float64), smooth=False)

    def evaluate(self, V: np.ndarray, A: np.ndarray) -> tuple[np.ndarray, np.ndarray, float, float]:
        return V, self.Z @ V, float(np.vdot(V, V)), float(np.sum((self.Z.T @ A) ** 2))


def _border_cost(n: int, k: int, c: int) -> float:
    """Return the multiplications of ``_bordered``."""
    return (n * (k + n / 2) + k * k) * float(k * c) + n**3 / 3


def _bordered(Z: np.ndarray, D: np.ndarray, total: np.ndarray) -> Solve | None:
    """Return the solver for all outputs by a system of the size of the rows; None where it would lose digits.

    The matrix is ``B - VV'``: blocks ``B_j = I + Z' diag(d_j) Z`` of one output each, and one column of V for every
    row. With ``T = B^{-1/2} V`` its inverse is ``B^{-1/2} (I + T (I - T'T)^{-1} T') B^{-T/2}`` (Woodbury). The
    eigenvalues of ``I - T'T`` are at least those of ``B^{-1}``.
    """
    k, c = Z.shape[1], D.shape[1]
    blocks = (D.T @ (Z[:, :, None] * Z[:, None, :]).reshape(len(Z), k * k)).reshape(c, k, k)
    if float(np.trace(blocks, axis1=1, axis2=2).max()) > MOST_BORDERED:
        return None
    np.einsum("cii->ci", blocks)[:] += 1.0
    roots = np.linalg.inv(np.linalg.cholesky(blocks))
    T = roots @ (Z.T[None] * (D / np.sqrt(total)[:, None]).T[:, None, :])
    flat = T.reshape(c * k, len(Z))
    M = -(flat.T @ flat)
    np.einsum("ii->i", M)[:] += 1.0
    rest = factored(M, np.finfo(float).eps)

    def direction(R: np.ndarray) -> np.ndarray:
        X = roots @ R.T[:, :, None]
        X += T @ rest(flat.T @ X.ravel())[:, None]
        return (roots.transpose(0, 2, 1) @ X)[:, :, 0].T

    return direction


def _weighted_gram(Z: np.ndarray, d: np.ndarray) -> np.ndarray:
    """Return ``Z' diag(d) Z`` for d >= 0 from the rows where d is not zero."""
    rows = np.flatnonzero(d)
    part = (Z if 2 * len(rows) > len(d) else Z[rows]).copy()
    part *= np.sqrt(d if 2 * len(rows) > len(d) else d[rows])[:, None]
    return part.T @ part


def _simplex_gram(Z: np.ndarray, D: np.ndarray, total: np.ndarray) -> np.ndarray:
    """Return the sum over rows of ``(diag(d) - d d' / sum(d)) x z z'``, (c, k, c, k), block by block."""
    k, c = Z.shape[1], D.shape[1]
    M = np.zeros((c, k, c, k))
    for i in range(c):
        M[i, :, i, :] += _weighted_gram(Z, D[:, i])
        for j in range(i + 1):
            block = _weighted_gram(Z, D[:, i] * D[:, j] / total)
            M[i, :, j, :] -= block
            if j < i:
                M[j, :, i, :] -= block
    return M


def _simplex_gram_at_once(Z: np.ndarray, D: np.ndarray, total: np.ndarray) -> np.ndarray:
    """Return what ``_simplex_gram`` does from one product: O(n c^2 k^2), and no more calls for more outputs."""
    k, c = Z.shape[1], D.shape[1]
    M = np.zeros((c * k, c * k))
    blocks = np.zeros((c, k * k))
    for part in row_blocks(len(Z), c * k):
        z, d = Z[part], D[part]
        blocks += d.T @ (z[:, :, None] * z[:, None, :]).reshape(len(z), k * k)
        spread = (d / np.sqrt(total[part, None]))[:, :, None] * z[:, None, :]
        spread = spread.reshape(len(z), c * k)
        M -= spread.T @ spread
    M = M.reshape(c, k, c, k)
    outputs = np.arange(c)
    M[outputs, :, outputs, :] += blocks.reshape(c, k, k)
    return M


def narrow_root(K: np.ndarray, most: int) -> np.ndarray | None:
    """Return ``Z`` (n, k) with ``ZZ' = K`` up to rounding and k at most ``most``; None where the rank is larger.

    A Cholesky factor with the largest remaining diagonal first (Higham, "Accuracy and stability of numerical
    algorithms", 2002, section 10.3), O(n k^2).
    """
    left = np.diagonal(K).copy()
    enough = 16.0 * np.finfo(float).eps * left.max(initial=0.0)
    rows = np.zeros((most, len(K)))
    for k in range(most + 1):
        pivot = int(left.argmax())
        if left[pivot] <= enough:
            return np.ascontiguousarray(rows[:k].T)
        if k < most:
            rows[k] = (K[pivot] - rows[:k, pivot] @ rows[:k]) / np.sqrt(left[pivot])
            left -= rows[k] ** 2
            left[pivot] = 0.0
    return None


def face_basis(support: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows, classes and reference classes of the directions ``e_k - e_ref`` of a face.

    ``ref`` is the first supported class of its row; a row with s supported classes gives s - 1
    directions.
    """
    first = support.argmax(axis=1)
    others = support.copy()
    others[np.arange(len(support)), first] = False
    rows, classes = np.nonzero(others)
    return rows, classes, first[rows]
