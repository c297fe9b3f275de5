"""What columns become: each rule of `Columns` as a statement."""

import datetime as dt
import time
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp

from manykernels import MKLRegressor, load
from manykernels._util.shapes import Damaged
from manykernels.kernels import RBF
from manykernels.persistence import read_metadata, save
from manykernels.tables import Columns
from manykernels.tables.quantities import learn_number, weights_of

N = 60
DAYS = [dt.datetime(2020, 1, 1) + dt.timedelta(hours=37 * i) for i in range(N)]


def rng(seed=0):
    return np.random.default_rng(seed)


def mixed(seed=0):
    """Columns of every kind, each with a gap, as Python values."""
    r = rng(seed)
    table = {
        "age": r.normal(40, 10, N).tolist(),
        "visits": r.integers(0, 9, N).tolist(),
        "colour": r.choice(["red", "green", "blue"], N).tolist(),
        "member": (r.random(N) < 0.4).tolist(),
        "seen": list(DAYS),
        "lasted": [dt.timedelta(seconds=90.5 * i) for i in range(N)],
    }
    for k, name in enumerate(table):
        table[name][3 + 5 * k] = None
    return table


def objects(table):
    out = np.empty((N, len(table)), dtype=object)
    for j, values in enumerate(table.values()):
        out[:, j] = values
    return out


def reordered(table, order):
    return {name: [values[i] for i in order] for name, values in table.items()}


def as_pandas(table):
    return pd.DataFrame(
        {name: pd.Series(values, dtype=object).infer_objects() for name, values in table.items()}
    )


def as_nullable(table):
    return as_pandas(table).convert_dtypes()


def as_categories(table):
    return as_pandas(table).astype({"colour": "category"})


def as_arrow_in_pandas(table):
    return pa.table(table).to_pandas(types_mapper=pd.ArrowDtype)


def as_polars(table):
    return pl.DataFrame(table, strict=False)


def as_polars_categories(table):
    return as_polars(table).with_columns(pl.col("colour").cast(pl.Categorical))


def as_polars_enum(table):
    return as_polars(table).with_columns(pl.col("colour").cast(pl.Enum(["red", "green", "blue", "grey"])))


def as_arrow(table):
    return pa.table(table)


def as_arrow_dictionary(table):
    arrow = pa.table(table)
    return arrow.set_column(2, "colour", arrow["colour"].dictionary_encode())


def as_rows(table):
    return objects(table).tolist()


FORMS = [
    as_pandas,
    as_nullable,
    as_categories,
    as_arrow_in_pandas,
    as_polars,
    as_polars_categories,
    as_polars_enum,
    as_arrow,
    as_arrow_dictionary,
    as_rows,
]


def one(values, weights=None, **new):
    """Return what one column of values becomes."""
    frame = pd.DataFrame({"a": values})
    columns = Columns.fit(frame, weights)
    return columns.transform(pd.DataFrame({"a": new["then"]}) if new else frame)


# -- kinds of tables -----------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_a_table_gives_the_same_numbers_in_whatever_form_it_comes(form):
    table, later = mixed(), mixed(1)
    plain = Columns.fit(objects(table))
    columns = Columns.fit(form(table))
    assert columns.kinds == plain.kinds == ("number", "number", "category", "flag", "date", "date")
    np.testing.assert_array_equal(columns.transform(form(table)), plain.transform(objects(table)))
    np.testing.assert_array_equal(columns.transform(form(later)), plain.transform(objects(later)))
    if form is not as_rows:
        assert columns.names_in == tuple(table) and columns.named


def test_numpy_arrays_of_any_type_of_numbers_are_numbers():
    X = rng().integers(0, 9, (30, 3))
    expected = Columns.fit(X).transform(X)
    for same in (X.astype(np.float64), X.astype(np.int8), X.astype(np.float32), X.astype(object), X.tolist()):
        np.testing.assert_array_equal(Columns.fit(same).transform(same), expected)
    for same in (sp.csr_matrix(X), sp.csc_array(X)):
        np.testing.assert_array_equal(Columns.fit(same).transform(same), expected)


def test_boolean_arrays_are_flags():
    X = rng().random((30, 2)) < 0.5
    assert Columns.fit(X).kinds == ("flag", "flag")
    np.testing.assert_array_equal(Columns.fit(X).transform(X), Columns.fit(X * 1.0).transform(X * 1.0))


