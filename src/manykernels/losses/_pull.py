"""Subgradients of the losses for compiled loops, which know a loss by its code."""

from __future__ import annotations

import numpy as np
from numba import njit

SQUARED, HINGE, SQUARED_HINGE, LOGISTIC, MAX_HINGE, SOFTMAX = range(6)


@njit(cache=True, nogil=True)
def pull(code, y, f, s, z):  # type: ignore[no-untyped-def]
    """Write s ℓ'(y, f), a subgradient in the scores, to z; whether it is not zero. O(c)."""
    c = len(y)
    active = False
    if code == MAX_HINGE:
        right, worst = 0, -1
        for k in range(c):
            z[k] = 0.0
            if y[k] > 0.5:
                right = k
        for k in range(c):
            if k != right and (worst < 0 or f[k] > f[worst]):
                worst = k
        if worst >= 0 and 1.0 + (f[worst] - f[right]) > 0.0 and s > 0.0:
            z[worst] = s
            z[right] = -s
            active = True
        return active
    if code == SOFTMAX:
        top, total, wrong, right = f.max(), 0.0, 0.0, 0
        for k in range(c):
            z[k] = np.exp(f[k] - top)
            total += z[k]
        for k in range(c):
            z[k] *= s / total
            if y[k] > 0.5:
                right = k
            else:
                wrong += z[k]
        z[right] = -wrong
        return wrong > 0.0
    for k in range(c):
        if code == SQUARED:
            z[k] = f[k] - y[k]
        else:
            margin = y[k] * f[k]
            if code == HINGE:
                z[k] = -y[k] if margin < 1.0 else 0.0
            elif code == SQUARED_HINGE:
                z[k] = -2.0 * y[k] * max(0.0, 1.0 - margin)
            elif margin > 0.0:  # logistic, without overflow
                e = np.exp(-margin)
                z[k] = -y[k] * e / (1.0 + e)
            else:
                z[k] = -y[k] / (1.0 + np.exp(margin))
        z[k] *= s
        if z[k] != 0.0:
            active = True
    return active
