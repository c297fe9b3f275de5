"""Tables that are broken, or not what their names say: one helpful sentence each, and nothing is written."""

import gzip
import io
import json
import lzma

import numpy as np
import pytest

pytest.importorskip("pyarrow")
testing = pytest.importorskip("typer.testing")

from manykernels import MKLRegressor, cli  # noqa: E402
from manykernels.kernels import Linear  # noqa: E402

N = 40
RNG = np.random.default_rng(0)
A, B = RNG.standard_normal((2, N)).round(3)
Y = (A + B).round(3)


def text(**columns):
    rows = zip(*columns.values(), strict=True)
    return "\n".join([",".join(columns), *(",".join(map(str, row)) for row in rows)]) + "\n"


def archive(**arrays):
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def one_array():
    stream = io.BytesIO()
    np.save(stream, np.eye(3))
    return stream.getvalue()


def parquet(**columns):
    import pyarrow as pa
    from pyarrow import parquet as files

    stream = io.BytesIO()
    files.write_table(pa.table(columns), stream)
    return stream.getvalue()


def damaged(data):
    """Return a file in which some bytes of its values are others."""
    return data[:150] + bytes(b ^ 255 for b in data[150:300]) + data[300:]


POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a21\nsize 12345\n"
GOOD = text(a=A, b=B, y=Y)
ROWS = GOOD.split("\n", 1)[1]
NEEDS = "is empty; it needs a line with the names of the columns, and rows below it."

