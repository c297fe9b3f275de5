"""Coordinate descent on the dual of the hinge-loss machine.

The problem is ``min_a a'Ka/2 - y'a`` subject to ``0 <= y_t a_t <= U_t``; it has no equality
constraint, because the intercept is part of the kernel.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def greedy_hinge(K, y, U, a, f, max_steps, tol):  # type: ignore[no-untyped-def]
    """Move, step by step, the coordinate whose exact minimisation gains most.

    ``a`` and ``f = K a`` are updated in place. Stops after ``max_steps`` or when no coordinate
    would gain ``tol``. A step costs O(n). Returns the number of steps.
    """
    n = len(y)
    i, step, steps = -1, 0.0, 0
    while True:
        best, chosen, chosen_step = tol, -1, 0.0
        for t in range(n):
            if i >= 0:
                f[t] += step * K[i, t]
            g = y[t] - f[t]
            b = y[t] * a[t]
            h = K[t, t]
            if h > 0.0:
                new = b + y[t] * g / h
            else:
                new = np.inf if y[t] * g > 0.0 else (-np.inf if y[t] * g < 0.0 else b)
            new = min(max(new, 0.0), U[t])
            d = y[t] * (new - b)
            gain = d * (g - 0.5 * h * d)
            if gain > best:
                best, chosen, chosen_step = gain, t, d
        if chosen < 0 or steps >= max_steps:
            return steps
        i, step = chosen, chosen_step
        a[i] += step
        if y[i] * a[i] < 0.0:
            a[i] = 0.0
        elif y[i] * a[i] > U[i]:
            a[i] = y[i] * U[i]
        steps += 1


@njit(cache=True, nogil=True)
def sweep_hinge(Z, y, U, h, a, w, orders, tol):  # type: ignore[no-untyped-def]
    """Sweep over the rows in the given orders, minimising one coordinate after the other.

    ``a`` and ``w = Z'a`` are updated in place; ``h`` holds the squared row norms and
    ``orders`` one permutation per sweep. A row that sits at a bound with a gradient that keeps
    it there by more than the largest violation of the sweep before is passed over (shrinking);
    the last sweep of a run passes over none. Stops when the largest violation is below
    ``tol``. A sweep costs O(n k). Returns the number of sweeps.
    """
    n, k = Z.shape
    asleep = np.zeros(n, dtype=np.bool_)
    threshold = np.inf
    for sweep in range(len(orders)):
        worst = 0.0
        for j in range(n):
            t = orders[sweep, j]
            if asleep[t]:
                continue
            s = 0.0
            for m in range(k):
                s += Z[t, m] * w[m]
            g = 1.0 - y[t] * s
            b = y[t] * a[t]
            if (b <= 0.0 and g < -threshold) or (b >= U[t] and g > threshold):
                asleep[t] = True
                continue
            if h[t] > 0.0:
                new = min(max(b + g / h[t], 0.0), U[t])
            else:
                new = U[t] if g > 0.0 else b
            d = y[t] * (new - b)
            if d != 0.0:
                worst = max(worst, abs(g))
                a[t] = y[t] * new
                for m in range(k):
                    w[m] += d * Z[t, m]
        if worst <= tol:
            if not asleep.any():
                return sweep + 1
            asleep[:] = False
            threshold = np.inf
        else:
            threshold = worst
    return len(orders)
