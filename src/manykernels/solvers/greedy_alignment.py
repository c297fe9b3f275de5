"""Centred alignment with the targets, one kernel at a time, over families without end."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone

from .._util.arrays import row_blocks
from .._util.checks import FLAG, choice, number, whole
from .._util.interrupts import Interruptible
from .._util.threads import one_blas_thread
from ..combination import Combination
from ..families.base import Direction, Maximisable
from ..problem import Problem
from .aligning import aligned_targets, scaled_combination, weigh
from .base import NothingAligned, TwoStageSolver, generator
from .centring import Centring, squares_less_identity
from .log import logger


class GreedyAlignment(TwoStageSolver):
    """Kernels added one by one, each the one along which the centred alignment with the targets grows fastest.

    ``objective="alignment"`` maximises <K_θ, YYᵀ>/(‖K_θ‖ ‖YYᵀ‖) over θ >= 0; ``"euclidean"`` minimises
    ‖K_θ - YYᵀ‖², which has the same optimal direction. All matrices are centred. The combination is scaled to
    unit variance, a centred mean diagonal of 1; then the machine is trained on it. For classes Y is one-hot.

    Parameters
    ----------
    objective : {"alignment", "euclidean"}
        Algorithm 7 or Algorithm 8.
    epsilon : float
        Algorithm 7 starts at εI, which gives the first direction. It is no part of the combination.
    max_kernels : int
        Most steps, and so kernels.
    tol : float
        Least gain in alignment of a step; a kernel that brings less is not taken, and the search ends.
    eta_max : float
        Longest step of Algorithm 7, relative to the weight of the first kernel.
    corrective : bool
        Whether the weights of the kernels found are refitted at the end by non-negative least squares, as
        :class:`Alignment` does: the alignment never falls by it, and kernels without weight are dropped.
    own_pairs : bool
        Whether a row's similarity to itself counts. False takes the mean diagonal off every kernel, K_i - d_i I: wide
        kernels, whose centred entries are small beside the diagonal, then lose, and narrower ones are found. Where
        none is better than nothing, as on noise, own pairs count after all.
    shrinkage : float
        λ of eq. (6.2), for bandwidths per column: λ‖σ - mean(σ)‖² is subtracted from the inner product with the
        direction, which has unit Frobenius norm.
    random_state : int, Generator, RandomState or None
        For the restarts of searches in many dimensions.

    Attributes
    ----------
    alignments_ : list of float
        After ``learn``: the alignment after every step (and after the refit). It never decreases.

    Notes
    -----
    Families that can find their best kernel; any loss; regression, two classes or more. A step is one search of
    the family and O(n²), the refit O(m² n²) for the m kernels found; memory O(n²). A sample weight equals a
    repetition, and εI is the identity over repetitions.

    Departures from the reference: η* of Prop. 5.4 is clipped to `eta_max`. εI shapes directions only, and the first
    kernel has weight 1: along εI + ηK' the best η is of the order of ε, which would waste the first kernel. Where no
    kernel grows along the first direction (y is noise) the kernel with the largest <K', YYᵀ> is taken. Algorithm 8
    takes the exact step along the segment from θ to the new vertex, then scales the whole combination by the best
    factor, so that the alignment grows with every step; β starts at the best scale of the first kernel and
    doubles while the weights reach it. The weights are refitted at the end (`corrective`), and a last step that
    brings less than `tol` is not kept.

    References
    ----------
    Afkanpour (2013), *Multiple Kernel Learning with Many Kernels*, Algorithms 7 and 8, Propositions 5.2 and 5.4,
    eq. (6.2).
    """

    requires = (Maximisable,)
    rules: ClassVar = {
        "objective": choice("alignment", "euclidean"),
        "epsilon": number(1e-100, 1e100),
        "max_kernels": whole(1),
        "tol": number(),
        "eta_max": number(open="left"),
        "corrective": FLAG,
        "own_pairs": FLAG,
        "shrinkage": number(),
    }

    def __init__(
        self,
        objective="alignment",
        *,
        epsilon=1e-6,
        max_kernels=50,
        tol=1e-3,
        eta_max=1.0,
        corrective=True,
        own_pairs=True,
        shrinkage=0.0,
        random_state=None,
    ):
        self.objective = objective
        self.epsilon = epsilon
        self.max_kernels = max_kernels
        self.tol = tol
        self.eta_max = eta_max
        self.corrective = corrective
        self.own_pairs = own_pairs
        self.shrinkage = shrinkage
        self.random_state = random_state

    def check_compatible(self, family, loss):
        """Check the family; shrinkage needs one with several bandwidths."""
        super().check_compatible(family, loss)
        if self.shrinkage and not getattr(family, "shrinks", False):
            raise ValueError(
                f"shrinkage of GreedyAlignment is {self.shrinkage!r}, which is for bandwidths per column, and "
                f"{type(family).__name__} has none; pass shrinkage=0.0 or kernels=Gaussians(ard=True)."
            )

    def learn(self, problem: Problem) -> Combination:
        """Return the combination after the last step that was worth it."""
        self.check_params()
        self.check_compatible(problem.family, problem.loss)
        steps = _Alignment7(self, problem) if self.objective == "alignment" else _Euclidean8(self, problem)
        rng = generator(self.random_state)
        with one_blas_thread(), Interruptible(steps.kept):  # each search starts from the rounding of the last
            while len(steps.theta) < self.max_kernels and steps.step(rng):
                logger.debug("alignment %.6f with %d kernels", steps.alignments[-1], len(steps.theta))
        members, theta = merged(steps.members, steps.theta)
        if not members and not self.own_pairs:  # all turn away from y, as on noise: then own pairs decide
            plain = clone(self).set_params(own_pairs=True)
            combination = plain.learn(problem)
            self.alignments_ = plain.alignments_
            return combination
        if not members:
            raise NothingAligned(
                "kernels: no kernel can be aligned with y; every kernel found is constant on the training rows, "
                "so check that X is not constant."
            )
        rho_sq = problem.scale.rho_sq(members, 1.0)
        self.alignments_ = steps.alignments
        if self.corrective and len(members) > 1:
            theta, reached = weigh(problem, members, rho_sq, self.own_pairs)
            self.alignments_ = [*steps.alignments, max(reached, steps.alignments[-1])]
            keep = np.flatnonzero(theta > 0)
            members, theta, rho_sq = [members[i] for i in keep], theta[keep], rho_sq[keep]
        return scaled_combination(problem, problem.family, members, theta, rho_sq)


def merged(members, theta) -> tuple[list[Any], np.ndarray]:
    """Add up the weights of members that were found more than once."""
    total: dict[Any, float] = {}
    for z, t in zip(members, theta, strict=True):
        total[z] = total.get(z, 0.0) + t
    used = {z: t for z, t in total.items() if t > 0}
    return list(used), np.array(list(used.values()))


@dataclass(frozen=True)
class _Products:
    """Inner products of the combination K, the new kernel K' and the target K*, named as in Prop. 5.4."""

    a: float  # <K, K*>
    b: float  # <K', K*>
    c: float  # <K, K>
    d: float  # <K, K'>
    e: float  # <K', K'>


