"""Products of columns on six data sets: degrees 2 and 3, a prior on the degree, and linear kernels.

Afkanpour (2013), Fig. 6.4. Ridge regression on the ±1 labels, brought to mean 0 and variance 1 as the columns are;
sizes of Table 6.2; mean squared test error, which is relative to the variance of the labels. Methods, by the thesis's
names:

| here | what it is |
|---|---|
| SGD-1s (D) | ``MirrorDescent`` on ``Products(D)`` |
| SGD-1s (3, prior) | the same with ρ² = 1 up to degree 2 and 4 at degree 3 (``degree_prior``) |
| HMKL (D) | ``Hierarchical`` on ``Products(D)`` |
| NLMKL (D) | ``PolynomialMKL(D)`` on one linear kernel per column, and a constant |
| LPMKL (p = 1), (p = 2) | ``SimpleMKL`` and ``LpNorm(p=4/3)``, one linear kernel per column |
| UNIFORM (D) | (1 + Σ_j κ_j)^D, κ_j linear in column j |

C is chosen on the validation rows: the thesis's 10^-4, ..., 10^3 for the ridge parameter, 1/C here. UNIFORM and NLMKL,
whose kernels are of the size of r^D, have smaller values of C to choose from, too, and HMKL none above 10. SGD-1s, HMKL
and NLMKL keep, on sets of more than 200 training rows, the C that they chose in the first repetition. The offset is the
intercept.

python benchmarks/products_tables.py --data DIR --out results/products_tables.json
"""

from __future__ import annotations

import math
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from common import OPENML, Clock, Journal, finish, grade, parser
from comparison import Comparison, options
from manykernels import MKLRegressor
from manykernels.families import Products
from manykernels.solvers import Hierarchical, LpNorm, MirrorDescent, PolynomialMKL, SimpleMKL, Uniform
from mkl_methods import Split
from papers import THESIS, row
from raetsch import MANY_ROWS, split_of

SETS = ("german", "ringnorm", "waveform", "ionosphere", "sonar", "splice")
STEPS, DRAWS = 100, 16
GRID = tuple(10.0 ** np.arange(-3, 5))
#: For HMKL, whose hulls grow to their limit at larger ones.
LOW = GRID[:5]
#: For kernels as large as r^D.
WIDE = tuple(10.0 ** np.arange(-8, -3)) + GRID
PRIOR = (1.0, 1.0, 2.0)


def methods(steps) -> dict:
    """Return the family, the solver and the values of C of every method."""

    def sampled():
        return MirrorDescent(steps, draws=DRAWS, tol=0, random_state=0)

    def products(D, **options):
        return Products(D, standardize=False, **options)

    def power(D):
        """Return the products whose plain sum is (1 + Σκ_j)^D."""
        return products(D, count="ordered", degree_prior=[math.comb(D, d) ** -0.5 for d in range(1, D + 1)])

    found = {f"SGD-1s ({D})": (products(D), sampled(), GRID) for D in (2, 3)}
    found["SGD-1s (3, prior)"] = (products(3, degree_prior=PRIOR), sampled(), GRID)
    found |= {f"HMKL ({D})": (products(D), Hierarchical(), LOW) for D in (2, 3)}
    found |= {f"NLMKL ({D})": (products(D), PolynomialMKL(random_state=0), WIDE) for D in (2, 3)}
    found["LPMKL (p = 1)"] = (products(1), SimpleMKL(), GRID)
    found["LPMKL (p = 2)"] = (products(1), LpNorm(p=4 / 3), GRID)
    return found | {f"UNIFORM ({D})": (power(D), Uniform(), WIDE) for D in (1, 2, 3)}


def keeps_C(s: Split, method: str) -> bool:
    """Return whether a method keeps the C of the first repetition."""
    return len(s.y) > MANY_ROWS and method.startswith(("SGD-1s", "HMKL", "NLMKL"))


def work(name, seed, s: Split, method, grid, steps) -> list[dict]:
    """Return the record of a method on one set and repetition."""
    family, solver, _ = methods(steps)[method]
    mean, scale = s.y.mean(), s.y.std()
    best: dict = {}
    warnings.simplefilter("ignore", ConvergenceWarning)
    for C in grid:
        model = MKLRegressor(family, solver=solver, C=C, normalize="base")
        with Clock() as clock:
            model.fit(s.X, (s.y - mean) / scale)
        valid, test, train = (
            float(np.mean((model.predict(Z) - (y - mean) / scale) ** 2))
            for Z, y in ((s.Xv, s.yv), (s.Xt, s.yt), (s.X, s.y))
        )
        if not best or valid < best["valid"]:
            best = {"C": C, "valid": valid, "error": test, "train": train, "seconds": clock.cpu}
    return [{"task": name, "seed": seed, "method": method, **best}]


def mean_of(compared: Comparison, method: str, task: str) -> float:
    """Return a mean error."""
    return float(compared.errors[method][task].mean())


def pairs(compared: Comparison, a: str, b: str) -> str:
    """Return on how many sets the first method is better, and by how much on each."""
    lower = compared.better(a, b)[0]
    figures = ", ".join(
        f"{t} {mean_of(compared, a, t):.2f} / {mean_of(compared, b, t):.2f}" for t in compared.tasks
    )
    return f"{a} is lower than {b} on {lower} of {len(compared.tasks)} sets ({figures})"


