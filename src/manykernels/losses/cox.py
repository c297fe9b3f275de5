"""The partial likelihood of times that may be censored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import xlogy

from .._util.checks import choice
from .base import DOMAIN_SLACK, Loss, project_simplex

#: Scores this far below the largest count as that far in curvatures: the squares of their exponentials are floats.
FARTHEST = 300.0
#: Losses are small, and want all their digits, where exponentials are below that of this many times an event's.
NEAR = 30.0
#: Halvings of [0, 1] that find a number to the last digit.
HALVINGS = 60


class Cox(Loss):
    r"""Minus the logarithm of the partial likelihood of right-censored times, of all rows together.

    With t an event time, ``R_t`` the rows whose time is t or later, ``E_t`` those with an event at t, and ``d_t`` the
    sum of the weights of ``E_t``,

        L(f) = sum_t d_t log( sum_{j in R_t} w_j exp(f_j) / d_t ) - sum_{j with event} w_j f_j        (Breslow),

    which is never negative. Without ties and weights it is the usual one; otherwise that less ``sum_t d_t log d_t``,
    with which a weight equals a repetition. Efron's rule takes the rows of a tie away one after the other, on average:
    of m rows of the mean weight ``a = d_t/m``, in place of the first sum

        sum_t sum_{l < m} a log( (sum_{R_t} w_j exp(f_j) - (l/m) sum_{E_t} w_j exp(f_j)) / a ).

    Weights are those of R's ``survival``; with Efron's rule a repetition of an event is one more tie, and no weight.

    The conjugate is an entropy over risk sets: with ``v_j = u_j + w_j [event]``, ``V_t`` the sum of v over the rows
    that leave at or after t and before the next event time, and ``r_t = r_{t-1} + d_t - V_t``,

        L*(u) = sum_j v_j log(v_j/w_j) + sum_t [d_t log d_t + r_t log r_t - (r_{t-1} + d_t) log(r_{t-1} + d_t)]

    on ``v >= 0, r >= 0``, ``r = 0`` after the last event (Breslow): every event time has the mass ``d_t`` to share out
    over its risk set, v_j is what a row gets, and r_t what is left for rows to come. With Efron's rule each tie adds
    one number, the share of ``E_t`` in the risk set, that solves an increasing equation. Scores are defined up to a
    constant: ``sum(u) = 0``, so that an intercept is zero.

    Targets are times, negative where they are censored; only their order counts, and none is zero.

    Parameters
    ----------
    ties : {"breslow", "efron"}
        What to do with events at the same time.

    References
    ----------
    Cox, "Regression models and life-tables", JRSS B 34, 1972; Breslow, discussion of the same; Efron, "The efficiency
    of Cox's likelihood function for censored data", JASA 72, 1977.
    """

    name = "cox"
    regression = True
    classifies = False
    smooth = True
    joint = True
    rules = {"ties": choice("breslow", "efron")}

    def __init__(self, ties: Literal["breslow", "efron"] = "breslow"):
        self.ties = ties

    def risk_sets(self, Y: np.ndarray, w: np.ndarray) -> RiskSets:
        """Return who is at risk when, for targets (n, 1) and positive weights."""
        return RiskSets.of(Y[:, 0], w, self.ties == "efron")

    def total(self, Y: np.ndarray, F: np.ndarray, w: np.ndarray) -> float:
        return self.risk_sets(Y, w).total(F[:, 0])

    def response(self, Y: np.ndarray, F: np.ndarray, w: np.ndarray) -> np.ndarray:
        return self.risk_sets(Y, w).response(F[:, 0])[:, None]

    def total_conjugate(self, Y: np.ndarray, A: np.ndarray, w: np.ndarray) -> float:
        return self.risk_sets(Y, w).conjugate(-A[:, 0])

    def conjugate_size(self, Y: np.ndarray, A: np.ndarray, w: np.ndarray) -> float:
        return self.risk_sets(Y, w).conjugate_size(-A[:, 0])

    def nearest(self, Y: np.ndarray, A: np.ndarray, w: np.ndarray) -> np.ndarray:
        return -self.risk_sets(Y, w).feasible(-A[:, 0])[:, None]

    def check_targets(self, Y: np.ndarray) -> None:
        if not Y.all():
            raise ValueError("y holds a zero, and loss 'cox' takes times, negative where they are censored.")

    def offset(self, Y: np.ndarray, s: np.ndarray) -> np.ndarray:
        """Return zeros: the likelihood knows differences of scores alone."""
        return np.zeros(Y.shape[1])

    def about(self, offset: np.ndarray, Y: np.ndarray) -> tuple[Cox, np.ndarray]:
        return self, Y

    def residuals(self, Y: np.ndarray, s: np.ndarray) -> np.ndarray:
        """Return the deviance residuals at f = 0, (n, 1).

        Martingale residuals r, one for an event less the hazard that a row has lived through, reach far below zero; the
        square roots of what they add to the deviance, ``sign(r) sqrt(-2 (r + d log(d - r)))``, are nearly symmetric.
        """
        r, d = self.response(Y, np.zeros(Y.shape), s) / s[:, None], (Y > 0).astype(float)
        return np.sign(r) * np.sqrt(np.maximum(-2.0 * (r + xlogy(d, d - r)), 0.0))

    def strata(self, Y: np.ndarray) -> np.ndarray:
        """Return 1 for events, 0 for censored rows."""
        return (Y[:, 0] > 0).astype(int)


@dataclass(frozen=True, eq=False)
class RiskSets:
    """Rows in the order of their times, and what happens at the event times.

    What is shared out at an event time is cut into *portions*: one, or with Efron's rule as many as there are events.

    Attributes
    ----------
    order : (n,) array of int
        The rows, by time.
    w : (n,) array
        Weights, in that order, as everything that follows.
    event : (n,) array of bool
    left : (n,) array of int
        Event times up to a row's own; 0: it has never been at risk.
    start : (m,) array of int
        The first row at risk, for every event time.
    at : (p,) array of int
        The event time of every portion.
    first : (m,) array of int
        The first portion of every event time.
    mass, cut : (p,) arrays
        What a portion shares out, and the share of the rows with an event that it does without.
    """

    order: np.ndarray
    w: np.ndarray
    event: np.ndarray
    left: np.ndarray
    start: np.ndarray
    at: np.ndarray
    first: np.ndarray
    mass: np.ndarray
    cut: np.ndarray

    @classmethod
    def of(cls, y: np.ndarray, w: np.ndarray, efron: bool) -> RiskSets:
        """Sort the rows, O(n log n)."""
        order = np.argsort(np.abs(y), kind="stable")
        y, w = y[order], w[order]
        time, event = np.abs(y), y > 0
        times, of, count = np.unique(time[event], return_inverse=True, return_counts=True)
        at: np.ndarray = of.ravel()
        d = np.bincount(at, weights=w[event], minlength=len(times))
        if efron:
            first: np.ndarray = np.cumsum(count) - count
            mass, cut = (d / count)[at], (np.arange(len(at)) - first[at]) / count[at]
        else:
            first, at = np.arange(len(times)), np.arange(len(times))
            mass, cut = d, np.zeros(len(times))
        left = np.searchsorted(times, time, side="right")
        return cls(order, w, event, left, np.searchsorted(time, times), at, first, mass, cut)

    def _log_sums(self, f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the logarithms of what portions divide by, (p,), and of the weighted exponentials of rows, (n,)."""
        log_e = np.log(self.w) + f
        log_risk = np.logaddexp.accumulate(log_e[::-1])[::-1][self.start][self.at]
        if not self.cut.any():
            return log_risk, log_e
        log_tied = np.logaddexp.reduceat(log_e[self.event], self._first_event)[self.at]
        return log_risk + np.log1p(-self.cut * np.exp(np.minimum(log_tied - log_risk, 0.0))), log_e

    @property
    def _first_event(self) -> np.ndarray:
        """The first of the rows with an event, among these, for every event time."""
        return np.searchsorted(self.left[self.event], np.arange(1, len(self.start) + 1))

    def total(self, f: np.ndarray) -> float:
        """Return L(f), small losses with all their digits: they count where C or weights are large."""
        if not len(self.start):
            return 0.0
        f = f[self.order]
        log_sum, log_e = self._log_sums(f)
        # Scores of a tie from one of them, which is exactly 0, and then from their mean.
        tied, of = f[self.event], self.left[self.event] - 1
        d, one = np.add.reduceat(self.mass, self.first), tied[self._first_event]
        apart = tied - one[of]
        mean = np.bincount(of, weights=self.w[self.event] * apart) / d
        roughly = log_sum - one[self.at] - mean[self.at] - np.log(self.mass)
        most = np.log(d) + NEAR  # what is larger is not small, and must not overflow
        rest, kept = np.exp(np.minimum(self._log_rest(log_e) - one - mean, most))[self.at], 1.0 - self.cut
        w = self.w[self.event]
        more = np.bincount(of, weights=w * np.expm1(np.minimum(apart - mean[of], most[of] - np.log(w))))[
            self.at
        ]
        exactly = np.log1p(
            np.maximum((rest + kept * more) / self.mass + (kept * d[self.at] / self.mass - 1), 0.0)
        )
        return float(self.mass @ np.where(roughly < 1.0, exactly, roughly))

    def _log_rest(self, log_e: np.ndarray) -> np.ndarray:
        """Return the logarithm of what is at risk and has no event, for every event time."""
        later = np.logaddexp.accumulate(log_e[::-1])[::-1][self.start[1:]]
        censored = np.logaddexp.reduceat(np.where(self.event, -np.inf, log_e), self.start)
        return np.logaddexp(censored, np.append(later, -np.inf))

    def response(self, f: np.ndarray) -> np.ndarray:
        """Return minus the gradient: an event less the expected number of them, (n,)."""
        if not len(self.start):
            return np.zeros(len(f))
        log_sum, log_e = self._log_sums(f[self.order])
        hazard = np.log(self.mass) - log_sum
        passed = np.concatenate(
            [[-np.inf], np.logaddexp.accumulate(np.logaddexp.reduceat(hazard, self.first))]
        )
        lived = passed[self.left]
        if self.cut.any():  # rows with an event live through a part of what happens at their own time
            own = np.logaddexp.reduceat(hazard + np.log1p(-self.cut), self.first)
            lived[self.event] = np.logaddexp(passed[:-1], own)[self.left[self.event] - 1]
        out = np.empty(len(f))
        out[self.order] = self.w * self.event - np.exp(log_e + lived)
        return out

    def hazard(self, f: np.ndarray) -> np.ndarray:
        """Return the increase of the cumulative hazard of f = 0 at every event time, (m,)."""
        log_sum, _ = self._log_sums(f[self.order])
        return np.add.reduceat(np.exp(np.log(self.mass) - log_sum), self.first)

    def curve(self, f: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """Return the product of the second derivative at f with matrices (n, k), of O(n k)."""
        if not len(self.start):
            return lambda G: np.zeros(G.shape)
        f = f[self.order]
        e = self.w * np.exp(np.maximum(f - f.max(), -FARTHEST))
        divisor = self._at_risk(e[:, None])[:, 0]
        rate = self.mass / divisor
        expected = (e * self._lived(rate[:, None])[:, 0])[:, None]

        def product(G: np.ndarray) -> np.ndarray:
            G = G[self.order]
            means = self._at_risk(e[:, None] * G) / divisor[:, None]
            out = np.empty(G.shape)
            out[self.order] = expected * G - e[:, None] * self._lived(rate[:, None] * means)
            return out

        return product

    def _at_risk(self, E: np.ndarray) -> np.ndarray:
        """Return sums over the rows that a portion is shared out over, (p, k), of values of rows (n, k)."""
        sums = np.cumsum(E[::-1], axis=0)[::-1][self.start][self.at]
        if self.cut.any():
            sums -= self.cut[:, None] * np.add.reduceat(E[self.event], self._first_event)[self.at]
        return sums

    def _lived(self, q: np.ndarray) -> np.ndarray:
        """Return sums over the portions that a row has part in, (n, k), of values of portions (p, k): its transpose."""
        passed = np.cumsum(np.add.reduceat(q, self.first), axis=0)
        out = np.concatenate([np.zeros((1, q.shape[1])), passed])[self.left]
        if self.cut.any():
            own = np.add.reduceat(self.cut[:, None] * q, self.first)
            out[self.event] -= own[self.left[self.event] - 1]
        return out

    # -- the dual ------------------------------------------------------------------------------------------

    def _shared(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
        """Return v, d, r before each event time and after the last, and how far from the domain is rounding."""
        v = u[self.order] + self.w * self.event
        d = np.add.reduceat(self.mass, self.first) if len(self.start) else np.zeros(0)
        V = np.bincount(self.left, weights=v, minlength=len(d) + 1)[1:]
        r = np.concatenate([[0.0], np.cumsum(d - V)])
        return v, d, r, DOMAIN_SLACK * max(float(d.sum()), float(self.w.max(initial=0.0)))

    def _is_inside(self, v: np.ndarray, r: np.ndarray, slack: float) -> bool:
        never = np.abs(v[self.left == 0]).max(initial=0.0)
        return bool(v.min(initial=0.0) >= -slack and never <= slack and r.min() >= -slack and r[-1] <= slack)

    def conjugate(self, u: np.ndarray) -> float:
        """Return L*(u), O(n); with ties and Efron's rule times the digits of a number."""
        v, d, r, slack = self._shared(u)
        if not self._is_inside(v, r, slack):
            return np.inf
        v, r = np.maximum(v, 0.0), np.maximum(r, 0.0)
        rows = float(np.sum(xlogy(v, v / self.w)))
        if not len(d):
            return rows
        if self.cut.any():
            return rows + self._tied_entropy(v, r)
        # The masses that come and go are equal, so that their unit does not matter: without one, logarithms are small.
        before, unit = r[:-1] + d, d.sum()
        masses = xlogy(d, d / unit) + xlogy(r[1:], r[1:] / unit) - xlogy(before, before / unit)
        return rows + float(masses.sum())

    def conjugate_size(self, u: np.ndarray) -> float:
        """Return the sum of the sizes of what L*(u) is made of, O(n).

        What is left after an event time is itself a difference: its rounding counts by the logarithm there.
        """
        v, d, r, _ = self._shared(u)
        v, r, unit = np.maximum(v, 0.0), np.maximum(r, 0.0), d.sum()
        before = r[:-1] + d
        slopes = np.log(np.maximum(r[1:] / before, np.finfo(float).eps))
        masses = np.concatenate([d, r[1:], before, v[v > 0]])
        units = np.concatenate([np.full(len(masses) - np.count_nonzero(v), unit), self.w[v > 0]])
        return float(
            (masses * (1.0 + np.abs(np.log(np.maximum(masses, 1e-300) / units)))).sum() - before @ slopes
        )

    def _tied_entropy(self, v: np.ndarray, r: np.ndarray) -> float:
        """Return the rest of the conjugate with Efron's rule.

        With a = d/m, x the share of E_t in the sum over R_t, T the sum of v over E_t and q = r_{t-1} + d - T,

            T log(x/T) + q log((1 - x)/q) + r_t log r_t + sum_l a (log a - log(1 - (l/m) x)),

        where x solves ``T = x (r_{t-1} + sum_l a (1 - l/m)/(1 - (l/m) x))``; without ties it is T over r_{t-1} + d.
        """
        d = np.add.reduceat(self.mass, self.first)
        T = np.minimum(np.add.reduceat(v[self.event], self._first_event), r[:-1] + d)
        q = r[:-1] + d - T
        low, high = np.zeros(len(T)), np.ones(len(T))
        for _ in range(HALVINGS):
            x = (low + high) / 2
            parts = self.mass * (1.0 - self.cut) / (1.0 - self.cut * x[self.at])
            less = x * (r[:-1] + np.add.reduceat(parts, self.first)) < T
            low, high = np.where(less, x, low), np.where(less, high, x)
        x = high  # positive; one minus it may be zero, where q is as well
        unit = d.sum()  # as above
        rest = (
            xlogy(T, x)
            - xlogy(T, T / unit)
            + xlogy(q, np.where(q > 0, np.maximum(1.0 - x, 1e-300), 1.0))
            - xlogy(q, q / unit)
        )
        portions = xlogy(self.mass, self.mass / unit) - self.mass * np.log1p(-self.cut * x[self.at])
        return float(rest.sum() + xlogy(r[1:], r[1:] / unit).sum() + portions.sum())

    def feasible(self, u: np.ndarray) -> np.ndarray:
        """Return the point of the conjugate's domain nearest to u, (n,).

        v is less by a level, or zero, and levels fall from one event time to the next: blocks of neighbours that get
        what they share out are joined until they do. O(n log n) where u is feasible, else O(n) times the blocks joined.
        """
        v, d, r, slack = self._shared(u)
        if not self._is_inside(v, r, slack):
            reached = np.concatenate([[0.0], np.cumsum(d)])
            ends = np.searchsorted(
                self.left, np.arange(1, len(d) + 2)
            )  # where the rows of every event time begin
            blocks: list[tuple[int, int, float]] = []
            for k in range(len(d)):
                a, b = k, k + 1
                level = _level(v[ends[a] : ends[b]], d[k])
                while blocks and blocks[-1][2] <= level:
                    a = blocks.pop()[0]
                    level = _level(v[ends[a] : ends[b]], reached[b] - reached[a])
                blocks.append((a, b, level))
            levels = np.repeat([block[2] for block in blocks], [block[1] - block[0] for block in blocks])
            v = np.where(self.left > 0, v - np.concatenate([[0.0], levels])[self.left], 0.0)
        out = np.empty(len(u))
        out[self.order] = np.maximum(v, 0.0) - self.w * self.event
        return out


def _level(v: np.ndarray, total: float) -> float:
    """Return the level with ``sum(max(v - level, 0)) = total``, total > 0."""
    kept = project_simplex(v[None], total)[0]
    return float((v - kept)[kept.argmax()])
