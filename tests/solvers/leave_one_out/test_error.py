"""The error of rows left out, against machines that are trained without them, and its gradient."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from manykernels.solvers.bandwidth_learning.left_out import (
    Rows,
    _solved,
    factored,
    inverse_of,
    leave_out,
    merged,
    softmax_loss,
)

N = 24
NOISE = 0.3


def gram(X, Z):
    return np.exp(-np.square(X[:, None] - Z).sum(axis=2))


def targets(criterion, c, rng):
    if criterion == "squared":
        Y = rng.normal(size=(N, c))
        return Y - Y.mean(axis=0)
    if c == 1:
        return np.sign(rng.normal(size=(N, 1)))
    return 2.0 * np.eye(c)[rng.integers(0, c, N)] - 1


def table(kind, rng):
    """Return rows, weights, and the subject of each row if there are any."""
    X, s = rng.normal(size=(N, 3)), np.ones(N)
    if kind == "weights":
        s = rng.uniform(0.5, 2.0, N)
    if kind == "few twins":
        X[:4] = X[4:8]
    if kind == "cells":  # a table of categories: five cells
        X = X[rng.integers(0, 5, N)]
    return X, s, rng.integers(0, 6, N) if kind == "subjects" else None


def trained_without(X, Y, s, subjects, units):
    """Return the score of every row from a machine that has not seen it, nor its copies or its subject."""
    F = np.empty_like(Y)
    for i in range(N):
        kept = np.ones(N, dtype=bool)
        kept[i] = False
        if subjects is not None:
            kept = subjects != subjects[i]
        elif not units:
            kept = ~(X[i] == X).all(axis=1)
        K = gram(X[kept], X[kept]) + 1 + np.diag(NOISE / s[kept])
        F[i] = (gram(X[[i]], X[kept]) + 1) @ np.linalg.solve(K, Y[kept])
    return F


@pytest.fixture(params=[("squared", 2), ("softmax", 1), ("softmax", 3)], ids=str)
def judged(request):
    return request.param


@pytest.fixture(params=["plain", "weights", "few twins", "cells", "subjects"])
def case(request, judged):
    rng = np.random.default_rng(0)
    X, s, subjects = table(request.param, rng)
    Y = targets(*judged, rng)
    first, rows = merged(X, Y, s, judged[0], subjects)
    return X, Y, s, subjects, first, rows


def test_scores_are_those_of_machines_trained_without_the_rows(case):
    X, Y, s, subjects, first, rows = case
    found = leave_out(gram(X[first], X[first]), NOISE, rows, dtype=np.float64)
    expected = trained_without(X, Y, s, subjects, units=bool((rows.share < 1).any()))
    assert_allclose(found.scores[rows.origin], expected, atol=1e-12)


def test_gradients_are_those_of_differences(case):
    X, first, rows = case[0], case[4], case[5]
    K, rng, h = gram(X[first], X[first]), np.random.default_rng(1), 1e-6
    found = leave_out(K, NOISE, rows, dtype=np.float64)
    step = rng.normal(size=K.shape)
    step += step.T

    def error(K, noise):
        return leave_out(K, noise, rows, gradient=False, dtype=np.float64).error

    along = (error(K + h * step, NOISE) - error(K - h * step, NOISE)) / (2 * h)
    # Differences of numbers of size one, over 1e-6, are good to about 1e-9.
    assert np.vdot(found.in_kernel, step) == pytest.approx(along, rel=1e-6, abs=1e-8)
    slope = (error(K, NOISE * np.exp(h)) - error(K, NOISE * np.exp(-h))) / (2 * h)
    assert found.in_log_noise == pytest.approx(slope, rel=1e-6, abs=1e-8)


def test_single_precision_is_enough_for_a_gradient(case):
    X, first, rows = case[0], case[4], case[5]
    K = gram(X[first], X[first])
    exact, rough = (leave_out(K, NOISE, rows, dtype=t).in_kernel for t in (np.float64, np.float32))
    assert np.abs(exact - rough).max() <= 1e-4 * max(np.abs(exact).max(), 1e-3)


def test_copies_leave_together_where_they_are_few_and_one_by_one_where_they_are_many():
    rng = np.random.default_rng(0)
    Y = rng.normal(size=(N, 1))
    X = rng.normal(size=(N, 2))
    X[0] = X[1]
    assert (merged(X, Y, np.ones(N), "squared")[1].share == 1).all()
    first, rows = merged(X[rng.integers(4, 8, N)], Y, np.ones(N), "squared")
    assert len(first) == 4
    assert_allclose(rows.share, 1 / rows.s)
    # Five copies of a row and its target are a row of five times the weight, which is no cell.
    assert (merged(np.tile(X, (5, 1)), np.tile(Y, (5, 1)), np.ones(5 * N), "squared")[1].share == 1).all()


def test_duplicated_rows_are_rows_of_twice_the_weight():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(N, 2)), rng.normal(size=(N, 1))
    once = merged(X, Y, np.full(N, 2.0), "squared")[1]
    twice = merged(np.vstack([X, X]), np.vstack([Y, Y]), np.ones(2 * N), "squared")[1]
    assert_allclose(np.sort(once.s), np.sort(twice.s))
    assert_allclose(once.Y, twice.Y)


def test_taking_rows_takes_what_belongs_to_them():
    rng = np.random.default_rng(0)
    X, Y = np.repeat(rng.normal(size=(6, 2)), 4, axis=0), rng.normal(size=(N, 1))
    rows = merged(X, Y, np.ones(N), "squared")[1]
    part = rows.take(np.array([4, 1]))
    assert len(part) == 2 and len(part.units) == 8
    assert_allclose(part.targets[part.units == 0], rows.targets[rows.units == 4])
    assert_allclose(part.Y[1], rows.Y[1])


def test_errors_that_do_not_count_change_nothing():
    rng = np.random.default_rng(0)
    Y = rng.normal(size=(N, 1))
    rows = Rows.plain(Y, np.ones(N), "squared")
    K = gram(X := rng.normal(size=(N, 2)), X)
    half = (np.arange(N) < N // 2).astype(float)
    E = Y - leave_out(K, NOISE, rows).scores
    expected = (half @ np.square(E)).item() / (half @ np.square(Y)).item()
    assert leave_out(K, NOISE, rows.counting(half)).error == pytest.approx(expected)


def test_the_temperature_is_the_best_one():
    rng = np.random.default_rng(0)
    for c in (1, 3):
        T = targets("softmax", c, rng)
        F = T + rng.normal(size=T.shape)
        loss, _, tau = softmax_loss(F, T, np.ones(N))
        for factor in (0.9, 1.1):
            other, _, _ = softmax_loss(F * factor, T, np.ones(N))  # any multiple of F has the same best loss
            assert other == pytest.approx(loss, rel=1e-6)
        assert 0.01 < tau < 16


def test_a_singular_matrix_gets_as_much_as_it_needs():
    K = np.ones((5, 5)) - 1.0
    assert np.isfinite(inverse_of(factored(K, np.zeros(5)))).all()


@pytest.mark.parametrize("seed", range(4))
def test_subjects_of_any_weights_are_left_out(seed):
    """Single precision loses the rows of a subject beside one that weighs a billion times as much."""
    rng = np.random.default_rng(seed)
    X, Y = rng.integers(0, 2, (N, 3)) + 1e-4 * rng.normal(size=(N, 3)), targets("squared", 2, rng)
    rows = merged(X, Y, 10.0 ** rng.uniform(-4, 9, N), "squared", np.arange(N) // 3)[1]
    K = np.square(1 + X @ X.T)
    rough, exact = (leave_out(K, 1e-5, rows, dtype=t) for t in (np.float32, np.float64))
    assert np.isfinite(rough.scores).all() and np.isfinite(rough.in_kernel).all()
    assert rough.error >= 0.1 * exact.error


def test_systems_that_are_singular_have_their_shortest_solution():
    blocks, right = np.array([[[1.0, 1.0], [1.0, 1.0]]]), np.array([[[2.0], [2.0]]])
    assert_allclose(_solved(blocks, right, np.float64), [[[1.0], [1.0]]])
    with pytest.raises(np.linalg.LinAlgError):
        _solved(blocks, right, np.float32)
