"""Drawing products: the distribution against enumeration, by every route, and what a draw costs."""

import itertools
import subprocess
import sys
import time
import tracemalloc
from collections import Counter

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import chisquare

from manykernels.families import Finite, Precomputed, Products
from manykernels.families.base import Samplable, can
from manykernels.families.draws import pick
from manykernels.families.products.monomial_sampler import DrawSizes, MonomialSampler, PairTable
from manykernels.families.products.monomials import multisets, orderings
from manykernels.families.products.sampling import GramSampler
from manykernels.kernels import RBF, Linear
from manykernels.problem import Scale

RBFS = [RBF(1.0, columns=[0, 1]), RBF(2.0, columns=[2]), Linear(columns=[3]), RBF(0.5, columns=[0, 3])]
CASES = {
    "degree 1": (Products(degree=1), None, 1),
    "degree 2, two outputs": (Products(degree=2), None, 2),
    "degree 3": (Products(degree=3), None, 1),
    "degree 5": (Products(degree=5), "base", 1),
    "base": (Products(degree=3), "base", 3),
    "trace": (Products(degree=3), "trace", 1),
    "scales of the user's": (Products(degree=2), np.linspace(0.5, 2.0, 14), 2),
    "ordered": (Products(degree=3, count="ordered"), "base", 2),
    "ordered, trace": (Products(degree=2, count="ordered"), "trace", 1),
    "degree prior": (Products(degree=3, degree_prior=[2.0, 0.5, 3.0]), "base", 1),
    "kernels": (Products(degree=3, base=RBFS), None, 1),
    "kernels, base": (Products(degree=2, base=RBFS), "base", 3),
    "kernels, trace, prior": (Products(degree=3, base=RBFS, degree_prior=[1.0, 2.0, 0.3]), "trace", 2),
}


def data(n=30, r=4, c=1, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, r)) * rng.uniform(0.5, 2.0, r), rng.standard_normal((n, c))


def prepared(name):
    family, how, c = CASES[name]
    X, A = data(c=c)
    family = family.resolve(X.shape[1])
    weight = np.random.default_rng(5).uniform(0.5, 1.5, len(X))
    return family, X, A, None if how is None else Scale.fit(family, X, how, weight)


def gradients(family, X, A):
    """tr(Aᵀ K_z A) of the constant and of all members, by their Gram matrices."""
    base = [Linear(columns=[j]) for j in range(X.shape[1])] if family.base is None else family.base
    K = [k(X, X) for k in base]
    members = [(), *multisets(len(K), family.degree)]
    M = A @ A.T
    return members, np.array([(M * np.prod([K[j] for j in z], axis=0)).sum() for z in members])


def proposal(family, X, A, scale):
    """The distribution that the draws are said to have."""
    members, g = gradients(family, X, A)
    q = g * [orderings(z) for z in members]
    prior = [1.0, *(family.degree_prior or [1.0] * family.degree)]
    q /= np.square([prior[len(z)] for z in members])
    if scale is not None:
        q /= family.factor_scale(family.base_scale(scale.X, scale.sample_weight), members)
    return members, q / q.sum()


def assert_follows(drawn, members, probability):
    """Chi-square, members expected less than 5 times pooled."""
    count = Counter(drawn)
    assert set(count) <= set(members)
    seen = np.array([count[z] for z in members], float)
    expected = probability * len(drawn)
    rare = expected < 5
    seen, expected = (
        np.append(seen[~rare], seen[rare].sum()),
        np.append(expected[~rare], expected[rare].sum()),
    )
    if expected[-1] < 1e-9:
        assert seen[-1] == 0
        seen, expected = seen[:-1], expected[:-1]
    if len(seen) > 1:
        assert chisquare(seen, expected * seen.sum() / expected.sum()).pvalue > 1e-4


