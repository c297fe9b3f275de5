"""The estimators as scikit-learn's users meet them."""

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, make_regression
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import check_estimator

from manykernels import MKLClassifier, MKLRegressor
from manykernels.families import Finite, Precomputed, Products
from manykernels.kernels import RBF, Dirichlet, Laplacian, Linear, Polynomial
from manykernels.solvers import SILP, Blockwise, Greedy, LpNorm, SimpleMKL, Single, TriplyStochastic, Uniform


@pytest.fixture(scope="module")
def binary():
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X)[:150], np.array(["benign", "malignant"])[y[:150]]


@pytest.fixture(scope="module")
def three():
    X, y = load_iris(return_X_y=True)
    rows = np.random.default_rng(0).permutation(150)[:90]
    return X[rows], y[rows]


@pytest.fixture(scope="module")
def regression():
    X, y = load_diabetes(return_X_y=True)
    return StandardScaler().fit_transform(X)[:120], y[:120]


@pytest.mark.parametrize(
    "estimator",
    [
        MKLClassifier(kernels="gaussian", C=1.0),
        MKLRegressor(kernels="gaussian", C=1.0),
        *(
            pytest.param(cls([RBF(1.0), RBF(3.0)], solver=solver), marks=pytest.mark.slow)
            for cls in (MKLClassifier, MKLRegressor)
            for solver in (LpNorm(), Uniform())
        ),
    ],
    ids=str,
)
def test_scikit_learn_finds_nothing_to_object_to(estimator):
    # check_array_api_input skips itself unless SCIPY_ARRAY_API is set in the environment.
    results = check_estimator(estimator, on_skip=None, on_fail=None)
    failed = [(r["check_name"], r["exception"]) for r in results if r["status"] not in ("passed", "skipped")]
    assert not failed
    assert {r["check_name"] for r in results if r["status"] == "skipped"} <= {"check_array_api_input"}


def unlike_repetitions(reason):
    """Return scikit-learn's two checks that a weight is a repetition, with the reason why they fail."""
    return {f"check_sample_weight_equivalence_on_{kind}_data": reason for kind in ("dense", "sparse")}


STREAMED = unlike_repetitions("a weight is a repetition only without random steps")
PREPARED = unlike_repetitions("which rows judge bandwidths and C is drawn at random, by the rows' numbers")
FEW = unlike_repetitions("few rows have few features, and repetitions count as rows")
SINGLE = {"check_methods_subset_invariance": "features are in single precision, whose last digit may differ"}


@pytest.mark.parametrize(
    "model, expected",
    [
        (MKLClassifier([RBF(1.0)], solver=TriplyStochastic(random_state=0), C=1.0), STREAMED | SINGLE),
        pytest.param(
            MKLRegressor([RBF(1.0), RBF(3.0)], solver=TriplyStochastic(random_state=0), C=1.0),
            STREAMED | SINGLE,
            marks=pytest.mark.slow,
        ),
        *(
            pytest.param(
                cls(kernels, solver=Blockwise(random_state=0)),
                expected,
                marks=[pytest.mark.slow, pytest.mark.timeout(600)],
            )
            for cls in (MKLClassifier, MKLRegressor)
            for kernels, expected in (
                ("laplacian", PREPARED),
                ("gaussian", PREPARED | SINGLE),
                ([RBF(3.0)], FEW | SINGLE),
            )
        ),
    ],
    ids=str,
)
def test_scikit_learn_objects_to_random_features_for_known_reasons_only(model, expected):
    results = check_estimator(model, on_skip=None, on_fail=None, expected_failed_checks=expected)
    assert not [(r["check_name"], r["exception"]) for r in results if r["status"] == "failed"]


# -- one kernel: the same machine as scikit-learn's ----------------------------------------------------


