"""The margin loss of labels along a sequence."""

from __future__ import annotations

import numpy as np

from ._viterbi import best_path
from .structured import Structured, examples


class Chain(Structured):
    """Sequences of labels: a score for every label at every position, and one for every pair of neighbours.

    The score of the labels k_1 ... k_T is ``Σ_t F[t, k_t] + Σ_{t>1} B[k_(t-1), k_t]``. Kernels of the positions give
    the first, B is learned as a part of the intercept. Δ is the number of wrong labels (Hamming), so that the most
    violating sequence is found like the best one, with one added to every wrong label: by Viterbi's recursion, O(T c²).

    Parameters
    ----------
    n_labels : int
        Number of labels c; labels are 0 ... c-1.
    transitions : bool
        Whether neighbours have a score. Without, positions are independent, and the loss is the sum of their
        max-hinges.

    Attributes
    ----------
    constants : int
        c² with transitions, else 0: an output is (T, c + c²), one-hot in the first c columns for the label, and in the
        others for the pair (k_(t-1), k_t), which is number c k_(t-1) + k_t; no pair ends at the first position.
    """

    def __init__(self, n_labels: int, *, transitions: bool = True):
        self.n_labels = n_labels
        self.transitions = transitions
        self.constants = n_labels**2 if transitions else 0

    def worst(self, y: np.ndarray, F: np.ndarray) -> tuple[np.ndarray, float]:
        c = self.n_labels
        labels = self._path(F[:, :c] + (1.0 - y[:, :c]), F)
        wrong = y[np.arange(len(y)), labels] < 0.5
        return self._output(labels), float(np.count_nonzero(wrong))

    def best(self, F: np.ndarray) -> np.ndarray:
        return self._output(self._path(F[:, : self.n_labels], F))

    def encode(self, labels, groups=None) -> np.ndarray:
        """Return the outputs of all examples, (n, columns), from a label per row."""
        labels = np.asarray(labels)
        if labels.dtype.kind not in "iu" or labels.ndim != 1 or not self._known(labels):
            raise ValueError(
                f"labels must be whole numbers from 0 to {self.n_labels - 1}, one per row; number them first, "
                "e.g. by np.unique(labels, return_inverse=True)."
            )
        out = np.empty((len(labels), self.n_labels + self.constants))
        for rows in examples(groups, len(labels)):
            out[rows] = self._output(labels[rows])
        return out

    def decode(self, F: np.ndarray, groups=None) -> np.ndarray:
        """Return the best label of every row, sequence by sequence, from the scores of a predictor."""
        return self.outputs(F, groups)[:, : self.n_labels].argmax(axis=1)

    def _known(self, labels: np.ndarray) -> bool:
        return bool(((labels >= 0) & (labels < self.n_labels)).all())

    def _path(self, unary: np.ndarray, F: np.ndarray) -> np.ndarray:
        if not self.transitions:
            return unary.argmax(axis=1)
        c = self.n_labels
        return best_path(unary, np.ascontiguousarray(F[:, c:]).reshape(len(F), c, c))

    def _output(self, labels: np.ndarray) -> np.ndarray:
        c, at = self.n_labels, np.arange(len(labels))
        out = np.zeros((len(labels), c + self.constants))
        out[at, labels] = 1.0
        if self.transitions:
            out[at[1:], c + c * labels[:-1] + labels[1:]] = 1.0
        return out
