"""Which pairs of columns interact? Greedy and half samples against what else there is.

Synthetic: r columns, uniform on (-1, 1) with correlation 0.5 in neighbours (an autoregressive copula), 500 rows, 2,000
for testing; five main effects and five products of two columns, noise of a third of the signal's variance. "Heredity":
the products are of columns with main effects, as hierarchical methods presume. "Anywhere": of columns anywhere, with or
without main effects. The sizes, few interactions among columns up to r = 500, are those of the kernel interaction
sampler with feature allocation (SKIM-FA, Agrawal and Broderick 2023), whose time is linear in r; no maintained package
has it, so only its setting is here, with our time per column.

Real tables: their columns, standardised and clipped at three deviations, with a planted target of the same kind.

Methods, each with settings that favour it:

- ``greedy``: Greedy on the products of at most two columns, C = 10, kernels by its criterion;
- ``halves``: those products that findings.stability selects with 20 pairs at a bound of 1;
- ``hierarchical``: two steps of LassoCV by the rule of one standard error, on columns, then on the chosen columns and
  the products among them (strong heredity by design);
- ``lasso``, ``lasso 1se``: LassoCV on all enumerated products, at the least error, and by that rule;
- ``boosting``: an explainable boosting machine that is told how many interactions there are (interpret, defaults
  otherwise, one job).

A pair is found if a product of these two different columns is selected. python -m pip install interpret-core

python benchmarks/interaction_discovery.py --data DIR --out results/interaction_discovery.json
"""

from __future__ import annotations

import itertools
import warnings

import numpy as np
from scipy.special import ndtr
from sklearn.linear_model import LassoCV
from sklearn.metrics import r2_score
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from common import Clock, Journal, finish, judged, load, parser, reached, standardised
from manykernels import MKLRegressor
from manykernels.families import Products
from manykernels.findings import stability
from manykernels.solvers import Greedy

MAINS = PAIRS = 5
TRAIN, TEST = 500, 2000
#: More enumerated products than this are not listed.
MOST_LISTED = 20_000
#: Columns up to which boosting is run: it compares all pairs, on every bag.
MOST_BOOSTED = 100


# -- tables --------------------------------------------------------------------------------------------------


def columns(r: int, n: int, rng) -> np.ndarray:
    """Return uniform columns, of which neighbours correlate by about 0.5."""
    Z = rng.standard_normal((n, r))
    for j in range(1, r):
        Z[:, j] = 0.5 * Z[:, j - 1] + np.sqrt(0.75) * Z[:, j]
    return 2 * ndtr(Z) - 1


def planted(X: np.ndarray, structure: str, rng):
    """Return targets without noise, and the pairs that interact; every term has variance 1."""
    r = X.shape[1]
    mains = rng.choice(r, MAINS, replace=False)
    pool = mains if structure == "heredity" else np.arange(r)
    listed = list(itertools.combinations(sorted(pool.tolist()), 2)) if len(pool) < 50 else None
    pairs: set[tuple[int, int]] = set()
    while len(pairs) < PAIRS:
        z = listed[rng.integers(len(listed))] if listed else rng.choice(r, 2, replace=False)
        pairs.add(tuple(sorted(map(int, z))))
    terms = [X[:, j] for j in mains] + [X[:, i] * X[:, j] for i, j in sorted(pairs)]
    return sum(t / t.std() for t in terms), pairs


def real_columns(name: str, folder) -> np.ndarray:
    """Return a table's columns that vary, standardised and clipped."""
    if name == "breast cancer":
        from sklearn.datasets import load_breast_cancer

        X = load_breast_cancer().data
    else:
        X = np.asarray(load(name, folder)["X"], dtype=float)
    X = X[:, X.std(axis=0) > 0]
    return standardised(np.clip(standardised(X), -3, 3))


def task(kind: str, size, structure: str, seed: int, folder=None):
    """Return training rows and targets, test rows and noiseless targets, and the pairs."""
    rng = np.random.default_rng([seed, 17])
    X = columns(size, TRAIN + TEST, rng) if kind == "synthetic" else real_columns(size, folder)
    X = X[rng.permutation(len(X))[: TRAIN + TEST]]
    f, pairs = planted(X, structure, rng)
    n = min(TRAIN, int(0.7 * len(X)))
    y = f[:n] + rng.normal(0, np.sqrt(f[:n].var() / 3), n)
    return X[:n], y, X[n:], f[n:], pairs


# -- methods: each returns pairs, and predictions for test rows ------------------------------------------------


def pairs_of(members) -> set:
    return {tuple(z) for z in members if len(set(z)) == 2}


def model() -> MKLRegressor:
    return MKLRegressor(Products(2, standardize=False), solver=Greedy(random_state=0), C=10.0)


def greedy(X, y, Xt, seed):
    fit = model().fit(X, y)
    used = [z for z, w in zip(fit.combination_.members, fit.weights_, strict=True) if w]
    return pairs_of(used), fit.predict(Xt)


def halves(X, y, Xt, seed):
    found = stability(model(), X, y, n_pairs=20, bound=1.0, random_state=seed)
    return pairs_of(found.selected), found.model.predict(Xt)