def test_one_kernel_regression_is_kernel_ridge_on_the_kernel_plus_one(regression):
    X, y = regression
    C, sigma = 3.0, 4.0
    ours = MKLRegressor([RBF(sigma)], C=C, normalize=None).fit(X, y)
    K = RBF(sigma)(X) + 1
    peer = KernelRidge(alpha=1 / C, kernel="precomputed").fit(K, y - y.mean())
    np.testing.assert_allclose(ours.predict(X), peer.predict(K) + y.mean(), rtol=1e-8)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_one_linear_kernel_is_linear_svc(binary, loss):
    X, y = binary
    ours = MKLClassifier([Linear()], loss=loss, C=0.5, normalize=None).fit(X, y)
    # LIBLINEAR stops on its own tolerance: 1e-5 in the scores is what it reaches at 1e-10.
    peer = LinearSVC(loss=loss, C=0.5, dual=True, tol=1e-10, max_iter=10**6).fit(X, y)
    np.testing.assert_allclose(ours.decision_function(X), peer.decision_function(X), atol=1e-5)


def test_one_linear_kernel_is_logistic_regression(binary):
    X, y = binary
    ours = MKLClassifier([Linear()], loss="logistic", C=0.5, normalize=None).fit(X, y)
    peer = LogisticRegression(solver="liblinear", C=0.5, tol=1e-12, max_iter=10**4).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), peer.predict_proba(X), atol=1e-5)


def test_gram_path_with_one_rbf_agrees_with_its_own_stationarity(binary):
    X, y = binary
    m = MKLClassifier([RBF(5.0)], loss="logistic", C=2.0, normalize=None).fit(X, y)
    sign = np.where(y == m.classes_[1], 1.0, -1.0)
    f = m.decision_function(X)
    # A = -C l'(f), the condition every solver relies on.
    np.testing.assert_allclose(m.dual_coef_[:, 0], 2.0 * sign / (1 + np.exp(sign * f)), atol=1e-8)


# -- inputs --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "labels",
    [["a", "b", "c"], [-1, 7, 3], [0.5, 1.5, 2.5], np.array(["x", "y", "z"], dtype=object)],
)
def test_any_labels_come_back(three, labels):
    X, y = three
    names = np.asarray(labels)[y]
    if names.dtype.kind == "f":
        with pytest.raises(ValueError, match="continuous"):
            MKLClassifier(kernels="gaussian", C=1.0).fit(X, names)
        return
    m = MKLClassifier(kernels="gaussian", C=1.0).fit(X, names)
    assert set(m.predict(X)) <= set(names)
    assert m.score(X, names) > 0.9


def test_boolean_labels_come_back(binary):
    X, y = binary
    m = MKLClassifier(kernels="gaussian", C=1.0).fit(X, y == "benign")
    assert m.predict(X).dtype == bool


def test_data_frames_with_named_columns(three):
    X, y = three
    frame = pd.DataFrame(X, columns=["sl", "sw", "pl", "pw"])
    kernels = {"sepal": RBF(1.0, columns=["sl", "sw"]), "petal": Linear(columns=["pl", "pw"])}
    m = MKLClassifier(kernels, C=1.0).fit(frame, y)
    assert list(m.feature_names_in_) == ["sl", "sw", "pl", "pw"]
    plain = MKLClassifier([RBF(1.0, columns=[0, 1]), Linear(columns=slice(2, 4))], C=1.0).fit(X, y)
    np.testing.assert_array_equal(m.decision_function(frame), plain.decision_function(X))
    record = next(r for r in m.combination_.records() if r["kernel"] == "petal")
    assert record["columns"] == ["pl", "pw"]


@pytest.mark.parametrize(
    "kernels",
    [[RBF(3.0), Linear()], [Laplacian(9.0)], [Polynomial(2, gamma=0.1)], ["cosine"], "gaussian"],
    ids=str,
)
def test_sparse_rows_give_what_dense_rows_give(binary, kernels):
    X, y = binary
    X = np.where(np.abs(X) > 1, X, 0)
    dense = MKLClassifier(kernels, C=1.0).fit(X, y)
    sparse = MKLClassifier(kernels, C=1.0).fit(sp.csr_matrix(X), y)
    # Squared distances of sparse rows are added up in another order.
    np.testing.assert_allclose(
        sparse.decision_function(sp.csr_matrix(X)), dense.decision_function(X), atol=1e-7
    )


