"""The Rätsch sets, ionosphere and sonar: SVMs and ridge regression on learned bandwidths.

Classification (Afkanpour 2013, Fig. 6.12 and Table 6.4, "other data"): hinge loss, test error; see ``mkl_methods.py``.
Regression on the ±1 labels (Fig. 6.5 and 6.14, Tables 6.3 and 6.5): squared loss, mean squared test error, with
SGD-1s = ``MirrorDescent`` over all bandwidths beside CKL, IKL, GCD-2s, and LPMKL and UNIFORM on the 50 bandwidths
10^-4 · 1.6^i. Sizes are those of Table 6.2; columns are standardised on the training rows, and for regression so are
the labels.

Departures: C is chosen on Table 6.2's validation rows in both parts (the thesis: 5 folds for regression), with a
bandwidth per column from fewer values; bounds are those of ``Gaussians("auto")``, not [10^-4, 10^4]; SGD-1s (1D) takes
50 steps, however little a step changes; finite methods of the first part, of whose bandwidths the thesis says nothing,
get 20 between the same bounds, evenly spaced in log σ. One-stage methods, which learn anew for every C (CKL, IKL,
SGD-1s, LPMKL), keep, on sets of more than 200 training rows, the C that they chose in the first repetition. Without
--data, only sets that ``common.py`` knows on OpenML are run.

python benchmarks/raetsch.py --data DIR --parts svm --out results/raetsch_svm.json
python benchmarks/raetsch.py --data DIR --parts ridge --out results/raetsch_ridge.json
"""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import euclidean_distances

from common import OPENML, Clock, Journal, chosen_C, finish, grade, load_two_classes, parser, say
from comparison import Comparison, c_grid, repeated
from manykernels import AlignedKernel, MKLRegressor
from manykernels.families import Gaussians
from manykernels.solvers import MirrorDescent
from mkl_methods import (
    Method,
    Split,
    continuous,
    finite,
    is_two_stage,
    names_of,
    settled,
    split_rows,
    svm_record,
)
from papers import THESIS, row

SIZES = {
    "banana": (500, 1000, 2000),
    "breast_cancer": (105, 27, 131),
    "diabetis": (307, 77, 384),
    "german": (350, 150, 500),
    "heart": (108, 27, 135),
    "image": (500, 500, 1000),
    "ionosphere": (140, 36, 175),
    "ringnorm": (500, 1000, 2000),
    "sonar": (83, 21, 104),
    "splice": (500, 1000, 1491),
    "thyroid": (86, 22, 107),
    "waveform": (500, 1000, 2000),
}
#: Columns of Table 6.2.
COLUMNS = {
    "banana": 2,
    "breast_cancer": 9,
    "diabetis": 8,
    "german": 20,
    "heart": 13,
    "image": 18,
    "ionosphere": 34,
    "ringnorm": 20,
    "sonar": 60,
    "splice": 60,
    "thyroid": 5,
    "waveform": 21,
}
SIGMAS = 1e-4 * 1.6 ** np.arange(50)
SHRINKAGE = tuple(10.0 ** np.arange(-5, 2))
STEPS = 50
#: Decades of C: with a search per column, and without one (for ridge regression the thesis's).
DECADES = {"svm": ((-1, 2), (-1, 2)), "ridge": ((0, 3), (-3, 4))}
RIDGE_GRID = "ridge, grid"
#: Training rows above which methods that learn anew for every C choose it in the first repetition only.
MANY_ROWS = 200
KEPT = "one-stage methods on more than 200 rows keep the C of the first repetition"
SETTINGS = (
    "bandwidths between bounds taken from the rows; at most 50 steps, or until one changes the objective by less than "
    "a thousandth"
)
SVM_RANKS = {
    "GCD-2s (1D)": 3,
    "GCD-2s (nD)": 2,
    "CKL (1D)": 3,
    "CKL (nD)": 5,
    "AMKL": 3,
    "LPMKL (p = 1)": 4,
    "LPMKL (p = 2)": 7,
    "UNIFORM": 7,
}
#: Table 6.3 without, Table 6.5 with GCD-2s.
TABLE_3 = {
    "SGD-1s (1D)": 3,
    "SGD-1s (nD)": 6,
    "CKL (1D)": 3,
    "CKL (nD)": 3.5,
    "IKL (1D)": 3.5,
    "IKL (nD)": 5,
    "LPMKL (p = 2)": 3,
    "UNIFORM": 6.5,
}
TABLE_5 = {
    "SGD-1s (1D)": 3,
    "CKL (1D)": 3,
    "GCD-2s (1D)": 1.5,
    "SGD-1s (nD)": 4.5,
    "CKL (nD)": 3.5,
    "GCD-2s (nD)": 4,
}


