"""MNIST, ten classes, all rows, on 100 principal components: ours against peers in the same run.

The protocol of Li et al. (2017) on these rows is in ``triply_doubly.py``.

python benchmarks/streaming_mnist.py --data DIR --out results/streaming_mnist.json
"""

from __future__ import annotations

import tempfile

from common import parser
from streaming_methods import Report, Rows, draw_scores, fit_peer, measured, ours, peers, table, warm_up
from triply_methods import digits, reduced

OURS = ["Blockwise, gaussian", "Blockwise, laplacian"]


def fit_ours(folder, name) -> dict:
    """Measure Blockwise with learned bandwidths."""
    rows = Rows.load(folder)
    model = ours("classification", name.removeprefix("Blockwise, "))
    warm_up(model, rows.X, rows.y)
    return measured(model.fit, rows)


def draw(plt, record):
    """Draw accuracy against CPU seconds."""
    fig, ax = plt.subplots(figsize=(5.6, 4.4), layout="constrained")
    draw_scores(ax, record["ten classes"], OURS)
    ax.set_ylabel("accuracy")
    return fig


def main():
    """Run all methods."""
    p = parser(__doc__.splitlines()[0])
    p.add_argument("--rows", type=int, default=60_000, help="training rows")
    args = p.parse_args()
    X, y, Xt, yt = digits(args.data)
    n = min(args.rows, 2500) if args.quick else args.rows
    X, Xt = reduced(X[:n], Xt, 100)
    report = Report(args, benchmark="streaming_mnist", n_rows=n)
    with tempfile.TemporaryDirectory() as folder:
        place = Rows(X, y[:n], Xt, yt).save(folder)
        for name in OURS:
            report.fit("ten classes", name, fit_ours, place, name)
        for name in peers("classification", 1.0):
            report.fit("ten classes", name, fit_peer, place, name, "classification")
    table(report.record["ten classes"], f"MNIST, {n} rows, 100 components")
    report.finish({}, draw)


if __name__ == "__main__":
    main()
