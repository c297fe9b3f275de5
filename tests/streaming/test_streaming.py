"""Rows that come in batches: sources, the order of a pass, what is refused, and predictions to files."""

import datetime
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from manykernels import MKLClassifier, MKLRegressor
from manykernels.families import Products
from manykernels.kernels import Laplacian, Linear
from manykernels.problem import Problem
from manykernels.solvers import Blockwise, SimpleMKL
from manykernels.streaming import open_source, predict_batches
from manykernels.streaming import sources as _sources
from manykernels.streaming.sources import uniform
from manykernels.streaming.stream import HeldOut, MemoryStream, RowReport, rebatched, shuffled
from manykernels.streaming.survey import Sample
from manykernels.streaming.views import Part

from ..streaming_ridge import OrderedRidge

pa = pytest.importorskip("pyarrow")
from pyarrow import csv, dataset, feather, parquet  # noqa: E402

N = 1000
rng = np.random.default_rng(0)
X = rng.normal(size=(N, 3)).astype(np.float32)
y = (X @ [1.0, -2.0, 0.5] + 3 + 0.1 * rng.normal(size=N)).astype(float)
s = rng.integers(0, 3, size=N).astype(float)
labels = np.array(["no", "perhaps", "yes"])[np.digitize(y, [1.0, 4.0])]
TABLE = pa.table(
    {"a": X[:, 0], "y": y, "b": X[:, 1], "label": labels, "w": s, "c": X[:, 2], "flag": X[:, 0] > 0}
)
PLAIN = ["a", "b", "c"]


def regressor(**options):
    return MKLRegressor(Products(degree=1), solver=OrderedRidge(**options), random_state=0, C=1.0)


def classifier(**options):
    return MKLClassifier(
        Products(degree=1), solver=OrderedRidge(**{"epochs": 5, "step": 0.3} | options), random_state=0, C=1.0
    )


def one_pass(source, y=None, sample_weight=None, *, number=0, model=None, **options):
    """Return X, Y, s of a pass, as the solver sees them."""
    seen = []

    class Recorder(OrderedRidge):
        def solve_stream(self, stream, **kwargs):
            self.stream = stream
            seen.extend(stream.epoch(number))
            seen.append(stream)
            return super().solve_stream(stream, **kwargs)

    made = model or MKLRegressor(Products(degree=1), solver=Recorder(**options), random_state=0, C=1.0)
    made.set_params(solver=Recorder(**options))
    made.fit(source, y, sample_weight)
    *batches, stream = seen
    return (
        [np.concatenate([getattr(b, k) for b in batches]) for k in ("X", "Y", "sample_weight")],
        stream,
        made,
    )


def sorted_rows(X):
    return X[np.lexsort(X.T)]


def write(folder, ending, table=None, **options):
    table = TABLE.select(["a", "y", "b", "c"]) if table is None else table
    path = folder / f"rows.{ending}"
    if ending == "csv":
        csv.write_csv(table, path)
    elif ending == "tsv":
        csv.write_csv(table, path, write_options=csv.WriteOptions(delimiter="\t"))
    elif ending == "parquet":
        parquet.write_table(table, path, **({"row_group_size": 130} | options))
    else:
        feather.write_feather(table, str(path))
    return path


# -- sources -------------------------------------------------------------------------------------------


def as_source(kind, folder):
    """Return the same rows in another shape, and what to pass as y."""
    plain = TABLE.select(["a", "y", "b", "c"])
    if kind in ("csv", "tsv", "parquet", "feather", "arrow"):
        return write(folder, kind), "y"
    if kind == "text path":
        return str(write(folder, "parquet")), "y"
    if kind == "folder":
        for i in range(3):
            (folder / f"part{i}").mkdir()
            write(folder / f"part{i}", "parquet", plain.slice(400 * i, 400))
        (folder / "_SUCCESS").write_text("")
        return folder, "y"
    if kind == "pattern":
        for i in range(3):
            (folder / f"part{i}").mkdir()
            write(folder / f"part{i}", "parquet", plain.slice(400 * i, 400))
            (folder / f"part{i}" / "notes.txt").write_text("none")
        return f"{folder}/part*/*", "y"
    if kind == "dataset":
        return dataset.dataset(write(folder, "parquet")), "y"
    if kind == "table dataset":
        return dataset.dataset(plain), "y"
    if kind == "memory map":
        np.save(folder / "X.npy", X)
        return np.load(folder / "X.npy", mmap_mode="r"), y
    if kind == "record batches":
        return plain.to_batches(90), "y"
    if kind == "data frames":
        return [plain.slice(i, 250).to_pandas() for i in range(0, N, 250)], "y"
    if kind == "dicts":
        return [{k: plain[k].to_numpy()[i : i + 300] for k in "aybc"} for i in range(0, N, 300)], "y"
    if kind == "data frame":
        return plain.to_pandas(), "y"
    if kind == "pairs":
        return [(X[i : i + 170], y[i : i + 170]) for i in range(0, N, 170)], None
    if kind == "loader":
        return Loader(X, y), None
    raise AssertionError(kind)


