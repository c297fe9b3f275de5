"""Every kernel through the same contract; a new one is added to KERNELS in cases.py."""

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from manykernels.kernels import pairwise_statistic

from .cases import KERNELS, N_COLUMNS, rows

NAMES = list("abcd")


@pytest.fixture(params=KERNELS)
def kernel(request):
    return KERNELS[request.param]().resolve(N_COLUMNS, None)


RESOLVED = {name: make().resolve(N_COLUMNS, None) for name, make in KERNELS.items()}
WITH_COLUMNS = [name for name, k in RESOLVED.items() if k.columns is not None]
EXPLICIT = [name for name, k in RESOLVED.items() if k.explicit]


SPLIT = [name for name, k in RESOLVED.items() if k.splits is not None]


@pytest.fixture(params=KERNELS)
def described(request):
    """The kernel as a user writes it."""
    return KERNELS[request.param]()


def test_gram_is_symmetric(kernel):
    K = kernel(rows())
    # Products of rows are computed block by block, so mirrored entries may differ by rounding.
    np.testing.assert_allclose(K, K.T, atol=1e-13 * np.abs(K).max())


@pytest.mark.parametrize("name", KERNELS)
@settings(max_examples=15)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 25), scale=st.sampled_from([1e-3, 1.0, 30.0]))
def test_gram_is_positive_semi_definite(name, seed, n, scale):
    kernel = KERNELS[name]().resolve(N_COLUMNS, None)
    K = kernel(scale * rows(n, seed))
    low, high = np.linalg.eigvalsh(K)[[0, -1]]
    assert low >= -1e-12 * n * max(high, 1e-12)  # the rounding of n entries of the size of the largest


def test_diag_is_the_diagonal_of_the_gram(kernel):
    X = rows(150)  # more than one block of rows for kernels that compute it in blocks
    np.testing.assert_allclose(kernel.diag(X), np.diagonal(kernel(X)), rtol=1e-12, atol=1e-14)


