"""Targets: from labels or numbers to the n × c matrix Y that solvers see, and back."""

from __future__ import annotations

import numpy as np

from .._util.checks import refuse_missing
from ..losses import Loss


def announced_classes(classes) -> np.ndarray:
    """Return the labels given as ``classes=``, sorted."""
    labels = np.asarray(classes)
    refuse_missing(labels, name="classes")
    return np.unique(labels)


def distinct_classes(y: np.ndarray, task: str) -> np.ndarray:
    """Return the sorted labels, at least two, or raise; `task` names what needs them."""
    labels = np.unique(y)
    if len(labels) < 2:
        raise ValueError(
            f"y holds one class only ({labels.tolist()[0]!r}); {task} needs at least two classes."
        )
    return labels


def encode_classes(codes: np.ndarray, n_classes: int, loss: Loss) -> np.ndarray:
    """Return Y for class numbers: one-hot for coupled losses, else -1/+1 (one column for two classes)."""
    if loss.multiclass:
        return np.eye(n_classes)[codes]
    if n_classes == 2:
        return np.where(codes == 1, 1.0, -1.0)[:, None]
    return (2.0 * np.eye(n_classes) - 1.0)[codes]


def decision(F: np.ndarray, n_classes: int) -> np.ndarray:
    """Return scores in scikit-learn's shape: (n,) for two classes, else (n, n_classes)."""
    if n_classes > 2:
        return F
    return F[:, 0] if F.shape[1] == 1 else F[:, 1] - F[:, 0]


def probabilities(F: np.ndarray, n_classes: int, loss: Loss) -> np.ndarray:
    """Return class probabilities; one-vs-rest ones are scaled to sum to one."""
    P = loss.probabilities(F)
    if loss.multiclass:
        return P
    if n_classes == 2:
        return np.column_stack([1.0 - P[:, 0], P[:, 0]])
    total = P.sum(axis=1, keepdims=True)
    return np.divide(P, total, out=np.full_like(P, 1.0 / n_classes), where=total > 0)
