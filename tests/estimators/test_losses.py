"""Losses of numbers through the estimators: equal to other programs, searched over, saved."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.linear_model import PoissonRegressor, QuantileRegressor
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVR, LinearSVR

from manykernels import MKLRegressor, load
from manykernels.certificates import certify
from manykernels.kernels import RBF, Linear
from manykernels.losses import EpsilonInsensitive, Huber, Poisson, Quantile
from manykernels.solvers import HessianMKL, LpNorm, SimpleMKL, Uniform

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
SIGNAL = np.sin(X[:, 0]) + 0.5 * X[:, 1]
Y = SIGNAL + 0.3 * RNG.standard_t(2, size=60)
COUNTS = RNG.poisson(np.exp(1.0 + SIGNAL)).astype(float)
OBJECTS = [EpsilonInsensitive(0.2), Huber(0.5), Quantile(0.8), Poisson()]


def targets(loss):
    return COUNTS if loss.name == "poisson" else Y


def one_kernel(loss, C, kernel=None):
    """A machine on one kernel as it is."""
    return MKLRegressor([kernel or Linear()], solver=Uniform(), loss=loss, C=C, normalize=None)


def centred(y):
    """Targets whose median is zero: the offset has no part in what follows."""
    return y - np.median(y)


def test_epsilon_insensitive_is_linear_svr_with_a_penalised_intercept():
    y = centred(Y)
    theirs = LinearSVR(epsilon=0.2, C=0.7, tol=1e-10, max_iter=1_000_000, random_state=0).fit(X, y)
    ours = one_kernel(EpsilonInsensitive(0.2), 0.7).fit(X, y)
    assert_allclose(
        ours.predict(X), theirs.predict(X), atol=1e-6
    )  # its coordinate descent stops at about 1e-8
    assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-6)


def test_epsilon_insensitive_is_svr_on_a_kernel_with_a_constant():
    # Its own intercept is free; without one, the penalised one of ours is a constant in the kernel. Targets and
    # their negatives at the same rows leave its intercept at zero.
    rows, y = np.vstack([X, X]), np.concatenate([Y, -Y])
    K = np.exp(-np.square(rows[:, None] - rows).sum(axis=2)) + 1.0
    theirs = SVR(kernel="precomputed", epsilon=0.2, C=2.0, tol=1e-10).fit(K, y)
    ours = one_kernel(EpsilonInsensitive(0.2), 2.0, RBF(1.0)).fit(rows, y)
    assert_allclose(ours.predict(rows), theirs.predict(K), atol=1e-6)


def test_quantile_is_quantile_regression_as_C_grows():
    for q in (0.2, 0.5, 0.9):
        theirs = QuantileRegressor(quantile=q, alpha=0.0, solver="highs").fit(X, Y)
        ours = one_kernel(Quantile(q), 1e4).fit(X, Y)
        assert_allclose(ours.predict(X), theirs.predict(X), atol=1e-6)  # vertices: the same rows are met


def test_a_share_q_of_the_rows_is_below_the_quantile():
    for q in (0.1, 0.7):
        model = MKLRegressor([RBF(2.0), Linear()], loss=Quantile(q), C=1.0).fit(X, Y)
        assert np.mean(model.predict(X) - 1e-9 > Y) <= q + 0.05
        assert np.mean(model.predict(X) + 1e-9 >= Y) >= q - 0.05


def test_poisson_is_poisson_regression():
    # Theirs leaves the intercept free; ours counts from the log of the mean, and a large C leaves it free as well.
    C, n = 1e6, len(X)
    theirs = PoissonRegressor(alpha=1.0 / (C * n), tol=1e-12, max_iter=10_000).fit(X, COUNTS)
    ours = one_kernel("poisson", C).fit(X, COUNTS)
    assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-5)
    assert ours.target_mean_ == pytest.approx(np.log(COUNTS.mean()))
    assert_allclose(np.log(ours.predict(X)), ours.contributions(X)[:, 0] + ours.intercept_[0])


def test_an_outlier_moves_huber_and_the_quantile_less_than_the_square():
    y = SIGNAL.copy()
    y[7] += 100.0
    error = {
        loss: np.abs(MKLRegressor([RBF(2.0)], loss=loss, C=1.0).fit(X, y).predict(X) - SIGNAL)[
            np.arange(60) != 7
        ].mean()
        for loss in ("squared", "huber", "quantile", "epsilon_insensitive")
    }
    assert max(error[loss] for loss in error if loss != "squared") < 0.5 * error["squared"]


@pytest.mark.parametrize("loss", OBJECTS, ids=str)
def test_fits_are_certified_from_outside_whatever_the_unit(loss):
    y = targets(loss)
    for unit in (1.0, 1e-4, 1e5) if loss.name != "poisson" else (1.0, 50.0):
        mine = clone(loss)
        for name in ("epsilon", "delta"):
            if hasattr(loss, name):
                mine.set_params(**{name: unit * getattr(loss, name)})
        model = MKLRegressor([RBF(1.0), RBF(3.0), Linear()], solver=LpNorm(tol=1e-6), loss=mine, C=unit)
        model.fit(X, unit * y)
        again = certify(model, X, unit * y)
        assert model.converged_ and again.primal == pytest.approx(model.objective_, rel=1e-8)
        assert again.gap == pytest.approx(model.gap_, abs=1e-8 * model.objective_)
        assert again.gap <= 1e-6 * model.objective_


@pytest.mark.parametrize("loss", OBJECTS, ids=str)
def test_a_weight_is_a_repetition(loss):
    s, y = RNG.integers(0, 3, 60), targets(loss)
    one = one_kernel(loss, 1.0, RBF(2.0)).fit(X, y, sample_weight=s)
    other = one_kernel(loss, 1.0, RBF(2.0)).fit(np.repeat(X, s, axis=0), np.repeat(y, s))
    assert_allclose(one.predict(X), other.predict(X), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("loss", OBJECTS, ids=str)
def test_models_with_parameters_are_saved(loss, tmp_path):
    y = np.column_stack([targets(loss), targets(loss)[::-1] + 1.0])
    model = MKLRegressor([RBF(1.0), Linear()], loss=loss, C=1.0).fit(X, y)
    model.save(tmp_path / "model.mk")
    again = load(tmp_path / "model.mk")
    assert again.loss == loss and again.loss_ == model.loss_
    assert_allclose(again.predict(X), model.predict(X))
    assert again.predict(X).shape == y.shape and loss == clone(loss)


def test_parameters_of_the_loss_are_searched_over():
    search = GridSearchCV(
        MKLRegressor([RBF(2.0)], loss=Quantile(), C=1.0), {"loss__q": [0.01, 0.5]}, cv=2, scoring="r2"
    ).fit(X, Y)
    assert search.best_params_ == {"loss__q": 0.5}
    assert search.best_estimator_.loss_ == Quantile(0.5)
    assert MKLRegressor(loss=Huber(2.0)).get_params()["loss__delta"] == 2.0


@pytest.mark.parametrize("loss", OBJECTS, ids=str)
def test_C_is_chosen_by_the_loss_itself(loss):
    y = targets(loss)
    model = MKLRegressor([RBF(1.0), Linear()], loss=loss).fit(X, y)
    F = model.result_.left_out - model.target_mean_
    constant = loss.about(model.target_mean_, y[:, None])
    assert model.loss_.value(constant[1], F).mean() < model.loss_.value(constant[1], 0.0 * F).mean()


@pytest.mark.parametrize("loss", OBJECTS, ids=str)
def test_second_order_steps_reach_the_same_optimum(loss):
    y = np.column_stack([targets(loss), targets(loss)[::-1] + 1.0])
    kernels = [RBF(1.0), RBF(3.0), Linear()]
    one, other = (
        MKLRegressor(kernels, solver=solver(tol=1e-6), loss=loss, C=1.0).fit(X, y)
        for solver in (HessianMKL, SimpleMKL)
    )
    assert one.converged_ and one.objective_ == pytest.approx(other.objective_, rel=2e-6)


def test_every_target_may_have_weights_and_a_rate_of_its_own():
    y = np.column_stack([COUNTS, 3.0 * COUNTS[::-1] + 1.0])
    kernels = [RBF(1.0), Linear()]
    both = MKLRegressor(kernels, loss="poisson", C=1.0, weights="per_target").fit(X, y)
    for j in range(2):
        alone = MKLRegressor(kernels, loss="poisson", C=1.0).fit(X, y[:, j])
        assert_allclose(both.predict(X)[:, j], alone.predict(X), rtol=1e-5)