def test_cross_gram_is_a_part_of_the_whole(kernel):
    X = rows(30)
    np.testing.assert_allclose(kernel(X[:10], X[10:]), kernel(X)[:10, 10:], rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", WITH_COLUMNS)
def test_columns_mean_a_slice_of_the_rows(name):
    kernel = RESOLVED[name]
    picked, plain = rows()[:, kernel.columns], clone(kernel).set_params(columns=None)
    np.testing.assert_array_equal(kernel(rows()), plain(picked))
    np.testing.assert_array_equal(kernel.diag(rows()), plain.diag(picked))


@pytest.mark.parametrize("name", WITH_COLUMNS)
def test_other_columns_do_not_matter(name):
    kernel, X = RESOLVED[name], rows()
    changed = np.full_like(X, 7.0)
    changed[:, kernel.columns] = X[:, kernel.columns]
    np.testing.assert_array_equal(kernel(changed), kernel(X))


@pytest.mark.parametrize("name", sorted(set(RESOLVED) - set(EXPLICIT)))
def test_kernels_without_explicit_features_say_so(name):
    with pytest.raises(NotImplementedError, match=type(RESOLVED[name]).__name__):
        RESOLVED[name].features(rows())


@pytest.mark.parametrize("name", EXPLICIT)
def test_explicit_features_reproduce_the_gram(name):
    kernel, X, Z = RESOLVED[name], rows(20), rows(9, seed=3)
    np.testing.assert_allclose(
        kernel.features(X) @ kernel.features(Z).T, kernel(X, Z), rtol=1e-12, atol=1e-13
    )


@pytest.mark.parametrize("name", EXPLICIT)
def test_width_is_the_number_of_explicit_features(name):
    kernel = RESOLVED[name]
    assert kernel.width(N_COLUMNS) == kernel.features(rows()).shape[1]


@pytest.mark.parametrize("container", [sp.csr_matrix, sp.csr_array])
def test_sparse_rows_give_the_dense_gram(kernel, container):
    X, Z = rows(), rows(9, seed=4)
    np.testing.assert_allclose(kernel(container(X), container(Z)), kernel(X, Z), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(kernel.diag(container(X)), kernel.diag(X), rtol=1e-12, atol=1e-12)


def test_gram_is_a_dense_float_array(kernel):
    K = kernel(sp.csr_matrix(rows()))
    assert type(K) is np.ndarray and K.dtype == np.float64


def test_from_statistic_returns_a_new_array_and_leaves_its_input(kernel):
    if kernel.statistic is None:
        with pytest.raises(NotImplementedError, match=type(kernel).__name__):
            kernel.from_statistic(np.eye(2))
        return
    Xs = kernel.select(rows())
    S = pairwise_statistic(kernel.statistic, Xs, Xs)
    before = S.copy()
    S.setflags(write=False)
    values = kernel.from_statistic(S)
    np.testing.assert_array_equal(S, before)
    assert not np.shares_memory(values, S)
    np.testing.assert_allclose(values, kernel(rows()), rtol=1e-12, atol=1e-13)


def test_gram_leaves_the_rows(kernel):
    X = rows()
    before = X.copy()
    X.setflags(write=False)
    kernel(X)
    kernel.diag(X)
    np.testing.assert_array_equal(X, before)


def test_clone_has_the_same_parameters(described):
    copy = clone(described)
    assert copy is not described
    assert repr(copy) == repr(described)
    assert set(copy.get_params()) == set(described.get_params())


def test_repr_names_the_class(described):
    assert repr(described).startswith(type(described).__name__ + "(")


def test_pickle_keeps_the_values(kernel):
    copy = pickle.loads(pickle.dumps(kernel))
    np.testing.assert_array_equal(copy(rows()), kernel(rows()))


def test_resolve_leaves_the_description(described):
    before = repr(described), described.columns
    resolved = described.resolve(N_COLUMNS, NAMES)
    assert (repr(described), described.columns) == before
    assert resolved is not described


def test_resolve_twice_changes_nothing(kernel):
    again = kernel.resolve(N_COLUMNS, None)
    np.testing.assert_array_equal(again(rows()), kernel(rows()))


@pytest.mark.parametrize("name", WITH_COLUMNS)
def test_column_names_mean_their_positions(name):
    kernel = RESOLVED[name]
    named = clone(kernel).set_params(columns=[NAMES[j] for j in kernel.columns])
    frame = pd.DataFrame(rows(), columns=NAMES)
    resolved = named.resolve(N_COLUMNS, frame.columns)
    np.testing.assert_allclose(resolved(frame.to_numpy()), kernel(rows()), rtol=1e-13, atol=1e-14)


def test_label_is_short_text_without_memory_addresses(kernel):
    label = kernel.label(NAMES)
    assert 0 < len(label) < 60 and " at 0x" not in label


def test_label_shows_the_names_of_the_columns(kernel):
    if kernel.columns is None:
        assert "[" not in kernel.label(NAMES)
    else:
        assert all(NAMES[j] in kernel.label(NAMES) for j in kernel.columns)


def test_parameters_for_tables_leave_the_columns_out(kernel):
    assert "columns" not in kernel.parameters()


@pytest.mark.parametrize("name", SPLIT)
def test_a_kernel_that_splits_is_made_of_its_parts(name):
    kernel, X = RESOLVED[name], rows()
    parts = [[0, 2], [1], [3]]
    seen = range(N_COLUMNS) if kernel.columns is None else kernel.columns.tolist()
    grams = [kernel.on(part)(X[:, part]) for part in parts if set(part) & set(seen)]
    whole = np.prod(grams, axis=0) if kernel.splits == "product" else np.sum(grams, axis=0)
    np.testing.assert_allclose(whole, kernel(X), atol=1e-12 * np.abs(whole).max())


def test_a_kernel_on_its_columns_is_the_kernel(kernel):
    if kernel.columns is not None:
        wider = [*reversed(range(N_COLUMNS))]
        np.testing.assert_allclose(kernel.on(wider)(rows()[:, wider]), kernel(rows()), atol=1e-12)
