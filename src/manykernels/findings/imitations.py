"""Knockoffs: columns at a wanted false discovery rate, by imitations that compete with them in one fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, cholesky
from sklearn.covariance import LedoitWolf

from .._util.checks import number
from .._util.text import brief, warn
from ..families import Products
from .anova import as_table
from .attribution import shares
from .halves import fitted, seed_of

#: What imitations are drawn from.
Construction = Literal["gaussian", "permutation"]
#: Relative change of the entropy at which its ascent ends, and the most sweeps; each gains, and few are needed.
ENTROPY_TOL, SWEEPS = 1e-10, 200


def knockoffs(
    estimator: Any,
    X: Any,
    y: Any,
    fdr: float = 0.1,
    *,
    construction: Construction = "gaussian",
    covariance: Any = None,
    strata: Any = None,
    sample_weight: Any = None,
    random_state: Any = None,
) -> Knockoffs:
    """Select columns at a wanted false discovery rate, by imitations that compete with them.

    Every column gets an imitation that correlates with the other columns, and with their imitations, as the column
    itself does, but knows nothing of y beyond what they tell. The estimator is fitted to columns and imitations
    together. W_j is the column's share of the fitted variance (its total Sobol index) less its imitation's: for a
    column that tells nothing of its own, either sign is equally likely. The columns with W_j ≥ T are selected,

        T = min{t > 0 : (1 + #{j : W_j ≤ -t}) / #{j : W_j ≥ t} ≤ fdr}        (knockoff+).

    Parameters
    ----------
    estimator : MKLClassifier or MKLRegressor
        With kernels that treat all columns alike: `Products` of columns, the default, a bandwidth per column.
    X : (n, r) array or table of numbers
    y : targets
    fdr : float
        The wanted rate: the expected share of false columns among the selected. Nothing is selected unless 1/fdr
        columns stand out.
    construction : {"gaussian", "permutation"}
        How imitations are drawn. ``"gaussian"``: from the normal distribution of imitations given the columns, with the
        largest entropy that their joint covariance allows. ``"permutation"``: each column is permuted within `strata`.
    covariance : (r, r) array, optional
        Of the columns, where it is known; estimated with Ledoit and Wolf's shrinkage by default.
    strata : array, optional
        For permutations: rows are exchanged within strata only.
    sample_weight : array, optional
    random_state : int, Generator, RandomState or None

    Returns
    -------
    Knockoffs

    Notes
    -----
    The rate is controlled, whatever y depends on and how, where the *columns* have the distribution that imitations
    are drawn from: normal with that covariance, or, for ``"permutation"``, independent of one another within strata.
    It is nearly controlled where that is nearly so. False is a column that is independent of y given all others: one
    that merely correlates with a true column is false.

    ``products`` are a heuristic without any guarantee: a product competes with the largest of its versions in which
    some factors are imitations, and T is found in the same way. ``benchmarks/knockoff_columns.py`` measures how often
    that errs.

    References
    ----------
    Candès, Fan, Janson, Lv (2018), *Panning for gold: model-X knockoffs for high dimensional controlled variable
    selection*. Gimenez, Zou (2019), *Improving the stability of the knockoff procedure* (entropy). Spector, Janson
    (2022), *Powerful knockoffs via minimizing reconstructability*.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import MKLRegressor
    >>> from manykernels.families import Products
    >>> from manykernels.findings import knockoffs
    >>> X = np.random.default_rng(0).standard_normal((400, 20))
    >>> y = X[:, :6].sum(axis=1) + X[:, 0] * X[:, 1]
    >>> knockoffs(MKLRegressor(Products(2), C=10.0), X, y, fdr=0.2, random_state=0).selected
    ['x0', 'x1', 'x2', 'x3', 'x4', 'x5']
    """
    numbers, names = _numbers(X)
    _check(estimator, fdr, construction, strata, numbers)
    seed = seed_of(random_state)
    rng = np.random.default_rng(seed)
    if construction == "gaussian":
        imitation = gaussian_imitation(numbers, rng, covariance)
    else:
        imitation = permuted_imitation(numbers, rng, strata)
    # Which of the two comes first must not matter to a search that breaks ties by order.
    swap = rng.random(len(names)) < 0.5
    left, right = np.where(swap, imitation, numbers), np.where(swap, numbers, imitation)
    model = fitted(estimator, np.hstack([left, right]), y, sample_weight, seed=[seed])
    return _compared(model, np.hstack([left, right]), names, swap, float(fdr))


def _numbers(X: Any) -> tuple[np.ndarray, list[str]]:
    """Return the columns as a matrix, and their names."""
    names = [str(name) for name in getattr(X, "columns", ())]
    try:
        numbers = np.asarray(X, dtype=float)
    except (TypeError, ValueError):
        numbers = np.empty(0)
    if numbers.ndim != 2 or not np.isfinite(numbers).all() or numbers.shape[1] == 0:
        raise ValueError(
            "X must be a matrix of finite numbers for knockoffs; encode categories and fill gaps first."
        )
    return numbers, names or [f"x{j}" for j in range(numbers.shape[1])]


def _check(estimator: Any, fdr: Any, construction: Any, strata: Any, X: np.ndarray) -> None:
    if not number(0, 1, open="both").accepts(fdr):
        raise ValueError(f"fdr is {brief(fdr)}; use a number between 0 and 1.")
    if construction not in ("gaussian", "permutation"):
        raise ValueError(f"construction is {brief(construction)}; use 'gaussian' or 'permutation'.")
    if strata is not None and construction == "gaussian":
        raise ValueError("strata is given, but construction is 'gaussian'; use construction='permutation'.")
    if strata is not None and len(strata) != len(X):
        raise ValueError(f"strata has {len(strata):,} values for {len(X):,} rows; give one for every row.")
    kernels = getattr(estimator, "kernels", None)
    named = isinstance(kernels, dict | list) or getattr(kernels, "base", None) is not None
    if not hasattr(estimator, "kernels") or named or (isinstance(kernels, str) and kernels == "precomputed"):
        raise ValueError(
            f"estimator is {brief(estimator)}; knockoffs need an MKLClassifier or MKLRegressor whose kernels treat all "
            "columns alike, such as Products(degree=2)."
        )


# -- imitations ----------------------------------------------------------------------------------------


def gaussian_imitation(X: np.ndarray, rng: np.random.Generator, covariance: Any = None) -> np.ndarray:
    """Draw X̃ given X from N(x - SΣ⁻¹(x - μ), 2S - SΣ⁻¹S), S the diagonal matrix of largest entropy."""
    mean, deviation = X.mean(axis=0), X.std(axis=0)
    deviation = np.where(deviation > 0, deviation, 1.0)
    Z = (X - mean) / deviation
    if covariance is None:
        C = LedoitWolf(assume_centered=True).fit(Z).covariance_
    else:
        C = _given_covariance(covariance, X.shape[1]) / np.outer(deviation, deviation)
    s = entropic(C)
    pulled = np.linalg.solve(C, np.diag(s))  # Σ⁻¹S
    V = 2 * np.diag(s) - s[:, None] * pulled
    V = (V + V.T) / 2
    values, vectors = np.linalg.eigh(V)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    drawn = Z - Z @ pulled + rng.standard_normal(Z.shape) @ root.T
    return mean + drawn * deviation


def _given_covariance(covariance: Any, r: int) -> np.ndarray:
    C = np.asarray(covariance, dtype=float)
    try:
        fine = C.shape == (r, r) and np.allclose(C, C.T) and cholesky(C) is not None
    except (LinAlgError, ValueError):
        fine = False
    if not fine:
        raise ValueError(f"covariance must be a positive definite matrix of {r} by {r} numbers.")
    return C


def entropic(C: np.ndarray) -> np.ndarray:
    """Return s that maximises log det(2C - S) + Σ_j log s_j, the entropy of normal columns with their imitations.

    Coordinate ascent, each step in closed form: with a = ((2C - S)⁻¹)_jj the best change of s_j is (1/a - s_j)/2. The
    problem is concave, and the solution has s_j ((2C - S)⁻¹)_jj = 1 for all j.
    """
    s = np.full(len(C), np.linalg.eigvalsh(C)[0])
    for _ in range(SWEEPS):
        inverse = cho_solve(cho_factor(2 * C - np.diag(s)), np.eye(len(C)))  # anew: updates gather rounding
        gained = 0.0
        for j in range(len(s)):
            a = inverse[j, j]
            change = (1 / a - s[j]) / 2
            gained += np.log1p(change / s[j]) + np.log1p(-change * a)
            s[j] += change
            column = inverse[:, j].copy()
            inverse += np.outer(column, column) * (change / (1 - change * a))
        if gained <= ENTROPY_TOL:
            break
    return s


def permuted_imitation(X: np.ndarray, rng: np.random.Generator, strata: Any = None) -> np.ndarray:
    """Permute every column by itself, within strata."""
    which = (
        np.zeros(len(X), dtype=int) if strata is None else np.unique(strata, return_inverse=True)[1].ravel()
    )
    out = X.copy()
    for k in range(which.max(initial=-1) + 1):
        rows = np.flatnonzero(which == k)
        out[rows] = rng.permuted(X[rows], axis=0)
    return out


# -- statistics ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Knockoffs:
    """Columns against their imitations, see :func:`knockoffs`.

    Attributes
    ----------
    names : list of str
        Of the columns.
    statistics : (r,) array
        W: a column's share of the fitted variance less that of its imitation.
    threshold : float
        T: infinite if nothing can be selected at this rate.
    fdr : float
        The wanted rate.
    products : tuple of dict
        For `Products` of columns: ``kernel`` (its name), ``columns``, ``statistic`` and ``selected``; a heuristic
        without guarantee.
    model : estimator
        The fit to columns and imitations.
    """

    names: list[str]
    statistics: np.ndarray
    threshold: float
    fdr: float
    products: tuple[dict[str, Any], ...] = field(repr=False)
    model: Any = field(repr=False)

    @property
    def selected(self) -> list[str]:
        """The selected columns, in the order of the table."""
        return [name for name, w in zip(self.names, self.statistics, strict=True) if w >= self.threshold]

    def table(self) -> Any:
        """Return the columns as a DataFrame, the largest statistic first; without pandas, as a list of records."""
        records = [
            {"column": name, "statistic": float(w), "selected": bool(w >= self.threshold)}
            for name, w in zip(self.names, self.statistics, strict=True)
        ]
        return as_table(sorted(records, key=lambda r: -r["statistic"]), ["column", "statistic", "selected"])

    def product_table(self) -> Any:
        """Return the products as a DataFrame, the largest statistic first; without pandas, as a list of records."""
        return as_table(list(self.products), ["kernel", "columns", "statistic", "selected"])


def knockoff_threshold(statistics: Sequence[float] | np.ndarray, fdr: float) -> float:
    """Return T = min{t > 0 : (1 + #{W ≤ -t})/#{W ≥ t} ≤ fdr}, infinite if there is none (knockoff+)."""
    W = np.asarray(statistics, dtype=float)
    for t in np.unique(np.abs(W[W != 0])):
        if 1 + np.count_nonzero(-t >= W) <= fdr * np.count_nonzero(t <= W):
            return float(t)
    return np.inf


def _compared(model: Any, both: np.ndarray, names: list[str], swap: np.ndarray, fdr: float) -> Knockoffs:
    """Compare columns with their imitations; `swap` says which imitations stand in the columns' places."""
    r = len(names)
    found = shares(model, both)
    total = np.zeros(2 * r)
    for place, value in zip(found.columns, found.total, strict=True):
        total[list(place)] = value
    W = np.where(swap, total[r:] - total[:r], total[:r] - total[r:])
    threshold = knockoff_threshold(W, fdr)
    if np.isinf(threshold) and np.count_nonzero(W > 0) < 1 / fdr:
        warn(
            f"Nothing is selected: at fdr={fdr:g} at least {int(np.ceil(1 / fdr))} columns must stand out, and "
            f"{np.count_nonzero(W > 0)} are ahead of their imitations; allow a larger fdr."
        )
    family = model.combination_.family
    products = _products(model, names, swap, fdr) if isinstance(family, Products) else ()
    return Knockoffs(names, W, threshold, fdr, products, model)


def _products(model: Any, names: list[str], swap: np.ndarray, fdr: float) -> tuple[dict[str, Any], ...]:
    """Compare products with the largest of their versions that have imitations for factors."""
    combination, r = model.combination_, len(names)
    true: dict[tuple[int, ...], float] = {}
    rival: dict[tuple[int, ...], float] = {}
    for member, share in zip(combination.members, combination.shares(), strict=True):
        z = tuple(sorted(j % r for j in member))
        imitated = any((j >= r) != swap[j % r] for j in member)
        side = rival if imitated else true
        side[z] = max(side.get(z, 0.0), float(share))
    W = {z: true.get(z, 0.0) - rival.get(z, 0.0) for z in {**true, **rival}}
    threshold = knockoff_threshold(np.array(list(W.values())), fdr)
    resolved = Products(degree=combination.family.degree).resolve(r, names)
    return tuple(
        {"kernel": resolved.label(z), "columns": z, "statistic": w, "selected": w >= threshold}
        for z, w in sorted(W.items(), key=lambda pair: -pair[1])
    )
