"""The parts of a stochastic gradient step: scores, losses and slopes, gradients, coefficients, weights.

A step takes some hundred rows: what NumPy needs to begin with each of many small arrays would be most of its time.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ...features._thin import thin_scores
from ...losses._pull import HINGE, MAX_HINGE, SOFTMAX, SQUARED, SQUARED_HINGE, pull


@njit(cache=True, nogil=True)
def value(code, y, f, z):  # type: ignore[no-untyped-def]
    """Return ℓ(y, f) of one row, given z = ℓ'(y, f), which has the exponentials already. O(c).

    No digits are lost where a loss is tiny, and nothing overflows. The loss of scores that are NaN is NaN.
    """
    if code in (MAX_HINGE, SOFTMAX):
        return _coupled(code, y, f, z)
    total = 0.0
    for k in range(len(y)):
        if code == SQUARED:
            total += 0.5 * z[k] * z[k]
            continue
        margin = y[k] * f[k]
        short = 0.0 if margin >= 1.0 else 1.0 - margin
        if code == HINGE:
            total += short
        elif code == SQUARED_HINGE:
            total += short * short
        elif margin > 0.0:  # logistic: |z| is the probability of the other class
            total -= np.log1p(-abs(z[k]))
        else:
            total -= margin + np.log(abs(z[k]))
    return total


@njit(cache=True, nogil=True)
def _coupled(code, y, f, z):  # type: ignore[no-untyped-def]
    """Return ℓ(y, f) of one row for a loss that couples its classes."""
    right, first = 0, 0
    for k in range(len(y)):
        if y[k] > 0.5:
            right = k
        if f[k] > f[first]:
            first = k
    if code == SOFTMAX:  # z is the probability of a wrong class, and minus their sum of the right one
        return -np.log1p(z[right]) if first == right else (f[first] - f[right]) - np.log(z[first])
    rival = -np.inf
    for k in range(len(y)):
        if k != right and (f[k] > rival or np.isnan(f[k])):
            rival = f[k]
    short = 1.0 + (rival - f[right])
    return 0.0 if short <= 0.0 else short


@njit(cache=True, nogil=True)
def slopes(code, F, b, Y, s, S, G):  # type: ignore[no-untyped-def]
    """Write s ℓ'(y, f + b) of every row to S, add their sum to G, and return Σ s ℓ(y, f + b). O(n c).

    Parameters
    ----------
    code : int
        The loss.
    F, S : (n, ≥ c) arrays, float32
        Scores without intercept; slopes. Further columns of S are left as they are.
    b, G : (c,) arrays
    Y, s : (n, c) and (n,) arrays
    """
    n, c = Y.shape
    f, z = np.empty(c), np.empty(c)
    total = 0.0
    for t in range(n):
        y = Y[t]
        for k in range(c):
            f[k] = F[t, k] + b[k]
        pull(code, y, f, 1.0, z)
        total += s[t] * value(code, y, f, z)
        for k in range(c):
            slope = s[t] * z[k]
            S[t, k] = slope
            G[k] += slope
    return total


@njit(cache=True, nogil=True, fastmath={"contract"})
def _add_four(a, b, c, d, s, t, u, v, g):  # type: ignore[no-untyped-def]
    for j in range(len(g)):
        g[j] += (s * a[j] + t * b[j]) + (u * c[j] + v * d[j])


@njit(cache=True, nogil=True)
def gradient(Z, first, last, S, c, g):  # type: ignore[no-untyped-def]
    """Write SᵀZ to g, (≥ c, last - first), for the columns of Z from `first` to `last`. O(n c) times these.

    Rows are added by fours, each to all of g's at once: on a hundred rows about as fast as a matrix product, for which
    the columns would have to be copied.
    """
    n = len(Z)
    g[:c] = 0.0
    some = slice(first, last)
    for t in range(0, n - n % 4, 4):
        rows = Z[t, some], Z[t + 1, some], Z[t + 2, some], Z[t + 3, some]
        for k in range(c):
            _add_four(
                rows[0], rows[1], rows[2], rows[3], S[t, k], S[t + 1, k], S[t + 2, k], S[t + 3, k], g[k]
            )
    none = np.float32(0.0)
    for t in range(n - n % 4, n):
        row = Z[t, some]
        for k in range(c):
            _add_four(row, row, row, row, S[t, k], none, none, none, g[k])


@njit(cache=True, nogil=True)
def move(code, Z, W, b, Y, s, F, S, G, draw, rates, V):  # type: ignore[no-untyped-def]
    """Move some coefficients against the gradient on some rows, and return Σ s ℓ(y, f); G is added to as in `slopes`.

    O(n w c).

    Parameters
    ----------
    code : int
        The loss.
    Z : (n, w) array, float32
        Features.
    W : (w, ≥ c) array, float32
        Coefficients that the rows are scored with.
    b, Y, s, G : as in `slopes`
    F, S : (n, ≥ c) arrays, float32
        Room for scores and slopes.
    draw, rates : (k, ≥ 3) and (k,) arrays
        Which features are moved, from where to where (in the columns 1 and 2), and by how much of their gradient.
    V : (≥ w, ≥ c) array, changed
    """
    c = Y.shape[1]
    thin_scores(Z, W, F)
    total = slopes(code, F, b, Y, s, S, G)
    for i in range(len(rates)):
        first, last = draw[i, 1], draw[i, 2]
        g = np.empty((c, last - first), dtype=np.float32)
        gradient(Z, first, last, S, c, g)
        for j in range(last - first):
            for k in range(c):
                V[first + j, k] -= rates[i] * g[k, j]
    return total


@njit(cache=True, nogil=True, fastmath={"contract", "reassoc"})
def _follow(v, scale, share, mean, w):  # type: ignore[no-untyped-def]
    total = 0.0
    for j in range(len(v)):
        x = scale * v[j]
        mean[j] += share * (x - mean[j])
        w[j] = x
        total += x * x
    return total


@njit(cache=True, nogil=True)
def follow(V, scale, share, mean, W, edges, owner, squares):  # type: ignore[no-untyped-def]
    """Move the mean by a share towards ``scale · V``, write that to W, and its sum of squares for every kernel.

    Parameters
    ----------
    V, mean, W : (w, c) arrays, contiguous
    scale, share : float
    edges, owner : (B + 1,) and (B,) arrays
        Block b has the rows from ``edges[b]`` to ``edges[b + 1]`` and belongs to the kernel ``owner[b]``.
    squares : (m,) array
    """
    squares[:] = 0.0
    for b in range(len(owner)):
        rows = slice(edges[b], edges[b + 1])
        squares[owner[b]] += _follow(V[rows].ravel(), scale, share, mean[rows].ravel(), W[rows].ravel())


@njit(cache=True, nogil=True, error_model="numpy")
def weigh(squares, counts, rho_sq, p, least, theta):  # type: ignore[no-untyped-def]
    """Write θ_i = u_i^(2-p) / (Σ_j u_j^p)^((2-p)/p), at least `least`; 1 while any kernel has no norm yet. O(m).

    Parameters
    ----------
    squares, counts, rho_sq : (m,) arrays
        Sum of squares of a kernel's coefficients, number of its blocks, ρ²: u² is their product. A kernel with ρ = 0
        has no part in it.
    p, least : float
    theta : (m,) array
    """
    top = 0.0
    for i in range(len(theta)):
        u = np.sqrt(rho_sq[i] * counts[i] * squares[i])
        if rho_sq[i] > 0.0 and u == 0.0:
            theta[:] = 1.0
            return
        theta[i] = u
        top = max(top, u)
    total = 0.0
    for i in range(len(theta)):
        total += (theta[i] / top) ** p
    norm = top * total ** (1.0 / p)
    for i in range(len(theta)):
        theta[i] = max((theta[i] / norm) ** (2.0 - p), least)


@njit(cache=True, nogil=True)
def largest(theta, rho_sq, values, k):  # type: ignore[no-untyped-def]
    """Return the sum of the k largest θ_i/ρ_i² v_i. O(m log m)."""
    terms = np.zeros(len(theta))
    for i in range(len(theta)):
        if rho_sq[i] > 0.0:
            terms[i] = theta[i] / rho_sq[i] * values[i]
    return terms.max() if k == 1 else np.sort(terms)[len(terms) - k :].sum()
