"""Every machine through the same contract: certificates, weights, extremes, starts."""

import time

import numpy as np
import pytest
from problems import CASES, coefficients, dual_objective, objective, problem, rbf, scores, targets

from manykernels.losses import LOSSES, Cox, get_loss
from manykernels.machines import Fit, IndefiniteKernelError, solve_dual, solve_primal
from manykernels.machines.fit import Task
from manykernels.machines.hinges import max_hinge
from manykernels.machines.interior import interior_rows
from manykernels.machines.smooth import softmax
from manykernels.machines.spaces import (
    FEW_OUTPUTS,
    FeatureSpace,
    GramSpace,
    narrow_root,
    simplex_curvature,
)

LOSS_NAMES = sorted(LOSSES)
both_weights = pytest.mark.parametrize("weighted", [False, True], ids=["unit", "weighted"])
every_case = pytest.mark.parametrize("loss, c", CASES, ids=str)


def outputs(loss):
    return 3


@every_case
@both_weights
@pytest.mark.parametrize("C", [0.1, 10.0])
def test_the_duality_gap_closes(loss, c, weighted, C):
    K, Z, Y, s = problem(loss, c)
    s = s if weighted else np.ones(len(Y))
    dual = solve_dual(K, Y, loss, C, s)
    primal = solve_primal(Z, Y, loss, C, s)
    for fit, gram in ((dual, K), (primal, Z @ Z.T)):
        P = objective(gram, fit.A, Y, loss, C, s)
        D = dual_objective(gram, fit.A, Y, loss, C, s)
        assert P - D <= 1e-9 * P
        assert fit.gap <= 1e-9
        assert np.all(fit.A[s == 0] == 0)
    np.testing.assert_allclose(dual.F, scores(K, dual.A, loss), rtol=1e-12, atol=1e-12)
    assert dual.W is None
    k = Z.shape[1]
    F = Z @ primal.W[:k] + (primal.W[k:, 0] if get_loss(loss).shared else 0.0)
    np.testing.assert_allclose(primal.F, F, rtol=1e-12, atol=1e-12)


