"""Targets: from labels or numbers to the n × c matrix Y that solvers see, and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .._util.checks import refuse_missing
from ..losses import Loss

if TYPE_CHECKING:
    from ..solvers import Solver


@dataclass(frozen=True)
class Known:
    """What is known before rows are looked at, of a stream above all.

    Attributes
    ----------
    classes : array of all labels, or None
    names : names of the columns, which a sample does not have
    mean : array, that of all targets
    solver : Solver, in place of the estimator's own
    balance : array, the weight of each class that balances all rows
    loss : name of the loss, in place of the estimator's own
    """

    classes: np.ndarray | None = None
    names: tuple[str, ...] | None = None
    mean: np.ndarray | None = None
    solver: Solver | None = None
    balance: np.ndarray | None = None
    loss: str | None = None


NOTHING_KNOWN = Known()


def announced_classes(classes) -> np.ndarray:
    """Return the labels given as ``classes=``, sorted."""
    refuse_missing(classes, name="classes")
    labels = list(classes) if np.ndim(classes) else [classes]
    if not labels:
        raise ValueError("classes is empty; list every label that will come up, at least two.")
    # Of numbers and text NumPy would make text, which no number in y is equal to.
    if len({isinstance(label, str) for label in labels}) > 1:
        raise ValueError("classes mixes text and numbers; use one kind, that of the labels in y.")
    try:
        return np.unique(np.asarray(classes))
    except TypeError:
        raise ValueError("classes mixes labels of several types; use text, or numbers.") from None


def distinct_classes(y: np.ndarray, task: str, name: str = "y") -> np.ndarray:
    """Return the sorted labels of the argument `name`, at least two, or raise; `task` says what needs them."""
    labels = np.unique(y)
    if len(labels) < 2:
        raise ValueError(
            f"{name} holds one class only ({labels.tolist()[0]!r}); {task} needs at least two classes."
        )
    return labels


def class_codes(y: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Return the number of each label among the sorted `classes`, or raise."""
    try:
        places = np.searchsorted(classes, y)
    except TypeError:
        raise ValueError("y mixes labels of several types; use text, or numbers.") from None
    codes = np.clip(places, 0, len(classes) - 1)
    unseen = classes[codes] != y
    if np.any(unseen):
        raise ValueError(
            f"y holds the label {np.asarray(y)[unseen].tolist()[0]!r}, which is not among the classes "
            f"{classes[:8].tolist()}; announce all labels in classes=."
        )
    return codes


def encoded(y: np.ndarray, n_classes: int | None, loss: Loss) -> np.ndarray:
    """Return Y (n, c), not centred, for numbers, or for the numbers of classes.

    Classes are one-hot for coupled losses, else -1/+1 (one column for two classes, and one for each border between
    ordered ones).
    """
    if n_classes is None:
        return y[:, None] if y.ndim == 1 else y
    return _encoded_classes(y, n_classes, loss)


def _encoded_classes(codes: np.ndarray, n_classes: int, loss: Loss) -> np.ndarray:
    if loss.multiclass:
        return np.eye(n_classes)[codes]
    if loss.shared:
        return np.where(codes[:, None] > np.arange(n_classes - 1), 1.0, -1.0)
    if n_classes == 2:
        return np.where(codes == 1, 1.0, -1.0)[:, None]
    return (2.0 * np.eye(n_classes) - 1.0)[codes]


def balancing(mass: np.ndarray) -> np.ndarray:
    """Return the weight of each class with which all have the same total, for their weights so far."""
    return mass.sum() / (np.count_nonzero(mass) * np.where(mass > 0, mass, 1.0))


def decision(F: np.ndarray, n_classes: int, loss: Loss) -> np.ndarray:
    """Return scores in scikit-learn's shape: (n,) for two classes, else (n, n_classes), of ordered ones logarithms."""
    if n_classes > 2 and loss.shared:
        return np.log(np.maximum(loss.probabilities(F), np.finfo(float).tiny))
    if n_classes > 2:
        return F
    return F[:, 0] if F.shape[1] == 1 else F[:, 1] - F[:, 0]


def probabilities(F: np.ndarray, n_classes: int, loss: Loss) -> np.ndarray:
    """Return class probabilities; one-vs-rest ones are scaled to sum to one."""
    P = loss.probabilities(F)
    if loss.multiclass or loss.shared:
        return P
    if n_classes == 2:
        return np.column_stack([1.0 - P[:, 0], P[:, 0]])
    total = P.sum(axis=1, keepdims=True)
    return np.divide(P, total, out=np.full_like(P, 1.0 / n_classes), where=total > 0)
