"""Probabilities of every solver and loss: from the loss, or calibrated on scores of rows left out."""

import tracemalloc
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss
from sklearn.model_selection import cross_val_score
from sklearn.preprocessing import StandardScaler

from manykernels import MKLClassifier, load
from manykernels.families import Products
from manykernels.kernels import RBF, Laplacian, Linear
from manykernels.solvers import (
    SILP,
    Alignment,
    Blockwise,
    Greedy,
    LpNorm,
    MirrorDescent,
    Obscure,
    SimpleMKL,
    Single,
    TriplyStochastic,
    Ufo,
    Uniform,
)
from manykernels.solvers.calibration import UNTAUGHT, fit_calibration

KERNELS = [RBF(2.0), RBF(6.0)]
SMALL = TriplyStochastic(n_features=64, block=64, epochs=3, random_state=0)
SOLVERS = [
    *(Uniform(), Single(), LpNorm(), SimpleMKL(), SILP(), Alignment(), Greedy(max_kernels=2)),
    *(MirrorDescent(max_iter=20, random_state=0), Obscure(epochs=20, random_state=0)),
    *(Ufo(epochs=20, random_state=0), SMALL, Blockwise(grids=8, random_state=0)),
]


@pytest.fixture(scope="module")
def two():
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X)[:240], np.array(["malignant", "benign"])[y[:240]]


@pytest.fixture(scope="module")
def three():
    X, y = load_iris(return_X_y=True)
    return StandardScaler().fit_transform(X)[::2], y[::2]


def check(model, X, y):
    P, F = model.predict_proba(X), model.decision_function(X)
    np.testing.assert_allclose(P.sum(axis=1), 1)
    assert np.array_equal(model.classes_[P.argmax(axis=1)], model.predict(X))
    if F.ndim == 1:
        assert (np.diff(P[np.argsort(F), 1]) >= 0).all()
    np.testing.assert_allclose(model.predict_log_proba(X), np.log(P))
    return log_loss(y, P)


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("C", [1.0, "auto"])
def test_every_solver_has_them(solver, C, two):
    X, y = two
    model = MKLClassifier(KERNELS, solver=solver, C=C)
    assert hasattr(model, "predict_proba")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few steps are enough here
        model.fit(X[::2], y[::2])
    assert check(model, X[1::2], y[1::2]) < 0.35  # that of the classes' shares is .69


@pytest.mark.parametrize("loss", ["squared", "hinge", "squared_hinge", "logistic", "max_hinge", "softmax"])
def test_every_loss_has_them(loss, two, three):
    for X, y in (two, three):
        model = MKLClassifier(KERNELS, solver=Uniform(), loss=loss, C=1.0).fit(X[::2], y[::2])
        assert check(model, X[1::2], y[1::2]) < 0.5  # that of the shares is .69 and 1.1


@pytest.mark.parametrize("scoring", ["roc_auc", "neg_log_loss", "roc_auc_ovr"])
def test_scikit_learn_scores_by_them(scoring, two):
    X, y = two
    model = MKLClassifier(KERNELS, solver=LpNorm(), C=1.0)
    score = cross_val_score(model, X, y, scoring=scoring, cv=3)
    assert (score > (-0.3 if scoring == "neg_log_loss" else 0.95)).all()


def test_scores_left_out_calibrate_them(two):
    """The factor is that of scores by refits on the learned kernel, and those are kept."""
    X, y = two
    model = MKLClassifier(KERNELS, solver=LpNorm(), C=1.0).fit(X, y)
    F = model.result_.left_out
    assert F.shape == (240, 1) and np.isfinite(F).all()
    Y = np.where(y == model.classes_[1], 1.0, -1.0)[:, None]
    assert model.result_.calibration == pytest.approx(fit_calibration(F, Y, np.ones(240)))
    assert np.mean((F[:, 0] > 0) == (Y[:, 0] > 0)) < model.score(X, y)  # these rows were not seen


def test_rows_without_weight_have_no_score_left_out(two):
    X, y = two
    s = np.r_[np.zeros(10), np.ones(230)]
    F = MKLClassifier(KERNELS, solver=LpNorm(), C=1.0).fit(X, y, sample_weight=s).result_.left_out
    assert np.isnan(F[:10]).all() and np.isfinite(F[10:]).all()


def test_groups_leave_together():
    """Rows of a subject that is its own label: without its rows nobody knows, and probabilities say so."""
    rng = np.random.default_rng(0)
    subject = np.repeat(np.arange(30), 6)
    X = rng.normal(size=(30, 4))[subject] + 0.01 * rng.normal(size=(180, 4))
    y = rng.integers(0, 2, 30)[subject]
    known = MKLClassifier([RBF(1.0)], C=1.0).fit(X, y).predict_proba(X)
    honest = MKLClassifier([RBF(1.0)], C=1.0).fit(X, y, groups=subject).predict_proba(X)
    assert known.max(axis=1).mean() > 0.9 > 0.85 > honest.max(axis=1).mean()


def test_without_calibration_there_are_none_and_a_sentence_says_why(two):
    X, y = two
    model = MKLClassifier(KERNELS, solver=LpNorm(), C=1.0, calibrate=False).fit(X, y)
    assert model.result_.calibration is None and model.result_.left_out is None
    assert not hasattr(model, "predict_proba")
    with pytest.raises(AttributeError, match="calibrate=False and loss='hinge'; fit with calibrate=True"):
        model.predict_proba(X)
    assert hasattr(model.set_params(loss="logistic").fit(X, y), "predict_proba")
    assert not hasattr(MKLClassifier(loss="hing"), "predict_proba")


