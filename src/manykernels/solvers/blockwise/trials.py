"""Small fits that choose among shapes of bandwidths, their common multiple, and C.

A shape fixes the ratios of the bandwidths. Every shape is tried on few rows, and those that cannot be told apart there
on more. Where all of them explain little, structure may be fine: columns that repeat (a flight's route and minute, say)
then tell by their exact values, which narrow bandwidths see, but only without the columns that do not matter, as those
keep rows apart that belong together. So columns are left out one by one, for as long as that helps.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from ..._util.arrays import even_parts, widened
from ..._util.threads import map_in_threads, n_threads
from ...features._bins import look_up, number_bins
from ._grids import Tours, subtract_step

logger = logging.getLogger("manykernels")

#: Features of the small fits, rows of a first and of a second round, and the most with dense features.
TRIAL_GRIDS, TRIAL_FEATURES = 64, 1024
ROUGH_ROWS, TRIAL_ROWS, DENSE_ROWS = 20_000, 80_000, 20_000
#: Along which their rows are summed up, so that two threads can.
LANES = 2
#: Share of the sample that the small fits are judged on.
JUDGED = 0.2
#: Steps of the search: bandwidths and C are multiplied by powers of these; where it begins, and the farthest powers.
BANDWIDTH_FACTOR, C_FACTOR = math.sqrt(0.5), 2.0
FIRST_BANDWIDTH, FIRST_C = 4, 1
BANDWIDTH_RANGE, C_RANGE = (-4, 16), (-10, 12)
#: The best bandwidths of binning features fall with the rows n like 1/n to this power: between 16,000, 64,000 and
#: 300,000 rows of four data sets, with learned and with equal bandwidths, by 0.10 to 0.24 as a rule.
NARROWING = 1 / 6
#: Fine structure is looked for where the relative error is above this, with bandwidths and C multiplied by these
#: powers, on no fewer rows than these, as it would not show, and no more columns, as each is tried in turn.
LITTLE, FINE_BANDWIDTH, FINE_C = 0.8, 12, (-6, -4, -2, 0)
FEWEST_FINE_ROWS, MOST_FINE_COLUMNS = 20_000, 16
#: Errors are told apart if they differ by so many standard errors.
APART = 2.0


@dataclass(frozen=True, eq=False)
class Found:
    """Where a search has come to.

    Attributes
    ----------
    shape : str
    sigma : (d,) array
        Bandwidths of the shape, before `power`; infinity for a column that is ignored.
    power, k : int
        Of the factors of the bandwidths and of C.
    errors : (n,) array
        Squared error of every row that judged; their sum is relative to that of the mean.
    """

    shape: str
    sigma: np.ndarray
    power: int
    k: int
    errors: np.ndarray

    @property
    def error(self) -> float:
        """The relative error; infinite where it is not a number."""
        total = float(self.errors.sum())
        return total if math.isfinite(total) else math.inf

    def clearly_better(self, other: Found) -> bool:
        """Whether the errors are smaller by more than chance, row by row."""
        if not (math.isfinite(self.error) and math.isfinite(other.error)):
            return self.error < other.error
        less = other.errors - self.errors
        return float(less.sum()) > APART * math.sqrt(len(less)) * float(less.std())

    def bandwidths(self, narrower: float = 1.0) -> np.ndarray:
        """Return the bandwidths, times a factor."""
        return self.sigma * BANDWIDTH_FACTOR**self.power * narrower


def search(
    trial: Callable[..., Trial], shapes: dict[str, np.ndarray], tune_C: bool, n_rows
) -> tuple[Any, Found]:
    """Return a member and where it was found: every shape on few rows, then the best ones on many, from there.

    Shapes are looked at side by side, each on a thread; on many rows one after the other, on all threads.

    Parameters
    ----------
    trial : callable
        Returns a :class:`Trial` on so many rows, given a number and a pool of threads or None.
    shapes : dict of (d,) arrays
        Bandwidths.
    tune_C : bool
        Whether C is searched for, too.
    n_rows : int or None
        Rows of the fit to come.
    """
    few = trial(ROUGH_ROWS, None)
    begin = FIRST_BANDWIDTH, FIRST_C
    tried = map_in_threads(lambda item: _descend_from(few, *item, *begin, 2, tune_C), shapes.items())
    best = min(tried, key=lambda found: found.error)
    with ThreadPoolExecutor(n_threads()) as pool:
        many = trial(TRIAL_ROWS, pool)
        going = [found for found in tried if found is best or not best.clearly_better(found)]
        tried = [_descend_from(many, f.shape, f.sigma, f.power, f.k, 1, tune_C) for f in going]
        best = min(tried, key=lambda found: found.error)
        fine = _fine(many, shapes, tune_C) if best.error > LITTLE else None
        if fine is not None and fine.error < best.error:
            best = fine
    rows = len(many.X) + len(many.Xv)
    more = n_rows is not None and n_rows > rows and many.sparse
    narrower = (rows / n_rows) ** NARROWING if more else 1.0
    return member_of(many.family, best.bandwidths(narrower)), best


def member_of(family, sigma: np.ndarray) -> Any:
    """Return bandwidths as a member, within the family's bounds; ignored columns stay ignored."""
    box = family._box(len(sigma))
    if not family.ard:
        return float(np.clip(sigma[0], *box[0]))
    inside = np.clip(sigma, box[:, 0], box[:, 1])
    return tuple(np.where(np.isinf(sigma), np.inf, inside).tolist())


