"""Which columns a kernel sees: names, indices, slices and masks become indices."""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np


def resolve_columns(
    columns: Any, n_features: int, names: Sequence[str] | None, owner: str
) -> np.ndarray | None:
    """Turn names, indices, a slice or a mask into a sorted-as-given array of indices.

    Returns None for all columns. Raises ValueError, naming `owner`, when a column does not exist.
    """
    if columns is None:
        return None
    if isinstance(columns, slice):
        if not all(
            isinstance(v, numbers.Integral | None) for v in (columns.start, columns.stop, columns.step)
        ):
            raise ValueError(f"columns of {owner} is {columns!r}; a slice needs whole numbers, not names.")
        picked = np.arange(n_features)[columns]
    else:
        wanted = (
            list(columns) if isinstance(columns, Iterable) and not isinstance(columns, str) else [columns]
        )
        if wanted and all(isinstance(c, str) for c in wanted):
            picked = _named_columns(wanted, names, owner)
        elif wanted and all(isinstance(c, bool | np.bool_) for c in wanted):
            if len(wanted) != n_features:
                raise ValueError(
                    f"columns of {owner} is a mask of length {len(wanted)}, but X has "
                    f"{n_features} columns; pass one entry per column."
                )
            picked = np.flatnonzero(wanted)
        else:
            picked = np.asarray(wanted)
    if len(picked) == 0:
        raise ValueError(f"columns of {owner} selects no column; name at least one.")
    outside = picked.dtype.kind not in "iu" or picked.min() < -n_features or picked.max() >= n_features
    if outside or picked.ndim != 1:
        raise ValueError(
            f"columns of {owner} is {columns!r}, but X has {n_features} columns; use names, a mask, "
            f"a slice, or indices from 0 to {n_features - 1}."
        )
    return np.where(picked < 0, picked + n_features, picked).astype(np.intp)


def _named_columns(wanted, names, owner):
    if names is None:
        raise ValueError(
            f"columns of {owner} are names ({wanted[0]!r}, ...), but X has no column names; "
            "pass a DataFrame or use indices."
        )
    position = {name: j for j, name in enumerate(names)}
    missing = [c for c in wanted if c not in position]
    if missing:
        raise ValueError(
            f"columns of {owner} names {missing[0]!r}, which X does not have; "
            f"X has {', '.join(map(str, list(names)[:8]))}{', ...' if len(names) > 8 else ''}."
        )
    return np.array([position[c] for c in wanted], dtype=np.intp)


def describe_columns(columns: Any, names: Sequence[str] | None) -> str:
    """Return a short text for a set of resolved columns: ``[0:90]``, ``[age,sex]``, or nothing for all."""
    if columns is None:
        return ""
    c = np.asarray(columns)
    if len(c) > 3 and np.array_equal(c, np.arange(c[0], c[0] + len(c))):
        if names is None:
            return f"[{c[0]}:{c[-1] + 1}]"
        return f"[{names[c[0]]}..{names[c[-1]]}]"
    text = [str(names[j]) if names is not None else str(j) for j in c[:4]]
    return f"[{','.join(text)}{',…' if len(c) > 4 else ''}]"
