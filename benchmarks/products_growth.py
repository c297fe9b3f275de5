"""How the search over all products of three columns grows with their number, and how far recovery goes.

- Growth: ten products of distinct columns anywhere among r, with noise (signal three times its variance), n = 500 rows,
  the number of kernels left to the criterion; CPU seconds from r = 160 to r = 640, which may grow as the number of
  products, r³, at the most.
- Recovery at r = 3,000, that is 4.5 billion products, n = 2,000: ten monomials of the first five columns without noise,
  and products anywhere with the noise above. All products do not fit a search of all rows: they are compared on the
  rows with the largest coefficients, and the leaders on all.

Every fit runs in a process of its own, on one thread.

python benchmarks/products_growth.py --out results/products_growth.json
"""

from __future__ import annotations

import numpy as np

from common import Clock, judged, parser, reached, tidy
from manykernels import Greedy, MKLRegressor, Products
from products_recovery import DEGREE, EXACT, TERMS, problem, warm_up
from streaming_methods import Report, forget_peak, memory

#: Variance of the signal over that of the noise.
SIGNAL = 3.0


def interactions(n, r, seed):
    """Return uniform columns, noisy sums of products of distinct ones, and the products."""
    rng = np.random.default_rng([seed, r])
    X, terms = rng.uniform(-1, 1, (n, r)), set()
    while len(terms) < TERMS:
        terms.add(tuple(sorted(rng.choice(r, rng.integers(1, DEGREE + 1), replace=False).tolist())))
    f = sum(np.prod(X[:, list(z)], axis=1) * 3 ** (len(z) / 2) for z in sorted(terms))
    return X, f + rng.normal(0, np.sqrt(f.var() / SIGNAL), n), terms


def timed(model, X, y) -> dict:
    """Fit, and return what it took."""
    forget_peak()
    before = memory("VmRSS")
    with Clock() as clock:
        model.fit(X, y)
    return {
        "cpu_s": clock.cpu,
        "wall_s": clock.wall,
        "fit_mib": memory("VmHWM") - before,
        "kernels": len(model.combination_),
        "searches": int(model.trace_.extra["searches"][0]),
        "ending": model.result_.ended(),
    }


def noisy(n, r, seed) -> dict:
    """Fit with noise, and compare the products found with the true ones."""
    warm_up()
    X, y, terms = interactions(n, r, seed)
    model = MKLRegressor(Products(DEGREE, standardize=False), solver=Greedy(), C=1e4)
    record = timed(model, X, y)
    found = {
        tuple(z) for z, w in zip(model.combination_.members, model.combination_.weights, strict=True) if w > 0
    }
    return {**record, "found": len(found & terms), "extra": len(found - terms)}


def noiseless(n, r, seed) -> dict:
    """Fit without noise, and return the error on other rows."""
    warm_up()
    X, y, Xt, yt = problem(n, r, seed)
    model = MKLRegressor(Products(DEGREE, standardize=False), solver=Greedy(max_kernels=60), C=1e8)
    record = timed(model, X, y)
    return {**record, "mse": float(np.mean((model.predict(Xt) - yt) ** 2))}


def verdicts_of(record, sizes, wide) -> dict[str, str]:
    """Return a verdict per claim."""
    cpu = {
        r: np.median([v["cpu_s"] for k, v in record["growth"].items() if k.startswith(f"r = {r},")])
        for r in sizes
    }
    first, last = sizes[0], sizes[-1]
    grown, allowed = cpu[last] / cpu[first], (last / first) ** 3
    clean = [v for k, v in record["recovery"].items() if "noiseless" in k]
    rough = [v for k, v in record["recovery"].items() if "noisy" in k]
    seconds = max(v["cpu_s"] for v in (*clean, *rough))
    top = max(v["fit_mib"] for v in (*clean, *rough)) / 1024
    exact = sum(v["mse"] <= EXACT for v in clean)
    right = sum(v["found"] == TERMS and not v["extra"] for v in rough)
    return {
        f"from r = {first} to {last}: at most as r^3, and 10 CPU s": reached(
            f"{grown:.0f}-fold ({allowed:.0f} allowed), {cpu[last]:.1f} CPU s",
            grown <= allowed and cpu[last] <= 10,
        ),
        f"r = {wide}: exact without noise, in 30 minutes and 4 GiB": reached(
            f"{exact} of {len(clean)}, {seconds:.0f} CPU s, {top:.2f} GiB",
            exact == len(clean) and seconds <= 1800 and top <= 4,
        ),
        f"r = {wide}: all products and no other with noise": reached(
            f"{right} of {len(rough)}", right == len(rough)
        ),
    }


def draw(plt, record):
    """Draw CPU seconds against the number of columns."""
    fig, ax = plt.subplots(figsize=(5.4, 3.6), layout="constrained")
    points = [(int(k.split(",")[0].split(" = ")[1]), v["cpu_s"]) for k, v in record["growth"].items()]
    columns = sorted({r for r, _ in points})
    ax.loglog(*zip(*points, strict=True), "o", color="#2a6f97", alpha=0.7, label="fits")
    start = np.median([s for r, s in points if r == columns[0]])
    ax.loglog(
        columns, [start * (r / columns[0]) ** 3 for r in columns], color="#888888", ls="--", lw=1, label="r³"
    )
    ax.set(
        xlabel="columns", ylabel="CPU seconds", title="Greedy over all products of three columns, 500 rows"
    )
    ax.title.set_fontsize(10)
    ax.set_xticks(columns, [str(r) for r in columns])
    ax.minorticks_off()
    ax.legend(frameon=False)
    tidy(ax)
    return fig


def main():
    """Run both parts."""
    p = parser(__doc__.splitlines()[0])
    p.add_argument("--seeds", type=int, default=3)
    p.add_argument("--wide", type=int, default=3000, help="columns of the second part")
    p.add_argument("--wide-seeds", type=int, default=1)
    args = p.parse_args()
    sizes = [20, 40] if args.quick else [160, 320, 640]
    wide, n = (60, 500) if args.quick else (args.wide, 2000)
    report = Report(args, benchmark="products_growth", degree=DEGREE, signal=SIGNAL)
    for r in sizes:
        for seed in range(1 if args.quick else args.seeds):
            report.fit("growth", f"r = {r}, seed {seed}", noisy, 500, r, seed)
    for seed in range(args.wide_seeds):
        report.fit("recovery", f"r = {wide}, noiseless, seed {seed}", noiseless, n, wide, seed)
        report.fit("recovery", f"r = {wide}, noisy, seed {seed}", noisy, n, wide, seed)
    report.finish(judged(verdicts_of(report.record, sizes, wide), args.quick), draw)


if __name__ == "__main__":
    main()
