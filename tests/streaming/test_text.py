import csv
import gzip
import io
import os

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")

from manykernels.streaming import open_source  # noqa: E402
from manykernels.streaming.text import LEAST_BLOCK, look_at  # noqa: E402


def look(path, text, encoding="utf-8"):
    path.write_bytes(text.encode(encoding))
    return look_at(str(path), ",", pa)


def lines_of(text, strict):
    """Return in how many lines Python's own reader finds each row; None where it is strict and finds an error."""
    rows = csv.reader(io.StringIO(text, newline=""), strict=strict)
    try:
        return np.diff([0, *(rows.line_num for _ in rows)])
    except csv.Error:
        return None


def test_text_is_refused_where_a_quote_does_not_close(tmp_path):
    # Random texts of the signs that matter. A text that is taken has rows of one line each, or is right to the letter.
    rng = np.random.default_rng(0)
    path, seen = tmp_path / "x.csv", []
    for _ in range(1000):
        lines = ["".join(rng.choice(list('ab,"'), p=[0.3, 0.2, 0.25, 0.25], size=6)) for _ in range(3)]
        text = "\n".join(["u,v", *lines, ""])
        try:
            found = look(path, text)
        except ValueError:
            assert lines_of(text, strict=True) is None
            seen.append("refused")
        else:
            assert found.spans or (lines_of(text, strict=False) == 1).all()
            assert not found.spans or lines_of(text, strict=True) is not None
            seen.append("spans" if found.spans else "plain")
    assert set(seen) == {"refused", "spans", "plain"}


@pytest.mark.parametrize("line", ['1,"a', 'a","c', 'a"b,"c', '"a"b","c', '"a""'])
def test_quotes_are_counted_where_they_open_a_value(tmp_path, line):
    with pytest.raises(ValueError, match="has a quote in line 3"):
        look(tmp_path / "x.csv", f"u,v\n1,2\n{line}\n3,4\n")


def test_values_with_line_breaks_are_read_wherever_blocks_meet(tmp_path):
    n = 60_000  # more than one block
    rows = "".join(f'{i},"two\nlines {i % 7}",{i % 2}\n' for i in range(n))
    (tmp_path / "x.csv").write_text("a,text,y\n" + rows)
    assert (tmp_path / "x.csv").stat().st_size > LEAST_BLOCK
    for whole in (True, False):
        source = open_source(tmp_path / "x.csv", whole=whole).bind("y", any_kind=True)
        texts = [text for chunk in source.chunks() for text in chunk.X.read(1).values]
        assert texts == [f"two\nlines {i % 7}" for i in range(n)]


@pytest.mark.parametrize("place", [0, 5, 2**22 - 1, 2**22, 2**22 + 1, -1])
def test_other_encodings_are_refused_wherever_the_byte_is(tmp_path, place):
    data = bytearray(b"u\n" + b"12345678\n" * 500_000)
    data[place] = 0xE9
    (tmp_path / "x.csv").write_bytes(bytes(data))
    with pytest.raises(ValueError, match=r"not UTF-8 text in line .*; save it as UTF-8"):
        look_at(str(tmp_path / "x.csv"), ",", pa)


def test_a_sign_across_two_pieces_is_whole(tmp_path):
    text = "u\n" + "1" * (2**22 - 3) + "é\n"
    assert look(tmp_path / "x.csv", text).block >= len(text)


def test_compressed_text_is_looked_at_too(tmp_path):
    path = tmp_path / "x.csv.gz"
    path.write_bytes(gzip.compress(b'u,y\n1,"a\n2,b\n'))
    with pytest.raises(ValueError, match="a quote in line 2"):
        open_source(path)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ValueError, match=r"x\.csv\.gz is cut off in the middle"):
        open_source(path)


def test_lines_longer_than_a_block_are_read(tmp_path):
    (tmp_path / "x.csv").write_text("u,y\n" + "".join(f"{'v' * LEAST_BLOCK * 2},{i}\n" for i in range(3)))
    for whole in (True, False):
        source = open_source(tmp_path / "x.csv", whole=whole).bind("y", any_kind=True)
        assert [y for chunk in source.chunks() for y in chunk.y] == [0, 1, 2]


@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize("whole", [False, True])
def test_few_rows_are_one_chunk_however_many_columns_there_are(tmp_path, whole, text):
    # A chunk costs time for every column: were there more of them in wide tables, reading would be quadratic.
    n, width = 300, 1500
    header = [f"c{j}" for j in range(width)] + ["t", "y"]
    row = ",".join(["0.12345678901"] * width)
    lines = (f"{row},{'ab'[i % 2] if text else i},{i % 2}" for i in range(n))
    (tmp_path / "x.csv").write_text("\n".join([",".join(header), *lines, ""]))
    assert (tmp_path / "x.csv").stat().st_size > 4 * LEAST_BLOCK
    source = open_source(tmp_path / "x.csv", whole=whole).bind("y", any_kind=True)
    assert len(source.unit_rows()) == 1
    # As it is read, before chunks are put together.
    parts = list((source.inner if whole else source).read(0))
    assert [part.X.shape for part in parts] == [(n, width + 1)]


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".feather"])
@pytest.mark.parametrize("blank", ["", "  "])
def test_blank_targets_are_missing_in_every_format(tmp_path, ending, blank):
    table = pa.table({"u": [1.0, 2.0, 3.0], "y": ["a", blank, "b"]})
    path = tmp_path / f"x{ending}"
    from pyarrow import csv as arrow_csv
    from pyarrow import feather, parquet

    writers = {
        ".csv": arrow_csv.write_csv,
        ".parquet": parquet.write_table,
        ".feather": feather.write_feather,
    }
    writers[ending](table, str(path))
    for whole in (True, False):
        with pytest.raises(ValueError, match="'y' holds a missing or infinite value in row 1"):
            list(open_source(path, whole=whole).bind("y").chunks())


def test_what_can_be_read_once_is_refused(tmp_path):
    os.mkfifo(tmp_path / "x.csv")
    with pytest.raises(ValueError, match="is a pipe or a device"):
        open_source(tmp_path / "x.csv")


def test_a_quoted_value_may_be_long(tmp_path):
    before = csv.field_size_limit()
    text = 'a,b\n1,"' + "x\n" * before + '"\n'
    assert look(tmp_path / "x.csv", text).spans
    assert csv.field_size_limit() == before
