"""Text is read as it is written: separators, decimal marks, encodings, thousands, dates."""

import csv
import datetime as dt
import re

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")

from manykernels.streaming import open_source  # noqa: E402
from manykernels.streaming.dialect import Dialect, decimal_of, separator_of  # noqa: E402
from manykernels.streaming.meaning import amounts_in, dates_in, numbers_among_words, numbers_in  # noqa: E402


def table_of(path, **options):
    """Return a file that is read as a whole, as a dict of lists."""
    return open_source(path, whole=True, **options).inner.dataset.to_table().to_pydict()


def written(path, rows, separator=",", encoding="utf-8"):
    with open(path, "w", newline="", encoding=encoding) as file:
        csv.writer(file, delimiter=separator).writerows(rows)
    return path


ROWS = [["a", "text, with; marks", "y"], ["1.5", "x y", "0"], ["2.25", "p|q", "1"], ["-3.0", "é", "1"]]


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("ending", ["csv", "tsv", "txt"])
def test_the_separator_is_told_by_the_text(tmp_path, separator, ending):
    found = table_of(written(tmp_path / f"t.{ending}", ROWS, separator))
    assert found == {"a": [1.5, 2.25, -3.0], "text, with; marks": ["x y", "p|q", "é"], "y": [0, 1, 1]}


def test_blanks_separate_where_nothing_else_does(tmp_path):
    path = tmp_path / "t.txt"
    path.write_text("a b c\n1 2 3\n4 5 6\n")
    assert table_of(path) == {"a": [1, 4], "b": [2, 5], "c": [3, 6]}


