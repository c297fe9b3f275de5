"""What Greedy asks of a family: its best kernels along the gradient, and the dual norm of all g."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...certificates import conjugate_exponent, norm
from ...families.base import Best, Direction
from ...families.search import ListSearcher
from ...problem import Problem, nu_of
from ..active import FEW_MEMBERS
from .refits import Point

#: Candidates that a search returns; the one whose addition gains most is taken.
CANDIDATES = 32
#: Maxima that a search of a continuum returns: each is climbed to, and one is as good as the other only by chance.
MAXIMA = 4
#: Searches that cost more multiply-adds than this are made only when the last one's candidates are used up.
EXPENSIVE = 2e9
#: Candidates that are kept from an expensive search.
POOL = 5000
#: Deviations by which the best of them must be above what may have been left behind.
SURE = 2.5


class Oracle:
    """The family's search; an expensive one is repeated only when its candidates are used up.

    Parameters
    ----------
    problem : Problem
    rng : Generator
    p : float
        Norm over kernels.
    expensive : float
        Multiply-adds from which on a search counts as expensive.
    """

    def __init__(self, problem: Problem, rng, p: float = 1.0, *, expensive: float = EXPENSIVE):
        self.problem, self.rng, self.p = problem, rng, p
        self.searcher: Any = _searcher(problem, p)
        self.continuum = math.isinf(problem.family.size())
        trace = isinstance(problem.scale.how, str) and problem.scale.how == "trace"
        self.hereditary = getattr(problem.family, "heredity", "none") != "none"
        costly = getattr(self.searcher, "cost", 0.0) > expensive
        self.lazy = p == 1 and trace and costly and not self.hereditary
        self.pool: list[Any] = []
        self.searches = 0
        self._at: np.ndarray | None = None
        self._found: Best | None = None
        self._least = 0.0

    def __call__(self, point: Point) -> Best:
        """Return the best kernels that are not active."""
        direction = Direction.of_gradient(point.A)
        known = self._known(direction, point.members, point.level) if self.lazy else None
        return self._search(direction, point.members) if known is None else known

    def certified(self, point: Point) -> Best:
        """Return what a full search at this point finds; the last one's answer if it was here."""
        if self._at is point.A and self._found is not None:
            return self._found
        return self._search(Direction.of_gradient(point.A), point.members)

    def dual_norm(self, point: Point, found: Best) -> float:
        """Return ‖g‖_ν* over the family, or over what has been looked at where the search is not exhaustive."""
        if self.p == 1:
            return max(point.level, float(found.values[0]) if len(found.values) else 0.0)
        q = conjugate_exponent(nu_of(self.p))
        total = self.searcher.norm(Direction.of_gradient(point.A), q)
        return norm(np.concatenate([point.g, found.values]), q) if total is None else total

    def _search(self, direction, active) -> Best:
        self.searches += 1
        if self.hereditary:
            self._at, self._found = direction.V, self.searcher.joining(direction, active, CANDIDATES)
            return self._found
        size = POOL if self.lazy else MAXIMA if self.continuum else CANDIDATES
        # Next to an active member of a continuum may lie a better one, which the gap must know of.
        exclude = () if self.continuum else active
        found = self.searcher.best(direction, size=size, exclude=exclude, rng=self.rng)
        self.pool = found.members if self.lazy else []
        self._least = float(found.values[-1]) if len(found.values) == size else 0.0
        self._at, self._found = direction.V, found
        return found

    def _known(self, direction, active, level) -> Best | None:
        """Return the best of the pool and of what is near the active kernels, if it stands out."""
        known = set(active)
        near = self.searcher.nearby(direction, active, CANDIDATES)
        pool = [z for z in dict.fromkeys([*near, *self.pool]) if z not in known]
        if not pool:
            return None
        values = self.searcher.values(direction, pool)
        order = np.argsort(-values, kind="stable")[:CANDIDATES]
        order = order[values[order] > level * 1.01]
        if not len(order) or not self._stands_out(direction, float(values[order[0]])):
            return None
        return Best([pool[i] for i in order], values[order], False)

    def _stands_out(self, direction, best: float) -> bool:
        """Whether nothing outside the pool is likely to be better.

        Either it is far above the best of all by chance, 2 log|I|/n of the squared norm. Or the direction has not
        turned much since the last search: a kernel that is at b = √g/‖A‖ now and has nothing to do with what has
        changed was at b cos ± sin then, with the angle of the two directions, and so above the last of the pool.
        """
        A = direction.V
        square = float(np.vdot(A, A))
        if best > 1.5 * (2 * math.log(self.problem.family.size()) + A.shape[1]) * square:
            return True
        if self._at is None:
            return False
        before = float(np.vdot(self._at, self._at))
        cosine = min(max(float(np.vdot(self._at, A)) / math.sqrt(before * square), 0.0), 1.0)
        then = cosine * math.sqrt(best / square) - SURE * math.sqrt(1 - cosine**2)
        return then >= math.sqrt(self._least / before)


def _searcher(problem: Problem, p: float) -> Any:
    """Return the family's own search; for p > 1 member by member where they are few, or scales depend on p."""
    family: Any = problem.family
    listed = family.size() <= FEW_MEMBERS or getattr(family, "count", None) == "ordered"
    if p > 1 and listed and getattr(family, "heredity", "none") == "none":
        return ListSearcher(family, problem.X, problem.scale, p)
    return family.searcher(problem.X, problem.scale)
