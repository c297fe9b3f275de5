"""The problem restricted to a few kernels, solved to the end: what a totally corrective step needs.

``Refitter`` takes any loss and family; ``LeastSquares`` is for the squared loss on kernels with one feature each,
where the restricted problem is (Σ_i ρ_i|w_i|)²-penalised least squares and ends in finitely many steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from .._blocks import row_blocks
from ..certificates import mean_conjugate, mean_loss
from ..combination import Combination
from ..families.base import HasFeatures, can
from ..machines import Fit, solve_primal
from ..predictors import Dual, Predictor, Primal
from ..problem import Problem
from .simple_mkl import SimpleMKL
from .workspace import Workspace

#: Columns of explicit features are kept up to this many entries, otherwise made again block by block.
KEPT_COLUMNS = 2**22


@dataclass(frozen=True, eq=False)
class Point:
    """The predictor that is optimal over some kernels; those without weight are left out.

    Attributes
    ----------
    members : list
    theta, rho_sq, norms : (k,) arrays
        θ_i, ρ_i² and u_i = ρ_i‖w_i‖.
    A : (n, c) array
    W : (Σ widths, c) array or None
        Coefficients of explicit features.
    intercept : (c,) array
    objective : float
    level : float
        max_i g_i over the kernels, which all of them share at the optimum.
    losses : (k,) array
        About how much the objective rises when a kernel is taken away.
    """

    members: list[Any]
    theta: np.ndarray
    rho_sq: np.ndarray
    norms: np.ndarray
    A: np.ndarray
    W: np.ndarray | None
    intercept: np.ndarray
    objective: float
    level: float
    losses: np.ndarray

    def __len__(self) -> int:
        return len(self.members)

    def combination(self, family) -> Combination:
        """Return the kernel."""
        return Combination(family, self.members, self.theta / self.rho_sq, np.sqrt(self.rho_sq), self.norms)

    def predictor(self, combination: Combination, X) -> Predictor:
        """Return the predictor."""
        if self.W is not None:
            return Primal(combination, self.W, self.intercept)
        return Dual.from_training(combination, X, self.A, self.intercept)

    def dual(self, problem: Problem, dual_norm: float) -> float:
        """Return D at A, given max g over the whole family."""
        pb = problem
        ones = self.A.sum(axis=0)
        conjugate = mean_conjugate(pb.loss, pb.Y, self.A, pb.C, pb.sample_weight)
        return -conjugate - (dual_norm + float(ones @ ones)) / (2 * pb.C * pb.n_rows)


def refitter_for(problem: Problem, tol: float) -> Refitter:
    """Return what solves restricted problems fastest."""
    columns = can(problem.family, HasFeatures) and getattr(problem.family, "rank_one", False)
    if columns and problem.loss.name == "squared" and problem.n_outputs == 1:
        return LeastSquares(problem, tol)
    return Refitter(problem, tol)


class Refitter:
    """Restricted problems by reduced gradients, from the last solution.

    Parameters
    ----------
    problem : Problem
    tol : float
        Relative duality gap of the restricted problem.
    """

    def __init__(self, problem: Problem, tol: float):
        self.problem, self.tol = problem, tol
        self.family: Any = problem.family
        self.lam = 1.0 / (problem.C * problem.n_rows)
        self._last: Fit | None = None

    def empty(self) -> Point:
        """Return the best constant."""
        pb = self.problem
        fit = solve_primal(np.ones((pb.n_rows, 1)), pb.Y, pb.loss, pb.C, pb.sample_weight)
        assert fit.W is not None
        self._last = fit
        b = fit.W[0]
        objective = mean_loss(pb.loss, pb.Y, fit.F, pb.sample_weight) + self.lam / 2 * float(b @ b)
        none = np.zeros(0)
        W = np.zeros((0, pb.n_outputs)) if can(self.family, HasFeatures) else None
        return Point([], none, none, none, fit.A, W, b, objective, 0.0, none)

    def refit(self, members: Sequence[Any], start: Point) -> Point:
        """Solve over `members`, from the weights that they have at `start`."""
        pb = self.problem
        rho_sq = pb.scale.rho_sq(members, 1.0)
        work = Workspace(pb, self.family, members, rho_sq, 1.0)
        work._last = self._last
        before = dict(zip(start.members, start.theta, strict=True))
        theta = np.array([before.get(z, 0.0) for z in members])
        if not theta.any():
            theta = np.ones(len(members))
        floor = 1e-12 * work.start_value()
        best = None
        for i, now in enumerate(SimpleMKL().iterates(work, theta)):
            if best is None or now.objective <= best.objective:
                best = now
            if now.gap <= self.tol * now.objective + floor:
                best = now
                break
            if i >= 300:
                break
        assert best is not None
        self._last = work._last
        keep = np.flatnonzero(best.theta > 0)
        W = best.W if can(self.family, HasFeatures) else None
        if W is None and can(self.family, HasFeatures):
            phi = self.family.features(pb.X, [members[i] for i in keep])
            widths = self.family.widths([members[i] for i in keep])
            W = (phi.T @ best.A) * np.repeat(best.theta[keep] / rho_sq[keep], widths)[:, None]
        return Point(
            members=[members[i] for i in keep],
            theta=best.theta[keep],
            rho_sq=rho_sq[keep],
            norms=best.u[keep],
            A=best.A,
            W=W,
            intercept=best.intercept,
            objective=best.objective,
            level=float(best.g[keep].max(initial=0.0)),
            losses=best.u[keep],
        )

    def deviance(self, members: Sequence[Any]) -> float:
        """Return -2 log likelihood of the unpenalised fit on some members, where there is such a thing."""
        raise NotImplementedError

    def exact(self, point: Point) -> bool:
        """Whether far fewer kernels than rows reproduce the targets."""
        return False

    def promising(self, point: Point, candidates: list[Any]) -> list[Any]:
        """Return candidates, those first whose addition lowers the objective most, as far as is known."""
        return candidates


class LeastSquares(Refitter):
    """Restricted problems for the squared loss on kernels with one feature each.

    With w̃ = ρ w and columns φ/ρ the problem is ½ Σ_t s_t (y_t - f_t)² + (1/(2C)) [(Σ_i |w̃_i|)² + b²]. While the signs
    σ of w̃ stay, its solution is that of (G + σσᵀ/C) w̃ = Φᵀy. Signs change one at a time, as in feature-sign
    search. The normal equations are refined with residuals of the rows, so that no digits are lost.

    The Gram matrix of all columns met so far is kept and grows by a column at a time.
    """

    def __init__(self, problem: Problem, tol: float):
        super().__init__(problem, tol)
        self.mu = 1.0 / problem.C
        assert problem.sample_weight is not None
        self.s: np.ndarray = problem.sample_weight
        self.y = problem.Y[:, 0]
        self.known: list[Any] = []
        self.place: dict[Any, int] = {}
        self.rho_sq = np.zeros(0)
        self.G = np.array([[self.s.sum()]])  # the intercept's column comes first
        self.c = np.array([self.s @ self.y])
        self._columns: np.ndarray | None = np.empty((problem.n_rows, 0), order="F")

    # -- columns

    def _blocks(self, places):
        """Yield scaled columns, the constant first, in blocks of rows."""
        X, n = self.problem.X, self.problem.n_rows
        members, root = [self.known[i] for i in places], np.sqrt(self.rho_sq[places])
        for rows in row_blocks(n, len(places) + X.shape[1], 2**20):
            part = np.ones((len(range(*rows.indices(n))), len(places) + 1))
            if self._columns is not None:
                part[:, 1:] = self._columns[rows][:, places]
            elif members:
                part[:, 1:] = self.family.features(X[rows], members) / root
            yield rows, part

    def learn(self, members: Sequence[Any]) -> None:
        """Add columns to the Gram matrix."""
        new = [z for z in dict.fromkeys(members) if z not in self.place]
        if not new:
            return
        rho_sq = self.problem.scale.rho_sq(new, 1.0)
        k, m = len(self.known), len(new)
        self.known += new
        self.place.update({z: k + i for i, z in enumerate(new)})
        self.rho_sq = np.concatenate([self.rho_sq, rho_sq])
        if self._columns is not None:
            n = self.problem.n_rows
            if n * (k + m) > KEPT_COLUMNS:
                self._columns = None
            else:
                if k + m > self._columns.shape[1]:
                    wider = np.empty((n, 2 * (k + m)), order="F")
                    wider[:, :k] = self._columns[:, :k]
                    self._columns = wider
                fresh = self.family.features(self.problem.X, new) / np.sqrt(rho_sq)
                self._columns[:, k : k + m] = fresh
        across, c = np.zeros((k + m + 1, m)), np.zeros(m)
        for rows, part in self._blocks(np.arange(k + m)):
            weighted = part[:, k + 1 :] * self.s[rows, None]
            across += part.T @ weighted
            c += weighted.T @ self.y[rows]
        self.G = np.block([[self.G, across[: k + 1]], [across[: k + 1].T, across[k + 1 :]]])
        self.c = np.concatenate([self.c, c])

    def _residual(self, places, w):
        """Return y - f, and Φᵀ s (y - f)."""
        r, pull = self.y.copy(), np.zeros(len(w))
        for rows, part in self._blocks(places):
            r[rows] -= part @ w
            pull += part.T @ (self.s[rows] * r[rows])
        return r, pull

    # -- solutions

    def refit(self, members, start):
        """Solve over `members` by changes of signs, then refine."""
        self.learn(members)
        places = np.array([self.place[z] for z in members], dtype=np.intp)
        before = dict(zip(start.members, start.norms * np.sign(start.W[:, 0]), strict=True))
        w = np.array([start.intercept[0]] + [before.get(z, 0.0) for z in members])
        at = np.concatenate([[0], places + 1])
        H = self.G[np.ix_(at, at)]
        H[0, 0] += self.mu
        w = feature_sign(H, self.c[at], self.mu, w)
        keep = np.flatnonzero(w[1:])
        places, w = places[keep], np.concatenate([w[:1], w[1:][keep]])
        return self._point(places, w)

    def _point(self, places, w):
        sigma = np.concatenate([[0.0], np.sign(w[1:])])
        at = np.concatenate([[0], places + 1])
        B = self.G[np.ix_(at, at)] + self.mu * np.outer(sigma, sigma)
        B[0, 0] += self.mu
        solve = _solver(B)
        r, pull = self._residual(places, w)
        for _ in range(3):
            t = float(np.abs(w[1:]).sum())
            slope = pull - self.mu * sigma * t
            slope[0] -= self.mu * w[0]
            step = solve(slope)
            moved = w + step
            if np.any(np.sign(moved[1:]) != sigma[1:]):
                break
            r_new, pull_new = self._residual(places, moved)
            slope_new = pull_new - self.mu * sigma * float(np.abs(moved[1:]).sum())
            slope_new[0] -= self.mu * moved[0]
            if not np.abs(slope_new).max() < np.abs(slope).max():
                break
            w, r, pull = moved, r_new, pull_new
            if np.abs(step).max() <= 1e-15 * np.abs(w).max():
                break
        pb = self.problem
        t = float(np.abs(w[1:]).sum())
        A = (pb.C * self.s * r)[:, None]
        inverse = np.diagonal(solve(np.eye(len(w))))[1:]
        rho_sq = self.rho_sq[places]
        objective = 0.5 * float(self.s @ r**2) / pb.n_rows + self.lam / 2 * (t**2 + float(w[0]) ** 2)
        return Point(
            members=[self.known[i] for i in places],
            theta=np.abs(w[1:]) / t if t > 0 else np.zeros(0),
            rho_sq=rho_sq,
            norms=np.abs(w[1:]),
            A=A,
            W=(w[1:] / np.sqrt(rho_sq))[:, None],
            intercept=w[:1].copy(),
            objective=objective,
            level=float(np.max(pull[1:] ** 2, initial=0.0)) * pb.C**2,
            losses=w[1:] ** 2 / np.maximum(inverse, 1e-300),
        )

    def deviance(self, members):
        """Return N log(RSS/N) of ordinary least squares, N = Σ_t s_t."""
        self.learn(members)
        places = np.array([self.place[z] for z in members], dtype=np.intp)
        at = np.concatenate([[0], places + 1])
        solve = _solver(self.G[np.ix_(at, at)])
        w = solve(self.c[at])
        r, pull = self._residual(places, w)
        r, _ = self._residual(places, w + solve(pull))
        total = float(self.s.sum())
        floor = 1e-24 * float(self.s @ self.y**2)
        return total * np.log(max(float(self.s @ r**2), floor, 1e-300) / total)

    def exact(self, point):
        """Whether the loss is nothing against its start and against the norm, with at most n/3 columns."""
        r = point.A[:, 0] / self.problem.C
        loss = 0.5 * float(r @ (r / np.where(self.s > 0, self.s, 1.0)))
        start = 0.5 * float(self.s @ self.y**2)
        penalty = 0.5 * self.mu * float(point.norms.sum()) ** 2
        return 3 * len(point) <= len(r) and loss <= 1e-12 * start and loss <= 1e-5 * penalty

    def promising(self, point, candidates):
        """Rank candidates by how much least squares gains from them beside the kernels of `point`.

        The gradient looks at a candidate alone; here its part that the others explain already does not count.
        """
        if len(candidates) < 2:
            return candidates
        weighted_residual = point.A[:, 0] / self.problem.C
        X, n = self.problem.X, self.problem.n_rows
        places = np.array([self.place[z] for z in point.members], dtype=np.intp)
        at = np.concatenate([[0], places + 1])
        m = len(candidates)
        across, own, pull = np.zeros((len(at), m)), np.zeros(m), np.zeros(m)
        for rows, part in self._blocks(places):
            for some in row_blocks(part.shape[0], m + X.shape[1], 2**21):
                here = np.arange(n)[rows][some]
                phi = self.family.features(X[here], candidates)
                weighted = phi * self.s[here, None]
                across += part[some].T @ weighted
                own += np.einsum("tj,tj->j", phi, weighted)
                pull += phi.T @ weighted_residual[here]
        left = own - np.einsum("ij,ij->j", across, _solver(self.G[np.ix_(at, at)])(across))
        gain = np.where(left > 1e-9 * own, pull**2 / np.maximum(left, 1e-300), 0.0)
        return [candidates[i] for i in np.argsort(-gain, kind="stable")]


def _solver(B):
    """Return the solver of B x = b for a positive semi-definite B, which may be singular."""
    d = np.sqrt(np.maximum(np.diagonal(B), 1e-300))
    S = B / d / d[:, None]
    for jitter in (0.0, 1e-15, 1e-13, 1e-11):
        try:
            factor = cho_factor(S + jitter * len(S) * np.eye(len(S)), check_finite=False)
        except LinAlgError:
            continue
        if jitter == 0.0 and np.min(np.diagonal(factor[0])) < 1e-7:
            continue
        return lambda b: (cho_solve(factor, (b.T / d).T, check_finite=False).T / d).T
    P = np.linalg.pinv(S, hermitian=True)
    return lambda b: ((P @ (b.T / d).T).T / d).T


def feature_sign(H, c, mu, w):
    """Minimise ½ wᵀHw - cᵀw + (μ/2) (Σ_{i>0} |w_i|)²; the first entry is free. Finitely many steps from `w`.

    References
    ----------
    Lee, Battle, Raina, Ng (2007), *Efficient sparse coding algorithms*, Algorithm 1.
    """
    w = w.copy()
    sigma = np.sign(w)
    sigma[0] = 0.0
    tried: set[int] = set()
    for _ in range(20 * len(c) + 100):
        S = np.concatenate([[0], 1 + np.flatnonzero(sigma[1:])])
        q = sigma[S]
        target = np.zeros(len(c))
        target[S] = _solver(H[np.ix_(S, S)] + mu * np.outer(q, q))(c[S])
        wrong = S[(target[S] * q < 0) | ((target[S] == 0) & (q != 0))]
        if len(wrong):
            # Go to the first point at which a weight vanishes: up to there the objective falls.
            share = w[wrong] / (w[wrong] - target[wrong])
            share = np.where(w[wrong] == 0, 0.0, share)
            alpha = float(share.min())
            gone = wrong[share <= alpha]
            w[S] += alpha * (target[S] - w[S])
            w[gone] = 0.0
            sigma[gone] = 0.0
            continue
        w = target
        t = float(np.abs(w[1:]).sum())
        slope = c - H @ w
        excess = np.abs(slope) - mu * t
        excess[S] = 0.0
        excess[list(tried)] = 0.0
        i = int(np.argmax(excess))
        if excess[i] <= 1e-12 * max(np.abs(c).max(), 1e-300) * (1e-3 if t == 0 else 1) and t > 0:
            return w
        if excess[i] <= 0:
            return w
        sigma[i] = np.sign(slope[i])
        tried.add(i)  # once each: rounding must not let a column in and out for ever
    return w
