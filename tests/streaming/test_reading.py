"""Tables in files and their columns: read whole or chunk by chunk, wide ones in time, and refused by name."""

import pickle
import time

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from manykernels import MKLClassifier
from manykernels.streaming import MissingColumn, NotNumbers, TableWriter, open_source
from manykernels.streaming import arrow as arrow_tables
from manykernels.streaming.columns import choose

pa = pytest.importorskip("pyarrow")
from pyarrow import csv, feather, parquet  # noqa: E402

N = 500
rng = np.random.default_rng(0)
TABLE = pa.table({"a": rng.normal(size=N), "b": rng.integers(9, size=N), "y": rng.normal(size=N)})


def write(path, table=TABLE):
    if path.suffix == ".csv":
        csv.write_csv(table, path)
    else:
        parquet.write_table(table, path, row_group_size=70)
    return path


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_whole_file_is_one_chunk_of_the_same_rows(ending, tmp_path):
    path = write(tmp_path / f"rows.{ending}")
    (whole,) = open_source(path, whole=True).bind("y").chunks()
    chunks = list(open_source(path, chunk_rows=64).bind("y").chunks())
    assert max(map(len, chunks)) <= 64
    assert_array_equal(whole.X, np.concatenate([c.X for c in chunks]))
    assert_array_equal(whole.y, np.concatenate([c.y for c in chunks]))
    assert whole.where == f"rows.{ending}"


def test_all_rows_of_a_whole_file_tell_the_types(tmp_path):
    lines = f"{1:.500f},7\n" * 3000 + "1.5,seven\n"  # more than the megabyte that tells otherwise
    (tmp_path / "rows.csv").write_text("a,label\n" + lines)
    (rows,) = open_source(tmp_path / "rows.csv", whole=True).bind("label").chunks()
    assert set(rows.y) == {"7", "seven"} and rows.X.max() == 1.5
    with pytest.raises(ValueError, match=r"rows\.csv cannot be read: .*'seven'"):
        list(open_source(tmp_path / "rows.csv").bind("label").chunks())


def test_several_files_are_not_read_whole(tmp_path):
    for i in range(2):
        write(tmp_path / f"{i}.csv")
    with pytest.raises(ValueError, match="stands for several files; leave whole out"):
        open_source(tmp_path, whole=True)


@pytest.mark.parametrize("ending", ["csv", "parquet", "batches"])
def test_wide_tables_take_time_in_proportion_to_their_columns(ending, tmp_path):
    names = [f"x{j}" for j in range(4000)]
    table = pa.table([np.arange(5.0)] * len(names), names=names)
    rows = table.to_batches() if ending == "batches" else write(tmp_path / f"rows.{ending}", table)
    started = time.process_time()
    source = open_source(rows, drop=names[1:2000]).bind("x0")
    (chunk,) = source.chunks()
    assert time.process_time() - started < 2
    assert chunk.X.shape == (5, 2000) and source.names == tuple(names[2000:])


