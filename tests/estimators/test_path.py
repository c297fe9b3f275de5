"""``path``: models are those of fits, and errors those of rows left out."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import KFold, cross_val_score

from manykernels import MKLClassifier, MKLRegressor
from manykernels.kernels import RBF, Linear
from manykernels.solvers import Greedy, LeaveOneOut, LpNorm
from manykernels.solvers.gram_once.features import fold_of
from manykernels.streaming.cluster import Block

rng = np.random.default_rng(0)
X = rng.normal(size=(150, 4))
Y = np.column_stack([X[:, 0] + 3.0, X[:, 1] - X[:, 2]]) + 0.5 * rng.normal(size=(150, 2))
S = rng.uniform(0.5, 2.0, 150)
LINES = [Linear(columns=[j]) for j in range(4)]
C, P = [10.0, 0.01, 1.0], [1.0, 2.0]


def test_models_and_scores_are_those_of_fits():
    model = MKLRegressor(LINES, solver=LpNorm(tol=1e-9))
    path = model.path(X, Y, C=C, p=P, cv=4)
    assert not hasattr(model, "combination_")
    assert path.C.tolist() == sorted(C) and path.p.tolist() == P and path.score.shape == (2, 3, 4)
    for i, j in ((0, 1), (1, 2)):
        one = clone(model).set_params(C=path.C[j], solver__p=path.p[i])
        assert np.allclose(cross_val_score(one, X, Y, cv=4), path.score[i, j], atol=1e-6)
        one.fit(X, Y)
        assert np.allclose(path.models[i, j].predict(X), one.predict(X), atol=1e-5)
        assert np.isclose(path.models[i, j].objective_, one.objective_, rtol=1e-8)
        assert path.models[i, j].get_params()["solver__p"] == path.p[i] and path.C[j] == path.models[i, j].C


def test_the_table_has_a_row_for_every_model_and_one_is_the_best():
    path = MKLRegressor(LINES, solver=LpNorm()).path(X, Y[:, 0], S, C=C, p=P)
    table = path.table()
    assert len(table) == 6 and table["best"].sum() == 1
    best = table[table["best"]].iloc[0]
    assert best["error"] <= table["error"].min() * 1.001
    assert best["C"] == path.best_model.C_ and path.best_model.solver_.p == best["p"]
    assert (table["gap"] <= 1e-3 * table["objective"]).all()
    assert path.shares().shape == (2, 3, 4) and len(path.labels()) == 4


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_labels_have_accuracies(loss):
    y = np.where(X[:, 0] + X[:, 1] > 0, "b", "a")
    model = MKLClassifier([Linear(), RBF(1.0)] if loss == "logistic" else LINES, solver=LpNorm(), loss=loss)
    folds = KFold(3)
    path = model.path(X, y, C=[0.1, 10.0], cv=folds)
    assert path.score_name == "accuracy" and path.p.tolist() == [4 / 3]
    one = clone(model).set_params(C=10.0)
    assert np.allclose(cross_val_score(one, X, y, cv=folds), path.score[0, 1], atol=0.021)
    assert path.best_model.predict_proba(X).shape == (150, 2)


def test_from_batches_every_fold_is_judged_by_the_others():
    parts = [(X[a : a + 40], Y[a : a + 40], S[a : a + 40]) for a in range(0, 150, 40)]
    model = MKLRegressor(LINES, solver=LpNorm(tol=1e-9))
    path = model.path(parts, C=[0.1, 1.0], cv=3)
    fold = fold_of(Block(X, Y, S), 3, cells=False)
    for k in range(3):
        one = clone(model).set_params(C=1.0).fit(X[fold != k], Y[fold != k], S[fold != k])
        there = X[fold == k], Y[fold == k], S[fold == k]
        assert np.isclose(path.score[0, 1, k], one.score(*there), atol=1e-7)
        squares = np.square(there[1] - one.predict(there[0])).sum(axis=1)
        assert np.isclose(path.error[0, 1, k], 0.5 * np.average(squares, weights=there[2]), rtol=1e-6)
    whole = clone(model).set_params(C=1.0).fit(parts)
    assert np.allclose(whole.predict(X), path.models[0, 1].predict(X), atol=1e-5)


def test_labels_from_batches_have_errors_alone():
    y = (X[:, 0] > 0).astype(int)
    path = MKLClassifier(LINES, solver=LpNorm()).path([(X[:80], y[:80]), (X[80:], y[80:])], C=[1.0])
    assert path.score is None and "score" not in path.table() and np.isfinite(path.error).all()
    assert path.best_model.score(X, y) > 0.9


def test_targets_may_have_weights_of_their_own():
    path = MKLRegressor(LINES, solver=LpNorm(), weights="per_target").path(X, Y, C=[0.1, 1.0])
    assert path.best_model.weights_.shape == (2, 4) and path.shares().shape == (1, 2, 4)


def test_solvers_without_p_have_a_path_along_C():
    path = MKLRegressor([RBF(1.0), Linear()], solver=LeaveOneOut()).path(
        X[:60], Y[:60, 0], C=[0.1, 1.0], cv=2
    )
    assert np.isnan(path.p).all() and path.score.shape == (1, 2, 2)


def test_bad_arguments_are_named():
    model, parts = MKLRegressor(LINES, solver=LpNorm()), [(X, Y)]
    with pytest.raises(ValueError, match=r"C is \[1, -1\]; pass positive numbers"):
        model.path(X, Y, C=[1, -1])
    with pytest.raises(ValueError, match="p of LpNorm"):
        model.path(X, Y, p=[3.0])
    with pytest.raises(ValueError, match=r"p is \[1\], and LeaveOneOut\(\) has none"):
        MKLRegressor(LINES, solver=LeaveOneOut()).path(X, Y, p=[1])
    with pytest.raises(ValueError, match="for rows in files and on clusters it is a number of folds"):
        model.path(parts, cv=KFold(3))
    with pytest.raises(ValueError, match="use LpNorm, Uniform or Alignment"):
        MKLRegressor("products", solver=Greedy()).path(parts)
