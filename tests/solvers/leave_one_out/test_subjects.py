"""Rows of one subject leave together: learning, scores of rows left out, and the way groups get to a fit."""

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose
from sklearn.model_selection import GroupKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from manykernels import MKLClassifier, MKLRegressor
from manykernels.families import Gaussians
from manykernels.kernels import RBF, Linear
from manykernels.solvers import LeaveOneOut
from manykernels.solvers.bandwidth_learning.candidates import groups_of
from manykernels.solvers.bandwidth_learning.left_out import Rows


def people(n=40, rows=6, seed=0):
    """Rows of a person are near each other and share an effect of that person, which nobody else has."""
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(n), rows)
    X = rng.normal(size=(n, 3))[who] + 0.05 * rng.normal(size=(n * rows, 3))
    y = X[:, 0] + rng.normal(size=n)[who] + 0.1 * rng.normal(size=n * rows)
    return X, y, who


def refitted(model, X, y, who):
    """Return predictions by machines that are trained without a subject, the kernel and C held."""
    K, F = model.combination_.gram(X) + 1.0, np.empty(len(y))
    for k in np.unique(who):
        out = who == k
        G = K[np.ix_(~out, ~out)] + np.eye(np.count_nonzero(~out)) / model.C_
        F[out] = K[np.ix_(out, ~out)] @ np.linalg.solve(G, y[~out] - y.mean()) + y.mean()
    return F


def test_left_out_predictions_are_those_of_machines_without_the_subject():
    X, y, who = people(12, 4)
    order = np.random.default_rng(1).permutation(len(y))
    X, y, who = X[order], y[order], who[order]
    model = MKLRegressor([RBF(1.0)], solver=LeaveOneOut(), C=2.0).fit(X, y, groups=who)
    # Columns and targets are rounded to ten digits before they teach.
    assert_allclose(model.loo_prediction_, refitted(model, X, y, who), atol=1e-7)


def test_people_who_are_known_by_their_place_do_not_teach_a_narrow_kernel():
    X, y, who = people()
    new, truth, _ = people(seed=1)
    naive = MKLRegressor(Gaussians(), solver=LeaveOneOut()).fit(X, y)
    grouped = MKLRegressor(Gaussians(), solver=LeaveOneOut()).fit(X, y, groups=who)
    assert grouped.score(new, truth) > naive.score(new, truth) + 0.1
    # It promises what it does not hold: the other rows of a person tell that person's effect.
    assert naive.loo_score_ > naive.score(new, truth) + 0.3
    # 40 people: the R² of new ones has a standard deviation of about .15.
    assert abs(grouped.loo_score_ - grouped.score(new, truth)) < 0.3
    widest = [max(np.atleast_1d(m.combination_.members[0]).tolist()) for m in (naive, grouped)]
    assert widest[1] > 2 * widest[0]


def test_the_default_learns_with_groups_and_calibrates():
    X, y, who = people(30, 4)
    labels = y > 0
    model = MKLClassifier(random_state=0).fit(X, labels, groups=who)
    assert model.predict_proba(X).shape == (120, 2) and model.loo_decision_function_.shape == (120,)
    naive = MKLClassifier(random_state=0).fit(X, labels)
    assert model.loo_score_ < naive.loo_score_
    assert model.result_.calibration[0] < naive.result_.calibration[0]


def test_few_subjects_and_one_with_most_rows_are_no_obstacle():
    X, y, who = people(12, 5)
    for groups in (who // 6, who // 4, np.where(who < 9, 0, who)):
        fitted = MKLRegressor(random_state=0).fit(X, y, groups=groups)
        assert np.isfinite(fitted.loo_prediction_).all() and np.isfinite(fitted.predict(X)).all()
    weightless = np.where(who < 6, 1.0, 0.0)
    with pytest.raises(ValueError, match="groups holds one group only among the rows with weight"):
        MKLRegressor(random_state=0).fit(X, y, weightless, groups=who // 6)


def test_groups_of_neighbours_are_bounded_and_hold_several_subjects():
    rng = np.random.default_rng(0)
    subjects = np.r_[np.zeros(900, dtype=int), rng.integers(1, 60, 300)]
    Z = rng.normal(size=(1200, 2)) + np.where(subjects == 0, 10.0, 0.0)[:, None]
    rows = Rows.plain(np.zeros((1200, 1)), np.ones(1200), "squared", subjects)
    groups = groups_of(Z, np.zeros(2), rows, 200)
    assert sorted(np.concatenate(groups).tolist()) == list(range(1200))
    for group in groups:
        assert len(group) == 200 and 30 <= np.count_nonzero(subjects[group]) <= 70
    # All but those at the ends of groups are whole.
    cut = sum(len({i for i, g in enumerate(groups) if (subjects[g] == k).any()}) > 1 for k in range(1, 60))
    assert cut <= len(groups) - 1


@pytest.mark.parametrize("pipeline", [False, True])
def test_groups_are_routed_as_scikit_learn_does(pipeline):
    X, y, who = people(12, 5)
    asked = []

    class Asks(MKLRegressor):
        def fit(self, X, y=None, sample_weight=None, *, groups=None):
            asked.append(groups)
            return super().fit(X, y, sample_weight, groups=groups)

    with sklearn.config_context(enable_metadata_routing=True):
        model = Asks([RBF(1.0), Linear()], solver=LeaveOneOut()).set_fit_request(groups=True)
        if pipeline:
            model = make_pipeline(StandardScaler(), model)
        found = cross_validate(model, X, y, cv=GroupKFold(3), params={"groups": who}, error_score="raise")
    assert np.isfinite(found["test_score"]).all()
    assert [len(np.unique(groups)) for groups in asked] == [8, 8, 8]
