"""A direction answers the same, however it is stored."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from manykernels.families import Finite, Precomputed, Products
from manykernels.families.base import Direction
from manykernels.kernels import RBF, Laplacian, Linear

N = 30
V = np.random.default_rng(0).normal(size=(N, 4))
SIGNS = np.array([1.0, -1.0, 0.0, 0.5])
M = (V * SIGNS) @ V.T
BOTH = {"low rank": Direction(V=V, signs=SIGNS), "dense": Direction(dense=M)}


@pytest.fixture(params=BOTH)
def direction(request):
    return BOTH[request.param]


def columns(k=5):
    return np.random.default_rng(1).normal(size=(N, k))


def test_products_and_forms_are_those_of_the_matrix(direction):
    B = columns()
    assert_allclose(direction.matrix(), M, atol=1e-13)
    assert_allclose(direction.total(), M.sum(), rtol=1e-10)
    assert_allclose(direction.times(B), M @ B, atol=1e-12)
    assert_allclose(direction.forms(B), np.diagonal(B.T @ M @ B), atol=1e-11)
    blocks = [(rows, B[rows].T) for rows in (slice(0, 7), slice(7, N))]
    assert_allclose(direction.forms_of_rows(blocks), np.diagonal(B.T @ M @ B), atol=1e-11)


def test_tiles_hold_every_pair_once_and_its_mirror_image(direction):
    K = np.corrcoef(columns(40))
    total = sum(float(np.vdot(direction.tile(a, b), K[a:b, a:])) for a, b in ((0, 8), (8, 20), (20, N)))
    assert total == pytest.approx(float(np.vdot(M, K)))


def test_a_tile_may_be_written_to(direction):
    direction.tile(0, 8)[:] = np.nan
    assert np.isfinite(direction.matrix()).all()


@pytest.mark.parametrize("kind", ["features", "kernels", "products", "stack"])
def test_inner_products_with_the_members_of_a_bank(direction, kind):
    X, kernels = columns(), [RBF(1.0), Laplacian(2.0), Linear()]
    stack = np.stack([k(X) for k in kernels], axis=2)
    family, rows = {
        "features": (Products(degree=2).resolve(5), X),
        "kernels": (Finite(kernels).resolve(5), X),
        "products": (Products(degree=2, base=kernels).resolve(5), X),
        "stack": (Precomputed().resolve(3), stack),
    }[kind]
    members = family.members()
    expected = [np.vdot(family.gram(rows, rows, [z], [1.0]), M) for z in members]
    assert_allclose(direction.along(family.bank(rows, members)), expected, rtol=1e-9, atol=1e-9)


def test_the_leading_parts_are_all_of_a_matrix_of_low_rank(direction):
    factors, signs, whole = direction.leading(8)
    assert whole and (signs != 0).all()
    assert_allclose((factors * signs) @ factors.T, M, atol=1e-12)


def test_the_leading_parts_of_a_full_matrix_are_the_largest():
    B = np.diag(np.arange(1.0, 21.0))
    factors, signs, whole = Direction(dense=B).leading(3)
    assert not whole
    assert_allclose((factors * signs) @ factors.T, np.diag([0.0] * 17 + [18, 19, 20]), atol=1e-12)


def test_positive_terms_are_known_of_factors_only():
    positive = BOTH["low rank"].positive()
    assert_allclose(positive @ positive.T, np.outer(V[:, 0], V[:, 0]) + 0.5 * np.outer(V[:, 3], V[:, 3]))
    assert BOTH["dense"].positive() is None


def test_factors_without_a_sign_count_as_zero(direction):
    assert not direction.is_zero()
    assert Direction(dense=np.zeros((N, N))).is_zero()
    assert Direction(V=V, signs=np.zeros(4)).is_zero()
    assert Direction(V=np.eye(N)[:, :2] * [0.0, 1.0], signs=np.array([1.0, 0.0])).is_zero()


def test_rounding_is_evened_out():
    nearly = Direction(dense=M + 1e-9 * columns(N)).symmetrised().matrix()
    assert (nearly == nearly.T).all()
    assert_allclose(nearly, M, atol=1e-8)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (Direction(), "direction is empty"),
        (Direction.of_gradient(np.zeros((3, 1))), r"direction has shape \(3, 1\)"),
        (Direction(dense=np.zeros((N, 2))), rf"direction has shape \({N}, 2\)"),
        (Direction.of_gradient(np.full((N, 1), np.inf)), "direction holds values that are not finite"),
    ],
)
def test_a_direction_that_does_not_fit_is_refused(bad, message):
    with pytest.raises(ValueError, match=message):
        bad.check(N)
