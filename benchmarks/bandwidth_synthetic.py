"""Fifty columns of which more and more are useless: one bandwidth or one per column.

Afkanpour (2013), Fig. 6.6-6.7. Two Gaussian classes in 50 dimensions, means ±1.75 β/‖β‖ with β_i = (i/50)^γ, unit
covariance: the larger γ, the more columns say nothing. 50 training, 1,000 validation and 2,000 test rows; finite
methods get 50 bandwidths from 10^-3 to 10^3, evenly spaced in log σ. λ of eq. (6.2) is chosen by the alignment on the
validation rows. As in the thesis, except that bounds are those of ``Gaussians("auto")``, and C and λ have coarser
grids. Methods with one bandwidth also run on data of the last γ turned so that their means are those of the first.
Alignment is on 1,000 test rows. ``mkl_methods.py`` has methods and protocol.

python benchmarks/bandwidth_synthetic.py --out results/bandwidth_synthetic.json
"""

from __future__ import annotations

import numpy as np

from common import Journal, finish, grade, handles_of, legend_below, parser, tidy
from comparison import Comparison, c_grid, color_of, options, run_tasks
from mkl_methods import Method, Split, continuous, finite, names_of, svm_record
from papers import THESIS, row

GAMMAS = (0, 1, 2, 5, 10, 20, 40)
COLUMNS, RHO = 50, 1.75
SIZES = (50, 1000, 2000)
SHRINKAGE = tuple(10.0 ** np.arange(-6, 3))
SIGMAS = np.geomspace(1e-3, 1e3, 50)
STEPS = 50
SHOWN = (
    "GCD-2s (1D)",
    "GCD-2s (nD)",
    "GCD-2s (nD, NoReg)",
    "CKL (1D)",
    "CKL (nD)",
    "AMKL",
    "LPMKL (p = 1)",
    "LPMKL (p = 2)",
    "UNIFORM",
    "SVC, grid",
)


def direction_of(gamma) -> np.ndarray:
    """Return the unit vector from one mean to the other."""
    beta = (np.arange(1, COLUMNS + 1) / COLUMNS) ** gamma
    return beta / np.linalg.norm(beta)


def draw_rows(gamma, n, rng):
    """Return n rows and their labels."""
    y = rng.choice([-1.0, 1.0], n)
    return rng.normal(size=(n, COLUMNS)) + np.outer(y, RHO * direction_of(gamma)), y


def split_of(gamma, seed, sizes=SIZES) -> Split:
    """Return a data set."""
    rng = np.random.default_rng([seed, gamma])
    return Split(*(part for n in sizes for part in draw_rows(gamma, n, rng)))


def methods(steps) -> list[Method]:
    """Return the methods of Fig. 6.6."""
    return [
        *continuous(ard=False, extras=False),
        *continuous(ard=True, steps=steps, shrinkage=SHRINKAGE, extras=False),
        *(m for m in finite(SIGMAS) if m.name in SHOWN),
    ]


def work(gamma, seed, name, grid, steps) -> list[dict]:
    """Return the record of a method for one γ and repetition."""
    about = {"task": f"γ = {gamma}", "seed": seed}
    return svm_record(about, methods(steps), name, split_of(gamma, seed), grid, aligned=True)


def turned(gammas, seed) -> Split:
    """Return the data of the last γ, turned so that their means are those of the first."""
    s = split_of(gammas[-1], seed)
    a, b = (direction_of(gamma) for gamma in (gammas[-1], gammas[0]))
    v = (a - b) / np.linalg.norm(a - b)
    return Split(
        *(Z - 2 * np.outer(Z @ v, v) if Z.ndim == 2 else Z for Z in (s.X, s.y, s.Xv, s.yv, s.Xt, s.yt))
    )


def work_turned(gammas, seed, name, grid, steps) -> list[dict]:
    """Return a method's error on turned data."""
    return svm_record({"task": "turned", "seed": seed}, methods(steps), name, turned(gammas, seed), grid)


