"""Products of the columns that people have: far from zero, with levels and gaps."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import manykernels
from manykernels import Greedy, MKLClassifier, MKLRegressor, Products, Uniform
from manykernels.tables import Columns

pd = pytest.importorskip("pandas")


def people(n=300, seed=0):
    """A table whose target is age among the red, and whether they smoke."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "age": rng.normal(50, 10, n),
            "income": rng.lognormal(10, 0.5, n),
            "colour": rng.choice(["red", "blue", "green"], n),
            "smoker": rng.random(n) < 0.3,
        }
    )
    table.loc[rng.choice(n, n // 10, replace=False), "income"] = np.nan
    z = (table["age"] - 50) / 10
    return table, 2 * z * (table["colour"] == "red") + table["smoker"] + 0.2 * rng.normal(size=n)


def names(model):
    return {record["kernel"] for record in model.combination_.records() if record["weight"] > 0}


def test_a_raw_table_of_numbers_levels_flags_and_gaps(tmp_path, capsys):
    table, y = people()
    model = MKLRegressor(Products(degree=2), C=100.0, verbose=1).fit(table, y)
    assert {"age·colour=red", "smoker"} <= names(model)
    assert "centred and scaled before they are multiplied: age, income" in capsys.readouterr().err
    assert model.score(table, y) > 0.9
    model.save(tmp_path / "m.mk")
    assert_array_equal(manykernels.load(tmp_path / "m.mk").predict(table), model.predict(table))
    parts = model.contributions(table[:20]).sum(axis=1) + model.intercept_
    assert_allclose(parts, model.predict(table[:20]), rtol=1e-12)
    assert np.isfinite(model.predict(table.assign(colour="violet"))).all()


def test_a_category_times_itself_is_no_new_product():
    table, y = people(120)
    model = MKLRegressor(Products(degree=3), C=1.0).fit(table, y)
    family = model.combination_.family
    members = family.members()
    assert family.size() == len(members)
    level = {j for group in family.indicators for j in group}
    for z in members:
        assert len([j for j in z if j in level]) == len({j for j in z if j in level})
    phi = family.features(model.columns_.transform(table), members)
    assert (np.abs(phi).max(axis=0) > 0).mean() > 0.9  # levels of one category never meet
    groups = [set(group) for group in family.indicators]
    assert not any(len(group & set(z)) > 1 for z in members for group in groups)


def test_columns_near_zero_are_taken_to_the_bit():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (150, 6))
    y = X[:, 0] * X[:, 1] + 0.1 * rng.normal(size=150)
    auto, plain = (
        MKLRegressor(Products(degree=3, standardize=how), C=10.0).fit(X, y) for how in ("auto", False)
    )
    assert not hasattr(auto, "columns_")
    assert auto.combination_.members == plain.combination_.members
    assert_array_equal(auto.predict(X), plain.predict(X))
    frame = pd.DataFrame(X)
    assert_array_equal(
        MKLRegressor(Products(degree=3), C=10.0).fit(frame, y).predict(frame), plain.predict(X)
    )


def test_products_of_columns_far_from_zero_are_found():
    rng = np.random.default_rng(1)
    Z = rng.normal(size=(300, 15))
    y = Z[:, 0] * Z[:, 1] + Z[:, 2] * Z[:, 3] * Z[:, 4] + Z[:, 5] + 0.5 * rng.normal(size=300)
    X = Z * 10.0 ** rng.integers(-3, 4, 15) + 10.0 ** rng.integers(-3, 5, 15)
    truth = {"x0·x1", "x2·x3·x4", "x5"}
    assert names(MKLRegressor(Products(degree=3), C=10.0).fit(X, y)) == truth
    assert names(MKLRegressor(Products(degree=3, standardize=False), C=10.0).fit(X, y)) != truth


def test_other_units_change_rounding_only():
    rng = np.random.default_rng(2)
    X = rng.normal(3, 1, (120, 5))
    y = (X[:, 0] - 3) * (X[:, 1] - 3) + 0.2 * rng.normal(size=120)
    one = MKLRegressor(Products(degree=2), C=10.0).fit(X, y)
    other = MKLRegressor(Products(degree=2), C=10.0).fit(1000 * X - 7, y)
    assert names(one) == names(other)
    assert_allclose(other.predict(1000 * X - 7), one.predict(X), rtol=1e-8)


def test_weights_are_repetitions():
    table, _ = people(80)
    twice = np.where(np.arange(80) % 3 == 0, 2, 1)
    a = Columns.for_products(table, twice)
    b = Columns.for_products(table.loc[table.index.repeat(twice)].reset_index(drop=True))
    assert_allclose(a.transform(table), b.transform(table), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("solver", [Uniform(), Greedy(3)])
def test_classes_and_other_solvers(solver):
    table, y = people(120)
    model = MKLClassifier(Products(degree=2), solver=solver, C=1.0).fit(table, y > 0)
    assert model.score(table, y > 0) > 0.7


def test_the_name_means_the_same():
    table, y = people(100)
    one = MKLRegressor("products", C=1.0).fit(table, y)
    assert_array_equal(one.predict(table), MKLRegressor(Products(), C=1.0).fit(table, y).predict(table))


def test_true_is_refused():
    with pytest.raises(ValueError, match=r"standardize of Products is True; use 'auto' or False"):
        MKLRegressor(Products(standardize=True), C=1.0).fit(np.zeros((5, 2)), np.arange(5.0))
