"""Test error and time against the number of columns, ten monomials as truth.

Afkanpour et al. (2013), Fig. 2; Afkanpour (2013), Fig. 6.3.

Inputs are uniform on [-1, 1]^r, the target is the sum of ten monomials of degree at most 3, without noise,
drawn from all variables in the paper and from the first five in the thesis. 500 rows to train, 1,000 to
choose C, 1,000 to test; inputs and target brought to mean 0 and variance 1. MirrorDescent, Uniform (every
product alike, in closed form) and LpNorm over the list of all products, while their columns fit into --memory. `mse` is
relative to the target's variance.

Also measured, up to r = 1000: the probability that one draw of Algorithm 3 at the first step hits any of the
ten.

python benchmarks/mirror_descent_dimensions.py --out results/mirror_descent_dimensions.json
"""

from __future__ import annotations

import math
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from common import Clock, finish, judged, parser, standardised, tidy, where
from manykernels import MKLRegressor
from manykernels.families import Products
from manykernels.solvers import LpNorm, MirrorDescent, Uniform

DEGREE, TERMS, N = 3, 10, 500
VERSIONS = {
    "paper": "terms of all variables (paper)",
    "thesis": "terms of the first five variables (thesis)",
}
COLORS = {"MirrorDescent": "#2a6f97", "LpNorm": "#6a994e", "Uniform": "#c1121f"}


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
        model = MKLRegressor(Products(degree=DEGREE), solver=solver, C=C, normalize="base")
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


def solvers(r, steps, draws, memory):
    found = {"MirrorDescent": MirrorDescent(steps, draws=draws, tol=0, random_state=0), "Uniform": Uniform()}
    if 8 * N * Products(degree=DEGREE).resolve(r).size() <= memory * 2**20:
        found["LpNorm"] = LpNorm(p=4 / 3)
    return found


def verdict(rows, masses):
    """Compare with the papers, where sampling is best at every r and its time grows slowly."""
    errors = {(row["version"], row["r"], row["method"]): row["mse"] for row in rows}
    places = sorted({key[:2] for key in errors})

    def ahead(peer):
        """Count where sampling is better than a peer by 5 % or more, worse by as much, or neither."""
        counts = [0, 0, 0]  # better, worse, alike
        for place in places:
            own, other = errors[(*place, "MirrorDescent")], errors.get((*place, peer))
            if other is not None:
                alike = max(own, other) < 1e-4 or 0.95 < own / other < 1.05
                counts[2 if alike else int(own > other)] += 1
        return counts

    low, top = min(r for _, r in places), max(r for _, r in places)
    kernels = {row["r"]: row["kernels"] for row in rows}
    worst = ", ".join(f"{errors[v, top, 'MirrorDescent']:.2f} ({v})" for v in VERSIONS)
    last = max(m["r"] for m in masses)
    hits = ", ".join(f"{m['probability']:.1e} ({m['version']})" for m in where(masses, r=last))
    sampled = {(row["version"], row["r"]): row["cpu"] for row in rows if row["method"] == "MirrorDescent"}
    growth = np.mean([sampled[v, top] / sampled[v, low] for v in VERSIONS])
    faster = [row["cpu"] < sampled[row["version"], row["r"]] for row in rows if row["method"] == "LpNorm"]
    peers = {peer: ahead(peer) for peer in ("Uniform", "LpNorm")}
    better, worse = peers["Uniform"][:2]
    text = "{0} better, {2} alike, {1} worse"
    if better <= worse:
        word = "differs"
    else:
        word = "partly reproduced" if any(faster) or any(c[1] for c in peers.values()) else "reproduced"
    return (
        f"{word}. Error, in {len(places)} cases: sampling against Uniform {text.format(*peers['Uniform'])}; "
        f"against LpNorm, where it fits, {text.format(*peers['LpNorm'])}. Time: from r = {low} to {top} there are "
        f"{kernels[top] / kernels[low]:.0f} times as many kernels and a fit takes {growth:.0f} times as "
        f"long; LpNorm, on rank-one columns, is faster in {sum(faster)} of the {len(faster)} cases it was "
        f"run. At r = {top} the error of sampling is {worst} of the variance of a noise-free target. One "
        f"draw at the first step hits one of the ten true terms with probability {hits} at r = {last}."
    )


def draw(plt, rows, masses):
    figure, axes = plt.subplots(1, 4, figsize=(15, 3.9), layout="constrained")
    for axis, (version, title) in zip(axes, VERSIONS.items()):
        for method, color in COLORS.items():
            mine = where(rows, version=version, method=method)
            axis.plot([r["r"] for r in mine], [r["mse"] for r in mine], "o-", ms=4, color=color, label=method)
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
    p.add_argument("--steps", type=int, default=200)
    p.add_argument("--draws", type=int, default=32)
    p.add_argument("--memory", type=float, default=128, help="MiB that LpNorm's columns may take")
    p.add_argument("--grid", type=float, nargs="+", default=[0.03, 1.0, 1000.0], help="values of C")
    args = p.parse_args()
    columns, steps, wide = args.columns, args.steps, [5, 10, 20, 50, 100, 200, 500, 1000]
    if args.quick:
        columns, steps, wide = [5, 10], 30, [5, 20, 100]
    warnings.simplefilter("ignore", ConvergenceWarning)
    rows, masses = [], []
    for version in VERSIONS:
        for r in columns:
            X, y, terms = synthetic(version, r, 0)
            for method, solver in solvers(r, steps, args.draws, args.memory).items():
                found = fit(X, y, terms, solver, args.grid)
                kernels = math.comb(r + DEGREE, DEGREE) - 1
                rows.append({"version": version, "r": r, "kernels": kernels, "method": method} | found)
        for r in wide:
            shares = []
            for seed in range(5):
                X, y, terms = synthetic(version, r, seed)
                shares.append(hit_probability(X[:N], y[:N], terms))
            masses.append({"version": version, "r": r, "probability": float(np.mean(shares))})
    record = {
        "benchmark": "mirror_descent_dimensions",
        "reproduces": "Afkanpour et al. 2013, Fig. 2; Afkanpour 2013, Fig. 6.3",
        "verdict": judged(verdict(rows, masses), args.quick),
        "steps": steps,
        "draws": args.draws,
        "results": rows,
        "hit_probability": masses,
    }
    finish(record, args.out, figure=lambda plt: draw(plt, rows, masses))


if __name__ == "__main__":
    main()
