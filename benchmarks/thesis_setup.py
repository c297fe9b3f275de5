"""The methods and data sets of the thesis (Afkanpour 2013, Tables 6.1 and 6.2), beside those that are here.

Nothing is fitted: Table 6.1 is compared with the solvers of the package, Table 6.2 with the sets in ``--data DIR``, or
those that OpenML has.

python benchmarks/thesis_setup.py --data DIR --out results/thesis_setup.json
"""

from __future__ import annotations

import numpy as np

from common import OPENML, finish, grade, load_two_classes, parser
from manykernels import solvers
from papers import THESIS, row
from raetsch import COLUMNS, SIZES

#: Table 6.1; GCD-1s is CKL.
TABLE_1 = {
    "SGD-1s": "MirrorDescent",
    "GCD-1s": "Greedy",
    "GCD-2s": "GreedyAlignment",
    "LPMKL": "LpNorm",
    "HMKL": "Hierarchical",
    "NLMKL": "PolynomialMKL",
    "CKL": "Greedy",
    "IKL": "Greedy",
    "AMKL": "Alignment",
    "UNIFORM": "Uniform",
}


def method_row() -> dict:
    """Compare the methods with Table 6.1."""
    there = {name: solver for name, solver in TABLE_1.items() if hasattr(solvers, solver)}
    return row(
        THESIS,
        "Table 6.1",
        "Ten methods are compared",
        verdict=grade(len(there) == len(TABLE_1), partly=there),
        paper="10",
        ours=f"{len(there)} of them are here: " + ", ".join(f"{name} is {there[name]}" for name in there),
        repetitions="–",
    )


def described(name: str, folder) -> dict:
    """Return the shape of a set, and what of it can vary: constant columns, and rows that occur twice."""
    X, y = load_two_classes(name, folder)
    return {
        "rows": len(y),
        "columns": X.shape[1],
        "varying": int(np.count_nonzero(X.std(axis=0) > 0)),
        "distinct": len(np.unique(np.column_stack([X, y]), axis=0)),
        "positive": float(np.mean(y > 0)),
    }


def fits(name: str, found: dict) -> bool:
    """Return whether a set has the thesis's columns, and rows for its three parts."""
    return found["columns"] == COLUMNS[name] and found["rows"] >= sum(SIZES[name])


def data_row(found: dict[str, dict]) -> dict:
    """Compare the data sets with Table 6.2."""
    alike = [n for n in found if fits(n, found[n])]
    other = [
        f"{n} has {found[n]['columns']} columns and {found[n]['rows']:,} rows for {COLUMNS[n]} and {sum(SIZES[n]):,}"
        if n in found
        else f"{n} is missing"
        for n in SIZES
        if n not in alike
    ]
    twice = [n for n, d in found.items() if d["distinct"] == sum(SIZES[n]) < d["rows"]]
    copies = (
        f"; {' and '.join(twice)} have rows twice, where the thesis has as many as are distinct"
        if twice
        else ""
    )
    return row(
        THESIS,
        "Table 6.2",
        "Twelve data sets, with so many columns and rows to train, validate and test",
        verdict=grade(len(alike) == len(SIZES), partly=alike),
        paper="2 to 60 columns, 83 to 500 training rows",
        ours=f"{len(alike)} of {len(SIZES)} have these columns and enough rows"
        + "".join(f"; {t}" for t in other),
        repetitions="–",
        settings=f"random splits of ours, as the thesis's are not known; columns that do not vary are left out{copies}",
    )


def table_of(found: dict[str, dict]) -> dict:
    """Return the sets, the thesis's figures beside ours."""
    lines = [
        [
            name,
            str(COLUMNS[name]),
            " + ".join(map(str, SIZES[name])),
            str(d["columns"]),
            str(d["varying"]),
            f"{d['rows']:,}",
            f"{d['distinct']:,}",
            f"{d['positive']:.0%}",
        ]
        for name, d in found.items()
    ]
    head = [
        "",
        "columns, thesis",
        "rows, thesis",
        "columns",
        "that vary",
        "rows",
        "distinct",
        "in the larger label",
    ]
    title = "Columns and rows of the thesis (training + validation + test), and of the sets here"
    return {"source": THESIS, "item": "Table 6.2", "title": title, "head": head, "lines": lines}


def main():
    args = parser(__doc__).parse_args()
    found = {n: described(n, args.data) for n in SIZES if args.data is not None or n in OPENML}
    record = {
        "benchmark": "thesis_setup",
        "rows": [method_row(), data_row(found)],
        "tables": [table_of(found)],
        "sets": found,
    }
    finish(record, args.out)


if __name__ == "__main__":
    main()