def test_columns_of_pandas_without_text_as_names_go_by_position():
    X = rng().random((20, 2))
    columns = Columns.fit(pd.DataFrame(X))
    assert not columns.named and columns.names_in == ("0", "1")
    np.testing.assert_array_equal(columns.transform(X), columns.transform(pd.DataFrame(X)))


def test_names_of_an_array_are_numbered():
    columns = Columns.fit(rng().random((20, 2)))
    assert columns.names_in == columns.names_out == ("x0", "x1")


# -- numbers -------------------------------------------------------------------------------------------


def test_numbers_are_centred_and_in_units_of_their_spread():
    Z = one(rng().normal(5, 3, 50))
    np.testing.assert_allclose([Z.mean(), Z.std()], [0, 1], atol=1e-12)


def test_numbers_far_outside_are_bounded_one_range_beyond_the_quantiles():
    x = np.arange(1000.0)
    columns = Columns.fit(x[:, None])
    q01, q99 = 9.5, 989.5
    for far, bound in ((1e30, q99 + (q99 - q01)), (-1e30, q01 - (q99 - q01))):
        expected = (bound - x.mean()) / x.std()
        np.testing.assert_allclose(columns.transform([[far]]), expected)


def test_a_wild_value_at_fit_is_bounded_before_the_spread_is_taken():
    x = rng().random(1000)
    wild = np.r_[x, 1e12]
    np.testing.assert_allclose(one(wild)[:-1].std(), 1, atol=0.02)


def test_where_the_quantiles_are_equal_minimum_and_maximum_are_the_bounds():
    x = np.r_[np.zeros(999), 1.0]
    columns = Columns.fit(x[:, None])
    np.testing.assert_allclose(columns.transform(x[:, None])[:, 0], (x - x.mean()) / x.std())
    np.testing.assert_array_equal(columns.transform([[7.0]]), columns.transform([[1.0]]))


@pytest.mark.parametrize("size", [1e300, 1.7e308, 1e-300, 5e-324])
def test_numbers_of_any_finite_size_are_well(size):
    Z = one(np.array([-1.0, 0, 1, 1]) * size)
    np.testing.assert_allclose(Z[:, 0], one(np.array([-1.0, 0, 1, 1]))[:, 0])


def test_missing_numbers_are_the_median_and_have_an_indicator():
    x = np.array([1, 2, 10, 4, np.nan, np.nan])
    columns = Columns.fit(x[:, None])
    assert columns.names_out == ("x0", "x0: missing")
    Z = columns.transform(x[:, None])
    known = x[:4]
    np.testing.assert_allclose(Z[:4, 0], (known - known.mean()) / known.std())
    np.testing.assert_allclose(Z[4:, 0], (3 - known.mean()) / known.std())
    np.testing.assert_allclose([Z[:, 1].mean(), Z[:, 1].std()], [0, 1], atol=1e-12)
    np.testing.assert_array_equal(Z[:, 1] > 0, np.isnan(x))


def test_numbers_missing_only_at_prediction_are_the_median():
    columns = Columns.fit([[1.0], [2.0], [9.0]])
    np.testing.assert_array_equal(columns.transform([[None]]), columns.transform([[2.0]]))


def test_one_number_and_gaps_leave_the_indicator():
    columns = Columns.fit([[5.0], [5.0], [None], [5.0]])
    assert columns.names_out == ("x0: missing",) and columns.kinds == ("number",)
    np.testing.assert_array_equal(columns.transform([[7.0]]), columns.transform([[5.0]]))


def test_numbers_in_object_columns_are_numbers_and_numerals_are_text():
    columns = Columns.fit([[1, "1"], [2.5, "2.5"], [True, "1"]])
    assert columns.kinds == ("number", "category")
    assert columns.names_out == ("x0", "x1=1", "x1=2.5")


# -- dates ---------------------------------------------------------------------------------------------


def test_dates_are_seconds():
    seconds = [[day.replace(tzinfo=dt.UTC).timestamp()] for day in DAYS]
    expected = Columns.fit(seconds).transform(seconds)
    for unit in ("s", "ms", "us", "ns"):
        X = np.array(DAYS, dtype=f"M8[{unit}]")[:, None]
        np.testing.assert_allclose(Columns.fit(X).transform(X), expected, rtol=1e-12)


