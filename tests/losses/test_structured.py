"""Losses known by their most violating output: chains against all sequences there are."""

import itertools
import pickle

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from manykernels import MKLClassifier
from manykernels.losses import Chain, MaxHinge
from manykernels.losses.structured import examples
from manykernels.solvers import LpNorm, Obscure


def sequences(c, T):
    return [np.array(labels) for labels in itertools.product(range(c), repeat=T)]


def score(labels, F, c):
    """Return the score of labels, written out."""
    total = sum(F[t, k] for t, k in enumerate(labels))
    if F.shape[1] > c:
        total += sum(F[t, c + c * labels[t - 1] + labels[t]] for t in range(1, len(labels)))
    return total


@pytest.mark.parametrize("c, T", [(2, 1), (2, 6), (3, 4), (4, 3)])
@pytest.mark.parametrize("transitions", [True, False])
def test_best_and_worst_are_those_of_all_sequences(c, T, transitions):
    loss, rng = Chain(c, transitions=transitions), np.random.default_rng(0)
    for _ in range(20):
        F = rng.normal(size=(T, c + loss.constants))
        truth = rng.integers(c, size=T)
        y = loss.encode(truth, np.zeros(T, int))
        every = sequences(c, T)
        best = max(every, key=lambda labels: score(labels, F, c))
        assert_array_equal(loss.decode(F, np.zeros(T, int)), best)
        worst = max(every, key=lambda labels: np.sum(labels != truth) + score(labels, F, c))
        output, cost = loss.worst(y, F)
        assert_array_equal(output, loss.encode(worst, np.zeros(T, int)))
        assert cost == np.sum(worst != truth)
        most = max(np.sum(o != truth) + score(o, F, c) - score(truth, F, c) for o in every)
        value, change, _ = loss.violation(y, F)
        assert value == pytest.approx(max(most, 0.0), abs=1e-12) and value >= 0
        assert_array_equal(change, output - y)


def test_a_single_position_is_the_max_hinge():
    rng = np.random.default_rng(1)
    Y, F = np.eye(4)[rng.integers(4, size=50)], 2 * rng.normal(size=(50, 4))
    loss = Chain(4, transitions=False)
    found = [loss.violation(y[None], f[None]) for y, f in zip(Y, F)]
    assert [value for value, _, _ in found] == pytest.approx(list(MaxHinge().value(Y, F)))
    moved = [change[0] if value > 0 else np.zeros(4) for value, change, _ in found]
    assert_array_equal(moved, MaxHinge().gradient(Y, F))


def test_rows_of_an_example_keep_their_order_wherever_they_stand():
    groups = np.array([7, 2, 7, 2, 5])
    assert [rows.tolist() for rows in examples(groups, 5)] == [[1, 3], [4], [0, 2]]
    assert [rows.tolist() for rows in examples(None, 3)] == [[0], [1], [2]]
    loss = Chain(2)
    labels = np.array([0, 1, 1, 0, 1])
    Y = loss.encode(labels, groups)
    assert Y[2, 2 + 1] == 1 and Y[3, 2 + 2] == 1  # the pairs (0, 1) and (1, 0)
    assert Y[[0, 1, 4], 2:].sum() == 0  # first positions
    assert_array_equal(loss.decode(Y, groups), labels)


def test_losses_with_equal_parameters_are_equal_and_pickle():
    assert Chain(3) == Chain(3) == pickle.loads(pickle.dumps(Chain(3))) and hash(Chain(3)) == hash(Chain(3))
    assert Chain(3) != Chain(4) and Chain(3) != Chain(3, transitions=False)


@pytest.mark.parametrize("labels", [["a", "b"], [0, 3], [-1, 0], [0.5, 1.0], [[0], [1]]])
def test_other_labels_are_refused(labels):
    with pytest.raises(ValueError, match="labels must be whole numbers from 0 to 2"):
        Chain(3).encode(labels)


@pytest.mark.parametrize("solver", [Obscure(), LpNorm()])
def test_estimators_say_where_structured_losses_go(solver):
    X = np.random.default_rng(0).normal(size=(20, 2))
    with pytest.raises(ValueError, match=r"span several rows.*Obscure\(\)\.solve"):
        MKLClassifier("gaussian", solver=solver, loss=Chain(2), C=1.0).fit(X, X[:, 0] > 0)
