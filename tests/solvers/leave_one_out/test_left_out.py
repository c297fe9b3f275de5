"""Scores of rows left out: whose they are, how honest they are, and what is made of them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score, r2_score

from manykernels import MKLClassifier, MKLRegressor, load
from manykernels.families import Gaussians, Laplacians
from manykernels.kernels import RBF, Linear
from manykernels.solvers import LeaveOneOut, LpNorm
from manykernels.solvers.bandwidth_learning.candidates import Candidate, Weighed, left_out_scores
from manykernels.solvers.bandwidth_learning.left_out import merged

LISTED = [RBF(0.7), RBF(2.0), Linear()]


def waves(n=150, d=4, noise=0.3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + noise * rng.normal(size=n)


def refitted(model, X, Y, s):
    """Return scores by machines that are trained without a row, the kernel and C held."""
    K, F = model.combination_.gram(X) + 1.0, np.empty_like(Y)
    for i in range(len(Y)):
        kept = np.arange(len(Y)) != i
        G = K[np.ix_(kept, kept)] + np.diag(1 / (model.C_ * s[kept]))
        F[i] = K[i, kept] @ np.linalg.solve(G, Y[kept])
    return F


def test_predictions_are_those_of_machines_without_the_row():
    X, y = waves(60)
    Y, s = np.column_stack([y, X[:, 2] ** 2]), np.random.default_rng(1).uniform(0.5, 2, 60)
    model = MKLRegressor([RBF(2.0)], solver=LeaveOneOut(), C=3.0).fit(X, Y, s)
    mean = np.average(Y, axis=0, weights=s)
    # Columns and targets are rounded to ten digits before they teach.
    assert_allclose(model.loo_prediction_, refitted(model, X, Y - mean, s) + mean, atol=1e-7)
    assert model.loo_score_ == pytest.approx(r2_score(Y, model.loo_prediction_, sample_weight=s))


@pytest.mark.parametrize("count", [2, 3])
def test_scores_of_classes_have_the_shape_of_scikit_learn(count):
    X, y = waves(80)
    labels = np.array(["a", "b", "c"])[np.digitize(y, [0.0] if count == 2 else [-0.5, 0.5])]
    s = np.where(np.arange(80) < 5, 0.0, 1.0)
    model = MKLClassifier([RBF(2.0)], solver=LeaveOneOut(), C=3.0).fit(X, labels, s)
    F = model.loo_decision_function_
    assert F.shape == ((80,) if count == 2 else (80, 3))
    assert np.isnan(F[:5]).all() and np.isfinite(F[5:]).all()
    codes = (F[5:] > 0).astype(int) if count == 2 else F[5:].argmax(axis=1)
    assert model.loo_score_ == pytest.approx(accuracy_score(labels[5:], model.classes_[codes]))
    Y = 2.0 * (labels[5:, None] == model.classes_) - 1
    Y = Y[:, 1:] if count == 2 else Y
    assert_allclose(F[5:].reshape(75, -1), refitted(model, X[5:], Y, np.ones(75)), atol=1e-7)


def test_ready_made_kernels_are_weighed_like_the_kernels_themselves():
    X, y = waves(80)
    K = np.stack([kernel(X) for kernel in LISTED], axis=2)
    given = MKLRegressor("precomputed", solver=LeaveOneOut()).fit(K, y)
    listed = MKLRegressor(LISTED, solver=LeaveOneOut()).fit(X, y)
    assert given.score(K, y) == pytest.approx(listed.score(X, y), abs=1e-3)
    one, Y = (
        MKLRegressor("precomputed", solver=LeaveOneOut(), C=2.0).fit(K[:, :, :1], y),
        (y - y.mean())[:, None],
    )
    assert_allclose(
        one.loo_prediction_, refitted(one, K[:, :, :1], Y, np.ones(80))[:, 0] + y.mean(), atol=1e-7
    )
    s = np.where(np.arange(80) < 20, 0.0, 1.0)
    assert_allclose(
        MKLRegressor("precomputed", solver=LeaveOneOut()).fit(K, y, s).predict(K),
        MKLRegressor("precomputed", solver=LeaveOneOut()).fit(K[20:, 20:], y[20:]).predict(K[:, 20:]),
        atol=1e-6,
    )


def test_many_ready_made_rows_are_weighed_in_groups_of_neighbours():
    X, y = waves(700, 2)
    K = np.stack([kernel(X) for kernel in LISTED], axis=2)
    model = MKLRegressor("precomputed", solver=LeaveOneOut()).fit(K, y)
    new, truth = waves(200, 2, seed=1)
    assert model.score(np.stack([kernel(new, X) for kernel in LISTED], axis=2), truth) > 0.8


def test_rows_are_scored_by_what_they_have_not_taught():
    X, y = waves(30)
    first, rows = merged(X, (y - y.mean())[:, None], np.ones(30), "squared")
    lists = [[Candidate("sqdist", np.full(4, t), Z=X[first])] for t in (0.0, 1.0, 2.0)]
    weights = [Weighed(np.ones(1), noise, 0.0, np.zeros(1)) for noise in (-1.0, -2.0, 0.0)]
    folds = np.arange(30) % 3 == np.arange(3)[:, None]
    mixed = left_out_scores(rows, lists, folds, [np.arange(30)], weights)
    for fold, own, weighed in zip(folds, lists, weights, strict=True):
        alone = left_out_scores(rows, [own], np.ones((1, 30), bool), [np.arange(30)], [weighed])
        assert_allclose(mixed[fold], alone[fold])


def test_noise_that_picks_one_of_many_kernels_does_not_make_the_score_better():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 40)), rng.normal(size=60)
    kernels = [RBF(1.0, columns=[j]) for j in range(40)]
    with pytest.warns(ConvergenceWarning):
        model = MKLRegressor(kernels, solver=LeaveOneOut()).fit(X, y)
    # The kernels look good on the rows that they are chosen by, and on no others.
    assert model.trace_.extra["left_out"][-1] < 0.97 and model.loo_score_ < 0.02


def test_copies_get_their_scores_in_the_order_of_rows():
    X, y = waves(60)
    labels = np.tile(y > 0, 2)
    model = MKLClassifier(LISTED, solver=LeaveOneOut(), C=1.0).fit(np.vstack([X, X]), labels)
    F = model.loo_decision_function_
    assert_allclose(F[:60], F[60:])
    # A copy leaves with its row, so that it is no help.
    once = MKLClassifier(LISTED, solver=LeaveOneOut(), C=1.0).fit(X, y > 0, np.full(60, 2.0))
    assert_allclose(F[:60], once.loo_decision_function_, atol=1e-9)


def test_the_score_promises_no_more_than_new_rows_show():
    promised, shown = [], []
    new, truth = waves(2000, 8, seed=99)
    for seed in range(4):
        X, y = waves(100, 8, noise=1.0, seed=seed)
        model = MKLRegressor(random_state=0).fit(X, y)
        promised.append(model.loo_score_)
        shown.append(model.score(new, truth))
    # The R² of 100 rows has a standard deviation of about .07, that of four times as many .035.
    assert np.mean(promised) - np.mean(shown) < 0.07


def test_the_trace_has_the_errors_of_all_steps():
    X, y = waves(80)
    trace = MKLRegressor([Gaussians(ard=True)], solver=LeaveOneOut(steps=7)).fit(X, y).trace_
    assert len(trace.extra["steps"]) == 7 and trace.extra["steps"][-1] < trace.extra["steps"][0]
    errors = trace.extra["left_out"]
    assert len(errors) > 2 and errors[-1] <= errors[0]


def test_other_solvers_say_where_left_out_scores_are_to_be_had():
    X, y = waves(60)
    model = MKLRegressor(LISTED, solver=LpNorm(), C=1.0).fit(X, y)
    for name in ("loo_prediction_", "predict_interval"):
        with pytest.raises(
            AttributeError, match="LpNorm keeps no scores of rows left out; fit with the solver"
        ):
            getattr(model, name)
    assert not hasattr(model, "loo_score_")


def test_a_second_fit_forgets_the_scores_of_the_first():
    X, y = waves(60)
    model = MKLRegressor(LISTED, solver=LeaveOneOut()).fit(X, y)
    assert hasattr(model, "loo_score_")
    assert not hasattr(model.set_params(solver=LpNorm(), C=1.0).fit(X, y), "loo_score_")


# -- intervals -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.1, 0.3])
def test_intervals_hold_as_many_new_targets_as_they_promise(alpha):
    X, y = waves(200)
    new, truth = waves(4000, seed=1)
    low, high = MKLRegressor(random_state=0).fit(X, y).predict_interval(new, alpha).T
    inside = np.mean((low <= truth) & (truth <= high))
    # The level that a quantile of 200 errors really has is off by √(α(1 - α)/200), .02 and .03; three times that.
    assert inside == pytest.approx(1 - alpha, abs=3 * np.sqrt(alpha * (1 - alpha) / 200))


def test_intervals_are_quantiles_of_errors_with_one_more_than_was_seen():
    X, y = waves(39)
    model = MKLRegressor(LISTED, solver=LeaveOneOut()).fit(X, y)
    errors = np.sort(np.abs(y - model.loo_prediction_))
    for alpha, rank in ((0.1, 36), (0.2, 32), (0.5, 20)):  # the smallest with rank/40 >= 1 - α
        ends = model.predict_interval(X[:3], alpha)
        assert_allclose(np.diff(ends)[:, 0] / 2, errors[rank - 1])
        assert_allclose(ends.mean(axis=1), model.predict(X[:3]))
    assert np.isinf(model.predict_interval(X[:3], 0.02)).all()


def test_weights_count_as_copies_do_in_intervals():
    X, y = waves(40)
    s = np.random.default_rng(0).integers(1, 4, 40).astype(float)
    model = MKLRegressor(LISTED, solver=LeaveOneOut(), C=1.0).fit(X, y, s)
    errors = np.abs(y - model.loo_prediction_)
    inside = errors <= np.diff(model.predict_interval(X[:1], 0.25))[0, 0] / 2 + 1e-12
    share = (s @ inside) / (s.sum() + s.mean())
    assert 0.75 <= share <= 0.75 + 3 / s.sum()


def test_several_targets_have_intervals_of_their_own_and_are_saved(tmp_path):
    X, y = waves(60)
    model = MKLRegressor(LISTED, solver=LeaveOneOut()).fit(X, np.column_stack([y, 100 * y]))
    ends = model.predict_interval(X)
    assert ends.shape == (60, 2, 2)
    assert_allclose(np.diff(ends[:, 1]), 100 * np.diff(ends[:, 0]), rtol=1e-6)
    model.save(tmp_path / "m.mk")
    again = load(tmp_path / "m.mk")
    assert (again.predict_interval(X) == ends).all() and again.loo_score_ == model.loo_score_
    assert (again.loo_prediction_ == model.loo_prediction_).all()
    for alpha in (0, 1.0, "0.1"):
        with pytest.raises(ValueError, match=r"alpha is .*; it must be a number between 0 and 1"):
            model.predict_interval(X, alpha)


# -- a constant ----------------------------------------------------------------------------------------


def test_a_fit_that_is_no_better_than_a_constant_says_so(recwarn):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(80, 3))
    with pytest.warns(
        ConvergenceWarning, match=r"LeaveOneOut has a mean loss of .* on 80 rows left out, no better"
    ):
        MKLRegressor([Gaussians(ard=True), Laplacians()], solver=LeaveOneOut()).fit(X, rng.normal(size=80))
    labels = rng.permutation(np.arange(81) % 3)[1:]
    with pytest.warns(ConvergenceWarning, match=r"no better than the 1\.098 of the best constant"):
        MKLClassifier(Laplacians(), solver=LeaveOneOut()).fit(X, labels)
    recwarn.clear()
    MKLRegressor(LISTED, solver=LeaveOneOut()).fit(*waves(80))
    MKLClassifier(LISTED, solver=LeaveOneOut()).fit(X, X[:, 0] > 0)
    MKLRegressor(LISTED, solver=LeaveOneOut()).fit(X, np.ones(80))
    assert not [w for w in recwarn if issubclass(w.category, ConvergenceWarning)]