class Loader:
    """Batches as another library would hand them out."""

    def __init__(self, *arrays):
        self.arrays = arrays

    def __iter__(self):
        return zip(*(np.array_split(a, 7) for a in self.arrays), strict=True)

    def __len__(self):
        return 7


KINDS = [
    "csv",
    "tsv",
    "parquet",
    "feather",
    "arrow",
    "text path",
    "folder",
    "pattern",
    "dataset",
    "table dataset",
    "memory map",
    "record batches",
    "data frames",
    "dicts",
    "data frame",
    "pairs",
    "loader",
]


@pytest.mark.parametrize("kind", KINDS)
def test_every_source_gives_every_row_once_a_pass(kind, tmp_path):
    (tmp_path / "rows").mkdir()
    source, target = as_source(kind, tmp_path / "rows")
    (rows, Y, weights), stream, model = one_pass(source, target)
    assert stream.n_rows == N
    # Text keeps the shortest digits that give the float32 back, so that float64 differs in the last bits.
    assert_allclose(sorted_rows(rows.astype(np.float32)), sorted_rows(X), rtol=1e-6)
    assert_allclose(model.target_mean_, [y.mean()])
    assert_allclose(np.sort(Y[:, 0]), np.sort(y - y.mean()), atol=1e-9)
    assert (weights == 1).all()
    assert not np.array_equal(rows.astype(np.float32), X), "the rows should be shuffled"
    assert model.predict_to(source, tmp_path / "out.csv") == N


@pytest.mark.parametrize("kind", ["parquet", "csv", "record batches"])
def test_the_first_sample_of_a_small_source_is_all_of_it_in_order(kind, tmp_path):
    source, target = as_source(kind, tmp_path)
    _, stream, _ = one_pass(source, target)
    assert_allclose(stream.first.X, X, rtol=1e-6)


def test_columns_keep_their_names_and_order(tmp_path):
    path = write(tmp_path, "parquet", TABLE)
    source = open_source(path, drop=["label"])
    model = regressor().fit(source, "y", sample_weight="w")
    assert list(model.feature_names_in_) == ["a", "b", "c", "flag"]
    kernels = {"left": Linear(columns=["b", "a"]), "right": Linear(columns=["flag"])}
    model = MKLRegressor(kernels, solver=OrderedRidge(), random_state=0, C=1.0).fit(
        source, "y", sample_weight="w"
    )
    assert model.combination_.family.size() == 2


def test_columns_can_be_chosen(tmp_path):
    model = regressor().fit(open_source(write(tmp_path, "parquet", TABLE), columns=["c", "a"]), "y")
    assert list(model.feature_names_in_) == ["c", "a"]


def shuffled_frame(named=None):
    frame = TABLE.select(["a", "b", "c", "y"]).to_pandas().sample(frac=1, random_state=0)
    frame.index.name = named
    return frame


INDEXED = {
    "parquet": lambda frame, path: frame.to_parquet(path),
    "feather": lambda frame, path: feather.write_feather(pa.Table.from_pandas(frame), str(path)),
    "csv": lambda frame, path: frame.to_csv(path),
}


@pytest.mark.filterwarnings("ignore:A column without a name")
@pytest.mark.parametrize("ending", INDEXED)
def test_the_index_of_a_data_frame_is_no_feature(ending, tmp_path):
    path, frame = tmp_path / f"rows.{ending}", shuffled_frame()
    INDEXED[ending](frame, path)
    model = regressor().fit(path, "y")
    assert list(model.feature_names_in_) == PLAIN
    answers = model.predict(frame[PLAIN])
    model.predict_to(path, tmp_path / "out.csv")
    assert_allclose(csv.read_csv(tmp_path / "out.csv")["prediction"], answers, rtol=1e-6)
    nameless = regressor().fit(frame[[*PLAIN, "y"]].to_numpy(), frame["y"])
    nameless.predict_to(path, tmp_path / "out.csv")  # columns by their order: without the index they are four


@pytest.mark.parametrize("source", ["file", "table", "batches", "dataset"])
def test_an_index_can_be_asked_for(source, tmp_path):
    frame = shuffled_frame("day")
    frame.to_parquet(tmp_path / "rows.parquet")
    table = pa.Table.from_pandas(frame)
    rows = {
        "file": tmp_path / "rows.parquet",
        "table": table,
        "batches": table.to_batches(300),
        "dataset": dataset.dataset(tmp_path / "rows.parquet"),
    }[source]
    assert list(regressor().fit(rows, "y").feature_names_in_) == PLAIN
    assert list(regressor().fit(rows, "day").feature_names_in_) == [*PLAIN, "y"]
    assert list(regressor().fit(rows, "y", "day").feature_names_in_) == PLAIN
    model = regressor().fit(open_source(rows, columns=["a", "day"]), "y")
    assert list(model.feature_names_in_) == ["a", "day"]
    assert sum(map(len, predict_batches(model, rows))) == N


