"""The group-norm objective in its primal form, minimised by an interior-point method."""

import functools
import warnings

import cvxpy as cp
import numpy as np
from scipy.special import xlogy
from tests.contracts import cases


def _loss(name, Y, F, s):
    """Return Σ_t s_t ℓ(y_t, f_t) as a convex expression, straight from the definitions of the losses."""
    if name == "squared":
        return 0.5 * cp.sum_squares(cp.multiply(np.sqrt(s)[:, None], F - Y))
    if name == "softmax":
        return s @ (cp.log_sum_exp(F, axis=1) - cp.sum(cp.multiply(Y, F), axis=1))
    if name == "max_hinge":
        # max over k of f_k + [k is wrong], less the right score: the right class gives the zero.
        return s @ (cp.max(F + (1 - Y), axis=1) - cp.sum(cp.multiply(Y, F), axis=1))
    if name == "poisson":
        return cp.sum(cp.multiply(s[:, None], cp.exp(F) - cp.multiply(Y, F) + xlogy(Y, Y) - Y))
    margins = cp.multiply(Y, F)
    if name == "squared_hinge":
        return cp.sum_squares(cp.multiply(np.sqrt(s)[:, None], cp.pos(1 - margins)))
    part = {
        "hinge": lambda: cp.pos(1 - margins),
        "epsilon_insensitive": lambda: cp.pos(cp.abs(F - Y) - 0.1),
        "huber": lambda: cp.huber(F - Y, 1.35) / 2,
        "quantile": lambda: cp.abs(F - Y) / 2,
        "logistic": lambda: cp.logistic(-margins),
    }[name]()
    return cp.sum(cp.multiply(s[:, None], part))


def factor(K):
    """Return Φ with ΦΦᵀ = K."""
    values, vectors = np.linalg.eigh(K)
    keep = values > 1e-12 * values[-1]
    return vectors[:, keep] * np.sqrt(values[keep])


def optimum(problem, p, kernels=None):
    """Return min (1/n) Σ s ℓ + (λ/2) [(Σ ρ_i^p ‖w_i‖^p)^(2/p) + ‖b‖²], ρ_i² being the mean diagonal."""
    X, Y, s = problem.X, problem.Y, problem.sample_weight
    n, c = Y.shape
    kernels = [kernel.resolve(X.shape[1], None) for kernel in kernels or cases.BATCH_KERNELS]
    blocks, F = [], 0
    for K in (kernel(X) for kernel in kernels):
        phi = factor(K)
        W = cp.Variable((phi.shape[1], c))
        rho = np.sqrt(np.average(np.diagonal(K), weights=s))
        blocks.append(rho * W)
        F = F + phi @ W
    b = cp.Variable((1, c))
    F = F + np.ones((n, 1)) @ b
    if p == 2:
        group = sum(cp.sum_squares(block) for block in blocks)
    else:
        group = cp.square(cp.pnorm(cp.hstack([cp.norm(block, "fro") for block in blocks]), p))
    penalty = group + cp.sum_squares(b)
    objective = problem.C * _loss(problem.loss.name, Y, F, s) + penalty / 2
    with warnings.catch_warnings():  # it says how it models the p-norm, and when its last digits are loose
        warnings.simplefilter("ignore", UserWarning)
        try:
            value = cp.Problem(cp.Minimize(objective)).solve(solver=cp.CLARABEL)
        except cp.error.SolverError:  # some models with few digits to spare want a different scale
            value = 1e-2 * cp.Problem(cp.Minimize(100 * objective)).solve(solver=cp.CLARABEL)
    return value / (problem.C * n)


@functools.cache
def known_optimum(loss, c, p, weights, C):
    """Return the optimum of a problem of cases.py, computed once."""
    return optimum(cases.problem(loss, c, weights=weights, C=C), p)
