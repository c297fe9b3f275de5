"""Test error and time against the number of columns, ten monomials as truth.

Afkanpour et al. (2013), Fig. 2; Afkanpour (2013), Fig. 6.3.

Inputs are uniform on [-1, 1]^r, the target is the sum of ten monomials of degree at most 3, without noise,
drawn from all variables in the paper and from the first five in the thesis. 500 rows to train, 1,000 to
choose C, 1,000 to test; inputs and target brought to mean 0 and variance 1. MirrorDescent (the papers' method), Uniform
(every product alike, in closed form) and LpNorm over the list of all products, while their columns fit into --memory;
``Hierarchical`` (HMKL, the papers' BACH) and ``PolynomialMKL`` (NLMKL, their CORTES). `mse` is relative to the target's
variance.

Also measured, up to r = 1000: the probability that one draw of Algorithm 3 at the first step hits any of the
ten.

python benchmarks/mirror_descent_dimensions.py --out results/mirror_descent_dimensions.json
"""

from __future__ import annotations

import math
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from common import Clock, Journal, finish, grade, parser, standardised, tidy, where
from comparison import repeated, run_tasks
from manykernels import MKLRegressor
from manykernels.families import Products
from manykernels.solvers import Hierarchical, LpNorm, MirrorDescent, PolynomialMKL, Uniform
from papers import ICML, THESIS, row

DEGREE, TERMS, N = 3, 10, 500
VERSIONS = {
    "paper": "terms of all variables (paper)",
    "thesis": "terms of the first five variables (thesis)",
}
#: Where each version of the data is from.
PLACES = ((ICML, "Fig. 2", "paper"), (THESIS, "Fig. 6.3", "thesis"))
COLORS = {
    "MirrorDescent": "#2a6f97",
    "LpNorm": "#6a994e",
    "Uniform": "#c1121f",
    "Hierarchical": "#e09f3e",
    "PolynomialMKL": "#6a3d9a",
}


def one_term(r, rng):
    """Return a monomial of degree 0 to 3, uniformly over all C(r + 3, 3) of them."""
    picks = np.sort(rng.choice(r + DEGREE, DEGREE, replace=False)) - np.arange(DEGREE)
    return tuple(int(j) for j in picks if j < r)


def synthetic(version, r, seed):
    """Return standardised rows and targets of the three parts, and the true terms."""
    rng = np.random.default_rng([seed, r])
    pick = (
        rng if version == "paper" else np.random.default_rng(seed)
    )  # the same terms at every r in the thesis
    terms = set()
    while len(terms) < TERMS:
        terms.add(one_term(r if version == "paper" else min(r, 5), pick))
    X = rng.uniform(-1, 1, (N + 2000, r))
    y = sum(np.prod(X[:, list(z)], axis=1) for z in terms)
    return standardised(X, slice(N)), standardised(y, slice(N)), sorted(terms)


def hit_probability(X, y, terms):
    """Return the share of the sampling mass, at A ∝ y, of the true terms; the constant is none of them."""
    Z = X / np.sqrt(np.mean(X**2, axis=0))
    S = Z @ Z.T
    total = sum(float(y @ (S**d) @ y) for d in range(DEGREE + 1))
    own = 0.0
    for z in terms:
        if z:
            orderings = math.factorial(len(z)) / math.prod(math.factorial(z.count(j)) for j in set(z))
            own += orderings * float(np.prod(Z[:, list(z)], axis=1) @ y) ** 2
    return own / total


def fit(X, y, terms, solver, grid):
    """Return the test error at the C that does best on the validation rows, and what it cost."""
    parts = slice(N), slice(N, N + 1000), slice(N + 1000, None)
    best, clocks = None, []
    for C in grid:
        model = MKLRegressor(Products(degree=DEGREE, standardize=False), solver=solver, C=C, normalize="base")
        with Clock() as clock:
            model.fit(X[parts[0]], y[parts[0]])
        clocks.append((clock.wall, clock.cpu))
        valid, test = (float(np.mean((model.predict(X[p]) - y[p]) ** 2)) for p in parts[1:])
        if best is None or valid < best["validation_mse"]:
            members = model.combination_.members
            best = {"C": C, "validation_mse": valid, "mse": test}
            best |= {"members": len(members), "true_terms": len({z for z in terms if z} & set(members))}
    wall, cpu = np.mean(clocks, axis=0)
    return best | {"seconds": wall, "cpu": cpu}


def measured(version, r, seed, method, steps, draws, grid) -> list[dict]:
    """Return what a method reaches on one data set."""
    X, y, terms = synthetic(version, r, seed)
    about = {"version": version, "r": r, "seed": seed, "kernels": math.comb(r + DEGREE, DEGREE) - 1}
    warnings.simplefilter("ignore", ConvergenceWarning)
    return [about | {"method": method} | fit(X, y, terms, solver_of(method, steps, draws), grid)]


def hit_probabilities(version, r) -> dict:
    """Return the mean of the hit probability over five data sets."""
    shares = []
    for seed in range(5):
        X, y, terms = synthetic(version, r, seed)
        shares.append(hit_probability(X[:N], y[:N], terms))
    return {"version": version, "r": r, "probability": float(np.mean(shares))}


