"""Rows on a Dask cluster: what a row costs, how rounds scale with workers, and where a cluster begins to pay.

Tables of 30 uniform columns and a target with products, as Parquet files of equal size. *Costs* are CPU seconds of fits
through Dask's synchronous scheduler on one and on two times the rows, their difference by row, so that what does not
depend on the rows drops out; beside them those of the same fit from the same files without Dask. From these follow
*projections*, n/k times the cost of a row on each of k workers and `--round` seconds a round, and the rows from which k
workers win over two threads. *Weak scaling* gives every worker as many rows: spawned processes of one thread on this
machine, so that there are as many cores as it has, and messages do not leave it. *Million*: Greedy on 5,455 products
from Parquet, two workers against two threads, with the weights, the memory of a worker and of the client, and the
workers' share of the CPU. *Tables*: Blockwise on covtype and flights3m (of ``--data DIR``), two workers against rows in
memory.

python benchmarks/cluster.py --parts costs scaling --out results/cluster.json
python benchmarks/cluster.py --parts million
python benchmarks/cluster.py --parts tables --data DIR
"""

from __future__ import annotations

import functools
import os
import pathlib
import tempfile
import time
import warnings

import numpy as np

from common import Clock, finish, load, parser, reached, say, standardised

COLUMNS = 30
#: Scores of a fit through Dask may differ from those in memory by this.
AS_GOOD = 0.002


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
    """Return CPU microseconds a row and round numbers of every fit, in one process, through Dask and without."""
    import dask

    found = {}
    small, large = (write(_made(folder, str(k)), k * n, 4 * k) for k in (1, 2))
    with dask.config.set(scheduler="synchronous"):
        for name, model in models().items():
            fit(model, small)  # compiled
            one, two = (fit(model, path)[2] for path in (small, large))
            extra = model.trace_.extra
            here = [_plainly(model, path) for path in (small, small, large)][1:]
            found[name] = {
                "cpu_us_per_row": 1e6 * (two - one) / n,
                "rounds": extra["rounds"][0],
                "bytes": extra["bytes"][0],
                "cpu_us_per_row_without_dask": 1e6 * (here[1] - here[0]) / n,
            }
            say(f"{name}: {found[name]}")
    return found


def _plainly(model, folder) -> float:
    """Return CPU seconds of a fit from the same files without Dask."""
    with Clock() as clock:
        model.fit(folder, y="y")
    return clock.cpu


def _made(folder, name) -> pathlib.Path:
    path = pathlib.Path(folder) / name
    path.mkdir()
    return path


def local_cluster(k):
    """Return a cluster of k spawned workers of one thread each."""
    from distributed import LocalCluster

    return LocalCluster(n_workers=k, threads_per_worker=1, processes=True, dashboard_address=None)


def on_workers(client, work) -> tuple:
    """Return what `work` does, seconds on the clock, and CPU seconds of the workers and of this process."""
    before = sum(client.run(time.process_time).values())
    with Clock() as clock:
        found = work()
    return found, clock.wall, sum(client.run(time.process_time).values()) - before, clock.cpu


def scaling(n, folder, workers) -> dict:
    """Return seconds of every fit with as many rows for each of k workers, and the workers' share of the CPU."""
    from distributed import Client

    found: dict = {}
    for k in workers:
        path = write(_made(folder, f"w{k}"), k * n, 4 * k)
        with local_cluster(k) as cluster, Client(cluster) as client:
            for name, model in models().items():
                fit(model, path)
                _, seconds, theirs, mine = on_workers(client, functools.partial(fit, model, path))
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


def wins_from(cost, round_seconds, k) -> float | None:
    """Return the rows from which k workers of one core are faster than two threads of one process; None: never."""
    saved = cost["cpu_us_per_row_without_dask"] / 2 - cost["cpu_us_per_row"] / k
    return 1e6 * cost["rounds"] * round_seconds / saved if saved > 0 else None


# -- a million rows ------------------------------------------------------------------------------------------


def kilobytes(name) -> int:
    """Return a figure of this process from the system: VmRSS, what it holds, or VmHWM, the most it has held."""
    with open("/proc/self/status") as lines:
        return int(dict(line.split(":", 1) for line in lines)[name].split()[0])


