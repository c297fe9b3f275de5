"""Gram once: for the squared loss, all that a solver needs of any number of rows is one Gram matrix of their features.

With G = Σ_t s_t [1, φ_t, y_t]ᵀ [1, φ_t, y_t], summed in one pass over the rows, wherever these are, the objective is a
function of G alone. Any factor RᵀR = G has as many rows as G, and stands for all of them: turned so that its first
column is constant, R is a table with the features and targets of a few rows of equal weight, on which every solver
finds the same weights, objective and certificate as on the rows themselves, in a time that does not depend on n. Folds
of the rows have Gram matrices of their own, so that C and p are chosen by cross-validation over all rows without
another look at them.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import eigh
from sklearn.exceptions import ConvergenceWarning

from .._util.arrays import row_blocks
from .._util.text import brief
from ..combination import Combination
from ..families.base import Enumerable, HasFeatures, HasRandomFeatures, can
from ..families.finite import Finite
from ..kernels import Linear
from ..predictors import Primal, RandomFeature, feature_maps
from ..problem import Problem, Result, Scale
from ..streaming.cluster import Block, Rows
from ..streaming.sources import uniform
from .choosing import Found, Trial, search_C

#: Most columns of a Gram matrix: 0.5 GiB with three folds.
MOST_COLUMNS = 4096
#: Random features of all kernels together, and what they are drawn with.
RANDOM_COLUMNS, SEED = 2048, 0
#: Folds of the rows, and entries of a block of features.
FOLDS, ENTRIES = 3, 2**20


@dataclass(frozen=True, eq=False)
class Features:
    """The features of all members of a family: their own, or random ones.

    Attributes
    ----------
    family : Family
    members : list
    n_columns : int
        Of X.
    sizes : (m,) array of int or None
        Of random features; None where all members have features of their own.
    """

    family: Any
    members: Sequence[Any]
    n_columns: int
    sizes: np.ndarray | None = None

    @classmethod
    def of(cls, family: Any, n_columns: int) -> Features:
        """Return the features of a family that can be listed."""
        members = list(family.members())
        if can(family, HasFeatures):
            return cls(family, members, n_columns)
        maps = family.random_features(members, n_columns, SEED, 2)
        drawn = np.array([m.n_blocks is None for m in maps])
        size = max(2, RANDOM_COLUMNS // max(1, int(drawn.sum())) // 2 * 2)
        return cls(family, members, n_columns, np.where(drawn, size, 1))

    @cached_property
    def maps(self) -> list[Any]:
        """The maps to random features; a map is exact where the kernel has finitely many."""
        assert self.sizes is not None
        return feature_maps(self.family, self.members, self.n_columns, SEED, self.sizes)

    def __getstate__(self):
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @property
    def random(self) -> bool:
        """Whether some stand for others, which are infinitely many."""
        return self.sizes is not None and any(m.n_blocks is None for m in self.maps)

    @cached_property
    def widths(self) -> np.ndarray:
        """Columns of every member."""
        if self.sizes is None:
            return self.family.widths(self.members)
        return np.array([m.width for m in self.maps], dtype=np.intp)

    def columns(self, X: np.ndarray) -> np.ndarray:
        """Return the features of rows, in double precision."""
        if self.sizes is None:
            return self.family.features(X, self.members)
        return np.hstack([m.block(0).transform(X) for m in self.maps]).astype(np.float64)

    def predictor(
        self, combination: Combination, W: np.ndarray, intercept: np.ndarray
    ) -> Primal | RandomFeature:
        """Return the predictor with coefficients of all features."""
        if self.sizes is None:
            return Primal(combination, W[np.repeat(combination.weights != 0, self.widths)], intercept)
        one = np.ones(len(self.members), dtype=np.intp)
        known = np.array([self.n_columns]), np.array([SEED])
        return RandomFeature(combination, *known, self.sizes, one, W, intercept)

    def gram(self, block: Block, folds: int) -> np.ndarray:
        """Return Σ s [1, φ, y]ᵀ [1, φ, y] of every fold, (folds, m, m)."""
        m = 1 + int(self.widths.sum()) + block.Y.shape[1]
        out = np.zeros((folds, m, m))
        fold = (uniform(np.arange(len(block.s)), 0) * folds).astype(int)
        for rows in row_blocks(len(block.s), m, ENTRIES):
            X = np.asarray(block.X[rows], dtype=np.float64)
            Z = np.column_stack([np.ones(len(X)), self.columns(X), block.Y[rows]])
            for k in range(folds):
                part = Z[fold[rows] == k]
                out[k] += part.T @ (part * block.s[rows][fold[rows] == k, None])
        return out


def _grams(block: Block, features: Features, folds: int) -> np.ndarray:
    return features.gram(block, folds)


class GramOnce:
    """The problem on all rows, and on all but one of the folds, as problems on a few rows.

    Parameters
    ----------
    rows : Rows
    first : Problem
        A sample of the rows, with the family, the scale, the loss and C.
    folds : int
        Into how many folds the rows are cut.
    """

    def __init__(self, rows: Rows, first: Problem, folds: int):
        family: Any = first.family
        self.first, self.n_rows, self.family = first, rows.n_rows, family
        self.features = Features.of(family, first.X.shape[1])
        self.members, self.widths = list(self.features.members), self.features.widths
        self.grams = rows.sum(_grams, rows.broadcast(self.features), folds)
        self.total = self.grams.sum(axis=0)

    def rho_sq(self, G: np.ndarray, p: float) -> np.ndarray:
        """Return ρ_i² on the rows of a Gram matrix."""
        scale = self.first.scale
        if not (isinstance(scale.how, str) and scale.how == "trace") and scale.how != "base":
            return scale.rho_sq(self.members, p)
        penalty = self.family.penalty(self.members, 1.0 if p == 1 else p / (2 - p) if p < 2 else np.inf)
        if scale.how == "trace":
            ends = 1 + np.concatenate([[0], np.cumsum(self.widths)])
            squares = np.concatenate([[0.0], np.cumsum(np.diagonal(G))])
            return (squares[ends[1:]] - squares[ends[:-1]]) / G[0, 0] * penalty
        own = [self.members.index((j,)) for j in range(self.family._r)]
        base = np.diagonal(G)[1:][own] / G[0, 0]
        return self.family.factor_scale(base, self.members) * penalty

    def problem(self, G: np.ndarray, C: float, p: float) -> tuple[Problem, np.ndarray]:
        """Return a problem on len(G) rows with this Gram matrix, and ρ²; a kernel that vanishes is left out."""
        rho_sq = self.rho_sq(G, p)
        X, Y, s = rows_of(G, self.first.n_outputs)
        ends = np.concatenate([[0], np.cumsum(self.widths)])
        kernels = [
            Linear(columns=np.arange(a, b))
            for a, b, r in zip(ends[:-1], ends[1:], rho_sq, strict=True)
            if r > 0
        ]
        family = Finite(kernels).resolve(X.shape[1])
        scale = Scale(family, np.sqrt(rho_sq[rho_sq > 0]), X, s)
        known: dict[str, Any] = {
            "X": X,
            "Y": Y,
            "sample_weight": s,
            "family": family,
            "scale": scale,
            "groups": None,
        }
        return replace(self.first, **known, C=C, choose_C=False), rho_sq

    def coefficients(self, problem: Problem, result: Result, rho_sq: np.ndarray) -> np.ndarray:
        """Return W of all features and the intercept last, from a result on the few rows."""
        weights = np.zeros(len(self.members))
        weights[rho_sq > 0] = result.combination.weights
        assert result.dual_coef is not None
        W = (problem.X.T @ result.dual_coef) * np.repeat(weights, self.widths)[:, None]
        return np.concatenate([W, result.intercept[None]])

    def error(self, G: np.ndarray, W: np.ndarray) -> float:
        """Return Σ s ½‖y - f‖² over the rows of a Gram matrix."""
        v = np.concatenate([-W[-1:], -W[:-1], np.eye(W.shape[1])])
        return 0.5 * float(np.trace(v.T @ G @ v))


def rows_of(G: np.ndarray, n_outputs: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return features, targets and weights of as many rows as G has, whose Gram matrix with a constant column is G."""
    unit = np.sqrt(np.maximum(np.diagonal(G), 0.0))
    unit[unit == 0] = 1.0
    w, V = eigh(G / unit / unit[:, None])
    R = np.sqrt(np.maximum(w, 0.0))[:, None] * V.T * unit
    m, total = len(G), float(G[0, 0])
    constant = np.full(m, np.sqrt(total / m))
    z = R[:, 0] * (np.sqrt(total) / np.linalg.norm(R[:, 0])) - constant
    if float(z @ z) > 0:  # a reflection, which takes the first column to the constant one
        R = R - np.outer(z, (2.0 / float(z @ z)) * (z @ R))
    R /= np.sqrt(total / m)
    c = R.shape[1] - n_outputs
    return np.ascontiguousarray(R[:, 1:c]), np.ascontiguousarray(R[:, c:]), np.full(m, total / m)


