"""From what a user passes as `kernels=` and `solver=` to families and solvers: the one table of names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone

from ._text import brief
from .families import (
    Enumerable,
    Family,
    Finite,
    Gaussians,
    HasRandomFeatures,
    Laplacians,
    Maximisable,
    Precomputed,
    Products,
)
from .families.bandwidths import bandwidth_grid
from .families.base import can
from .kernels import RBF, Kernel, Laplacian, Linear
from .solvers import (
    SILP,
    Alignment,
    Blockwise,
    Greedy,
    GreedyAlignment,
    LpNorm,
    MirrorDescent,
    SimpleMKL,
    Single,
    Solver,
    Uniform,
)
from .solvers.uniform import LISTED

#: Names of families that need no look at the data.
FAMILIES: dict[str, Any] = {
    "linear": lambda: Finite([Linear()]),
    "precomputed": Precomputed,
    "products": Products,
}
#: Names of families whose bandwidths come from the data's distances.
GRIDS: dict[str, Any] = {"gaussian": RBF, "laplacian": Laplacian}
#: Names that mean a continuum where the solver takes one.
CONTINUA: dict[str, Any] = {"gaussian": Gaussians, "laplacian": Laplacians}
#: More rows than a Gram matrix should hold: ``solver="auto"`` takes Blockwise where there are random features.
MANY_ROWS = 20_000
SOLVERS: dict[str, type[Solver]] = {
    "uniform": Uniform,
    "single": Single,
    "lp_norm": LpNorm,
    "simple_mkl": SimpleMKL,
    "silp": SILP,
    "mirror_descent": MirrorDescent,
    "greedy": Greedy,
    "alignment": Alignment,
    "greedy_alignment": GreedyAlignment,
    "blockwise": Blockwise,
}


def is_pairwise(kernels: Any) -> bool:
    """Whether X is a stack of kernel matrices."""
    if isinstance(kernels, str):
        return kernels == "precomputed"
    return bool(getattr(kernels, "pairwise", False))


def learns_bandwidths(solver: Any, n_rows: int) -> bool:
    """Whether ``"gaussian"`` and ``"laplacian"`` mean one learned bandwidth per column, not a list of bandwidths."""
    if isinstance(solver, str):
        name = solver.lower().replace("-", "_")
        return n_rows > MANY_ROWS if name == "auto" else SOLVERS.get(name) is Blockwise
    return isinstance(solver, Blockwise)


def make_family(kernels: Any, X, sample_weight, *, continuum: bool = False) -> Family:
    """Return the family that `kernels` describes, not yet resolved; `continuum` see ``learns_bandwidths``."""
    if isinstance(kernels, Family):
        return kernels.adapt(X, sample_weight)
    if isinstance(kernels, str):
        if continuum and kernels in CONTINUA:
            return CONTINUA[kernels](ard=True).adapt(X, sample_weight)
        if kernels in GRIDS:
            return Finite(bandwidth_grid(GRIDS[kernels], X, sample_weight))
        if kernels in FAMILIES:
            return FAMILIES[kernels]()
        raise ValueError(
            f"kernels is {kernels!r}; use one of {', '.join(sorted([*FAMILIES, *GRIDS]))}, a list or dict "
            "of kernels, or a family."
        )
    if isinstance(kernels, Kernel) or (callable(kernels) and not isinstance(kernels, type)):
        return Finite([kernels])
    if isinstance(kernels, np.ndarray):
        raise ValueError(
            "kernels is an array; for ready-made kernel matrices pass kernels='precomputed' and the stack of "
            "shape (n, n, n_kernels) as X."
        )
    if isinstance(kernels, Sequence | Mapping):
        return Finite(kernels)
    raise ValueError(
        f"kernels is {brief(kernels)}; pass a list or dict of kernels, a family such as Products(degree=3), or "
        f"one of {', '.join(sorted([*FAMILIES, *GRIDS]))}."
    )


def make_solver(solver: Any, family: Family, random_state: Any, n_rows: int = 0) -> Solver:
    """Return a fresh solver; ``"auto"`` chooses by what the family can do."""
    if isinstance(solver, str):
        name = solver.lower().replace("-", "_")
        if name == "auto":
            made = choose_solver(family, n_rows)
        elif name in SOLVERS:
            made = SOLVERS[name]()
        else:
            known = ", ".join(sorted(SOLVERS)).replace("_", "-")
            raise ValueError(f"solver is {brief(solver)}; use 'auto', {known}, or a solver.")
    elif isinstance(solver, Solver):
        made = clone(solver)
    else:
        raise ValueError(
            f"solver is {brief(solver)}; pass 'auto', a name, or a solver such as LpNorm(p=1.2)."
        )
    if "random_state" in made.get_params() and made.random_state is None:
        made.set_params(random_state=random_state)
    made.check_params()
    return made


def choose_solver(family: Family, n_rows: int = 0) -> Solver:
    """Return Blockwise for many rows where there are random features; else what suits the family.

    That is Greedy for families of products, GreedyAlignment for a continuum, LpNorm(p=4/3) where the kernels can be
    listed, and the plain sum for the rest.
    """
    if n_rows > MANY_ROWS and can(family, HasRandomFeatures):
        return Blockwise()
    if np.isinf(family.size()) and can(family, Maximisable):
        return GreedyAlignment()
    if family.factorises and can(family, Maximisable):
        return Greedy(max_kernels="auto")
    if isinstance(family, Enumerable) and family.size() <= LISTED:
        return LpNorm()
    return Uniform()
