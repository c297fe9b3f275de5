"""What a fit says, and how sure it is.

Every finding is a function of a fitted model, or of a model to fit, and returns a frozen record of arrays; models are
asked what they can do, not what they are.

``anova.py`` splits a predictor into components, ``attribution.py`` shares these out among columns. ``reading.py`` finds
the variables of a predictor and the functions of each (``functions.py``), ``expansion.py`` has the decomposition of
sums of products of such functions in closed form, ``sampling.py`` by samples for all other predictors, ``units.py``
lays grids over columns in their own units.

``selection.py`` counts what fits on half of the rows select (``halves.py`` makes them), and ``bounds.py`` says what to
expect of it. ``imitations.py`` has knockoffs. ``path.py`` holds the models of a grid of C and p, and their errors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .._util.lazy import looked_up

if TYPE_CHECKING:
    from .anova import Components, Effect, components
    from .attribution import Shapley, Shares, shapley, shares
    from .bounds import selection_bound
    from .imitations import Knockoffs, knockoffs
    from .path import SolutionPath
    from .selection import Stability, stability

__all__ = [
    "Components",
    "Effect",
    "Knockoffs",
    "Shapley",
    "Shares",
    "SolutionPath",
    "Stability",
    "components",
    "knockoffs",
    "selection_bound",
    "shapley",
    "shares",
    "stability",
]

#: Where the names live; they are imported when first asked for. A file is called otherwise than its function, which it
#: would hide.
_ROOM = {
    "anova": "Components Effect components",
    "attribution": "Shapley Shares shapley shares",
    "bounds": "selection_bound",
    "imitations": "Knockoffs knockoffs",
    "path": "SolutionPath",
    "selection": "Stability stability",
}
_HOMES = {name: home for home, names in _ROOM.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    return looked_up(name, globals(), _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
