"""Random binning features: the chance to share a bin is the kernel."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from manykernels.families import Finite, Laplacians
from manykernels.features import Binning
from manykernels.features._bins import look_up, number_bins
from manykernels.kernels import Laplacian

X = np.random.default_rng(0).standard_normal((12, 4))


def twin(grids, X):
    """The bins, in plain NumPy."""
    inverse, shift = grids.inverse.astype(X.dtype), grids.shift.astype(X.dtype)
    places = np.floor(X[:, None, grids.columns] * inverse + shift).astype(np.int64)
    codes = (places * grids.factors.astype(np.int64)).sum(axis=2) & 0xFFFFFFFF
    return (codes >> (33 - grids.width.bit_length())).T


@pytest.mark.parametrize(
    "family, member",
    [
        (Finite([Laplacian(3.0)]), 0),
        (Finite([Laplacian(2.0, columns=[1, 3])]), 0),
        (Laplacians(bounds=(0.1, 10.0)), 4.0),
        (Laplacians(bounds=(0.1, 10.0), ard=True), (1.0, 3.0, np.inf, 8.0)),
    ],
    ids=["list", "columns", "single", "ard"],
)
def test_binning_is_unbiased_at_a_large_table(family, member):
    family = family.resolve(4)
    (feature_map,) = family.random_features([member], 4, seed=5, size=2**20)
    assert feature_map.sparse and feature_map.n_blocks is None
    bins = feature_map.grids(0, 4000).bins(X)
    shared = (bins[:, :, None] == bins[:, None, :]).mean(axis=0)
    K = family.gram(X, X, [member], [1.0])
    # 66 different pairs: six standard errors are exceeded with probability below 1e-6; collisions add 1e-6.
    assert (np.abs(shared - K) <= 6 * np.sqrt(K * (1 - K) / 4000) + 1e-5).all()


def test_collisions_add_one_part_in_the_tables_size():
    (feature_map,) = Finite([Laplacian(0.01)]).resolve(4).random_features([0], 4, seed=1, size=64)
    bins = feature_map.grids(0, 4000).bins(X)
    pairs = (bins[:, :, None] == bins[:, None, :])[:, *np.triu_indices(len(X), 1)]
    # The kernel is 0 here, so that pairs meet by chance only; 264,000 pairs give 1.5 % of error.
    assert_allclose(pairs.mean(), 1 / 64, rtol=0.08)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bins_are_those_of_the_definition(dtype):
    rng = np.random.default_rng(3)
    rows = np.column_stack(
        [
            rng.standard_normal(3000),
            rng.random(3000) < 0.01,  # within most tiles constant
            rng.standard_normal(3000) * 100 + 1e4,
            np.sort(rng.standard_normal(3000)),  # an edge lies between tiles
        ]
    ).astype(dtype)
    grids = Binning(np.array([0.5, 3.0, 20.0, 2.0]), 4, None, 7, 0, 2**12).grids(0, 20)
    assert_array_equal(grids.bins(rows), twin(grids, rows))
    assert_array_equal(grids.bins(rows[::-1]), twin(grids, rows)[:, ::-1])  # not contiguous, other tiles


def test_bins_far_from_zero_are_those_of_the_definition():
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((3000, 3)) + np.array([1.7e12, -1e10, 0.0])  # as times in milliseconds are
    rows[:5, 2] = [1e300, -1e300, 2.0**31, -(2.0**40), 0.0]
    grids = Binning(np.array([0.5, 3.0, 2.0]), 3, None, 7, 0, 2**12).grids(0, 20)
    bins = grids.bins(rows)
    assert_array_equal(bins[:, 2:], twin(grids, rows[2:]))
    assert (bins[:, 2:] != bins[:, :1]).mean() > 0.9, "what is cut off shares no bin with other rows"


@pytest.mark.parametrize("kind", ["categories", "independent", "many"])
def test_columns_of_two_values_are_binned_by_the_definition(kind):
    rng = np.random.default_rng(4)
    numbers = rng.standard_normal((3000, 2))
    if kind == "categories":  # few different rows: they are numbered
        switches = np.eye(30)[rng.integers(0, 30, 3000)] * 5 - 1
    else:  # too many different rows, and more columns than a word has bits
        switches = rng.random((3000, 12 if kind == "independent" else 80)) < 0.5
    rows = np.column_stack([numbers[:, 0], switches, numbers[:, 1]]).astype(np.float32)
    grids = Binning(np.full(rows.shape[1], 2.0), rows.shape[1], None, 7, 0, 2**12).grids(0, 20)
    assert_array_equal(grids.bins(rows), twin(grids, rows))


def test_bins_are_numbered_in_the_order_of_their_rows():
    bins = np.array([[5, 2, 5, 7], [1, 1, 0, 1]], dtype=np.uint16)
    slots, seen = np.zeros((2, 8), dtype=np.uint16), np.zeros(2, dtype=np.int64)
    number_bins(bins, slots, seen)
    assert_array_equal(bins, [[1, 2, 1, 3], [1, 1, 2, 1]])
    assert_array_equal(seen, [3, 2])
    later = np.array([[7, 6], [0, 3]], dtype=np.uint16)
    look_up(later, slots)
    assert_array_equal(later, [[3, 0], [2, 0]])  # 0: not met


def test_the_order_of_rows_brings_neighbours_together():
    rng = np.random.default_rng(5)
    rows = rng.standard_normal((4000, 5))
    grids = Binning(np.array([0.5, 0.5, 50.0, 50.0, np.inf]), 5, None, 7, 0, 2**12).grids(0, 20)
    order = grids.order(rows)
    assert_array_equal(np.sort(order), np.arange(4000))

    def shared(rows):
        bins = grids.bins(rows)
        return (bins[:, 1:] == bins[:, :-1]).mean()

    assert shared(rows[order]) > 3 * shared(rows)
    rows[7] = 1e300
    assert_array_equal(np.sort(grids.order(rows)), np.arange(4000))
    assert_array_equal(grids.order(np.ones((3, 5))), [0, 1, 2])
    assert len(grids.order(rows[:0])) == 0


def test_a_block_is_its_column_of_bins():
    feature_map = Binning(2.0, 4, None, 3, 1, 100)
    block = feature_map.block(5)
    assert block.width == 128 == feature_map.width
    bins = feature_map.grids(4, 7).bins(X)[1]
    assert_array_equal(block.bins(X), bins)
    W = np.random.default_rng(1).standard_normal((128, 3)).astype(np.float32)
    assert_array_equal(block.scores(X, W), block.transform(X) @ W)
    assert_array_equal(block.transform(X).sum(axis=1), 1.0)


def test_values_beyond_any_grid_do_no_harm():
    rows = X.copy()
    rows[0, 0], rows[1, 1] = 1e300, -1e300
    bins = Binning(1.0, 4, None, 0, 0, 256).grids(0, 10).bins(rows)
    assert bins.max() < 256
    kept = Binning(1.0, 4, None, 0, 0, 256).grids(0, 10).bins(X)
    assert_array_equal(bins[:, 2:], kept[:, 2:])


def test_no_rows_and_no_columns():
    assert Binning(1.0, 4, None, 0, 0, 256).grids(0, 3).bins(X[:0]).shape == (3, 0)
    all_ignored = Binning(np.full(4, np.inf), 4, None, 0, 0, 256).grids(0, 3).bins(X)
    assert (all_ignored == all_ignored[:, :1]).all()
