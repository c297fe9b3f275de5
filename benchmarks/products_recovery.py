"""Greedy over every product of up to three columns: exact recovery, time, memory, and the speed of its search.

- Recovery: ten random monomials of the first five of r columns, no noise (Afkanpour 2013, section 6.1.3), up to
  r = 1000, that is 168 million kernels. n = 500 rows, 1,000 at r = 1000. Every fit runs in a process of its own.
- Search: useful multiply-adds of one search over all products, n C(r + 3, 3), per CPU second, as a share of those of a
  matrix product of 1,500 x 1,500 in the same process, on one thread and in double precision.
- Many rows: a million rows of 30 columns, uniform and not standardised, ten monomials anywhere and 10 % of noise.

python benchmarks/products_recovery.py --out results/products_recovery.json
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from common import Clock, judged, parser, reached, standardised, tidy
from manykernels import MKLRegressor
from manykernels._util.threads import one_blas_thread
from manykernels.families import Products
from manykernels.families.base import Direction
from manykernels.problem import Scale
from manykernels.solvers import Greedy
from streaming_methods import Report, forget_peak, memory

DEGREE, TERMS, RELEVANT = 3, 10, 5
EXACT = 1e-10


def problem(n, r, seed):
    """Return standardised training and test rows of ten monomials of the first columns."""
    rng = np.random.default_rng([seed, r])
    terms = [
        z for d in range(1, DEGREE + 1) for z in itertools.combinations_with_replacement(range(RELEVANT), d)
    ]
    X = rng.uniform(-1, 1, (n + 1000, r))
    y = sum(np.prod(X[:, terms[i]], axis=1) for i in rng.choice(len(terms), TERMS, replace=False))
    X, y = standardised(X, slice(n)), standardised(y, slice(n))
    return X[:n], y[:n], X[n:], y[n:]


def warm_up() -> None:
    """Compile what a fit needs."""
    X, y, _, _ = problem(200, 20, 0)
    MKLRegressor(Products(DEGREE, standardize=False), solver=Greedy(3), C=1e8).fit(X, y)


def recover(n, r, seed) -> dict:
    """Fit without noise; memory is what the fit added."""
    warm_up()
    X, y, Xt, yt = problem(n, r, seed)
    forget_peak()
    before = memory("VmRSS")
    model = MKLRegressor(Products(DEGREE, standardize=False), solver=Greedy(max_kernels=60), C=1e8)
    with Clock() as clock:
        model.fit(X, y)
    return {
        "mse": float(np.mean((model.predict(Xt) - yt) ** 2)),
        "cpu_s": clock.cpu,
        "wall_s": clock.wall,
        "fit_mib": memory("VmHWM") - before,
        "kernels": len(model.combination_),
    }


def search(n, r) -> dict:
    """Time one search against a matrix product; medians of alternating calls."""
    rng = np.random.default_rng(0)
    square, X = rng.standard_normal((1500, 1500)), rng.standard_normal((n, r))
    family = Products(DEGREE).resolve(r)
    searcher = family.searcher(X, Scale.fit(family, X, "trace"))
    direction = Direction.of_gradient(rng.standard_normal((n, 1)))
    useful = n * math.comb(r + DEGREE, DEGREE)
    peaks, speeds = [], []
    with one_blas_thread():
        searcher.best(direction)  # keeps the scales
        for _ in range(3 if useful > 1e10 else 15):
            with Clock() as product:
                square @ square
            peaks.append(1500**3 / product.cpu)
            with Clock() as clock:
                searcher.best(direction)
            speeds.append(useful / clock.cpu)
    return {
        "share": float(np.median(speeds) / np.median(peaks)),
        "seconds": useful / float(np.median(speeds)),
        "peak_gflops": 2e-9 * float(np.median(peaks)),
    }


def many_rows(n, r=30) -> dict:
    """Fit many rows with noise, and compare the products found with the true ones."""
    warm_up()
    before = memory("VmRSS")
    rng = np.random.default_rng(0)
    X, terms = rng.random((n, r)), set()
    while len(terms) < TERMS:
        terms.add(tuple(sorted(rng.integers(0, r, rng.integers(1, DEGREE + 1)).tolist())))
    y = np.zeros(n)
    for z in sorted(terms):
        y += rng.choice([-1, 1]) * rng.uniform(1, 2) * np.prod(X[:, list(z)], axis=1)
    y += 0.1 * y.std() * rng.standard_normal(n)
    forget_peak()
    model = MKLRegressor(Products(DEGREE, standardize=False), solver=Greedy(), C=1.0)
    with Clock() as clock:
        model.fit(X, y)
    found = set(map(tuple, model.combination_.members))
    return {
        "found": len(found & terms),
        "extra": len(found - terms),
        "cpu_s": clock.cpu,
        "wall_s": clock.wall,
        "memory_of_data": (memory("VmHWM") - before) / (X.nbytes / 2**20),
    }


def verdicts_of(record, wide) -> dict[str, str]:
    """Return a verdict per claim."""
    fits = record["recovery"]
    large = [v for k, v in fits.items() if k.startswith(f"r = {wide},")]
    exact = sum(v["mse"] <= EXACT for v in large)
    top = max(v["fit_mib"] for v in large)
    rows = record["many rows"]["all"]
    shares = ", ".join(f"{k} {v['share']:.0%}" for k, v in record["search"].items())
    fine = rows["found"] == TERMS and rows["wall_s"] <= 300 and rows["memory_of_data"] <= 3

    return {
        f"r = {wide}: exact on two of three seeds, in 2 GiB": reached(
            f"{exact} of {len(large)}, {top / 1024:.2f} GiB, {np.median([v['cpu_s'] for v in large]):.0f} CPU s",
            3 * exact >= 2 * len(large) and top <= 2048,
        ),
        "search: >= 40 % of the peak from r = 100": reached(
            shares,
            all(v["share"] >= 0.4 for k, v in record["search"].items() if int(k.split(" = ")[1]) >= 100),
        ),
        "many rows: all found in 5 minutes, at most 3 x the data": reached(
            f"{rows['found']} of {TERMS} and {rows['extra']} more, {rows['wall_s']:.0f} s, "
            f"{rows['memory_of_data']:.2f} x",
            fine,
        ),
    }


def draw(plt, record):
    """Draw errors, CPU seconds and the share of the peak against the number of columns."""
    fig, axes = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
    points = [(int(k.split(",")[0].split(" = ")[1]), v) for k, v in record["recovery"].items() if "mse" in v]
    columns = [r for r, _ in points]
    axes[0].loglog(columns, [max(v["mse"], 1e-32) for _, v in points], "o", color="#2a6f97", alpha=0.7)
    axes[0].axhline(EXACT, color="#888888", lw=1, ls="--")
    axes[0].set(title="mean squared test error; dashed: counted as exact", ylim=(1e-21, 2))
    axes[1].loglog(columns, [v["cpu_s"] for _, v in points], "o", color="#2a6f97", alpha=0.7)
    axes[1].set_title("CPU seconds to fit")
    shares = {int(k.split(" = ")[1]): v["share"] for k, v in record["search"].items()}
    axes[2].semilogx(list(shares), [100 * v for v in shares.values()], "o-", color="#c1121f")
    axes[2].axhline(40, color="#888888", lw=1, ls="--")
    axes[2].set(title="search: share of the matrix product's speed (%)", ylim=(0, 100))
    for ax in axes:
        ax.set_xlabel("columns")
        ax.title.set_fontsize(10)
        ax.set_xticks(sorted(set(columns)), [str(r) for r in sorted(set(columns))])
        ax.minorticks_off()
        tidy(ax)
    return fig


def main():
    """Run the three parts."""
    p = parser(__doc__.splitlines()[0])
    p.add_argument("--seeds", type=int, default=3)
    p.add_argument("--rows", type=int, default=1_000_000, help="rows of the last part")
    args = p.parse_args()
    sizes = [(500, 20), (500, 60)] if args.quick else [(500, 20), (500, 100), (800, 300), (1000, 1000)]
    report = Report(args, benchmark="products_recovery", degree=DEGREE)
    for n, r in sizes:
        for seed in range(1 if args.quick else args.seeds):
            report.fit("recovery", f"r = {r}, seed {seed}", recover, n, r, seed)
    for _, r in sizes:
        report.fit("search", f"r = {r}", search, 1000, r)
    report.fit("many rows", "all", many_rows, 20_000 if args.quick else args.rows)
    report.finish(judged(verdicts_of(report.record, sizes[-1][1]), args.quick), draw)


if __name__ == "__main__":
    main()
