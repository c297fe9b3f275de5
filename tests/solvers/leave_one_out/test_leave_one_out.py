"""Weights, bandwidths and C by the errors of rows left out."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris, load_wine
from sklearn.kernel_ridge import KernelRidge

from manykernels import AlignedKernel, MKLClassifier, MKLRegressor, load
from manykernels.certificates import certify
from manykernels.families import Gaussians, Laplacians, Products, Union
from manykernels.kernels import RBF, Linear
from manykernels.solvers import LeaveOneOut
from manykernels.solvers.bandwidth_learning.candidates import (
    Candidate,
    Effort,
    Weighing,
    learn_columns,
    single_error,
    weigh,
)
from manykernels.solvers.bandwidth_learning.left_out import Rows
from manykernels.solvers.leave_one_out import enough_for

ALL = [Gaussians(ard=True), Laplacians(ard=True), Linear()]
RNG = np.random.default_rng(0)


def waves(n=300, d=6, seed=0):
    """A target that depends on two columns, one of them quickly."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.sin(3 * X[:, 0]) + 0.5 * X[:, 1] + 0.1 * rng.normal(size=n)


def test_time_is_expected_for_every_stage_that_columns_cost():
    known = {
        "family": Union([Gaussians(ard=True), Laplacians(ard=True)]),
        "loss": SimpleNamespace(name="squared"),
    }
    problems = (SimpleNamespace(X=np.empty((800, d)), n_rows=800, n_outputs=1, **known) for d in (10, 10_000))
    few, many = (LeaveOneOut().work(problem, 800) for problem in problems)
    assert all(many[stage] > 3 * few[stage] for stage in few)


def regressor(kernels=None, C="auto", **options):
    return MKLRegressor(
        ALL if kernels is None else kernels, solver=LeaveOneOut(random_state=0, **options), C=C
    )


def classifier(kernels=None, C="auto", **options):
    return MKLClassifier(
        ALL if kernels is None else kernels, solver=LeaveOneOut(random_state=0, **options), C=C
    )


# -- the parts -----------------------------------------------------------------------------------------


def test_columns_of_a_block_keep_one_bandwidth_that_follows_its_own_gradient():
    X, y = waves(40, 3)
    rows = Rows.plain((y - y.mean())[:, None], np.ones(40), "squared")
    start, one_step = np.append(np.full(3, 0.5), -1.0), Effort(steps=1)
    blocks = np.array([0, 1, 1])
    found = learn_columns("sqdist", X, rows, start, 0.0, one_step, RNG, blocks=blocks)
    assert found[1] == found[2] != found[0]

    def error(shift):
        t = start + np.array([0.0, shift, shift, 0.0])
        return single_error("sqdist", X, rows, t, gradient=False)[0]

    # A first step of Adam has the sign of the gradient, here of the bandwidth that two columns share.
    assert np.sign(found[1] - start[1]) == -np.sign(error(1e-3) - error(-1e-3))


def test_a_column_in_two_halves_that_are_a_block_teaches_what_the_column_does():
    X, y = waves(120, 3)
    split = np.column_stack([X[:, 0] / np.sqrt(2), X[:, 1:], X[:, 0] / np.sqrt(2)])
    whole = regressor([Gaussians(ard=True)]).fit(X, y)
    halves = regressor([Gaussians(ard=[[0, 3], [1], [2]])]).fit(split, y)
    # Equal but for rounding in single precision.
    assert_allclose(halves.predict(split), whole.predict(X), atol=1e-3)
    sigma = np.array(halves.combination_.records()[0]["sigma"])
    assert sigma[0] == sigma[3] != sigma[1]
    apart = regressor([Gaussians(ard=True)]).fit(split, y)
    assert np.abs(apart.predict(split) - whole.predict(X)).max() > 1e-3


def test_blocks_are_checked_and_searches_do_not_know_them():
    X, y = waves(30, 3)
    with pytest.raises(ValueError, match="each of the 3 columns, from 0 on, must be in one of them, once"):
        regressor(Gaussians(ard=[[0, 1]])).fit(X, y)
    with pytest.raises(ValueError, match="ard of Laplacians is 'all'; use True or False or a list of lists"):
        regressor(Laplacians(ard="all")).fit(X, y)
    with pytest.raises(ValueError, match="lists blocks of columns, and a search knows one bandwidth"):
        MKLRegressor(Gaussians(ard=[[0, 1], [2]]), solver="greedy", C=1.0).fit(X, y)
    assert Gaussians(ard=[[2], [0], [1]]).resolve(3).ard is True


