"""Norms, bounds and the gap."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tests.contracts.cases import BATCH_KERNELS, rows, targets

from manykernels import MKLClassifier, MKLRegressor
from manykernels.certificates import (
    Certificate,
    certificate,
    certify,
    conjugate_exponent,
    mean_conjugate,
    mean_loss,
    norm,
    penalties,
)
from manykernels.families import Gaussians, Products
from manykernels.losses import LOSSES, get_loss
from manykernels.problem import nu_of
from manykernels.solvers import Greedy, LeaveOneOut, LpNorm

vectors = arrays(float, st.integers(1, 6), elements=st.floats(0, 1e3))
norms = st.floats(1.0, 2.0)


def test_gap_is_primal_less_dual():
    assert Certificate(3.0, 1.0).gap == 2.0


# -- norms ---------------------------------------------------------------------------------------------


@given(v=vectors, q=st.floats(1.0, 20.0))
def test_norm_is_numpys(v, q):
    assert norm(v, q) == pytest.approx(np.linalg.norm(v, q), rel=1e-9, abs=1e-12)


def test_norm_survives_exponents_that_overflow():
    # ‖v‖_q lies between its largest entry and m^(1/q) times that.
    for v in ([1e200, 1e199], [1e-200, 1e-201], [3.0, 2.9999]):
        assert norm(np.array(v), 10001.0) == pytest.approx(v[0], rel=1e-3)
    assert norm(np.array([1e200, 1e200]), np.inf) == 1e200


def test_norm_of_nothing_is_zero():
    assert norm(np.zeros(3), 1.5) == 0.0 and norm(np.array([]), 1.5) == 0.0


@pytest.mark.parametrize("p, nu, conjugate", [(1, 1, np.inf), (4 / 3, 2, 2), (2, np.inf, 1), (1.5, 3, 1.5)])
def test_norms_of_weights_belong_to_norms_of_kernels(p, nu, conjugate):
    assert nu_of(p) == pytest.approx(nu)
    assert conjugate_exponent(nu_of(p)) == pytest.approx(conjugate)


@given(p=norms, v=vectors, w=vectors)
def test_hoelder_holds_between_the_two_norms(p, v, w):
    m = min(len(v), len(w))
    nu = nu_of(p)
    bound = norm(v[:m], nu) * norm(w[:m], conjugate_exponent(nu))
    assert v[:m] @ w[:m] <= bound * (1 + 1e-9) + 1e-12


@given(p=st.floats(1.01, 2.0), u=arrays(float, 5, elements=st.floats(0.01, 10)))
def test_the_penalty_is_the_best_weighting_of_the_norms(p, u):
    # ‖u‖_p² = min Σ u_i²/θ_i over ‖θ‖_ν ≤ 1, at θ_i ∝ u_i^(2-p).
    theta = u ** (2 - p)
    theta /= norm(theta, nu_of(p))
    best = penalties(u, u, p)[0]
    assert np.sum(u**2 / theta) == pytest.approx(best, rel=1e-9)
    other = theta * np.linspace(0.5, 1.5, 5)
    other /= norm(other, nu_of(p))
    assert np.sum(u**2 / other) >= best * (1 - 1e-9)


# -- sums over rows ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LOSSES)
def test_rows_without_weight_do_not_count(name):
    rng = np.random.default_rng(0)
    loss, X = get_loss(name), rows(10)
    Y = targets(name, 3, X)
    F, s = rng.normal(size=(10, 3)), rng.exponential(size=10)
    s[::3] = 0.0
    kept = s > 0
    A = -(2.0 * s)[:, None] * loss.feasible(Y, rng.normal(size=(10, 3)))
    assert mean_loss(loss, Y, F, s) == pytest.approx(mean_loss(loss, Y[kept], F[kept], s[kept]) * kept.mean())
    assert mean_conjugate(loss, Y, A, 2.0, s) == pytest.approx(
        mean_conjugate(loss, Y[kept], A[kept], 2.0, s[kept]) * kept.mean()
    )


def test_a_dual_coefficient_on_a_row_without_weight_is_infeasible():
    loss, Y, A = get_loss("squared"), np.ones((2, 1)), np.ones((2, 1))
    assert mean_conjugate(loss, Y, A, 1.0, np.array([1.0, 0.0])) == np.inf


def test_an_infeasible_dual_point_gives_no_bound():
    loss, Y = get_loss("hinge"), np.array([[1.0], [-1.0]])
    c = certificate(
        loss, Y, np.zeros((2, 1)), np.array([[-1.0], [0.0]]), 1.0, np.ones(2),
        penalty=0.0, dual_penalty=0.0, intercept=np.zeros(1),
    )  # fmt: skip
    assert c.dual == -np.inf and c.gap == np.inf


def test_both_bounds_by_hand():
    # One row, y = 2, κ = 1, C = 1: f = w + b, minimise ½(2 - f)² + ½(w² + b²); w = b = 2/3, A = 2/3.
    A = np.array([[2 / 3]])
    c = certificate(
        get_loss("squared"), np.array([[2.0]]), np.array([[4 / 3]]), A, 1.0, np.ones(1),
        penalty=4 / 9, dual_penalty=4 / 9, intercept=np.array([2 / 3]),
    )  # fmt: skip
    assert c.primal == pytest.approx(2 / 3) and c.dual == pytest.approx(2 / 3)


# -- certify -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["uniform", "single", "lp_norm", "simple_mkl", "silp"])
@pytest.mark.parametrize("kernels", [list(BATCH_KERNELS), Products(degree=2)], ids=["list", "products"])
def test_certify_needs_nothing_from_the_solver(solver, kernels):
    X = rows()
    y = X[:, 0] * X[:, 1] + 3.0
    model = MKLRegressor(kernels, solver=solver, C=1.0).fit(X, y)
    objective, gap = model.objective_, model.gap_
    model.objective_ = model.gap_ = model.trace_ = None
    c = certify(model, X, y)
    assert c.primal == pytest.approx(objective, rel=1e-8)
    assert c.gap == pytest.approx(gap, abs=1e-8 * objective)


def test_certify_takes_sample_and_class_weights():
    X = rows()
    y, s = (X[:, 0] > 0.2).astype(int), np.random.default_rng(0).exponential(size=40)
    model = MKLClassifier(class_weight="balanced", kernels="gaussian", C=1.0).fit(X, y, sample_weight=s)
    assert certify(model, X, y, s).primal == pytest.approx(model.objective_, rel=1e-8)
    assert certify(model, X, y).primal != pytest.approx(model.objective_, rel=1e-3)


def test_certify_needs_a_list_unless_the_kernel_is_fixed():
    X = rows()
    y = X[:, 0] * X[:, 1]
    fixed = MKLRegressor(Gaussians(), C=1.0).fit(X, y)
    assert certify(fixed, X, y).primal == pytest.approx(fixed.objective_, rel=1e-8)
    searched = MKLRegressor(Gaussians(), solver=Greedy(max_kernels=1), C=1.0).fit(X, y)
    with pytest.raises(ValueError, match="a continuum, which cannot be listed"):
        certify(searched, X, y)


def test_certify_finds_out_a_model_of_other_targets():
    X = rows()
    y = X[:, 0] * X[:, 1]
    model = MKLRegressor(list(BATCH_KERNELS), C=1.0).fit(X, y)
    assert certify(model, X, X[:, 2]).gap > 100 * model.gap_


def test_certify_without_dual_coefficients_says_so():
    X = rows()
    model = MKLRegressor(list(BATCH_KERNELS), C=1.0).fit(X, X[:, 0])
    model.dual_coef_ = None
    with pytest.raises(ValueError, match="model has no dual_coef_"):
        certify(model, X, X[:, 0])


@pytest.mark.parametrize(
    "solver, loss", [(LpNorm(), "squared"), (LpNorm(), "huber"), (LeaveOneOut(random_state=0), "squared")]
)
@pytest.mark.parametrize("C", [2.0, "auto"])
def test_the_certificate_of_weights_per_target_is_the_sum_over_targets(solver, loss, C):
    X = rows()
    Y = np.column_stack([X[:, 0] * X[:, 1], np.sin(3 * X[:, 2]), 5.0 + X[:, 0]])
    kernels = list(BATCH_KERNELS)
    model = MKLRegressor(kernels, solver=solver, loss=loss, weights="per_target", C=C).fit(X, Y)
    found = certify(model, X, Y)
    assert model.weights_.ndim == 2 and found.primal == pytest.approx(model.objective_, rel=1e-8)
    assert found.gap == pytest.approx(model.gap_, abs=1e-8 * model.objective_)
    assert certify(model, X, Y[:, [1, 0, 2]]).primal != pytest.approx(model.objective_, rel=1e-3)


@pytest.mark.parametrize("mean", [0.0, 1e9])
def test_rounding_is_told_of_one_target_among_others(mean):
    X = rows()
    Y = np.column_stack([X[:, 0], mean + X[:, 1] * X[:, 2]])
    model = MKLRegressor(list(BATCH_KERNELS), solver=LpNorm(), weights="per_target", C=1.0)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model.fit(X, Y)
    assert any("the mean of y is 1e+09" in str(w.message) for w in said) == (mean > 0)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("solver", [LpNorm(), LpNorm(p=2.0)], ids=str)
def test_the_certificate_of_a_balanced_kernel_is_that_of_its_machine(solver):
    rng = np.random.default_rng(0)
    A = rng.normal(size=(80, 2))
    views = {k: A + 0.1 * rng.normal(size=A.shape) for k in ("a", "b", "c")}
    views["a"][:30] = views["b"][20:60] = np.nan
    y = A[:, 0] + A[:, 1]
    model = MKLRegressor(solver=solver, C=10.0).fit(views, y)
    assert model.combination_.family.balance is not None, "nothing was balanced; take other views"
    found = certify(model, views, y)
    assert found.primal == pytest.approx(model.objective_, rel=1e-8)
    assert found.gap == pytest.approx(model.gap_, abs=1e-8 * model.objective_)