def left_out(compared: Comparison) -> str:
    """Return which sets of Table 6.2 were not run; the thesis has eleven of the twelve, and does not say which."""
    names = [n for n in SIZES if n not in compared.tasks]
    return (
        f"; without {', '.join(names)} (the thesis: eleven of the twelve, it does not say which)"
        if names
        else ""
    )


def keeps_C(s: Split, method: str) -> bool:
    """Return whether a method keeps the C of the first repetition."""
    return len(s.y) > MANY_ROWS and method.startswith(("CKL", "IKL", "SGD-1s", "LPMKL"))


def split_of(name, folder, seed) -> Split:
    """Return a split in the sizes of Table 6.2, standardised on its training rows."""
    X, y = load_two_classes(name, folder)
    s = split_rows(X, y, SIZES[name], np.random.default_rng([seed, len(y)]))
    keep = s.X.std(axis=0) > 0
    mean, scale = s.X[:, keep].mean(axis=0), s.X[:, keep].std(axis=0)
    parts = [(Z[:, keep] - mean) / scale for Z in (s.X, s.Xv, s.Xt)]
    return Split(parts[0], s.y, parts[1], s.yv, parts[2], s.yt)


# -- classification ------------------------------------------------------------------------------------------


def bounds_of(X):
    """Return the automatic bounds of the bandwidths."""
    return Gaussians().resolve(X.shape[1]).adapt(X, np.ones(len(X))).bounds


def svm_methods(X) -> list[Method]:
    """Return the methods of Table 6.4."""
    return [
        *continuous(ard=False, steps=STEPS, extras=False),
        *continuous(ard=True, steps=STEPS, shrinkage=SHRINKAGE, extras=False),
        *(m for m in finite(np.geomspace(*bounds_of(X), 20)) if m.name in SVM_RANKS),
    ]


def classify(name, seed, s: Split, method, grid) -> list[dict]:
    """Return the record of a method on one set and repetition."""
    about = {"part": "svm", "task": name, "seed": seed}
    return svm_record(about, svm_methods(s.X), method, s, grid)


def svm_rows(compared: Comparison) -> list[dict]:
    """Compare with Fig. 6.12 and Table 6.4."""
    ranks, listed = compared.ranks_beside(SVM_RANKS)
    best, among = min(ranks, key=ranks.get), sorted(ranks.values())
    lower, same, higher = compared.better("GCD-2s (nD)", "GCD-2s (1D)")
    last = min(ranks["UNIFORM"], ranks["LPMKL (p = 2)"]) >= among[-2]
    settings = f"C from 0.1, 1, 10, 100; {KEPT}; {SETTINGS}{left_out(compared)}"
    about = {"repetitions": compared.counts, "settings": settings}
    return [
        row(
            THESIS,
            "Table 6.4",
            "Other data: GCD-2s (nD) has the best median rank",
            verdict=grade(ranks["GCD-2s (nD)"] == among[0], partly=ranks["GCD-2s (nD)"] <= among[1]),
            paper="2; the next are GCD-2s (1D), CKL (1D) and AMKL with 3",
            ours=f"{best} is first; median ranks here (thesis): {listed}",
            **about,
        ),
        row(
            THESIS,
            "Table 6.4",
            "Other data: UNIFORM and LPMKL (p = 2) are last",
            verdict=grade(last, partly=max(ranks["UNIFORM"], ranks["LPMKL (p = 2)"]) == among[-1]),
            paper="both 7",
            ours=f"{ranks['UNIFORM']:g} and {ranks['LPMKL (p = 2)']:g}; the highest rank is {among[-1]:g}",
            **about,
        ),
        row(
            THESIS,
            "Fig. 6.12",
            "A bandwidth per column beats one on most sets",
            verdict=grade(lower > higher + same, partly=lower > higher),
            paper="GCD-2s (nD) before GCD-2s (1D) in the median rank, 2 against 3",
            ours=f"GCD-2s (nD) has the lower mean error on {lower} sets, the same on {same}, the higher on {higher}",
            **about,
        ),
    ]


