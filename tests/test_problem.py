"""Problems, scales and results."""

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from tests.contracts.cases import FAMILIES, problem, rows

from manykernels.families import Finite, Products
from manykernels.kernels import RBF, Linear
from manykernels.losses import get_loss
from manykernels.problem import Problem, Scale, Trace, nu_of

X = rows(30)
S = np.random.default_rng(3).exponential(size=30)


@pytest.mark.parametrize("name", FAMILIES)
def test_trace_scale_is_the_weighted_mean_of_the_diagonal(name):
    case = FAMILIES[name]
    family, T = case.resolved(), case.train(30)
    members = family.members()
    scale = Scale.fit(family, T, "trace", S)
    diagonals = np.array([np.diagonal(case.reference(z, T, T if T.ndim == 2 else None)) for z in members])
    expected = diagonals @ S / S.sum() * family.penalty(members, 2.0)
    assert_allclose(scale.rho_sq(members, 4 / 3), expected, rtol=1e-10)


def test_scales_of_some_members_are_a_part_of_all():
    family = Products(degree=2).resolve(4)
    members = family.members()
    for how in ("trace", "base", None, np.arange(1.0, 15.0)):
        scale = Scale.fit(family, X, how, S)
        assert_allclose(scale.rho_sq(members[3:9], 1.5), scale.rho_sq(members, 1.5)[3:9])


def test_given_scales_are_rho_not_its_square():
    family = Finite([RBF(), Linear()]).resolve(4)
    assert_allclose(Scale.fit(family, X, [2.0, 3.0]).rho_sq([0, 1], 1.0), [4.0, 9.0])


def test_no_scale_keeps_the_degree_prior():
    family = Products(degree=2, degree_prior=[1.0, 3.0]).resolve(2)
    assert_allclose(Scale.fit(family, X[:, :2], None).rho_sq(family.members(), 2.0), [1, 1, 9, 9, 9])


def test_base_scale_of_first_degree_is_the_trace():
    family = Products(degree=1).resolve(4)
    a, b = (Scale.fit(family, X, how, S).rho_sq(family.members(), 1.0) for how in ("trace", "base"))
    assert_allclose(a, b, rtol=1e-13)


def test_a_kernel_that_vanishes_has_scale_zero():
    T = X.copy()
    T[:, 1] = 0.0
    family = Products(degree=2).resolve(4)
    for how in ("trace", "base"):
        rho_sq = Scale.fit(family, T, how).rho_sq(family.members(), 1.0)
        assert [z for z, r in zip(family.members(), rho_sq) if r == 0] == [
            z for z in family.members() if 1 in z
        ]


def test_rows_without_weight_do_not_set_the_scale():
    family, s = Finite([Linear()]).resolve(4), (np.arange(30) < 10).astype(float)
    assert_allclose(
        Scale.fit(family, X, "trace", s).rho_sq([0], 1), Scale.fit(family, X[:10], "trace").rho_sq([0], 1)
    )


@pytest.mark.parametrize("how", ["tracee", "auto "])
def test_unknown_scales_are_refused(how):
    with pytest.raises(ValueError, match=f"normalize is {how!r}"):
        Scale.fit(Finite([RBF()]).resolve(4), X, how)


@pytest.mark.parametrize("p, nu", [(1.0, 1.0), (4 / 3, 2.0), (1.5, 3.0), (2.0, np.inf)])
def test_nu_of_p(p, nu):
    assert nu_of(p) == pytest.approx(nu)


def test_weights_are_ones_unless_given():
    family = Finite([RBF()]).resolve(4)
    pb = Problem(X, np.ones((30, 1)), family, Scale.fit(family, X, None), get_loss("squared"))
    assert_array_equal(pb.sample_weight, np.ones(30))


def test_batches_hold_every_row_once_in_order():
    pb = problem("squared", 2, X=X, weights="random")
    parts = list(pb.batches(7))
    assert [part.n_rows for part in parts] == [7, 7, 7, 7, 2]
    assert_array_equal(np.vstack([part.X for part in parts]), pb.X)
    assert_array_equal(np.vstack([part.Y for part in parts]), pb.Y)
    assert_array_equal(np.concatenate([part.sample_weight for part in parts]), pb.sample_weight)
    assert all(part.scale is pb.scale for part in parts)


def test_a_problem_knows_its_shape():
    pb = problem("squared", 2, n=11)
    assert (pb.n_rows, pb.n_outputs) == (11, 2)


@pytest.mark.parametrize("record", [problem(), problem().scale, Trace()], ids=lambda r: type(r).__name__)
def test_records_are_frozen(record):
    with pytest.raises(dataclasses.FrozenInstanceError):
        record.X = None


def test_records_print_without_their_rows():
    assert len(repr(problem().scale)) < 300


@pytest.mark.parametrize(
    "part", [slice(3, 20, 2), np.array([7, 0, 7, -1]), S > 1], ids=["slice", "numbers", "mask"]
)
@pytest.mark.parametrize("kind", [np.asarray, np.asfortranarray, sp.csr_matrix])
def test_some_rows_are_those_of_an_index(kind, part):
    family = Finite([Linear()]).resolve(X.shape[1])
    given = kind(X)
    some = Problem(
        given, X[:, :2], family, Scale.fit(family, X, None), get_loss("squared"), sample_weight=S
    ).rows(part)
    assert_array_equal(some.X.toarray() if sp.issparse(given) else some.X, X[part])
    assert_array_equal(some.Y, X[part, :2])
    assert_array_equal(some.sample_weight, S[part])
