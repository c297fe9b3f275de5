"""The state of an online solver over a list of kernels, and its passes over the rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..._util.arrays import row_blocks
from ..._util.threads import map_in_threads
from ...certificates import Certificate, certificate, feasible_multiple, feasible_projection, mean_loss, norm
from ...combination import Combination
from ...families.values import Values
from ...losses.base import DOMAIN_SLACK
from ...predictors import Dual
from ...problem import Problem, nu_of
from ..workspace import Iterate
from . import _steps as loop

#: Rows per block when kernels are computed on the fly; a block's values among its own rows come first.
ROWS_TOGETHER = 512
#: Updates wait until they are this many: fewer passes over the tables, whatever the number of blocks.
SPREAD = 256
#: Kernel values per tile and thread, when a block's updates are spread over all rows.
VALUES_PER_TILE = 2**18


@dataclass(frozen=True)
class StepRule:
    """What a pass does at every row.

    Attributes
    ----------
    batch : bool
        Algorithm 2, else Algorithm 1.
    eta : float
        The step of Algorithm 1; the longest of Algorithm 2.
    radius : float
        R of Algorithm 2.
    threshold : float
        Norms √g_i up to this count as zero.
    """

    batch: bool
    eta: float = np.inf
    radius: float = np.inf
    threshold: float = 0.0


class Passes:
    """Shared coefficients, every row's score per kernel, and the norms of the kernels' parts.

    Parameters
    ----------
    problem : Problem
    p : float
        Norm over kernels.
    memory : int
        Bytes for kernel values. All of them are kept when they fit; otherwise those of the rows that were updated
        are computed block by block, in single precision where it will do.
    average : bool
        Whether ``evaluate`` looks at the average over the pass rather than at the last iterate.
    penalties : callable
        The solver's penalty and its conjugate, from norms, g and λ.

    Notes
    -----
    Besides the kernel values it holds tables of 8 n m c bytes, twice with `average`. A pass costs O(n m c), and
    O(n m) for each update and output it touches, with the kernel's cost in front where values are not kept.
    """

    def __init__(self, problem: Problem, p: float, memory: int, average: bool, penalties: Any):
        pb: Any = problem
        self.problem, self.p, self.q, self.penalties = pb, float(p), float(p / (p - 1)), penalties
        self.lam = 1.0 / (pb.C * self.n_visits)
        self.members = pb.family.members()
        self.rho_sq = pb.scale.rho_sq(self.members, p)
        alive = self.rho_sq > 0
        if not alive.any():
            raise ValueError(
                "kernels: every kernel vanishes on the training rows; check that X is not all zeros."
            )
        self.inverse = np.divide(1.0, self.rho_sq, out=np.zeros(len(self.rho_sq)), where=alive)
        self.values: Values = pb.family.values(pb.X, self.members)
        self.diag = self.values.diag()
        self.Y = np.ascontiguousarray(pb.Y, dtype=float)
        self.s = np.ascontiguousarray(pb.sample_weight, dtype=float)
        self.K = _kept(self.values, memory)
        self.precision = _precision(self.diag)
        self.block = _block_size(memory, self.values)
        (n, c), m, scored = self.Y.shape, len(self.members), self.n_scored
        self.coef, self.lag = np.zeros((n, c)), np.zeros((n, c))
        self.T = np.zeros((scored, n, m))
        self.M = np.zeros((scored if average else 0, n, m))
        self.b, self.g, self.link = np.zeros(c), np.zeros(m), np.zeros(m)
        self.scalars = np.zeros(loop.N_SCALARS)
        self.scalars[loop.FACTOR] = 1.0
        self.average = average
        self.visited = 0

    @property
    def n_visits(self) -> int:
        """What an epoch visits, one after the other: the rows."""
        return self.problem.n_rows

    @property
    def n_scored(self) -> int:
        """Outputs that the kernels give scores to: all."""
        return self.problem.n_outputs

    def start_value(self) -> float:
        """Return P at f = 0."""
        return mean_loss(self.problem.loss, self.Y, np.zeros(self.Y.shape), self.s)

    def push_sq(self) -> np.ndarray:
        """Return the squared dual norm of every row's features with the constant: L² of a unit slope. O(n m)."""
        size = np.maximum(self.diag * self.inverse, 0.0)
        return np.array([loop.q_norm(row, self.q) ** 2 for row in size]) + 1.0

    # -- passes ----------------------------------------------------------------------------------------

    def run(self, order: np.ndarray, rule: StepRule) -> int:
        """Visit the rows in order; the number of updates."""
        before = self.scalars[loop.UPDATES]
        self._fold()
        self.visited = len(order)
        if self.K is not None:
            self._steps(self.K, self.T, self.M, self._visits(order), slice(None), rule)
        else:
            waiting = _Waiting(self.n_scored)
            for part in self._parts(order):
                self._run_block(order[part], rule, waiting)
                if len(waiting.rows) >= SPREAD:
                    self._spread(waiting)
            self._spread(waiting)
        return int(self.scalars[loop.UPDATES] - before)

    def _parts(self, order):
        """Return the slices of `order` that are visited as one block."""
        return row_blocks(len(order), 1, self.block)

    def _visits(self, order):
        """Return what the loop over all rows visits."""
        return order

    def _block(self, order):
        """Return the rows of a block, each once, and what the loop over these rows visits."""
        return np.unique(order, return_inverse=True)

    def _steps(self, K, T, M, order, rows, rule):
        coef, lag = self.coef[rows], self.lag[rows]
        loop.steps(
            K, T, M, order, coef, lag, self.b, self.g, self.link, self.scalars, self.diag[rows], self.Y[rows],
            self.s[rows], self.inverse, self.problem.loss.code, rule.batch, self.q, self.lam, rule.eta, rule.radius,
            rule.threshold,
        )  # fmt: skip
        return coef, lag

    def _run_block(self, order, rule, waiting):
        """Visit one block; its updates wait to be told to all rows.

        The loop works on copies, brought up to date, and on the block's own kernel values: its decisions are those
        of the sequential algorithm. A row that comes up twice in a block is one row with two visits.
        """
        rows, visits = self._block(order)
        T, none = np.take(self.T, rows, axis=1), self.M[:0]
        if len(waiting.rows):
            loop.add_gains(T, none, self._gains(rows, waiting.rows, waiting.change), 0)
        K = self.values.stack(rows, rows, self.precision)
        coef, lag = self._steps(K, T, none, visits, rows, rule)
        both = coef - self.coef[rows], lag - self.lag[rows]
        change: np.ndarray = np.hstack([part[:, : self.n_scored] for part in both]).astype(self.precision)
        self.coef[rows], self.lag[rows] = coef, lag
        moved = change.any(axis=1)
        waiting.add(rows[moved], change[moved])

    def _gains(self, rows, updated, change):
        """Return K_i(rows, updated) · change for every kernel, (m, rows, columns of change)."""
        block = self.values.open(rows, updated)
        return np.stack([(block(i) @ change).astype(self.precision) for i in range(len(self.members))])

    def _spread(self, waiting):
        """Tell all rows of the updates that wait."""
        updated, change = waiting.rows, waiting.change
        if not self.average:
            change = change[:, : self.n_scored]

        def spread(part):
            loop.add_gains(self.T, self.M, self._gains(part, updated, change), part.start)

        if len(updated):
            map_in_threads(spread, row_blocks(len(self.Y), len(updated), VALUES_PER_TILE))
        waiting.clear()

    def _fold(self):
        """Apply the accumulated factor, start a new average, and refresh what is updated by differences. O(n m c)."""
        a, self.scalars[loop.FACTOR] = self.scalars[loop.FACTOR], 1.0
        self.scalars[loop.SUM] = 0.0
        self.lag[:], self.M[:] = 0.0, 0.0
        self.T *= a
        self.coef *= a
        self.b = self.coef.sum(axis=0)
        self.g = np.maximum(self._forms(self.coef, self.T) * self.inverse, 0.0)
        own = loop.set_link(self.g, 0.0, self.inverse, self.q, self.link)
        self.scalars[loop.NORM] = np.sqrt(own**2 + self.b @ self.b)

    @staticmethod
    def _forms(A, T):
        """Return tr(AᵀK_iB) for the B that T is the table of."""
        return np.sum([A[:, k] @ T[k] for k in range(len(T))], axis=0)

    def restart(self):
        """Forget everything: back to f = 0."""
        for array in (self.coef, self.T, self.scalars):
            array[:] = 0.0
        self.scalars[loop.FACTOR] = 1.0

    def project(self, radius: float) -> None:
        """Scale the predictor to a norm of at most `radius`: Algorithm 2 starts inside."""
        self._fold()
        if self.scalars[loop.NORM] > radius:
            self.scalars[loop.FACTOR] = radius / self.scalars[loop.NORM]

    # -- iterates --------------------------------------------------------------------------------------

    def evaluate(self, rule: StepRule) -> Iterate:
        """Return the iterate, or the average over the last pass, with its objective and its dual bound. O(n m c)."""
        a, total, n = self.scalars[loop.FACTOR], self.scalars[loop.SUM], self.visited
        link = np.empty(len(self.members))
        if self.average:
            A = (total * self.coef - self.lag) / n
            g = (total * self._forms(A, self.T) - self._forms(A, self.M)) / n
        else:
            A = a * self.coef
            g = a * self._forms(A, self.T)
        g = np.maximum(g * self.inverse, 0.0)
        loop.set_link(g, rule.threshold, self.inverse, self.q, link)
        F = (self.T @ link).T
        F = (total * F - (self.M @ link).T) / n if self.average else a * F
        return self._certified(link * self.rho_sq, A, self._with_intercept(F, A.sum(axis=0)), g)

    def _with_intercept(self, F, b):
        """Return scores with the intercept."""
        return F + b

    def nothing(self) -> Iterate:
        """Return f = 0."""
        none, g = np.zeros(self.Y.shape), np.zeros(len(self.members))
        return self._certified(g, none, none, g)

    def _certified(self, theta, A, F, g) -> Iterate:
        pb, theta = self.problem, self._some_weights(theta, A)
        u = theta * np.sqrt(g)
        multiple = feasible_multiple(pb.loss, self.Y, A, pb.C, self.s)
        bounds = self._bounds(u, A * multiple, F, g * multiple**2, A.sum(axis=0))
        return Iterate(theta, A, F, None, A.sum(axis=0), g, u, bounds.primal, bounds.primal, bounds.dual)

    def _some_weights(self, theta, A):
        """Return the weights; where all are zero with f = 0, any will do. Below a threshold, they must be 0."""
        if theta.any() or A.any():
            return theta
        theta = (self.rho_sq > 0).astype(float)
        return theta / norm(theta, nu_of(self.p))

    def _bounds(self, u, A, F, g, b) -> Certificate:
        """Return P at scores F and norms u, and D at coefficients A with their g."""
        pb = self.problem
        penalty, dual_penalty = self.penalties(u, g, self.lam)
        return certificate(
            pb.loss, self.Y, F, A, pb.C, self.s, penalty=penalty, dual_penalty=dual_penalty, intercept=b
        )

    def tightened(self, iterate: Iterate) -> Iterate:
        """Return the iterate with the better of two dual bounds, where its own coefficients are not feasible.

        Next to the largest feasible multiple there is the nearest feasible point, which leaves all rows but a few as
        they are: one evaluation of those rows against the supports.
        """
        pb, A = self.problem, iterate.A
        if feasible_multiple(pb.loss, self.Y, A, pb.C, self.s) >= 1 - DOMAIN_SLACK:
            return iterate
        nearest = feasible_projection(pb.loss, self.Y, A, pb.C, self.s)
        F = np.zeros(self.Y.shape)  # D does not ask for scores
        bounds = self._bounds(iterate.u, nearest, F, self._moved(iterate, nearest), iterate.intercept)
        return replace(iterate, dual=max(iterate.dual, bounds.dual))

    def _moved(self, iterate: Iterate, nearest: np.ndarray) -> np.ndarray:
        """Return g at coefficients that differ from an iterate's in a few rows."""
        k = self.n_scored
        A, nearest = iterate.A[:, :k], nearest[:, :k]
        supports = np.flatnonzero(A.any(axis=1))
        clipped = np.flatnonzero((nearest != A).any(axis=1))
        both = np.hstack([A, A - nearest])[supports]

        def forms(part):
            rows = clipped[part]
            block = self.values.open(rows, supports, single=self.K is None)
            less = A[rows] - nearest[rows]
            out = np.empty(len(self.members))
            for i in range(len(out)):
                KA, KE = np.hsplit(block(i) @ both, [k])
                out[i] = np.vdot(less, KE - 2.0 * KA)
            return out

        parts = map_in_threads(forms, row_blocks(len(clipped), len(supports), VALUES_PER_TILE))
        return np.maximum(iterate.g + self.inverse * np.sum(parts, axis=0), 0.0)

    def predictor(self, iterate: Iterate) -> Dual:
        """Return the predictor of an iterate."""
        pb = self.problem
        combination = Combination(
            pb.family, self.members, iterate.theta * self.inverse, np.sqrt(self.rho_sq), iterate.u
        )
        return Dual.from_training(combination, pb.X, iterate.A, iterate.intercept)