# -- distribution ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_draws_follow_the_enumerated_distribution(name):
    family, X, A, scale = prepared(name)
    members, q = proposal(family, X, A, scale)
    drawn, probability = family.draw(X, A, 20_000, np.random.default_rng(1), scale)
    assert_follows(drawn, members, q)
    exact = dict(zip(members, q))
    assert_allclose(probability, [exact[z] for z in drawn], rtol=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_single_draws_follow_the_same_distribution(name):
    # One draw a call takes other routes than many at once.
    family, X, A, scale = prepared(name)
    members, q = proposal(family, X, A, scale)
    sampler, rng = family.sampler(X, scale), np.random.default_rng(2)
    assert_follows([sampler.draw(A, 1, rng)[0][0] for _ in range(400)], members, q)


@pytest.mark.parametrize("route", ["expand", "pairs"])
@pytest.mark.parametrize("c", [1, 3])
def test_either_route_draws_from_the_same_distribution(route, c):
    X, A = data(c=c)
    family = Products(degree=4).resolve(4)
    members, q = proposal(family, X, A, None)
    drawn, probability = MonomialSampler(X, None, np.ones(4), route).draw(A, 20_000, np.random.default_rng(3))
    assert_follows(drawn, members, q)
    assert_allclose(probability, [dict(zip(members, q))[z] for z in drawn], rtol=1e-9)


def first_coordinate(table):
    """Σ over the rest of each product of a table, by its first factor in a random order."""
    out = np.zeros(table.r)
    for z, weight in zip(table.members(np.arange(len(table.weights))), table.weights):
        for j in z:
            out[j] += weight / table.k
    return out


@pytest.mark.parametrize("c", [1, 2])
@pytest.mark.parametrize("prefix", [(), (2,), (0, 0), (1, 2, 4)])
@pytest.mark.parametrize("k", [1, 2, 3, 4, 5])
def test_conditionals_by_expansion_by_pairs_and_by_gram_matrices_are_equal(c, prefix, k):
    X, A = data(n=23, r=5, c=c)
    scale = np.mean(X**2, axis=0)
    prior = np.ones(6)
    columns = MonomialSampler(X, scale, prior)
    pairs, unit = columns.conditional(A, [prefix], k)
    table, table_unit = columns.expand(A, prefix, k)
    expanded = first_coordinate(table)
    grams = GramSampler(X, [Linear(columns=[j]) for j in range(5)], scale, prior)
    gram, gram_unit = grams.conditional(A, [prefix], k)

    V = A * np.prod((X / np.sqrt(scale))[:, list(prefix)], axis=1)[:, None]
    Z = X / np.sqrt(scale)
    brute = np.zeros(5)
    for z in itertools.product(range(5), repeat=k):
        brute[z[0]] += np.square(np.prod(Z[:, list(z)], axis=1) @ V).sum()
    size = len(prefix) + k
    assert_allclose(pairs[0] * np.exp(unit[0] + size * columns.log_unit), brute, rtol=1e-10)
    assert_allclose(expanded * np.exp(table_unit + size * columns.log_unit), brute, rtol=1e-10)
    assert_allclose(gram[0] * np.exp(gram_unit[0] + size * grams.log_unit), brute, rtol=1e-10)


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5])
def test_a_table_holds_every_product_and_the_gradient_of_each(k):
    X, A = data(r=3, c=2)
    columns = MonomialSampler(X, None, np.ones(k))
    table, unit = columns.expand(A, (), k)
    total = Counter()
    for z, weight in zip(table.members(np.arange(len(table.weights))), table.weights):
        total[z] += weight * np.exp(unit + k * columns.log_unit)
    assert [z for z in multisets(3, k) if len(z) == k] == sorted(total)
    assert (len(table.heads), len(table.weights)) == PairTable.n_places(3, k)
    g = {z: np.square(np.prod(X[:, list(z)], axis=1) @ A).sum() for z in total}
    assert_allclose(list(total.values()), [g[z] * orderings(z) for z in total], rtol=1e-10)


@pytest.mark.parametrize("route", ["auto", "expand", "pairs"])
@pytest.mark.parametrize("c", [1, 2])
def test_blocks_of_rows_do_not_change_anything(route, c):
    X, A = data(n=50, c=c)
    draws = [
        MonomialSampler(X, None, np.ones(3), route, sizes).draw(A, 500, np.random.default_rng(0))
        for sizes in (DrawSizes(), DrawSizes(kept_rows=0, kept_pairs=0, block=512, tile_rows=7))
    ]
    assert draws[0][0] == draws[1][0]
    assert_allclose(draws[0][1], draws[1][1], rtol=1e-10)


def test_kernels_evaluated_anew_for_every_level_give_the_same_draws():
    X, A = data(n=300, c=2)
    kept = Products(degree=3, base=RBFS).draw(X, A, 300, np.random.default_rng(0))
    anew = GramSampler(X, RBFS, None, np.ones(3), kept_bytes=0).draw(A, 300, np.random.default_rng(0))
    assert kept[0] == anew[0]
    assert_array_equal(kept[1], anew[1])


@pytest.mark.parametrize("base", [None, RBFS])
def test_probabilities_of_all_members_sum_to_one(base):
    X, A = data()
    family = Products(degree=2, base=base).resolve(4)
    members, probability = family.draw(X, A, 100_000, np.random.default_rng(0))
    seen = dict(zip(members, probability))
    assert len(seen) == family.size() + 1
    assert_allclose(sum(seen.values()), 1, rtol=1e-10)