def test_a_column_without_a_name_is_left_out_with_a_warning(tmp_path):
    shuffled_frame().to_csv(tmp_path / "rows.csv")
    with pytest.warns(UserWarning, match="A column without a name is left out.*index=False") as caught:
        model = regressor().fit(tmp_path / "rows.csv", "y")
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        next(predict_batches(model, tmp_path / "rows.csv"))  # the model knows its columns
        regressor().fit(open_source(tmp_path / "rows.csv", drop=[""]), "y")


def test_weights_come_from_a_column(tmp_path):
    path = write(tmp_path, "parquet", TABLE.select(["a", "b", "c", "y", "w"]))
    (rows, _, weights), _, model = one_pass(path, "y", "w")
    order, wanted = np.lexsort(rows.T), np.lexsort(X.T)
    assert_array_equal(weights[order], s[wanted])
    assert_allclose(model.target_mean_, [np.average(y, weights=s)])


def test_several_targets(tmp_path):
    path = write(tmp_path, "parquet", TABLE.select(["a", "b", "y", "w"]))
    model = regressor().fit(path, ["y", "w"])
    assert model.predict(X[:5, :2]).shape == (5, 2)
    assert_allclose(model.target_mean_, [y.mean(), s.mean()])


def test_booleans_count_as_zero_and_one(tmp_path):
    path = write(tmp_path, "parquet", TABLE.select(["flag", "y"]))
    (rows, _, _), _, _ = one_pass(path, "y")
    assert set(np.unique(rows)) == {0.0, 1.0} and rows.sum() == (X[:, 0] > 0).sum()


def test_small_types_stay_in_single_precision(tmp_path):
    table = pa.table({"a": np.arange(N, dtype=np.int16), "b": X[:, 0], "y": y})
    (rows, _, _), _, _ = one_pass(write(tmp_path, "parquet", table), "y")
    assert rows.dtype == np.float32
    table = table.append_column("c", pa.array(np.arange(N) + 2**40))
    (rows, _, _), _, _ = one_pass(write(tmp_path, "parquet", table), "y")
    assert rows.dtype == np.float64 and rows.max() == 2**40 + N - 1


def test_numbers_in_text_may_turn_into_fractions_further_down(tmp_path):
    path = tmp_path / "rows.csv"
    n = 200_000  # more than the part from which types are guessed
    values = (np.arange(n) + np.where(np.arange(n) > n - 3, 0.5, 0.0)).tolist()
    path.write_text("a,y\n" + "".join(f"{v!r},{v!r}\n" if v % 1 else f"{int(v)},1\n" for v in values))
    (rows, _, _), _, _ = one_pass(path, "y")
    assert rows.max() == n - 0.5


def test_folders_named_by_a_column_give_that_column(tmp_path):
    for k in range(2):
        (tmp_path / f"year={k}").mkdir()
        write(tmp_path / f"year={k}", "parquet", TABLE.select(["a", "y"]).slice(500 * k, 500))
    (rows, _, _), _, model = one_pass(tmp_path, "y")
    assert list(model.feature_names_in_) == ["a", "year"]
    assert rows[:, 1].sum() == 500


def test_a_filtered_dataset_gives_the_filtered_rows(tmp_path):
    data = dataset.dataset(write(tmp_path, "parquet")).filter(dataset.field("a") > 0)
    (rows, _, _), stream, _ = one_pass(data, "y")
    assert stream.n_rows == len(rows) == (X[:, 0] > 0).sum() and (rows[:, 0] > 0).all()


def test_classes_are_found_or_given(tmp_path):
    path = write(tmp_path, "parquet", TABLE.select(["a", "b", "c", "label"]))
    model = classifier().fit(path, "label")
    assert list(model.classes_) == ["no", "perhaps", "yes"]
    assert model.score(X, labels) > 0.7
    given = classifier().fit(path, "label", classes=["yes", "no", "perhaps"])
    assert_array_equal(given.decision_function(X), model.decision_function(X))
    dictionary = TABLE.select(["a", "b", "c"]).append_column("label", TABLE["label"].dictionary_encode())
    coded = classifier().fit(write(tmp_path, "parquet", dictionary), "label")
    assert_array_equal(coded.decision_function(X), model.decision_function(X))


def test_balanced_classes_are_balanced_over_the_whole_source(tmp_path):
    path = write(tmp_path, "parquet", TABLE.select(["a", "b", "c", "label"]))
    model = MKLClassifier(Products(degree=1), class_weight="balanced", random_state=0, C=1.0)
    (_, Y, weights), _, _ = one_pass(path, "label", model=model)
    sums = [weights[Y[:, k] > 0].sum() for k in range(3)]
    assert_allclose(sums, N / 3)


# -- order ---------------------------------------------------------------------------------------------


