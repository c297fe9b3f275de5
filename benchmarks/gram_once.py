"""Gram once: what the pass over the rows costs, what each solution after it, and whether it is that of rows in memory.

flights3m, minutes of delay within [-60, 180], nine standardised columns, all products of at most two (54 features).
*Agreement*: ``--some`` rows from files and in memory. *Path*: C from 1e-6 to 1e8 and three p on all rows, with five
folds, in batches. *Choice*: C="auto" and p="auto". *Fourier*: three Gaussian kernels on ``--fourier`` rows.
*Targets*: ``--targets`` made-up ones of two bands of 100 columns, weights of their own, from files.

python benchmarks/gram_once.py --data DIR --out results/gram_once.json
"""

from __future__ import annotations

import pathlib
import tempfile
import time
import warnings

import numpy as np

from common import finish, load, parser, peak_mib, say, standardised

FILES, BATCH = 12, 100_000


def flights(folder, n):
    """Return n rows, evenly thinned."""
    d = load("flights3m", folder)
    pick = np.linspace(0, len(d["X"]) - 1, min(n, len(d["X"]))).astype(int)
    return standardised(d["X"][pick].astype(float)), np.clip(d["y"][pick].astype(float), -60, 180)


def written(folder, X, Y) -> str:
    """Write rows as Parquet files and return their folder."""
    import pandas as pd

    folder = pathlib.Path(folder)
    folder.mkdir()
    Y = np.reshape(Y, (len(X), -1))
    for k, part in enumerate(np.array_split(np.arange(len(X)), FILES)):
        columns = {f"x{j}": X[part, j] for j in range(X.shape[1])}
        columns |= {f"y{j}": Y[part, j] for j in range(Y.shape[1])}
        pd.DataFrame(columns).to_parquet(folder / f"{k:03d}.parquet", index=False)
    return str(folder)


def clocked(work):
    """Return what `work` does, and its CPU seconds."""
    started = time.process_time()
    found = work()
    return found, time.process_time() - started


def products(p=4 / 3, tol=1e-3, **options):
    """Return the model of all products of at most two columns."""
    from manykernels import MKLRegressor
    from manykernels.families import Products
    from manykernels.solvers import LpNorm

    return MKLRegressor(Products(degree=2, standardize=False), solver=LpNorm(p=p, tol=tol), **options)


def agreement(X, y, folder) -> dict:
    """Return how far fits from files are from those in memory, relatively."""
    files, out = written(folder, X, y), {}
    for p in (1, 4 / 3, 2):
        for C in (1e-4, 1.0, 1e4):
            there = products(p, 1e-11, C=C).fit(files, "y0")
            here = products(p, 1e-11, C=C).fit(X, y)
            F = here.predict(X)
            out[f"p={p:.3g}, C={C:g}"] = {
                "objective": abs(there.objective_ - here.objective_) / here.objective_,
                "prediction": float(np.abs(there.predict(X) - F).max() / np.std(F)),
            }
    return out


def path(batches) -> dict:
    """Return a path over all rows, and what it costs beyond the pass."""
    grid = 10.0 ** np.arange(-6, 8.1, 1)
    _, one = clocked(lambda: products(C=1.0).fit(batches))
    found, all_of_it = clocked(lambda: products().path(batches, C=grid, p=[1, 4 / 3, 2]))
    gaps = [m.gap_ / m.objective_ for m in found.models.flat]
    return {
        "one_fit_cpu_s": one,
        "path_cpu_s": all_of_it,
        "models": found.models.size * (1 + found.error.shape[2]),
        "largest_relative_gap": max(gaps),
        "finite": bool(np.isfinite(found.error).all()),
        "best": {"C": found.best_model.C_, "p": found.best_model.solver_.p},
        "score": float(found.score[found.best].mean()),
        "peak_mib": peak_mib(),
    }


def fourier(X, y, folder) -> dict:
    """Return what a path on random features costs."""
    from manykernels import MKLRegressor
    from manykernels.kernels import RBF
    from manykernels.solvers import LpNorm

    files = written(folder, X, y)
    model = MKLRegressor([RBF(s) for s in (1.0, 3.0, 9.0)], solver=LpNorm())
    one, first = clocked(lambda: model.set_params(C=1.0).fit(files, "y0"))
    found, both = clocked(lambda: model.path(files, "y0", C=[0.1, 1.0, 10.0], cv=2))
    return {
        "rows": len(X),
        "features": int(one.result_.predictor.W.shape[0]),
        "gap_kind": one.gap_kind_,
        "one_fit_cpu_s": first,
        "path_of_9_cpu_s": both,
        "score": found.score.mean(axis=2).max(),
    }


def targets(n, count, folder) -> dict:
    """Return what many targets with weights of their own cost."""
    from manykernels import MKLRegressor
    from manykernels.kernels import Linear
    from manykernels.solvers import LpNorm

    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 200))
    band = np.arange(count) % 3  # the first, the second, both
    W = rng.normal(size=(200, count)) / 10
    W[100:, band == 0] = 0
    W[:100, band == 1] = 0
    files = written(folder, X, X @ W + rng.normal(size=(n, count)))
    kernels = [Linear(columns=slice(0, 100)), Linear(columns=slice(100, 200))]
    names = [f"y{j}" for j in range(count)]
    shared = MKLRegressor(kernels, solver=LpNorm(), C=0.01)
    _, once = clocked(lambda: shared.fit(files, names))
    own, each = clocked(lambda: shared.set_params(weights="per_target").fit(files, names))
    shares = own.combination_.shares()
    return {
        "rows": n,
        "targets": count,
        "shared_cpu_s": once,
        "per_target_cpu_s": each,
        "relative_gap": own.gap_ / own.objective_,
        "least_share_of_the_right_band": float(min(shares[band == 0, 0].min(), shares[band == 1, 1].min())),
        "peak_mib": peak_mib(),
    }


def main():
    p = parser(__doc__.partition("\n")[0])
    p.add_argument("--rows", type=int, default=3_000_000)
    p.add_argument("--some", type=int, default=20_000)
    p.add_argument("--fourier", type=int, default=50_000)
    p.add_argument("--targets", type=int, default=1_000)
    args = p.parse_args()
    if args.quick:
        args.rows, args.some, args.fourier, args.targets = 20_000, 2_000, 2_000, 30
    warnings.simplefilter("ignore")
    record = {"benchmark": "gram_once", "table_rows": args.rows}
    with tempfile.TemporaryDirectory() as folder:
        X, y = flights(args.data, args.some)
        record["agreement"] = agreement(X, y, f"{folder}/some")
        say(record["agreement"])
        X, y = flights(args.data, args.rows)
        batches = [(X[a : a + BATCH], y[a : a + BATCH]) for a in range(0, len(X), BATCH)]
        record["path"] = path(batches)
        say(record["path"])
        chosen, seconds = clocked(lambda: products("auto").fit(batches))
        record["choice"] = {"C": chosen.C_, "p": chosen.solver_.p, "cpu_s": seconds}
        say(record["choice"])
        record["targets"] = targets(10 * args.targets, args.targets, f"{folder}/targets")
        say(record["targets"])
        record["fourier"] = fourier(*flights(args.data, args.fourier), f"{folder}/fourier")
    finish(record, args.out)


if __name__ == "__main__":
    main()