@dataclass(frozen=True)
class _Found:
    """A member, its K̃ at unit scale, and the d of the identity that is taken off it, 0 where own pairs count."""

    member: Any
    K: np.ndarray
    own: float


class _Stagewise:
    """What the two algorithms share: the combination so far, K̃, and the search along a direction."""

    def __init__(self, solver: GreedyAlignment, problem: Problem):
        self.solver, self.problem = solver, problem
        self.centring = Centring(problem.sample_weight)
        self.Y = aligned_targets(problem, self.centring)
        self.norm = float(np.linalg.norm(self.Y.T @ self.Y))  # ‖K̃*‖
        family: Any = problem.family
        options = {"shrinkage": solver.shrinkage} if solver.shrinkage else {}
        self.search = family.searcher(problem.X, problem.scale, **options)
        self.K = np.zeros((problem.n_rows, problem.n_rows))
        self.trace = self.own = 0.0  # tr K, and d of the identity that is taken off it
        self.a = self.c = 0.0  # <K - dI, K*>, <K - dI, K - dI>
        self.members: list[Any] = []
        self.theta: list[float] = []
        self.alignments: list[float] = []

    def find(self, alpha: float, ridge: float, rng):
        """Return the best member along K* - α(K + ridge I), its K̃ at unit scale, and what is taken off that.

        None where nothing grows along it. I stands for the identity centred, I - uuᵀ.
        """
        u = np.sqrt(self.centring.w)
        left, right = np.column_stack([self.Y, alpha * ridge * u]), np.column_stack([self.Y, u])
        P = np.empty_like(self.K)
        for rows in row_blocks(len(P), len(P), 2**16):
            block = np.multiply(self.K[rows], -alpha, out=P[rows])
            block += left[rows] @ right.T
        P[np.diag_indices_from(P)] -= alpha * ridge
        norm = float(np.linalg.norm(P))
        if norm <= 1e-12 * self.norm:
            return None
        root = self.centring.root / math.sqrt(norm)
        P *= root[:, None]
        P *= root
        best = self.search.best(Direction(dense=P), rng=rng)
        # Without own pairs the growth is this value less a constant: the step's length says whether there is any.
        if not best.members or (self.solver.own_pairs and not best.values[0] > 0):
            return None
        member = best.members[0]
        rho_sq = self.problem.scale.rho_sq([member], 1.0)[0]
        if rho_sq == 0:
            return None
        K = self.search.gram(member)
        K /= rho_sq
        own = 0.0 if self.solver.own_pairs else float(self.centring.w @ np.diagonal(K))
        return _Found(member, self.centring.matrix(K), own)

    def products(self, new: _Found) -> _Products:
        """Return the five inner products, O(n²); over repetitions <K̃, I> = tr K̃ and <I, I> = N - 1."""
        K = new.K
        b, d, e = np.vdot(self.Y, K @ self.Y), np.vdot(self.K, K), np.vdot(K, K)
        if new.own:
            trace, identity = float(np.trace(K)), self.centring.total - 1
            b -= new.own * np.square(self.Y).sum()
            d += self.own * new.own * identity - self.own * trace - new.own * self.trace
            e = squares_less_identity(e, new.own, trace, identity)
            if e == 0:  # next to the identity
                b = d = 0.0
        return _Products(self.a, float(b), self.c, float(d), float(e))

    def add(self, found: _Found, q: _Products, eta: float, shrink: float = 1.0) -> None:
        """Replace K by shrink · K + η K', and its inner products with it."""
        new = found.K
        if shrink != 1.0:
            self.K *= shrink
        self.own = shrink * self.own + eta * found.own
        self.trace = shrink * self.trace + eta * float(np.trace(new))
        new *= eta
        self.K += new
        self.a = shrink * q.a + eta * q.b
        self.c = shrink**2 * q.c + 2 * shrink * eta * q.d + eta**2 * q.e
        theta = [shrink * v for v in self.theta] + [eta]
        self.theta, self.members = theta, [*self.members, found.member]  # together: Ctrl-C keeps them

    def kept(self) -> str | None:
        """Return what Ctrl-C leaves, as the end of a sentence."""
        if not self.members:
            return None
        del self.alignments[len(self.members) :]  # of a kernel that was about to enter
        return f"after {len(self.members)} kernels, which are kept, with an alignment of {self.alignments[-1]:.3f}."

    def worth(self, alignment: float) -> bool:
        """Record a step's alignment; whether it brings enough."""
        if not alignment > (self.alignments[-1] + self.solver.tol if self.alignments else 0.0):
            return False
        self.alignments.append(alignment)
        return True


