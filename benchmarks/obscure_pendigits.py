"""Pendigits, four views: error and objective against time, over p.

Orabona et al. (2012), Fig. 2 (bottom) and Fig. 3. One RBF kernel per view, exp(-d²/mean d²), as in section 5.1.2; the
views are coordinates, abscissae, ordinates and steps of the pen, as the paper's own four are not in the data here.
3,000 of the 7,494 training rows by default (about eight minutes; ``--rows 7494`` for all), all 3,498 test rows, one C
for all methods. Stochastic methods are run with ``--seeds`` orders of the rows: errors, seconds and objectives are
means, curves those of the first.

- Obscure and Pegasos-MKL: max-hinge, every p of the paper's grid;
- p-norm MKL: LpNorm on one-vs-rest hinges, as in the paper, at the same p. "joint" is LpNorm on the max-hinge, which
  is the optimum of Obscure's problem;
- SILP: one-vs-rest hinges, p = 1. MC-MKL: SILP on the max-hinge, p = 1.

Seconds are CPU seconds, looking at the test error not counted. Points of batch methods are fits of their own with
fewer iterations.

python benchmarks/obscure_pendigits.py --data DIR --out results/obscure_pendigits.json
"""

from __future__ import annotations

import time
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.multiclass import OneVsRestClassifier

from common import Clock, Journal, error_of, finish, grade, load_split, parser, plain_log, say, tidy, where
from manykernels import MKLClassifier
from manykernels.solvers import SILP, LpNorm, Obscure
from papers import ORABONA, row

GRID = (1.01, 1.05, 1.1, 1.25, 1.5, 1.75, 2.0)
#: The p of Fig. 2, and the iterations after which batch methods are looked at.
SHOWN = 1.25
STOPS = (1, 3)
#: Values of C at which Obscure is compared with Pegasos-MKL besides, and multiples of the optimal objective to reach.
OTHER_C = (1.0, 100.0)
LEVELS = (10.0, 2.0, 1.2)
COLORS = {
    "Obscure": "#2a6f97",
    "Pegasos-MKL": "#7db8d6",
    "LpNorm": "#6a994e",
    "LpNorm, joint": "#b5c99a",
    "SILP": "#c1121f",
    "MC-MKL": "#e09f3e",
}


def views_of(X):
    """Return coordinates, abscissae, ordinates and steps of eight points of a pen."""
    return [X, X[:, ::2], X[:, 1::2], np.diff(X.reshape(-1, 8, 2), axis=1).reshape(len(X), -1)]


def kernels(folder, rows):
    """Return the training and test stacks and labels."""
    X, y, Xt, yt = load_split("pendigits", folder)
    take = np.random.default_rng(0).permutation(len(X))[:rows]
    train = views_of(X[take].astype(float) / 100)
    scales = [euclidean_distances(V[:1000], squared=True).mean() for V in train]

    def stack(views):
        squares = (
            euclidean_distances(V, Z, squared=True) / s for V, Z, s in zip(views, train, scales, strict=True)
        )
        return np.stack([np.exp(-D).astype(np.float32) for D in squares], axis=2)

    return stack(train), y[take], stack(views_of(Xt.astype(float) / 100)), yt


class Watch:
    """Objective of every epoch and test error of some, in CPU seconds; looking does not count."""

    def __init__(self, Kt, yt, classes):
        self.Kt, self.yt, self.classes = Kt, yt, classes
        self.start, self.away = time.process_time(), 0.0
        self.points: list[dict] = []
        self.next = 1

    def __call__(self, step):
        now = time.process_time()
        point = {"seconds": now - self.start - self.away, "objective": step.objective}
        if step.iteration >= self.next:
            self.next = int(np.ceil(1.3 * step.iteration + 0.1))
            point["error"] = error_of(step.predictor(), self.classes, self.Kt, self.yt)
        self.points.append(point)
        self.away += time.process_time() - now


