"""A model as a tree of JSON values, and back.

Whatever JSON lacks is an object with a key ``"$"`` that says what it is (a tuple, an array, a kernel, ...).
Arrays are not in the tree, which only names them. Objects are rebuilt from the table of
:mod:`manykernels.persistence.classes`, and an object that appears twice is written once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import fields
from itertools import islice
from typing import Any

import numpy as np
from scipy.sparse import csr_array, csr_matrix, issparse, isspmatrix

from .._util.shapes import FLAGS, REAL, WHOLE, Damaged, Stored, check_arrays, demand
from .._util.text import brief
from .classes import CLASSES, Kind, class_of, name_of

#: Lists of numbers up to this length stay readable in the tree; longer ones become arrays.
SHORT = 16
#: Longest range: there is no file that is longer for it.
LONGEST_RANGE = 2**24
#: What an array may hold: booleans, numbers, text, dates.
ARRAY_KINDS = "biufcSUmM"
#: What a NumPy scalar may be: a boolean, a number, text.
SCALAR_KINDS = "biufU"
#: By what an object says whether its parts and parameters make sense.
CHECKS = ("check_stored", "check_params", "check")
#: What is no part of a model: what scikit-learn keeps on an instance for routing arguments and for callbacks, and what
#: ``feature_importances_`` is computed from, as a file holds no training rows but those it predicts by.
SKIPPED = {"_metadata_request", "_skl_callbacks", "_background", "_importances"}
#: Parameters that had another name in model files of earlier versions, by class; those that are no more have none.
RENAMED: dict[str, dict[str, str | None]] = {
    "solvers.Blockwise": {"holdout": "validation_fraction", "tune_C": None}
}


def is_plain(dtype: np.dtype) -> bool:
    """Whether an array of this type holds plain values, and no objects or fields."""
    return dtype.kind in ARRAY_KINDS and not dtype.names


# -- from objects to plain values ----------------------------------------------------------------------


class Encoder:
    """Turns allowed objects into JSON values; arrays are put aside in `arrays`, by name."""

    def __init__(self):
        self.arrays: dict[str, np.ndarray] = {}
        # The objects themselves are kept as well, so that no id is used twice.
        self._seen: dict[int, tuple[int, Any]] = {}
        self._entries: dict[int, tuple[str, Any]] = {}

    def __call__(self, value: Any, where: str) -> Any:
        """Return `value` as JSON; `where` names it in an error."""
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
        if value.dtype.kind not in SCALAR_KINDS or isinstance(plain, np.generic):
            raise _cannot_hold(value, where)
        return {"$": "scalar", "dtype": value.dtype.str, "value": self(plain, where)}

    def _sequence(self, value, where):
        kind = "tuple" if type(value) is tuple else "list"
        if len(value) > SHORT:
            numbers = _as_numbers(value)
            if numbers is not None:
                return {"$": "numbers", "kind": kind, "values": self._array(numbers, where)}
            if all(type(v) is tuple for v in value):  # members of a large family
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
        if not is_plain(value.dtype):
            raise _cannot_hold(value, where)
        if id(value) not in self._entries:
            name = f"arrays/{len(self.arrays)}.npy"
            self.arrays[name] = value
            self._entries[id(value)] = (name, value)
        return {"$": "array", "entry": self._entries[id(value)][0]}

    def _sparse(self, value, where):
        rows = value.tocsr()
        parts = {k: self._array(getattr(rows, k), where) for k in ("data", "indices", "indptr")}
        shape = list(map(int, rows.shape))
        return {"$": "csr", "matrix": isspmatrix(value), "shape": shape, **parts}

    def _object(self, value, where):
        """Encode one of our own objects; a second appearance refers to the first."""
        if id(value) in self._seen:
            return {"$": "same", "number": self._seen[id(value)][0]}
        known = name_of(type(value))
        if known is None:
            raise _cannot_hold(value, where)
        kind, name = known
        if kind == "loss":
            params = {k: self(v, f"{where}.{k}") for k, v in value.get_params().items()}
            return {"$": "loss", "name": name, **({"params": params} if params else {})}
        if kind == "predictor":
            arrays = {k: self(v, f"{where}.{k}") for k, v in value.to_arrays().items()}
            node = {"$": "predictor", "kind": name, "arrays": arrays}
            node["combination"] = self(value.combination, where)
        elif kind == "record":
            state = {f.name: self(getattr(value, f.name), f"{where}.{f.name}") for f in fields(value)}
            node = {"$": "record", "class": name, "fields": state}
        else:
            node = {"$": "object", "class": name, **self._description(value, where)}
        self._seen[id(value)] = (len(self._seen), value)
        return node

    def _description(self, value, where):
        params = value.get_params(deep=False)
        left_out = {*params, *SKIPPED, *_exposed(value)}
        prefix = "" if where == "model" else f"{where}."
        return {
            "params": {k: self(v, prefix + k) for k, v in params.items()},
            "state": {k: self(v, prefix + k) for k, v in vars(value).items() if k not in left_out},
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
        f"{where} is {brief(value)}, and a model file cannot hold a {type(value).__name__}; use numbers, "
        "text, arrays, and the kernels, families, losses and solvers of manykernels."
    )


# -- from plain values to objects ----------------------------------------------------------------------


class Refused(Exception):
    """Why a file is not opened: the rest of a sentence that begins with its path."""


def require(condition, what: str) -> None:
    """Refuse a file that holds `what`, unless the condition is met."""
    if not condition:
        raise Refused(f"cannot be opened: it holds {what}.")


class Decoder:
    """The way back: a value tagged ``{"$": "tuple"}`` is made by ``_make_tuple``, and so on.

    Parameters
    ----------
    read_array : function from the name of an array to the array
    """

    def __init__(self, read_array: Callable[[str], np.ndarray]):
        self._read_array = read_array
        self._seen: list[Any] = []

    def __call__(self, node: Any) -> Any:
        """Return the value that `node` stands for; values are to be asked for in the order of writing."""
        if isinstance(node, list):
            return [self(v) for v in node]
        if not isinstance(node, dict):
            return node
        make: Any = getattr(self, f"_make_{node['$']}", None)
        require(make is not None, _unknown(node["$"]))
        return make(node)

    def _make_float(self, node):
        return float(_known(node["value"], ("nan", "inf", "-inf")))

    def _make_scalar(self, node):
        dtype = np.dtype(node["dtype"])
        require(dtype.kind in SCALAR_KINDS, "a number of an unknown kind")
        return dtype.type(self(node["value"]))

    def _make_numbers(self, node):
        return _sequence(node["kind"], self(node["values"]).tolist())

    def _make_tuples(self, node):
        values, lengths = self(node["values"]).tolist(), self(node["lengths"])
        fits = (lengths >= 0).all() and lengths.sum() == len(values)
        require(fits, "a list whose length is wrong")
        rest = iter(values)
        return _sequence(node["kind"], [tuple(islice(rest, n)) for n in lengths.tolist()])

    def _make_tuple(self, node):
        return tuple(self(node["items"]))

    def _make_dict(self, node):
        return {self(k): self(v) for k, v in node["items"]}

    def _make_slice(self, node):
        return slice(*self(node["items"]))

    def _make_range(self, node):
        value = range(*self(node["items"]))
        require(len(value) <= LONGEST_RANGE, "a range that is too long")
        return value

    def _make_array(self, node):
        return self._read_array(node["entry"])

    def _make_objects(self, node):
        items, shape = self(node["items"]), node["shape"]
        require(math.prod(shape) == len(items), "an array whose shape is wrong")
        out = np.empty(len(items), dtype=object)
        for i, item in enumerate(items):  # one by one, as an item may be a list
            out[i] = item
        return out.reshape(shape)

    def _make_csr(self, node):
        parts = {k: self(node[k]) for k in ("data", "indices", "indptr")}
        shape = tuple(node["shape"])
        _check_csr(parts, shape)
        return (csr_matrix if node["matrix"] else csr_array)(tuple(parts.values()), shape=shape)

    def _make_loss(self, node):
        cls = _look_up("loss", node["name"])
        known = cls._get_param_names()
        loss = cls(**{_known(k, known): self(v) for k, v in node.get("params", {}).items()})
        _checked(loss.check_params)
        return loss

    def _make_same(self, node):
        return self._seen[node["number"]]

    def _make_predictor(self, node):
        cls = _look_up("predictor", node["kind"])
        arrays = {k: self(v) for k, v in node["arrays"].items()}
        values = {f.name: arrays.pop(f.name, None) for f in fields(cls) if f.name != "combination"}
        require(not arrays, "a predictor with unknown parts")
        return self._remember(cls(combination=self(node["combination"]), **values))

    def _make_record(self, node):
        cls = _look_up("record", node["class"])
        return self._remember(cls(**{k: self(v) for k, v in node["fields"].items()}))

    def _make_object(self, node):
        cls = _look_up("object", node["class"])
        known, new = cls._get_param_names(), RENAMED.get(node["class"], {})
        named = {new.get(k, k): v for k, v in node["params"].items()}
        value = cls(**{_known(k, known): self(v) for k, v in named.items() if k is not None})
        for name, state in node["state"].items():
            require(
                name.isidentifier() and not name.startswith("__") and not hasattr(cls, name),
                f"the attribute {brief(name)} of {cls.__name__}, which it must not set",
            )
            setattr(value, name, self(state))
        if hasattr(value, "_expose"):
            value._expose()
        return self._remember(value)

    def _remember(self, value):
        """Keep an object for its second appearance, after it has checked its parts and parameters."""
        for check in (getattr(value, name, None) for name in CHECKS):
            if check is not None:
                _checked(check)
        self._seen.append(value)
        return value


def _check_csr(parts: dict[str, Any], shape: tuple[Any, ...]) -> None:
    """Refuse indices that lead out of a sparse matrix: compiled code follows them.

    SciPy's own check leaves `indptr` unread where its last entry says that there are no values.
    """
    demand(
        len(shape) == 2 and all(type(n) is int and 0 <= n < 2**63 for n in shape), "a matrix without a shape"
    )
    declared = {
        "indptr": Stored("rows", WHOLE, 0),
        "indices": Stored("values", WHOLE, 0, shape[1] - 1),
        "data": Stored("values", REAL + WHOLE + FLAGS, finite=False),
    }
    size = check_arrays(parts, declared, {"rows": shape[0] + 1})["values"]
    ends = parts["indptr"].astype(np.int64)
    in_order = ends[0] == 0 and ends[-1] == size and bool(np.all(np.diff(ends) >= 0))
    demand(in_order, "the rows of a sparse matrix overlap")


def _checked(check: Callable[[], None]) -> None:
    try:
        check()
    except Damaged:
        raise
    except ValueError as error:  # the rules for parameters, which know nothing of files
        raise Damaged(str(error)) from None


def _sequence(kind, values: list) -> list | tuple:
    return tuple(values) if kind == "tuple" else values


def _look_up(kind: Kind, name) -> Any:
    return class_of(kind, _known(name, CLASSES[kind]))


def _known(name, names: Iterable[str]) -> str:
    require(isinstance(name, str) and name in names, _unknown(name))
    return name


def _unknown(name) -> str:
    return f"{brief(name)}, which this version does not know"
