"""A list of kernels, or a stack of ready-made kernel matrices."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.utils.metaestimators import available_if

from .._util.arrays import row_blocks
from .._util.text import brief
from .._util.threads import map_in_threads
from ..features import FeatureMap
from ..kernels import Kernel, as_kernel
from ..kernels.statistics import Rows
from ._stack import symmetry_violation
from .bank import BANK_SIZES, Bank, BankSizes, FeatureBank, KernelBank, StackBank, each_applied, weighted_gram
from .base import HasFeatures, HasRandomFeatures, Members, Scaling, Searchable
from .draws import draw_listed, uniform_listed
from .search import ListSearcher
from .values import KernelValues, StackValues, Values

#: Values that memory hands over at once.
LINE = 8
#: Kernels of this package that are scikit-learn's of these names, with features besides.
PLAIN = {"linear": "Linear()", "rbf": "RBF(sigma)", "laplacian": "Laplacian(sigma)"}


def _all_explicit(family) -> bool:
    return all(k.explicit for k in family._kernels())


def _all_random(family) -> bool:
    return all(k.has_random_features for k in family._kernels())


class _FiniteFamily(Searchable):
    """What follows from a list of members: drawing and searching by one pass over all of them."""

    def _bound(self, X) -> Any:
        """Return the family itself, resolved for the rows if it is not."""
        raise NotImplementedError

    def draw(
        self, X: Rows, A: np.ndarray, size: int, rng: np.random.Generator, scale: Scaling | None = None
    ) -> tuple[list[Any], np.ndarray]:
        """Draw members with probability proportional to g, from one pass over all kernels."""
        return draw_listed(self._bound(X), X, A, size, rng, scale)

    def draw_uniform(self, size: int, rng: np.random.Generator) -> tuple[list[Any], np.ndarray]:
        """Draw members uniformly, and return them with the probability of each."""
        family: Any = self
        return uniform_listed(family.members(), size, rng)

    def searcher(self, X: Rows, scale: Scaling | None) -> ListSearcher:
        """Return what finds the best kernels for one direction after another."""
        return ListSearcher(self._bound(X), X, scale)


class Finite(_FiniteFamily):
    """A finite set of kernels on rows.

    Members are the numbers 0..m-1, in the order given. Kernels on the same columns share their inner
    products or distances. Where every kernel has explicit features (linear ones, say), so does the family.

    Parameters
    ----------
    kernels : list or dict
        Kernels, scikit-learn kernel names, or callables ``func(X, Z)``; a dict gives them names.
    names : list of str, optional
        Names of the kernels, when `kernels` is a list.

    Examples
    --------
    >>> from manykernels.families import Finite
    >>> from manykernels.kernels import RBF, Linear
    >>> Finite([RBF(0.5), RBF(2.0), Linear()]).size()
    3
    """

    def __init__(self, kernels: Sequence[Any] | Mapping[str, Any], names: Sequence[str] | None = None):
        self.kernels = kernels
        self.names = names

    def shortfall(self, capability: type) -> str:
        """Name the first kernel that keeps the family from having features; the others may be fine."""
        flags: dict[type, str] = {HasFeatures: "explicit", HasRandomFeatures: "has_random_features"}
        flag = flags.get(capability, "")
        i = next((i for i, k in enumerate(self._kernels()) if not getattr(k, flag, True)), None)
        if i is None:
            return super().shortfall(capability)
        kernel = self._kernels()[i]
        plain = PLAIN.get(getattr(kernel, "metric", ""))
        instead = "" if plain is None else f" (use {plain} instead)"
        return f"kernel {brief(self.label(i))} has none{instead}"

    def _kernels(self) -> list[Kernel]:
        specs = self.kernels.values() if isinstance(self.kernels, Mapping) else self.kernels
        return [as_kernel(s) for s in specs]

    def resolve(self, n_features: int, names: Sequence[str] | None = None) -> Finite:
        """Check the kernels and turn column names into indices."""
        self._check_shape()
        kernels = [k.resolve(n_features, names) for k in self._kernels()]
        return Finite.over(kernels, n_features, names, self._given_names())

    @classmethod
    def over(
        cls, kernels: list[Kernel], n_features: int, names: Sequence[str] | None, given: Any = None
    ) -> Finite:
        """Return kernels whose columns are indices as a family over so many columns."""
        family = cls(kernels, names=given)
        family._n_features = n_features
        family._column_names = None if names is None else list(names)
        return family

    def _check_shape(self):
        if isinstance(self.kernels, str | Kernel) or not isinstance(self.kernels, Sequence | Mapping):
            raise ValueError(
                f"kernels is {brief(self.kernels)}; Finite takes a list or a dict of kernels, such as "
                "[RBF(1.0), Linear()]."
            )
        if len(self.kernels) == 0:
            raise ValueError("kernels is empty; pass at least one kernel, such as [RBF(1.0)].")
        given = self._given_names()
        if given is not None and len(given) != len(self.kernels):
            raise ValueError(
                f"names has {len(given)} entries for {len(self.kernels)} kernels; give one each."
            )

    def _given_names(self):
        if isinstance(self.kernels, Mapping):
            return [str(name) for name in self.kernels]
        return None if self.names is None else [str(name) for name in self.names]

    @property
    def accepts_sparse(self) -> bool:
        """Whether no kernel needs dense rows."""
        return all(k.accepts_sparse for k in self._kernels())

    def size(self) -> float:
        """Return the number of kernels."""
        return len(self.kernels)

    def members(self) -> list[int]:
        """Return 0..m-1."""
        return list(range(len(self.kernels)))

    def _picked(self, members):
        kernels = self._kernels()
        return [kernels[i] for i in members]

    def gram(self, X: Rows, Z: Rows, members: Members, weights: np.ndarray) -> np.ndarray:
        """Return the weighted sum of the Gram matrices, in blocks of rows."""
        return weighted_gram(self._picked(members), weights, X, Z)

    def apply(self, X: Rows, Z: Rows, B: np.ndarray, members: Members) -> np.ndarray:
        """Return K_i(X, Z) B for every member, in blocks of rows."""
        return each_applied(self._picked(members), X, Z, B)

    def mean_diag(self, X: Rows, members: Members, sample_weight: np.ndarray) -> np.ndarray:
        """Return the weighted mean of each kernel's diagonal."""
        return np.array([np.average(k.diag(X), weights=sample_weight) for k in self._picked(members)])

    def diag(self, X: Rows, members: Members, weights: np.ndarray) -> np.ndarray:
        """Return the weighted sum of the diagonals."""
        out = np.zeros(X.shape[0])
        for k, w in zip(self._picked(members), weights, strict=True):
            out += w * k.diag(X)
        return out

    @available_if(_all_explicit)
    def features(self, X: Rows, members: Members) -> np.ndarray:
        """Return the explicit features of the members, side by side."""
        return np.hstack([k.features(X) for k in self._picked(members)])

    @available_if(_all_explicit)
    def widths(self, members: Members) -> np.ndarray:
        """Return the number of features of each member."""
        return np.array([k.width(self._n_features) for k in self._picked(members)], dtype=np.intp)

    @available_if(_all_random)
    def random_features(self, members: Members, n_features: int, seed: int, size: int) -> list[FeatureMap]:
        """Return a map to features for every member, exact where the kernel has finitely many."""
        return [k.random_features(n_features, seed, i, size) for i, k in enumerate(self._picked(members))]

    def bank(self, X: Rows, members: Members, sizes: BankSizes = BANK_SIZES) -> Bank:
        """Return explicit features where the family has them and they are narrower than the Gram matrix, else tiles."""
        kernels = self._picked(members)
        if _all_explicit(self):  # of some members alone no predictor could be made
            widths = [k.width(X.shape[1]) for k in kernels]
            if sum(widths) < X.shape[0]:
                return FeatureBank(
                    lambda a, b: np.hstack([k.features(X) for k in kernels[a:b]]), widths, X.shape[0], sizes
                )
        return KernelBank(kernels, X, sizes)

    def values(self, X: Rows, members: Members) -> Values:
        """Return what evaluates kernels on chosen pairs of rows, sharing inner products."""
        return KernelValues(self, X, members, self._picked(members))

    def _bound(self, X):
        return self if hasattr(self, "_n_features") else self.resolve(X.shape[1])

    def factors(self, member: Any) -> list[Kernel]:
        """Return the kernel itself."""
        return [self._kernels()[member]]

    def label(self, member: Any) -> str:
        """Return the given name, or the kernel's own."""
        given = self._given_names()
        if given is not None:
            return given[member]
        return self._kernels()[member].label(getattr(self, "_column_names", None))

    def parameters(self, member: Any) -> dict[str, Any]:
        """Return the kernel's parameters, and its columns where it does not see all."""
        kernel = self._kernels()[member]
        record: dict[str, Any] = kernel.parameters()
        if kernel.columns is not None:
            names = getattr(self, "_column_names", None)
            record["columns"] = [names[j] if names else int(j) for j in kernel.columns]
        return record