class Task:
    """One data set and one C, with so many orders of the rows for stochastic methods."""

    def __init__(self, folder, rows, C, seeds, journal):
        self.K, self.y, self.Kt, self.yt = kernels(folder, rows)
        self.C, self.seeds, self.journal = C, seeds, journal

    def model(self, solver, loss="max_hinge"):
        return MKLClassifier("precomputed", solver=solver, loss=loss, C=self.C, calibrate=False)

    def warm(self):
        """Compile what is compiled."""
        K, y = self.K[:200, :200], self.y[:200]
        self.model(Obscure(1.5, epochs=2)).fit(K, y)
        for loss in ("hinge", "max_hinge"):
            self.model(LpNorm(1.5, max_iter=2), loss).fit(K, y)

    def error(self, model):
        return float(np.mean(model.predict(self.Kt) != self.yt))

    def once(self, p, seed, options):
        """Return the record of one run of Obscure or Pegasos-MKL."""
        watch = Watch(self.Kt, self.yt, np.unique(self.y))
        solver = Obscure(p, random_state=seed, **options)
        model = self.model(solver).fit(self.K, self.y, on_iteration=watch)
        seconds = time.process_time() - watch.start - watch.away
        stages = model.trace_.extra["stage"]
        return {
            "seconds": seconds,
            "error": self.error(model),
            "objective": model.objective_,
            "epochs": len(stages),
            "online_epochs": stages.count("online"),
            "updates": int(np.sum(model.trace_.extra["updates"])),
            "weights": (model.weights_ / model.weights_.sum()).tolist(),
            "curve": watch.points,
        }

    def stochastic(self, name, p, **options):
        """Return the mean of the runs of Obscure or Pegasos-MKL, with the curve of the first."""
        runs = [
            self.journal.of((len(self.y), self.C, name, p, seed), lambda s=seed: self.once(p, s, options))
            for seed in range(self.seeds)
        ]
        means = {key: np.mean([r[key] for r in runs], axis=0).tolist() for key in runs[0] if key != "curve"}
        spread = float(np.std([r["error"] for r in runs]))
        return {"method": name, "p": p, "C": self.C, **means, "error_std": spread, "curve": runs[0]["curve"]}

    def batch(self, name, p, solver, joint):
        """Return the record of a batch method."""
        key = (len(self.y), self.C, name, p)
        return self.journal.of(key, lambda: self.stopped_early(name, p, solver, joint))

    def stopped_early(self, name, p, solver, joint):
        """Return the record of a batch method; its curve has the errors of fits stopped early."""
        curve = []
        for stop in (*STOPS, solver.max_iter):
            limited = type(solver)(**{**solver.get_params(), "max_iter": stop})
            model = self.model(limited, "max_hinge" if joint else "hinge")
            model = model if joint else OneVsRestClassifier(model)
            with Clock() as clock:
                model.fit(self.K, self.y)
            curve.append({"seconds": clock.cpu, "error": self.error(model)})
            if joint:
                curve[-1]["objective"] = model.objective_
        weights = model.weights_ if joint else np.mean([m.weights_ for m in model.estimators_], axis=0)
        return {
            "method": name,
            "p": p,
            "C": self.C,
            **curve[-1],
            "weights": (weights / weights.sum()).tolist(),
            "curve": curve,
        }


def told(record):
    """Print a record on one line, and return it."""
    error, seconds = 100 * record["error"], record["seconds"]
    weights = " ".join(f"{w:.2f}" for w in record["weights"])
    say(
        f"{record['method']:14} p = {record['p']:<5g} error {error:5.2f} % {seconds:7.2f} s  weights {weights}"
    )
    return record


def run(task, grid):
    """Return the records of all methods."""
    records = []
    for p in grid:
        records.append(told(task.stochastic("Obscure", p)))
        records.append(told(task.stochastic("Obscure, online", p, stage="online")))
        records.append(told(task.stochastic("Pegasos-MKL", p, stage="batch", radius=np.inf)))
        records.append(told(task.batch("LpNorm", p, LpNorm(p), joint=False)))
        records.append(told(task.batch("LpNorm, joint", p, LpNorm(p, tol=1e-4), joint=True)))
    records.append(told(task.batch("SILP", 1.0, SILP(), joint=False)))
    records.append(told(task.batch("MC-MKL", 1.0, SILP(), joint=True)))
    return records


