"""Small weights are left out where rows left out do not miss them, and only there."""

import numpy as np

from manykernels import MKLRegressor


def test_a_view_that_needs_little_weight_keeps_it():
    # Without noise λ is tiny, and so is the weight that a linear effect needs; without it R² was below zero.
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((2, 240, 3))
    y = A[:, 0] + B[:, 0] * B[:, 1]
    train = {"rna": A[:120], "mri": B[:120]}
    model = MKLRegressor().fit(train, y[:120])
    assert model.score({"rna": A[120:], "mri": B[120:]}, y[120:]) > 0.98
    assert model.loo_score_ > 0.98


def test_kernels_of_no_account_are_left_out():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((120, 4))
    model = MKLRegressor().fit(X, X[:, 0] + 0.5 * rng.standard_normal(120))
    shares = model.weights_ * model.rho_**2
    assert len(shares) < 13 and shares.min() >= 1e-2 * shares.max()  # thirteen candidates
