"""What kernels need to know of pairs of rows: inner products and distances."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import euclidean_distances, linear_kernel, manhattan_distances

from ._distances import add_l1

#: Rows that tell where the middle is, and rows to take sums of absolute differences with at once.
MIDDLE_ROWS, L1_ROWS = 256, 2048

#: Rows of numbers, dense or sparse.
Rows: TypeAlias = "np.ndarray | sp.csr_matrix"


def dense(X: Any) -> np.ndarray:
    """Return `X` as a dense array."""
    return X.toarray() if sp.issparse(X) else np.asarray(X)


def pairwise_statistic(name: str, X: Rows, Z: Rows) -> np.ndarray:
    """Compute the statistic `name` of all pairs of rows of `X` and `Z`, O(n n' d)."""
    if X.shape[1] != Z.shape[1]:  # compiled loops would read beyond the narrower ones
        raise ValueError(f"X has {X.shape[1]:,} columns, and the rows it is compared with {Z.shape[1]:,}.")
    if name == "dot":
        return linear_kernel(X, Z, dense_output=True)
    if name == "sqdist":
        if sp.issparse(X) or sp.issparse(Z) or not len(Z):
            return euclidean_distances(X, None if Z is X else Z, squared=True)
        return _squared_distances(X, Z)
    if name == "l1":
        return manhattan_distances(X, Z) if sp.issparse(X) or sp.issparse(Z) else _l1_distances(X, Z)
    if name == "difference":
        return np.subtract.outer(dense(X)[:, 0], dense(Z)[:, 0])
    raise ValueError(f"unknown statistic {name!r}")


def _squared_distances(X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """Return ‖x - z‖² by one matrix product, and by differences for pairs where that loses its digits.

    Rows are measured from the medians of the columns, of some rows, so that neither an offset nor an outlier hurts the
    rest.
    """
    middle = np.median(Z[:: max(1, len(Z) // MIDDLE_ROWS)], axis=0)
    Xc = X - middle
    Zc = Xc if Z is X else Z - middle
    xx, zz = row_norms_sq(Xc), row_norms_sq(Zc)
    S = Xc @ Zc.T
    S *= -2.0
    S += xx[:, None]
    S += zz
    # The product is exact to about 1e-15 (‖x‖² + ‖z‖²): below 1e-7 of that, eight digits are left.
    rows, columns = np.nonzero((1e-7 * (xx + zz.max()))[:, None] > S)
    close = 1e-7 * (xx[rows] + zz[columns]) > S[rows, columns]
    rows, columns = rows[close], columns[close]
    if len(rows) * X.shape[1] > S.size + 10**6:
        return cdist(Xc, Zc, "sqeuclidean")
    S[rows, columns] = row_norms_sq(X[rows] - Z[columns])
    return S


def _l1_distances(X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """Return ‖x - z‖₁, a few thousand rows z at a time, so that they and their sums stay in cache."""
    X = np.ascontiguousarray(X, dtype=float)
    columns = np.ascontiguousarray(Z.T, dtype=float)
    out = np.zeros((len(X), len(Z)))
    for a in range(0, len(Z), L1_ROWS):
        add_l1(X, columns, a, out[:, a : a + L1_ROWS])
    return out


def row_norms_sq(X: Any) -> np.ndarray:
    """Return the squared norm of every row."""
    if sp.issparse(X):
        return np.asarray(X.multiply(X).sum(axis=1)).ravel()
    return np.einsum("ij,ij->i", X, X)
