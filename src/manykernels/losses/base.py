"""The contract every loss fulfils, and the projection two of them share."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

#: How far outside the domain of a conjugate a point may lie and still count as rounding.
DOMAIN_SLACK = 1e-10


class Loss:
    """A convex loss ``l(y, f)`` of the scores ``f`` of one row, with its conjugate.

    Losses are stateless: they pickle, and two losses are equal when their types are.

    Shapes: targets ``Y``, scores ``F`` and dual points ``U`` are (n, c). ``value`` and
    ``conjugate`` return (n,), summed over the outputs of a row; ``gradient`` and ``feasible``
    return (n, c). Inputs are never modified and may be read-only or memory-mapped.

    Attributes
    ----------
    name : str
        The name accepted by :func:`manykernels.losses.get_loss`.
    code : int
        The integer that stands for the loss in compiled loops.
    multiclass : bool
        True: ``Y`` is one-hot (0/1) and the outputs of a row are coupled. False: every output
        is a problem of its own and the losses are summed.
    regression : bool
        True: targets are real numbers. False: targets are in {-1, +1} (or one-hot).
    smooth : bool
        Whether the gradient is continuous.
    lipschitz : bool
        Whether the gradient is bounded: by 1 for every output, and by 1 in every coordinate when they are coupled.
        The conjugate's domain is then bounded too.
    probabilistic : bool
        Whether scores turn into probabilities.
    structured : bool
        Whether outputs span several rows (:class:`~manykernels.losses.Structured`): value, gradient and conjugate are
        then not those of rows, and only solvers that ask for the most violating output take it.
    """

    name: ClassVar[str] = ""
    code: ClassVar[int] = -1
    multiclass: ClassVar[bool] = False
    regression: ClassVar[bool] = False
    smooth: ClassVar[bool] = False
    lipschitz: ClassVar[bool] = False
    probabilistic: ClassVar[bool] = False
    structured: ClassVar[bool] = False

    def value(self, Y: np.ndarray, F: np.ndarray) -> np.ndarray:
        """Return the loss of each row, (n,)."""
        raise NotImplementedError

    def gradient(self, Y: np.ndarray, F: np.ndarray) -> np.ndarray:
        """Return a subgradient in the scores, (n, c)."""
        raise NotImplementedError

    def conjugate(self, Y: np.ndarray, U: np.ndarray) -> np.ndarray:
        """Return ``l*(u) = sup_f <u, f> - l(y, f)`` of each row, (n,).

        It is ``+inf`` outside the domain; a point within ``DOMAIN_SLACK`` of the domain counts
        as inside, since feasible points are computed with rounding.
        """
        raise NotImplementedError

    def feasible(self, Y: np.ndarray, U: np.ndarray) -> np.ndarray:
        """Return the point of the conjugate's domain nearest to ``U``, row by row, (n, c)."""
        raise NotImplementedError

    def probabilities(self, F: np.ndarray) -> np.ndarray:
        """Return the probabilities that belong to the scores, (n, c)."""
        raise AttributeError(f"the {self.name} loss has no probabilities")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


def project_simplex(Q: np.ndarray, radius: np.ndarray | float = 1.0) -> np.ndarray:
    """Project each row of ``Q`` on ``{q >= 0, sum(q) = radius}``.

    Parameters
    ----------
    Q : (n, c) array
    radius : float or (n,) array
        The total of each projected row.

    Returns
    -------
    (n, c) array
        Cost: O(n c log c).
    """
    Q = np.asarray(Q, dtype=np.float64)
    n, c = Q.shape
    radius = np.broadcast_to(np.asarray(radius, dtype=np.float64), (n,))
    # Only differences matter. Subtracting the row maximum keeps the sums below from swamping the
    # radius, and nothing further than a radius below the maximum can stay positive.
    Q = np.maximum(Q - Q.max(axis=1, keepdims=True), -radius[:, None])
    descending = -np.sort(-Q, axis=1)
    levels = (np.cumsum(descending, axis=1) - radius[:, None]) / np.arange(1, c + 1)
    last = np.maximum((descending > levels).sum(axis=1) - 1, 0)
    return np.maximum(Q - levels[np.arange(n), last][:, None], 0.0)


def project_coupled(Y: np.ndarray, A: np.ndarray, radius: np.ndarray | float = 1.0) -> np.ndarray:
    """Project each row of ``A`` on ``{radius y - q: q >= 0, sum(q) = radius}``, y one-hot.

    These are the dual coefficients of the coupled losses: not positive off the right class,
    summing to zero, at most ``radius`` on the right class. ``radius y - project_simplex(radius y
    - A, radius)`` is the same, but loses the digits of a row that is small against its radius.

    Returns
    -------
    (n, c) array
        Cost: O(n c log c).
    """
    n, c = Y.shape
    if c < 2:
        return np.zeros((n, c))
    radius = np.broadcast_to(np.asarray(radius, dtype=np.float64), (n,))
    right = Y > 0.5
    excess = (np.sum(A, axis=1, where=right)[:, None] - A)[~right].reshape(n, c - 1)
    # Below its cap the right coefficient m solves sum_k max(excess_k - m, 0) = m.
    descending = -np.sort(-excess, axis=1)
    levels = np.cumsum(descending, axis=1) / np.arange(2, c + 1)
    count = (descending > levels).sum(axis=1)
    m = np.where(count > 0, levels[np.arange(n), np.maximum(count - 1, 0)], 0.0)
    q = np.maximum(excess - m[:, None], 0.0)
    q[count == 0] = 0.0
    total = q.sum(axis=1)
    capped = total >= radius
    if capped.any():
        q[capped] = project_simplex(excess[capped], radius[capped])
        total = np.where(capped, radius, total)
    out = np.empty((n, c))
    out[~right] = -q.ravel()
    out[right] = total
    return out
