"""From what a user passes as `kernels=` and `solver=` to families and solvers: the one table of names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone

from ._text import brief
from .families import Enumerable, Family, Finite, Gaussians, Maximisable, Precomputed, Products
from .families.bandwidths import bandwidth_grid
from .families.base import can
from .kernels import RBF, Kernel, Laplacian, Linear
from .solvers import (
    SILP,
    Alignment,
    Greedy,
    GreedyAlignment,
    LpNorm,
    MirrorDescent,
    Obscure,
    SimpleMKL,
    Single,
    Solver,
    Ufo,
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
CONTINUA: dict[str, Any] = {"gaussian": Gaussians}
SOLVERS: dict[str, type[Solver]] = {
    "uniform": Uniform,
    "single": Single,
    "lp_norm": LpNorm,
    "simple_mkl": SimpleMKL,
    "silp": SILP,
    "mirror_descent": MirrorDescent,
    "greedy": Greedy,
    "obscure": Obscure,
    "ufo": Ufo,
    "alignment": Alignment,
    "greedy_alignment": GreedyAlignment,
}


def is_pairwise(kernels: Any) -> bool:
    """Whether X is a stack of kernel matrices."""
    if isinstance(kernels, str):
        return kernels == "precomputed"
    return bool(getattr(kernels, "pairwise", False))


def make_family(kernels: Any, X, sample_weight) -> Family:
    """Return the family that `kernels` describes, not yet resolved."""
    if isinstance(kernels, Family):
        return kernels.adapt(X, sample_weight)
    if isinstance(kernels, str):
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


def make_solver(solver: Any, family: Family, random_state: Any) -> Solver:
    """Return a fresh solver; ``"auto"`` chooses by what the family can do."""
    if isinstance(solver, str):
        name = solver.lower().replace("-", "_")
        if name == "auto":
            made = choose_solver(family)
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


def choose_solver(family: Family) -> Solver:
    """Return Greedy for families of products, LpNorm(p=4/3) where the kernels can be listed, else the plain sum.

    A continuum gets GreedyAlignment.
    """
    if np.isinf(family.size()) and can(family, Maximisable):
        return GreedyAlignment()
    if family.factorises and can(family, Maximisable):
        return Greedy(max_kernels="auto")
    if isinstance(family, Enumerable) and family.size() <= LISTED:
        return LpNorm()
    return Uniform()