def nonlinear_rows(compared: Comparison, about) -> list[dict]:
    """Return the rows about HMKL and NLMKL."""
    n = len(compared.tasks)
    behind = [
        min(compared.better(f"{m} ({D})", f"NLMKL ({D})")[0] for m in ("SGD-1s", "HMKL")) for D in (2, 3)
    ]
    apart = {D: compared.better(f"SGD-1s ({D})", f"HMKL ({D})") for D in (2, 3)}
    ranks = compared.ranks()
    close = [abs(ranks[f"SGD-1s ({D})"] - ranks[f"HMKL ({D})"]) <= 1.5 for D in (2, 3)]
    return [
        row(
            THESIS,
            "Fig. 6.4",
            "Of the methods with products NLMKL is the worst",
            verdict=grade(min(behind) > n / 2, partly=max(behind) > n / 2),
            paper="worse than SGD-1s and HMKL (a plot)",
            ours="; ".join(
                pairs(compared, f"{m} ({D})", f"NLMKL ({D})") for D in (2, 3) for m in ("SGD-1s", "HMKL")
            ),
            **about,
        ),
        row(
            THESIS,
            "Fig. 6.4",
            "SGD-1s and HMKL are alike overall",
            verdict=grade(all(close), partly=any(close)),
            paper="similar (a plot)",
            ours="; ".join(
                f"degree {D}: SGD-1s lower on {a} sets, HMKL on {c}; median ranks {ranks[f'SGD-1s ({D})']:g} and "
                f"{ranks[f'HMKL ({D})']:g}"
                for D, (a, _, c) in apart.items()
            ),
            **about,
        ),
    ]


def left_out(compared: Comparison) -> str:
    """Return which sets were not run to the end."""
    names = [n for n in SETS if n not in compared.tasks]
    return f"; without {', '.join(names)}" if names else ""


def rows(compared: Comparison) -> list[dict]:
    """Compare with the text around Fig. 6.4."""
    n = len(compared.tasks)
    settings = (
        f"SGD-1s: {STEPS} steps of {DRAWS} draws (thesis: not said); HMKL: C up to {LOW[-1]:g}; SGD-1s, HMKL and NLMKL "
        f"on more than {MANY_ROWS} rows keep the C of the first repetition{left_out(compared)}"
    )
    about = {"repetitions": compared.counts, "settings": settings}

    def lower(a, b):
        return compared.better(a, b)[0]

    over, cured = lower("SGD-1s (2)", "SGD-1s (3)"), lower("SGD-1s (3, prior)", "SGD-1s (3)")
    linear = min(("LPMKL (p = 1)", "LPMKL (p = 2)"), key=compared.ranks().get)
    beat = lower("SGD-1s (2)", linear)
    ranks = ", ".join(f"{m} {v:g}" for m, v in sorted(compared.ranks().items(), key=lambda x: x[1]))
    return [
        *nonlinear_rows(compared, about),
        row(
            THESIS,
            "Fig. 6.4",
            "SGD-1s overfits at degree 3",
            verdict=grade(over > n / 2, partly=over),
            paper="the error is above that at degree 2 (a plot)",
            ours=pairs(compared, "SGD-1s (2)", "SGD-1s (3)"),
            **about,
        ),
        row(
            THESIS,
            "Fig. 6.4",
            "A prior of ρ² = 4 on degree 3 reduces the overfitting",
            verdict=grade(cured > n / 2, partly=cured),
            paper="the error falls (a plot)",
            ours=pairs(compared, "SGD-1s (3, prior)", "SGD-1s (3)"),
            **about,
        ),
        row(
            THESIS,
            "Fig. 6.4",
            "Methods with products beat linear ones",
            verdict=grade(beat > n / 2, partly=beat),
            paper="on most sets (a plot)",
            ours=f"{pairs(compared, 'SGD-1s (2)', linear)}; median ranks: {ranks}",
            **about,
        ),
    ]


def main():
    p = parser(__doc__)
    options(p, 10)
    args = p.parse_args()
    journal = Journal(args.out, args.fresh)
    names, repetitions, steps = [n for n in SETS if args.data or n in OPENML], args.repetitions, STEPS
    if args.quick:
        names, repetitions, steps = ["ionosphere", "sonar"], 1, 20
    tasks = [
        (n, seed, s, method, grid, steps)
        for seed in range(repetitions)
        for n in names
        for s in [split_of(n, args.data, seed)]
        for method, (_, _, grid) in methods(steps).items()
    ]
    found = Comparison.run(work, tasks, args, journal, 1.0, keeps_C)
    record = found.record("products_tables", rows(found))
    about = (THESIS, "Fig. 6.4", "Mean squared error, mean and standard error")
    record["tables"] = [found.error_table(about, found.methods, 1.0, 3)]
    figures = {"": lambda plt: found.strips(plt, "Products of columns", "mean squared error", 1.0, 3)}
    finish(record, args.out, figures=figures, journal=journal)


if __name__ == "__main__":
    main()
