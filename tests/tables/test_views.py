"""Several sources per row: the forms they come in, rows matched by name, and one matrix made of them."""

import re

import anndata
import mudata
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal
from sklearn.compose import make_column_selector

from manykernels import Views
from manykernels.tables import ViewColumns, as_views

A, B = np.arange(10.0).reshape(5, 2), np.arange(15.0).reshape(5, 3) ** 2


def test_what_has_several_sources_is_views_and_a_table_is_not():
    frame = pd.concat({"a": pd.DataFrame(A), "b": pd.DataFrame(B)}, axis=1)
    lists = [A, sp.csr_array(B)], [pl.DataFrame(A), pl.DataFrame(B)], [anndata.AnnData(A), pd.DataFrame(B)]
    for given in ({"a": A, "b": B}, *lists, frame, Views({"a": A, "b": B})):
        assert as_views(given).shape == (5, 5)
    for given in (A, pd.DataFrame(A), A.tolist(), sp.csr_array(A), [{"a": 1.0}, {"a": 2.0}]):
        assert as_views(given) is None


def test_views_are_split_like_a_table():
    views = Views({"a": A, "b": B})
    for rows in (slice(1, 3), np.array([1, 2]), [1, 2], np.array([False, True, True, False, False])):
        part = views[rows]
        assert len(part) == 2
        assert_array_equal(part.parts["b"].table.matrix, B[1:3])
    assert len(views[np.array([1, 2]), ...]) == 2  # as scikit-learn does


def test_rows_are_matched_by_name_where_names_differ():
    a = pd.DataFrame(A, index=list("vwxyz"))
    b = pd.DataFrame(B[:3], index=list("zxq"))
    views = Views({"a": a, "b": b})
    assert views.index.tolist() == list("vwxyzq")
    assert_array_equal(views.present, [[1, 0], [1, 0], [1, 1], [1, 0], [1, 1], [0, 1]])
    assert_array_equal(views.parts["b"].table.matrix[[4, 2, 5]], B[:3])
    equal = Views({"a": a, "b": pd.DataFrame(B, index=list("vwxyz"))})
    assert equal.present.all()


def test_annotated_matrices_are_views_by_duck_type():
    rna = anndata.AnnData(sp.csr_matrix(A), obs=pd.DataFrame(index=list("vwxyz")))
    atac = anndata.AnnData(B[:4], obs=pd.DataFrame(index=list("wxyz")))

    views = as_views(mudata.MuData({"rna": rna, "atac": atac}))
    assert list(views.keys()) == ["rna", "atac"]
    assert_array_equal(views.present[:, 1], [0, 1, 1, 1, 1])
    assert as_views(rna).shape == (5, 2)


def test_the_matrix_has_all_columns_and_tells_which_rows_have_which_view():
    b = B.copy()
    b[2] = np.nan
    b[3, 0] = np.nan  # a gap is no missing view
    learned = ViewColumns.fit(Views({"a": A, "b": b}), plain=["a"])
    X = learned.transform({"a": A, "b": b})
    assert X.shape[1] == learned.width == len(learned.names_out)
    assert_array_equal(X[:, :2], A)
    assert_array_equal(X[:, -2:], [[1, 1], [1, 1], [1, 0], [1, 1], [1, 1]])
    assert not X[2, 2:-2].any()
    only = learned.transform({"b": B[:2]})
    assert not only[:, :2].any()
    assert_array_equal(only[:, -2:], [[0, 1], [0, 1]])


def test_rows_that_lack_a_view_do_not_teach_its_columns():
    b = np.vstack([B, np.full((4, 3), np.nan)])
    alone = ViewColumns.fit(Views({"b": B})).transform({"b": B})
    among = ViewColumns.fit(Views({"a": np.ones((9, 1)) * np.arange(9)[:, None], "b": b}))
    assert_array_equal(among.transform({"b": B})[:, 1:-2], alone[:, :-1])


def test_counts_are_not_brought_to_units_of_their_spread():
    counts = np.random.default_rng(0).poisson(0.1, (20, 40)).astype(float)
    counts[0, 0] += 1
    dense = ViewColumns.fit(Views({"words": counts})).transform({"words": counts})
    sparse = ViewColumns.fit(Views({"words": sp.csr_array(counts)})).transform(
        {"words": sp.csr_array(counts)}
    )
    assert_array_equal(dense[:, :-1], counts)
    assert_array_equal(sparse, dense)


@pytest.mark.parametrize("form", [list, lambda X: X.astype(object), lambda X: pd.DataFrame(X).astype(object)])
def test_numbers_that_came_as_objects_are_taken_as_they_are(form):
    views = {"a": form(A), "b": B}
    X = ViewColumns.fit(Views(views), plain=["a", "b"]).transform(views)
    assert_array_equal(X[:, :5], np.hstack([A, B]))


def test_masked_values_are_missing():
    masked = np.ma.masked_greater(A, 7.0)
    learned = ViewColumns.fit(Views({"a": A, "b": B}))
    gaps = np.where(A > 7.0, np.nan, A)
    assert_array_equal(learned.transform({"a": masked, "b": B}), learned.transform({"a": gaps, "b": B}))