def _descend_from(trial: Trial, shape, sigma, power: int, k: int, stride: int, tune_C: bool) -> Found:
    """Return the best multiples of bandwidths and C near a start."""
    last = [k]

    @_remembered
    def look(power):
        errors_at = trial.errors(sigma * BANDWIDTH_FACTOR**power)
        value = _remembered(lambda k: Found(shape, sigma, power, k, errors_at(k)))
        last[0] = _descend(lambda k: value(k).error, last[0], *C_RANGE, stride) if tune_C else 0
        return value(last[0])

    found = look(_descend(lambda power: look(power).error, power, *BANDWIDTH_RANGE, stride))
    _say(trial, found)
    return found


def _fine(many: Trial, shapes: dict[str, np.ndarray], tune_C: bool) -> Found | None:
    """Return narrow bandwidths on the columns that matter; None where it is not worth a try."""
    shape = "equal without time" if "equal without time" in shapes else "equal"
    sigma = shapes.get(shape, np.zeros(0))
    count = int(np.isfinite(sigma).sum())
    if not many.sparse or not 2 <= count <= MOST_FINE_COLUMNS or len(many.X) < FEWEST_FINE_ROWS:
        return None
    alone = copy(many)
    alone.pool = None  # columns are tried side by side, each on a thread

    def look(sigma):
        errors_at = alone.errors(sigma * BANDWIDTH_FACTOR**FINE_BANDWIDTH)
        powers, name = FINE_C if tune_C else (0,), f"fine, {shape}"
        tried = [Found(name, sigma, FINE_BANDWIDTH, k, errors_at(k)) for k in powers]
        return min(tried, key=lambda found: found.error)

    now = look(sigma)
    while np.isfinite(now.sigma).sum() > 1:
        columns = np.flatnonzero(np.isfinite(now.sigma))
        without = [np.where(np.arange(len(sigma)) == j, np.inf, now.sigma) for j in columns]
        best = min(map_in_threads(look, without), key=lambda found: found.error)
        if not best.clearly_better(now):
            break
        now = best
    return _descend_from(many, now.shape, now.sigma, now.power, now.k, 1, tune_C)


def _say(trial: Trial, found: Found) -> None:
    known = found.shape, found.error, trial.C * C_FACTOR**found.k, len(trial.X)
    logger.info("bandwidths %s: error %.4f of the mean's, C = %.3g, on %d rows", *known)


