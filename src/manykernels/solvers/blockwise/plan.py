"""What a fit is going to do, laid out before it begins: bandwidths and C, blocks of features, sweeps, first weights."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._util.shapes import WHOLE, Stored, check_arrays, demand
from ...certificates import norm
from ...combination import Combination
from ...families.base import Enumerable
from ...families.view import View
from ...predictors import RandomFeature, feature_maps
from ...problem import Problem, Result, nu_of
from ...streaming.cluster import Rows
from ..aligning import weigh
from ..base import NothingAligned, generator
from ..weights import closed_form
from ._grids import sum_of_squares
from .mixing import choose_ridge, prepare_union
from .preparation import Prepared, Sample, columns_of_time, prepare_one

if TYPE_CHECKING:
    from .sweeps import Unit

#: Above this many rows a single kernel has fewer grids, which are gone over once.
ONCE_ROWS = 200_000
#: Grids of a single kernel, and of many rows: 128 more gain 0.5 points of R² on 10,000 rows, and nothing on 400,000 but
#: 0.06 points of accuracy, for a quarter of the time.
SINGLE_GRIDS, ONCE_GRIDS = 512, 384
#: Fourier features; and up to so many rows a union has more of everything, and is next to an exact machine.
FEATURES = 8192
MORE_ROWS, MORE_GRIDS, MORE_FEATURES, MORE_SWEEPS = 25_000, 2048, 16_384, 6
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
        Where bandwidths, or C, were chosen.
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

    @property
    def theta(self) -> np.ndarray | None:
        """The weights, where they were chosen beforehand."""
        return None if self.prepared is None else self.prepared.theta

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return what a state needs, to be made into a plan again."""
        known = {"seed": np.array([self.seed]), "C": np.array([self.C])}
        if not np.isinf(self.family.size()):
            return known
        theta = np.zeros(0) if self.theta is None else self.theta
        return known | _learned_arrays(self.family, self.members, self.n_features) | {"chosen": theta}

    def some(self, chosen: np.ndarray) -> Plan:
        """Return the plan with some of its kernels."""
        prepared, members = self.prepared, [m for m, kept in zip(self.members, chosen, strict=True) if kept]
        if prepared is not None and prepared.theta is not None:
            prepared = replace(prepared, theta=prepared.theta[chosen])
        parts = {name: getattr(self, name)[chosen] for name in ("rho_sq", "sizes", "blocks")}
        return replace(self, members=members, prepared=prepared, **parts)

    def maps(self) -> list[Any]:
        """Return the maps of all kernels."""
        return feature_maps(self.family, self.members, self.n_features, self.seed, self.sizes)

    def lams(self, units: list[Unit], theta: np.ndarray) -> np.ndarray:
        """Return λ_k = B_i ρ_i²/(C θ_i) of every unit; 1/C for the intercept, infinity without weight."""
        each = over_weights(self.blocks * self.rho_sq, self.C * theta)
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