class _Alignment7(_Stagewise):
    """Algorithm 7: forward stagewise maximisation of the alignment."""

    def step(self, rng) -> bool:
        """Take one step; False when it was not worth it."""
        eps = self.solver.epsilon
        # At K - dI + εI; over repetitions <K̃, I> = tr K̃ and <I, I> = N - 1.
        identity = max(self.centring.total - 1, 0.5 * self.centring.total)
        length = self.c + 2 * eps * (self.trace - self.own * identity) + eps**2 * identity
        alpha = (
            (self.a + eps * float(np.square(self.Y).sum())) / length if length > 0 else 0.0
        )  # ε² may underflow
        found = self.find(alpha, eps - self.own, rng)  # lines 9-11
        if found is None and not self.members:  # y is noise, εI the best there is: take the best for y alone
            found = self.find(0.0, 0.0, rng)
        if found is None:
            return False
        q = self.products(found)  # line 12
        if q.e == 0:
            return False
        eta = best_step(q, self.solver.eta_max) if self.members else 1.0  # line 13
        if eta == 0 or not self.worth(alignment_at(q, eta) / self.norm):  # line 15
            return False
        self.add(found, q, eta)  # line 14
        return True


def alignment_at(q: _Products, eta: float) -> float:
    """Return <K + ηK', K*>/‖K + ηK'‖."""
    norm_sq = q.c + 2 * q.d * eta + q.e * eta**2
    return (q.a + q.b * eta) / math.sqrt(norm_sq) if norm_sq > 0 else 0.0


