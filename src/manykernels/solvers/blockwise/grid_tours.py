"""Descents over grids whose bins are in memory, several of them in one compiled loop on all threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from threading import Barrier

import numpy as np

from ._grids import tour, unrolled
from ._signals import LINE


@dataclass(frozen=True, eq=False)
class Tours:
    """Rows, their bins, and what sums and steps need; :func:`manykernels.solvers.blockwise._grids.tour` has the arrays.

    Attributes
    ----------
    lines, R, s : arrays
        Bins, a line for every grid; residuals, changed; weights.
    edges : (lanes + 1,) array of int
        Rows are summed up along lanes, and the lanes in order, so that results do not depend on threads.
    sums, counts, step : arrays
        See `room`.
    pool : ThreadPoolExecutor or None
        At least `size` threads that have nothing else to do; None: the caller's alone.
    size : int
        Threads to use.
    """

    lines: np.ndarray
    R: np.ndarray
    s: np.ndarray
    edges: np.ndarray
    sums: np.ndarray
    counts: np.ndarray
    step: np.ndarray
    pool: ThreadPoolExecutor | None = None
    size: int = 1

    @staticmethod
    def room(n_lanes: int, widest: int, width: int) -> tuple[np.ndarray, np.ndarray]:
        """Return room for sums and counts of a grid, zeros, for `widest` bins and outputs up to `width`."""
        return np.zeros((n_lanes, widest, width), np.float32), np.zeros((n_lanes, widest))

    def __call__(self, units, lams, before: int, W, curvature) -> None:
        """Take the step of the line `before` (-1: none), and descend over grids; the last step is left to take."""
        size = 1 if self.pool is None else min(self.size, len(self.sums))
        board, outputs = np.zeros(LINE * size, np.int64), unrolled(self.sums.shape[2])
        rows = self.lines, self.edges, self.R, self.s
        shared = units, lams, before, *rows, self.sums, self.counts, self.step, W, curvature, outputs
        if self.pool is None or size == 1:
            tour(0, 1, board, *shared)
            return
        together = Barrier(size)

        def share(k):
            together.wait()  # nobody begins, and waits for the others in there, before all of them are here
            tour(k, size, board, *shared)

        try:
            tasks = [self.pool.submit(share, k) for k in range(size)]
        except BaseException:
            together.abort()
            raise
        try:
            wait(tasks)
        finally:  # whatever interrupts the wait must not find half a step
            for task in tasks:
                task.result()
