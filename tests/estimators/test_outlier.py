"""One class: equal to Schölkopf's machine, with a certificate over several kernels."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.svm import OneClassSVM
from sklearn.utils.estimator_checks import parametrize_with_checks

from manykernels import MKLOutlier, Views, load
from manykernels.kernels import RBF, Laplacian, Linear
from manykernels.losses import OneClass, get_loss
from manykernels.losses.one_class import project_capped
from manykernels.solvers import SILP, Alignment, Greedy, LpNorm, SimpleMKL, Single, Uniform

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
X[:4] *= 5.0
KERNELS = [RBF(1.0), RBF(4.0), Laplacian(3.0)]


@parametrize_with_checks([MKLOutlier([RBF(2.0)])])
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


@pytest.mark.parametrize("nu", [0.02, 0.1, 0.33, 0.8])
def test_one_kernel_is_one_class_svm(nu):
    theirs = OneClassSVM(nu=nu, gamma=0.25, tol=1e-10).fit(X)
    ours = MKLOutlier([RBF(2.0)], nu=nu).fit(X)
    size = nu * len(X)  # their coefficients sum to nu n, ours to 1
    assert ours.dual_coef_.sum() == pytest.approx(1.0) and ours.intercept_ == pytest.approx(0.0, abs=1e-12)
    assert_allclose(size * ours.score_samples(X), theirs.score_samples(X), atol=1e-6)
    assert_allclose(size * ours.decision_function(X), theirs.decision_function(X), atol=1e-6)
    assert size * ours.offset_ == pytest.approx(float(theirs.offset_[0]), abs=1e-6)
    clear = np.abs(theirs.decision_function(X)) > 1e-6
    assert_array_equal(ours.predict(X)[clear], theirs.predict(X)[clear])


@pytest.mark.parametrize("nu", [0.05, 0.2, 0.7, 1.0])
def test_nu_bounds_the_outliers_from_above_and_the_support_vectors_from_below(nu):
    model = MKLOutlier(KERNELS, nu=nu).fit(X)
    assert np.mean(model.predict(X) < 0) <= nu + 1e-12
    assert np.mean(model.dual_coef_ > 1e-12) >= nu - 1e-12


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("solver", [LpNorm(1.5, tol=1e-7), SimpleMKL(tol=1e-7), Uniform()], ids=repr)
def test_the_optimum_is_that_of_a_conic_solver(solver, weighted):
    s = RNG.exponential(size=60) if weighted else np.ones(60)
    s[10] = 1.0 - weighted
    model = MKLOutlier(KERNELS, solver=solver, nu=0.2).fit(X, sample_weight=s)
    grams = [kernel.resolve(3, None)(X) for kernel in KERNELS]
    factors = [np.linalg.cholesky(K + 1e-13 * np.eye(60)) for K in grams]
    W, o = [cp.Variable(60) for _ in grams], cp.Variable()
    F = sum(L @ w for L, w in zip(factors, W, strict=True))
    norms = cp.hstack([cp.norm(w) for w in W])  # these kernels have the scale 1
    penalty = cp.square(cp.pnorm(norms, solver.p)) if solver.p < 2 else cp.sum_squares(norms)
    goal = penalty / 2 - o + s @ cp.pos(o - F) / (0.2 * s.sum())
    best = cp.Problem(cp.Minimize(goal)).solve(solver="CLARABEL")
    assert model.objective_ / s.mean() + 0.5 == pytest.approx(best, abs=2e-6)
    assert model.gap_ <= 1e-6 * abs(model.objective_) and model.converged_


def test_all_solvers_on_lists_have_one_optimum():
    least = {}
    for solver in (SimpleMKL(tol=1e-6), SILP(tol=1e-5), Single()):
        model = MKLOutlier(KERNELS, solver=solver, nu=0.2).fit(X)
        least[type(solver).__name__] = model.objective_
        assert model.gap_ >= -1e-9
    assert least["SILP"] == pytest.approx(least["SimpleMKL"], rel=2e-5)
    assert least["Single"] >= least["SimpleMKL"] - 1e-9


@pytest.mark.parametrize("solver", [Uniform(), LpNorm(), SimpleMKL(), SILP()])
def test_a_gap_is_measured_by_the_size_of_an_objective_below_zero(solver):
    X = np.random.default_rng(0).normal(size=(60, 2))
    model = MKLOutlier([RBF(1.0)], solver=solver, nu=0.2).fit(X)
    alone = MKLOutlier([RBF(1.0)], solver=Single(), nu=0.2).fit(X)
    assert model.objective_ < 0 and model.converged_ and alone.converged_ and alone.stop_reason_ == "gap"


def test_explicit_features_have_the_same_answer_as_their_gram_matrix():
    one = MKLOutlier([Linear(columns=[0, 1]), Linear(columns=[2])], nu=0.3).fit(X)
    other = MKLOutlier([lambda A, B: A[:, :2] @ B[:, :2].T, lambda A, B: A[:, 2:] @ B[:, 2:].T], nu=0.3).fit(
        X
    )
    assert_allclose(one.decision_function(X), other.decision_function(X), atol=1e-8)


def test_it_finds_what_is_unlike_the_rest():
    model = MKLOutlier(nu=0.1).fit(X[4:])
    assert (model.predict([[9.0, 9.0, 9.0], [-8.0, 0.0, 7.0]]) == -1).all()
    assert model.predict(np.zeros((1, 3))) == 1
    assert_allclose(model.decision_function(X), model.score_samples(X) - model.offset_)
    assert_array_equal(MKLOutlier(nu=0.1).fit_predict(X[4:]), model.predict(X[4:]))


def test_views_stacks_clones_and_files(tmp_path):
    model = MKLOutlier(RBF(2.0), nu=0.2).fit(Views({"a": X[:, :2], "b": X[:, 2:]}))
    assert model.predict({"a": X[:, :2], "b": X[:, 2:]}).shape == (60,)
    K = np.stack([kernel.resolve(3, None)(X) for kernel in KERNELS], axis=2)
    stacked, plain = MKLOutlier("precomputed", nu=0.2).fit(K), MKLOutlier(KERNELS, nu=0.2).fit(X)
    assert_allclose(stacked.decision_function(K), plain.decision_function(X), atol=1e-9)
    plain.save(tmp_path / "model.mk")
    again = load(tmp_path / "model.mk")
    assert_array_equal(again.decision_function(X), plain.decision_function(X))
    assert again.nu == 0.2 and clone(plain).get_params()["nu"] == 0.2


@pytest.mark.parametrize(
    "model, words",
    [
        (MKLOutlier(nu=0.0), r"nu of OneClass is 0.0; use a number in \(0, 1\]"),
        (
            MKLOutlier(solver=Alignment()),
            "Alignment does not take the loss 'one_class'.*pass Uniform, Single, LpNorm",
        ),
        (MKLOutlier(solver=Greedy()), "does not take|needs a family"),
        (MKLOutlier(solver=LpNorm("auto")), "nothing tells what to choose without targets; pass a number"),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused(model, words):
    with pytest.raises(ValueError, match=words):
        model.fit(X)


# -- the loss --------------------------------------------------------------------------------------------


def test_the_loss_and_its_conjugate_meet_at_the_response():
    loss, w = OneClass(0.3), RNG.exponential(size=40)
    for _ in range(20):
        F, G = RNG.normal(size=(2, 40, 1))
        A, B = loss.response(F, F, w), loss.nearest(F, RNG.normal(size=(40, 1)), w)
        assert loss.total_conjugate(F, A, w) == 0.0 == loss.total_conjugate(F, B, w)
        assert loss.total(F, F, w) == pytest.approx(-np.vdot(A, F))
        assert loss.total(F, F, w) >= -np.vdot(B, F) - 1e-9  # Fenchel and Young
        middle = loss.total(F, (F + G) / 2, w)
        assert middle <= (loss.total(F, F, w) + loss.total(F, G, w)) / 2 + 1e-9
    assert np.isinf(loss.total_conjugate(F, 2.0 * A, w)) and np.isinf(loss.total_conjugate(F, -A, w))
    assert get_loss(loss) is loss


@pytest.mark.parametrize("share", [0.05, 0.5, 1.0])
def test_the_projection_on_capped_weights_satisfies_its_variational_inequality(share):
    for _ in range(30):
        a, cap = 3 * RNG.normal(size=25), RNG.exponential(size=25)
        total = share * cap.sum()
        x = project_capped(a, cap, total)
        assert x.sum() == pytest.approx(total) and (x >= 0).all() and (x <= cap).all()
        for _ in range(10):
            other = project_capped(5 * RNG.normal(size=25), cap, total)
            assert (a - x) @ (other - x) <= 1e-9
