"""What a fit is going to do, laid out before it begins: bandwidths and C, blocks of features, sweeps, first weights."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...certificates import norm
from ...combination import Combination
from ...families.base import Enumerable
from ...predictors import RandomFeature, feature_maps
from ...problem import Problem, Result, nu_of
from ..aligning import weigh
from ..base import NothingAligned, generator
from ..weights import closed_form
from ._grids import sum_of_squares
from .preparation import Prepared, columns_of_time, prepare

if TYPE_CHECKING:
    from .sweeps import Unit

#: Above this many rows a single kernel has fewer grids, which are gone over once.
ONCE_ROWS = 200_000
#: Grids of a single kernel, and of many rows: 128 more gain 0.5 points of R² on 10,000 rows, and nothing on 400,000 but
#: 0.06 points of accuracy, for a quarter of the time.
SINGLE_GRIDS, ONCE_GRIDS = 512, 384
#: So many grids are for coefficients that take no more than this.
MOST_BYTES = 2**30
#: Most rows, and most kernels, whose alignment with the targets gives the first weights.
ALIGNED_ROWS, ALIGNED_KERNELS = 500, 100
#: What may help a model that is no better than the mean.
REMEDY = "other kernels, a smaller C or more rows may help"


@dataclass(frozen=True)
class Plan:
    """Everything of a fit that does not change once its bandwidths are known.

    Attributes
    ----------
    family, members, rho_sq : the kernels and their squared scales
    C : float
    seed, n_features : int
    sizes, blocks : (m,) arrays of int
        Features of a block, and blocks, of every kernel.
    sweeps : int
    prepared : Prepared or None
    """

    family: Any
    members: list[Any]
    rho_sq: np.ndarray
    C: float
    seed: int
    n_features: int
    sizes: np.ndarray
    blocks: np.ndarray
    sweeps: int
    prepared: Prepared | None

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return what a state needs, to be made into a plan again."""
        member = [] if self.prepared is None else self.prepared.member
        bounds = {} if self.prepared is None else {"bounds": self.family._box(self.n_features)}
        return {
            **bounds,
            "seed": np.array([self.seed]),
            "C": np.array([self.C]),
            "member": np.atleast_1d(np.asarray(member, dtype=float)),
        }

    def maps(self) -> list[Any]:
        """Return the maps of all kernels."""
        return feature_maps(self.family, self.members, self.n_features, self.seed, self.sizes)

    def lams(self, units: list[Unit], theta: np.ndarray) -> np.ndarray:
        """Return λ_k = B_i ρ_i²/(C θ_i) of every unit; 1/C for the intercept, infinity without weight."""
        with np.errstate(divide="ignore"):
            each = np.where(theta > 0, self.blocks * self.rho_sq / (self.C * theta), np.inf)
        return np.array([1 / self.C if u.member < 0 else each[u.member] for u in units])

    def norms(self, units: list[Unit], W: np.ndarray) -> np.ndarray:
        """Return u_i = ρ_i‖w_i‖, with ‖w_i‖² = B_i Σ_b ‖W_ib‖²."""
        squares = np.zeros(len(self.members))
        for u in units[1:]:
            squares[u.member] += sum_of_squares(W[u.part])
        return np.sqrt(self.rho_sq * self.blocks * squares)

    def result(self, W, intercept, theta, norms, slots=None, seen=None, **fields) -> Result:
        """Return a result on random features; see :class:`~manykernels.predictors.RandomFeature` for slots and seen."""
        weights = np.divide(theta, self.rho_sq, out=np.zeros(len(theta)), where=self.rho_sq > 0)
        combination = Combination(self.family, self.members, weights, np.sqrt(self.rho_sq), norms)
        b = np.asarray(intercept, dtype=np.float64)
        n_features, seed = np.array([self.n_features]), np.array([self.seed])
        predictor = RandomFeature(combination, n_features, seed, self.sizes, self.blocks, W, b, slots, seen)
        return Result(
            predictor=predictor, combination=combination, dual_coef=None, intercept=b, C=self.C, **fields
        )


def lay_plan(solver, first: Problem, n_rows: int | None, known: dict[str, np.ndarray] | None = None) -> Plan:
    """Learn bandwidths, or take those of a state, and lay out the features.

    Parameters
    ----------
    solver : Blockwise
    first : Problem
        A sample of the rows.
    n_rows : int or None
        How many there are.
    known : dict of arrays, optional
        A state that has ``Plan.to_arrays`` in it.
    """
    family: Any = first.family
    seed = int(generator(solver.random_state).integers(2**62)) if known is None else int(known["seed"][0])
    prepared = None
    grids, sweeps = passes(solver, first, n_rows)
    if np.isinf(family.size()):
        if known is not None and "bounds" in known:
            family = _within(family, known["bounds"])
        else:
            family = family.adapt(first.X, first.sample_weight)
        if known is not None:
            prepared = Prepared(_as_member(known["member"], family), float(known["C"][0]), math.nan, "known")
        else:
            sizes = {"size": solver.bins, "sweeps": sweeps, "n_rows": n_rows}
            prepared = prepare(first, tune_C=solver.tune_C, seed=seed % 2**32, **sizes)
        members = [prepared.member]
    else:
        members = list(family.members())
    rho_sq = first.scale.rho_sq(members, solver.p)
    C = first.C if prepared is None else prepared.C
    n_features = first.X.shape[1]
    laid = _sizes(solver, family.random_features(members, n_features, seed, 2), n_rows, grids)
    return Plan(family, members, rho_sq, C, seed, n_features, *laid, sweeps, prepared)


