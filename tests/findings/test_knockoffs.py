"""Knockoffs: imitations with the right covariance, the threshold by its definition, what is selected."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manykernels import MKLClassifier, MKLRegressor
from manykernels.families import Products
from manykernels.findings import knockoffs
from manykernels.findings.imitations import (
    entropic,
    gaussian_imitation,
    knockoff_threshold,
    permuted_imitation,
)
from manykernels.kernels import RBF
from manykernels.solvers import Greedy


def covariance(r, seed=0):
    rng = np.random.default_rng(seed)
    B = rng.standard_normal((r, 3 * r))
    C = B @ B.T + 2 * np.ones((r, r))
    d = np.sqrt(np.diag(C))
    return C / d / d[:, None]


@pytest.mark.parametrize("seed", range(3))
def test_entropy_is_stationary_and_the_joint_covariance_positive(seed):
    C = covariance(12, seed)
    s = entropic(C)
    A = 2 * C - np.diag(s)
    assert (s > 0).all() and np.linalg.eigvalsh(A)[0] > 0
    # The ascent ends when a sweep gains 1e-10 of the entropy, whose curvature is of order 1.
    np.testing.assert_allclose(s * np.diag(np.linalg.inv(A)), 1.0, atol=1e-4)


def test_columns_and_imitations_have_the_covariance_of_knockoffs():
    C = covariance(6)
    rng = np.random.default_rng(0)
    n = 40_000
    X = 3.0 + rng.standard_normal((n, 6)) @ np.linalg.cholesky(C).T
    G = np.cov(np.hstack([X, gaussian_imitation(X, rng, C)]).T)
    apart = C - np.diag(entropic(C))
    # Entries of the covariance of n rows have errors of about 1/√n; five of them.
    np.testing.assert_allclose(G, np.block([[C, apart], [apart, C]]), atol=5 * np.sqrt(2 / n))


def test_permuted_columns_stay_within_strata():
    rng = np.random.default_rng(0)
    strata = rng.integers(0, 3, 60)
    X = strata[:, None] * 10.0 + rng.random((60, 2))
    imitation = permuted_imitation(X, rng, strata)
    assert np.array_equal(imitation // 10, X // 10) and not np.array_equal(imitation, X)
    assert np.array_equal(np.sort(imitation, axis=0), np.sort(X, axis=0))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(-6, 6), min_size=1, max_size=40), st.sampled_from([0.1, 0.2, 0.5]))
def test_threshold_is_that_of_the_definition(W, fdr):
    ratio = {t: (1 + sum(w <= -t for w in W)) / max(sum(w >= t for w in W), 1) for t in range(1, 7)}
    fine = [t for t, q in ratio.items() if q <= fdr and any(w >= t for w in W)]
    found = knockoff_threshold(np.array(W), fdr)
    if not fine:
        assert np.isinf(found)
    else:  # the same columns are selected; a step without any value of |W| changes nothing
        assert [w for w in W if w >= found] == [w for w in W if w >= min(fine)]


def table(n=300, r=15, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, r))
    return X, X[:, :5].sum(axis=1) + 2 * X[:, 5] * X[:, 6] + rng.normal(0, 0.5, n)


def test_active_columns_and_products_are_selected_by_name():
    X, y = table()
    frame = pd.DataFrame(X, columns=[f"gene{j}" for j in range(15)])
    found = knockoffs(
        MKLRegressor(Products(2), solver=Greedy(random_state=0), C=10.0), frame, y, 0.2, random_state=0
    )
    assert found.selected == [f"gene{j}" for j in range(7)]
    assert {p["kernel"] for p in found.products if p["selected"]} >= {"gene5·gene6", "gene0"}
    assert set(found.table()["column"][found.table()["selected"]]) == set(found.selected)


def test_a_column_and_its_imitation_can_change_places():
    """Exchanging a column with its imitation turns the sign of its statistic, and changes no other."""
    X, y = (part[:150] for part in table())
    X = X[:, 3:7]
    rng = np.random.default_rng(1)
    other = rng.standard_normal(X.shape)
    model = MKLRegressor(Products(2), solver=Greedy(max_kernels=12, random_state=0), C=10.0)
    from manykernels.findings.imitations import _compared

    names, nobody = [f"x{j}" for j in range(4)], np.zeros(4, dtype=bool)
    one = _compared(model.fit(np.hstack([X, other]), y), np.hstack([X, other]), names, nobody, 0.9)
    turned = np.array([False, True, False, True])
    both = np.hstack([np.where(turned, other, X), np.where(turned, X, other)])
    two = _compared(model.fit(both, y), both, names, nobody, 0.9)
    # The fits differ by the order of columns alone: by rounding.
    np.testing.assert_allclose(two.statistics, np.where(turned, -1, 1) * one.statistics, atol=1e-8)


def test_classes_are_taken():
    X, y = table(n=200, r=8)
    model = MKLClassifier(Products(1), solver=Greedy(max_kernels=8, random_state=0), C=10.0, loss="logistic")
    found = knockoffs(model, X, y > 0, 0.5, random_state=0)
    assert len(found.statistics) == 8 and np.isfinite(found.statistics).all()


def test_too_few_columns_for_a_rate_are_said():
    X, y = table()
    with pytest.warns(UserWarning, match="at fdr=0.05 at least 20 columns must stand out"):
        found = knockoffs(MKLRegressor(Products(1), C=10.0), X, y, 0.05, random_state=0)
    assert found.selected == []


@pytest.mark.parametrize(
    "change, words",
    [
        ({"fdr": 1.0}, "fdr is 1.0; use a number between 0 and 1"),
        ({"construction": "copula"}, "construction is 'copula'; use 'gaussian' or 'permutation'"),
        ({"strata": np.zeros(20)}, "strata is given, but construction is 'gaussian'"),
        ({"strata": np.zeros(3), "construction": "permutation"}, "strata has 3 values for 20 rows"),
        ({"estimator": MKLRegressor([RBF(1.0)])}, "whose kernels treat all columns alike"),
        ({"X": np.full((20, 2), np.nan)}, "X must be a matrix of finite numbers"),
        ({"covariance": -np.eye(2)}, "covariance must be a positive definite matrix of 2 by 2"),
    ],
)
def test_arguments_that_make_no_sense_are_named(change, words):
    given_ = {
        "estimator": MKLRegressor(Products(2)),
        "X": np.random.default_rng(0).random((20, 2)),
        "y": np.zeros(20),
    }
    with pytest.raises(ValueError, match=words):
        knockoffs(**{**given_, **change})
