"""Several views in the streams: groups of columns of files, batches of dicts, and more rows than memory is for."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from manykernels import MKLClassifier, MKLRegressor, Views, load
from manykernels.families import Gaussians, Laplacians
from manykernels.families.view import View
from manykernels.kernels import RBF, Laplacian, Linear
from manykernels.predictors import feature_maps
from manykernels.solvers import Blockwise
from manykernels.streaming import open_source, predict_to

KERNELS = {"rna": Laplacian(3.0), "img": RBF(2.0)}
QUICK = Blockwise(grids=64, n_features=128, sweeps=2, random_state=0)


def rows(n=300, seed=0, lack=0.3):
    """Return a table of two groups of columns, of which rows lack either, and a target that depends on both."""
    rng = np.random.default_rng(seed)
    A, B = rng.normal(size=(n, 3)), rng.normal(size=(n, 2))
    y = np.sin(A[:, 0]) + B[:, 0] + 0.1 * rng.normal(size=n)
    u = rng.random(n)
    A[u < lack / 2], B[u > 1 - lack / 2] = np.nan, np.nan
    table = pd.DataFrame(np.hstack([A, B]), columns=["rna_a", "rna_b", "rna_c", "img_x", "img_y"])
    return table.assign(y=y)


def as_dict(table):
    return {"rna": table.filter(like="rna_"), "img": table.filter(like="img_")}


GROUPS = {"rna": "rna_*", "img": "img_*"}


def test_columns_of_a_file_are_views_by_their_prefix(tmp_path):
    table, new = rows(), rows(200, seed=1)
    table.to_parquet(tmp_path / "rows.parquet")
    new.drop(columns="y").to_parquet(tmp_path / "new.parquet")
    model = MKLRegressor(KERNELS, solver=QUICK, C=10.0)
    model.fit(open_source(tmp_path / "rows.parquet", views=GROUPS), "y")
    assert model.views_ == ["rna", "img"]
    assert model.score(as_dict(new), new["y"]) > 0.6
    predict_to(model, tmp_path / "new.parquet", tmp_path / "out.parquet")
    written = pd.read_parquet(tmp_path / "out.parquet")["prediction"]
    assert_allclose(written, model.predict(as_dict(new)), atol=1e-6)
    model.save(tmp_path / "model.mk")
    assert_array_equal(load(tmp_path / "model.mk").predict(as_dict(new)), model.predict(as_dict(new)))


def test_a_file_may_lack_a_view_at_prediction(tmp_path):
    table = rows()
    model = MKLRegressor(KERNELS, solver=QUICK, C=10.0).fit(as_dict(table), table["y"])
    some = table.drop(columns=["img_x", "img_y", "y"]).dropna()
    some.to_csv(tmp_path / "rna.csv", index=False)
    predict_to(model, tmp_path / "rna.csv", tmp_path / "out.csv")
    assert_allclose(
        pd.read_csv(tmp_path / "out.csv")["prediction"],
        model.predict({"rna": some.filter(like="rna_")}),
        atol=1e-6,
    )
    table[["y"]].to_csv(tmp_path / "none.csv", index=False)
    with pytest.raises(ValueError, match="none of the columns of the model's views, such as 'rna_a'"):
        predict_to(model, tmp_path / "none.csv", tmp_path / "out2.csv")


def test_batches_may_be_dicts_of_views():
    table, new = rows(), rows(200, seed=1)
    parts = [table.iloc[a : a + 100] for a in range(0, 300, 100)]
    batches = [(as_dict(part), part["y"].to_numpy()) for part in parts]
    batches.append(({"img": parts[0].filter(like="img_").dropna()}, parts[0]["y"][parts[0]["img_x"].notna()]))
    model = MKLRegressor(KERNELS, solver=QUICK, C=10.0).fit(batches)
    assert model.score(as_dict(new), new["y"]) > 0.6
    with pytest.raises(ValueError, match=r"batch 1 .* is a ndarray, and the first batch has several views"):
        MKLRegressor(KERNELS, solver=QUICK, C=10.0).fit([batches[0], (np.zeros((3, 5)), np.zeros(3))])


def test_partial_fit_takes_views_batch_by_batch():
    table, new = rows(), rows(200, seed=1)
    model = MKLRegressor(dict.fromkeys(GROUPS, RBF(2.0)), solver=QUICK, C=10.0)
    for a in range(0, 300, 100):
        part = table.iloc[a : a + 100]
        model.partial_fit(as_dict(part), part["y"])
    assert model.score(as_dict(new), new["y"]) > 0.6


@pytest.mark.parametrize("kernel", [Gaussians(bounds=(0.1, 10.0)), Laplacians(bounds=(0.1, 10.0))])
def test_random_features_of_rows_that_lack_a_view_are_apart(kernel):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(6, 2)), [1, 1, 1, 1, 0, 0]])
    X[4:, :2] = 0.0
    view = View("v", kernel, 0, 2, 2).resolve(3)
    (feature_map,) = feature_maps(view, [1.5], 3, 0, 256)
    Z = np.hstack([feature_map.block(b).transform(X) for b in range(64)]) / 8
    K = view.gram(X, X, [1.5], np.ones(1))
    # 64 blocks: Fourier features err by 1/sqrt(64 · 128), grids by 1/sqrt(64), four times that for all pairs.
    assert_allclose(Z[:4] @ Z.T, K[:4], atol=0.05 if kernel.statistic == "sqdist" else 0.3)
    assert_array_equal(np.round(Z[4:] @ Z[:4].T, 3), 0.0)


@pytest.fixture(scope="module")
def beyond():
    """The default with memory for a few rows only: Blockwise on the same kernels."""
    table = rows(400)
    y = np.where(table["y"] > 0, "high", "low")
    return MKLClassifier(memory="100KiB", random_state=0).fit(as_dict(table), y), table, y


def test_beyond_memory_a_dict_of_views_has_no_cliff(beyond):
    model, table, y = beyond
    assert isinstance(model.solver_, Blockwise)
    new = rows(400, seed=1)
    truth = np.where(new["y"] > 0, "high", "low")
    exact = MKLClassifier(random_state=0).fit(as_dict(table), y)
    # Two standard errors of a difference of two accuracies on 400 rows.
    assert model.score(as_dict(new), truth) > exact.score(as_dict(new), truth) - 0.04
    assert set(model.combination_.table()["view"]) <= {"rna", "img"}


def test_contributions_beyond_memory_are_by_view(beyond):
    model, table, _ = beyond
    parts = model.contributions(as_dict(table), by="view")
    assert_array_equal(np.isnan(parts[:, 0]), table["rna_a"].isna())
    whole = table.notna().all(axis=1)  # with bins, rows that lack a view have a constant there
    total = parts[whole].sum(axis=1) + model.intercept_[0]
    assert_allclose(total, model.decision_function(as_dict(table[whole])), atol=1e-4)


def test_views_joined_keep_their_rows():
    table = rows(20)
    whole = Views(as_dict(table))
    again = Views.joined([whole[:8], whole[8:].only(["img"]), whole[:3]])
    assert len(again) == 23
    assert_array_equal(again.present[:, 1], np.r_[whole.present[:, 1], whole.present[:3, 1]])
    assert not again.present[8:20, 0].any()


def test_lines_on_views_are_exact_features():
    table = rows()
    model = MKLRegressor({"rna": Linear(), "img": Linear()}, solver=QUICK, C=10.0).fit(
        as_dict(table), table["y"]
    )
    assert model.score(as_dict(table), table["y"]) > 0.5
