"""Spectra that serve many targets: generalised cross-validation, and rows left out, against their definitions."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from manykernels.solvers.leave_one_out.spectra import ColumnSystem, PairSystem, SpectralTrials

THETA, LOG_NOISES = np.array([0.7, 0.0, 0.3]), np.log([0.05, 0.5, 5.0])


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    phi, owner = rng.normal(size=(40, 9)), np.repeat([0, 1, 2], 3)
    return phi, owner, rng.normal(size=(40, 4)) + phi[:, :4], rng.uniform(0.5, 2.0, 40)


def machine(rows, noise):
    """Return the kernel with the intercept's, and the smoother H = K (K + diag(noise/s))⁻¹."""
    phi, owner, _, s = rows
    K = (phi * THETA[owner]) @ phi.T + 1.0
    return K, K @ np.linalg.inv(K + np.diag(noise / s))


def test_errors_are_those_of_generalised_cross_validation(rows):
    phi, owner, Y, s = rows
    found = ColumnSystem(phi, owner, Y, s).spectrum(THETA).errors(LOG_NOISES)
    for k, noise in enumerate(np.exp(LOG_NOISES)):
        _, H = machine(rows, noise)
        squares = (s[:, None] * np.square(Y - H @ Y)).sum(axis=0)
        # Targets' parts along the eigenvectors are in single precision.
        assert_allclose(found[k], squares / (1 - np.trace(H) / len(Y)) ** 2, rtol=1e-5)


def test_columns_and_pairs_have_the_same_spectrum(rows):
    phi, owner, Y, s = rows
    K = np.stack([phi[:, owner == i] @ phi[:, owner == i].T for i in range(3)])
    left = np.arange(40) % 3 == 0
    both = ColumnSystem(phi, owner, Y, s), PairSystem(K, Y, s)
    for systems in (both, [one.without(left) for one in both]):
        # Single precision, in the targets' parts and in the kernels.
        assert_allclose(*(one.spectrum(THETA).errors(LOG_NOISES) for one in systems), rtol=1e-4)


def test_rows_left_out_are_predicted_by_the_others(rows):
    phi, owner, Y, s = rows
    factor = np.random.default_rng(1).uniform(1.0, 1.5, 40)
    for r in (None, factor):
        own = phi if r is None else phi * r[:, None]
        found = ColumnSystem(phi, owner, Y, s).left_out(THETA, np.log(0.5), np.array([1, 3]), r)
        K, _ = machine((own, owner, Y, s), 0.5)
        for t in (0, 17):
            left = np.arange(40) != t
            A = np.linalg.solve(K[np.ix_(left, left)] + np.diag(0.5 / s[left]), Y[left][:, [1, 3]])
            assert_allclose(found[t], K[t, left] @ A, rtol=1e-9)


def test_a_fold_does_not_choose_its_own_weights(rows):
    phi, owner, Y, s = rows
    folds = np.arange(40) % 2 == np.arange(2)[:, None]
    trials = SpectralTrials([(ColumnSystem(phi, owner, Y, s), np.arange(40))], folds)
    trials.add(THETA, LOG_NOISES)
    changed = np.where(folds[1][:, None], 100.0 * Y, Y)
    other = SpectralTrials([(ColumnSystem(phi, owner, changed, s), np.arange(40))], folds)
    other.add(THETA, LOG_NOISES)
    assert_allclose(trials.totals(without=1), other.totals(without=1))
    assert not np.allclose(trials.totals(without=0), other.totals(without=0))
