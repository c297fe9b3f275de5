"""Stochastic gradient steps: scores, losses and slopes, gradients, coefficients, weights.

A step takes some hundred rows: what NumPy needs to begin with each of many small arrays would be most of its time.
Steps whose features are made are taken in one call, so that the thread that takes them hardly ever has to wait for the
interpreter's lock, which others want that make the features to come.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from ...features._thin import thin_scores
from ...losses._pull import HINGE, MAX_HINGE, SOFTMAX, SQUARED, SQUARED_HINGE, pull

# -- the parts of a step -------------------------------------------------------------------------------


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


@njit(cache=True, nogil=True)
def meet(Z, W, S, c, edges, owner, draw, inner):  # type: ignore[no-untyped-def]
    """Add Σ_t <s_t, f_i(x_t)> to `inner` for every kernel i drawn, without the block that is moved. O(n c w_i).

    By the reproducing property that is the inner product of f_i with Σ_t s_t κ_i(x_t, ·), against which f_i moves.

    Parameters
    ----------
    Z, W, S, draw : as in `move`
    c : int
        Outputs.
    edges, owner : as in `follow`
    inner : (k,) array, added to
    """
    for j in range(len(inner)):
        for b in range(len(owner)):
            first, last = edges[b], edges[b + 1]
            if owner[b] != draw[j, 0] or first == draw[j, 1]:
                continue
            g = np.empty((c, last - first), dtype=np.float32)
            gradient(Z, first, last, S, c, g)
            for k in range(c):
                for i in range(last - first):
                    inner[j] += g[k, i] * W[first + i, k]


@njit(cache=True, nogil=True)
def relate(cross, shrunk, scale, draw, rates, inner):  # type: ignore[no-untyped-def]
    """Update the inner products of a kernel's blocks with one another, (m,), after a step.

    All blocks shrink by the factor `shrunk`, and the new one of a kernel drawn is ``-rates · scale`` times its
    gradient, whose inner product with those before is `inner`.
    """
    cross *= shrunk * shrunk
    for j in range(len(inner)):
        if draw[j, 0] >= 0:
            cross[draw[j, 0]] -= 2.0 * shrunk * rates[j] * scale * inner[j]


@njit(cache=True, nogil=True)
def norms_sq(squares, counts, cross, rho_sq, faithful):  # type: ignore[no-untyped-def]
    """Return u_i² = ρ_i²‖w_i‖². O(m).

    A block alone is an estimate of the kernel, so that f_i = Σ_b Z_b W_b. Where a kernel's B blocks move together,
    √B W_b are the coefficients of its features Z_b/√B, and ‖w‖² = B Σ‖W_b‖². Where each moves once, they are unlike:
    ‖w‖² is the sum of ‖W_b‖² and of their inner products with one another, of which `cross` is an estimate. While that
    is below 0 they count as orthogonal: slopes depend on the features that rows are scored with, and as long as the
    noise of these is most of the scores, the products come out too small.
    """
    if not faithful:
        return rho_sq * counts * squares
    return rho_sq * (squares + np.maximum(cross, 0.0))


@njit(cache=True, nogil=True, error_model="numpy")
def weigh(u_sq, rho_sq, p, least, theta):  # type: ignore[no-untyped-def]
    """Write θ_i = u_i^(2-p) / (Σ_j u_j^p)^((2-p)/p), at least `least`; 1 while any kernel has no norm yet. O(m).

    Parameters
    ----------
    u_sq, rho_sq : (m,) arrays
        From `norms_sq`; a kernel with ρ = 0 has no part in it.
    p, least : float
    theta : (m,) array
    """
    top = 0.0
    for i in range(len(theta)):
        u = np.sqrt(u_sq[i])
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


# -- steps ---------------------------------------------------------------------------------------------


class Settings(NamedTuple):
    """What does not change from one step of a batch to the next.

    Attributes
    ----------
    code : int
        The loss.
    curvature : float
        A bound of its second derivative.
    C : float
    n_rows : int
        n of the objective; 0: the rows seen so far.
    p, least : float
        Norm over the kernels, and the smallest θ_i.
    step, late : float
        The step size in units of what is stable, and λ i γ_i in the end.
    batch_size, n_kernels : int
        Rows of a whole step; kernels that do not vanish.
    cycle, per_step : int
        Steps in which every kernel is drawn once, and the most kernels of a step.
    forget : float
        The average gives iterate j a weight near j to this power.
    exploded : float
        The step is halved when the loss of its rows is this many times that of f = 0.
    faithful : bool
        Whether steps are γ_i = step/(λ i), and nothing is averaged or multiplied.
    """

    code: int
    curvature: float
    C: float
    n_rows: int
    p: float
    least: float
    step: float
    late: float
    batch_size: int
    n_kernels: int
    cycle: int
    per_step: int
    forget: float
    exploded: float
    faithful: bool


class Kernels(NamedTuple):
    """What is known of the m kernels, (m,) arrays.

    Attributes
    ----------
    squares, counts, cross, rho_sq : see `norms_sq`; counts change in every step, squares in `follow`, cross in `relate`
    theta : see `weigh`; changed in every step
    top, trace : largest eigenvalues and mean diagonals
    """

    squares: np.ndarray
    counts: np.ndarray
    cross: np.ndarray
    rho_sq: np.ndarray
    theta: np.ndarray
    top: np.ndarray
    trace: np.ndarray


class Coefficients(NamedTuple):
    """What steps move.

    Attributes
    ----------
    b, mean_b : (c,) arrays
        The intercept and its average.
    V, mean, W, edges, owner : see `follow`
    """

    b: np.ndarray
    mean_b: np.ndarray
    V: np.ndarray
    mean: np.ndarray
    W: np.ndarray
    edges: np.ndarray
    owner: np.ndarray


#: What changes: steps and rows so far, their weight, losses of batches and of f = 0, damping, and the scale of V.
NUMBERS = ("step", "rows", "weight", "batch_loss", "zero_loss", "damping", "scale")
STEP, ROWS, WEIGHT, LOSS, ZERO_LOSS, DAMPING, SCALE = range(len(NUMBERS))


@njit(cache=True, nogil=True)
def lam_of(C, n_rows, rows):  # type: ignore[no-untyped-def]
    """Return λ = 1/(C n), with the rows seen so far for n while an epoch's are not known (0)."""
    return 1.0 / (C * max(1.0, n_rows or rows))


