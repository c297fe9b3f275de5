"""Ready-made kernel matrices as people have them, made into one stack (n, n_train, n_kernels)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from .._util.shapes import Stored, check_arrays, demand
from .._util.text import brief


@dataclass(frozen=True, eq=False)
class Stack:
    """Kernel matrices side by side.

    Attributes
    ----------
    values : (n, n_train, n_kernels) array
    kernels : tuple of str, or None
        Names of the kernels, where they have any.
    rows : (n_train,) array of objects, or None
        Names of the training rows, where the matrices have any.
    """

    values: np.ndarray
    kernels: tuple[str, ...] | None = None
    rows: np.ndarray | None = None

    def check_square(self) -> None:
        """Refuse several matrices that are not of all pairs of rows; a single one is judged with its values."""
        shape = self.values.shape
        if len(shape) > 3 or (len(shape) == 3 and shape[2] > 1 and shape[0] != shape[1]):
            raise ValueError(
                f"X has the shape {shape}, and a fit needs square matrices; pass the shape (n, n, n_kernels) or "
                "(n_kernels, n, n)."
            )

    def check_stored(self) -> None:
        """Raise Damaged unless what came from a file has as many names as kernels and rows."""
        sizes = check_arrays({"values": self.values}, {"values": Stored("* n m")})
        named = self.kernels is None or all(type(name) is str for name in self.kernels)
        demand(named and len(self.kernels or self.values.T) == sizes["m"], "the kernels have other names")
        demand(self.rows is None or len(self.rows) == sizes["n"], "the rows have other names")


def open_stack(X: Any, known: Stack | None = None) -> Any:
    """Return an array of kernel matrices, a list or dict of them, arrays or DataFrames, as a stack.

    Parameters
    ----------
    X : array (n, n), (n, n_train, n_kernels) or (n_kernels, n, n_train); or list or dict of matrices
        Of an array that fits both ways the last axis holds the kernels. DataFrames are brought to the order of the
        first one's rows.
    known : Stack, optional
        Of the training rows, for a prediction; its `values` may be an empty array of that shape.

    Raises
    ------
    ValueError
        With the shape that was expected.
    """
    if isinstance(X, Mapping):
        names = tuple(str(name) for name in X)
        if known is not None and known.kernels is not None:
            _same_kernels(names, known.kernels)
            parts = {str(name): part for name, part in X.items()}
            return _joined([parts[name] for name in known.kernels], known.kernels, known)
        return _joined(list(X.values()), names, known)
    if isinstance(X, list | tuple) and X and all(sp.issparse(part) or np.ndim(part) == 2 for part in X):
        return _joined(list(X), None, known)
    if hasattr(X, "iloc"):
        return _joined([X], None, known)
    values = _dense(X)
    if values.ndim == 2:
        return Stack(values[:, :, None])
    if values.ndim != 3:
        return Stack(values)  # what is wrong with it is said where arrays are validated
    return Stack(_last_axis(values, known))


def _same_kernels(given: tuple[str, ...], known: tuple[str, ...]) -> None:
    missing, strange = [n for n in known if n not in given], [n for n in given if n not in known]
    if missing or strange:
        which = f"lacks the kernel {missing[0]!r}" if missing else f"has a kernel {strange[0]!r}"
        raise ValueError(f"X {which}; the model was fitted on {', '.join(map(repr, known))}.")


def _last_axis(values: np.ndarray, known: Stack | None) -> np.ndarray:
    """Return an array of three axes with the kernels in the last."""
    if known is None:
        first = values.shape[0] != values.shape[1] and values.shape[1] == values.shape[2]
    else:
        _, n_train, m = known.values.shape
        first = values.shape[1:] != (n_train, m) and (values.shape[0], values.shape[2]) == (m, n_train)
    return np.ascontiguousarray(np.moveaxis(values, 0, 2)) if first else values


def _joined(parts: list[Any], kernels: tuple[str, ...] | None, known: Stack | None) -> Stack:
    if not parts:
        raise ValueError("X holds no kernel; pass at least one matrix.")
    calls = [f"kernel {k}" if kernels is None else f"kernel {kernels[k]!r}" for k in range(len(parts))]
    rows, train = _row_names(parts, known)
    matrices = [
        _ordered(part, call, rows, train) if hasattr(part, "iloc") else _dense(part)
        for part, call in zip(parts, calls, strict=True)
    ]
    wanted = matrices[0].shape
    if known is not None:
        wanted = (matrices[0].shape[0], known.values.shape[1])
    elif len(wanted) == 2 and wanted[0] != wanted[1]:
        raise ValueError(f"X: {calls[0]} has the shape {wanted}, and a fit needs square matrices, (n, n).")
    for matrix, call in zip(matrices, calls, strict=True):
        if matrix.shape != wanted:
            raise ValueError(f"X: {call} has the shape {matrix.shape}; {wanted} was expected.")
    return Stack(np.stack(matrices, axis=2), kernels, train)


def _dense(matrix: Any) -> np.ndarray:
    return matrix.toarray() if sp.issparse(matrix) else np.asarray(matrix)


def _row_names(parts: list[Any], known: Stack | None) -> tuple[Any, Any]:
    """Return the names of the rows of DataFrames, and those of the training rows, None where there are none."""
    frames = [part for part in parts if hasattr(part, "iloc")]
    if not frames:
        return None, None if known is None else known.rows
    rows = np.asarray(frames[0].index, dtype=object)
    if known is not None:
        return rows, known.rows
    return rows, rows


def _ordered(frame: Any, call: str, rows: np.ndarray, train: np.ndarray | None) -> np.ndarray:
    """Return the values of a DataFrame in the order of the rows' names, and of those of the training rows."""
    if not frame.index.is_unique or not frame.columns.is_unique:
        raise ValueError(f"X: {call} names a row twice; make the names of rows unique.")
    wanted = np.asarray(frame.columns, dtype=object) if train is None else train
    for have, need in ((frame.index, rows), (frame.columns, wanted)):
        missing = [name for name in need.tolist() if name not in have]
        if missing:
            raise ValueError(
                f"X: {call} has no row called {brief(missing[0])}, which another has; name them alike."
            )
    return frame.loc[rows.tolist(), wanted.tolist()].to_numpy()