class Precomputed(_FiniteFamily):
    """Ready-made kernel matrices: X is a stack ``K[s, t, i]`` of shape (n, n_train, n_kernels).

    Parameters
    ----------
    names : list of str, optional
        One name per kernel.
    """

    pairwise = True

    def __init__(self, names: Sequence[str] | None = None):
        self.names = names

    def resolve(self, n_features: int, names: Sequence[str] | None = None) -> Precomputed:
        """Remember the number of kernels; `n_features` is that number here."""
        if self.names is not None and len(self.names) != n_features:
            raise ValueError(f"names has {len(self.names)} entries for {n_features} kernels; give one each.")
        resolved = Precomputed(None if self.names is None else [str(s) for s in self.names])
        resolved._n_kernels = n_features
        return resolved

    def check_training(self, X: Rows) -> None:
        """Raise ValueError unless every matrix is square, finite, symmetric and plausibly PSD."""
        if X.shape[0] != X.shape[1]:
            raise ValueError(
                f"X has shape {X.shape}; with kernels='precomputed' fit needs square matrices, "
                "(n, n, n_kernels)."
            )
        _check_symmetric(X, self.label)
        _check_psd(X, self.label)

    def size(self) -> float:
        """Return the number of kernels."""
        return self._n_kernels

    def members(self) -> list[int]:
        """Return 0..m-1."""
        return list(range(self._n_kernels))

    def gram(self, X: Rows, Z: Rows, members: Members, weights: np.ndarray) -> np.ndarray:
        """Return the weighted sum over the stack; `Z` is implied by its second axis."""
        full = np.zeros(X.shape[2])
        full[list(members)] = weights
        out = np.empty(X.shape[:2])
        for rows in row_blocks(X.shape[0], X.shape[1] * X.shape[2]):
            out[rows] = X[rows] @ full
        return out

    def apply(self, X: Rows, Z: Rows, B: np.ndarray, members: Members) -> np.ndarray:
        """Return K_i B for every member; of many the stack is read once, in blocks of rows."""
        chosen = list(members)
        out = np.empty((len(chosen), X.shape[0], B.shape[1]))
        if len(chosen) * LINE < X.shape[2]:
            for k, i in enumerate(chosen):
                out[k] = X[:, :, i] @ B
            return out
        for rows in row_blocks(X.shape[0], X.shape[1] * X.shape[2]):
            out[:, rows] = np.matmul(X[rows].transpose(0, 2, 1), B)[:, chosen].transpose(1, 0, 2)
        return out

    def mean_diag(self, X: Rows, members: Members, sample_weight: np.ndarray) -> np.ndarray:
        """Return the weighted mean of each diagonal."""
        d = np.einsum("tti->ti", X)[:, list(members)].astype(float)
        return np.average(d, axis=0, weights=sample_weight)

    def diag(self, X: Rows, members: Members, weights: np.ndarray) -> np.ndarray:
        """Return the weighted sum of the diagonals of square matrices."""
        return np.einsum("tti->ti", X)[:, list(members)].astype(float) @ np.asarray(weights)

    def bank(self, X: Rows, members: Members, sizes: BankSizes = BANK_SIZES) -> Bank:
        """Return a bank that reads the stack in place."""
        return StackBank(X, members)

    def values(self, X: Rows, members: Members) -> Values:
        """Return the stack itself."""
        return StackValues(self, X, members)

    def _bound(self, X):
        return self if hasattr(self, "_n_kernels") else self.resolve(X.shape[2])

    def support(self, X: Rows, rows: np.ndarray) -> None:
        """Keep nothing: new rows come with their values against all training rows."""
        return None

    def label(self, member: Any) -> str:
        """Return the given name, or ``K0``, ``K1``, ..."""
        return f"K{member}" if self.names is None else self.names[member]


