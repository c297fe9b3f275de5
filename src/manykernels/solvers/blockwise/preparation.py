"""Bandwidths, and C with them, from a first sample of the rows.

Columns are measured in their standard deviations. One bandwidth per column is learned on the leave-one-out errors of
small kernel ridge regressions among neighbours (:mod:`manykernels.solvers.bandwidth_learning`), and once more from
there with the columns back in that had been given up. Then {learned, relearned, all equal} × multiple × C is chosen by
the error of small fits on rows that they have not seen (``trials.py``): the best bandwidths depend on the number of
rows, and one per column can be worse than equal ones.

Which rows judge depends on their order. As a rule they come from blocks of consecutive rows, here and there. Where
columns (a date, say) rise or fall together with the number of the row, they are a clock: what will be predicted lies
after the sample, so that its last rows judge, and there are more candidates, which ignore the columns that tell one
time from another. A date explains the rows of that day very well, and no row to come.
"""

from __future__ import annotations

import logging
import math
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.stats import rankdata

from ..._util.threads import one_blas_thread
from ...families.view import View
from ...kernels import pairwise_statistic
from ...kernels.statistics import dense
from ...problem import Problem
from ...streaming.cluster import Rows as Blocks
from ..bandwidth_learning.candidates import Effort, learn_columns
from ..bandwidth_learning.left_out import Rows, criterion_of
from ..bandwidth_learning.steps import NOISE, STEPS, learn_bandwidths
from .trials import C_FACTOR, JUDGED, FarFits, Fits, Found, Trial, member_of, search

logger = logging.getLogger("manykernels")

#: Blocks of consecutive rows that are judged as a whole, or not.
BLOCKS = 25
#: Fewer rows than these are split so often.
FEW_ROWS, FOLDS = 2_000, 5
#: A column tells the time if this share of its variance lies between blocks, and such columns are a clock if their
#: ranks are correlated with the number of the row as much as this; looked at on so many rows, and not on fewer than
#: these.
TELLING, CLOCK, CLOCK_ROWS, FEWEST_CLOCK_ROWS = 0.5, 0.9, 20_000, 500


@dataclass(frozen=True, eq=False)
class Prepared:
    """What the preparation chose.

    Attributes
    ----------
    members : list
        Kernels with weight, as members of the family.
    C : float
    error : float
        Of the small fit on rows it had not seen, relative to that of the mean.
    shape : str
        ``"learned"``, ``"relearned"``, ``"equal"``, each with ``" without time"``; equal ones after ``"fine, "``; or
        ``"single"``; ``"mixed"`` for several kernels.
    theta : (m,) array or None
        Weights of the kernels, which sum to one; None where the fit is to learn them.
    """

    members: list[Any]
    C: float
    error: float
    shape: str
    theta: np.ndarray | None = None