def test_few_rows_have_them():
    X = np.array([[0.0], [1.0], [2.0]])
    for labels in ([0, 1, 1], [0, 1, 2]):
        P = MKLClassifier([RBF(1.0)], C=1.0).fit(X, labels).predict_proba(X)
        assert (P > 0).all()
    few = MKLClassifier([Laplacian(1.0)], solver=Blockwise(grids=4, random_state=0), C=1.0)
    assert few.fit(X, [0, 1, 1]).predict_proba(X).shape == (3, 2)


def test_rows_in_batches_have_them(two, tmp_path):
    X, y = two
    solver = SMALL
    model = MKLClassifier(KERNELS, solver=solver, loss="hinge", C=1.0)
    for part in (slice(0, 120), slice(120, 240)):
        model.partial_fit(X[part], y[part], classes=["benign", "malignant"])
    assert check(model, X, y) < 0.55  # two batches are not much for random steps
    streamed = MKLClassifier(KERNELS, solver=solver, loss="hinge", C=1.0).fit([(X, y)])
    assert check(streamed, X, y) < 0.4
    streamed.save(tmp_path / "model")
    assert np.array_equal(load(tmp_path / "model").predict_proba(X), streamed.predict_proba(X))


def test_products_have_them():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 4))
    y = X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=120) > 0
    model = MKLClassifier(
        Products(degree=2, base=[Linear(columns=[j]) for j in range(4)]), solver=Greedy(2), C=1.0
    )
    assert check(model.fit(X, y), X, y) < 0.45


# -- the factor ----------------------------------------------------------------------------------------


def test_the_factor_is_found():
    """Labels drawn from the sigmoid and the softmax of 2.5 times the scores."""
    rng = np.random.default_rng(0)
    F = rng.normal(size=(20_000, 1))
    Y = np.where(rng.random((20_000, 1)) < 1 / (1 + np.exp(-2.5 * F)), 1.0, -1.0)
    # Its standard error is 0.03.
    assert fit_calibration(F, Y, np.ones(20_000))[0] == pytest.approx(2.5, abs=0.1)
    F = rng.normal(size=(20_000, 3))
    codes = (2.5 * F + rng.gumbel(size=F.shape)).argmax(axis=1)
    for low in (-1.0, 0.0):
        Y = np.where(np.eye(3)[codes] > 0, 1.0, low)
        assert fit_calibration(F, Y, np.ones(20_000))[0] == pytest.approx(2.5, abs=0.1)


def test_rows_that_are_all_right_do_not_make_it_certain():
    """Without an error the factor grows with the rows, as their logarithm does, and has no bound to run to."""
    factors = []
    for n in (2, 20, 200, 2000):
        Y = np.where(np.arange(n) % 2, 1.0, -1.0)[:, None]
        factors += fit_calibration(Y, Y, np.ones(n)).tolist()
    assert UNTAUGHT < factors[0] < 4 and factors == sorted(factors) and factors[-1] < np.log(2000) + 2


def test_a_weight_is_a_repetition_and_shares_are_rows():
    rng = np.random.default_rng(0)
    F, s = rng.normal(size=(50, 1)), rng.integers(1, 4, 50)
    Y = np.where(F + rng.normal(size=(50, 1)) > 0, 1.0, -1.0)
    weighted = fit_calibration(F, Y, s.astype(float))
    assert weighted == pytest.approx(
        fit_calibration(F.repeat(s, 0), Y.repeat(s, 0), np.ones(s.sum())), rel=1e-4
    )
    assert fit_calibration(F, Y, np.full(50, 0.02)) == pytest.approx(
        fit_calibration(F, Y, np.ones(50)), rel=1e-4
    )


def test_numbers_have_no_factor_and_no_rows_the_usual_one():
    assert fit_calibration(np.zeros((3, 1)), np.array([[0.2], [1.0], [-1.0]]), np.ones(3)) is None
    assert fit_calibration(np.zeros((0, 1)), np.zeros((0, 1)), np.ones(0)) == pytest.approx(
        UNTAUGHT, rel=1e-3
    )


def test_a_model_without_kernels_has_the_shares_of_the_classes():
    """No line lowers the hinges of a checkerboard: the constant is best, and calibrated as any model is."""
    X = np.random.default_rng(0).normal(size=(80, 3))
    y = X[:, 0] * X[:, 1] > -0.2
    with pytest.warns(ConvergenceWarning, match="no other kernel lowers the objective"):
        model = MKLClassifier(Products(1), solver=Greedy(), C=1.0).fit(X, y)
    assert not len(model.combination_.members)
    P = model.predict_proba(X)[:, 1]
    assert np.ptp(P) == 0 and P[0] == pytest.approx(y.mean(), abs=0.05)  # one factor, with a prior


def test_a_fit_on_a_stack_of_kernels_takes_no_copy_of_it():
    """Machines that calibrate need the sum alone; 36 MiB of matrices, and a few of these beside them."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=150)
    D = np.square(x[:, None] - x)
    K = np.exp(-D[:, :, None] / np.geomspace(0.1, 10, 210))
    model = MKLClassifier("precomputed", solver=LpNorm(), C=1.0)
    model.fit(K[:20, :20], x[:20] > 0)  # compiles
    tracemalloc.start()
    try:
        model.fit(K, x > 0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert hasattr(model, "predict_proba") and peak < 0.7 * K.nbytes
