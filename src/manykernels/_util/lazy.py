"""Names of a package that are imported when they are first asked for."""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # as type checkers read it; the command line begins here, and typing takes its time
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


def looked_up(name: str, package: dict[str, Any], homes: Mapping[str, str | None]) -> Any:
    """Return a name of a package for its ``__getattr__``, and keep it there.

    Parameters
    ----------
    name : str
    package : dict
        The package's ``globals()``.
    homes : dict from names to the modules they live in, None for modules of the package themselves
    """
    if name not in homes:
        raise AttributeError(f"module {package['__name__']!r} has no attribute {name!r}")
    home = homes[name]
    found = import_module(f"{package['__name__']}.{home or name}")
    package[name] = value = found if home is None else getattr(found, name)
    return value