def test_a_pass_is_repeatable_and_another_pass_has_another_order(tmp_path):
    path = write(tmp_path, "parquet")
    (first, _, _), _, _ = one_pass(path, "y")
    (again, _, _), _, _ = one_pass(path, "y")
    (second, _, _), _, _ = one_pass(path, "y", number=1)
    assert_array_equal(first, again)
    assert not np.array_equal(first, second)
    assert_array_equal(sorted_rows(first), sorted_rows(second))


@pytest.mark.parametrize("size", [1, 7, 64, 5000])
def test_the_buffer_keeps_rows_together_and_loses_none(size):
    parts = [(X[i : i + 33], y[i : i + 33], s[i : i + 33]) for i in range(0, N, 33)]
    out = list(shuffled(parts, size, np.random.default_rng(0)))
    rows, t, w = (np.concatenate(p) for p in zip(*out, strict=True))
    order, wanted = np.lexsort(rows.T), np.lexsort(X.T)
    assert_array_equal(rows[order], X[wanted])
    assert_array_equal(t[order], y[wanted])
    assert_array_equal(w[order], s[wanted])


def test_a_buffer_spreads_rows_beyond_its_size():
    numbers = np.arange(100_000.0)
    parts = [
        (numbers[i : i + 1000, None], numbers[i : i + 1000], numbers[i : i + 1000])
        for i in range(0, 100_000, 1000)
    ]
    out = np.concatenate([p[1] for p in shuffled(parts, 10_000, np.random.default_rng(0))])
    # A row stays for a geometric time: its displacement has about the buffer's size as its mean.
    assert np.abs(out - numbers).mean() > 5_000
    assert np.abs(out - numbers).max() > 40_000


@pytest.mark.parametrize("size", [1, 10, 64, 999, 1000, 3000])
def test_batches_have_the_size_asked_for(size):
    parts = [(X[i : i + 64], y[i : i + 64], s[i : i + 64]) for i in range(0, N, 64)]
    out = list(rebatched(parts, size))
    assert [len(p[2]) for p in out[:-1]] == [size] * (len(out) - 1)
    assert_array_equal(np.concatenate([p[0] for p in out]), X)


def test_hashes_are_uniform_and_differ_between_seeds():
    keys = _sources.keys_of(3, 0, 100_000)
    u, v = uniform(keys, 0), uniform(keys, 1)
    # The largest deviation of the empirical distribution exceeds 1.95/√n with probability 1e-3.
    assert np.abs(np.sort(u) - np.arange(100_000) / 1e5).max() < 1.95 / np.sqrt(1e5)
    assert abs(np.corrcoef(u, v)[0, 1]) < 0.015  # 4.7 deviations
    assert abs(np.corrcoef(u[1:], u[:-1])[0, 1]) < 0.015


def test_a_sample_does_not_depend_on_the_order_of_chunks():
    chunks = list(open_source(X.repeat(40, axis=0)).bind().chunks())
    forwards, backwards = Sample(500, 0), Sample(500, 0)
    for chunk in chunks:
        forwards.offer(chunk)
    for chunk in chunks[::-1]:
        backwards.offer(chunk)
    assert len(forwards.rows()) == 500
    assert_array_equal(forwards.rows().keys, backwards.rows().keys)


def test_held_out_rows_are_in_no_pass(tmp_path):
    path = write(tmp_path, "parquet")
    (rows, _, _), stream, _ = one_pass(path, "y", validation_fraction=0.2)
    out = stream.held_out
    assert out.n_rows == 200
    assert len(rows) == stream.n_rows == N - out.n_rows
    assert_array_equal(sorted_rows(np.vstack([rows, out.X])), sorted_rows(X))
    first = {r.tobytes() for r in stream.first.X.astype(np.float32)}
    assert not first & {r.tobytes() for r in out.X}


def test_held_out_rows_do_not_depend_on_when_they_are_asked_for(tmp_path):
    path = write(tmp_path, "parquet")
    _, after, _ = one_pass(path, "y", validation_fraction=0.2)

    class Asks(OrderedRidge):
        def solve_stream(self, stream, **kwargs):
            assert_array_equal(stream.held_out.X, after.held_out.X)
            return super().solve_stream(stream, **kwargs)

    MKLRegressor(Products(degree=1), solver=Asks(validation_fraction=0.2), random_state=0, C=1.0).fit(
        path, "y"
    )
    assert one_pass(path, "y")[1].held_out is None


def test_at_most_so_many_rows_are_held_out():
    source = open_source(X).bind()
    assert HeldOut(0.5, N, 0, source.row_keys(), most=50).count == 50
    assert HeldOut(0.5, N, 0, Part(source, 0.4, 1).row_keys()).count == round(
        0.5 * Part(source, 0.4, 1).n_rows
    )
    assert HeldOut(0.5, None, 0, most=50).chosen(next(source.chunks()).keys).sum() == 50


