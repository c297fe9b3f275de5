"""From what a user passes as `kernels=` and `solver=` to families and solvers: the one table of names."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS

from ._util.memory import free_bytes, gibibytes
from ._util.text import brief, warn
from .families import (
    Enumerable,
    Family,
    Finite,
    Gaussians,
    HasFeatures,
    HasRandomFeatures,
    Laplacians,
    Maximisable,
    Precomputed,
    Products,
    Union,
)
from .families.bandwidths.grids import bandwidth_grid
from .families.base import can
from .families.view import View
from .kernels import RBF, Kernel, Laplacian, Linear
from .solvers import (
    SILP,
    Alignment,
    Blockwise,
    Greedy,
    GreedyAlignment,
    HessianMKL,
    Hierarchical,
    LeaveOneOut,
    LpNorm,
    MirrorDescent,
    Obscure,
    PolynomialMKL,
    SimpleMKL,
    Single,
    Solver,
    StreamingSolver,
    TriplyStochastic,
    Ufo,
    Uniform,
)
from .solvers.uniform import LONGEST_TABLE

#: Names of families that need no look at the data.
FAMILIES: dict[str, Any] = {
    "linear": lambda: Finite([Linear()]),
    "precomputed": Precomputed,
    "products": Products,
}
#: Names of families whose bandwidths come from the data's distances.
GRIDS: dict[str, Any] = {"gaussian": RBF, "laplacian": Laplacian}
#: Names of grids that mean a continuum to a solver that can search, draw from or prepare one.
CONTINUA: dict[str, Any] = {"gaussian": Gaussians, "laplacian": Laplacians}
#: Columns of a view that have a bandwidth each; wider ones share one.
MOST_BANDWIDTHS = 64
#: The line in what ``"auto"`` combines.
LINE = Linear()
SOLVERS: dict[str, type[Solver]] = {
    "uniform": Uniform,
    "single": Single,
    "lp_norm": LpNorm,
    "simple_mkl": SimpleMKL,
    "silp": SILP,
    "hessian_mkl": HessianMKL,
    "mirror_descent": MirrorDescent,
    "greedy": Greedy,
    "hierarchical": Hierarchical,
    "polynomial_mkl": PolynomialMKL,
    "obscure": Obscure,
    "ufo": Ufo,
    "alignment": Alignment,
    "greedy_alignment": GreedyAlignment,
    "leave_one_out": LeaveOneOut,
    "triply_stochastic": TriplyStochastic,
    "blockwise": Blockwise,
}
#: Memory that an exact machine may take by default: a fixed figure, so that a call gives the same model everywhere.
MEMORY = 2**30
#: Matrices of n × n numbers that it takes, and the rows beyond which it takes too long, whatever the memory.
MATRICES, MOST_ROWS = 3, 40_000


def bound_family(
    kernels: Any, X, sample_weight, solver: Any = "auto", names=None, blocks: Any = True
) -> Family:
    """Return the family that `kernels` describes, bound to the columns of X and, where automatic, to its rows.

    `blocks` lists columns that share a bandwidth where ``"auto"`` has one per column.
    """
    if isinstance(kernels, str) and kernels == "auto" and learns_bandwidths(solver):
        return automatic_family(X.shape[1], names, blocks)
    family = make_family(kernels, X, sample_weight, solver)
    family = family.resolve(X.shape[2] if X.ndim == 3 else X.shape[1], names)
    # What learns bandwidths takes its bounds from the rows itself, and lists and products have none.
    if learns_bandwidths(solver) or isinstance(family, Finite | Products):
        return family
    return family.adapt(X, sample_weight)


def automatic_family(n_features: int, names=None, blocks: Any = True) -> Union:
    """Return what ``"auto"`` combines: two kinds of bandwidths, one each per column or block of columns, and a line."""
    kinds = [kind.over(n_features, names, blocks) for kind in (Gaussians, Laplacians)]
    return Union([*kinds, Finite.over([LINE], n_features, names)])


def used_views(kernels: Any, names: Sequence[str]) -> list[str]:
    """Return the views that kernels are asked for: all, or those that a dict names."""
    if not isinstance(kernels, Mapping):
        return list(names)
    strange = [name for name in kernels if name not in names]
    if strange:
        raise ValueError(
            f"kernels names the view {brief(strange[0])}, which X does not have; it has {', '.join(map(repr, names))}."
        )
    used = [name for name in names if kernels.get(name) is not None]
    if not used:
        raise ValueError(f"kernels names no view; X has {', '.join(map(repr, names))}.")
    return used


def is_automatic(kernels: Any, view: str) -> bool:
    """Whether the kernels of a view are left open."""
    own = kernels[view] if isinstance(kernels, Mapping) else kernels
    return isinstance(own, str) and own == "auto"


def view_family(kernels: Any, X, sample_weight, solver: Any, columns: Any) -> Union:
    """Return the kernels on all views together; `columns` says how these lie in X."""
    parts: list[Family] = []
    for k, name in enumerate(columns.names):
        first, last, presence = columns.starts[k], columns.starts[k + 1], columns.starts[-1] + k
        if is_automatic(kernels, name) and learns_bandwidths(solver):
            family: Family = automatic_view(columns, k)
        else:
            rows = np.flatnonzero(X[:, presence] * sample_weight)
            own = kernels[name] if isinstance(kernels, Mapping) else kernels
            if getattr(own, "heredity", "none") != "none":
                raise ValueError(
                    f"kernels asks for {own.heredity} heredity on the view {name!r}, which needs Products alone; pass "
                    "heredity='none'."
                )
            names = columns.names_out[first:last]
            family = make_family(own, X[rows, first:last], sample_weight[rows], solver).resolve(
                last - first, names
            )
        parts += [View(name, part, first, last, presence) for part in family.families()]
    union = Union(parts)
    return union if learns_bandwidths(solver) else union.adapt(X, sample_weight)


def automatic_view(columns: Any, k: int) -> Union:
    """Return what ``"auto"`` combines on one view: few columns have a bandwidth each, counts have no Laplacian."""
    first, last = columns.starts[k], columns.starts[k + 1]
    names, blocks = columns.names_out[first:last], columns.blocks(k)
    if blocks is None:
        return Union([Gaussians.over(last - first, names, False), Finite.over([LINE], last - first, names)])
    return automatic_family(last - first, names, blocks if len(blocks) <= MOST_BANDWIDTHS else False)


def make_family(kernels: Any, X, sample_weight, solver: Any = "auto") -> Family:
    """Return the family that `kernels` describes, not yet bound to the columns.

    A name may mean a continuum or a grid of bandwidths: the continuum, unless `solver` needs what only a list has. It
    has one bandwidth per column for a solver that learns those beforehand.
    """
    if isinstance(kernels, Family):
        return kernels
    if isinstance(kernels, str):
        kernels = "gaussian" if kernels == "auto" else kernels
        if kernels in CONTINUA and (is_auto(solver) or suits(solver, CONTINUA[kernels]())):
            return CONTINUA[kernels](ard=learns_bandwidths(solver))
        if kernels in GRIDS:
            return Finite(bandwidth_grid(GRIDS[kernels], X, sample_weight))
        if kernels in FAMILIES:
            return FAMILIES[kernels]()
        if kernels in PAIRWISE_KERNEL_FUNCTIONS:  # as in a list
            return Finite([kernels])
        raise ValueError(
            f"kernels is {kernels!r}; use one of {', '.join(sorted([*FAMILIES, *GRIDS]))}, scikit-learn's name of a "
            "kernel, a list or dict of kernels, or a family."
        )
    if isinstance(kernels, Kernel) or (callable(kernels) and not isinstance(kernels, type)):
        return Finite([kernels])
    if isinstance(kernels, np.ndarray):
        raise ValueError(
            "kernels is an array; for ready-made kernel matrices pass kernels='precomputed' and the stack of "
            "shape (n, n, n_kernels) as X."
        )
    if isinstance(kernels, Sequence | Mapping):
        listed = kernels.values() if isinstance(kernels, Mapping) else kernels
        if any(isinstance(part, str) and part == "auto" for part in listed):
            raise ValueError(
                "kernels asks for 'auto' beside others, which is for the views of X, and X is one table; pass "
                "kernels='auto', or X as a dict of tables."
            )
        return Union(kernels) if any(isinstance(part, Family) for part in listed) else Finite(kernels)
    raise ValueError(
        f"kernels is {brief(kernels)}; pass a list or dict of kernels, a family such as Products(degree=3), or "
        f"one of {', '.join(sorted([*FAMILIES, *GRIDS]))}."
    )


def learns_bandwidths(solver: Any) -> bool:
    """Whether a solver learns one bandwidth per column before it starts, as what ``"auto"`` becomes does."""
    return is_auto(solver) or bool(getattr(solver_kind(solver), "learns_bandwidths", False))


def exact_rows(memory: int = MEMORY) -> int:
    """Return how many rows an exact machine is for: its matrices fit, and factoring them takes minutes at most."""
    return min(math.isqrt(memory // (8 * MATRICES)), MOST_ROWS)


def suits(solver: Any, family: Family) -> bool:
    """Whether a solver, by itself or by name, finds in a family what it requires; ``"auto"`` always does."""
    return all(can(family, need) for need in getattr(solver_kind(solver), "requires", ()))


def solver_kind(solver: Any) -> type[Solver] | None:
    """Return the class of a solver, given by itself or by name; None if there is none."""
    return solver_class(solver) if isinstance(solver, str) else type(solver)


def solver_class(name: str) -> type[Solver] | None:
    """Return the solver of a name, None if there is none; case, hyphens and underscores do not matter."""
    return {_plain(known): cls for known, cls in SOLVERS.items()}.get(_plain(name))


def streams(solver: Any) -> bool:
    """Whether a solver, by itself or by name, takes rows in batches."""
    return issubclass(solver_kind(solver) or Solver, StreamingSolver)


def sums_rows(solver: Any) -> bool:
    """Whether a solver, by itself or by name, can do with sums over rows that lie elsewhere."""
    return bool(getattr(solver_kind(solver), "sums_rows", False))


def streaming_names() -> str:
    """Return the names of the solvers that take rows in batches, as the command line spells them."""
    known = sorted(name for name, cls in SOLVERS.items() if issubclass(cls, StreamingSolver))
    return ", ".join(known).replace("_", "-")


def solver_names() -> str:
    """Return the names of all solvers, as the command line spells them."""
    return ", ".join(sorted(SOLVERS)).replace("_", "-")


def is_auto(solver: Any) -> bool:
    """Whether the choice of the solver is left to the family."""
    return isinstance(solver, str) and _plain(solver) == "auto"


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


def make_solver(
    solver: Any,
    family: Family,
    random_state: Any,
    n_rows: int = 0,
    choose: Callable[[Family, int, int], Solver] | None = None,
    memory: int = MEMORY,
    automatic: bool = False,
) -> Solver:
    """Return a fresh solver; ``"auto"`` is left to `choose`, by default :func:`choose_solver`.

    `automatic` says that the kernels are those of :func:`automatic_family`.
    """
    left_open = is_auto(solver)
    if left_open and automatic:
        made = default_solver(n_rows, memory)
    elif left_open:
        made = (choose or choose_solver)(family, n_rows, memory)
    elif isinstance(solver, str):
        named = solver_class(solver)
        if named is None:
            raise ValueError(f"solver is {brief(solver)}; use 'auto', {solver_names()}, or a solver.")
        made = named()
    elif isinstance(solver, Solver):
        made = clone(solver)
    else:
        raise ValueError(
            f"solver is {brief(solver)}; pass 'auto', a name, or a solver such as LpNorm(p=1.2)."
        )
    if "random_state" in made.get_params() and made.random_state is None:
        made.set_params(random_state=random_state)
    if not left_open:  # what is chosen here has parameters that make sense
        made.check_params()
    return made


def default_solver(n_rows: int, memory: int = MEMORY) -> Solver:
    """Return the solver for what ``"auto"`` combines: exact as long as its matrices fit, by random features beyond."""
    return Blockwise() if n_rows > exact_rows(memory) else LeaveOneOut()


def choose_solver(family: Family, n_rows: int = 0, memory: int = MEMORY) -> Solver:
    """Return a solver by what the family can do, how many rows there are, and the memory that they may take.

    More rows than an exact machine is for get Blockwise where there are random features, and no explicit ones. Of the
    rest bandwidths get LeaveOneOut, alone or in a union, products get Greedy, kernels that can be listed LpNorm(p=4/3),
    and what is left the plain sum.
    """
    if n_rows > exact_rows(memory) and not can(family, HasFeatures):
        if can(family, HasRandomFeatures):
            return Blockwise()
        warn(
            f"X has {n_rows:,} rows, and kernels without explicit or random features need Gram matrices of "
            f"{gibibytes(8 * n_rows**2)} each; fit on fewer rows, or pass kernels such as RBF or Laplacian."
        )
    if np.isinf(family.size()) and not LeaveOneOut.not_taken(family):
        return LeaveOneOut()
    if np.isinf(family.size()) and can(family, Maximisable):
        return GreedyAlignment()
    if family.factorises and can(family, Maximisable):
        return Greedy(max_kernels="auto")
    if isinstance(family, Enumerable) and family.size() <= LONGEST_TABLE:
        return LpNorm()
    return Uniform()


def exact_bytes(solver: Solver, family: Family, n_rows: int) -> int:
    """Return what a solver's matrices of all pairs of rows take; 0 where it needs none that are not there already."""
    explicit = can(family, HasFeatures) and not solver.needs_grams
    on_the_fly = hasattr(solver, "memory")  # what does not fit there is computed in blocks
    if isinstance(solver, StreamingSolver) or family.pairwise or explicit or on_the_fly:
        return 0
    return 8 * MATRICES * n_rows**2


