"""Alignment: non-negative least squares on centred inner products, against a QP solver."""

import tracemalloc

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import nnls

from manykernels import MKLClassifier, MKLRegressor
from manykernels.families import Finite, Gaussians, Precomputed, Products
from manykernels.kernels import RBF, Constant, Laplacian, Linear, Polynomial
from manykernels.losses import get_loss
from manykernels.problem import Problem, Scale
from manykernels.solvers import Alignment, GreedyAlignment
from manykernels.solvers.centring import Centring, centred_products, least_squares

KERNELS = [RBF(0.7), RBF(2.0), RBF(6.0), Linear(), Laplacian(1.0), Polynomial(2)]


def data(n=60, seed=0, c=1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    Y = np.column_stack([X[:, j] + X[:, j + 1] ** 2 for j in range(c)]) + 0.3 * rng.normal(size=(n, c))
    return X, Y


def problem(X, Y, family, s=None, how="trace", loss="squared"):
    s = np.ones(len(Y)) if s is None else s
    family = family.resolve(X.shape[-1] if X.ndim == 3 else X.shape[1])
    return Problem(X, Y, family, Scale.fit(family, X, how, s), get_loss(loss), 1.0, s)


def centred(K, s):
    """K on repeated rows would be centred like this, weighted."""
    C = np.eye(len(s)) - np.outer(np.ones(len(s)), s / s.sum())
    return np.sqrt(s)[:, None] * (C @ K @ C.T) * np.sqrt(s)


def alignment(K, Y, s=None):
    s = np.ones(len(Y)) if s is None else s
    A, B = centred(K, s), centred(Y @ Y.T, s)
    return np.vdot(A, B) / (np.linalg.norm(A) * np.linalg.norm(B))


def best_by_qp(pb):
    """Problem (2.11): maximise bᵀθ subject to θᵀMθ <= 1, θ >= 0, by an interior point method."""
    members, s = pb.family.members(), pb.sample_weight
    grams = [centred(pb.family.gram(pb.X, pb.X, [z], np.ones(1)), s).ravel() for z in members]
    norms = [np.linalg.norm(k) for k in grams]
    Z = np.stack([k / r if r > 1e-9 else 0 * k for k, r in zip(grams, norms, strict=True)], axis=1)
    target = centred(pb.Y @ pb.Y.T, s).ravel()
    target = target / np.linalg.norm(target)
    R = np.linalg.qr(np.column_stack([Z, target]), mode="r")
    theta = cp.Variable(len(members), nonneg=True)
    task = cp.Problem(cp.Minimize(cp.sum_squares(R[:, :-1] @ theta - R[:, -1])))
    task.solve(solver=cp.CLARABEL)
    fitted = Z @ theta.value
    return fitted @ target / np.linalg.norm(fitted)


# -- the optimum ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("c", [1, 3])
@pytest.mark.parametrize("seed", range(3))
def test_it_reaches_the_optimum_of_a_qp_solver(seed, c, weights):
    X, Y = data(seed=seed, c=c)
    s = np.random.default_rng(seed).exponential(size=60) if weights else np.ones(60)
    pb = problem(X, Y, Finite(list(KERNELS)), s)
    combination = Alignment().learn(pb)
    assert (combination.weights >= 0).all()
    reached = alignment(combination.gram(X), Y, s)
    assert reached == pytest.approx(best_by_qp(pb), rel=1e-7)


@pytest.mark.parametrize(
    "kernels",
    [
        [RBF(1.0)] * 4,
        [Linear(), Linear(columns=[0, 1]), Linear(columns=[2, 3])],  # the first is the sum of the others
        [RBF(1.0), Constant(2.0), Linear()],  # a constant is centred to nothing
        [RBF(1.0 + 1e-9 * i) for i in range(20)],
        [Polynomial(2), Linear(), *[Linear(columns=[i]) for i in range(4)], RBF(3.0), RBF(3.0)],
    ],
    ids=["copies", "a sum", "a constant", "nearly copies", "mixed"],
)
def test_singular_inner_products_are_handled(kernels):
    X, Y = data()
    pb = problem(X, Y, Finite(kernels))
    combination = Alignment().learn(pb)
    assert (combination.weights >= 0).all() and np.isfinite(combination.weights).all()
    assert alignment(combination.gram(X), Y) == pytest.approx(best_by_qp(pb), rel=1e-7)


def test_monomials_and_products_are_aligned_too():
    X, Y = data()
    for family in (Products(degree=2), Products(degree=2, base=[RBF(1.0), Linear()])):
        pb = problem(X, Y, family)
        assert alignment(Alignment().learn(pb).gram(X), Y) == pytest.approx(best_by_qp(pb), rel=1e-7)


def test_ready_made_matrices_give_the_same_weights():
    X, Y = data()
    stack = np.stack([k.resolve(4, None)(X) for k in KERNELS], axis=2)
    rows, matrices = (
        Alignment().learn(pb)
        for pb in (problem(X, Y, Finite(list(KERNELS))), problem(stack, Y, Precomputed()))
    )
    assert_allclose(matrices.weights, rows.weights, rtol=1e-6, atol=1e-12)


def products_of(X, Y, kernels, **options):
    """Return the centred inner products of some kernels."""
    centring = Centring(np.ones(len(X)))
    family = Finite(kernels).resolve(X.shape[1])
    return centred_products(family.bank(X, family.members()), centring, centring.targets(Y), **options)


def test_a_norm_beyond_floats_is_told_with_any_numpy():
    with np.errstate(over="ignore"), pytest.raises(FloatingPointError, match="overflow"):
        Centring(np.ones(3)).matrix(1e200 * np.eye(3))


@pytest.mark.parametrize("diagonal_only", [True, False])
def test_tiles_change_nothing(diagonal_only):
    X, Y = data(150)
    whole, tiled = (
        products_of(X, Y, list(KERNELS), diagonal_only=diagonal_only, stack_bytes=bytes_)
        for bytes_ in (2**30, 8 * 6 * 150 * 4)
    )
    assert_allclose(tiled[0], whole[0], rtol=1e-10)
    assert_allclose(tiled[1], whole[1], rtol=1e-10, atol=1e-10 * np.abs(whole[1]).max())


def test_memory_holds_no_stack_of_matrices():
    n, kernels = 1200, [RBF(s) for s in np.geomspace(0.1, 10, 50)]  # too many values for the bank to keep
    X, Y = data(n)
    tracemalloc.start()
    products_of(X, Y, kernels, stack_bytes=2**20)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 15 * 8 * n**2  # the stack would be 50


def test_a_weight_equals_a_repetition():
    X, Y = data()
    s = np.random.default_rng(1).integers(0, 4, 60)
    repeated = problem(np.repeat(X, s, axis=0), np.repeat(Y, s, axis=0), Finite(list(KERNELS)))
    weighted = problem(X, Y, Finite(list(KERNELS)), s.astype(float))
    for solver in (Alignment(), Alignment(independent=True)):
        assert_allclose(solver.learn(weighted).weights, solver.learn(repeated).weights, rtol=1e-6, atol=1e-10)


@pytest.mark.parametrize("how", [None, "trace"])
def test_the_rows_have_unit_variance_in_the_learned_kernel(how):
    X, Y = data()
    s = np.random.default_rng(0).integers(0, 3, 60).astype(float)
    for solver in (Alignment(), Alignment(independent=True), GreedyAlignment()):
        combination = solver.learn(problem(X, 1e6 * Y, Finite(list(KERNELS)), s, how=how))
        K = combination.gram(X, X)
        w = s / s.sum()
        assert w @ np.diag(K) - w @ K @ w == pytest.approx(1.0)


def test_a_kernel_that_hardly_varies_is_not_blown_up():
    X, Y = data()
    combination = Alignment().learn(problem(X, Y, Finite([RBF(1e5)])))
    assert combination.weights[0] == pytest.approx(1e6)  # 1/LEAST_VARIANCE


def test_independent_weights_are_the_kernels_own_alignments():
    X, Y = data()
    pb = problem(X, Y, Finite([*KERNELS, Constant()]))
    combination = Alignment(independent=True).learn(pb)
    theta = combination.weights * combination.rho**2
    own = [alignment(k.resolve(4, None)(X), Y) for k in KERNELS]
    assert_allclose(theta[:-1] / theta[:-1].sum(), own / np.sum(own), rtol=1e-8)
    assert theta[-1] == 0


def without_own_pairs(K, s):
    """The kernel on repeated rows less its mean diagonal there, centred: rows in full, no weights."""
    s = s.astype(int)
    K = np.repeat(np.repeat(K, s, axis=0), s, axis=1)
    return centred(K - np.mean(np.diag(K)) * np.eye(len(K)), np.ones(len(K)))


@pytest.mark.parametrize("weights", [False, True])
def test_without_own_pairs_it_reaches_the_optimum_on_kernels_less_their_diagonals(weights):
    X, Y = data(50)
    s = np.random.default_rng(0).integers(0, 4, 50).astype(float) if weights else np.ones(50)
    kernels = [*(RBF(v) for v in (0.3, 1.0, 3.0, 10.0)), Linear(), Polynomial(2)]
    pb = problem(X, Y, Finite(kernels), s)
    grams = [pb.family.gram(X, X, [z], np.ones(1)) for z in pb.family.members()]
    Z = np.stack([without_own_pairs(K, s).ravel() for K in grams], axis=1)
    Yr = np.repeat(Y, s.astype(int), axis=0)
    target = centred(Yr @ Yr.T, np.ones(len(Yr))).ravel()
    best, _ = nnls(Z, target)
    found = Alignment(own_pairs=False).learn(pb)
    assert np.count_nonzero(best) > 1
    # Both are exact methods; the directions agree to rounding, amplified by the condition of Z.
    assert_allclose(found.weights / found.weights.sum(), best / best.sum(), atol=1e-7)
    alone = Alignment(independent=True, own_pairs=False).learn(pb)
    own = target @ Z / np.linalg.norm(Z, axis=0)
    theta = np.maximum(own, 0) / pb.scale.rho_sq(pb.family.members(), 1.0)
    assert_allclose(alone.weights / alone.weights.sum(), theta / theta.sum(), atol=1e-10)


def test_without_own_pairs_a_kernel_next_to_the_identity_has_no_weight():
    for seed in range(0, 40, 4):
        n = 40 + 3 * seed
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n, 3))
        y = X[:, :1] + 0.3 * rng.normal(size=(n, 1))
        for independent in (False, True):
            pb = problem(X, y, Finite([RBF(1e-3), RBF(1.0), RBF(3.0)]))
            weights = Alignment(independent, own_pairs=False).learn(pb).weights
            assert weights[0] == 0 and weights.any()