def test_dates_without_times_are_dates():
    X = [[day.date()] for day in DAYS]
    frames = (X, pl.DataFrame(X, orient="row"), np.array(X, dtype="M8[D]"))
    first, *others = (Columns.fit(frame).transform(frame) for frame in frames)
    for other in others:
        np.testing.assert_array_equal(first, other)


def test_time_zones_are_respected():
    there = [day.replace(tzinfo=ZoneInfo("Asia/Tokyo")) for day in DAYS]
    here = [day.astimezone(dt.UTC) for day in there]
    expected = [day.timestamp() for day in there]
    for make in (pd.Series, pl.Series, lambda days: pd.Series(days, dtype=object)):
        frames = [type(make(days).to_frame("a"))({"a": make(days)}) for days in (there, here)]
        columns = Columns.fit(frames[0])
        assert columns.kinds == ("date",)
        np.testing.assert_array_equal(*(columns.transform(frame) for frame in frames))
        np.testing.assert_allclose(columns.transform(frames[0]), one(expected), atol=1e-9)


def test_times_of_day_are_seconds():
    X = [[dt.time(1 + i % 20, i, 5)] for i in range(N)]
    seconds = [[t.hour * 3600 + t.minute * 60 + t.second] for [t] in X]
    expected = Columns.fit(seconds).transform(seconds)
    for frame in (X, pl.DataFrame(X, orient="row"), pa.table({"a": [t for [t] in X]})):
        np.testing.assert_array_equal(Columns.fit(frame).transform(frame), expected)


# -- categories ----------------------------------------------------------------------------------------


def test_a_block_of_levels_is_centred_with_variances_that_sum_to_1():
    Z = one(["b", "a", "c", "b", "b", "a"])
    np.testing.assert_allclose(Z.mean(axis=0), 0, atol=1e-15)
    np.testing.assert_allclose(Z.var(axis=0).sum(), 1)
    units = (Z.max(axis=0) - Z.min(axis=0))[0]
    np.testing.assert_allclose(Z.max(axis=0) - Z.min(axis=0), units)


def test_levels_are_sorted_and_missing_ones_come_last():
    columns = Columns.fit(pd.DataFrame({"a": ["z", "b", None, "missing"]}))
    assert columns.names_out == ("a=b", "a=missing", "a=z", "a: missing")
    Z = columns.transform(pd.DataFrame({"a": [None, "missing", "b"]}))
    assert Z.argmax(axis=1).tolist() == [3, 1, 0]


def test_a_level_never_seen_and_one_missing_for_the_first_time_are_no_level():
    columns = Columns.fit([["a"], ["b"], ["a"]])
    np.testing.assert_array_equal(columns.transform([["new"], [None]]), 0)


def test_declared_categories_that_do_not_occur_have_no_column():
    frame = pd.DataFrame({"a": pd.Categorical(["x", "y", "x"], categories=["w", "x", "y"])})
    assert Columns.fit(frame).names_out == ("a=x", "a=y")


def test_categories_of_numbers_are_categories_with_and_without_gaps():
    forms = (
        pd.DataFrame({"a": pd.Categorical([3, 1, None, 3])}),
        pa.table({"a": pa.array([3, 1, None, 3]).dictionary_encode()}),
    )
    for frame in forms:
        columns = Columns.fit(frame)
        assert columns.names_out == ("a=1", "a=3", "a: missing")
        assert columns.transform(frame).argmax(axis=1).tolist() == [1, 0, 2, 1]


def test_the_rarest_of_many_levels_share_a_column():
    values = [f"v{i:03}" for i in range(100) for _ in range(2 + (i < 70))]
    columns = Columns.fit(pd.DataFrame({"a": values}))
    assert len(columns.names_out) == 64 and columns.names_out[-1] == "a: other"
    assert columns.names_out[:63] == tuple(f"a=v{i:03}" for i in range(63))  # ties go by name
    rare, new = columns.transform(pd.DataFrame({"a": ["v063", "never seen"]}))
    assert rare.argmax() == 63
    np.testing.assert_array_equal(new, 0)


def test_blocks_hold_every_column_once_and_the_levels_of_a_category_together():
    columns = Columns.fit(as_pandas(mixed()))
    sizes = [len(block) for block in columns.blocks]
    assert sizes == [1, 1, 1, 1, 4, 1, 1, 1, 1, 1, 1]
    np.testing.assert_array_equal(np.concatenate(columns.blocks), np.arange(len(columns.names_out)))
    assert [columns.names_out[k] for k in columns.blocks[4]] == [
        "colour=blue",
        "colour=green",
        "colour=red",
        "colour: missing",
    ]