def check_memory(
    solver: Solver, family: Family, n_rows: int, memory: int | None, *, by_batches: bool = True
) -> None:
    """Refuse what cannot fit, before it is tried: matrices beyond the memory given, or beyond all that is free.

    `by_batches` says whether a solver that streams could do the same.
    """
    need = exact_bytes(solver, family, n_rows)
    if not need:
        return
    room = min((m for m in (memory, free_bytes()) if m is not None), default=None)
    if room is None or need <= room:
        return
    instead = "solver=Blockwise(), " if by_batches and can(family, HasRandomFeatures) else ""
    most = math.isqrt(room // (8 * MATRICES))
    whose, more = ("allowed by memory=", ", or a larger memory") if room == memory else ("free", "")
    raise ValueError(
        f"X has {n_rows:,} rows, for which {type(solver).__name__} needs matrices of {gibibytes(need)}, and "
        f"{gibibytes(room)} are {whose}; use {instead}at most {most:,} rows{more}."
    )


def choose_two_stage(family: Family, n_rows: int = 0, memory: int = MEMORY) -> Solver:
    """Return a solver that learns the kernel alone: Alignment over a list, else GreedyAlignment."""
    listed = can(family, Enumerable) and family.size() <= LONGEST_TABLE
    return GreedyAlignment() if not listed and can(family, Maximisable) else Alignment()