def passes(solver, first: Problem, n_rows: int | None) -> tuple[int, int]:
    """Return the numbers of grids and of sweeps; weights of several kernels are learned between sweeps."""
    family: Any = first.family
    if np.isinf(family.size()):
        single = family.statistic == "l1"
    else:
        members = list(family.members())
        single = len(members) == 1 and family.random_features(members, first.X.shape[1], 0, 2)[0].sparse
    grids, sweeps = 256, 3
    if single and n_rows and 4 * SINGLE_GRIDS * solver.bins * first.n_outputs <= MOST_BYTES:
        many = n_rows > ONCE_ROWS
        grids = ONCE_GRIDS if many else SINGLE_GRIDS
        # In the order of time what one sweep leaves over is what lasts.
        once = many and solver.sweeps == "auto" and not _in_order_of_time(first)
        sweeps = 1 if once else 2
    asked = (solver.grids, grids), (solver.sweeps, sweeps)
    return tuple(own if given == "auto" else given for given, own in asked)  # type: ignore[return-value]


def _sizes(solver, maps: list[Any], n_rows: int | None, grids: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the size and the number of blocks of every member, given a map of each."""
    sparse = np.array([m.sparse for m in maps])
    dense = np.array([not m.sparse and m.n_blocks is None for m in maps])
    few = 2 * n_rows if n_rows else solver.n_features  # more features than that are no better than the kernel
    block = min(solver.block - solver.block % 2, max(2, 2 * few))
    each = max(1, round(min(solver.n_features, max(few, block)) / max(1, dense.sum()) / block))
    # With fewer rows than bins a smaller table does: a bin meets another one with a chance of at most a quarter.
    table = solver.bins if n_rows is None else min(solver.bins, 1 << max(6, (4 * n_rows - 1).bit_length()))
    sizes = np.where(sparse, table, np.where(dense, block, 1))
    per = max(min(16, grids), grids // max(1, int(sparse.sum())))
    return sizes, np.where(sparse, per, np.where(dense, each, 1))


# -- weights of the kernels ----------------------------------------------------------------------------


def first_weights(plan: Plan, first: Problem, p: float) -> np.ndarray:
    """Return θ to start from: alignment with the targets on some rows, with a floor."""
    alive = (plan.rho_sq > 0).astype(float)
    m = int(alive.sum())
    if m > 1 and p < 2 and isinstance(plan.family, Enumerable) and m <= ALIGNED_KERNELS:
        theta = _aligned(first, plan.members, plan.rho_sq)
        alive *= np.maximum(theta, 0.05 * theta.max(initial=0.0)) if theta.any() else 1.0
    return alive / norm(alive, nu_of(p)) if m else alive


def _aligned(first: Problem, members, rho_sq) -> np.ndarray:
    """Return the best aligned weights on some of the rows, zeros where the targets of these are constant."""
    some = first.rows(np.linspace(0, first.n_rows - 1, min(ALIGNED_ROWS, first.n_rows)).astype(int))
    try:
        return weigh(some, members, rho_sq)[0]
    except NothingAligned:
        return np.zeros(len(members))


def best_weights(norms: np.ndarray, p: float, alive: np.ndarray) -> np.ndarray:
    """Return θ_i = u_i^(2-p)/(Σ_j u_j^p)^((2-p)/p); equal weights where there is no norm."""
    if not norms.any() or p == 2:
        theta = alive.astype(float)
        return theta / norm(theta, nu_of(p)) if theta.any() else theta
    return closed_form(norms, p)


# -- what a state knows --------------------------------------------------------------------------------


def _as_member(values: np.ndarray, family) -> Any:
    """Return bandwidths of a state as a member."""
    return tuple(values.tolist()) if family.ard else float(values[0])


def _in_order_of_time(first: Problem) -> bool:
    """Whether the rows of a sample are in the order of time."""
    return columns_of_time(first.X, first.Y, np.flatnonzero(first.sample_weight)) is not None


def _within(family, bounds: np.ndarray) -> Any:
    """Return a family with the automatic bounds that a state knows: finding them takes longer than a batch."""
    if not isinstance(family.bounds, str):
        return family
    pairs = [tuple(pair) for pair in bounds.tolist()]
    return family.within(pairs if family.ard else pairs[0])
