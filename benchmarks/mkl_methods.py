"""What the bandwidth benchmarks share: the methods of the thesis (Afkanpour 2013, Table 6.1), and one protocol.

Protocol (section 6.2): rows are split into training, validation and test rows. A two-stage method learns its
kernel on the training rows, then an SVM is trained on it; a one-stage method learns both at once. C is the one of the
grid with the least error on the validation rows, the same grid for all; ties go to the smaller C. What is reported is
the error on the test rows, and the CPU seconds of one fit, kernel and machine, at the C chosen. Searches end after 50
steps, or when the objective changes by less than a thousandth in one, as in the thesis.

| here | thesis | what it is |
|---|---|---|
| GCD-2s | Algorithm 7 | ``GreedyAlignment(corrective=False)`` |
| GCD-2s, refit | – | ``GreedyAlignment()``: weights refitted at the end, which raises the alignment further |
| GCD-2s, coarse | – | ``GreedyAlignment(corrective=False, tol=1e-2)``: ends as soon as a step gains less than 0.01 |
| GCD-2s, Euclidean | Algorithm 8 | ``GreedyAlignment("euclidean", corrective=False)`` |
| CKL | GCD-1s, Algorithm 6 | ``Greedy(50, corrective=False, max_iter=50)``, `Settled` |
| IKL | IKL | ``Greedy(50, max_iter=50)``, `Settled` |
| AMKL, UNIFORM | the same | ``Alignment()``, ``Uniform()`` |
| LPMKL, p = 1 and 2 | in the thesis's p, our ν | ``SimpleMKL()``, ``LpNorm(p=4/3)`` |
| SVC, grid | – | what a user would do: one bandwidth and C by grid search |
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.svm import SVC

from common import Clock, chosen_C
from manykernels import AlignedKernel, MKLClassifier
from manykernels.families import Gaussians
from manykernels.kernels import RBF
from manykernels.solvers import (
    Alignment,
    Greedy,
    GreedyAlignment,
    LpNorm,
    MirrorDescent,
    Obscure,
    SimpleMKL,
    Single,
    TwoStageSolver,
    Uniform,
)

#: Steps of libsvm after which a machine is taken as it is.
SVC_STEPS = 200_000


@dataclass(frozen=True)
class Split:
    """Training, validation and test rows; labels are -1 and 1, or numbers."""

    X: np.ndarray
    y: np.ndarray
    Xv: np.ndarray
    yv: np.ndarray
    Xt: np.ndarray
    yt: np.ndarray


def split_rows(X, y, sizes, rng) -> Split:
    """Return disjoint random rows in the sizes given (the last part may come out shorter)."""
    rows = rng.permutation(len(y))
    train, valid, test = np.split(rows[: sum(sizes)], np.cumsum(sizes)[:-1])
    return Split(X[train], y[train], X[valid], y[valid], X[test], y[test])


def two_classes(X, labels, a, b, sizes, seed) -> Split:
    """Return a split of the rows of two classes, which are numbers or letters."""
    rows = np.flatnonzero((labels == a) | (labels == b))
    rng = np.random.default_rng([seed, *(ord(k) if isinstance(k, str) else k for k in (a, b))])
    return split_rows(X[rows], np.where(labels[rows] == a, 1.0, -1.0), sizes, rng)


def pair_tasks(X, labels, pairs, sizes, repetitions, names, *more) -> list[tuple]:
    """Return (task, seed, split, method, more) for every repetition, pair of classes and name of a method."""
    return [
        (f"{a} and {b}", seed, split, name, *more)
        for seed in range(repetitions)
        for a, b in pairs
        for split in [two_classes(X, labels, a, b, sizes, seed)]
        for name in names
    ]


class Settled:
    """Says stop when the objective has changed by less than a share `tol` of it in a step (thesis: 10^-3)."""

    def __init__(self, tol=1e-3):
        self.tol, self.last = tol, np.inf

    def __call__(self, step) -> bool:
        change, self.last = abs(self.last - step.objective), step.objective
        return change < self.tol * abs(step.objective)


@dataclass(frozen=True)
class Method:
    """A name, kernels and a solver; `shrinkage`: values of λ in eq. (6.2) to choose from by alignment."""

    name: str
    kernels: Any
    solver: Any
    shrinkage: tuple[float, ...] = ()


def continuous(ard: bool, *, steps: int = 50, shrinkage=(), extras=True) -> list[Method]:
    """Return the methods over all bandwidths; `steps` bounds those of the one-stage methods."""
    family, dim = Gaussians(ard=ard), "nD" if ard else "1D"
    found = []
    if ard and shrinkage:
        found.append(Method("GCD-2s (nD)", family, GreedyAlignment(corrective=False), tuple(shrinkage)))
    name = "GCD-2s (nD, NoReg)" if ard and shrinkage else f"GCD-2s ({dim})"
    found.append(Method(name, family, GreedyAlignment(corrective=False)))
    if extras and not ard:
        found.append(Method("GCD-2s (1D), refit", family, GreedyAlignment()))
        found.append(Method("GCD-2s (1D), coarse", family, GreedyAlignment(corrective=False, tol=1e-2)))
        found.append(Method("GCD-2s (1D), no own pairs", family, GreedyAlignment(own_pairs=False)))
        found.append(Method("GCD-2s (1D), Euclidean", family, GreedyAlignment("euclidean", corrective=False)))
    found.append(Method(f"CKL ({dim})", family, Greedy(steps, corrective=False, max_iter=steps)))
    if extras:
        found.append(Method(f"IKL ({dim})", family, Greedy(steps, max_iter=steps)))
    return found


def finite(sigmas, label: str = "", single: bool = False, kernel=RBF) -> list[Method]:
    """Return the methods over a list of bandwidths, or of the parameters of another kernel."""
    kernels = [kernel(float(s)) for s in sigmas]
    found = {
        "AMKL": Alignment(),
        "LPMKL (p = 1)": SimpleMKL(),
        "LPMKL (p = 2)": LpNorm(p=4 / 3),
        "OBSCURE": Obscure(),
        **({"Single": Single()} if single else {}),
        "UNIFORM": Uniform(),
    }
    return [Method(name + label, kernels, solver) for name, solver in found.items()]


# -- one method on one split ---------------------------------------------------------------------------------


GRID = "SVC, grid"


def names_of(methods, wanted=None) -> list[str]:
    """Return the names of methods, those wanted or all, and of a user's grid search."""
    return [*(m.name for m in methods if wanted is None or m.name in wanted), GRID]


