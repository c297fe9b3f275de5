"""Thin products are products, however they are cut."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from manykernels._blocks import SMALL, thin_product


@pytest.mark.parametrize("c", [1, 2, 7, 8, 10, 32])
@pytest.mark.parametrize("n, width", [(1, 3), (37, 5000), (128, 1024), (700, 4097)])
def test_thin_products_are_products(n, width, c):
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((n, width + 3), dtype=np.float32)[:, 1:-2]
    W, S = rng.standard_normal((width, c)), rng.standard_normal((n, c))
    for A, B in ((Z, W), (Z.T, S), (S.T, Z)):
        out = np.empty((A.shape[0], B.shape[1]), dtype=np.float32)
        A, B = A.astype(np.float32, copy=False), B.astype(np.float32, copy=False)
        thin_product(A, B, out)
        assert_allclose(out, A.astype(float) @ B.astype(float), atol=1e-5 * A.shape[1])


def test_the_pieces_of_thin_products_are_small(monkeypatch):
    sizes, matmul = [], np.matmul

    def spy(A, B, out):
        sizes.append(A.shape[0] * A.shape[1] * B.shape[1])
        return matmul(A, B, out=out)

    monkeypatch.setattr(np, "matmul", spy)
    Z, W = np.ones((700, 1024), dtype=np.float32), np.ones((1024, 8), dtype=np.float32)
    thin_product(Z, W, np.empty((700, 8), dtype=np.float32))
    thin_product(W.T, Z.T, np.empty((8, 700), dtype=np.float32))
    assert sum(sizes) == 2 * 700 * 1024 * 8
    assert max(sizes) <= SMALL