class Sample:
    """Rows that bandwidths, weights and C are chosen on: which of them are fitted, and which judge.

    Parameters
    ----------
    problem : Problem
        A sample of the rows. With ``choose_C`` C is chosen, too, and else kept.
    seed : int
    size : int
        Bins of a grid.
    soft : bool
        Whether bandwidths of classes are learned by the softmax loss; else by squares.
    folds : int or None
        How often rows are split in two; None: once, and five times where there are few, as a single draw of few rows
        would decide.
    """

    def __init__(
        self, problem: Problem, *, seed: int, size: int, soft: bool = False, folds: int | None = None
    ):
        self.problem, self.seed, self.size, self._asked = problem, seed, size, (soft, folds)
        self.soft = soft and criterion_of(problem.Y) == "softmax"
        self.rng = np.random.default_rng(seed)
        self.s = np.asarray(problem.sample_weight)
        self.rows = np.flatnonzero(self.s > 0)
        self.telling = columns_of_time(problem.X, problem.Y, self.rows)
        if folds is None:
            folds = FOLDS if len(self.rows) < FEW_ROWS and self.telling is None else 1
        groups = None if problem.groups is None else problem.groups[self.rows]
        self.splits = _splits(self.rows, groups, self.rng, folds, ordered=self.telling is not None)
        self.scale = _target_scale(problem.Y, self.s)
        # Weights are on any scale, and so is then the C that suits them: the search begins at weights of 1.
        weight = self.s[self.rows].mean() if len(self.rows) else 1.0
        self.C = C_FACTOR ** -round(math.log2(weight)) if problem.choose_C else problem.C

    def of_view(self, view: View) -> Sample:
        """Return the rows that have a view, with its columns alone."""
        has = self.problem.rows(np.flatnonzero(view.presence_of(self.problem.X)))
        soft, folds = self._asked
        own = replace(has, X=dense(view.columns_of(has.X)), family=view.family)
        return Sample(own, seed=self.seed, size=self.size, soft=soft, folds=folds)

    def taken(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return some rows, their targets and their weights."""
        return dense(self.problem.X[rows]), self.problem.Y[rows] / self.scale, self.s[rows]

    def trials(self, family, sweeps: int, n: int, pool) -> list[Trial]:
        """Return a trial of every fold on at most so many rows."""
        cut = round((1 - JUDGED) * n)
        parts = [(self.taken(train[:cut]), self.taken(judged[: n - cut])) for train, judged in self.splits]
        return [Trial(family, *part, self.C, self.seed, self.size, sweeps, pool) for part in parts]

    def shapes(self, family, steps: int) -> dict[str, np.ndarray]:
        """Return candidates for the ratios of a continuum's bandwidths, learned in every fold."""
        found = [_shapes(family, self, train, steps) for train, _ in self.splits]
        return {
            name: np.stack([own[name] for own in found]) for name in found[0] if all(name in o for o in found)
        }


@dataclass(frozen=True, eq=False)
class Trials:
    """The trials of a sample, as `Sample.trials` makes them; can be sent to where they are made."""

    sample: Sample
    family: Any
    sweeps: int

    @property
    def nbytes(self) -> int:
        """Bytes of the rows, about."""
        return getattr(self.sample.problem.X, "nbytes", 0) + self.sample.problem.Y.nbytes

    def __call__(self, n: int, pool) -> list[Trial]:
        return self.sample.trials(self.family, self.sweeps, n, pool)


def prepare(
    sample: Sample, family, *, sweeps: int, n_rows=None, steps: int = STEPS, rows: Blocks | None = None
) -> tuple[list[Found], float]:
    """Return the best bandwidths of a continuum, best first, and the factor by which they narrow on all rows.

    Parameters
    ----------
    sample : Sample
    family : family of bandwidths
    sweeps : int
        Of the small fits; as many as the fit will have, because C and early stopping depend on each other.
    n_rows : int or None
        Rows of the fit; binning features get narrower bandwidths than the small fits' where there are more.
    steps : int
        Of the search for one bandwidth per column.
    rows : Rows or None
        Where they lie elsewhere: the small fits are made there, too.
    """
    with one_blas_thread():
        shapes, telling = sample.shapes(family, steps), sample.telling
        if family.ard and telling is not None and telling.any() and not telling.all():
            timeless = {f"{k} without time": np.where(telling, np.inf, v) for k, v in shapes.items()}
            shapes |= {k: v for k, v in timeless.items() if np.isfinite(v).any()}
        trials = Trials(sample, family, sweeps)
        with closing(Fits(trials) if rows is None else FarFits(trials, rows)) as fits:
            return search(fits, shapes, sample.problem.choose_C, n_rows)


def prepare_one(
    sample: Sample, *, sweeps: int, n_rows=None, steps: int = STEPS, rows: Blocks | None = None
) -> Prepared:
    """Return the best member of a single continuum, and C."""
    family: Any = sample.problem.family
    (found, *_), narrower = prepare(sample, family, sweeps=sweeps, n_rows=n_rows, steps=steps, rows=rows)
    member, C = member_of(family, found.bandwidths(narrower)), sample.C * C_FACTOR**found.k
    return Prepared([member], C, found.error, found.shape)


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
    share = _between_blocks(Z)
    best = np.argsort(-share)[: len(rows) // 20]
    clock = _correlation(Z[:, best[share[best] > TELLING]])
    sorted_targets = max(_correlation(y[:, None]) for y in np.asarray(Y[rows]).T)
    return share > TELLING if clock > CLOCK > sorted_targets else None


def _between_blocks(Z: np.ndarray) -> np.ndarray:
    """Return the share of every column's variance that lies between blocks of consecutive rows."""
    blocks = np.array_split(Z, BLOCKS)
    between = np.var([block.mean(axis=0) for block in blocks], axis=0)
    total = between + np.mean([block.var(axis=0) for block in blocks], axis=0)
    return np.divide(between, total, out=np.zeros_like(total), where=total > 0)


def _correlation(V: np.ndarray) -> float:
    """Return the correlation of the row's number with the best combination of the columns' ranks."""
    if not V.shape[1]:
        return 0.0
    ranks = rankdata(V, axis=0) - (len(V) + 1) / 2
    number = np.arange(len(V)) - (len(V) - 1) / 2
    fitted = ranks @ np.linalg.lstsq(ranks, number, rcond=None)[0]
    return float(np.sqrt((fitted @ fitted) / (number @ number)))


def _splits(rows, groups, rng, folds: int, *, ordered: bool) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return rows to fit and rows to judge, both shuffled, as often as there are folds.

    Those to judge are the last ones of rows in the order of time, and else a few blocks of consecutive rows: judged at
    random, rows that resemble their neighbours would reward bandwidths that remember these. The rows of a subject are
    never on both sides.
    """
    if groups is None:
        blocks = np.array_split(rows, BLOCKS)
    else:
        order = np.argsort(groups, kind="stable")
        blocks = np.split(rows[order], np.flatnonzero(np.diff(groups[order])) + 1)
    count = max(1, round(JUDGED * len(blocks)))
    last = np.arange(len(blocks) - count, len(blocks))
    outs = [last if ordered else rng.choice(len(blocks), count, replace=False)]
    if folds > 1:
        outs = np.array_split(rng.permutation(len(blocks)), folds)
    splits = []
    for out in outs:
        judged = np.concatenate([rows[:0], *(blocks[i] for i in out)])
        kept = np.concatenate([rows[:0], *(block for i, block in enumerate(blocks) if i not in out)])
        if len(kept) and len(judged):
            splits.append((rng.permutation(kept), rng.permutation(judged)))
    return splits or [(rows, rows)]


def quick(family, X) -> Any:
    """Return equal bandwidths from the median distance alone, for a model that will soon be replaced."""
    family, X = family.adapt(X, np.ones(X.shape[0])), dense(X)
    units = _units(X, np.ones(len(X)))[1] if family.ard else np.ones(X.shape[1])
    told = np.isfinite(units)  # none in a single row
    return member_of(family, units * (_median(family, X[:, told] / units[told]) / 2 if told.any() else 1.0))


def _target_scale(Y, s) -> np.ndarray:
    """Return the standard deviations of several targets, so that all of them count; 1 for classes and for one alone."""
    one = np.ones(Y.shape[1])
    if len(one) == 1 or np.isin(Y, (-1.0, 1.0)).all() or not s.any():
        return one
    spread = moments(Y, s)[1]
    return np.where(spread > 0, spread, one)


def moments(V, s) -> tuple[np.ndarray, np.ndarray]:
    """Return the weighted means and standard deviations of columns."""
    mean = np.average(V, axis=0, weights=s)
    return mean, np.sqrt(np.average(np.square(V - mean), axis=0, weights=s))


# -- candidates ----------------------------------------------------------------------------------------


def _units(X, s) -> tuple[np.ndarray, np.ndarray]:
    """Return the columns' means and standard deviations; infinity for a constant one, which is ignored."""
    mean, spread = moments(X, s)
    digits = np.finfo(X.dtype if X.dtype.kind == "f" else float)
    constant = spread <= 8 * digits.eps * np.maximum(np.abs(mean), np.finfo(np.float32).tiny)
    return mean, np.where(constant, np.inf, spread)


def _median(family, Z) -> float:
    Z = np.asarray(Z[:500], dtype=float)
    Z = Z - Z.mean(axis=0)
    S = pairwise_statistic(family.statistic, Z, Z)
    positive = S[1e-12 * S.max(initial=0.0) < S]
    if not len(positive):
        return 1.0
    middle = float(np.median(positive))
    return math.sqrt(middle) if family.statistic == "sqdist" else middle


def _shapes(family, sample: Sample, train: np.ndarray, steps: int) -> dict[str, np.ndarray]:
    """Return candidates for the ratios of the bandwidths, from the rows of a fold."""
    X, Y, s = sample.taken(train)
    if not family.ard:
        return {"single": np.full(X.shape[1], _median(family, X))}
    mean, units = _units(X, s)
    used = np.isfinite(units)
    equal = units.copy()
    if not used.any():
        return {"equal": equal}
    # Centred before digits are dropped: a time in milliseconds has few to spare.
    Z = np.ascontiguousarray((X[:, used] - mean[used]) / units[used], dtype=np.float32)
    start = _median(family, Z)
    equal[used] *= start
    if used.sum() == 1 or steps == 0:
        return {"equal": equal}
    shapes: dict[str, np.ndarray] = {}
    begin = np.full(Z.shape[1], start)
    for name in ("learned", "relearned"):
        found = _learned(family, sample, train, Z, Y, s, begin, steps)
        shapes[name] = units.copy()
        shapes[name][used] *= found
        if (found <= start).all():
            break
        # Columns that matter together alone (a product of three) look useless at first, and those that do not drown
        # them: half of the seeds lose such a product. With these out of the way a second look finds it.
        begin = np.minimum(found, start)
    logger.info("bandwidths of %d columns: learned in %d steps", used.sum(), steps * len(shapes))
    return {**shapes, "equal": equal}


def _learned(family, sample: Sample, train: np.ndarray, Z, Y, s, begin: np.ndarray, steps: int) -> np.ndarray:
    """Return bandwidths of the columns of Z, standardised, from those to begin with."""
    groups = sample.problem.groups
    if groups is None and not sample.soft:
        return learn_bandwidths(family.statistic, Z, Y, s, begin, sample.rng, steps)
    subjects = None if groups is None else groups[train]
    rows = Rows.plain(Y - np.average(Y, axis=0, weights=s), s, "squared", subjects)
    if sample.soft:
        rows = Rows.plain(Y, s, "softmax", subjects)
    first = np.log(np.append(begin, NOISE))
    found = learn_columns(family.statistic, Z, rows, first, 1.0 / len(train), Effort(steps=steps), sample.rng)
    return np.exp(found[:-1])