#: By name of the file: what is in it, and the sentence.
TABLES = {
    "nothing.csv": ("", f"nothing.csv {NEEDS}"),
    "blanks.csv": ("\n \n\n", f"blanks.csv {NEEDS}"),
    "mark.csv": (b"\xef\xbb\xbf", f"mark.csv {NEEDS}"),
    "quote.csv": (f'a,b,y\n"1,2,3\n{ROWS}', "has a quote in line 2 or below that does not close its value"),
    "wide.csv": (
        "a,y\n1,2\n3,4,5\n" + "1,2\n" * 20,
        "has 2 names in its first line and a row of 3 values, '3,4,5'",
    ),
    "noise.csv": (
        b"a,b\n\x00\x01\x02" + RNG.bytes(500),
        "is no text: line 2 holds a zero byte; export the table as CSV",
    ),
    "base.csv": (b"SQLite format 3\x00" + bytes(50), "base.csv is a database; export its table as CSV."),
    "deep.csv": (b"\x89HDF\r\n\x1a\n" + bytes(30), "deep.csv is an HDF5 file; write its table as CSV"),
    "padded.csv": (
        "a   b   y\n" + "".join(f"{u:6.3f}  {v:6.3f}  {w:6.3f}\n" for u, v, w in zip(A, B, Y, strict=True)),
        "padded.csv has several blanks between two values, as in",
    ),
    "remark.csv": ("# made on Monday\n" + GOOD, "remark.csv has 1 name in its first line and a row of 3"),
    "photo.csv": (b"\x89PNG\r\n\x1a\n\x00\x00", "photo.csv is a picture; pass a table."),
    "paper.csv": (b"%PDF-1.7\n", "paper.csv is a PDF document; export its table as CSV."),
    "dump.csv": (
        b"\x80\x04\x95\x10" + bytes(20),
        "dump.csv is a Python pickle; write its table as CSV or Parquet.",
    ),
    "weka.csv": ("@RELATION x\n@data\n1,2\n", "weka.csv is an ARFF file; write its table as CSV."),
    "book.csv": (b"PK\x03\x04\x14\x00", "book.csv is a workbook or another archive; name it .xlsx"),
    "old.csv": (b"\xd0\xcf\x11\xe0\xa1\xb1", "old.csv is an old workbook; name it .xls"),
    "columnar.csv": (b"PAR1\x15\x04", "columnar.csv is a Parquet file; name it .parquet."),
    "packed.csv": (gzip.compress(GOOD.encode()), "packed.csv is compressed; name it .csv.gz."),
    "cut.csv.gz": (gzip.compress(GOOD.encode())[:80], "cut.csv.gz is cut off in the middle; copy it again."),
    "plain.csv.gz": (GOOD, "plain.csv.gz is not compressed as its name says; rename it"),
    "plain.feather": (GOOD, "it is not what its name says"),
    "page.csv": (
        "<!DOCTYPE html>\n<html>404</html>\n",
        "page.csv is a web page, as servers send when there is no file",
    ),
    "sheet.csv": ("<?xml version='1.0'?>\n<a/>\n", "sheet.csv is XML; export the table as CSV."),
    "rows.csv": (json.dumps([{"a": 1.0, "y": 2.0}] * 9), "rows.csv is JSON; write it as CSV"),
    "half.csv": (
        GOOD.encode("utf-16-le"),
        "half.csv is UTF-16 without the mark that says so; name the encoding with",
    ),
    "flat.csv": (
        text(a=A, y=[3.5] * N),
        "Column 'y' has the same value in every row, 3.5, so there is nothing to learn",
    ),
    "alone.csv": (text(a=A, y=["yes"] * N), "Column 'y' has the same value in every row, yes"),
    "days.csv": (
        text(a=A, y=[f"2020-01-{1 + i % 28:02d}" for i in range(N)]),
        "Column 'y' holds dates, and a target is",
    ),
    "units.csv": (text(a=A, y=[f"{v} EUR" for v in Y]), "different texts in 40 rows, such as '-0.077 EUR'"),
    "blank_target.csv": (text(a=A, y=["NA", "n/a"] * 20), "Column 'y' is empty; name another with --target."),
    "beyond.csv": (
        text(a=A, y=["1e308", "-1e308"] * 20),
        "y has values up to 1e+308, too extreme to compute with",
    ),
    "lonely.csv": (text(y=Y), "No column is left to predict from; the table needs more than the target."),
    "constant.csv": (
        text(a=[1] * N, b=["k"] * N, y=Y),
        "constant.csv has no column to learn from. Column 'a'",
    ),
    "empty_columns.csv": (
        text(a=[""] * N, b=[""] * N, y=Y),
        "Column 'b' is left out: all of its values are missing.",
    ),
    "names.csv": (text(a=[f"n{i}" for i in range(N)], y=Y), "as an identifier has."),
    "endless.csv": (
        text(a=[*A[1:], "inf"], b=["-inf", *B[1:]], y=Y),
        "Column 'a' holds an infinite value in row 39 of .*; column 'b' holds an infinite value in row 0;",
    ),
    "short.csv": ("a,y\n1,2\n2,3.5\n", "short.csv has 2 rows with a target; at least 4 are needed."),
    "twins.csv": (
        "a,a,b,b,y\n" + "1,2,3,4,5\n" * 9,
        "two columns called 'a', and two called 'b'; rename one of each.",
    ),
    "anonymous.csv": (",,y\n" + ROWS, "2 columns have no name; give them names in the first line."),
    "headless.csv": (ROWS, r"the first line holds numbers \(.*\), and not the names of the columns"),
    "lengths.npz": (
        archive(X=np.zeros((5, 2)), y=np.zeros(4)),
        "holds 5 rows and a target y of shape (4,); they must",
    ),
    "objects.npz": (archive(X=np.array([{}, None])), "it holds Python objects; save numbers or text."),
    "cube.npz": (
        archive(X=np.zeros((5, 2, 2)), y=np.zeros(5)),
        "holds no matrix; save one as X, and the target as y.",
    ),
    "array.npz": (one_array(), "array.npz holds one array without a name; save X and y with np.savez."),
    "waves.npz": (
        archive(X=np.full((5, 2), 1j), y=np.zeros(5)),
        "waves.npz holds complex numbers in X; save numbers, dates or text.",
    ),
    "nested.parquet": (
        parquet(a=A, y=[{"v": v} for v in Y.tolist()]),
        "Column 'y' holds lists or structures, and a target is numbers or classes",
    ),
    "capital.csv": (text(a=A, b=B, Y=Y), "There is no column 'y' (--target); did you mean 'Y'?"),
    "zeros.csv": (bytes(400), "zeros.csv holds zero bytes alone, as a copy that was broken off leaves"),
    "mainframe.csv": (GOOD.encode("cp500"), "mainframe.csv is not UTF-8 text in line 1; save it as UTF-8."),
    "pointer.csv": (POINTER, "pointer.csv is what Git LFS keeps in place of a file; fetch the file itself"),
    "pointer.parquet": (POINTER, "pointer.parquet is what Git LFS keeps in place of a file"),
    "page.parquet": ("<!DOCTYPE html>\n<html>404</html>\n", "page.parquet is a web page, as servers send"),
    "half.parquet": (parquet(a=A, y=Y)[:400], "half.parquet is cut off in the middle; copy it again."),
    "damaged.parquet": (damaged(parquet(a=A, y=Y)), "); if it is damaged, copy it again."),
    "nothing.parquet": (b"", "nothing.parquet is empty; copy it again."),
    "half.npz": (
        archive(X=np.eye(9), y=np.ones(9))[:300],
        "half.npz cannot be read as a NumPy archive: it is cut",
    ),
    "damaged.npz": (damaged(archive(X=np.eye(40), y=Y)), r"it is cut off or damaged \(.*\); copy it again."),
    "rows.csv.xz": (lzma.compress(GOOD.encode()), "unpack it, or pack it as one of .gz, .bz2, .zst."),
    "rows.csv.zip": (b"PK\x03\x04", "rows.csv.zip is packed in a way that is not read; unpack it"),
    "letters.svm": (
        "1 0:a 1:2\n",
        "letters.svm cannot be read as svmlight, where a row is a target and then column:value (",
    ),
}
#: By what is wrong with the options on a good table: the words, and the sentence.
OPTIONS = {
    "view": (["--view", "rna=rna_*"], "--view rna=rna_* matches no column; there are a, b."),
    "columns": (["--columns", "a,w,v"], "There are no columns 'w', 'v' (--columns); there are a, b, y."),
    "groups": (["--groups", "subject"], "There is no column 'subject' (--groups)"),
    "sep": (["--sep", "::"], "--sep is '::'; it must be one letter"),
    "same": (["--sep", ",", "--decimal", ","], "sep and decimal are both ','; they must differ."),
    "encoding": (["--encoding", "utf-5"], "--encoding is 'utf-5', which is no encoding of text"),
    "solver": (["--solver", "foo"], "triply-stochastic, ufo, uniform."),
    "loss": (["--loss", "foo"], "--loss is 'foo'; choose one of 'squared', .*'poisson'."),
    "degree": (["--kernels", "products", "--degree", "0"], "--degree is 0; use a whole number from 1 to"),
    "p": (["--p", "3"], "--p is 3.0; use a number in [1, 2]."),
    "unit": (["--memory", "4"], "--memory is '4', which are bytes; write a unit, as in '4GiB'."),
    "memory": (["--memory", "lots"], "--memory is 'lots'; pass a number of bytes"),
}


