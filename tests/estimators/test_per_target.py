"""Weights per target: each target's problem by itself, over the same kernels."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.metrics import r2_score

from manykernels import MKLRegressor, load
from manykernels.kernels import RBF, Linear
from manykernels.solvers import LpNorm, Obscure


def sources(n=120, targets=2, seed=0):
    """Return two views, and targets that depend on the first and the second in turn."""
    rng = np.random.default_rng(seed)
    X = {"p": rng.normal(size=(n, 3)), "q": rng.normal(size=(n, 3))}
    f = [np.sin(2 * X["pq"[k % 2]][:, 0] + k) for k in range(targets)]
    return X, np.column_stack(f) + 0.1 * rng.normal(size=(n, targets))


LIST = {"p": RBF(2.0), "q": Linear()}


def test_targets_by_themselves_are_separate_fits():
    X, Y = sources(60)
    model = MKLRegressor(LIST, solver=LpNorm(p=1.2), C=5.0, weights="per_target").fit(X, Y)
    alone = [clone(model).fit(X, y) for y in Y.T]
    assert_allclose(model.weights_, [m.weights_ for m in alone], rtol=1e-10)
    assert_allclose(model.predict(X), np.column_stack([m.predict(X) for m in alone]), atol=1e-10)
    assert model.objective_ == pytest.approx(sum(m.objective_ for m in alone), rel=1e-10)
    assert model.gap_ == pytest.approx(sum(m.gap_ for m in alone), abs=1e-10)


@pytest.fixture(scope="module")
def fitted():
    X, Y = sources(150)
    return MKLRegressor(weights="per_target").fit(X, Y), X, Y


def test_every_target_finds_its_own_view(fitted, tmp_path):
    model, X, _ = fitted
    share = model.combination_.table().groupby(["target", "view"])["share"].sum()
    assert share.loc[(0, "p")] > 0.9 and share.loc[(1, "q")] > 0.9
    assert model.weights_.shape == (2, len(model.combination_.members))
    new, Y = sources(200, seed=1)
    assert r2_score(Y, model.predict(new)) > 0.75
    assert abs(model.loo_score_ - r2_score(Y, model.predict(new))) < 0.15
    model.save(tmp_path / "model.mk")
    assert_array_equal(load(tmp_path / "model.mk").predict(X), model.predict(X))


def test_contributions_add_up_and_so_does_the_score_by_view(fitted):
    model, X, Y = fitted
    F = model.predict(X)
    assert_allclose(model.contributions(X).sum(axis=1) + model.intercept_, F, atol=1e-9)
    split = model.score_by_view(X, Y)
    assert split.shape == (2, 2)
    assert_allclose(split.sum(axis=1), r2_score(Y, F, multioutput="raw_values"), rtol=1e-8)
    assert split[0, 0] > 0.8 > 0.1 > split[0, 1]


def test_many_targets_share_machines():
    X, Y = sources(100, targets=40)
    model = MKLRegressor(weights="per_target").fit(X, Y)
    table = model.combination_.table()
    own = table[table["view"] == table["target"].map(lambda k: "pq"[k % 2])].groupby("target")["share"].sum()
    assert own.reindex(range(40), fill_value=0.0).mean() > 0.85
    shared = MKLRegressor().fit(X, Y)
    new, Z = sources(200, targets=40, seed=1)
    assert r2_score(Z, model.predict(new)) > r2_score(Z, shared.predict(new))


def test_one_target_has_the_weights_it_always_has():
    X, Y = sources(60)
    one = MKLRegressor(LIST, solver=LpNorm(), C=5.0, weights="per_target").fit(X, Y[:, 0])
    assert one.weights_.ndim == 1


def test_what_cannot_weigh_targets_says_so():
    X, Y = sources(40)
    with pytest.raises(ValueError, match=r"weights='per_target' needs a solver .* and Obscure is none"):
        MKLRegressor(LIST, solver=Obscure(), C=1.0, weights="per_target", loss="squared").fit(X, Y)
    with pytest.raises(ValueError, match="weights of MKLRegressor is 'own'; use 'shared' or 'per_target'"):
        MKLRegressor(LIST, C=1.0, weights="own").fit(X, Y)


def bands(n, targets, seed=0):
    """Return three bands of columns, and noisy targets that depend on one of them each."""
    rng = np.random.default_rng(seed)
    X = {name: rng.normal(size=(n, 8)) for name in "abc"}
    W = np.random.default_rng(9).normal(size=(targets, 8)) / np.sqrt(8)
    Y = np.column_stack([X["abc"[k % 3]] @ W[k] for k in range(targets)])
    return X, Y + 0.7 * rng.normal(size=Y.shape)


@pytest.mark.parametrize("kernels", [Linear(), RBF(6.0)], ids=["columns", "pairs"])
def test_many_targets_on_given_kernels_find_their_bands(kernels):
    X, Y = bands(150, 60)
    each = dict.fromkeys(X, kernels)
    model = MKLRegressor(each, solver="leave_one_out", weights="per_target").fit(X, Y)
    share = model.combination_.shares()
    assert np.mean(np.argmax(share, axis=1) == np.arange(60) % 3) > 0.95
    new, Z = bands(300, 60, seed=1)
    shared = MKLRegressor(each, solver="leave_one_out").fit(X, Y)
    reached = r2_score(Z, model.predict(new))
    assert reached > r2_score(Z, shared.predict(new)) + 0.01
    assert abs(model.loo_score_ - reached) < 0.05  # weights of 60 targets, and no row has chosen its own


@pytest.mark.parametrize(("solver", "targets"), [("leave_one_out", 40), ("lp_norm", 3)])
def test_rows_that_lack_views_are_balanced_by_each_target(tmp_path, solver, targets):
    noise, _ = bands(120, targets)
    told = np.random.default_rng(2).normal(size=(120, 8))  # bands that tell the same stand for each other
    X, Y = (
        {name: told + 0.3 * V for name, V in noise.items()},
        told @ np.ones((8, targets)) + np.arange(targets),
    )
    Y[:, 1:] += told[:, :1]
    X["a"][:40], X["b"][80:] = np.nan, np.nan
    model = MKLRegressor(dict.fromkeys(X, Linear()), solver=solver, weights="per_target").fit(X, Y)
    F = model.predict(X)
    numbers = model.columns_.transform(X)
    for k in (0, 1):  # q is the share of a target's weight whose views a row has
        own = model.combination_.of_target(k)
        assert own.family.balance is not None
        assert_allclose(own.gram(numbers) @ model.dual_coef_[:, k] + model.intercept_[k], F[:, k], atol=1e-9)
    model.save(tmp_path / "model.mk")
    assert_array_equal(load(tmp_path / "model.mk").predict(X), F)


def test_constant_and_repeated_rows_do_not_stop_many_targets():
    X, Y = bands(60, 40)
    twice = {name: np.vstack([V, V]) for name, V in X.items()}
    Y = np.vstack([Y, Y])
    Y[:, 0] = 3.0
    model = MKLRegressor(dict.fromkeys(X, Linear()), solver="leave_one_out", weights="per_target").fit(
        twice, Y
    )
    assert np.isfinite(model.predict(twice)).all()
    assert_allclose(model.predict(twice)[:, 0], 3.0, atol=1e-6)


def test_a_constant_target_has_no_score_to_split(fitted):
    model, X, Y = fitted
    split = model.score_by_view(X, np.column_stack([np.full(len(Y), 2.0), Y[:, 1]]))
    assert np.isnan(split[0]).all() and np.isfinite(split[1]).all()


@pytest.mark.parametrize("fields", [{}, {"C": 3.0}], ids=["C chosen", "C given"])
def test_many_targets_take_ready_made_kernels(fields):
    X, Y = bands(80, 40)
    K = np.stack([V @ V.T for V in X.values()], axis=2)
    model = MKLRegressor("precomputed", solver="leave_one_out", weights="per_target", **fields).fit(K, Y)
    assert np.mean(np.argmax(model.combination_.shares(), axis=1) == np.arange(40) % 3) > 0.9
    assert set(model.trace_.extra["C"]) == {3.0} if fields else len(set(model.trace_.extra["C"])) > 1
