"""Rows in blocks, in this process or on a cluster, behind three calls: broadcast, map over blocks, ordered sum.

A fourth, `each`, is for what needs no rows and can be done side by side: small fits on a sample of them.

A method that needs sums over rows alone, round after round, is written once against :class:`Rows` and does not know
where they are. :class:`LocalRows` reads them from a source on threads; :class:`DaskRows` leaves them to Dask, on
whatever scheduler or cluster the user has chosen. Sums are added along a tree whose shape depends on the number of
blocks only, so that results have the same bits with any number of threads or workers, and after a worker was lost:
blocks are read again from where they came, never scattered.
"""

from __future__ import annotations

import sys
import uuid
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import numpy as np

from .._util.text import brief
from .._util.threads import n_threads, one_blas_thread
from .._version import __version__

#: Sums that are added at a time. More make the tree flatter, and let one worker wait for more of the others.
FAN = 8

#: What a map over blocks returns to be summed: arrays, or tuples of them.
Sums = Any


class Block(NamedTuple):
    """Rows that lie together, as a solver sees them.

    Attributes
    ----------
    X : (n, d) array
    Y : (n, c) array
        Encoded targets.
    s : (n,) array
        Weights.
    keys : (n,) array of whole numbers or None
        Which name the rows, the same in every round.
    """

    X: np.ndarray
    Y: np.ndarray
    s: np.ndarray
    keys: np.ndarray | None = None


class Gathered:
    """Arrays of some rows, which a sum puts one after the other: blocks in their order.

    Parameters
    ----------
    arrays : arrays of one length
    """

    def __init__(self, *arrays: np.ndarray):
        self.arrays = arrays

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(a.nbytes for a in self.arrays)

    def __add__(self, other: Gathered) -> Gathered:
        return Gathered(*(np.concatenate(pair) for pair in zip(self.arrays, other.arrays, strict=True)))


# -- ordered sums --------------------------------------------------------------------------------------


def added(*parts: Sums) -> Sums:
    """Return the sum of arrays, or of tuples of arrays one by one, from the first to the last."""
    first = parts[0]
    if isinstance(first, tuple):
        return tuple(added(*some) for some in zip(*parts, strict=True))
    if len(parts) == 1:
        return first
    total = first + parts[1]  # a new one: what comes in may be kept by somebody
    for part in parts[2:]:
        total += part
    return total


class TreeSum:
    """A sum along a tree: what comes in is added by so many at a time, and so are the sums.

    Parameters
    ----------
    add : callable
        Returns the sum of some parts, or what stands for it.
    fan : int
    """

    def __init__(self, add: Callable[..., Any] = added, fan: int = FAN):
        self.add, self.fan = add, fan
        self.levels: list[list[Any]] = []

    def take(self, part: Any, level: int = 0) -> None:
        """Take the next part."""
        if level == len(self.levels):
            self.levels.append([])
        self.levels[level].append(part)
        if len(self.levels[level]) == self.fan:
            full, self.levels[level] = self.levels[level], []
            self.take(self.add(*full), level + 1)

    def total(self) -> Any:
        """Return the sum of all parts."""
        rest: list[Any] = []
        for level in self.levels:  # the lowest has the last parts
            rest = [*level, *rest]
            if len(rest) > 1:
                rest = [self.add(*rest)]
        return rest[0]


class Running:
    """A sum that holds no part but the first: further ones are added in place, in the order of :func:`added`."""

    def __init__(self) -> None:
        self.value: Sums | None = None
        self.count = 0

    def take(self, part: Sums) -> None:
        """Take the next part."""
        self.count += 1
        if self.count == 1:
            self.value = part  # which somebody may keep
        else:
            self.value = added(self.value, part) if self.count == 2 else _added_to(self.value, part)


def _added_to(total: Sums, part: Sums) -> Sums:
    if isinstance(total, tuple):
        return tuple(_added_to(a, b) for a, b in zip(total, part, strict=True))
    total += part
    return total