def test_views_without_anything_to_learn_from_are_left_out_with_a_warning():
    once = np.full((5, 2), np.nan)
    once[3] = 1.0
    for empty in (np.full((5, 3), 7.0), once):
        with pytest.warns(UserWarning, match="view 'c' of X is left out"):
            learned = ViewColumns.fit(Views({"a": A, "c": empty}))
        assert learned.names == ("a",)
        alone = ViewColumns.fit(Views({"a": A})).transform({"a": A})
        assert_array_equal(learned.transform({"a": A, "c": empty}), alone)
    with pytest.raises(ValueError, match="nothing to learn from in any of its 2 views"):
        ViewColumns.fit(Views({"a": np.ones((5, 2)), "c": np.ones((5, 1))}))
    half = np.where(np.arange(5)[:, None] < 2, np.nan, A)
    with (
        pytest.warns(UserWarning, match="left out"),
        pytest.raises(ValueError, match="2 rows without any view"),
    ):
        ViewColumns.fit(Views({"a": half, "c": np.ones((5, 2))}))


@pytest.mark.parametrize(
    "given, said",
    [
        ({}, "without views"),
        ({"a": A, "b": B[:3]}, "'a' has 5, 'b' has 3"),
        ({1: A, "1": B}, "more than one view called '1'"),
        ({"a": A[:, 0]}, "view 'a': X has 1 dimension"),
        (
            {"a": pd.DataFrame(A, index=list("xxyzz")), "b": pd.DataFrame(B[:2])},
            "more than one row called 'x'",
        ),
    ],
)
def test_what_is_wrong_with_views_is_said(given, said):
    with pytest.raises(ValueError, match=said):
        Views(given)


def test_a_view_that_no_row_has_and_a_row_that_has_no_view_are_refused():
    with pytest.raises(ValueError, match="view 'b' of X is missing from every row"):
        ViewColumns.fit(Views({"a": A, "b": np.full((5, 2), np.nan)}))
    bare = A.copy()
    bare[3] = np.nan
    with pytest.raises(ValueError, match="1 row without any view, such as row 3"):
        ViewColumns.fit(Views({"a": bare}))
    learned = ViewColumns.fit(Views({"a": A, "b": B}))
    with pytest.raises(ValueError, match="a view called 'c', which the model does not know; it has 'a', 'b'"):
        learned.transform({"a": A, "c": B})
    with pytest.raises(ValueError, match="fitted on views; pass a dict with 'a', 'b'"):
        learned.transform(A)
    with pytest.raises(ValueError, match="view 'b': X has 2 features"):
        learned.transform({"b": A})
    with pytest.raises(ValueError, match=r"X has 0 sample\(s\)"):
        ViewColumns.fit(Views({"a": A[:0], "b": B[:0]}))


def test_groups_of_columns_may_overlap_and_come_in_many_forms(tmp_path):
    frame = pd.DataFrame(np.arange(12.0).reshape(3, 4), columns=["rna_a", "rna_b", "age", "sex"])
    frame["sex"] = ["f", "m", "f"]
    gmt = tmp_path / "sets.gmt"
    gmt.write_text("one\tdescription\trna_a\tunknown\tage\ntwo\t\trna_a\n")
    views = Views.from_columns(
        frame,
        {
            "pattern": "rna_*",
            "expression": re.compile("^(a|s)"),
            "names": ["age", "nowhere"],
            "numbers": [0, 2],
            "slice": slice(1, 3),
            "mask": frame.columns == "sex",
            "dtype": make_column_selector(dtype_include=float),
        },
    )
    widths = {name: part.table.names for name, part in views.parts.items()}
    assert widths == {
        "pattern": ("rna_a", "rna_b"),
        "expression": ("age", "sex"),
        "names": ("age",),
        "numbers": ("rna_a", "age"),
        "slice": ("rna_b", "age"),
        "mask": ("sex",),
        "dtype": ("rna_a", "rna_b", "age"),
    }
    sets = Views.from_columns(frame, gmt)
    assert [part.table.names for part in sets.parts.values()] == [("rna_a", "age"), ("rna_a",)]
    with pytest.warns(match="1 of the groups have no column in X and are left out, such as 'none'"):
        assert list(Views.from_columns(frame, {"none": ["z"], "age": ["age"]}).keys()) == ["age"]
    with pytest.raises(ValueError, match="selects no column"):
        Views.from_columns(frame, {"none": "z*"})
    for which in (float, None, slice("rna_a", "age")):
        with pytest.raises(ValueError, match="a function such as make_column_selector"):
            Views.from_columns(frame, {"some": which})
    gmt.write_text("one\t\trna_a\none\t\tage\n")
    with pytest.raises(ValueError, match="more than one group called 'one'"):
        Views.from_columns(frame, gmt)
    gmt.write_text("one\n")
    with pytest.raises(ValueError, match=r"line 1 of .* has no columns"):
        Views.from_columns(frame, gmt)
