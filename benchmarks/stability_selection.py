"""False and true products among those selected by half samples, at a wanted bound of 1.

Fifty tables of 500 rows, ten true products of distinct columns anywhere in the table, noise of a third of the signal's
variance; columns uniform on (-1, 1), independent or, by a Gaussian copula, with correlation 0.5. Two families: the
23,425 products of up to three of 50 columns, and the 230 of up to two of 20 columns, where the bound is tight. For each
table: the products selected at the threshold that keeps Shah and Samworth's bound within 1 (unimodal), those of
frequency 0.6 and more, and those of one fit on all rows. A product is false if it is none of the ten, near-duplicates
included.

python benchmarks/stability_selection.py --out results/stability_selection.json
"""

from __future__ import annotations

import warnings

import numpy as np
from scipy.special import ndtr

from common import Journal, finish, judged, parser, reached
from manykernels import MKLRegressor
from manykernels.families import Products
from manykernels.findings import stability
from manykernels.solvers import Greedy

TERMS, ROWS, PAIRS, WANTED = 10, 500, 20, 1.0
#: Columns and degree of the two families.
FAMILIES = {"23,425 products": (50, 3), "230 products": (20, 2)}
CORRELATIONS = (0.0, 0.5)


def table(r: int, degree: int, rho: float, seed: int, n: int = ROWS):
    """Return rows, noisy targets and the true products."""
    rng = np.random.default_rng([seed, r])
    common, own = rng.standard_normal((n, 1)), rng.standard_normal((n, r))
    X = 2 * ndtr(np.sqrt(rho) * common + np.sqrt(1 - rho) * own) - 1
    terms: set[tuple[int, ...]] = set()
    while len(terms) < TERMS:
        terms.add(tuple(sorted(rng.choice(r, rng.integers(1, degree + 1), replace=False).tolist())))
    f = sum(np.prod(X[:, list(z)], axis=1) * 3 ** (len(z) / 2) for z in sorted(terms))
    return X, f + rng.normal(0, np.sqrt(f.var() / 3), n), terms


def measure(r: int, degree: int, rho: float, seed: int) -> dict:
    """Select on one table; count what is true and false."""
    X, y, terms = table(r, degree, rho, seed)
    model = MKLRegressor(Products(degree, standardize=False), solver=Greedy(random_state=0), C=10.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = stability(model, X, y, n_pairs=PAIRS, bound=WANTED, random_state=seed)
    rows = {
        "bound": set(found.selected),
        "0.6": {z["member"] for z in found.records if z["frequency"] >= 0.6},
        "all rows": {z["member"] for z in found.records if z["all_rows"]},
    }
    counts = {name: {"true": len(z & terms), "false": len(z - terms)} for name, z in rows.items()}
    return {**counts, "threshold": found.threshold, "expected": found.bound, "q": found.n_selected}


def summary(parts: list[dict]) -> dict:
    """Return means over tables, with standard errors."""
    out: dict = {"tables": len(parts)}
    for name in ("bound", "0.6", "all rows"):
        for kind in ("true", "false"):
            counts = np.array([part[name][kind] for part in parts], dtype=float)
            out[f"{kind}, {name}"] = float(counts.mean())
            out[f"{kind}, {name}, standard error"] = float(counts.std(ddof=1) / np.sqrt(len(counts)))
    for name in ("threshold", "expected", "q"):
        out[name] = float(np.mean([part[name] for part in parts]))
    return out


def main():
    args = parser(__doc__).parse_args()
    journal = Journal(args.out, args.fresh)
    record: dict = {"settings": {"rows": ROWS, "terms": TERMS, "pairs": PAIRS, "wanted": WANTED}, "found": {}}
    for name, (r, degree) in FAMILIES.items():
        for rho in CORRELATIONS:
            parts = [
                journal.of((r, degree, rho, seed), lambda r=r, d=degree, c=rho, s=seed: measure(r, d, c, s))
                for seed in range(3 if args.quick else 50)
            ]
            record["found"][f"{name}, correlation {rho:g}"] = summary(parts)
    record["verdicts"] = judged(
        {
            f"{name}: at most {WANTED:g} false product": reached(
                f"{found['false, bound']:.2f} false and {found['true, bound']:.1f} of {TERMS} true "
                f"(all rows: {found['false, all rows']:.2f}, {found['true, all rows']:.1f})",
                found["false, bound"] <= WANTED,
            )
            for name, found in record["found"].items()
        },
        args.quick,
    )
    finish(record, args.out, journal=journal)


if __name__ == "__main__":
    main()