class RunningTree:
    """The sums of :class:`TreeSum`, to the bit, of parts that are there: a level holds what they add up to.

    Parameters
    ----------
    fan : int
    """

    def __init__(self, fan: int = FAN):
        self.fan = fan
        self.levels: list[Running] = []

    def take(self, part: Sums, level: int = 0) -> None:
        """Take the next part."""
        if level == len(self.levels):
            self.levels.append(Running())
        self.levels[level].take(part)
        if self.levels[level].count == self.fan:
            full, self.levels[level] = self.levels[level], Running()
            self.take(full.value, level + 1)

    def total(self) -> Sums:
        """Return the sum of all parts."""
        rest: Sums | None = None
        for level in self.levels:  # the lowest has the last parts
            if level.count:
                rest = level.value if rest is None else added(level.value, rest)
        return rest


# -- the three calls -----------------------------------------------------------------------------------


class Rows(ABC):
    """Rows in blocks, which can be mapped and summed over.

    Attributes
    ----------
    n_rows : int
    n_blocks : int
    rounds : int
        Sums so far: each is a pass over the rows, and on a cluster a round of messages.
    sent : int
        Bytes that were broadcast and that came back, about.
    """

    n_rows: int
    n_blocks: int
    rounds: int = 0
    sent: int = 0

    @abstractmethod
    def broadcast(self, value: Any) -> Any:
        """Return what stands for a value among the arguments of `map` and `sum`, sent to every worker once."""

    @abstractmethod
    def map(self, func: Callable[..., Any], *args: Any) -> Any:
        """Return what stands for ``func(block, *args)`` of every block, which stays where the block is.

        Among the arguments there may be what `broadcast` and `map` have returned; each block gets its own.
        """

    @abstractmethod
    def sum(self, func: Callable[..., Sums], *args: Any, size: int = 0) -> Sums:
        """Return Σ over the blocks of ``func(block, *args)``, in an order that depends on the blocks only.

        What `map` has returned among the arguments is computed on the way, and kept for the next rounds. `size` are the
        bytes of a sum, where these are many: fewer are made at a time then.
        """

    @abstractmethod
    def each(self, func: Callable[..., Any], tasks: Sequence[Any], *args: Any) -> list[Any]:
        """Return ``func(task, *args)`` of every task, in their order: work that needs no rows, done where they are."""

    def forget(self, *handles: Any) -> None:  # noqa: B027 - there may be nothing to forget
        """Let what `broadcast` and `map` have returned go; no later round may name it, and what it led to stays."""

    def close(self) -> None:  # noqa: B027 - there may be nothing to give back
        """Give back what is kept, here and on a cluster."""

    def _count(self, *values: Any) -> None:
        self.sent += sum(map(n_bytes, values))


def n_bytes(value: Any) -> int:
    """Return the bytes of the arrays in a value, about."""
    if isinstance(value, tuple | list):
        return sum(map(n_bytes, value))
    if isinstance(value, dict):
        return sum(map(n_bytes, value.values()))
    return getattr(value, "nbytes", 8)