def test_memory_and_files_hold_out_the_same_rows(tmp_path):
    path = tmp_path / "rows.parquet"
    parquet.write_table(TABLE.select(["a", "y", "b", "c"]), path)  # one row group: keys are the rows' numbers
    _, stream, _ = one_pass(path, "y", validation_fraction=0.2)
    family = stream.first.family
    problem = Problem(X, y[:, None], family, stream.first.scale, stream.first.loss)
    assert_array_equal(MemoryStream(problem, 100, seed=0, share=0.2).held_out.X, stream.held_out.X)
    other = stream.holding_out(0.5)
    assert_array_equal(MemoryStream(problem, 100, seed=0, share=0.5).held_out.X, other.held_out.X)
    assert other.n_rows == N - other.held_out.n_rows == sum(batch.n_rows for batch in other.epoch(0))


def test_an_iterator_is_enough_for_one_pass():
    batches = ((X[i : i + 100], y[i : i + 100]) for i in range(0, N, 100))
    model = regressor().fit(batches)
    assert model.objective_ == N
    batches = ((X[i : i + 100], labels[i : i + 100]) for i in range(0, N, 100))
    model = classifier(epochs=1).fit(batches, classes=np.unique(labels))
    assert list(model.classes_) == ["no", "perhaps", "yes"] and model.objective_ == N


def test_an_iterator_of_so_few_rows_that_none_is_held_out_is_enough_for_blockwise():
    few = MKLRegressor([Laplacian(3.0)], solver=Blockwise(grids=8, random_state=0), C="auto")
    assert few.fit((X[i : i + 4], y[i : i + 4]) for i in (0, 4)).score(X[:8], y[:8]) > 0


def test_progress_tells_rows_a_second(tmp_path, capsys):
    regressor(batch_size=300).set_params(verbose=1).fit(write(tmp_path, "parquet"), "y")
    assert "pass 1: 1,000 rows in " in capsys.readouterr().err
    said = []
    report = RowReport(said.append, "pass 1", N, seconds=0.0)
    report.add(300)
    report.add(700)
    assert said[0].startswith("pass 1: 300 of 1,000 rows, ") and said[1].endswith(" rows/s, 0 s left")


# -- what is refused -----------------------------------------------------------------------------------


def says(match, call, error=ValueError):
    with pytest.raises(error, match=match) as info:
        call()
    assert "\n" not in str(info.value).strip(), "one sentence, please"


def test_a_column_that_holds_no_numbers_is_named(tmp_path):
    path = write(tmp_path, "parquet", TABLE)
    says("Column 'label' holds text, not numbers; .*drop=\\['label'\\]", lambda: regressor().fit(path, "y"))
    says("Column 'label' holds text", lambda: regressor().fit([TABLE.to_pandas()], "y"))
    when = TABLE.select(["a", "y"]).append_column("when", pa.array([datetime.date(2020, 1, 1)] * N))
    says(
        "Column 'when' holds values of type date",
        lambda: regressor().fit(write(tmp_path, "parquet", when), "y"),
    )


def test_missing_columns_are_named(tmp_path):
    path = write(tmp_path, "parquet")
    says("There is no column 'z'; there are a, y, b, c", lambda: regressor().fit(path, "z"))
    says("There is no column 'z'", lambda: regressor().fit(path, "y", sample_weight="z"))
    says("There is no column 'z'", lambda: regressor().fit(open_source(path, drop=["z"]), "y"))
    says("has no targets; pass y='column'", lambda: regressor().fit(path))


@pytest.mark.parametrize("bad", [None, np.nan, np.inf])
def test_a_missing_value_is_named_by_column_and_row_and_the_model_stays(bad, tmp_path):
    values = [*X[:, 1].tolist()]
    values[700] = bad
    path = write(tmp_path, "parquet", pa.table({"a": X[:, 0], "b": values, "y": y}))
    model = regressor().fit(X[:, :2], y)
    before = model.predict(X[:, :2])
    says(
        r"Column 'b' holds a missing or infinite value in row 50 of row group 5 of rows\.parquet",
        lambda: model.fit(path, "y"),
    )
    assert_array_equal(model.predict(X[:, :2]), before)


def test_a_missing_value_in_a_batch_is_named_by_the_batch():
    Z = X.copy()
    Z[450, 2] = np.nan
    model = regressor().fit(X, y)
    before = model.predict(X)
    batches = [(Z[i : i + 100], y[i : i + 100]) for i in range(0, N, 100)]
    says(
        r"Column 2 holds a missing or infinite value in row 450 of batch 4 \(rows 400 to 499\)",
        lambda: model.fit(batches),
    )
    assert_array_equal(model.predict(X), before)


def test_missing_targets_are_refused(tmp_path):
    values = y.tolist()
    values[700] = None
    table = pa.table({"a": X[:, 0], "y": values})
    says(
        r"Column 'y' holds a missing or infinite value in row 50 of row group 5 of rows\.parquet; remove that row",
        lambda: regressor().fit(write(tmp_path, "parquet", table), "y"),
    )
    table = pa.table({"a": X[:, 0], "y": [np.nan, *y[1:].tolist()]})
    says("Column 'y' holds a missing", lambda: regressor().fit(write(tmp_path, "parquet", table), "y"))


