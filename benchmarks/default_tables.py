"""The default against what one would otherwise type, on raw tables: scores, ranks and CPU seconds in one run.

Every method gets the columns as they are. SVC and SVR stand behind a StandardScaler and a grid over C and gamma, up to
3,000 rows; forests and boosting are at their defaults, and LightGBM once more as a careful user sets it: 255 leaves,
l2 = 1, a minimum hessian of 1, and 100 to 800 rounds, chosen on a fifth of the training rows. 70 % of the rows train,
in several splits; R² or accuracy on the rest. One thread each.

python benchmarks/default_tables.py --data DIR --out results/default_tables.json [--tables sonar,wine] [--splits 3]
"""

# ruff: noqa: E402  the number of threads is read when libraries are loaded
from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
import warnings

import numpy as np
from sklearn import datasets, ensemble
from sklearn.compose import TransformedTargetRegressor
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from common import finish, legend_below, load, parser, reached, say, tidy
from manykernels import MKLClassifier, MKLRegressor
from manykernels.displays import look

OURS = "manykernels"
BUNDLED = {
    "wine": datasets.load_wine,
    "cancer": datasets.load_breast_cancer,
    "digits": datasets.load_digits,
    "diabetes": datasets.load_diabetes,
}
#: Tables of ``--data``, and the most rows that are taken of each.
FILES = {
    "sonar": None,
    "ionosphere": None,
    "heart": None,
    "german": None,
    "image": None,
    "spam": None,
    "satellite": None,
    "letter": 6_000,
    "covtype": 30_000,
    "concrete": None,
    "abalone": None,
    "kin8nm": None,
    "california_housing": None,
    "protein": 30_000,
}
REGRESSION = {"concrete", "abalone", "kin8nm", "california_housing", "protein", "diabetes"}
#: Rows up to which a grid of SVMs is tried, and beyond which one split is enough.
GRID_ROWS, ONE_SPLIT_ROWS = 3_000, 10_000
ROUNDS = (100, 200, 400, 800)


def table(name, folder):
    """Return rows and targets."""
    if name in BUNDLED:
        return BUNDLED[name](return_X_y=True)
    d = load(name, folder)
    X, y = np.asarray(d["X"], dtype=float), d["y"]
    most = FILES[name]
    keep = np.arange(len(X)) if most is None else np.random.default_rng(0).permutation(len(X))[:most]
    return X[keep], y[keep]


# -- methods -------------------------------------------------------------------------------------------------


class TunedLightGBM:
    """LightGBM with 255 leaves, and the rounds that are best on a fifth of the training rows."""

    def __init__(self, kind):
        import lightgbm

        self.regression = kind == "Regressor"
        self.kind = getattr(lightgbm, f"LGBM{kind}")

    def _model(self, rounds):
        return self.kind(
            n_estimators=rounds,
            num_leaves=255,
            reg_lambda=1.0,
            min_child_weight=1.0,
            n_jobs=1,
            verbose=-1,
            random_state=0,
        )

    def fit(self, X, y):
        A, B, a, b = train_test_split(
            X, y, test_size=0.2, random_state=0, stratify=None if self.regression else y
        )
        tried = self._model(ROUNDS[-1]).fit(A, a)
        right = [score(tried.predict(B, num_iteration=k), b, self.regression) for k in ROUNDS]
        self.model = self._model(ROUNDS[int(np.argmax(right))]).fit(X, y)
        return self

    def predict(self, X):
        return self.model.predict(X)


def svm_grid(regression, n_columns):
    """Return an SVM behind a scaler, over a grid of C and gamma."""
    grid = {"C": [1, 10, 100], "gamma": [f / n_columns for f in (0.1, 0.3, 1, 3)]}
    if not regression:
        pipe = make_pipeline(StandardScaler(), SVC())
        return GridSearchCV(pipe, {f"svc__{k}": v for k, v in grid.items()}, cv=3)
    pipe = TransformedTargetRegressor(make_pipeline(StandardScaler(), SVR()), transformer=StandardScaler())
    return GridSearchCV(pipe, {f"regressor__svr__{k}": v for k, v in grid.items()}, cv=3)


