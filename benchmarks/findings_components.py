"""What components of a fit cost beside the fit, in CPU time and memory.

- Greedy on products of 30 columns, a million rows: the table of components, and the values of all of them at all rows,
  against the fit; memory above that of the fit, in columns of the table.
- The sum of all products of at most three kernels on 25 columns, kept as one kernel: 2,625 components.
- The default on 12 columns: all components up to order three, the rest, and Shapley values.

Errors are those of adding up to the prediction, relative to its deviation.

python benchmarks/findings_components.py --out results/findings_components.json
"""

from __future__ import annotations

import numpy as np

from common import Clock, finish, parser, peak_mib, verdict
from manykernels import MKLRegressor
from manykernels.families import Products
from manykernels.findings import components, shapley
from manykernels.kernels import RBF
from manykernels.solvers import Greedy, Uniform


def normal_rows(n, d, seed=0):
    """Return rows, and a target of a pair, a triple, a line and a square, with noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    y = X[:, 0] * X[:, 1] + X[:, 2] * X[:, 3] * X[:, 4] + X[:, 5] + 0.5 * X[:, 6] ** 2
    return X, y + 0.5 * rng.standard_normal(n)


def measured(name, model, X, y) -> dict:
    """Fit, split, and return what each took."""
    with Clock() as fit:
        model.fit(X, y)
    before = peak_mib()
    with Clock() as split:
        found = components(model, X)
        table = found.table()
    with Clock() as valued:
        values = found.values
    after, column = peak_mib(), 8 * len(X) / 2**20
    some = slice(0, 1000)
    predicted = model.predict(X[some])
    error = np.abs(values[some].sum(axis=1) + found.constant - predicted).max() / predicted.std()
    with Clock() as shared:
        shapley(model, X[:100], X)
    return {
        "model": name,
        "rows": len(X),
        "columns": X.shape[1],
        "components": len(found.components),
        "exact": float(found.exact.mean()),
        "fit_seconds": fit.cpu,
        "table_seconds": split.cpu,
        "values_seconds": valued.cpu,
        "shapley_seconds_of_100_rows": shared.cpu,
        "error": float(error),
        "peak_mib_of_fit": before,
        "more_columns_of_memory": (after - before) / column,
        "largest": table.head(6)[["name", "share", "standard_error"]].to_dict("records"),
    }


def cases(quick: bool):
    """Yield the models and their rows."""
    yield (
        "Greedy on products of columns",
        MKLRegressor(Products(degree=3), solver=Greedy(), C=10.0),
        *normal_rows(50_000 if quick else 1_000_000, 30),
    )
    base = [RBF(2.0, columns=[j]) for j in range(25)]
    yield (
        "Uniform on products of kernels",
        MKLRegressor(Products(degree=3, base=base), solver=Uniform(), C=10.0),
        *normal_rows(300, 25),
    )
    yield "the default", MKLRegressor(), *normal_rows(300 if quick else 800, 12)


def main():
    args = parser(__doc__).parse_args()
    small = normal_rows(200, 8)
    components(MKLRegressor(Products(degree=2), solver=Greedy(), C=10.0).fit(*small), small[0])  # compiles
    components(MKLRegressor().fit(*small), small[0])
    records = [measured(*case) for case in cases(args.quick)]
    first = records[0]
    spent = first["table_seconds"] + first["values_seconds"]
    record = {
        "benchmark": "findings_components",
        "verdicts": [
            verdict(
                f"Components of a greedy fit of {first['rows']:,} rows take no longer than the fit",
                spent <= first["fit_seconds"],
                f"{spent:.2f} s, the fit {first['fit_seconds']:.1f} s",
            ),
            verdict(
                "They add up to the prediction",
                max(r["error"] for r in records) <= 1e-8,
                f"to {max(r['error'] for r in records):.0e}",
            ),
        ],
        "records": records,
    }
    finish(record, args.out)


if __name__ == "__main__":
    main()