class _Waiting:
    """Changes of coefficients (and of their lags) that the tables do not know of yet."""

    def __init__(self, n_outputs: int):
        self.width = 2 * n_outputs
        self.clear()

    def clear(self):
        """Forget them."""
        self.rows, self.change = np.empty(0, np.intp), np.empty((0, self.width), np.float32)

    def add(self, rows, change):
        """Add some rows' changes."""
        self.rows = np.concatenate([self.rows, rows])
        self.change = np.concatenate([self.change, change])


def _precision(diag: np.ndarray) -> type:
    """Return the precision of values computed on the fly: single, unless they would leave its range."""
    size = np.abs(diag[diag != 0])
    fits = not len(size) or (size.max() < 1e30 and size.min() > 1e-30)
    return np.float32 if fits else np.float64


def _kept(values: Values, memory: int) -> np.ndarray | None:
    """Return all kernel values if they exist or fit: in double precision if that fits too."""
    if values.ready is not None:
        return values.ready
    size = values.n_rows**2 * values.n_members
    if 4 * size > memory:
        return None
    rows = np.arange(values.n_rows)
    return values.stack(rows, slice(None), np.float64 if 8 * size <= memory else np.float32)


def _block_size(memory: int, values: Values) -> int:
    """Return how many rows' values among themselves fit into half of the memory, at most ROWS_TOGETHER."""
    return int(np.clip(np.sqrt(memory / (8 * values.n_members)), 1, ROWS_TOGETHER))