def over_weights(size: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Return size/θ; infinity for what has no weight, a kernel that vanishes on the rows included."""
    return np.divide(size, theta, out=np.full(len(theta), np.inf), where=theta > 0)


def lay_plan(
    solver,
    first: Problem,
    n_rows: int | None,
    known: dict[str, np.ndarray] | None = None,
    *,
    together: bool = True,
    rows: Rows | None = None,
) -> Plan:
    """Learn bandwidths, weights of a union and C, or take those of a state, and lay out the features.

    Parameters
    ----------
    solver : Blockwise
    first : Problem
        A sample of the rows.
    n_rows : int or None
        How many there are.
    known : dict of arrays, optional
        A state that has ``Plan.to_arrays`` in it.
    together : bool
        Whether binning and dense features can be in one fit; one pass over batches takes either, and has no time for
        folds.
    rows : Rows or None
        Where they lie elsewhere: small fits are made there, too.
    """
    family: Any = first.family
    seed = int(generator(solver.random_state).integers(2**62)) if known is None else int(known["seed"][0])
    if not np.isinf(family.size()):
        members = list(family.members())
        prepared = _listed(solver, first, members, seed, known, rows)
    else:
        bounds = {} if known is None else known
        family = _within(family, bounds) if "bounds" in bounds or "bounds0" in bounds else None
        first = replace(first, family=family or first.family.adapt(first.X, first.sample_weight))
        family = first.family
        prepared = (
            _known(known, family)
            if known is not None
            else _prepared(solver, first, n_rows, seed, together, rows)
        )
        members = prepared.members
    rho_sq = first.scale.rho_sq(members, solver.p)
    C = first.C if prepared is None else prepared.C
    n_features = first.X.shape[1]
    maps = family.random_features(members, n_features, seed, 2)
    grids, sweeps = passes(solver, first, n_rows, len(maps) == 1 and maps[0].sparse)
    dense = FEATURES if solver.n_features == "auto" else solver.n_features
    if _is_union(family) and n_rows is not None and n_rows <= MORE_ROWS:
        grids = _more_grids(first, n_rows) if solver.grids == "auto" else grids
        sweeps = (
            MORE_SWEEPS if solver.sweeps == "auto" and not (len(maps) == 1 and maps[0].sparse) else sweeps
        )
        dense = MORE_FEATURES if solver.n_features == "auto" else dense
    theta = None if prepared is None else prepared.theta
    laid = _sizes(maps, n_rows, solver.bins, grids, solver.block, dense, theta)
    return Plan(family, members, rho_sq, C, seed, n_features, *laid, sweeps, prepared)


def expected(first: Problem, n_rows: int) -> dict[str, float]:
    """Return seconds of one core of the reference machine for the preparation and for the sweeps, as measured.

    The plan itself is laid on the way. Of kernels that were not measured nothing is said.
    """
    d, c = first.X.shape[1], first.n_outputs
    statistics = [getattr(part, "statistic", None) for part in first.family.families()]
    if "l1" in statistics and len(statistics) > 1:
        many = 1 + 0.08 * math.sqrt(max(d - 10, 0)) + 0.02 * (c - 1)
        return {"bandwidths": 11 * many, "sweeps": (6e-4 if n_rows <= MORE_ROWS else 8.5e-5) * n_rows * many}
    if statistics == ["l1"]:
        many = 1 + 0.006 * max(d - 10, 0) + 0.1 * (c - 1)
        return {"bandwidths": 0.6 * many, "sweeps": 8e-6 * n_rows * many}
    return {}


def _prepared(solver, first: Problem, n_rows, seed: int, together: bool, rows: Rows | None) -> Prepared:
    """Return the kernels that a sample of the rows chooses from a continuum, or from a union with one."""
    single = not _is_union(first.family)
    sample = Sample(
        first, seed=seed % 2**32, size=solver.bins, soft=not single, folds=None if together else 1
    )

    def sweeps(part) -> int:
        return passes(solver, first, n_rows, getattr(part, "statistic", None) == "l1")[1]

    if single:
        return prepare_one(sample, sweeps=sweeps(first.family), n_rows=n_rows, rows=rows)
    return prepare_union(sample, sweeps, n_rows=n_rows, together=together, rows=rows)


def _listed(solver, first: Problem, members, seed: int, known, rows: Rows | None) -> Prepared | None:
    """Return the C of a list of kernels, chosen on a sample of the rows; None where it is given."""
    if known is not None:
        return Prepared(members, float(known["C"][0]), math.nan, "known")
    if not first.choose_C:
        return None
    theta = first_weights_of(first, members, first.scale.rho_sq(members, solver.p), solver.p)
    return choose_ridge(Sample(first, seed=seed % 2**32, size=solver.bins), members, theta, rows)


def passes(solver, first: Problem, n_rows: int | None, single: bool) -> tuple[int, int]:
    """Return the numbers of grids and of sweeps; a `single` kernel has bins, and no weight to be learned."""
    grids, sweeps = 256, 3
    if single and n_rows and 4 * SINGLE_GRIDS * solver.bins * first.n_outputs <= MOST_BYTES:
        many = n_rows > ONCE_ROWS
        grids = ONCE_GRIDS if many else SINGLE_GRIDS
        # In the order of time what one sweep leaves over is what lasts.
        once = many and solver.sweeps == "auto" and not _in_order_of_time(first)
        # Fewer grids than one sweep is for are gone over as often as it takes to visit as many.
        asked_grids = grids if solver.grids == "auto" else int(solver.grids)
        again = min(MORE_SWEEPS, math.ceil(grids / asked_grids))
        sweeps = again if once else 2
    asked = (solver.grids, grids), (solver.sweeps, sweeps)
    return tuple(own if given == "auto" else given for given, own in asked)  # type: ignore[return-value]


def _more_grids(first: Problem, n_rows: int) -> int:
    """Return the grids of a union on few rows, as many as coefficients have room."""
    most = MOST_BYTES // (8 * n_rows * first.n_outputs)
    return int(np.clip(most, 256, MORE_GRIDS))


def _sizes(
    maps: list[Any],
    n_rows: int | None,
    bins: int,
    grids: int,
    most: int,
    n_features: int,
    theta: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the size and the number of blocks of every member, given a map of each.

    Blocks of Fourier features are of `most` at most. Weights that are known share features out: in proportion to the
    weights they make the best of a sum of kernels.
    """
    sparse = np.array([m.sparse for m in maps])
    dense = np.array([not m.sparse and m.n_blocks is None for m in maps])
    few = 2 * n_rows if n_rows else n_features  # more features than that are no better than the kernel
    block = min(most - most % 2, max(2, 2 * few))
    blocks = min(n_features, max(few, block)) / block
    # With fewer rows than bins a smaller table does: a bin meets another one with a chance of at most a quarter.
    table = bins if n_rows is None else min(bins, 1 << max(6, (4 * n_rows - 1).bit_length()))
    sizes = np.where(sparse, table, np.where(dense, block, 1))
    if theta is None:
        equal = max(1, round(blocks / max(1, dense.sum())))
        per = max(min(16, grids), grids // max(1, int(sparse.sum())))
        return sizes, np.where(sparse, per, np.where(dense, equal, 1))
    each = np.maximum(1, np.round(blocks * _shares(theta, dense)))
    lines = np.maximum(min(16, grids), np.round(grids * _shares(theta, sparse)))
    return sizes, np.where(sparse, lines, np.where(dense, each, 1)).astype(int)


def _shares(theta: np.ndarray, which: np.ndarray) -> np.ndarray:
    some = np.where(which, theta, 0.0)
    return some / max(some.sum(), np.finfo(float).tiny)


# -- weights of the kernels ----------------------------------------------------------------------------


def first_weights(plan: Plan, first: Problem, p: float) -> np.ndarray:
    """Return θ to start from: what was chosen, or what is aligned with the targets."""
    return first_weights_of(first, plan.members, plan.rho_sq, p) if plan.theta is None else plan.theta


def first_weights_of(first: Problem, members, rho_sq: np.ndarray, p: float) -> np.ndarray:
    """Return the alignment of kernels with the targets on some rows, with a floor."""
    alive = (rho_sq > 0).astype(float)
    m = int(alive.sum())
    if m > 1 and p < 2 and isinstance(first.family, Enumerable) and m <= ALIGNED_KERNELS:
        theta = _aligned(first, members, rho_sq)
        alive *= np.maximum(theta, 0.05 * theta.max(initial=0.0)) if theta.any() else 1.0
    return alive / norm(alive, nu_of(p)) if m else alive


def _aligned(first: Problem, members, rho_sq) -> np.ndarray:
    """Return the best aligned weights on some of the rows, zeros where the targets of these are constant."""
    some = first.rows(np.linspace(0, first.n_rows - 1, min(ALIGNED_ROWS, first.n_rows)).astype(int))
    try:
        return weigh(some, members, rho_sq)[0]
    except NothingAligned:
        return np.zeros(len(members))


def best_weights(plan: Plan, norms: np.ndarray, p: float) -> np.ndarray:
    """Return what was chosen, or θ_i = u_i^(2-p)/(Σ_j u_j^p)^((2-p)/p); equal weights where there is no norm."""
    if plan.theta is not None:
        return plan.theta
    alive = plan.rho_sq > 0
    if not norms.any() or p == 2:
        theta = alive.astype(float)
        return theta / norm(theta, nu_of(p)) if theta.any() else theta
    return closed_form(norms, p)


# -- what a state knows --------------------------------------------------------------------------------


def _learned_arrays(family, members, n_features: int) -> dict[str, np.ndarray]:
    """Return bounds of the continua of a family, and members: their parts, and bandwidths or numbers in a list."""
    parts = family.families()
    arrays = {
        f"bounds{k}": part._box(n_features) for k, part in enumerate(parts) if hasattr(part, "statistic")
    }
    owners, values = [], np.full((len(members), n_features), np.nan)
    for i, member in enumerate(members):
        k, own = (0, member) if len(parts) == 1 and not _is_union(family) else member
        owners.append(k)
        if hasattr(parts[k], "statistic"):
            values[i, : np.size(own)] = own
        else:
            values[i, 0] = list(parts[k].members()).index(own)
    return arrays | {"part": np.array(owners, dtype=np.int64), "values": values}


def check_known(known: dict[str, np.ndarray], family, n_features: int) -> None:
    """Raise Damaged unless what a state from a file knows of a plan can be made into one."""
    check_arrays(known, {"seed": Stored("1", WHOLE, 0), "C": Stored("1", least=1e-300)})
    if not np.isinf(family.size()):
        return
    parts = family.families()
    for k, part in enumerate(parts):
        if hasattr(part, "statistic"):
            name = "bounds" if "bounds" in known else f"bounds{k}"
            shape, needed = f"{_width(part, n_features) if part.ard else 1} 2", isinstance(part.bounds, str)
            check_arrays(known, {name: Stored(shape, least=1e-300, optional=not needed)})
    if "member" in known:
        check_arrays(known, {"member": Stored("*", least=1e-300, finite=False)})
        members = [(0, known["member"])]
    else:
        declared = {
            "part": Stored("m", WHOLE, 0, len(parts) - 1),
            "values": Stored("m d", finite=False),
            "chosen": Stored("*", least=0.0),
        }
        m = check_arrays(known, declared, {"d": n_features})["m"]
        demand(
            m and len(known["chosen"]) in (0, m), f"chosen has {len(known['chosen']):,} rows, and not {m:,}"
        )
        members = list(zip(known["part"].tolist(), known["values"], strict=True))
    for k, values in members:
        _check_member(parts[k], values, n_features)


#: Bandwidths below this, and above its inverse, leave the range of numbers when they are squared.
LEAST = 1e-150


def _check_member(part, values: np.ndarray, n_features: int) -> None:
    if not hasattr(part, "statistic"):
        known = values[0] in range(int(part.size()))
        demand(known, "values holds a kernel that is not in the list")
    elif part.ard:
        own = values[: _width(part, n_features)]
        demand(len(values) == n_features and (own > LEAST).all(), "values holds what is no bandwidth")
    else:
        demand(len(values) and LEAST < values[0] < 1 / LEAST, "values holds what is no bandwidth")


def _width(part, n_features: int) -> int:
    """Return how many columns a part's kernels are on."""
    return part.width if isinstance(part, View) else n_features


def _is_union(family) -> bool:
    return family.families()[0] is not family


def _known(known: dict[str, np.ndarray], family) -> Prepared:
    """Return the kernels, weights and C of a state; one of an earlier version has a single continuum's member."""
    C, parts = float(known["C"][0]), family.families()
    if "member" in known:
        return Prepared([_as_member(known["member"], family)], C, math.nan, "known")
    members = []
    for k, values in zip(known["part"].tolist(), known["values"], strict=True):
        listed = not hasattr(parts[k], "statistic")
        width = _width(parts[k], len(values))
        own = list(parts[k].members())[int(values[0])] if listed else _as_member(values[:width], parts[k])
        members.append(family.member_of(k, own))
    theta = known["chosen"] if len(known["chosen"]) else None
    return Prepared(members, C, math.nan, "known", theta)


def _as_member(values: np.ndarray, part) -> Any:
    """Return bandwidths of a state as a member."""
    return tuple(values.tolist()) if part.ard else float(values[0])


def _in_order_of_time(first: Problem) -> bool:
    """Whether the rows of a sample are in the order of time."""
    return columns_of_time(first.X, first.Y, np.flatnonzero(first.sample_weight)) is not None


def _within(family, known: dict[str, np.ndarray]) -> Any:
    """Return a family with the automatic bounds that a state knows: finding them takes longer than a batch."""
    if not _is_union(family):
        return _bounded(family, known.get("bounds0", known.get("bounds")))
    parts = family.families()
    return family._with([_bounded(part, known.get(f"bounds{k}")) for k, part in enumerate(parts)])


def _bounded(part, bounds: np.ndarray | None) -> Any:
    if bounds is None or not isinstance(part.bounds, str):
        return part
    pairs = [tuple(pair) for pair in bounds.tolist()]
    return part.within(pairs if part.ard else pairs[0])
