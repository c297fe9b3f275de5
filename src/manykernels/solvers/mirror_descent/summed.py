"""Mirror descent over rows that lie elsewhere: files, or the partitions of a cluster, for products of columns.

For the squared loss the machine needs the Gram matrix of the products met, which grows by a sum over the rows for those
that are new; P, D and the g of these follow from it. Drawing takes one sum: either Σ s r φ_z of *all* products, r the
residuals, from which products are drawn in proportion to g, and which gives the exact gap; or some rows, chosen by a
hash of their names and the number of the draw, which are gathered here and drawn from as in memory
(``families/products/row_sampler.py``).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ...certificates import norm
from ...families.draws import pick
from ...families.products.monomial_search import SEARCH_SIZES
from ...families.products.row_sampler import RowSampler
from ...families.products.table_sums import TableSums
from ...machines.spaces import factored
from ...problem import Problem, Result, nu_of
from ...streaming.cluster import Block, Gathered, Rows
from ...streaming.sources import uniform
from ..active import Active
from ..log import Log
from ..product_sums import (
    DEARER,
    MOST_PLACES,
    Columns,
    WholeProblem,
    check_products,
    gram,
    moments,
    pulls,
    table_pulls,
    table_squares,
)
from .walk import Walk, _dual_norm, _Gap

#: Refinements of the coefficients with the same factor.
REFINED = 2


@dataclass(eq=False)
class Residuals:
    """What stands for A = C s r: the coefficients of a model, from which blocks compute r.

    Attributes
    ----------
    members : tuple
    raw : (1 + k, c) array
        The intercept, and the coefficients of the products.
    forms : dict
        tr(AᵀK_zA) of the products that are known.
    g : array or None
        Of all products of the table, once they are known.
    """

    members: tuple[Any, ...]
    raw: np.ndarray
    forms: dict[Any, float] = field(default_factory=dict)
    g: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class SummedFit:
    """A machine's solution, with sums over the rows in place of what has a length of n.

    Attributes
    ----------
    A : Residuals
    W : (k + 1, c) array
        Coefficients of √weight_i φ_i, and the intercept last.
    squares, with_targets : float
        Σ s ‖r‖² and Σ s <r, y>.
    plain : (c,) array
        Σ s r.
    """

    A: Residuals
    W: np.ndarray
    squares: float
    with_targets: float
    plain: np.ndarray


# -- what happens where the rows are -------------------------------------------------------------------------


def _some(block: Block, columns: Columns, members, raw, below: float, seed: int) -> Gathered:
    """Return some rows with s r, and the hashes by which they were chosen."""
    assert block.keys is not None
    hashes = uniform(block.keys, seed)
    at = np.flatnonzero(hashes < below)
    chosen = Block(np.asarray(block.X[at], dtype=np.float64), block.Y[at], block.s[at])
    return Gathered(chosen.X, columns.residuals(chosen, members, raw), hashes[at])


# -- the machine -----------------------------------------------------------------------------------------------


class SummedActive(Active):
    """Products with weights θ, known by their sums over the rows.

    Parameters
    ----------
    problem : WholeProblem
    p : float
    rows : Rows
    """

    def __init__(self, problem: Problem, p: float, rows: Rows):
        self.problem, self.family, self.p, self.rows = problem, problem.family, p, rows
        self.members, self.place = [], {}
        self.theta, self.rho_sq = np.zeros(0), np.zeros(0)
        self.lam = 1.0 / (problem.C * problem.n_rows)
        self._columns = self._list = self._met = self._K = self._last = self._ridge = None
        self._unit, self.work = 1.0, 0.0  # machines are few numbers here
        self.columns = rows.broadcast(Columns(problem.family))
        (self.total, _), targets, products, squares = rows.sum(moments)
        self.mean_squares = squares / self.total
        #: Σ s Y Yᵀ's trace, and Σ s [1, φ]ᵀ[1, φ] and Σ s [1, φ]ᵀY of the products that are known.
        self.square = float(np.trace(products))
        self.gram, self.pulled = np.array([[self.total]]), targets[None]
        self.known: dict[Any, int] = {}
        self._scales: dict[Any, float] = {}

    def rho_of(self, members):
        """Return ρ² of members; their mean squares take a sum over the rows, and are kept."""
        how, penalty = self.problem.scale.how, self.family.penalty(members, nu_of(self.p))
        if how is None:
            return penalty
        if how == "base":
            return self.family.factor_scale(self.mean_squares, members) * penalty
        new = [z for z in dict.fromkeys(members) if z not in self._scales]
        if new:
            none = np.zeros((1, self.pulled.shape[1]))
            squares = self.rows.sum(pulls, self.columns, (), none, tuple(new))[1]
            self._scales |= dict(zip(new, (squares / self.total).tolist(), strict=True))
        return np.array([self._scales[z] for z in members]) * penalty

    def _learn(self) -> None:
        """Add the products that are new to the Gram matrix: a sum over the rows."""
        new = tuple(z for z in self.members if z not in self.known)
        if not new:
            return
        fresh = self.rows.sum(gram, self.columns, tuple(self.known), new)
        c, k = self.pulled.shape[1], len(self.gram)
        inner = np.concatenate([fresh[:1], fresh[1 + c :]])  # without the targets
        self.gram = np.block([[self.gram, inner[:k]], [inner[:k].T, inner[k:]]])
        self.pulled = np.concatenate([self.pulled, fresh[1 : 1 + c].T])
        self.known |= {z: k - 1 + i for i, z in enumerate(new)}

    def solve(self):
        """Return the machine at the current weights."""
        self._learn()
        at = np.array([0, *(1 + self.known[z] for z in self.members)], dtype=np.intp)
        G, P, C = self.gram[np.ix_(at, at)], self.pulled[at], self.problem.C
        root = np.concatenate([[1.0], np.sqrt(self.weights())])[:, None]
        M = C * G * root * root.T
        np.einsum("ii->i", M)[:] += 1.0
        B, right = M.copy(), C * root * P
        solve = factored(M, float(np.diagonal(M).max()))
        W = solve(right)
        for _ in range(REFINED):
            W = W + solve(right - B @ W)
        raw = root * W
        left = P - G @ raw  # Σ s r [1, φ]
        inner = float(np.vdot(raw, P))
        A = Residuals(tuple(self.members), raw)
        A.forms = dict(zip(self.members, np.square(C * left[1:]).sum(axis=1).tolist(), strict=True))
        return SummedFit(
            A=A,
            W=np.concatenate([W[1:], W[:1]]),
            squares=max(self.square - inner - float(np.vdot(raw, left)), 0.0),
            with_targets=self.square - inner,
            plain=left[0],
        )

    def forms(self, A, members=None):
        """Return tr(AᵀK_iA) of members, or of all that are active; of those not known by a sum over the rows."""
        members = self.members if members is None else members
        new = tuple(z for z in dict.fromkeys(members) if z not in A.forms)
        if new:
            pulled = self.rows.sum(pulls, self.columns, A.members, A.raw, new)[0]
            forms = np.square(self.problem.C * pulled).sum(axis=1)
            A.forms |= dict(zip(new, forms.tolist(), strict=True))
        return np.array([A.forms[z] for z in members])

    def objective(self, fit, norms):
        """Return P."""
        b = self.intercept(fit)
        return 0.5 * fit.squares / self.problem.n_rows + self.lam / 2 * (
            norm(norms, self.p) ** 2 + float(b @ b)
        )

    def dual(self, fit, dual_norm):
        """Return D at A = C s r: ℓ*(-r) = ½r² - r y."""
        C, n = self.problem.C, self.problem.n_rows
        conjugate = (0.5 * fit.squares - fit.with_targets) / n
        return -conjugate - (dual_norm + C**2 * float(fit.plain @ fit.plain)) / (2 * C * n)

    def explicit(self, fit):
        """Return the solution: it has coefficients of features already."""
        return fit


# -- drawing ---------------------------------------------------------------------------------------------------


class TableDrawer:
    """Products drawn in proportion to g over all of them: a sum over the rows for every A.

    Parameters
    ----------
    active : SummedActive
    """

    def __init__(self, active: SummedActive):
        self.active, self.family = active, active.family
        self.used = np.flatnonzero(active.mean_squares > 0)
        base = active.mean_squares[self.used]
        self.scaled = active.problem.scale.how is not None
        self.unit = base if self.scaled else np.ones(len(base))
        self.sums = TableSums(self.used, np.sqrt(self.unit), self.family.degree)
        self.tables = active.rows.broadcast(self.sums)
        prior = np.concatenate([[1.0], self.family._prior_sq()])
        rho_sq = prior[self.sums.table.degrees(self.sums.table.slabs)]
        if active.problem.scale.how == "trace":
            rho_sq = rho_sq * active.rows.sum(table_squares, self.tables) / active.total
        #: 1/ρ² in units of the base, 0 for what vanishes.
        self.inverse = np.divide(1.0, rho_sq, out=np.zeros(len(rho_sq)), where=rho_sq > 0)

    def g(self, A: Residuals) -> np.ndarray:
        """Return g of all products."""
        if A.g is None:
            active = self.active
            found = active.rows.sum(table_pulls, active.columns, self.tables, A.members, A.raw)
            A.g = np.square(active.problem.C * found).sum(axis=0) * self.inverse
        return A.g

    def draw(self, A: Residuals, size: int, rng: np.random.Generator) -> tuple[list[Any], np.ndarray]:
        """Return products and their probabilities; uniform ones where no product has any g."""
        g = self.g(A)
        at = pick(rng, g, size)
        if len(at) < size:
            return self.family.draw_uniform(size, rng)
        members = [tuple(self.used[list(z)].tolist()) for z in self.sums.table.members(at)]
        forms = g[at] / self.inverse[at]  # in units of the base
        if self.scaled:
            forms = forms * self.family.factor_scale(self.active.mean_squares, members)
        A.forms |= {z: f for z, f in zip(members, forms.tolist(), strict=True) if z not in A.forms}
        return members, g[at] / g.sum()


class GatheredRows(RowSampler):
    """Products drawn from some rows, which are gathered anew for every A: a sum over the rows.

    Parameters
    ----------
    active : SummedActive
    n_rows : int
    """

    def __init__(self, active: SummedActive, n_rows: int):
        problem: Any = active.problem
        super().__init__(active.family, problem.X, problem.scale, n_rows)
        self.active, self.n = active, problem.n_rows

    def some_rows(self, A: Any, rng):
        """Return the rows with the least hashes."""
        seed = int(rng.integers(2**31))
        # A few standard deviations more than are wanted, so that there are enough of them.
        below = (self.n_rows + 6 * self.n_rows**0.5) / self.n
        active = self.active
        found = active.rows.sum(_some, active.columns, A.members, A.raw, below, seed)
        X, V, hashes = found.arrays
        least = np.argsort(hashes, kind="stable")[: self.n_rows]
        return X[least], active.problem.C * V[least]


class SummedWalk(Walk):
    """The steps of :class:`~manykernels.solvers.mirror_descent.walk.Walk` over rows that lie elsewhere.

    Parameters
    ----------
    solver : MirrorDescent
    rows : Rows
    first : Problem
        A sample of the rows.
    log, rng :
    """

    def __init__(self, solver: Any, rows: Rows, first: Problem, log: Log, rng: np.random.Generator):
        check_walk(solver, first)
        self.blocks = rows
        super().__init__(solver, WholeProblem.of(first, rows), log, rng)
        self.forms = self.active.forms

    active: SummedActive

    def open(self, n_rows):
        """Sum up what all draws share."""
        self.active = SummedActive(self.problem, self.solver.p, self.blocks)
        if self.problem.scale.how == "base":  # of all rows
            scale = replace(self.problem.scale, base=self.active.mean_squares)
            self.problem = self.active.problem = replace(self.problem, scale=scale)
        self.table: TableDrawer | None = None
        size = self.family.size()
        affordable = size <= MOST_PLACES and size * self.blocks.n_rows <= DEARER * SEARCH_SIZES.exhaustive
        if n_rows is not None:
            self.rows = GatheredRows(self.active, n_rows)
        elif affordable:
            self.table = TableDrawer(self.active)
            self.active.drawer = lambda: self.table.draw  # type: ignore[method-assign, union-attr]
        else:
            raise ValueError(
                f"kernels is {size:,} products over {self.blocks.n_rows:,} rows, too many to weigh them all in every "
                "step of MirrorDescent; pass rows=, such as MirrorDescent(rows=2000), to draw them from some rows."
            )

    def loss_at_zero(self):
        return 0.5 * self.active.square / self.problem.n_rows

    def gap_at(self, fit, objective):
        """Return the exact gap where all products are weighed or few, else an upper confidence limit."""
        if self.table is None:
            return super().gap_at(fit, objective)
        dual_norm = _dual_norm(self.table.g(fit.A), self.potential.nu)
        return _Gap(objective - self.active.dual(fit, dual_norm), 0.0, "exact")

    def result(self) -> Result:
        """Return the result, without A."""
        result = super().result()
        extra = {**result.trace.extra, "rounds": (self.blocks.rounds,), "bytes": (self.blocks.sent,)}
        return replace(result, dual_coef=None, trace=replace(result.trace, extra=extra))


def check_walk(solver: Any, problem: Problem) -> None:
    """Raise ValueError for what takes all rows at once."""
    check_products("MirrorDescent", problem)
    if problem.loss.name != "squared" or solver.step != "normalised" or solver.p == 1:
        raise ValueError(
            f"MirrorDescent takes rows from files and clusters with loss='squared', step='normalised' and p > 1, not "
            f"{problem.loss.name!r}, {solver.step!r} and {solver.p:g}; pass rows in memory."
        )
    family: Any = problem.family
    if family.count != "distinct" or isinstance(problem.scale.how, np.ndarray):
        raise ValueError(
            "MirrorDescent takes rows from files and clusters with products that count once, and normalize='base', "
            "'trace' or None; pass rows in memory for others."
        )