# -- regression ----------------------------------------------------------------------------------------------


def ridge_methods() -> list[Method]:
    """Return the methods of Tables 6.3 and 6.5."""
    return [
        *(m for m in continuous(ard=False, steps=STEPS) if "," not in m.name),
        *continuous(ard=True, steps=STEPS),
        Method("SGD-1s (1D)", Gaussians(), MirrorDescent(STEPS)),
        Method("SGD-1s (nD)", Gaussians(ard=True), MirrorDescent(STEPS)),
        *(m for m in finite(SIGMAS) if m.name in TABLE_3),
    ]


def regress(name, seed, s: Split, method, grid) -> list[dict]:
    """Return the record of a method on one set and repetition."""
    mean, scale = s.y.mean(), s.y.std()
    s = Split(s.X, (s.y - mean) / scale, s.Xv, (s.yv - mean) / scale, s.Xt, (s.yt - mean) / scale)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        if method == RIDGE_GRID:
            found = ridge_grid(s, grid)
        else:
            found = ridge(next(m for m in ridge_methods() if m.name == method), s, grid)
    return [{"part": "ridge", "task": name, "seed": seed, "method": method, **found}]


def ridge(method: Method, s: Split, grid) -> dict:
    """Return the mean squared test error of one method, C chosen on the validation rows."""
    if is_two_stage(method):
        with Clock() as clock:
            learned = AlignedKernel(method.kernels, solver=method.solver, target="numbers", random_state=0)
            learned.fit(s.X, s.y)
        found = ridge_on(*(learned.transform(Z) for Z in (s.X, s.Xv, s.Xt)), s, grid)
        return {**found, "seconds": found["seconds"] + clock.cpu}

    def model(C):
        return MKLRegressor(method.kernels, solver=method.solver, C=C, random_state=0)

    def fit(C):
        return model(C).fit(s.X, s.y, on_iteration=settled(method))

    best = chosen_C(grid, fit, lambda model: np.mean((model.predict(s.Xv) - s.yv) ** 2))
    return {"error": float(np.mean((best.pop("model").predict(s.Xt) - s.yt) ** 2)), **best}


def ridge_on(K, Kv, Kt, s: Split, grid) -> dict:
    """Return what ridge regression with a penalised intercept reaches on a kernel."""

    def fit(C):
        return np.linalg.solve(K + 1.0 + np.eye(len(K)) / C, s.y)

    best = chosen_C(grid, fit, lambda A: np.mean(((Kv + 1.0) @ A - s.yv) ** 2))
    return {"error": float(np.mean(((Kt + 1.0) @ best.pop("model") - s.yt) ** 2)), **best}


def ridge_grid(s: Split, grid) -> dict:
    """Return what a user would reach: one of 13 bandwidths around the median distance, and C."""
    parts = [euclidean_distances(Z, s.X, squared=True) for Z in (s.X, s.Xv, s.Xt)]
    median = np.sqrt(np.median(parts[0][parts[0] > 0]))
    runs = [
        ridge_on(*(np.exp(-D / (median * f) ** 2) for D in parts), s, grid)
        for f in 2.0 ** np.arange(-3, 3.5, 0.5)
    ]
    return min(runs, key=lambda r: r["valid"])