@every_case
@both_weights
def test_primal_equals_dual(loss, c, weighted):
    _, Z, Y, s = problem(loss, c)
    s = s if weighted else None
    primal = solve_primal(Z, Y, loss, 3.0, s)
    dual = solve_dual(Z @ Z.T, Y, loss, 3.0, s)
    np.testing.assert_allclose(primal.F, dual.F, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(coefficients(Z, primal.A, loss), primal.W, rtol=1e-7, atol=1e-7)


@every_case
def test_more_columns_than_rows(loss, c):
    _, Z, Y, s = problem(loss, c, n=25, d=40)
    primal = solve_primal(Z, Y, loss, 1.0, s)
    assert primal.gap <= 1e-9
    assert primal.W.shape == ((44, 1) if get_loss(loss).shared else (41, c))
    np.testing.assert_allclose(primal.F, scores(Z @ Z.T, primal.A, loss), atol=1e-9)


@every_case
@pytest.mark.parametrize("method", ["dual", "primal"])
@pytest.mark.parametrize("C", [0.3, 30.0])
def test_weights_equal_repetitions(loss, c, method, C):
    K, Z, Y, _ = problem(loss, c, n=50)
    s = np.random.default_rng(1).integers(0, 4, len(Y)).astype(float)
    rows = np.repeat(np.arange(len(Y)), s.astype(int))
    if method == "dual":
        weighted = solve_dual(K, Y, loss, C, s)
        repeated = solve_dual(K[np.ix_(rows, rows)], Y[rows], loss, C, np.ones(len(rows)))
    else:
        weighted = solve_primal(Z, Y, loss, C, s)
        repeated = solve_primal(Z[rows], Y[rows], loss, C, np.ones(len(rows)))
    np.testing.assert_allclose(weighted.F[rows], repeated.F, rtol=1e-8, atol=1e-8)


@every_case
def test_the_order_of_rows_does_not_matter(loss, c):
    K, _, Y, s = problem(loss, c)
    order = np.random.default_rng(3).permutation(len(Y))
    first = solve_dual(K, Y, loss, 5.0, s)
    second = solve_dual(K[np.ix_(order, order)], Y[order], loss, 5.0, s[order])
    np.testing.assert_allclose(first.F[order], second.F, rtol=1e-8, atol=1e-8)


@every_case
@pytest.mark.parametrize("C, gap", [(1e-6, 1e-9), (1e-3, 1e-9), (1e3, 1e-8), (1e6, 1e-5)])
def test_extreme_C(loss, c, C, gap):
    K, Z, Y, s = problem(loss, c)
    assert solve_dual(K, Y, loss, C, s).gap <= gap
    assert solve_primal(Z, Y, loss, C, s).gap <= gap


@every_case
def test_the_largest_C_ends_and_reports_its_gap(loss, c):
    K, Z, Y, s = problem(loss, c)
    dual = solve_dual(K, Y, loss, 1e10, s)
    primal = solve_primal(Z, Y, loss, 1e10, s)
    for fit in (dual, primal):
        assert np.isfinite(fit.gap)
        assert np.all(np.isfinite(fit.F))
    assert primal.gap <= 1e-5


@every_case
def test_a_zero_kernel_gives_zero_scores_and_a_closed_gap(loss, c):
    _, _, Y, s = problem(loss, c)
    n, shared = len(Y), get_loss(loss).shared
    for C in (1e-6, 1.0, 1e4):
        for fit in (
            solve_dual(np.zeros((n, n)), Y, loss, C, s),
            solve_primal(np.zeros((n, 3)), Y, loss, C, s),
        ):
            assert np.all((fit.F[0] if shared else 0.0) == fit.F)  # thresholds are left, where there are any
            assert fit.gap <= 1e-9


@every_case
@pytest.mark.parametrize("rank", [1, 2])
def test_singular_kernels(loss, c, rank):
    _, Z, Y, s = problem(loss, c)
    Z = Z[:, -rank:]
    assert solve_dual(Z @ Z.T, Y, loss, 2.0, s).gap <= 1e-9
    assert solve_primal(Z, Y, loss, 2.0, s).gap <= 1e-9


@every_case
def test_conflicting_copies_of_a_row(loss, c):
    K, Z, Y, _ = problem(loss, c, n=30)
    rows = np.repeat(np.arange(30), 2)
    Y = Y[rows]
    if loss == "poisson":
        Y[1::2] += 3.0
    else:
        Y[1::2] = np.roll(Y[1::2], 1, axis=1) if get_loss(loss).multiclass else -Y[1::2]
    for C in (0.1, 100.0):
        dual = solve_dual(K[np.ix_(rows, rows)], Y, loss, C)
        primal = solve_primal(Z[rows], Y, loss, C)
        assert dual.gap <= 1e-9 and primal.gap <= 1e-9


@every_case
@pytest.mark.parametrize("method", ["dual", "primal"])
def test_a_warm_start_gives_the_same_answer_in_fewer_iterations(loss, c, method):
    K, Z, Y, s = problem(loss, c, n=120)
    solve, data = (solve_dual, K) if method == "dual" else (solve_primal, Z)
    near = data * 1.01
    start = solve(data, Y, loss, 5.0, s)
    cold = solve(near, Y, loss, 5.0, s)
    warm = solve(near, Y, loss, 5.0, s, start=start)
    np.testing.assert_allclose(warm.F, cold.F, rtol=1e-8, atol=1e-8)
    assert warm.n_iter <= cold.n_iter
    assert solve(data, Y, loss, 5.0, s, start=start).n_iter < max(cold.n_iter, 2) + 1


@every_case
def test_a_bad_start_does_no_harm(loss, c):
    K, Z, Y, s = problem(loss, c)
    start = 1e3 * np.random.default_rng(0).normal(size=Y.shape)
    for solve, data in ((solve_dual, K), (solve_primal, Z)):
        cold, odd = solve(data, Y, loss, 2.0, s), solve(data, Y, loss, 2.0, s, start=start)
        assert odd.gap <= 1e-9
        np.testing.assert_allclose(odd.F, cold.F, rtol=1e-8, atol=1e-8)


def test_a_primal_start_survives_a_change_of_columns():
    _, Z, Y, s = problem("logistic", 1)
    start = solve_primal(Z[:, :3], Y, "logistic", 1.0, s)
    cold, warm = (solve_primal(Z, Y, "logistic", 1.0, s, start=x) for x in (None, start))
    np.testing.assert_allclose(warm.F, cold.F, rtol=1e-9, atol=1e-9)


@every_case
def test_inputs_are_not_modified(loss, c):
    K, Z, Y, s = problem(loss, c)
    arrays = (K, Z, Y, s)
    copies = [array.copy() for array in arrays]
    start = solve_dual(K, Y, loss, 1.0, s)
    before = start.A.copy()
    for array in arrays:
        array.setflags(write=False)
    solve_dual(K, Y, loss, 1.0, s, start=start)
    solve_primal(Z, Y, loss, 1.0, s, start=start)
    for array, copy in zip(arrays, copies, strict=True):
        np.testing.assert_array_equal(array, copy)
    np.testing.assert_array_equal(start.A, before)


@every_case
def test_all_weights_zero(loss, c):
    K, Z, Y, _ = problem(loss, c, n=10)
    for fit in (
        solve_dual(K, Y, loss, 1.0, np.zeros(10)),
        solve_primal(Z, Y, loss, 1.0, np.zeros(10)),
    ):
        assert isinstance(fit, Fit)
        assert not fit.A.any() and not fit.F.any() and fit.gap == 0.0


@every_case
@pytest.mark.parametrize("n", [1, 2])
def test_one_or_two_rows(loss, c, n):
    K, Z, Y, _ = problem(loss, c)
    assert solve_dual(K[:n, :n], Y[:n], loss, 1.0).gap <= 1e-9
    assert solve_primal(Z[:n], Y[:n], loss, 1.0).gap <= 1e-9


@every_case
def test_wildly_different_weights(loss, c):
    K, Z, Y, _ = problem(loss, c)
    s = 10.0 ** np.random.default_rng(0).uniform(-6, 3, len(Y))
    assert solve_dual(K, Y, loss, 1.0, s).gap <= 1e-9
    assert solve_primal(Z, Y, loss, 1.0, s).gap <= 1e-9


@pytest.mark.parametrize("loss, c", [case for case in CASES if case[0] != "ordinal"], ids=str)
def test_the_scale_of_the_kernel_is_the_scale_of_C(loss, c):
    K, _, Y, s = problem(loss, c)
    one = solve_dual(K, Y, loss, 1.0, s)
    for scale in (1e-6, 1e6):
        other = solve_dual(scale * K, Y, loss, 1.0 / scale, s)
        np.testing.assert_allclose(other.F, one.F, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("loss", LOSS_NAMES)
def test_an_indefinite_kernel_is_refused_in_one_sentence(loss):
    K, _, Y, _ = problem(loss, outputs(loss))
    with pytest.raises(IndefiniteKernelError, match="not positive semi-definite"):
        solve_dual(K - 2.0 * np.eye(len(K)), Y, loss, 10.0)
    u = np.random.default_rng(0).normal(size=len(K))
    with pytest.raises(IndefiniteKernelError, match="not positive semi-definite"):
        solve_dual(K - 0.9 * np.outer(u, u) / np.max(u**2), Y, loss, 100.0)


@pytest.mark.parametrize("loss", LOSS_NAMES)
def test_rounding_in_a_semi_definite_kernel_is_no_error(loss):
    _, Z, Y, _ = problem(loss, outputs(loss))
    K = Z @ Z.T
    noise = np.random.default_rng(0).normal(size=K.shape) * 1e-14
    for C in (1.0, 1e4):
        fit = solve_dual(K + noise + noise.T, Y, loss, C)
        assert fit.gap <= 1e-6


def test_a_start_of_another_shape_is_refused():
    K, _, Y, _ = problem("hinge", 1)
    with pytest.raises(ValueError, match="start has dual coefficients of shape"):
        solve_dual(K, Y, "hinge", 1.0, start=np.zeros((3, 1)))


@every_case
def test_a_larger_problem_closes_its_gap(loss, c):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(300, 6))
    S = np.column_stack([X[:, 0] * X[:, 1], X[:, 2], X[:, 3] ** 2 - 1])[:, :c]
    Y = targets(loss, S + 0.3 * rng.normal(size=S.shape))
    for C in (1.0, 100.0):
        fit = solve_dual(rbf(X), Y, loss, C)
        assert fit.gap <= 1e-9


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "max_hinge"])
def test_many_rows_few_columns(loss):
    rng = np.random.default_rng(0)
    n = 20_000
    Z = np.column_stack([rng.normal(size=(n, 8)), np.ones(n)])
    c = 3 if loss == "max_hinge" else 1
    Y = targets(loss, Z @ rng.normal(size=(9, c)) + rng.normal(size=(n, c)))
    fit = solve_primal(Z, Y, loss, 1.0)
    assert fit.gap <= 1e-9


