"""What the bandwidth benchmarks share: the methods of the thesis (001, Table 6.1), one protocol, ranks, figures.

Protocol (001, section 6.2): rows are split into training, validation and test rows. A two-stage method learns its
kernel on the training rows, then an SVM is trained on it; a one-stage method learns both at once. C is the one of the
grid with the least error on the validation rows, the same grid for all; ties go to the smaller C. What is reported is
the error on the test rows, and the CPU seconds of one fit, kernel and machine, at the C chosen.

| here | thesis | what it is |
|---|---|---|
| GCD-2s | Algorithm 7 | ``GreedyAlignment(corrective=False)`` |
| GCD-2s, refit | – | ``GreedyAlignment()``: weights refitted at the end, which raises the alignment further |
| GCD-2s, coarse | – | ``GreedyAlignment(corrective=False, tol=1e-2)``: ends as soon as a step gains less than 0.01 |
| GCD-2s, Euclidean | Algorithm 8 | ``GreedyAlignment("euclidean", corrective=False)`` |
| CKL | GCD-1s, Algorithm 6 | ``Greedy(50, corrective=False, max_iter=50)`` |
| IKL | IKL | ``Greedy(50, max_iter=50)`` |
| AMKL, UNIFORM | the same | ``Alignment()``, ``Uniform()`` |
| LPMKL, p = 1 and 2 | in the thesis's p, our ν | ``SimpleMKL()``, ``LpNorm(p=4/3)`` |
| SVC, grid | – | what a user would do: one bandwidth and C by grid search |
"""

from __future__ import annotations

import sys
import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import rankdata
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.svm import SVC

import manykernels.solvers as solvers
from common import Clock
from manykernels import AlignedKernel, MKLClassifier
from manykernels.families import Gaussians
from manykernels.kernels import RBF
from manykernels.solvers import (
    Alignment,
    Greedy,
    GreedyAlignment,
    LpNorm,
    SimpleMKL,
    Single,
    Uniform,
)

#: Steps of libsvm after which a machine is taken as it is.
SVC_STEPS = 200_000

BLUES, GREENS, REDS = (
    ("#12486b", "#2a6f97", "#7db8d6"),
    ("#4f772d", "#6a994e", "#b5c99a"),
    ("#9b2226", "#d1495b"),
)
COLORS = {
    "GCD-2s (1D)": BLUES[0],
    "GCD-2s (1D), refit": BLUES[1],
    "GCD-2s (1D), coarse": "#3fa7c4",
    "GCD-2s (1D), no own pairs": "#5e548e",
    "GCD-2s (1D), Euclidean": BLUES[2],
    "GCD-2s (nD)": "#6a3d9a",
    "GCD-2s (nD, NoReg)": "#b39bc8",
    "CKL (1D)": REDS[0],
    "CKL (nD)": "#e07a5f",
    "IKL (1D)": REDS[1],
    "IKL (nD)": "#f2a7a0",
    "SGD-1s (1D)": "#b08900",
    "SGD-1s (nD)": "#e3c565",
    "AMKL": GREENS[0],
    "LPMKL (p = 1)": GREENS[1],
    "LPMKL (p = 2)": GREENS[2],
    "OBSCURE": "#2f9e8f",
    "Single": "#888888",
    "UNIFORM": "#444444",
    "SVC, grid": "#000000",
    "ridge, grid": "#000000",
}


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


def finite(sigmas, label: str = "", single: bool = False) -> list[Method]:
    """Return the methods over a list of bandwidths; OBSCURE among them where the package has it."""
    kernels = [RBF(float(s)) for s in sigmas]
    found = {"AMKL": Alignment(), "LPMKL (p = 1)": SimpleMKL(), "LPMKL (p = 2)": LpNorm(p=4 / 3)}
    if hasattr(solvers, "Obscure"):
        found["OBSCURE"] = solvers.Obscure()
    if single:
        found["Single"] = Single()
    found["UNIFORM"] = Uniform()
    return [Method(name + label, kernels, solver) for name, solver in found.items()]


def c_grid(low: int, high: int) -> tuple[float, ...]:
    """Return the values of C; the thesis has 10^-5, 10^-4.5, ..., 10^5."""
    return tuple(10.0 ** np.arange(low, high + 1))


# -- one method on one split ---------------------------------------------------------------------------------


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


