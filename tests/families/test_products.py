"""Products of base kernels: enumeration, counting, scales and the closed form of their sum."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from tests.contracts.cases import BASE, N_COLUMNS, rows, targets

from manykernels._util.arrays import row_blocks
from manykernels.families import Finite, Products
from manykernels.families.products.monomials import (
    monomials,
    multisets,
    n_multisets,
    orderings,
    padded,
    power_name,
)
from manykernels.families.values import Values
from manykernels.kernels import RBF, Linear, Polynomial
from manykernels.losses import get_loss
from manykernels.problem import Problem, Scale
from manykernels.solvers import LpNorm, SimpleMKL, Uniform
from manykernels.solvers.uniform import in_closed_form

sizes = st.integers(1, 5)


# -- enumeration ---------------------------------------------------------------------------------------


@given(r=sizes, degree=st.integers(1, 4))
def test_members_are_the_distinct_sorted_tuples(r, degree):
    every = {tuple(sorted(t)) for d in range(1, degree + 1) for t in itertools.product(range(r), repeat=d)}
    members = Products(degree=degree).resolve(r).members()
    assert set(members) == every and len(members) == len(every)


@given(r=sizes, degree=st.integers(1, 4))
def test_members_come_by_degree_then_in_dictionary_order(r, degree):
    members = list(multisets(r, degree))
    assert members == sorted(members, key=lambda z: (len(z), z))


@given(r=sizes, degree=st.integers(1, 4))
def test_orderings_of_all_members_are_all_tuples(r, degree):
    counts = Counter(
        tuple(sorted(t)) for d in range(1, degree + 1) for t in itertools.product(range(r), repeat=d)
    )
    assert {z: orderings(z) for z in multisets(r, degree)} == counts


@pytest.mark.parametrize("r, degree", [(1, 1), (3, 2), (100, 3), (1000, 4)])
def test_size_is_a_binomial_coefficient_less_one(r, degree):
    assert Products(degree=degree).resolve(r).size() == math.comb(r + degree, degree) - 1


def test_a_family_too_large_to_list_says_so():
    with pytest.raises(ValueError, match=r"has 1,373,700 members, too many to list \(limit 500,000\)"):
        Products(degree=3).resolve(200).members()


def test_padding_fills_short_members():
    assert padded([(0,), (1, 2, 2)], 9).tolist() == [[0, 9, 9], [1, 2, 2]]


@given(seed=st.integers(0, 1000), members=st.lists(st.lists(st.integers(0, 3), max_size=4), max_size=6))
def test_monomials_are_products_of_columns_in_any_order_of_members(seed, members):
    X = rows(6, seed)
    expected = np.array([np.prod(X[:, z], axis=1) if z else np.ones(6) for z in members]).T.reshape(6, -1)
    assert_allclose(monomials(X, members), expected, rtol=1e-13)


# -- labels --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "member, label",
    [((3,), "x3"), ((3, 7, 7), "x3·x7²"), ((0,) * 12, "x0¹²"), ((), "1"), ((7, 3, 7), "x3·x7²")],
)
def test_labels_read_as_products(member, label):
    assert power_name(member, [f"x{j}" for j in range(8)]) == label


def test_labels_use_the_names_of_the_columns():
    family = Products().resolve(2, ["age", "dose"])
    assert family.label((0, 1, 1)) == "age·dose²"
    assert family.parameters((0, 1)) == {"columns": ["age", "dose"]}


def test_labels_of_base_kernels_are_the_kernels_own():
    family = Products(base=[RBF(1.0), Linear(columns=["dose"])]).resolve(2, ["age", "dose"])
    assert family.label((0, 1)) == "rbf(σ=1)·linear[dose]"
    assert family.parameters((0, 1)) == {"factors": ["rbf(σ=1)", "linear[dose]"]}


# -- scale ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("base", [None, BASE], ids=["columns", "kernels"])
def test_base_scale_is_the_product_of_the_factors_mean_diagonals(base):
    X, s = rows(), np.random.default_rng(1).exponential(size=40)
    family = Products(degree=3, base=base).resolve(N_COLUMNS)
    kernels = [k.resolve(N_COLUMNS, None) for k in base or [Linear(columns=[j]) for j in range(N_COLUMNS)]]
    means = [np.average(k.diag(X), weights=s) for k in kernels]
    expected = [np.prod([means[j] for j in z]) for z in family.members()]
    assert_allclose(family.factor_scale(family.base_scale(X, s), family.members()), expected, rtol=1e-13)


def test_degree_prior_multiplies_the_squared_scale():
    family = Products(degree=2, degree_prior=[1.0, 3.0]).resolve(2)
    assert_allclose(family.penalty(family.members(), 2.0), [1, 1, 9, 9, 9])


@pytest.mark.parametrize("nu, factor", [(1.0, 1.0), (2.0, 2**-0.5), (np.inf, 0.5)])
def test_ordered_counting_lowers_the_scale_of_products_with_many_orders(nu, factor):
    family = Products(degree=2, count="ordered").resolve(2)
    assert_allclose(family.penalty([(0,), (0, 0), (0, 1)], nu), [1, 1, factor])


def _problem(family, X, how):
    Y, s = targets("squared", 1, X), np.ones(len(X))
    return Problem(X, Y, family, Scale.fit(family, X, how, s), get_loss("squared"), 1.0, s)


@pytest.mark.parametrize("p", [1.1, 4 / 3, 1.7, 2.0])
def test_ordered_counting_is_one_copy_of_the_kernel_per_ordering(p):
    X = rows(30)[:, :3]
    family = Products(degree=3, count="ordered").resolve(3)
    copies = [
        lambda A, B, z=z: np.prod([np.outer(A[:, j], B[:, j]) for j in z], axis=0)
        for d in (1, 2, 3)
        for z in itertools.product(range(3), repeat=d)
    ]
    solver = LpNorm(p=p, tol=1e-8)
    ours = solver.solve(_problem(family, X, "trace"))
    theirs = solver.solve(_problem(Finite(copies).resolve(3), X, "trace"))
    assert ours.objective == pytest.approx(theirs.objective, rel=1e-7)  # both certified to 1e-8


def test_ordered_and_distinct_counting_differ_for_p_above_one():
    X = rows(30)
    values = [
        LpNorm(tol=1e-8).solve(_problem(Products(2, count=c).resolve(N_COLUMNS), X, "trace")).objective
        for c in ("distinct", "ordered")
    ]
    assert values[1] < values[0] * (1 - 1e-4)  # a copy is free weight


def test_counting_does_not_matter_when_p_is_one():
    X = rows(30)
    values = [
        SimpleMKL(tol=1e-8).solve(_problem(Products(2, count=c).resolve(N_COLUMNS), X, "trace")).objective
        for c in ("distinct", "ordered")
    ]
    assert values[0] == pytest.approx(values[1], rel=1e-7)


# -- the sum of all members ----------------------------------------------------------------------------

SUMS = {
    "base": st.sampled_from([None, BASE]),
    "count": st.sampled_from(["distinct", "ordered"]),
    "degree": st.integers(1, 4),
    "seed": st.integers(0, 100),
    "prior": st.booleans(),
}


def _both(base, count, degree, seed, prior, zero=False):
    """Return the family, its rows, scales, and weights of the plain sum of its members."""
    X = rows(9, seed)
    if zero:
        X[:, 1] = 0.0
    family = Products(degree, base, count, [0.5 + d for d in range(degree)] if prior else None)
    family = family.resolve(N_COLUMNS)
    scale = family.base_scale(X, np.ones(9))
    members = family.members()
    rho_sq = family.factor_scale(scale, members) * family.penalty(members, np.inf)
    weights = np.divide(1.0, rho_sq, out=np.zeros(len(members)), where=rho_sq > 0)
    return family, X, scale, members, weights


@settings(max_examples=40)
@given(**SUMS)
def test_closed_form_equals_the_enumerated_sum(**options):
    family, X, scale, members, w = _both(**options)
    total = family.total(scale)
    assert_allclose(total(X, X[:4]), family.gram(X, X[:4], members, w), rtol=1e-10, atol=1e-10)
    assert_allclose(total.diag(X), family.diag(X, members, w), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("count", ["distinct", "ordered"])
def test_closed_form_leaves_out_columns_of_zeros(count):
    family, X, scale, members, w = _both(None, count, 3, 0, False, zero=True)
    assert scale[1] == 0 and np.count_nonzero(w) < len(w)
    assert_allclose(family.total(scale)(X), family.gram(X, X, members, w), rtol=1e-10, atol=1e-10)


def test_ordered_sum_with_binomial_priors_is_the_polynomial_kernel():
    X, D = rows(9), 3
    prior = [math.comb(D, d) ** -0.5 for d in range(1, D + 1)]
    family = Products(D, count="ordered", degree_prior=prior).resolve(N_COLUMNS)
    expected = Polynomial(D)(X) - 1.0  # the constant is the intercept's
    assert_allclose(family.total(np.ones(N_COLUMNS))(X), expected, rtol=1e-12, atol=1e-12)


def test_closed_form_says_how_many_products_it_adds_up():
    family = Products(3).resolve(100)
    total = family.total(np.ones(100))
    assert total.label() == "all 176,850 products of degree ≤ 3"
    assert total.parameters()["members"] == n_multisets(100, 3)


class Closed(Uniform):
    """Uniform by the closed form, however few the kernels."""

    def learn(self, problem):
        return in_closed_form(problem)


@pytest.mark.parametrize("count", ["distinct", "ordered"])
@pytest.mark.parametrize("loss", ["squared", "hinge"])
def test_uniform_has_one_optimum_with_and_without_the_closed_form(count, loss):
    X = rows(30)
    family = Products(3, count=count).resolve(N_COLUMNS)
    Y, s = targets(loss, 1, X), np.ones(30)
    scale = Scale.fit(family, X, "base", s)
    listed = Uniform().solve(Problem(X, Y, family, scale, get_loss(loss), 1.0, s))
    one = Finite([family.total(scale.base)]).resolve(N_COLUMNS)
    closed = Uniform().solve(Problem(X, Y, one, Scale.fit(one, X, None, s), get_loss(loss), 1.0, s))
    assert len(listed.combination) == family.size() and len(closed.combination) == 1
    assert closed.objective == pytest.approx(listed.objective, rel=1e-8)  # machines go to 1e-10
    new = rows(5, seed=8)
    assert_allclose(closed.predictor.scores(new), listed.predictor.scores(new), rtol=1e-5, atol=1e-5)


def test_uniform_adds_up_a_family_too_large_to_list_in_closed_form():
    X = np.random.default_rng(0).normal(size=(30, 100))
    family, s = Products(3).resolve(100), np.ones(30)
    problem = Problem(X, X[:, :1], family, Scale.fit(family, X, "base", s), get_loss("squared"), 1.0, s)
    result = Uniform().solve(problem)
    assert [result.combination.family.label(z) for z in result.combination.members] == [
        "all 176,850 products of degree ≤ 3"
    ]
    assert result.converged


# -- what is refused -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options, message",
    [
        ({"degree": 0}, r"degree of Products is 0; use a whole number from 1 to 1,000\."),
        ({"degree": 1.5}, "degree of Products is 1.5"),
        ({"degree": True}, "degree of Products is True"),
        ({"count": "both"}, r"count of Products is 'both'; use 'distinct' or 'ordered'\."),
        ({"base": []}, "base of Products is empty"),
        ({"base": [3]}, "base holds 3, which is no kernel"),
        ({"base": RBF()}, "base of Products"),
        ({"degree_prior": [1.0]}, "degree_prior of Products must be 2 positive numbers"),
        ({"degree_prior": [1.0, 0.0]}, "degree_prior of Products must be 2 positive numbers"),
        ({"degree_prior": 2.0}, "degree_prior of Products"),
        ({"degree_prior": ["a", "b"]}, "degree_prior of Products"),
    ],
)
def test_wrong_parameters_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Products(**options).resolve(3)


def test_members_in_several_blocks_have_the_same_values():
    X = np.random.default_rng(0).normal(size=(1500, 20))
    family = Products(3).resolve(20)
    members, w, s = family.members(), np.ones(family.size()), np.ones(1500)
    assert len(row_blocks(len(members), 3000)) > 1 and len(row_blocks(1500, len(members) + 20)) > 1
    parts = [members[:600], members[600:1200], members[1200:]]  # each of them fits into a block
    assert all(len(row_blocks(len(part), 3000)) == 1 for part in parts)
    grams = [family.gram(X, X, part, np.ones(len(part))) for part in parts]
    assert_allclose(family.gram(X, X, members, w), sum(grams), rtol=1e-11, atol=1e-9)
    diagonals = [family.diag(X, part, np.ones(len(part))) for part in parts]
    assert_allclose(family.diag(X, members, w), sum(diagonals), rtol=1e-11)
    means = [family.mean_diag(X, part, s) for part in parts]
    assert_allclose(family.mean_diag(X, members, s), np.concatenate(means), rtol=1e-11)


def test_values_of_all_monomials_at_once_are_those_of_each():
    X = np.random.default_rng(0).normal(size=(12, 5))
    family = Products(degree=3).resolve(5)
    at_once, each = family.values(X, family.members()), Values(family, X, family.members())
    np.testing.assert_array_equal(at_once.diag(), each.diag())
    rows = np.array([3, 1, 7])
    for columns in (slice(None), np.array([0, 5])):
        stacks = (values.stack(rows, columns, np.float64) for values in (at_once, each))
        np.testing.assert_array_equal(*stacks)
