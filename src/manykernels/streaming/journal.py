"""A journal of the sums of a fit: rounds over rows that need not be made again.

A fit over :class:`~manykernels.streaming.cluster.Rows` learns of the rows by sums alone, and all else in it follows
from these and from seeds. So the sums so far are its state, whatever the solver: a fit that begins anew with them comes
to where it was in as long as its own arithmetic takes, to the same bits. What is kept with the rows (residuals) is made
again with the first round that is not in the journal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .._util.shapes import FLAGS, REAL, WHOLE, Damaged, Stored, check_arrays, demand
from .._util.text import brief
from .cluster import Block, Gathered, LocalRows, Rows, Sums

State = dict[str, np.ndarray]

#: Sums lie in tuples, and rows in what was gathered; nothing that is summed goes deeper.
DEEPEST = 8


class Recorded(Rows):
    """Rows whose sums are written down, and read instead of made where they are known.

    Parameters
    ----------
    rows : Rows
    known : dict of arrays or None
        The journal of an interrupted fit.
    save : callable
        Is handed a function that returns the journal after every round, and decides whether to call it.
    empty : Block
        A block without rows. What it adds to a sum is nothing, in the form that the sum must have.
    """

    def __init__(
        self, rows: Rows, known: State | None, save: Callable[[Callable[[], State]], Any], empty: Block
    ):
        self.rows, self.save = rows, save
        self.n_rows, self.n_blocks = rows.n_rows, rows.n_blocks
        self.journal = [] if known is None else from_arrays(known)
        self.done, self.given = 0, len(self.journal)
        #: The rows again, none of them, for as long as sums are read.
        self.none: LocalRows | None = (
            LocalRows([lambda: iter([empty])], 0, width=1, memory=0) if known else None
        )
        #: What stands there for what was broadcast and mapped, each beside the handle it is found by.
        self._same: dict[int, tuple[Any, Any]] = {}

    @property
    def rounds(self) -> int:  # type: ignore[override]
        """Sums so far, those of the journal included."""
        return self.rows.rounds

    @property
    def sent(self) -> int:  # type: ignore[override]
        """Bytes that were broadcast and that came back, now or then."""
        return self.rows.sent

    @contextmanager
    def trusted(self) -> Iterator[None]:
        """Say of sums from a file that a fit cannot go on with that they are damaged: it could once."""
        try:
            yield
        except (ValueError, TypeError, IndexError, KeyError, AssertionError) as error:
            # An assertion says that sums contradict one another, at once or in the end.
            read = self.done <= self.given or isinstance(error, AssertionError)
            if not (self.done and self.given and read):
                raise
            raise Damaged(f"its sums are not those of this fit ({brief(str(error), 120)})") from error

    def broadcast(self, value):
        return self._kept(self.rows.broadcast(value), lambda none: none.broadcast(value))

    def map(self, func, *args):
        return self._kept(self.rows.map(func, *args), lambda none: none.map(func, *self._there(args)))

    def _kept(self, handle: Any, make: Callable[[LocalRows], Any]) -> Any:
        """Return a handle, and note what it stands for without rows."""
        if self.none is not None:
            self._same[id(handle)] = handle, make(self.none)
        return handle

    def _there(self, args: tuple[Any, ...]) -> list[Any]:
        return [self._same.get(id(a), (None, a))[1] for a in args]

    def each(self, func, tasks, *args):
        return self.rows.each(func, tasks, *args)

    def sum(self, func, *args, size=0):
        self.done += 1
        if self.done <= self.given:
            value = self.journal[self.done - 1]
            assert self.none is not None
            _check_like(value, self.none.sum(func, *self._there(args)))
            self.rows.rounds += 1
            self.rows._count(value)
            return _copied(value)
        self.none = None
        self._same.clear()
        value = self.rows.sum(func, *args, size=size)
        self.journal.append(_copied(value))  # solvers may go on with what they get
        self.save(lambda: to_arrays(self.journal))
        return value

    def forget(self, *handles):
        for handle in handles:
            self._same.pop(id(handle), None)
        self.rows.forget(*handles)

    def close(self):
        self.rows.close()


def _check_like(value: Sums, nothing: Sums) -> None:
    """Raise Damaged unless a sum has the form of one over no rows; of those that were gathered there may be any."""
    if isinstance(nothing, Gathered) and isinstance(value, Gathered):
        value, nothing = tuple(a[:0] for a in value.arrays), nothing.arrays
    if isinstance(nothing, tuple) and isinstance(value, tuple):
        demand(len(value) == len(nothing), "a sum has other parts")
        for one, other in zip(value, nothing, strict=True):
            _check_like(one, other)
        return
    demand(
        not isinstance(value, tuple | Gathered) and not isinstance(nothing, tuple | Gathered),
        "a sum lies elsewhere",
    )
    found, wanted = np.shape(value), np.shape(nothing)
    demand(found == wanted, f"a sum has the shape {found}, and not {wanted}")
    kinds = np.asarray(value).dtype.kind, np.asarray(nothing).dtype.kind
    demand(kinds[0] == kinds[1], "a sum holds another kind of numbers")


def _copied(value: Sums) -> Sums:
    if isinstance(value, tuple):
        return tuple(map(_copied, value))
    if isinstance(value, Gathered):
        return Gathered(*(a.copy() for a in value.arrays))
    return np.array(value)[()] if np.ndim(value) == 0 else np.array(value)


def to_arrays(sums: list[Sums]) -> State:
    """Return sums as arrays, each under the path to its place: "3.1" is the second array of the fourth sum."""
    arrays: State = {}
    for number, value in enumerate(sums):
        _lay(arrays, str(number), value)
    return arrays


def _lay(arrays: State, path: str, value: Sums) -> None:
    inner = value.arrays if isinstance(value, Gathered) else value if isinstance(value, tuple) else None
    if inner is None:
        arrays[path] = np.asarray(value)
        return
    for number, part in enumerate(inner):
        _lay(arrays, f"{path}.{'rows' if isinstance(value, Gathered) else ''}{number}", part)


def from_arrays(arrays: State) -> list[Sums]:
    """Return the sums that :func:`to_arrays` has laid out; Damaged for what it has not, or no rows add up to."""
    tree: dict[str, Any] = {}
    for path, array in arrays.items():
        *folders, name = path.split(".")
        demand(len(folders) < DEEPEST, "it holds a sum within too many others")
        anything = Stored(" ".join("*" * array.ndim), REAL + WHOLE + FLAGS)
        check_arrays({"a sum": array}, {"a sum": anything})
        at = tree
        for folder in folders:
            at = at.setdefault(folder, {})
            if not isinstance(at, dict):
                raise Damaged("it holds a sum that is in another one's place")
        if name in at:
            raise Damaged("it holds a sum twice")
        at[name] = array
    return [_gathered(tree[name]) for name in _counted(tree, "")]


def _gathered(node: Any) -> Sums:
    if not isinstance(node, dict):
        return node[()]
    if all(name.startswith("rows") for name in node):
        return Gathered(*(node[name] for name in _counted(node, "rows")))
    return tuple(_gathered(node[name]) for name in _counted(node, ""))


def _counted(node: dict[str, Any], prefix: str) -> list[str]:
    """Return the names of parts in their order: they are numbered from 0 on, and none is missing."""
    names = [f"{prefix}{number}" for number in range(len(node))]
    if set(names) != set(node):
        raise Damaged("it lacks a sum")
    return names
