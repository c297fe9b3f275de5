"""Writing files whole or not at all."""

from __future__ import annotations

import glob
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from .text import brief

try:
    import fcntl
except ImportError:  # no locks: what a killed process leaves stays
    fcntl = None  # type: ignore[assignment]


def file_name(path: Any, what: str = "path") -> str:
    """Return a path as text, or raise; `what` names the argument."""
    try:
        name = os.fsdecode(path)
    except TypeError:
        raise TypeError(f"{what} is {brief(path)}; pass the name of a file.") from None
    if not name or "\0" in name:
        raise ValueError(f"{what} is {brief(path)}, which can be no file's name; pass another.")
    return name


@contextmanager
def replacing(path: str) -> Iterator[Any]:
    """Open a file without a name, or with a hidden one, that takes the place of `path` when all went well.

    A process that is killed on the way leaves nothing where the system knows files without names; where it does not,
    a hidden file, which the next one to write the same path removes.
    """
    folder, name = os.path.split(path)
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"The directory {folder} does not exist; create it before saving {name}.")
    if os.path.isdir(path):
        raise IsADirectoryError(f"{path} is a directory; name a file.")
    remove_leftovers(path)
    temporary = _beside(path)
    unnamed = _open_unnamed(folder)
    try:
        with open(temporary, "xb") if unnamed is None else os.fdopen(unnamed, "w+b") as stream:
            _lock(stream)
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
            if unnamed is not None:
                _give_name(unnamed, temporary)
            os.replace(temporary, path)
    except BaseException as error:
        with suppress(OSError):
            os.remove(temporary)
        if isinstance(error, OSError) and error.strerror and error.filename in (None, temporary):
            why = f"{path} cannot be written ({error.strerror}); make room there, or name another file."
            raise type(error)(why) from error
        raise


def remove_leftovers(path: str) -> None:
    """Remove what killed processes left when they were writing a path; files that one is writing now are locked."""
    folder, name = os.path.split(path)
    for left in glob.glob(os.path.join(glob.escape(folder), f".{glob.escape(name)}.*.tmp")):
        with suppress(OSError), open(left, "rb") as stream:
            if _lock(stream):
                os.remove(left)


def _lock(stream: Any) -> bool:
    """Lock a file until it is closed; whether nobody else had."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _open_unnamed(folder: str) -> int | None:
    """Return a new file in a folder that has no name yet, None where there is no such thing."""
    if not hasattr(os, "O_TMPFILE") or not os.path.isdir("/proc/self/fd"):
        return None
    try:
        return os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o666)
    except OSError:
        return None


def _give_name(number: int, path: str) -> None:
    # With a folder's number Python follows the link to the open file, and does not link to the link.
    os.link(f"/proc/self/fd/{number}", path, src_dir_fd=number, follow_symlinks=True)


def try_replacing(path: str) -> None:
    """Raise OSError where `replacing` could not write to `path`; nothing is changed."""
    temporary = _beside(path)
    os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
    os.remove(temporary)


def _beside(path: str) -> str:
    """Return a name, in the same folder, for a file that is to take the place of `path`."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.{secrets.token_hex(6)}.tmp")
