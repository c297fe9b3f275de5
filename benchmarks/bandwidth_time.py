"""What bandwidths cost: seconds in rows and in kernels (Afkanpour 2013, Fig. 6.8), and two ratios.

The data of ``bandwidth_synthetic.py`` at γ = 40, C = 1, CPU seconds of one fit, kernel and machine; the error is
on 2,000 test rows. Finite methods get 50 bandwidths from 10^-3 to 10^3 while rows grow, and 50 to 2,000 while rows
stay at 50.

Ratios, each the best of three runs in turn, one BLAS thread:
 - ``MKLClassifier(Gaussians(), solver=GreedyAlignment())`` to ``Uniform`` over 20 bandwidths;
 - the search for 50 bandwidths, one per column, on 500 rows, to the search for one.

python benchmarks/bandwidth_time.py --out results/bandwidth_time.json
"""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from bandwidth_synthetic import draw_rows
from common import Clock, finish, grade, handles_of, legend_below, parser, reached, say, tidy, where
from comparison import color_of
from manykernels import MKLClassifier
from manykernels.families import Gaussians
from manykernels.families.base import Direction
from manykernels.kernels import RBF
from manykernels.solvers import GreedyAlignment, Uniform
from mkl_methods import continuous, finite
from papers import THESIS, row

GAMMA = 40
ROWS = (50, 100, 200, 500, 1000)
KERNELS = (50, 100, 200, 500, 1000, 2000)
RATIO_ROWS = (500, 1000, 2000, 3000)
#: A method is not run on more once a fit has taken longer.
PATIENCE = 10.0


def timed(method, X, y, Xt, yt, C=1.0) -> dict:
    """Return seconds and test error of one fit."""
    model = MKLClassifier(method.kernels, solver=method.solver, loss="hinge", C=C, random_state=0)
    with Clock() as clock:
        model.fit(X, y)
    return {"seconds": clock.cpu, "error": float(np.mean(model.predict(Xt) != yt))}


def sweep(key, values, methods_at, rows_at, test) -> list[dict]:
    """Return one record per method and value, while a method's fits end within patience."""
    records, slow = [], set()
    for value in values:
        X, y = rows_at(value)
        for method in methods_at(value):
            if method.name in slow:
                continue
            found = timed(method, X, y, *test)
            records.append({key: value, "method": method.name, **found})
            if found["seconds"] > PATIENCE:
                slow.add(method.name)
    return records


def methods(n_kernels) -> list:
    """Return the methods of Fig. 6.8."""
    return [
        *continuous(ard=False, extras=False),
        *continuous(ard=True, steps=15, extras=False),
        *finite(np.geomspace(1e-3, 1e3, n_kernels)),
    ]


def best_of(runs, repeats=3) -> list[float]:
    """Return the least CPU seconds of every run, the runs taking turns."""
    best = [np.inf] * len(runs)
    for _ in range(repeats):
        for i, run in enumerate(runs):
            with Clock() as clock:
                run()
            best[i] = min(best[i], clock.cpu)
    return best


def against_uniform(n, rng) -> dict:
    """Return the seconds of GreedyAlignment and of Uniform over 20 bandwidths, at C = 1."""
    X, y = draw_rows(GAMMA, n, rng)
    grid = [RBF(float(s)) for s in np.geomspace(1, 100, 20)]

    def fit(kernels, solver):
        return lambda: MKLClassifier(kernels, solver=solver, loss="hinge", C=1.0).fit(X, y)

    runs = [fit(Gaussians(), GreedyAlignment()), fit(grid, Uniform())]
    greedy, uniform = best_of(runs)
    return {"rows": n, "GreedyAlignment": greedy, "Uniform": uniform, "ratio": greedy / uniform}


def search_cost(n, rng) -> dict:
    """Return the seconds of the two searches along yyᵀ, the first direction, centred."""
    X, y = draw_rows(GAMMA, n, rng)
    y = y - y.mean()
    direction = Direction(dense=np.outer(y, y) - np.diag(np.full(n, float(y @ y) / n)))

    def search(ard):
        return lambda: Gaussians(ard=ard).resolve(X.shape[1]).searcher(X, None).best(direction)

    columns, one = best_of([search(True), search(False)])
    return {"rows": n, "columns": X.shape[1], "ard": columns, "one": one, "ratio": columns / one}


def rows_about(by_rows, by_kernels) -> list[dict]:
    """Compare with the scalability test of the thesis."""
    most = max(r["rows"] for r in by_rows)
    ends = min(KERNELS), max(r["kernels"] for r in by_kernels)
    at = {r["method"]: r["seconds"] for r in where(by_rows, rows=most)}
    first, last = ({r["method"]: r["seconds"] for r in where(by_kernels, kernels=k)} for k in ends)
    growth = {m: last[m] / first[m] for m in last if m in first}
    listed = ("AMKL", "LPMKL (p = 1)", "UNIFORM")
    errors = {m: [r["error"] for r in where(by_kernels, method=m)] for m in listed}
    fixed = [m for m in at if "D)" not in m and m != "UNIFORM"]
    apart = at["CKL (nD)"] / at["GCD-2s (nD)"] if "CKL (nD)" in at else np.inf
    learned = min((m for m in at if m != "UNIFORM"), key=at.get)
    about = {"repetitions": 1, "settings": "C = 1; CKL (nD) at most 15 steps"}
    return [
        row(
            THESIS,
            "Fig. 6.8",
            "GCD-2s (1D) is the fastest method that learns, about as fast as UNIFORM",
            verdict=grade(learned == "GCD-2s (1D)"),
            paper="so at all sizes (a plot)",
            ours=f"CPU seconds at {most} rows: " + ", ".join(f"{m} {v:.2f}" for m, v in at.items()),
            **about,
        ),
        row(
            THESIS,
            "Fig. 6.8",
            "With a bandwidth per column GCD-2s is several times faster than CKL",
            verdict=grade(apart >= 5, partly=apart > 1),
            paper="almost 10 times",
            ours=f"{apart:.1f} times at {most} rows" if np.isfinite(apart) else "CKL was given up",
            **about,
        ),
        row(
            THESIS,
            "Fig. 6.8",
            "The time of methods over a list grows with the list, that of the others does not",
            verdict=grade(min(growth[m] for m in fixed if m in growth) > 3),
            paper="so (a plot)",
            ours=f"from {ends[0]} to {ends[1]} kernels: "
            + ", ".join(f"{m} × {v:.1f}" for m, v in growth.items()),
            **about,
        ),
        row(
            THESIS,
            "Fig. 6.8",
            "More bandwidths do not lower the error",
            verdict=grade(all(min(v) > v[0] - 0.02 for v in errors.values())),
            paper="so (a plot)",
            ours=f"error in %, {ends[0]} and {ends[1]} kernels: "
            + ", ".join(f"{m} {100 * v[0]:.1f} and {100 * v[-1]:.1f}" for m, v in errors.items()),
            **about,
        ),
    ]


