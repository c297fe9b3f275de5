"""Kernels with weight, growing as a solver meets them, and the machine on their weighted sum."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np

from .._util.threads import one_blas_thread
from ..certificates import certificate, mean_loss, norm
from ..combination import Combination
from ..families.base import Enumerable, HasFeatures, can
from ..families.draws import draw_from
from ..machines import Fit, GrowingRidge, solve_dual, solve_primal
from ..predictors import Dual, Predictor, Primal
from ..problem import Problem
from .workspace import ONE_THREAD

#: With this many columns per row, Newton systems on features cost more than on the Gram matrix.
WIDE = 1 / 3
#: Families up to this size are looked at member by member: bound to the rows once, compared, and shown in full.
FEW_MEMBERS = 5000
#: From so many rows on, the squared loss keeps the sums over rows of its columns: to make them anew for every machine
#: would take longer than all the rest of a step.
MANY_ROWS = 20_000


class _AllMembers:
    """All members of a family that can be listed, in one bank."""

    def __init__(self, problem: Problem, rho_of):
        family: Any = problem.family
        self.members = family.members()
        self.place = {z: i for i, z in enumerate(self.members)}
        self.bank = family.bank(problem.X, self.members)
        self.rho_sq = rho_of(self.members)
        self._known: tuple[np.ndarray, np.ndarray] | None = None

    def gram(self, members, weights) -> np.ndarray:
        """Return the weighted sum of some members."""
        full = np.zeros(len(self.members))
        full[[self.place[z] for z in members]] = weights
        return self.bank.gram(full)

    def forms(self, A, members=None) -> np.ndarray:
        """Return tr(AᵀK_iA); drawing and stepping ask for the same A one after the other."""
        if self._known is None or self._known[0] is not A:
            self._known = A, self.bank.quad_forms(A)
        forms = self._known[1]
        return forms if members is None else forms[[self.place[z] for z in members]]

    def draw(self, A, size, rng):
        """Draw in proportion to g, or uniformly where there is none."""
        g = np.divide(self.forms(A), self.rho_sq, out=np.zeros(len(self.members)), where=self.rho_sq > 0)
        return draw_from(self.members, g, size, rng)


class _Met:
    """Gram matrices of members met one after the other, as long as they fit; those of later ones are evaluated anew.

    Parameters
    ----------
    problem : Problem
    most_bytes : int
        What may be kept.
    """

    def __init__(self, problem: Problem, most_bytes: int):
        self.family: Any = problem.family
        self.X, self.shape = problem.X, (problem.n_rows, problem.n_rows)
        self.room = most_bytes // (8 * problem.n_rows**2)
        self.kept = 0
        self.matrices = np.empty((0, problem.n_rows**2))

    def append(self, member: Any) -> None:
        """Keep the matrix of the next member, if there is room."""
        if self.kept == self.room:
            return
        if self.kept == len(self.matrices):
            more = np.empty((min(self.room, max(16, 2 * self.kept)), self.matrices.shape[1]))
            more[: self.kept] = self.matrices
            self.matrices = more
        self.matrices[self.kept] = self.family.gram(self.X, self.X, [member], np.ones(1)).ravel()
        self.kept += 1

    def gram(self, members: Sequence[Any], weights: np.ndarray) -> np.ndarray:
        """Return the weighted sum of all members."""
        k = self.kept
        K = (weights[:k] @ self.matrices[:k]).reshape(self.shape)
        if len(members) > k:
            K += self.family.gram(self.X, self.X, members[k:], weights[k:])
        return K


class Active:
    """A growing list of members with weights θ, updated incrementally.

    Members with one explicit feature (monomials) live in a matrix of columns; while these are few the machine is
    primal, O(n k²). Otherwise the Gram matrix K_θ is kept, and a step that changes the weights of a few members
    and scales all of them costs O(n²) per changed member.

    Parameters
    ----------
    problem : Problem
    p : float
        The norm of the objective.
    many_rows : int
        From so many rows on, the squared loss keeps the sums over rows of its columns.
    kept_bytes : int
        Gram matrices of members that cannot be listed are kept up to so many bytes: for those who replace all weights
        again and again (:meth:`reweigh`), which would evaluate all kernels each time.
    """

    def __init__(self, problem: Problem, p: float, many_rows: int = MANY_ROWS, kept_bytes: int = 0):
        self.problem = problem
        self.family: Any = problem.family
        self.p = p
        self.members: list[Any] = []
        self.place: dict[Any, int] = {}
        self.theta = np.zeros(0)
        self.rho_sq = np.zeros(0)
        self.lam = 1.0 / (problem.C * problem.n_rows)
        self._columns: np.ndarray | None = None
        if can(self.family, HasFeatures) and getattr(self.family, "rank_one", False):
            self._columns = np.empty((problem.n_rows, 16), order="F")
        self._list: _AllMembers | None = None
        if self._columns is None and can(self.family, Enumerable) and self.family.size() <= FEW_MEMBERS:
            self._list = _AllMembers(problem, self.rho_of)
        self._met: _Met | None = None
        if self._columns is None and self._list is None and kept_bytes:
            self._met = _Met(problem, kept_bytes)
        self._K: np.ndarray | None = None
        self._unit = 1.0  # K_θ is _unit · _K
        self._last: Fit | None = None
        self._ridge: GrowingRidge | None = None
        if self._columns is not None and problem.loss.name == "squared" and problem.n_rows >= many_rows:
            self._ridge = GrowingRidge(problem.Y, problem.C, problem.sample_weight)

    def __len__(self) -> int:
        return len(self.members)

    # -- weights -----------------------------------------------------------------------------------------

    def rho_of(self, members: Sequence[Any]) -> np.ndarray:
        """Return ρ² of members."""
        return self.problem.scale.rho_sq(members, self.p)

    def include(self, members: Sequence[Any], rho_sq: np.ndarray) -> list[int]:
        """Return the places of members, which may be new, and then have no weight yet, or repeated."""
        pairs = zip(members, rho_sq, strict=True)
        return [self.place[z] if z in self.place else self._append(z, r) for z, r in pairs]

    def add(self, members: Sequence[Any], increments: np.ndarray, rho_sq: np.ndarray) -> None:
        """Add to the weights θ of members, which may be new or repeated."""
        places = self.include(members, rho_sq)
        np.add.at(self.theta, places, increments)
        if self._list is not None:
            self._K = None  # one pass over the bank is cheaper than evaluating kernels anew
        elif self._K is not None:
            self._add_gram(places, increments / rho_sq)

    def _append(self, member, rho_sq) -> int:
        i = len(self.members)
        self.members.append(member)
        self.place[member] = i
        self.theta = np.append(self.theta, 0.0)
        self.rho_sq = np.append(self.rho_sq, rho_sq)
        if self._columns is not None:
            if i == self._columns.shape[1]:
                wider = np.empty((len(self._columns), 2 * i), order="F")
                wider[:, :i] = self._columns
                self._columns = wider
            self._columns[:, i] = self.family.features(self.problem.X, [member])[:, 0]
        if self._met is not None:
            self._met.append(member)
        return i

    def _add_gram(self, places, weights):
        assert self._K is not None
        weights = weights / self._unit
        if self._columns is not None:
            phi = self._columns[:, places]
            self._K += (phi * weights) @ phi.T
        else:
            X = self.problem.X
            self._K += self.family.gram(X, X, [self.members[i] for i in places], weights)

    def scale(self, factor: float) -> None:
        """Multiply all weights."""
        self.theta *= factor
        self._unit *= factor
        if self._K is not None and self._unit < 1e-6:
            self._K *= self._unit
            self._unit = 1.0

    def reweigh(self, theta: np.ndarray) -> None:
        """Replace all weights; members without stay where they are."""
        self.theta = theta
        self._K, self._unit = None, 1.0

    def set(self, theta: np.ndarray) -> None:
        """Replace all weights; members without are dropped."""
        keep = np.flatnonzero(theta > 0)
        if self._ridge is not None:
            self._ridge.keep(keep[keep < self._ridge.n_columns])
        self.members = [self.members[i] for i in keep]
        self.place = {z: i for i, z in enumerate(self.members)}
        self.theta, self.rho_sq = theta[keep], self.rho_sq[keep]
        if self._columns is not None:
            kept = np.asfortranarray(self._columns[:, keep])
            self._columns = kept if kept.shape[1] else np.empty((len(kept), 16), order="F")
        self._met = None  # its matrices are those of the members as they came
        self._K, self._unit = None, 1.0

    def segment(self, member, rho_sq: float) -> Segment:
        """Return the points between the current weights and one member alone."""
        return Segment(self, member, rho_sq)

    # -- the machine -------------------------------------------------------------------------------------

    def weights(self) -> np.ndarray:
        """Return θ_i/ρ_i²."""
        return self.theta / self.rho_sq

    def solve(self) -> Fit:
        """Solve the machine at the current weights, from the last solution."""
        pb = self.problem
        n, k = pb.n_rows, len(self)
        narrow = self._columns is not None and k + 1 < WIDE * n and self._K is None
        size = k + 1 if narrow else n
        with one_blas_thread() if size < ONE_THREAD else nullcontext():
            if narrow and self._ridge is not None:
                assert self._columns is not None
                fit = self._ridge.solve(self._columns[:, :k], self.weights())
            elif narrow:
                assert self._columns is not None
                Z = np.empty((n, k + 1))
                np.multiply(self._columns[:, :k], np.sqrt(self.weights()), out=Z[:, :k])
                Z[:, k] = 1.0
                fit = solve_primal(Z, pb.Y, pb.loss, pb.C, pb.sample_weight, start=self._last)
            else:
                K = self._gram() * self._unit
                K += 1.0
                fit = solve_dual(K, pb.Y, pb.loss, pb.C, pb.sample_weight, start=self._last)
        self._last = fit
        return fit

    def _gram(self) -> np.ndarray:
        if self._K is None:
            k = len(self)
            self._unit = 1.0
            if self._columns is not None:
                phi = self._columns[:, :k]
                self._K = (phi * self.weights()) @ phi.T
            elif self._list is not None:
                self._K = self._list.gram(self.members, self.weights())
            elif self._met is not None:
                self._K = self._met.gram(self.members, self.weights())
            else:
                X = self.problem.X
                self._K = self.family.gram(X, X, self.members, self.weights())
        return self._K

    # -- values ------------------------------------------------------------------------------------------

    def forms(self, A: np.ndarray, members: Sequence[Any] | None = None) -> np.ndarray:
        """Return tr(AᵀK_iA) of members, or of all that are active."""
        if members is None and self._columns is not None:
            return np.square(self._columns[:, : len(self)].T @ A).sum(axis=1)
        if self._list is not None:
            return self._list.forms(A, self.members if members is None else members)
        return self.family.forms(self.problem.X, A, self.members if members is None else members)

    def drawer(self):
        """Return ``(A, size, rng) -> members, probability``."""
        if self._list is not None:
            return self._list.draw
        return self.family.drawer(self.problem.X, self.problem.scale)

    def norms(self, fit: Fit) -> np.ndarray:
        """Return u_i = ρ_i‖w_i‖ = θ_i √g_i of the active members."""
        if not len(self):
            return np.zeros(0)
        if fit.W is not None:
            return np.sqrt(self.theta) * np.sqrt(np.square(fit.W[:-1]).sum(axis=1))
        return self.theta * np.sqrt(np.maximum(self.forms(fit.A), 0.0) / self.rho_sq)

    def objective(self, fit: Fit, norms: np.ndarray) -> float:
        """Return P at a solution of the machine."""
        pb = self.problem
        b = self.intercept(fit)
        loss = mean_loss(pb.loss, pb.Y, fit.F, pb.sample_weight)
        return loss + self.lam / 2 * (norm(norms, self.p) ** 2 + float(b @ b))

    def value(self, fit: Fit) -> float:
        """Return J(θ) >= P at a machine on Gram matrices; as F = (K_θ + 11ᵀ)A, no kernel is looked at."""
        pb = self.problem
        loss = mean_loss(pb.loss, pb.Y, fit.F, pb.sample_weight)
        return loss + self.lam / 2 * float(np.vdot(fit.A, fit.F))

    def dual(self, fit: Fit, dual_norm: float) -> float:
        """Return D at a solution of the machine, given ‖g‖_ν* over the whole family."""
        pb = self.problem
        known = pb.loss, pb.Y, fit.F, fit.A, pb.C, pb.sample_weight
        bounds = certificate(*known, penalty=0.0, dual_penalty=dual_norm, intercept=self.intercept(fit))
        return bounds.dual

    @staticmethod
    def intercept(fit: Fit) -> np.ndarray:
        """Return b."""
        return fit.A.sum(axis=0) if fit.W is None else fit.W[-1]

    def combination(self, norms: np.ndarray) -> Combination:
        """Return the kernel."""
        return Combination(self.family, self.members, self.weights(), np.sqrt(self.rho_sq), norms)

    def explicit(self, fit: Fit) -> Fit:
        """Return a solution on the Gram matrix of explicit features with coefficients of these, and their scores.

        They need no training rows to predict; where C is large they differ from KA by more than the last digits.
        """
        if fit.W is not None or self._columns is None:
            return fit
        Z = self._columns[:, : len(self)] * np.sqrt(self.weights())
        W = np.vstack([Z.T @ fit.A, fit.A.sum(axis=0)])
        return replace(fit, W=W, F=Z @ W[:-1] + W[-1])

    def predictor(self, fit: Fit, combination: Combination) -> Predictor:
        """Return the predictor of what `explicit` returns."""
        if fit.W is not None:
            return Primal(combination, fit.W[:-1] * np.sqrt(self.weights())[:, None], self.intercept(fit))
        return Dual.from_training(combination, self.problem.X, fit.A, self.intercept(fit))


class Segment:
    """θ(η) = (1 - η) θ + η e_z, with the machine and its slope at any η.

    With explicit features a point costs a primal machine; with Gram matrices the two ends are kept, and a point
    costs O(n²) and the machine.
    """

    def __init__(self, active: Active, member, rho_sq: float):
        self.active = active
        before = active.theta.copy()
        if member not in active.place:
            active._append(member, rho_sq)
            before = np.append(before, 0.0)
        self.i, self.before = active.place[member], before
        self._ends: tuple[np.ndarray, np.ndarray] | None = None
        if active._columns is None:
            X = active.problem.X
            alone = active.family.gram(X, X, [member], np.array([1.0 / rho_sq]))
            self._ends = active._gram() * active._unit, alone

    def g(self, A: np.ndarray) -> float:
        """Return g of the member."""
        if self._ends is not None:
            return float(np.vdot(A, self._ends[1] @ A))
        assert self.active._columns is not None
        pulled = self.active._columns[:, self.i] @ A
        return float(pulled @ pulled) / self.active.rho_sq[self.i]

    def at(self, eta: float) -> tuple[Fit, float]:
        """Return the machine at η, and dJ/dη over λ/2."""
        active = self.active
        theta = (1 - eta) * self.before
        theta[self.i] += eta
        active.theta = theta
        active._K, active._unit = None, 1.0
        if self._ends is not None:
            active._K = (1 - eta) * self._ends[0]
            active._K += eta * self._ends[1]
        fit = active.solve()
        if self._ends is not None:
            here = float(np.vdot(fit.A, self._ends[0] @ fit.A))
        else:
            here = float(self.before @ (np.maximum(active.forms(fit.A), 0.0) / active.rho_sq))
        return fit, here - self.g(fit.A)

    def end(self, eta: float) -> Fit:
        """Go to η; members that lose their weight are dropped."""
        fit, _ = self.at(eta)
        if (self.active.theta > 0).all():
            return fit
        self.active.set(self.active.theta)
        return self.active.solve()