def test_a_missing_label_in_a_batch_is_named_by_its_row():
    gaps = labels.astype(object)
    gaps[450] = None
    batches = [(X[i : i + 100], gaps[i : i + 100]) for i in range(0, N, 100)]
    says(
        r"batch 4 \(from row 400\): y has a missing value in row 450; remove",
        lambda: classifier().fit(batches),
    )


def test_weights_must_be_weights(tmp_path):
    table = TABLE.select(["a", "y"]).append_column("w", pa.array(-s))
    says(
        "sample_weight must be finite and not negative",
        lambda: regressor().fit(write(tmp_path, "parquet", table), "y", "w"),
    )
    table = TABLE.select(["a", "y"]).append_column("w", pa.array(0 * s))
    says(
        "sample_weight is zero for every row",
        lambda: regressor().fit(write(tmp_path, "parquet", table), "y", "w"),
    )


def test_a_label_that_was_not_announced_is_named_with_its_batch():
    batches = [(X[i : i + 100], labels[i : i + 100]) for i in range(0, N, 100)]
    batches[6] = (batches[6][0], np.where(np.arange(100) == 3, "never", batches[6][1]))
    says(
        r"batch 6 \(rows 600 to 699\): y holds the label 'never', which is not among",
        lambda: classifier().fit(batches, classes=["no", "perhaps", "yes"]),
    )


def test_another_number_of_columns_or_other_names_are_refused():
    batches = [(X[i : i + 100], y[i : i + 100]) for i in range(0, N, 100)]
    batches[3] = (X[300:400, :2], y[300:400])
    says(
        r"batch 3 \(rows 300 to 399\) has 2 columns, and the batches before it have 3",
        lambda: regressor().fit(batches),
    )
    frames = [TABLE.select(["a", "b", "y"]).slice(i, 500).to_pandas() for i in (0, 500)]
    says(
        "batch 1 .*There is no column 'b'",
        lambda: regressor().fit([frames[0], frames[1].drop(columns="b")], "y"),
    )
    frames[1]["new"] = 1.0
    says("batch 1 .*it has a column 'new', which the first", lambda: regressor().fit(frames, "y"))


def test_columns_in_another_order_are_put_in_order():
    frames = [
        TABLE.select(names).slice(i, 500).to_pandas()
        for i, names in ((0, ["a", "b", "c", "y"]), (500, ["y", "c", "a", "b"]))
    ]
    (rows, _, _), _, _ = one_pass(frames, "y")
    assert_array_equal(sorted_rows(rows), sorted_rows(X))


def test_an_empty_source_is_refused(tmp_path):
    says("The source is empty", lambda: regressor().fit(iter([])))
    says("The source is empty", lambda: regressor().fit(Loader(X[:0], y[:0])))
    says(
        "The source is empty",
        lambda: regressor().fit(write(tmp_path, "parquet", TABLE.select(["a", "y"]).slice(0, 0)), "y"),
    )
    (tmp_path / "none").mkdir()
    says("is a folder without tables", lambda: regressor().fit(tmp_path / "none", "y"))


def test_a_file_must_exist_and_be_readable(tmp_path):
    says("does not exist", lambda: regressor().fit(tmp_path / "gone.parquet", "y"), FileNotFoundError)
    (tmp_path / "rows.xml").write_text("a,y\n1,2\n")
    says("must end in", lambda: regressor().fit(tmp_path / "rows.xml", "y"))
    (tmp_path / "bad.parquet").write_text("no parquet")
    says("bad.parquet cannot be read", lambda: regressor().fit(tmp_path / "bad.parquet", "y"))


def write_two(folder, first, second, ending="parquet"):
    for i, columns in enumerate((first, second)):
        (folder / f"{i}").mkdir(exist_ok=True)
        write(folder / f"{i}", ending, TABLE.select(columns).slice(500 * i, 500))
    return folder


@pytest.mark.parametrize("ending", ["parquet", "csv", "feather"])
def test_a_file_that_lacks_a_column_is_named(ending, tmp_path):
    folder = write_two(tmp_path, ["a", "b", "y"], ["a", "y"], ending)
    missing = rf"1/rows\.{ending} has no column 'b'; add it, or remove that file"
    says(missing, lambda: regressor().fit(folder, "y"))
    says(missing, lambda: regressor().fit([folder / f"{i}" / f"rows.{ending}" for i in (0, 1)], "y"))
    assert list(regressor().fit(open_source(folder, drop=["b"]), "y").feature_names_in_) == ["a"]
    model = regressor().fit(folder / "0", "y")
    says(missing, lambda: list(predict_batches(model, folder)))


@pytest.mark.parametrize("ending", ["parquet", "csv", "feather"])
def test_a_file_with_one_more_column_is_named(ending, tmp_path):
    folder = write_two(tmp_path, ["a", "y"], ["a", "b", "y"], ending)
    says(
        rf"1/rows\.{ending} has a column 'b', which the first file does not have; .*columns=",
        lambda: regressor().fit(folder, "y"),
    )
    model = regressor().fit(open_source(folder, columns=["a"]), "y")
    assert sum(map(len, predict_batches(model, folder))) == N
    schema = pa.schema([("a", pa.float32()), ("y", pa.float64())])
    chosen = dataset.dataset(folder, schema=schema, format=ending)
    assert list(regressor().fit(chosen, "y").feature_names_in_) == ["a"]


