"""Shapley values of eight columns by their definition: all 256 sets, all combinations of the background's values."""

import itertools
import math

import numpy as np
import pytest

from manykernels import MKLRegressor
from manykernels.families import Gaussians, Products
from manykernels.findings import shapley
from manykernels.solvers import Greedy

D = 8


def worth(model, x, background):
    """Return what every set of columns is worth: the mean prediction with these columns known."""
    grid = np.array(list(itertools.product(*background.T)))
    sets = [S for k in range(D + 1) for S in itertools.combinations(range(D), k)]
    out = {}
    for S in sets:
        rows = grid.copy()
        rows[:, list(S)] = x[list(S)]
        out[S] = model.predict(rows).mean()
    return out


def by_definition(v):
    phi = np.zeros(D)
    for j in range(D):
        others = [i for i in range(D) if i != j]
        for k in range(D):
            for S in itertools.combinations(others, k):
                phi[j] += (v[tuple(sorted((*S, j)))] - v[S]) / (D * math.comb(D - 1, k))
    return phi


@pytest.mark.parametrize("kind", ["products", "bandwidths"])
def test_eight_columns_by_the_definition(kind):
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, (60, D))
    y = X[:, 0] * X[:, 1] * X[:, 2] + X[:, 3] * X[:, 4] + X[:, 5] ** 2 + X[:, 6] - X[:, 7]
    made = {
        "products": lambda: MKLRegressor(Products(degree=3), solver=Greedy(max_kernels=6), C=1e3),
        "bandwidths": lambda: MKLRegressor(Gaussians(ard=True), C=10.0),
    }
    model, background = made[kind]().fit(X, y), X[:2]
    x = X[5]
    v = worth(model, x, background)
    found = np.asarray(shapley(model, x[None], background))[0]
    # Coefficients of both signs cost some digits; the values are of order one.
    assert found == pytest.approx(by_definition(v), abs=1e-9)
    assert found.sum() == pytest.approx(v[tuple(range(D))] - v[()], abs=1e-9)
