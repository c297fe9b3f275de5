"""Exact features of kernels that have finitely many of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np


class Explicit(Protocol):
    """Whatever has finitely many features."""

    def features(self, X: Any) -> np.ndarray:
        """Return the features of the rows."""
        ...


@dataclass(frozen=True, eq=False)
class Exact:
    """The explicit features of a kernel, as a map with a single block, which it is itself.

    Attributes
    ----------
    kernel : Explicit
        A kernel with explicit features, as a rule.
    width : int
    """

    kernel: Explicit
    width: int
    n_blocks = 1
    sparse = False

    def block(self, index: int) -> Exact:
        """Return the only block."""
        if index != 0:
            raise IndexError("exact features have a single block")
        return self

    def transform(self, X: np.ndarray, out: np.ndarray | None = None, first: int = 0) -> np.ndarray:
        """Return the features, in float32."""
        Z = self.kernel.features(X)
        if out is None:
            return np.ascontiguousarray(Z, dtype=np.float32)
        out[:, first : first + self.width] = Z
        return out
