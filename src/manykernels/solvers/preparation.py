"""Bandwidths, and C with them, from a first sample of the rows.

Columns are measured in their standard deviations. One bandwidth per column is learned by a few steps of Adam on the
leave-one-out error of kernel ridge regression, each on fresh rows. Then {learned, all equal} × multiple × C is chosen
by the error of small fits on rows that they have not seen: bandwidths learned on a thousand rows are too wide for a
million, and bandwidths per column can be worse than equal ones.

Which rows judge depends on their order. As a rule they come from runs of consecutive rows, here and there. Where
columns (a date, say) rise or fall together with the number of the row, they are a clock: what will be predicted lies
after the sample, so that its last rows judge, and there are more candidates, which ignore the columns that tell one
time from another. A date explains the rows of that day very well, and no row to come.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.stats import rankdata

from .._blocks import even_parts, widened
from .._numba.binning import look_up, number_bins, subtract_step
from .._threads import map_in_threads, n_threads, one_blas_thread
from ..kernels import pairwise_statistic
from ..problem import Problem
from .grid_tours import Tours
from .leave_one_out import leave_one_out
from .row_store import dense

logger = logging.getLogger("manykernels")

#: Adam: steps, and the largest change of a log bandwidth in one.
STEPS, RATE = 40, 0.15
#: Regressions whose errors a step takes the mean of, side by side on threads, and the rows of each.
PARTS, STEP_ROWS = 2, 800
#: A step takes a quarter of the rows where there are few, and at least these.
FEWEST_STEP_ROWS = 200
#: Features of the small fits, rows of a first and of a second round, and the most with dense features.
TRIAL_GRIDS, TRIAL_FEATURES = 64, 1024
FEW_ROWS, TRIAL_ROWS, DENSE_ROWS = 20_000, 80_000, 20_000
#: Along which their rows are summed up, so that two threads can.
LANES = 2
#: Share of the sample that the small fits are judged on.
JUDGED = 0.2
#: Runs of consecutive rows that are judged as a whole, or not.
RUNS = 25
#: A column tells the time if this share of its variance lies between runs, and such columns are a clock if their ranks
#: are correlated with the number of the row as much as this; looked at on so many rows, and not on fewer than these.
TELLING, CLOCK, CLOCK_ROWS, FEWEST_CLOCK_ROWS = 0.5, 0.9, 20_000, 500
#: Steps of the search: bandwidths and C are multiplied by powers of these; where it begins, and the farthest powers.
BANDWIDTH_FACTOR, C_FACTOR = math.sqrt(0.5), 2.0
FIRST_BANDWIDTH, FIRST_C = 4, 1
BANDWIDTH_RANGE, C_RANGE = (-4, 12), (-10, 12)
#: The best bandwidths of binning features fall with the rows n like 1/n to this power: between 16,000, 64,000 and
#: 300,000 rows of four data sets, with learned and with equal bandwidths, by 0.10 to 0.24 as a rule.
NARROWING = 1 / 6


@dataclass(frozen=True)
class Prepared:
    """What the preparation chose.

    Attributes
    ----------
    member : float or tuple
        Bandwidths, a member of the family.
    C : float
    error : float
        Of the small fit on rows it had not seen, relative to that of the mean.
    shape : str
        ``"learned"``, ``"equal"``, either with ``" without time"``, or ``"single"``.
    """

    member: Any
    C: float
    error: float
    shape: str


def prepare(
    problem: Problem,
    *,
    tune_C: bool,
    seed: int,
    size: int,
    sweeps: int,
    n_rows: int | None = None,
    steps: int = STEPS,
) -> Prepared:
    """Choose a member of a continuum of bandwidths, and C.

    Parameters
    ----------
    problem : Problem
        A sample of the rows, on a family with bandwidths.
    tune_C : bool
        Whether C may become a multiple of the problem's.
    seed : int
    size : int
        Bins of a grid.
    sweeps : int
        Of the small fits; as many as the fit will have, because C and early stopping depend on each other.
    n_rows : int or None
        Rows of the fit; binning features get narrower bandwidths than the small fits' where there are more.
    steps : int
        Of the search for one bandwidth per column.
    """
    family: Any = problem.family
    rng = np.random.default_rng(seed)
    s = np.asarray(problem.sample_weight)
    rows = np.flatnonzero(s > 0)
    telling = columns_of_time(problem.X, problem.Y, rows)
    train, judged = _split(rows, rng, ordered=telling is not None)

    def taken(rows):
        return dense(problem.X[rows]), problem.Y[rows], s[rows]

    with one_blas_thread():
        X, Y, weights = taken(train)
        shapes = _shapes(family, X, Y, weights, rng, steps)
        if family.ard and telling is not None and telling.any() and not telling.all():
            timeless = {f"{k} without time": np.where(telling, np.inf, v) for k, v in shapes.items()}
            shapes |= {k: v for k, v in timeless.items() if np.isfinite(v).any()}

        def trial(n, pool=None):
            cut = round((1 - JUDGED) * n)
            rows = taken(train[:cut]), taken(judged[: n - cut])
            return _Trial(family, *rows, problem.C, seed, size, sweeps, pool)

        return _search(trial, shapes, tune_C, n_rows)


def columns_of_time(X, Y, rows: np.ndarray) -> np.ndarray | None:
    """Return which columns tell the time, a mask; None for rows that are in no order of time.

    Rows in the order of their targets are not meant: the last of them would be like none before. O(m d) for m rows
    looked at, and O(m k²) for the k columns that tell.

    Parameters
    ----------
    X, Y : rows and targets
    rows : (n,) array of int
        Which to look at, in their order.
    """
    rows = rows[:: max(1, len(rows) // CLOCK_ROWS)]
    if len(rows) < FEWEST_CLOCK_ROWS:
        return None
    Z = dense(X[rows]).astype(float)
    share = _between_runs(Z)
    best = np.argsort(-share)[: len(rows) // 20]
    clock = _correlation(Z[:, best[share[best] > TELLING]])
    sorted_targets = max(_correlation(y[:, None]) for y in np.asarray(Y[rows]).T)
    return share > TELLING if clock > CLOCK > sorted_targets else None


def _between_runs(Z: np.ndarray) -> np.ndarray:
    """Return the share of every column's variance that lies between runs of consecutive rows."""
    runs = np.array_split(Z, RUNS)
    between = np.var([run.mean(axis=0) for run in runs], axis=0)
    total = between + np.mean([run.var(axis=0) for run in runs], axis=0)
    return np.divide(between, total, out=np.zeros_like(total), where=total > 0)