def calm() -> int:
    """Forget the most that this process has held, and return what it holds, in KiB."""
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    return kilobytes("VmRSS")


def grown(before) -> float:
    """Return the MiB by which this process has grown meanwhile at the most."""
    return (kilobytes("VmHWM") - before) / 1024


def million(n, folder, files=20) -> dict:
    """Return times, memory and differences of Greedy from Parquet, on two workers and on two threads."""
    from distributed import Client

    path = write(_made(folder, "million"), n, files)
    model = models()["Greedy, 5,455 products"]
    os.environ["OMP_NUM_THREADS"] = "2"
    _plainly(model, write(_made(folder, "compiled"), 1000, 2))
    before = calm()
    with Clock() as clock:
        model.fit(path, y="y")
    record = {"threads": {"seconds": clock.wall, "cpu_s": clock.cpu, "mib": grown(before)}}
    here = dict(zip(model.combination_.members, model.weights_, strict=True))
    for name, memory in (("kept rows", "1GiB"), ("rows read again", 2**20)):
        with local_cluster(2) as cluster, Client(cluster) as client:
            model = models()["Greedy, 5,455 products"].set_params(memory=memory)
            fit(model, str(pathlib.Path(folder) / "compiled"))
            held, mine = client.run(calm), calm()
            work = functools.partial(fit, model, path)
            _, wall, theirs, own = on_workers(client, work)
            record[name] = {
                "seconds": wall,
                "workers_cpu_s": theirs,
                "client_cpu_s": own,
                "worker_mib": max(client.submit(grown, b, workers=[w]).result() for w, b in held.items()),
                "client_mib": grown(mine),
                "rounds": model.trace_.extra["rounds"][0],
                "bytes": model.trace_.extra["bytes"][0],
            }
        there = dict(zip(model.combination_.members, model.weights_, strict=True))
        record[name]["same_products"] = here.keys() == there.keys()
        record[name]["weights_differ"] = max(abs(there.get(z, 0) / w - 1) for z, w in here.items())
    record["verdicts"] = _verdicts(record, n, files)
    return record


def _verdicts(record, n, files) -> dict:
    """Return what was aimed at, and whether it is reached."""
    kept, again, threads = record["kept rows"], record["rows read again"], record["threads"]
    share = kept["workers_cpu_s"] / (kept["workers_cpu_s"] + kept["client_cpu_s"])
    partition, table = (8 * rows * (COLUMNS + 2) / 2**20 for rows in (n / files, n))
    # A partition as it is read, as a table and as a matrix, and one that waits; features, their sums, Arrow and Dask.
    room = 4 * partition + 80
    return {
        "the same products, weights to 1e-8": reached(
            f"{kept['weights_differ']:.1e} and {again['weights_differ']:.1e}",
            all(r["same_products"] and r["weights_differ"] <= 1e-8 for r in (kept, again)),
        ),
        "<= 1.5 x the time of two threads": reached(
            f"{kept['seconds'] / threads['seconds']:.2f} x", kept["seconds"] <= 1.5 * threads["seconds"]
        ),
        ">= 60 % of the CPU on workers": reached(f"{share:.2f}", share >= 0.6),
        "a worker's memory: partition + features + sums": reached(
            f"{again['worker_mib']:.0f} MiB of {room:.0f}", again["worker_mib"] <= room
        ),
        "the same where rows are kept: its rows besides": reached(
            f"{kept['worker_mib']:.0f} MiB of {room + table:.0f}", kept["worker_mib"] <= room + table
        ),
        "the client never holds the table": reached(
            f"{kept['client_mib']:.0f} and {again['client_mib']:.0f} MiB of {table:.0f}",
            max(kept["client_mib"], again["client_mib"]) < table / 2,
        ),
    }


# -- tables of the field -------------------------------------------------------------------------------------


def covtype(folder, n) -> tuple:
    """Return 80 % of the rows (at most n) with seven classes, and the others."""
    d = load("covtype", folder)
    X, y = np.asarray(d["X"]).astype(np.float32), np.asarray(d["y"]).astype(int)
    X[:, :10] = standardised(X[:, :10])
    order = np.random.default_rng(0).permutation(len(X))
    cut = len(X) * 4 // 5
    rows, test = order[:cut][:n], order[cut:]
    return X[rows], y[rows], X[test], y[test]