def contrast(task, p):
    """Return Obscure, Pegasos-MKL and their optimum at other C."""
    records, C = [], task.C
    for task.C in OTHER_C:
        records.append(told(task.stochastic("Obscure", p)))
        records.append(told(task.stochastic("Pegasos-MKL", p, stage="batch", radius=np.inf)))
        records.append(told(task.batch("LpNorm, joint", p, LpNorm(p, tol=1e-4), joint=True)))
    task.C = C
    return records


def of(records, method, p=None):
    return where(records, method=method) if p is None else where(records, method=method, p=p)[0]


def seconds_to(curve, key, level):
    """Return the seconds to a value of at most `level`, or infinity."""
    return next((w["seconds"] for w in curve if key in w and w[key] <= level), np.inf)


def span(values, form=".1f"):
    """Return the least and the largest value, or one where they look alike."""
    low, high = f"{min(values):{form}}", f"{max(values):{form}}"
    return low if low == high else f"{low} to {high}"


def times(seconds):
    return " / ".join("never" if np.isinf(t) else f"{t:.2f}" for t in seconds)


def since_first(record, key, level):
    """Return the seconds from the first epoch to a value of at most `level`: checks of the stack are not counted."""
    return seconds_to(record["curve"], key, level) - record["curve"][0]["seconds"]


def about_pegasos(records, others, about):
    """Return the row on Obscure and Pegasos-MKL at all C: which is first near the optimum, and which ends nearer."""
    texts, sooner, early, nearer = [], [], [], []
    for at in [where(others, C=C) for C in OTHER_C] + [where(records, p=SHOWN)]:
        best = of(at, "LpNorm, joint")[0]
        pair = [of(at, method)[0] for method in ("Obscure", "Pegasos-MKL")]
        found = [[since_first(r, "objective", level * best["objective"]) for level in LEVELS] for r in pair]
        right = [since_first(r, "error", best["error"] + 0.005) for r in pair]
        last = [r["objective"] / best["objective"] for r in pair]
        sooner += [a < b for a, b in zip(*found, strict=True) if np.isfinite(min(a, b))]
        early.append(right[0] < right[1])
        nearer.append(last[0] < last[1])
        texts.append(
            f"C = {best['C']:g}: {times(found[0])} s against {times(found[1])} s, error {times(right[:1])} against "
            f"{times(right[1:])} s, in the end {last[0]:.2f} and {last[1]:.2f} times the optimum"
        )
    levels = ", ".join(f"{v:g}" for v in LEVELS)
    return row(
        ORABONA,
        "Fig. 2",
        "Pendigits: converges much faster than Pegasos-MKL",
        verdict=grade(all(sooner + early + nearer), partly=any(sooner + early + nearer)),
        paper="much faster, in error and in objective; C from cross-validation",
        ours=f"seconds to {levels} times the optimum and to half a point from its error, p = {SHOWN:g}; "
        + "; ".join(texts)
        + f"; the objective falls sooner at {sum(sooner)} of {len(sooner)} pairs of C and level, the error at "
        f"{sum(early)} of {len(early)} C; nearer the optimum in the end at {sum(nearer)} C",
        **about,
    )


def about_accuracy(records, about):
    """Return the row on errors over p."""
    ours, theirs = (100 * np.array([r["error"] for r in of(records, m)]) for m in ("Obscure", "LpNorm"))
    apart = np.abs(ours - theirs).max()
    return row(
        ORABONA,
        "Fig. 3",
        "As accurate as one-vs-rest p-norm MKL at every p",
        verdict=grade(apart < 0.5, partly=np.abs(ours - theirs).min() < 0.5),
        paper="alike; p-norm MKL varies less over p",
        ours=f"{span(ours, '.2f')} % against {span(theirs, '.2f')} %, at most {apart:.2f} points apart",
        **about,
    )


