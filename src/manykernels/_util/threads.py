"""Row tiles on a few threads: NumPy and compiled loops release the interpreter lock."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from typing import TypeVar

import joblib
from threadpoolctl import ThreadpoolController

T = TypeVar("T")
R = TypeVar("R")


@functools.cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()  # looks at the loaded libraries: milliseconds, so once


_LIMITING = threading.Lock()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Run BLAS on one thread meanwhile; small systems are several times faster so.

    The limit is the process's. Only one caller at a time sets and restores it: a second one, in another thread,
    would take the first one's limit for the original.
    """
    if not _LIMITING.acquire(blocking=False):
        yield
        return
    try:
        with _controller().limit(limits=1, user_api="blas"):
            yield
    finally:
        _LIMITING.release()


@functools.cache
def _cores() -> int:
    # It asks the system for affinity and the container for its share, in a tenth of a millisecond.
    return joblib.cpu_count()


def n_threads() -> int:
    """Return how many threads to use: OMP_NUM_THREADS (which process pools set), or the cores we may use."""
    try:
        wanted = int(os.environ.get("OMP_NUM_THREADS", "0"))
    except ValueError:
        wanted = 0
    return wanted if wanted > 0 else _cores()


def map_in_threads(func: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Return ``[func(i) for i in items]``, in order, so that sums over the result are reproducible.

    BLAS runs on one thread meanwhile: its threads under ours would only fight for the cores. What NumPy is to do about
    overflow, which a thread would not know of, is what the caller has asked for.
    """
    items = list(items)
    if n_threads() == 1:
        with one_blas_thread():
            return [func(i) for i in items]
    threads = min(n_threads(), len(items))
    if threads <= 1:
        return [func(i) for i in items]
    with one_blas_thread(), ThreadPoolExecutor(threads) as pool:
        return list(pool.map(lambda own, i: own.run(func, i), [copy_context() for _ in items], items))
