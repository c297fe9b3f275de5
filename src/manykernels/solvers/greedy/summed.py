"""Greedy over rows that lie elsewhere: files, or the partitions of a cluster; every step is two sums over the rows.

The squared loss on products of columns needs three kinds of sums. *Scales*: Σ s φ_z² of all products, once. *Searches*:
Σ s r φ_z of all products, r the residuals, which every block computes from the few coefficients it is sent. *Gram
matrices*: Σ s φ φᵀ of the candidates and the active products, from which all fits, criteria and certificates follow
without another look at the rows. No array has a length of n, and A = C s r is never written down.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...families.base import Best, nothing
from ...families.products.monomial_search import SEARCH_SIZES, leaders
from ...families.products.search import SLACK, ProductSearcher
from ...families.products.table_sums import TableSums
from ...families.search import ranked
from ...problem import Problem, Result
from ...streaming.cluster import Block, Rows
from ..base import generator
from ..log import Log
from ..product_sums import (
    DEARER,
    MOST_PLACES,
    Columns,
    WholeProblem,
    check_products,
    gram,
    moments,
    table_pulls,
    table_squares,
)
from .least_squares import _solver, feature_sign
from .oracle import CANDIDATES
from .refits import Point, Refitter
from .steps import Corrective, Limits
from .stopping import ExtendedBIC


@dataclass(frozen=True, eq=False)
class SummedPoint(Point):
    """A point that knows the sums of its residuals r in place of A = C s r.

    Attributes
    ----------
    raw : (1 + k,) array
        The intercept, and the coefficients of the products.
    squares, with_targets, plain : float
        Σ s r², Σ s r y and Σ s r.
    """

    raw: np.ndarray
    squares: float
    with_targets: float
    plain: float

    def dual(self, problem: Problem, dual_norm: float) -> float:
        """Return D at A = C s r: ℓ*(-r) = ½r² - r y."""
        C, n = problem.C, problem.n_rows
        conjugate = (0.5 * self.squares - self.with_targets) / n
        return -conjugate - (dual_norm + (C * self.plain) ** 2) / (2 * C * n)


# -- sums over rows --------------------------------------------------------------------------------------


def _extensions(block: Block, columns: Columns, sums: TableSums, members, raw, prefixes) -> tuple:
    V = columns.residuals(block, members, raw[:, None])
    squares = sums.extensions(block.X, block.s[:, None], prefixes, squared=True)
    return sums.extensions(block.X, V, prefixes)[0], squares[0]


# -- the fit ---------------------------------------------------------------------------------------------


class SummedLeastSquares(Refitter):
    """Restricted problems for the squared loss on products, by the Gram matrix of those that matter at the moment.

    See :class:`~manykernels.solvers.greedy.least_squares.LeastSquares` for the problem. Columns are unscaled here:
    with how = ``"trace"`` the scales are on the diagonal.

    Parameters
    ----------
    problem : WholeProblem
    rows : Rows
    known : (3,) array
        Σ s, Σ s y and Σ s y².
    base : (r,) array
        Means of the squared columns, for ``"base"``.
    """

    def __init__(self, problem: Problem, rows: Rows, tol: float, known: np.ndarray, base: np.ndarray):
        super().__init__(problem, tol)
        self.rows, self.mu, self.base = rows, 1.0 / problem.C, base
        self.total, _, self.square = known.tolist()
        self.columns = rows.broadcast(Columns(problem.family))
        self.known: list[Any] = []
        #: Of [1, y, φ_1, ...], the products as they are.
        self.G = np.array([[known[0], known[1]], [known[1], known[2]]])

    def rho_sq(self, members: Sequence[Any]) -> np.ndarray:
        """Return ρ² of known products; 0 for one that vanishes."""
        how, penalty = self.problem.scale.how, self.family.penalty(members, 1.0)
        if how is None:
            return penalty
        if how == "base":
            return self.family.factor_scale(self.base, members) * penalty
        return np.diagonal(self.G)[self._at(members)] / self.total * penalty

    def _at(self, members: Sequence[Any]) -> np.ndarray:
        place = {z: i + 2 for i, z in enumerate(self.known)}
        return np.array([place[z] for z in members], dtype=np.intp)

    def learn(self, members: Sequence[Any], keep: Sequence[Any] = ()) -> None:
        """Add products to the Gram matrix, a sum over the rows; of those known all are forgotten but some to keep."""
        have = set(self.known)
        new = [z for z in dict.fromkeys(members) if z not in have]
        if not new:
            return
        wanted = {*members, *keep}
        self._forget([z for z in self.known if z in wanted] if keep else self.known)
        fresh = self.rows.sum(gram, self.columns, tuple(self.known), tuple(new))
        k = len(self.G)
        self.G = np.block([[self.G, fresh[:k]], [fresh[:k].T, fresh[k:]]])
        self.known = [*self.known, *new]

    def _forget(self, kept: list[Any]) -> None:
        at = np.concatenate([[0, 1], self._at(kept)]).astype(np.intp)
        self.G, self.known = self.G[np.ix_(at, at)], kept

    def _scaled(self, members: Sequence[Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the Gram matrix of [1, φ/ρ], its products with y, and ρ²."""
        rho_sq, at = self.rho_sq(members), np.concatenate([[0], self._at(members)]).astype(np.intp)
        root = np.concatenate([[1.0], np.sqrt(np.where(rho_sq > 0, rho_sq, np.inf))])
        return self.G[np.ix_(at, at)] / root / root[:, None], self.G[at, 1] / root, rho_sq

    def empty(self):
        return self._point([], np.array([self.G[0, 1] / (self.total + self.mu)]))

    def refit(self, members, start):
        """Solve over `members` by changes of signs."""
        self.learn(members)
        G, c, _ = self._scaled(members)
        before = dict(zip(start.members, start.norms * np.sign(start.W[:, 0]), strict=True))
        w = np.array([start.intercept[0]] + [before.get(z, 0.0) for z in members])
        G[0, 0] += self.mu
        w = feature_sign(G, c, self.mu, w)
        keep = np.flatnonzero(w[1:])
        return self._point([members[i] for i in keep], np.concatenate([w[:1], w[1:][keep]]))

    def _point(self, members: list[Any], w: np.ndarray) -> SummedPoint:
        G, c, rho_sq = self._scaled(members)
        sigma = np.concatenate([[0.0], np.sign(w[1:])])
        B = G + self.mu * np.outer(sigma, sigma)
        B[0, 0] += self.mu
        solve = _solver(B)
        refined = w + solve(c - B @ w)  # once more, for the last digits
        if np.array_equal(np.sign(refined[1:]), sigma[1:]):
            w = refined
        fitted = G @ w
        squares = max(self.square - 2 * float(w @ c) + float(w @ fitted), 0.0)
        t, n = float(np.abs(w[1:]).sum()), self.problem.n_rows
        inverse = np.diagonal(solve(np.eye(len(w))))[1:]
        coefficients = w[1:] / np.sqrt(rho_sq)
        return SummedPoint(
            members=members,
            theta=np.abs(w[1:]) / t if t > 0 else np.zeros(0),
            rho_sq=rho_sq,
            norms=np.abs(w[1:]),
            A=np.zeros((0, 1)),
            W=coefficients[:, None],
            intercept=w[:1].copy(),
            objective=0.5 * squares / n + self.lam / 2 * (t**2 + float(w[0]) ** 2),
            g=(c - fitted)[1:] ** 2 * self.problem.C**2,
            losses=w[1:] ** 2 / np.maximum(inverse, 1e-300),
            raw=np.concatenate([w[:1], coefficients]),
            squares=squares,
            with_targets=self.square - float(w @ c),
            plain=float(c[0] - fitted[0]),
        )

    def log_error(self, members):
        """Return log(RSS/Σs) of ordinary least squares."""
        self.learn(members)
        G, c, _ = self._scaled(members)
        w = _solver(G)(c)
        left = self.square - 2 * float(w @ c) + float(w @ (G @ w))
        return float(np.log(max(left, 1e-14 * self.square, 1e-300) / self.total))

    def exact(self, point):
        """Whether the loss is nothing against its start, as far as sums of squares tell, and against the norm."""
        loss, start = 0.5 * point.squares, 0.5 * self.square
        penalty = 0.5 * self.mu * float(point.norms.sum()) ** 2
        return 3 * len(point) <= self.problem.n_rows and loss <= 1e-12 * start and loss <= 1e-5 * penalty

    def promising(self, point, candidates):
        """Rank candidates by how much least squares gains from them beside the kernels of `point`."""
        self.learn(candidates, keep=[*point.members, *candidates])
        active, new = (self._at(z) for z in (point.members, candidates))
        at = np.concatenate([[0], active]).astype(np.intp)
        across, own = self.G[np.ix_(at, new)], np.diagonal(self.G)[new]
        pull = self.G[1, new] - point.raw @ across
        left = own - np.einsum("ij,ij->j", across, _solver(self.G[np.ix_(at, at)])(across))
        gain = np.where(left > 1e-9 * own, pull**2 / np.maximum(left, 1e-300), 0.0)
        return [candidates[i] for i in np.argsort(-gain, kind="stable")]