class LocalRows(Rows):
    """Rows of this process, block by block on threads.

    Parameters
    ----------
    units : sequence of callables
        Each returns an iterator of blocks, anew every time; units are gone over on several threads, the blocks of one
        in order.
    n_rows : int
    width : int
        Numbers in a row: rows that fit in `memory` are kept after the first round.
    memory : int
        Bytes.
    keep : bool
        Whether they are, where they fit.
    """

    def __init__(
        self,
        units: Sequence[Callable[[], Iterator[Block]]],
        n_rows: int,
        *,
        width: int,
        memory: int,
        keep: bool = True,
    ):
        self.units, self.n_rows, self.n_blocks, self.memory = units, n_rows, len(units), memory
        fits = keep and 8 * n_rows * (width + 2) <= memory
        self._kept: dict[int, list[Block]] | None = {} if fits else None

    def broadcast(self, value):
        return value

    def map(self, func, *args):
        return _Mapped(func, args)

    def sum(self, func, *args, size=0):
        self.rounds += 1
        tree, waiting = RunningTree(), deque[Any]()
        # A thread holds a part and what it adds up to, and as many wait to be added; the tree has a few.
        lanes = n_threads() if size * (3 * n_threads() + 3) <= self.memory else 1
        with one_blas_thread(), ThreadPoolExecutor(lanes) as pool:
            for unit in range(self.n_blocks):
                waiting.append(pool.submit(self._of_unit, unit, func, args))
                if len(waiting) > lanes - (lanes == 1):  # no more sums in memory than threads
                    self._take(tree, waiting.popleft().result())
            while waiting:
                self._take(tree, waiting.popleft().result())
        return tree.total()

    def each(self, func, tasks, *args):
        return [func(task, *args) for task in tasks]

    @staticmethod
    def _take(tree: RunningTree, part: Sums | None) -> None:
        if part is not None:  # a unit may be empty
            tree.take(part)

    def _of_unit(self, unit: int, func, args) -> Sums | None:
        total = Running()
        for number, block in enumerate(self._blocks(unit)):
            own = [a.of(unit, number, block) if isinstance(a, _Mapped) else a for a in args]
            total.take(func(block, *own))
        return total.value

    def _blocks(self, unit: int) -> Iterator[Block]:
        if self._kept is None:
            yield from self.units[unit]()
            return
        if unit not in self._kept:
            self._kept[unit] = list(self.units[unit]())
        yield from self._kept[unit]

    def forget(self, *handles):
        for handle in handles:
            if isinstance(handle, _Mapped):
                handle.forgotten = True
                handle.values.clear()

    def close(self):
        self._kept = None


class _Mapped:
    """The values of a map over local blocks, each computed when it is first asked for."""

    def __init__(self, func: Callable[..., Any], args: tuple[Any, ...]):
        self.func, self.args = func, args
        self.values: dict[tuple[int, int], Any] = {}
        self.forgotten = False

    def of(self, unit: int, number: int, block: Block) -> Any:
        """Return the value of a block."""
        if (unit, number) in self.values:
            return self.values[unit, number]
        own = [a.of(unit, number, block) if isinstance(a, _Mapped) else a for a in self.args]
        value = self.func(block, *own)
        if not self.forgotten:  # else it is but a step on the way to another
            self.values[unit, number] = value
        return value


# -- Dask ----------------------------------------------------------------------------------------------


