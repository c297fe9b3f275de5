"""Passes for structured losses: examples of several rows, each known by its most violating output."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..._util.text import brief
from ...losses.base import DOMAIN_SLACK
from ...losses.structured import Structured
from ...losses.structured import examples as examples_of
from ...predictors import Dual
from ...problem import Problem
from ..workspace import Iterate
from . import _steps as loop
from .sequential import Passes, StepRule


@dataclass(frozen=True, eq=False)
class _Weighed(Iterate):
    """An iterate whose coefficients are mixtures: A_e = Σ_o α_o (y - o) over outputs o met so far.

    Attributes
    ----------
    mass : (examples, 2) array
        Σ α_o and Σ α_o Δ(y, o) of every example.
    """

    mass: np.ndarray


class ExamplePasses(Passes):
    """Coefficients and scores as in `Passes`; an epoch visits examples, and asks the loss for their worst outputs.

    n counts examples: P = (1/n) Σ_e s_e ℓ(y_e, F_e) + (λ/2) [...], λ = 1/(C n). Every step moves the rows of an example
    along y - o for one output o. The dual is over the mixtures α of outputs, α_e >= 0 and Σ α_e <= C s_e:

        D(α) = (1/(C n)) Σ_e Σ_o α_eo Δ(y_e, o) - (λ/2) (‖g‖_ν* + ‖1ᵀA‖²),   A_e = Σ_o α_eo (y_e - o),

    so that the sums of α and of αΔ, kept beside the coefficients, are all that a certificate needs. The loss is asked
    in Python, once per visit and once per example and epoch.
    """

    def __init__(self, problem: Problem, p: float, memory: int, average: bool, penalties: Any):
        self.problem = problem
        self.examples = list(examples_of(_checked_groups(problem), problem.n_rows))
        super().__init__(problem, p, memory, average, penalties)
        self.s = _weights(self.s, self.examples)
        self.mass, self.mass_lag = (np.zeros((self.n_visits, 2)) for _ in range(2))

    @property
    def loss(self) -> Structured:
        """The loss."""
        found: Any = self.problem.loss
        return found

    @property
    def n_visits(self) -> int:
        """What an epoch visits, one after the other: the examples."""
        return len(self.examples)

    @property
    def n_scored(self) -> int:
        """Outputs that the kernels give scores to: all but the constants."""
        return self.problem.n_outputs - self.loss.constants

    def start_value(self) -> float:
        """Return P at f = 0."""
        return self._risk(np.zeros(self.Y.shape))

    def push_sq(self) -> np.ndarray:
        """Return the squared dual norm of every example's features, rows as if at right angles. O(n m)."""
        rows = super().push_sq()
        return np.array([rows[at].sum() for at in self.examples])

    # -- passes ----------------------------------------------------------------------------------------

    def _parts(self, order):
        """Return slices of `order` with as many examples as fit into a block, at least one."""
        ends = np.cumsum([len(self.examples[e]) for e in order])
        start = 0
        while start < len(order):
            before = ends[start - 1] if start else 0
            stop = max(int(np.searchsorted(ends, before + self.block, side="right")), start + 1)
            yield slice(start, stop)
            start = stop

    def _visits(self, order):
        return [(e, self.examples[e]) for e in order]

    def _block(self, order):
        rows = np.concatenate([self.examples[e] for e in np.unique(order)])
        place = np.empty(len(self.Y), np.intp)
        place[rows] = np.arange(len(rows))
        return rows, [(e, place[self.examples[e]]) for e in order]

    def _steps(self, K, T, M, order, rows, rule):
        coef, lag, diag, Y = self.coef[rows], self.lag[rows], self.diag[rows], self.Y[rows]
        for e, at in order:
            self._visit(e, at, K, T, M, coef, lag, diag, Y, rule)
        return coef, lag

    def _visit(self, e, at, K, T, M, coef, lag, diag, Y, rule: StepRule) -> None:
        """Take one step of Algorithm 1 or 2, as `_steps.steps` does at a row."""
        now, link, q, s = self.scalars, self.link, self.q, self.s[e]
        if rule.threshold > 0.0:
            loop.set_link(self.g, rule.threshold / now[loop.FACTOR], self.inverse, q, link)
        F = now[loop.FACTOR] * self._with_intercept(loop.example_scores(T, link, at), self.b)
        value, change, cost = self.loss.violation(Y[at], F)  # line 5
        active = value > 0.0 and s > 0.0
        step = rule.eta / q
        if rule.batch:
            step = self._shrink(K, at, s * change if active else None, rule)
        if active:
            now[loop.UPDATES] += 1.0
            size, total = s * step / now[loop.FACTOR], now[loop.SUM]
            Z = -size * change
            loop.move_example(K, T, M, at, Z, coef, lag, self.b, self.g, total, diag, self.inverse)
            weighed = size * np.array([1.0, cost])
            self.mass[e] += weighed
            self.mass_lag[e] += total * weighed
            own = loop.set_link(self.g, rule.threshold / now[loop.FACTOR], self.inverse, q, link)  # line 11
            now[loop.NORM] = np.sqrt(own * own + self.b @ self.b)
        if rule.batch and now[loop.FACTOR] * now[loop.NORM] > rule.radius:
            now[loop.FACTOR] = rule.radius / now[loop.NORM]  # Alg. 2, line 10
        now[loop.SUM] += now[loop.FACTOR]

    def _shrink(self, K, at, Z, rule: StepRule) -> float:
        """Return the step of Algorithm 2 over q, and shrink by it (line 9); Z is the subgradient, None where zero."""
        now, lam = self.scalars, self.lam
        now[loop.VISITS] += 1.0
        push = lam * now[loop.FACTOR] * now[loop.NORM]
        if Z is not None and rule.radius < np.inf:
            kernels = loop.example_pushed(K, at, Z[:, : self.n_scored], self.inverse, self.q)
            push += float(np.hypot(kernels, np.linalg.norm(Z.sum(axis=0))))
        longest = rule.eta / self.q
        step, now[loop.PROXIMAL] = loop.step_length(
            lam, now[loop.VISITS], now[loop.PROXIMAL], push, rule.radius, self.q, longest
        )
        if lam * step < 1.0:
            now[loop.FACTOR] *= 1.0 - lam * step
        return step

    def _fold(self):
        self.mass *= self.scalars[loop.FACTOR]
        self.mass_lag[:] = 0.0
        super()._fold()

    def restart(self):
        """Forget everything: back to f = 0."""
        self.mass[:] = 0.0
        super().restart()

    # -- iterates --------------------------------------------------------------------------------------

    def _with_intercept(self, F, b):
        return np.hstack([F, np.zeros((len(F), self.loss.constants))]) + b

    def _risk(self, F) -> float:
        """Return (1/n) Σ_e s_e ℓ(y_e, F_e)."""
        values = [self.loss.violation(self.Y[at], F[at])[0] for at in self.examples]
        return float(self.s @ values) / self.n_visits

    def nothing(self) -> Iterate:
        """Return f = 0."""
        self.restart()
        self._fold()
        return super().nothing()

    def _mass(self) -> np.ndarray:
        """Return the masses that belong to the coefficients of `evaluate`."""
        if self.average and self.visited:
            return (self.scalars[loop.SUM] * self.mass - self.mass_lag) / self.visited
        return self.scalars[loop.FACTOR] * self.mass

    def _certified(self, theta, A, F, g) -> Iterate:
        theta = self._some_weights(theta, A)
        u, b, mass = theta * np.sqrt(g), A.sum(axis=0), self._mass()
        primal = self._risk(F) + self.lam / 2 * (self.penalties(u, g, self.lam)[0] + float(b @ b))
        multiple = float(np.min(self._shares(mass), initial=1.0))
        dual = self._dual(multiple * mass, multiple * A, multiple**2 * g)
        return _Weighed(theta, A, F, None, b, g, u, primal, primal, dual, mass)

    def _shares(self, mass) -> np.ndarray:
        """Return for every example which part of its mixture is feasible, at most 1."""
        most = self.problem.C * self.s
        return np.divide(most, mass[:, 0], out=np.ones(len(mass)), where=mass[:, 0] > most)

    def _dual(self, mass, A, g) -> float:
        """Return D at a feasible mixture."""
        b = A.sum(axis=0)
        gain = float(mass[:, 1].sum()) / (self.problem.C * self.n_visits)
        return gain - self.lam / 2 * (self.penalties(np.zeros(len(g)), g, self.lam)[1] + float(b @ b))

    def tightened(self, iterate: Any) -> Iterate:
        """Return the iterate with the better of two dual bounds: all examples cut alike, or each as far as it must."""
        shares = self._shares(iterate.mass)
        if shares.min() >= 1 - DOMAIN_SLACK:
            return iterate
        rows = np.empty(len(self.Y))
        for share, at in zip(shares, self.examples, strict=True):
            rows[at] = share
        nearest = rows[:, None] * iterate.A
        dual = self._dual(shares[:, None] * iterate.mass, nearest, self._moved(iterate, nearest))
        return replace(iterate, dual=max(iterate.dual, dual))

    def predictor(self, iterate: Iterate) -> Dual:
        """Return the predictor of an iterate; constants are in its intercept alone."""
        A = iterate.A.copy()
        A[:, self.n_scored :] = 0.0
        return super().predictor(replace(iterate, A=A))


def _checked_groups(problem: Problem) -> np.ndarray | None:
    """Return the groups of a problem, after a check that they and Y fit the rows."""
    groups = problem.groups
    if groups is not None and np.shape(groups) != (problem.n_rows,):
        raise ValueError(
            f"groups has the shape {np.shape(groups)}; it must hold one number per row of the {problem.n_rows:,}."
        )
    loss: Any = problem.loss
    if problem.n_outputs <= loss.constants:
        raise ValueError(
            f"Y has {problem.n_outputs} columns, and {brief(loss)} needs more; encode the labels by its encode method."
        )
    return groups


def _weights(s: np.ndarray, examples) -> np.ndarray:
    """Return one weight per example."""
    if any(np.ptp(s[at]) for at in examples):
        raise ValueError("sample_weight differs within an example; give all rows of a group the same weight.")
    return np.array([s[at[0]] for at in examples])
