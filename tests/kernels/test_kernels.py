"""Single kernels: values, columns, labels and what they refuse."""

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics.pairwise import (
    laplacian_kernel,
    linear_kernel,
    pairwise_kernels,
    polynomial_kernel,
    rbf_kernel,
)

from manykernels import MKLRegressor
from manykernels.kernels import (
    RBF,
    Constant,
    Dirichlet,
    Function,
    Kernel,
    Laplacian,
    Linear,
    Pairwise,
    Polynomial,
    as_kernel,
    pairwise_statistic,
)
from manykernels.kernels.columns import resolve_columns
from manykernels.kernels.plain import whole_power

X = np.random.default_rng(0).normal(size=(12, 3))
Z = np.random.default_rng(1).normal(size=(5, 3))


# -- values --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sigma", [0.3, 1.0, 4.0])
def test_rbf_is_scikit_learns_with_gamma_one_over_sigma_squared(sigma):
    assert_allclose(RBF(sigma)(X, Z), rbf_kernel(X, Z, gamma=1 / sigma**2), rtol=1e-13)


@pytest.mark.parametrize("sigma", [0.3, 1.0, 4.0])
def test_laplacian_is_scikit_learns_with_gamma_one_over_sigma(sigma):
    assert_allclose(Laplacian(sigma)(X, Z), laplacian_kernel(X, Z, gamma=1 / sigma), rtol=1e-13)


def test_linear_is_scikit_learns():
    assert_allclose(Linear()(X, Z), linear_kernel(X, Z), rtol=1e-14)


@pytest.mark.parametrize("degree", [1, 2, 5])
def test_polynomial_is_scikit_learns(degree):
    ours = Polynomial(degree, gamma=0.4, coef0=1.5)(X, Z)
    assert_allclose(ours, polynomial_kernel(X, Z, degree=degree, gamma=0.4, coef0=1.5), rtol=1e-13)


@pytest.mark.parametrize("metric", ["cosine", "rbf", "laplacian", "poly", "chi2"])
def test_names_are_scikit_learns(metric):
    assert_allclose(as_kernel(metric)(abs(X), abs(Z)), pairwise_kernels(abs(X), abs(Z), metric=metric))


def test_dirichlet_is_one_plus_twice_the_cosine():
    d = X[:, :1] - Z[:, 0]
    assert_allclose(Dirichlet(2.0, columns=[0])(X, Z), 1 + 2 * np.cos(2 * d), rtol=1e-13, atol=1e-13)


def test_constant_is_its_value_everywhere():
    assert_allclose(Constant(3.0)(X, Z), np.full((12, 5), 3.0))


def test_rbf_of_a_row_with_itself_is_one_however_far_from_the_origin():
    assert_allclose(np.diagonal(RBF(1.0)(X + 1e6)), 1.0, atol=1e-12)


def test_unknown_statistic_is_refused():
    with pytest.raises(ValueError, match="unknown statistic 'cubes'"):
        pairwise_statistic("cubes", X, Z)


# -- columns -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "columns, expected",
    [
        ([2, 0], [2, 0]),
        ([-1], [2]),
        (1, [1]),
        (slice(1, None), [1, 2]),
        ([True, False, True], [0, 2]),
        (np.array([True, False, True]), [0, 2]),
        ("age", [1]),
        (["age", "sex"], [1, 0]),
        (np.array([0, 1], dtype=np.int8), [0, 1]),
    ],
)
def test_columns_are_resolved_to_indices(columns, expected):
    picked = resolve_columns(columns, 3, ["sex", "age", "dose"], "k")
    assert picked.tolist() == expected


def test_no_columns_means_all():
    assert resolve_columns(None, 3, None, "k") is None


@pytest.mark.parametrize(
    "columns, names, message",
    [
        ([3], None, "X has 3 columns"),
        ([-4], None, "X has 3 columns"),
        ([0.5], None, "X has 3 columns"),
        ([], None, "selects no column"),
        (slice(5, 9), None, "selects no column"),
        ([False, False, False], None, "selects no column"),
        ([True, False], None, "mask of length 2"),
        (["age"], None, "X has no column names"),
        (
            ["height"],
            ["sex", "age", "dose"],
            "'height', which X does not have; X has sex, age, dose",
        ),
        (["sex", 1], ["sex", "age", "dose"], "use names, a mask"),
        (1.5, None, "columns of"),
        ([[0, 1], [1, 2]], None, "columns of"),
    ],
)
def test_wrong_columns_are_refused_in_one_sentence(columns, names, message):
    with pytest.raises(ValueError, match=message) as caught:
        RBF(1.0, columns=columns).resolve(3, names)
    assert "columns" in str(caught.value) and one_sentence(caught)


def one_sentence(caught):
    text = str(caught.value)
    return "\n" not in text and len(re.findall(r"\.(?:\s|$)", text)) == 1


# -- parameters ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [0, -1.0, np.nan, np.inf, "wide", None, True])
@pytest.mark.parametrize("kernel", [RBF, Laplacian])
def test_bandwidths_must_be_positive_numbers(kernel, value):
    with pytest.raises(ValueError, match=f"sigma of {kernel.__name__}") as caught:
        kernel(value).resolve(3, None)
    assert one_sentence(caught)


