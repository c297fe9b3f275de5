"""How near to the machine's speed: Fourier features against their pieces, bins per second, threads, growth in rows.

Pieces are timed in the same process, on one core, on tiles that stay in cache: the projection XΩ in single precision,
its cosines and sines, a product with coefficients, a product with residuals, a Gram matrix. What a fit or a prediction
cannot do without is the roofline; its share is roofline seconds over measured CPU seconds.

- prediction: projection, sincos, one product.
- TriplyStochastic, one epoch with all kernels in each step: projection, sincos, two products.
- Blockwise on Fourier features: the same in every sweep, and a Gram matrix once. A sweep needs features twice, to sum
  and to step; those that it does not keep in between are made again, which the roofline does not count.

The pieces are NumPy's, so that shares can exceed 100 %: the package takes cosine and sine together, in a compiled loop.
"cos and sin together" are the shares of the roofline with that loop in place of NumPy's.

Rows are generated, 54 columns. CPU time is used on one core, wall time for two threads against one: run it on a machine
that does nothing else.

python benchmarks/streaming_roofline.py --out results/streaming_roofline.json
"""

from __future__ import annotations

import os

import numpy as np

from common import Clock, judged, parser, reached
from manykernels import MKLClassifier
from manykernels._util.threads import one_blas_thread
from manykernels.features._fourier import cos_sin
from manykernels.kernels import RBF, Laplacian
from manykernels.solvers import Blockwise, TriplyStochastic
from streaming_methods import Report, record_of, warm_up

