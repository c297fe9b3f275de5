"""Random problems × solvers × families × losses × scales × weights × containers, small and hostile.

Every try must end within bounds of time in a model or in a sentence (:mod:`.trials`): predictions are finite, the
certificate can be recomputed from the model's public attributes, `converged_` means a gap within `tol`, and nothing
else stops in silence.

A new solver joins by an entry in ``tests/contracts/cases.py``: families and losses that suit it are found by asking it.
"""

from __future__ import annotations

import numpy as np
from tests.contracts.cases import FOR_ESTIMATORS, STREAMING

from manykernels import MKLClassifier, MKLRegressor
from manykernels.families import Gaussians, Laplacians, Products, Union
from manykernels.kernels import RBF, Laplacian, Linear, Polynomial
from manykernels.losses import LOSSES
from manykernels.registry import bound_family, make_solver

from .trials import CONTAINERS, MOST_ROWS, NARROW, Trial, attempt_of

#: Solvers by name; ``"auto"`` is what the family is given.
SOLVERS = {"auto": lambda: "auto", **FOR_ESTIMATORS, **STREAMING}
#: Values of parameters, for solvers that have them and accept them.
VALUES = {
    "p": (1.0, 1.1, 4 / 3, 1.5, 2.0, "auto"),
    "max_kernels": ("auto", 1, 3, 1000),
    "corrective": (True, False),
    "max_iter": (2, 100),
    "alpha": (0.0, 1e-3, 10.0),
    "tol": (1e-2, 1e-4, 1e-8),
    "epochs": (1, 3),
    "certify": (True, False),
    "validation_fraction": (0.0, 0.2),
}
FAMILIES = {
    "list": lambda rng: [
        RBF(10 ** rng.uniform(-1, 2)),
        Laplacian(10 ** rng.uniform(-1, 2)),
        Linear(),
        Polynomial(2),
    ],
    "lines": lambda rng: [Linear(columns=[0]), Linear(), Linear(columns=[0, -1])],
    "one": lambda rng: str(rng.choice(["linear", "rbf", "cosine"])),
    "grid": lambda rng: str(rng.choice(["gaussian", "laplacian"])),
    "auto": lambda rng: "auto",
    "products": lambda rng: Products(int(rng.integers(1, 4))),
    "bandwidths": lambda rng: (Gaussians if rng.random() < 0.5 else Laplacians)(ard=bool(rng.random() < 0.3)),
    "union": lambda rng: Union([Gaussians(), Linear()]),
    "unions": lambda rng: {"a": Laplacians(ard=True), "b": [Gaussians(), Linear()][int(rng.integers(2))]},
    "precomputed": lambda rng: "precomputed",
}
SCALES = {
    "plain": lambda rng, X: X,
    "large": lambda rng, X: X * 10 ** rng.uniform(2, 8),
    "small": lambda rng, X: X * 10 ** rng.uniform(-8, -2),
    "mixed": lambda rng, X: X * 10 ** rng.uniform(-6, 6, size=X.shape[1]),
    "huge": lambda rng, X: X * 10 ** rng.uniform(8, 32),
    "extreme": lambda rng, X: X * 10 ** (rng.choice([-1, 1]) * rng.uniform(32, 300)),
    "extreme columns": lambda rng, X: X * 10 ** rng.uniform(-300, 300, size=X.shape[1]),
    "offset": lambda rng, X: X + 10 ** rng.uniform(0, 9),
    "constant columns": lambda rng, X: np.where(np.arange(X.shape[1]) < max(1, X.shape[1] // 2), 1.0, X),
    "equal columns": lambda rng, X: X[:, rng.integers(X.shape[1], size=X.shape[1])],
    "equal rows": lambda rng, X: X[rng.integers(max(1, len(X) // 5), size=len(X))],
    "one row": lambda rng, X: X[np.zeros(len(X), dtype=int)],
    "zeros": lambda rng, X: 0.0 * X,
    "whole": lambda rng, X: np.round(3 * X),
    "yes or no": lambda rng, X: 1.0 * (X > 0),
    "single": lambda rng, X: X.astype(np.float32).astype(float),
}


def varied(rng, solver):
    """Return the solver with one of its parameters changed, half of the time."""
    if isinstance(solver, str) or rng.random() < 0.5:
        return solver
    known = [name for name in VALUES if name in solver.get_params()]
    if known:
        name = known[int(rng.integers(len(known)))]
        values = [v for v in VALUES[name] if name not in solver.rules or solver.rules[name].accepts(v)]
        solver.set_params(**{name: values[int(rng.integers(len(values)))]})
    return solver


def suits(solver, kernels, loss, classes, columns=3) -> bool:
    """Whether a solver takes a family and a loss, on rows that nothing is wrong with."""
    X = np.random.default_rng(0).normal(size=(6, columns))
    try:
        if kernels == "precomputed":
            X = np.stack([X @ X.T, np.eye(6)], axis=2)
        family = bound_family(kernels, X, np.ones(6), solver)
        make_solver(solver, family, 0, 6).settle(family, loss, classes or None)
    except ValueError:
        return False
    return bool(classes) or loss in ("auto", "squared")


def rows(rng, n, d):
    """Return rows of one or two of the scales, and their names."""
    X, words = rng.normal(size=(n, d)), []
    for _ in range(int(rng.choice([1, 1, 1, 2]))):
        words.append(str(rng.choice(sorted(SCALES))))
        X = SCALES[words[-1]](rng, X)
    return np.clip(X, -1.7e308, 1.7e308), " and ".join(words)


def targets(rng, X, classes):
    """Return numbers, or labels of `classes` classes."""
    Z = X / np.maximum(np.abs(X).max(axis=0), 1e-300)
    Z = Z - Z.mean(axis=0)
    signal = Z[:, 0] + (Z[:, -1] * Z[:, 0] if rng.random() < 0.5 else 0.0)
    signal = signal + rng.choice([0.0, 0.1, 3.0]) * rng.normal(size=len(X))
    if not classes:
        y = signal * 10 ** float(rng.choice([0, 0, 0, 0, -6, 6, 30, rng.uniform(-300, 300)]))
        return np.column_stack([y, y**2 if np.abs(y).max() < 1e10 else -y]) if rng.random() < 0.2 else y
    labels = np.argsort(np.argsort(signal, kind="stable"), kind="stable") * classes // len(X)
    if rng.random() < 0.2:  # classes of one row each, but the first
        labels = np.where(np.arange(len(X)) < classes, np.arange(len(X)), 0)
    return np.array(["a", "b", "c", "d"])[labels] if rng.random() < 0.3 else labels


def weights(rng, n):
    """Return weights of one of several kinds, or none."""
    kind = rng.choice(["none", "none", "none", "even", "zeros", "wild", "extreme"])
    if kind == "none":
        return None
    if kind == "even":
        return rng.exponential(size=n)
    if kind == "zeros":
        return rng.integers(0, 3, size=n).astype(float)
    return 10 ** rng.uniform(-6, 6, size=n) if kind == "wild" else 10 ** rng.uniform(-300, 300, size=n)


def stack(X):
    """Return three matrices over the rows."""
    Z = X / (np.abs(X).max(initial=0.0) or 1.0)
    return np.stack([Z @ Z.T, np.eye(len(X)), np.ones((len(X), len(X)))], axis=2)


def trial(rng, solver=None) -> Trial:
    """Return a random problem with a solver that, most of the time, suits it."""
    name = solver or str(rng.choice(sorted(SOLVERS)))
    made, classes = varied(rng, SOLVERS[name]()), int(rng.choice([0, 0, 2, 3, 4]))
    careless = rng.random() < 0.05
    for _ in range(100):
        family, loss = str(rng.choice(sorted(FAMILIES))), str(rng.choice(["auto", *sorted(LOSSES)]))
        kernels = FAMILIES[family](rng)
        if careless or suits(made, kernels, loss, classes):
            break
    n = int(rng.choice([1, 2, 3, 5, 8, 20, 60, 150, MOST_ROWS]))
    X, words = rows(rng, max(n, classes), int(rng.integers(1, 7)))
    y, s = targets(rng, X, classes), weights(rng, len(X))
    C = float(10 ** rng.choice([0.0, 0.0, rng.uniform(-4, 4), rng.uniform(-8, 12)]))
    model = (MKLClassifier if classes else MKLRegressor)(
        kernels, solver=made, loss=loss, C="auto" if rng.random() < 0.15 else C, random_state=0
    )
    if rng.random() < 0.1:
        model.set_params(normalize=None)
    return Trial(
        model,
        stack(X) if kernels == "precomputed" else X,
        y,
        s,
        kind=str(rng.choice([*CONTAINERS, *NARROW])),
        batches=int(rng.choice([1, 2, 5])) if name in STREAMING and rng.random() < 0.4 else 0,
        again=bool(rng.random() < 0.3),
        words=f"{words}, {classes} classes,",
    )


def test_random_problems_end_in_a_certified_model_or_a_sentence(campaign):
    campaign.run(2000, attempt_of(trial))
