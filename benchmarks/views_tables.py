"""The default on several views against what one would otherwise type: five folds of four tables of views.

proteinfold (12 views, 27 classes), mfeat with twelve views of noise beside its six, webkb (anchors and content of
pages, sparse), leaves100 (3 views, 100 classes). Beside ``MKLClassifier()`` on the dict of views:

- Uniform: thirteen Gaussian bandwidths per view with equal weights, C by cross-validation;
- SVC on each view alone, and on all columns side by side, with a grid over C and gamma; columns are standardised, text
  stays as it is;
- RandomForestClassifier of 500 trees on all columns side by side.

A method is worse if its mean accuracy is lower by more than the standard error of the mean difference over the folds.
Of the single views the one with the best mean accuracy on the test rows counts, which flatters it. One thread each.

python benchmarks/views_tables.py --data DIR --out results/views_tables.json [--tables webkb,leaves100]
"""

# ruff: noqa: E402  the number of threads is read when libraries are loaded
from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
import warnings

import numpy as np
import scipy.sparse as sp
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC

from common import VIEWS, Clock, Journal, finish, load, parser, reached, say
from manykernels import MKLClassifier

OURS, UNIFORM, ALL, FOREST = "manykernels", "uniform", "SVC on all", "forest on all"
TABLES = ("proteinfold", "webkb", "leaves100", "mfeat")
TEXT, NOISY = ("webkb",), {"mfeat": 12}
FOLDS, GRID = 5, {"svc__C": [1, 10, 100], "svc__gamma": [0.3, 1.0, 3.0]}


def views_of(name: str, folder) -> tuple[dict, np.ndarray]:
    """Return the views of a table, with views of noise where they belong to it, and the classes."""
    d, rng = load(name, folder), np.random.default_rng(0)
    views = {view: np.asarray(d[f"X_{view}"], dtype=float) for view in VIEWS[name]}
    if name in TEXT:
        views = {view: sp.csr_matrix(V) for view, V in views.items()}
    for k in range(NOISY.get(name, 0)):
        views[f"noise{k}"] = rng.standard_normal((len(d["y"]), 20))
    return views, d["y"]


def side_by_side(views: dict):
    """Return all columns as one matrix."""
    parts = list(views.values())
    return sp.hstack(parts, format="csr") if sp.issparse(parts[0]) else np.hstack(parts)


def machine(X) -> GridSearchCV:
    """Return a support vector machine with a grid; gamma is in units of one over the mean squared norm."""
    text = sp.issparse(X)
    size = X.multiply(X).sum() / X.shape[0] if text else X.shape[1]  # standardised columns have squares of 1
    grid = GRID | {"svc__gamma": [g / size for g in GRID["svc__gamma"]]}
    first = FunctionTransformer(accept_sparse=True) if text else StandardScaler()
    steps = make_pipeline(first, SVC())
    steps.steps[-1] = ("svc", steps.steps[-1][1])
    return GridSearchCV(steps, grid, cv=StratifiedKFold(3, shuffle=True, random_state=0))


def accuracy(method: str, known: dict, y, new: dict, z) -> dict:
    """Return the accuracy of a method, and its CPU seconds."""
    if method in (OURS, UNIFORM):
        kernels = "auto" if method == OURS else dict.fromkeys(known, "gaussian")
        model, X, Z = MKLClassifier(kernels, random_state=0), known, new
        if method == UNIFORM:
            model.set_params(solver="uniform")
    else:
        own = [method] if method in known else list(known)
        X, Z = side_by_side({v: known[v] for v in own}), side_by_side({v: new[v] for v in own})
        forest = RandomForestClassifier(500, random_state=0)
        model = forest if method == FOREST else machine(X)
    with Clock() as clock:
        right = float(np.mean(model.fit(X, y).predict(Z) == z))
    return {"accuracy": right, "cpu": clock.cpu}


def measure(name: str, folder, journal: Journal) -> dict:
    """Return the accuracies of all methods on the folds of a table."""
    views, y = views_of(name, folder)
    folds = list(StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(np.zeros(len(y)), y))
    found = {}
    singles = [view for view in views if not view.startswith("noise")]
    for method in (OURS, UNIFORM, ALL, FOREST, *singles):

        def on_fold(k, method=method):
            a, b = folds[k]
            known, new = ({v: V[rows] for v, V in views.items()} for rows in (a, b))
            return accuracy(method, known, y[a], new, y[b])

        runs = [journal.of((name, method, k), lambda k=k: on_fold(k)) for k in range(FOLDS)]
        found[method] = {
            "accuracy": [r["accuracy"] for r in runs],
            "cpu": float(np.mean([r["cpu"] for r in runs])),
        }
        say(f"{name:12s} {method:14s} {np.mean(found[method]['accuracy']):.4f} {found[method]['cpu']:.1f} s")
    return found


def verdicts(name: str, found: dict) -> list[str]:
    """Return whether the default keeps up with the best, and with views of noise is better than Uniform."""
    mean = {method: float(np.mean(own["accuracy"])) for method, own in found.items()}
    best = max((m for m in mean if m != OURS), key=lambda m: mean[m])
    lead = np.subtract(found[OURS]["accuracy"], found[best]["accuracy"])
    error = float(np.std(lead, ddof=1) / np.sqrt(len(lead)))
    text = f"{name}: {mean[OURS]:.4f} against {mean[best]:.4f} ({best}), standard error {error:.4f}"
    out = [reached(text, lead.mean() >= -error)]
    if name in NOISY:
        text = f"{name}: {mean[OURS]:.4f} against Uniform's {mean[UNIFORM]:.4f}"
        out.append(reached(text, mean[OURS] > mean[UNIFORM]))
    return out


def main() -> None:
    p = parser(__doc__)
    p.add_argument("--tables", default=",".join(TABLES))
    args = p.parse_args()
    warnings.simplefilter("ignore")
    journal, record = Journal(args.out, args.fresh), {"folds": FOLDS, "tables": {}, "verdicts": []}
    for name in args.tables.split(",")[: 1 if args.quick else None]:
        record["tables"][name] = measure(name, args.data, journal)
        record["verdicts"] += verdicts(name, record["tables"][name])
    finish(record, args.out)


if __name__ == "__main__":
    main()