def is_two_stage(method: Method) -> bool:
    """Whether the kernel is learned alone."""
    return isinstance(method.solver, solvers.TwoStageSolver)


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
    """Return the kernel of the λ with the highest alignment on the validation rows (001, section 6.2.1)."""
    learned = [_learn(method, s, shrinkage=value) for value in method.shrinkage]
    return max(learned, key=lambda k: alignment(k.combination_.gram(s.Xv, s.Xv), s.yv))


def svm(K, Kv, Kt, s: Split, grid) -> dict:
    """Return what an SVM on a kernel reaches, with C chosen on the validation rows."""
    best = None
    for C in grid:
        with Clock() as clock:
            machine = SVC(C=C, kernel="precomputed", max_iter=SVC_STEPS).fit(K, s.y)
        missed = float(np.mean(machine.predict(Kv) != s.yv))
        if best is None or missed < best[0]:
            best = missed, C, machine, clock.cpu
    missed, C, machine, seconds = best
    return {
        "error": float(np.mean(machine.predict(Kt) != s.yt)),
        "valid": missed,
        "C": float(C),
        "seconds": seconds,
    }


def _one_stage(method, s, grid):
    best = None
    for C in grid:
        model = MKLClassifier(method.kernels, solver=method.solver, loss="hinge", C=C, random_state=0)
        with Clock() as clock:
            model.fit(s.X, s.y)
        missed = float(np.mean(model.predict(s.Xv) != s.yv))
        if best is None or missed < best[0]:
            best = missed, C, model, clock.cpu
    missed, C, model, seconds = best
    error = float(np.mean(model.predict(s.Xt) != s.yt))
    return {"error": error, "valid": missed, "C": float(C), "seconds": seconds}, model.combination_


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


# -- over tasks and repetitions ------------------------------------------------------------------------------


def table_of(records, field="error") -> dict[str, dict[str, np.ndarray]]:
    """Return {method: {task: values over repetitions}} from records with "task", "method" and the field."""
    found: dict[str, dict[str, list]] = {}
    for r in records:
        if field in r:
            found.setdefault(r["method"], {}).setdefault(r["task"], []).append(r[field])
    return {m: {t: np.array(v) for t, v in tasks.items()} for m, tasks in found.items()}


def median_ranks(errors, names=None) -> dict[str, float]:
    """Return the median over tasks of a method's rank by mean error, 1 being the best; ties share a rank."""
    names = list(errors) if names is None else [m for m in errors if m in names]
    tasks = list(errors[names[0]])
    ranks = [rankdata([errors[m][t].mean() for m in names]) for t in tasks]
    return dict(zip(names, np.median(ranks, axis=0).tolist()))


def better_of(errors, a: str, b: str) -> tuple[int, int, int]:
    """Return on how many tasks the first method has the lower mean error, the same, the higher."""
    apart = [errors[a][t].mean() - errors[b][t].mean() for t in errors[a]]
    return sum(v < -1e-12 for v in apart), sum(abs(v) <= 1e-12 for v in apart), sum(v > 1e-12 for v in apart)


def summary(records) -> list[dict]:
    """Return median and quartiles of every field for every task and method, for the JSON."""
    groups: dict[tuple, list[dict]] = {}
    for r in records:
        groups.setdefault((r["task"], r["method"]), []).append(r)
    rows = []
    for (task, method), group in groups.items():
        row: dict[str, Any] = {"task": task, "method": method, "repetitions": len(group)}
        for field in ("error", "alignment", "seconds", "kernels", "C"):
            values = [r[field] for r in group if field in r]
            if values:
                quartiles = np.percentile(values, [25, 50, 75])
                row[field] = {"mean": float(np.mean(values)), "quartiles": quartiles.tolist()}
        rows.append(row)
    return rows


def say(*lines) -> None:
    """Print for the reader, on the standard error: the standard output is the JSON's."""
    print(*lines, sep="\n", file=sys.stderr, flush=True)


def print_table(errors, ranks, unit=100.0, digits=2) -> None:
    """Print mean errors, one row per method, best rank first."""
    tasks = list(next(iter(errors.values())))
    width = max(map(len, errors)) + 2
    say("method".ljust(width) + "  rank" + "".join(t.rjust(max(8, len(t) + 2)) for t in tasks))
    for m in sorted(errors, key=lambda m: ranks.get(m, np.inf)):
        cells = (
            f"{unit * errors[m][t].mean():.{digits}f}".rjust(max(8, len(t) + 2)) if t in errors[m] else " "
            for t in tasks
        )
        say(m.ljust(width) + f"{ranks.get(m, np.nan):6.1f}" + "".join(cells))


