"""The sequential loop of OBSCURE and UFO-MKL: one row after the other, all kernels at once.

Everything is kept in the scale of the dual coefficients A: the paper's θ is q times that. Coefficients are shared by
all kernels, so kernel i's share of the predictor is ``link_i · Φ_iᵀA`` with a factor that depends on the norms
``√g_i = ‖Φ_iᵀA‖/ρ_i`` only. Shrinking and projecting scale every array alike: one accumulated factor stands for them.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ...losses._pull import pull

#: Places in the vector of scalars that a run hands from block to block.
#: the accumulated factor, steps of Algorithm 2, Σ of its proximal terms, the norm of coef, updates, Σ of the factors.
FACTOR, VISITS, PROXIMAL, NORM, UPDATES, SUM = range(6)
N_SCALARS = 6


@njit(cache=True, nogil=True)
def q_norm(squares, q):  # type: ignore[no-untyped-def]
    """Return ‖√v‖_q of the non-negative v, in logs: q may be 10001. O(m)."""
    top = 0.0
    for j in range(len(squares)):
        top = max(top, squares[j])
    if top <= 0.0:
        return 0.0
    total = 0.0
    for j in range(len(squares)):
        if squares[j] > 0.0:
            total += np.exp(0.5 * q * np.log(squares[j] / top))
    return np.sqrt(top) * np.exp(np.log(total) / q)


@njit(cache=True, nogil=True)
def set_link(g, threshold, inverse, q, link):  # type: ignore[no-untyped-def]
    """Write w_i's factor on Φ_iᵀA; return ‖v‖_q, v_i = max(√g_i - threshold, 0). O(m).

    Alg. 1, line 7, and Alg. 2, line 11, without threshold; with it, UFO-MKL's.
    """
    top = 0.0
    for j in range(len(g)):
        top = max(top, np.sqrt(max(g[j], 0.0)) - threshold)
    if top <= 0.0:
        link[:] = 0.0
        return 0.0
    total = 0.0
    for j in range(len(g)):
        v = np.sqrt(max(g[j], 0.0)) - threshold
        link[j] = np.log(v / top) if v > 0.0 else -np.inf
        if v > 0.0:
            total += np.exp(q * link[j])
    log_norm = np.log(total) / q
    for j in range(len(g)):
        if link[j] == -np.inf:
            link[j] = inverse[j] if (q == 2.0 and threshold == 0.0) else 0.0
            continue
        log_v = link[j]
        link[j] = inverse[j] * np.exp((q - 2.0) * (log_v - log_norm))
        if threshold > 0.0:
            link[j] *= top * np.exp(log_v) / np.sqrt(g[j])
    return top * np.exp(log_norm)


@njit(cache=True, nogil=True, fastmath={"contract"})
def add_row(table, row, d):  # type: ignore[no-untyped-def]
    """Add d times one row of all kernels to one output's table, O(n m).

    Over the flat arrays, as a loop over few kernels inside one over rows is not vectorised.
    """
    flat = table.reshape(table.size)  # refuses what is not contiguous, where ravel would copy
    for t in range(len(row)):
        flat[t] += d * row[t]


@njit(cache=True, nogil=True, fastmath={"contract"})
def add_row_to_both(table, other, row, d, e):  # type: ignore[no-untyped-def]
    """Add d times one row of all kernels to one table and e times to another: the row is read once. O(n m)."""
    flat, lagged = table.reshape(table.size), other.reshape(other.size)
    for t in range(len(row)):
        flat[t] += d * row[t]
        lagged[t] += e * row[t]


@njit(cache=True, nogil=True)
def pushed(z, kappa, inverse, q):  # type: ignore[no-untyped-def]
    """Return the dual norm of the subgradient with scores' part z at a row with diagonals kappa. O(m + c)."""
    size = 0.0
    for k in range(len(z)):
        size += z[k] * z[k]
    return np.sqrt(size * (q_norm(kappa * inverse, q) ** 2 + 1.0))


@njit(cache=True, nogil=True)
def update(K, T, M, i, z, coef, lag, b, g, total, diag, inverse):  # type: ignore[no-untyped-def]
    """Add z to the coefficients of row i, and to all that follows from them but the links; line 9, the subgradient."""
    c, m = T.shape[0], T.shape[2]
    for j in range(m):
        gained = 0.0
        for k in range(c):
            gained += z[k] * (2.0 * T[k, i, j] + z[k] * diag[i, j])
        g[j] = max(g[j] + inverse[j] * gained, 0.0)
    row = np.ascontiguousarray(K[i]).ravel()
    for k in range(c):
        if z[k] != 0.0:
            coef[i, k] += z[k]
            b[k] += z[k]
            lag[i, k] += z[k] * total
            if len(M) > 0:
                add_row_to_both(T[k], M[k], row, z[k], z[k] * total)
            else:
                add_row(T[k], row, z[k])


@njit(cache=True, nogil=True)
def step_length(lam, t, proximal, push, radius, q, longest):  # type: ignore[no-untyped-def]
    """Return the step of Algorithm 2 over q, and Σ of its proximal terms; `push` bounds the subgradient's dual norm."""
    if radius < np.inf:
        d = lam * t + proximal  # line 6
        proximal += 0.5 * (np.sqrt(d * d + q * (push / radius) ** 2) - d)  # line 7
    return min(1.0 / (lam * t + proximal), longest), proximal  # line 8


