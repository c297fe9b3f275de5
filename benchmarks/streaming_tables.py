"""Tables: flight delays (AUC of more than 15 minutes, last tenth in time), California housing (R²), against peers.

flights3m: ``--rows`` of the 3,000,000 rows, evenly thinned so that they still run from January to July; training on
the first nine tenths. Blockwise also reads the same rows from a folder of Parquet files, once all and once a sixth of
them: memory must not grow. california: a fifth of the rows for testing, five splits.

python benchmarks/streaming_tables.py --data DIR --out results/streaming_tables.json [--rows 3000000]
"""

from __future__ import annotations

import pathlib
import tempfile

import numpy as np
from sklearn.model_selection import train_test_split

from common import judged, load, parser, reached, standardised
from streaming_methods import (
    Report,
    Rows,
    brief,
    draw_scores,
    fit_peer,
    in_one_pass,
    measured,
    ours,
    peers,
    record_of,
    table,
    warm_up,
)

FILES = 12


def flights(folder, n):
    """Return n rows in time order: the first nine tenths and the last one."""
    d = load("flights3m", folder)
    pick = np.linspace(0, len(d["X"]) - 1, min(n, len(d["X"]))).astype(int)
    X, y = d["X"][pick].astype(np.float32), (d["y"][pick] > 15).astype(int)
    cut = len(X) * 9 // 10
    X = standardised(X, slice(cut))
    return Rows(X[:cut], y[:cut], X[cut:], y[cut:])


def california(folder, seed, n=None):
    """Return four fifths and one fifth, standardised; totals per block in logarithms, for all methods."""
    d = load("california_housing", folder)
    X, y = np.asarray(d["X"], dtype=float), np.asarray(d["y"], dtype=float)
    skewed = X.min(0) > 0
    X[:, skewed] = np.log(X[:, skewed])
    X = standardised(X).astype(np.float32)
    X, Xt, y, yt = train_test_split(X, standardised(y), test_size=0.2, random_state=seed)
    return Rows(X[:n], y[:n], Xt, yt)


