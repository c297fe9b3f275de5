"""Small fits that choose among shapes of bandwidths, their common multiple, and C.

A shape fixes the ratios of the bandwidths. Every shape is tried on few rows, and those that cannot be told apart there
on more. Where all of them explain little, structure may be fine: columns that repeat (a flight's route and minute, say)
then tell by their exact values, which narrow bandwidths see, but only without the columns that do not matter, as those
keep rows apart that belong together. So columns are left out one by one, for as long as that helps.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ..._util.arrays import widened
from ..._util.threads import map_in_threads, n_threads, one_blas_thread
from ...streaming.cluster import Rows
from ._grids import shared_among
from .pieces import TrialRows, piece_of

logger = logging.getLogger("manykernels")

#: Features of the small fits, rows of a first and of a second round, and the most with dense features.
TRIAL_GRIDS, TRIAL_FEATURES = 64, 1024
ROUGH_ROWS, TRIAL_ROWS, DENSE_ROWS = 20_000, 80_000, 20_000
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
    sigma : (f, d) array
        Bandwidths of the shape, of every fold, before `power`; infinity for a column that is ignored.
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
        """Return the bandwidths, the geometric mean of all folds', times a factor."""
        one = self.sigma[0] if len(self.sigma) == 1 else np.exp(np.log(self.sigma).mean(axis=0))
        return one * BANDWIDTH_FACTOR**self.power * narrower


class Fits:
    """Where small fits are made: in this process, on its threads.

    Parameters
    ----------
    trials : callable
        Returns a :class:`Trial` of every fold on so many rows, given a number and a pool of threads or None.
    """

    def __init__(self, trials: Callable[..., list[Trial]]):
        self._trials = trials
        self._known: dict[int, list[Trial]] = {}
        self._pool = ThreadPoolExecutor(n_threads())

    def trials(self, n_rows: int) -> list[Trial]:
        """Return the trials on at most so many rows."""
        if n_rows not in self._known:
            self._known[n_rows] = self._trials(n_rows, self._pool)
        return self._known[n_rows]

    def each(self, look: Callable[..., Found], tasks: Sequence[Any], n_rows: int, alone: bool) -> list[Found]:
        """Return ``look(trials, task)`` of every task: each alone on a thread, or one after the other on all."""
        trials = self.trials(n_rows)
        if not alone:
            return [look(trials, task) for task in tasks]
        trials = [trial.alone() for trial in trials]
        return map_in_threads(lambda task: look(trials, task), tasks)

    def close(self) -> None:
        """Give the threads back."""
        self._pool.shutdown()


class FarFits(Fits):
    """Small fits next to rows that lie elsewhere, every one a task of its own.

    Parameters
    ----------
    trials : callable
        As in :class:`Fits`; it can be sent.
    rows : Rows
    """

    def __init__(self, trials: Callable[..., list[Trial]], rows: Rows):
        super().__init__(trials)
        self.rows, self.shared = rows, rows.broadcast(trials)

    def each(self, look, tasks, n_rows, alone):
        return self.rows.each(_far_look, tasks, self.shared, look, n_rows)

    def close(self):
        super().close()
        self.rows.forget(self.shared)


def _far_look(task, trials: Callable[..., list[Trial]], look: Callable[..., Found], n_rows: int) -> Found:
    with one_blas_thread():
        return look(trials(n_rows, None), task)


def search(fits: Fits, shapes: dict[str, np.ndarray], choose_C: bool, n_rows) -> tuple[list[Found], float]:
    """Return where shapes were found, best first: every one on few rows, then the best ones on many, from there.

    With them the factor by which bandwidths are to be narrower on all rows.

    Shapes are looked at side by side, each on a thread; on many rows one after the other, on all threads.

    Parameters
    ----------
    fits : Fits
    shapes : dict of (f, d) arrays
        Bandwidths of every fold.
    choose_C : bool
        Whether C is searched for, too.
    n_rows : int or None
        Rows of the fit to come.
    """
    begin = FIRST_BANDWIDTH, FIRST_C
    roughly = partial(_descended, stride=2, choose_C=choose_C)
    # Of folds the first, to see where to begin.
    tasks = [(shape, sigma[:1], *begin) for shape, sigma in shapes.items()]
    tried = _said(fits.each(roughly, tasks, ROUGH_ROWS, True), fits, ROUGH_ROWS)
    best = min(tried, key=lambda found: found.error)
    going = [found for found in tried if found is best or not best.clearly_better(found)]
    closely = partial(_descended, stride=1, choose_C=choose_C)
    tasks = [(f.shape, shapes[f.shape], f.power, f.k) for f in going]
    tried = _said(fits.each(closely, tasks, TRIAL_ROWS, False), fits, TRIAL_ROWS)
    best = min(tried, key=lambda found: found.error)
    fine = _fine(fits, shapes, choose_C) if best.error > LITTLE else None
    tried += [] if fine is None else _said([fine], fits, TRIAL_ROWS)
    many = fits.trials(TRIAL_ROWS)
    rows = max(trial.n_rows for trial in many)
    more = n_rows is not None and n_rows > rows and many[0].sparse
    return sorted(tried, key=lambda found: found.error), (rows / n_rows) ** NARROWING if more else 1.0


