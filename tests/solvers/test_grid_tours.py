"""Descents over several grids in one compiled loop, against their definition."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from manykernels.solvers.blockwise._grids import Tours

N, GRIDS, BINS, LANES = 500, 5, 12, 4
EDGES = np.array([0, 100, 260, 400, N])


def arrays(width):
    rng = np.random.default_rng(width)
    lines = rng.integers(0, BINS, (GRIDS, N)).astype(np.uint16)
    lines[lines == 3] = 2  # an empty bin
    return lines, rng.standard_normal((N, width)).astype(np.float32), rng.random(N).astype(np.float32)


def units(new):
    first = BINS * np.arange(GRIDS)
    return np.column_stack([np.arange(GRIDS), first, np.full(GRIDS, BINS), first, np.full(GRIDS, new)])


def toured(width, c, threads, sweeps=2, share=1.0):
    """Coefficients, weights in bins, and residuals before the last step, after some sweeps."""
    lines, R, s = arrays(width)
    R[:, c:] = 0.0
    W, counts = np.zeros((GRIDS * BINS, c), np.float32), np.zeros(GRIDS * BINS, np.float32)
    room = Tours.room(LANES, BINS, width)
    with ThreadPoolExecutor(threads) as pool:
        step = np.zeros((BINS, width), np.float32)
        tours = Tours(lines, R, s, EDGES, *room, step, pool if threads > 1 else None, threads)
        for k in range(sweeps):
            tours(units(k == 0), np.linspace(1, 3, GRIDS), share, GRIDS - 1 if k else -1, W, counts)
    assert not room[0].any() and not room[1].any(), "sums and counts are left as they were"
    return W, counts, R


@pytest.mark.parametrize("share", [1.0, 1.5])
@pytest.mark.parametrize(("width", "c"), [(1, 1), (2, 2), (4, 3), (4, 4), (8, 7), (10, 10)])
def test_a_tour_is_block_coordinate_descent(width, c, share):
    lines, R, s = (a.astype(float) for a in arrays(width))
    lines, R = lines.astype(int), R[:, :c]
    W = np.zeros((GRIDS, BINS, c))
    for _ in range(2):
        for g, lam in enumerate(np.linspace(1, 3, GRIDS)):
            counts = np.bincount(lines[g], s, minlength=BINS)
            sums = np.array([np.bincount(lines[g], s * R[:, k], minlength=BINS) for k in range(c)]).T
            step = (sums - lam * W[g]) / (share * counts + lam)[:, None]
            W[g] += step
            R = R - step[lines[g]]
    found, weights, _ = toured(width, c, 1, share=share)
    assert_allclose(found.reshape(W.shape), W, atol=1e-5)  # sums of some forty numbers in single precision
    assert_allclose(weights.reshape(GRIDS, BINS)[-1], counts, rtol=1e-6)


@pytest.mark.parametrize("threads", [2, 3, 4])
def test_threads_do_not_change_a_bit(threads):
    alone, together = toured(8, 7, 1), toured(8, 7, threads)
    for a, b in zip(alone, together, strict=True):
        assert_array_equal(a, b)