def methods_at(r, memory) -> list[str]:
    """Return the methods that can be run on so many columns."""
    listable = 8 * N * Products(degree=DEGREE).resolve(r).size() <= memory * 2**20
    return [m for m in COLORS if m != "LpNorm" or listable]


def solver_of(method, steps, draws):
    """Return a method's solver."""
    found = {
        "MirrorDescent": lambda: MirrorDescent(steps, draws=draws, tol=0, random_state=0),
        "Uniform": Uniform,
        "LpNorm": lambda: LpNorm(p=4 / 3),
        "Hierarchical": Hierarchical,
        "PolynomialMKL": lambda: PolynomialMKL(random_state=0),
    }
    return found[method]()


def compared(found) -> dict:
    """Return for every peer in how many cases sampling is better by 5 % or more, alike, or worse by as much."""
    errors = means(found, "mse")
    counts: dict[str, list[int]] = {}
    for (version, r, peer), other in errors.items():
        own = errors[version, r, "MirrorDescent"]
        if peer != "MirrorDescent":
            alike = max(own, other) < 1e-4 or 0.95 < own / other < 1.05
            counts.setdefault(peer, [0, 0, 0])[1 if alike else 2 * int(own > other)] += 1
    return counts


def means(found, field) -> dict:
    """Return means over seeds by version, columns and method."""
    groups: dict[tuple, list[float]] = {}
    for f in found:
        groups.setdefault((f["version"], f["r"], f["method"]), []).append(f[field])
    return {key: float(np.mean(values)) for key, values in groups.items()}


def rows(found, masses, steps, draws) -> list[dict]:
    """Compare with the papers, where sampling is best at every r and its time grows slowly."""
    seeds = {f["seed"] for f in found}
    lists = []
    for source, item, version in PLACES:
        mine = where(found, version=version)
        lists += rows_of(
            source, item, mine, where(masses, version=version), len(seeds), f"{steps} steps of {draws} draws"
        )
    return lists


def tables_of(source, item, version, found) -> list[dict]:
    """Return errors and times by columns and methods, for the page."""
    names = [m for m in COLORS if where(found, method=m)]
    columns = sorted({f["r"] for f in found})
    kept = {"source": source, "item": item, "head": ["columns", *names]}
    titles = {"mse": "Test error over the variance of the target", "cpu": "CPU seconds of a fit"}
    tables = []
    for field, title in titles.items():
        values = {key[1:]: v for key, v in means(found, field).items() if key[0] == version}
        lines = [
            [str(r), *(f"{values[r, m]:.2g}" if (r, m) in values else "–" for m in names)] for r in columns
        ]
        tables.append(
            {
                **kept,
                "title": f"{title}, means over {len({f['seed'] for f in found})} data sets",
                "lines": lines,
            }
        )
    return tables


def nonlinear_rows(place, version, columns, errors, curve, about) -> list[dict]:
    """Return the rows about the two methods that are made for products."""
    poly, hull = ([errors[version, r, m] for r in columns] for m in ("PolynomialMKL", "Hierarchical"))
    wide = [h < p for r, h, p in zip(columns, hull, poly) if r >= 20]
    return [
        row(
            *place,
            "NLMKL does well with few columns, and degrades as columns are added",
            verdict=grade(poly[-1] > 10 * poly[0]),
            paper="degrades, for its kernels are restricted (a plot)",
            ours=f"error / variance (columns): {curve('PolynomialMKL')}",
            **about,
        ),
        row(
            *place,
            "HMKL is better than NLMKL with many columns",
            verdict=grade(wide and all(wide), partly=any(wide)),
            paper="better for higher dimensions (a plot)",
            ours=f"lower in {sum(wide)} of {len(wide)} cases from 20 columns on: {curve('Hierarchical')}",
            **about,
        ),
    ]


def cause(version, columns, errors, curve) -> str:
    """Return what keeps sampling from the lowest error: its objective, where that was solved exactly."""
    listed = [r for r in columns if (version, r, "LpNorm") in errors and r >= 20]
    alike = [r for r in listed if errors[version, r, "LpNorm"] > 0.5 * errors[version, r, "MirrorDescent"]]
    if len(alike) < len(listed):
        return ""
    return f"its objective does no better where it was solved exactly: {curve('LpNorm')}"