@pytest.mark.parametrize("name", CASES)
def test_the_importance_weighted_sum_of_the_gradient_is_unbiased(name):
    family, X, A, scale = prepared(name)
    members, g = gradients(family, X, A)
    g[0] = 0  # the constant is no member
    rho_sq = np.ones(len(members))
    if scale is not None:
        rho_sq[1:] = scale.rho_sq(members[1:], 1.0)
    value = dict(zip(members, g / rho_sq))
    drawn, q = family.draw(X, A, 20_000, np.random.default_rng(4), scale)
    ratio = np.array([value[z] for z in drawn]) / q
    assert (
        abs(ratio.mean() - sum(value.values())) <= 4 * ratio.std() / len(drawn) ** 0.5 + 1e-9 * ratio.mean()
    )


@pytest.mark.parametrize("base", [None, RBFS])
def test_with_ordered_counting_and_base_scale_draws_are_proportional_to_the_gradient(base):
    # Over ordered tuples the scaled gradient is the same for all orderings: weights are constant.
    X, A = data(c=2)
    family = Products(degree=3, base=base, count="ordered", degree_prior=[1.0, 2.0, 0.7]).resolve(4)
    scale = Scale.fit(family, X, "base")
    members, g = gradients(family, X, A)
    g = g / scale.family.factor_scale(scale.base, members) * [orderings(z) for z in members]
    g = dict(zip(members, g / np.array([1.0, 1.0, 4.0, 0.49])[[len(z) for z in members]]))
    drawn, q = family.draw(X, A, 500, np.random.default_rng(0), scale)
    assert_allclose(np.array([g[z] for z in drawn]) / q, sum(g.values()), rtol=1e-9)


def test_weights_stay_moderate_under_the_trace_scale():
    X, A = data(n=200, r=6)
    family = Products(degree=3).resolve(6)
    scale = Scale.fit(family, X, "trace")
    drawn, q = family.draw(X, A, 5000, np.random.default_rng(0), scale)
    g = np.square(family.features(X, drawn).T @ A).sum(axis=1) / scale.rho_sq(drawn, 1.0)
    weight = g / q
    assert weight.mean() ** 2 / np.square(weight).mean() > 0.4  # share of effective draws


@pytest.mark.parametrize("base", [None, RBFS])
def test_draws_depend_on_the_generator_alone(base):
    X, A = data()
    family = Products(degree=3, base=base)
    first = family.draw(X, A, 200, np.random.default_rng(7))
    again = family.draw(X, A, 200, np.random.default_rng(7))
    assert first[0] == again[0]
    assert_array_equal(first[1], again[1])
    assert family.draw(X, A, 200, np.random.default_rng(8))[0] != first[0]


def test_the_order_of_draws_tells_nothing():
    X, A = data()
    drawn, _ = Products(degree=3).draw(X, A, 20_000, np.random.default_rng(0))
    lengths = np.array([len(z) for z in drawn], float)
    assert abs(np.corrcoef(lengths[:-1], lengths[1:])[0, 1]) < 0.03


def test_a_sampler_serves_one_direction_after_another():
    X, A = data(n=60, r=5)
    B = np.random.default_rng(9).standard_normal((60, 2))
    sampler = Products(degree=4).sampler(X)
    for direction in (A, B, A):
        fresh = Products(degree=4).draw(X, direction, 30, np.random.default_rng(0))
        drawn = sampler.draw(direction, 30, np.random.default_rng(0))
        assert drawn[0] == fresh[0]
        assert_allclose(drawn[1], fresh[1], rtol=1e-12)


# -- edges -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n, r, degree", [(1, 1, 1), (1, 3, 3), (6, 1, 4), (9, 2, 1)])
@pytest.mark.parametrize("base", [False, True])
def test_one_row_one_column_one_degree(n, r, degree, base):
    X, A = data(n=n, r=r)
    kernels = [RBF(1.0, columns=[j]) for j in range(r)] if base else None
    family = Products(degree=degree, base=kernels).resolve(r)
    members, q = proposal(family, X, A, None)
    drawn, probability = family.draw(X, A, 3000, np.random.default_rng(0))
    assert_follows(drawn, members, q)
    assert_allclose(probability, [dict(zip(members, q))[z] for z in drawn], rtol=1e-9)


