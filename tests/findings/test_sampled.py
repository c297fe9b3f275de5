"""Predictors that are known by samples: estimates that are close, carry their errors, and add up."""

import numpy as np
import pytest

from manykernels import MKLRegressor
from manykernels.families import Products
from manykernels.findings import components, shapley, shares
from manykernels.findings.reading import read
from manykernels.findings.sampling import Sampled
from manykernels.kernels import Laplacian, Polynomial
from manykernels.solvers import Blockwise, Greedy


@pytest.fixture(scope="module")
def blockwise():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = X[:, 0] * X[:, 1] + 2 * np.sin(X[:, 2])
    return MKLRegressor([Laplacian(3.0)], solver=Blockwise(grids=32), C=10.0, random_state=0).fit(X, y), X


def test_random_features_give_estimates_with_errors(blockwise):
    model, X = blockwise
    found = components(model, X)
    table = found.table()
    assert not table["exact"].any() and (table["standard_error"] > 0).all()
    assert {(2,), (0, 1), ()} <= set(found.components)
    assert dict(zip(found.components, found.shares))[(2,)] > 0.4


def test_estimated_components_add_up_to_the_prediction(blockwise):
    model, X = blockwise
    found = components(model, X[:100])
    assert np.abs(found.values.sum(axis=1) + found.constant - model.predict(X[:100])).max() <= 1e-9
    phi = shapley(model, X[:5], X)
    assert np.abs(np.asarray(phi).sum(axis=1) + phi.constant - model.predict(X[:5])).max() <= 1e-9
    assert (phi.errors > 0).all()


def exact_and_sampled():
    rng = np.random.default_rng(2)
    X = rng.uniform(0, 1, (60, 3))
    model = MKLRegressor(Products(degree=3, standardize=False), solver=Greedy(max_kernels=5), C=1e3)
    model.fit(X, 3 * X[:, 0] * X[:, 1] + X[:, 2] ** 2)
    exact = read(model, X)
    return model, X, exact, Sampled(exact.variables, X, model.result_.predictor.scores)


def test_samples_agree_with_the_closed_form():
    _, X, exact, sampled = exact_and_sampled()
    subsets = exact.subsets(2)
    truth, (values, errors) = exact.values(X[:6], subsets), sampled.estimates(X[:6], subsets)
    assert (np.abs(values - truth) <= 5 * errors + 1e-12).all()  # some 36 comparisons
    known, guessed = exact.variances(subsets, True), sampled.variances(subsets, False)
    assert (np.abs(known.values - guessed.values) <= 5 * guessed.errors).all()
    assert abs(exact.constant - sampled.constant) <= 0.02 * np.sqrt(known.values.sum())
    right, (phi, deviations, _) = exact.shapley(X[:4])[0], sampled.shapley(X[:4])
    assert (np.abs(phi - right) <= 5 * deviations + 0.02 * np.sqrt(known.values.sum())).all()
    grid = [np.linspace(0, 1, 5)[:, None], np.linspace(0, 1, 4)[:, None]]
    on_grid, grid_errors = sampled.on_grid(subsets[3], grid)
    assert (np.abs(on_grid - exact.on_grid(subsets[3], grid)[0]) <= 5 * grid_errors + 1e-12).all()


def test_a_kernel_on_everything_at_once_is_sampled():
    X = np.random.default_rng(3).normal(size=(80, 3))
    model = MKLRegressor([Polynomial(2)], C=10.0).fit(X, X[:, 0] * X[:, 1] + X[:, 2])
    found = components(model, X)
    assert not found.exact.any()
    # (x0 x1 + x2) has two components of equal variance, about.
    assert dict(zip(found.components, found.shares))[(0, 1)] == pytest.approx(0.5, abs=0.1)
    assert shares(model, X).total_error.all()