def test_a_nearly_separable_squared_hinge_machine_with_many_columns():
    rng = np.random.default_rng(0)
    Z = np.column_stack([rng.normal(size=(1500, 199)), np.ones(1500)])
    Y = np.sign(Z @ rng.normal(size=(200, 1)) + 2 * rng.normal(size=(1500, 1)))
    for C in (10.0, 1e3):
        assert solve_primal(Z, Y, "squared_hinge", C).gap <= 1e-9


@pytest.mark.parametrize("machine", [max_hinge, softmax])
@pytest.mark.parametrize("space", [GramSpace, FeatureSpace])
def test_conjugate_gradients_replace_large_dense_systems(machine, space):
    name = machine.__name__
    K, Z, Y, s = problem(name, 3)
    rows = s > 0
    inputs = K[np.ix_(rows, rows)] if space is GramSpace else Z[rows]
    start = np.zeros((inputs.shape[1], 3)), np.zeros((len(inputs), 3))
    dense, iterative = (
        machine(Task(here, Y[rows], get_loss(name), s[rows]), *start, 1e-10)
        for here in (space(inputs), space(inputs, max_dense=0))
    )
    assert iterative.gap <= 1e-9
    np.testing.assert_allclose(iterative.F, dense.F, atol=1e-7)


def _many_classes(n=250, c=125, d=4):
    """Rows of few columns without a relation to their classes, each of which there is."""
    rng = np.random.default_rng(11)
    X = np.column_stack([rng.normal(size=(n, d)), np.ones(n)])
    return X, np.eye(c)[rng.permutation(np.concatenate([np.arange(c), rng.integers(c, size=n - c)]))]