def test_products_make_sparse_rows_dense(binary):
    X, y = binary
    X = np.where(np.abs(X) > 1, X, 0)[:, :4]
    sparse = MKLClassifier(Products(degree=2), solver=LpNorm(), C=1.0).fit(sp.csr_matrix(X), y)
    np.testing.assert_array_equal(
        sparse.predict(sp.csr_matrix(X)),
        MKLClassifier(Products(degree=2), solver=LpNorm(), C=1.0).fit(X, y).predict(X),
    )


def test_callables_are_kernels(regression):
    X, y = regression
    m = MKLRegressor([lambda A, B: A @ B.T, RBF(3.0)], C=1.0).fit(X, y)
    peer = MKLRegressor([Linear(), RBF(3.0)], C=1.0).fit(X, y)
    np.testing.assert_allclose(m.predict(X), peer.predict(X), rtol=1e-6)


def test_several_targets_share_one_combination():
    X, Y = make_regression(80, 6, n_targets=3, random_state=0)
    m = MKLRegressor([RBF(3.0), Linear()], C=10).fit(X, Y)
    assert m.predict(X).shape == Y.shape
    assert m.weights_.shape == (2,)
    assert m.dual_coef_.shape == (80, 3)
    assert m.score(X, Y) > 0.95


def test_one_target_in_a_column_keeps_its_shape(regression):
    X, y = regression
    assert MKLRegressor(kernels="gaussian", C=1.0).fit(X, y[:, None]).predict(X).shape == (len(y), 1)


# -- precomputed ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stack(binary):
    X, y = binary
    return np.stack([RBF(s)(X) for s in (1.0, 4.0, 16.0)], axis=2), y


def test_precomputed_stack_equals_kernels_as_functions(binary, stack):
    X, y = binary
    K, _ = stack
    a = MKLClassifier("precomputed", C=1.0).fit(K, y)
    b = MKLClassifier([RBF(1.0), RBF(4.0), RBF(16.0)], C=1.0).fit(X, y)
    np.testing.assert_allclose(a.weights_, b.weights_, rtol=1e-6)
    np.testing.assert_allclose(a.decision_function(K), b.decision_function(X), atol=1e-7)


def test_cross_validation_slices_a_stack(stack):
    K, y = stack
    scores = cross_val_score(MKLClassifier("precomputed", C=1.0), K, y, cv=3)
    assert scores.min() > 0.85


def test_grid_search_reaches_nested_parameters_of_a_stack(stack):
    K, y = stack
    search = GridSearchCV(
        MKLClassifier(Precomputed(names=["fine", "middle", "coarse"]), solver=LpNorm(), C=1.0),
        {"solver__p": [1.1, 2.0], "C": [0.1, 1.0]},
        cv=3,
    ).fit(K, y)
    assert search.best_params_["solver__p"] in (1.1, 2.0)
    assert {r["kernel"] for r in search.best_estimator_.combination_.records()} == {
        "fine",
        "middle",
        "coarse",
    }


def test_single_precision_stacks_are_read_in_place(stack):
    K, y = stack
    a = MKLClassifier("precomputed", C=1.0).fit(K.astype(np.float32), y)
    b = MKLClassifier("precomputed", C=1.0).fit(K, y)
    # float32 kernel values carry a relative error of 6e-8; C n times that reaches the scores.
    np.testing.assert_allclose(a.decision_function(K), b.decision_function(K), atol=1e-4)


@pytest.mark.parametrize("order", ["member first", "fortran", "read only"])
def test_stacks_of_any_layout(stack, order):
    K, y = stack
    if order == "member first":
        other = np.ascontiguousarray(np.moveaxis(K, 2, 0)).transpose(1, 2, 0)
    elif order == "fortran":
        other = np.asfortranarray(K)
    else:
        other = K.copy()
        other.flags.writeable = False
    np.testing.assert_allclose(
        MKLClassifier("precomputed", C=1.0).fit(other, y).weights_,
        MKLClassifier("precomputed", C=1.0).fit(K, y).weights_,
        rtol=1e-9,
    )


def test_one_matrix_is_a_stack_of_one(stack):
    K, y = stack
    m = MKLClassifier("precomputed", C=1.0).fit(K[:, :, 1], y)
    assert m.weights_.shape == (1,)
    assert m.predict(K[:5, :, 1]).shape == (5,)


