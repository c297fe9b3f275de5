"""Lists of kernels and ready-made matrices."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from tests.contracts.cases import MIXED, N_COLUMNS, rows, stack

from manykernels._util.arrays import row_blocks
from manykernels.families import Finite, Precomputed
from manykernels.families.bandwidths.grids import FACTORS, bandwidth_grid, median_distance
from manykernels.families.bank import BankSizes, FeatureBank, KernelBank, Sharing
from manykernels.kernels import RBF, Dirichlet, Laplacian, Linear

# -- names ---------------------------------------------------------------------------------------------


def test_a_dict_names_its_kernels():
    family = Finite({"near": RBF(0.1), "far": RBF(9.0)}).resolve(2)
    assert [family.label(i) for i in family.members()] == ["near", "far"]


def test_names_can_be_given_with_a_list():
    assert Finite([RBF(0.1), RBF(9.0)], names=["near", "far"]).resolve(2).label(1) == "far"


def test_unnamed_kernels_show_their_parameters_and_columns():
    family = Finite([RBF(1.5, columns=["age"]), Linear()]).resolve(2, ["age", "dose"])
    assert [family.label(i) for i in range(2)] == ["rbf(σ=1.5)[age]", "linear"]
    assert family.parameters(0) == {"sigma": 1.5, "columns": ["age"]}


def test_scikit_learn_names_and_callables_are_kernels():
    family = Finite(["cosine", lambda A, B: A @ B.T]).resolve(N_COLUMNS)
    assert family.size() == 2
    assert_allclose(family.gram(rows(5), rows(5), [1], [2.0]), 2 * rows(5) @ rows(5).T, atol=1e-13)


# -- what is refused -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "family, message",
    [
        (Finite([]), "kernels is empty"),
        (Finite({}), "kernels is empty"),
        (Finite("rbf"), "Finite takes a list or a dict"),
        (Finite(RBF()), "Finite takes a list or a dict"),
        (Finite([RBF(), 3]), "kernels holds 3, which is no kernel"),
        (Finite(["rbff"]), "kernel 'rbff' is unknown"),
        (Finite([RBF(-1.0)]), "sigma of RBF"),
        (Finite([RBF(columns=[5])]), "X has 4 columns"),
        (Finite([RBF()], names=["a", "b"]), "names has 2 entries for 1 kernels"),
        (Precomputed(names=["a"]), "names has 1 entries for 4 kernels"),
    ],
)
def test_wrong_lists_are_refused(family, message):
    with pytest.raises(ValueError, match=message):
        family.resolve(4)


# -- features and sparse rows --------------------------------------------------------------------------


def test_a_list_has_features_only_if_all_its_kernels_do():
    assert hasattr(Finite([Linear(), Dirichlet(columns=[0])]), "features")
    assert not hasattr(Finite([Linear(), RBF()]), "features")


def test_narrow_explicit_features_are_used_in_place_of_gram_matrices():
    family = Finite([Linear()]).resolve(N_COLUMNS)
    assert isinstance(family.bank(rows(N_COLUMNS + 1), [0]), FeatureBank)
    assert isinstance(family.bank(rows(N_COLUMNS), [0]), KernelBank)


def test_sparse_rows_stay_sparse_unless_a_kernel_needs_them_dense():
    assert Finite([RBF(), Linear()]).accepts_sparse
    assert not Finite([RBF(), Dirichlet(columns=[0])]).accepts_sparse


def test_sparse_rows_have_the_same_bank():
    kernels = [RBF(1.0), Laplacian(1.0, columns=[0, 2]), Linear(columns=[1])]
    family, X = Finite(kernels).resolve(N_COLUMNS), rows()
    w, A = np.array([0.5, 1.0, 2.0]), np.random.default_rng(0).normal(size=(40, 2))
    dense, sparse = family.bank(X, [0, 1, 2]), family.bank(sp.csr_matrix(X), [0, 1, 2])
    assert_allclose(sparse.gram(w), dense.gram(w), atol=1e-12)
    assert_allclose(sparse.quad_forms(A), dense.quad_forms(A), rtol=1e-10)


def test_kernels_on_the_same_columns_share_their_distances():
    sharing = Sharing([RBF(1.0), RBF(2.0), RBF(1.0, columns=[0]), RBF(3.0, columns=[0]), Linear()])
    assert sharing.shared == [("sqdist", None), ("sqdist", (0,)), ("dot", None)]


def test_distances_are_kept_where_the_matrices_do_not_fit():
    alike, unlike = (
        KernelBank(kernels, rows(), BankSizes(cache_bytes=0))
        for kernels in ([RBF(1.0), RBF(2.0)], [RBF(1.0), Laplacian(2.0)])
    )
    assert list(alike._statistics) == [("sqdist", None)]
    assert not unlike._statistics  # two statistics would take more than the Gram matrix itself


def test_blocks_of_rows_do_not_change_values():
    family, X, members = Finite(list(MIXED)).resolve(N_COLUMNS), rows(1500), list(range(5))
    assert len(row_blocks(1500, 1500)) > 1
    B = np.random.default_rng(0).normal(size=(1500, 2))
    gram, applied = family.gram(X, X, members, np.ones(5)), family.apply(X, X, B, members)
    for part in (slice(0, 700), slice(700, 1500)):  # each of them fits into a block
        assert_allclose(family.gram(X[part], X, members, np.ones(5)), gram[part], rtol=1e-11)
        assert_allclose(family.apply(X[part], X, B, members), applied[:, part], rtol=1e-9, atol=1e-9)


# -- ready-made matrices -------------------------------------------------------------------------------


def test_precomputed_matrices_are_named_by_number_or_as_given():
    assert [Precomputed().resolve(2).label(i) for i in range(2)] == ["K0", "K1"]
    assert Precomputed(names=["mri", "pet"]).resolve(2).label(1) == "pet"


def test_good_matrices_pass():
    Precomputed().resolve(3).check_training(stack())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_asymmetry_is_found_wherever_it_is(dtype):
    family = Precomputed(names=["a", "b", "c"]).resolve(3)
    for s, t in [(0, 39), (39, 0), (17, 18), (38, 39)]:
        K = stack().astype(dtype)
        K[s, t, 1] += 0.01
        with pytest.raises(ValueError, match="kernel b is not symmetric at rows"):
            family.check_training(K)


def test_rounding_of_single_precision_is_not_asymmetry():
    K = stack().astype(np.float32)
    K[0, 1] *= 1 + 2e-7
    Precomputed().resolve(3).check_training(K)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("where", [(5, 5), (3, 30)])
def test_values_that_are_not_finite_are_found(value, where):
    K = stack()
    K[where[0], where[1], 2] = K[where[1], where[0], 2] = value
    with pytest.raises(ValueError, match="kernel K2 is not finite"):
        Precomputed().resolve(3).check_training(K)


def test_a_clearly_negative_eigenvalue_is_refused():
    K = stack()
    K[:, :, 0] -= 2 * np.eye(40)
    with pytest.raises(ValueError, match="kernel K0 is not positive semi-definite"):
        Precomputed().resolve(3).check_training(K)


def test_matrices_that_are_not_square_are_refused():
    with pytest.raises(ValueError, match=r"X has shape \(7, 40, 3\); .* needs square matrices"):
        Precomputed().resolve(3).check_training(stack()[:7])


@pytest.mark.parametrize(
    "layout", [np.asfortranarray, lambda K: K[:, ::-1][:, ::-1], lambda K: K.astype("f4")]
)
def test_any_memory_layout_gives_the_same_sums(layout):
    K = stack()
    bank = Precomputed().resolve(3).bank(layout(K), [0, 2])
    assert_allclose(bank.gram(np.array([1.0, 3.0])), K[:, :, 0] + 3 * K[:, :, 2], rtol=1e-6)


def test_a_read_only_stack_is_read_in_place():
    K = stack()
    K.setflags(write=False)
    bank = Precomputed().resolve(3).bank(K, [0, 1, 2])
    assert bank.stack is K
    assert_allclose(bank.quad_forms(np.ones((40, 1))), K.sum(axis=(0, 1)), rtol=1e-10)


# -- bandwidths ----------------------------------------------------------------------------------------


def test_median_distance_is_the_median_of_all_pairs():
    X = rows(31)
    d = np.sqrt(((X[:, None] - X) ** 2).sum(axis=2))[np.triu_indices(31, 1)]
    assert median_distance(X, np.ones(31), "sqdist") == pytest.approx(np.sort(d)[(len(d) - 1) // 2])


def test_a_weight_counts_as_a_repetition_in_the_median():
    # Copies of a row are at distance zero from one another, which is no distance.
    X, times = rows(20), np.random.default_rng(0).integers(0, 4, size=20)
    repeated = np.repeat(X, times, axis=0)
    for statistic in ("sqdist", "l1"):
        assert median_distance(X, times.astype(float), statistic) == pytest.approx(
            median_distance(repeated, np.ones(len(repeated)), statistic)
        )


def test_equal_rows_have_bandwidth_one():
    assert median_distance(np.full((5, 3), 0.1), np.ones(5), "sqdist") == 1.0


@pytest.mark.parametrize("kernel", [RBF, Laplacian])
def test_bandwidths_follow_the_scale_of_the_rows(kernel):
    small, large = (bandwidth_grid(kernel, f * rows(), np.ones(40)) for f in (1.0, 1000.0))
    assert len(small) == len(FACTORS)
    assert_allclose([k.sigma for k in large], [1000 * k.sigma for k in small], rtol=1e-9)


def test_many_rows_are_thinned_evenly():
    X = rows(40)
    kept = X[np.linspace(0, 39, 10).astype(int)]
    thinned = median_distance(X, np.ones(40), "sqdist", max_rows=10)
    assert thinned == median_distance(kept, np.ones(10), "sqdist")


def test_grids_do_not_depend_on_sparsity():
    dense = bandwidth_grid(RBF, rows(), np.ones(40))
    sparse = bandwidth_grid(RBF, sp.csr_matrix(rows()), np.ones(40))
    assert_array_equal(np.round([k.sigma for k in sparse], 10), np.round([k.sigma for k in dense], 10))