class SummedOracle(ProductSearcher):
    """The best products along the gradient, over all rows: all compared while that is affordable, else grown in a beam.

    It is the oracle of a pursuit; the direction that its searches are along is a point.

    Parameters
    ----------
    problem : WholeProblem
    rows : Rows
    total : float
        Σ s.
    mean_squares : (r,) array
        Of the columns.
    rng : Generator
    """

    lazy = hereditary = False

    def __init__(self, problem: Problem, rows: Rows, total: float, mean_squares: np.ndarray, rng):
        family: Any = problem.family
        self.total = total
        self.family, self.rows, self.problem, self.rng = family, rows, problem, rng
        self.degree, self.how = family.degree, problem.scale.how
        self.prior_sq = np.concatenate([[1.0], family._prior_sq()])
        self.active = np.flatnonzero(mean_squares > 0)
        self.base, self.r = mean_squares[self.active], len(self.active)
        self.place = {int(j): i for i, j in enumerate(self.active)}
        unit = self.base if self.how is not None else np.ones(self.r)
        self.sums = TableSums(self.active, np.sqrt(unit), self.degree)
        self.tables, self.columns = rows.broadcast(self.sums), rows.broadcast(Columns(family))
        places = family.size()
        self.exhaustive = places <= MOST_PLACES and places * rows.n_rows <= DEARER * SEARCH_SIZES.exhaustive
        self.searches = 0
        self.inverse: np.ndarray | None = None
        self._at: Point | None = None
        self._found: Best = nothing()

    def __call__(self, point: Point) -> Best:
        """Return the best kernels that are not active."""
        if self._at is not point:
            self.searches += 1
            self._found, self._at = self._search(point), point
        return self._found

    certified = __call__

    def dual_norm(self, point: Point, found: Best) -> float:
        """Return max_i g_i over the family, or over what has been looked at."""
        return max(point.level, float(found.values[0]) if len(found.values) else 0.0)

    def _search(self, point: Any) -> Best:
        if self.r == 0:
            return nothing()
        if not self.exhaustive:
            return self.heuristic(point, CANDIDATES, point.members, self.rng)
        if self.inverse is None:
            self.inverse = self._inverse_scales()
        at = tuple(point.members), point.raw[:, None]
        pulls = self.rows.sum(table_pulls, self.columns, self.tables, *at)[0]
        scores = np.square(self.problem.C * pulls) * self.inverse
        top = leaders(np.where(self.inverse > 0, scores, -np.inf), CANDIDATES + SLACK + len(point))
        members = self.named(self.sums.table.members(top))
        known = set(point.members)
        # In the order of the family, so that ties are broken as in a list of all.
        order = sorted(
            (i for i, z in enumerate(members) if z not in known), key=lambda i: (len(members[i]), members[i])
        )
        return ranked([members[i] for i in order], scores[top][order], CANDIDATES, True)

    def _inverse_scales(self) -> np.ndarray:
        """Return 1/ρ² of all products, 0 for those that vanish; with ``"trace"`` that takes a sum over the rows."""
        rho_sq = self.prior_sq[self.sums.table.degrees(self.sums.table.slabs)]
        if self.how == "trace":
            rho_sq = rho_sq * self.rows.sum(table_squares, self.tables) / self.total
        return np.divide(1.0, rho_sq, out=np.zeros(len(rho_sq)), where=rho_sq > 0)

    # -- what a search that is not exhaustive asks for

    def extensions(self, direction: Any, prefixes) -> np.ndarray:
        """Return the values of all one-factor extensions at a point: a sum over the rows."""
        pulls, squares = self.rows.sum(
            _extensions,
            self.columns,
            self.tables,
            tuple(direction.members),
            direction.raw,
            tuple(prefixes),
        )
        means = squares / self.total if self.how == "trace" else None
        return self._over_scale(np.square(self.problem.C * pulls), means, prefixes)

    def values(self, direction: Any, members) -> np.ndarray:
        """Return the values of members at a point, each as the extension of its head."""
        codes = self.coded(members)
        heads = list(dict.fromkeys(z[:-1] for z in codes))
        table = self.extensions(direction, heads)
        row = {z: i for i, z in enumerate(heads)}
        return np.array([table[row[z[:-1]], z[-1]] for z in codes])

    def _draws(self, direction, rng):
        return []


