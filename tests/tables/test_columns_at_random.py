"""Tables of random columns, of all kinds and with all kinds of gaps."""

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from manykernels.tables import Columns

pytestmark = pytest.mark.filterwarnings("ignore:Column .* is left out")

NUMBERS = st.floats(allow_nan=True, allow_infinity=False) | st.none()
VALUES = [
    NUMBERS,
    st.integers(-(10**20), 10**20) | st.none(),
    st.booleans() | st.none(),
    st.text(max_size=3) | st.none(),
    st.datetimes(min_value=dt.datetime(1700, 1, 1), max_value=dt.datetime(2200, 1, 1)) | st.none(),
    st.timedeltas(min_value=dt.timedelta(-1000), max_value=dt.timedelta(1000)) | st.none(),
    st.integers(0, 2) | st.sampled_from(["a", "b"]) | st.none(),
    st.binary(max_size=2),
]


@st.composite
def tables(draw):
    n = draw(st.integers(2, 12))
    kinds = draw(st.lists(st.sampled_from(VALUES), min_size=1, max_size=5))
    columns = [draw(st.lists(values, min_size=n, max_size=n)) for values in kinds]
    X = np.empty((n, len(columns)), dtype=object)
    for j, column in enumerate(columns):
        X[:, j] = column
    return X


def learned(X, weights=None):
    try:
        return Columns.fit(X, weights)
    except ValueError as error:
        assume("no column to learn from" not in str(error))
        raise


@settings(deadline=None, max_examples=150)
@given(tables())
def test_rows_become_finite_numbers_of_the_right_shape_and_always_the_same(X):
    columns = learned(X)
    Z = columns.transform(X)
    assert Z.dtype == np.float64 and Z.shape == (len(X), len(columns.names_out))
    assert np.isfinite(Z).all()
    np.testing.assert_allclose(Z.mean(axis=0)[columns_without_gaps(columns)], 0, atol=1e-6)
    np.testing.assert_array_equal(Z, learned(X.copy()).transform(X))
    np.testing.assert_array_equal(Z[::-1], columns.transform(X[::-1]))
    assert len(columns.notes) == columns.kinds.count("dropped")
    np.testing.assert_array_equal(np.concatenate(columns.blocks), np.arange(Z.shape[1]))


def columns_without_gaps(columns):
    """Return the columns that come out centred: all but the values of columns that have gaps, filled by medians."""
    names = set(columns.names_out)
    return [k for k, name in enumerate(columns.names_out) if f"{name}: missing" not in names]


@settings(deadline=None, max_examples=100)
@given(tables(), st.data())
def test_repeated_rows_are_weights(X, data):
    weights = data.draw(st.lists(st.integers(1, 3), min_size=len(X), max_size=len(X)))
    weighted, repeated = learned(X, weights), learned(np.repeat(X, weights, axis=0))
    np.testing.assert_array_equal(weighted.transform(X), repeated.transform(X))


@settings(deadline=None, max_examples=50)
@given(
    st.lists(
        st.tuples(NUMBERS, st.text(max_size=2) | st.none(), st.booleans() | st.none()),
        min_size=2,
        max_size=12,
    )
)
def test_pandas_and_polars_agree(rows):
    X = np.empty((len(rows), 3), dtype=object)
    X[:] = rows
    columns = learned(X)
    Z = columns.transform(X)
    types = [pl.Float64, pl.String, pl.Boolean]
    frames = [
        pd.DataFrame(X),
        pl.DataFrame({f"x{j}": pl.Series(X[:, j].tolist(), dtype=types[j]) for j in range(3)}),
    ]
    for frame in frames:
        np.testing.assert_array_equal(Columns.fit(frame).transform(frame), Z)