def about_speed(records, about):
    """Return the row on the time until the error is that of p-norm MKL."""
    obscure, batch = of(records, "Obscure"), of(records, "LpNorm")
    sooner = [
        b["seconds"] / seconds_to(o["curve"], "error", b["error"] + 0.001)
        for o, b in zip(obscure, batch, strict=True)
    ]
    reached = [f for f in sooner if f > 0]  # the others take for ever
    whole = [b["seconds"] / o["seconds"] for o, b in zip(obscure, batch, strict=True)]
    near = f", there {span(reached)} times as fast" if reached else ""
    return row(
        ORABONA,
        "Fig. 3",
        "10 to 100 times as fast as one-vs-rest p-norm MKL",
        verdict=grade(min(sooner) >= 10, partly=reached and max(whole) > 1),
        paper="10 to 100 times",
        ours=f"within 0.1 points of its error at {len(reached)} of {len(sooner)} p{near}; whole fits {span(whole)} "
        "times",
        **about,
    )


def about_mc_mkl(records, about):
    """Return the row on MC-MKL."""
    mc, silp = (of(records, m)[0]["seconds"] for m in ("MC-MKL", "SILP"))
    rest = {m: max(r["seconds"] for r in of(records, m)) for m in ("Obscure", "LpNorm")} | {"SILP": silp}
    factors = ", ".join(f"{m} {mc / t:.1f}" for m, t in rest.items())
    return row(
        ORABONA,
        "Fig. 3",
        "MC-MKL is slower than all others by orders of magnitude",
        verdict=grade(mc > 10 * max(rest.values()), partly=mc > 10 * min(rest.values())),
        paper="orders of magnitude",
        ours=f"{mc:.1f} s; times the slowest fit of others: {factors}",
        because=f"the machine for the max-hinge is about as fast here as ten binary ones: SILP takes {mc:.1f} s with "
        f"the one, {silp:.1f} s with the others",
        **about,
    )


def about_online(records, about):
    """Return the rows on the online stage over p."""
    online, both = of(records, "Obscure, online"), of(records, "Obscure")
    epochs, updates = ([r[k] for r in online] for k in ("epochs", "updates"))
    extra = np.array([100 * (a["error"] - b["error"]) for a, b in zip(online, both, strict=True)])
    small = np.array([r["p"] <= 1.1 for r in online])
    part = []
    for r in both:
        seconds = [w["seconds"] - r["curve"][0]["seconds"] for w in r["curve"]]
        part.append(seconds[min(round(r["online_epochs"]), len(seconds)) - 1] / seconds[-1])
    share = [r["online_epochs"] / r["epochs"] for r in both]
    counted = f"{epochs[0]:.0f} passes with {updates[0]:,.0f} updates at p = {online[0]['p']:g}, {epochs[-1]:.0f} with "
    return [
        row(
            ORABONA,
            "Fig. 4",
            "The online stage converges faster with large p",
            verdict=grade(all(np.diff(updates) < 0), partly=updates[0] > updates[-1]),
            paper="falls with p",
            ours=f"{counted}{updates[-1]:,.0f} at {online[-1]['p']:g}",
            **about,
        ),
        row(
            ORABONA,
            "Fig. 4",
            "The online stage alone is close to the optimum in certain cases, for p up to 1.1",
            verdict=grade(extra[small].max() < 0.5, partly=extra[small].min() < 0.5),
            paper="close for p up to 1.1",
            ours=f"{span(extra[small], '+.2f')} points of error for p up to 1.1, {span(extra[~small], '+.2f')} above",
            **about,
        ),
        row(
            ORABONA,
            "Fig. 4",
            "The online stage is 10 to 1,000 times as fast as both",
            verdict=grade(max(part) <= 0.1, partly=min(part) <= 0.1),
            paper="0.1 to 10 % of the time",
            ours=f"{span(part, '.0%')} of the time, and {span(share, '.0%')} of the passes; the second stage ends "
            "after 120",
            **about,
        ),
    ]