def rows_of(source, item, mine, masses, seeds, how) -> list[dict]:
    """Return the rows about one version of the data."""
    (version,) = {f["version"] for f in mine}
    errors, seconds, peers = means(mine, "mse"), means(mine, "cpu"), compared(mine)
    columns = sorted({f["r"] for f in mine})
    low, top = columns[0], columns[-1]
    kernels = {f["r"]: f["kernels"] for f in mine}

    def curve(method, values=errors):
        at = [(r, values[version, r, method]) for r in columns if (version, r, method) in values]
        return f"{method} " + ", ".join(f"{v:.2g} ({r})" for r, v in at)

    worse = {p: c[2] for p, c in peers.items()}
    best = not any(worse.values())
    ahead = [f"{p}: better {c[0]}, alike {c[1]}, worse {c[2]}" for p, c in peers.items()]
    hit = next(m for m in masses if m["r"] == max(set(columns) & {m["r"] for m in masses}))
    growth = seconds[version, top, "MirrorDescent"] / seconds[version, low, "MirrorDescent"]
    settings = f"{how}; C from three values (papers: eleven); HMKL with at most 1,000 products"
    about = {"repetitions": seeds, "settings": settings}
    return [
        *nonlinear_rows((source, item), version, columns, errors, curve, about),
        row(
            source,
            item,
            "Sampling has the lowest error at every number of columns",
            verdict=grade(best, partly=sum(c[0] for c in peers.values()) > sum(worse.values())),
            paper="lowest of all (a plot)",
            ours="cases against "
            + "; ".join(ahead)
            + f"; a first draw hits a true product with probability {hit['probability']:.0e} at {hit['r']} columns",
            because="" if best else cause(version, columns, errors, curve),
            **about,
        ),
        row(
            source,
            item,
            "Its time grows slowly with the number of columns",
            verdict=grade(growth < 0.1 * kernels[top] / kernels[low]),
            paper="close to that of HMKL and NLMKL; p-norm MKL could not be run beyond 25 columns",
            ours=f"{growth:.0f} times from {low} to {top} columns, kernels {kernels[top] / kernels[low]:,.0f} times",
            **about,
        ),
    ]


def draw(plt, rows, masses):
    errors = means(rows, "mse")
    figure, axes = plt.subplots(1, 4, figsize=(15, 3.9), layout="constrained")
    for axis, (version, title) in zip(axes, VERSIONS.items()):
        for method, color in COLORS.items():
            mine = sorted((r, e) for (v, r, m), e in errors.items() if (v, m) == (version, method))
            axis.plot(*zip(*mine), "o-", ms=4, color=color, label=method)
        axis.axhline(1, color="black", lw=0.8, ls=":")
        axis.set(
            yscale="log", ylim=(1e-11, 20), xlabel="columns r", ylabel="test error / variance", title=title
        )
        axis.text(5, 1.8, "predicting the mean", fontsize=8)
    for method, color in COLORS.items():
        mine = where(rows, method=method)
        x = sorted({r["r"] for r in mine})
        y = [np.mean([r["cpu"] for r in mine if r["r"] == at]) for at in x]
        axes[2].plot(x, y, "o-", ms=4, color=color)
    axes[2].set(yscale="log", xlabel="columns r", ylabel="CPU seconds a fit", title="time, mean of both")
    for version, marker in zip(VERSIONS, ("o-", "s--")):
        mine = where(masses, version=version)
        x = [m["r"] for m in mine]
        y = [m["probability"] for m in mine]
        axes[3].plot(x, y, marker, ms=4, color="#2a6f97", label=f"by gradient, {version}")
    axes[3].plot(
        x, [TERMS / math.comb(r + DEGREE, DEGREE) for r in x], color="#9a9a9a", label="uniform draws"
    )
    axes[3].set(xscale="log", yscale="log", xlabel="columns r", ylabel="probability")
    axes[3].set_title("a first draw hits a true term")
    for axis in axes:
        axis.title.set_fontsize(10.5)
        tidy(axis)
    axes[0].legend(frameon=False, loc="lower right", fontsize=9)
    axes[3].legend(frameon=False, loc="lower left", fontsize=9)
    return figure


def main():
    p = parser(__doc__)
    p.add_argument("--columns", type=int, nargs="+", default=[5, 10, 20, 40, 70, 100])
    repeated(p, 10)
    p.add_argument("--steps", type=int, default=200)
    p.add_argument("--draws", type=int, default=32)
    p.add_argument("--memory", type=float, default=128, help="MiB that LpNorm's columns may take")
    p.add_argument("--grid", type=float, nargs="+", default=[0.03, 1.0, 1000.0], help="values of C")
    args = p.parse_args()
    journal = Journal(args.out, args.fresh)
    columns, steps, seeds, wide = (
        args.columns,
        args.steps,
        args.repetitions,
        [5, 10, 20, 50, 100, 200, 500, 1000],
    )
    if args.quick:
        columns, steps, seeds, wide = [5, 10], 30, 1, [5, 20, 100]
    tasks = [
        (version, r, seed, method, steps, args.draws, args.grid)
        for seed in range(seeds)
        for version in VERSIONS
        for r in columns
        for method in methods_at(r, args.memory)
    ]
    found = run_tasks(measured, tasks, args, journal)
    masses = [hit_probabilities(version, r) for version in VERSIONS for r in wide]
    record = {
        "benchmark": "mirror_descent_dimensions",
        "rows": rows(found, masses, steps, args.draws),
        "tables": [t for place in PLACES for t in tables_of(*place, found)],
        "results": found,
        "hit_probability": masses,
    }
    finish(record, args.out, figure=lambda plt: draw(plt, found, masses), journal=journal)


if __name__ == "__main__":
    main()