@njit(cache=True, nogil=True)
def _gamma(settings, now, n, lam, kernels):  # type: ignore[no-untyped-def]
    """Return the step size of n rows: what is stable at first, LATE/(λ i) in the end.

    A batch of n rows is stable up to 1/(L (λ₁ + trace/n)), λ₁ the largest eigenvalue of the kernel that a step applies.
    A smaller batch makes a smaller step, so that all rows count alike.
    """
    if settings.faithful:
        return settings.step / (lam * now[STEP])
    first = 1.0 + settings.cycle * largest(kernels.theta, kernels.rho_sq, kernels.top, settings.per_step)
    mean = 1.0 + settings.cycle * largest(kernels.theta, kernels.rho_sq, kernels.trace, settings.per_step)
    curvature = settings.curvature * now[WEIGHT] / now[ROWS]
    gamma = settings.step * now[DAMPING] / (curvature * (first + mean / settings.batch_size) + lam)
    return gamma / (1.0 + gamma * lam * now[STEP] / settings.late) * min(1.0, n / settings.batch_size)


@njit(cache=True, nogil=True)
def begin_step(settings, now, row_sums, draw, kernels, V, rates):  # type: ignore[no-untyped-def]
    """Count a step's rows, weigh the kernels, shrink all coefficients, and write by how much to move those drawn.

    Parameters
    ----------
    settings : Settings
    now : (7,) array, changed
    row_sums : (3,) array
        Of the step's rows: how many, their weight, and their loss at f = 0.
    draw : (k, 4) array of int
        Of every kernel drawn: which (-1: none), where its features begin and end, and how many blocks it has from now.
    kernels : Kernels
    V : array, changed
    rates : (k,) array, written

    Returns
    -------
    gamma, lam : float
    """
    counts, rho_sq, theta, n = kernels.counts, kernels.rho_sq, kernels.theta, row_sums[0]
    now[STEP] += 1.0
    now[ROWS] += n
    now[WEIGHT] += row_sums[1]
    now[ZERO_LOSS] += row_sums[2]
    u_sq = norms_sq(kernels.squares, counts, kernels.cross, rho_sq, settings.faithful)
    weigh(u_sq, rho_sq, settings.p, settings.least, theta)  # Alg. 3, line 6: 1/ψ
    lam = lam_of(settings.C, settings.n_rows, now[ROWS])
    gamma = _gamma(settings, now, n, lam, kernels)  # line 7
    now[SCALE] *= 1.0 - gamma * lam  # line 10
    if abs(now[SCALE]) < 1e-100:  # also zero, at i = θν of the paper's steps
        V *= now[SCALE]
        now[SCALE] = 1.0
    # Each kernel comes once in `cycle` steps, while all shrink in every one; the intercept is in all of them.
    times = 1.0 if settings.faithful else float(settings.cycle)
    for j in range(len(draw)):
        i = draw[j, 0]
        if i < 0:
            rates[j] = 0.0
            continue
        counts[i] = draw[j, 3]
        moved = 1.0 if settings.faithful else float(counts[i])
        eta = gamma * times * theta[i] / (rho_sq[i] * moved)
        rates[j] = eta / (n * now[SCALE])
    return gamma, lam