def best_step(q: _Products, eta_max: float) -> float:
    """Return the η in [0, η_max] of largest alignment (Prop. 5.4, η* clipped)."""
    bottom = q.b * q.d - q.a * q.e
    stationary = (q.a * q.d - q.b * q.c) / bottom if bottom != 0 else 0.0
    candidates = [0.0, min(max(stationary, 0.0), eta_max), eta_max]
    return max(candidates, key=lambda eta: alignment_at(q, eta))


class _Euclidean8(_Stagewise):
    """Algorithm 8: Frank-Wolfe steps on the distance to the target kernel, over {v >= 0, Σv <= β}.

    The weights v are βθ of the reference.
    """

    beta = 0.0

    def step(self, rng) -> bool:
        """Take one step; False when it was not worth it."""
        found = self.find(1.0, -self.own, rng)  # line 8; line 9 where there is none
        if found is None:
            return False
        q = self.products(found)
        rest = q.b - q.d  # <K', K* - K>
        if q.e == 0 or rest <= 0:
            return False
        if not self.beta:
            self.beta = 2 * q.b / q.e
        while sum(self.theta) >= self.beta:
            self.beta *= 2
        # Line 10, along the segment from K to βK': η = <K* - K, βK' - K>/‖βK' - K‖².
        length = self.beta**2 * q.e - 2 * self.beta * q.d + q.c
        eta = min(1.0, max(0.0, (self.beta * rest - (q.a - q.c)) / length)) if length > 0 else 0.0
        if eta == 0:
            return False
        moved = _Products(q.a * (1 - eta), q.b, q.c * (1 - eta) ** 2, q.d * (1 - eta), q.e)
        if not self.worth(alignment_at(moved, eta * self.beta) / self.norm):
            return False
        self.add(found, q, eta * self.beta, shrink=1 - eta)  # line 11
        self._rescale()
        return True

    def _rescale(self):
        """Scale K to its least distance from K*: then <K, K* - K> = 0."""
        factor = self.a / self.c
        self.K *= factor
        self.a, self.c = factor * self.a, factor**2 * self.c
        self.trace, self.own = factor * self.trace, factor * self.own
        self.theta = [v * factor for v in self.theta]