def member_of(family, sigma: np.ndarray) -> Any:
    """Return bandwidths as a member, within the family's bounds; ignored columns stay ignored."""
    box = family._box(len(sigma))
    if not family.ard:
        return float(np.clip(sigma[0], *box[0]))
    inside = np.clip(sigma, box[:, 0], box[:, 1])
    return tuple(np.where(np.isinf(sigma), np.inf, inside).tolist())


def _errors(trials: list[Trial], sigma: np.ndarray) -> Callable[[int], np.ndarray]:
    """Return the errors of all folds, each with bandwidths of its own, as a function of the power of C."""
    folds = [trial.errors(own) for trial, own in zip(trials, sigma, strict=True)]
    return lambda k: np.concatenate([errors_at(k) for errors_at in folds]) / len(folds)


def _descended(
    trials: list[Trial], task: tuple[str, np.ndarray, int, int], stride: int, choose_C: bool
) -> Found:
    """Return the best multiples of bandwidths and C near a start: a shape, its bandwidths, and two powers."""
    shape, sigma, power, k = task
    trials = trials[: len(sigma)]
    last = [k]

    @_remembered
    def look(power):
        errors_at = _errors(trials, sigma * BANDWIDTH_FACTOR**power)
        value = _remembered(lambda k: Found(shape, sigma, power, k, errors_at(k)))
        last[0] = descend(lambda k: value(k).error, last[0], *C_RANGE, stride) if choose_C else 0
        return value(last[0])

    return look(descend(lambda power: look(power).error, power, *BANDWIDTH_RANGE, stride))


def _fine(fits: Fits, shapes: dict[str, np.ndarray], choose_C: bool) -> Found | None:
    """Return narrow bandwidths on the columns that matter; None where it is not worth a try."""
    many = fits.trials(TRIAL_ROWS)
    shape = "equal without time" if "equal without time" in shapes else "equal"
    sigma = shapes.get(shape, np.zeros((1, 0)))
    count = int(np.isfinite(sigma[0]).sum())
    enough = min(len(trial.Y) for trial in many) >= FEWEST_FINE_ROWS
    if not many[0].sparse or not 2 <= count <= MOST_FINE_COLUMNS or not enough:
        return None
    look = partial(_fine_look, shape=f"fine, {shape}", powers=FINE_C if choose_C else (0,))
    (now,) = fits.each(look, [sigma], TRIAL_ROWS, True)
    while np.isfinite(now.sigma[0]).sum() > 1:
        columns = np.flatnonzero(np.isfinite(now.sigma[0]))
        without = [np.where(np.arange(sigma.shape[1]) == j, np.inf, now.sigma) for j in columns]
        # Columns are tried side by side.
        best = min(fits.each(look, without, TRIAL_ROWS, True), key=lambda found: found.error)
        if not best.clearly_better(now):
            break
        now = best
    closely = partial(_descended, stride=1, choose_C=choose_C)
    return fits.each(closely, [(now.shape, now.sigma, now.power, now.k)], TRIAL_ROWS, False)[0]


def _fine_look(trials: list[Trial], sigma: np.ndarray, shape: str, powers: Sequence[int]) -> Found:
    """Return the best C for narrow bandwidths on some columns."""
    errors_at = _errors(trials, sigma * BANDWIDTH_FACTOR**FINE_BANDWIDTH)
    tried = [Found(shape, sigma, FINE_BANDWIDTH, k, errors_at(k)) for k in powers]
    return min(tried, key=lambda found: found.error)


