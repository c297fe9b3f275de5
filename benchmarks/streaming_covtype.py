"""covtype: seven classes against peers in the same run, and two classes by the protocol of Li et al. (2017).

Seven classes: 80 % of the 581,012 rows, the ten numeric columns standardised; Blockwise with learned Laplacian
bandwidths, four RBF bandwidths with Fourier features, one pass of ``partial_fit``, and TriplyStochastic on 100,000
rows. Two classes (the most frequent one against the others): 40 principal components, five RBF kernels, λ = 1e-5,
Li et al., Table 1–2 and Fig. 1–2; Obscure, Ufo and LpNorm on ``--subset`` rows (the paper: 20,000).

python benchmarks/streaming_covtype.py --data DIR --out results/streaming_covtype.json [--part seven]
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
from triply_methods import draw_curves, paper_part, paper_verdicts, reduced

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
    """Draw accuracy against CPU seconds, then the paper's two figures."""
    results = record.get("seven classes", {})
    curves = [k for k in ("two classes, curves", "two classes, rows") if k in record]
    count = bool(results) + len(curves)
    fig, axes = plt.subplots(1, count, figsize=(5.6 * count, 4.4), layout="constrained", squeeze=False)
    axes = list(axes[0])
    if results:
        ax = axes.pop(0)
        draw_scores(ax, results, OURS, lambda name: f"{name}, {gigabytes(results[name]):.2g} GB")
        ax.set_ylabel("accuracy")
        ax.set_title("seven classes, with memory above the data; red: manykernels", fontsize=10)
    titles = (f"two classes, five kernels, {record['subset']:,} rows", "two classes: error against rows")
    for ax, part, title, x in zip(axes, curves, titles, ("cpu_s", "rows"), strict=False):
        draw_curves(ax, record[part], x)
        ax.set_title(title, fontsize=10)
        ax.set_xlabel("CPU seconds to fit" if x == "cpu_s" else "training rows")
        ax.set_ylabel("test error (%)")
        ax.legend(fontsize=7.5, frameon=False)
    return fig


def main():
    """Run both parts."""
    p = parser(__doc__.splitlines()[0])
    p.add_argument("--rows", type=int, default=464_809, help="training rows")
    p.add_argument("--subset", type=int, default=5000, help="rows for Obscure, Ufo and LpNorm")
    p.add_argument("--part", choices=["seven", "two", "both"], default="both")
    args = p.parse_args()
    n, subset = (min(args.rows, 10_000), 1000) if args.quick else (args.rows, args.subset)
    rows = rows_of(args.data, n)
    if args.quick:
        rows = Rows(rows.X, rows.y, rows.Xt[:10_000], rows.yt[:10_000])
    report = Report(args, benchmark="streaming_covtype", rows=len(rows.X), subset=subset)
    verdicts = {}
    with tempfile.TemporaryDirectory() as folder:
        if args.part != "two":
            verdicts |= seven(report, rows.save(f"{folder}/seven"), rows.yt)
        if args.part != "seven":
            two = Rows(
                rows.X, (rows.y == 2).astype(int), rows.Xt[:20_000], (rows.yt[:20_000] == 2).astype(int)
            )
            place = reduced(two, 40).save(f"{folder}/two")
            sizes = [k for k in (5000, 20_000, 80_000) if k < len(two.X)] + [len(two.X)]
            paper_part(report, "two classes", place, subset, sizes, args.quick)
            at = min(20_000, len(two.X))
            verdicts |= paper_verdicts(report.record, "two classes", (0.1680, 0.1630), at)
    report.finish(judged(verdicts, args.quick), draw)


if __name__ == "__main__":
    main()
