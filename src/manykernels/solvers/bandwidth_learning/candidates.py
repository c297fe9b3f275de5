"""Bandwidths, weights and the ridge, by the errors of rows left out.

First the best single bandwidth of every kind of kernel; from it one bandwidth per column, learned on several parts of
the rows; then, with bandwidths judged by rows that have not taught them, the weights of all candidates and the ridge.
Errors are taken within groups of neighbours, which are as dense as all rows are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
from scipy.optimize import minimize
from scipy.special import softmax

from ..._util.threads import map_in_threads
from ...features import order_of_neighbours
from .error import log_moments, scaled_gram
from .left_out import Rows, leave_out

T = TypeVar("T")

#: Columns are filled up with zeros to a multiple of this: what is left over would not be vector code.
LANES = 8
#: Scaled rows and logarithms of kernel values are cut off here: beyond, kernels are zero, and squares would overflow.
FARTHEST = 1e18


@dataclass(frozen=True)
class Effort:
    """How much is spent on learning.

    Attributes
    ----------
    group_rows, groups : int
        Rows of a group, and groups of a step.
    steps : int
        Steps of Adam for bandwidths per column.
    weight_rows, weight_groups : int
        Rows of a group, and groups, that weights are learned on.
    evaluations, few_evaluations : int
        Most evaluations of the weights, and of those of rows without a fold, from the former.
    """

    group_rows: int = 160
    groups: int = 8
    steps: int = 25
    weight_rows: int = 192
    weight_groups: int = 8
    evaluations: int = 20
    few_evaluations: int = 15


@dataclass(frozen=True, eq=False)
class Candidate:
    """A kernel whose weight is to be learned.

    Attributes
    ----------
    statistic : str
        "sqdist" or "l1" for ``exp(-S)`` of scaled rows, "" for a given matrix.
    log_sigma : (d,) array or None
        In units of the columns.
    power : int
        Bandwidths are 2^power times these; candidates that share the array share its matrix.
    gram : callable
        From numbers of rows to the kernel's matrix on them, where there is no statistic.
    part : int
        Which part of a union it belongs to.
    member : the member of that part, where it is given
    Z : (n, d) array
        Rows in these units.
    present : (n,) array or None
        1 for rows that have the view which the kernel is on, 0 for those that lack it; None if all have it. Given
        matrices know it.
    """

    statistic: str = ""
    log_sigma: np.ndarray | None = None
    gram: Callable[[np.ndarray], np.ndarray] | None = None
    part: int = 0
    member: object = None
    Z: np.ndarray | None = None
    power: int = 0
    present: np.ndarray | None = None


def matrices(candidates: Sequence[Candidate], chosen: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the kernels' matrices on some rows.

    The matrix of a multiple of bandwidths is a power of theirs: squares and roots instead of exponentials.
    """
    known: dict[tuple[str, int], np.ndarray] = {}
    for c in candidates:
        if c.gram is not None:
            yield c.gram(chosen)
            continue
        assert c.log_sigma is not None and c.Z is not None
        key = c.statistic, id(c.log_sigma)
        if key not in known:
            known[key] = kernel_matrix(c.statistic, lanes(c.Z[chosen] * np.exp(-c.log_sigma)))
            if c.present is not None:
                known[key] *= np.outer(c.present[chosen], c.present[chosen])
        K = known[key]
        for _ in range(abs(c.power) * (2 if c.statistic == "sqdist" else 1)):
            K = np.sqrt(K) if c.power > 0 else np.square(K)
        yield K