def _said(tried: list[Found], fits: Fits, n_rows: int) -> list[Found]:
    """Return what was found, after a word on each."""
    for found in tried:
        trials = fits.trials(n_rows)[: len(found.sigma)]
        known = found.shape, found.error, trials[0].C * C_FACTOR**found.k, sum(len(t.Y) for t in trials)
        logger.info("bandwidths %s: error %.4f of the mean's, C = %.3g, on %d rows", *known)
    return tried


class Trial:
    """Fits on a part of the sample, judged on the rest.

    Parameters
    ----------
    family : family of bandwidths, or None where only mixtures are tried
    fitted, judged : rows, targets and weights
    C : float
    seed, size, sweeps : int
        Of the features, their bins, and the passes over them.
    pool : ThreadPoolExecutor or None
        Its threads work on one fit after the other; None: the caller's alone.
    """

    def __init__(self, family, fitted, judged, C, seed, size, sweeps, pool):
        self.family, self.C, self.seed, self.size, self.sweeps = family, C, seed, size, sweeps
        self.sparse = family is not None and family.statistic == "l1"
        (X, Y, s), (Xv, Yv, sv) = fitted, judged
        if not self.sparse:  # the same share of either
            n, nv = round((1 - JUDGED) * DENSE_ROWS), round(JUDGED * DENSE_ROWS)
            X, Y, s, Xv, Yv, sv = X[:n], Y[:n], s[:n], Xv[:nv], Yv[:nv], sv[:nv]
        self.rows = TrialRows(X, s.astype(np.float32), Xv, pool)
        mean = np.average(Y, axis=0, weights=s)
        self.Y, self.Yv = widened(Y - mean), widened(Yv - mean)
        self.sv = sv.astype(np.float32)
        self.trivial = float(self.sv @ np.square(self.Yv).sum(axis=1))

    @property
    def n_rows(self) -> int:
        """Rows that are fitted or judge."""
        return len(self.Y) + len(self.Yv)

    def alone(self) -> Trial:
        """Return the same fits on the caller's thread."""
        other = copy(self)
        other.rows = replace(self.rows, pool=None)
        return other

    def errors(self, sigma: np.ndarray) -> Callable[[int], np.ndarray]:
        """Return the errors of a fit with some bandwidths as a function of the power of C."""
        kernel = self.family.kernel(member_of(self.family, sigma))
        # Fewer features than rows would favour wide bandwidths, which need fewer.
        size = self.size if self.sparse else min(TRIAL_FEATURES, max(64, len(self.Y) // 2 * 2))
        feature_map = kernel.random_features(self.rows.X.shape[1], self.seed, 0, size)
        pieces = [piece_of(feature_map, TRIAL_GRIDS, self.rows)]
        # Dense features alone are solved exactly, and at once.
        return lambda k: self.judged(pieces, np.ones(1), k, self.sweeps if self.sparse else 1)

    def judged(self, pieces, strength: np.ndarray, k: int, sweeps: int) -> np.ndarray:
        """Return the errors of a fit of pieces with λ_i = 1/(C · strength_i), every piece in turn."""
        lams = 1.0 / (self.C * C_FACTOR**k * strength)
        R, Rv = self.Y.copy(), self.Yv.copy()
        coefficients = [piece.fresh(R.shape[1]) for piece in pieces]
        grids = sum(getattr(piece, "blocks", 0) for piece in pieces)
        for sweep in range(sweeps):
            share = shared_among(grids, sweeps, sweep)
            for piece, lam, W in zip(pieces, lams, coefficients, strict=True):
                piece.step(R, lam, W, share)
        for piece, W in zip(pieces, coefficients, strict=True):
            piece.judge(Rv, W)
        return self._relative(Rv)

    def _relative(self, R) -> np.ndarray:
        errors = self.sv * np.square(R, dtype=np.float64).sum(axis=1)
        return errors / self.trivial if self.trivial > 0 else np.full(len(errors), 1.0 / len(errors))


def _remembered(func: Callable) -> Callable:
    known: dict[int, Any] = {}

    def call(key):
        if key not in known:
            known[key] = func(key)
        return known[key]

    return call


def descend(value: Callable[[int], float], start: int, low: int, high: int, stride: int) -> int:
    """Return where a function of whole numbers stops falling, upwards first, then downwards."""
    at = start
    for step in (stride, -stride):
        while low <= at + step <= high and value(at + step) < value(at):
            at += step
        if at != start:
            break
    return at