@pytest.mark.parametrize(
    "kernel, name",
    [
        (Polynomial(0), "degree"),
        (Polynomial(1.5), "degree"),
        (Polynomial("two"), "degree"),
        (Polynomial(2, gamma=0.0), "gamma"),
        (Polynomial(2, gamma="scale"), "gamma"),
        (Polynomial(2, coef0=-1.0), "coef0"),
        (Polynomial(2, coef0=np.nan), "coef0"),
        (Polynomial(2, coef0=np.inf), "coef0"),
        (Polynomial(2, coef0="one"), "coef0"),
        (Dirichlet(-1.0, columns=[0]), "sigma"),
        (Dirichlet(np.nan, columns=[0]), "sigma"),
        (Dirichlet("fast", columns=[0]), "sigma"),
        (Dirichlet([1.0, 2.0], columns=[0]), "sigma"),
        (Constant(0.0), "value"),
        (Function("cubic"), "func"),
        (Pairwise("cosin"), "kernel 'cosin' is unknown"),
    ],
)
def test_parameters_are_refused_in_one_sentence_that_names_them(kernel, name):
    with pytest.raises(ValueError, match=name) as caught:
        kernel.resolve(3, None)
    assert one_sentence(caught)


@pytest.mark.parametrize("columns", [None, [0, 1]])
def test_dirichlet_refuses_more_than_one_column(columns):
    with pytest.raises(ValueError, match="positive definite on one column only"):
        Dirichlet(columns=columns).resolve(3, None)


def test_dirichlet_takes_the_only_column():
    assert Dirichlet().resolve(1, None)(X[:, :1]).shape == (12, 12)


# -- callables -----------------------------------------------------------------------------------------


def test_a_callable_becomes_a_kernel_with_its_name():
    def overlap(A, B):
        return A @ B.T

    assert as_kernel(overlap).label() == "overlap"


def test_a_kernel_stays_itself():
    kernel = RBF()
    assert as_kernel(kernel) is kernel


def test_a_number_is_no_kernel():
    with pytest.raises(ValueError, match="base holds 3, which is no kernel"):
        as_kernel(3, "base")


def test_a_callable_of_the_wrong_shape_is_refused():
    with pytest.raises(ValueError, match=r"returned shape \(12,\) for 12 and 5 rows"):
        Function(lambda A, B: A[:, 0], name="short")(X, Z)


def test_a_callable_that_returns_nan_is_refused():
    with pytest.raises(ValueError, match="kernel broken returned NaN or infinity"):
        Function(lambda A, B: np.full((len(A), len(B)), np.nan), name="broken")(X, Z)


# -- labels --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kernel, names, label",
    [
        (RBF(1.4142), None, "rbf(σ=1.41)"),
        (RBF(1.0, columns=["age"]), ["sex", "age"], "rbf(σ=1)[age]"),
        (Linear(columns=[1]), None, "linear[1]"),
        (Linear(columns=slice(2, 90)), None, "linear[2:90]"),
        (Laplacian(0.5, columns=[0, 3, 5, 7, 9]), None, "laplacian(σ=0.5)[0,3,5,7,…]"),
        (Polynomial(3), None, "poly(d=3)"),
        (Pairwise("cosine"), None, "cosine"),
        (Linear(columns=slice(0, 4)), list("abcd"), "linear[a..d]"),
    ],
)
def test_labels_are_readable(kernel, names, label):
    assert kernel.resolve(100 if names is None else len(names), names).label(names) == label


def test_a_kernel_without_statistic_or_gram_says_so():
    class Unfinished(Kernel):
        pass

    with pytest.raises(NotImplementedError, match="Unfinished has no diagonal"):
        Unfinished().diag(X)


@pytest.mark.parametrize("at", [0, 7, 19])
@pytest.mark.parametrize("far", [1e7, 1e8])
def test_an_outlier_does_not_hurt_the_distances_of_others(at, far):
    Z = np.random.default_rng(0).normal(size=(20, 3))
    Z[at, 2] = far
    direct = np.exp(-np.square(Z[:, None] - Z[None]).sum(axis=2))
    # 1e-9: what a product of rows around the medians leaves of distances near 1.
    assert_allclose(RBF(1.0)(Z), direct, atol=1e-9)
    assert_allclose(RBF(1.0)(Z[:5], Z), direct[:5], atol=1e-9)


def test_clusters_far_apart_keep_their_inner_distances():
    rng = np.random.default_rng(0)
    Z = rng.normal(scale=0.01, size=(40, 2)) + np.where(np.arange(40) < 20, 0.0, 1e6)[:, None]
    direct = np.exp(-np.square(Z[:, None] - Z[None]).sum(axis=2) / 1e-4)
    assert_allclose(RBF(0.01)(Z), direct, atol=1e-9)
    assert (np.diagonal(RBF(0.01)(Z)) == 1).all()


@pytest.mark.parametrize("k", range(9))
def test_whole_powers(k):
    S = np.random.default_rng(0).standard_normal((3, 4))
    kept = S.copy()
    assert_allclose(whole_power(S, k), S**k, rtol=1e-14)
    whole_power(S, k)[:] = 0.0
    assert (kept == S).all()


def test_the_gaussian_kernel_by_name_keeps_its_digits_with_an_offset():
    rows = np.random.default_rng(0).integers(8, size=(20, 3)).astype(float)
    for params in (None, {"gamma": 0.2}):
        kernel = Pairwise("rbf", params)
        np.testing.assert_allclose(kernel(rows + 2.0**50, rows + 2.0**50), kernel(rows, rows), rtol=1e-14)
        np.testing.assert_allclose(kernel(rows), rbf_kernel(rows, **(params or {})), rtol=1e-12)


def test_functions_of_one_argument_are_no_kernels():
    with pytest.raises(ValueError, match=r"kernel len cannot be called as func\(X, Z\)"):
        MKLRegressor(len, solver="uniform", C=1.0).fit(np.eye(4), np.arange(4.0))
