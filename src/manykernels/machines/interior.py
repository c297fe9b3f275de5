"""An interior-point method for the dual of the max-hinge: its steps hardly grow in number with the problem.

With ``A = U y - q`` the dual is the least of ``tr(A'KA) / 2 + sum_t q_ty`` over ``q >= 0`` whose rows sum to ``U``. Its
multipliers are ``z = nu + Y - F >= 0``, with one ``nu`` a row, and ``sum(z q)`` is the duality gap. A Newton step to
``z q = m`` has the curvature ``diag(d) - dd'/sum(d)`` of the softmax, with ``d = q / z``, and so its systems.
"""

from __future__ import annotations

import numpy as np

from .fit import Task
from .spaces import IndefiniteKernelError, simplex_curvature

#: Steps: 15 to 40 as a rule.
MOST_STEPS = 60
#: How much of the way to the boundary a step goes.
SHARE = 0.995
#: Steps shorter than this make no progress: rounding has the last word.
SHORTEST = 1e-3
#: Relative duality gap at which to stop.
ACCURACY = 1e-11
#: A gap that the steps take for this share of it, or less, is one of rounding.
ROUNDING = 1e-2


def interior_rows(task: Task) -> tuple[np.ndarray, int]:
    """Solve the max-hinge from the middle of its dual, and return the dual coefficients and the number of steps.

    Predictor and corrector share a factorisation: O(c n^3) a step, on features O(n k^2 c^2 + k^3 c^3).

    References
    ----------
    Mehrotra, "On the implementation of a primal-dual interior point method", SIAM J. Optim. 2, 1992.
    """
    space, Y, U = task.space, task.Y, task.U[:, None]
    q = np.repeat(U / Y.shape[1], Y.shape[1], axis=1)
    z = np.zeros_like(q)
    best, least, steps = q, np.inf, 0
    while True:
        A = U * Y - q
        F = space.scores(space.pull(A))
        room = Y - F
        slack = room - room.min(axis=1, keepdims=True)  # the multipliers with the least nu
        if not steps:
            z = slack + max(1.0, float(np.abs(F).max()))
        gap, expected = float(np.vdot(q, slack)), float(np.vdot(q, z))
        if gap < least:
            best, least = q, gap
        primal = 0.5 * float(np.vdot(A, F)) + float(np.sum(U * Y * slack))
        if gap <= ACCURACY * primal or expected <= ROUNDING * gap or steps >= MOST_STEPS:
            break
        try:
            moved = _step(task, q, z, z - room)
        except IndefiniteKernelError:  # or rounding, as the entries of q / z are of all sizes
            break
        steps += 1
        if moved is None:
            break
        q, z = moved
        q *= U / q.sum(axis=1, keepdims=True)
    return U * Y - best, steps


def _step(task: Task, q: np.ndarray, z: np.ndarray, lack: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the next q and z; None where rounding allows no step. `lack` is z - nu - (Y - F), whatever nu."""
    space, d = task.space, q / z
    solve = space.coupled(d, smooth=False)

    def newton(m: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        right = m / q + lack
        V = solve(space.pull(simplex_curvature(d, right)))
        # On a Gram matrix V is the change itself, and d times anything would be its rounding.
        dq = simplex_curvature(d, right - space.scores(V)) if space.explicit else V
        return dq, (m - z * dq) / q

    mu = float(np.mean(q * z))
    dq, dz = newton(-q * z)
    alpha = min(_longest(q, dq), _longest(z, dz), 1.0)
    left = float(np.mean((q + alpha * dq) * (z + alpha * dz))) / mu
    dq, dz = newton(left**3 * mu - q * z - dq * dz)
    alpha = min(SHARE * min(_longest(q, dq), _longest(z, dz)), 1.0)
    return (q + alpha * dq, z + alpha * dz) if alpha >= SHORTEST else None


def _longest(x: np.ndarray, step: np.ndarray) -> float:
    """Return the step length at which the first of the positive numbers ``x`` vanishes."""
    shrinking = float((-step / x).max())
    return 1.0 / shrinking if shrinking > 0.0 else np.inf
