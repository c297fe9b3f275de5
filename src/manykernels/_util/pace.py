"""How fast this machine is at the moment, beside the one that times were measured on; and times in words."""

from __future__ import annotations

import math
import time

import numpy as np

from .threads import n_threads, one_blas_thread

#: Rows of a small system, how many are solved, and the seconds that takes on the machine that times were measured on.
ROWS, SYSTEMS, REFERENCE = 192, 4, 0.003
#: What a further core adds to the first one.
FURTHER = 0.7


def slowness() -> float:
    """Return how many times as long as on the reference machine some small systems take: the median of five tries."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((ROWS, ROWS))
    A = A @ A.T + ROWS * np.eye(ROWS)
    took = []
    with one_blas_thread():
        for _ in range(5):
            started = time.perf_counter()
            for _ in range(SYSTEMS):
                np.linalg.inv(A)
            took.append(time.perf_counter() - started)
    return float(np.median(took)) / REFERENCE


def seconds_for(work: float, most_threads: int = 8) -> float:
    """Return the seconds that work of so many seconds on one reference core is going to take here."""
    cores = 1 + FURTHER * (min(n_threads(), most_threads) - 1)
    return work * slowness() / cores


def duration(seconds: float) -> str:
    """Return a time as people say it: one digit, and no more than is known."""
    if seconds < 1.5:
        return "a second"
    if seconds < 10:
        return f"{seconds:.0f} s"
    if seconds < 55:
        return f"{5 * round(seconds / 5)} s"
    minutes = seconds / 60
    if minutes < 1.5:
        return "a minute"
    if minutes < 55:
        return f"{minutes:.0f} minutes" if minutes < 10 else f"{5 * round(minutes / 5)} minutes"
    hours = minutes / 60
    return "an hour" if hours < 1.5 else f"{math.ceil(hours - 0.5)} hours"