def told(folder, *words):
    """Return the one sentence of a command that is refused, which leaves the folder as it was."""
    before = sorted(folder.rglob("*"))
    result = testing.CliRunner().invoke(cli.application(), [str(word) for word in words])
    assert result.exit_code == 2, result.output
    assert sorted(folder.rglob("*")) == before
    lines = [line for line in result.stderr.splitlines() if not line.startswith("Note: ")]
    assert len(lines) == 1 and result.stdout == "", result.output
    return lines[0]


def assert_says(sentence, error):
    import re

    assert re.search(sentence if ".*" in sentence else re.escape(sentence), error), error
    assert error[-1] in ".?"


@pytest.mark.parametrize("name", TABLES)
def test_a_malformed_table_is_one_sentence(tmp_path, name):
    data, sentence = TABLES[name]
    (tmp_path / name).write_bytes(data if isinstance(data, bytes) else data.encode())
    assert_says(sentence, told(tmp_path, "fit", tmp_path / name, "-t", "y", "-o", tmp_path / "m.mk"))


@pytest.mark.parametrize("name", OPTIONS)
def test_options_that_do_not_fit_a_table_are_one_sentence(tmp_path, name):
    words, sentence = OPTIONS[name]
    (tmp_path / "good.csv").write_text(GOOD)
    assert_says(
        sentence, told(tmp_path, "fit", tmp_path / "good.csv", "-t", "y", *words, "-o", tmp_path / "m.mk")
    )


