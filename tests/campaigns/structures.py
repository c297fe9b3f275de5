"""A second source of files with something wrong in them, which knows how they are built.

Where ``mutations.py`` throws dice over bytes and numbers, this one takes the structure of the format part by part: the
records of the zip archive and the places between them, the headers of arrays, every scalar and every key of the
manifest by its type, and parts of models of another kind in the places of their like.
"""

from __future__ import annotations

import copy
import hashlib
import io
import json
import struct
import zipfile

import numpy as np

#: Marks of the records of a zip archive: an entry, its line in the directory, the end of the directory.
ENTRY, LINE, END = b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"
#: Fields of these records that are numbers: where, how many bytes.
FIELDS = {
    ENTRY: [(4, 2), (6, 2), (8, 2), (14, 4), (18, 4), (22, 4), (26, 2), (28, 2)],
    LINE: [(8, 2), (10, 2), (16, 4), (20, 4), (24, 4), (28, 2), (30, 2), (32, 2), (34, 2), (38, 4), (42, 4)],
    END: [(4, 2), (6, 2), (8, 2), (10, 2), (12, 4), (16, 4), (20, 2)],
}
TEXTS = (
    "",
    "auto",
    "none",
    "a" * 5000,
    "é\ud800",
    "0",
    "../../x",
    "__class__",
    "precomputed",
    "solvers.LpNorm",
)
TYPES = ("|O", "<M8[ns]", ">f8", "<f2", "<c16", "|S5", "<U3", "<g", "|V8", "<i1", "<u8", "[('a', '<f8')]")


def restructure(data: bytes, other: bytes, rng: np.random.Generator) -> bytes:
    """Return the bytes of an archive with one thing wrong; `other` is one of another kind, for exchange."""
    kinds = (_archive, _boundary, _header, _scalar, _key, _graft, _values, _text)
    return kinds[rng.choice(len(kinds), p=[0.1, 0.05, 0.1, 0.25, 0.1, 0.15, 0.2, 0.05])](data, other, rng)


# -- archives and their records --------------------------------------------------------------------------


def _records(data: bytes) -> list[tuple[bytes, int]]:
    """Return the records of an archive: the mark and the place of each."""
    found = []
    for mark in FIELDS:
        place = data.find(mark)
        while place >= 0:
            found.append((mark, place))
            place = data.find(mark, place + 1)
    return found


def _archive(data: bytes, other: bytes, rng) -> bytes:
    """Return an archive with another number in one of its records, or with entries that it must not have."""
    if rng.random() < 0.3:
        return _odd_entry(data, rng)
    out, records = bytearray(data), _records(data)
    mark, place = records[int(rng.integers(len(records)))]
    where, size = FIELDS[mark][int(rng.integers(len(FIELDS[mark])))]
    old = int.from_bytes(data[place + where : place + where + size], "little")
    most = 256**size - 1
    wild = (
        0,
        1,
        most,
        most - 1,
        most // 2,
        (old + 1) % (most + 1),
        max(old - 1, 0),
        min(2 * old, most),
        8,
        99,
    )
    new = wild[int(rng.integers(len(wild)))]
    out[place + where : place + where + size] = new.to_bytes(size, "little")
    return bytes(out)


def _odd_entry(data: bytes, rng) -> bytes:
    """Return an archive with an entry twice, one too many, or compressed ones that would grow."""
    manifest, arrays = opened(data)
    out, kind = io.BytesIO(), rng.integers(4)
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED if kind == 2 else zipfile.ZIP_STORED) as archive:
        for name, entry in arrays.items():
            archive.writestr(name, entry)
        if kind == 0 and arrays:
            archive.writestr(str(rng.choice(sorted(arrays))), b"twice")
        if kind == 1:
            archive.writestr(str(rng.choice(["../out.npy", "/abs.npy", "arrays/999.npy", "x" * 60000])), b"")
        if kind == 3:  # grows a thousandfold
            name = next(iter(arrays), "arrays/0.npy")
            archive.writestr(name, b"\0" * 10**7, zipfile.ZIP_DEFLATED)
        text = json.dumps(manifest).encode()
        archive.writestr("manifest.json", text)
        archive.comment = hashlib.sha256(text).hexdigest().encode()
    return out.getvalue()


def _boundary(data: bytes, other: bytes, rng) -> bytes:
    """Return an archive cut off or torn open where one record ends and the next begins, or joined to another."""
    places = sorted({place + shift for _, place in _records(data) for shift in (-1, 0, 1, 4, 30)})
    place = places[int(rng.integers(len(places)))]
    return (
        data[:place],
        data[place:],
        data[:place] + b"\0" * int(rng.integers(1, 40)) + data[place:],
        data[:place] + other[place:],
        data + data,
        data + other,
        data + b"\n",
    )[rng.integers(7)]


# -- arrays ------------------------------------------------------------------------------------------------


