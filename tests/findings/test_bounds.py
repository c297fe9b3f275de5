"""Shah and Samworth's bounds against the largest tails that linear programmes and random distributions reach."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

from manykernels.findings import selection_bound
from manykernels.findings.bounds import _tail


def largest_tail(mean, least, B, mode=None):
    """Return the largest P(X ≥ least/B) of X on {0, ..., 1} with E X ≤ mean; with a mode, of unimodal ones."""
    i = np.arange(B + 1)
    A, b = [i / B], [mean]
    if mode is not None:
        for j in range(B):
            step = np.zeros(B + 1)
            step[j], step[j + 1] = (1, -1) if j < mode else (-1, 1)
            A.append(step)
            b.append(0.0)
    found = linprog(-(i >= least).astype(float), np.array(A), b, np.ones((1, B + 1)), [1.0], bounds=(0, 1))
    return -found.fun if found.success else 0.0  # no such distribution


# P(frequency ≥ τ) ≤ P(Π̃ ≥ 2τ - 1), Π̃ the share of pairs in which both halves select a member: E Π̃ = θ².
@pytest.mark.parametrize("pairs", [52, 60, 70, 80, 95, 100])
def test_worst_case_is_the_largest_tail_of_all_distributions(pairs):
    B, q, m = 50, 40.0, 400.0
    tail = largest_tail((q / m) ** 2, pairs - B, B)
    assert selection_bound(q, m, pairs / (2 * B), B, "none") == pytest.approx(m * tail, rel=1e-9)


@pytest.mark.parametrize("theta", [0.02, 0.1, 0.3])
@pytest.mark.parametrize("pairs", [52, 60, 74, 76, 90, 100])
def test_unimodal_bound_holds_for_every_unimodal_distribution(theta, pairs):
    B, m = 50, 1000.0
    tail = max(largest_tail(theta**2, pairs - B, B, mode) for mode in (0, 1, pairs - B, B))
    bound = selection_bound(theta * m, m, pairs / (2 * B), B, "unimodal")
    assert bound >= m * tail * (1 - 1e-9)
    assert bound <= 2.5 * m * tail  # and could not be much smaller


@pytest.mark.parametrize(
    "mean, least, B, r", [(0.05, 4, 20, -0.5), (0.0025, 10, 50, -0.5), (0.05, 31, 100, -0.25)]
)
def test_r_concave_distributions_stay_below_the_bound(mean, least, B, r):
    rng = np.random.default_rng(0)
    most = 0.0
    for _ in range(3000):
        k = rng.integers(max(least, 2), B + 1)
        slopes = np.cumsum(rng.random(k + 1) ** rng.integers(1, 30))
        g = np.cumsum(slopes) * np.exp(rng.normal(0, 4)) + np.exp(rng.normal(-1, 4))  # convex, as f^r must be
        f = (g / g[0]) ** (1 / r)
        f /= f.sum()
        if f @ np.arange(k + 1) <= mean * B:
            most = max(most, f[least:].sum())
    bound = _tail(mean, least, B, r)
    assert 0.2 * bound < most <= bound


def test_stronger_assumptions_give_smaller_bounds_and_none_exceeds_the_number_of_kernels():
    for tau in (0.4, 0.52, 0.6, 0.75, 0.9, 1.0):
        found = [selection_bound(50, 1000, tau, 50, a) for a in ("none", "unimodal", "r-concave")]
        assert sorted(found, reverse=True) == found
        assert found[0] <= 1000


def test_an_unknown_assumption_is_named():
    with pytest.raises(
        ValueError, match="assumption is 'normal'; use one of 'r-concave', 'unimodal', 'none'"
    ):
        selection_bound(1, 10, 0.6, 50, "normal")
