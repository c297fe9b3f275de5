"""False discoveries and power of knockoffs: columns, and the heuristic for products.

Tables of 500 rows and 40 columns: eight main effects, four products of two columns (one of columns with main effects),
noise of a third of the signal's variance, so that 14 columns and 12 products are true. Columns are normal with
correlation 0 or 0.5; or uniform with correlation 0.5 (a Gaussian copula), where the model of the imitations is wrong;
or independent, with permutations for imitations. Covariances are estimated. Statistics come from one fit of Greedy on
the products of up to two columns, with as many products as its criterion supports, and with 60 of them.

python benchmarks/knockoff_columns.py --out results/knockoff_columns.json
"""

from __future__ import annotations

import warnings

import numpy as np
from scipy.special import ndtr

from common import Journal, finish, judged, parser, reached
from manykernels import MKLRegressor
from manykernels.families import Products
from manykernels.findings import knockoffs
from manykernels.solvers import Greedy

ROWS, COLUMNS, FDR = 500, 40, 0.2
TRUE = {*((j,) for j in range(8)), (0, 1), (8, 9), (10, 11), (12, 13)}
ACTIVE = {j for z in TRUE for j in z}
#: Correlation, whether columns are uniform, and how imitations are made.
SETTINGS = {
    "normal, correlation 0": (0.0, False, "gaussian"),
    "normal, correlation 0.5": (0.5, False, "gaussian"),
    "uniform, correlation 0.5": (0.5, True, "gaussian"),
    "independent, permuted": (0.0, False, "permutation"),
}
SOLVERS = {"auto": "auto", "60 kernels": 60}


def table(rho: float, uniform: bool, seed: int):
    """Return rows and targets; columns have variance 1."""
    rng = np.random.default_rng(seed)
    common, own = rng.standard_normal((ROWS, 1)), rng.standard_normal((ROWS, COLUMNS))
    X = np.sqrt(rho) * common + np.sqrt(1 - rho) * own
    X = np.sqrt(12) * (ndtr(X) - 0.5) if uniform else X
    f = sum(np.prod(X[:, list(z)], axis=1) for z in sorted(TRUE))
    return X, f + rng.normal(0, np.sqrt(f.var() / 3), ROWS)


def rates(found: set, true: set) -> dict:
    """Return the false discovery proportion and the power."""
    return {"false": len(found - true) / max(len(found), 1), "power": len(found & true) / len(true)}


def measure(rho, uniform, construction, kernels, seed) -> dict:
    """Select columns and products of one table."""
    X, y = table(rho, uniform, seed)
    model = MKLRegressor(
        Products(2, standardize=False), solver=Greedy(max_kernels=kernels, random_state=0), C=10.0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = knockoffs(model, X, y, FDR, construction=construction, random_state=seed)
    return {
        "columns": rates({int(name[1:]) for name in found.selected}, ACTIVE),
        "products": rates({p["columns"] for p in found.products if p["selected"]}, TRUE),
    }


def summary(parts: list[dict]) -> dict:
    """Return mean rates, with the standard error of the false discovery rate."""
    out: dict = {"tables": len(parts)}
    for kind in ("columns", "products"):
        false = np.array([part[kind]["false"] for part in parts])
        out[f"{kind}: FDR"] = float(false.mean())
        out[f"{kind}: FDR, standard error"] = float(false.std(ddof=1) / np.sqrt(len(false)))
        out[f"{kind}: power"] = float(np.mean([part[kind]["power"] for part in parts]))
    return out


def main():
    args = parser(__doc__).parse_args()
    journal = Journal(args.out, args.fresh)
    record: dict = {"settings": {"rows": ROWS, "columns": COLUMNS, "fdr": FDR}, "found": {}}
    for name, setting in SETTINGS.items():
        for solver, kernels in SOLVERS.items():
            parts = [
                journal.of((*setting, kernels, seed), lambda a=setting, k=kernels, s=seed: measure(*a, k, s))
                for seed in range(5 if args.quick else 100)
            ]
            record["found"][f"{name}, {solver}"] = summary(parts)
    record["verdicts"] = judged(
        {
            f"{name}: false discoveries among columns within {FDR:g}": reached(
                f"FDR {f['columns: FDR']:.3f} ± {f['columns: FDR, standard error']:.3f}, power "
                f"{f['columns: power']:.2f}; products FDR {f['products: FDR']:.3f}, power {f['products: power']:.2f}",
                f["columns: FDR"] <= FDR + 2 * f["columns: FDR, standard error"],
            )
            for name, f in record["found"].items()
        },
        args.quick,
    )
    finish(record, args.out, journal=journal)


if __name__ == "__main__":
    main()
