"""Sums, steps and look-ups over the bins of grids: a row has exactly one bin in each.

Descents over several grids in memory are one compiled loop on all threads, which show each other how far they are
without the interpreter: a thread that waits looks again and again, and sees a number within a microsecond. One that
slept would be woken up in fifty to a hundred, and so would one that waits for the interpreter's lock: too long between
steps of a millisecond.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from threading import Barrier

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

#: Numbers of a board that share a cache line, so that only every so many of them is used.
LINE = 8
#: Looks, of half a nanosecond each, before a thread lets others on its core go first.
LOOKS = 10_000
#: Visits to grids in which a fit would explain everything, each as much as it can. More of them take smaller steps: the
#: first grid would explain noise that many grids do not share, and its coefficients are slow to come down again.
#: Of 16, 64, 256 and no limit, 64 had the best score on new rows of kin8nm, abalone and spam, and was within .0006 of
#: the best on letter, satellite and flights.
VISITS, SHARED_SWEEPS = 64, 6


@njit(cache=True, nogil=True)
def subtract_step(bins, step, R):
    """Subtract ``step[bins[t]]`` from every residual."""
    n, c = R.shape
    for t in range(n):
        b = bins[t]
        for k in range(c):
            R[t, k] -= step[b, k]


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def sum_of_squares(W):
    """Return Σ W², (n, c), in double precision."""
    flat, total = W.ravel(), 0.0
    for i in range(len(flat)):
        total += np.float64(flat[i]) * np.float64(flat[i])
    return total


def unrolled(c):
    """Return a tuple whose length tells compiled loops over c outputs how many there are; an empty one if it is long.

    Loops of a known length are up to twice as fast for one to four outputs, and no faster for more.
    """
    return (0,) * c if c in (1, 2, 4) else ()


def shared_among(grids: int, sweeps: int, sweep: int) -> float:
    """Return among how many grids the steps of a sweep share out what is left to explain.

    Those of a fit of many sweeps are exact in the end, which converges sooner.
    """
    return max(1.0, grids * min(sweeps, SHARED_SWEEPS) / VISITS) if sweep < SHARED_SWEEPS else 1.0


@njit(cache=True, nogil=True)
def add_sums(bins, R, s, sums, outputs):
    """Add the weighted residuals of every row to its bin, ``sums[bins[t], :c] += s_t R_t``."""
    for t in range(len(R)):
        b, weight = bins[t], s[t]
        for k in range(len(outputs) or R.shape[1]):
            sums[b, k] += weight * R[t, k]


@njit(cache=True, nogil=True)
def step_and_sums(before, step, bins, R, s, sums, outputs):
    """Do both in one pass over the residuals: take a step in one grid, sum over the next one's bins."""
    for t in range(len(R)):
        old, new, weight = before[t], bins[t], s[t]
        for k in range(len(outputs) or R.shape[1]):
            r = R[t, k] - step[old, k]
            R[t, k] = r
            sums[new, k] += weight * r


@njit(cache=True, nogil=True)
def add_counts(bins, s, counts):
    """Add every row's weight to its bin."""
    for t in range(len(bins)):
        counts[bins[t]] += s[t]


@njit(cache=True, nogil=True)
def newton_step(sums, counts, lam, share, W, step, first, last, outputs):
    """Descend over a grid's bins first..last-1: ``step = (Σ_l sums_l - lam W)/(share counts + lam)``, ``W += step``.

    Parameters
    ----------
    sums : (lanes, at least size, at least c) array
        Becomes 0 there.
    counts : (size,) array
    lam : float
    share : float
        Among how many grids what is left is shared out; 1 takes the minimum.
    W : (size, c) array, changed
    step : (at least size, at least c) array, changed
    first, last : int
    outputs : tuple
        From ``unrolled(sums.shape[2])``.
    """
    lanes, _, wide = sums.shape
    for b in range(first, last):
        for i in range(1, lanes):
            for k in range(len(outputs) or wide):
                sums[0, b, k] += sums[i, b, k]
                sums[i, b, k] = 0.0
        if counts[b] > 0.0:
            scale, weight = 1.0 / (share * counts[b] + lam), lam
        else:  # no row: its coefficients are 0 and stay so, unless lam has just changed
            scale = weight = 1.0
        for k in range(W.shape[1]):
            step[b, k] = (sums[0, b, k] - weight * W[b, k]) * scale
            W[b, k] += step[b, k]
        for k in range(len(outputs) or wide):
            sums[0, b, k] = 0.0


# -- descents on all threads ---------------------------------------------------------------------------


def _place(context, builder, signature, args):
    """Return the address of ``board[index]``; boards are contiguous."""
    kind = signature.args[0]
    board = context.make_array(kind)(context, builder, args[0])
    return cgutils.get_item_pointer(context, builder, kind, board, [args[1]])


@intrinsic
def _load(typing, board, index):
    """``board[index]`` as it is now: a plain one may be read once and never again."""

    def code(context, builder, signature, args):
        return builder.load_atomic(_place(context, builder, signature, args), "acquire", 8)

    return types.int64(board, types.intp), code


@intrinsic
def _store(typing, board, index, value):
    """``board[index] = value``, after everything that this thread has written before."""

    def code(context, builder, signature, args):
        builder.store_atomic(args[2], _place(context, builder, signature, args), "release", 8)
        return ir.Constant(ir.IntType(64), 0)

    return types.int64(board, types.intp, types.int64), code


if sys.platform == "win32":

    @njit(cache=True, nogil=True)
    def _step_aside():
        """Go on: there is no such call by this name."""
        return 0

else:
    _step_aside = types.ExternalFunction("sched_yield", types.int32())


