"""``kernels="auto"``: any table, with kernels, bandwidths, weights and C learned."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes, load_iris
from sklearn.model_selection import cross_val_score

from manykernels import MKLClassifier, MKLRegressor, load
from manykernels.families import Gaussians, Laplacians, Union
from manykernels.registry import bound_family, choose_solver, exact_rows
from manykernels.solvers import Blockwise, LeaveOneOut


def table(n=300, seed=0):
    """A table as people have them, and a target that depends on a category, a number and a date."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "price": rng.lognormal(5, 1, n),
            "city": rng.choice(["Oslo", "Rome", "Lima"], n),
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 1000, n), "D"),
            "member": rng.random(n) < 0.5,
            "noise": rng.normal(size=n),
            "constant": 1.0,
        }
    )
    effect = frame["city"].map({"Oslo": 0.0, "Rome": 1.0, "Lima": -2.0}).to_numpy()
    y = effect + np.log(frame["price"].to_numpy()) + 0.1 * rng.normal(size=n)
    frame.loc[rng.random(n) < 0.1, "price"] = np.nan
    return frame, y


def model(**options):
    return MKLRegressor("auto", C="auto", random_state=0, **options)


def test_a_raw_table_is_learned_and_read_back(tmp_path):
    X, y = table()
    new, truth = table(seed=1)
    fitted = model().fit(X, y)
    assert isinstance(fitted.solver_, LeaveOneOut) and isinstance(fitted.combination_.family, Union)
    known = new["price"].notna().to_numpy()
    assert fitted.score(new[known], truth[known]) > 0.9
    assert fitted.n_features_in_ == 6 and list(fitted.feature_names_in_) == list(X.columns)
    assert "constant" in fitted.columns_.notes[0]
    fitted.save(tmp_path / "m.mk")
    assert (load(tmp_path / "m.mk").predict(new) == fitted.predict(new)).all()


def test_columns_are_found_by_name_and_levels_never_seen_are_no_error():
    X, y = table()
    fitted = model().fit(X, y)
    turned = X[X.columns[::-1]]
    assert (fitted.predict(turned) == fitted.predict(X)).all()
    X.loc[0, "city"] = "Paris"
    assert np.isfinite(fitted.predict(X)).all()
    with pytest.raises(ValueError, match="city"):
        fitted.predict(X.drop(columns="city"))


def test_arrays_with_gaps_are_taken():
    X, y = load_iris(return_X_y=True)
    X[::7, 2] = np.nan
    fitted = MKLClassifier("auto", C="auto", random_state=0)
    assert cross_val_score(fitted, X, y, cv=3).mean() > 0.9
    assert fitted.fit(X, y).predict_proba(X).shape == (150, 3)


def test_units_and_zeros_do_not_matter():
    X, y = load_iris(return_X_y=True)
    plain = MKLClassifier("auto", C="auto", random_state=0).fit(X, y).decision_function(X)
    other = X * np.array([1e-6, 1.0, 1e3, 1e9]) + 5.0
    again = MKLClassifier("auto", C="auto", random_state=0).fit(other, y).decision_function(other)
    np.testing.assert_allclose(again, plain, atol=1e-3)


def test_many_rows_get_random_features_of_the_same_kernels():
    X = np.zeros((exact_rows() + 1, 2))
    X[:, 0] = np.arange(len(X))
    family = bound_family("auto", X, np.ones(len(X)))
    assert [type(part) for part in family.families()[:2]] == [Gaussians, Laplacians]
    assert isinstance(choose_solver(family, len(X)), Blockwise)
    assert isinstance(bound_family("auto", X[:10], np.ones(10), solver="greedy"), Gaussians)


def test_the_levels_of_a_category_have_one_bandwidth():
    X, y = table()
    fitted = model().fit(X, y)
    levels = [name.startswith("city=") for name in fitted.columns_.names_out]
    assert sum(levels) == 3
    for part in fitted.combination_.family.families()[:2]:
        assert tuple(np.flatnonzero(levels).tolist()) in part.ard
    records = [record for record in fitted.combination_.records() if "sigma" in record]
    assert records and all(np.ptp(np.array(record["sigma"])[levels]) == 0 for record in records)


def test_a_category_of_many_levels_is_learned():
    rng = np.random.default_rng(0)
    effect = rng.normal(size=30)
    frame = pd.DataFrame({f"noise{j}": rng.normal(size=600) for j in range(4)})
    code = rng.integers(0, 30, 600)
    frame["place"] = [f"p{i}" for i in code]
    y = effect[code] + 0.3 * rng.normal(size=600)
    fitted = model().fit(frame[:400], y[:400])
    # The best anyone can do is 1 - .09/(var + .09), about .9; thirteen rows a level cost some of that.
    assert fitted.score(frame[400:], y[400:]) > 0.8


def test_a_second_fit_on_other_kernels_forgets_the_table():
    X, y = table()
    fitted = model().fit(X, y)
    numbers = X[["noise"]].to_numpy()
    fitted.set_params(kernels="gaussian", C=1.0).fit(numbers, y)
    assert not hasattr(fitted, "columns_") and fitted.n_features_in_ == 1


def test_bad_tables_are_refused_in_a_sentence():
    X, y = table(50)
    with pytest.raises(ValueError, match="constant"):
        model().fit(X[["constant"]], y)


def test_the_order_of_columns_and_rows_says_nothing():
    X, y = load_diabetes(return_X_y=True)
    X, y, rng = X[:150], y[:150], np.random.default_rng(0)
    plain = MKLRegressor().fit(X, y)
    columns, rows = rng.permutation(X.shape[1]), rng.permutation(len(X))
    turned = MKLRegressor().fit(X[:, columns], y).predict(X[:, columns])
    shuffled = MKLRegressor().fit(X[rows], y[rows]).predict(X)
    # What is learned is the same to the last bit; the machine on it sums up in another order.
    np.testing.assert_allclose(turned, plain.predict(X), rtol=1e-8)
    np.testing.assert_allclose(shuffled, plain.predict(X), rtol=1e-8)
    units = 10.0 ** np.arange(-5, 5)
    other = MKLRegressor().fit(X * units + 3.0, y).predict(X * units + 3.0)
    # An offset of 3 costs the smallest column seven digits, and steps magnify what is left of them.
    np.testing.assert_allclose(other, plain.predict(X), rtol=1e-3)
