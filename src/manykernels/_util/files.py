"""Writing files whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any


@contextmanager
def replacing(path: str) -> Iterator[Any]:
    """Open a temporary file that takes the place of `path` when all went well."""
    folder, name = os.path.split(path)
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"The directory {folder} does not exist; create it before saving {name}.")
    if os.path.isdir(path):
        raise IsADirectoryError(f"{path} is a directory; name a file.")
    temporary = _beside(path)
    try:
        with open(temporary, "xb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.remove(temporary)
        raise


def try_replacing(path: str) -> None:
    """Raise OSError where `replacing` could not write to `path`; nothing is changed."""
    temporary = _beside(path)
    os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
    os.remove(temporary)


def _beside(path: str) -> str:
    """Return a name, in the same folder, for a file that is to take the place of `path`."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.{secrets.token_hex(6)}.tmp")