def opened(data: bytes) -> tuple[dict, dict[str, bytes]]:
    """Return the manifest and the entries of an archive."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    return json.loads(entries.pop("manifest.json")), entries


def closed(manifest, entries: dict[str, bytes], text: bytes | None = None) -> bytes:
    """Return an archive of a manifest and entries whose digests and sizes are right."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, entry in entries.items():
            archive.writestr(zipfile.ZipInfo(name), entry)
            known = manifest.get("entries") if isinstance(manifest, dict) else None
            if isinstance(known, dict) and isinstance(known.get(name), dict):
                known[name] |= {"sha256": hashlib.sha256(entry).hexdigest(), "bytes": len(entry)}
        text = json.dumps(manifest).encode() if text is None else text
        archive.writestr(zipfile.ZipInfo("manifest.json"), text)
        archive.comment = hashlib.sha256(text).hexdigest().encode()
    return out.getvalue()


def _declared(manifest, name, array) -> None:
    manifest["entries"][name] |= {"dtype": array.dtype.str, "shape": list(array.shape)}


def _header(data: bytes, other: bytes, rng) -> bytes:
    """Return an archive in which the header of an array says something else than the truth."""
    manifest, entries = opened(data)
    if not entries:
        return data
    name = str(rng.choice(sorted(entries)))
    array = np.load(io.BytesIO(entries[name]))
    shape, descr, order = array.shape, array.dtype.str, False
    match rng.integers(4):
        case 0:
            huge = int(rng.choice([0, 1, 2**31, 2**40, 2**62, 10**18]))
            shape = ((huge,), (huge, 0), (-1,), (*array.shape, 1), array.shape[::-1], (0, 2**62))[
                rng.integers(6)
            ]
        case 1:
            descr = str(rng.choice(TYPES))
        case 2:
            order = True
        case _:
            return closed(manifest, entries | {name: _torn(entries[name], rng)})
    text = f"{{'descr': {descr if descr[0] == '[' else repr(descr)}, 'fortran_order': {order}, 'shape': {shape!r}, }}"
    body = array.tobytes()
    entries[name] = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text) + 1) + text.encode() + b"\n" + body
    manifest["entries"][name] |= {"dtype": descr, "shape": list(shape)}
    return closed(manifest, entries)


def _torn(entry: bytes, rng) -> bytes:
    """Return an array's bytes with the beginning, the end or the number of the format wrong."""
    return (
        entry[: rng.integers(len(entry))],
        entry[int(rng.integers(1, 20)) :],
        entry[:6] + bytes([rng.integers(256), rng.integers(256)]) + entry[8:],
        entry[:8] + b"\xff\xff" + entry[10:],
        entry + b"\0" * int(rng.integers(1, 100)),
        b"",
    )[rng.integers(6)]


def _values(data: bytes, other: bytes, rng) -> bytes:
    """Return an archive with the numbers of one array altered in a way that its type and shape survive."""
    manifest, entries = opened(data)
    name = str(rng.choice(sorted(entries)))
    array = np.load(io.BytesIO(entries[name]))
    with np.errstate(all="ignore"):
        array = _altered(array, rng)
    if rng.random() < 0.15:
        array = np.ascontiguousarray(array.T)
    stream = io.BytesIO()
    np.save(stream, array)
    _declared(manifest, name, array)
    return closed(manifest, entries | {name: stream.getvalue()})


def _altered(array: np.ndarray, rng) -> np.ndarray:
    if not array.size or array.dtype.kind not in "iufb":
        return array
    flat = array.ravel()
    most = np.iinfo(array.dtype).max if array.dtype.kind in "iu" else 1e308
    some = rng.random(array.size) < rng.choice([0.02, 0.5, 1.0])
    some[rng.integers(array.size)] = True
    changes = (
        lambda: rng.permutation(flat),
        lambda: np.sort(flat)[::-1],
        lambda: np.where(some, flat + 1, flat),
        lambda: np.where(some, flat - 1, flat),
        lambda: np.where(some, -flat if array.dtype.kind != "b" else ~flat, flat),
        lambda: np.where(some, most, flat),
        lambda: np.where(some, flat * 10.0 ** rng.integers(-300, 300), flat),
        lambda: np.where(some, 0, flat),
        lambda: np.where(some, np.nan if array.dtype.kind == "f" else flat.max(), flat),
        lambda: np.roll(flat, 1),
        lambda: rng.integers(0, 256, array.nbytes, dtype=np.uint8).view(array.dtype),
    )
    changed = changes[rng.integers(len(changes))]()
    return np.asarray(changed).astype(array.dtype).reshape(array.shape)


# -- the manifest ------------------------------------------------------------------------------------------


def _places(node, path=()) -> list[tuple]:
    """Return the paths of all scalars and all branches of a tree."""
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [path, *(p for key, value in items for p in _places(value, (*path, key)))]


def _at(tree, path):
    for key in path:
        tree = tree[key]
    return tree


