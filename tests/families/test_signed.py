"""Draws along a signed direction: their distribution against enumeration, and the bound that they rest on."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from tests.families.test_sampling import CASES, assert_follows, data, prepared

from manykernels.families import Products
from manykernels.families.products.monomials import multisets, orderings
from manykernels.families.products.signed import SignedSampler
from manykernels.kernels import Linear

NAMES = [name for name, (_, how, _) in CASES.items() if not isinstance(how, np.ndarray)]


def direction(n=30, seed=1):
    rng = np.random.default_rng(seed)
    M = rng.normal(size=(n, n))
    return M + M.T


def matrices(family, X):
    """Return the constant and all members, and their Gram matrices worked out from the definition."""
    base = [Linear(columns=[j]) for j in range(X.shape[1])] if family.base is None else family.base
    K = [k(X, X) for k in base]
    members = [(), *multisets(len(K), family.degree)]
    return members, [np.prod([np.ones_like(K[0]), *(K[j] for j in z)], axis=0) for z in members]


def distribution(family, X, N, scale):
    """Return members and q by enumeration: <K_z, |N|> times orderings over the prior and the base scales."""
    members, K = matrices(family, X)
    values, V = np.linalg.eigh(N)
    bound = np.array([np.vdot(M, (V * np.abs(values)) @ V.T) for M in K])
    prior = [1.0, *(family.degree_prior or [1.0] * family.degree)]
    ways = np.array([orderings(z) / prior[len(z)] ** 2 for z in members])
    if scale is not None:
        ways = ways / family.factor_scale(family.base_scale(scale.X, scale.sample_weight), members)
    return members, ways * bound / np.sum(ways * bound), bound


@pytest.mark.parametrize("name", NAMES)
def test_probabilities_and_forms_are_those_of_enumeration(name):
    family, X, _, scale = prepared(name)
    N = direction()
    members, q, bound = distribution(family, X, N, scale)
    forms = np.array([np.vdot(K, N) for K in matrices(family, X)[1]])
    assert (np.abs(forms) <= bound * (1 + 1e-9)).all()  # what the draws rest on
    assert np.any(forms < 0) and np.any(forms > 0)
    place = {z: i for i, z in enumerate(members)}
    drawn = SignedSampler(family, X, scale).draw(N, 300, np.random.default_rng(0))
    at = [place[z] for z in drawn.members]
    assert_allclose(drawn.probability, q[at], rtol=1e-8)
    assert_allclose(drawn.forms, forms[at], rtol=1e-7, atol=1e-9 * np.abs(forms).max())


@pytest.mark.parametrize("name", ["degree 3", "base", "ordered, trace", "kernels, trace, prior"])
def test_draws_follow_the_probabilities_they_state(name):
    family, X, _, scale = prepared(name)
    N = direction(seed=2)
    members, q, _ = distribution(family, X, N, scale)
    drawn = SignedSampler(family, X, scale).draw(N, 20_000, np.random.default_rng(3))
    listed = [z for z, k in zip(drawn.members, drawn.counts.astype(int)) for _ in range(k)]
    listed += [()] * (20_000 - len(listed))  # the constant is drawn, and left out
    assert_follows(listed, members, q)


def test_a_direction_without_mass_has_no_draws():
    X, _ = data()
    sampler = SignedSampler(Products(degree=2).resolve(4), X, None)
    assert sampler.draw(np.zeros((30, 30)), 5, np.random.default_rng(0)) is None