def rows(compared: Comparison, after: dict) -> list[dict]:
    """Compare with the text around Fig. 6.6 and 6.7; `after` has errors on turned data, one each."""
    errors, aligned = compared.errors, compared.table("alignment")
    first, *_, last = compared.tasks
    one, nd, free = "GCD-2s (1D)", "GCD-2s (nD)", "GCD-2s (nD, NoReg)"

    def mean(m, task):
        return 100 * float(errors[m][task].mean())

    def at(task, *names):
        return f"at {task}: " + ", ".join(f"{m} {mean(m, task):.1f}" for m in names) + " %"

    overfits = min(mean(free, first), mean("CKL (nD)", first)) > 1.5 * mean(one, first)
    alike = {m: float(aligned[m][last].mean()) for m in (nd, "CKL (nD)", one, "AMKL")}
    flat = list(after)
    moved = 100 * max(abs(error - errors[m][last][0]) for m, error in after.items())
    rising = [
        m for m in flat if mean(m, last) > 1.2 * mean(m, first)
    ]  # means of few data sets vary by a tenth
    spent, _ = compared.median_seconds(m for m in SHOWN if m in compared.seconds)
    slower = spent["CKL (1D)"] > spent[one], spent["CKL (nD)"] > spent[free]
    about = {
        "repetitions": compared.counts,
        "settings": "C and λ from fewer values; other bounds of the bandwidths",
    }
    return [
        row(
            THESIS,
            "Fig. 6.6",
            "With one bandwidth the error rises with γ",
            verdict=grade(len(rising) == len(flat), partly=rising),
            paper="rises (a plot)",
            ours="error in %, first and last γ: "
            + ", ".join(f"{m} {mean(m, first):.1f} to {mean(m, last):.1f}" for m in flat),
            because=""
            if len(rising) == len(flat)
            else "it cannot on average: covariances are spherical and the means as far apart for every γ, so that the "
            "classes are the same up to a rotation, which kernels of distances do not see; turning the means of "
            f"{last} into those of {first} changes the error of each of these methods by at most {moved:.1f} points",
            **about,
        ),
        row(
            THESIS,
            "Fig. 6.6",
            "With many useless columns a bandwidth per column is better than one",
            verdict=grade(mean(nd, last) < mean(one, last)),
            paper="better at γ = 40 (a plot)",
            ours=at(last, nd, one),
            **about,
        ),
        row(
            THESIS,
            "Fig. 6.6",
            "Without useless columns it overfits unless shrinkage holds it back",
            verdict=grade(overfits and mean(nd, first) <= mean(one, first) + 1, partly=overfits),
            paper="NoReg and CKL (nD) drastically worse at γ = 0 (a plot)",
            ours=at(first, nd, free, "CKL (nD)", one),
            **about,
        ),
        row(
            THESIS,
            "Fig. 6.6",
            "CKL is slower than GCD-2s, with one bandwidth and, without the search for λ, with many",
            verdict=grade(all(slower), partly=any(slower)),
            paper="slower (a plot)",
            ours=f"median CPU seconds {spent['CKL (1D)']:.2f} and {spent[one]:.2f}; {spent['CKL (nD)']:.2f} and "
            f"{spent[free]:.2f}, {spent[nd]:.2f} with the search for λ",
            **about,
        ),
        row(
            THESIS,
            "Fig. 6.7",
            "With many useless columns a bandwidth per column has the higher alignment; AMKL has that of GCD-2s (1D)",
            verdict=grade(
                alike[nd] > alike[one] and abs(alike["AMKL"] - alike[one]) < 0.02,
                partly=alike[nd] > alike[one],
            ),
            paper="so at γ = 40 (a plot)",
            ours=f"at {last}: " + ", ".join(f"{m} {v:.2f}" for m, v in alike.items()),
            **about,
        ),
    ]


def draw(plt, compared: Comparison):
    """Draw error, alignment and time against γ."""
    figure, axes = plt.subplots(1, 3, figsize=(12.5, 4.4), layout="constrained")
    shown = (
        ("error", 100.0, "test error, %"),
        ("alignment", 1.0, "alignment on test rows"),
        ("seconds", 1.0, "CPU seconds"),
    )
    tasks = compared.tasks
    for axis, (field, unit, label) in zip(axes, shown):
        what = compared.table(field)
        for m in SHOWN:
            if m == "SVC, grid" and field == "seconds":  # a search, not a fit
                continue
            values = unit * np.array([what[m][t] for t in tasks])
            low, high = np.percentile(values, [25, 75], axis=1)
            style = "--" if "NoReg" in m or m == "SVC, grid" else "-"
            axis.fill_between(range(len(tasks)), low, high, color=color_of(m), alpha=0.10, lw=0)
            axis.plot(
                np.median(values, axis=1),
                style,
                marker="D" if "(nD" in m else "o",
                color=color_of(m),
                ms=4.5,
                lw=1.5,
                label=m,
            )
        axis.set_xticks(range(len(tasks)), [t.split(" = ")[1] for t in tasks])
        axis.set(xlabel="γ: larger, more useless columns", ylabel=label)
        tidy(axis)
    axes[0].set_yscale("log")
    axes[0].set_yticks([5, 7, 10, 15, 20, 30], ["5", "7", "10", "15", "20", "30"])
    axes[0].minorticks_off()
    axes[2].set_yscale("log")
    legend_below(figure, handles_of(axes[0]), ncols=5, fontsize=9)
    figure.suptitle(f"50 columns, 50 training rows: {compared.repetitions('data set')}", fontsize=11)
    return figure


def main():
    p = parser(__doc__)
    options(p, 10, (0, 4))
    p.add_argument("--gammas", type=int, nargs="+", default=GAMMAS, help="values of γ")
    args = p.parse_args()
    journal = Journal(args.out, args.fresh)
    gammas, repetitions, grid, steps = args.gammas, args.repetitions, c_grid(*args.decades), STEPS
    if args.quick:
        gammas, repetitions, grid, steps = (0, 40), 2, (1.0, 100.0, 1e4), 5
    names = names_of(methods(steps))
    tasks = [(g, seed, name, grid, steps) for seed in range(repetitions) for g in gammas for name in names]
    found = Comparison.run(work, tasks, args, journal)
    flat = [(gammas, 0, name, grid, steps) for name in SHOWN if "(nD" not in name]
    after = {r["method"]: r["error"] for r in run_tasks(work_turned, flat, args, journal)}
    record = found.record("bandwidth_synthetic", rows(found, after))
    about = (THESIS, "Fig. 6.6", "Mean test error in %")
    record["tables"] = [found.task_table(about, [m for m in SHOWN if m in found.methods])]
    finish(record, args.out, figures={"": lambda plt: draw(plt, found)}, journal=journal)


if __name__ == "__main__":
    main()
