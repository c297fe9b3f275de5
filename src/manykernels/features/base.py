"""What a map from rows to random features answers.

A map belongs to one kernel. It consists of blocks, and every block by itself is an unbiased estimate of the kernel:
``E[Z Zᵀ] = K``. The sum over B blocks is therefore divided by B, which is the business of whoever adds them up. A block
is regenerated from (seed, kernel, block) whenever it is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np


class Block(Protocol):
    """Some features of a kernel.

    Attributes
    ----------
    width : int
        Number of features, that is rows of the coefficients.
    """

    @property
    def width(self) -> int: ...

    def transform(self, X: np.ndarray, out: np.ndarray | None = None, first: int = 0) -> np.ndarray:
        """Return the features Z of the rows, (n, width) in float32.

        A contiguous `out` in float32 gets them in its columns from `first` on, and is returned: for those who want no
        new array every time, or several blocks side by side.
        """
        ...


class FeatureMap(Protocol):
    """The features of one kernel.

    Attributes
    ----------
    n_blocks : int or None
        How many different blocks there are; None when there is no end to them, 1 for exact features.
    sparse : bool
        Whether a row has one feature of a block that is not zero, so that blocks are given by ``bins``.
    width : int
        Features of a block, the same for all.
    """

    @property
    def n_blocks(self) -> int | None: ...
    @property
    def sparse(self) -> bool: ...
    @property
    def width(self) -> int: ...

    def block(self, index: int) -> Block:
        """Return a block, the same one every time."""
        ...


@dataclass(frozen=True, eq=False)
class RandomMap:
    """A map to random features of a kernel with bandwidths: blocks without end, each from a generator of its own.

    Its subclasses say what their attributes are: bandwidths `sigma`, the number of columns and which ones they are,
    what blocks are regenerated from (`seed`, `kernel`), and their `size`.
    """

    sigma: float | np.ndarray
    n_columns: int
    columns: np.ndarray | None
    seed: int
    kernel: int
    size: int
    n_blocks: ClassVar[int | None] = None
    sparse: ClassVar[bool] = False

    def generator(self, index: int) -> np.random.Generator:
        """Return the generator of a block."""
        return generator_of(self.seed, self.kernel, index)


def generator_of(seed: int, kernel: int, block: int) -> np.random.Generator:
    """Return the generator of a block: counter-based, so that no block depends on another."""
    return np.random.Generator(
        np.random.Philox(key=np.array([seed, (kernel << 32) | block], dtype=np.uint64))
    )
