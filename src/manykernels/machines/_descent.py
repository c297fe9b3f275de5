"""Coordinate descent on the duals of the hinge-loss machine and of Crammer and Singer's.

The hinge loss: ``min_a a'Ka/2 - y'a`` subject to ``0 <= y_t a_t <= U_t``; there is no equality constraint, because the
intercept is part of the kernel.

The max-hinge, one row at a time: a row of dual coefficients is ``A_t = U_t y_t - q_t`` with ``q_t >= 0`` and
``sum(q_t) = U_t``. With margins ``G = F + 1 - Y`` the dual is minimised over one row, exactly, by projecting
``q_t + G_t / K_tt`` on the scaled simplex.
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


@njit(cache=True, nogil=True)
def project_row(q, radius, support):  # type: ignore[no-untyped-def]
    """Project ``q`` on the simplex of that radius in place (Michelot's method, O(c^2))."""
    c = len(q)
    top = q[0]
    for k in range(1, c):
        top = max(top, q[k])
    for k in range(c):
        q[k] -= top
        support[k] = q[k] > -radius
    while True:
        total, count = 0.0, 0
        for k in range(c):
            if support[k]:
                total += q[k]
                count += 1
        if count == 0:  # only with radius 0
            q[:] = 0.0
            return
        level = (total - radius) / count
        changed = False
        for k in range(c):
            if support[k] and q[k] <= level and count > 1:
                support[k] = False
                changed = True
        if not changed:
            break
    for k in range(c):
        q[k] = max(q[k] - level, 0.0) if support[k] else 0.0


@njit(cache=True, nogil=True)
def project_rows(labels, A, U):  # type: ignore[no-untyped-def]
    """Project each row on ``{U y - q: q >= 0, sum(q) = U}``; see ``losses.base.project_coupled``.

    Costs O(n c^2) at worst and about O(n c) when few classes are tied.
    """
    n, c = A.shape
    out = np.zeros((n, c))
    excess = np.empty(c)
    support = np.empty(c, dtype=np.bool_)
    for t in range(n):
        y = labels[t]
        for k in range(c):
            excess[k] = A[t, y] - A[t, k]
            support[k] = k != y and excess[k] > 0.0
        # Below its cap the right coefficient m solves sum_k max(excess_k - m, 0) = m.
        while True:
            total, count = 0.0, 0
            for k in range(c):
                if support[k]:
                    total += excess[k]
                    count += 1
            m = total / (count + 1)
            changed = False
            for k in range(c):
                if support[k] and excess[k] <= m:
                    support[k] = False
                    changed = True
            if not changed:
                break
        total = 0.0
        for k in range(c):
            if support[k]:
                out[t, k] = m - excess[k]
                total -= out[t, k]
        if total >= U[t]:
            excess[y] = -np.inf
            project_row(excess, U[t], support)
            for k in range(c):
                out[t, k] = -excess[k]
            total = U[t]
        out[t, y] = total
    return out


@njit(cache=True, nogil=True)
def greedy_rows(K, U, Q, G, max_steps, tol):  # type: ignore[no-untyped-def]
    """Minimise over the row with the largest violation, until none exceeds ``tol``.

    ``Q`` (n, c) and the margins ``G`` (n, c) are updated in place. The violation of a row is the
    largest margin minus the smallest margin among classes with ``q > 0``. A step costs O(n c).
    Returns the number of steps.
    """
    n, c = Q.shape
    new = np.empty(c)
    change = np.zeros(c)
    support = np.empty(c, dtype=np.bool_)
    floor = 0.0
    for t in range(n):
        floor = max(floor, K[t, t])
    floor = 1e-12 * floor if floor > 0.0 else 1e-12
    i, steps = -1, 0
    while True:
        worst, chosen = tol, -1
        for t in range(n):
            if i >= 0:
                for k in range(c):
                    G[t, k] -= K[i, t] * change[k]
            high, low = G[t, 0], np.inf
            for k in range(c):
                high = max(high, G[t, k])
                if Q[t, k] > 0.0:
                    low = min(low, G[t, k])
            if high - low > worst:
                worst, chosen = high - low, t
        if chosen < 0 or steps >= max_steps:
            return steps
        i = chosen
        h = max(K[i, i], floor)
        for k in range(c):
            new[k] = Q[i, k] + G[i, k] / h
        project_row(new, U[i], support)
        for k in range(c):
            change[k] = new[k] - Q[i, k]
            Q[i, k] = new[k]
        steps += 1


@njit(cache=True, nogil=True)
def sweep_rows(Z, labels, U, h, Q, W, orders, tol):  # type: ignore[no-untyped-def]
    """Sweep over the rows in the given orders, minimising over one row after the other.

    ``Q`` (n, c) and ``W = Z'A`` (k, c) are updated in place; ``h`` holds the squared row norms
    and ``orders`` one permutation per sweep. Stops when the largest violation of a sweep is
    below ``tol``. A sweep costs O(n k c). Returns the number of sweeps.
    """
    n, k = Z.shape
    c = Q.shape[1]
    margins = np.empty(c)
    new = np.empty(c)
    support = np.empty(c, dtype=np.bool_)
    floor = 1e-12 * h.max() if h.max() > 0.0 else 1e-12
    for sweep in range(len(orders)):
        worst = 0.0
        for j in range(n):
            t = orders[sweep, j]
            margins[:] = 1.0
            margins[labels[t]] = 0.0
            for m in range(k):
                z = Z[t, m]
                for o in range(c):
                    margins[o] += z * W[m, o]
            high, low = margins[0], np.inf
            for o in range(c):
                high = max(high, margins[o])
                if Q[t, o] > 0.0:
                    low = min(low, margins[o])
            if high - low <= tol:
                continue
            worst = max(worst, high - low)
            for o in range(c):
                new[o] = Q[t, o] + margins[o] / max(h[t], floor)
            project_row(new, U[t], support)
            for o in range(c):
                margins[o] = new[o] - Q[t, o]
                Q[t, o] = new[o]
            for m in range(k):
                z = Z[t, m]
                for o in range(c):
                    W[m, o] -= z * margins[o]
        if worst <= tol:
            return sweep + 1
    return len(orders)
