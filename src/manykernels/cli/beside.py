"""What a model file keeps beside the model: written by ``fit``, read by ``show`` and ``predict``.

A file can hold anything, and a model that was saved from Python may keep other things under the same names. What is for
the screen counts where it is what ``fit`` writes; what predictions depend on is refused where it is something else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def kept_beside(target, columns, units, n_train, seconds, score) -> dict[str, Any]:
    """Return what a model file keeps beside the model; `units` are means and deviations that rows were brought to."""
    facts = {"target": target, "columns": columns, "n_train": n_train, "seconds": seconds, "score": score}
    return facts if units is None else facts | {"mean": units[0], "scale": units[1]}


def target_of(metadata: Mapping[str, Any]) -> str | None:
    """Return the name of the target."""
    target = metadata.get("target")
    return target if isinstance(target, str) else None


def fit_of(metadata: Mapping[str, Any]) -> tuple[float, int] | None:
    """Return the seconds that the fit took, and the rows it was on."""
    seconds: Any = metadata.get("seconds")
    n: Any = metadata.get("n_train")
    return (seconds, int(n)) if _is_number(seconds) and _is_number(n) else None


def score_of(metadata: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the score on held-out rows: its name and value, the rows, and that of the best constant for classes."""
    score = metadata.get("score")
    if not isinstance(score, dict) or not isinstance(score.get("name"), str):
        return None
    numbers = [score.get("value"), score.get("n_rows"), score.get("constant", 0.0)]
    return {**score, "n_rows": int(numbers[1])} if all(map(_is_number, numbers)) else None


def units_of(metadata: Mapping[str, Any], width: int, path) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the means and deviations that rows are brought to, None where the model takes them as they are."""
    if "mean" not in metadata and "scale" not in metadata:
        return None
    try:
        mean, scale = (np.asarray(metadata[name], dtype=float) for name in ("mean", "scale"))
    except (KeyError, TypeError, ValueError, OverflowError):
        mean = scale = np.empty(0)
    fits = mean.shape == scale.shape == (width,) and np.isfinite([mean, scale]).all() and (scale > 0).all()
    if not fits:
        raise ValueError(
            f"{path} keeps a mean and a scale beside the model that are not those of its {width:,} columns; save it "
            "again, without them if rows are to be taken as they are."
        )
    return mean, scale


def _is_number(value: Any) -> bool:
    """Whether a value can be shown as a number: none of those that are not finite, or beyond floats."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300