def _has_columns(family: Any, n_columns: int) -> bool:
    """Whether all members have columns that are not mostly zero."""
    if can(family, HasFeatures):
        return True
    if not can(family, HasRandomFeatures):
        return False
    return not any(m.sparse for m in family.random_features(family.members(), n_columns, SEED, 2))


def check_gram(solver: Any, problem: Problem) -> None:
    """Raise ValueError for kernels and losses that one Gram matrix does not describe."""
    family: Any = problem.family
    name = type(solver).__name__
    dense = can(family, Enumerable) and _has_columns(family, problem.X.shape[1])
    if not dense:
        raise ValueError(
            f"{name} takes rows from files and clusters where kernels can be listed and have explicit or Fourier "
            f"features, and kernels is {brief(family)}; use Linear, Polynomial, RBF or Products(), Blockwise, or rows "
            "in memory."
        )
    if problem.loss.name != "squared":
        raise ValueError(
            f"{name} takes rows from files and clusters with loss='squared', not {problem.loss.name!r}; pass rows in "
            "memory for others."
        )
    if family.size() > MOST_COLUMNS:
        columns = int(family.size())
    else:
        columns = int(Features.of(family, problem.X.shape[1]).widths.sum())
    if columns > MOST_COLUMNS:
        raise ValueError(
            f"kernels have {columns:,} features, and {name} sums up a Gram matrix of {MOST_COLUMNS:,} at the most over "
            "rows in files and on clusters; use fewer kernels, Greedy for products, or Blockwise."
        )


