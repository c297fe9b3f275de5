"""What remains of a fit when only scores are wanted."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from tests.contracts.cases import FAMILIES, rows
from threadpoolctl import threadpool_limits

from manykernels import MKLRegressor
from manykernels.combination import Combination
from manykernels.predictors import Dual, Primal
from manykernels.solvers import Blockwise


def some(name, m=None):
    family = FAMILIES[name].resolved()
    m = family.size()
    weights = np.random.default_rng(0).exponential(size=m) * (np.arange(m) % 3 > 0)
    return Combination(family, family.members(), weights, np.ones(m))


def dual(name="finite-list", c=2, zero=False):
    A = np.random.default_rng(1).normal(size=(20, c)) * (np.arange(20) % 2)[:, None]
    X = FAMILIES[name].train(20)
    return Dual.from_training(some(name), X, 0 * A if zero else A, np.arange(1.0, c + 1)), X, A


def primal(name="monomials", c=2):
    combination = some(name)
    used = [z for z, w in zip(combination.members, combination.weights) if w > 0]
    k = int(combination.family.widths(used).sum())
    return Primal(combination, np.random.default_rng(1).normal(size=(k, c)), np.arange(1.0, c + 1))


MADE = {
    "dual": lambda: dual()[0],
    "dual, monomials": lambda: dual("monomials")[0],
    "dual, one output": lambda: dual(c=1)[0],
    "dual, no support": lambda: dual(zero=True)[0],
    "primal": primal,
    "primal, several columns a kernel": lambda: primal("finite-explicit"),
}


@pytest.fixture(params=MADE)
def predictor(request):
    return MADE[request.param]()


def test_contributions_and_intercept_add_up_to_the_scores(predictor):
    new = rows(6, seed=2)
    parts = predictor.contributions(new)
    assert parts.shape == (len(predictor.combination), 6, len(predictor.intercept))
    assert_allclose(parts.sum(axis=0) + predictor.intercept, predictor.scores(new), rtol=1e-10, atol=1e-10)


def test_kernels_without_weight_contribute_nothing(predictor):
    parts = predictor.contributions(rows(6, seed=2))
    assert not parts[predictor.combination.weights == 0].any()


def test_scores_do_not_depend_on_the_other_rows(predictor):
    new = rows(6, seed=2)
    one_by_one = np.vstack([predictor.scores(new[i : i + 1]) for i in range(6)])
    assert_allclose(predictor.scores(new), one_by_one, rtol=1e-11, atol=1e-11)


def test_blocks_of_rows_do_not_change_scores(predictor):
    new = rows(6, seed=2)
    many = np.tile(new, (40_000, 1))  # more than a block
    assert_allclose(
        predictor.scores(many), np.tile(predictor.scores(new), (40_000, 1)), rtol=1e-11, atol=1e-11
    )


def test_shifting_moves_every_score_and_leaves_the_original(predictor):
    new = rows(6, seed=2)
    before = predictor.scores(new)
    assert_allclose(predictor.shifted(np.array([10.0])).scores(new), before + 10.0, rtol=1e-12)
    assert_array_equal(predictor.scores(new), before)


def test_dual_scores_are_the_gram_times_the_coefficients():
    p, X, A = dual()
    new = rows(6, seed=2)
    assert_allclose(p.scores(new), p.combination.gram(new, X) @ A + p.intercept, rtol=1e-10, atol=1e-10)


def test_dual_keeps_support_rows_only():
    p, X, A = dual()
    assert_array_equal(p.rows, X[1::2])
    assert_array_equal(p.A, A[1::2])
    assert set(p.to_arrays()) == {"A", "intercept", "rows"}


def test_dual_on_ready_made_matrices_keeps_no_rows():
    p, X, A = dual("precomputed")
    assert p.rows is None and set(p.to_arrays()) == {"A", "intercept"}
    assert_allclose(p.scores(X[:3]), p.combination.gram(X[:3], None) @ A + p.intercept, rtol=1e-12)


def test_primal_scores_are_features_times_coefficients():
    p = primal()
    c, new = p.combination, rows(6, seed=2)
    used = [z for z, w in zip(c.members, c.weights) if w > 0]
    assert_allclose(p.scores(new), c.family.features(new, used) @ p.W + p.intercept, rtol=1e-11)
    assert set(p.to_arrays()) == {"W", "intercept"}


def test_primal_without_any_kernel_is_its_intercept():
    family = FAMILIES["monomials"].resolved()
    m = family.size()
    p = Primal(Combination(family, family.members(), np.zeros(m), np.ones(m)), np.zeros((0, 1)), np.ones(1))
    assert_allclose(p.scores(rows(3)), 1.0)
    assert not p.contributions(rows(3)).any()


@pytest.mark.parametrize("kernels", ["gaussian", "laplacian"])
def test_threads_change_no_score_on_random_features(kernels, monkeypatch):
    X = np.random.default_rng(0).normal(size=(1000, 10))
    model = MKLRegressor(kernels, solver=Blockwise(), C=1e3, random_state=0)
    model.fit(X[:300], X[:300, 0] * X[:300, 1])
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    scores = []
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            scores.append(model.predict(X))
    assert_allclose(scores[1], scores[0], rtol=0, atol=1e-12)  # in float32, other sums differ by 1e-8
