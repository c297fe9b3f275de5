"""The inner problem of every batch solver: from kernel weights to a certified iterate."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._util.threads import one_blas_thread
from ..certificates import certificate, mean_loss, penalties
from ..combination import Combination
from ..families.base import Family, HasFeatures, can
from ..machines import Fit, solve_dual, solve_primal, value_hessian
from ..predictors import Dual, Predictor, Primal
from ..problem import Problem

#: Machines with smaller systems than this run BLAS on one thread: its threads cost more than they bring.
ONE_THREAD = 2000
#: Sums of a kernel's values on all rows: machines divide by them, and take their squares times those of C.
LARGEST = 1e200


@dataclass(frozen=True, eq=False)
class Iterate:
    """The predictor that is optimal for given kernel weights, and its certificate.

    Attributes
    ----------
    theta : (m,) array
    A : (n, c) dual coefficients, dual feasible
    F : (n, c) scores of the training rows
    W : (k, c) coefficients of explicit features, or None
    intercept : (c,) array
    g : (m,) array, tr(AᵀK_iA)/ρ_i²; the gradient of J is -(λ/2) g
    u : (m,) array, ρ_i‖w_i‖
    value : float, J(theta)
    objective, dual : float, P and D
    """

    theta: np.ndarray
    A: np.ndarray
    F: np.ndarray
    W: np.ndarray | None
    intercept: np.ndarray
    g: np.ndarray
    u: np.ndarray
    value: float
    objective: float
    dual: float

    @property
    def gap(self) -> float:
        """Return P - D, never below zero by more than rounding."""
        return self.objective - self.dual


class Workspace:
    """Members bound to the rows of a problem; evaluates J and its gradient, warm-started.

    Parameters
    ----------
    problem : Problem
    family, members, rho_sq :
        The kernels; a ρ of 0 marks a member that is dropped.
    p : float or None
        The norm of the certificate; None when the kernel is fixed, as in two-stage solvers.
    """

    def __init__(self, problem: Problem, family: Family, members: Sequence[Any], rho_sq, p: float | None):
        self.problem = problem
        self.family = family
        self.members = members
        self.rho_sq = np.asarray(rho_sq, dtype=float)
        self.alive = self.rho_sq > 0
        if not self.alive.any():
            raise ValueError(
                "kernels: every kernel vanishes on the training rows; check that X is not all zeros."
            )
        self.p = p
        self.bank = family.bank(problem.X, members)
        self.lam = 1.0 / (problem.C * problem.n_rows)
        self._last: Fit | np.ndarray | None = None

    @classmethod
    def over_all(cls, problem: Problem, p: float) -> Workspace:
        """Bind every member of the problem's family."""
        family: Any = problem.family
        members = family.members()
        return cls(problem, family, members, problem.scale.rho_sq(members, p), p)

    @property
    def n_members(self) -> int:
        """Number of members m."""
        return len(self.members)

    def start_value(self) -> float:
        """Return P at f = 0."""
        pb = self.problem
        return mean_loss(pb.loss, pb.Y, np.zeros(pb.Y.shape), pb.sample_weight)

    def weights(self, theta) -> np.ndarray:
        """Return θ_i/ρ_i²."""
        return np.divide(theta, self.rho_sq, out=np.zeros(self.n_members), where=self.alive)

    def evaluate(self, theta) -> Iterate:
        """Solve the machine at θ, then compute g and the certificate.

        One pass over the kernels for the Gram matrix, the machine, one pass for g; with explicit features
        narrower than n, products with Φ instead.
        """
        theta = np.where(self.alive, theta, 0.0)
        weights = self.weights(theta)
        columns = self.bank.n_columns(weights)
        n = self.problem.n_rows
        narrow = columns is not None and columns + 1 < n
        size = columns if columns is not None and narrow else n
        with one_blas_thread() if size < ONE_THREAD else nullcontext():
            if narrow:
                A, F, W, b, norms_sq = self._primal(weights)
            else:
                A, F = self._dual(weights)
                W, b, norms_sq = None, A.sum(axis=0), None
        forms = self.bank.quad_forms(self._pooled(A))
        g = np.divide(forms, self.rho_sq, out=np.zeros(self.n_members), where=self.alive)
        u = theta * np.sqrt(g) if norms_sq is None else np.sqrt(self.rho_sq * norms_sq)
        return self._certified(theta, A, F, W, b, g, u)

    def _pooled(self, A: np.ndarray) -> np.ndarray:
        """Return the coefficients that kernels see."""
        return self.problem.loss.pooled(A) if self.problem.loss.shared else A

    def nothing(self) -> Iterate:
        """Return f = 0, with all weight on the first kernel: what there is before any machine has been solved."""
        pb, none = self.problem, np.zeros(self.n_members)
        theta, zero = none.copy(), np.zeros(pb.Y.shape)
        theta[np.flatnonzero(self.alive)[0]] = 1.0
        columns = self.bank.n_columns(self.weights(theta))
        narrow = columns is not None and columns + 1 < pb.n_rows
        width = 1 if pb.loss.shared else pb.n_outputs
        W = np.zeros((columns, width)) if columns is not None and narrow else None
        return self._certified(theta, zero, zero, W, np.zeros(pb.n_outputs), none, none)

    def hessian(self, iterate: Iterate, some: np.ndarray) -> np.ndarray:
        """Return the second derivatives of J in the weights θ of some members, over λ/2.

        In these units the gradient is -g. Losses with kinks have those of the face that A lies in. Two passes over the
        kernels, a Newton step of the machine, and O(k n² c) for k members.
        """
        pb, weights = self.problem, self.weights(iterate.theta)
        members = [self.members[i] for i in some.tolist()]
        moved = self.family.apply(pb.X, pb.X, iterate.A, members) / self.rho_sq[some, None, None]
        columns = self.bank.n_columns(weights)
        explicit = columns is not None and columns + 1 < pb.n_rows
        matrix = self._features(weights)[0] if explicit else self._gram(weights)
        fit = Fit(iterate.A, iterate.F, None, 0, 0.0)
        with one_blas_thread() if min(matrix.shape) < ONE_THREAD else nullcontext():
            return 2.0 * value_hessian(
                moved, matrix, pb.Y, pb.loss, pb.C, pb.sample_weight, fit, explicit=explicit
            )

    def _gram(self, weights) -> np.ndarray:
        """Return K_θ + 1: the intercept is a constant kernel of weight 1, unless a shared loss has its own."""
        K = self.bank.gram(weights)
        check_size(K.sum(), K.trace())
        if not self.problem.loss.shared:
            K += 1.0
        return K

    def _features(self, weights) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return Z, the member of each of its columns but the last, of ones, and what they were multiplied by."""
        phi, owner = self.bank.features(weights)
        root = np.sqrt(weights[owner])
        Z = np.ones((self.problem.n_rows, len(owner) + (not self.problem.loss.shared)))
        np.multiply(phi, root, out=Z[:, : len(owner)])
        check_size(np.einsum("ij,ij->", Z, Z))
        return Z, owner, root

    def _dual(self, weights):
        pb = self.problem
        fit = solve_dual(self._gram(weights), pb.Y, pb.loss, pb.C, pb.sample_weight, start=self._last)
        self._last = fit
        return fit.A, fit.F

    def _primal(self, weights):
        pb = self.problem
        Z, owner, root = self._features(weights)
        fit = solve_primal(Z, pb.Y, pb.loss, pb.C, pb.sample_weight, start=self._last)
        self._last = fit
        assert fit.W is not None
        W, b = fit.W[: len(owner)] * root[:, None], fit.W[len(owner) :].ravel()
        norms_sq = np.bincount(owner, weights=np.square(W).sum(axis=1), minlength=self.n_members)
        return fit.A, fit.F, W, b, norms_sq

    def _certified(self, theta, A, F, W, b, g, u) -> Iterate:
        pb = self.problem
        fixed = float(np.sum(np.divide(u**2, theta, out=np.zeros_like(u), where=theta > 0)))
        if self.p is None:
            penalty, dual_penalty = fixed, float(theta @ g)
        else:
            penalty, dual_penalty = penalties(u, g, self.p)
        known = pb.loss, pb.Y, F, A, pb.C, pb.sample_weight
        bounds = certificate(*known, penalty=penalty, dual_penalty=dual_penalty, intercept=b)
        value = bounds.primal + self.lam / 2 * (fixed - penalty)
        return Iterate(theta, A, F, W, b, g, u, value, bounds.primal, bounds.dual)

    def combination(self, iterate: Iterate) -> Combination:
        """Return the kernel of an iterate."""
        return Combination(
            self.family, self.members, self.weights(iterate.theta), np.sqrt(self.rho_sq), iterate.u
        )

    def predictor(self, iterate: Iterate) -> Predictor:
        """Return the predictor of an iterate."""
        combination, c = self.combination(iterate), self.problem.n_outputs
        # Where some parts of a union have no features, its bank may still have those of the members in use.
        if iterate.W is not None and can(self.family, HasFeatures):
            return Primal(combination, _of_all(iterate.W, c), iterate.intercept)
        A = _of_all(self._pooled(iterate.A), c)
        return Dual.from_training(combination, self.problem.X, A, iterate.intercept)


def _of_all(values: np.ndarray, c: int) -> np.ndarray:
    """Return coefficients of c outputs, which may share those of one."""
    return values if values.shape[1] == c else np.repeat(values, c, axis=1)


def check_size(*sums: float) -> None:
    """Raise ValueError for sums of a kernel's values that leave the range of floats, or come near its end."""
    if not np.abs(sums).max() <= LARGEST:
        raise ValueError(
            "kernels: their values on these rows are too large to add up; standardise the columns of X, or lower the "
            "degree."
        )
