"""Rows on a Dask cluster: what a row costs, how rounds scale with workers, and where a cluster begins to pay.

Tables of 30 uniform columns and a target with products, as Parquet files of equal size. *Costs* are CPU seconds of fits
through Dask's synchronous scheduler on one and on two times the rows, their difference by row, so that what does not
depend on the rows drops out. *Weak scaling* gives every worker as many rows: spawned processes of one thread on this
machine, so that there are as many cores as it has, and messages do not leave it. *Projection* multiplies: n rows cost
n/k times the cost of a row on each of k workers, and a round `--round` seconds.

python benchmarks/cluster.py --out results/cluster.json
"""

from __future__ import annotations

import pathlib
import tempfile
import time
import warnings

import numpy as np

from common import finish, parser

COLUMNS = 30


def rows(n, seed):
    """Return rows and targets."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, COLUMNS)).astype(np.float32)
    f = 2 * X[:, 0] * X[:, 1] + 3 * X[:, 2] * X[:, 3] * X[:, 4] + X[:, 5] + 1.5 * X[:, 6] ** 2
    return X, (f + 0.3 * rng.standard_normal(n)).astype(np.float32)


def write(folder, n, files) -> str:
    """Write a table as Parquet files."""
    import pandas as pd

    for k in range(files):
        X, y = rows(n // files, k)
        data = pd.DataFrame(X, columns=[f"x{j}" for j in range(COLUMNS)]).assign(y=y)
        data.to_parquet(pathlib.Path(folder) / f"{k:04d}.parquet", index=False)
    return str(folder)


def models():
    """Return the fits that are measured, C fixed so that they are sums over rows and little else."""
    from manykernels import MKLRegressor
    from manykernels.families import Products
    from manykernels.kernels import Laplacian
    from manykernels.solvers import Blockwise, Greedy, LpNorm

    greedy = Greedy(max_kernels=4, swaps=1, random_state=0)
    return {
        "Greedy, 5,455 products": MKLRegressor(Products(degree=3), solver=greedy, C=1.0),
        "LpNorm, Gram of 495 features": MKLRegressor(Products(degree=2), solver=LpNorm(), C=1.0),
        "Blockwise, 64 grids": MKLRegressor(
            [Laplacian(10.0)], solver=Blockwise(grids=64, sweeps=1, random_state=0), C=1.0
        ),
    }


def fit(model, folder):
    """Return the model, seconds on the clock, and CPU seconds of this process."""
    import dask.dataframe as dd

    clock, cpu = time.perf_counter(), time.process_time()
    model.fit(dd.read_parquet(folder), y="y")
    return model, time.perf_counter() - clock, time.process_time() - cpu


def costs(n, folder) -> dict:
    """Return CPU microseconds a row and round numbers of every fit, in one process."""
    import dask

    found = {}
    small, large = (write(_made(folder, str(k)), k * n, 4 * k) for k in (1, 2))
    with dask.config.set(scheduler="synchronous"):
        for name, model in models().items():
            fit(model, small)  # compiled
            one, two = (fit(model, path)[2] for path in (small, large))
            extra = model.trace_.extra
            found[name] = {
                "cpu_us_per_row": 1e6 * (two - one) / n,
                "rounds": extra["rounds"][0],
                "bytes": extra["bytes"][0],
            }
    return found


def _made(folder, name) -> pathlib.Path:
    path = pathlib.Path(folder) / name
    path.mkdir()
    return path


def scaling(n, folder, workers) -> dict:
    """Return seconds of every fit with as many rows for each of k workers, and the workers' share of the CPU."""
    from distributed import Client, LocalCluster

    found: dict = {}
    for k in workers:
        path = write(_made(folder, f"w{k}"), k * n, 4 * k)
        local = {"threads_per_worker": 1, "processes": True, "dashboard_address": None}
        with LocalCluster(n_workers=k, **local) as cluster, Client(cluster) as client:
            for name, model in models().items():
                fit(model, path)
                before = sum(client.run(time.process_time).values())
                _, seconds, mine = fit(model, path)
                theirs = sum(client.run(time.process_time).values()) - before
                found.setdefault(name, {})[str(k)] = {
                    "seconds": seconds,
                    "workers_share_of_cpu": theirs / (theirs + mine),
                }
    return found


def projection(cost, round_seconds) -> dict:
    """Return minutes for n rows on k workers."""
    table = {}
    for n in (10**7, 10**8, 10**9):
        table[f"{n:.0e}"] = {
            str(k): (cost["cpu_us_per_row"] * 1e-6 * n / k + cost["rounds"] * round_seconds * (k > 1)) / 60
            for k in (1, 16, 64, 256)
        }
    return table


def main():
    p = parser(__doc__.partition("\n")[0])
    p.add_argument("--rows", type=int, default=400_000, help="of the smaller table, and of every worker")
    p.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    p.add_argument("--round", type=float, default=0.05, help="seconds of a round that is not arithmetic")
    args = p.parse_args()
    n = 20_000 if args.quick else args.rows
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        found = costs(n, folder)
        record = {"benchmark": "cluster", "table_rows": n, "costs": found}
        record["minutes"] = {name: projection(cost, args.round) for name, cost in found.items()}
        record["weak_scaling"] = scaling(n, folder, args.workers)
    finish(record, args.out)


if __name__ == "__main__":  # workers are spawned
    main()
