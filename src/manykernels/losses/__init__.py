"""Losses: value, gradient, conjugate, and an integer code for compiled loops.

``base.py`` is the contract, then there is one loss a file; ``_pull.py`` has the subgradients of those that compiled
loops take. To add one, subclass :class:`Loss` in a file of its own and enter it in ``LOSSES``. Outputs that span
several rows have losses of their own kind, :class:`Structured`, known by their most violating output; :class:`Chain`,
for sequences, is one.
"""

from __future__ import annotations

from .base import Loss
from .chain import Chain
from .cox import Cox
from .epsilon_insensitive import EpsilonInsensitive
from .hinge import Hinge
from .huber import Huber
from .logistic import Logistic
from .max_hinge import MaxHinge
from .one_class import OneClass
from .ordinal import Ordinal
from .poisson import Poisson
from .quantile import Quantile
from .softmax import Softmax
from .squared import Squared
from .squared_hinge import SquaredHinge
from .structured import Structured

__all__ = [
    "LOSSES",
    "Chain",
    "Cox",
    "EpsilonInsensitive",
    "Hinge",
    "Huber",
    "Logistic",
    "Loss",
    "MaxHinge",
    "OneClass",
    "Ordinal",
    "Poisson",
    "Quantile",
    "Softmax",
    "Squared",
    "SquaredHinge",
    "Structured",
    "get_loss",
]

#: The losses of targets by name.
LOSSES: dict[str, type[Loss]] = {
    loss.name: loss
    for loss in (
        *(Squared, Hinge, SquaredHinge, Logistic, MaxHinge, Softmax, Ordinal),
        *(EpsilonInsensitive, Huber, Quantile, Poisson),
    )
}


def get_loss(loss: str | Loss) -> Loss:
    """Return the loss of that name, with its default parameters; an instance is returned as it is.

    Raises
    ------
    ValueError
        If there is no such loss, or a parameter makes no sense.
    """
    if isinstance(loss, Loss):
        loss.check_params()
        return loss
    if isinstance(loss, str) and loss in LOSSES:
        return LOSSES[loss]()
    options = ", ".join(repr(name) for name in LOSSES)
    raise ValueError(
        f"loss={loss!r} is not a loss; choose one of {options}, or pass an instance such as losses.Quantile(0.9)."
    )


def __dir__() -> list[str]:
    return sorted(__all__)
