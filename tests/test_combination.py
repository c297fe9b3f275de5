"""Weighted sums of kernels."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from tests.contracts.cases import FAMILIES, rows

from manykernels.combination import Combination
from manykernels.families import Finite, Products
from manykernels.kernels import RBF, Linear


@pytest.fixture(params=["finite-list", "finite-explicit", "monomials", "products"])
def combination(request):
    """Some kernels with weight, some without."""
    family = FAMILIES[request.param].resolved()
    m = family.size()
    weights = np.random.default_rng(0).exponential(size=m) * (np.arange(m) % 3 > 0)
    return Combination(family, family.members(), weights, np.linspace(1, 2, m))


def test_gram_is_the_familys(combination):
    c, X, Z = combination, rows(8), rows(5, seed=1)
    assert_allclose(c.gram(X, Z), c.family.gram(X, Z, c.members, c.weights), atol=1e-10)
    assert_allclose(c.gram(X), c.gram(X, X), atol=1e-12)


def test_diag_is_the_diagonal_of_the_gram(combination):
    assert_allclose(combination.diag(rows(8)), np.diagonal(combination.gram(rows(8))), rtol=1e-11)


def test_kernels_without_weight_are_not_evaluated():
    def trap(A, B):
        raise AssertionError("evaluated")

    c = Combination(Finite([trap, Linear()]).resolve(4), [0, 1], np.array([0.0, 2.0]), np.ones(2))
    assert_allclose(c.gram(rows(5)), 2 * rows(5) @ rows(5).T)


def test_length_counts_all_members(combination):
    assert len(combination) == combination.family.size()


@pytest.mark.parametrize("name", ["finite-explicit", "monomials"])
def test_features_reproduce_the_gram(name):
    family = FAMILIES[name].resolved()
    weights = np.arange(family.size(), dtype=float)
    c = Combination(family, family.members(), weights, np.ones(family.size()))
    phi = c.features(rows(8))
    assert_allclose(phi @ phi.T, c.gram(rows(8)), rtol=1e-10, atol=1e-10)


def test_shares_come_from_the_predictors_norms():
    family = Finite([RBF(), Linear()]).resolve(2)
    c = Combination(family, [0, 1], np.array([1.0, 1.0]), np.ones(2), norms=np.array([1.0, 3.0]))
    assert_allclose(c.shares(), [0.25, 0.75])


def test_shares_come_from_theta_where_there_is_no_predictor():
    c = Combination(Finite([RBF(), Linear()]).resolve(2), [0, 1], np.array([1.0, 0.5]), np.array([1.0, 2.0]))
    assert_allclose(c.shares(), [1 / 3, 2 / 3])


def test_shares_of_nothing_are_zero():
    c = Combination(Finite([RBF(), Linear()]).resolve(2), [0, 1], np.zeros(2), np.ones(2))
    assert_allclose(c.shares(), 0.0)


def test_table_has_the_largest_share_first():
    family = Finite({"a": RBF(2.0), "b": Linear(columns=[1]), "c": RBF(3.0)}).resolve(2)
    c = Combination(family, [0, 1, 2], np.array([1.0, 5.0, 0.0]), np.ones(3), norms=np.array([3.0, 1.0, 0.0]))
    table = c.records()
    assert [row["kernel"] for row in table] == ["a", "b", "c"]
    assert table[0] == {"kernel": "a", "weight": 1.0, "share": 0.75, "sigma": 2.0}
    assert table[1] == {"kernel": "b", "weight": 5.0, "share": 0.25, "columns": [1]}


def test_shares_in_the_table_add_up_to_one(combination):
    assert sum(row["share"] for row in combination.records()) == pytest.approx(1.0)


def test_table_of_products_is_readable():
    family = Products(degree=2).resolve(2, ["age", "dose"])
    c = Combination(family, family.members(), np.arange(1.0, 6), np.ones(5))
    assert [row["kernel"] for row in c.records()] == ["dose²", "age·dose", "age²", "dose", "age"]
