"""Ordered classes: one score, a threshold at every border."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

from manykernels import MKLClassifier, load
from manykernels.certificates import certify
from manykernels.kernels import RBF, Linear
from manykernels.losses import Ordinal
from manykernels.solvers import Blockwise, Greedy, LeaveOneOut, LpNorm, SimpleMKL, Single

RNG = np.random.default_rng(0)
X = RNG.normal(size=(90, 3))
SIGNAL = 2 * X[:, 0] - np.sin(2 * X[:, 1])
GRADE = np.digitize(SIGNAL + 0.5 * RNG.logistic(size=90), [-1.5, 0.0, 1.5])
KERNELS = [RBF(1.0), RBF(3.0), Linear()]


def test_two_classes_are_logistic():
    y = GRADE > 1
    one, other = (MKLClassifier(KERNELS, loss=loss, C=1.0).fit(X, y) for loss in ("ordinal", "logistic"))
    assert_allclose(one.decision_function(X), other.decision_function(X), atol=1e-8)
    assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=1e-8)
    assert one.objective_ == pytest.approx(other.objective_)


@pytest.mark.parametrize("kernels", [KERNELS, [Linear([0]), Linear([1, 2])]], ids=["matrices", "features"])
def test_fits_are_certified_from_outside(kernels):
    s = RNG.exponential(size=90)
    s[3] = 0.0
    for solver in (LpNorm(tol=1e-6), SimpleMKL(tol=1e-6), Single(), LeaveOneOut()):
        model = MKLClassifier(kernels, solver=solver, loss="ordinal", C=1.0).fit(X, GRADE, sample_weight=s)
        again = certify(model, X, GRADE, s)
        assert again.primal == pytest.approx(model.objective_, rel=1e-9)
        assert again.gap == pytest.approx(model.gap_, abs=1e-9 * model.objective_)
        assert model.converged_ or isinstance(solver, Single)


def test_one_score_and_thresholds_in_order():
    model = MKLClassifier(KERNELS, loss=Ordinal(), C=1.0).fit(X, GRADE)
    parts = model.contributions(X)
    assert parts.shape == (90, 3, 3)
    assert_allclose(parts, np.repeat(parts[:, :, :1], 3, axis=2))
    assert (np.diff(model.intercept_) < 0).all()  # minus the thresholds
    f = parts[:, :, 0].sum(axis=1)
    above = 1 / (1 + np.exp(-(f[:, None] + model.intercept_)))
    P = model.predict_proba(X)
    assert_allclose(P[:, ::-1].cumsum(axis=1)[:, :-1], above[:, ::-1], atol=1e-12)
    assert_allclose(np.exp(model.decision_function(X)), P)
    assert_array_equal(model.predict(X), P.argmax(axis=1))
    assert np.corrcoef(f, SIGNAL)[0, 1] > 0.8


def test_errors_go_less_far_than_those_of_unordered_classes():
    rows = RNG.normal(size=(300, 3))
    signal = rows[:, 0] + 0.5 * rows[:, 1]
    y = np.digitize(signal + 0.4 * RNG.logistic(size=300), np.linspace(-1.5, 1.5, 6))
    far = {
        loss: np.abs(
            MKLClassifier([Linear()], loss=loss, C=1.0).fit(rows[:120], y[:120]).predict(rows[120:]) - y[120:]
        )
        for loss in ("ordinal", "softmax")
    }
    assert far["ordinal"].mean() < far["softmax"].mean()


def test_a_weight_is_a_repetition_and_files_keep_the_model(tmp_path):
    s = RNG.integers(0, 3, 90)
    one = MKLClassifier([RBF(2.0)], loss="ordinal", C=1.0).fit(X, GRADE, sample_weight=s)
    other = MKLClassifier([RBF(2.0)], loss="ordinal", C=1.0).fit(np.repeat(X, s, axis=0), np.repeat(GRADE, s))
    assert_allclose(one.decision_function(X), other.decision_function(X), atol=1e-7)
    one.save(tmp_path / "model.mk")
    again = load(tmp_path / "model.mk")
    assert_array_equal(again.predict_proba(X), one.predict_proba(X))
    assert again.loss_ == Ordinal() and clone(one).loss == "ordinal"


def test_the_default_chooses_C_and_kernels_by_the_numbers_of_classes():
    model = MKLClassifier(loss="ordinal").fit(X, GRADE)
    assert isinstance(model.solver_, LeaveOneOut) and 0.4 < model.loo_score_ < 1.0
    assert np.abs(model.predict(X) - GRADE).mean() < 0.4


@pytest.mark.slow
def test_scikit_learn_conventions():
    results = check_estimator(
        MKLClassifier([RBF(1.0)], loss="ordinal", C=1.0),
        on_skip=None,
        on_fail=None,
        # Labels there are "one", "two", "three", whose order in the alphabet means nothing: they are refused.
        expected_failed_checks=dict.fromkeys(("check_classifiers_classes",), "text has no order"),
    )
    failed = [(r["check_name"], r["exception"]) for r in results if r["status"] == "failed"]
    assert not failed


@pytest.mark.parametrize(
    "model, y, words",
    [
        (
            MKLClassifier(KERNELS, loss="ordinal"),
            np.array(["low", "mid", "high", "top"])[GRADE],
            "number them",
        ),
        (
            MKLClassifier(KERNELS, loss="ordinal", solver=Greedy()),
            GRADE,
            "Greedy does not take .* one score for all",
        ),
        (MKLClassifier(KERNELS, loss="ordinal", solver=Blockwise()), GRADE, "Blockwise does not take"),
    ],
    ids=["text", "greedy", "blockwise"],
)
def test_what_makes_no_sense_is_refused(model, y, words):
    with pytest.raises(ValueError, match=words):
        model.fit(X, y)
