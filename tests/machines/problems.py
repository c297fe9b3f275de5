"""Small problems shared by the tests of the machines."""

import numpy as np

from manykernels.losses import LOSSES, get_loss

CASES = [(name, c) for name, loss in LOSSES.items() for c in ((3,) if loss.multiclass else (1, 3))]


def targets(loss, S):
    loss = get_loss(loss)
    if loss.multiclass:
        return np.eye(S.shape[1])[S.argmax(axis=1)]
    if loss.name == "poisson":
        return np.floor(np.exp(np.minimum(1.0 + S, 5.0)))
    return S if loss.regression else np.where(S > 0, 1.0, -1.0)


def problem(loss, c, n=60, d=4, seed=0, noise=0.5):
    """Features with a ones column, an RBF Gram with a constant, targets, weights with zeros."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    S = np.tanh(X @ rng.normal(size=(d, c))) + noise * rng.normal(size=(n, c))
    K = rbf(X)
    Z = np.column_stack([X, np.ones(n)])
    s = rng.exponential(size=n) * (rng.random(n) > 0.2)
    return K, Z, targets(loss, S), s


def rbf(X, gamma=0.3):
    square = np.sum(X**2, axis=1)
    return np.exp(-gamma * (square[:, None] + square - 2 * X @ X.T)) + 1.0


def objective(K, A, Y, loss, C, s):
    F = K @ A
    return 0.5 * np.vdot(A, F) + C * (s @ get_loss(loss).value(Y, F))


def dual_objective(K, A, Y, loss, C, s):
    rows = s > 0
    U = -A[rows] / (C * s[rows])[:, None]
    conjugate = get_loss(loss).conjugate(Y[rows], U)
    return -C * (s[rows] @ conjugate) - 0.5 * np.vdot(A, K @ A)