def seconds_table(by_rows, by_kernels) -> dict:
    """Return seconds at the most rows, and how the time grows with the kernels, by method."""
    most, kernels = max(r["rows"] for r in by_rows), [r["kernels"] for r in by_kernels]
    names = list(dict.fromkeys(r["method"] for r in by_rows))

    def of(records, key, value, m):
        return next((r["seconds"] for r in where(records, method=m) if r[key] == value), None)

    lines = []
    for m in names:
        first, last = (of(by_kernels, "kernels", k, m) for k in (min(kernels), max(kernels)))
        at = of(by_rows, "rows", most, m)
        lines.append(
            [m, "–" if at is None else f"{at:.2f}", f"× {last / first:.1f}" if first and last else "–"]
        )
    head = ["", f"CPU seconds, {most:,} rows", f"{max(kernels):,} kernels instead of {min(kernels)}"]
    return {"source": THESIS, "item": "Fig. 6.8", "title": "Time of a fit", "head": head, "lines": lines}


def aims(ratios, search) -> dict:
    """Return what is aimed at beside the thesis."""
    return {
        "GreedyAlignment's fit takes at most 1.2 times Uniform's over 20 kernels": reached(
            ", ".join(f"{r['rows']} rows: {r['ratio']:.2f}" for r in ratios),
            max(r["ratio"] for r in ratios) <= 1.2,
        ),
        "50 bandwidths on 500 rows take at most 20 times the search for one": reached(
            f"{search['ard']:.2f} beside {search['one']:.3f} s, × {search['ratio']:.1f}",
            search["ratio"] <= 20,
        ),
    }


def draw(plt, by_rows, by_kernels):
    """Draw seconds against rows and against kernels."""
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.6), layout="constrained", sharey=True)
    for axis, key, records, label in (
        (axes[0], "rows", by_rows, "training rows, 50 kernels"),
        (axes[1], "kernels", by_kernels, "bandwidths listed, 50 training rows"),
    ):
        for m in dict.fromkeys(r["method"] for r in records):
            points = [(r[key], r["seconds"]) for r in where(records, method=m)]
            style = "--" if "D)" in m else "-"
            axis.plot(
                *zip(*points),
                style,
                marker="D" if "(nD" in m else "o",
                ms=4.5,
                lw=1.6,
                color=color_of(m),
                label=m,
            )
        axis.set(xscale="log", yscale="log", xlabel=label)
        ticks = sorted({r[key] for r in records})
        axis.set_xticks(ticks, [f"{t:,}" for t in ticks])
        axis.minorticks_off()
        tidy(axis)
    axes[0].set_ylabel("CPU seconds of one fit, C = 1")
    legend_below(figure, handles_of(axes[0]), ncols=4, fontsize=9)
    figure.suptitle("Dashed: methods that search all bandwidths, and need no list", fontsize=11)
    return figure


def main():
    args = parser(__doc__).parse_args()
    rows, kernels, ratio_rows = ROWS, KERNELS, RATIO_ROWS
    if args.quick:
        rows, kernels, ratio_rows = ROWS[:3], KERNELS[:2], RATIO_ROWS[:1]
    rng = np.random.default_rng(0)
    test, small = draw_rows(GAMMA, 2000, rng), draw_rows(GAMMA, 50, rng)
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore", ConvergenceWarning)
        for m in methods(50):  # compiles and imports
            timed(m, *small, *test)
        by_rows = sweep("rows", rows, lambda n: methods(50), lambda n: draw_rows(GAMMA, n, rng), test)
        by_kernels = sweep("kernels", kernels, methods, lambda m: small, test)
        ratios = [against_uniform(n, rng) for n in ratio_rows]
        search = search_cost(500, rng)
    for r in (*by_rows, *by_kernels):
        say("  ".join(f"{k} {v:.3f}" if isinstance(v, float) else f"{k} {v}" for k, v in r.items()))
    record = {
        "benchmark": "bandwidth_time",
        "rows": rows_about(by_rows, by_kernels),
        "tables": [seconds_table(by_rows, by_kernels)],
        "verdicts": aims(ratios, search),
        "by_rows": by_rows,
        "by_kernels": by_kernels,
        "against_uniform": ratios,
        "search": search,
    }
    finish(record, args.out, figures={"": lambda plt: draw(plt, by_rows, by_kernels)})


if __name__ == "__main__":
    main()