def lanes(Z: np.ndarray) -> np.ndarray:
    """Return rows in single precision, with columns of zeros up to a multiple of `LANES`."""
    out = np.zeros((len(Z), -(-Z.shape[1] // LANES) * LANES), dtype=np.float32)
    out[:, : Z.shape[1]] = np.clip(Z, -FARTHEST, FARTHEST)
    return out


def kernel_matrix(statistic: str, Z: np.ndarray) -> np.ndarray:
    """Return ``exp(-S)`` for all pairs of scaled rows.

    Rows are centred and in units of their spread, so that squares may be subtracted from each other without a look for
    a better centre, which takes longer than the rest for a few hundred rows.
    """
    if statistic != "sqdist":
        return scaled_gram(statistic, Z)
    Z = Z.astype(float)
    squares = np.einsum("ij,ij->i", Z, Z)
    S = 2.0 * (Z @ Z.T)
    S -= squares[:, None]
    S -= squares
    np.clip(S, -FARTHEST, 0.0, out=S)
    S.flat[:: len(S) + 1] = 0.0
    return np.exp(S.astype(np.float32)).astype(float)


# -- groups of neighbours ------------------------------------------------------------------------------


def groups_of(Z: np.ndarray, log_sigma: np.ndarray, rows: Rows, size: int) -> list[np.ndarray]:
    """Return all rows in groups of about `size` neighbours, by the bandwidths so far; subjects stay together."""
    n = len(Z)
    count = max(1, round(n / size))
    if count == 1:
        return [np.arange(n)]
    order = order_of_neighbours(
        np.ascontiguousarray(Z, dtype=np.float32), np.arange(Z.shape[1]), np.exp(-log_sigma)
    )
    if rows.subjects is not None:
        order = order[_together(rows.subjects[order], size)]
    return np.array_split(order, count)


def groups_by_kernel(K: np.ndarray, size: int) -> list[np.ndarray]:
    """Return all rows in groups of about `size` neighbours by a kernel matrix: those nearest to the first one left."""
    left, groups = np.arange(len(K)), []
    for k in range(max(1, round(len(K) / size)), 0, -1):
        d = np.diagonal(K)[left] - 2.0 * K[left[0], left]
        order = np.argsort(d, kind="stable")
        here = -(-len(left) // k)
        groups.append(left[order[:here]])
        left = np.sort(left[order[here:]])
    return groups


def _together(subjects: np.ndarray, size: int) -> np.ndarray:
    """Return an order in which rows of a subject stand together.

    A subject that would fill a quarter of a group alone, and leave too few to be predicted from, is spread evenly.
    """
    _, which, counts = np.unique(subjects, return_inverse=True, return_counts=True)
    which, at = which.ravel(), np.arange(len(subjects))
    place = np.bincount(which, weights=at)[which] / counts[which]  # where a subject's rows are on average
    order = np.lexsort((at, which, place))
    small = order[counts[which[order]] <= size / 4]
    place[small] = (np.arange(len(small)) + 0.5) / max(len(small), 1)
    for k in np.flatnonzero(counts > size / 4).tolist():
        place[which == k] = (np.arange(counts[k]) + 0.5) / counts[k]
    return np.argsort(place, kind="stable")


def some(groups: Sequence[T], most: int, rng: np.random.Generator | None = None) -> list[T]:
    """Return at most so many of the groups, drawn at random, or without `rng` evenly spread."""
    if len(groups) <= most:
        return list(groups)
    if rng is None:
        return [groups[i] for i in np.linspace(0, len(groups) - 1, most).round().astype(int).tolist()]
    return [groups[i] for i in rng.choice(len(groups), most, replace=False)]


# -- one kernel ----------------------------------------------------------------------------------------


def single_error(statistic: str, Z, rows: Rows, t: np.ndarray, *, gradient=True) -> tuple[float, np.ndarray]:
    """Return the error of one kernel, and its gradient in log bandwidths and log λ."""
    d = Z.shape[1]
    scaled = lanes(Z * np.exp(-t[:-1]))
    K = kernel_matrix(statistic, scaled)
    found = leave_out(K, math.exp(t[-1]), rows, gradient=gradient)
    out = np.zeros(len(t))
    if gradient:
        assert found.in_kernel is not None
        out[:-1] = log_moments(statistic, scaled, found.in_kernel * K.astype(np.float32))[:d]
        out[-1] = found.in_log_noise
    return found.error, out


def best_single(
    statistic: str, Z, rows: Rows, widths: np.ndarray, noises: Sequence[float], effort: Effort
) -> np.ndarray:
    """Return the logarithms of the best single bandwidth, for every column, and of the best ridge, of a grid."""
    d = Z.shape[1]
    groups = some(groups_of(Z, np.zeros(d), rows, effort.group_rows), 3)

    def error(t):
        return float(
            np.mean([single_error(statistic, Z[i], rows.take(i), t, gradient=False)[0] for i in groups])
        )

    points = [np.append(np.full(d, w), v) for w in np.log(widths) for v in np.log(noises)]
    return points[int(np.argmin(map_in_threads(error, points)))]


def learn_columns(
    statistic: str,
    Z,
    rows: Rows,
    start: np.ndarray,
    shrinkage: float,
    effort: Effort,
    rng,
    fixed_noise=False,
    blocks: np.ndarray | None = None,
    seen: Callable[[float], object] | None = None,
) -> np.ndarray:
    """Return log bandwidths per column, and log λ, by Adam from one bandwidth, shrunk towards it.

    Columns of one number in `blocks` (d,) have one bandwidth. `seen` is told the error of every step.
    """
    t, first, second, mean = start.copy(), np.zeros_like(start), np.zeros_like(start), np.zeros_like(start)
    averaged = max(1, effort.steps // 5)
    for step in range(1, effort.steps + 1):
        if (step - 1) % 8 == 0:
            groups = [(Z[i], rows.take(i)) for i in groups_of(Z, t[:-1], rows, effort.group_rows)]
        found = map_in_threads(partial(_on_group, statistic, t), some(groups, effort.groups, rng))
        value, gradient = (sum(part[i] for part in found) / len(found) for i in (0, 1))
        gradient = gradient * log_likelihood(value, rows.criterion)[1]
        if blocks is not None:
            gradient[:-1] = np.bincount(blocks, weights=gradient[:-1])[blocks]
        gradient[:-1] += shrinkage * (t[:-1] - start[:-1])
        gradient[-1] += (t[-1] - NOISE[0]) / NOISE[1] ** 2 / len(rows)
        if fixed_noise:
            gradient[-1] = 0.0
        first = 0.85 * first + 0.15 * gradient
        second = 0.97 * second + 0.03 * np.square(gradient)
        rate = 0.15 * min(1.0, 2.0 * (1 - (step - 1) / effort.steps))
        t = t - rate * (first / (1 - 0.85**step)) / np.sqrt(second / (1 - 0.97**step) + 1e-12)
        t[:-1] = np.clip(t[:-1], start[:-1] - 4.0, start[:-1] + 6.0)
        t[-1] = min(max(t[-1], math.log(1e-6)), math.log(1e3))
        if step > effort.steps - averaged:
            mean += t / averaged
        if seen is not None:
            seen(float(value))
    return mean


#: Prior mean and deviation of log λ; deviation of the logits of weights.
NOISE = (-2.3, 3.0)
LOGITS = 3.0
#: A smaller relative gain of log likelihood ends the search for weights.
TOLERANCE = 1e-5


def log_likelihood(error: float, criterion: str) -> tuple[float, float]:
    """Return minus the mean log likelihood of rows left out, up to a constant, and its derivative in the error."""
    if criterion == "softmax":
        return error, 1.0
    error = max(error, 1e-300)
    return 0.5 * math.log(error), 0.5 / error


def _on_group(statistic, t, group):
    Z, rows = group
    return single_error(statistic, Z, rows, t)


# -- weights -------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Weighed:
    """Weights of candidates that sum to one, log λ, the error they reach, errors on the way, and the first log λ."""

    theta: np.ndarray
    log_noise: float
    error: float
    singles: np.ndarray
    errors: tuple[float, ...] = ()
    start: float = 0.0


class Weighing:
    """The error of a weighted sum of candidates, over groups of rows, by bandwidths that these have not taught.

    Parameters
    ----------
    rows : Rows
    candidates : one or more lists of Candidate
        The same kernels, with bandwidths that different rows have taught; one list if nothing was taught.
    taught : (n,) array of int, or (k, n) array of bool
        The list that a row has taught, or for every list whether it has.
    groups : list of arrays of int
    """

    def __init__(self, rows: Rows, candidates, taught: np.ndarray, groups):
        judges = judges_of(taught, len(candidates))

        def prepare(task):
            i, k = task
            part = rows.take(i).counting(judges[k][i].astype(float))
            return np.stack([K.astype(np.float32) for K in matrices(candidates[k], i)]), part

        tasks = [(i, k) for i in groups for k in range(len(candidates)) if judges[k][i].any()]
        done = map_in_threads(prepare, tasks)
        self._set([(K, part, i) for (K, part), (i, _) in zip(done, tasks, strict=True)])

    def _set(self, parts) -> None:
        parts = [(K, part, i) for K, part, i in parts if part.counted.any()]
        self.work = [(K, part, float(part.counted.sum())) for K, part, _ in parts]
        self.groups = [i for _, _, i in parts]
        self.mass = sum(m for _, _, m in self.work)

    @property
    def n_candidates(self) -> int:
        """Number of kernels."""
        return len(self.work[0][0])

    def only(self, kept: np.ndarray) -> Weighing:
        """Return the error of some of the candidates, a mask."""
        fewer = copy(self)
        fewer.work = [(K[kept], part, mass) for K, part, mass in self.work]
        return fewer

    def of_target(self, k: int) -> Weighing:
        """Return the error of one target."""
        one = copy(self)
        one.work = [(K, part.of_targets([k]), mass) for K, part, mass in self.work]
        return one

    def without(self, rows: np.ndarray) -> Weighing:
        """Return the error of the others where some rows, a mask (n,), are not there at all.

        It is not enough not to count their errors: where two rows predict each other, one would speak for both.
        """
        fewer, parts = copy(self), []
        for (K, part, _), i in zip(self.work, self.groups, strict=True):
            left = np.flatnonzero(~rows[i])
            parts.append((K[:, left[:, None], left], part.take(left), i[left]))
        fewer._set(parts)
        return fewer

    def __call__(self, theta: np.ndarray, log_noise: float, gradient=True) -> tuple[float, np.ndarray, float]:
        """Return the error, and its gradient in θ and in log λ."""

        def one(task):
            K, part, mass = task
            total = np.tensordot(theta.astype(np.float32), K, 1).astype(float)
            found = leave_out(total, math.exp(log_noise), part, gradient=gradient)
            if not gradient:
                return mass * found.error, 0.0, 0.0
            assert found.in_kernel is not None
            slopes = K.reshape(len(theta), -1) @ found.in_kernel.ravel()
            return mass * found.error, mass * slopes, mass * found.in_log_noise

        parts = map_in_threads(one, self.work)
        error, slopes, noise = (sum(p[i] for p in parts) / self.mass for i in range(3))
        return float(error), np.asarray(slopes, dtype=float), float(noise)


def judges_of(taught: np.ndarray, count: int) -> np.ndarray:
    """Return for every list of candidates (k, n) the rows that have not taught it; of one list, all."""
    if count == 1:
        return np.ones((1, taught.shape[-1]), dtype=bool)
    return ~taught if taught.ndim == 2 else taught != np.arange(count)[:, None]


def left_out_scores(
    rows: Rows, candidates, judges: np.ndarray, groups, weights, *, balance: bool = True
) -> np.ndarray:
    """Return the scores (n, c) of all rows as they came, each left out, by what it has not taught.

    O(folds · m³) for every group of m rows.

    Parameters
    ----------
    rows : Rows
    candidates : lists of Candidate, one per fold
    judges : (k, n) array of bool
        The rows of each fold, which have taught neither these bandwidths nor these weights.
    groups : list of arrays of int
    weights : list of Weighed, one per fold
    balance : bool
        Whether rows that lack views are balanced.
    """
    F = np.full(rows.targets.shape, np.nan)
    for i in groups:
        part = rows.take(i)
        for judged, own, weighed in zip(judges, candidates, weights, strict=True):
            if judged[i].any():
                K = weighted_sum(own, weighed.theta, i)
                K = balanced(K, own, weighed.theta, i) if balance else K
                found = leave_out(K, math.exp(weighed.log_noise), part, gradient=False, dtype=np.float64)
                counted = judged[i][part.units]
                F[part.numbers[counted]] = found.scores[counted]
    return F[rows.origin]


def weighted_sum(candidates: Sequence[Candidate], theta: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Return the weighted sum of the matrices of candidates with weight, on some rows."""
    used = np.flatnonzero(theta).tolist()
    grams = matrices([candidates[j] for j in used], chosen)
    return np.asarray(sum(w * K for w, K in zip(theta[used], grams, strict=True)))


def balanced(
    K: np.ndarray, candidates: Sequence[Candidate], theta: np.ndarray, chosen: np.ndarray
) -> np.ndarray:
    """Return a weighted sum of matrices over √(q_s q_t), q the share of the weights that a row has the views of."""
    r = balance_factor(candidates, theta, chosen)
    return K if r is None else K * r[:, None] * r


def balance_factor(
    candidates: Sequence[Candidate], theta: np.ndarray, chosen: np.ndarray
) -> np.ndarray | None:
    """Return 1/√q of some rows, 0 for those that have none of the views with weight; None where none is lacking."""
    if all(c.present is None for c in candidates):
        return None
    shares = [np.ones(len(chosen)) if c.present is None else c.present[chosen] for c in candidates]
    q = theta @ np.array(shares) / theta.sum()
    return np.divide(1.0, np.sqrt(q), out=np.zeros(len(q)), where=q > 0)


def weigh(error: Weighing, log_noise: float, effort: Effort, fixed_noise=False) -> Weighed:
    """Return the weights and the ridge with the least error; never worse than the best single candidate."""
    n = error.n_candidates
    singles = np.array([error(np.eye(n)[j], log_noise, gradient=False)[0] for j in range(n)])
    order = np.argsort(singles)
    theta, noise, errors = descend(error, _near_best(singles, log_noise), effort.evaluations, fixed_noise)
    best = error(theta, noise, gradient=False)[0]
    if singles[order[0]] < best:
        theta, noise, best = _towards(error, np.eye(n)[order[0]], log_noise, theta, noise)
    return Weighed(theta, noise, best, singles, (*errors, best), log_noise)


def _near_best(singles: np.ndarray, log_noise: float) -> np.ndarray:
    """Return where to begin: near the best single one, the others at hand, in proportion to what they do alone."""
    return np.append(-4.0 * (singles - singles.min()) / max(np.ptp(singles), 1e-12), log_noise)


def weigh_again(error: Weighing, weighed: Weighed, effort: Effort, fixed_noise=False) -> Weighed:
    """Return weights for the error over fewer rows.

    They do not begin from the weights of all rows, as few steps would leave in them what the others taught.
    """
    if fixed_noise and len(weighed.theta) == 1:
        return weighed
    x = _near_best(weighed.singles, weighed.start)
    theta, noise, errors = descend(error, x, effort.few_evaluations, fixed_noise)
    return Weighed(theta, noise, errors[-1], weighed.singles, tuple(errors))


def descend(error: Weighing, x: np.ndarray, evaluations: int, fixed_noise: bool):
    """Return weights, log λ and all errors met, by L-BFGS from logits and log λ."""
    criterion, errors = error.work[0][1].criterion, []

    def value(x):
        theta = softmax(x[:-1])
        L, slopes, noise = error(theta, x[-1])
        errors.append(L)
        value, scale = log_likelihood(L, criterion)
        g = scale * np.append(theta * (slopes - theta @ slopes), noise)
        a, b = x[:-1] - x[:-1].mean(), x[-1] - NOISE[0]
        g += np.append(a / LOGITS**2, b / NOISE[1] ** 2) / error.mass
        if fixed_noise:
            g[-1] = 0.0
        return value + 0.5 * (float(a @ a) / LOGITS**2 + b * b / NOISE[1] ** 2) / error.mass, g

    bounds = [(-12.0, 12.0)] * (len(x) - 1) + [(math.log(1e-6), math.log(1e3))]
    options = {"maxfun": evaluations, "ftol": TOLERANCE}
    found = minimize(value, x, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return softmax(found.x[:-1]), float(found.x[-1]), errors


def _towards(
    error: Weighing, single, its_noise: float, theta, noise: float
) -> tuple[np.ndarray, float, float]:
    """Return the best point on the way from a single candidate to weights that are worse, and its error."""
    points = [((1 - a) * single + a * theta, (1 - a) * its_noise + a * noise) for a in (0.0, 0.25, 0.5, 0.75)]
    errors = [error(*point, gradient=False)[0] for point in points]
    best = int(np.argmin(errors))
    return *points[best], errors[best]
