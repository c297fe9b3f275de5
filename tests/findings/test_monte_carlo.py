"""Components against Monte Carlo integration, which knows nothing but predictions."""

import itertools

import numpy as np
import pytest

from manykernels import MKLRegressor
from manykernels.families import Products
from manykernels.findings import components, shapley, shares
from manykernels.kernels import RBF, Laplacian, Linear
from manykernels.solvers import Greedy, PolynomialMKL, Uniform


def random_model(seed):
    """Return a fitted model with kernels, a solver and columns of its own kind, and its rows."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(3, 6))
    X = rng.normal(size=(50, d)) @ (np.eye(d) + 0.3 * rng.normal(size=(d, d))) + rng.normal(size=d)
    y = X[:, 0] * X[:, 1] + np.sin(X[:, 2]) + 0.2 * rng.normal(size=50)
    base = [(RBF, Laplacian)[rng.integers(2)](rng.uniform(1, 3), columns=[j]) for j in range(d)]
    kinds = [
        (Products(degree=3), Greedy(max_kernels=5)),
        (Products(degree=3, base=base), Uniform()),
        (Products(degree=2, base=base, count="ordered"), Greedy(max_kernels=4)),
        (base, PolynomialMKL(degree=2)),
        ([RBF(3.0), Laplacian(4.0), Linear()], Uniform()),
    ]
    kernels, solver = kinds[seed % len(kinds)]
    return MKLRegressor(kernels, solver=solver, C=10.0).fit(X, y), X


def integrated(model, X, S, rng, size=2000):
    """Return E f(x_S, x'_-S) at some rows, columns of x' drawn from their margins, and the standard errors."""
    draws = np.column_stack([rng.choice(column, size) for column in X.T])
    means, errors = [], []
    for x in X[:4]:
        points = draws.copy()
        points[:, list(S)] = x[list(S)]
        f = model.predict(points)
        means.append(f.mean())
        errors.append(f.std() / np.sqrt(size))
    return np.array(means), np.array(errors)


@pytest.mark.parametrize("seed", range(10))
def test_components_agree_with_monte_carlo_integration(seed):
    model, X = random_model(seed)
    found, rng = components(model, X), np.random.default_rng(seed)
    values = dict(zip(found.components, found.values[:4].T))
    for S in [(), (0,), (2,), (0, 1), (1, 2), (0, 1, 2)]:
        means, errors = integrated(model, X, S, rng)
        parts = [values.get(R, 0.0) for k in range(1, len(S) + 1) for R in itertools.combinations(S, k)]
        # 240 comparisons over all seeds: five standard errors are passed by chance in one run of 10,000.
        assert (np.abs(found.constant + sum(parts) - means) <= 5 * errors + 1e-9).all()


def test_kernels_on_many_columns_leave_a_rest_and_add_up():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(70, 10))
    y = X[:, 0] * X[:, 1] + np.sin(X[:, 2]) + 0.3 * X[:, 3] * X[:, 4] * X[:, 5] * X[:, 6]
    model = MKLRegressor([RBF(3.0)], solver=Uniform(), C=100.0).fit(X, y)
    found = components(model, X)
    assert found.components[-1] == () and found.orders[-1] == 4 and not found.exact[-1]
    assert found.exact[:-1].all()
    assert len(found.components) == 10 + 45 + 120 + 1
    assert np.abs(found.values.sum(axis=1) + found.constant - model.predict(X)).max() <= 1e-9
    phi = shapley(model, X[:5], X)
    assert np.abs(np.asarray(phi).sum(axis=1) + phi.constant - model.predict(X[:5])).max() <= 1e-9
    # The rest's variance against that of scores at other points of the product of the margins.
    points = np.column_stack([rng.choice(column, 10_000) for column in X.T])
    variance = model.predict(points).var()
    assert found.variances.sum() == pytest.approx(variance, rel=0.05)  # the rest is from 512 points
    sobol = shares(model, X)
    changed = points.copy()
    changed[:, 0] = rng.choice(X[:, 0], len(points))
    total = np.square(model.predict(points) - model.predict(changed)).mean() / 2 / variance
    assert abs(sobol.total[0] - total) <= 4 * sobol.total_error[0] + 0.02


def test_shapley_values_of_many_columns_agree_with_random_orders():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(40, 9))
    model = MKLRegressor([RBF(4.0), Laplacian(9.0)], solver=Uniform(), C=10.0).fit(
        X, X[:, 0] * X[:, 1] + X[:, 2]
    )
    exact, size = np.asarray(shapley(model, X[:1], X))[0], 4000
    gains = np.zeros((size, 9))
    now = np.column_stack([rng.choice(column, size) for column in X.T])
    orders = np.array([rng.permutation(9) for _ in range(size)])
    before = model.predict(now)
    for step in orders.T:
        now[np.arange(size), step] = X[0, step]
        after = model.predict(now)
        gains[np.arange(size), step] = after - before
        before = after
    assert (np.abs(gains.mean(axis=0) - exact) <= 5 * gains.std(axis=0) / np.sqrt(size)).all()
