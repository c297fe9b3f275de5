"""The squared loss restricted to a few kernels with one feature each: the fastest totally corrective step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from ..._util.arrays import row_blocks
from ...families.base import HasFeatures, can
from ...problem import Problem
from .refits import Point, Refitter

#: Columns of explicit features are kept up to this many entries, otherwise made again block by block.
KEPT_ENTRIES = 2**22
#: Entries of a block of rows: larger ones leave the cache, and leave holes in the heap behind.
BLOCK_ENTRIES = 2**18


def refitter_for(problem: Problem, tol: float, p: float = 1.0) -> Refitter:
    """Return what solves restricted problems fastest."""
    columns = can(problem.family, HasFeatures) and getattr(problem.family, "rank_one", False)
    if p == 1 and columns and problem.loss.name == "squared" and problem.n_outputs == 1:
        return LeastSquares(problem, tol)
    return Refitter(problem, tol, p)


class LeastSquares(Refitter):
    """Restricted problems for the squared loss on kernels with one feature each.

    With w̃ = ρ w and columns φ/ρ the problem is ½ Σ_t s_t (y_t - f_t)² + (1/(2C)) [(Σ_i |w̃_i|)² + b²]. While the signs
    σ of w̃ stay, its solution is that of (G + σσᵀ/C) w̃ = Φᵀy. Signs change one at a time, as in feature-sign
    search. The normal equations are refined with residuals of the rows, so that no digits are lost.

    The Gram matrix of all columns met so far is kept and grows by a column at a time; the columns too, up to
    `kept_entries`.
    """

    def __init__(self, problem: Problem, tol: float, kept_entries: int = KEPT_ENTRIES):
        super().__init__(problem, tol)
        self.kept_entries = kept_entries
        self.mu = 1.0 / problem.C
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
        for rows in row_blocks(n, len(places) + X.shape[1], BLOCK_ENTRIES):
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
            if n * (k + m) > self.kept_entries:
                self._columns = None
            else:
                if k + m > self._columns.shape[1]:
                    wider = np.empty((n, min(2 * (k + m), self.kept_entries // n)), order="F")
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
            g=pull[1:] ** 2 * pb.C**2,
            losses=w[1:] ** 2 / np.maximum(inverse, 1e-300),
        )

    def log_error(self, members):
        """Return log(RSS/Σ_t s_t) of ordinary least squares."""
        self.learn(members)
        places = np.array([self.place[z] for z in members], dtype=np.intp)
        at = np.concatenate([[0], places + 1])
        solve = _solver(self.G[np.ix_(at, at)])
        w = solve(self.c[at])
        r, pull = self._residual(places, w)
        r, _ = self._residual(places, w + solve(pull))
        total = float(self.s.sum())
        floor = 1e-24 * float(self.s @ self.y**2)
        return float(np.log(max(float(self.s @ r**2), floor, 1e-300) / total))

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
            for some in row_blocks(part.shape[0], m + X.shape[1], BLOCK_ENTRIES):
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
