"""Products drawn from some of the rows: the probability stated is that of the draw, and estimates are without bias."""

from collections import Counter

import numpy as np
import pytest
from scipy.stats import chisquare

from manykernels.families import Products
from manykernels.families.products.row_sampler import RowMixture, RowSquares
from manykernels.problem import Scale


def rows(n=60, r=4, c=2):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, r))
    X[:, -1] *= rng.random(n) < 0.1
    return X, rng.standard_normal((n, c))


def sampler(X, m=20, how="base", **options):
    family = Products(degree=3, **options).resolve(X.shape[1])
    return family.row_sampler(X, Scale.fit(family, X, how), m)


@pytest.mark.parametrize("n_first", [20, 10])
@pytest.mark.parametrize(
    ("how", "options"),
    [("base", {}), ("trace", {"count": "ordered"}), (None, {"degree_prior": [1.0, 0.5, 2.0]})],
)
def test_draws_have_the_probability_that_is_stated(n_first, how, options):
    X, A = rows()
    draws = sampler(X, how=how, **options)
    mixture = RowMixture(draws, X[:20], A[:20], n_first, 10)
    members = [(), *draws.family.members()]
    q, _ = mixture.judge(members)
    assert q.sum() == pytest.approx(1, abs=1e-12)
    size = 20_000
    count = Counter(mixture.draw(size, np.random.default_rng(1)))
    seen = np.array([count[z] for z in members])
    often = q * size >= 5
    grouped = np.append(seen[often], seen[~often].sum()), np.append(q[often], q[~often].sum()) * size
    assert chisquare(*(part[grouped[1] > 0] for part in grouped)).pvalue > 1e-3


def test_squares_of_single_rows_are_drawn_by_their_sum():
    X, A = rows(n=8)
    v, base, prior_sq = np.square(A).sum(axis=1), np.array([1.0, 2.0, 0.5, 0.0]), np.array([1.0, 0.5])
    squares = RowSquares(X, v, base, prior_sq)
    tuples = [(), *((j,) for j in range(3)), *((i, j) for i in range(3) for j in range(3))]
    weight = np.array(
        [
            v @ np.prod([X[:, j] ** 2 / base[j] for j in z] or [np.ones(8)], axis=0) / [1, *prior_sq][len(z)]
            for z in tuples
        ]
    )
    assert squares.log_mass == pytest.approx(np.log(weight.sum()), abs=1e-12)
    count = Counter(squares.draw(20_000, np.random.default_rng(2)))
    expected = Counter()
    for z, w in zip(tuples, weight / weight.sum(), strict=True):
        expected[tuple(sorted(z))] += w
    seen = np.array([count[z] for z in expected])
    assert chisquare(seen, np.array(list(expected.values())) * 20_000).pvalue > 1e-3


def test_every_pair_of_halves_together_has_no_bias():
    """All ways to choose four of six rows in order, with halves of two: the mean estimate is the form itself."""
    from itertools import permutations

    X, A = rows(n=6, r=3)
    X[:3, 2] = 1.0
    draws = sampler(X, m=4)
    members = draws.family.members()
    orders = list(permutations(range(6), 4))
    mean = np.zeros(len(members))
    for order in orders:
        part = list(order)
        mean += RowMixture(draws, X[part], A[part], 2, 1).judge(members)[1] / len(orders)
    np.testing.assert_allclose(mean, draws.forms(A, members), rtol=1e-10)


def test_forms_are_those_of_all_rows():
    X, A = rows()
    draws = sampler(X)
    members = draws.family.members()
    np.testing.assert_allclose(draws.forms(A, members), draws.family.forms(X, A, members), rtol=1e-10)


def test_rows_without_coefficients_draw_uniformly():
    X, A = rows()
    drawn = sampler(X).draw_halves(np.zeros_like(A), 50, np.random.default_rng(0))
    np.testing.assert_allclose(drawn.probability, 1 / 34)
    np.testing.assert_array_equal(drawn.forms, 0)


def test_no_base_kernels_but_columns():
    assert not hasattr(Products(degree=2, base=["rbf"]), "row_sampler")