def flights(folder, n) -> tuple:
    """Return n rows in the order of time, delays of more than 15 minutes: nine tenths, and the last one."""
    d = load("flights3m", folder)
    pick = np.linspace(0, len(d["X"]) - 1, min(n or len(d["X"]), len(d["X"]))).astype(int)
    X, y = d["X"][pick].astype(np.float32), (d["y"][pick] > 15).astype(int)
    cut = len(X) * 9 // 10
    X = standardised(X, slice(cut))
    return X[:cut], y[:cut], X[cut:], y[cut:]


def score_of(model, X, y) -> float:
    """Return the accuracy, or of two classes the area under the curve."""
    from sklearn.metrics import roc_auc_score

    return (
        float(model.score(X, y))
        if len(model.classes_) > 2
        else float(roc_auc_score(y, model.decision_function(X)))
    )


def tables(data, n, folder) -> dict:
    """Return scores, seconds, rounds and bytes of Blockwise on two workers, and on rows in memory."""
    import pandas as pd
    from distributed import Client

    from manykernels import MKLClassifier
    from manykernels.solvers import Blockwise

    record: dict = {}
    for name, rows_of in (("covtype", covtype), ("flights3m", flights)):
        X, y, Xt, yt = rows_of(data, n)
        path = _made(folder, name)
        for k, part in enumerate(np.array_split(np.arange(len(X)), 12)):
            frame = pd.DataFrame(X[part], columns=[f"x{j}" for j in range(X.shape[1])]).assign(y=y[part])
            frame.to_parquet(path / f"{k:02d}.parquet", index=False)
        model = MKLClassifier("laplacian", solver=Blockwise(random_state=0))
        model.fit(X[:5000], y[:5000])  # compiled
        with Clock() as clock:
            model.fit(X, y)
        here = {"score": score_of(model, Xt, yt), "seconds": clock.wall, "cpu_s": clock.cpu}
        with local_cluster(2) as cluster, Client(cluster) as client:
            _, wall, theirs, mine = on_workers(client, functools.partial(fit, model, str(path)))
        there = {"score": score_of(model, Xt, yt), "seconds": wall, "workers_cpu_s": theirs}
        there |= {"client_cpu_s": mine, **{k: model.trace_.extra[k][0] for k in ("rounds", "bytes")}}
        holds = abs(there["score"] - here["score"]) <= AS_GOOD
        verdict = reached(f"{there['score']:.4f} on two workers, {here['score']:.4f} in memory", holds)
        record[name] = {"rows": len(X), "in memory": here, "two workers": there, "verdict": verdict}
        say(f"{name}: {record[name]}")
    return record


def main():
    p = parser(__doc__.partition("\n")[0])
    p.add_argument("--rows", type=int, default=400_000, help="of the smaller table, and of every worker")
    p.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    p.add_argument("--round", type=float, default=0.05, help="seconds of a round that is not arithmetic")
    parts = ["costs", "scaling", "million", "tables"]
    p.add_argument("--parts", nargs="+", choices=parts, default=parts[:3], help="tables wants --data, too")
    args = p.parse_args()
    n = 20_000 if args.quick else args.rows
    warnings.simplefilter("ignore")
    record: dict = {"benchmark": "cluster", "table_rows": n}
    with tempfile.TemporaryDirectory() as folder:
        if "costs" in args.parts:
            found = record["costs"] = costs(n, folder)
            record["minutes"] = {name: projection(cost, args.round) for name, cost in found.items()}
            record["wins_from_rows"] = {
                name: {str(k): wins_from(cost, args.round, k) for k in (2, 4, 16, 64)}
                for name, cost in found.items()
            }
        if "scaling" in args.parts:
            record["weak_scaling"] = scaling(n, folder, args.workers)
        if "million" in args.parts:
            record["million"] = million(40_000 if args.quick else 1_000_000, folder)
        if "tables" in args.parts:
            record["tables"] = tables(args.data, 20_000 if args.quick else None, folder)
    finish(record, args.out)


if __name__ == "__main__":  # workers are spawned
    main()
