"""Rows that lack views: what is left of a row, where sources tell the same and where their effects add up.

Three views of 600 training rows, in three draws: of "copies" each tells two numbers, with noise of its own, and the
target is a function of these; of "summands" each has an effect of its own, and the target is their sum.

- Everywhere: 40 % of the views are lacking, at training and at prediction. One Gaussian kernel per view:
  ``Uniform``, which lets rows left out decide whether the kernel is balanced, and ``Blockwise``, which never does.
- To come: training rows have all views, and 60 % of the new ones lack the first. R² of these: the default, the
  default fitted on the other views alone, and a forest of 300 trees with means in place of what is lacking.

python benchmarks/views_lacking.py --out results/views_lacking.json
"""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.ensemble import RandomForestRegressor

from common import finish, parser, reached, say
from manykernels import MKLRegressor
from manykernels.kernels import RBF
from manykernels.solvers import Blockwise, Uniform

NEW, SEEDS, NAMES = 1_500, 3, ("p", "q", "r")


def table(kind: str, n: int, rng) -> tuple[dict, np.ndarray]:
    """Return three views, and the target."""
    if kind == "copies":
        told = rng.standard_normal((n, 2))
        views = {name: told + 0.5 * rng.standard_normal((n, 2)) for name in NAMES}
        return views, told.sum(axis=1) + np.sin(2 * told[:, 0])
    views = {name: rng.standard_normal((n, 2)) for name in NAMES}
    return views, sum(np.sin(1.5 * X[:, 0]) for X in views.values())


def taken(views: dict, rows) -> dict:
    """Return some rows of all views."""
    return {name: X[rows] for name, X in views.items()}


def everywhere(views: dict, y: np.ndarray, n: int, rng) -> dict[str, float]:
    """Return the R² of both solvers on rows that lack views, as the training rows do."""
    gone = rng.random((len(y), 3)) < 0.4
    gone[np.arange(len(y)), rng.integers(3, size=len(y))] = False  # every row has a view
    holes = {name: np.where(gone[:, [k]], np.nan, views[name]) for k, name in enumerate(NAMES)}
    kernels = dict.fromkeys(NAMES, RBF(2.0))
    solvers = {"Uniform": Uniform(), "Blockwise": Blockwise(n_features=1536, random_state=0)}
    return {
        name: MKLRegressor(kernels, solver=solver)
        .fit(taken(holes, slice(n)), y[:n])
        .score(taken(holes, slice(n, None)), y[n:])
        for name, solver in solvers.items()
    }


def to_come(views: dict, y: np.ndarray, n: int, rng) -> dict[str, float]:
    """Return R² on new rows that lack the first view, which all training rows have."""
    lack = n + np.flatnonzero(rng.random(len(y) - n) < 0.6)
    rest = {name: views[name] for name in NAMES[1:]}
    known, fewer = taken(views, slice(n)), taken(rest, slice(n))
    forest = RandomForestRegressor(300, random_state=0).fit(np.hstack(list(known.values())), y[:n])
    means = np.repeat(known["p"].mean(axis=0)[None], len(lack), axis=0)
    filled = np.hstack([means, *taken(rest, lack).values()])
    return {
        "default": MKLRegressor().fit(known, y[:n]).score(taken(rest, lack), y[lack]),
        "of the others": MKLRegressor().fit(fewer, y[:n]).score(taken(rest, lack), y[lack]),
        "forest": forest.score(filled, y[lack]),
    }


def main() -> None:
    args = parser(__doc__).parse_args()
    warnings.simplefilter("ignore")
    n, seeds = (150, 1) if args.quick else (600, SEEDS)
    record: dict = {"n_rows": n, "seeds": seeds, "R2": {}, "verdicts": []}
    for kind in ("copies", "summands"):
        runs: dict[str, list[float]] = {}
        for seed in range(seeds):
            rng = np.random.default_rng(seed)
            views, y = table(kind, n + NEW, rng)
            for where, part in (("everywhere", everywhere), ("to come", to_come)):
                for method, score in part(views, y, n, rng).items():
                    runs.setdefault(f"{where}: {method}", []).append(score)
        record["R2"][kind] = runs
        for name, scores in runs.items():
            say(f"{kind:9s} {name:24s} {np.mean(scores):.3f}  ({', '.join(f'{s:.3f}' for s in scores)})")
        mine, forest = (np.mean(runs[f"to come: {name}"]) for name in ("default", "forest"))
        text = f"{kind}, views that rows to come lack: {mine:.3f} against the forest's {forest:.3f}"
        record["verdicts"].append(reached(text, mine > forest))
    finish(record, args.out)


if __name__ == "__main__":
    main()
