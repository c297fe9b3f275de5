"""The contract every loss fulfils, and the projection two of them share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator

from .._util.checks import Rule, check_parameters

#: How far outside the domain of a conjugate a point may lie and still count as rounding.
DOMAIN_SLACK = 1e-10


class Loss(BaseEstimator):
    """A convex loss ``l(y, f)`` of the scores ``f`` of one row, with its conjugate.

    A loss has parameters at most, as scikit-learn's objects have them: it can be cloned, searched over and pickled,
    and two losses are equal when their types and parameters are.

    Shapes: targets ``Y``, scores ``F`` and dual points ``U`` are (n, c). ``value`` and
    ``conjugate`` return (n,), summed over the outputs of a row; ``gradient`` and ``feasible``
    return (n, c). Inputs are never modified and may be read-only or memory-mapped.

    Attributes
    ----------
    name : str
        The name accepted by :func:`manykernels.losses.get_loss`.
    code : int
        The integer that stands for the loss in compiled loops; -1 where none takes it.
    multiclass : bool
        True: ``Y`` is one-hot (0/1) and the outputs of a row are coupled. False: every output
        is a problem of its own and the losses are summed.
    regression : bool
        True: targets are real numbers. False: targets are in {-1, +1} (or one-hot).
    classifies : bool
        Whether targets may stand for classes.
    smooth : bool
        Whether the gradient is continuous.
    lipschitz : bool
        Whether the gradient is bounded, and the conjugate's domain therefore too: of classes by 1 for every output,
        and by 1 in every coordinate when they are coupled.
    joint : bool
        Whether it is no sum over rows: then there are ``total``, ``response``, ``total_conjugate`` and ``nearest``
        alone.
    shared : bool
        Whether the outputs of a row differ by constants alone: there is one f, and every output has an intercept.
    has_targets : bool
        Whether there is anything to learn from but the rows themselves.
    probabilistic : bool
        Whether scores turn into probabilities.
    rules : dict of str to Rule
        What each parameter may be.
    structured : bool
        Whether outputs span several rows (:class:`~manykernels.losses.Structured`): value, gradient and conjugate are
        then not those of rows, and only solvers that ask for the most violating output take it.
    """

    name: ClassVar[str] = ""
    code: ClassVar[int] = -1
    multiclass: ClassVar[bool] = False
    regression: ClassVar[bool] = False
    classifies: ClassVar[bool] = True
    smooth: ClassVar[bool] = False
    lipschitz: ClassVar[bool] = False
    joint: ClassVar[bool] = False
    shared: ClassVar[bool] = False
    has_targets: ClassVar[bool] = True
    probabilistic: ClassVar[bool] = False
    structured: ClassVar[bool] = False
    rules: ClassVar[Mapping[str, Rule]] = {}

    @property
    def slope(self) -> float:
        """The bound of the gradient in one output."""
        return 1.0 if self.lipschitz else np.inf

    def check_params(self) -> None:
        """Raise ValueError when a parameter makes no sense."""
        check_parameters(self, self.rules)

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

    # -- all rows together, of positive weights w ----------------------------------------------------------

    def total(self, Y: np.ndarray, F: np.ndarray, w: np.ndarray) -> float:
        """Return the loss of all rows, ``L(F) = sum_t w_t l(y_t, f_t)``."""
        return float(w @ self.value(Y, F))

    def response(self, Y: np.ndarray, F: np.ndarray, w: np.ndarray) -> np.ndarray:
        """Return minus a subgradient of ``L``, (n, c)."""
        return -w[:, None] * self.gradient(Y, F)

    def total_conjugate(self, Y: np.ndarray, A: np.ndarray, w: np.ndarray) -> float:
        """Return ``L*(-A)``."""
        return float(w @ self.conjugate(Y, -A / w[:, None]))

    def conjugate_size(self, Y: np.ndarray, A: np.ndarray, w: np.ndarray) -> float:
        """Return the size of what ``L*(-A)`` is a small difference of; 0 where it is none."""
        return 0.0

    def pooled(self, A: np.ndarray) -> np.ndarray:
        """Return the coefficients that kernels see, (n, c), or (n, 1) where all outputs share one f."""
        return A.sum(axis=1, keepdims=True) if self.shared else A

    def nearest(self, Y: np.ndarray, A: np.ndarray, w: np.ndarray) -> np.ndarray:
        """Return the coefficients with a finite ``L*(-A)`` that are nearest to ``A``, (n, c)."""
        return -w[:, None] * self.feasible(Y, -A / w[:, None])

    # -- what numbers are predicted from, and to -----------------------------------------------------------

    def check_targets(self, Y: np.ndarray) -> None:
        """Raise ValueError for numbers that are no targets of this loss."""

    def offset(self, Y: np.ndarray, s: np.ndarray) -> np.ndarray:
        """Return the middle of targets of weights ``s``, as scores, (c,): what f = 0 stands for in an estimator."""
        raise NotImplementedError

    def about(self, offset: np.ndarray, Y: np.ndarray) -> tuple[Self, np.ndarray]:
        """Return the loss and the targets of scores that count from ``offset``."""
        return self, Y - offset

    def centred(self, Y: np.ndarray, s: np.ndarray) -> tuple[Self, np.ndarray, np.ndarray]:
        """Return the loss, the offset and the targets of scores that count from it, after a check of the targets."""
        self.check_targets(Y)
        offset = self.offset(Y, s)
        loss, Y = self.about(offset, Y)
        return loss, offset, Y

    def output(self, j: int | np.ndarray) -> Self:
        """Return the loss of one output on its own, or of some."""
        return self

    def prediction(self, F: np.ndarray) -> np.ndarray:
        """Return the targets that scores, not counted from the offset, predict."""
        return F

    def residuals(self, Y: np.ndarray, s: np.ndarray) -> np.ndarray:
        """Return what a ridge machine is taught in place of this one, where only the kernel is learned by it.

        `s` are positive weights of the rows.
        """
        return 2.0 * Y - 1.0 if self.multiclass else Y

    def strata(self, Y: np.ndarray) -> np.ndarray | None:
        """Return the kind of every row, (n,), of which folds get equal shares, where targets do not show it."""
        return None

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return False
        mine, theirs = self.get_params(), other.get_params()  # type: ignore[attr-defined]
        return all(np.array_equal(mine[name], theirs[name]) for name in mine)

    def __hash__(self) -> int:
        return hash(type(self))


def weighted_quantile(Y: np.ndarray, s: np.ndarray, q: float) -> np.ndarray:
    """Return the q-quantile of every column for weights ``s``, the middle of those that are as good, (c,)."""
    used = s > 0
    Y, s = Y[used], s[used]
    order = np.argsort(Y, axis=0, kind="stable")
    reached = np.cumsum(s[order], axis=0)
    goal = q * reached[-1]
    slack = len(s) * np.finfo(float).eps * reached[-1]
    columns, last = np.arange(Y.shape[1]), len(s) - 1
    low, high = ((reached < goal + side * slack).sum(axis=0).clip(0, last) for side in (-1, 1))
    ends = np.take_along_axis(Y, order, axis=0)
    return np.asarray(0.5 * (ends[low, columns] + ends[high, columns]))


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