def _check_symmetric(X, label):
    # Matrices in single precision, or computed as products, are symmetric to rounding only.
    unit = np.finfo(X.dtype).eps
    d = np.abs(np.einsum("tti->ti", X).astype(float))
    size = np.where(np.isfinite(d), d, 0).max(axis=0, initial=0.0)
    tolerance = 1e3 * unit * np.maximum(size, np.finfo(float).tiny)
    edges = np.linspace(0, X.shape[0], 33).astype(int)
    found = map_in_threads(
        lambda e: symmetry_violation(X, e[0], e[1], tolerance), list(itertools.pairwise(edges))
    )
    for s, t, i in found:
        if s >= 0:
            a, b = float(X[s, t, i]), float(X[t, s, i])
            what = "not finite" if not (np.isfinite(a) and np.isfinite(b)) else "not symmetric"
            raise ValueError(
                f"X: kernel {label(i)} is {what} at rows {s} and {t} ({a:.6g} and {b:.6g}); "
                "precomputed kernels must be finite and symmetric."
            )


def _check_psd(X, label):
    """Refuse matrices with a clearly negative eigenvalue, O(m k³) on k <= 256 evenly spaced rows.

    A principal submatrix of a PSD matrix is PSD; larger violations surface in the machine.
    """
    n, _, m = X.shape
    k = min(n, 256 if m <= 64 else 64)
    rows = np.unique(np.linspace(0, n - 1, k).astype(int))
    for i in range(m):
        K = X[np.ix_(rows, rows, np.array([i]))][:, :, 0].astype(float)
        size = max(np.abs(np.diagonal(K)).max(), np.abs(K).max())
        slack = 1e-6 if X.dtype == np.float64 else 1e-4
        low = np.linalg.eigvalsh(K)[0] if size > 0 else 0.0
        if low < -slack * size * len(rows) ** 0.5:
            raise ValueError(
                f"X: kernel {label(i)} is not positive semi-definite (an eigenvalue of a part of it is "
                f"{low:.3g}); clip its negative eigenvalues or drop it."
            )
