"""What the contracts run over. A new kernel, family or solver gets its contract by one more entry here."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from manykernels import kernels as k
from manykernels.families import Finite, Precomputed, Products, Union
from manykernels.losses import get_loss
from manykernels.problem import Problem, Scale
from manykernels.solvers import (
    SILP,
    Alignment,
    Blockwise,
    Greedy,
    GreedyAlignment,
    HessianMKL,
    Hierarchical,
    LeaveOneOut,
    LpNorm,
    MirrorDescent,
    Obscure,
    PolynomialMKL,
    SimpleMKL,
    Single,
    TriplyStochastic,
    Ufo,
    Uniform,
)

N_COLUMNS = 4


def rows(n=40, seed=0):
    """Rows with a column of zeros in places, so that they make sense as sparse too."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, N_COLUMNS))
    X[rng.random(X.shape) < 0.3] = 0.0
    return X


# -- kernels -------------------------------------------------------------------------------------------


def cubic(X, Z):
    """A kernel as a user would write one."""
    return (X @ Z.T + 0.5) ** 3


KERNELS: dict[str, Callable[[], k.Kernel]] = {
    "linear": k.Linear,
    "linear-columns": lambda: k.Linear(columns=[2, 0]),
    "rbf": lambda: k.RBF(1.3),
    "rbf-slice": lambda: k.RBF(0.7, columns=slice(1, 3)),
    "laplacian": lambda: k.Laplacian(2.0),
    "laplacian-mask": lambda: k.Laplacian(0.5, columns=[True, False, True, False]),
    "polynomial": lambda: k.Polynomial(3, gamma=0.5, coef0=0.3, columns=[-1, 1]),
    "dirichlet": lambda: k.Dirichlet(1.7, columns=[1]),
    "constant": lambda: k.Constant(2.5),
    "pairwise-cosine": lambda: k.Pairwise("cosine"),
    "pairwise-params": lambda: k.Pairwise("rbf", {"gamma": 0.4}, columns=[0, 3]),
    "function": lambda: k.Function(cubic, columns=[0, 1, 2]),
}


# -- families ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FamilyCase:
    """A family, its rows, and one member's Gram matrix worked out from the definition.

    `reference(member, X, Z)` must not use the family. `Z` is None for ready-made matrices.
    """

    make: Callable[[], Any]
    reference: Callable[[Any, Any, Any], np.ndarray]
    train: Callable[[int], Any] = rows
    width: int = N_COLUMNS

    def pair(self):
        """Return new rows and the rows they are compared with."""
        if self.make().pairwise:
            stack = self.train(30)
            return stack[:7], None
        return rows(7, seed=1), rows(30)

    def resolved(self):
        return self.make().resolve(self.width)


def from_list(kernels):
    def reference(member, X, Z):
        return kernels[member].resolve(N_COLUMNS, None)(X, Z)

    return reference


def monomial(member, X, Z):
    return np.prod([np.outer(X[:, j], Z[:, j]) for j in member], axis=0)


BASE = [k.RBF(1.5), k.Linear(columns=[0]), k.Polynomial(2, columns=[1, 2])]


def of_base(member, X, Z):
    return np.prod([from_list(BASE)(j, X, Z) for j in member], axis=0)


MIXED = [k.RBF(0.8), k.RBF(2.0), k.Linear(), k.Laplacian(1.0, columns=[0, 1]), k.Function(cubic)]
BANDWIDTHS = [k.RBF(2.0**i) for i in range(-2, 3)]  # one statistic for all
EXPLICIT = [k.Linear(columns=[0, 1]), k.Constant(2.0), k.Dirichlet(1.2, columns=[3]), k.Linear()]


def stack(n=40):
    return np.stack([from_list(MIXED)(i, rows(n), rows(n)) for i in range(3)], axis=2)


def of_parts(member, X, Z):
    part, own = member
    return (from_list(MIXED[:3]), from_list(EXPLICIT), monomial)[part](own, X, Z)


