"""Predictors that are known by samples: estimates that are close, carry their errors, and add up."""

import numpy as np
import pytest

from manykernels import MKLRegressor
from manykernels.families import Products
from manykernels.findings import components, shapley, shares
from manykernels.findings.expansion import drawn
from manykernels.findings.reading import read
from manykernels.findings.sampling import Sampled
from manykernels.kernels import Laplacian, Polynomial
from manykernels.solvers import Blockwise, Greedy, Uniform
from manykernels.tables import Origin


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


@pytest.mark.parametrize("kind", ["a list of terms", "all products at once"])
def test_one_pass_tells_how_scores_change_with_each_variable(kind):
    if kind == "a list of terms":
        _, X, exact, sampled = exact_and_sampled()
    else:
        X = np.random.default_rng(4).uniform(0, 1, (40, 4))
        model = MKLRegressor(
            Products(degree=3, base=[Laplacian(1.0, columns=[j]) for j in range(4)]), solver=Uniform()
        )
        exact = read(model.fit(X, X[:, 0] * X[:, 1] + X[:, 3]), X)
        sampled = Sampled(exact.variables, X, model.result_.predictor.scores)
    others = X[::-1]
    changes = exact.changes(X, others)
    assert np.ptp(changes) > 0.1
    # Both add up the same numbers in another order.
    np.testing.assert_allclose(
        changes, sampled.changes(X, others), atol=1e-9 * np.abs(sampled.scores(X)).max()
    )


def test_shapley_values_of_hundreds_of_columns_add_up():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(40, 300))
    model = MKLRegressor([Laplacian(400.0)], C=100.0).fit(X, X[:, 0] * X[:, 1])
    phi = shapley(model, X[:4], X)
    # The integral of a product of 300 factors has fewer points than would make it exact: it is, to rounding.
    left = np.asarray(phi).sum(axis=1) + phi.constant - model.predict(X[:4])
    assert np.abs(left).max() <= 1e-9 * np.abs(X[:, 0] * X[:, 1]).max()


def test_points_of_the_margins_take_time_linear_in_the_columns():
    read_values = 0

    class Counted(np.ndarray):
        def __getitem__(self, key):
            nonlocal read_values
            out = super().__getitem__(key)
            read_values += np.size(out)
            return out

    X = np.random.default_rng(6).normal(size=(20, 200)).view(Counted)
    variables = [Origin(f"x{j}", (j,), (j,)) for j in range(200)]
    points = drawn(variables, X, 50, 0)
    assert points.shape == (50, 200)
    assert read_values <= 3 * points.size
