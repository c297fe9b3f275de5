"""Numbers that threads show each other without the interpreter, so that compiled loops can wait for one another.

A thread that waits looks again and again, and sees a number within a microsecond. One that slept would be woken up in
fifty to a hundred, and so would one that waits for the interpreter's lock: too long between steps of a millisecond.
"""

from __future__ import annotations

import sys

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

#: Numbers of a board that share a cache line, so that only every so many of them is used.
LINE = 8
#: Looks, of half a nanosecond each, before a thread lets others on its core go first.
LOOKS = 10_000


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
