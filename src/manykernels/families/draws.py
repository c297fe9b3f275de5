"""Drawing members of a family: numbers in proportion to weights, and members of a list in proportion to g."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..kernels.statistics import Rows
from .base import Scaling


def checked(X: Rows, A: np.ndarray) -> np.ndarray:
    """Return A as a finite (n, c) array."""
    A = np.asarray(A, dtype=float)
    A = A[:, None] if A.ndim == 1 else A
    if A.ndim != 2 or A.shape[0] != X.shape[0]:
        raise ValueError(
            f"A has shape {A.shape}; it must have one row for each of the {X.shape[0]} rows of X."
        )
    if not np.isfinite(A).all():
        raise ValueError("A holds values that are not finite; members cannot be drawn from it.")
    return A


def draw_listed(
    family: Any, X: Rows, A: np.ndarray, size: int, rng: np.random.Generator, scale: Scaling | None = None
) -> tuple[list, np.ndarray]:
    """Draw members of a family that can be listed, proportionally to g, from one pass over its kernels."""
    members = family.members()
    g = family.bank(X, members).quad_forms(checked(X, A))
    if scale is not None:
        rho_sq = scale.rho_sq(members, 1.0)
        g = np.divide(g, rho_sq, out=np.zeros_like(g), where=rho_sq > 0)
    return draw_from(members, g, size, rng)


def draw_from(
    members: Sequence, g: np.ndarray, size: int, rng: np.random.Generator
) -> tuple[list, np.ndarray]:
    """Draw from a list in proportion to g, or uniformly where there is none."""
    chosen = pick(rng, g, size)
    if len(chosen) < size:
        return uniform_listed(members, size, rng)
    return [members[i] for i in chosen], g[chosen] / g.sum()


def uniform_listed(members: Sequence, size: int, rng: np.random.Generator) -> tuple[list, np.ndarray]:
    """Draw from a list uniformly."""
    chosen = rng.integers(0, len(members), size=size)
    return [members[i] for i in chosen], np.full(size, 1 / len(members))


def pick(rng: np.random.Generator, weights: np.ndarray, size: int) -> np.ndarray:
    """Return `size` numbers drawn proportionally to the weights; none if all weights are zero."""
    total = np.cumsum(weights)
    if not total[-1] > 0:
        return np.empty(0, dtype=np.intp)
    # side="right" never stops at a weight of zero; rounding up to the very end would.
    last = np.flatnonzero(weights)[-1]
    return np.minimum(np.searchsorted(total, rng.random(size) * total[-1], side="right"), last)