class Trial:
    """Fits on a part of the sample, judged on the rest.

    Parameters
    ----------
    family : family of bandwidths
    fitted, judged : rows, targets and weights
    C : float
    seed, size, sweeps : int
        Of the features, their bins, and the passes over them.
    pool : ThreadPoolExecutor or None
        Its threads work on one fit after the other; None: the caller's alone.
    """

    def __init__(self, family, fitted, judged, C, seed, size, sweeps, pool):
        self.family, self.C, self.seed, self.size, self.sweeps = family, C, seed, size, sweeps
        self.pool: ThreadPoolExecutor | None = pool
        self.sparse = family.statistic == "l1"
        (X, Y, s), (Xv, Yv, sv) = fitted, judged
        if not self.sparse:  # the same share of either
            n, nv = round((1 - JUDGED) * DENSE_ROWS), round(JUDGED * DENSE_ROWS)
            X, Y, s, Xv, Yv, sv = X[:n], Y[:n], s[:n], Xv[:nv], Yv[:nv], sv[:nv]
        self.X, self.Xv = X, Xv
        mean = np.average(Y, axis=0, weights=s)
        self.Y, self.Yv = widened(Y - mean), widened(Yv - mean)
        self.s, self.sv = s.astype(np.float32), sv.astype(np.float32)
        self.edges = np.array([0, *(last for _, last in even_parts(len(X), LANES))])
        self.trivial = float(self.sv @ np.square(self.Yv).sum(axis=1))

    def errors(self, sigma: np.ndarray) -> Callable[[int], np.ndarray]:
        """Return the errors of a fit with some bandwidths as a function of the power of C."""
        member = member_of(self.family, sigma)
        residuals = self._sparse(member) if self.sparse else self._dense(member)
        return lambda k: self._relative(residuals(self.C * C_FACTOR**k))

    def _relative(self, R) -> np.ndarray:
        errors = self.sv * np.square(R, dtype=np.float64).sum(axis=1)
        return errors / self.trivial if self.trivial > 0 else np.full(len(errors), 1.0 / len(errors))

    def _sparse(self, member) -> Callable[[float], np.ndarray]:
        """Return the residuals of a fit with few grids as a function of C, O(sweeps · grids · n)."""
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
            step = np.zeros_like(room[0][0])
            tours = Tours(bins, R, self.s, self.edges, *room, step, self.pool, n_threads())
            lams, before = np.full(len(grids), len(grids) / C), -1
            for _ in range(self.sweeps):
                new = np.full(len(grids), not known)
                units = np.column_stack([lines, first[:-1], 1 + seen, first[:-1], new])
                tours(units, lams, before, W, counts)
                before, known = lines[-1], True
            for g in lines:
                subtract_step(judged[g], W[first[g] : first[g + 1]], Rv)
            return Rv

        return fit

    def _bins(self, grids, X) -> np.ndarray:
        """Return the bins of rows, on the trial's threads."""
        bins = np.empty((len(grids), len(X)), grids.dtype)

        def fill(edges):
            a, b = edges
            grids.bins(X[a:b], bins[:, a:b])

        if self.pool is None:
            fill((0, len(X)))
        else:
            list(self.pool.map(fill, even_parts(len(X), 8)))
        return bins

    def _dense(self, member) -> Callable[[float], np.ndarray]:
        """Return the residuals of ridge regression on few features as a function of C, O(n D² + D³)."""
        kernel = self.family.kernel(member)
        feature_map = kernel.random_features(self.X.shape[1], self.seed, 0, TRIAL_FEATURES)
        Z, Zv = (feature_map.block(0).transform(X) for X in (self.X, self.Xv))
        ZS = Z * np.sqrt(self.s)[:, None]
        H = (ZS.T @ ZS).astype(float)
        b = ((self.s[:, None] * self.Y).T @ Z).T.astype(float)

        def fit(C):
            M = H.copy()
            M[np.diag_indices_from(M)] += 1.0 / C
            W = cho_solve(cho_factor(M, overwrite_a=True), b).astype(np.float32)
            return self.Yv - Zv @ W

        return fit


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
