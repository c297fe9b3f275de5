"""One bandwidth per column, by steps of Adam on leave-one-out errors of kernel ridge regression among neighbours.

What bandwidths are good for depends on how dense rows are. A few hundred rows at random are far apart, and only wide
kernels connect them; a few hundred neighbours are as dense as all rows are. So a step takes the errors of some groups
of rows that stand side by side in an order of neighbours, by the bandwidths so far. Regressions on 1600 rows at random
took four times as long, and the fits that followed had a tenth more errors on covtype, and a lower R² on three tables
of five.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from ..._util.threads import map_in_threads
from ...features import order_of_neighbours
from .error import leave_one_out

#: Adam: steps, and the largest change of a log bandwidth in one.
STEPS, RATE = 40, 0.15
#: Rows of a group, and the groups of a step; twice as many where there are few rows, as gradients are noisy there.
GROUP_ROWS, GROUPS, NOISY_ROWS = 200, 8, 20_000
#: Steps after which neighbours are looked for anew, by the bandwidths that have been learned meanwhile.
REGROUP = 8
#: A group with many equal rows gets up to so many times the rows.
MOST_TIMES = 8
#: The ridge λ = 1/C that it starts from, and how far that can go.
NOISE, NOISE_RANGE = 0.1, (1e-4, 1e2)


def learn_bandwidths(statistic: str, Z, Y, s, start, rng, steps: int = STEPS) -> np.ndarray:
    """Return one bandwidth per column, O(steps · groups · (m² d + m³)) for m rows of a group.

    Parameters
    ----------
    statistic : {"l1", "sqdist"}
    Z : (n, d) array, float32
        Standardised rows.
    Y : (n, c) array
    s : (n,) array
        Rows are drawn in proportion to their weights, as many times as there are rows, and each counts once.
    start : float or (d,) array
        Bandwidths to start from.
    """
    t = np.append(
        np.broadcast_to(np.log(start), Z.shape[1]), math.log(NOISE)
    )  # log bandwidths, and log of 1/C
    first, second = np.zeros_like(t), np.zeros_like(t)
    for step in range(1, steps + 1):
        if (step - 1) % REGROUP == 0:
            order = _order(Z, s, np.exp(-t[:-1]), rng)
        groups = [_merged(Z, Y, order, at) for at in _places(len(order), rng)]
        found = map_in_threads(partial(_error, statistic, t), groups)
        value, gradient = (sum(part[i] for part in found) for i in (0, 1))
        gradient = gradient / max(value, np.finfo(float).tiny)
        first = 0.9 * first + 0.1 * gradient
        second = 0.99 * second + 0.01 * np.square(gradient)
        rate = RATE * min(1.0, 2.0 * (1 - (step - 1) / steps))  # the last steps shorten
        t -= rate * (first / (1 - 0.9**step)) / np.sqrt(second / (1 - 0.99**step) + 1e-12)
        t[-1] = np.clip(t[-1], *np.log(NOISE_RANGE))
    return np.exp(t[:-1])


def _error(statistic: str, t: np.ndarray, group: tuple[np.ndarray, np.ndarray]) -> tuple[float, np.ndarray]:
    return leave_one_out(statistic, *group, t)


def _order(Z, s, inverse: np.ndarray, rng) -> np.ndarray:
    """Return rows in an order of neighbours: all of them, or if they have weights, as many draws, each row once."""
    columns = np.arange(Z.shape[1])
    if not np.ptp(s):
        return order_of_neighbours(Z, columns, inverse)
    rows = np.unique(rng.choice(len(Z), len(Z), p=s / s.sum()))
    return rows[order_of_neighbours(Z[rows], columns, inverse)]


def _places(n: int, rng) -> list[int]:
    """Return where groups begin in an order of n rows: one here and there, in equal parts of it."""
    free = n - GROUP_ROWS
    if free <= 0:
        return [0]
    # Of few rows none need be in many groups.
    count = GROUPS if n >= NOISY_ROWS else min(2 * GROUPS, 2 * n // GROUP_ROWS)
    return ((np.arange(count) + rng.random(count)) / count * free).astype(int).tolist()


def _merged(Z, Y, order: np.ndarray, at: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a group's rows and targets, equal rows as one with the mean of their targets.

    A row whose copy is in the group would be predicted by it, and best with the narrowest bandwidths.
    """
    count = GROUP_ROWS
    while True:
        rows = order[max(0, min(at, len(order) - count)) :][:count]
        X = Z[rows]
        _, kept, which = np.unique(_words(X), return_index=True, return_inverse=True)
        if 2 * len(kept) >= GROUP_ROWS or count >= min(len(order), MOST_TIMES * GROUP_ROWS):
            break
        count *= 2
    if len(kept) == len(rows):
        return X, Y[rows]
    sums = np.zeros((len(kept), Y.shape[1]))
    np.add.at(sums, which, Y[rows])
    return X[kept], sums / np.bincount(which)[:, None]


def _words(X: np.ndarray) -> np.ndarray:
    """Return every row of a contiguous array as one word, to be compared byte by byte."""
    return X.view(np.dtype((np.void, X.itemsize * X.shape[1])))[:, 0]
