"""The search for the best member: exhaustive where it says so, against a list of all members."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from manykernels.families import Finite, Precomputed, Products
from manykernels.families.base import Direction
from manykernels.families.products.monomial_search import MonomialSearcher, SearchSizes
from manykernels.families.products.monomial_table import ProductTable
from manykernels.families.products.search import GramSearcher
from manykernels.kernels import RBF, Linear, Polynomial
from manykernels.problem import Scale

N = 30


def rows(r, seed=0):
    return np.random.default_rng(seed).normal(size=(N, r))


def direction(kind, seed=0):
    rng = np.random.default_rng(seed)
    V = rng.normal(size=(N, 3))
    if kind == "gradient":
        return Direction.of_gradient(V)
    signed = Direction(V=V, signs=np.array([1.0, -1.0, 0.5]))
    return signed if kind == "signs" else Direction(dense=signed.matrix())


def by_list(family, X, d, scale):
    """All values, one Gram matrix after the other."""
    members = family.members()
    rho_sq = np.ones(len(members)) if scale is None else scale.rho_sq(members, 1.0)
    forms = np.array([np.vdot(family.gram(X, X, [z], [1.0]), d.matrix()) for z in members])
    return members, np.divide(forms, rho_sq, out=np.full(len(forms), -np.inf), where=rho_sq > 0)


FAMILIES = {
    "columns": lambda: Products(degree=1),
    "pairs": lambda: Products(degree=2),
    "cubic": lambda: Products(degree=3),
    "quartic": lambda: Products(degree=4),
    "prior": lambda: Products(degree=3, degree_prior=[1.0, 2.0, 0.5]),
    "ordered": lambda: Products(degree=3, count="ordered"),
    "kernels": lambda: Products(degree=2, base=[RBF(1.0), Linear(columns=[0]), Polynomial(2)]),
    "list": lambda: Finite([RBF(0.5), RBF(2.0), Linear(), Linear(columns=[1])]),
    "linear": lambda: Finite([Linear(columns=[j]) for j in range(4)]),
}


@pytest.mark.parametrize("kind", ["gradient", "signs", "dense"])
@pytest.mark.parametrize(
    ("name", "how"),
    [
        (name, how)
        for name in FAMILIES
        for how in ("trace", "base", None)
        if how != "base" or FAMILIES[name]().factorises
    ],
)
def test_best_are_those_of_a_list_of_all(name, kind, how):
    X = rows(5)
    family = FAMILIES[name]().resolve(5)
    scale = Scale.fit(family, X, how, np.random.default_rng(1).random(N))
    d = direction(kind)
    members, values = by_list(family, X, d, scale)
    order = np.argsort(-values)
    best = family.best(X, d, scale, size=3, exclude=[members[order[1]]])
    assert best.exhaustive
    assert best.members == [members[i] for i in order[[0, 2, 3]]]
    assert_allclose(best.values, values[order[[0, 2, 3]]], rtol=1e-9)


def test_a_stack_of_matrices():
    X = rows(3)
    stack = np.stack([k(X) for k in (RBF(0.5), RBF(2.0), Linear())], axis=2)
    family = Precomputed().resolve(3)
    scale = Scale.fit(family, stack, "trace")
    for kind in ("gradient", "signs", "dense"):
        d = direction(kind)
        values = np.tensordot(stack, d.matrix(), ([0, 1], [0, 1])) / scale.rho_sq([0, 1, 2], 1.0)
        best = family.best(stack, d, scale, size=5)
        assert_array_equal(best.members, np.argsort(-values))
        assert_allclose(best.values, np.sort(values)[::-1], rtol=1e-9)


def test_wide_tables_are_searched_in_slabs_and_chunks():
    # And rows in blocks of seven.
    small = SearchSizes(table_rows=3, places=40, serial=0, block=70, block_rows=7, kept_columns=0)
    X = rows(10)
    family = Products(degree=3).resolve(10)
    scale = Scale.fit(family, X, "trace")
    members, values = by_list(family, X, direction("signs"), scale)
    searcher = MonomialSearcher(family, X, scale, small)
    assert len(searcher.chunks) > 1
    best = searcher.best(direction("signs"), size=20)
    assert best.members == [members[i] for i in np.argsort(-values)[:20]]


@pytest.mark.parametrize("rows_at_most", [1, 4, 256])
@pytest.mark.parametrize(("r", "degree"), [(1, 1), (7, 1), (1, 4), (6, 2), (9, 3), (6, 4), (4, 6)])
def test_every_product_stands_once_in_the_table(r, degree, rows_at_most):
    table = ProductTable(r, degree, rows_at_most)
    everything = Products(degree=degree).resolve(r).members()
    members = table.members(np.arange(len(table)))
    assert len(table) == len(everything)
    assert set(members) == set(everything)
    Z = np.vstack([np.ones(5), np.random.default_rng(0).normal(size=(r, 5))])
    v = np.arange(1.0, 6.0)
    phi = np.array([Z[[j + 1 for j in z]].prod(axis=0) for z in members])
    for chunk in table.chunks(len(table) // 3):
        places = table.places(chunk)
        out = np.ones(places.stop - places.start)
        table.add(chunk, Z, v, out)
        # Sums of five terms of order one, in another order.
        assert_allclose(out, 1.0 + phi[places] @ v, rtol=1e-12, atol=1e-12)
        assert_array_equal(table.degrees(chunk), [len(z) for z in members[places]])


def screened(family, X, scale, **sizes):
    """A searcher that takes single precision first, as a rule for large tables only."""
    return MonomialSearcher(family, X, scale, SearchSizes(single=0, table_rows=4, places=60, **sizes))


@pytest.mark.parametrize("degree", [1, 2, 3, 4])
def test_single_precision_finds_the_best_of_all(degree):
    X, rng = rows(9), np.random.default_rng(2)
    X[:, 3] *= 1e6
    X[:, 5] = 0.0
    family = Products(degree=degree).resolve(9)
    scale = Scale.fit(family, X, "trace", rng.random(N) + 0.1)
    d = direction("gradient")
    members, values = by_list(family, X, d, scale)
    order = np.argsort(-values)[: 4 * degree]
    searcher = screened(family, X, scale)
    V, signs, _ = searcher.low_rank(d)
    assert searcher._worth_screening(signs)
    if degree > 2:  # of fewer members all are leaders
        assert searcher._screened(d, V, 4, ()) is not None
    best = searcher.best(d, size=len(order) - 1, exclude=[members[order[1]]])
    assert best.exhaustive
    assert best.members == [members[i] for i in np.delete(order, 1)]
    assert_allclose(best.values, values[np.delete(order, 1)], rtol=1e-9)


def test_what_single_precision_cannot_tell_apart_is_searched_in_full():
    # Columns equal up to 1e-9 of their size: more leaders than are kept, and single precision cannot rank them.
    rng = np.random.default_rng(3)
    X = rng.normal(size=(N, 1)) + 1e-9 * rng.normal(size=(N, 60))
    family = Products(degree=2).resolve(60)
    scale = Scale.fit(family, X, "trace")
    d = Direction.of_gradient(X[:, :1] ** 2 + rng.normal(size=(N, 1)))
    searcher = screened(family, X, scale)
    assert searcher._screened(d, d.V, 1, ()) is None
    _, values = by_list(family, X, d, scale)
    best = searcher.best(d, size=1)
    assert best.exhaustive
    assert_allclose(best.values[0], values.max(), rtol=1e-12)


def test_a_screen_on_some_rows_finds_an_interaction_without_main_effects():
    # 45,759 products; three columns that say nothing alone or in pairs, z = 12 on all rows, on a sixth of them 8.
    rng = np.random.default_rng(4)
    X = rng.choice([-1.0, 1.0], (600, 64)) * rng.uniform(0.5, 1.5, (600, 64))
    y = X[:, [7, 20, 51]].prod(axis=1) + 1.5 * rng.normal(size=600)
    family = Products(degree=3).resolve(64)
    scale = Scale.fit(family, X, "trace")
    size = family.size()
    sizes = SearchSizes(exhaustive=0, screen=100.0 * size + 1e8, screen_rows=50, screened=200)
    searcher = MonomialSearcher(family, X, scale, sizes)
    assert searcher.partial
    best = searcher.best(Direction.of_gradient(y[:, None]), size=2)
    assert best.members[0] == (7, 20, 51) and not best.exhaustive
    truth = family.best(X, Direction.of_gradient(y[:, None]), scale, size=1)
    assert_allclose(best.values[0], truth.values[0], rtol=1e-12)


def test_scales_from_pairs_are_those_of_products_of_two():
    X, family = rows(7), Products(degree=2).resolve(7)
    scale = Scale.fit(family, X, "trace")
    pairs = MonomialSearcher(family, X, scale)._pair_scales()
    base = scale.rho_sq([(2,), (4,)], 1.0)
    # Sums of thirty squares in single precision.
    assert_allclose(1 / pairs[3, 5], scale.rho_sq([(2, 4)], 1.0)[0] / base.prod(), rtol=1e-5)
    assert_allclose(pairs[0, 1:], 1.0, rtol=1e-5)


def test_scales_too_many_to_keep_are_computed_again():
    X, family = rows(6), Products(degree=3).resolve(6)
    scale = Scale.fit(family, X, "trace")
    kept = family.best(X, direction("gradient"), scale, size=9)
    again = MonomialSearcher(family, X, scale, SearchSizes(kept_scales=0)).best(direction("gradient"), size=9)
    assert again.members == kept.members
    assert_array_equal(again.values, kept.values)


def test_a_searcher_serves_one_direction_after_another():
    X, family = rows(6), Products(degree=3).resolve(6)
    scale = Scale.fit(family, X, "trace")
    searcher = family.searcher(X, scale)
    for seed in range(3):
        d = direction("gradient", seed)
        assert searcher.best(d, size=4).members == family.best(X, d, scale, size=4).members


def test_scales_of_the_user():
    X, family = rows(4), Products(degree=2).resolve(4)
    scale = Scale.fit(family, X, np.arange(1.0, 15.0))
    members, values = by_list(family, X, direction("gradient"), scale)
    best = family.best(X, direction("gradient"), scale)
    assert best.members == [members[np.argmax(values)]]


def test_more_than_there_are():
    X, family = rows(3), Products(degree=2).resolve(3)
    best = family.best(X, direction("gradient"), None, size=100, exclude=[(0,), (1, 2)])
    assert len(best.members) == family.size() - 2 == len(set(best.members))
    assert not {(0,), (1, 2)} & set(best.members)
    assert (np.diff(best.values) <= 0).all()
    everything = family.best(X, direction("gradient"), None, size=1, exclude=family.members())
    assert everything.members == [] and everything.exhaustive


@pytest.mark.parametrize("name", FAMILIES)
def test_a_zero_direction_finds_nothing(name):
    family = FAMILIES[name]().resolve(5)
    for d in (Direction.of_gradient(np.zeros((N, 2))), Direction(dense=np.zeros((N, N)))):
        best = family.best(rows(5), d, None)
        assert best.members == [] and len(best.values) == 0 and best.exhaustive


def test_vanishing_products_are_never_found():
    X = rows(4)
    X[:, 1] = 0.0
    X[: N // 2, 2] = 0.0
    X[N // 2 :, 3] = 0.0  # so that the product of the last two vanishes
    family = Products(degree=3).resolve(4)
    scale = Scale.fit(family, X, "trace")
    best = family.best(X, direction("gradient"), scale, size=1000)
    rho_sq = scale.rho_sq(family.members(), 1.0)
    assert set(best.members) == {z for z, r in zip(family.members(), rho_sq, strict=True) if r > 0}


def test_columns_on_very_different_scales():
    X = rows(5) * 10.0 ** np.array([-40, -10, 0, 10, 40])
    family = Products(degree=3).resolve(5)
    scale = Scale.fit(family, X, "trace")
    unit = Scale.fit(family, rows(5), "trace")
    best = family.best(X, direction("gradient"), scale, size=6)
    assert best.members == family.best(rows(5), direction("gradient"), unit, size=6).members


def test_duplicated_columns_tie_in_the_order_of_the_family():
    X = rows(3)[:, [0, 0, 1, 2]]
    family = Products(degree=2).resolve(4)
    one, two = (family.best(X, direction("gradient"), None, size=6) for _ in range(2))
    assert one.members == two.members


@pytest.mark.parametrize("bad", [np.zeros((3, 1)), np.full((N, 1), np.nan)])
def test_a_direction_that_does_not_fit_is_refused(bad):
    with pytest.raises(ValueError, match="direction"):
        Products(degree=2).resolve(3).best(rows(3), Direction.of_gradient(bad), None)


# -- searches that are not exhaustive ------------------------------------------------------------------


def planted(r, member, n=200, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, r))
    target = X[:, list(member)].prod(axis=1)
    return X, Direction.of_gradient((target + 0.2 * target.std() * rng.normal(size=n))[:, None])


@pytest.mark.parametrize("how", ["trace", "base"])
def test_a_heuristic_search_finds_what_stands_out(how):
    X, d = planted(60, (3, 17, 42))
    family = Products(degree=3).resolve(60)
    scale = Scale.fit(family, X, how)
    searcher = MonomialSearcher(family, X, scale, SearchSizes(exhaustive=0, screen=0))
    best = searcher.best(d, size=3, rng=np.random.default_rng(0))
    assert best.members[0] == (3, 17, 42) and not best.exhaustive
    assert_allclose(best.values[0], family.forms(X, d.V, [(3, 17, 42)]) / scale.rho_sq([(3, 17, 42)], 1.0))
    again = searcher.best(d, size=3, exclude=[(3, 17, 42)], rng=np.random.default_rng(0))
    assert (3, 17, 42) not in again.members and len(again.members) == 3


def test_a_heuristic_search_never_claims_more_than_there_is():
    X, family = rows(6), Products(degree=3).resolve(6)
    scale = Scale.fit(family, X, "trace")
    truth = family.best(X, direction("gradient"), scale)
    found = MonomialSearcher(family, X, scale, SearchSizes(exhaustive=0, screen=0)).best(
        direction("gradient")
    )
    assert truth.exhaustive and not found.exhaustive
    assert 0.8 * truth.values[0] <= found.values[0] <= truth.values[0] * (1 + 1e-12)


def test_products_of_other_kernels_beyond_enumeration():
    X = rows(4)
    family = Products(degree=3, base=[RBF(s) for s in (0.5, 1.0, 2.0, 4.0)] + [Linear()]).resolve(4)
    scale = Scale.fit(family, X, "trace")
    truth = family.best(X, direction("gradient"), scale, size=1)
    searcher = GramSearcher(family, X, scale)
    for kind in ("gradient", "dense"):
        found = searcher.best(direction(kind), size=2)
        assert not found.exhaustive and len(found.members) == 2
    found = searcher.best(direction("gradient"), size=1)
    assert found.values[0] == pytest.approx(truth.values[0], rel=0.2)
    assert found.values[0] <= truth.values[0] * (1 + 1e-12)


def test_a_family_of_other_kernels_too_large_to_compare_is_searched():
    family = Products(degree=9, base=[RBF(s) for s in np.geomspace(0.3, 6.0, 20)]).resolve(4)
    best = family.best(rows(4), direction("gradient"), None)
    assert not best.exhaustive and best.values[0] > 0


def test_degrees_that_cannot_be_listed_are_searched():
    X, d = planted(40, (1, 5, 9, 13, 30), n=400)
    family = Products(degree=8).resolve(40)
    best = family.best(X, d, Scale.fit(family, X, "trace"), rng=np.random.default_rng(0))
    assert not best.exhaustive and best.values[0] > 0


def test_nearby_members_share_factors():
    X, d = planted(20, (2, 5, 7))
    family = Products(degree=3).resolve(20)
    searcher = family.searcher(X, Scale.fit(family, X, "trace"))
    assert (2, 5, 7) in searcher.nearby(d, [(2, 5, 11)], 10)
    assert searcher.nearby(d, [], 3)


@pytest.mark.slow
@pytest.mark.parametrize("r", [100, 300])
def test_the_search_of_all_cubic_products_reaches_its_share_of_the_peak(r):
    import time

    rng = np.random.default_rng(0)
    square = rng.normal(size=(1200, 1200))
    X = rng.normal(size=(800, r))
    family = Products(degree=3).resolve(r)
    searcher = family.searcher(X, Scale.fit(family, X, "trace"))
    d = Direction.of_gradient(rng.normal(size=(800, 1)))
    searcher.best(d)  # the scales, which are kept
    peak, shares = 0.0, []
    for _ in range(5):
        began = time.perf_counter()
        square @ square
        peak = max(peak, 1200**3 / (time.perf_counter() - began))
        began = time.perf_counter()
        searcher.best(d)
        shares.append(800 * math.comb(r + 3, 3) / (time.perf_counter() - began))
    assert max(shares) > 0.35 * peak  # useful multiply-adds only; 0.6 and 0.8 on an idle core
