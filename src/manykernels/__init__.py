"""Learn which kernels to combine, and the predictor on top of them."""

from __future__ import annotations

from importlib import import_module

from ._version import __version__

TYPE_CHECKING = False  # as type checkers read it; the command line begins here, and typing takes its time
if TYPE_CHECKING:
    from typing import Any

    from .estimators import AlignedKernel, MKLClassifier, MKLOutlier, MKLRegressor
    from .persistence import load
    from .tables import Views

__all__ = ["AlignedKernel", "MKLClassifier", "MKLOutlier", "MKLRegressor", "Views", "load", "__version__"]

#: Where the public names live; they are imported when first asked for: a command that needs none waits for none.
_HOMES = {
    "AlignedKernel": "estimators",
    "MKLClassifier": "estimators",
    "MKLOutlier": "estimators",
    "MKLRegressor": "estimators",
    "Views": "tables",
    "load": "persistence",
}
_ROOMS = ("certificates", "displays", "families", "findings", "kernels", "losses", "solvers", "streaming")
#: Found as attributes as well, though a tab does not show them.
_INNER = ("combination", "estimators", "features", "machines", "persistence", "predictors", "problem")


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    elif name in (*_ROOMS, *_INNER):
        value = import_module(f"{__name__}.{name}")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, *_ROOMS])
