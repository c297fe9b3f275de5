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
from .expansion import Subset, Variances, drawn

#: Points that variances are estimated from, and most rows that scores are asked for in one go.
POINTS, BATCH = 2048, 2**17
#: Scores that the values of components, or Shapley values, may take, and fewest and most draws for each row.
SCORES, DRAWS = 10**6, (16, 256)
#: Pairs of columns that are looked at, and how many standard errors a pair's variance must be from zero to be listed.
MOST_PAIRS, SURE = 300, 3.0


def totals(
    variables: Sequence[Any], background: np.ndarray, scores: Callable[[np.ndarray], np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Return E Var(f | all but x_g) of every variable and its standard error, (variables, c) (Jansen)."""
    A, B = (drawn(variables, background, POINTS, seed) for seed in (1, 2))
    fA = scores(A)
    halves = [np.square(fA - scores(swapped(A, B, variables, (g,)))) / 2 for g in range(len(variables))]
    means = np.array([h.mean(axis=0) for h in halves])
    return means, np.array([h.std(axis=0) / math.sqrt(POINTS) for h in halves])


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
        A, B = (drawn(self.variables, self.background, POINTS, seed) for seed in (1, 2))
        return A, B, self.scores(A), self.scores(B)

    @cached_property
    def constant(self) -> np.ndarray:
        """The mean under the product of the margins, estimated, (c,)."""
        return np.concatenate(self._pair[2:]).mean(axis=0)

    @property
    def n_outputs(self) -> int:
        """Number of outputs."""
        return len(self.constant)

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
        signed = sum(
            (-1) ** (len(S) - k) * self._with(R)
            for k in range(len(S) + 1)
            for R in itertools.combinations(S, k)
        )
        return (self._pair[2] - self.constant) * signed

    def subsets(self, most: int) -> list[Subset]:
        """Return the single variables, and the pairs whose variance is surely not zero."""
        d = len(self.variables)
        found: list[Subset] = [(g,) for g in range(d)]
        if most > 1 and math.comb(d, 2) <= MOST_PAIRS:
            for S in itertools.combinations(range(d), 2):
                products = self._products(S).sum(axis=1)
                if products.mean() > SURE * products.std() / math.sqrt(POINTS):
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
        errors = np.array([p.std(axis=0) / math.sqrt(POINTS) for p in each])
        return Variances(means[:-1], errors[:-1], np.zeros(len(subsets), dtype=bool), means[-1], errors[-1])

    # -- values ----------------------------------------------------------------------------------------

    def _draws(self, n: int) -> np.ndarray:
        """Return points of the product of the margins, as many as can be afforded for n scores each."""
        size = int(np.clip(SCORES // max(1, n), *DRAWS))
        return drawn(self.variables, self.background, size, 3)

    def values(self, rows: np.ndarray, subsets: Sequence[Subset]) -> np.ndarray:
        """Return components at rows, (n, k, c)."""
        needed = {R for S in subsets for k in range(1, len(S) + 1) for R in itertools.combinations(S, k)}
        draws = self._draws(len(rows) * max(1, len(needed)))
        base = self.scores(draws).mean(axis=0)
        means = {R: self._conditional(rows, R, draws) for R in needed} | {(): base}
        out = np.zeros((len(rows), len(subsets), self.n_outputs))
        for k, S in enumerate(subsets):
            for size in range(len(S) + 1):
                for R in itertools.combinations(S, size):
                    out[:, k] += (-1) ** (len(S) - size) * means[R]
        return out

    def _conditional(self, rows: np.ndarray, R: Subset, draws: np.ndarray) -> np.ndarray:
        """Return the mean of f over the draws, with the variables of R from each row, (n, c)."""
        total = np.zeros((len(rows), self.n_outputs))
        for draw in draws:
            total += self.scores(swapped(np.tile(draw, (len(rows), 1)), rows, self.variables, R))
        return total / len(draws)

    def on_grid(self, S: Subset, values: Sequence[np.ndarray]) -> np.ndarray:
        """Return a component on all combinations of values of its variables, (n_1, ..., n_k, c)."""
        shape = [len(v) for v in values]
        rows = np.tile(self.background[:1], (math.prod(shape), 1))
        for g, at in zip(S, np.indices(shape).reshape(len(shape), -1), strict=True):
            rows[:, list(self.variables[g].outside)] = values[S.index(g)][at]
        return self.values(rows, [S])[:, 0].reshape(*shape, self.n_outputs)

    def shapley(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return estimated Shapley values, (n, variables, c), and the mean that they add up to.

        For every draw, the variables of a row enter in a random order, and then in the reverse one.
        """
        d, rng = len(self.variables), np.random.default_rng(4)
        draws = self._draws(2 * len(rows) * d)
        out, base = np.zeros((len(rows), d, self.n_outputs)), self.scores(draws).mean(axis=0)
        for draw in draws:
            order = rng.permutation(d)
            for direction in (order, order[::-1]):
                now, before = np.tile(draw, (len(rows), 1)), self.scores(draw[None])
                for g in direction.tolist():
                    now = swapped(now, rows, self.variables, (g,))
                    after = self.scores(now)
                    out[:, g] += after - before
                    before = after
        return out / (2 * len(draws)), base
