"""How many members of low selection probability are expected among those selected often: Shah and Samworth's bounds."""

from __future__ import annotations

from functools import cache
from typing import Literal, get_args

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from .._util.text import brief

#: What is assumed of how often a member of low selection probability is selected.
Assumption = Literal["r-concave", "unimodal", "none"]
#: The unimodal bound holds for selection probabilities up to this.
MOST_UNIMODAL = 1 / np.sqrt(3)


def selection_bound(
    n_selected: float, n_kernels: float, threshold: float, n_pairs: int, assumption: Assumption = "unimodal"
) -> float:
    """Return a bound on E|{i : frequency_i ≥ τ, p_i ≤ θ}|, θ = q/m, for complementary pairs of half samples.

    p_i is the probability that a fit on half of the rows selects member i, q = `n_selected` the expected number that
    it selects and m = `n_kernels` how many there are. With B pairs and Π̃ the share of pairs in which *both* halves
    select a member,

    - ``"none"``: θ q/(2τ - 1) for τ > 1/2, whatever the distribution of Π̃ (Theorem 1);
    - ``"unimodal"``: C(τ, B) θ q, where Π̃ is unimodal for the members in question and θ ≤ 1/√3 (Theorem 2):
      C = 1/(2(2τ - 1 - 1/(2B))) up to τ = 3/4, 4(1 - τ + 1/(2B))/(1 + 1/B) beyond;
    - ``"r-concave"``: m min{D(θ², 2τ - 1, B, -1/2), D(θ, τ, 2B, -1/4)}, where the distributions of Π̃ and of the
      frequency are r-concave with r = -1/2 and -1/4 (equation 8); D is the largest tail probability there is.

    Where an assumption has nothing to say, at large θ or small τ, the next weaker one is used, and m is never exceeded.

    Parameters
    ----------
    n_selected : float
    n_kernels : float
        Infinity for a continuum: then the bound is 0, and says nothing.
    threshold : float
        τ.
    n_pairs : int
        B.
    assumption : {"r-concave", "unimodal", "none"}

    Returns
    -------
    float

    References
    ----------
    Shah, Samworth (2013), *Variable selection with error control: another look at stability selection*.
    """
    if assumption not in get_args(Assumption):
        names = ", ".join(map(repr, get_args(Assumption)))
        raise ValueError(f"assumption is {brief(assumption)}; use one of {names}.")
    q, m, B = float(n_selected), float(n_kernels), int(n_pairs)
    theta = q / m
    found = [m, _worst(theta, q, threshold)]
    if assumption != "none":
        found.append(_unimodal(theta, q, threshold, B))
    if assumption == "r-concave" and np.isfinite(m):
        pairs = round(2 * B * threshold)  # halves that select it, and at least this many more than B in both
        both = _tail(round(theta**2, 12), pairs - B, B, -0.5) if pairs > B else 1.0
        found.append(m * min(both, _tail(round(theta, 9), pairs, 2 * B, -0.25)))
    return float(min(found))


def _worst(theta: float, q: float, tau: float) -> float:
    return theta * q / (2 * tau - 1) if tau > 0.5 else np.inf


def _unimodal(theta: float, q: float, tau: float, B: int) -> float:
    """Theorem 2."""
    lowest = min(0.5 + theta**2, 0.5 + 1 / (2 * B) + 0.75 * theta**2)
    if theta > MOST_UNIMODAL or tau <= lowest or tau < 0.5 + 1 / B - 1e-12:
        return np.inf
    factor = (
        1 / (2 * (2 * tau - 1 - 1 / (2 * B))) if tau <= 0.75 else 4 * (1 - tau + 1 / (2 * B)) / (1 + 1 / B)
    )
    return factor * theta * q


@cache
def _tail(mean: float, least: int, B: int, r: float) -> float:
    """Return D: the largest P(X ≥ least/B) of r-concave X on {0, 1/B, ..., 1} with E X ≤ mean; 1 where unknown.

    The extreme distributions have f(i) ∝ (a + i)^(1/r) for i ≤ k and what is left at k + 1 (Shah and Samworth 2013,
    appendix A.4): for each k, a is between the values at which the mean is reached with k and with k + 1 points.
    """
    eta = mean * B
    first = int(np.ceil(2 * eta)) + 1
    if least < first or first > B - 1:
        return 1.0
    if eta == 0:
        return 0.0
    shortest = max(first, least - 1)  # fewer points do not reach the tail
    ends = [_spread(eta, k, 1 / r) for k in range(shortest, B + 1)]
    best = 0.0
    for k, high, low in zip(range(shortest, B), ends[:-1], ends[1:], strict=True):
        best = max(best, _largest(eta, least, k, low, high, 1 / r))
    return min(best, 1.0)


def _spread(eta: float, k: int, s: float) -> float:
    """Return log a for which the mean of f(i) ∝ (a + i)^s, i ≤ k, is eta; it lies below k/2, that of large a."""
    i = np.arange(k + 1)

    def excess(log_a: float) -> float:
        f = (1 + i / np.exp(log_a)) ** s
        return float(i @ f / f.sum()) - eta

    return float(brentq(excess, -60.0, 40.0, xtol=1e-13)) if excess(-60.0) < 0 else -60.0


def _largest(eta: float, least: int, k: int, low: float, high: float, s: float) -> float:
    """Return the largest P(X ≥ least) over a, for distributions on k + 1 points and a last one."""
    i = np.arange(k + 1)

    def tail(log_a: float) -> float:
        f = (1 + i / np.exp(log_a)) ** s
        return 1 - (k + 1 - eta) * float(f[:least].sum()) / float((k + 1 - i) @ f)

    inner = minimize_scalar(lambda a: -tail(a), bounds=(min(low, high), max(low, high)), method="bounded")
    return max(tail(low), tail(high), -float(inner.fun))