def svm_record(about: dict, methods, name: str, s: Split, grid, aligned: bool = False) -> list[dict]:
    """Return the record of the method of that name, as a list; `about` goes into it."""
    if name == GRID:
        found = svc_grid(s, grid, aligned)
    else:
        found = evaluate(next(m for m in methods if m.name == name), s, grid, aligned)
    return [{**about, "method": name, **found}]


def evaluate(method: Method, s: Split, grid, aligned: bool = False) -> dict:
    """Return the test error and what goes with it; `aligned` adds the centred alignment on the test rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found, combination = (_two_stages if is_two_stage(method) else _one_stage)(method, s, grid)
    found["kernels"] = int(np.count_nonzero(combination.weights))
    if aligned:
        some = s.Xt[:1000]  # n² kernel values each
        found["alignment"] = alignment(combination.gram(some, some), s.yt[:1000])
    return found


def settled(method: Method) -> Settled | None:
    """Return when to stop a search; stochastic steps over one bandwidth are cheap, and go on to the last."""
    columnwise = isinstance(method.solver, MirrorDescent) and getattr(method.kernels, "ard", False)
    return Settled() if columnwise or isinstance(method.solver, Greedy) else None


def is_two_stage(method: Method) -> bool:
    """Whether the kernel is learned alone."""
    return isinstance(method.solver, TwoStageSolver)


def _two_stages(method, s, grid):
    with Clock() as clock:
        learned = _shrunk(method, s) if method.shrinkage else _learn(method, s)
    with Clock() as gram:
        K = learned.transform(s.X)
    found = svm(K, learned.transform(s.Xv), learned.transform(s.Xt), s, grid)
    found["seconds"] += clock.cpu + gram.cpu
    return found, learned.combination_


def _learn(method, s, **params):
    solver = method.solver.set_params(**params) if params else method.solver
    return AlignedKernel(method.kernels, solver=solver, random_state=0).fit(s.X, s.y)


def _shrunk(method, s):
    """Return the kernel of the λ with the highest alignment on the validation rows (section 6.2.1)."""
    learned = [_learn(method, s, shrinkage=value) for value in method.shrinkage]
    return max(learned, key=lambda k: alignment(k.combination_.gram(s.Xv, s.Xv), s.yv))


def svm(K, Kv, Kt, s: Split, grid) -> dict:
    """Return what an SVM on a kernel reaches, with C chosen on the validation rows."""

    def fit(C):
        return SVC(C=C, kernel="precomputed", max_iter=SVC_STEPS).fit(K, s.y)

    best = chosen_C(grid, fit, lambda machine: np.mean(machine.predict(Kv) != s.yv))
    return {"error": float(np.mean(best.pop("model").predict(Kt) != s.yt)), **best}


def _one_stage(method, s, grid):
    def fit(C):
        model = MKLClassifier(method.kernels, solver=method.solver, loss="hinge", C=C, random_state=0)
        return model.fit(s.X, s.y, on_iteration=settled(method))

    best = chosen_C(grid, fit, lambda model: np.mean(model.predict(s.Xv) != s.yv))
    model = best.pop("model")
    return {"error": float(np.mean(model.predict(s.Xt) != s.yt)), **best}, model.combination_


def svc_grid(s: Split, grid, aligned: bool = False) -> dict:
    """Return what a user would reach: 13 bandwidths around the median distance, and C, by validation error."""
    parts = [euclidean_distances(Z, s.X, squared=True) for Z in (s.X, s.Xv, s.Xt)]
    distances = parts[0][np.triu_indices(len(s.y), 1)]
    median = float(np.sqrt(np.median(distances[distances > 0])))
    best = None
    with Clock() as clock:
        for sigma in median * 2.0 ** np.arange(-3, 3.5, 0.5):
            found = svm(*(np.exp(-D / sigma**2) for D in parts), s, grid)
            if best is None or found["valid"] < best["valid"]:
                best = {**found, "sigma": sigma}
    best["search_seconds"], best["kernels"] = clock.cpu, 1
    if aligned:
        K = np.exp(-euclidean_distances(s.Xt[:1000], squared=True) / best["sigma"] ** 2)
        best["alignment"] = alignment(K, s.yt[:1000])
    return best


def alignment(K, y) -> float:
    """Return the centred alignment of a Gram matrix with yyᵀ."""
    y = y - y.mean()
    means = K.mean(axis=0)
    K = K - means - means[:, None] + means.mean()
    return float(y @ K @ y / (np.linalg.norm(K) * (y @ y)))
