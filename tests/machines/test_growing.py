"""Ridge regression on columns that come one after the other, against the machine that starts afresh."""

import numpy as np
import pytest

from manykernels.machines import GrowingRidge, solve_primal


@pytest.mark.parametrize("C", [1e-3, 1.0, 1e4])
def test_it_is_the_machine_on_all_columns(C):
    rng = np.random.default_rng(0)
    columns, Y = rng.standard_normal((50, 9)), rng.standard_normal((50, 2))
    s = rng.exponential(size=50)
    s[:5] = 0
    ridge = GrowingRidge(Y, C, s)
    for k in (0, 1, 4, 4, 9):
        weights = rng.uniform(0, 2, k)
        weights[:1] = 0
        fit = ridge.solve(columns[:, :k], weights)
        Z = np.column_stack([columns[:, :k] * np.sqrt(weights), np.ones(50)])
        other = solve_primal(Z, Y, "squared", C, s)
        np.testing.assert_allclose(fit.F, other.F, rtol=1e-8, atol=1e-9)  # both are solved to 1e-10
        np.testing.assert_allclose(fit.A, other.A, rtol=1e-6, atol=1e-9 * np.abs(other.A).max())
        np.testing.assert_allclose(fit.W, other.W, rtol=1e-7, atol=1e-9)
        assert fit.gap <= 1e-12


def test_columns_can_be_left_out_and_others_added():
    rng = np.random.default_rng(1)
    columns, Y = rng.standard_normal((30, 6)), rng.standard_normal((30, 1))
    ridge = GrowingRidge(Y, 1.0, np.ones(30))
    ridge.solve(columns, np.ones(6))
    kept = np.array([1, 4])
    ridge.keep(kept)
    assert ridge.n_columns == 2
    wider = np.column_stack([columns[:, kept], columns[:, 0]])
    fresh = GrowingRidge(Y, 1.0, np.ones(30)).solve(wider, np.ones(3))
    np.testing.assert_allclose(ridge.solve(wider, np.ones(3)).F, fresh.F, rtol=1e-10)


def test_twins_and_vanishing_columns_are_solved():
    x = np.random.default_rng(2).standard_normal((40, 1))
    columns = np.column_stack([x, x, np.zeros(40)])
    fit = GrowingRidge(x, 1e8, np.ones(40)).solve(columns, np.ones(3))
    np.testing.assert_allclose(fit.F, x, atol=1e-6)