@pytest.mark.parametrize("how", [None, "base", "trace"])
@pytest.mark.parametrize("size", [1, 500])
def test_a_column_of_zeros_is_never_drawn(how, size):
    X, A = data()
    X[:, 1] = 0
    family = Products(degree=3).resolve(4)
    scale = Scale.fit(family, X, how)
    drawn, probability = family.draw(X, A, size, np.random.default_rng(0), scale)
    assert all(1 not in z for z in drawn) and (probability > 0).all()
    kept, q = Products(degree=3).draw(
        X[:, [0, 2, 3]], A, size, np.random.default_rng(0), Scale.fit(family.resolve(3), X[:, [0, 2, 3]], how)
    )
    if how is not None:
        assert drawn == [tuple([0, 2, 3][j] for j in z) for z in kept]
        assert_allclose(probability, q, rtol=1e-12)


@pytest.mark.parametrize("base", [None, RBFS])
def test_without_mass_draws_are_uniform(base):
    X, A = data()
    family = Products(degree=2, base=base)
    drawn, probability = family.draw(X, np.zeros_like(A), 5000, np.random.default_rng(0))
    members = list(multisets(4, 2))
    assert_follows(drawn, members, np.full(14, 1 / 14))
    assert_allclose(probability, 1 / 14)


@pytest.mark.parametrize("how", [None, "base"])
def test_rows_of_zeros_leave_the_constant_alone(how):
    X, A = np.zeros((5, 3)), np.ones((5, 1))
    family = Products(degree=2).resolve(3)
    drawn, probability = family.draw(X, A, 10, np.random.default_rng(0), Scale.fit(family, X, how))
    assert drawn == [()] * 10
    assert_allclose(probability, 1)


@pytest.mark.parametrize("factor", [1e-120, 1e120])
def test_large_and_small_values_neither_overflow_nor_vanish(factor):
    X, A = data(n=40)
    family = Products(degree=6).resolve(4)
    scaled = X * [factor, 1, 1 / factor, 1]
    base = np.mean(X**2, axis=0)
    ones = MonomialSampler(X, base, np.ones(6)).draw(A, 50, np.random.default_rng(0))
    both = MonomialSampler(scaled, base * np.square([factor, 1, 1 / factor, 1]), np.ones(6)).draw(
        A * factor, 50, np.random.default_rng(0)
    )
    assert ones[0] == both[0]
    assert_allclose(ones[1], both[1], rtol=1e-10)
    drawn, probability = family.draw(X * factor, A * factor, 50, np.random.default_rng(0))
    assert np.isfinite(probability).all()
    assert {len(z) for z in drawn} == ({6} if factor > 1 else {0})


def test_no_draws_and_one_dimensional_directions():
    X, A = data()
    drawn, probability = Products(degree=2).draw(X, A[:, 0], 0, np.random.default_rng(0))
    assert drawn == [] and probability.shape == (0,)
    flat = Products(degree=2).draw(X, A[:, 0], 9, np.random.default_rng(0))
    assert flat[0] == Products(degree=2).draw(X, A, 9, np.random.default_rng(0))[0]


def test_directions_that_do_not_fit_are_refused():
    X, A = data()
    with pytest.raises(ValueError, match=r"A has shape \(29, 1\); it must have one row for each of the 30"):
        Products().draw(X, A[1:], 1, np.random.default_rng(0))
    A[3] = np.nan
    with pytest.raises(ValueError, match="A holds values that are not finite"):
        Products().draw(X, A, 1, np.random.default_rng(0))


class OnlyRounding(MonomialSampler):
    """Masses without a product that has any."""

    def masses(self, A, size):
        return np.array([0.0, 1.0, 0.0]), {}

    def conditional(self, A, prefixes, k):
        return np.zeros((len(prefixes), self.r)), np.zeros(len(prefixes))


class RoundedProducts(Products):
    def sampler(self, X, scale=None):
        return OnlyRounding(X, scale, np.ones(2))


def test_masses_that_are_only_rounding_end_in_uniform_draws():
    X, A = data()
    drawn, probability = RoundedProducts(degree=2).draw(X, A, 20, np.random.default_rng(0))
    assert len(drawn) == 20
    assert_allclose(probability, 1 / 14)


def test_a_number_of_weight_zero_is_never_picked():
    weights = np.array([0.0, 1.0, 0.0, 2.0, 0.0])
    picked = pick(np.random.default_rng(0), weights, 10_000)
    assert set(picked) == {1, 3}
    assert len(pick(np.random.default_rng(0), np.zeros(3), 5)) == 0


