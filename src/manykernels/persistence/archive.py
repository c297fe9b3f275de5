"""Archives: one zip of a JSON manifest and plain arrays, which opens without running code.

Entries are stored uncompressed, so that no file is larger in memory than on disk; each has its SHA-256 in the
manifest, and the manifest's own is the comment of the archive.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import math
import os
import stat
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

from .._util.files import file_name, replacing
from .._util.shapes import Damaged
from .._util.text import brief
from .tree import Decoder, Refused, is_plain, require

MODEL, CHECKPOINT = "manykernels-model", "manykernels-checkpoint"
VERSION = 1
MANIFEST = "manifest.json"

#: How to read the header of an array, by the version of NumPy's format.
HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
#: What files of each format are called.
KINDS = {MODEL: "a model file", CHECKPOINT: "a checkpoint"}


# -- writing -------------------------------------------------------------------------------------------


def write_archive(path, form: str, manifest: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    """Write a manifest and arrays, whole or not at all."""
    with replacing(os.path.realpath(file_name(path))) as stream, zipfile.ZipFile(stream, "w") as archive:
        entries = {name: _write_array(archive, name, value) for name, value in arrays.items()}
        whole = {"format": form, "version": VERSION, **manifest, "entries": entries}
        text = json.dumps(whole, allow_nan=False, indent=1).encode()
        archive.writestr(zipfile.ZipInfo(MANIFEST), text)
        archive.comment = hashlib.sha256(text).hexdigest().encode()


def _write_array(archive, name, value) -> dict[str, Any]:
    with archive.open(zipfile.ZipInfo(name), "w", force_zip64=True) as entry:
        stream = _Hashing(entry)
        np.lib.format.write_array(stream, value, allow_pickle=False)
    return {
        "sha256": stream.sha256.hexdigest(),
        "bytes": stream.size,
        "dtype": value.dtype.str,
        "shape": list(value.shape),
    }


class _Hashing:
    """A stream to write to that keeps the digest and the size of what went through."""

    def __init__(self, stream):
        self.stream, self.sha256, self.size = stream, hashlib.sha256(), 0

    def write(self, data) -> int:
        self.sha256.update(data)
        self.size += len(data)
        return self.stream.write(data)


# -- reading -------------------------------------------------------------------------------------------


@contextmanager
def reading(path, form: str = MODEL) -> Iterator[tuple[dict[str, Any], Decoder]]:
    """Open a file and check its manifest; whatever is wrong with it becomes one sentence."""
    path = file_name(path)
    _check_kind(path, form)
    try:
        with open(path, "rb") as stream:
            if stream.read(4) != b"PK\x03\x04":
                raise Refused(f"is not {KINDS[form]} of manykernels.")
            with _open_archive(stream) as archive:
                manifest = _read_manifest(archive, form)
                # An array that appears twice is read once, and stays shared.
                read = cache(lambda name: _read_array(archive, name, manifest["entries"][name]))
                yield manifest, Decoder(read)
    except Refused as error:
        raise ValueError(f"{path} {error}") from None
    except Damaged as error:
        raise ValueError(f"{path} is truncated or damaged: {error}.") from None
    except _Broken as error:
        raise ValueError(f"{path} is truncated or damaged; copy or save it again.") from error
    except (OSError, MemoryError):  # no fault of the file
        raise
    except Exception as error:  # a file can hold anything
        raise ValueError(f"{path} cannot be opened: its manifest makes no sense.") from error


def _check_kind(path: str, form: str) -> None:
    """Refuse what is no file: to open a pipe would wait for somebody to write to it."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} does not exist.") from None
    except (OSError, ValueError) as error:  # a loop of links, a name that is too long
        raise ValueError(f"{path} cannot be opened: {getattr(error, 'strerror', None) or error}.") from None
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(f"{path} is a directory, not {KINDS[form]}.")
    if not stat.S_ISREG(mode):
        raise ValueError(f"{path} is a pipe or a device, not {KINDS[form]}; copy it to a file first.")


class _Broken(Exception):
    """The archive itself cannot be read."""


@contextmanager
def _unbroken() -> Iterator[None]:
    """Turn whatever reading a broken archive may raise into one kind of error; a disk's own errors stay."""
    try:
        yield
    except (Refused, MemoryError):
        raise
    except OSError as error:
        if error.errno not in (None, errno.EINVAL):  # what seeking to nowhere gives
            raise
        raise _Broken from error
    except Exception as error:
        raise _Broken from error


def _open_archive(stream) -> zipfile.ZipFile:
    """Open an archive, none of whose entries claims more bytes than the file has."""
    size = os.fstat(stream.fileno()).st_size
    with _unbroken():
        archive = zipfile.ZipFile(stream)
        if any(info.header_offset + info.compress_size > size for info in archive.infolist()):
            raise zipfile.BadZipFile("an entry is longer than the file")
        return archive


def _read_manifest(archive, form: str) -> dict[str, Any]:
    names = archive.namelist()
    not_ours = f"is not {KINDS[form]} of manykernels."
    if MANIFEST not in names:
        raise Refused(not_ours)
    text = _read_entry(archive, MANIFEST)
    try:
        manifest = json.loads(text)
    except ValueError:
        manifest = None
    if not isinstance(manifest, dict) or manifest.get("format") != form:
        raise Refused(not_ours)
    version = manifest.get("version")
    if type(version) is int and version > VERSION:
        raise Refused(
            f"has format version {version}, and this is manykernels with format version {VERSION}; "
            f"upgrade to manykernels {manifest.get('package')!s:.40} or newer."
        )
    signed = hashlib.sha256(text).hexdigest().encode() == archive.comment
    complete = sorted(names) == sorted([*manifest["entries"], MANIFEST])
    if version != VERSION or not signed or not complete:
        raise Refused("was altered after it was written; save the model again.")
    return manifest


def _read_entry(archive, name) -> bytes:
    info = archive.getinfo(name)
    # We store entries as they are: one that would grow on reading is not ours.
    require(info.compress_type == zipfile.ZIP_STORED, f"the compressed entry {brief(name)}")
    require(info.file_size == info.compress_size, f"the entry {brief(name)} with a wrong size")
    with _unbroken():
        return archive.read(name)


def _read_array(archive, name, declared) -> np.ndarray:
    data = _read_entry(archive, name)
    if len(data) != declared["bytes"] or hashlib.sha256(data).hexdigest() != declared["sha256"]:
        raise Refused(f"was altered after it was written: {name} is not as it was.")
    stream = io.BytesIO(data)
    version = np.lib.format.read_magic(stream)
    require(version in HEADERS, f"the array {name} in an unknown format")
    shape, _, dtype = HEADERS[version](stream)
    require(is_plain(dtype), f"the array {name} of an unknown kind")
    size = math.prod(shape) * dtype.itemsize  # checked before anything of that size is made
    found = (list(shape), dtype.str, size + stream.tell())
    expected = (declared["shape"], declared["dtype"], len(data))
    require(found == expected, f"the array {name} with a wrong size")
    stream.seek(0)
    array = np.lib.format.read_array(stream, allow_pickle=False)
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