D, FEATURES, BLOCK, CLASSES, SWEEPS = 54, 4096, 512, 7, 3
GRIDS = 256
#: What BLAS and the package read the number of threads from.
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def rows_of(n, seed=0):
    """Return rows and seven classes."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, D), dtype=np.float32)
    return X, (np.abs(X[:, 0] * X[:, 1] + X[:, 2]) * 3).astype(int).clip(0, CLASSES - 1)


def timed(func, least=0.4) -> float:
    """Return the smallest CPU seconds of a call, over repetitions of `least` seconds in all."""
    func()
    best, total = np.inf, 0.0
    while total < least:
        with Clock() as clock:
            func()
        best, total = min(best, clock.cpu), total + max(clock.cpu, 1e-7)
    return best


def pieces(rows) -> dict[str, float]:
    """Return nanoseconds per row and feature of every piece, on tiles of `rows`."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, D), dtype=np.float32)
    O = rng.standard_normal((D, BLOCK // 2), dtype=np.float32)
    W = rng.standard_normal((BLOCK, CLASSES), dtype=np.float32)
    R = np.ascontiguousarray(rng.standard_normal((CLASSES, rows), dtype=np.float32))
    P, Z = X @ O, np.empty((rows, BLOCK), np.float32)
    S, G, H = (
        np.empty((rows, CLASSES), np.float32),
        np.empty((CLASSES, BLOCK), np.float32),
        np.empty((BLOCK, BLOCK), np.float32),
    )

    def sincos():
        np.cos(P, out=Z[:, : BLOCK // 2])
        np.sin(P, out=Z[:, BLOCK // 2 :])

    sincos()
    calls = {
        "projection": lambda: np.matmul(X, O, out=P),
        "sincos": sincos,
        "cos and sin together": lambda: cos_sin(P, np.float32(1), Z, 0),
        "scores": lambda: np.matmul(Z, W, out=S),
        "gradient": lambda: np.matmul(R, Z, out=G),
        "gram": lambda: np.matmul(Z.T, Z, out=H),
    }
    many = max(1, 2**14 // rows)

    def repeated(call):
        def run():
            for _ in range(many):
                call()

        return run

    return {name: timed(repeated(call)) / (many * rows * BLOCK) * 1e9 for name, call in calls.items()}


def best_pieces() -> dict[str, float]:
    """Return the best of several tile sizes for each piece; the Gram matrix wants larger ones."""
    with one_blas_thread():
        found = [pieces(rows) for rows in (64, 256, 1024)]
    return {name: min(f[name] for f in found) for name in found[0]}


def fourier(n) -> dict:
    """Return pieces, and the shares of the roofline that fits and predictions reach."""
    os.environ["OMP_NUM_THREADS"] = "1"
    X, y = rows_of(n)
    kernels = [RBF(8.0), RBF(12.0)]
    blockwise = MKLClassifier(
        kernels,
        solver=Blockwise(
            n_features=FEATURES, sweeps=SWEEPS, block=BLOCK, validation_fraction=0, random_state=0
        ),
        C=1.0,
    )
    triply = MKLClassifier(
        kernels,
        solver=TriplyStochastic(
            n_features=FEATURES // 2, block=BLOCK, epochs=1, kernels_per_step="all", random_state=0
        ),
        C=1.0,
    )
    out = {}
    for model in (blockwise, triply):
        warm_up(model, X, y, 3000)
    before = best_pieces()
    for name, model in (("Blockwise", blockwise), ("TriplyStochastic", triply)):
        with Clock() as clock:
            model.fit(X, y)
        out[f"{name} fit"] = clock.cpu
        out[f"{name} predict"] = timed(lambda model=model: model.decision_function(X), 0.1)
    after = best_pieces()
    ns = {k: min(before[k], after[k]) for k in before}
    shares = {}
    for sincos, label in (("sincos", ""), ("cos and sin together", ", cos and sin together")):
        make = ns["projection"] + ns[sincos]
        visit = make + ns["scores"] + ns["gradient"]
        for name, ideal, took in (
            ("Blockwise, training", SWEEPS * visit + ns["gram"], "Blockwise fit"),
            ("TriplyStochastic, training", visit, "TriplyStochastic fit"),
            ("prediction", make + ns["scores"], "Blockwise predict"),
        ):
            shares[name + label] = n * FEATURES * 1e-9 * ideal / out[took]
    visit = ns["projection"] + ns["sincos"] + ns["scores"] + ns["gradient"]
    rate = n * FEATURES * SWEEPS / out["Blockwise fit"]
    return {
        "pieces_ns": ns,
        "cpu_s": out,
        "shares": shares,
        "roofline_per_s": 1e9 / visit,
        "rate_per_s": rate,
    }


def binning(n) -> dict:
    """Return µs per row and grid: bins alone, and a whole fit per sweep."""
    os.environ["OMP_NUM_THREADS"] = "1"
    X, y = rows_of(n)
    grids = Laplacian(20.0).random_features(D, 0, 0, 2**15).grids(0, GRIDS)
    seconds = timed(lambda: grids.bins(X), 0.1)
    narrow = Laplacian(20.0, columns=np.arange(10)).random_features(D, 0, 0, 2**15).grids(0, GRIDS)
    ten = timed(lambda: narrow.bins(X), 0.1)
    model = MKLClassifier(
        [Laplacian(20.0)],
        solver=Blockwise(grids=GRIDS, sweeps=SWEEPS, validation_fraction=0, random_state=0),
        C=1.0,
    )
    warm_up(model, X, y, 3000)
    with Clock() as clock:
        model.fit(X, y)
    guess = timed(lambda: model.decision_function(X), 0.1)
    per = 1e6 / (n * GRIDS)
    return {
        "bins, 54 columns": seconds * per,
        "bins, 10 columns": ten * per,
        "fit, per sweep": clock.cpu * per / SWEEPS,
        "prediction": guess * per,
    }


def model_of(name):
    """Return a model with fixed bandwidths."""
    if name == "binning":
        return MKLClassifier(
            [Laplacian(20.0)], solver=Blockwise(grids=128, validation_fraction=0, random_state=0), C=1.0
        )
    if name == "Fourier":
        return MKLClassifier(
            [RBF(10.0)], solver=Blockwise(n_features=2048, validation_fraction=0, random_state=0), C=1.0
        )
    return MKLClassifier(
        [RBF(8.0), RBF(12.0)], solver=TriplyStochastic(n_features=512, epochs=3, random_state=0), C=1.0
    )


def growth(name, sizes) -> dict:
    """Return CPU seconds against rows, with the slope of their logarithms."""
    os.environ["OMP_NUM_THREADS"] = "1"
    X, y = rows_of(max(sizes))
    model, cpu = model_of(name), []
    warm_up(model, X, y, 3000)
    for n in sizes:
        with Clock() as clock:
            model.fit(X[:n], y[:n])
        cpu.append(clock.cpu)
    return {"rows": list(sizes), "cpu_s": cpu, "slope": float(np.polyfit(np.log(sizes), np.log(cpu), 1)[0])}


def clocked(name, n, repeats) -> dict:
    """Return the least wall seconds of fits and predictions, on the threads that the process was started with."""
    X, y = rows_of(n)
    model = model_of(name)
    warm_up(model, X, y, 3000)
    fit = predict = np.inf
    for _ in range(repeats):
        with Clock() as fitted:
            model.fit(X, y)
        with Clock() as predicted:
            model.decision_function(X)
        fit, predict = min(fit, fitted.wall), min(predict, predicted.wall)
    return {"fit": fit, "predict": predict}


def threads(report, name, n, repeats) -> dict:
    """Return how much faster two threads are, each number in a process of its own: BLAS reads it when it starts."""
    before, times = {v: os.environ.get(v) for v in THREADS}, {}
    for k in (1, 2):
        os.environ.update(dict.fromkeys(THREADS, str(k)))
        times[k] = record_of(clocked, name, n, repeats, quick=report.record["quick"])
    for variable, value in before.items():
        os.environ.pop(variable) if value is None else os.environ.update({variable: value})
    found = {what: times[1][what] / times[2][what] for what in ("fit", "predict")}
    return {"seconds": times, **found, "load": os.getloadavg()[0]}


def verdicts_of(record) -> dict[str, str]:
    """Return a verdict per claim."""
    shares, bins = record["fourier"]["all"]["shares"], record["binning"]["all"]

    out = {}
    for name, least in (
        ("Blockwise, training", 0.6),
        ("TriplyStochastic, training", 0.6),
        ("prediction", 0.8),
    ):
        out[f"{name}: >= {least:.0%} of the roofline"] = reached(f"{shares[name]:.0%}", shares[name] >= least)
    worst = max(v for k, v in bins.items() if k != "fit, per sweep")
    out["binning <= 0.15 µs per row and grid"] = reached(
        ", ".join(f"{k} {v:.3f}" for k, v in bins.items()), max(worst, bins["fit, per sweep"]) <= 0.15
    )
    for name, r in record["speed-up"].items():
        for what in ("fit", "predict"):
            out[f"{name}, {what}: two threads >= 1.7 x"] = reached(
                f"{r[what]:.2f} x at a load of {r['load']:.1f}", r[what] >= 1.7
            )
    for name, r in record["growth"].items():
        out[f"{name}: no more than linear in the rows"] = reached(
            f"slope {r['slope']:.2f}", r["slope"] <= 1.1
        )
    return out


def draw(plt, record):
    """Draw the pieces and the shares, and the growth."""
    fig, axes = plt.subplots(1, 3, figsize=(13, 3.8), layout="constrained", width_ratios=(1, 1.3, 1))
    ns = record["fourier"]["all"]["pieces_ns"]
    axes[0].barh(list(ns)[::-1], list(ns.values())[::-1], color="#2a6f97", height=0.6)
    axes[0].set_xlabel("ns per row and feature, one core")
    axes[0].set_title("pieces of Fourier features", fontsize=10)
    shares = record["fourier"]["all"]["shares"]
    axes[1].barh(list(shares)[::-1], [100 * v for v in shares.values()][::-1], color="#c1121f", height=0.6)
    for k, v in enumerate(reversed(shares.values())):
        axes[1].text(100 * v + 1, k, f"{v:.0%}", va="center", fontsize=9)
    axes[1].axvline(100, color="#888888", lw=1, ls="--")
    axes[1].set_xlim(0, 112 * max(1.0, *shares.values()))
    axes[1].set_xlabel("share of the roofline (%)")
    axes[1].set_title("what fits and predictions reach", fontsize=10)
    for name, r in record["growth"].items():
        axes[2].loglog(r["rows"], r["cpu_s"], "o-", ms=4, label=f"{name}: slope {r['slope']:.2f}")
    axes[2].set_xlabel("rows")
    axes[2].set_ylabel("CPU seconds to fit")
    axes[2].set_title("growth", fontsize=10)
    axes[2].legend(fontsize=8, frameon=False)
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
    return fig


def main():
    """Measure everything."""
    p = parser(__doc__.splitlines()[0])
    p.add_argument("--rows", type=int, default=100_000)
    args = p.parse_args()
    n = 8000 if args.quick else args.rows
    report = Report(args, benchmark="streaming_roofline", n_rows=n)
    report.fit("fourier", "all", fourier, n)
    report.fit("binning", "all", binning, n)
    sizes = [n // 8, n // 4, n // 2, n, *([] if args.quick else [2 * n])]
    for name in ("binning", "Fourier", "TriplyStochastic"):
        report.fit("growth", name, growth, name, sizes)
        report.add("speed-up", name, threads(report, name, 2 * n, 1 if args.quick else 3))
    report.finish(judged(verdicts_of(report.record), args.quick), draw)


if __name__ == "__main__":
    main()
