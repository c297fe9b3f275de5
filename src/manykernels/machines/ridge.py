"""The squared-loss machine (kernel ridge regression)."""

from __future__ import annotations

import numpy as np

from ..losses import Loss
from .fit import Fit
from .newton import State, newton
from .outputs import better
from .spaces import Space


def solve(
    space: Space, Y: np.ndarray, loss: Loss, U: np.ndarray, V: np.ndarray, A: np.ndarray, tol: float
) -> Fit:
    """Solve ``(K + 1/U) A = Y`` by one factorisation, shared by all outputs.

    Further steps are refinements of the first with the same factor. Cost: O(n^3 + n^2 c), on
    features O(n k^2 + k^3 + n k c).
    """
    system = space.curved(U)
    state = newton(
        space,
        State(V, space.scores(V)),
        lambda F: U[:, None] * (Y - F),
        lambda F, A: system,
        tol,
        max_iter=20,
    )
    return better(space, state.V, U[:, None] * (Y - state.F), Y, loss, U, state.n_iter)