FAMILIES: dict[str, FamilyCase] = {
    "union": FamilyCase(
        lambda: Union({"a": Finite(MIXED[:3]), "b": Finite(list(EXPLICIT)), "c": Products(degree=2)}),
        of_parts,
    ),
    "finite-list": FamilyCase(lambda: Finite(list(MIXED)), from_list(MIXED)),
    "finite-dict": FamilyCase(lambda: Finite({f"k{i}": x for i, x in enumerate(MIXED)}), from_list(MIXED)),
    "finite-explicit": FamilyCase(lambda: Finite(list(EXPLICIT)), from_list(EXPLICIT)),
    "finite-bandwidths": FamilyCase(lambda: Finite(list(BANDWIDTHS)), from_list(BANDWIDTHS)),
    "precomputed": FamilyCase(Precomputed, lambda i, X, Z: X[:, :, i], train=stack, width=3),
    "precomputed-single": FamilyCase(
        Precomputed,
        lambda i, X, Z: X[:, :, i].astype(float),
        train=lambda n: stack(n).astype(np.float32),
        width=3,
    ),
    "monomials": FamilyCase(lambda: Products(degree=3), monomial),
    "monomials-ordered": FamilyCase(
        lambda: Products(degree=2, count="ordered", degree_prior=[1.0, 0.5]), monomial
    ),
    "products": FamilyCase(lambda: Products(degree=2, base=list(BASE)), of_base),
    "products-ordered": FamilyCase(
        lambda: Products(degree=3, base=list(BASE), count="ordered", degree_prior=[2.0, 1.0, 0.5]), of_base
    ),
}


# -- solvers -------------------------------------------------------------------------------------------

#: At a tolerance at which all of them must converge.
SOLVERS: dict[str, Callable[[], Any]] = {
    "uniform": Uniform,
    "single": Single,
    "lp-1.1": lambda: LpNorm(p=1.1, tol=1e-6),
    "lp-4/3": lambda: LpNorm(tol=1e-6),
    "lp-2": lambda: LpNorm(p=2.0, tol=1e-6),
    "simple-mkl": lambda: SimpleMKL(tol=1e-6),
    "silp": lambda: SILP(tol=1e-5),
    "hessian": lambda: HessianMKL(tol=1e-6),
    "greedy": lambda: Greedy(100, tol=1e-6),
    "greedy-4/3": lambda: Greedy(100, p=4 / 3, tol=1e-6),
    "obscure": lambda: Obscure(4 / 3, tol=1e-3, random_state=0),
    "ufo": lambda: Ufo(p=1.5, tol=1e-3, random_state=0),
}
#: For tests that go through the estimators, all that learn from rows in memory at their own tolerances.
FOR_ESTIMATORS: dict[str, Callable[[], Any]] = {
    "uniform": Uniform,
    "single": Single,
    "lp-1.05": lambda: LpNorm(p=1.05),
    "lp-4/3": LpNorm,
    "lp-2": lambda: LpNorm(p=2.0),
    "simple-mkl": SimpleMKL,
    "silp": SILP,
    "hessian": HessianMKL,
    "hierarchical": Hierarchical,
    "greedy": lambda: Greedy(1000),
    "greedy-4/3": lambda: Greedy(1000, p=4 / 3),
    "alignment": Alignment,
    "greedy-alignment": GreedyAlignment,
    "leave-one-out": lambda: LeaveOneOut(random_state=0),
    "mirror-descent": lambda: MirrorDescent(max_iter=20, random_state=0),
    "mirror-descent-1": lambda: MirrorDescent(max_iter=20, p=1, random_state=0),
    "mirror-descent-1.1": lambda: MirrorDescent(max_iter=20, p=1.1, random_state=0),
    "polynomial-mkl": lambda: PolynomialMKL(starts=2, random_state=0),
    "obscure": lambda: Obscure(1.2, epochs=30, random_state=0),
    "ufo": lambda: Ufo(1e-3, epochs=30, random_state=0),
}
#: Those that take rows in batches too, small.
STREAMING: dict[str, Callable[[], Any]] = {
    "blockwise": lambda: Blockwise(32, n_features=128, block=32, bins=1024, random_state=0),
    "blockwise-certified": lambda: Blockwise(
        16, n_features=64, block=16, bins=256, certify=True, random_state=0
    ),
    "triply-stochastic": lambda: TriplyStochastic(n_features=64, block=16, epochs=5, random_state=0),
}
#: Those whose objective settles: with them convergence is not a claim about the gap.
SETTLING = ("Obscure", "Ufo")
#: Those that take several iterations; Greedy with p = 1 is through after two on these problems.
ITERATIVE = ["lp-1.1", "lp-4/3", "simple-mkl", "silp", "hessian", "greedy-4/3"]

