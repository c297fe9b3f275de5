"""What the benchmarks of many rows share: one process for every fit, a report as records come, and peers.

Every fit runs in a process of its own, which reads its rows from a folder of .npy files: CPU seconds and peak memory
are then the method's, not its predecessors'. Only quick runs stay in one process. Compiled loops are warmed up on a few
rows before the clock starts. Threads are those of the environment (``OMP_NUM_THREADS``), for the peers too.
"""

from __future__ import annotations

import multiprocessing
import os
import pathlib
import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.linear_model import Ridge, RidgeClassifier, SGDClassifier, SGDRegressor
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline

from common import Clock, finish, peak_mib, plain_log, say, write
from manykernels import MKLClassifier, MKLRegressor
from manykernels.solvers import Blockwise

# -- one process for every fit -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Rows:
    """Training and test rows, in memory or in a folder of .npy files."""

    X: np.ndarray
    y: np.ndarray
    Xt: np.ndarray
    yt: np.ndarray

    def save(self, folder) -> pathlib.Path:
        """Write the arrays and return the folder."""
        folder = pathlib.Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("X", "y", "Xt", "yt"):
            np.save(folder / f"{name}.npy", getattr(self, name))
        return folder

    @classmethod
    def load(cls, folder, n=None) -> Rows:
        """Return the rows, the first `n` of the training part."""
        X, y, Xt, yt = (np.load(pathlib.Path(folder) / f"{k}.npy") for k in ("X", "y", "Xt", "yt"))
        return cls(X[:n], y[:n], Xt, yt)


def memory(field: str) -> float:
    """Return VmRSS or VmHWM in MiB; the peak of the process where /proc is missing."""
    try:
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) / 1024 for line in status if line.startswith(field))
    except (OSError, StopIteration):
        return peak_mib()


def forget_peak() -> None:
    """Start the peak anew from what is resident now, where the system can do that."""
    try:
        with open("/proc/self/clear_refs", "w") as control:
            control.write("5")
    except OSError:
        pass


def score_of(model, X, y, metric: str) -> float:
    """Return accuracy, AUC or R²."""
    if metric == "auc":
        scores = (
            model.decision_function(X)
            if hasattr(model, "decision_function")
            else model.predict_proba(X)[:, 1]
        )
        return float(roc_auc_score(y, scores))
    return float(model.score(X, y))


def measured(fit, rows: Rows, metric="score") -> dict:
    """Fit and score; seconds, memory of the process, and what the fit added to what was there before."""
    forget_peak()
    before = memory("VmRSS")
    with Clock() as clock, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = fit(rows.X, rows.y)
    peak = memory("VmHWM")
    with Clock() as guess:
        value = score_of(model, rows.Xt, rows.yt, metric)
    record = {
        "score": value,
        "cpu_s": clock.cpu,
        "wall_s": clock.wall,
        "score_cpu_s": guess.cpu,
        "peak_mib": peak,
        "fit_mib": peak - before,
        "rows": len(rows.X),
    }
    if getattr(model, "C_", None) is not None:
        record["C"] = float(model.C_)
    own = [
        str(w.message) for w in caught if "manykernels" in str(w.filename) or "mean loss" in str(w.message)
    ]
    return {**record, "warnings": own[:3]} if own else record


def record_of(func, *args, quick: bool) -> dict:
    """Return what ``func(*args)`` returns in a fresh process, or in this one where it is quick.

    Memory is the method's alone in a process of its own only. A failure is a record, too.
    """
    try:
        if quick:
            return func(*args)
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            return pool.submit(func, *args).result()
    except Exception as error:  # also a process that was killed for its memory
        return {"failed": f"{type(error).__name__}: {error}"}


class Report:
    """Records as they come, written after each, so that an interrupted run leaves what it has."""

    def __init__(self, args, **fields):
        self.out = args.out
        self.record = {**fields, "quick": args.quick, "threads": os.environ.get("OMP_NUM_THREADS", "all")}

    def fit(self, part: str, name: str, func, *args) -> dict:
        """Keep what ``func(*args)`` returns, from a process of its own; quick runs stay in this one."""
        return self.add(part, name, record_of(func, *args, quick=self.record["quick"]))

    def add(self, part: str, name: str, value) -> dict:
        """Keep a record under part and name, say so on the standard error, and return it."""
        self.record.setdefault(part, {})[name] = value
        say(f"{part} | {name} | {brief(value)}")
        write(self.record, self.out)
        return value

    def finish(self, verdicts: dict[str, str], draw) -> None:
        """Draw the record by ``draw(plt, record)``, and print everything."""
        self.record["verdicts"] = verdicts
        finish(self.record, self.out, figure=lambda plt: draw(plt, self.record))


def brief(record) -> str:
    """Return the numbers of a record on one line."""
    if not isinstance(record, dict):
        return str(record)
    if "failed" in record:
        return f"failed: {record['failed']}"
    if "score" not in record:
        return ", ".join(f"{k} {v:.4g}" for k, v in record.items() if isinstance(v, int | float))
    return (
        f"{record['score']:.4f}  {record['cpu_s']:7.1f} CPU s  {record['wall_s']:7.1f} s  "
        f"+{record['fit_mib']:5.0f} MiB  {record['rows']} rows"
    )


