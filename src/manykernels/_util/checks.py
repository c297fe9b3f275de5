"""Checks of what users pass in, each with its one sentence."""

from __future__ import annotations

import numpy as np


def refuse_missing(y: np.ndarray, first: int = 0, name: str = "y") -> None:
    """Raise ValueError on None or NaN, with the number of its row, counted from `first`."""
    if y.dtype.kind == "O":
        gaps = np.array([_is_missing(v) for v in y.ravel().tolist()], dtype=bool).reshape(y.shape)
    elif y.dtype.kind == "f":
        gaps = np.isnan(y)
    else:
        return
    if gaps.any():
        row = first + int(np.argwhere(gaps)[0][0])
        raise ValueError(f"{name} has a missing value in row {row:,}; remove that row, or fill it in.")


def _is_missing(value) -> bool:
    try:
        return value is None or bool(value != value)
    except TypeError:  # pandas' NA is neither true nor false
        return True
