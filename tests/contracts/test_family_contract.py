"""Every family through the same contract; a new one is added to FAMILIES in cases.py."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from manykernels.families import Enumerable
from manykernels.families.bank import BankSizes

from .cases import FAMILIES

#: Sums of tens of numbers of size one to a thousand: rounding stays far below, mistakes far above.
CLOSE = {"rtol": 1e-11, "atol": 1e-11}
names = st.sampled_from(sorted(FAMILIES))

#: The ways a bank may go, forced by its sizes.
PATHS = {
    "default": BankSizes(),
    "many tiles, kept": BankSizes(tile_pairs=64),
    "many tiles, recomputed": BankSizes(tile_pairs=64, cache_bytes=0),
    "one tile, recomputed": BankSizes(cache_bytes=0),
    "features in blocks": BankSizes(feature_bytes=4000),
    "features one by one": BankSizes(feature_bytes=0),
}


@pytest.fixture(params=FAMILIES)
def case(request):
    return FAMILIES[request.param]


@pytest.fixture(params=PATHS)
def sizes(request):
    return PATHS[request.param]


def some_weights(m, seed=0):
    """Positive weights with some zeros."""
    rng = np.random.default_rng(seed)
    return rng.exponential(size=m) * (rng.random(m) > 0.3)


def references(case, members, X, Z):
    return np.stack([case.reference(z, X, Z) for z in members])


# -- values --------------------------------------------------------------------------------------------


def test_gram_is_the_weighted_sum_of_the_members(case):
    family, (X, Z) = case.resolved(), case.pair()
    members = family.members()
    w = some_weights(len(members))
    expected = np.tensordot(w, references(case, members, X, Z), 1)
    assert_allclose(family.gram(X, Z, members, w), expected, **CLOSE)


@given(name=names, data=st.data())
def test_gram_of_any_members_in_any_order(name, data):
    case = FAMILIES[name]
    family, (X, Z) = case.resolved(), case.pair()
    picked = data.draw(st.lists(st.sampled_from(family.members()), min_size=1, max_size=4, unique=True))
    w = np.array(data.draw(st.lists(st.floats(0, 10), min_size=len(picked), max_size=len(picked))))
    expected = np.tensordot(w, references(case, picked, X, Z), 1)
    assert_allclose(family.gram(X, Z, picked, w), expected, **CLOSE)


def test_gram_without_weight_is_zero(case):
    family, (X, Z) = case.resolved(), case.pair()
    members = family.members()
    assert not family.gram(X, Z, members, np.zeros(len(members))).any()


def test_apply_is_every_members_gram_times_b(case):
    family, (X, Z) = case.resolved(), case.pair()
    members = family.members()
    B = np.random.default_rng(2).normal(size=(30, 2))
    expected = references(case, members, X, Z) @ B
    assert_allclose(family.apply(X, Z, B, members), expected, **CLOSE)


def test_diag_is_the_diagonal_of_the_gram(case):
    family, X = case.resolved(), case.train(30)
    members = family.members()
    w = some_weights(len(members))
    assert_allclose(family.diag(X, members, w), np.diagonal(family.gram(X, X, members, w)), **CLOSE)


def test_mean_diag_is_the_weighted_mean_of_each_diagonal(case):
    family, X = case.resolved(), case.train(30)
    members = family.members()
    s = some_weights(30, seed=5)
    diagonals = np.array([family.diag(X, [z], np.ones(1)) for z in members])
    assert_allclose(family.mean_diag(X, members, s), diagonals @ s / s.sum(), **CLOSE)


def test_features_reproduce_the_gram_where_there_are_any(case):
    family, (X, Z) = case.resolved(), case.pair()
    if not hasattr(family, "features"):
        assert not hasattr(family, "widths")
        return
    members = family.members()
    w = some_weights(len(members))
    widths = family.widths(members)
    left, right = family.features(X, members), family.features(Z, members)
    assert left.shape[1] == widths.sum()
    assert_allclose((left * np.repeat(w, widths)) @ right.T, family.gram(X, Z, members, w), **CLOSE)


def test_values_do_not_depend_on_the_blocks_of_rows(case):
    family, (X, Z) = case.resolved(), case.pair()
    members = family.members()
    w = np.ones(len(members))
    parts = [family.gram(X[i : i + 1], Z, members, w) for i in range(len(X))]
    assert_allclose(np.vstack(parts), family.gram(X, Z, members, w), **CLOSE)


# -- banks ---------------------------------------------------------------------------------------------


def test_bank_gram_is_the_familys(case, sizes):
    family, X = case.resolved(), case.train(60)
    members = family.members()
    w = some_weights(len(members))
    expected = family.gram(X, X, members, w)
    assert_allclose(family.bank(X, members, sizes).gram(w), expected, **CLOSE)


def test_bank_gram_is_symmetric(case, sizes):
    family, X = case.resolved(), case.train(60)
    members = family.members()
    K = family.bank(X, members, sizes).gram(some_weights(len(members)))
    # A machine factorises one triangle: what the other says must not matter beyond rounding.
    assert_allclose(K, K.T, rtol=0, atol=1e-14 * np.abs(K).max())


def test_bank_gram_is_a_new_array(case, sizes):
    family, X = case.resolved(), case.train(60)
    members = family.members()
    b, w = family.bank(X, members, sizes), some_weights(len(members))
    first = b.gram(w)
    kept = first.copy()
    first += 1.0
    assert_array_equal(b.gram(w), kept)


def test_bank_quad_forms_follow_from_apply(case, sizes):
    family, X = case.resolved(), case.train(60)
    members = family.members()
    A = np.random.default_rng(3).normal(size=(60, 2))
    expected = np.einsum("mnc,nc->m", family.apply(X, X, A, members), A)
    # Quadratic forms cancel: compare with the size of what is added up.
    size = np.abs(family.apply(X, X, np.abs(A), members)).max() * np.abs(A).sum()
    assert_allclose(family.bank(X, members, sizes).quad_forms(A), expected, rtol=1e-9, atol=1e-13 * size)


def test_bank_features_reproduce_its_gram(case, sizes):
    family, X = case.resolved(), case.train(60)
    members = family.members()
    b, w = family.bank(X, members, sizes), some_weights(len(members))
    if b.n_columns(w) is None:
        with pytest.raises(NotImplementedError):
            b.features(w)
        return
    phi, owner = b.features(w)
    assert phi.shape == (60, b.n_columns(w)) and len(owner) == b.n_columns(w)
    assert set(owner) == set(np.flatnonzero(w))
    assert_allclose((phi * w[owner]) @ phi.T, b.gram(w), **CLOSE)


def test_bank_of_some_members_knows_only_them(case, sizes):
    family, X = case.resolved(), case.train(60)
    members = family.members()[::2]
    w = some_weights(len(members), seed=4) + 0.1
    b = family.bank(X, members, sizes)
    assert b.n_members == len(members)
    assert_allclose(b.gram(w), family.gram(X, X, members, w), **CLOSE)
    A = np.ones((60, 1))
    expected = [np.sum(family.gram(X, X, [z], np.ones(1))) for z in members]
    assert_allclose(b.quad_forms(A), expected, rtol=1e-9, atol=1e-9 * np.max(np.abs(expected)))


def test_bank_answers_do_not_depend_on_the_number_of_threads(case, sizes, monkeypatch):
    family, X = case.resolved(), case.train(60)
    members = family.members()
    w, A = some_weights(len(members)), np.random.default_rng(3).normal(size=(60, 2))
    answers = []
    for threads in ("1", "2"):
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        b = family.bank(X, members, sizes)
        answers.append((b.gram(w), b.quad_forms(A)))
    assert_array_equal(answers[0][0], answers[1][0])
    assert_array_equal(answers[0][1], answers[1][1])


# -- description ---------------------------------------------------------------------------------------


def test_members_are_unique_and_as_many_as_size_says(case):
    family = case.resolved()
    assert isinstance(family, Enumerable)
    assert len(set(family.members())) == len(family.members()) == family.size()


def test_members_come_in_a_fixed_order(case):
    assert list(case.resolved().members()) == list(case.resolved().members())


def test_labels_are_distinct_and_readable(case):
    family = case.resolved()
    labels = [family.label(z) for z in family.members()]
    assert len(set(labels)) == len(labels)
    assert all(0 < len(label) < 100 and " at 0x" not in label for label in labels)


def test_parameters_of_a_member_do_not_hide_the_tables_columns(case):
    family = case.resolved()
    for member in family.members():
        assert not {"kernel", "weight", "share"} & set(family.parameters(member))


def test_penalty_has_one_positive_number_per_member(case):
    family = case.resolved()
    for nu in (1.0, 2.0, np.inf):
        penalty = family.penalty(family.members(), nu)
        assert penalty.shape == (family.size(),) and (penalty > 0).all()


def test_resolve_leaves_the_description(case):
    family = case.make()
    before, state = repr(family), set(vars(family))
    resolved = family.resolve(case.width)
    assert resolved is not family and type(resolved) is type(family)
    assert repr(family) == before and set(vars(family)) == state


def test_clone_describes_the_same_family(case):
    family = case.make()
    copy = clone(family)
    assert copy is not family and repr(copy) == repr(family)
    assert copy.resolve(case.width).members() == family.resolve(case.width).members()


def test_a_resolved_family_survives_pickling(case):
    family, (X, Z) = case.resolved(), case.pair()
    copy = pickle.loads(pickle.dumps(family))
    members = family.members()
    w = np.ones(len(members))
    assert copy.members() == members
    assert [copy.label(z) for z in members] == [family.label(z) for z in members]
    assert_array_equal(copy.gram(X, Z, members, w), family.gram(X, Z, members, w))


def test_support_rows_reproduce_the_gram(case):
    family, X = case.resolved(), case.train(30)
    members = family.members()
    w, kept = np.ones(len(members)), np.arange(0, 30, 3)
    rows = family.support(X, kept)
    if rows is None:
        assert family.pairwise
        return
    assert_allclose(family.gram(X, rows, members, w), family.gram(X, X, members, w)[:, kept], **CLOSE)