def verdicts(records, others, seeds, rows):
    """Compare with sections 5.3 to 5.5."""
    views = "the four views are our own"
    few = f"{rows:,} of 7,494 training rows; C = {records[0]['C']:g} for all; {views}"
    about = {"repetitions": f"1 split, {seeds} orders of the rows", "settings": few}
    online = {**about, "settings": f"pendigits in place of Caltech-101; {few}"}
    return [
        about_pegasos(records, others, about),
        about_accuracy(records, about),
        about_speed(records, about),
        about_mc_mkl(records, about),
        *about_online(records, online),
    ]


def trace(axis, record, key, label, base=0.0, **style):
    """Draw the points of a curve that have `key`, over `base` where given."""
    points = [
        (w["seconds"], w[key] / base - 1 if base else 100 * w[key]) for w in record["curve"] if key in w
    ]
    x, y = np.array(points).T
    axis.plot(np.maximum(x, 1e-3), y, label=label, lw=1.6, **style)


def draw(plt, records, others, grid):
    figure, axes = plt.subplots(1, 3, figsize=(14, 4.6), layout="constrained")
    p = SHOWN
    for method, color in COLORS.items():
        record = of(records, method)[0] if method in ("SILP", "MC-MKL") else of(records, method, p)
        marks = {"marker": "o", "ms": 4} if len(record["curve"]) < 10 else {}
        trace(axes[0], record, "error", method, color=color, **marks)
        if method in ("Obscure", "Pegasos-MKL"):
            trace(
                axes[1],
                record,
                "objective",
                method,
                of(records, "LpNorm, joint", p)["objective"],
                color=color,
            )
            rest = where(others, C=max(OTHER_C))
            label = f"{method}, C = {max(OTHER_C):g}"
            best = of(rest, "LpNorm, joint")[0]["objective"]
            trace(axes[1], of(rest, method)[0], "objective", label, best, color=color, ls="--")
    colors = plt.get_cmap("viridis")(np.linspace(0, 0.92, len(grid)))
    for q, color in zip(grid, colors, strict=True):
        trace(axes[2], of(records, "Obscure", q), "error", f"p = {q:g}", color=color)
        record = of(records, "LpNorm", q)
        axes[2].plot(record["seconds"], 100 * record["error"], "s", color=color, mec="white", ms=7)
    end = of(records, "LpNorm, joint", p)
    axes[1].axvline(
        end["seconds"], color=COLORS["LpNorm"], ls=":", lw=1.4, label="LpNorm, joint: at the optimum"
    )
    axes[1].set(
        yscale="log",
        ylabel="objective over the optimum, minus 1",
        title=f"objective, p = {p:g}, C = {end['C']:g}",
    )
    axes[0].set(ylabel="test error (%)", title=f"error, p = {p:g} (SILP, MC-MKL: 1)")
    axes[2].set(ylabel="test error (%)", title="Obscure over p; squares: LpNorm")
    top = 3 * 100 * min(r["error"] for r in records)
    for axis in axes:
        if axis is not axes[1]:
            axis.set_ylim(0.8 * top / 3, top)
        axis.set(xscale="log", xlabel="CPU seconds")
        plain_log(axis.xaxis)
    tidy(*axes, legend=8)
    return figure


def main():
    p = parser(__doc__)
    p.add_argument("--rows", type=int, default=3000, help="training rows")
    p.add_argument("--C", type=float, default=10.0)
    p.add_argument("--seeds", type=int, default=3, help="orders of the rows for stochastic methods")
    args = p.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    grid = (1.05, 1.25, 2.0) if args.quick else GRID
    rows, seeds = (800, 1) if args.quick else (args.rows, args.seeds)
    journal = Journal(args.out, args.fresh)
    task = Task(args.data, rows, args.C, seeds, journal)
    task.warm()
    records = run(task, grid)
    others = contrast(task, SHOWN)
    record = {
        "benchmark": "obscure_pendigits",
        "reproduces": "Orabona et al. 2012, Fig. 2 (bottom), Fig. 3, Fig. 4 (bottom)",
        "training_rows": rows,
        "C": args.C,
        "rows": verdicts(records, others, seeds, rows),
        "results": records + others,
    }
    figures = {"": lambda plt: draw(plt, records, others, grid)}
    finish(record, args.out, figures=figures, journal=journal)


if __name__ == "__main__":
    main()