# -- weights -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic", "max_hinge", "softmax"])
def test_a_weight_is_a_repetition(three, loss):
    X, y = three
    X, y = X[:45], y[:45]
    s = np.random.default_rng(1).integers(0, 3, 45)
    kernels = [RBF(0.7), RBF(2.0), Linear(columns=[0])]
    weighted = MKLClassifier(kernels, loss=loss, C=1.0).fit(X, y, sample_weight=s)
    repeated = MKLClassifier(kernels, loss=loss, C=1.0).fit(np.repeat(X, s, axis=0), np.repeat(y, s))
    # Both end after the same outer iterations; the machines' own accuracy is 1e-10 of the scores.
    np.testing.assert_allclose(weighted.decision_function(X), repeated.decision_function(X), atol=1e-7)


def test_class_weights_multiply_sample_weights(binary):
    X, y = binary
    s = np.random.default_rng(0).uniform(0.5, 2, len(y))
    by_class = {"benign": 3.0, "malignant": 0.5}
    a = MKLClassifier(class_weight=by_class, kernels="gaussian", C=1.0).fit(X, y, s)
    b = MKLClassifier(kernels="gaussian", C=1.0).fit(X, y, s * np.where(y == "benign", 3.0, 0.5))
    np.testing.assert_allclose(a.decision_function(X), b.decision_function(X), atol=1e-8)


def test_balanced_class_weights_count_weighted_rows(binary):
    X, y = binary
    s = np.random.default_rng(0).integers(1, 4, len(y))
    a = MKLClassifier([RBF(5.0)], class_weight="balanced", C=1.0).fit(X, y, s)
    b = MKLClassifier([RBF(5.0)], class_weight="balanced", C=1.0).fit(
        np.repeat(X, s, axis=0), np.repeat(y, s)
    )
    np.testing.assert_allclose(a.decision_function(X), b.decision_function(X), atol=1e-7)


# -- what a fit leaves behind --------------------------------------------------------------------------


@pytest.mark.parametrize("solver", [LpNorm(), SimpleMKL(), SILP(), Uniform(), Single()], ids=repr)
@pytest.mark.parametrize("kernels", [[RBF(1.0), RBF(5.0)], Products(degree=2)], ids=["list", "products"])
def test_contributions_and_intercept_add_up_to_the_scores(three, solver, kernels):
    X, y = three
    m = MKLClassifier(kernels, solver=solver, C=1.0).fit(X, y)
    parts = m.contributions(X)
    assert parts.shape == (len(X), len(m.combination_), 3)
    np.testing.assert_allclose(parts.sum(axis=1) + m.intercept_, m.decision_function(X), atol=1e-8)


def test_regression_contributions_add_up_to_predictions(regression):
    X, y = regression
    m = MKLRegressor(Products(degree=2), C=1.0).fit(X, y)
    np.testing.assert_allclose(m.contributions(X).sum(axis=1) + m.intercept_, m.predict(X), rtol=1e-8)


def test_dual_coefficients_and_weights_give_the_scores(three):
    X, y = three
    kernels = [RBF(0.5), RBF(2.0), Laplacian(3.0)]
    m = MKLClassifier(kernels, loss="squared_hinge", C=1.0).fit(X, y)
    K = sum(w * k(X) for w, k in zip(m.weights_, kernels, strict=True))
    np.testing.assert_allclose(K @ m.dual_coef_ + m.intercept_, m.decision_function(X), atol=1e-9)


@pytest.mark.parametrize("solver", [Blockwise(grids=4), TriplyStochastic()])
def test_coefficients_of_features_are_no_dual_coefficients(binary, solver):
    assert MKLClassifier([RBF(1.0)], solver=solver, C=1.0).fit(*binary).dual_coef_ is None
    assert "dual_coef_ : (n, c) array or None" in MKLClassifier.__doc__


