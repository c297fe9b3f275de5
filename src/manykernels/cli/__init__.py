"""The command line: fit, predict, show and demo on tables in CSV, Parquet or Arrow files.

The commands are in :mod:`.commands`, their options in :mod:`.options`, what is said of wrong ones in :mod:`.usage`.
What a command needs is imported when it runs, so that ``--help`` and ``--version`` wait for nothing: ``tables.py``
reads and writes tables in the words of the options, ``models.py`` fits a table that is read as a whole and
``batchwise.py`` one that is not, ``screens.py`` prints, ``demo.py`` is the demonstration.
"""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False  # as type checkers read it; until main has begun, Ctrl-C is a traceback
if TYPE_CHECKING:
    import typer


def main() -> None:
    """Run the command line."""
    # While modules load, Ctrl-C ends the process at once and without a word; commands take it over when they begin.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from contextlib import suppress
    from importlib.util import find_spec

    from .._util.text import not_installed

    if not all(map(find_spec, ("typer", "rich", "pyarrow"))):
        sys.exit(not_installed("The command line needs typer, rich and pyarrow", "cli"))
    _open_streams()
    try:
        application()()
    except SystemExit as end:
        if (
            end.code == 1
        ):  # typer's own, where the reader of a help text has gone; commands end with 0, 2 or 130
            sys.exit(0)
        raise
    except (
        OSError
    ) as error:  # help, or what is wrong with the options, on a full disk; commands see to their own
        with suppress(OSError):
            print(f"The standard output cannot be written ({error.strerror}).", file=sys.stderr)
        sys.exit(2)
    finally:
        _close_streams()


def _open_streams() -> None:
    """Let nothing that is printed stop a run: neither a closed stream nor a sign that an old terminal lacks."""
    while (
        number := os.open(os.devnull, os.O_RDWR)
    ) < 3:  # else the model file might take the number of stdout
        pass
    os.close(number)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # σ and ·


def _close_streams() -> None:
    """Write what is left; where nobody reads it, drop it, as Python would complain on its way out."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def application() -> typer.Typer:
    """Return the command line as a typer application."""
    from .commands import make_application

    return make_application()