@njit(cache=True, nogil=True)
def meet(board, thread, size, number):
    """Show a number, and wait until all of the threads 0..size-1 have shown it."""
    _store(board, LINE * thread, number)  # type: ignore[call-arg]
    for other in range(size):
        looks = 0
        while _load(board, LINE * other) < number:  # type: ignore[call-arg]
            looks += 1
            if looks % LOOKS == 0:
                _step_aside()


@njit(cache=True, nogil=True)
def tour(
    thread,
    size,
    board,
    units,
    lams,
    share,
    before,
    lines,
    edges,
    R,
    s,
    sums,
    counts,
    step,
    W,
    curvature,
    outputs,
):
    """Descend over one grid after the other: the share of one of several threads, which do so together.

    Each sums along its lanes of rows, and takes the steps of its part of the bins; in between they wait for each other.
    What is added up, and in which order, does not depend on the number of threads.

    Parameters
    ----------
    thread, size : int
        Which of how many threads.
    board : (LINE * size,) array of int64
        Zeros, shared by the threads of a tour.
    units : (k, 5) array of int
        Of every grid its line, where its coefficients begin, how many there are, where its counts begin, and whether
        these are still to be made.
    lams : (k,) array
    share : float
        Of the steps; see :func:`newton_step`.
    before : int
        The line of the grid whose step is to be taken first; -1: none.
    lines : (grids, n) array of unsigned integers
        The bins of all rows in every grid.
    edges : (lanes + 1,) array of int
        Where lanes begin and end.
    R, s : (n, at least c) and (n,) arrays
        Residuals, changed, and weights.
    sums, counts : (lanes, most bins, at least c) and (lanes, most bins) arrays
        Zeros, before and after.
    step : (most bins, at least c) array, changed
        The step of the grid `before`, and in the end that of the last one, which is still to be taken.
    W, curvature : (all bins, c) and (all bins,) arrays, changed
    outputs : tuple
        From ``unrolled(R.shape[1])``.
    """
    lanes = len(edges) - 1
    for u in range(len(units)):
        line, first, width, place, new = units[u]
        for i in range(lanes * thread // size, lanes * (thread + 1) // size):
            a, b = edges[i], edges[i + 1]
            bins = lines[line, a:b]
            if new:
                add_counts(bins, s[a:b], counts[i])
            if before >= 0:
                step_and_sums(lines[before, a:b], step, bins, R[a:b], s[a:b], sums[i], outputs)
            else:
                add_sums(bins, R[a:b], s[a:b], sums[i], outputs)
        meet(board, thread, size, 2 * u + 1)
        H = curvature[place : place + width]
        low, high = width * thread // size, width * (thread + 1) // size
        if new:
            for b in range(low, high):
                total = 0.0
                for i in range(lanes):
                    total += counts[i, b]
                    counts[i, b] = 0.0
                H[b] = total
        newton_step(sums, H, lams[u], share, W[first : first + width], step, low, high, outputs)
        before = line
        meet(board, thread, size, 2 * u + 2)


@dataclass(frozen=True, eq=False)
class Tours:
    """Rows, their bins, and what sums and steps need; :func:`tour` has the arrays.

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

    def __call__(self, units, lams, share: float, before: int, W, curvature) -> None:
        """Take the step of the line `before` (-1: none), and descend over grids; the last step is left to take."""
        size = 1 if self.pool is None else min(self.size, len(self.sums))
        board, outputs = np.zeros(LINE * size, np.int64), unrolled(self.sums.shape[2])
        rows = self.lines, self.edges, self.R, self.s
        shared = (
            units,
            lams,
            float(share),
            before,
            *rows,
            self.sums,
            self.counts,
            self.step,
            W,
            curvature,
            outputs,
        )
        if self.pool is None or size == 1:
            tour(0, 1, board, *shared)
            return
        together = Barrier(size)

        def part(k):
            together.wait()  # nobody begins, and waits for the others in there, before all of them are here
            tour(k, size, board, *shared)

        try:
            tasks = [self.pool.submit(part, k) for k in range(size)]
        except BaseException:
            together.abort()
            raise
        try:
            wait(tasks)
        finally:  # whatever interrupts the wait must not find half a step
            for task in tasks:
                task.result()


# -- one pass over rows --------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def filter_rows(bins, Y, noise, W, variance, intercept, scores):
    """One pass of a diagonal Kalman filter over rows, in order.

    A row has the bins b of every grid and the intercept. With v their variances and e its error before the row is
    seen: ``g = 1/(Σv + noise)``, ``W_b += v_b g e``, ``v_b -= v_b² g``.

    Parameters
    ----------
    bins : (n, grids) array
    Y : (n, c) array
    noise : (n,) array
        1/(C s_t); infinite for a row without weight, which changes nothing.
    W : (grids, size, c) array, changed
    variance : (grids, size) array, changed
    intercept : (c + 1,) array, changed
        Its coefficients, and its variance last.
    scores : (n, c) array, written
        Of each row, before it was seen.
    """
    n, grids = bins.shape
    c = Y.shape[1]
    error = np.empty(c)
    for t in range(n):
        total = intercept[c] + noise[t]
        for k in range(c):
            error[k] = intercept[k]
        for g in range(grids):
            b = bins[t, g]
            total += variance[g, b]
            for k in range(c):
                error[k] += W[g, b, k]
        for k in range(c):
            scores[t, k] = error[k]
            error[k] = Y[t, k] - error[k]
        if not np.isfinite(total):
            continue
        gain = 1.0 / total
        for k in range(c):
            intercept[k] += intercept[c] * gain * error[k]
        intercept[c] -= intercept[c] * intercept[c] * gain
        for g in range(grids):
            b = bins[t, g]
            v = variance[g, b]
            variance[g, b] = v - v * v * gain
            v *= gain
            for k in range(c):
                W[g, b, k] += v * error[k]