@njit(cache=True, nogil=True)
def steps(  # type: ignore[no-untyped-def]
    K, T, M, order, coef, lag, b, g, link, scalars, diag, Y, s, inverse, code, batch, q, lam, eta, radius, threshold
):  # fmt: skip
    """Visit the rows in order, Algorithm 2 or Algorithm 1; the state is updated in place.

    Parameters
    ----------
    K : (n, n, m) kernel values among the rows
    T : (c, n, m), every row's score per kernel and output, before factors: Φ_i(x_t)·Φ_iᵀcoef
    M : (c, n, m), the same of `lag`; empty if no average is wanted
    order : the rows to visit
    coef : (n, c), A over the accumulated factor
    lag : (n, c), such that the iterates A visited so far add up to ``scalars[SUM] coef - lag``
    b : (c,), the sum of coef
    g, link : (m,), squared norms that belong to coef, and each kernel's factor
    scalars : what the constants at the top name
    diag : (n, m), diagonals of the kernels
    Y, s : (n, c) targets and (n,) weights
    inverse : (m,), 1/ρ²; 0 for a kernel that vanishes
    code : int, the loss
    batch : bool
        Algorithm 2 (with radius = inf and a threshold it is UFO-MKL), else Algorithm 1.
    q, lam, eta, radius, threshold : float
        `eta` is the step of Algorithm 1 and the longest of Algorithm 2.

    A step without update costs O(m c), an update O(n m) for each output that it touches.
    """
    c, m = T.shape[0], T.shape[2]
    f, z = np.empty(c), np.empty(c)
    a, t, proximal, norm = scalars[FACTOR], scalars[VISITS], scalars[PROXIMAL], scalars[NORM]
    for i in order:
        if threshold > 0.0:  # the links depend on the scale
            set_link(g, threshold / a, inverse, q, link)
        for k in range(c):
            total = b[k]
            for j in range(m):
                total += link[j] * T[k, i, j]
            f[k] = a * total
        active = pull(code, Y[i], f, s[i], z)  # line 5
        step = eta / q
        if batch:
            t += 1.0
            push = lam * a * norm + (pushed(z, diag[i], inverse, q) if active and radius < np.inf else 0.0)
            step, proximal = step_length(lam, t, proximal, push, radius, q, step)
            if lam * step < 1.0:  # else the first step of all, with nothing to shrink
                a *= 1.0 - lam * step  # line 9, the factor
        if active:
            scalars[UPDATES] += 1.0
            z *= -step / a
            update(K, T, M, i, z, coef, lag, b, g, scalars[SUM], diag, inverse)
            own = set_link(g, threshold / a, inverse, q, link)  # line 11
            norm = np.sqrt(own * own + np.sum(b * b))
        if batch and a * norm > radius:
            a = radius / norm  # line 10
        scalars[SUM] += a
    scalars[FACTOR], scalars[VISITS], scalars[PROXIMAL], scalars[NORM] = a, t, proximal, norm


@njit(cache=True, nogil=True)
def example_scores(T, link, at):  # type: ignore[no-untyped-def]
    """Return the kernels' scores of some rows, before the factor, (rows, outputs of T). O(rows m c)."""
    out = np.empty((len(at), T.shape[0]))
    for r in range(len(at)):
        for k in range(T.shape[0]):
            total = 0.0
            for j in range(T.shape[2]):
                total += link[j] * T[k, at[r], j]
            out[r, k] = total
    return out


@njit(cache=True, nogil=True)
def example_pushed(K, at, Z, inverse, q):  # type: ignore[no-untyped-def]
    """Return ‖Σ_r Φ_i(x_r) ⊗ Z_r‖_(2,q), the dual norm of the kernels' part of an example's subgradient. O(rows² m)."""
    squares = np.zeros(K.shape[2])
    for r in range(len(at)):
        for o in range(len(at)):
            both = 0.0
            for k in range(Z.shape[1]):
                both += Z[r, k] * Z[o, k]
            if both != 0.0:
                for j in range(len(squares)):
                    squares[j] += both * K[at[r], at[o], j] * inverse[j]
    return q_norm(np.maximum(squares, 0.0), q)


@njit(cache=True, nogil=True)
def move_example(K, T, M, at, Z, coef, lag, b, g, total, diag, inverse):  # type: ignore[no-untyped-def]
    """Add Z (rows, c) to the coefficients of some rows, as `update` does; columns beyond T's have no kernels."""
    c = T.shape[0]
    for r in range(len(at)):
        if np.any(Z[r, :c] != 0.0):
            update(K, T, M, at[r], Z[r], coef, lag, b, g, total, diag, inverse)
        for k in range(c, Z.shape[1]):
            coef[at[r], k] += Z[r, k]
            lag[at[r], k] += Z[r, k] * total
            b[k] += Z[r, k]


@njit(cache=True, nogil=True)
def add_gains(T, M, gained, first):  # type: ignore[no-untyped-def]
    """Add gains (m, rows, c or 2c) of the rows from `first` on to the tables (c, n, m); the second c are M's."""
    m, rows, _ = gained.shape
    c = T.shape[0]
    for k in range(c):
        for t in range(rows):
            for j in range(m):
                T[k, first + t, j] += gained[j, t, k]
    for k in range(M.shape[0]):
        for t in range(rows):
            for j in range(m):
                M[k, first + t, j] += gained[j, t, c + k]