def write_parquet(rows, place, n):
    """Write the first n rows as a folder of files, and return the folder."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    place = pathlib.Path(place)
    place.mkdir(parents=True, exist_ok=True)
    for k, part in enumerate(np.array_split(np.arange(n), FILES)):
        columns = {f"x{j}": rows.X[part, j] for j in range(rows.X.shape[1])}
        pq.write_table(
            pa.table({**columns, "late": rows.y[part]}), place / f"{k:02d}.parquet", row_group_size=20_000
        )
    return place


def fit_ours(folder, name, kind, metric) -> dict:
    """Measure one of our methods on rows in memory."""
    rows = Rows.load(folder)
    model = ours(kind, "gaussian" if name.endswith("gaussian") else "laplacian")
    warm_up(model, rows.X, rows.y)
    if name.endswith("one pass"):
        return measured(
            in_one_pass(model, np.unique(rows.y) if kind == "classification" else None), rows, metric
        )
    return measured(model.fit, rows, metric)


def fit_files(folder, files, n) -> dict:
    """Measure a fit from files; the test rows alone are in memory."""
    rows = Rows.load(folder, 2000)
    model = ours("classification")
    warm_up(model, rows.X, rows.y)
    record = measured(lambda X, y: model.fit(files, y="late"), rows, "auc")
    return {**record, "rows": n, "rows_per_cpu_s": n / record["cpu_s"]}


def flights_part(report, args, n, folder):
    """Run all methods on the flights, and return verdicts."""
    part, rows = "flights", flights(args.data, n)
    place = rows.save(f"{folder}/flights")
    for name in ("Blockwise, laplacian", "Blockwise, one pass"):
        r = report.fit(part, name, fit_ours, place, name, "classification", "auc")
        r["rows_per_cpu_s"] = r["rows"] / r["cpu_s"] if "rows" in r else np.nan
    for name in peers("classification", 1.0):
        if name != "Nystroem 500 + Ridge":
            r = report.fit(part, name, fit_peer, place, name, "classification", "auc")
            r["rows_per_cpu_s"] = r["rows"] / r["cpu_s"] if "rows" in r else np.nan
    for k in (len(rows.X) // 6, len(rows.X)):
        files = write_parquet(rows, f"{folder}/parquet{k}", k)
        report.fit("flights, Parquet", str(k), fit_files, place, str(files), k)
    results = report.record[part]
    table(results, f"flights, {len(rows.X)} training rows: AUC")
    best = max(
        results["Blockwise, laplacian"].get("score", 0), results["Blockwise, one pass"].get("score", 0)
    )
    hist = results["HistGradientBoosting"]["score"]
    small, large = (report.record["flights, Parquet"][str(k)] for k in (len(rows.X) // 6, len(rows.X)))
    verdicts = {
        "flights: AUC no worse than HistGradientBoosting": reached(
            f"{results['Blockwise, laplacian'].get('score', np.nan):.4f} (one pass "
            f"{results['Blockwise, one pass'].get('score', np.nan):.4f}) against {hist:.4f}",
            best >= hist,
        )
    }
    if "failed" in small or "failed" in large:
        return verdicts | {"flights: memory from Parquet": f"failed: {brief(small)} {brief(large)}"}
    growth = large["peak_mib"] / small["peak_mib"]
    return verdicts | {
        "flights: memory for six times the rows, <= 1.1 x": reached(
            f"{small['peak_mib']:.0f} to {large['peak_mib']:.0f} MiB, {growth:.2f} x, "
            f"{large['rows_per_cpu_s']:.0f} rows per CPU second",
            growth <= 1.1,
        )
    }


def california_part(report, args, folder):
    """Run all methods on five splits, and return verdicts."""
    part, seeds = "california", 1 if args.quick else args.seeds
    names = ["Blockwise, laplacian", "Blockwise, gaussian", "Blockwise, one pass"]
    names += list(peers("regression", 1.0))
    for name in names:
        runs = []
        for seed in range(seeds):
            place = california(args.data, seed, 3000 if args.quick else None).save(
                f"{folder}/california{seed}"
            )
            if name.startswith("Blockwise"):
                runs.append(record_of(fit_ours, place, name, "regression", "score", quick=args.quick))
            else:
                runs.append(record_of(fit_peer, place, name, "regression", quick=args.quick))
        good = [r for r in runs if "score" in r]
        if not good:
            report.add(part, name, runs[0])
            continue
        mean = {
            k: float(np.mean([r[k] for r in good])) for k in good[0] if isinstance(good[0][k], int | float)
        }
        report.add(part, name, {**mean, "scores": [r["score"] for r in good]})
    results = report.record[part]
    table(results, f"california, {seeds} splits: R²")
    good = {k: r["score"] for k, r in results.items() if "score" in r}
    best = max((k for k in good if not k.startswith("Blockwise")), key=good.get)
    own = max((k for k in good if k.startswith("Blockwise")), key=good.get, default=None)
    return {
        "california: R² against the best peer": (
            f"{own} {good.get(own, np.nan):.4f}, {best} {good[best]:.4f}: "
            f"{'ours is better' if own and good[own] >= good[best] else 'the peer is better'}"
        )
    }


def draw(plt, record):
    """Draw scores against CPU seconds."""
    shown = [(k, label) for k, label in (("flights", "AUC"), ("california", "R²")) if k in record]
    fig, axes = plt.subplots(
        1, len(shown), figsize=(5.8 * len(shown), 4.2), layout="constrained", squeeze=False
    )
    for ax, (part, label) in zip(axes[0], shown, strict=True):
        results = dict(record[part])
        if files := record.get(f"{part}, Parquet"):
            results["Blockwise, laplacian, Parquet"] = files[max(files, key=int)]
        draw_scores(ax, results, [name for name in results if name.startswith("Blockwise")])
        ax.set_ylabel(f"test {label}")
        any_row = next(r for r in record[part].values() if "rows" in r)
        ax.set_title(f"{part}, {any_row['rows']:,.0f} training rows", fontsize=10)
    return fig


def main():
    """Run both tables."""
    p = parser(__doc__.splitlines()[0])
    p.add_argument("--rows", type=int, default=500_000, help="flights, of 3,000,000")
    p.add_argument("--seeds", type=int, default=5, help="splits of california")
    p.add_argument("--part", choices=["flights", "california", "both"], default="both")
    args = p.parse_args()
    n = min(args.rows, 30_000) if args.quick else args.rows
    report = Report(args, benchmark="streaming_tables", rows=n)
    verdicts = {}
    with tempfile.TemporaryDirectory() as folder:
        if args.part != "california":
            verdicts |= flights_part(report, args, n, folder)
        if args.part != "flights":
            verdicts |= california_part(report, args, folder)
    report.finish(judged(verdicts, args.quick), draw)


if __name__ == "__main__":
    main()