def _chosen(tree, rng, wanted) -> tuple:
    """Return the path of a value of a kind, each depth of the tree being as likely."""
    paths = [p for p in _places(tree) if p and wanted(p, _at(tree, p))]
    depths = sorted({len(p) for p in paths})
    depth = depths[int(rng.integers(len(depths)))]
    deep = [p for p in paths if len(p) == depth]
    return deep[int(rng.integers(len(deep)))]


def _scalar(data: bytes, other: bytes, rng) -> bytes:
    """Return an archive in which one scalar of the manifest is another one of its type, or nearly."""
    manifest, entries = opened(data)
    path = _chosen(manifest, rng, lambda p, v: not isinstance(v, dict | list) and p[0] != "entries")
    _at(manifest, path[:-1])[path[-1]] = _near(_at(manifest, path), manifest, rng)
    return closed(manifest, entries)


def _near(value, manifest, rng):
    if isinstance(value, bool) or value is None:
        return (not value, None, 0, 1, "auto", 0.5)[rng.integers(6)]
    if isinstance(value, int):
        wild = (
            value + 1,
            value - 1,
            -value,
            2 * value + 1,
            0,
            2**31,
            2**63,
            -(2**63),
            10**400,
            float(value),
            16,
        )
        return wild[rng.integers(len(wild))]
    if isinstance(value, float):
        wild = (-value, 0.0, 1 / value if value else 1.0, value * 1e300, 5e-324, 1.7e308, int(value), "nan")
        return wild[rng.integers(len(wild))]
    texts = [_at(manifest, p) for p in _places(manifest)]
    texts = [t for t in texts if isinstance(t, str) and len(t) < 40]
    wild = (*TEXTS, value[:-1], value + value, value.upper(), *rng.choice(texts, size=8).tolist())
    return wild[rng.integers(len(wild))]


def _key(data: bytes, other: bytes, rng) -> bytes:
    """Return an archive in which one key of the manifest is gone, has another name, or holds another's value."""
    manifest, entries = opened(data)
    path = _chosen(manifest, rng, lambda p, v: isinstance(p[-1], str) and p[0] != "entries")
    holder, key = _at(manifest, path[:-1]), path[-1]
    match rng.integers(5):
        case 0:
            del holder[key]
        case 1:
            holder[str(rng.choice(["$", "x", key + "_", "__class__", "params", "_expose", "1"]))] = (
                holder.pop(key)
            )
        case 2:
            holder[key] = copy.deepcopy(holder[str(rng.choice(sorted(holder)))])
        case 3:
            holder["x"] = 1
        case _:
            holder[key] = [holder[key]] if rng.random() < 0.5 else {"$": "tuple", "items": [holder[key]]}
    return closed(manifest, entries)


def _graft(data: bytes, other: bytes, rng) -> bytes:
    """Return an archive with a part of another model in the place of one like it, and its arrays."""
    manifest, entries = opened(data)
    strange, theirs = opened(other)
    if rng.random() < 0.3 and entries and theirs:  # one array
        name = str(rng.choice(sorted(entries)))
        entries[name] = theirs[str(rng.choice(sorted(theirs)))]
        _declared(manifest, name, np.load(io.BytesIO(entries[name])))
        return closed(manifest, entries)

    def like(p, v):
        return isinstance(v, dict) and p[0] not in ("entries", "metadata", "identity")

    path = _chosen(manifest, rng, like)
    key, tag = path[-1], _at(manifest, path).get("$")
    found = [
        p
        for p in _places(strange)
        if p and like(p, _at(strange, p)) and (p[-1] == key or _at(strange, p).get("$") == tag)
    ]
    if not found:
        return data
    part = copy.deepcopy(_at(strange, found[int(rng.integers(len(found)))]))
    for p in _places(part):
        node = _at(part, p)
        if isinstance(node, dict) and node.get("$") == "array" and node["entry"] in theirs:
            name = f"arrays/o{node['entry'].split('/')[-1]}"
            entries[name] = theirs[node["entry"]]
            manifest["entries"][name] = copy.deepcopy(strange["entries"][node["entry"]])
            node["entry"] = name
    _at(manifest, path[:-1])[key] = part
    return closed(manifest, entries)


def _text(data: bytes, other: bytes, rng) -> bytes:
    """Return an archive whose manifest is text that JSON readers stumble over."""
    manifest, entries = opened(data)
    text = json.dumps(manifest)
    deep = int(rng.choice([100, 10**5]))
    texts = (
        text[: rng.integers(len(text))],
        "[" * deep + "]" * deep,
        text.replace("{", '{"$": ' * deep, 1) + "}" * deep,
        text.replace("1", "9" * 5000, 1),
        text.replace("0", "NaN", 1),
        text.replace('"', "'", 2),
        "\ufeff" + text,
        text + text,
        "null",
        "{}",
        '"x"',
        text.replace(",", ', "format": 1,', 1),
        text.replace('"model"', '"model": null, "model"', 1),
        text.replace("model", "\\ud800", 1),
    )
    return closed(manifest, entries, texts[rng.integers(len(texts))].encode("utf-8", "surrogatepass"))
