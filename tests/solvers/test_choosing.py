"""C by rows left out."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.model_selection import cross_val_score
from sklearn.preprocessing import StandardScaler

from manykernels import MKLClassifier, MKLRegressor
from manykernels.certificates import certify
from manykernels.families import Products
from manykernels.kernels import RBF, Linear
from manykernels.losses import get_loss
from manykernels.problem import Problem, Scale
from manykernels.registry import bound_family
from manykernels.solvers import Alignment, Greedy, LpNorm, SimpleMKL, TriplyStochastic, Uniform
from manykernels.solvers.choosing import FINE, _folds, choose_C

KERNELS = [RBF(2.0), RBF(6.0), Linear()]


def scaled(load):
    X, y = load(return_X_y=True)
    return StandardScaler().fit_transform(X), y


def problem(X, y, s=None):
    s = np.ones(len(y)) if s is None else s
    family = bound_family(KERNELS, X, s)
    Y = (y - np.average(y, weights=s))[:, None]
    return Problem(X, Y, family, Scale.fit(family, X, "trace", s), get_loss("squared"), 1.0, s)


def test_the_closed_form_is_what_refits_find():
    X, y = scaled(load_diabetes)
    X, y = X[:40], y[:40] / 50
    s = np.random.default_rng(0).uniform(0.5, 2, 40)
    pb = problem(X, y, s)
    found = choose_C(Uniform(), pb)
    K = Uniform().learn(pb).gram(X) + 1.0
    for at in (4, 20, 30):
        E = np.empty(40)
        for t in range(40):
            kept = np.arange(40) != t
            G = K[np.ix_(kept, kept)] + np.diag(1 / (FINE[at] * s[kept]))
            E[t] = pb.Y[t, 0] - K[t, kept] @ np.linalg.solve(G, pb.Y[kept, 0])
        assert found.errors[at] == pytest.approx(s @ E**2 / s.sum(), rel=1e-8)


@pytest.mark.parametrize("solver", [Uniform(), Alignment(), LpNorm(), SimpleMKL()], ids=str)
def test_a_regression_is_about_as_good_as_with_the_best_C(solver):
    X, y = scaled(load_diabetes)
    chosen = cross_val_score(MKLRegressor(KERNELS, solver=solver, C="auto"), X, y, cv=3).mean()
    others = [
        cross_val_score(MKLRegressor(KERNELS, solver=solver, C=C), X, y, cv=3).mean() for C in (0.01, 1, 100)
    ]
    assert chosen > max(others) - 0.02


@pytest.mark.parametrize("load", [load_iris, load_breast_cancer])
def test_classes_are_chosen_by_wrong_labels(load):
    X, y = scaled(load)
    model = MKLClassifier(KERNELS, solver=LpNorm(tol=1e-2), C="auto").fit(X[::2], y[::2])
    assert model.score(X[1::2], y[1::2]) > 0.93
    again = certify(model, X[::2], y[::2])
    assert again.primal == pytest.approx(model.objective_, rel=1e-6)


@pytest.mark.parametrize("outputs", [1, 3])
def test_folds_spread_the_classes(outputs):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 4))
    codes = np.sort(rng.integers(0, max(outputs, 2), 50))
    pb = problem(X, codes)
    pb = replace(
        pb, Y=np.where(codes, 1.0, -1.0)[:, None] if outputs == 1 else 2.0 * np.eye(outputs)[codes] - 1
    )
    for _, test, _ in _folds(pb):
        counts = np.bincount(codes[test], minlength=max(outputs, 2))
        assert np.abs(counts - np.bincount(codes) / 5).max() < 1.5


def test_ready_made_matrices_are_cut_both_ways():
    X, y = scaled(load_iris)
    K = np.stack([k.resolve(4, None)(X) for k in KERNELS], axis=2)
    one = MKLClassifier("precomputed", solver=LpNorm(tol=1e-2), C="auto").fit(K, y)
    other = MKLClassifier(KERNELS, solver=LpNorm(tol=1e-2), C="auto").fit(X, y)
    assert one.C_ == other.C_


def test_products_are_chosen_for_too():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 6))
    y = X[:, 0] * X[:, 1] + 0.1 * rng.normal(size=120)
    model = MKLRegressor(Products(degree=2), solver=Greedy(max_kernels=3), C="auto").fit(X, y)
    assert model.score(X, y) > 0.95


def test_one_row_and_constant_targets_are_no_reason_to_fail():
    X, y = scaled(load_diabetes)
    assert MKLRegressor(KERNELS, C="auto").fit(X[:1], y[:1]).predict(X[:2]) == pytest.approx(y[0])
    assert MKLRegressor(KERNELS, C="auto").fit(X[:20], np.ones(20)).predict(X[:2]) == pytest.approx(1.0)


def test_words_for_C_that_make_no_sense_are_refused():
    X, y = scaled(load_diabetes)
    with pytest.raises(ValueError, match="C is 'large'; it must be a positive finite number, or 'auto'"):
        MKLRegressor(KERNELS, C="large").fit(X, y)
    with pytest.raises(
        ValueError, match=r"C is 'auto', and TriplyStochastic.* cannot choose it over rows in batches"
    ):
        MKLRegressor(KERNELS[:2], solver=TriplyStochastic(), C="auto").partial_fit(X, y)
