"""Components by samples, for predictors that are no sum of products over columns: random features, say.

With x' drawn from the product of the margins, f_S(x) = Σ_{R ⊆ S} (-1)^(|S| - |R|) E f(x_R, x'_-R), the expectation
over the same draws for all rows; variances are covariances of scores that share the columns of S (Sobol), totals
half the mean square of the change when a column is drawn anew (Jansen).

References
----------
Saltelli, Annoni, Azzini, Campolongo, Ratto, Tarantola (2010), *Variance based sensitivity analysis of model output*,
Table 2; Jansen (1999), *Analysis of variance designs for model output*; Štrumbelj, Kononenko (2014), *Explaining
prediction models and individual predictions with feature contributions*, Algorithm 2.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ..tables import Origin
from .expansion import Expansion, Subset, Variances, drawn

#: Fewest and most points that variances are estimated from, and most rows that scores are asked for in one go.
POINTS, BATCH = (512, 16_384), 2**16
#: Most points that changes are taken at where one pass tells those of all variables.
CHANGED = 2048
#: Scores that the values of components, or Shapley values, may take, and fewest and most draws for each row.
SCORES, DRAWS = 10**6, (16, 256)
#: Pairs of columns that are looked at, and how many standard errors a pair's variance must be from zero to be listed.
MOST_PAIRS, SURE = 300, 3.0


def totals(expansion: Expansion | Sampled) -> tuple[np.ndarray, np.ndarray]:
    """Return E Var(f | all but x_g) of every variable and its standard error, (variables, c) (Jansen)."""
    variables, background = expansion.variables, expansion.background
    size = (
        _points(len(variables)) if isinstance(expansion, Sampled) else min(_points(len(variables)), CHANGED)
    )
    A, B = (drawn(variables, background, size, seed) for seed in (1, 2))
    halves = np.square(expansion.changes(A, B)) / 2
    return halves.mean(axis=0), halves.std(axis=0) / math.sqrt(len(A))


def _points(count: int) -> int:
    """Return from how many points variances are estimated, with so many scores for each."""
    return int(np.clip(SCORES // max(1, count), *POINTS))


def swapped(rows: np.ndarray, others: np.ndarray, variables: Sequence[Any], S: Sequence[int]) -> np.ndarray:
    """Return rows that have the variables of S from others."""
    out = rows.copy()
    for g in S:
        columns = list(variables[g].outside)
        out[:, columns] = others[:, columns]
    return out


class Sampled:
    """A predictor that is known by its scores alone, under the product of the margins of its columns.

    Parameters
    ----------
    variables : list of Origin
    background : (n, d) array
    scores : function of rows, (n, d) to (n, c)
    """

    wide = True

    def __init__(
        self,
        variables: Sequence[Origin],
        background: np.ndarray,
        scores: Callable[[np.ndarray], np.ndarray],
    ):
        self.variables, self.background, self._score = variables, background, scores

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """Return f of many rows, some at a time."""
        return np.concatenate([self._score(rows[a : a + BATCH]) for a in range(0, len(rows), BATCH)])

    @cached_property
    def _pair(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Two independent samples of the product of the margins, and their scores."""
        d = len(self.variables)
        pairs = math.comb(d, 2) if math.comb(d, 2) <= MOST_PAIRS else 0
        A, B = (drawn(self.variables, self.background, _points(d + pairs), seed) for seed in (1, 2))
        return A, B, self.scores(A), self.scores(B)

    @cached_property
    def constant(self) -> np.ndarray:
        """The mean under the product of the margins, estimated, (c,)."""
        return np.concatenate(self._pair[2:]).mean(axis=0)

    @property
    def n_outputs(self) -> int:
        """Number of outputs."""
        return len(self.constant)

    def changes(self, rows: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Return how f changes when one variable is as in other rows, (n, variables, c)."""
        each = [self.scores(swapped(rows, others, self.variables, (g,))) for g in range(len(self.variables))]
        return np.stack(each, axis=1) - self.scores(rows)[:, None]

    # -- which components ------------------------------------------------------------------------------

    @cached_property
    def _shared(self) -> dict[Subset, np.ndarray]:
        """Scores of points that have the variables of a set from the first sample and all others from the second."""
        return {}

    def _with(self, S: Subset) -> np.ndarray:
        A, B, _, fB = self._pair
        if S not in self._shared:
            self._shared[S] = self.scores(swapped(B, A, self.variables, S)) if S else fB
        return self._shared[S]

    def _products(self, S: Subset) -> np.ndarray:
        """Return numbers whose mean is the variance of the component S, (points, c)."""
        signed = sum((-1) ** (len(S) - len(R)) * self._with(R) for R in _parts_of(S))
        return (self._pair[2] - self.constant) * signed

    def subsets(self, most: int) -> list[Subset]:
        """Return the single variables, and the pairs whose variance is surely not zero."""
        d = len(self.variables)
        found: list[Subset] = [(g,) for g in range(d)]
        if most > 1 and math.comb(d, 2) <= MOST_PAIRS:
            for S in itertools.combinations(range(d), 2):
                products = self._products(S).sum(axis=1)
                if products.mean() > SURE * products.std() / math.sqrt(len(products)):
                    found.append(S)
        return found

    def orders(self) -> Iterator[tuple[int, int]]:
        """Yield every order, and how many components have it."""
        d = len(self.variables)
        for k in range(1, d + 1):
            yield k, math.comb(d, k)

    def variances(self, subsets: Sequence[Subset], complete: bool) -> Variances:
        """Return the estimated variances of components, and of all that is left."""
        products = [self._products(S) for S in subsets]
        squares = np.square(self._pair[2] - self.constant)
        rest = squares - sum(products, np.zeros_like(squares))
        each = [*products, rest]
        means = np.array([np.maximum(p.mean(axis=0), 0.0) for p in each])
        errors = np.array([p.std(axis=0) / math.sqrt(len(p)) for p in each])
        return Variances(means[:-1], errors[:-1], np.zeros(len(subsets), dtype=bool), means[-1], errors[-1])

    # -- values ----------------------------------------------------------------------------------------

    def _draws(self, n: int) -> np.ndarray:
        """Return points of the product of the margins, as many as can be afforded for n scores each."""
        size = int(np.clip(SCORES // max(1, n), *DRAWS))
        return drawn(self.variables, self.background, size, 3)

    def _crossed(self, rows: np.ndarray, draws: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield some draws, each repeated for all rows, and the rows beside them."""
        step = max(1, BATCH // len(rows))
        for a in range(0, len(draws), step):
            some = draws[a : a + step]
            yield np.repeat(some, len(rows), axis=0), np.tile(rows, (len(some), 1))

    def values(self, rows: np.ndarray, subsets: Sequence[Subset]) -> np.ndarray:
        """Return components at rows, (n, k, c), estimated."""
        return self.estimates(rows, subsets)[0]

    def estimates(self, rows: np.ndarray, subsets: Sequence[Subset]) -> tuple[np.ndarray, np.ndarray]:
        """Return components at rows and their standard errors, (n, k, c) each."""
        needed = {R for S in subsets for R in _parts_of(S)} | {()}
        draws = self._draws(len(rows) * len(needed))
        total, squares = np.zeros((2, len(rows), len(subsets), self.n_outputs))
        for points, beside in self._crossed(rows, draws):
            shape = (-1, len(rows), self.n_outputs)
            scores = {
                R: self.scores(swapped(points, beside, self.variables, R)).reshape(shape) for R in needed
            }
            for k, S in enumerate(subsets):
                signed = sum((-1) ** (len(S) - len(R)) * scores[R] for R in _parts_of(S))
                total[:, k] += signed.sum(axis=0)
                squares[:, k] += np.square(signed).sum(axis=0)
        return _mean_and_error(total, squares, len(draws))

    def on_grid(self, S: Subset, values: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Return a component on all combinations of values of its variables and its errors, (n_1, ..., n_k, c)."""
        shape = [len(v) for v in values]
        rows = np.tile(self.background[:1], (math.prod(shape), 1))
        for g, own, at in zip(S, values, np.indices(shape).reshape(len(shape), -1), strict=True):
            rows[:, list(self.variables[g].outside)] = own[at]
        found, errors = self.estimates(rows, [S])
        return found.reshape(*shape, self.n_outputs), errors.reshape(*shape, self.n_outputs)

    def shapley(self, rows: np.ndarray, quick: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return estimated Shapley values and their errors, (n, variables, c), and the mean that they are about.

        For every draw, the variables of a row enter in a random order, and then in the reverse one. With `quick`, there
        are as few draws as there may be.
        """
        d, rng, n = len(self.variables), np.random.default_rng(4), len(rows)
        draws = self._draws(SCORES if quick else 2 * n * d)
        total, squares = np.zeros((2, n, d, self.n_outputs))
        for points, beside in self._crossed(rows, draws):
            order = np.array([rng.permutation(d) for _ in range(len(points) // n)])
            gains = np.zeros((len(order), n, d, self.n_outputs))
            for direction in (order, order[:, ::-1]):
                now, before = points.copy(), self.scores(points)
                for step in direction.T:
                    for k, g in enumerate(step.tolist()):
                        columns = list(self.variables[g].outside)
                        now[k * n : (k + 1) * n, columns] = beside[k * n : (k + 1) * n, columns]
                    after = self.scores(now)
                    gained = (after - before).reshape(len(order), n, -1) / 2
                    for k, g in enumerate(step.tolist()):
                        gains[k, :, g] += gained[k]
                    before = after
            total += gains.sum(axis=0)
            squares += np.square(gains).sum(axis=0)
        values, errors = _mean_and_error(total, squares, len(draws))
        return values, errors, self.scores(draws).mean(axis=0)


def _parts_of(S: Subset) -> list[Subset]:
    """Return all sets within a set, the empty one first."""
    return [R for k in range(len(S) + 1) for R in itertools.combinations(S, k)]


def _mean_and_error(total: np.ndarray, squares: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean of so many values and its standard error, from their sum and the sum of their squares."""
    mean = total / count
    return mean, np.sqrt(np.maximum(squares / count - np.square(mean), 0.0) / count)
