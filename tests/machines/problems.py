"""Small problems shared by the tests of the machines."""

import numpy as np

from manykernels.losses import LOSSES, Cox, get_loss

COUPLED = [name for name, loss in LOSSES.items() if loss.multiclass or loss.shared]
CASES = [(name, c) for name in LOSSES for c in ((3,) if name in COUPLED else (1, 3))] + [(Cox(), 1)]


def targets(loss, S):
    loss = get_loss(loss)
    if loss.multiclass:
        return np.eye(S.shape[1])[S.argmax(axis=1)]
    if loss.name == "cox":  # rounded: there are ties
        times = np.ceil(4.0 * np.exp(-S[:, :1]))
        return np.where(np.sin(40.0 * S[:, :1]) < 0.5, times, -times)
    if loss.shared:
        return np.where(S[:, :1] > np.linspace(-0.7, 0.7, S.shape[1]), 1.0, -1.0)
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


def scores(K, A, loss):
    """Scores of dual coefficients: outputs may share one f, and then have an intercept each."""
    loss = get_loss(loss)
    return K @ loss.pooled(A) + (A.sum(axis=0) if loss.shared else 0.0)


def coefficients(Z, A, loss):
    """Coefficients of features for dual ones, with the intercepts of outputs that share one f below."""
    loss = get_loss(loss)
    W = Z.T @ loss.pooled(A)
    return np.vstack([W, A.sum(axis=0)[:, None]]) if loss.shared else W


def objective(K, A, Y, loss, C, s):
    F, rows = scores(K, A, loss), s > 0
    return 0.5 * np.vdot(A, F) + get_loss(loss).total(Y[rows], F[rows], C * s[rows])


def dual_objective(K, A, Y, loss, C, s):
    rows = s > 0
    conjugate = get_loss(loss).total_conjugate(Y[rows], A[rows], C * s[rows])
    return -conjugate - 0.5 * np.vdot(A, scores(K, A, loss))
