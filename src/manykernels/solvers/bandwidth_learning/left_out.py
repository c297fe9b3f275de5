"""The error of rows left out of a ridge machine, and its gradient in the kernel matrix, in closed form.

With G = K + 11ᵀ + diag(1/(C s)), H = G⁻¹ and α = HY, row t predicted from all others errs by e_t = α_t/H_tt: one
inverse gives the errors of n machines. Errors e of rows left out, judged by any loss L with g = ∂L/∂e, have

    ∂L/∂G = H diag(w) H - ½ (H U αᵀ + α Uᵀ H),   U = g/h,   w_t = <g_t, α_t>/h_t²,   h = diag H.

Rows with equal columns are one row here, with the sum of their weights and the mean of their targets. Such a row
leaves as a whole, so that a copy cannot predict it; or, where most have several targets or many copies, as in a table
of categories, one unit of weight at a time: leaving a cell of the table out whole would ask for what nobody knows.
Rows of one subject leave together: with B those rows, e_B = H_BB⁻¹ α_B.

Errors are judged by their squares, or, for classes, by the softmax loss of a multiple of the scores left out, the
multiple being the best one: it is then the temperature of the probabilities.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from scipy.linalg import lapack
from scipy.special import expit, log_expit, log_softmax

from ..calibration import are_classes

Criterion = Literal["squared", "softmax"]

#: Least and largest temperature of scores of -1 and 1; larger ones only say that the rows left out are separated.
TEMPERATURES = (1e-2, 16.0)
#: Where the search for it begins.
START = 4.0
#: Rows with so many copies on average are cells of a table of categories, even if all copies have the same target.
MANY_COPIES = 8
#: What is added to a matrix that is not positive definite to rounding, of its mean diagonal; then ten times as much.
JITTER = 1e-12
#: Digits of columns, targets and weights that teach: what differs in the last bits only must teach the same.
DIGITS = 10


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of a machine, equal ones merged, and how they are left out.

    Attributes
    ----------
    Y : (n, c) array
        Mean targets.
    s : (n,) array
        Weights; a row without weight is none of these.
    criterion : {"squared", "softmax"}
    units : (N,) array of int
        The row that each unit belongs to, in increasing order; a unit is a row as it came, or several that are equal
        in their targets, too.
    targets, weights : (N, c) and (N,) arrays
        Targets and weights of the units.
    counted : (N,) array
        Weights of the errors: `weights`, or 0 where an error does not count.
    share : (n,) array
        The share of a row's weight that leaves at a time; 1 where it leaves whole.
    subjects : (n,) array of int or None
        Rows of the same number leave together.
    numbers : (N,) array of int
        Numbers of the units among all there are.
    origin : array of int
        The unit that each row as it came is, of all there are.
    """

    Y: np.ndarray
    s: np.ndarray
    criterion: Criterion
    units: np.ndarray = field(repr=False)
    targets: np.ndarray = field(repr=False)
    weights: np.ndarray = field(repr=False)
    counted: np.ndarray = field(repr=False)
    share: np.ndarray = field(repr=False)
    subjects: np.ndarray | None
    numbers: np.ndarray = field(repr=False)
    origin: np.ndarray = field(repr=False)

    def __len__(self) -> int:
        return len(self.s)

    @classmethod
    def plain(cls, Y: np.ndarray, s: np.ndarray, criterion: Criterion, subjects=None) -> Rows:
        """Return rows of which each stands for itself."""
        n = len(s)
        return cls(Y, s, criterion, np.arange(n), Y, s, s, np.ones(n), subjects, np.arange(n), np.arange(n))

    def take(self, chosen: np.ndarray) -> Rows:
        """Return some of the rows, in the order given; all that belongs to a row goes with it."""
        at, counts = chosen, np.ones(len(chosen), dtype=int)
        if len(self.units) > len(self):
            first = np.searchsorted(self.units, chosen)
            counts = np.searchsorted(self.units, chosen, side="right") - first
            at = np.repeat(first - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
        return Rows(
            self.Y[chosen],
            self.s[chosen],
            self.criterion,
            np.repeat(np.arange(len(chosen)), counts),
            self.targets[at],
            self.weights[at],
            self.counted[at],
            self.share[chosen],
            None if self.subjects is None else self.subjects[chosen],
            self.numbers[at],
            self.origin,
        )

    @property
    def alone(self) -> bool:
        """Whether every row is one unit, and leaves whole and by itself."""
        return self.subjects is None and len(self.units) == len(self) and bool((self.share == 1.0).all())

    def of_targets(self, chosen) -> Rows:
        """Return the same rows with some of the targets."""
        return replace(self, Y=self.Y[:, chosen], targets=self.targets[:, chosen])

    def weighed_in(self, unit: float) -> Rows:
        """Return the same rows with weights in another unit, but for rounding."""
        s, weights, counted = (significant(w / unit) for w in (self.s, self.weights, self.counted))
        return replace(self, s=s, weights=weights, counted=counted)

    def counting(self, rows: np.ndarray) -> Rows:
        """Return the same rows, of which only the errors of some (n,) are counted."""
        return replace(self, counted=self.weights * rows[self.units])


def power_of_ten(value) -> Any:
    """Return the least power of ten that is not smaller; 1 for zero."""
    with np.errstate(divide="ignore"):
        return np.where(value > 0, 10.0 ** np.ceil(np.log10(value)), 1.0)


def significant(values) -> np.ndarray:
    """Return numbers of at least 0 with `DIGITS` significant digits."""
    unit = power_of_ten(values)
    return np.round(values / unit, DIGITS) * unit


def merged(
    X: np.ndarray, Y: np.ndarray, s: np.ndarray, criterion: Criterion, subjects=None
) -> tuple[np.ndarray, Rows]:
    """Return the numbers of the rows that stand for all equal ones, and these rows.

    Rows of different subjects are never merged. O(n d log n).
    """
    first, which = _distinct(X if subjects is None else np.column_stack([X, subjects]))
    mass = np.bincount(which, weights=s)
    means = np.stack([np.bincount(which, weights=s * y) for y in Y.T], axis=1) / mass[:, None]
    one, unit = np.arange(len(X)), np.arange(len(X))
    if len(first) < len(X):
        one, unit = _distinct(np.column_stack([which, Y]))
    order = np.argsort(which[one], kind="stable")
    weights, numbers = np.bincount(unit, weights=s)[order], np.arange(len(one))
    origin = np.empty(len(one), dtype=int)
    origin[order] = numbers
    kept = None if subjects is None else subjects[first]
    units, targets = which[one][order], Y[one][order]
    # A few copies of a target tell no more than a weight does: cells of a table have several targets, or many copies.
    several = mass[np.bincount(units, minlength=len(first)) > 1].sum() > 0.5 * mass.sum()
    cells = several or MANY_COPIES * len(first) <= len(X)
    share = (
        np.minimum(1.0, 1.0 / np.maximum(mass, 1.0)) if cells and subjects is None else np.ones(len(first))
    )
    return first, Rows(
        means, mass, criterion, units, targets, weights, weights, share, kept, numbers, origin[unit]
    )


def _distinct(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of the rows that are the first of their kind, and the kind of every row."""
    words = np.ascontiguousarray(values) + 0.0  # a negative zero equals zero
    if not words.shape[1]:
        return np.zeros(1, dtype=int), np.zeros(len(words), dtype=int)
    view = words.view(np.dtype((np.void, words.itemsize * words.shape[1])))[:, 0]
    _, first, which = np.unique(view, return_index=True, return_inverse=True)
    # In the order in which they first appear: the bytes of a number know nothing of its size.
    order = np.argsort(first, kind="stable")
    number = np.empty(len(first), dtype=np.intp)
    number[order] = np.arange(len(first))
    return first[order], number[which.ravel()]


@dataclass(frozen=True, eq=False)
class LeftOut:
    """What leaving rows out tells.

    Attributes
    ----------
    error : float
        The mean loss of rows left out: squares relative to those of the targets, or the softmax loss.
    scores : (N, c) array
        Scores of the units, each left out.
    temperature : float
        The multiple of the scores that the softmax loss is best at; NaN for squares.
    in_kernel : (n, n) array or None
        The gradient of the error in the kernel matrix; symmetric.
    in_log_noise : float
        That in log λ, λ = 1/C.
    """

    error: float
    scores: np.ndarray
    temperature: float
    in_kernel: np.ndarray | None = None
    in_log_noise: float = 0.0


def leave_out(K: np.ndarray, noise: float, rows: Rows, *, gradient: bool = True, dtype=np.float32) -> LeftOut:
    """Return the error of rows left out of the ridge machine on K, and its gradient.

    O(n³): a factor, in double precision, then an inverse and for the gradient a product, in that of `dtype`: from an
    exact factor on, single precision has all the digits that an error and a gradient need.

    Parameters
    ----------
    K : (n, n) array
        The kernel matrix of the merged rows.
    noise : float
        λ = 1/C.
    rows : Rows
    """
    D = noise / rows.s
    factor = factored(K, D)
    H = inverse_of(factor, dtype)
    alpha = lapack.dpotrs(factor, rows.Y, lower=1)[0]
    if rows.subjects is not None:
        try:
            return _leave_subjects_out(H, alpha, D, rows, gradient, dtype)
        except np.linalg.LinAlgError:  # weights of very different sizes: single precision has lost some
            return _leave_subjects_out(inverse_of(factor, np.float64), alpha, D, rows, gradient, np.float64)
    h = np.diagonal(H).astype(float)
    residual = alpha * D[:, None]  # y - f
    q = 1.0 - rows.share + rows.share * D * h  # 1 - share · S_tt, S the smoother
    whole = rows.share == 1.0
    deviation = rows.targets - rows.Y[rows.units]  # of a unit from its row's mean target
    divisor = np.where(whole, 1.0, q)[rows.units][:, None]
    E = deviation / divisor + (residual / q[:, None])[rows.units]
    error, g, temperature = _judge(E, rows)
    scores = rows.targets - E
    if not gradient:
        return LeftOut(error, scores, temperature)
    G = _sums(rows, g)
    own = np.where(
        whole, np.einsum("tk,tk->t", G, residual / q[:, None]), _sums(rows, np.einsum("ik,ik->i", g, E))
    )
    U = G * (D / q)[:, None]
    w = own * rows.share * D / q
    P = _in_kernel(H, alpha, U, H * w.astype(dtype), dtype)
    explicit = np.einsum("tk,tk->t", G, alpha) / q - own * rows.share * h / q
    return LeftOut(error, scores, temperature, P, float(D @ (np.diagonal(P) + explicit)))


def _leave_subjects_out(H, alpha, D, rows: Rows, gradient: bool, dtype) -> LeftOut:
    """Leave the rows of a subject out together: e_B = H_BB⁻¹ α_B, for every subject B."""
    assert rows.subjects is not None
    E, systems = np.empty_like(alpha), []
    for B in _by_size(rows.subjects):
        systems.append((B, H[B[:, :, None], B[:, None, :]].astype(float)))
        E[B] = _solved(systems[-1][1], alpha[B], dtype)
    per_unit = rows.targets - rows.Y[rows.units] + E[rows.units]
    error, g, temperature = _judge(per_unit, rows)
    scores = rows.targets - per_unit
    if not gradient:
        return LeftOut(error, scores, temperature)
    G = _sums(rows, g)
    U, WH = np.empty_like(G), np.empty(H.shape, dtype=dtype)
    for B, blocks in systems:
        U[B] = _solved(blocks, G[B], dtype)
        W = np.einsum("kac,kbc->kab", U[B], E[B])
        WH[B] = 0.5 * (W + W.transpose(0, 2, 1)).astype(dtype) @ H[B]
    P = _in_kernel(H, alpha, U, WH.T, dtype)
    return LeftOut(error, scores, temperature, P, float(D @ np.diagonal(P)))


def _solved(blocks: np.ndarray, right: np.ndarray, dtype) -> np.ndarray:
    """Return the solutions of systems; of those that are singular in double precision, too, the shortest."""
    try:
        return np.linalg.solve(blocks, right)
    except np.linalg.LinAlgError:
        if dtype is not np.float64:
            raise
        return np.linalg.pinv(blocks, hermitian=True) @ right


def _by_size(subjects: np.ndarray) -> list[np.ndarray]:
    """Return the rows of all subjects: an array (k, b) for the k subjects with b rows each, for every b."""
    _, which, counts = np.unique(subjects, return_inverse=True, return_counts=True)
    order = np.argsort(which.ravel(), kind="stable")
    first = np.cumsum(counts) - counts
    return [order[first[counts == b][:, None] + np.arange(b)] for b in np.unique(counts).tolist()]


def _in_kernel(H, alpha, U, HW, dtype) -> np.ndarray:
    """Return HW·H - ½ (H U αᵀ + α Uᵀ H)."""
    P = np.asarray(HW @ H)
    HU, alpha = H @ U.astype(dtype), alpha.astype(dtype)
    P -= dtype(0.5) * (np.hstack([HU, alpha]) @ np.hstack([alpha, HU]).T)
    return P


def _sums(rows: Rows, values: np.ndarray) -> np.ndarray:
    """Return sums over the units of every row."""
    if len(rows.units) == len(rows):
        return values
    out = np.zeros((len(rows), *values.shape[1:]))
    np.add.at(out, rows.units, values)
    return out


def factored(K: np.ndarray, D: np.ndarray) -> np.ndarray:
    """Return the lower factor of K + 11ᵀ + diag(D); what is not positive definite to rounding gets more."""
    jitter = 0.0
    while True:
        G = K + 1.0
        G.flat[:: len(G) + 1] += D + jitter
        mean = float(np.mean(np.diagonal(G)))
        factor, failed = lapack.dpotrf(G.T, lower=1, overwrite_a=1)  # symmetric: as LAPACK wants it
        if not failed:
            return factor
        jitter = max(10 * jitter, JITTER * mean)


def inverse_of(factor: np.ndarray, dtype=np.float64) -> np.ndarray:
    """Return the inverse of a factored matrix, in a precision."""
    if dtype == np.float32:
        lower, _ = lapack.spotri(factor.astype(np.float32), lower=1, overwrite_c=1)
    else:
        lower, _ = lapack.dpotri(factor, lower=1)
    H = lower + lower.T  # zeros above the diagonal
    H.flat[:: len(H) + 1] *= dtype(0.5)
    return H


# -- judging -------------------------------------------------------------------------------------------


def _judge(E: np.ndarray, rows: Rows) -> tuple[float, np.ndarray, float]:
    """Return the error, its gradient in E, and the temperature."""
    if rows.criterion == "squared":
        w = rows.counted[:, None]
        total = max(float(np.sum(w * np.square(rows.targets))), np.finfo(float).tiny)
        return float(np.sum(w * np.square(E))) / total, 2.0 * w * E / total, np.nan
    return softmax_loss(rows.targets - E, rows.targets, rows.counted)


def softmax_loss(F: np.ndarray, T: np.ndarray, w: np.ndarray) -> tuple[float, np.ndarray, float]:
    """Return the mean loss of the best multiple of scores F, minus its gradient in F, and the multiple.

    Targets T are -1 and 1; for one output, the logistic loss of T·F.
    """
    w = w / max(float(w.sum()), np.finfo(float).tiny)
    low, high = TEMPERATURES
    slopes = _logistic_slopes(T[:, 0] * F[:, 0], w) if F.shape[1] == 1 else _softmax_slopes(F, T > 0, w)
    tau = START
    for _ in range(30):  # Newton's
        slope, curvature = slopes(tau)
        if (tau >= high and slope <= 0) or (tau <= low and slope >= 0):
            break
        step = min(max(-slope / max(curvature, 1e-300), -0.5 * tau), tau)
        tau = min(max(tau + step, low), high)
        if abs(step) <= 1e-6 * tau:  # the error is now the square of that
            break
    if F.shape[1] == 1:
        M = tau * T[:, 0] * F[:, 0]
        return -float(w @ log_expit(M)), (w * tau * expit(-M) * T[:, 0])[:, None], tau
    log_p, right = log_softmax(tau * F, axis=1), T > 0
    return -float(w @ np.sum(log_p * right, axis=1)), tau * w[:, None] * (right - np.exp(log_p)), tau


def _logistic_slopes(M: np.ndarray, w: np.ndarray):
    """Return a function from τ to the first two derivatives of the logistic loss of margins τM."""
    wM = w * M
    wMM = wM * M

    def slopes(tau: float) -> tuple[float, float]:
        wrong = expit(-tau * M)
        return -float(wM @ wrong), float(wMM @ (wrong * (1.0 - wrong)))

    return slopes


def _softmax_slopes(F: np.ndarray, right: np.ndarray, w: np.ndarray):
    """Return a function from τ to the first two derivatives of the softmax loss of scores τF."""
    F = F - F.max(axis=1, keepdims=True)  # so that nothing overflows, whatever τ is
    reached, squares = float(w @ np.sum(F * right, axis=1)), np.square(F)

    def slopes(tau: float) -> tuple[float, float]:
        p = np.exp(tau * F)
        p /= p.sum(axis=1, keepdims=True)
        mean = np.einsum("ik,ik->i", p, F)
        return float(w @ mean) - reached, float(w @ (np.einsum("ik,ik->i", p, squares) - np.square(mean)))

    return slopes


def criterion_of(Y: np.ndarray) -> Criterion:
    """Return how errors are judged: targets of -1 and 1 are classes."""
    return "softmax" if are_classes(Y) else "squared"
