"""Which kernels of a union, with which weights, and C: learned among neighbours, and judged in small fits.

The bandwidths of every continuum are found first, each by itself (``preparation.py``). The shapes that were tried, at
½, 1 and 2 times their bandwidths, and the kernels of lists are then weighed by the closed form of the error of rows
left out, in groups of neighbours. Features are not kernels, though, and a few sweeps are early stopping; kinds of
kernels want different C, too. So what was weighed and every kind alone are tried on features, on rows that these have
not seen, each with the C that suits it, and the best is taken.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._util.threads import one_blas_thread
from ...families.view import View
from ...predictors import feature_maps
from ...streaming.cluster import Rows
from ..bandwidth_learning.candidates import Candidate, Effort, Weighing, groups_of, some, weigh
from ..bandwidth_learning.left_out import criterion_of, merged
from .pieces import piece_of
from .preparation import Prepared, Sample, moments, prepare
from .trials import C_FACTOR, C_RANGE, DENSE_ROWS, Found, Trial, descend, member_of

logger = logging.getLogger("manykernels")

#: Multiples of bandwidths that are weighed.
MULTIPLES = (0.5, 1.0, 2.0)
#: With more parts than this bandwidths come without their halves and doubles.
MANY_PARTS = 12
#: Kernels with a smaller share of the largest weight are left out.
LEAST_SHARE = 0.03
#: The error of the mean is 1: a kind alone that is no better than this is not mixed in.
POOR = 0.98
#: Most kernels of lists that are weighed, and that are tried alone.
MOST_WEIGHED, MOST_ALONE = 100, 4
#: Most rows that are weighed, and how much is spent on it.
WEIGHED_ROWS, EFFORT = 20_000, Effort(weight_rows=256, weight_groups=8, evaluations=30)
#: Grids and Fourier features of a small fit, shared by the kernels that have them, the fewest of a kernel, and sweeps.
MIXED_GRIDS, MIXED_FEATURES, FEWEST_GRIDS, FEWEST_FEATURES, SWEEPS = 128, 2048, 8, 64, 3


@dataclass(frozen=True, eq=False)
class Option:
    """A kernel that may get weight.

    Attributes
    ----------
    member : a member of the family, as it is tried
    final : the same for all rows
    part : int
    alone : Found or None
        Where the best of a continuum was found; it is tried alone, too.
    plain : bool
        Whether its bandwidths are those that were found, and no multiple of them.
    """

    member: Any
    final: Any
    part: int
    alone: Found | None = None
    plain: bool = True


def prepare_union(
    sample: Sample, passes, *, n_rows: int | None, together: bool = True, rows: Rows | None = None
) -> Prepared:
    """Return kernels of a union with their weights, and C.

    Parameters
    ----------
    sample : Sample
    passes : callable
        From a part to the sweeps that a fit of it alone has.
    n_rows : int or None
        Rows of the fit.
    together : bool
        Whether kernels with bins and kernels with dense features can be in one fit.
    rows : Rows or None
        Where they lie elsewhere: the small fits are made there, too.
    """
    family: Any = sample.problem.family
    options: list[Option] = []
    parts = family.families()
    for k, part in enumerate(parts):
        if hasattr(part, "statistic"):
            found = _options(sample, family, k, part, passes(part), n_rows, rows)
            options += found if len(parts) <= MANY_PARTS else [o for o in found if o.plain]
        else:
            own = [family.member_of(k, z) for z in part.members()]
            options += [Option(z, z, k) for z in own]
    with one_blas_thread():
        return Mixing(sample, options, passes, together).best(rows)


def choose_ridge(sample: Sample, members: list[Any], theta: np.ndarray, rows: Rows | None = None) -> Prepared:
    """Return the C that suits kernels of a list with some weights; the weights are left to the fit."""
    with one_blas_thread():
        mixing = Mixing(sample, [Option(z, z, 0) for z in members], lambda part: SWEEPS, True)
        own = theta[theta > 0]
        found = mixing._all_tried([(own, 0)], rows)[0][1] if len(own) else None
    C = sample.C if found is None else sample.C * C_FACTOR**found.k
    return Prepared(members, C, math.nan if found is None else found.error, "given")


def _options(sample: Sample, family, k: int, part, sweeps: int, n_rows, rows) -> list[Option]:
    """Return the kernels of a continuum that are weighed; the best one is tried alone, too."""
    own, part = (sample.of_view(part), part.family) if isinstance(part, View) else (sample, part)
    found, narrower = prepare(own, part, sweeps=sweeps, n_rows=n_rows, rows=rows)
    out = []
    for one in found:
        for multiple in MULTIPLES:
            tried, final = (
                family.member_of(k, member_of(part, one.bandwidths(factor)))
                for factor in (multiple, multiple * narrower)
            )
            alone = one if one is found[0] and multiple == 1 else None
            out.append(Option(tried, final, k, alone, multiple == 1))
    return out


class Mixing:
    """The choice among mixtures of kernels.

    Parameters
    ----------
    sample, passes, together :
        As in :func:`prepare_union`.
    options : list of Option
    """

    def __init__(self, sample: Sample, options: list[Option], passes, together: bool):
        self.sample, self.passes, self.together = sample, passes, together
        self.family: Any = sample.problem.family
        rho_sq = sample.problem.scale.rho_sq([o.member for o in options], 1.0)
        alive = np.flatnonzero(rho_sq > 0).tolist()
        self.options, self.rho_sq = [options[i] for i in alive], rho_sq[alive]
        self.members = [o.member for o in self.options]
        maps = self.family.random_features(self.members, sample.problem.X.shape[1], 0, 2)
        self.sparse = np.array([m.sparse for m in maps], dtype=bool)
        self.exact = np.array([not m.sparse and m.n_blocks is not None for m in maps], dtype=bool)
        self.trials = sample.trials(None, SWEEPS, DENSE_ROWS, None)

    @property
    def nbytes(self) -> int:
        """Bytes of the sample and of the rows of the trials, about."""
        rows: list[Any] = [self.sample.problem.X, *(trial.rows.X for trial in self.trials)]
        return sum(getattr(X, "nbytes", 0) for X in rows) + sum(trial.Y.nbytes for trial in self.trials)

    def best(self, rows: Rows | None = None) -> Prepared:
        """Return the mixture with the least error on rows that it has not seen."""
        tried = self._all_tried(self._mixtures(), rows)
        tried += self._all_tried(self._between(tried), rows)
        theta, found = min(tried, key=lambda pair: pair[1].error)
        used = np.flatnonzero(theta).tolist()
        members = [self.options[i].final for i in used]
        return Prepared(members, self.sample.C * C_FACTOR**found.k, found.error, found.shape, theta[used])

    # -- candidates ------------------------------------------------------------------------------------

    def _mixtures(self) -> list[tuple[np.ndarray, int]]:
        """Return weights to try, with the power of C to begin at."""
        n, out = len(self.options), []
        listed = [i for i, o in enumerate(self.options) if not hasattr(self._part(o), "statistic")]
        for i, option in enumerate(self.options):
            if option.alone is not None or (i in listed and len(listed) <= MOST_ALONE):
                out.append((np.eye(n)[i], 0 if option.alone is None else option.alone.k))
        if len(out) == n == 1:
            return out
        weighed, k = self._weighed()
        masks = [np.ones(n, bool)] if self.together else [self.sparse, ~self.sparse]
        for mask in masks:
            theta = np.where(mask, weighed, 0.0)
            theta[theta < LEAST_SHARE * theta.max()] = 0.0
            if np.count_nonzero(theta) > 1 or (theta.any() and not out):
                out.append((theta / theta.sum(), k))
        return out

    def _between(self, tried: list[tuple[np.ndarray, Found]]) -> list[tuple[np.ndarray, int]]:
        """Return more to try: kinds in equal parts, and what lies between the best and the weights of neighbours.

        Weights learned on kernels may ask for some that few features cannot stand for.
        """
        alone = [(theta, f) for theta, f in tried if np.count_nonzero(theta) == 1 and f.error < POOR]
        mixed = [(theta, f) for theta, f in tried if np.count_nonzero(theta) > 1]
        if not self.together or not mixed or not alone:
            return []
        best = min(alone, key=lambda pair: pair[1].error)
        pairs = [(0.5 * (best[0] + theta), found.k) for theta, found in mixed]
        kinds = [theta for theta, _ in alone if self.options[int(theta.argmax())].alone is not None]
        return [*pairs, (np.mean(kinds, axis=0), best[1].k)] if len(kinds) > 1 else pairs

    def _part(self, option: Option) -> Any:
        return self.family.families()[option.part]

    def _weighed(self) -> tuple[np.ndarray, int]:
        """Return the weights with the least error of rows left out, and the power of C that goes with them."""
        sample, n = self.sample, len(self.options)
        if n > MOST_WEIGHED:
            return np.full(n, 1.0 / n), 0
        chosen = sample.rows[sample.rng.permutation(len(sample.rows))[:WEIGHED_ROWS]]
        X, Y, s = sample.taken(np.sort(chosen))
        groups = sample.problem.groups
        subjects = None if groups is None else groups[np.sort(chosen)]
        Y = Y - np.average(Y, axis=0, weights=s)
        first, rows = merged(X, Y, s, criterion_of(sample.problem.Y), subjects)
        X = X[first]
        mean, spread = moments(X, np.ones(len(X)))
        Z = (X - mean) / np.where(spread > 0, spread, 1.0)
        near = groups_of(Z, np.zeros(Z.shape[1]), rows, EFFORT.weight_rows)
        candidates = [
            Candidate(gram=self._gram(X, member, r))
            for member, r in zip(self.members, self.rho_sq, strict=True)
        ]
        weighing = Weighing(
            rows, [candidates], np.zeros(len(rows), int), some(near, EFFORT.weight_groups, sample.rng)
        )
        fixed, start = not sample.problem.choose_C, math.log(0.1)
        found = weigh(weighing, -math.log(sample.C) if fixed else start, EFFORT, fixed_noise=fixed)
        k = 0 if fixed else round(-found.log_noise / math.log(C_FACTOR) - math.log(sample.C, C_FACTOR))
        logger.info(
            "weights of %d kernels: error %.4f among neighbours", np.count_nonzero(found.theta), found.error
        )
        return found.theta, int(np.clip(k, *C_RANGE))

    def _gram(self, X, member, rho_sq: float):
        return lambda rows: self.family.gram(X[rows], X[rows], [member], np.array([1.0 / rho_sq]))

    # -- trials ----------------------------------------------------------------------------------------

    def _all_tried(self, mixtures, rows: Rows | None) -> list[tuple[np.ndarray, Found]]:
        """Return what small fits of all mixtures come to, made here or where the rows are."""
        if rows is None or not mixtures:
            tried = [self._tried(*mixture) for mixture in mixtures]
        else:
            shared = rows.broadcast(self)
            tried = rows.each(_far_tried, mixtures, shared)
            rows.forget(shared)
        for theta, found in tried:
            names = ", ".join(
                self.family.label(self.members[i])[:24] for i in np.flatnonzero(theta)[:4].tolist()
            )
            C = self.sample.C * C_FACTOR**found.k
            logger.info("kernels %s: error %.4f of the mean's, C = %.3g", names, found.error, C)
        return tried

    def _tried(self, theta: np.ndarray, k: int) -> tuple[np.ndarray, Found]:
        """Return weights, and what a small fit with them comes to, at the C that suits them."""
        used = np.flatnonzero(theta)
        strength, sweeps = theta[used] / self.rho_sq[used], self._sweeps(used)
        folds = [(trial, self._pieces(trial, used, theta[used])) for trial in self.trials]
        shape = (
            self.options[used[0]].alone.shape if len(used) == 1 and self.options[used[0]].alone else "mixed"
        )
        known: dict[int, Found] = {}

        def look(k: int) -> Found:
            if k not in known:
                errors = [trial.judged(pieces, strength, k, sweeps) for trial, pieces in folds]
                known[k] = Found(shape, np.zeros((1, 0)), 0, k, np.concatenate(errors) / len(errors))
            return known[k]

        found = look(descend(lambda k: look(k).error, k, *C_RANGE, 1) if self.sample.problem.choose_C else 0)
        return theta, found

    def _sweeps(self, used: np.ndarray) -> int:
        if len(used) > 1:
            return SWEEPS
        return self.passes(self._part(self.options[used[0]])) if self.sparse[used[0]] else 1

    def _pieces(self, trial: Trial, used: np.ndarray, theta: np.ndarray) -> list[Any]:
        """Return the features of the kernels with weight, few for each, as many as its share."""
        sparse, exact = self.sparse[used], self.exact[used]
        dense_ = ~sparse & ~exact
        grids = np.where(sparse, _shared(theta, sparse, MIXED_GRIDS, FEWEST_GRIDS), 1)
        most = min(MIXED_FEATURES, max(FEWEST_FEATURES, len(trial.Y)))
        sizes = np.where(dense_, 2 * (_shared(theta, dense_, most, FEWEST_FEATURES) // 2), 1)
        sizes = np.where(sparse, trial.size, sizes)
        members = [self.members[i] for i in used.tolist()]
        maps = feature_maps(self.family, members, trial.rows.X.shape[1], trial.seed, sizes)
        return [piece_of(m, int(count), trial.rows) for m, count in zip(maps, grids, strict=True)]


def _far_tried(mixture: tuple[np.ndarray, int], mixing: Mixing) -> tuple[np.ndarray, Found]:
    with one_blas_thread():
        return mixing._tried(*mixture)


def _shared(theta: np.ndarray, which: np.ndarray, total: int, fewest: int) -> np.ndarray:
    """Return parts of a total in proportion to the weights of some kernels, each at least `fewest`."""
    share = np.where(which, theta, 0.0)
    return np.maximum(fewest, np.round(total * share / max(share.sum(), 1e-300))).astype(int)