@pytest.mark.parametrize("statistic", ["sqdist", "l1"])
def test_the_gradient_in_bandwidths_is_that_of_differences(statistic):
    X, y = waves(40, 3)
    rows = Rows.plain((y - y.mean())[:, None], np.ones(40), "squared")
    t = np.array([0.3, 0.8, 1.1, -1.0])
    _, slope = single_error(statistic, X, rows, t)
    for j in range(4):
        h = 1e-3 * np.eye(4)[j]  # distances are in single precision
        values = [single_error(statistic, X, rows, t + sign * h, gradient=False)[0] for sign in (1, -1)]
        assert slope[j] == pytest.approx((values[0] - values[1]) / 2e-3, rel=2e-2, abs=2e-4)


def test_weights_are_never_worse_than_the_best_single_candidate():
    X, y = waves(60, 3)
    rows = Rows.plain((y - y.mean())[:, None], np.ones(60), "squared")
    candidates = [Candidate("sqdist", np.full(3, t), Z=X) for t in (-1.0, 0.5, 2.0)]
    error = Weighing(rows, [candidates], np.zeros(60, int), [np.arange(60)])
    found = weigh(error, -2.0, Effort())
    assert found.error <= found.singles.min() + 1e-12
    assert found.theta.sum() == pytest.approx(1.0) and (found.theta >= 0).all()


# -- the solver ----------------------------------------------------------------------------------------


def test_useless_columns_get_wide_bandwidths_and_the_fit_is_good():
    X, y = waves(400)
    model = regressor().fit(X, y)
    new, truth = waves(400, seed=1)
    assert model.score(new, truth) > 0.93
    sigma = np.array(model.combination_.records()[0]["sigma"])
    assert sigma[2:].min() > 2 * sigma[0]


def test_it_beats_a_single_bandwidth_that_was_searched_for():
    X, y = waves(300)
    new, truth = waves(300, seed=1)
    ridge = max(
        KernelRidge(kernel="rbf", alpha=a, gamma=g).fit(X, y).score(new, truth)
        for a in (0.01, 0.1, 1)
        for g in (0.03, 0.1, 0.3, 1)
    )
    assert regressor().fit(X, y).score(new, truth) > ridge


def test_the_machine_is_that_of_the_learned_kernel_and_is_certified():
    X, y = waves(120)
    model = regressor().fit(X, y)
    assert model.converged_ and model.gap_kind_ == "exact"
    K = model.combination_.gram(X) + 1.0
    ridge = KernelRidge(alpha=1 / model.C_, kernel="precomputed").fit(K, y - y.mean())
    assert_allclose(model.predict(X), ridge.predict(K) + y.mean(), atol=1e-7)


def test_a_number_for_C_is_kept_and_certified():
    X, y = waves(100)
    model = regressor(C=3.0).fit(X, y)
    assert model.C_ == 3.0
    assert regressor([RBF(1.0), RBF(3.0)], C=3.0).fit(X, y).C_ == 3.0
    listed = regressor([RBF(1.0), RBF(3.0)], C=3.0).fit(X, y)
    again = certify(listed, X, y)
    assert again.primal == pytest.approx(listed.objective_, rel=1e-7)


def test_C_is_chosen_larger_where_there_is_less_noise():
    X, _ = waves(200, 2)
    clean, noisy = np.sin(X[:, 0]), np.sin(X[:, 0]) + RNG.normal(size=200)
    kernels = [RBF(2.0)]
    assert regressor(kernels).fit(X, clean).C_ > 10 * regressor(kernels).fit(X, noisy).C_


@pytest.mark.parametrize("data", [load_iris, load_wine])
def test_classes_are_learned_with_probabilities(data):
    X, y = data(return_X_y=True)
    model = classifier().fit(X[::2], y[::2])
    assert model.score(X[1::2], y[1::2]) > 0.93
    P = model.predict_proba(X[1::2])
    assert_allclose(P.sum(axis=1), 1.0)
    assert (model.classes_[P.argmax(axis=1)] == model.predict(X[1::2])).all()
    right = P[np.arange(len(P)), np.searchsorted(model.classes_, y[1::2])]
    assert -np.log(right).mean() < 0.3


def test_several_targets_share_one_kernel():
    X, y = waves(150)
    model = regressor().fit(X, np.column_stack([y, X[:, 1] ** 2]))
    assert model.predict(X).shape == (150, 2) and model.score(X, np.column_stack([y, X[:, 1] ** 2])) > 0.9