@pytest.mark.parametrize("C", [1.0, 100.0])
def test_very_many_classes_on_a_kernel_of_low_rank_take_seconds(C):
    Z, Y = _many_classes()
    K, s = Z @ Z.T, np.ones(len(Z))
    before = time.process_time()
    A = solve_dual(K, Y, "max_hinge", C).A
    assert time.process_time() - before < 20.0
    primal = objective(K, A, Y, "max_hinge", C, s)
    np.testing.assert_allclose(dual_objective(K, A, Y, "max_hinge", C, s), primal, rtol=1e-8)


@pytest.mark.parametrize("n, c, columns", [(200, 40, 4), (150, 50, 1)])
def test_many_classes_on_a_kernel_of_falling_eigenvalues_are_solved(n, c, columns):
    rng = np.random.default_rng(0)
    classes = np.arange(n) % c
    X, Y = rng.normal(size=(n, columns)), np.eye(c)[classes]
    X += 3.0 * rng.normal(size=(c, columns))[classes] if columns > 1 else 0.0
    K, s = rbf(X, 0.5 / columns), np.ones(n)
    before = time.process_time()
    A = solve_dual(K, Y, "max_hinge", 100.0).A
    assert time.process_time() - before < 20.0
    primal = objective(K, A, Y, "max_hinge", 100.0, s)
    np.testing.assert_allclose(dual_objective(K, A, Y, "max_hinge", 100.0, s), primal, rtol=1e-8)