def test_one_column_has_no_separator(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("name\nAnna Maria\nJohn\n")
    assert table_of(path) == {"name": ["Anna Maria", "John"]}


def test_comma_decimals_between_semicolons(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a;b\n1,5;2\n-0,25;3\n1e3;4\n")
    assert table_of(path) == {"a": [1.5, -0.25, 1000.0], "b": [2, 3, 4]}


@pytest.mark.parametrize(
    "cells, separator, mark",
    [
        (["1,5", "2,25"], ";", ","),
        (["1.5", "2.25"], ";", "."),
        (["1,234", "5.5"], ";", "."),  # thousands, as there are points
        (["1.234,5"], ";", ","),
        (["1,5"], ",", "."),  # commas separate
        (["word", "3"], ";", "."),
    ],
)
def test_the_decimal_mark_is_told_by_the_numbers(cells, separator, mark):
    from collections import Counter

    assert decimal_of(Counter(cells), separator) == mark


def test_what_is_named_is_not_guessed(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a;b\n1,5;2,5\n")
    assert table_of(path, sep=";", decimal=",") == {"a": [1.5], "b": [2.5]}
    assert table_of(path, decimal=",") == {"a": [1.5], "b": [2.5]}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_marked_encodings_are_known(tmp_path, encoding):
    path = written(tmp_path / "t.csv", [["naïve", "y"], ["Łódź", 1], ["köln", 2]], ";", encoding)
    assert table_of(path) == {"naïve": ["Łódź", "köln"], "y": [1, 2]}


def test_other_text_is_taken_for_that_of_windows_with_a_warning(tmp_path):
    path = written(tmp_path / "t.csv", [["n", "y"], ["a", 1], ["Köln – €", 2]], encoding="cp1252")
    with pytest.warns(UserWarning, match=r"is not UTF-8 text in line 3; it is read as cp1252\."):
        assert table_of(path) == {"n": ["a", "Köln – €"], "y": [1, 2]}
    with pytest.warns(UserWarning, match="read as latin-1"):
        table_of(written(tmp_path / "u.csv", [["n"], ["\x81é"]], encoding="latin-1"))
    assert table_of(path, encoding="cp1252")["n"][1] == "Köln – €"


def test_what_is_no_text_is_refused(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b"a,b\n\xff\x00\x01,2\n")
    with pytest.raises(ValueError, match="is no text: line 2 holds a zero byte"):
        table_of(path)


@pytest.mark.parametrize(
    "options, said",
    [
        ({"sep": ";;"}, r"sep is ';;'; it must be one letter"),
        ({"decimal": "'"}, r"decimal is \"'\"; it must be '\.' or ','\."),
        ({"sep": ",", "decimal": ","}, r"sep and decimal are both ','; they must differ\."),
        ({"encoding": "klingon"}, r"encoding is 'klingon', which is no encoding of text"),
        ({"encoding": "rot13"}, r"encoding is 'rot13', which is no encoding of text"),
    ],
)
def test_impossible_dialects_are_refused(tmp_path, options, said):
    with pytest.raises(ValueError, match=said):
        table_of(written(tmp_path / "t.csv", ROWS), **options)


# -- what text means -----------------------------------------------------------------------------------


def numbers(values, decimal="."):
    found = numbers_in(pa.chunked_array([values]), decimal, pa)
    return None if found is None else found.to_pylist()


def test_thousands_are_numbers():
    assert numbers(["1,234", "12,345,678.5", "7", None, "-"]) == [1234.0, 12345678.5, 7.0, None, None]
    assert numbers(["1.234,5", "2,0"], ",") == [1234.5, 2.0]
    assert numbers(["1 234", "1'234.5", " 3 "]) == [1234.0, 1234.5, 3.0]


def test_what_is_not_all_numbers_stays_text():
    assert numbers(["1,234", "twelve"]) is None
    assert numbers(["1,23"]) is None  # no group of three
    assert numbers(["-", "n.a."]) is None  # nothing but words
    assert numbers(["+", "-"]) is None


def test_few_words_among_many_numbers_are_missing():
    said = [*map(str, range(30)), "broken", None, "broken", "off scale"]
    with pytest.warns(
        UserWarning, match="Column 'a' holds numbers but for values such as 'broken' and 'off scale'"
    ):
        found = numbers_among_words(pa.chunked_array([said]), "a", ".", pa)
    assert found.to_pylist() == [*map(float, range(30)), None, None, None, None]
    for codes in (["1", "2", "3", "other"], [*map(str, range(30)), *"abcdefgh"], [*map(str, range(30))]):
        assert numbers_among_words(pa.chunked_array([codes]), "a", ".", pa) is None


def test_signs_of_money_and_per_cent_stand_beside_numbers():
    def amounts(values, decimal="."):
        found = amounts_in(pa.chunked_array([values]), decimal, pa)
        return None if found is None else found.to_pylist()

    assert amounts(["-", "12 %", "3.5%", None]) == [None, 12.0, 3.5, None]
    assert amounts(["$1,200", "-$3.50", "$-7"]) == [1200.0, -3.5, -7.0]
    assert amounts(["1.200,5 €", "3 €"], ",") == [1200.5, 3.0]
    for mixed in (["$3", "4"], ["$3", "4%"], ["3%4", "5%"], ["free", "$3"], ["3% off", "5% off"], ["-"]):
        assert amounts(mixed) is None


def test_marks_of_another_country_are_understood_in_a_column(tmp_path):
    path = written(tmp_path / "t.csv", [["pay", "y"], ["1.234,5", "1.5"], ["2,25", "2.5"]])
    assert table_of(path) == {"pay": [1234.5, 2.25], "y": [1.5, 2.5]}


@pytest.mark.parametrize(
    "order", ["%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d %b %Y", "%d.%m.%Y %H:%M"]
)
def test_dates_in_any_order(order):
    days = [dt.datetime(2020, 1, 1) + dt.timedelta(days=k) for k in range(0, 400, 9)]
    found = dates_in(pa.chunked_array([[d.strftime(order) for d in days] + [None]]), "when", pa)
    assert found.to_pylist() == [*days, None]


def test_days_and_months_that_cannot_be_told_apart_are_warned_of():
    with pytest.warns(
        UserWarning, match="Column 'when' holds dates that may begin with the day or the month"
    ):
        found = dates_in(pa.chunked_array([["01/02/2020", "03/04/2020"]]), "when", pa)
    assert found.to_pylist()[0] == dt.datetime(2020, 2, 1)


def test_what_is_not_all_dates_stays_text():
    assert dates_in(pa.chunked_array([["31.12.2020", "soon"]]), "when", pa) is None
    assert dates_in(pa.chunked_array([["12-A", "13-B"]]), "code", pa) is None


# -- other files ---------------------------------------------------------------------------------------


def test_numpy_archives_are_tables(tmp_path):
    rng = np.random.default_rng(0)
    X, V, y = rng.standard_normal((6, 2)), rng.standard_normal((6, 3)), np.arange(6)
    np.savez(
        tmp_path / "a.npz", X=X, X_rna=V, y=y, columns=np.array(["p", "q"]), classes=np.array(["u", "v"])
    )
    found = table_of(tmp_path / "a.npz")
    assert list(found) == ["p", "q", "rna_0", "rna_1", "rna_2", "y"]
    assert found["q"] == X[:, 1].tolist() and found["rna_2"] == V[:, 2].tolist()
    np.savez(tmp_path / "b.npz", y=y)
    with pytest.raises(ValueError, match=r"holds no matrix; save one as X, and the target as y\."):
        table_of(tmp_path / "b.npz")


def test_svmlight_files_are_tables(tmp_path):
    from sklearn.datasets import dump_svmlight_file

    dump_svmlight_file(np.array([[0, 2.0], [3.0, 0]]), [1, -1], str(tmp_path / "t.svmlight"), zero_based=True)
    assert table_of(tmp_path / "t.svmlight") == {"y": [1, -1], "x0": [0, 3], "x1": [2, 0]}


def test_workbooks_are_tables(tmp_path):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("openpyxl", reason="writing a workbook needs openpyxl")
    pd.DataFrame({"a": [1.5, None], "b": ["x", 3]}).to_excel(tmp_path / "t.xlsx", index=False)
    assert table_of(tmp_path / "t.xlsx") == {"a": [1.5, None], "b": ["x", "3"]}


def test_files_that_are_read_whole_are_not_read_in_chunks(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.eye(3), y=np.arange(3))
    with pytest.raises(ValueError, match=r"is read as a whole only"):
        open_source(tmp_path / "a.npz")


def test_separators_of_random_tables():
    rng = np.random.default_rng(1)
    for _ in range(30):
        separator = rng.choice([",", ";", "\t", "|"])
        width = int(rng.integers(2, 9))
        cells = [[f"{v:.3f}" for v in row] for row in rng.standard_normal((20, width))]
        lines = [separator.join(row) for row in [[f"c{j}" for j in range(width)], *cells]]
        assert separator_of(lines, ",") == separator


def test_a_dialect_knows_what_it_was_told(tmp_path):
    path = written(tmp_path / "t.csv", ROWS, ";")
    assert Dialect(decimal=",").settled(str(path), ",", pa) == Dialect(";", ",", "utf-8")


def test_sparse_rows_of_very_many_columns_are_no_table(tmp_path):
    (tmp_path / "t.svmlight").write_text("1 4000000:1\n0 1:1\n")
    with pytest.raises(ValueError, match=r"2 rows of 4,000,\d+ columns, too many for a table"):
        table_of(tmp_path / "t.svmlight")


def test_names_in_an_archive_may_stand_below_each_other(tmp_path):
    np.savez(tmp_path / "t.npz", X=np.ones((3, 2)), y=np.arange(3), feature_names=np.array([["a"], ["b"]]))
    assert set(table_of(tmp_path / "t.npz")) == {"a", "b", "y"}


BLANKS = (
    "\r\n"
    'a, b , c, d, e, "f g", y\r\n'
    "1, 2, red, true, 2020-01-01,  , yes\r\n"
    ' 2,3 ,blue, false, 2020-01-02, "x", no \r\n'
    "1, NA, NA, true, 2020-01-01, x ,yes\r\n"
)


def rows_of(source):
    """Return all rows, as a dict of lists, and their targets."""
    (chunk,) = source.bind("y", any_kind=True).chunks()
    return {name: chunk.X.read(j).values.tolist() for j, name in enumerate(chunk.X.names)}, chunk.y.tolist()


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("whole", [True, False])
def test_blanks_around_names_and_values_mean_nothing(tmp_path, whole, encoding):
    path = tmp_path / "t.csv"
    path.write_text(BLANKS, encoding=encoding, newline="")
    columns, y = rows_of(open_source(path, whole=whole))
    plain = tmp_path / "plain.csv"
    plain.write_text(re.sub(r' *("?)(,|\r\n) *("?)', r"\2", BLANKS).lstrip(), newline="")
    assert list(columns) == ["a", "b", "c", "d", "e", "f g"]
    assert y == ["yes", "no", "yes"]
    assert columns["c"] == ["red", "blue", None] and columns["f g"] == [None, "x", "x"]
    assert columns["b"][:2] == [2, 3] and np.isnan(columns["b"][2])
    if whole:  # a text that is read in chunks has dates and flags only as pyarrow finds them
        assert str(columns) == str(rows_of(open_source(plain, whole=True))[0])


def test_files_of_a_folder_may_differ_in_blanks_and_order(tmp_path):
    for name, text in (("a", "a, b, y\n1, r, 3\n2, s,4\n"), ("b", "b,y,a\nu,7,9\n")):
        folder = tmp_path / "all" / f"k={name}"
        folder.mkdir(parents=True)
        (folder / "t.csv").write_text(text)
    chunks = list(open_source(tmp_path / "all").bind("y", any_kind=True).chunks())
    assert [chunk.X.names for chunk in chunks] == [("a", "b", "k")] * 2
    assert [[chunk.X.read(j).values.tolist() for j in range(3)] for chunk in chunks] == [
        [[1, 2], ["r", "s"], ["a", "a"]],
        [[9], ["u"], ["b"]],
    ]


@pytest.mark.parametrize("whole", [True, False])
def test_names_that_differ_in_blanks_alone_are_two_of_one(tmp_path, whole):
    path = tmp_path / "t.csv"
    path.write_text("a, a, y\n1,2,3\n")
    with pytest.raises(ValueError, match="two columns called 'a'; rename one"):
        open_source(path, whole=whole).bind("y")


def test_a_blank_before_a_quote_is_named(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a, b, y\n" + "1, x, 3\n" * 20 + '1, "x, u", 3\n')
    with pytest.raises(ValueError, match="with no blank before the quote"):
        open_source(path, whole=True)