def lasso_fit(Phi, y, one_se: bool):
    """Return LassoCV, at the least error or the largest penalty within a standard error of it."""
    fit = LassoCV(cv=5, max_iter=5000, n_jobs=1, random_state=0).fit(Phi, y)
    if one_se:
        error = fit.mse_path_.mean(axis=1)
        best = int(error.argmin())
        most = error[best] + fit.mse_path_[best].std(ddof=1) / np.sqrt(fit.mse_path_.shape[1])
        fit = LassoCV(alphas=[float(fit.alphas_[error <= most].max())], cv=2, max_iter=5000).fit(Phi, y)
    return fit


def listed_lasso(X, y, Xt, chosen, one_se: bool):
    """Lasso on some columns and all products of two of them."""
    expand = PolynomialFeatures(2, interaction_only=True, include_bias=False).fit(X[:, chosen])
    scale = StandardScaler().fit(expand.transform(X[:, chosen]))
    fit = lasso_fit(scale.transform(expand.transform(X[:, chosen])), y, one_se)
    used = [tuple(chosen[np.flatnonzero(p)].tolist()) for p in expand.powers_[fit.coef_ != 0]]
    return pairs_of(used), fit.predict(scale.transform(expand.transform(Xt[:, chosen])))


def lasso(X, y, Xt, seed):
    return listed_lasso(X, y, Xt, np.arange(X.shape[1]), one_se=False)


def lasso_1se(X, y, Xt, seed):
    return listed_lasso(X, y, Xt, np.arange(X.shape[1]), one_se=True)


def hierarchical(X, y, Xt, seed):
    first = np.flatnonzero(lasso_fit(StandardScaler().fit_transform(X), y, one_se=True).coef_)
    return listed_lasso(X, y, Xt, first, one_se=True) if len(first) else (set(), np.full(len(Xt), y.mean()))


def boosting(X, y, Xt, seed):
    from interpret.glassbox import ExplainableBoostingRegressor

    fit = ExplainableBoostingRegressor(interactions=PAIRS, n_jobs=1, random_state=seed).fit(X, y)
    return pairs_of(fit.term_features_), fit.predict(Xt)


METHODS = {
    "greedy": greedy,
    "halves": halves,
    "hierarchical": hierarchical,
    "lasso": lasso,
    "lasso 1se": lasso_1se,
    "boosting": boosting,
}


def suits(name: str, r: int) -> bool:
    """Whether a method is run on so many columns."""
    listed = r * (r + 1) // 2 <= MOST_LISTED or not name.startswith("lasso")
    return listed and (r <= MOST_BOOSTED or name != "boosting")


def measure(name: str, *where) -> dict:
    """Run a method on a task."""
    X, y, Xt, ft, pairs = task(*where)
    with warnings.catch_warnings(), Clock() as clock:
        warnings.simplefilter("ignore")
        found, predicted = METHODS[name](X, y, Xt, where[3])
    return {
        "true": len(found & pairs),
        "false": len(found - pairs),
        "r2": float(r2_score(ft, predicted)),
        "cpu_s": clock.cpu,
    }


def summary(parts: list[dict]) -> dict:
    """Return precision and recall over all tables, the median R2 and CPU seconds."""
    true, false = (sum(part[k] for part in parts) for k in ("true", "false"))
    return {
        "precision": true / (true + false) if true + false else 1.0,
        "recall": true / (PAIRS * len(parts)),
        "false per table": false / len(parts),
        "r2": float(np.median([part["r2"] for part in parts])),
        "cpu_s": float(np.median([part["cpu_s"] for part in parts])),
        "tables": len(parts),
    }


def tasks(args):
    """Yield kind, size or name, and structure."""
    for r in (20,) if args.quick else (20, 100, 500):
        for structure in ("heredity", "anywhere"):
            yield "synthetic", r, structure
    real = ["breast cancer"] + (["california_housing", "concrete"] if args.data else [])
    for name in real:
        yield "real", name, "anywhere"


def main():
    p = parser(__doc__)
    p.add_argument("--seeds", type=int, default=10)
    args = p.parse_args()
    journal = Journal(args.out, args.fresh)
    record: dict = {"settings": {"rows": TRAIN, "pairs": PAIRS}, "found": {}}
    for kind, size, structure in tasks(args):
        where = f"r = {size}" if kind == "synthetic" else size
        r = size if kind == "synthetic" else real_columns(size, args.data).shape[1]
        for name in METHODS:
            if not suits(name, r):
                continue
            parts = [
                journal.of(
                    (name, kind, size, structure, seed),
                    lambda a=(name, kind, size, structure, seed): measure(*a, args.data),
                )
                for seed in range(2 if args.quick else args.seeds)
            ]
            record["found"].setdefault(f"{where}, {structure}", {})[name] = summary(parts)
    record["verdicts"] = judged(_verdicts(record["found"]), args.quick)
    finish(record, args.out, journal=journal)


def _verdicts(found: dict) -> dict[str, str]:
    """Return per task whether Greedy has the best F1 of all methods."""

    def f1(s):
        return 2 * s["precision"] * s["recall"] / max(s["precision"] + s["recall"], 1e-12)

    return {
        f"{where}: Greedy has the best F1": reached(
            ", ".join(f"{k} {s['precision']:.2f}/{s['recall']:.2f}" for k, s in by.items()),
            f1(by["greedy"]) >= max(f1(s) for s in by.values()) - 1e-9,
        )
        for where, by in found.items()
    }


if __name__ == "__main__":
    main()