def test_lists_continua_and_unions_all_work():
    X, y = waves(120)
    for kernels in (
        [RBF(1.0), Linear()],
        Gaussians(),
        Laplacians(ard=True),
        Products(degree=2),
        Union({"g": Gaussians(), "l": Linear()}),
    ):
        model = regressor(kernels).fit(X, y)
        assert len(model.combination_) >= 1 and np.isfinite(model.predict(X)).all()
    assert "gaussian" in str(MKLRegressor("gaussian", solver="leave_one_out", C="auto").fit(X, y).kernels)


def test_what_cannot_be_learned_is_refused_in_a_sentence():
    X, y = waves(50)
    with pytest.raises(ValueError, match="LeaveOneOut needs bandwidths to learn, or a list of at most 500"):
        regressor(Products(degree=5)).fit(np.hstack([X, X]), y)
    with pytest.raises(ValueError, match="steps of LeaveOneOut is 0; use a whole number"):
        regressor(steps=0).fit(X, y)


# -- what must not matter ------------------------------------------------------------------------------


def test_units_zeros_and_the_order_of_columns_do_not_matter():
    X, y = load_wine(return_X_y=True)
    kernels = [Gaussians(ard=True), Laplacians(ard=True)]
    plain = classifier(kernels).fit(X[::2], y[::2]).decision_function(X[1::2])
    scaled = X * 10.0 ** np.arange(-6, 7) + 3
    assert_allclose(
        classifier(kernels).fit(scaled[::2], y[::2]).decision_function(scaled[1::2]), plain, atol=1e-3
    )
    turned = X[:, ::-1]
    assert_allclose(
        classifier(kernels).fit(turned[::2], y[::2]).decision_function(turned[1::2]), plain, atol=1e-3
    )


def test_the_order_of_rows_does_not_matter():
    X, y = waves(150)
    order = RNG.permutation(150)
    one, other = regressor().fit(X, y), regressor().fit(X[order], y[order])
    # The mean of the targets is summed in another order, and steps in single precision amplify its last bit.
    assert_allclose(one.predict(X), other.predict(X), atol=1e-3)


def test_a_duplicated_table_is_one_with_weights_of_two():
    X, y = waves(120)
    weighted = regressor().fit(X, y, np.full(120, 2.0))
    doubled = regressor().fit(np.vstack([X, X]), np.tile(y, 2))
    assert_allclose(weighted.predict(X), doubled.predict(X), atol=1e-6)
    labels = np.digitize(y, [-0.5, 0.5])
    weighted = classifier().fit(X, labels, np.full(120, 2.0))
    doubled = classifier().fit(np.repeat(X, 2, axis=0), np.repeat(labels, 2))
    assert_allclose(weighted.decision_function(X), doubled.decision_function(X), atol=1e-6)


def test_whole_weights_are_repetitions_in_any_order():
    X, y = waves(60, 3)
    rng = np.random.default_rng(2)
    s = rng.integers(0, 4, 60)
    rows = rng.permutation(np.repeat(np.arange(60), s))
    weighted, repeated = MKLRegressor().fit(X, y, s), MKLRegressor().fit(X[rows], y[rows])
    assert_allclose(weighted.predict(X), repeated.predict(X), atol=1e-9)
    assert_allclose(weighted.loo_prediction_[rows], repeated.loo_prediction_, atol=1e-9)


def test_multiples_of_weights_and_units_of_the_target_do_not_matter():
    X, y = waves(100)
    plain = regressor().fit(X, y)
    light = regressor().fit(X, y, np.full(100, 1e-6))
    # The scale of the linear kernel differs in its last bit, and weights are found along a nearly flat direction.
    assert_allclose(light.predict(X), plain.predict(X), atol=1e-4)
    assert pytest.approx(1e-6 * light.C_, rel=1e-2) == plain.C_
    assert_allclose(1e-30 * regressor().fit(X, 1e30 * y).predict(X), plain.predict(X), atol=1e-6)


def test_duplicated_rows_do_not_teach_that_there_is_no_noise():
    X, _ = waves(150, 2)
    y = np.sin(X[:, 0]) + RNG.normal(size=150)
    new = np.random.default_rng(5).normal(size=(500, 2))
    twice = regressor().fit(np.vstack([X, X]), np.tile(y, 2))
    assert np.mean((twice.predict(new) - np.sin(new[:, 0])) ** 2) < 0.25