# -- uniform draws -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("r, degree", [(1, 1), (1, 3), (4, 1), (4, 3), (2, 5)])
@pytest.mark.parametrize("count", ["distinct", "ordered"])
def test_uniform_draws_are_uniform(r, degree, count):
    family = Products(degree=degree, count=count).resolve(r)
    members = family.members()
    share = np.array([orderings(z) if count == "ordered" else 1 for z in members], dtype=float)
    share /= share.sum()
    drawn, probability = family.draw_uniform(20_000, np.random.default_rng(0))
    assert_follows(drawn, members, share)
    assert_allclose(probability, [dict(zip(members, share))[z] for z in drawn])


def test_uniform_draws_need_no_list():
    family = Products(degree=20).resolve(10_000)
    drawn, probability = family.draw_uniform(100, np.random.default_rng(0))
    assert all(list(z) == sorted(z) and 1 <= len(z) <= 20 for z in drawn)
    assert_allclose(probability * float(family.size()), 1)


def test_uniform_draws_of_an_unresolved_family_are_refused():
    with pytest.raises(ValueError, match="does not know its columns yet"):
        Products(degree=2).draw_uniform(3, np.random.default_rng(0))


# -- lists ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [None, "trace"])
@pytest.mark.parametrize("kind", ["kernels", "linear", "stack"])
def test_lists_are_drawn_proportionally_to_the_gradient(kind, how):
    X, A = data(c=2)
    kernels = [Linear(columns=[j]) for j in range(4)] if kind == "linear" else RBFS
    K = np.stack([k(X, X) for k in kernels], axis=2)
    family, X = (Precomputed().resolve(4), K) if kind == "stack" else (Finite(kernels).resolve(4), X)
    scale = Scale.fit(family, X, how)
    g = np.einsum("sc,sti,tc->i", A, K, A) / scale.rho_sq(range(4), 1.0)
    drawn, probability = family.draw(X, A, 5000, np.random.default_rng(0), scale)
    assert_follows(drawn, range(4), g / g.sum())
    assert_allclose(probability, (g / g.sum())[drawn])


@pytest.mark.parametrize("family", [Finite(RBFS), Precomputed()])
def test_lists_fall_back_to_uniform_draws(family):
    X, A = data()
    X = np.stack([k(X, X) for k in RBFS], axis=2) if family.pairwise else X
    drawn, probability = family.draw(X, np.zeros_like(A), 4000, np.random.default_rng(0))
    assert_follows(drawn, range(4), np.full(4, 0.25))
    assert_allclose(probability, 0.25)
    drawn, probability = family.resolve(4).draw_uniform(4000, np.random.default_rng(0))
    assert_follows(drawn, range(4), np.full(4, 0.25))
    assert_allclose(probability, 0.25)


@pytest.mark.parametrize("family", [Products(), Products(base=RBFS), Finite(RBFS), Precomputed()])
def test_families_say_that_they_can_be_sampled(family):
    assert can(family, Samplable)


# -- cost ----------------------------------------------------------------------------------------------------


def seconds(call, repeats=5):
    times = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times)


@pytest.mark.slow  # a clock, so it wants a quiet machine
def test_thousands_of_draws_a_second():
    X, A = data(n=500, r=100)
    assert seconds(lambda: Products(degree=3).draw(X, A, 1000, np.random.default_rng(0))) < 0.5


@pytest.mark.slow  # a clock, so it wants a quiet machine
def test_the_cost_of_a_draw_grows_linearly_with_the_degree():
    X, A = data(n=400, r=30)
    cost = {
        D: seconds(lambda D=D: Products(degree=D).draw(X, A, 20, np.random.default_rng(0)))
        for D in (4, 8, 16)
    }
    assert cost[8] < 8 * cost[4] and cost[16] < 5 * cost[8]


@pytest.mark.parametrize("size", [1, 30])
def test_memory_stays_small_with_a_thousand_columns(size):
    X, A = data(n=500, r=1000)
    tracemalloc.start()
    try:
        Products(degree=3).draw(X, A, size, np.random.default_rng(0))
        assert tracemalloc.get_traced_memory()[1] < 200e6
    finally:
        tracemalloc.stop()


def test_no_square_of_many_rows_is_formed():
    X, A = data(n=20_000, r=12)
    tracemalloc.start()
    try:
        Products(degree=3).draw(X, A, 100, np.random.default_rng(0))
        assert tracemalloc.get_traced_memory()[1] < 3 * X.nbytes + 10e6
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_a_million_rows_take_less_than_three_times_their_memory():
    code = """if True:
        import resource
        import numpy as np
        from manykernels.families import Products
        rng = np.random.default_rng(0)
        X, A = rng.standard_normal((1_000_000, 30)), rng.standard_normal((1_000_000, 1))
        members, probability = Products(degree=3).draw(X, A, 1000, rng)
        assert len(members) == 1000 and (probability > 0).all()
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / X.nbytes)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 3
