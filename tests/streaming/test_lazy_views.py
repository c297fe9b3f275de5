"""Views as a dict of dask collections: the model of views in memory, and lazy predictions."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose

from manykernels import MKLClassifier, MKLRegressor
from manykernels.kernels import RBF, Laplacian, Linear, Polynomial
from manykernels.solvers import Blockwise, Greedy, LpNorm
from manykernels.streaming import open_source

dask = pytest.importorskip("dask")
dd = pytest.importorskip("dask.dataframe")
da = pytest.importorskip("dask.array")
pd = pytest.importorskip("pandas")

LINES = {"rna": Polynomial(2), "img": Linear()}
CUTS = [0, 70, 75, 200, 300]


@pytest.fixture(autouse=True)
def synchronous():
    with dask.config.set(scheduler="synchronous"):
        yield


def rows(n=300, seed=0, lack=0.3):
    """Return two views, of which rows lack either, and a target that depends on both."""
    rng = np.random.default_rng(seed)
    A, B = rng.normal(size=(n, 3)), rng.normal(size=(n, 2)) + 5.0
    y = A[:, 0] ** 2 + B[:, 0] + 0.1 * rng.normal(size=n)
    u = rng.random(n)
    A[u < lack / 2], B[u > 1 - lack / 2] = np.nan, np.nan
    return {"rna": pd.DataFrame(A, columns=list("abc")), "img": pd.DataFrame(B, columns=list("xy"))}, y


def cut(values, cuts=CUTS):
    """Return values in partitions of unequal size, which Dask does not know."""
    parts = [values[a:b] for a, b in pairwise(cuts)]
    if isinstance(values, np.ndarray):
        shape = (np.nan, *values.shape[1:])
        return da.concatenate(
            [da.from_delayed(dask.delayed(p), shape, dtype=float) for p in parts],
            allow_unknown_chunksizes=True,
        )
    return dd.from_delayed([dask.delayed(p) for p in parts], meta=values.iloc[:0])


def lazily(views, y):
    return {name: cut(view) for name, view in views.items()}, cut(y)


@pytest.mark.parametrize("kind", ["frames", "arrays"])
def test_the_model_is_that_of_views_in_memory(kind):
    views, y = rows(lack=0.0)
    if kind == "arrays":
        views = {name: view.to_numpy() for name, view in views.items()}
    model = MKLRegressor(LINES, solver=LpNorm(tol=1e-8), C=1.0)
    here = model.fit(views, y).predict(views)
    weights, score = model.weights_, model.score(views, y)
    X, target = lazily(views, y)
    model.fit(X, target)
    assert_allclose(model.weights_, weights, rtol=1e-8)
    later = model.predict(X)
    assert isinstance(later, da.Array)
    assert_allclose(later.compute(), here, rtol=0, atol=1e-8)
    assert_allclose(model.predict(views), here, rtol=0, atol=1e-8)
    assert_allclose(model.score(X, target), score, rtol=1e-8)
    new = {"img": rows(60, seed=1, lack=0.0)[0]["img"]}  # which may lack a view altogether
    assert_allclose(model.predict({"img": cut(new["img"], [0, 20, 60])}).compute(), model.predict(new))


def test_columns_of_one_collection_are_views_by_their_prefix():
    views, y = rows()
    table = pd.concat([views["rna"].add_prefix("rna_"), views["img"].add_prefix("img_")], axis=1).assign(y=y)
    lazy, groups = cut(table), {"rna": "rna_*", "img": "img_*"}
    model = MKLRegressor(LINES, solver=LpNorm(tol=1e-8), C=1.0)
    model.fit(open_source(lazy, views=groups), "y")
    other = MKLRegressor(LINES, solver=LpNorm(tol=1e-8), C=1.0).fit(
        [(views, y)]
    )  # rows that lack views as in sums
    assert_allclose(model.weights_, other.weights_, rtol=1e-8)
    assert_allclose(model.predict(lazy).compute(), other.predict(views), atol=1e-8)
    assert_allclose(model.score(lazy, "y"), other.score(views, y), rtol=1e-8)


@pytest.mark.slow
def test_text_and_gaps_in_views_are_read_as_in_memory():
    views, y = rows()
    colour = np.array(["red", "blue", "green"])[np.arange(300) % 3]
    views["img"] = views["img"].assign(colour=pd.Series(colour).astype("category"))
    views["img"].loc[::7, "x"] = np.nan
    labels = np.where(y > np.median(y), "high", "low")
    X = {name: cut(view) for name, view in views.items()}
    target = cut(pd.Series(labels))
    quick = Blockwise(grids=16, n_features=32, sweeps=1, sample=150, random_state=0)
    model = MKLClassifier({"rna": Laplacian(3.0), "img": "auto"}, solver=quick).fit(X, target)
    proba = model.predict_proba(X)
    assert proba.compute().shape == (300, 2)
    assert_allclose(proba.compute(), model.predict_proba(views), atol=1e-6)
    assert model.score(X, target) == model.score(views, labels) > 0.7


def test_rows_of_a_view_are_matched_by_their_index_within_a_partition():
    views, y = rows(lack=0.0)
    some = views["img"].drop(index=[3, 4, 80, 250])
    X = {"rna": cut(views["rna"]), "img": dd.from_pandas(some, npartitions=1)}
    with pytest.raises(ValueError, match="view 'img' of X has 1 partitions, and 'rna' has 4"):
        MKLRegressor(LINES, solver=LpNorm(), C=1.0).fit(X, cut(y))
    parts = [some[(some.index >= a) & (some.index < b)] for a, b in pairwise(CUTS)]
    X["img"] = dd.from_delayed([dask.delayed(p) for p in parts], meta=some.iloc[:0])
    model = MKLRegressor(LINES, solver=LpNorm(tol=1e-8), C=1.0).fit(X, cut(y))
    here = MKLRegressor(LINES, solver=LpNorm(tol=1e-8), C=1.0).fit({"rna": views["rna"], "img": some}, y)
    assert_allclose(model.weights_, here.weights_, rtol=1e-8)


def test_what_views_of_collections_cannot_be_is_said():
    views, y = rows()
    X, target = lazily(views, y)
    model = MKLRegressor(LINES, solver=LpNorm(), C=1.0)
    with pytest.raises(ValueError, match="y is 'x', and X is several views as dask collections; pass a dask"):
        model.fit(X, "x")
    with pytest.raises(ValueError, match="columns and drop are for one table"):
        model.fit(open_source(X, columns=["a"]), target)
    X["img"] = cut(views["img"].to_numpy(), [0, 70, 80, 200, 300])
    X["rna"] = cut(views["rna"].to_numpy())
    with pytest.raises(ValueError, match=r"partition [12] .*views of X have different numbers of rows"):
        model.fit(X, target)
    with pytest.raises(ValueError, match="Greedy"):
        MKLRegressor(LINES, solver=Greedy(), C=1.0).fit(*lazily(views, y))


def test_fourier_features_of_views_are_summed_where_the_rows_are():
    views, y = rows()
    X, target = lazily(views, y)
    model = MKLRegressor({"rna": RBF(2.0), "img": Linear()}, solver=LpNorm(), C=10.0).fit(X, target)
    assert model.gap_kind_ == "features" and model.gap_ <= 1e-3 * model.objective_
    assert model.score(X, target) > 0.8