@pytest.mark.parametrize("C", [1e-6, 1.0, 100.0])
@pytest.mark.parametrize("c", [3, 12])
def test_the_interior_point_ends_where_faces_do(c, C):
    K, Z, Y, s = problem("max_hinge", c)
    K, Z, Y, s = K[np.ix_(s > 0, s > 0)], Z[s > 0], Y[s > 0], s[s > 0]
    for gram, space in ((K, GramSpace(K)), (Z @ Z.T, FeatureSpace(Z))):
        A, steps = interior_rows(Task(space, Y, get_loss("max_hinge"), C * s))
        assert steps < 40
        primal = objective(gram, A, Y, "max_hinge", C, s)
        exact = solve_dual(gram, Y, "max_hinge", C, s).A
        assert primal <= objective(gram, exact, Y, "max_hinge", C, s) * (1 + 1e-5)
        np.testing.assert_allclose(dual_objective(gram, A, Y, "max_hinge", C, s), primal, rtol=1e-5)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_a_gram_matrix_of_few_features_is_known_by_them(scale):
    Z, _ = _many_classes()
    root = narrow_root(scale * Z @ Z.T, 8)
    assert root.shape == (250, 5)
    np.testing.assert_allclose(root @ root.T, scale * Z @ Z.T, atol=1e-13 * scale * np.square(Z).sum(1).max())
    assert narrow_root(scale * Z @ Z.T, 4) is None
    assert narrow_root(rbf(Z), 8) is None
    assert narrow_root(np.zeros((3, 3)), 2).shape == (3, 0)


@pytest.mark.parametrize("c", [FEW_OUTPUTS, FEW_OUTPUTS + 1])
def test_the_system_of_many_outputs_is_that_of_few(c):
    """(I + Z' H Z) D = R, with the curvature H applied row by row."""
    rng = np.random.default_rng(1)
    Z, D = rng.normal(size=(40, 3)), rng.exponential(size=(40, c)) * (rng.random((40, c)) < 0.3)
    R = rng.normal(size=(3, c))
    X = FeatureSpace(Z).coupled(D)(R)
    np.testing.assert_allclose(X + Z.T @ simplex_curvature(D, Z @ X), R, atol=1e-10)


@pytest.mark.parametrize("size", [1.0, 1e9])
def test_a_system_of_the_rows_is_that_of_all_outputs(size):
    """Where it has fewer digits, as at very large curvatures, the system of all outputs is solved."""
    rng = np.random.default_rng(1)
    Z, D = rng.normal(size=(20, 8)), size * rng.exponential(size=(20, 40))
    R = rng.normal(size=(8, 40))
    space = FeatureSpace(Z)
    X, work = space.coupled(D)(R), space.spent.pop()
    np.testing.assert_allclose(X, space.coupled(D, smooth=False)(R), rtol=1e-9, atol=1e-12)
    assert (work < 0.1 * space.spent.pop()) == (size == 1.0)


def test_the_last_steps_of_a_smooth_machine_take_the_factors_of_those_before():
    Z, Y = _many_classes()
    fit = solve_primal(Z, Y, "softmax", 1.0)
    again = solve_primal(Z, Y, "softmax", 1.0, start=fit)
    assert fit.gap < 1e-13 and again.n_iter == 1
    np.testing.assert_allclose(again.F, fit.F, atol=1e-12 * np.abs(fit.F).max())


@pytest.mark.parametrize("ties", ["breslow", "efron"])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_rounding_alone_keeps_no_machine_at_work(scale, ties):
    """Where f = 0 is best, slopes cancel but for rounding, and there is no size that steps could be measured by."""
    K = scale * rbf(np.random.default_rng(0).normal(size=(90, 2)) * 1e3)
    fit = solve_dual(K, np.ones((90, 1)), Cox(ties), 7.3, np.full(90, 0.7))
    assert fit.n_iter <= 20 and np.abs(fit.F).max() <= 1e-9 * max(1.0, scale)