def check_summable(solver: Any, problem: Problem) -> None:
    """Raise ValueError for what takes all rows at once."""
    family: Any = problem.family
    check_products("Greedy", problem)
    if problem.loss.name != "squared" or problem.n_outputs != 1:
        raise ValueError(
            f"Greedy takes rows from files and clusters with loss='squared' and one output, not {problem.loss.name!r} "
            f"with {problem.n_outputs}; pass rows in memory, or Blockwise."
        )
    if not solver.corrective or solver.p != 1 or getattr(family, "count", "distinct") != "distinct":
        raise ValueError(
            "Greedy takes rows from files and clusters with corrective=True, p=1 and products that count once; pass "
            "rows in memory for others."
        )


def solve_summed(solver: Any, rows: Rows, first: Problem, on_iteration) -> tuple[Result, Corrective]:
    """Take steps over the rows, and return the result with the pursuit."""
    check_summable(solver, first)
    log = Log(on_iteration, time.perf_counter())
    problem = WholeProblem.of(first, rows)
    (total, squared_total), targets, products, squares = rows.sum(moments)
    rng = generator(solver.random_state)
    mean_squares = squares / total
    size = problem.family.size()
    if solver.max_kernels == "auto":
        most = int(min(200, size, max(rows.n_rows // 3, 1)))
        limits = Limits(most, criterion=ExtendedBIC(float(total**2 / squared_total), size))
    else:
        limits = Limits(int(min(solver.max_kernels, size)), swaps=solver.swaps)
    tol = min(0.1 * solver.tol, 1e-3)
    known = np.array([total, targets[0], products[0, 0]])
    pursuit = Corrective(
        solver,
        problem,
        log,
        rng,
        limits,
        oracle=SummedOracle(problem, rows, float(total), mean_squares, rng),
        refitter=SummedLeastSquares(problem, rows, tol, known, mean_squares),
    )
    result = pursuit.run()
    extra = {**result.trace.extra, "rounds": (rows.rounds,), "bytes": (rows.sent,)}
    return replace(result, dual_coef=None, trace=replace(result.trace, extra=extra)), pursuit
