"""Blocks of features are unbiased, regenerated to the bit, and independent of one another."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from manykernels.combination import Combination
from manykernels.families import Finite, Gaussians, HasRandomFeatures
from manykernels.families.base import can
from manykernels.kernels import RBF, Constant, Dirichlet, Linear, Polynomial
from manykernels.predictors import RandomFeature

X = np.random.default_rng(0).standard_normal((12, 4))


def estimate(feature_map, blocks):
    """Return the mean of Z Zᵀ over blocks, and its standard error."""
    products = [(lambda Z: Z @ Z.T)(feature_map.block(b).transform(X).astype(float)) for b in range(blocks)]
    return np.mean(products, axis=0), np.std(products, axis=0) / np.sqrt(blocks)


@pytest.mark.parametrize(
    "family, member",
    [
        (Gaussians(bounds=(0.1, 10.0)), 1.7),
        (Gaussians(bounds=(0.1, 10.0), ard=True), (1.0, 2.0, 0.7, 5.0)),
        (Finite([RBF(2.0, columns=[1, 3])]), 0),
    ],
    ids=["iso", "ard", "columns"],
)
def test_fourier_features_are_unbiased(family, member):
    family = family.resolve(4)
    (feature_map,) = family.random_features([member], 4, seed=5, size=16)
    mean, error = estimate(feature_map, 400)
    # 78 different pairs: six standard errors are exceeded with probability below 1e-6.
    assert (np.abs(mean - family.gram(X, X, [member], [1.0])) <= 6 * error + 1e-6).all()


def test_the_variance_of_fourier_features_is_the_one_of_theory():
    (feature_map,) = Finite([RBF(2.0)]).resolve(4).random_features([0], 4, seed=1, size=16)
    products = [
        feature_map.block(b).transform(X[:2]) @ feature_map.block(b).transform(X[1:2]).T for b in range(4000)
    ]
    K, twice = RBF(2.0)(X[:1], X[1:2]).item(), RBF(2.0)(2 * X[:1], 2 * X[1:2]).item()
    # cos(ω·δ) averaged over 8 frequencies: Var = ((1 + κ(2δ))/2 - κ(δ)²)/8; 4000 blocks give 2.2 % of error.
    assert_allclose(np.var(np.ravel([P[0] for P in products])), ((1 + twice) / 2 - K**2) / 8, rtol=0.1)


@pytest.mark.parametrize(
    "kernel",
    [
        Linear(),
        Dirichlet(1.3, columns=[2]),
        Constant(2.0),
        Polynomial(3, gamma=0.3, coef0=0.5, columns=[0, 2]),
        Polynomial(2, coef0=0.0),
    ],
)
def test_exact_features(kernel):
    family = Finite([kernel]).resolve(4)
    (feature_map,) = family.random_features([0], 4, seed=0, size=16)
    Z = feature_map.block(0).transform(X)
    assert feature_map.n_blocks == 1 and Z.shape[1] == feature_map.block(0).width
    assert_allclose(Z @ Z.T, family.gram(X, X, [0], [1.0]), rtol=1e-5, atol=1e-5)  # float32
    with pytest.raises(IndexError):
        feature_map.block(1)


def test_blocks_depend_on_seed_kernel_and_index_only():
    family = Finite([RBF(1.0), RBF(1.0)]).resolve(4)

    def block(seed, kernel, index):
        return family.random_features([0, 1], 4, seed, 8)[kernel].block(index).transform(X)

    assert_array_equal(block(3, 1, 7), block(3, 1, 7))
    seen = [block(*key) for key in [(3, 1, 7), (4, 1, 7), (3, 0, 7), (3, 1, 6)]]
    assert all(not np.allclose(a, b) for i, a in enumerate(seen) for b in seen[:i])


def test_a_family_has_random_features_if_all_its_kernels_have():
    assert can(Finite([RBF(1.0), Linear()]), HasRandomFeatures)
    assert not can(Finite([RBF(1.0), lambda X, Z: X @ Z.T]), HasRandomFeatures)


def test_the_predictor_adds_up_its_blocks():
    family = Finite([RBF(1.0), Linear(), RBF(3.0)]).resolve(4)
    rng = np.random.default_rng(2)
    W, b = rng.standard_normal((3 * 8 + 4, 2)), rng.standard_normal(2)
    one = np.ones(3)
    predictor = RandomFeature(
        Combination(family, [0, 1, 2], one, one),
        *(np.array([v]) for v in (4, 9, 8)),
        np.array([2, 1, 1]),
        W,
        b,
    )
    maps = family.random_features([0, 1, 2], 4, 9, 8)
    Z = np.hstack([maps[i].block(j).transform(X) for i, j in [(0, 0), (0, 1), (1, 0), (2, 0)]])
    assert_allclose(predictor.scores(X), Z @ W + b, atol=1e-5)  # float32
    assert_allclose(predictor.contributions(X).sum(axis=0) + b, predictor.scores(X), atol=1e-6)
    assert_allclose(predictor.shifted(1.0).scores(X), predictor.scores(X) + 1.0)


def test_polynomials_with_too_many_features_are_refused():
    with pytest.raises(ValueError, match=r"on 40 columns has 12,341 features, more than 5,000"):
        Finite([Polynomial(3)]).resolve(40).random_features([0], 40, 0, 16)
