"""What a user sees of components: tables, effects in the columns' units, and clear refusals."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from manykernels import MKLRegressor
from manykernels.families import Products
from manykernels.findings import components, shapley, shares
from manykernels.kernels import RBF, Linear, Polynomial
from manykernels.solvers import Greedy, Uniform


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"height": rng.uniform(150, 200, 80), "age": rng.integers(20, 60, 80).astype(float)})
    X["colour"] = rng.choice(["blue", "red"], 80)
    X["day"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 300, 80), "D")
    y = (X["height"] - 175) / 10 + np.sin(X["age"] / 8) + (X["colour"] == "red")
    return X, y.to_numpy()


@pytest.fixture(scope="module")
def found(table):
    X, y = table
    return components(MKLRegressor().fit(X, y), X)


@pytest.fixture(scope="module")
def products():
    X = np.random.default_rng(1).uniform(0, 1, (50, 3))
    return MKLRegressor(Products(degree=2), solver=Greedy(max_kernels=3), C=1e4).fit(X, X[:, 0] * X[:, 1]), X


def test_the_table_has_the_largest_share_first(found):
    table = found.table()
    assert list(table.columns) == ["component", "name", "order", "share", "standard_error", "exact"]
    assert table["share"].is_monotonic_decreasing and table["share"].sum() == pytest.approx(1)
    assert table["name"][0] == "height" and table["component"][0] == (0,)


def test_errors_of_shares_stay_shares_where_columns_go_together():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 1)) + 0.1 * rng.standard_normal((80, 8))
    model = MKLRegressor([RBF(1.0)], C=10.0).fit(X, X[:, 0])
    assert (components(model, X).standard_errors < 1).all()  # the total of the margins is small there


def test_effects_are_in_the_units_of_the_columns(found):
    effect = found.effect("height")
    assert effect.columns == ("height",) and effect.values.shape == effect.grid[0].shape == (101,)
    assert effect.grid[0].min() >= 150 and effect.grid[0].max() <= 200
    slope = np.polyfit(effect.grid[0], effect.values, 1)[0]
    assert slope == pytest.approx(0.1, abs=0.02)


def test_an_effect_on_the_rows_own_values_is_the_component(found, table):
    X, _ = table
    for name in ("height", "colour", "age", "day"):
        k = found.names.index(name)
        effect = found.effect(found.components[k], X[name].to_numpy())
        assert effect.values == pytest.approx(found.values[:, k], abs=1e-9)


def test_levels_and_dates_are_axes(found):
    colours = found.effect(2)
    assert list(colours.grid[0]) == ["blue", "red"]
    assert colours.values[1] - colours.values[0] == pytest.approx(1, abs=0.2)
    assert found.effect("day").grid[0].dtype.kind == "M"


def test_an_effect_of_two_columns_has_two_axes(products):
    model, X = products
    found = components(model, X)
    effect = found.effect((1, 0))  # in either order
    assert effect.component == (0, 1) and effect.values.shape == (33, 33)
    a, b = np.array([0.0, 1.0]), np.array([0.5])
    few = found.effect((0, 1), (a, b))
    means = X.mean(axis=0)
    assert few.values == pytest.approx(np.outer(a - means[0], b - means[1]), abs=1e-3)


def test_values_are_computed_when_asked_for(products):
    model, X = products
    found = components(model, X)
    assert "_estimates" not in vars(found)
    assert found.values.shape == (50, len(found.components))


def test_shapley_values_and_shares_have_a_column_for_every_column(table):
    X, y = table
    X = X.assign(same=1.0)
    model = MKLRegressor().fit(X, y)
    phi = shapley(model, X[:3], X)
    assert phi.values.shape == (3, 5) and phi.names == list(X.columns)
    assert (phi.values[:, 4] == 0).all()
    assert np.asarray(phi).sum(axis=1) + phi.constant == pytest.approx(model.predict(X[:3]))
    assert phi.table()["name"][0] == "height"
    sobol = shares(model, X)
    assert sobol.names == list(X.columns) and sobol.total[4] == 0
    assert (sobol.total >= sobol.first - 1e-12).all()


def test_an_order_leaves_the_rest_out(products):
    model, X = products
    found = components(model, X, order=1)
    assert found.components[-1] == () and found.names[-1] == "order 2 and above"
    assert found.values.sum(axis=1) + found.constant == pytest.approx(model.predict(X))
    whole = components(model, X)
    rest = dict(zip(whole.components, whole.variances))[(0, 1)]
    assert found.variances[-1] == pytest.approx(rest, rel=0.3)  # from 512 points


def test_a_constant_predictor_has_no_components():
    X = np.random.default_rng(2).normal(size=(20, 2))
    model = MKLRegressor([RBF(1.0)], solver=Uniform(), C=1.0).fit(X, np.ones(20))
    found = components(model, X)
    assert found.components == [] and found.constant == pytest.approx(1)
    assert len(found.table()) == 0 and found.values.shape == (20, 0)


def test_sparse_rows_are_taken():
    X = np.random.default_rng(5).integers(0, 2, (30, 3)).astype(float)
    model = MKLRegressor([Linear(), RBF(2.0)], C=1.0).fit(sp.csr_matrix(X), X[:, 0] * X[:, 1])
    dense = MKLRegressor([Linear(), RBF(2.0)], C=1.0).fit(X, X[:, 0] * X[:, 1])
    assert components(model, sp.csr_matrix(X)).values == pytest.approx(components(dense, X).values)
    assert np.asarray(shapley(model, sp.csr_matrix(X[:2]), sp.csr_matrix(X))).shape == (2, 3)


def test_a_block_has_no_axis():
    X = np.random.default_rng(3).normal(size=(40, 3))
    kernels = [Polynomial(2, columns=[0, 1]), RBF(1.0, columns=[2])]
    found = components(MKLRegressor(kernels, C=1.0).fit(X, X[:, 0] * X[:, 1]), X)
    assert found.components[0] == (0, 1) and found.orders[0] == 1
    with pytest.raises(ValueError, match="function of 2 columns at once, and has no axis"):
        found.effect((0, 1))


class TestRefusals:
    def test_a_model_that_is_not_ours(self, products):
        with pytest.raises(ValueError, match="pass a fitted MKLRegressor or MKLClassifier"):
            components(make_pipeline(StandardScaler(), MKLRegressor()), products[1])

    def test_a_model_without_columns(self):
        K = np.eye(5)[:, :, None]
        model = MKLRegressor("precomputed", C=1.0).fit(K, np.arange(5.0))
        with pytest.raises(ValueError, match="precomputed kernels, which are no functions of columns"):
            components(model, K)

    def test_no_background(self, products):
        for nothing in (None, np.empty((0, 3))):
            with pytest.raises(ValueError, match="background has no rows"):
                components(products[0], nothing)
        with pytest.raises(ValueError, match="rows has no rows"):
            shapley(products[0], np.empty((0, 3)), products[1])

    def test_an_order_that_is_none(self, products):
        with pytest.raises(ValueError, match="order is 0; it must be a whole number"):
            components(*products, order=0)

    def test_an_unknown_component(self, products):
        with pytest.raises(ValueError, match="component 7 is not among the components"):
            components(*products).effect(7)

    def test_a_grid_of_the_wrong_shape(self, products):
        with pytest.raises(ValueError, match="grid must be 2 arrays"):
            components(*products).effect((0, 1), np.zeros(3))

    def test_base_kernels_that_overlap(self):
        X = np.random.default_rng(4).normal(size=(30, 3))
        base = [RBF(s, columns=c) for s in (1.0, 2.0, 3.0) for c in ([0, 1], [1, 2], [0, 2])]
        model = MKLRegressor(Products(degree=5, base=base), solver=Uniform(), C=1.0).fit(X, X[:, 0])
        assert len(model.combination_) == 1
        with pytest.raises(ValueError, match="share some of their columns"):
            components(model, X)