def table(part: dict, title: str) -> None:
    """Write a table of records to the standard error, best first."""
    say("", title)
    good = [(name, r) for name, r in part.items() if "score" in r]
    for name, r in sorted(good, key=lambda item: -item[1]["score"]):
        say(f"  {name:34s} {brief(r)}")


# -- methods -----------------------------------------------------------------------------------------------


def median_distance(X, columns=slice(None), rows=1000) -> float:
    """Return the median distance of pairs of some rows."""
    some = X[np.random.default_rng(0).choice(len(X), min(rows, len(X)), replace=False)][:, columns].astype(
        float
    )
    squares = np.square(some).sum(1)
    distances = squares[:, None] + squares[None] - 2 * some @ some.T
    return float(np.sqrt(np.median(np.maximum(distances[np.triu_indices(len(some), 1)], 0))))


def peers(kind: str, median: float) -> dict:
    """Return the peers by name: estimators at their defaults, as far as they have any; LightGBM with more leaves, too.

    255 leaves, l2 = 1, a minimum hessian of 1 and 800 rounds are what suits tables with many rows.
    """
    classify = kind == "classification"
    sampler = RBFSampler(gamma=2 / median**2, n_components=2048, random_state=0)
    sgd = (SGDClassifier if classify else SGDRegressor)(max_iter=5, tol=None, random_state=0)
    nystroem = Nystroem(gamma=2 / median**2, n_components=500, random_state=0)
    ridge = RidgeClassifier() if classify else Ridge()
    boosting = HistGradientBoostingClassifier if classify else HistGradientBoostingRegressor
    out = {
        "RBFSampler 2048 + SGD": make_pipeline(sampler, sgd),
        "Nystroem 500 + Ridge": make_pipeline(nystroem, ridge),
        "HistGradientBoosting": boosting(random_state=0),
        "ExtraTrees": (ExtraTreesClassifier if classify else ExtraTreesRegressor)(random_state=0),
    }
    try:
        import lightgbm
    except ImportError:
        return out
    threads = int(os.environ.get("OMP_NUM_THREADS", "0")) or None
    light = lightgbm.LGBMClassifier if classify else lightgbm.LGBMRegressor
    plain = {"random_state": 0, "verbose": -1, "n_jobs": threads}
    more = {"num_leaves": 255, "reg_lambda": 1.0, "min_child_weight": 1.0, "n_estimators": 800}
    return {**out, "LightGBM": light(**plain), "LightGBM, 800 rounds": light(**plain, **more)}


def fit_peer(folder, name, kind, metric="score", n=None) -> dict:
    """Measure a peer, in the process it is called in."""
    warnings.filterwarnings("ignore", message="X does not have valid feature names")
    rows = Rows.load(folder, n)
    return measured(peers(kind, median_distance(rows.X))[name].fit, rows, metric)


def in_one_pass(model, classes=None, batches=60):
    """Return a function that fits by ``partial_fit``, batch after batch."""

    def fit(X, y):
        for part in np.array_split(np.arange(len(X)), min(batches, max(1, len(X) // 500))):
            if classes is None:
                model.partial_fit(X[part], y[part])
            else:
                model.partial_fit(X[part], y[part], classes=classes)
        return model

    return fit


def warm_up(model, X, y, rows=2000) -> None:
    """Compile what a fit needs, on a few rows."""
    from sklearn.base import clone

    pick = np.random.default_rng(0).permutation(len(X))[:rows]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clone(model).fit(X[pick], y[pick])


def ours(kind: str, kernels="laplacian", **solver):
    """Return Blockwise with learned bandwidths."""
    estimator = MKLClassifier if kind == "classification" else MKLRegressor
    return estimator(kernels, solver=Blockwise(random_state=0, **solver))


# -- figures ------------------------------------------------------------------------------------------------


def draw_scores(ax, results: dict, own, text=str) -> None:
    """Draw scores against CPU seconds, labelled by ``text(name)``; labels keep apart, those of `own` are red."""
    good = sorted(
        ((r["score"], r["cpu_s"], name) for name, r in results.items() if "score" in r), reverse=True
    )
    if not good:
        return
    scores = [score for score, _, _ in good]
    gap, place = 0.07 * max(scores[0] - scores[-1], 1e-3), np.inf
    for score, seconds, name in good:
        place = min(score, place - gap)
        while any(abs(place - other) < 0.8 * gap and 1.2 < t / seconds < 4 for other, t, _ in good):
            place -= gap / 4  # a point would lie on the label
        color, marker = ("#c1121f", "o") if name in own else ("#555555", "s")
        ax.plot(seconds, score, marker, ms=7, color=color)
        ax.annotate(
            text(name),
            (seconds, score),
            (seconds * 1.25, place),
            va="center",
            fontsize=8,
            arrowprops={"arrowstyle": "-", "color": "#bbbbbb", "lw": 0.7},
        )
    ax.set_ylim(bottom=min(ax.get_ylim()[0], place - gap))  # room for the last label
    ax.set_xscale("log")
    times = [seconds for _, seconds, _ in good]
    ax.set_xlim(min(times) / 1.4, max(times) * 6)
    plain_log(ax.xaxis)
    ax.set_xlabel("CPU seconds to fit")
    ax.spines[["top", "right"]].set_visible(False)