def test_files_may_have_their_columns_in_another_order_and_precision(tmp_path):
    folder = write_two(tmp_path, ["a", "b", "y"], ["y", "b", "a"])
    wide = TABLE.select(["y", "b", "a"]).slice(500).to_pandas().astype(float) + 1e-9
    wide.to_parquet(folder / "1" / "rows.parquet", index=False)
    (rows, _, _), _, _ = one_pass(folder, "y")
    expected = np.concatenate([X[:500, :2].astype(float), wide[["a", "b"]]])
    assert_array_equal(sorted_rows(rows), sorted_rows(expected))


def test_a_file_with_text_in_a_column_of_numbers_is_named(tmp_path):
    folder = write_two(tmp_path, ["a", "y"], ["a", "y"])
    parquet.write_table(pa.table({"a": ["1"], "y": [1.0]}), folder / "1" / "rows.parquet")
    says(r"1/rows\.parquet: Column 'a' holds text, not numbers", lambda: regressor().fit(folder, "y"))


def test_an_index_in_some_of_the_files_is_no_feature(tmp_path):
    for i, frame in enumerate((shuffled_frame().reset_index(drop=True), shuffled_frame())):
        frame.to_parquet(tmp_path / f"{i}.parquet")
    assert list(regressor().fit(tmp_path, "y").feature_names_in_) == PLAIN
    assert (
        list(regressor().fit([tmp_path / "1.parquet", tmp_path / "0.parquet"], "y").feature_names_in_)
        == PLAIN
    )


def test_a_pattern_that_matches_nothing_is_named(tmp_path):
    says(r"\*\.parquet matches no table", lambda: regressor().fit(tmp_path / "*.parquet", "y"))
    write(tmp_path, "parquet").rename(tmp_path / "rows[1].parquet")
    regressor().fit(tmp_path / "rows[1].parquet", "y")  # the name of a file


def test_an_iterator_is_not_enough_for_several_passes_or_unknown_labels():
    def batches(target):
        return ((X[i : i + 100], target[i : i + 100]) for i in range(0, N, 100))

    says(
        "an iterator, which can be read only once, and .* makes several passes",
        lambda: regressor(epochs=2).fit(batches(y)),
    )
    says("finding the labels takes a pass; pass classes=", lambda: classifier().fit(batches(labels)))

    class Again(OrderedRidge):
        def solve_stream(self, stream, **kwargs):
            list(stream.epoch(0))
            return super().solve_stream(stream, **kwargs)

    model = MKLRegressor(Products(degree=1), solver=Again(), C=1.0)
    says(
        "an iterator, which can be read only once, and this fit needs to read it again",
        lambda: model.fit(batches(y)),
    )


def test_arrays_do_not_go_with_files(tmp_path):
    path = write(tmp_path, "parquet")
    says("y is given as an array together with a file; name the column", lambda: regressor().fit(path, y))
    says("sample_weight is given as an array", lambda: regressor().fit(path, "y", s))
    says("y is an array, but X is a source of batches", lambda: regressor().fit(iter([(X, y)]), y))


@pytest.mark.parametrize("solver", [SimpleMKL(), "simple_mkl"])
def test_a_solver_that_needs_all_rows_says_so(solver, tmp_path):
    path = write(tmp_path, "parquet")
    model = MKLRegressor(Products(degree=1), solver=solver, C=1.0)
    says(
        "X is a source of rows, but solver .* needs all rows in memory at once", lambda: model.fit(path, "y")
    )
    says("checkpoint is given, but solver", lambda: model.fit(X, y, checkpoint=tmp_path / "c"))


def test_classes_are_for_streams():
    says("classes is for rows that come in batches", lambda: classifier().fit(X, labels, classes=["no"]))
    says(
        "kernels='precomputed' needs all rows",
        lambda: MKLRegressor("precomputed", solver=OrderedRidge(), C=1.0).fit([(X, y)]),
    )


def test_mismatched_lengths_are_refused(tmp_path):
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    says("inconsistent numbers of samples", lambda: regressor().fit(mapped, y[:-1]))
    says(r"batch 0 .*X has 1,000 rows and y has 999", lambda: regressor().fit([(X, y[:-1])]))


# -- predictions ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["parquet", "csv", "feather", "arrow"])
def test_predictions_go_to_a_file(ending, tmp_path):
    source = open_source(write(tmp_path, "parquet"), chunk_rows=64)
    model = regressor().fit(source, "y")
    assert model.predict_to(source, tmp_path / f"out.{ending}") == N
    read = {"parquet": parquet.read_table, "csv": csv.read_csv}.get(ending, feather.read_table)
    # A matrix product of another number of rows may be summed in another order.
    assert_allclose(
        read(tmp_path / f"out.{ending}")["prediction"],
        model.predict(TABLE.select(PLAIN)),
        rtol=1e-12,
    )
    assert not list(tmp_path.glob(".*"))