def _correlation(V: np.ndarray) -> float:
    """Return the correlation of the row's number with the best combination of the columns' ranks."""
    if not V.shape[1]:
        return 0.0
    ranks = rankdata(V, axis=0) - (len(V) + 1) / 2
    number = np.arange(len(V)) - (len(V) - 1) / 2
    fitted = ranks @ np.linalg.lstsq(ranks, number, rcond=None)[0]
    return float(np.sqrt((fitted @ fitted) / (number @ number)))


def _split(rows: np.ndarray, rng, *, ordered: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return rows to fit and rows to judge, both shuffled.

    Those to judge are the last ones of rows in the order of time, and else a few runs of consecutive rows: judged at
    random, rows that resemble their neighbours would reward bandwidths that remember these.
    """
    runs = np.array_split(rows, RUNS)
    count = round(JUDGED * RUNS)
    out = np.arange(RUNS - count, RUNS) if ordered else rng.choice(RUNS, count, replace=False)
    judged = np.concatenate([runs[i] for i in out])
    kept = np.concatenate([run for i, run in enumerate(runs) if i not in out])
    if not len(kept) or not len(judged):
        return rows, rows
    return rng.permutation(kept), rng.permutation(judged)


def quick(problem: Problem) -> Any:
    """Return equal bandwidths from the median distance alone, for a model that will soon be replaced."""
    family: Any = problem.family
    X = dense(problem.X)
    units = _units(X, np.ones(len(X))) if family.ard else np.ones(X.shape[1])
    told = np.isfinite(units)  # none in a single row
    return _member(family, units * (_median(family, X[:, told] / units[told]) / 2 if told.any() else 1.0))


# -- candidates ----------------------------------------------------------------------------------------


def _units(X, s) -> np.ndarray:
    """Return the columns' standard deviations; infinity for a constant one, which is ignored."""
    mean = np.average(X, axis=0, weights=s)
    spread = np.sqrt(np.average(np.square(X - mean), axis=0, weights=s))
    constant = spread <= 1e-6 * np.maximum(np.abs(mean), np.finfo(np.float32).tiny)
    return np.where(constant, np.inf, spread)


def _median(family, Z) -> float:
    Z = np.asarray(Z[:500], dtype=float)
    S = pairwise_statistic(family.statistic, Z, Z)
    positive = S[1e-12 * S.max(initial=0.0) < S]
    if not len(positive):
        return 1.0
    middle = float(np.median(positive))
    return math.sqrt(middle) if family.statistic == "sqdist" else middle


def _member(family, sigma: np.ndarray):
    """Return bandwidths as a member, within the family's bounds; ignored columns stay ignored."""
    box = family._box(len(sigma))
    if not family.ard:
        return float(np.clip(sigma[0], *box[0]))
    inside = np.clip(sigma, box[:, 0], box[:, 1])
    return tuple(np.where(np.isinf(sigma), np.inf, inside).tolist())


def _shapes(family, X, Y, s, rng, steps) -> dict[str, np.ndarray]:
    """Return candidates for the ratios of the bandwidths."""
    if not family.ard:
        return {"single": np.full(X.shape[1], _median(family, X))}
    units = _units(X, s)
    used = np.isfinite(units)
    equal = units.copy()
    if not used.any():
        return {"equal": equal}
    Z = np.ascontiguousarray(X[:, used] / units[used], dtype=np.float32)
    start = _median(family, Z)
    equal[used] *= start
    if used.sum() == 1 or steps == 0:
        return {"equal": equal}
    learned = units.copy()
    learned[used] *= learn_bandwidths(family.statistic, Z, Y, s, start, rng, steps)
    logger.info("bandwidths of %d columns: learned in %d steps", used.sum(), steps)
    return {"learned": learned, "equal": equal}


def learn_bandwidths(statistic: str, Z, Y, s, start: float, rng, steps: int = STEPS) -> np.ndarray:
    """Return one bandwidth per column by Adam on the leave-one-out error, O(steps · (m² d + m³)) for m rows a step.

    Parameters
    ----------
    statistic : {"l1", "sqdist"}
    Z : (n, d) array, float32
        Standardised rows.
    Y : (n, c) array
    s : (n,) array
        Rows are drawn in proportion to their weights.
    start : float
        Bandwidth to start from.
    """
    m = min(STEP_ROWS, max(FEWEST_STEP_ROWS, len(Z) // 4), len(Z))
    t = np.append(np.full(Z.shape[1], math.log(start)), math.log(0.1))  # log bandwidths, and log of 1/C
    first, second = np.zeros_like(t), np.zeros_like(t)
    share = s / s.sum() if np.ptp(s) else None

    def drawn():
        return np.unique(rng.choice(len(Z), m, p=share, replace=share is not None))

    def error(rows):
        return leave_one_out(statistic, Z[rows], Y[rows], t)

    for step in range(1, steps + 1):
        found = map_in_threads(error, [drawn() for _ in range(PARTS)])
        value, gradient = (sum(part[i] for part in found) for i in (0, 1))
        gradient = gradient / max(value, np.finfo(float).tiny)
        first = 0.9 * first + 0.1 * gradient
        second = 0.99 * second + 0.01 * np.square(gradient)
        rate = RATE * min(1.0, 2.0 * (1 - (step - 1) / steps))  # the last steps shorten
        t -= rate * (first / (1 - 0.9**step)) / np.sqrt(second / (1 - 0.99**step) + 1e-12)
        t[-1] = np.clip(t[-1], math.log(1e-4), math.log(1e2))
    return np.exp(t[:-1])


# -- small fits ----------------------------------------------------------------------------------------


class _Trial:
    """Fits on a part of the sample, judged on the rest."""

    def __init__(self, family, fitted, judged, C, seed, size, sweeps, pool):
        self.family, self.C, self.seed, self.size, self.sweeps = family, C, seed, size, sweeps
        self.pool: ThreadPoolExecutor | None = pool
        sparse = family.statistic == "l1"
        (X, Y, s), (Xv, Yv, sv) = fitted, judged
        if not sparse:  # the same share of either
            n, nv = round((1 - JUDGED) * DENSE_ROWS), round(JUDGED * DENSE_ROWS)
            X, Y, s, Xv, Yv, sv = X[:n], Y[:n], s[:n], Xv[:nv], Yv[:nv], sv[:nv]
        self.X, self.Xv = X, Xv
        mean = np.average(Y, axis=0, weights=s)
        self.Y, self.Yv = widened(Y - mean), widened(Yv - mean)
        self.s, self.sv = s.astype(np.float32), sv.astype(np.float32)
        self.edges = np.array([0, *(last for _, last in even_parts(len(X), LANES))])
        self.trivial = float(self.sv @ np.square(self.Yv).sum(axis=1))
        self.errors = self._sparse if sparse else self._dense

    def _relative(self, R) -> float:
        error = float(self.sv @ np.square(R).sum(axis=1))
        return error / self.trivial if self.trivial > 0 else 1.0

    def _sparse(self, member) -> Callable[[float], float]:
        """Return the relative error of a fit with few grids as a function of C, O(sweeps · grids · n)."""
        feature_map = self.family.kernel(member).random_features(self.X.shape[1], self.seed, 0, self.size)
        grids = feature_map.grids(0, TRIAL_GRIDS)
        bins, judged = (self._bins(grids, X) for X in (self.X, self.Xv))
        slots, seen = np.zeros((len(grids), grids.width), grids.dtype), np.zeros(len(grids), np.int64)
        number_bins(bins, slots, seen)
        look_up(judged, slots)
        first = np.concatenate([[0], np.cumsum(1 + seen)])
        counts = np.zeros(first[-1], np.float32)
        lines, known = np.arange(len(grids)), False

        def fit(C):
            nonlocal known
            R, Rv = self.Y.copy(), self.Yv.copy()
            W = np.zeros((first[-1], R.shape[1]), dtype=np.float32)
            room = Tours.room(LANES, 1 + seen.max(), R.shape[1])
            tours = Tours(
                bins, R, self.s, self.edges, *room, np.zeros_like(room[0][0]), self.pool, n_threads()
            )
            lams, before = np.full(len(grids), len(grids) / C), -1
            for _ in range(self.sweeps):
                units = np.column_stack(
                    [lines, first[:-1], 1 + seen, first[:-1], np.full(len(seen), not known)]
                )
                tours(units, lams, before, W, counts)
                before, known = lines[-1], True
            for g in range(len(grids)):
                subtract_step(judged[g], W[first[g] : first[g + 1]], Rv)
            return self._relative(Rv)

        return fit

    def _bins(self, grids, X) -> np.ndarray:
        """Return the bins of rows, on the trial's threads."""
        bins = np.empty((len(grids), len(X)), grids.dtype)

        def fill(edges):
            a, b = edges
            grids.bins(X[a:b], out=bins[:, a:b])

        for _ in (
            map(fill, [(0, len(X))]) if self.pool is None else self.pool.map(fill, even_parts(len(X), 8))
        ):
            pass
        return bins

    def _dense(self, member) -> Callable[[float], float]:
        """Return the relative error of ridge regression on few features as a function of C, O(n D² + D³)."""
        feature_map = self.family.kernel(member).random_features(
            self.X.shape[1], self.seed, 0, TRIAL_FEATURES
        )
        Z, Zv = (feature_map.block(0).transform(X) for X in (self.X, self.Xv))
        ZS = Z * np.sqrt(self.s)[:, None]
        H = (ZS.T @ ZS).astype(float)
        b = ((self.s[:, None] * self.Y).T @ Z).T.astype(float)

        def fit(C):
            M = H.copy()
            M[np.diag_indices_from(M)] += 1.0 / C
            W = cho_solve(cho_factor(M, overwrite_a=True), b).astype(np.float32)
            return self._relative(self.Yv - Zv @ W)

        return fit


def _search(trial: Callable[..., _Trial], shapes: dict[str, np.ndarray], tune_C: bool, n_rows) -> Prepared:
    """Search along the multiples: for every shape on few rows, then for the better one on many, from there.

    Shapes are looked at side by side, each on a thread; the better one then has all threads.
    """
    few = trial(FEW_ROWS)
    found = map_in_threads(
        lambda item: _search_shape(few, *item, (FIRST_BANDWIDTH, FIRST_C), 2, tune_C), shapes.items()
    )
    prepared, start = min(found, key=lambda pair: pair[0].error)
    sigma = shapes[prepared.shape]
    with ThreadPoolExecutor(n_threads()) as pool:
        many = trial(TRIAL_ROWS, pool)
        prepared, (power, _) = _search_shape(many, prepared.shape, sigma, start, 1, tune_C)
    tried = len(many.X) + len(many.Xv)
    if n_rows is None or n_rows <= tried or many.family.statistic != "l1":
        return prepared
    narrower = (tried / n_rows) ** NARROWING
    return replace(prepared, member=_member(many.family, sigma * BANDWIDTH_FACTOR**power * narrower))


def _search_shape(trial, shape, sigma, start, stride, tune_C) -> tuple[Prepared, tuple[int, int]]:
    """Return the best multiples of bandwidths and C near a start, and the powers that they are."""
    last = [start[1]]

    @_remembered
    def look(power):
        """Return the error at the best C, the power of that C, and the member."""
        member = _member(trial.family, sigma * BANDWIDTH_FACTOR**power)
        error_at = trial.errors(member)
        value = _remembered(lambda k: _finite(error_at(trial.C * C_FACTOR**k)))
        last[0] = _descend(value, last[0], *C_RANGE, stride=stride) if tune_C else 0
        return value(last[0]), last[0], member

    power = _descend(lambda k: look(k)[0], start[0], *BANDWIDTH_RANGE, stride=stride)
    error, k, member = look(power)
    C = trial.C * C_FACTOR**k
    logger.info(
        "bandwidths %s: error %.4f of the mean's, C = %.3g, on %d rows", shape, error, C, len(trial.X)
    )
    return Prepared(member, C, error, shape), (power, k)


def _finite(error: float) -> float:
    return error if math.isfinite(error) else math.inf


def _remembered(func: Callable) -> Callable:
    known: dict[int, Any] = {}

    def call(key):
        if key not in known:
            known[key] = func(key)
        return known[key]

    return call


def _descend(value: Callable[[int], float], start: int, low: int, high: int, stride: int) -> int:
    """Return where a function of whole numbers stops falling, upwards first, then downwards."""
    at = start
    for step in (stride, -stride):
        while low <= at + step <= high and value(at + step) < value(at):
            at += step
        if at != start:
            break
    return at