class DaskRows(Rows):
    """Rows of the partitions of a dask collection, wherever Dask computes them.

    Parameters
    ----------
    blocks : list of Delayed
        Each computes a :class:`Block`, from where its rows lie.
    n_rows : int
    parts : sequence of Delayed
        The partitions that blocks are made of, to be named where one cannot be read.
    keep : bool
        Whether blocks stay in the workers' memory between two rounds. Dask computes those of a lost worker again.
    """

    def __init__(self, blocks: list[Any], n_rows: int, *, keep: bool, parts: Sequence[Any] = ()):
        self.n_rows, self.n_blocks, self.parts = n_rows, len(blocks), parts
        # All that this has on a cluster and somebody here still holds, if only as garbage: graphs of Dask 2024.5 refer
        # to themselves, and last until the collector comes.
        self._futures: WeakValueDictionary[int, Any] = WeakValueDictionary()
        self._token, self._named = uuid.uuid4().hex, 0
        self.blocks = self._persisted(blocks) if keep else blocks

    def broadcast(self, value):
        from dask import delayed

        self._count(value)
        # A node of the graph, which workers pass on to each other and Dask makes again where it is lost.
        return _Handle([delayed(value, name=self._name(value), traverse=False)])

    def map(self, func, *args):
        return _Handle(self._calls(func, args), args)

    def _name(self, what: Any) -> str:
        """Return a name for a node; Dask would ask the system for random numbers, which takes longer than its task."""
        self._named += 1
        return f"{getattr(what, '__name__', type(what).__name__).strip('_')}-{self._token}-{self._named}"

    def _calls(self, func, args, firsts: Sequence[Any] | None = None) -> list[Any]:
        """Return ``func(block, *args)`` of every block, each a Delayed; each gets its own part of what was mapped."""
        lazy = [isinstance(a, _Handle) for a in args]
        call = _delayed(_Bound(func, args, lazy))
        handles = [a for a in args if isinstance(a, _Handle)]
        return [
            call(first, *(h.of(i) for h in handles), dask_key_name=self._name(func))
            for i, first in enumerate(self.blocks if firsts is None else firsts)
        ]

    def each(self, func, tasks, *args):
        self.rounds += 1
        calls, fresh = self._calls(func, args, tasks), list(_fresh(args))
        with told():
            found = self._kept_with(calls, fresh)
            values = [_result(one) for one in found]
        self._count(values)
        return values

    def sum(self, func, *args, size=0):
        self.rounds += 1
        add = _delayed(added)
        tree = TreeSum(lambda *parts: add(*parts, dask_key_name=self._name(added)))
        for part in self._calls(func, args):
            tree.take(part)
        fresh = list(_fresh(args))
        with told(self.parts):
            (total,) = self._kept_with([tree.total()], fresh)
            value = _result(total)
        self._count(value)
        return value

    def _kept_with(self, values: list[Any], fresh: list[_Handle]) -> list[Any]:
        """Start computing values and what is kept of them, in one graph: messages cost as much as several tasks."""
        started = self._persisted([*values, *(v for handle in fresh for v in handle.values)])
        values, kept = started[: len(values)], started[len(values) :]
        for handle in fresh:
            handle.values, kept = kept[: len(handle.values)], kept[len(handle.values) :]
            handle.computed, handle.args = True, ()  # which would keep all there was before on the cluster
        return values

    def _persisted(self, values: list[Any]) -> list[Any]:
        from dask import persist

        with (
            one_blas_thread()
        ):  # as workers have: where Dask computes in this process, more would change bits
            started = list(persist(*values))
        self._futures.update((id(future), future) for future in _futures(started))
        return started

    def forget(self, *handles):
        for handle in handles:
            handle.forgotten, handle.values, handle.args = True, [], ()

    def close(self):
        """Let go of what is running or kept on the cluster, whoever still holds on to it here."""
        self.blocks = []
        for future in list(self._futures.values()):
            future.release()


class _Handle:
    """What stands for a value that was broadcast, or for those of a map: computed with the first sum that needs it.

    Parameters
    ----------
    values : list of Delayed
        One for all blocks, or one for each.
    args : tuple
        What they are made of.
    """

    def __init__(self, values: list[Any], args: tuple[Any, ...] | None = None):
        self.values, self.args, self.mapped = values, args or (), args is not None
        self.computed = self.forgotten = False

    def of(self, block: int) -> Any:
        """Return the value of a block."""
        return self.values[block if self.mapped else 0]


def _fresh(args: tuple[Any, ...], mapped: bool = True) -> Iterator[_Handle]:
    """Yield what a sum computes on the way and keeps: its own arguments, and what was broadcast for these."""
    for handle in args:
        if isinstance(handle, _Handle) and not (handle.computed or handle.forgotten):
            if mapped or not handle.mapped:
                yield handle
            yield from _fresh(handle.args, mapped=False)


class _Bound:
    """A function of a block, with those of its arguments that are no handles: Dask looks through what it is given."""

    def __init__(self, func: Callable[..., Any], args: tuple[Any, ...], lazy: list[bool]):
        self.func, self.lazy = func, lazy
        self.args = [None if later else a for a, later in zip(args, lazy, strict=True)]

    def __call__(self, block: Block, *own: Any) -> Any:
        """Call it with a block and what handles stand for."""
        rest = iter(own)
        return self.func(
            block, *(next(rest) if later else a for a, later in zip(self.args, self.lazy, strict=True))
        )