@njit(cache=True, nogil=True)
def end_step(settings, now, n, draw, rates, loss, gamma, lam, G, inner, coefficients, kernels):  # type: ignore[no-untyped-def]
    """Move the intercept, take notice of the loss, and let the averages follow.

    Parameters
    ----------
    settings, now : as in `begin_step`
    n : int
        Rows of the step.
    draw, rates : as in `begin_step`
    loss, G, inner : float, (c,) and (k,) arrays
        Summed over the rows, from `move` and `meet`.
    gamma, lam : float
        From `begin_step`.
    coefficients : Coefficients
        Changed.
    kernels : Kernels
    """
    b, mean_b, V, mean, W, edges, owner = coefficients
    share = 1.0
    if settings.faithful:
        share = np.sum(draw[:, 0] >= 0) / settings.n_kernels
        relate(kernels.cross, 1.0 - gamma * lam, now[SCALE], draw, rates, inner)
    average = 0.0 if settings.faithful else (1.0 + settings.forget) / (now[STEP] + settings.forget)
    for k in range(len(b)):
        b[k] = (1.0 - gamma * lam) * b[k] - (gamma * share / n) * G[k]
        mean_b[k] += average * (b[k] - mean_b[k])
    now[LOSS] += loss
    if loss > settings.exploded * n * now[ZERO_LOSS] / now[ROWS]:
        now[DAMPING] /= 2.0
    follow(V, now[SCALE], average, mean, W, edges, owner, kernels.squares)


@njit(cache=True, nogil=True)
def take_steps(settings, now, row_sums, draws, kernels, coefficients, Z, Y, s, F, S):  # type: ignore[no-untyped-def]
    """Take one step after the other on rows whose features are made, and return how many had a finite loss.

    Parameters
    ----------
    settings, now, kernels, coefficients : as in `begin_step` and `end_step`
    row_sums, draws : (steps, 3) and (steps, k, 4) arrays
        What `begin_step` wants to know of each.
    Z, Y, s : (n, w), (n, c) and (n,) arrays
        Features, targets and weights of all the steps' rows.
    F, S : as in `move`
    """
    b, V, W = coefficients.b, coefficients.V, coefficients.W[: Z.shape[1]]
    G, (rates, inner), first = np.zeros(len(b)), np.empty((2, draws.shape[1])), 0
    for u in range(len(draws)):
        n, draw = int(row_sums[u, 0]), draws[u]
        some, first = slice(first, first + n), first + n
        gamma, lam = begin_step(settings, now, row_sums[u], draw, kernels, V, rates)
        G[:], inner[:] = 0.0, 0.0
        known = Y[some], s[some], F[:n], S[:n]
        loss = move(settings.code, Z[some], W, b, *known, G, draw, rates, V)  # lines 5, 8 and 9
        if not np.isfinite(loss):
            return u
        if settings.faithful:
            meet(Z[some], W, S, len(b), coefficients.edges, coefficients.owner, draw, inner)
        end_step(settings, now, n, draw, rates, loss, gamma, lam, G, inner, coefficients, kernels)
    return len(draws)