def test_the_table_is_sorted_and_its_shares_sum_to_one(three):
    X, y = three
    table = MKLClassifier([RBF(s) for s in (0.1, 1.0, 10.0)], C=1.0).fit(X, y).combination_.records()
    shares = [r["share"] for r in table]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) == pytest.approx(1)
    assert {r["sigma"] for r in table} == {0.1, 1.0, 10.0}
    assert table[0]["kernel"].startswith("rbf(σ=")


def test_a_loss_that_does_not_exist_has_no_probabilities():
    assert not hasattr(MKLClassifier(loss="hing", kernels="gaussian", C=1.0), "predict_proba")


def test_two_classes_with_coupled_losses_have_one_score(binary):
    X, y = binary
    for loss in ("max_hinge", "softmax"):
        m = MKLClassifier(loss=loss, kernels="gaussian", C=1.0).fit(X, y)
        f = m.decision_function(X)
        assert f.shape == (len(X),)
        np.testing.assert_array_equal(m.predict(X), m.classes_[(f > 0).astype(int)])


def test_clone_and_pickle_keep_what_they_should(binary):
    X, y = binary
    m = MKLClassifier(Finite([RBF(2.0), Dirichlet(1.0, columns=[0])]), solver=LpNorm(p=1.5), C=2.0)
    copy = clone(m)
    assert repr(copy) == repr(m)
    m.fit(X, y)
    again = pickle.loads(pickle.dumps(m))
    np.testing.assert_array_equal(again.decision_function(X), m.decision_function(X))


def test_grid_search_over_nested_parameters_in_a_pipeline(regression):
    X, y = regression
    pipe = make_pipeline(StandardScaler(), MKLRegressor(Products(degree=1), solver=LpNorm(), C=1.0))
    search = GridSearchCV(
        pipe, {"mklregressor__solver__p": [1.2, 2.0], "mklregressor__kernels__degree": [1, 2]}, cv=2
    )
    search.fit(X, y)
    assert search.best_score_ > 0.2


def test_fits_are_deterministic(three):
    X, y = three
    a, b = (MKLClassifier(kernels="gaussian", C=1.0).fit(X, y).decision_function(X) for _ in range(2))
    np.testing.assert_array_equal(a, b)


def test_progress_is_reported(three, capsys):
    X, y = three
    m = MKLClassifier([RBF(0.5), RBF(2.0)], verbose=1, C=1.0).fit(X, y)
    assert isinstance(m.solver_, LpNorm)
    assert m.loss_.name == "squared_hinge"
    err = capsys.readouterr().err
    assert "LpNorm" in err and "relative gap" in err


def test_auto_on_a_huge_family_of_products_is_greedy():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 40))
    y = X[:, 0] * X[:, 1]
    m = MKLRegressor(Products(degree=3), C=10).fit(X, y)
    assert isinstance(m.solver_, Greedy) and m.solver_.max_kernels == "auto"
    assert m.combination_.records()[0]["kernel"] == "x0·x1"


def test_a_warm_start_from_a_constant_is_a_cold_one():
    X = np.arange(20.0)[:, None] % 7
    model = MKLRegressor([RBF(1.0), RBF(2.0)], solver=Greedy(), C=1.0, warm_start=True).fit(X, np.ones(20))
    assert not model.weights_.any()
    assert model.fit(X, np.sin(X[:, 0])).weights_.any()


def test_warm_start_goes_on_from_the_last_weights(three):
    X, y = three
    m = MKLClassifier(
        [RBF(s) for s in (0.1, 1.0, 10.0)], solver=LpNorm(p=1.05, tol=1e-8), warm_start=True, C=1.0
    )
    first = m.fit(X, y).n_iter_
    assert m.fit(X, y).n_iter_ < first


def test_an_interrupted_fit_is_usable_and_goes_on(three):
    X, y = three

    def interrupt(step):
        if step.iteration == 2:
            raise KeyboardInterrupt

    m = MKLClassifier(
        [RBF(s) for s in (0.1, 1.0, 10.0)], solver=LpNorm(p=1.05, tol=1e-8), warm_start=True, C=1.0
    )
    with pytest.warns(UserWarning, match="Interrupted after 2 iterations"):
        m.fit(X, y, on_iteration=interrupt)
    assert not m.converged_
    assert m.score(X, y) > 0.8
    assert m.fit(X, y).converged_