def test_without_own_pairs_noise_still_gets_a_kernel():
    for seed in range(5):
        rng = np.random.default_rng(seed)
        pb = problem(
            rng.normal(size=(30, 8)), rng.normal(size=(30, 1)), Finite([RBF(0.5), RBF(2.0), RBF(8.0)])
        )
        assert Alignment(own_pairs=False).learn(pb).weights.max() > 0


def test_it_beats_equal_weights_and_single_kernels():
    X, Y = data()
    pb = problem(X, Y, Finite(list(KERNELS)))
    reached = alignment(Alignment().learn(pb).gram(X), Y)
    singles = [alignment(k.resolve(4, None)(X), Y) for k in KERNELS]
    assert reached >= max(singles) - 1e-12


def test_far_from_the_origin_nothing_drowns():
    X, Y = data()
    near, far = (
        Alignment().learn(problem(Z, Y, Finite([RBF(1.0), RBF(50.0), RBF(500.0)]))).weights
        for Z in (X, X + 1e4)
    )
    assert_allclose(far, near, rtol=1e-3, atol=1e-6)


# -- in the estimators ---------------------------------------------------------------------------------


def test_two_encodings_of_the_classes_give_one_kernel():
    X, Y = data()
    y = np.digitize(Y[:, 0], [0.5, 1.5])
    first, second = (
        MKLClassifier(list(KERNELS), solver="alignment", loss=loss, C=1.0).fit(X, y).weights_
        for loss in ("squared_hinge", "softmax")  # -1/+1 and one-hot
    )
    assert_allclose(first, second, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("independent", [False, True])
def test_it_is_a_two_stage_solver_in_the_estimators(independent):
    X, Y = data()
    model = MKLRegressor(list(KERNELS), solver=Alignment(independent=independent), C=10.0).fit(X, Y[:, 0])
    assert model.converged_ and model.gap_kind_ == "exact" and model.score(X, Y[:, 0]) > 0.8


# -- bad input -----------------------------------------------------------------------------------------


def test_constant_targets_cannot_be_aligned_with_but_are_predicted():
    X, Y = data()
    with pytest.raises(ValueError, match="y is constant, so that no kernel can be aligned with it"):
        Alignment().learn(problem(X, np.full_like(Y, 0.1), Finite(list(KERNELS))))
    with pytest.warns(UserWarning, match="y is constant.*The predictions will be constant"):
        model = MKLRegressor(solver="alignment", kernels="gaussian", C=1.0).fit(X, np.full(60, 0.1))
    assert_allclose(model.predict(X + 1), 0.1)


def test_constant_rows_cannot_be_aligned_but_give_a_model():
    X, y = np.ones((20, 2)), np.arange(20.0)
    with pytest.raises(ValueError, match="every kernel is constant on the training rows"):
        Alignment().learn(problem(X, y[:, None], Finite([RBF(1.0), RBF(3.0)])))
    with pytest.warns(UserWarning, match="every kernel is constant"):
        model = MKLRegressor([RBF(1.0), RBF(3.0)], solver="alignment", C=1.0).fit(X, y)
    assert_allclose(model.predict(X), 9.5)


def test_a_continuum_is_refused():
    X, Y = data()
    with pytest.raises(
        ValueError, match="Alignment needs a family whose kernels can be listed, and Gaussians"
    ):
        MKLRegressor(Gaussians(), solver=Alignment(), C=1.0).fit(X, Y[:, 0])


def test_more_kernels_than_pairs_can_be_held_are_refused():
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="inner products of all pairs of kernels, and there are 22,099"):
        MKLRegressor(Products(degree=3), solver=Alignment(), C=1.0).fit(
            rng.normal(size=(20, 49)), rng.normal(size=20)
        )


def test_a_wrong_parameter_is_refused():
    with pytest.raises(ValueError, match="independent of Alignment is 'yes'"):
        Alignment(independent="yes").check_params()
    with pytest.raises(ValueError, match="own_pairs of Alignment is 1; use True or False"):
        Alignment(own_pairs=1).check_params()


def test_factors_by_cholesky_are_least_squares_as_those_by_eigenvectors_are():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(40, 15))  # of rank 15
    M, b = Z @ Z.T, Z @ rng.normal(size=15)
    for many in (10, 100):  # Cholesky's method, eigenvectors
        factor, target = least_squares(M, b, many)
        assert factor.shape[0] == 15
        np.testing.assert_allclose(factor.T @ factor, M, atol=1e-10)
        np.testing.assert_allclose(factor.T @ target, b, atol=1e-10)