#: Losses with a number of outputs.
OUTPUTS = [
    ("squared", 1),
    ("squared", 2),
    ("hinge", 1),
    ("hinge", 3),
    ("squared_hinge", 1),
    ("squared_hinge", 3),
    ("logistic", 1),
    ("logistic", 3),
    ("max_hinge", 3),
    ("softmax", 3),
    ("epsilon_insensitive", 1),
    ("huber", 2),
    ("quantile", 1),
    ("poisson", 2),
]
#: Those that compiled loops take, too.
CODED = [(name, c) for name, c in OUTPUTS if get_loss(name).code >= 0]
BATCH_KERNELS = [k.RBF(1.5), k.Laplacian(2.0, columns=[0, 1]), k.Linear(), k.Polynomial(2, columns=[2, 3])]


def encoded(loss, scores):
    """Return targets for a loss from real-valued scores."""
    loss = get_loss(loss)
    if loss.multiclass:
        return np.eye(scores.shape[1])[scores.argmax(axis=1)]
    if loss.name == "poisson":
        return np.floor(np.exp(np.clip(1.0 + scores, -3.0, 3.0)))
    if loss.regression:
        return scores - scores.mean(axis=0)
    return np.where(scores > 0, 1.0, -1.0)


def targets(loss, c, X, seed=0):
    """Return targets that depend on the rows, with noise."""
    rng = np.random.default_rng(seed)
    signal = np.column_stack([X[:, j % X.shape[1]] - X[:, (j + 1) % X.shape[1]] ** 2 for j in range(c)])
    return encoded(loss, signal - np.median(signal, axis=0) + 0.5 * rng.normal(size=signal.shape))


def problem(loss="squared", c=1, *, n=25, C=1.0, seed=0, weights=None, family=None, X=None, how="trace"):
    """Return a small problem; `weights` is None, "random", or "zeros" (random with some zeros)."""
    rng = np.random.default_rng(seed + 100)
    X = rng.normal(size=(n, N_COLUMNS)) if X is None else X
    Y = targets(loss, c, X, seed)
    s = np.ones(len(X))
    if weights is not None:
        s = rng.exponential(size=len(X))
    if weights == "zeros":
        s[:: max(2, len(X) // 5)] = 0.0
    family = (Finite(list(BATCH_KERNELS)) if family is None else family).resolve(X.shape[1])
    return Problem(X, Y, family, Scale.fit(family, X, how, s), get_loss(loss), C, s)


def covering(*axes, strength=2, allowed=lambda *_: True):
    """Return combinations of the axes that contain every allowed pair (or triple, ...) of values.

    Greedy and deterministic. Quick runs use it where the full product is for slow ones.
    """
    full = [combo for combo in itertools.product(*axes) if allowed(*combo)]
    places = list(itertools.combinations(range(len(axes)), strength))

    def parts(combo):
        return {(place, tuple(combo[i] for i in place)) for place in places}

    missing = set().union(*(parts(combo) for combo in full))
    chosen = []
    while missing:
        best = max(full, key=lambda combo: len(parts(combo) & missing))
        missing -= parts(best)
        chosen.append(best)
    return chosen
