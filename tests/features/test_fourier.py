"""Cosines and sines of a whole tile, against NumPy in double precision."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from manykernels.features import Exact, FourierBlocks
from manykernels.features._fourier import LARGEST_ANGLE, cos_sin
from manykernels.features.fourier import FourierBlock
from manykernels.kernels import RBF, Linear

#: A unit in the last place of 1 in single precision. The reduced argument and the polynomial's last sum are rounded,
#: half a unit each at most; 0.66 is the most that was seen.
ULP = 2.0**-23


def both(P, scale=1.0, first=0, width=None):
    """Return [cos P, sin P] as the compiled loop writes them, into a matrix of sevens."""
    P = np.ascontiguousarray(P, dtype=np.float32)
    Z = np.full((len(P), 2 * P.shape[1] if width is None else width), 7.0, dtype=np.float32)
    cos_sin(P, np.float32(scale), Z, first)
    return Z


def plain(P):
    """Return the same in double precision."""
    P = np.asarray(P, dtype=np.float32).astype(float)
    return np.hstack([np.cos(P), np.sin(P)])


@pytest.mark.parametrize("size", [1e-6, 1.0, 30.0, 1e3, 8191.0, 1e4, 1e6, 1e15, 1e38])
def test_cosines_and_sines_are_right_to_the_last_bit_of_one(size):
    P = np.random.default_rng(0).uniform(-size, size, (300, 37))  # an odd width has a rest after the vectors
    assert_allclose(both(P), plain(P), rtol=0, atol=ULP)


def test_multiples_of_a_quarter_turn_and_the_border_between_both_ways():
    k = np.arange(-5000, 5001)
    near = [np.float32(k * np.pi / 2), np.nextafter(np.float32((k + 0.5) * np.pi / 2), np.float32(np.inf))]
    border = [np.nextafter(LARGEST_ANGLE, s * np.float32(np.inf), dtype=np.float32) for s in (-1, 1)]
    P = np.concatenate([*near, border, [LARGEST_ANGLE, -LARGEST_ANGLE, 0.0, -0.0]])[None, :]
    assert_allclose(both(P), plain(P), rtol=0, atol=ULP)


def test_a_row_with_large_numbers_leaves_the_others_as_they_are():
    P = np.random.default_rng(1).standard_normal((3, 16)).astype(np.float32)
    alone = both(P[[0, 2]])
    P[1, 5] = 3e7
    assert_array_equal(both(P)[[0, 2]], alone)
    assert_allclose(both(P), plain(P), rtol=0, atol=ULP)


def test_what_is_not_finite_has_no_cosine():
    Z = both([[np.inf, 1.0], [np.nan, 1.0], [0.0, 1.0]])
    assert_array_equal(np.isnan(Z), [[True, False, True, False], [True, False, True, False], [False] * 4])


def test_scale_and_columns():
    P = np.random.default_rng(2).standard_normal((5, 8))
    Z = both(P, scale=0.25, first=3, width=30)
    assert_allclose(Z[:, 3:19], 0.25 * plain(P), rtol=0, atol=0.25 * ULP)
    assert (np.delete(Z, np.s_[3:19], axis=1) == 7.0).all()


@pytest.mark.parametrize(
    "block",
    [
        FourierBlock(np.random.default_rng(3).standard_normal((4, 6), dtype=np.float32)),
        FourierBlock(np.random.default_rng(4).standard_normal((2, 6), dtype=np.float32), np.array([1, 3])),
        Exact(Linear(), 4),
    ],
    ids=["fourier", "columns", "exact"],
)
def test_features_go_where_they_are_wanted(block):
    X = np.random.default_rng(5).standard_normal((9, 4))
    Z = np.full((9, block.width + 5), 7.0, dtype=np.float32)
    assert block.transform(X, Z, 2) is Z
    assert_array_equal(Z[:, 2 : 2 + block.width], block.transform(X))
    assert (Z[:, :2] == 7.0).all() and (Z[:, 2 + block.width :] == 7.0).all()


def test_columns_far_from_zero_keep_their_digits():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 3))
    block = RBF(2.0).random_features(3, 0, 0, 64).block(0)
    far = X + np.array([2.0**40, 0.0, -(2.0**20)])
    projected = np.longdouble(far) @ block.frequencies.astype(np.longdouble)
    exact = np.hstack([np.cos(projected), np.sin(projected)]) / np.sqrt(32)
    # Ω is exact, a product of 2⁴⁰ with it errs by 2⁻¹³ in double precision, and a feature is 0.18 of that.
    assert_allclose(block.transform(far), exact.astype(float), atol=1e-4)
    assert_allclose(block.transform(X), block.transform(X.astype(np.float32)), atol=1e-6)


def test_blocks_together_have_the_features_of_each():
    maps = [RBF(2.0).random_features(5, 0, 0, 32), RBF(0.5).random_features(5, 0, 1, 8)]
    blocks = [m.block(k) for m in maps for k in range(2)]
    X = np.random.default_rng(0).standard_normal((70, 5)).astype(np.float32)
    together = FourierBlocks.of(blocks)
    assert together.width == 80
    # The order of five terms of a projection may differ with its width.
    assert_allclose(together.transform(X), np.hstack([b.transform(X) for b in blocks]), atol=1e-6)
    some = RBF(2.0, columns=[0, 1]).random_features(5, 0, 0, 8).block(0)
    assert FourierBlocks.of([*blocks, some]) is None and FourierBlocks.of(blocks[:1]) is None
