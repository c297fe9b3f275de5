"""Model files: one zip of a JSON manifest and plain arrays, which opens without running code.

The manifest is the model as a tree of plain values. Whatever JSON lacks is an object with a key ``"$"`` that
says what it is (a tuple, an array, a kernel, ...). Arrays are ``.npy`` entries beside it. Objects are rebuilt
from one table of this package's own classes: nothing is imported by a name found in a file, and nothing is
unpickled. Entries are stored uncompressed, so that no file is larger in memory than on disk; each has its
SHA-256 in the manifest, and the manifest's own is the comment of the archive.

To let a new class into model files, list it in the ``__all__`` of its folder; predictors and records are in
:func:`_table`.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import secrets
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import fields, is_dataclass
from functools import cache
from itertools import islice
from types import SimpleNamespace
from typing import Any

import numpy as np

FORMAT = "manykernels-model"
VERSION = 1
MANIFEST = "manifest.json"

#: Lists of numbers up to this length stay readable in the manifest; longer ones become arrays.
SHORT = 16
#: What an array may hold: booleans, numbers, text, dates.
KINDS = "biufcSUmM"
#: Configuration that scikit-learn keeps on an instance for routing arguments; it is no part of a model.
SKIPPED = {"_metadata_request"}


@cache
def _table() -> SimpleNamespace:
    """Return the classes that may appear in a file, by name: the only way from a name to a class."""
    import manykernels

    from . import families, kernels, solvers
    from .combination import Combination
    from .families.products import ProductSum
    from .losses import LOSSES
    from .predictors import Dual, Primal
    from .problem import Problem, Result, Scale, Trace

    axes = {"estimators": manykernels, "families": families, "kernels": kernels, "solvers": solvers}
    described = {
        f"{axis}.{name}": getattr(module, name)
        for axis, module in axes.items()
        for name in module.__all__
        if hasattr(getattr(module, name), "get_params")
    }
    described["kernels.ProductSum"] = ProductSum
    del described["kernels.Function"]  # a callable cannot be written
    records = {cls.__name__: cls for cls in (Combination, Problem, Result, Scale, Trace)}
    return SimpleNamespace(
        described=described,
        losses=dict(LOSSES),
        predictors={cls.kind: cls for cls in (Dual, Primal)},
        records=records,
        names={cls: name for name, cls in {**described, **records}.items()},
    )


# -- from objects to plain values ----------------------------------------------------------------------


class _Encoder:
    """Turns allowed objects into JSON values; arrays are put aside, to become entries."""

    def __init__(self):
        self.arrays: dict[str, np.ndarray] = {}
        # The objects themselves are kept as well, so that no id is used twice.
        self._seen: dict[int, tuple[int, Any]] = {}
        self._entries: dict[int, tuple[str, Any]] = {}

    def __call__(self, value: Any, where: str) -> Any:
        """Return `value` as JSON; `where` names it in an error."""
        from scipy.sparse import issparse

        if isinstance(value, np.generic):
            return self._scalar(value, where)
        if value is None or isinstance(value, bool | str | int):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else {"$": "float", "value": repr(float(value))}
        if isinstance(value, list | tuple):
            return self._sequence(value, where)
        if isinstance(value, Mapping):
            pairs = [[self(k, where), self(v, f"{where}[{k!r}]")] for k, v in value.items()]
            return {"$": "dict", "items": pairs}
        if isinstance(value, slice | range):
            parts = [self(v, where) for v in (value.start, value.stop, value.step)]
            return {"$": type(value).__name__, "items": parts}
        if isinstance(value, np.random.RandomState | np.random.Generator):
            return None  # a stream of random numbers is used up by a fit: the next one draws afresh
        if issparse(value):
            return self._sparse(value, where)
        if not isinstance(value, type) and hasattr(value, "__array__"):  # pandas' labels, too
            return self._array(np.asarray(value), where)
        return self._object(value, where)

    def _scalar(self, value, where):
        plain = value.item()  # a number wider than Python's stays what it is
        if value.dtype.kind not in "biufU" or isinstance(plain, np.generic):
            raise _cannot_hold(value, where)
        return {"$": "scalar", "dtype": value.dtype.str, "value": self(plain, where)}

    def _sequence(self, value, where):
        kind = type(value).__name__ if type(value) in (list, tuple) else "list"
        numbers = _as_numbers(value) if len(value) > SHORT else None
        if numbers is not None:
            return {"$": "numbers", "kind": kind, "values": self._array(numbers, where)}
        if len(value) > SHORT and all(type(v) is tuple for v in value):  # members of a large family
            numbers = _as_numbers([x for v in value for x in v])
            if numbers is not None:
                node = {"$": "tuples", "kind": kind, "values": self._array(numbers, where)}
                return {**node, "lengths": self._array(np.array([len(v) for v in value]), where)}
        items = [self(v, f"{where}[{i}]") for i, v in enumerate(value)]
        return items if kind == "list" else {"$": "tuple", "items": items}

    def _array(self, value, where):
        if value.dtype.kind in "OT":
            items = [self(v, where) for v in value.ravel().tolist()]
            return {"$": "objects", "shape": list(value.shape), "items": items}
        if value.dtype.kind not in KINDS or value.dtype.names:
            raise _cannot_hold(value, where)
        if id(value) not in self._entries:
            name = f"arrays/{len(self.arrays)}.npy"
            self.arrays[name] = value
            self._entries[id(value)] = (name, value)
        return {"$": "array", "entry": self._entries[id(value)][0]}

    def _sparse(self, value, where):
        from scipy.sparse import isspmatrix

        rows = value.tocsr()
        parts = {k: self._array(getattr(rows, k), where) for k in ("data", "indices", "indptr")}
        shape = list(map(int, rows.shape))
        return {"$": "csr", "matrix": isspmatrix(value), "shape": shape, **parts}

    def _object(self, value, where):
        """Encode one of our own objects; a second appearance refers to the first."""
        if id(value) in self._seen:
            return {"$": "same", "number": self._seen[id(value)][0]}
        table = _table()
        cls = type(value)
        if table.losses.get(getattr(value, "name", None)) is cls:
            return {"$": "loss", "name": value.name}
        if cls in table.predictors.values():
            arrays = {k: self(v, f"{where}.{k}") for k, v in value.to_arrays().items()}
            node = {"$": "predictor", "kind": value.kind, "arrays": arrays}
            node["combination"] = self(value.combination, where)
        elif cls in table.names and is_dataclass(cls):
            state = {f.name: self(getattr(value, f.name), f"{where}.{f.name}") for f in fields(cls)}
            node = {"$": "record", "class": table.names[cls], "fields": state}
        elif cls in table.names:
            node = {"$": "object", "class": table.names[cls], **self._description(value, where)}
        else:
            raise _cannot_hold(value, where)
        self._seen[id(value)] = (len(self._seen), value)
        return node

    def _description(self, value, where):
        params = value.get_params(deep=False)
        state = {k: v for k, v in vars(value).items() if k not in params and k not in SKIPPED}
        for name in _exposed(value):
            state.pop(name, None)
        prefix = "" if where == "model" else f"{where}."
        return {
            "params": {k: self(v, prefix + k) for k, v in params.items()},
            "state": {k: self(v, prefix + k) for k, v in state.items()},
        }


def _exposed(value) -> set[str]:
    """Return the names of the attributes that an estimator can set again from its result."""
    if not hasattr(value, "_expose"):
        return set()
    blank = object.__new__(type(value))
    blank.result_ = value.result_
    blank._expose()
    return set(vars(blank)) - {"result_"}


def _as_numbers(values) -> np.ndarray | None:
    """Return plain whole numbers, or plain floats, as an array that gives them back; None otherwise."""
    for kind, dtype in ((int, np.int64), (float, np.float64)):
        if all(type(v) is kind for v in values):
            with suppress(OverflowError):
                return np.array(values, dtype=dtype)
    return None


def _cannot_hold(value, where) -> ValueError:
    func = getattr(value, "func", value)
    if callable(func) and not hasattr(func, "get_params"):
        name = getattr(value, "name", None) or getattr(func, "__name__", type(func).__name__)
        return ValueError(
            f"{where} is the Python function {name}, which a model file cannot hold, as opening one runs no "
            "code; use a kernel such as RBF(1.0), or compute the kernel's matrix and pass "
            "kernels='precomputed'."
        )
    return ValueError(
        f"{where} is {value!r:.80}, and a model file cannot hold a {type(value).__name__}; use numbers, "
        "text, arrays, and the kernels, families, losses and solvers of manykernels."
    )


# -- from plain values to objects ----------------------------------------------------------------------


class _Decoder:
    """The way back; every class comes from the table."""

    def __init__(self, read_array):
        self._read_array = read_array
        self._seen: list[Any] = []

    def __call__(self, node: Any) -> Any:
        if isinstance(node, list):
            return [self(v) for v in node]
        if not isinstance(node, dict):
            return node
        return getattr(self, "_" + _one_of(node["$"], _TAGS))(node)

    def _float(self, node):
        return float(_one_of(node["value"], ("nan", "inf", "-inf")))

    def _scalar(self, node):
        dtype = np.dtype(node["dtype"])
        _require(dtype.kind in "biufU", "a number of an unknown kind")
        return dtype.type(self(node["value"]))

    def _numbers(self, node):
        values = self(node["values"]).tolist()
        return tuple(values) if node["kind"] == "tuple" else values

    def _tuples(self, node):
        values, lengths = self(node["values"]).tolist(), self(node["lengths"])
        fits = (lengths >= 0).all() and lengths.sum() == len(values)
        _require(fits, "a list whose length is wrong")
        rest = iter(values)
        found = [tuple(islice(rest, n)) for n in lengths.tolist()]
        return tuple(found) if node["kind"] == "tuple" else found

    def _tuple(self, node):
        return tuple(self(node["items"]))

    def _dict(self, node):
        return {self(k): self(v) for k, v in node["items"]}

    def _slice(self, node):
        return slice(*self(node["items"]))

    def _range(self, node):
        return range(*self(node["items"]))

    def _array(self, node):
        return self._read_array(node["entry"])

    def _objects(self, node):
        items, shape = self(node["items"]), node["shape"]
        _require(math.prod(shape) == len(items), "an array whose shape is wrong")
        out = np.empty(len(items), dtype=object)
        for i, item in enumerate(items):
            out[i] = item
        return out.reshape(shape)

    def _csr(self, node):
        from scipy.sparse import csr_array, csr_matrix

        parts = tuple(self(node[k]) for k in ("data", "indices", "indptr"))
        rows = (csr_matrix if node["matrix"] else csr_array)(parts, shape=tuple(node["shape"]))
        rows.check_format(full_check=True)  # compiled code follows these indices
        return rows

    def _loss(self, node):
        return _table().losses[_one_of(node["name"], _table().losses)]()

    def _same(self, node):
        return self._seen[node["number"]]

    def _predictor(self, node):
        cls = _table().predictors[_one_of(node["kind"], _table().predictors)]
        arrays = {k: self(v) for k, v in node["arrays"].items()}  # in the order of writing
        values = {f.name: arrays.pop(f.name, None) for f in fields(cls) if f.name != "combination"}
        _require(not arrays, "a predictor with unknown parts")
        return self._remember(cls(combination=self(node["combination"]), **values))

    def _record(self, node):
        cls = _table().records[_one_of(node["class"], _table().records)]
        return self._remember(cls(**{k: self(v) for k, v in node["fields"].items()}))

    def _object(self, node):
        cls = _table().described[_one_of(node["class"], _table().described)]
        params = {k: self(v) for k, v in node["params"].items()}
        for name in params:
            _one_of(name, cls._get_param_names())
        value = cls(**params)
        for name, state in node["state"].items():
            _require(
                name.isidentifier() and not name.startswith("__") and not hasattr(cls, name),
                f"the attribute {name!r:.40} of {cls.__name__}, which it must not set",
            )
            setattr(value, name, self(state))
        if hasattr(value, "_expose"):
            value._expose()
        return self._remember(value)

    def _remember(self, value):
        self._seen.append(value)
        return value


_TAGS = {name[1:] for name in vars(_Decoder) if name.startswith("_") and not name.startswith("__")}
_TAGS -= {"remember"}


class _Invalid(Exception):
    """What is wrong with a manifest: the end of the sentence "<path> holds ..."."""


def _require(condition, what: str) -> None:
    if not condition:
        raise _Invalid(what)


def _one_of(name, known):
    _require(isinstance(name, str) and name in known, f"{name!r:.60}, which this version does not know")
    return name


# -- files ---------------------------------------------------------------------------------------------


def save(model, path, *, metadata: Mapping[str, Any] | None = None) -> None:
    """Write a fitted model to a file that :func:`load` opens without running code.

    The file appears whole or not at all: an error leaves what was there before. A ``random_state`` that is a
    generator is written as None; everything else comes back as it was, and predictions to the last bit.

    Parameters
    ----------
    model : fitted estimator
    path : path of the file, overwritten if it exists
    metadata : dict, optional
        Anything to keep beside the model, see :func:`read_metadata`: numbers, text, arrays, and lists and
        dicts of these.

    Raises
    ------
    NotFittedError
        If there is nothing to write yet.
    ValueError
        If the model holds what a file cannot, a Python function used as a kernel above all.
    """
    from sklearn.utils.validation import check_is_fitted

    from . import __version__

    check_is_fitted(model)
    encode = _Encoder()
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "package": __version__,
        "metadata": encode(dict(metadata or {}), "metadata"),
        "model": encode(model, "model"),
    }
    with _replacing(os.path.realpath(path)) as stream, zipfile.ZipFile(stream, "w") as archive:
        entries = {name: _write_array(archive, name, value) for name, value in encode.arrays.items()}
        text = json.dumps({**manifest, "entries": entries}, allow_nan=False, indent=1).encode()
        archive.writestr(zipfile.ZipInfo(MANIFEST), text)
        archive.comment = hashlib.sha256(text).hexdigest().encode()


def load(path):
    """Open a model file written by ``model.save``.

    Nothing in the file is executed or imported, and no pickle is read.

    Parameters
    ----------
    path : path of the file

    Returns
    -------
    fitted estimator

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is not a model file, is truncated or altered, or was made by a newer version.
    """
    from sklearn.utils.validation import check_is_fitted

    with _reading(path) as (archive, manifest):
        arrays: dict[str, np.ndarray] = {}

        def read_array(name):
            if name not in arrays:
                arrays[name] = _read_array(archive, name, manifest["entries"][name])
            return arrays[name]

        decode = _Decoder(read_array)
        decode(manifest["metadata"])  # shared objects are counted from here
        model = decode(manifest["model"])
        _require(_table().names.get(type(model), "").startswith("estimators."), "no model")
        check_is_fitted(model)
        return model


def read_metadata(path) -> dict[str, Any]:
    """Return what was given to :func:`save` as `metadata`, without reading the model."""
    with _reading(path) as (archive, manifest):
        decode = _Decoder(lambda name: _read_array(archive, name, manifest["entries"][name]))
        return decode(manifest["metadata"])


@contextmanager
def _replacing(path: str) -> Iterator[Any]:
    """Open a temporary file that takes the place of `path` when all went well."""
    folder, name = os.path.split(path)
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"The directory {folder} does not exist; create it before saving {name}.")
    if os.path.isdir(path):
        raise IsADirectoryError(f"{path} is a directory; name a file.")
    temporary = os.path.join(folder, f".{name}.{secrets.token_hex(6)}.tmp")
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


@contextmanager
def _reading(path) -> Iterator[tuple[zipfile.ZipFile, dict[str, Any]]]:
    """Open a file and check its manifest; whatever goes wrong becomes one sentence."""
    path = os.fspath(path)
    if not os.path.exists(path):
        raise FileNotFoundError(f"{path} does not exist.")
    if os.path.isdir(path):
        raise IsADirectoryError(f"{path} is a directory, not a model file.")
    with open(path, "rb") as stream:
        if stream.read(4) != b"PK\x03\x04":
            raise ValueError(f"{path} is not a model file of manykernels.")
        try:
            with zipfile.ZipFile(stream) as archive:
                yield archive, _read_manifest(archive, path)
        except _Refused as error:
            raise ValueError(str(error)) from None
        except _Invalid as error:
            raise ValueError(f"{path} cannot be opened: it holds {error}.") from error
        except (zipfile.BadZipFile, EOFError) as error:
            raise ValueError(f"{path} is truncated or damaged; copy or save it again.") from error
        except (
            ArithmeticError,
            AttributeError,
            LookupError,
            RuntimeError,
            TypeError,
            ValueError,
        ) as error:
            raise ValueError(f"{path} cannot be opened: its manifest makes no sense.") from error


class _Refused(Exception):
    """A whole sentence for the user."""


def _read_manifest(archive, path) -> dict[str, Any]:
    if MANIFEST not in archive.namelist():
        raise _Refused(f"{path} is not a model file of manykernels.")
    text = _read_entry(archive, MANIFEST)
    try:
        manifest = json.loads(text)
    except ValueError:
        manifest = None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise _Refused(f"{path} is not a model file of manykernels.")
    version = manifest.get("version")
    if type(version) is int and version > VERSION:
        raise _Refused(
            f"{path} has format version {version}, and this is manykernels with format version {VERSION}; "
            f"upgrade to manykernels {manifest.get('package')!s:.40} or newer."
        )
    digest = hashlib.sha256(text).hexdigest().encode()
    names = sorted(archive.namelist())
    whole = version == VERSION and digest == archive.comment
    if not whole or names != sorted([*manifest["entries"], MANIFEST]):
        raise _Refused(f"{path} was altered after it was written; save the model again.")
    return manifest


def _read_entry(archive, name) -> bytes:
    info = archive.getinfo(name)
    # We store entries as they are: one that would grow on reading is not ours.
    _require(info.compress_type == zipfile.ZIP_STORED, f"the compressed entry {name!r:.60}")
    _require(info.file_size == info.compress_size, f"the entry {name!r:.60} with a wrong size")
    return archive.read(name)


def _read_array(archive, name, declared) -> np.ndarray:
    data = _read_entry(archive, name)
    if len(data) != declared["bytes"] or hashlib.sha256(data).hexdigest() != declared["sha256"]:
        raise _Refused(f"{archive.fp.name} was altered after it was written: {name} is not as it was.")
    stream = io.BytesIO(data)
    version = np.lib.format.read_magic(stream)
    _require(version in ((1, 0), (2, 0)), f"the array {name} in an unknown format")
    formats = {1: np.lib.format.read_array_header_1_0, 2: np.lib.format.read_array_header_2_0}
    shape, _, dtype = formats[version[0]](stream)
    _require(dtype.kind in KINDS and not dtype.names, f"the array {name} of an unknown kind")
    size = math.prod(shape) * dtype.itemsize  # checked before anything of that size is made
    found = (list(shape), dtype.str, size + stream.tell())
    expected = (declared["shape"], declared["dtype"], len(data))
    _require(found == expected, f"the array {name} with a wrong size")
    stream.seek(0)
    return np.lib.format.read_array(stream, allow_pickle=False)