def methods(regression, X):
    """Return ours and the peers that are installed, by name."""
    kind = "Regressor" if regression else "Classifier"
    out = {OURS: (MKLRegressor if regression else MKLClassifier)(random_state=0)}
    if len(X) <= GRID_ROWS:
        out["SVM grid"] = svm_grid(regression, X.shape[1])
    out["HistGradientBoosting"] = getattr(ensemble, f"HistGradientBoosting{kind}")(random_state=0)
    out["RandomForest"] = getattr(ensemble, f"RandomForest{kind}")(random_state=0)
    out["ExtraTrees"] = getattr(ensemble, f"ExtraTrees{kind}")(random_state=0)
    try:
        import lightgbm

        out["LightGBM"] = getattr(lightgbm, f"LGBM{kind}")(n_jobs=1, verbose=-1, random_state=0)
        out["LightGBM, tuned"] = TunedLightGBM(kind)
    except ImportError:
        say("LightGBM is not installed, and left out.")
    try:
        import catboost

        options = {"verbose": 0, "random_seed": 0, "thread_count": 1, "allow_writing_files": False}
        out["CatBoost"] = getattr(catboost, f"CatBoost{kind}")(**options)
    except ImportError:
        say("CatBoost is not installed, and left out.")
    return out


# -- the run -------------------------------------------------------------------------------------------------


def score(predicted, y, regression) -> float:
    """Return R² or accuracy."""
    predicted = np.asarray(predicted).ravel()
    if not regression:
        return float(np.mean(predicted == y))
    return float(1 - np.square(predicted - y).sum() / np.square(y - y.mean()).sum())


def cpu_seconds() -> float:
    """Return CPU seconds so far, those of children included."""
    return sum(os.times()[:4])


def on_table(name, folder, splits) -> dict:
    """Return mean score and CPU seconds of every method on a table."""
    X, y = table(name, folder)
    regression = name in REGRESSION
    found: dict[str, list] = {}
    for seed in range(1 if len(X) >= ONE_SPLIT_ROWS else splits):
        A, B, a, b = train_test_split(
            X, y, test_size=0.3, random_state=seed, stratify=None if regression else y
        )
        for method, model in methods(regression, A).items():
            before = cpu_seconds()
            reached_ = score(model.fit(A, a).predict(B), b, regression)
            found.setdefault(method, []).append((reached_, cpu_seconds() - before))
    means = {method: np.mean(v, axis=0).tolist() for method, v in found.items()}
    say(f"{name:18s}" + "".join(f"  {k} {v[0]:.4f} ({v[1]:.1f} s)" for k, v in means.items()))
    return {method: {"score": v[0], "cpu_s": v[1]} for method, v in means.items()}


def ranks_of(scores: dict) -> dict:
    """Return the rank of every method on a table, ties shared."""
    values = {k: v["score"] for k, v in scores.items()}
    return {
        k: (1 + sum(w > v for w in values.values()) + sum(w >= v for w in values.values())) / 2
        for k, v in values.items()
    }


def summary(results: dict) -> dict:
    """Return, for every peer, how far ours is ahead in mean rank where both ran, and CPU against RandomForest."""
    ranks = {name: ranks_of(scores) for name, scores in results.items()}
    names = list(dict.fromkeys(k for scores in results.values() for k in scores))
    out = {}
    for k in names:
        ran = [t for t in results if k in results[t]]
        out[k] = {
            "mean_rank": float(np.mean([ranks[t][k] for t in ran])),
            "ours_ahead_by": float(np.mean([ranks[t][k] - ranks[t][OURS] for t in ran])),
            "tables": len(ran),
            "cpu_of_forest": float(
                np.exp(
                    np.mean(
                        [np.log(results[t][k]["cpu_s"] / results[t]["RandomForest"]["cpu_s"]) for t in ran]
                    )
                )
            ),
        }
    return out