def verdict(claim: str, holds: bool, measured: str, why: str = "") -> str:
    """Return a claim with its verdict."""
    text = f"{claim}: {'reproduced' if holds else 'differs'}; {measured}"
    return text if holds or not why else f"{text} Why: {why}"


def run_tasks(work, tasks, jobs: int, minutes: float | None = None) -> list[dict]:
    """Return the records of ``work(task)`` over tasks, in order, on `jobs` processes of one BLAS thread each.

    After `minutes` no more are begun: put repetitions in the outer loop, so that all tasks have about as many.
    """
    from joblib import Parallel, delayed
    from threadpoolctl import threadpool_limits

    started, found = time.monotonic(), []
    begun = (t for t in tasks if minutes is None or time.monotonic() - started < 60 * minutes)
    with threadpool_limits(1):
        parts = Parallel(n_jobs=jobs, return_as="generator", pre_dispatch=jobs)(
            delayed(work)(*t) for t in begun
        )
        for i, part in enumerate(parts):
            say(f"{i + 1} of {len(tasks)} done, {time.monotonic() - started:.0f} s")
            found += part
    return found


def runs_of(errors, noun="split") -> str:
    """Return what a figure shows: "one split", or "median and quartiles over 3 to 5 splits"."""
    counts = sorted({len(v) for tasks in errors.values() for v in tasks.values()})
    if counts[-1] == 1:
        return f"one {noun}"
    number = " to ".join(str(c) for c in dict.fromkeys((counts[0], counts[-1])))
    return f"median and quartiles over {number} {noun}s"


def options(p, repetitions: int, decades=(-1, 4)) -> None:
    """Add the options of the benchmarks with repetitions."""
    p.add_argument(
        "--decades",
        type=int,
        nargs=2,
        default=decades,
        help="C is 10 to the powers from the one to the other",
    )
    p.add_argument(
        "--repetitions", type=int, default=repetitions, help="random splits, or data sets, per task"
    )
    p.add_argument("--jobs", type=int, default=2, help="processes")
    p.add_argument("--minutes", type=float, help="begin no more repetitions after this many minutes")


def color_of(method: str) -> str:
    """Return a method's colour, whatever its grid."""
    return COLORS[method.split(" [")[0]]


def tidy(axis) -> None:
    """Leave out what does not carry data."""
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(alpha=0.25)
    axis.set_axisbelow(True)


def strips(plt, errors, ranks, title, xlabel, unit=100.0, columns=4):
    """Draw one panel per task: every method's quartiles and median, methods in the order of their median rank."""
    tasks = list(next(iter(errors.values())))
    columns = min(columns, len(tasks))
    names = sorted(errors, key=lambda m: ranks.get(m, np.inf))
    n_rows = -(-len(tasks) // columns)
    figure, axes = plt.subplots(
        n_rows,
        columns,
        figsize=(3.0 * columns + 1.6, (0.2 * len(names) + 0.75) * n_rows + 0.5),
        layout="constrained",
        sharey=True,
        squeeze=False,
    )
    for axis, task in zip(axes.flat, tasks):
        for i, m in enumerate(names):
            if task not in errors[m]:
                continue
            low, middle, high = np.percentile(unit * errors[m][task], [25, 50, 75])
            axis.plot([low, high], [i, i], color=color_of(m), lw=4, alpha=0.35, solid_capstyle="round")
            axis.plot(middle, i, "o", color=color_of(m), ms=5, mec="white", mew=0.5)
        axis.set_title(task, fontsize=10)
        tidy(axis)
        axis.set_ylim(len(names) - 0.4, -0.6)
    for axis in axes[:, 0]:  # shared, but the size of the labels is not
        axis.set_yticks(range(len(names)), [f"{m}  ({ranks[m]:g})" for m in names], fontsize=8)
    for axis in axes.flat[len(tasks) :]:
        axis.set_visible(False)
    for axis in axes[-1]:
        axis.set_xlabel(xlabel)
    figure.suptitle(title, fontsize=11)
    return figure
