"""Streams of tables as people have them: text, flags, dates and gaps, by the same columns as in memory."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from manykernels import MKLClassifier, MKLRegressor, load
from manykernels.families import Union
from manykernels.solvers import Blockwise, TriplyStochastic
from manykernels.streaming import open_source, predict_batches
from manykernels.streaming.sources import as_one
from manykernels.streaming.views import Part
from manykernels.tables import Columns
from manykernels.tables.reading import Table, joined, of_columns, of_matrix, open_table

pa = pytest.importorskip("pyarrow")
from pyarrow import dataset, parquet  # noqa: E402


def table(n=400, seed=0):
    rng = np.random.default_rng(seed)
    city = rng.choice(["Oslo", "Rome", "Lima"], n)
    frame = pd.DataFrame(
        {
            "price": rng.lognormal(5, 1, n),
            "city": np.where(rng.random(n) < 0.1, None, city),
            "size": pd.Categorical(rng.choice(["small", "large"], n)),
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 999, n), "D"),
            "member": rng.random(n) < 0.5,
            "count": pd.array(rng.integers(0, 9, n), dtype="Int64"),
            "constant": 1.0,
        }
    )
    y = pd.Series(city).map({"Oslo": 0.0, "Rome": 1.0, "Lima": -2.0}) + np.log(frame["price"])
    frame.loc[rng.random(n) < 0.1, "price"] = np.nan
    frame.loc[3, "count"] = pd.NA
    frame["y"] = y.to_numpy()
    return frame


FRAME = table()
X = FRAME.drop(columns="y")
Z = Columns.fit(X).transform(X)


def cut(rows, at=150):
    return [rows[:at], rows[at:]]


def arrow():
    return pa.Table.from_pandas(FRAME)


def write(folder, kind):
    path = folder / f"rows.{kind}"
    if kind == "csv":
        FRAME.to_csv(path, index=False)
    else:
        parquet.write_table(arrow(), path, row_group_size=130)
    return path


def folder_of(tmp_path):
    (tmp_path / "parts").mkdir()
    for i, part in enumerate(cut(FRAME)):
        part.to_parquet(tmp_path / "parts" / f"{i}.parquet", index=False)
    return tmp_path / "parts"


SOURCES = {
    "parquet": lambda tmp: write(tmp, "parquet"),
    "csv": lambda tmp: write(tmp, "csv"),
    "folder": folder_of,
    "dataset": lambda tmp: dataset.dataset(write(tmp, "parquet")),
    "arrow": lambda tmp: arrow(),
    "arrow batches": lambda tmp: arrow().to_batches(max_chunksize=150),
    "pandas": lambda tmp: cut(FRAME),
    "polars": lambda tmp: cut(pl.from_pandas(FRAME)),
    "dicts": lambda tmp: [{k: v.tolist() for k, v in part.items()} for part in cut(FRAME)],
}


def bound(source, y="y"):
    return open_source(source).bind(y, any_kind=True)


@pytest.mark.parametrize("kind", SOURCES)
def test_every_source_gives_the_numbers_of_the_table_in_memory(kind, tmp_path):
    chunks = list(bound(SOURCES[kind](tmp_path)).chunks())
    rows = as_one(chunks, "all").X
    assert rows.names == tuple(X.columns) and rows.shape == X.shape
    columns = Columns.fit(rows)
    assert_array_equal(columns.transform(rows), Z)
    assert_array_equal(np.concatenate([columns.transform(chunk.X) for chunk in chunks]), Z)
    chosen = np.arange(len(X)) % 3 == 0
    assert_array_equal(columns.transform(rows[chosen]), Z[chosen])
    assert_array_equal(columns.transform(rows[np.flatnonzero(chosen)]), Z[chosen])


def test_pairs_of_a_frame_or_an_array_with_gaps_and_targets():
    pairs = [(part.drop(columns="y"), part["y"]) for part in cut(FRAME)]
    rows = as_one(list(bound(pairs, None).chunks()), "all")
    assert_array_equal(Columns.fit(rows.X).transform(rows.X), Z)
    V = X[["price", "constant"]].to_numpy()
    rows = as_one(list(bound([(V[:9], FRAME["y"][:9]), (V[9:], FRAME["y"][9:])], None).chunks()), "all")
    assert_array_equal(rows.X, V)
    objects = X[["price", "city"]].to_numpy(dtype=object)
    rows = as_one(list(open_source(objects).bind(any_kind=True).chunks()), "all")
    assert_array_equal(Columns.fit(rows.X).transform(rows.X), Columns.fit(objects).transform(objects))


def test_numbers_stay_one_matrix_and_are_scaled_in_double_precision(tmp_path):
    V = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    parquet.write_table(pa.table({k: V[:, j] for j, k in enumerate("abc")}), tmp_path / "n.parquet")
    for source in (tmp_path / "n.parquet", [pd.DataFrame(V, columns=list("abc"))]):
        (chunk,) = bound(source, None).chunks()
        assert chunk.X.matrix.dtype == np.float32
        # Else predictions would depend on whether the same numbers came in single or in double precision.
        assert_array_equal(Columns.fit(chunk.X).transform(chunk.X), Columns.fit(V).transform(V.astype(float)))


def test_the_same_file_is_refused_by_kernels_on_numbers(tmp_path):
    with pytest.raises(ValueError, match="Column 'city' holds text"):
        open_source(write(tmp_path, "parquet")).bind("y")
    with pytest.raises(ValueError, match="Column 'price' holds a missing or infinite value"):
        list(open_source(FRAME[["price", "y"]]).bind("y").chunks())


def test_infinite_values_are_named_by_column_and_row(tmp_path):
    bad = FRAME.copy()
    bad.loc[200, "price"] = np.inf
    with pytest.raises(ValueError, match="Column 'price' holds an infinite value in row 200 of batch 1"):
        list(bound(cut(bad)).chunks())
    V = np.zeros((5, 2))
    V[3, 1] = -np.inf
    with pytest.raises(ValueError, match="Column 1 holds an infinite value in row 3"):
        list(bound([(V, np.zeros(5))], None).chunks())


def test_text_without_letters_is_missing_in_text_files(tmp_path):
    (tmp_path / "t.csv").write_text("a,b,y\nu,1,1\n,2,2\nv,,3\n")
    for whole in (False, True):
        (chunk,) = open_source(tmp_path / "t.csv", whole=whole).bind("y", any_kind=True).chunks()
        assert chunk.X.read(0).values.tolist() == ["u", None, "v"]
        assert np.isnan(chunk.X.read(1).values).tolist() == [False, False, True]


def test_kinds_that_differ_between_parts_are_levels_and_gaps_are_of_any_kind():
    def one(values):
        return of_columns([np.array(values, dtype=object)], ["a"])

    assert joined([one([1, 2]), one([None])]).read(0).held == "number"
    assert joined([one([None]), one(["u"])]).read(0).values.tolist() == [None, "u"]
    assert joined([one([1, 2]), one(["u"])]).read(0).values.tolist() == ["1", "2", "u"]
    assert joined([one([True]), one([2.5])]).read(0).held == "number"
    assert joined([one([1]), one([b"u"])]).read(0).held == "unusable"


def test_rows_of_a_matrix_with_names():
    V = np.arange(6.0).reshape(3, 2)
    rows = of_matrix(V, ["a", "b"])
    assert open_table(rows) is rows and len(rows) == 3
    assert_array_equal(rows[np.array([2, 0])].matrix, V[[2, 0]])
    assert isinstance(joined([rows, rows]), Table) and joined([rows, rows]).names == ("a", "b")


def test_columns_of_unequal_length_are_refused():
    with pytest.raises(ValueError, match=r"batch 0 .*: the columns have 2 and 3 rows"):
        list(bound([{"a": [1, 2], "b": [1, 2, 3]}], None).chunks())


# -- fits ----------------------------------------------------------------------------------------------


def regressor(**options):
    # Its kernels are a list of bandwidths, which it learns in a fraction of a second.
    return MKLRegressor(solver=TriplyStochastic(), random_state=0, C=10.0, **options)


@pytest.fixture(scope="module")
def fitted():
    return regressor().fit(FRAME, "y")


@pytest.mark.parametrize("kind", ["parquet", "csv", "pandas"])
def test_a_fit_on_a_source_is_that_in_memory(kind, fitted, tmp_path):
    # The order of units differs between a file and a table in memory, and with it that of sums.
    model = regressor().fit(SOURCES[kind](tmp_path), "y")
    new = table(seed=1)
    assert model.n_features_in_ == 7 and list(model.feature_names_in_) == list(X.columns)
    assert model.columns_.kinds == fitted.columns_.kinds and model.columns_.named
    assert np.corrcoef(model.predict(new), fitted.predict(new))[0, 1] > 0.99
    known = new["price"].notna() & new["city"].notna()
    assert model.score(new[known], new["y"][known]) > 0.5


@pytest.mark.slow
def test_the_default_learns_a_file_and_writes_what_it_predicts(tmp_path):
    model = MKLRegressor(random_state=0).fit(write(tmp_path, "csv"), "y")
    assert isinstance(model.solver_, Blockwise) and isinstance(model.combination_.family, Union)
    new = table(seed=1)
    known = new["price"].notna() & new["city"].notna()
    assert model.score(new[known], new["y"][known]) > 0.9
    new.to_parquet(tmp_path / "new.parquet")
    assert model.predict_to(tmp_path / "new.parquet", tmp_path / "out.csv") == len(new)


@pytest.mark.slow
def test_the_default_learns_batches_and_their_classes():
    labels = np.where(FRAME["y"] > 5, "high", "low")
    model = MKLClassifier(solver=Blockwise(), random_state=0)
    for rows, part in zip(cut(X), cut(labels), strict=True):
        model.partial_fit(rows, part, classes=["high", "low"])
    assert model.score(X, labels) > 0.8


def test_predictions_of_files_need_only_the_columns_in_use(fitted, tmp_path):
    new = table(seed=2).drop(columns=["constant", "y"])
    new.loc[0, "city"] = "Paris"
    turned = new[new.columns[::-1]]
    turned.to_csv(tmp_path / "new.csv", index=False)
    assert fitted.predict_to(tmp_path / "new.csv", tmp_path / "out.parquet") == len(new)
    answers = parquet.read_table(tmp_path / "out.parquet")["prediction"].to_numpy()
    # Batches of another number of rows may be summed in another order, in single precision.
    assert_allclose(answers, fitted.predict(new), rtol=1e-4)
    with pytest.raises(ValueError, match="no column 'city'"):
        list(predict_batches(fitted, new.drop(columns="city")))
    with pytest.raises(ValueError, match="'price' held numbers and now holds text"):
        list(predict_batches(fitted, new.assign(price="much")))


def test_a_model_file_predicts_without_the_table(fitted, tmp_path):
    fitted.save(tmp_path / "m.mk")
    assert_array_equal(load(tmp_path / "m.mk").predict(X), fitted.predict(X))


def test_a_fit_goes_on_from_a_checkpoint(tmp_path):
    whole = regressor().fit(write(tmp_path, "parquet"), "y")

    class Stop(Exception):
        pass

    def stop(step):
        raise Stop

    path = tmp_path / "rows.parquet"
    with pytest.raises(Stop):
        regressor().fit(path, "y", checkpoint=tmp_path / "c", on_iteration=stop)
    model = regressor().fit(path, "y", checkpoint=tmp_path / "c")
    assert not (tmp_path / "c").exists()
    assert_array_equal(model.predict(X), whole.predict(X))


def test_batches_go_by_the_columns_of_the_first():
    labels = np.where(FRAME["y"] > 5, "high", "low")
    model = MKLClassifier(solver=TriplyStochastic(), random_state=0, C=10.0)
    plain = MKLClassifier("gaussian", solver=TriplyStochastic(), random_state=0, C=10.0)
    new = X.copy()
    new.loc[399, "city"] = "Paris"
    columns = Columns.fit(X[:150])
    for rows, part in zip(cut(new), cut(labels), strict=True):
        model.partial_fit(rows, part, classes=["high", "low"])
        plain.partial_fit(columns.transform(rows), part, classes=["high", "low"])
    assert model.columns_.names_out == columns.names_out
    assert_array_equal(model.decision_function(X), plain.decision_function(columns.transform(X)))
    with pytest.raises(ValueError, match="column 'city' is missing"):
        model.partial_fit(X.drop(columns="city"), labels)


def test_a_second_beginning_forgets_the_table_before():
    y = FRAME["y"].to_numpy()
    model = regressor().partial_fit(X, y).set_params(kernels="gaussian")
    del model.state_
    with pytest.warns(UserWarning, match="begins anew"):
        model.partial_fit(np.arange(800.0).reshape(400, 2), y)
    assert not hasattr(model, "columns_")


def test_memory_maps_with_gaps_are_taken(tmp_path):
    rng = np.random.default_rng(0)
    V = np.lib.format.open_memmap(tmp_path / "v.npy", mode="w+", dtype=np.float32, shape=(300, 2))
    V[:] = rng.normal(size=V.shape)
    y = 3 * V[:, 0] + rng.normal(size=300) * 0.1
    V[::9, 1] = np.nan
    model = regressor().fit(V, y)
    assert np.corrcoef(model.predict(V), y)[0, 1] > 0.7


def test_sparse_rows_are_numbers():
    V = sparse.random(60, 4, density=0.5, format="coo", random_state=0)
    columns = Columns.fit(V)
    assert_array_equal(columns.transform(V), Columns.fit(V.toarray()).transform(V.toarray()))
    assert columns.transform(V.tocsr()[:0]).shape == (0, 4)
    wide = sparse.csr_matrix((100_000, 4))
    narrow = Columns.fit(np.eye(4).repeat(2, axis=0))
    with pytest.raises(ValueError, match="select columns first"):
        narrow.transform(wide, most=10**6)


def test_parts_of_a_source_are_rows_of_tables():
    source = bound(FRAME)
    some, others = Part(source, 0.3, 0), Part(source, 0.3, 0, others=True)
    counts = [sum(len(c) for c in part.chunks()) for part in (some, others)]
    assert sum(counts) == len(FRAME) and 0 < counts[0] < counts[1]
