"""covtype: seven classes against peers in the same run.

80 % of the 581,012 rows, the ten numeric columns standardised; Blockwise with learned Laplacian bandwidths, four RBF
bandwidths with Fourier features, one pass of ``partial_fit``, and TriplyStochastic on 100,000 rows. Two classes, by the
protocol of Li et al. (2017), are in ``triply_doubly.py``.

python benchmarks/streaming_covtype.py --data DIR --out results/streaming_covtype.json
"""

from __future__ import annotations

import tempfile

import numpy as np
from sklearn.model_selection import train_test_split

from common import judged, load, parser, reached, standardised
from manykernels import MKLClassifier
from manykernels.kernels import RBF
from manykernels.solvers import Blockwise, TriplyStochastic
from streaming_methods import (
    Report,
    Rows,
    draw_scores,
    fit_peer,
    in_one_pass,
    measured,
    median_distance,
    ours,
    peers,
    table,
    warm_up,
)

OURS = ["Blockwise, laplacian", "Blockwise, one pass", "Blockwise, four RBF", "TriplyStochastic, 100k rows"]
GOAL = 0.975


def rows_of(folder, n):
    """Return 80 % of the rows (at most n) to train and 20 % to test."""
    d = load("covtype", folder)
    X, y = np.asarray(d["X"]).astype(np.float32), np.asarray(d["y"]).astype(int)
    X[:, :10] = standardised(X[:, :10])
    X, Xt, y, yt = train_test_split(X, y, test_size=0.2, random_state=0)
    return Rows(X[:n], y[:n], Xt, yt)


def gigabytes(result) -> float:
    """Return the memory that a fit added to the rows, in units of 10⁹ bytes."""
    return result["fit_mib"] * 2**20 / 1e9


def fit_ours(folder, name) -> dict:
    """Measure one of our methods."""
    rows = Rows.load(folder, 100_000 if name.endswith("100k rows") else None)
    classes = np.unique(rows.y)
    if name == "Blockwise, laplacian":
        model = ours("classification")
    elif name == "Blockwise, one pass":
        model = ours("classification")
        warm_up(model, rows.X, rows.y)
        return measured(in_one_pass(model, classes), rows)
    else:
        median = median_distance(rows.X)
        kernels = [RBF(median * f) for f in (0.2, 0.4, 0.8, 1.6)]
        solver = (Blockwise if name.startswith("Blockwise") else TriplyStochastic)(random_state=0)
        model = MKLClassifier(kernels, solver=solver, C=10.0)
    warm_up(model, rows.X, rows.y)
    return measured(model.fit, rows)


def seven(report, folder, yt):
    """Run all methods on seven classes, and return verdicts."""
    part = "seven classes"
    for name in [*OURS[:2], *reversed(peers("classification", 1.0)), *OURS[2:]]:
        work = (fit_ours, folder, name) if name in OURS else (fit_peer, folder, name, "classification")
        report.fit(part, name, *work)
    results = report.record[part]
    table(results, f"covtype, seven classes (majority {np.bincount(yt).max() / len(yt):.3f})")
    best = results[OURS[0]]
    light = results.get("LightGBM") or results["HistGradientBoosting"]
    if "failed" in best or "failed" in light:
        return {"covtype: goal": "a fit failed"}
    return {
        f"covtype: >= {GOAL} in <= 0.5 x LightGBM's CPU time, <= 0.7 GB": reached(
            f"{best['score']:.4f} (LightGBM {light['score']:.4f}), {best['cpu_s'] / light['cpu_s']:.2f} x its "
            f"{light['cpu_s']:.0f} CPU s, {gigabytes(best):.2f} GB above the data",
            best["score"] >= GOAL and best["cpu_s"] <= 0.5 * light["cpu_s"] and gigabytes(best) <= 0.7,
        )
    }


def draw(plt, record):
    """Draw accuracy against CPU seconds."""
    results = record["seven classes"]
    fig, ax = plt.subplots(figsize=(5.6, 4.4), layout="constrained")
    draw_scores(ax, results, OURS, lambda name: f"{name}, {gigabytes(results[name]):.2g} GB")
    ax.set_ylabel("accuracy")
    ax.set_title("seven classes, with memory above the data; red: manykernels", fontsize=10)
    return fig


def main():
    """Run all methods."""
    p = parser(__doc__.splitlines()[0])
    p.add_argument("--rows", type=int, default=464_809, help="training rows")
    args = p.parse_args()
    rows = rows_of(args.data, min(args.rows, 10_000) if args.quick else args.rows)
    if args.quick:
        rows = Rows(rows.X, rows.y, rows.Xt[:10_000], rows.yt[:10_000])
    report = Report(args, benchmark="streaming_covtype", n_rows=len(rows.X))
    with tempfile.TemporaryDirectory() as folder:
        verdicts = seven(report, rows.save(f"{folder}/seven"), rows.yt)
    report.finish(judged(verdicts, args.quick), draw)


if __name__ == "__main__":
    main()
