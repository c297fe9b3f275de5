"""The best constant, and what is said of a model that is no better."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning

from manykernels.losses import get_loss
from manykernels.solvers import TriplyStochastic
from manykernels.solvers.verdict import Verdict, best_constant, compare


def weighted_mean_loss(loss, Y, b, s):
    return s @ loss.value(Y, np.tile(b, (len(Y), 1))) / s.sum()


@pytest.mark.parametrize("name", TriplyStochastic.losses)
def test_no_constant_beats_the_best(name):
    rng = np.random.default_rng(0)
    loss, s = get_loss(name), rng.integers(0, 4, size=60).astype(float)
    codes = rng.choice(3, size=60, p=[0.6, 0.3, 0.1])
    Y = np.eye(3)[codes] if loss.multiclass else 2.0 * np.eye(3)[codes] - 1.0
    best = weighted_mean_loss(loss, Y, best_constant(loss, s @ Y / s.sum()), s)
    tried = [weighted_mean_loss(loss, Y, b, s) for b in rng.normal(size=(2000, 3))]
    assert best <= min(tried) * (1 + 1e-9)


def test_the_best_logistic_constant_has_the_entropy_for_its_loss():
    Y = np.where(np.arange(100) < 20, 1.0, -1.0)[:, None]
    entropy = -0.2 * np.log(0.2) - 0.8 * np.log(0.8)
    loss = get_loss("logistic")
    assert weighted_mean_loss(loss, Y, best_constant(loss, Y.mean(axis=0)), np.ones(100)) == pytest.approx(
        entropy
    )


def test_sums_over_rows_make_a_verdict():
    rng = np.random.default_rng(1)
    Y, F, b, s = rng.standard_normal((50, 2)), rng.standard_normal((50, 2)), np.ones(2), rng.random(50)
    s[:10] = 0.0
    loss = get_loss("squared")
    found = Verdict.of(sum(compare(loss, Y[i::3], F[i::3], b, s[i::3]) for i in range(3)))
    more = (s * (loss.value(Y, F) - loss.value(Y, np.tile(b, (50, 1)))))[10:]
    assert found.rows == 40
    assert_allclose(found.loss, s @ loss.value(Y, F) / 40)
    assert_allclose(found.loss - found.constant, more.mean())
    assert_allclose(found.error, more.std() / np.sqrt(40))


@pytest.mark.parametrize(
    "loss, constant, options",
    [
        (2.0, 1.0, {}),
        (1.0, 1.0, {}),
        (0.9, 1.0, {"slack": 0.2}),
        (np.nan, 1.0, {}),
        (np.inf, 0.0, {}),
    ],
)
def test_a_model_no_better_than_the_constant_is_told_with_the_figures(loss, constant, options):
    sentence = "Solver has a mean loss of .* on 1,234 rows held out, no better than the .* of the best constant.*; wait"
    with pytest.warns(ConvergenceWarning, match=sentence):
        Verdict(1234, loss, constant, 0.1).warn("Solver", "rows held out", "wait", **options)


@pytest.mark.parametrize(
    "loss, constant, options", [(0.9, 1.0, {}), (0.0, 0.0, {}), (1.0, 0.5, {"least": 0.5})]
)
def test_a_better_model_or_a_constant_that_is_no_measure_is_not(loss, constant, options):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Verdict(1234, loss, constant, 0.1).warn("Solver", "rows held out", "wait", **options)