def ridge_rows(compared: Comparison) -> list[dict]:
    """Compare with Fig. 6.5 and 6.14, Tables 6.3 and 6.5."""
    (three, in_three), (five, in_five) = map(compared.ranks_beside, (TABLE_3, TABLE_5))
    pairs = {m: compared.better(f"{m} (1D)", f"{m} (nD)") for m in ("SGD-1s", "CKL", "GCD-2s")}
    one = [m for m in pairs if five[f"{m} (1D)"] < five[f"{m} (nD)"]]
    par = three["SGD-1s (1D)"] <= min(three[m] for m in ("CKL (1D)", "IKL (1D)", "LPMKL (p = 2)"))
    others = max(v for m, v in three.items() if m not in ("UNIFORM", "SGD-1s (nD)"))
    last, next_to = three["UNIFORM"] == max(three.values()), three["SGD-1s (nD)"] >= others
    counted = "; ".join(
        f"{m}: lower with one on {a} sets, the same on {b}, higher on {c}" for m, (a, b, c) in pairs.items()
    )
    settings = (
        "C on the validation rows of Table 6.2, with a bandwidth per column from four decades only; "
        f"{KEPT}; {SETTINGS}{left_out(compared)}"
    )
    about = {"repetitions": compared.counts, "settings": settings}
    return [
        row(
            THESIS,
            "Table 6.3",
            "SGD-1s (1D) is no worse than CKL, IKL and LPMKL (p = 2)",
            verdict=grade(par),
            paper="3, as CKL (1D) and LPMKL (p = 2)",
            ours=f"median ranks here (thesis): {in_three}",
            **about,
        ),
        row(
            THESIS,
            "Table 6.3",
            "UNIFORM is last, SGD-1s (nD) next to it",
            verdict=grade(last and next_to, partly=last or next_to),
            paper="6.5 and 6",
            ours=f"{three['UNIFORM']:g} and {three['SGD-1s (nD)']:g}; last is {max(three, key=three.get)}",
            **about,
        ),
        row(
            THESIS,
            "Fig. 6.5",
            "On most sets one bandwidth is better than one per column",
            verdict=grade(
                all(a > c for a, _, c in pairs.values()), partly=any(a > c for a, _, c in pairs.values())
            ),
            paper="better except on image and thyroid",
            ours=counted,
            **about,
        ),
        row(
            THESIS,
            "Table 6.5",
            "GCD-2s (1D) has the best median rank",
            verdict=grade(five["GCD-2s (1D)"] == min(five.values())),
            paper="1.5; the next have 3",
            ours=f"median ranks here (thesis): {in_five}",
            **about,
        ),
        row(
            THESIS,
            "Fig. 6.14",
            "One bandwidth beats one per column by median rank, for all three methods",
            verdict=grade(len(one) == len(pairs), partly=one),
            paper="3 and 4.5 (SGD-1s), 3 and 3.5 (CKL), 1.5 and 4 (GCD-2s)",
            ours="; ".join(f"{m} {five[f'{m} (1D)']:g} and {five[f'{m} (nD)']:g}" for m in pairs),
            **about,
        ),
    ]


#: For each part: the work, its methods, the rows, the unit, the label, the title, what its errors belong to.
PARTS = {
    "svm": (classify, SVM_RANKS, svm_rows, 100.0, "test error, %", "SVM", "Fig. 6.12"),
    "ridge": (
        regress,
        TABLE_3 | TABLE_5,
        ridge_rows,
        1.0,
        "mean squared error",
        "ridge regression",
        "Fig. 6.5",
    ),
}


def main():
    p = parser(__doc__)
    repeated(p, 10)
    p.add_argument("--parts", nargs="+", default=list(PARTS), choices=list(PARTS))
    p.add_argument("--sets", nargs="+", default=list(SIZES), choices=list(SIZES), help="data sets")
    args = p.parse_args()
    journal = Journal(args.out, args.fresh)
    names = [n for n in args.sets if args.data is not None or n in OPENML]
    repetitions = args.repetitions
    if args.quick:
        names, repetitions = [n for n in names if n in ("ionosphere", "sonar", "thyroid")], 1
    record = {"benchmark": "raetsch", "rows": [], "tables": [], "results": {}}
    figures = {}
    for part in args.parts:
        work, published, judge, unit, label, title, item = PARTS[part]
        methods = (
            names_of(svm_methods(np.eye(9)))
            if part == "svm"
            else [*(m.name for m in ridge_methods()), RIDGE_GRID]
        )
        grid, wide = (c_grid(*decades)[: 2 if args.quick else None] for decades in DECADES[part])
        tasks = [
            (n, seed, s, method, grid if "nD" in method else wide)
            for seed in range(repetitions)
            for n in names
            for s in [split_of(n, args.data, seed)]
            for method in methods
        ]
        say(title)
        found = Comparison.run(work, tasks, args, journal, unit, keeps_C)
        record["rows"] += judge(found)
        about = (THESIS, item, f"{label[0].upper()}{label[1:]}, mean and standard error")
        record["tables"].append(found.error_table(about, list(published), unit, 1 if unit > 1 else 3))
        record["results"][part] = {"median_ranks": found.ranks(), "records": found.summary()}
        figures[f"_{part}"] = partial(found.strips, title=title, xlabel=label, unit=unit)
    finish(record, args.out, figures=figures, journal=journal)


if __name__ == "__main__":
    main()