def test_a_table_of_cells_is_learned():
    rng = np.random.default_rng(0)
    cells = rng.integers(0, (6, 10), size=(2000, 2))
    X = np.hstack([np.eye(6)[cells[:, 0]], np.eye(10)[cells[:, 1]]])
    effect = rng.normal(size=(6, 10))
    truth = effect[cells[:, 0], cells[:, 1]]
    y = truth + 0.5 * rng.normal(size=2000)
    model = regressor().fit(X[:1500], y[:1500])
    assert 1 - np.mean((model.predict(X[1500:]) - truth[1500:]) ** 2) / truth[1500:].var() > 0.97


def test_a_table_of_cells_with_one_label_each_is_learned():
    rng = np.random.default_rng(0)
    cells = rng.integers(0, (5, 6), size=(600, 2))
    X = np.hstack([np.eye(5)[cells[:, 0]], np.eye(6)[cells[:, 1]]])
    y = rng.integers(0, 2, (5, 6))[cells[:, 0], cells[:, 1]]
    model = classifier().fit(X[:400], y[:400])
    assert model.score(X[400:], y[400:]) == 1.0 and model.loo_score_ == 1.0


def test_rows_without_weight_do_not_matter():
    X, y = waves(120)
    s = np.append(np.ones(120), np.zeros(10))
    more = np.vstack([X, 100 * RNG.normal(size=(10, 6))])
    wild = regressor().fit(more, np.append(y, 1e3 * RNG.normal(size=10)), s)
    assert_allclose(wild.predict(X), regressor().fit(X, y).predict(X), rtol=1e-4, atol=1e-4)


def test_seeds_hardly_matter():
    X, y = load_diabetes(return_X_y=True)
    answers = [
        clone(regressor()).set_params(solver__random_state=k).fit(X[:300], y[:300]).predict(X[300:])
        for k in range(4)
    ]
    assert np.corrcoef(answers).min() > 0.99


# -- odd tables ----------------------------------------------------------------------------------------


def test_few_rows_constant_columns_and_more_columns_than_rows():
    X, y = waves(12, 30)
    X[:, 3] = 7.0
    assert np.isfinite(regressor().fit(X, y).predict(X)).all()
    assert np.isfinite(regressor().fit(X[:2], y[:2]).predict(X)).all()
    labels = np.arange(12) % 3
    assert classifier().fit(X, labels).predict(X).shape == (12,)


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_hardly_any_rows_are_no_error(n):
    X, y = waves(n)
    model = regressor().fit(X, y)
    assert np.isfinite(model.predict(X)).all() and np.isinf(model.predict_interval(X)).all()
    if n > 1:
        assert classifier().fit(X, np.arange(n)).predict_proba(X).shape == (n, n)


def test_equal_rows_and_a_class_with_one_row_are_no_error():
    X, y = waves(40)
    same = regressor(Gaussians(ard=True)).fit(np.ones((40, 3)), y).predict(np.ones((1, 3)))
    assert same == pytest.approx(y.mean())
    labels = np.where(np.arange(40) == 0, 2, y > 0)
    assert np.isfinite(classifier().fit(X, labels).predict_proba(X)).all()
    assert np.isfinite(MKLRegressor().fit(1e150 * X, y).predict(1e150 * X)).all()


def test_a_constant_target_gives_the_constant():
    X, _ = waves(40)
    assert_allclose(regressor().fit(X, np.full(40, 5.0)).predict(X), 5.0)


def test_it_is_saved_and_comes_back(tmp_path):
    X, y = waves(80)
    model = regressor().fit(X, y)
    model.save(tmp_path / "m.mk")
    assert (load(tmp_path / "m.mk").predict(X) == model.predict(X)).all()


def test_the_kernel_alone_is_learned_by_the_transformer():
    X, y = waves(80)
    K = AlignedKernel(ALL, solver=LeaveOneOut(random_state=0)).fit(X, y).transform(X)
    assert K.shape == (80, 80) and np.linalg.eigvalsh(K).min() > -1e-8


@pytest.mark.parametrize(
    ("classes", "rows", "groups"), [(2, 192, 8), (48, 192, 8), (100, 400, 4), (900, 512, 3)]
)
def test_many_classes_are_weighed_in_larger_groups(classes, rows, groups):
    effort = enough_for(classes, Effort())
    assert (effort.weight_rows, effort.weight_groups) == (rows, groups)
