"""Learn which kernels to combine, and the predictor on top of them."""

from __future__ import annotations

from ._util.lazy import looked_up
from ._version import __version__

TYPE_CHECKING = False  # as type checkers read it; the command line begins here, and typing takes its time
if TYPE_CHECKING:
    from typing import Any

    from .estimators import AlignedKernel, MKLClassifier, MKLOutlier, MKLRegressor, MKLSurvival
    from .families import Dirichlets, Finite, Gaussians, Laplacians, Precomputed, Products, Union
    from .persistence import load
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
        TriplyStochastic,
        Ufo,
        Uniform,
    )
    from .tables import Views

__all__ = [
    "SILP",
    "AlignedKernel",
    "Alignment",
    "Blockwise",
    "Dirichlets",
    "Finite",
    "Gaussians",
    "Greedy",
    "GreedyAlignment",
    "HessianMKL",
    "Hierarchical",
    "Laplacians",
    "LeaveOneOut",
    "LpNorm",
    "MKLClassifier",
    "MKLOutlier",
    "MKLRegressor",
    "MKLSurvival",
    "MirrorDescent",
    "Obscure",
    "PolynomialMKL",
    "Precomputed",
    "Products",
    "SimpleMKL",
    "Single",
    "TriplyStochastic",
    "Ufo",
    "Uniform",
    "Union",
    "Views",
    "__version__",
    "load",
]

#: Where the public names live; they are imported when first asked for: a command that needs none waits for none.
_HOMES = {
    "AlignedKernel": "estimators",
    "MKLClassifier": "estimators",
    "MKLOutlier": "estimators",
    "MKLRegressor": "estimators",
    "MKLSurvival": "estimators",
    "Views": "tables",
    "load": "persistence",
    **dict.fromkeys(
        ("Dirichlets", "Finite", "Gaussians", "Laplacians", "Precomputed", "Products", "Union"), "families"
    ),
}
#: All other public names are solvers.
_HOMES |= {name: "solvers" for name in __all__ if name not in _HOMES and name != "__version__"}
_ROOMS = (
    "certificates",
    "displays",
    "families",
    "findings",
    "kernels",
    "losses",
    "report",
    "solvers",
    "streaming",
)
#: Found as attributes as well, though a tab does not show them.
_INNER = ("combination", "estimators", "features", "machines", "persistence", "predictors", "problem")


def __getattr__(name: str) -> Any:
    return looked_up(name, globals(), _HOMES | dict.fromkeys((*_ROOMS, *_INNER)))


def __dir__() -> list[str]:
    return sorted([*__all__, *_ROOMS])
