"""Which solver takes which kernels and which loss: asked of the package itself, shown as a table by the documentation.

A slow test fits, or sees refused, every solver with every kind of kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from manykernels import kernels as k
from manykernels.families import Dirichlets, Finite, Gaussians, Laplacians, Precomputed, Products, Union
from manykernels.losses import LOSSES, get_loss
from manykernels.registry import SOLVERS
from manykernels.solvers import Solver

#: One family of every kind, on four columns or matrices, frequencies on one column.
KINDS: dict[str, Callable[[], Any]] = {
    "list": lambda: Finite([k.RBF(1.3), k.Linear()]),
    "Precomputed": Precomputed,
    "Products": lambda: Products(degree=2),
    "Gaussians": Gaussians,
    "Laplacians": Laplacians,
    "Dirichlets": lambda: Dirichlets(bounds=(0.5, 10.0)),
    "Union": lambda: Union([Gaussians(), k.Linear()]),
    "Union of lists": lambda: Union([Finite([k.RBF(1.3)]), Finite([k.Linear()])]),
}


def n_columns(kind: str) -> int:
    """Return how many columns, or matrices, such kernels are on here."""
    return 1 if kind == "Dirichlets" else 4


def takes(solver: Solver, kind: str, loss: str) -> bool:
    """Whether the solver takes such kernels with that loss, or refuses them before any work."""
    try:
        solver.check_compatible(KINDS[kind]().resolve(n_columns(kind)), get_loss(loss))
    except ValueError:
        return False
    return True


def kinds_of(solver: Solver) -> list[str]:
    """Return the kinds of kernels that a solver takes with some loss."""
    return [kind for kind in KINDS if any(takes(solver, kind, loss) for loss in LOSSES)]


def losses_of(solver: Solver) -> list[str]:
    """Return the losses that a solver takes with some kernels."""
    return [loss for loss in LOSSES if any(takes(solver, kind, loss) for kind in KINDS)]


def solvers() -> dict[str, Solver]:
    """Return every solver at its defaults, by the name that ``solver=`` takes."""
    return {name: kind() for name, kind in SOLVERS.items()}