def test_text_in_another_encoding_than_said_is_one_sentence(tmp_path):
    (tmp_path / "d.csv").write_text(GOOD.replace("a", "ä", 1), encoding="utf-8")
    words = ["fit", tmp_path / "d.csv", "-t", "y", "--encoding", "ascii", "-o", tmp_path / "m.mk"]
    assert "is not ascii text, by its byte 0; name another encoding, or none." in told(tmp_path, *words)


def test_a_line_of_totals_is_noticed_below_a_column_of_numbers(tmp_path):
    (tmp_path / "d.csv").write_text(GOOD + "Total,,\n")
    words = ["fit", tmp_path / "d.csv", "-t", "y", "--view", "v=none_*", "-o", tmp_path / "m.mk"]
    result = testing.CliRunner().invoke(cli.application(), [str(word) for word in words])
    assert (
        "Column 'a' holds numbers but for values such as 'Total', which are taken for missing;"
        in result.stderr
    )


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    table = {"a": A, "b": B}
    import pyarrow as pa

    MKLRegressor([Linear()], solver="uniform", C=1.0).fit(pa.table(table), Y).save(folder / "m.mk")
    (folder / "good.csv").write_text(GOOD)
    return folder


#: By what is asked for, with a model: the words, a table beside it, and the sentence.
ASKED = {
    "columns": (
        ["predict", "m.mk", "t.csv", "-o", "p.csv"],
        text(c=A, d=B),
        "There are no columns 'a', 'b' (needed by",
    ),
    "words": (
        ["predict", "m.mk", "t.csv", "-o", "p.csv"],
        text(a=["x"] * N, b=B),
        "Column 'a' holds text, not numbers;",
    ),
    "swapped": (
        ["predict", "good.csv", "m.mk", "-o", "p.csv"],
        "",
        "good.csv is not a model file of manykernels.",
    ),
    "ending": (["predict", "m.mk", "good.csv", "-o", "p.docx"], "", "p.docx must end in "),
    "rows": (["predict", "m.mk", "t.csv", "-o", "p.csv"], "a,b\n", "t.csv has no rows."),
    "views": (
        ["explain", "m.mk", "good.csv", "--by", "view", "-o", "p.csv"],
        "",
        "m.mk was fitted without views;",
    ),
    "target": (
        ["report", "m.mk", "good.csv", "-t", "w", "-o", "r.html"],
        "",
        "There is no column 'w' (--target)",
    ),
    "demo": (["demo", "-o", "good.csv"], "", "good.csv is a file; name a directory with -o."),
    "near": (
        ["fit", "Good.CSV", "-t", "y", "-o", "n.mk"],
        "",
        "Good.CSV does not exist; did you mean good.csv?",
    ),
    "far": (["fit", "ants.csv", "-t", "y", "-o", "n.mk"], "", "ants.csv does not exist."),
    "folds": (
        ["compare", "good.csv", "-t", "y", "--folds", "50"],
        "",
        "--folds is 50, and there are 40 rows;",
    ),
}


@pytest.mark.parametrize("name", ASKED)
def test_what_does_not_fit_a_model_is_one_sentence(fitted, name, monkeypatch):
    words, table, sentence = ASKED[name]
    monkeypatch.chdir(fitted)
    (fitted / "t.csv").write_text(table)
    assert_says(sentence, told(fitted, *words))