def _result(value: Any) -> Any:
    """Return what was persisted: from its future, which is one message less than computing it."""
    from dask import compute

    for future in _futures(value):
        return future.result()
    return compute(value)[0]


def _futures(values: Any) -> list[Any]:
    """Return the futures of what was persisted, none where Dask computed it in this process."""
    if "distributed" not in sys.modules:
        return []
    from distributed import futures_of

    return futures_of(values)


def _delayed(func):
    from dask import delayed

    return delayed(func, pure=False, traverse=False)


def computed(values: list[Any], parts: Sequence[Any] = ()) -> tuple[Any, ...]:
    """Return what Dask computes; what goes wrong on the cluster is one sentence.

    Parameters
    ----------
    values : list of Delayed
    parts : sequence of Delayed
        The partitions they are made of: where one of these cannot be read, it is named.
    """
    from dask import compute

    with told(parts), one_blas_thread():
        return compute(*values)


@contextmanager
def told(parts: Sequence[Any] = ()) -> Iterator[None]:
    """Say in one sentence what goes wrong on the cluster meanwhile; see :func:`computed`."""
    with _aside():
        try:
            yield
        except Exception as error:
            name = type(error).__name__
            if name == "KilledWorker":
                raise RuntimeError(
                    "Workers died several times over the same partition, most likely for want of memory; use smaller "
                    f"partitions, or workers with more memory ({brief(str(error), 200)})."
                ) from error
            if name in ("CancelledError", "FutureCancelledError", "LostError"):
                raise RuntimeError(
                    "The cluster has gone, or has lost what the fit had there; start it, and fit again."
                ) from error
            if "partition" not in str(error):
                _name_unreadable(parts)
            raise


@contextmanager
def _aside() -> Iterator[None]:
    """Leave the thread to other tasks meanwhile, where the fit is a task of a worker itself and waits for these."""
    if not _is_task():
        yield
        return
    from distributed import rejoin, secede

    try:
        secede()
    except (KeyError, AttributeError):  # it has left already, by the user's code or a call around this one
        yield
        return
    try:
        yield
    finally:
        rejoin()


def _is_task() -> bool:
    if "distributed" not in sys.modules:
        return False
    from distributed import get_worker

    try:
        get_worker()
    except ValueError:
        return False
    return True


def _name_unreadable(parts: Sequence[Any]) -> None:
    """Raise RuntimeError with the number of the first partition that cannot be read, each tried where it lies."""
    from dask import compute

    for number, part in enumerate(parts):
        try:
            compute(_delayed(_read)(part))
        except Exception as error:
            raise RuntimeError(
                f"partition {number} of the collection cannot be read ({type(error).__name__}: "
                f"{brief(str(error), 200)}); see to what it is read from, and fit again."
            ) from error


def _read(part: Any) -> None:
    """Do nothing with a partition that could be read."""


def active_client() -> Any:
    """Return the client of the cluster that Dask would compute on, None where that is in this process."""
    if "distributed" not in sys.modules:
        return None
    from dask.base import get_scheduler
    from distributed import Client

    client = getattr(get_scheduler(), "__self__", None)
    return client if isinstance(client, Client) else None


def check_workers() -> None:
    """Raise RuntimeError where the active cluster has no workers, or some that cannot run this package's code."""
    client = active_client()
    if client is None:
        return
    if not client.nthreads():  # asks, where scheduler_info() may tell of what the client knew a moment ago
        raise RuntimeError(
            f"The Dask cluster at {client.scheduler.address} has no workers; start some, or close the client."
        )
    asked = "__import__('manykernels').__version__"
    for worker, found in client.run(eval, asked, on_error="return").items():
        if isinstance(found, ImportError):
            raise RuntimeError(
                f"The worker {worker} cannot import manykernels ({brief(str(found), 120)}); install it there."
            )
        if (
            isinstance(found, str) and found != __version__
        ):  # else it died meanwhile, which is no reason to stop
            raise RuntimeError(
                f"The worker {worker} has manykernels {found}, and this process has {__version__}; install the same "
                "version everywhere."
            )
