"""Three classes, four kernels: one-vs-rest picks kernels per class, one multiclass problem need not.

Orabona et al. (2012), Fig. 1. 300 rows, 100 per class. Kernels 1 to 3 are RBF kernels on features that set one class
apart (the third, the first, the second), kernel 4 is on a feature that separates all. SILP with the hinge, one-vs-rest,
as in the paper; Obscure at p = 1.0001 on the max-hinge, as in the paper; and beside them the exact optimum of the
multiclass problem at p = 1, SILP with the max-hinge. The paper gives no formula for the data, so that spreads had to be
found: of ten pairs tried on one data set at C = 1, four, all with a tight fourth feature, gave the paper's picture, two
kernels for every binary problem and one for Obscure; with wider ones both pick more. ``--sets`` data sets; the figure
shows the first.

python benchmarks/obscure_toy.py --out results/obscure_toy.json
"""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.multiclass import OneVsRestClassifier

from common import Journal, finish, grade, parser
from manykernels import MKLClassifier
from manykernels.solvers import SILP, Obscure
from papers import ORABONA, row

#: The class that kernels 1 to 3 set apart (section 5.2), and the spreads of their features and of the fourth's.
APART = (2, 0, 1)
SPREAD, SPREAD_ALL = 0.2, 0.1
RADIUS = 0.8
Y = np.repeat([0, 1, 2], 100)
#: A kernel counts as picked from this share of the weights on.
PICKED = 0.01


def kernels(seed):
    """Return the four kernel matrices, each exp(-d²/mean d²)."""
    rng = np.random.default_rng(seed)
    features = []
    for one in APART:
        centres = np.zeros((3, 2))
        centres[one] = 1.0
        features.append(centres[Y] + SPREAD * rng.standard_normal((len(Y), 2)))
    angle = 2 * np.pi * np.arange(3) / 3
    corners = RADIUS * np.column_stack([np.cos(angle), np.sin(angle)])
    features.append(corners[Y] + SPREAD_ALL * rng.standard_normal((len(Y), 2)))
    squares = [euclidean_distances(V, squared=True) for V in features]
    return np.stack([np.exp(-D / D.mean()) for D in squares], axis=2)


def normed(weights):
    return (weights / weights.sum()).tolist()


def run(seed, C):
    """Return the weights of all methods on one data set, summing to 1, and the two multiclass objectives."""
    K = kernels(seed)

    def model(solver, loss):
        return MKLClassifier("precomputed", solver=solver, loss=loss, C=C, calibrate=False)

    binary = OneVsRestClassifier(model(SILP(), "hinge")).fit(K, Y)
    obscure = model(Obscure(1.0001, random_state=seed), "max_hinge").fit(K, Y)
    exact = model(SILP(), "max_hinge").fit(K, Y)
    weights = {f"SILP, class {k + 1} or not": normed(m.weights_) for k, m in enumerate(binary.estimators_)}
    weights["Obscure, p = 1.0001"] = normed(obscure.weights_)
    weights["optimum, p = 1"] = normed(exact.weights_)
    return {
        "seed": seed,
        "C": C,
        "weights": weights,
        "objective": obscure.objective_,
        "optimum": exact.objective_,
        "epochs": len(obscure.trace_),
    }


def picked(record, method):
    return int(np.sum(np.array(record["weights"][method]) >= PICKED))


def verdicts(records):
    """Compare with section 5.2."""
    binary = [picked(r, m) for r in records for m in r["weights"] if m.startswith("SILP")]
    fourth = [r["weights"]["Obscure, p = 1.0001"][3] >= 1 - PICKED for r in records]
    above = [100 * (r["objective"] / r["optimum"] - 1) for r in records]
    many = [picked(r, "optimum, p = 1") for r in records]
    two = np.mean(np.array(binary) == 2)
    about = {
        "repetitions": f"{len(records)} data sets",
        "settings": "data of our own making: spreads were looked for, 4 of 10 tried on one data set gave the picture",
    }
    return [
        row(
            ORABONA,
            "Fig. 1",
            "Each binary problem of one-vs-rest SILP picks two kernels",
            verdict=grade(two > 0.9, partly=two > 0.5),
            paper="two of four kernels each",
            ours=f"{two:.0%} of {len(binary)} binary problems pick two",
            **about,
        ),
        row(
            ORABONA,
            "Fig. 1",
            "Obscure at p = 1.0001 picks the one kernel that separates all classes",
            verdict=grade(np.mean(fourth) > 0.9, partly=np.any(fourth)),
            paper="the fourth kernel alone",
            ours=f"on {sum(fourth)} of {len(fourth)} data sets it has {1 - PICKED:.0%} of the weight; the optimum at "
            f"p = 1 uses {np.mean(many):.1f} kernels, and Obscure ends {min(above):.0f} to {max(above):.0f} % above it",
            **about,
        ),
    ]


def draw(plt, record):
    K, weights = kernels(record["seed"]), record["weights"]
    figure, axes = plt.subplots(2, 5, figsize=(11.5, 5), layout="constrained")
    for i, axis in enumerate(axes[0, :4]):
        image = axis.imshow(K[:, :, i], vmin=0, vmax=1, cmap="Blues")
        axis.set(title=f"kernel {i + 1}", xticks=[0, 100, 200], yticks=[0, 100, 200])
    axes[0, 4].axis("off")
    figure.colorbar(image, ax=axes[0, 4], location="left", fraction=0.5, label="kernel value")
    for axis, (method, w) in zip(axes[1], weights.items(), strict=True):
        color = "#c1121f" if "SILP" in method else "#2a6f97" if "Obscure" in method else "#9a9a9a"
        bars = axis.bar(np.arange(1, 5), w, color=color)
        axis.bar_label(bars, [f"{v:.2f}" for v in w], fontsize=8)
        axis.set(title=method, ylim=(0, 1.12), xticks=range(1, 5), xlabel="kernel")
        axis.title.set_fontsize(10)
        axis.spines[["top", "right"]].set_visible(False)
    axes[1, 0].set_ylabel("weight")
    return figure


def main():
    p = parser(__doc__)
    p.add_argument("--sets", type=int, default=10, help="data sets")
    p.add_argument("--C", type=float, default=1.0)
    args = p.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    journal = Journal(args.out, args.fresh)
    sets = range(3 if args.quick else args.sets)
    records = [journal.of((seed, args.C), lambda s=seed: run(s, args.C)) for seed in sets]
    record = {
        "benchmark": "obscure_toy",
        "reproduces": "Orabona et al. 2012, Fig. 1",
        "rows": verdicts(records),
        "results": records,
    }
    finish(record, args.out, figures={"": lambda plt: draw(plt, records[0])}, journal=journal)


if __name__ == "__main__":
    main()
