"""Files with something wrong in them: bytes that changed on the way, and archives that were altered and signed anew."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile

import numpy as np

#: What a number in a file may have become.
WILD = (
    0,
    -1,
    1,
    2,
    7,
    2**16,
    2**31,
    10**15,
    10**18,
    -(10**18),
    0.5,
    1e-320,
    1e308,
    -1e308,
    True,
    None,
    "x",
    [],
    {},
)
#: What numbers of an array may have become.
EXTREME = (0.0, -1.0, 1.0, 3.0, 255.0, 2.0**16, 2.0**31, 2.0**53, 1e300, -1e300, np.nan, np.inf, -np.inf)


#: The parts of a manifest that are altered.
PARTS = ("model", "state", "identity", "seed")


def mutate(data: bytes, rng: np.random.Generator, parts: tuple[str, ...] = PARTS) -> bytes:
    """Return the bytes of an archive with one to three things wrong; in other parts, numbers of arrays stay."""
    if parts is PARTS and rng.random() < 0.2:
        return _broken(bytearray(data), rng)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(entries.pop("manifest.json"))
    arrays = {name: np.load(io.BytesIO(value), allow_pickle=False) for name, value in entries.items()}
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        if parts is PARTS and arrays and rng.random() < 0.6:
            _alter_arrays(arrays, rng)
        else:
            _alter_tree(manifest, rng, parts)
    return signed(manifest, arrays)


def exchange(data: bytes, rng: np.random.Generator) -> bytes:
    """Return the bytes of an archive in which one array is another one, of the same file, or lacks rows or columns.

    Arrays of whole numbers, which are places and sizes, are moved as well.
    """
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(entries.pop("manifest.json"))
    arrays = {name: np.load(io.BytesIO(value), allow_pickle=False) for name, value in entries.items()}
    name, other = (str(v) for v in rng.choice(sorted(arrays), size=2))
    array = arrays[name]
    ways = [lambda a: arrays[other]]
    if array.ndim:
        ways += [lambda a: a[:1], lambda a: a[:0], lambda a: a[:-1], lambda a: a[::-1], lambda a: a.T]
    if array.ndim > 1:
        ways += [lambda a: a[:, :1], lambda a: a[:, :0], lambda a: a[:, :-1]]
    if array.dtype.kind in "iu":
        ways += [lambda a, by=by: (a.astype(np.int64) + by).astype(a.dtype) for by in (1, -1, 1000, 2**20)]
    arrays[name] = np.ascontiguousarray(ways[int(rng.integers(len(ways)))](array))
    return signed(manifest, arrays)


def _broken(data: bytearray, rng) -> bytes:
    """Return bytes that were lost, flipped or exchanged on the way."""
    kind, n = rng.integers(4), len(data)
    if kind == 0:
        return bytes(data[: rng.integers(n)])
    if kind == 1:
        for place in rng.integers(n, size=rng.integers(1, 9)):
            data[place] ^= int(rng.integers(1, 256))
        return bytes(data)
    # The directory of an archive is at its end, and has the places and lengths of all entries.
    first = rng.integers(n) if kind == 2 else max(0, n - int(rng.integers(1, 2000)))
    length = int(rng.integers(1, 64))
    data[first : first + length] = rng.bytes(len(data[first : first + length]))
    return bytes(data)


def signed(manifest, arrays) -> bytes:
    """Return an archive whose digests are those of what it holds."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        entries = manifest.get("entries")
        for name, array in arrays.items():
            stream = io.BytesIO()
            np.save(stream, array)
            data = stream.getvalue()
            archive.writestr(zipfile.ZipInfo(name), data)
            if isinstance(entries, dict):
                digest, shape = hashlib.sha256(data).hexdigest(), list(array.shape)
                entries[name] = {
                    "sha256": digest,
                    "bytes": len(data),
                    "dtype": array.dtype.str,
                    "shape": shape,
                }
        text = json.dumps(manifest).encode()
        archive.writestr(zipfile.ZipInfo("manifest.json"), text)
        archive.comment = hashlib.sha256(text).hexdigest().encode()
    return out.getvalue()


def _alter_arrays(arrays, rng) -> None:
    name = rng.choice(sorted(arrays))
    array, kind = arrays[name], rng.integers(6)
    if kind == 0:
        other = rng.choice(sorted(arrays))
        arrays[name], arrays[other] = arrays[other], array
    elif kind == 1 and array.ndim:
        axis = int(rng.integers(array.ndim))
        arrays[name] = array.take(np.arange(int(rng.integers(array.shape[axis] + 1))), axis=axis)
    elif kind == 2 and array.ndim:
        axis = int(rng.integers(array.ndim))
        arrays[name] = np.concatenate([array, array], axis=axis)
    elif kind == 3:
        kinds = ("<f8", "<f4", "<i8", "<u2", "|b1", "|i1")
        with np.errstate(all="ignore"):
            arrays[name] = array.astype(rng.choice(kinds)) if array.dtype.kind in "biuf" else array[:0]
    elif kind == 4:
        arrays[name] = array.reshape(-1) if array.ndim > 1 else array[None]
    else:
        arrays[name] = _with_extremes(array, rng)


def _with_extremes(array, rng) -> np.ndarray:
    """Return an array with a number, or all of them, replaced."""
    out = array.copy()
    if not out.size or out.dtype.kind not in "iuf":
        return out
    with np.errstate(all="ignore"):
        value = np.array(rng.choice(EXTREME)).astype(out.dtype)
    if rng.random() < 0.3:
        out[...] = value
    else:
        out.flat[int(rng.integers(out.size))] = value
    return out


def _places(node, found) -> list:
    """Return all places of a tree, as pairs of what holds a value and its key."""
    keys = node if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
    for key in keys:
        found.append((node, key))
        _places(node[key], found)
    return found


def _alter_tree(manifest, rng, names) -> None:
    parts = {name: manifest[name] for name in names if name in manifest}
    places = _places(parts, [])
    numbers = [(n, k) for n, k in places if isinstance(n[k], int | float) and not isinstance(n[k], bool)]
    if numbers and rng.random() < 0.5:
        places = numbers
    holder, key = places[int(rng.integers(len(places)))]
    kind = rng.integers(4)
    if kind == 0 and isinstance(holder, dict) and holder is not parts:
        del holder[key]
    elif kind == 1:
        other, place = places[int(rng.integers(len(places)))]
        holder[key], other[place] = json.loads(json.dumps([other[place], holder[key]]))
    else:
        holder[key] = WILD[int(rng.integers(len(WILD)))]
    manifest.update(parts)
