"""Thin products are products, however they are cut."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from manykernels.features._thin import SMALL, add_thin_sums, rows_of_a_tile, thin_scores


@pytest.mark.parametrize("c", [1, 2, 7, 8, 10, 32])
@pytest.mark.parametrize("n, width", [(1, 3), (37, 5000), (128, 1024), (700, 4097)])
def test_thin_products_are_products(n, width, c):
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((n, width), dtype=np.float32)
    W, R = rng.standard_normal((width, c), dtype=np.float32), rng.standard_normal((n, c), dtype=np.float32)
    F, sums = np.empty((n, c), np.float32), np.ones((width, c))
    thin_scores(Z, W, F)
    add_thin_sums(Z, R, sums)
    # Sums in single precision: 2⁻²⁴ of a term's size for each term, and some for luck.
    assert_allclose(F, Z.astype(float) @ W.astype(float), atol=1e-6 * width)
    assert_allclose(sums, 1.0 + Z.T.astype(float) @ R.astype(float), atol=1e-6 * (n + 10))


@pytest.mark.parametrize("n", [0, 1, 15, 1024, 10**6])
@pytest.mark.parametrize("multiplications", [0, 1, 8192, 70_000, 10**7])
def test_pieces_are_small_and_cover_all_rows(n, multiplications):
    step = rows_of_a_tile(n, multiplications)
    assert step >= min(n, 1)
    assert step == n or step == 1 or step * multiplications <= SMALL
    assert step == n or step < 16 or step % 16 == 0


def test_no_rows_are_no_work():
    F, sums = np.empty((0, 2), np.float32), np.ones((3, 2))
    thin_scores(np.empty((0, 3), np.float32), np.ones((3, 2), np.float32), F)
    add_thin_sums(np.empty((0, 3), np.float32), F, sums)
    assert (sums == 1).all()