def test_labels_and_several_targets_go_to_a_file(tmp_path):
    path = write(tmp_path, "parquet", TABLE.select(["a", "b", "c", "label"]))
    model = classifier().fit(path, "label")
    model.predict_to(path, tmp_path / "out.parquet")
    assert parquet.read_table(tmp_path / "out.parquet")["prediction"].to_pylist() == list(
        model.predict(TABLE.select(PLAIN))
    )
    several = regressor().fit([(X, np.column_stack([y, s]))])
    several.predict_to([(X, y)], tmp_path / "two.csv")
    assert csv.read_csv(tmp_path / "two.csv").column_names == ["prediction_0", "prediction_1"]


def test_probabilities_that_are_not_there_are_explained(tmp_path):
    model = classifier().set_params(calibrate=False).fit(X, labels)
    says("calibrate=False and loss=", lambda: model.predict_proba(X), AttributeError)
    says("calibrate=False and loss=", lambda: model.predict_to(X, tmp_path / "p.csv", proba=True))
    says("predicts numbers", lambda: regressor().fit(X, y).predict_to(X, tmp_path / "p.csv", proba=True))


def test_batches_of_predictions_are_in_order():
    model = regressor().fit(X, y)
    out = np.concatenate(list(predict_batches(model, [X[:300], X[300:]])))
    assert_allclose(out, model.predict(X), rtol=1e-12)
    out = np.concatenate(list(predict_batches(model, sp.csr_array(X))))
    assert_allclose(out, model.predict(X), rtol=1e-12)
    says(
        "The source has 2 columns, and the model was fitted on 3",
        lambda: list(predict_batches(model, X[:, :2])),
    )


def test_predictions_do_not_go_where_the_rows_come_from(tmp_path):
    folder = tmp_path / "rows"
    folder.mkdir()
    path = write(folder, "parquet")
    before, model = path.read_bytes(), regressor().fit(path, "y")
    cases = [
        (path, path),
        (str(path), folder / ".." / "rows" / "rows.parquet"),
        ([path], path),
        (folder, folder / "out.parquet"),
        (folder, folder / "deeper" / "out.csv"),
        (f"{folder}/*.parquet", folder / "out.parquet"),
        (f"{tmp_path}/**/*.parquet", tmp_path / "out.parquet"),
        (open_source(folder, drop=["y"]), folder / "out.parquet"),
        (dataset.dataset(path), path),
    ]
    for rows, out in cases:
        says("would be among the files that rows are read from", lambda r=rows, o=out: model.predict_to(r, o))
    assert path.read_bytes() == before and [p.name for p in folder.iterdir()] == ["rows.parquet"]
    for rows, out in [(path, folder / "out.parquet"), (f"{folder}/r*.parquet", folder / "out.parquet")]:
        assert model.predict_to(rows, out) == N
    (folder / "out.parquet").unlink()
    assert model.predict_to(folder, tmp_path / "out.parquet") == N


def test_a_failing_prediction_leaves_no_file(tmp_path):
    model = regressor().fit(X, y)
    (tmp_path / "out.parquet").write_text("as before")
    batches = [(X[:500], y[:500]), (np.full((500, 3), np.nan), y[500:])]
    says("missing or infinite", lambda: model.predict_to(batches, tmp_path / "out.parquet"))
    assert [p.name for p in tmp_path.iterdir()] == ["out.parquet"]
    assert (tmp_path / "out.parquet").read_text() == "as before"
    says("must end in", lambda: model.predict_to(batches, tmp_path / "out.txt"))


# -- memory --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_memory_does_not_grow_with_the_rows(tmp_path):
    code = """
        import sys
        import numpy as np
        from manykernels import MKLRegressor
        from manykernels.families import Products
        from tests.streaming_ridge import OrderedRidge
        model = MKLRegressor(Products(degree=1), solver=OrderedRidge(batch_size=8192), random_state=0)
        model.fit(sys.argv[1], "y")
        # The peak of this program alone; that of getrusage begins with the memory of the process that started it.
        status = dict(line.split(":", 1) for line in open("/proc/self/status"))
        print(int(model.objective_), status["VmHWM"].split()[0])
    """
    peak = {}
    for n in (500_000, 3_000_000):
        folder = tmp_path / str(n)
        folder.mkdir()
        for part in range(n // 500_000):
            values = np.random.default_rng(part).normal(size=(500_000, 8)).astype(np.float32)
            table = pa.table({"y": values[:, 0], **{f"x{j}": values[:, j] for j in range(8)}})
            parquet.write_table(table, folder / f"{part}.parquet")
        out = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code), str(folder)],
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(__file__).parents[2],
        ).stdout.split()
        assert int(out[0]) == n
        peak[n] = int(out[1])
    assert peak[3_000_000] <= 1.1 * peak[500_000]
