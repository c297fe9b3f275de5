"""One bandwidth per column, learned among neighbours."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from manykernels.features import order_of_neighbours
from manykernels.solvers.bandwidth_learning import steps as bandwidth_steps
from manykernels.solvers.bandwidth_learning.steps import GROUP_ROWS, MOST_TIMES, learn_bandwidths


def rows(n, seed=0):
    """Rows of which the first column matters much, the second one little, the others not at all."""
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((n, 5)).astype(np.float32)
    return Z, (np.sin(6 * Z[:, 0]) + np.cos(Z[:, 1]))[:, None]


def learned(Z, Y, s=None, statistic="l1", steps=30):
    s = np.ones(len(Z)) if s is None else s
    return learn_bandwidths(statistic, Z, Y, s, 3.0, np.random.default_rng(0), steps)


# -- the order ------------------------------------------------------------------------------------------


def test_rows_that_stand_side_by_side_are_near_each_other():
    X = np.random.default_rng(0).standard_normal((8000, 2))
    order = order_of_neighbours(X, np.arange(2), np.array([1.0, 1.0]))
    assert_array_equal(np.sort(order), np.arange(8000))
    apart = np.abs(np.diff(X[order], axis=0)).sum(axis=1).mean()
    # 8000 points in the plane have their nearest neighbour at about 1/√8000 of its size; at random it is 2.3.
    assert apart < 0.15 < 1.5 < np.abs(np.diff(X, axis=0)).sum(axis=1).mean()


def test_columns_count_by_their_bandwidths():
    X = np.random.default_rng(0).standard_normal((8000, 3))
    order = order_of_neighbours(X, np.array([0, 2]), np.array([1.0, 1e-9]))
    steps = np.abs(np.diff(X[order], axis=0)).mean(axis=0)
    # Sorted by the first column, as the third one is as good as constant; beyond two deviations there is no order.
    assert steps[0] < 0.05
    assert steps[1] > 1 and steps[2] > 1


# -- groups ---------------------------------------------------------------------------------------------


def test_equal_rows_are_one_with_the_mean_of_their_targets():
    Z = np.repeat(np.arange(300, dtype=np.float32), 3)[:, None] * np.ones((1, 2), np.float32)
    Y = np.arange(900.0)[:, None]
    X, targets = bandwidth_steps._merged(Z, Y, np.arange(900), 0)
    assert len(X) >= GROUP_ROWS / 2, "the group was stretched until it had enough different rows"
    assert len(np.unique(X[:, 0])) == len(X)
    whole = X[:, 0] < X[:, 0].max()  # the last one may be cut
    assert_allclose(targets[whole, 0], 3 * X[whole, 0] + 1)


def test_a_group_of_few_different_rows_does_not_grow_without_end():
    Z = np.random.default_rng(0).integers(0, 2, (10_000, 3)).astype(np.float32)
    order = np.lexsort(Z.T)
    X, targets = bandwidth_steps._merged(Z, Z[:, :1].astype(float), order, 9_990)
    assert 1 <= len(X) <= 8 and len(targets) == len(X)
    assert MOST_TIMES * GROUP_ROWS < 10_000


def test_groups_lie_within_the_rows_and_cover_few_ones_as_one():
    rng = np.random.default_rng(0)
    for n in (201, 1000, 30_000):
        places = bandwidth_steps._places(n, rng)
        assert min(places) >= 0 and max(places) + GROUP_ROWS <= n
    assert bandwidth_steps._places(150, rng) == [0]


# -- bandwidths -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("statistic", ["l1", "sqdist"])
def test_columns_that_matter_less_get_wider_bandwidths(statistic):
    sigma = learned(*rows(4000), statistic=statistic)
    assert sigma[0] < sigma[1] < sigma[2:].min()


def test_denser_rows_get_narrower_bandwidths():
    sparse, dense = (learned(*rows(n)) for n in (300, 20_000))
    assert dense[0] < sparse[0]
    assert dense[2:].min() / dense[0] > sparse[2:].min() / sparse[0], "and are told apart more clearly"


def test_copies_of_rows_do_not_make_bandwidths_narrow():
    Z, Y = rows(2000)
    Y = Y + np.random.default_rng(1).standard_normal(Y.shape)  # noise, which a copy would predict
    once, thrice = learned(Z, Y), learned(np.repeat(Z, 3, axis=0), np.repeat(Y, 3, axis=0))
    assert_allclose(np.log(thrice[:2]), np.log(once[:2]), atol=np.log(2))


def test_rows_without_weight_do_not_count():
    Z, Y = rows(3000)
    other = np.random.default_rng(1).standard_normal(Y.shape)
    s = np.r_[np.ones(3000), np.zeros(3000)]
    sigma = learned(np.concatenate([Z, Z[::-1]]), np.concatenate([Y, 100 * other]), s)
    assert sigma[0] < sigma[1] < sigma[2:].min()


def test_few_rows_and_constant_targets_are_no_error():
    Z, Y = rows(12)
    assert np.isfinite(learned(Z, Y, steps=3)).all()
    assert np.isfinite(learned(Z[:1], Y[:1], steps=3)).all()
    assert np.isfinite(learned(Z, 0 * Y, steps=3)).all()
