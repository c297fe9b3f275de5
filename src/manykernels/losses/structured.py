"""Losses of outputs that span several rows, each given by a function that finds the most violating output."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from .base import Loss


class Structured(Loss):
    """``l(y, F) = max(0, max_o Δ(y, o) + <o - y, F>)`` over all outputs o that one example can have.

    An example is several rows (the positions of a sequence, the parts of an image) or a single one. Its scores F and
    its output are matrices with a row for each, such that ``<o, F>``, the sum of products, is the score of the output
    o: for a class per row, o is one-hot. In the words of Tsochantaridis et al., the joint features of an example are
    ``Σ_t φ(x_t) ⊗ o_t``, and kernels are those of its rows.

    A subclass says which output violates most (`worst`) and which scores highest (`best`); value and subgradient
    follow, and so do dual bounds. The max-hinge is the case of one row and Δ = 1 for every wrong class. `Obscure` and
    `Ufo` take these losses, in a :class:`~manykernels.problem.Problem` whose ``groups`` say which rows make an example.

    Attributes
    ----------
    constants : int
        So many of the last columns of F are constants that are learned, part of the intercept: no kernel speaks there.

    References
    ----------
    Tsochantaridis, Hofmann, Joachims, Altun, "Support vector machine learning for interdependent and structured output
    spaces", ICML 2004.
    """

    name = "structured"
    multiclass = True
    lipschitz = True
    structured: ClassVar[bool] = True
    constants: int = 0

    @abstractmethod
    def worst(self, y: np.ndarray, F: np.ndarray) -> tuple[np.ndarray, float]:
        """Return the output with the largest Δ(y, o) + <o, F>, and its Δ >= 0, which is 0 for y itself.

        `y` and `F` are (rows of the example, columns), and so is the output.
        """

    @abstractmethod
    def best(self, F: np.ndarray) -> np.ndarray:
        """Return the output of one example with the highest score <o, F>."""

    def violation(self, y: np.ndarray, F: np.ndarray) -> tuple[float, np.ndarray, float]:
        """Return the loss of one example, o - y of its worst output, and that output's Δ."""
        output, cost = self.worst(y, F)
        change = output - y
        return max(0.0, cost + float(np.vdot(change, F))), change, cost

    def outputs(self, F: np.ndarray, groups: np.ndarray | None = None) -> np.ndarray:
        """Return the outputs with the highest scores of all examples, (n, columns); `groups` as in a problem."""
        out = np.empty(F.shape)
        for rows in examples(groups, len(F)):
            out[rows] = self.best(F[rows])
        return out

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((type(self), tuple(sorted(vars(self).items()))))

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in vars(self).items() if name != "constants")
        return f"{type(self).__name__}({given})"


def examples(groups: np.ndarray | None, n_rows: int) -> Iterator[np.ndarray]:
    """Yield the rows of every example, in their order; without groups each row is an example."""
    if groups is None:
        yield from np.arange(n_rows)[:, None]
        return
    order = np.argsort(groups, kind="stable")
    yield from np.split(order, np.flatnonzero(np.diff(np.asarray(groups)[order])) + 1)
