"""MNIST, 6 against 8 and ten classes, by the protocol of Li et al. (2017): Table 2 and Fig. 1–2, with peers.

100 principal components, an RBF kernel on all and one on each quarter of them, λ = 1e-5. The paper has mnist8m, whose
rows are distorted copies; here are MNIST's own 60,000. Learning curves are fits with growing budgets on ``--subset``
rows (the paper: 20,000), errors against rows come after them.

python benchmarks/streaming_mnist.py --data DIR --out results/streaming_mnist.json [--part binary]
"""

from __future__ import annotations

import tempfile

import numpy as np

from common import judged, load_split, parser
from streaming_methods import Report, Rows, fit_peer, measured, ours, peers, table, warm_up
from triply_methods import draw_curves, paper_part, paper_verdicts, reduced

PARTS = {"6 against 8": (0.0014, 0.0011), "ten classes": (0.0250, 0.0220)}


def rows_of(folder, n):
    """Return MNIST's own split, pixels in [0, 1]; at most n training rows, in random order."""
    X, y, Xt, yt = load_split("mnist", folder)
    pick = np.random.default_rng(0).permutation(len(X))[:n]
    X, Xt = (np.asarray(A, dtype=np.float32).reshape(len(A), -1) / 255 for A in (X[pick], Xt))
    return Rows(X, y[pick].astype(int), Xt, yt.astype(int))


def pair(rows, a=6, b=8):
    """Return the rows of two digits."""
    train, test = np.isin(rows.y, (a, b)), np.isin(rows.yt, (a, b))
    return Rows(rows.X[train], rows.y[train], rows.Xt[test], rows.yt[test])


def fit_gaussian(folder) -> dict:
    """Measure Blockwise with a Gaussian kernel of learned bandwidths, on all rows."""
    rows = Rows.load(folder)
    model = ours("classification", "gaussian")
    warm_up(model, rows.X, rows.y)
    return measured(model.fit, rows)


def run(report, part, rows, folder, subset, quick):
    """Run the paper's methods, then the peers on all rows."""
    place = reduced(rows, 100).save(folder)
    sizes = [k for k in (1000, 5000, 20_000) if k < len(rows.X)] + [len(rows.X)]
    paper_part(report, part, place, min(subset, len(rows.X)), sizes, quick)
    everything = f"{part}, all rows"
    report.fit(everything, "Blockwise, gaussian", fit_gaussian, place)
    for name in ("triply", "Blockwise", "Blockwise, laplacian"):
        report.record[everything][name] = report.record[f"{part}, rows"][f"{name}, {len(rows.X)}"]
    for name in peers("classification", 1.0):
        report.fit(everything, name, fit_peer, place, name, "classification")
    table(report.record[everything], f"MNIST, {part}, {len(rows.X)} rows, 100 components")


def draw(plt, record):
    """Draw Fig. 1 above Fig. 2."""
    shown = [part for part in PARTS if f"{part}, curves" in record]
    fig, axes = plt.subplots(
        2, len(shown), figsize=(5.4 * len(shown), 7.6), layout="constrained", squeeze=False
    )
    for (top, bottom), part in zip(axes.T, shown, strict=True):
        draw_curves(top, record[f"{part}, curves"], "cpu_s")
        top.set_title(f"{part}: fits with growing budgets, {record['subsets'][part]:,} rows", fontsize=10)
        top.set_xlabel("CPU seconds to fit")
        draw_curves(bottom, record[f"{part}, rows"], "rows")
        bottom.set_title(f"{part}: error against rows", fontsize=10)
        bottom.set_xlabel("training rows")
        for ax in (top, bottom):
            ax.set_ylabel("test error (%)")
    axes[0, 0].legend(fontsize=8, frameon=False)
    return fig


def main():
    """Run both tasks."""
    p = parser(__doc__.splitlines()[0])
    p.add_argument("--rows", type=int, default=60_000, help="training rows")
    p.add_argument(
        "--subset", type=int, default=5000, help="rows of the learning curves; half for ten classes"
    )
    p.add_argument("--part", choices=["binary", "ten", "both"], default="both")
    args = p.parse_args()
    n, subset = (min(args.rows, 2500), 500) if args.quick else (args.rows, args.subset)
    rows = rows_of(args.data, n)
    subsets = {"6 against 8": subset, "ten classes": subset // 2}
    report = Report(args, benchmark="streaming_mnist", rows=len(rows.X), subsets=subsets)
    chosen = {"binary": ["6 against 8"], "ten": ["ten classes"], "both": list(PARTS)}[args.part]
    verdicts = {}
    with tempfile.TemporaryDirectory() as folder:
        for part in chosen:
            own = pair(rows) if part == "6 against 8" else rows
            run(report, part, own, f"{folder}/{part}", subsets[part], args.quick)
            sizes = {int(k.rsplit(", ", 1)[1]) for k in report.record[f"{part}, rows"]}
            at = max(k for k in sizes if k <= 20_000)
            verdicts |= paper_verdicts(report.record, part, PARTS[part], at)
    report.finish(judged(verdicts, args.quick), draw)


if __name__ == "__main__":
    main()