def test_ten_times_the_columns_take_no_hundred_times_as_long():
    def seconds(n):
        names = tuple(f"x{j}" for j in range(n))
        spent = []
        for _ in range(5):
            started = time.process_time()
            assert len(choose(names, names[:1], None, None, names[1 : n // 2])) == n - n // 2
            spent.append(time.process_time() - started)
        return min(spent)

    assert seconds(40_000) < 40 * seconds(4_000) + 0.01


def test_columns_of_an_open_source_can_be_chosen(tmp_path):
    source = open_source(write(tmp_path / "rows.csv"))
    assert source.column_names == ("a", "b", "y")
    assert open_source(source, columns=["b"]).bind("y").names == ("b",)
    assert open_source(source, drop=["b"]).bind("y").names == ("a",)
    assert source.bind("y").names == ("a", "b")
    with pytest.raises(ValueError, match="are for sources with named columns"):
        open_source(open_source(np.eye(3)), columns=["a"])


def test_a_column_that_is_not_there_is_guessed_at(tmp_path):
    source = open_source(write(tmp_path / "rows.parquet", TABLE.rename_columns(["price", "size", "y"])))
    with pytest.raises(MissingColumn, match=r"There is no column 'prize'; did you mean 'price'\?"):
        source.bind("prize")
    with pytest.raises(MissingColumn, match=r"There is no column 'w'; there are price, size, y."):
        source.bind("w")


def test_refusals_survive_a_process_border():
    error = NotNumbers("a", "Column 'a' holds text", "drop it.")
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error) == "Column 'a' holds text; drop it." and again.column == "a"


def test_endings_that_do_not_fit_are_refused(tmp_path):
    (tmp_path / "rows.parquet.gz").write_text("")
    with pytest.raises(ValueError, match=r"parquet is compressed inside; leave the ending .gz off"):
        open_source(tmp_path / "rows.parquet.gz")
    for name in ("out.tsv", "out.xls"):
        with pytest.raises(ValueError, match=rf"{name} must end in .parquet, .pq, .csv"):
            TableWriter(tmp_path / name)
    with pytest.raises(ValueError, match=r"cannot be written; CSV is compressed as .csv.gz or .csv.bz2"):
        TableWriter(tmp_path / "out.csv.zst")


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_a_file_that_changes_between_passes_is_noticed(ending, tmp_path):
    from manykernels.streaming import open_source

    table = pytest.importorskip("pyarrow").table
    csv, parquet = pytest.importorskip("pyarrow.csv"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / f"rows.{ending}"

    def write(values):
        rows = table({"x": values, "y": values})
        (csv.write_csv if ending == "csv" else parquet.write_table)(rows, path)

    write([1.0, 2.0, 3.0])
    opened = open_source(path)
    source = opened.bind("y")
    assert sum(map(len, source.chunks())) == sum(map(len, source.chunks())) == 3
    write([1.0, 2.0, 3.0, 4.5])
    with pytest.raises(ValueError, match=rf"rows\.{ending} has changed since its rows were first read"):
        list(source.chunks())
    assert list(open_source(path).bind("y").chunks()), "a new fit reads the new rows"
    path.unlink()
    with pytest.raises(ValueError, match=rf"rows\.{ending} is gone since its rows were first read"):
        list(source.chunks())


@pytest.mark.parametrize("ending, checked", [("csv", False), ("parquet", False), ("feather", True)])
def test_only_files_that_place_text_themselves_have_it_looked_at_twice(
    tmp_path, monkeypatch, ending, checked
):
    seen = []
    monkeypatch.setattr(arrow_tables, "_sound", lambda batches: (seen.append(ending), batches)[1])
    path = str(tmp_path / f"t.{ending}")
    table = pa.table({"x": np.arange(40.0), "w": ["up", "down"] * 20, "y": np.arange(40.0)})
    if ending == "feather":
        feather.write_feather(table, path)
    else:
        write(tmp_path / f"t.{ending}", table)
    list(open_source(path).bind("y", any_kind=True).chunks())
    assert bool(seen) == checked


@pytest.mark.parametrize("compression", ["uncompressed", "lz4"])
def test_text_that_a_damaged_feather_file_places_outside_of_it_is_no_crash(tmp_path, compression):
    words = pa.array(["up", "down"] * 20)
    places = np.frombuffer(words.buffers()[1], np.int32).copy()
    places[7] = 2**30
    wild = pa.Array.from_buffers(pa.string(), 40, [None, pa.py_buffer(places), words.buffers()[2]])
    path = tmp_path / "t.feather"
    feather.write_feather(pa.table({"x": np.arange(40.0), "y": wild}), path, compression=compression)
    with pytest.raises(ValueError, match=r"t\.feather") as told:
        open_source(str(path)).where_known("y")
    assert "\n" not in str(told.value)
    with pytest.raises(ValueError, match=r"t\.feather"):
        MKLClassifier("laplacian", solver="blockwise", C=1.0).fit(str(path), "y")
