"""The machines against other programs on the same problem."""

import cvxpy as cp
import numpy as np
import pytest
from problems import CASES, objective, problem
from scipy.special import xlogy
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC, LinearSVC

from manykernels.losses import Cox
from manykernels.machines import solve_dual, solve_primal


def reference(K, Y, loss, C, s):
    """The optimal objective by a conic solver, over f = L v with K = LL'."""
    n, c = Y.shape
    if not isinstance(loss, str):
        return partial_likelihood(K, Y[:, 0], C * s, loss.ties == "efron")
    values, vectors = np.linalg.eigh(K)
    L = vectors * np.sqrt(np.maximum(values, 0.0))
    V = cp.Variable((n, 1 if loss == "ordinal" else c))
    F, thresholds = L @ V, cp.Variable((1, c))
    if loss == "squared":
        losses = cp.sum(cp.square(F - Y), axis=1) / 2
    elif loss == "hinge":
        losses = cp.sum(cp.pos(1 - cp.multiply(Y, F)), axis=1)
    elif loss == "squared_hinge":
        losses = cp.sum(cp.square(cp.pos(1 - cp.multiply(Y, F))), axis=1)
    elif loss == "logistic":
        losses = cp.sum(cp.logistic(-cp.multiply(Y, F)), axis=1)
    elif loss == "ordinal":
        F = F @ np.ones((1, c)) + np.ones((n, 1)) @ thresholds
        losses = cp.sum(cp.logistic(-cp.multiply(Y, F)), axis=1)
    elif loss == "epsilon_insensitive":
        losses = cp.sum(cp.pos(cp.abs(F - Y) - 0.1), axis=1)
    elif loss == "huber":
        losses = cp.sum(cp.huber(F - Y, 1.35), axis=1) / 2
    elif loss == "quantile":
        losses = cp.sum(cp.abs(F - Y), axis=1) / 2
    elif loss == "poisson":
        least = (xlogy(Y, Y) - Y).sum(axis=1)
        losses = cp.sum(cp.exp(F) - cp.multiply(Y, F), axis=1) + least
    elif loss == "max_hinge":
        losses = cp.max(F + (1 - Y), axis=1) - cp.sum(cp.multiply(Y, F), axis=1)
    else:
        losses = cp.log_sum_exp(F, axis=1) - cp.sum(cp.multiply(Y, F), axis=1)
    penalty = cp.sum_squares(V) / 2 + (cp.sum_squares(thresholds) / 2 if loss == "ordinal" else 0.0)
    goal = cp.Minimize(penalty + C * cp.sum(cp.multiply(s, losses)))
    return cp.Problem(goal).solve(solver="CLARABEL")


def partial_likelihood(K, y, w, efron):
    """The same for Cox's partial likelihood, event time by event time."""
    values, vectors = np.linalg.eigh(K)
    v = cp.Variable(len(y))
    f = (vectors * np.sqrt(np.maximum(values, 0.0))) @ v
    goal, event = cp.sum_squares(v) / 2, (y > 0) & (w > 0)
    for t in np.unique(y[event]):
        tied, at_risk = np.flatnonzero(event & (y == t)), np.flatnonzero((np.abs(y) >= t) & (w > 0))
        d, m = w[tied].sum(), len(tied)
        for k in range(m) if efron else [0]:
            share = np.where(np.isin(at_risk, tied), 1.0 - k / m, 1.0)
            mass = d / m if efron else d
            goal += mass * (cp.log_sum_exp(f[at_risk] + np.log(w[at_risk] * share)) - np.log(mass))
        goal -= w[tied] @ f[tied]
    return cp.Problem(cp.Minimize(goal)).solve(solver="CLARABEL")


@pytest.mark.parametrize("loss, c", [*CASES, (Cox("efron"), 1)], ids=str)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_objective_is_that_of_a_conic_solver(loss, c, weighted):
    K, Z, Y, s = problem(loss, c, n=30)
    s = s if weighted else np.ones(30)
    for gram, fit in (
        (K, solve_dual(K, Y, loss, 2.0, s)),
        (Z @ Z.T, solve_primal(Z, Y, loss, 2.0, s)),
    ):
        expected = reference(gram, Y, loss, 2.0, s)
        assert objective(gram, fit.A, Y, loss, 2.0, s) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("weighted", [False, True])
def test_linear_machines_equal_linear_svc(loss, weighted):
    _, Z, Y, s = problem(loss, 1)
    s = s if weighted else np.ones(len(Y))
    theirs = LinearSVC(loss=loss, C=0.5, fit_intercept=False, dual=True, tol=1e-9, max_iter=2_000_000).fit(
        Z, Y[:, 0], sample_weight=s
    )
    for fit in (solve_primal(Z, Y, loss, 0.5, s), solve_dual(Z @ Z.T, Y, loss, 0.5, s)):
        np.testing.assert_allclose(fit.F[:, 0], theirs.decision_function(Z), atol=1e-5)


def test_the_linear_logistic_machine_equals_liblinear():
    _, Z, Y, s = problem("logistic", 1)
    theirs = LogisticRegression(
        solver="liblinear", C=2.0, fit_intercept=False, tol=1e-10, max_iter=10_000
    ).fit(Z, Y[:, 0], sample_weight=s)
    for fit in (solve_primal(Z, Y, "logistic", 2.0, s), solve_dual(Z @ Z.T, Y, "logistic", 2.0, s)):
        np.testing.assert_allclose(fit.F[:, 0], theirs.decision_function(Z), atol=1e-5)


def test_the_softmax_machine_equals_multinomial_regression():
    _, Z, Y, s = problem("softmax", 3)
    theirs = LogisticRegression(C=2.0, fit_intercept=False, tol=1e-10, max_iter=10_000).fit(
        Z, Y.argmax(axis=1), sample_weight=s
    )
    fit = solve_primal(Z, Y, "softmax", 2.0, s)
    np.testing.assert_allclose(fit.F, theirs.decision_function(Z), atol=1e-5)


def test_the_squared_machine_equals_kernel_ridge():
    K, _, Y, s = problem("squared", 3)
    theirs = KernelRidge(kernel="precomputed", alpha=1 / 2.0).fit(K, Y, sample_weight=s)
    fit = solve_dual(K, Y, "squared", 2.0, s)
    np.testing.assert_allclose(fit.F, theirs.predict(K), atol=1e-9)
    np.testing.assert_allclose(fit.A, theirs.dual_coef_, atol=1e-9)


def test_the_hinge_objective_is_below_svc_plus_its_intercept_term():
    K, _, Y, _ = problem("hinge", 1, n=80)
    theirs = SVC(kernel="precomputed", C=3.0, tol=1e-10).fit(K - 1.0, Y[:, 0])
    A = np.zeros((80, 1))
    A[theirs.support_, 0] = theirs.dual_coef_[0]
    f = (K - 1.0) @ A + theirs.intercept_
    value = 0.5 * (np.vdot(A, (K - 1.0) @ A) + theirs.intercept_[0] ** 2)
    value += 3.0 * np.maximum(0.0, 1.0 - Y * f).sum()
    fit = solve_dual(K, Y, "hinge", 3.0)
    assert objective(K, fit.A, Y, "hinge", 3.0, np.ones(80)) <= value + 1e-9
