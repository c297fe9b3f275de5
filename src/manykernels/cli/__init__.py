"""The command line: fit, predict, show and demo on tables in CSV, Parquet or Arrow files.

The commands are in :mod:`.commands`, their options in :mod:`.options`. What a command needs is imported when it runs,
so that ``--help`` and ``--version`` wait for nothing: ``tables.py`` reads and writes tables in the words of the
options, ``models.py`` fits a table that is read as a whole and ``batchwise.py`` one that is not, ``screens.py`` prints,
``demo.py`` is the demonstration.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import typer


def main() -> None:
    """Run the command line."""
    if not all(map(find_spec, ("typer", "rich", "pyarrow"))):
        sys.exit("The command line needs typer, rich and pyarrow: pip install 'manykernels[cli]'")
    for stream in (sys.stdout, sys.stderr):  # σ and · must not stop a run on an old terminal
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    application()()


def application() -> typer.Typer:
    """Return the command line as a typer application."""
    from .commands import make_application

    return make_application()
