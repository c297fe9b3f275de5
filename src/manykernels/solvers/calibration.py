"""Probabilities from the scores of rows that a model has not seen."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import expit, log_softmax, softmax

#: Rows without which nothing is calibrated.
LEAST = 20


def are_classes(Y: np.ndarray) -> bool:
    """Whether targets are classes: -1 and 1, with one 1 to a row where there are several outputs."""
    return bool(np.isin(Y, (-1.0, 1.0)).all() and (Y.shape[1] == 1 or ((Y > 0).sum(axis=1) == 1).all()))


def fit_calibration(F, Y, s) -> np.ndarray | None:
    """Return the factor a that maximises the likelihood of softmax(a F), or of the sigmoid for one output, (1,).

    Targets are -1 and 1; anything else is no class, and None is returned. There are no offsets per class:
    with them the most probable class would not always be the predicted one. On eight sets the log loss is 2 % lower to
    3 % higher without them, but for one that is 14 % higher (pendigits: .0148 against .0130).
    """
    positive = Y > 0
    if not are_classes(Y):
        return None

    def loss(t):
        M = np.exp(t) * F
        if Y.shape[1] == 1:
            return float(s @ np.logaddexp(0.0, -Y[:, 0] * M[:, 0]))
        return -float(s @ log_softmax(M, axis=1)[positive])

    return np.exp(minimize_scalar(loss, bounds=(-5.0, 8.0), method="bounded").x)[None]


def probabilities(F: np.ndarray, calibration: np.ndarray) -> np.ndarray:
    """Return class probabilities of scores, (n, n_classes)."""
    M = calibration[0] * F
    if M.shape[1] > 1:
        return np.asarray(softmax(M, axis=1))
    P = expit(M[:, 0])
    return np.column_stack([1.0 - P, P])