# -- columns left out ----------------------------------------------------------------------------------


def test_columns_that_cannot_be_used_are_left_out_with_a_note():
    n = 200
    frame = pd.DataFrame(
        {
            "good": rng().random(n),
            "same": np.ones(n),
            "word": "one",
            "void": np.full(n, np.nan),
            "none": [None] * n,
            "id": [f"person {i}" for i in range(n)],
            "lists": [[1, 2]] * n,
            "bytes": [b"a", b"b"] * (n // 2),
            "complex": np.ones(n) * 1j,
        }
    )
    with pytest.warns(
        UserWarning, match=r"^Column 'void' is left out: .* Column 'complex' is left out"
    ) as said:
        columns = Columns.fit(frame)
    assert len(said) == 1 and "'same'" not in str(said[0].message)  # nobody misses a constant
    assert columns.kinds == ("number",) + ("dropped",) * 8 and columns.names_out == ("good",)
    reasons = (
        "one value",
        "one value",
        "missing",
        "missing",
        "200 different values",
        "list",
        "bytes",
        "complex",
    )
    assert len(columns.notes) == 8
    for name, note, reason in zip(frame.columns[1:], columns.notes, reasons):
        assert note.startswith(f"Column {name!r} is left out: ") and reason in note and note.endswith(".")


@pytest.mark.filterwarnings("ignore:Column 'l' is left out")
def test_nested_and_binary_types_of_polars_and_arrow_are_left_out():
    table = {
        "good": [1.0, 2.0],
        "l": [[1], [2]],
        "s": [{"a": 1}, {"a": 2}],
        "b": [b"x", b"y"],
        "n": [None, None],
    }
    for frame in (pl.DataFrame(table), pa.table(table)):
        assert Columns.fit(frame).kinds == ("number", *["dropped"] * 4)


@pytest.mark.filterwarnings("ignore:Column 'a' is left out")
def test_an_identifier_has_no_value_twice_or_more_than_64_values_in_more_than_half_of_the_rows():
    def kind(values):
        return Columns.fit(pd.DataFrame({"a": values, "b": range(len(values))})).kinds[0]

    assert kind([f"{i}" for i in range(12)]) == "category"
    assert kind([f"{i}" for i in range(13)]) == "dropped"
    assert kind([f"{i}" for i in range(13)] + ["3"]) == "category"
    assert kind([f"{i}" for i in range(65)] + ["3"]) == "dropped"
    assert kind([f"{i}" for i in range(65)] * 2) == "category"
    assert kind([f"{i}" for i in range(65)] + [None] * 200) == "dropped"


def test_values_that_differ_by_rounding_are_one_value():
    assert Columns.fit(np.array([[0.1 + 0.2, 1], [0.3, 2]])).kinds == ("dropped", "number")


def test_columns_left_out_need_not_be_there_later():
    columns = Columns.fit(pd.DataFrame({"a": [1, 2], "same": [0, 0]}))
    assert columns.transform(pd.DataFrame({"a": [1]})).shape == (1, 1)


# -- weights, order, units -----------------------------------------------------------------------------


def test_a_weight_equals_a_repetition_to_the_last_bit():
    table, weights = mixed(), rng(1).integers(0, 4, N)
    again = reordered(table, np.repeat(np.arange(N), weights))
    weighted = Columns.fit(as_pandas(table), weights)
    repeated = Columns.fit(as_pandas(again))
    assert weighted.names_out == repeated.names_out
    np.testing.assert_array_equal(*(c.transform(as_pandas(table)) for c in (weighted, repeated)))


def test_equal_weights_are_none():
    frame = as_pandas(mixed())
    np.testing.assert_allclose(
        Columns.fit(frame, np.full(N, 0.3)).transform(frame), Columns.fit(frame).transform(frame), rtol=1e-12
    )


def test_the_size_of_weights_does_not_matter():
    frame, weights = as_pandas(mixed()), rng(1).random(N)
    first, second = (Columns.fit(frame, w).transform(frame) for w in (weights, weights / 7e5))
    np.testing.assert_allclose(first, second, rtol=1e-9, atol=1e-12)


def test_the_rarest_levels_are_rare_by_weight():
    values = [f"{i:03}" for i in range(100)] * 3
    weights = np.tile(np.arange(1.0, 101), 3)
    columns = Columns.fit(pd.DataFrame({"a": values}), weights)
    assert columns.names_out[:-1] == tuple(f"a={i:03}" for i in range(37, 100))


@pytest.mark.parametrize("weighted", [False, True])
def test_the_order_of_rows_does_not_matter_to_the_last_bit(weighted):
    table, order = mixed(), rng(2).permutation(N)
    weights = rng(3).random(N) if weighted else np.ones(N)
    here = Columns.fit(as_pandas(table), weights)
    there = Columns.fit(as_pandas(reordered(table, order)), weights[order])
    np.testing.assert_array_equal(*(c.transform(as_pandas(table)) for c in (here, there)))


@pytest.mark.parametrize("unit, zero", [(1e-9, 0), (0.3048, 0), (1.8, 32), (1, 1e4), (-3, 5)])
def test_other_units_and_zeros_do_not_matter(unit, zero):
    x = rng().standard_cauchy(500)
    x[::50] = np.nan
    Z, other = one(x), one(unit * x + zero)
    np.testing.assert_allclose(other[:, 0] * np.sign(unit), Z[:, 0], atol=1e-9)
    np.testing.assert_array_equal(other[:, 1], Z[:, 1])


# -- bad input -----------------------------------------------------------------------------------------


def message(call, *args):
    with pytest.raises(ValueError) as caught:
        call(*args)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_infinite_values_are_refused_in_one_message_by_name_and_row():
    frame = pd.DataFrame({"a": [1, np.inf, 2], "b": [1, 2, 3], "c": [0, 1, -np.inf]})
    text = message(Columns.fit, frame)
    assert "column 'a' holds an infinite value in row 1; column 'c' holds an infinite value in row 2" in text
    columns = Columns.fit(frame.replace([np.inf, -np.inf], 9))
    assert "column 'a'" in message(columns.transform, frame)
    assert "column 1 holds an infinite value in row 0" in message(Columns.fit, [[1, 10**400], [2, 3]])


def test_two_columns_of_one_name_are_refused_by_name():
    for frame in (
        pd.DataFrame(np.ones((2, 4)), columns=["a", "b", "a", "c"]),
        pa.table([[1], [2], [3]], names=["a", "b", "a"]),
    ):
        assert "more than one column called 'a';" in message(Columns.fit, frame)


def test_a_table_without_a_column_to_learn_from_says_why_for_each():
    text = message(Columns.fit, pd.DataFrame({"a": [1, 1], "b": [None, None]}))
    assert "Column 'a' is left out: it has one value only." in text
    assert "Column 'b' is left out: all of its values are missing." in text


def test_all_that_is_wrong_at_prediction_is_in_one_message():
    columns = Columns.fit(as_pandas(mixed()))
    wrong = pd.DataFrame(
        {"age": ["old"], "visits": [np.inf], "seen": [5.0], "colour": [["red"]], "lasted": ["long"]}
    )
    text = message(columns.transform, wrong)
    for part in (
        "column 'member' is missing",
        "column 'age' held numbers and now holds text, such as 'old'",
        "column 'visits' holds an infinite value in row 0",
        "column 'seen' held dates or times and now holds numbers, such as 5.0",
        "column 'colour' held text and now holds values of the type list",
    ):
        assert part in text


def test_further_columns_are_ignored_and_the_order_of_columns_is_free():
    frame = as_pandas(mixed())
    columns = Columns.fit(frame)
    turned = frame[frame.columns[::-1]].assign(more="text")
    np.testing.assert_array_equal(columns.transform(turned), columns.transform(frame))


def test_without_names_the_number_of_columns_is_checked():
    columns = Columns.fit(rng().random((5, 3)))
    assert "X has 2 features, but Columns is expecting 3 features" in message(
        columns.transform, np.ones((1, 2))
    )


def test_columns_that_are_all_missing_at_prediction_are_missing():
    columns = Columns.fit(as_pandas(mixed()))
    void = {name: [None, None] for name in columns.names_in}
    Z = columns.transform(pd.DataFrame(void))
    np.testing.assert_array_equal(Z, columns.transform(pl.DataFrame(void)))
    np.testing.assert_array_equal(Z, columns.transform(pd.DataFrame(void, dtype=float)))
    np.testing.assert_array_equal(Z, columns.transform(pa.table(void)))


@pytest.mark.parametrize(
    "X, words",
    [
        (np.ones(3), "Reshape your data"),
        ([1, 2, 3], "Reshape your data"),
        (pd.Series([1, 2]), "Reshape your data"),
        (pl.LazyFrame({"a": [1]}), "LazyFrame"),
        ("text", "str"),
        (None, "NoneType"),
        (np.ones((2, 2)) * 1j, "Complex data not supported"),
        (np.ones((3, 0)), "0 feature"),
        (np.ones((0, 3)), "0 sample"),
        ([[1, 2], [3]], "Row 1 of X has 1 values"),
    ],
)
def test_what_is_no_table_is_refused(X, words):
    assert words in message(Columns.fit, X)


@pytest.mark.parametrize("weights", [np.ones(4), [1, -1, 1], [1, np.nan, 1], np.zeros(3), np.ones((3, 1))])
def test_bad_weights_are_refused(weights):
    assert "sample_weight" in message(Columns.fit, [[1], [2], [3]], weights)


def test_long_lists_of_problems_are_cut():
    X = np.full((2, 1000), np.inf)
    assert "and 980 more columns" in message(Columns.fit, X)


# -- files, time ---------------------------------------------------------------------------------------


def test_columns_come_back_from_a_model_file(tmp_path):
    table = mixed() | {"many": [f"{i % 40}" for i in range(N)], "same": [1] * N}
    frame = as_pandas(table)
    columns = Columns.fit(frame, rng().random(N))
    model = MKLRegressor([RBF(1.0)]).fit(columns.transform(frame), np.arange(N))
    model.columns_, model.n_features_in_ = columns, len(columns.names_in)
    save(model, tmp_path / "model", metadata={"columns": columns})
    for back in (load(tmp_path / "model").columns_, read_metadata(tmp_path / "model")["columns"]):
        assert isinstance(back, Columns)
        for name in ("names_in", "names_out", "kinds", "notes", "named", "levels", "rare"):
            assert getattr(back, name) == getattr(columns, name)
        np.testing.assert_array_equal(back.transform(frame), columns.transform(frame))
        for mine, theirs in zip(back.blocks, columns.blocks, strict=True):
            np.testing.assert_array_equal(mine, theirs)


@pytest.mark.slow  # a clock, so it wants a quiet machine
def test_a_hundred_thousand_rows_of_fifty_columns_take_about_a_second():
    n = 100_000
    frame = pd.DataFrame(rng().random((n, 30)), columns=[f"n{j}" for j in range(30)])
    words = np.array([f"level {i}" for i in range(9)], dtype=object)
    frame = frame.assign(**{f"t{j}": words[rng(j).integers(0, 9, n)] for j in range(20)})
    start = time.process_time()
    Columns.fit(frame).transform(frame)
    assert time.process_time() - start < 4


def test_columns_know_what_has_become_of_each():
    table = pd.DataFrame(
        {
            "same": [1.0] * 4,
            "gaps": [1.0, 2.0, np.nan, 4.0],
            "kind": ["a", "b", "a", "c"],
            "size": [1.0, 3.0, 2.0, 7.0],
        }
    )
    columns = Columns.fit(table)
    made = {origin.name: [columns.names_out[j] for j in origin.outside] for origin in columns.origins}
    assert made == {
        "gaps": ["gaps", "gaps: missing"],
        "kind": ["kind=a", "kind=b", "kind=c"],
        "size": ["size"],
    }
    assert [origin.inside for origin in columns.origins] == [(1,), (2,), (3,)]


def test_one_column_alone_becomes_what_it_is_in_the_table():
    table = pd.DataFrame({"size": [1.0, 3.0, np.nan, 7.0], "kind": ["a", "b", "a", "c"]})
    columns = Columns.fit(table)
    rows = columns.transform(table)
    for origin in columns.origins:
        j = origin.inside[0]
        alone = columns.transform_column(j, table.iloc[:, j].tolist())
        np.testing.assert_array_equal(alone, rows[:, list(origin.outside)])
    assert columns.read(table[["kind", "size"]], 1).values.tolist() == ["a", "b", "a", "c"]


@pytest.mark.parametrize("low, high", [(1e308, 1.7e308), (-1.7e308, -1e308), (1.0, 0.0), (0.0, np.inf)])
def test_bounds_that_leave_no_number_between_them_are_damaged(low, high):
    known = learn_number(np.arange(5.0), weights_of(None, 5))
    with pytest.raises(Damaged, match="what was learned of a column"):
        known._replace(low=low, high=high).check_stored()