def solve_gram(solver: Any, rows: Rows, first: Problem, on_iteration=None) -> Result:
    """Sum up the Gram matrix, choose C and p by folds where they are open, and solve on the few rows."""
    check_gram(solver, first)
    candidates = solver.candidates()
    left_open = first.choose_C or len(candidates) > 1
    once = GramOnce(rows, first, FOLDS if left_open else 1)
    C = first.C
    if left_open:
        solver, C = _chosen(once, candidates, first)
    problem, rho_sq = once.problem(once.total, C, solver.p or 2.0)
    result = solver.solve(problem, on_iteration=on_iteration)
    return _whole(once, problem, result, rho_sq, C, {"rounds": (rows.rounds,), "bytes": (rows.sent,)})


class SolvesGrams:
    """A solver that does with the Gram matrix of all features where rows lie in files or on a cluster."""

    sums_rows = gram_once = True

    def solve_rows(self: Any, rows: Rows, first: Problem, held_out=None, on_iteration=None) -> Result:
        """Fit by one pass over the rows; C, and p where it is open, by folds of them."""
        self.check_params()
        return solve_gram(self, rows, first, on_iteration)


def _chosen(once: GramOnce, candidates: list[Any], first: Problem) -> tuple[Any, float]:
    """Return the solver and the C with the least error of the folds, each by a model of the others."""
    parts = [(once.total - fold, fold) for fold in once.grams]
    trials = []
    for solver in candidates:
        rough = solver.rough()

        def trial(C: float, rough=rough) -> Trial:
            error = 0.0
            with warnings.catch_warnings():  # that a trial is not exact needs no saying
                warnings.simplefilter("ignore", ConvergenceWarning)
                for rest, fold in parts:
                    problem, rho_sq = once.problem(rest, C, rough.p or 2.0)
                    error += once.error(fold, once.coefficients(problem, rough.solve(problem), rho_sq))
            return Trial(C, error / float(once.total[0, 0]), np.zeros(0))

        trials.append(list(search_C(trial, 0)) if first.choose_C else [trial(first.C)])
    at, best = Found(*trials).best()
    return candidates[at], first.C if best is None else best.C


def _whole(once: GramOnce, problem: Problem, result: Result, rho_sq, C: float, extra) -> Result:
    """Return a result on the few rows as one on all rows."""
    alive = np.flatnonzero(rho_sq > 0)
    weights, norms = np.zeros(len(rho_sq)), np.zeros(len(rho_sq))
    weights[alive] = result.combination.weights
    if result.combination.norms is not None:
        norms[alive] = result.combination.norms
    combination = Combination(once.family, once.members, weights, np.sqrt(rho_sq), norms)
    W = once.coefficients(problem, result, rho_sq)
    ratio = problem.n_rows / once.n_rows  # a mean over few rows, and one over all of them
    trace = replace(
        result.trace,
        objective=tuple(ratio * v for v in result.trace.objective),
        gap=tuple(ratio * v for v in result.trace.gap),
        extra={**result.trace.extra, **extra},
    )
    return replace(
        result,
        predictor=once.features.predictor(combination, W[:-1], result.intercept),
        combination=combination,
        gap_kind="features" if once.features.random else result.gap_kind,
        objective=ratio * result.objective,
        gap=ratio * result.gap,
        trace=trace,
        dual_coef=None,
        left_out=None,
        C=C,
    )
