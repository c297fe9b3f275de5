"""Checkpoints: the state of an unfinished fit in a file, and the proof that it is this fit's.

A checkpoint is an archive of plain arrays like a model file (:mod:`manykernels.persistence`): it opens without
running code, and it appears whole or not at all.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

from .._util.files import file_name, remove_leftovers
from .._util.shapes import Damaged, Diverged
from .._util.text import brief, warn
from .archive import CHECKPOINT, reading, write_archive
from .tree import Encoder, require

#: A state is made and written when this many seconds have gone by since the last one, and
PAUSE = 5.0
#: this many times the seconds that the last one took.
TIMES = 20.0


class Checkpoint:
    """The file that a fit is saved to and resumed from.

    Parameters
    ----------
    path : path of the file; an existing one is opened, and one that cannot be written to refused
    pause : float
        Least number of seconds between two states.
    times : float
        The same as a multiple of the seconds that the last state took to be made and written.
    """

    def __init__(self, path, *, pause: float = PAUSE, times: float = TIMES):
        self.pause, self.times = pause, times
        self.path = os.path.realpath(file_name(path, "checkpoint"))
        folder = os.path.dirname(self.path)
        if not os.path.isdir(folder):
            raise FileNotFoundError(f"checkpoint: the directory {folder} does not exist; create it first.")
        remove_leftovers(self.path)
        self.identity: dict[str, Any] = {}
        self.seed: int | None = None
        self.state: dict[str, np.ndarray] | None = None
        self._found: dict[str, Any] | None = None
        self._next, self._warned = 0.0, False
        if os.path.exists(self.path):
            self._read()

    def _read(self):
        try:
            with reading(self.path, CHECKPOINT) as (manifest, decode):
                self._found, self.seed = dict(manifest["identity"]), manifest["seed"]
                require(type(self.seed) is int and self.seed >= 0, "no seed")
                self.state = decode(manifest["state"])
                whole = isinstance(self.state, dict) and all(
                    isinstance(name, str) and isinstance(array, np.ndarray)
                    for name, array in self.state.items()
                )
                require(whole, "no state")
        except (ValueError, OSError) as error:
            raise ValueError(
                f"checkpoint: {str(error).rstrip('.')}; delete it to start anew, or name another file."
            ) from None

    def resume(self, identity: Mapping[str, Any], seed: int) -> dict[str, np.ndarray] | None:
        """Return the state to go on from, None for a fresh start; a state of another fit is refused.

        Parameters
        ----------
        identity : dict of JSON values
            What must be the same for the state to make sense.
        seed : int
        """
        self.identity, self.seed = dict(identity), seed
        if self._found is None:
            return None
        here = json.loads(json.dumps(self.identity))
        for name in (*here, *self._found):
            mine, other = here.get(name), self._found.get(name)
            if not _agree(mine, other):
                raise ValueError(
                    f"checkpoint: {self.path} belongs to another fit: {_difference(name, other, mine)}; delete it to "
                    "start anew, or name another file."
                )
        return self.state

    @contextmanager
    def blamed(self) -> Iterator[None]:
        """Say of a state that turns out to be damaged which file it is from."""
        try:
            yield
        except Diverged as error:
            if self._found is None:
                raise
            raise ValueError(
                f"checkpoint: {self.path} holds a fit that does not go on: {str(error).rstrip('.')}; or delete the "
                "file to start anew."
            ) from None
        except (Damaged, np.linalg.LinAlgError, FloatingPointError) as error:
            why = str(error)
            if not isinstance(error, Damaged):
                if self._found is None:
                    raise
                beyond = isinstance(error, FloatingPointError)
                # The matrix that rows give is, and their numbers are not.
                why = "it holds " + (
                    "numbers too extreme to compute with"
                    if beyond
                    else "a matrix that is not positive definite"
                )
            raise ValueError(
                f"checkpoint: {self.path} is truncated or damaged: {why}; delete it to start anew, "
                "or name another file."
            ) from None

    def save(self, make: Callable[[], Mapping[str, np.ndarray]]) -> None:
        """Make a state and write it, unless the last one was written a moment ago."""
        started = time.monotonic()
        if started < self._next:
            return
        try:
            self.write(make())
        except OSError as error:  # a full disk, say: the fit is worth more than its checkpoint
            if not self._warned:
                why = getattr(error.__cause__, "strerror", None) or error.strerror or error
                warn(f"checkpoint: {self.path} cannot be written ({why}); the fit goes on without it.")
            self._warned = True
        ended = time.monotonic()
        self._next = ended + max(self.pause, self.times * (ended - started))

    def write(self, state: Mapping[str, np.ndarray]) -> None:
        """Write the state."""
        encode = Encoder()
        arrays = {name: np.asarray(value) for name, value in state.items()}
        manifest = {"identity": self.identity, "seed": self.seed, "state": encode(arrays, "state")}
        write_archive(self.path, CHECKPOINT, manifest, encode.arrays)

    def remove(self) -> None:
        """Delete the file: the fit is complete."""
        with suppress(FileNotFoundError):
            os.remove(self.path)


def _agree(mine, other) -> bool:
    """Whether two values are the same; files in the same order may have moved."""
    if isinstance(mine, dict) and isinstance(other, dict):
        return list(mine.values()) == list(other.values())
    return mine == other


def _difference(name: str, other, mine) -> str:
    if isinstance(mine, dict) and isinstance(other, dict):
        return _moved(other, mine)
    if any(isinstance(v, str) and re.fullmatch("[0-9a-f]{64}", v) for v in (other, mine)):
        return f"{name} have changed"  # digests say no more
    return f"{name} was {brief(other, 100)} and is {brief(mine, 100)}"


def _moved(other: dict[str, Any], mine: dict[str, Any]) -> str:
    """Return what has happened to the files or arrays that rows are read from."""
    for path, value in mine.items():
        if path in other and other[path] != value:
            return f"it was written before {brief(path, 300)} changed"
    added = [path for path in mine if path not in other]
    removed = [path for path in other if path not in mine]
    if len(added) == len(removed):
        return f"{brief(added or list(mine), 300)} {'is' if len(added) == 1 else 'are'} not what it was written with"
    what = (
        f"{brief(added[0], 300)} was added"
        if len(added) > len(removed)
        else f"{brief(removed[0], 300)} was removed"
    )
    return f"it was written before {what}"


def digest_of(parts: Iterable[bytes]) -> str:
    """Return a digest of bytes that come part by part."""
    sha = hashlib.sha256()
    for part in parts:
        sha.update(part)
    return sha.hexdigest()


def digest(value: Any) -> str:
    """Return a digest of arrays, parameters, kernels and solvers: what a model file could hold, or its repr."""
    encode = Encoder()
    try:
        tree = encode(value, "value")
    except ValueError:  # a Python function: its name must do, without its address
        return hashlib.sha256(re.sub(r" at 0x[0-9a-f]+", "", repr(value)).encode()).hexdigest()
    sha = hashlib.sha256(json.dumps(tree, allow_nan=False).encode())
    for array in encode.arrays.values():
        sha.update(np.ascontiguousarray(array).tobytes())
    return sha.hexdigest()
