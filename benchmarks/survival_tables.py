"""The default of MKLSurvival beside scikit-survival's models, on the data sets that come with it.

Five folds, stratified by the event, the same for all; the score is Harrell's concordance. The peers, at their defaults
but for the ridge of 1 that keeps Cox regression finite, get columns that are imputed, one-hot and standardised; ours
gets the table as it is. It is worse where it is behind the best peer by more than one standard error of the difference
over the folds. Needs ``pip install .[peers]``.

python benchmarks/survival_tables.py --out results/survival_tables.json
"""

from __future__ import annotations

import numpy as np
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from common import Clock, finish, parser, reached, say
from manykernels import MKLSurvival
from manykernels.estimators.survival import concordance, survival_times


def tables(quick: bool) -> dict:
    """Return how to load each table: rows, and a structured array of events and times."""
    from sksurv import datasets

    few = {"veteran": datasets.load_veterans_lung_cancer, "whas500": datasets.load_whas500}
    more = {
        "gbsg2": datasets.load_gbsg2,
        "breast_cancer": datasets.load_breast_cancer,
        "aids": datasets.load_aids,
    }
    return few if quick else few | more


def peers() -> dict:
    """Return new models of scikit-survival."""
    from sksurv.ensemble import RandomSurvivalForest
    from sksurv.linear_model import CoxPHSurvivalAnalysis
    from sksurv.svm import FastKernelSurvivalSVM

    return {
        "Cox": CoxPHSurvivalAnalysis(alpha=1.0),
        "forest": RandomSurvivalForest(low_memory=True, random_state=0),
        "kernel SVM": FastKernelSurvivalSVM(kernel="rbf", random_state=0),
    }


def prepared():
    """Return what makes numbers of a table's columns."""
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    others = make_pipeline(
        SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    )
    return make_column_transformer(
        (numbers, make_column_selector(dtype_include="number")),
        (others, make_column_selector(dtype_exclude="number")),
    )


def scores(X, y, n_folds: int) -> tuple[dict, dict]:
    """Return the concordances and CPU seconds of all models, fold by fold."""
    event, time = survival_times(y)
    found: dict = {}
    cpu: dict = {}
    for train, test in StratifiedKFold(n_folds, shuffle=True, random_state=0).split(X, event):
        models = {"manykernels": MKLSurvival()}
        models |= {name: make_pipeline(prepared(), peer) for name, peer in peers().items()}
        for name, model in models.items():
            with Clock() as clock:
                risks = model.fit(X.iloc[train], y[train]).predict(X.iloc[test])
            value = concordance(event[test], time[test], risks, np.ones(len(test)))
            found.setdefault(name, []).append(value)
            cpu.setdefault(name, []).append(clock.cpu)
    return found, cpu


def main():
    p = parser(__doc__)
    p.add_argument("--only", nargs="*", help="some of the tables")
    args = p.parse_args()
    record: dict = {"tables": {}, "verdicts": []}
    try:
        loaders = tables(args.quick)
    except ImportError:
        finish({"scikit-survival": "not installed"}, args.out)
        return
    for name, load in loaders.items():
        if args.only and name not in args.only:
            continue
        X, y = load()
        X = X.astype({c: object for c in X.columns if str(X[c].dtype) == "category"})
        found, cpu = scores(X, y, 3 if args.quick else 5)
        means = {model: float(np.mean(values)) for model, values in found.items()}
        best = max((model for model in means if model != "manykernels"), key=means.__getitem__)
        behind = np.subtract(found[best], found["manykernels"])
        error = float(np.std(behind, ddof=1) / np.sqrt(len(behind)))
        record["tables"][name] = {"shape": X.shape, "concordance": means, "error": error}
        record["tables"][name]["cpu"] = {model: float(np.mean(values)) for model, values in cpu.items()}
        line = (
            f"{name}: {means['manykernels']:.3f} beside {means[best]:.3f} ({best}), give or take {error:.3f}"
        )
        record["verdicts"].append(reached(line, behind.mean() <= error))
        say(line, str(record["tables"][name]))
    finish(record, args.out)


if __name__ == "__main__":
    main()