def verdicts(results, means) -> dict:
    """Return what was aimed at, and what became of it."""
    peers = {k: v["ours_ahead_by"] for k, v in means.items() if k != OURS}
    near = min(peers, key=peers.get)
    behind = {
        t: max(v["score"] for k, v in r.items() if k != OURS) - r[OURS]["score"] for t, r in results.items()
    }
    worst = max(behind, key=behind.get)
    cost = means[OURS]["cpu_of_forest"]
    return {
        "half a rank ahead of every peer": reached(f"{peers[near]:.2f} before {near}", peers[near] >= 0.5),
        "never more than .03 behind the best": reached(
            f"{behind[worst]:.3f} on {worst}", behind[worst] <= 0.03
        ),
        "at most 5 x RandomForest's CPU": reached(f"{cost:.1f} x, geometric mean", cost <= 5),
    }


def draw(plt, results, means):
    """Return a figure: scores less ours, table by table, and mean ranks."""
    names = sorted(means, key=lambda k: means[k]["mean_rank"])
    figure, (left, right) = plt.subplots(
        1,
        2,
        figsize=(11, 0.34 * len(results) + 2.2),
        layout="constrained",
        width_ratios=(1.6, 1),
        squeeze=True,
    )
    colours = {OURS: look.ink()} | dict(zip((k for k in names if k != OURS), look.COLOURS, strict=False))
    handles: dict = {}
    rows = sorted(
        results, key=lambda t: max(v["score"] - results[t][OURS]["score"] for v in results[t].values())
    )
    for i, t in enumerate(rows):
        for k, v in results[t].items():
            if k != OURS:
                gap = max(v["score"] - results[t][OURS]["score"], -0.15)
                handles[k] = left.scatter(gap, i, s=30, color=colours[k], alpha=0.85, linewidths=0)
    left.axvline(0, color=look.ink(), linewidth=1)
    left.set_yticks(range(len(rows)), [t.replace("_", " ") for t in rows])
    left.set_xlabel("score of a peer less ours (R² or accuracy; -0.15 or worse at the edge)")
    right.barh(
        range(len(names)),
        [means[k]["mean_rank"] for k in names],
        color=[colours[k] for k in names],
    )
    right.set_yticks(range(len(names)), names)
    right.invert_yaxis()
    right.set_xlabel("mean rank (CPU, RandomForest = 1)")
    for i, k in enumerate(names):
        right.text(
            means[k]["mean_rank"] + 0.05, i, f"{means[k]['cpu_of_forest']:.1f}×", va="center", fontsize=8
        )
    tidy(left)
    look.tidy(right, grid="x")
    right.margins(x=0.12)  # room for the figures beside the bars
    for axis in (left, right):
        axis.tick_params(axis="y", length=0)
    legend_below(figure, {k: handles[k] for k in names if k in handles}, ncols=4, fontsize=8)
    return figure


def main():
    options = parser(__doc__)
    options.add_argument("--tables", help="names, with commas between them; all by default")
    options.add_argument("--splits", type=int, default=3)
    args = options.parse_args()
    warnings.simplefilter("ignore")
    small = ["wine", "cancer", "diabetes"]
    every = [*BUNDLED, *(FILES if args.data is not None else [])]
    names = args.tables.split(",") if args.tables else small if args.quick else every
    warm = np.random.default_rng(0).standard_normal((400, 4))
    MKLRegressor(random_state=0).fit(warm, warm[:, 0]).predict(warm)  # compiles
    results = {name: on_table(name, args.data, 1 if args.quick else args.splits) for name in names}
    means = summary(results)
    record = {"tables": results, "methods": means, "verdicts": verdicts(results, means)}
    finish(record, args.out, figure=lambda plt: draw(plt, results, means))


if __name__ == "__main__":
    main()
