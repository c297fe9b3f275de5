"""Files that other libraries read, as a whole: Excel workbooks, NumPy archives, svmlight."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from .._util.text import brief

#: What the target of rows without names is called.
TARGET = "y"
#: Bytes that sparse rows may take as a table.
MOST_BYTES = 2**31
#: Columns that they may have as a table, which takes about 2 KiB and 0.1 ms for each.
MOST_COLUMNS = 100_000


def read_excel(path: str, pa: Any):
    """Return the first sheet of a workbook as a pyarrow Table."""
    try:
        import pandas as pd

        frame = pd.read_excel(path)
    except ImportError as error:
        raise ImportError(
            f"{path} is a workbook, and reading it needs pandas and openpyxl ({error}); install them, or save the "
            "sheet as CSV."
        ) from None
    except Exception as error:  # every engine has errors of its own
        if "format cannot be determined" in str(error) or "not a zip file" in str(error):
            error = ValueError("it is none, whatever its name says; name it .csv if it is text.")
        raise ValueError(f"{path} cannot be read as a workbook: {error}") from None
    if not len(frame.columns):
        raise ValueError(f"{path} is empty in its first sheet; move the table there.")
    frame.columns = [str(name).strip() for name in frame.columns]
    for name in frame.select_dtypes("object").columns:  # cells of several kinds are text
        frame[name] = [None if cell is None or cell != cell else str(cell) for cell in frame[name]]
    return pa.Table.from_pandas(frame, preserve_index=False)


def read_npz(path: str, pa: Any):
    """Return the arrays of a NumPy archive as a pyarrow Table: those with as many rows as the first.

    A matrix ``X_view`` becomes the columns ``view_0``, ``view_1``, ...; ``X`` takes its names from ``columns`` or
    ``feature_names``; every other array of one dimension is a column.
    """
    try:
        archive = np.load(path, allow_pickle=False)
        if isinstance(archive, np.ndarray):
            arrays = {"": archive}
        else:
            with archive:
                arrays = {name: archive[name] for name in archive.files}
    except (ValueError, OSError, zipfile.BadZipFile, zlib.error, EOFError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # no fault of what is in it
            raise
        said = " ".join(str(error).split()) or type(error).__name__
        told = f"it is cut off or damaged ({brief(said)}); copy it again."
        if "allow_pickle" in str(error):
            told = "it holds Python objects; save numbers or text."
        raise ValueError(f"{path} cannot be read as a NumPy archive: {told}") from None
    if "" in arrays:
        raise ValueError(f"{path} holds one array without a name; save X and y with np.savez.")
    rows = [array for array in arrays.values() if array.ndim == 2]
    for name, array in arrays.items():
        if array.dtype.kind in "cV":
            held = "complex numbers" if array.dtype.kind == "c" else f"values of the type {array.dtype}"
            raise ValueError(f"{path} holds {held} in {name}; save numbers, dates or text.")
    if not rows:
        raise ValueError(f"{path} holds no matrix; save one as X, and the target as {TARGET}.")
    if TARGET in arrays and arrays[TARGET].shape[:1] != (len(rows[0]),):
        shape = arrays[TARGET].shape
        raise ValueError(
            f"{path} holds {len(rows[0]):,} rows and a target {TARGET} of shape {shape}; they must agree."
        )
    columns: dict[str, np.ndarray] = {}
    for name, array in arrays.items():
        if array.ndim == 1 and len(array) == len(rows[0]) and name not in NAMES:
            columns[name] = array
        elif array.ndim == 2 and len(array) == len(rows[0]):
            names = _names_of(name, array.shape[1], arrays)
            columns |= {label: array[:, j] for j, label in enumerate(names)}
    return pa.table({name: pa.array(values) for name, values in columns.items()})


#: Arrays of an archive that name columns or classes.
NAMES = ("columns", "feature_names", "classes", "target_names")


def _names_of(name: str, width: int, arrays: dict[str, np.ndarray]) -> list[str]:
    """Return the names of the columns of a matrix in an archive."""
    listed = (
        np.ravel(arrays[key]) for key in NAMES[:2] if key in arrays
    )  # some write them one below the other
    given = next((labels for labels in listed if len(labels) == width), None)
    if name == "X" and given is not None and len(set(given.tolist())) == width:
        return [str(label) for label in given]
    stem = "x" if name == "X" else name.removeprefix("X_") + "_"
    return [f"{stem}{j}" for j in range(width)]


def read_svmlight(path: str, pa: Any):
    """Return rows in the svmlight format as a pyarrow Table; the target is the column ``y``."""
    from sklearn.datasets import load_svmlight_file

    try:
        X, y = load_svmlight_file(path)
    except (ValueError, OverflowError) as error:
        raise ValueError(
            f"{path} cannot be read as svmlight, where a row is a target and then column:value ({error})."
        ) from None
    if 8 * X.shape[0] * X.shape[1] > MOST_BYTES or X.shape[1] > MOST_COLUMNS:
        raise ValueError(
            f"{path} has {X.shape[0]:,} rows of {X.shape[1]:,} columns, too many for a table; load it with "
            "sklearn.datasets.load_svmlight_file and fit the sparse rows from Python."
        )
    dense = X.toarray()
    return pa.table({TARGET: y} | {f"x{j}": dense[:, j] for j in range(dense.shape[1])})


#: How each format is read.
ALONE: dict[str, Callable[[str, Any], Any]] = {
    "excel": read_excel,
    "npz": read_npz,
    "svmlight": read_svmlight,
}
