"""Copies of rows are no evidence of their own when Greedy judges how many kernels there are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from manykernels import MKLClassifier, MKLRegressor
from manykernels.families import Products
from manykernels.losses import Squared
from manykernels.problem import Problem, Scale
from manykernels.solvers import Greedy
from manykernels.solvers.greedy.stopping import DistinctRows


def interactions(seed, n=300, r=12):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, r))
    f = 3 * X[:, 0] * X[:, 1] + 2 * X[:, 2] + 5 * X[:, 3] * X[:, 4] * X[:, 5]
    return X, f + rng.normal(0, 0.6 * f.std(), n), {(0, 1), (2,), (3, 4, 5)}


def problem_of(X, y, s=None):
    family = Products(2).resolve(X.shape[1])
    return Problem(X, y[:, None], family, Scale.fit(family, X, "trace"), Squared(), 1.0, s)


def members(model):
    return {tuple(z) for z, w in zip(model.combination_.members, model.weights_) if w}


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 30), st.integers(1, 60))
def test_copies_are_numbered_as_by_comparing_all_pairs(seed, n, extra):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    y = rng.integers(0, 3, n).astype(float)
    at = np.concatenate([np.arange(n), rng.integers(0, n, extra)])[rng.permutation(n + extra)]
    rows = DistinctRows(problem_of(X[at], y[at]))
    assert rows.count == n
    assert np.array_equal(rows.number[:, None] == rows.number, at[:, None] == at)


@pytest.mark.parametrize("seed", range(3))
def test_a_duplicated_row_equals_a_weight_of_two(seed):
    X, y, _ = interactions(seed, n=150)
    rng = np.random.default_rng(seed)
    s = rng.integers(1, 4, len(y))
    at = np.repeat(np.arange(len(y)), s)
    model = MKLRegressor(Products(3), solver=Greedy(random_state=0), C=10.0)
    weighted, repeated = clone(model).fit(X, y, sample_weight=s), clone(model).fit(X[at], y[at])
    assert members(weighted) == members(repeated)
    # Both solve the same normal equations to rounding.
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-8, atol=1e-8)


def test_a_duplicated_row_equals_a_weight_of_two_where_rows_are_held_out():
    X, y, _ = interactions(0, n=120, r=6)
    s = np.random.default_rng(0).integers(1, 4, len(y))
    at = np.repeat(np.arange(len(y)), s)
    model = MKLClassifier(Products(2), solver=Greedy(random_state=0), C=10.0, loss="logistic")
    weighted, repeated = clone(model).fit(X, y > 0, sample_weight=s), clone(model).fit(X[at], y[at] > 0)
    assert members(weighted) == members(repeated)


def test_a_bootstrap_sample_has_hardly_more_false_products_than_the_table():
    false = {"table": 0, "bootstrap": 0}
    for seed in range(4):
        X, y, terms = interactions(seed)
        at = np.random.default_rng(seed).integers(0, len(y), len(y))
        for name, rows in (("table", slice(None)), ("bootstrap", at)):
            model = MKLRegressor(Products(3), solver=Greedy(random_state=0), C=10.0).fit(X[rows], y[rows])
            false[name] += len(members(model) - terms)
    # Where copies count fully, these four samples have 16 of them.
    assert false["bootstrap"] <= false["table"] + 2


def test_copies_make_no_product_more_certain():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 10)), rng.standard_normal(60)
    once = MKLRegressor(Products(2), solver=Greedy(random_state=0), C=10.0).fit(X, y)
    often = MKLRegressor(Products(2), solver=Greedy(random_state=0), C=1.0).fit(
        np.tile(X, (10, 1)), np.tile(y, 10)
    )
    assert members(often) == members(once)


def test_equal_cells_of_a_table_of_categories_count_fully():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (400, 4)).astype(float)
    y = rng.integers(0, 2, 400).astype(float)
    rows = DistinctRows(problem_of(X, y))
    assert rows.count == 400 and rows.effective == 400


def test_few_columns_of_rounded_numbers_count_fully_only_where_chance_makes_them_equal():
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 10, (500, 2)).astype(float), rng.integers(0, 10, 500).astype(float)
    assert DistinctRows(problem_of(X, y)).effective == 500
    y = rng.standard_normal(500)
    at = rng.integers(0, 500, 500)
    assert DistinctRows(problem_of(X[at], y[at])).count == len(np.unique(at))


def test_effective_rows_of_equal_weights_are_all_rows_whatever_the_unit():
    X, y, _ = interactions(0, n=50)
    for unit in (1.0, 0.1, 7.0):
        assert DistinctRows(problem_of(X, y, np.full(50, unit))).effective == pytest.approx(50, rel=1e-12)
