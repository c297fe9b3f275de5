"""Methods compared: the same tasks for all, several repetitions; tables, ranks, figures and what goes into the JSON."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from scipy.stats import rankdata

from common import Journal, panels, say, tidy

BLUES, GREENS, REDS = (
    ("#12486b", "#2a6f97", "#7db8d6"),
    ("#4f772d", "#6a994e", "#b5c99a"),
    ("#9b2226", "#d1495b"),
)
COLORS = {
    "GCD-2s (1D)": BLUES[0],
    "GCD-2s (1D), refit": BLUES[1],
    "GCD-2s (1D), coarse": "#3fa7c4",
    "GCD-2s (1D), no own pairs": "#5e548e",
    "GCD-2s (1D), Euclidean": BLUES[2],
    "GCD-2s (nD)": "#6a3d9a",
    "GCD-2s (nD, NoReg)": "#b39bc8",
    "CKL (1D)": REDS[0],
    "CKL (nD)": "#e07a5f",
    "IKL (1D)": REDS[1],
    "IKL (nD)": "#f2a7a0",
    "SGD-1s (1D)": "#b08900",
    "SGD-1s (nD)": "#e3c565",
    "AMKL": GREENS[0],
    "LPMKL (p = 1)": GREENS[1],
    "LPMKL (p = 2)": GREENS[2],
    "OBSCURE": "#2f9e8f",
    "Single": "#888888",
    "UNIFORM": "#444444",
    "SGD-1s (2)": "#b08900",
    "SGD-1s (3)": "#e3c565",
    "SGD-1s (3, prior)": "#7a5c00",
    "HMKL (2)": BLUES[0],
    "HMKL (3)": BLUES[2],
    "NLMKL (2)": REDS[0],
    "NLMKL (3)": REDS[1],
    "UNIFORM (1)": "#222222",
    "UNIFORM (2)": "#666666",
    "UNIFORM (3)": "#aaaaaa",
    "SVC, grid": "#000000",
    "ridge, grid": "#000000",
}


def color_of(method: str) -> str:
    """Return a method's colour, whatever its grid."""
    return COLORS[method.split(" [")[0]]


def options(p, repetitions: int, decades=(-1, 4)) -> None:
    """Add the options of a comparison with repetitions, C being chosen."""
    p.add_argument(
        "--decades",
        type=int,
        nargs=2,
        default=decades,
        help="C is 10 to the powers from the one to the other",
    )
    repeated(p, repetitions)


def repeated(p, repetitions: int) -> None:
    """Add the options of what is repeated."""
    p.add_argument(
        "--repetitions", type=int, default=repetitions, help="random splits, or data sets, per task"
    )
    p.add_argument("--jobs", type=int, default=2, help="processes")
    p.add_argument("--minutes", type=float, help="begin no more repetitions after this many minutes")


def c_grid(low: int, high: int) -> tuple[float, ...]:
    """Return the values of C; the thesis has 10^-5, 10^-4.5, ..., 10^5."""
    return tuple(10.0 ** np.arange(low, high + 1))


def run_tasks(work, tasks, args, journal: Journal) -> list[dict]:
    """Return the records of ``work(*task)`` over tasks, in order, on `jobs` processes of one BLAS thread each.

    What the journal has is not run again. After `minutes` no more are begun: put repetitions in the outer loop, so that
    all tasks have about as many. A step of the progress says how long the rest will take, at the pace so far.
    """
    from joblib import Parallel, delayed
    from threadpoolctl import threadpool_limits

    started = time.monotonic()
    keys = [journal.key(work.__name__, *t) for t in tasks]
    found = {key: part for key in keys if (part := journal.get(key)) is not None}
    left = [(key, t) for key, t in zip(keys, tasks) if key not in found]
    begun = (x for x in left if args.minutes is None or time.monotonic() - started < 60 * args.minutes)
    with threadpool_limits(1):
        parts = Parallel(n_jobs=args.jobs, return_as="generator", pre_dispatch=args.jobs)(
            delayed(_clocked)(work, key, t) for key, t in begun
        )
        for i, (key, part, seconds) in enumerate(parts):
            found[key] = journal.put(key, part, seconds)
            journal.kept_seconds += seconds if args.jobs > 1 else 0.0  # spent by another process
            spent = time.monotonic() - started
            rest = spent / (i + 1) * (len(left) - i - 1)
            say(f"{len(found)} of {len(tasks)} done in {spent:.0f} s, about {rest / 60:.0f} min left")
    return [record for key in keys if key in found for record in found[key]]


def _clocked(work, key, task):
    """Return the key, what a task gives, and the CPU seconds it took."""
    started = time.process_time()
    part = work(*task)
    return key, part, time.process_time() - started


def whole(records) -> list[dict]:
    """Return the records of those repetitions of a task that all methods have ended."""
    groups: dict[tuple, list[dict]] = {}
    for r in records:
        groups.setdefault((r["task"], r["seed"]), []).append(r)
    most = max(map(len, groups.values()))
    return [r for group in groups.values() if len(group) == most for r in group]


class Comparison:
    """Methods on tasks, over repetitions.

    Parameters
    ----------
    records : list of dict
        One for every task, method and repetition: "task", "method", and figures such as "error", "seconds" and
        "alignment", not all in every record.
    """

    def __init__(self, records):
        self.records = records
        self.errors, self.seconds = self.table("error"), self.table("seconds")

    @classmethod
    def run(cls, work, tasks, args, journal: Journal, unit=100.0, keeps=None) -> Comparison:
        """Return the comparison of the records of ``work(*task)``, its tables printed; `args` are the options.

        A task begins with its name, the repetition, a split, the method and the values of C. Where ``keeps(split,
        method)``, repetitions after the first have the C that the first one chose (as Rätsch et al. do).
        """
        records = []
        if keeps is not None:
            first, tasks = [t for t in tasks if t[1] == 0], [t for t in tasks if t[1] > 0]
            records = run_tasks(work, first, args, journal)
            chosen = {(r["task"], r["method"]): (r["C"],) for r in records}
            tasks = [
                (name, seed, s, method, chosen[name, method] if keeps(s, method) else grid, *more)
                for name, seed, s, method, grid, *more in tasks
            ]
        found = cls(whole(records + run_tasks(work, tasks, args, journal)))
        found.print(unit=unit)
        if found.table("alignment"):
            say("alignment on the test rows")
            found.print("alignment", unit=1.0, digits=3)
        return found

    def table(self, field: str) -> dict[str, dict[str, np.ndarray]]:
        """Return {method: {task: values over repetitions}}."""
        found: dict[str, dict[str, list]] = {}
        for r in self.records:
            if field in r:
                found.setdefault(r["method"], {}).setdefault(r["task"], []).append(r[field])
        return {m: {t: np.array(v) for t, v in tasks.items()} for m, tasks in found.items()}

    @property
    def methods(self) -> list[str]:
        """The methods, in the order in which they came."""
        return list(self.errors)

    @property
    def tasks(self) -> list[str]:
        """The tasks, in the order in which they came."""
        return list(next(iter(self.errors.values())))

    def ranks(self, names=None) -> dict[str, float]:
        """Return the median over tasks of a method's rank by mean error, 1 being the best; ties share a rank."""
        names = self.methods if names is None else [m for m in self.methods if m in names]
        ranks = [rankdata([self.errors[m][t].mean() for m in names]) for t in self.errors[names[0]]]
        return dict(zip(names, np.median(ranks, axis=0).tolist()))

    def ranks_beside(self, published: dict) -> tuple[dict[str, float], str]:
        """Return the ranks among the methods of a published table, and a text with its ranks in brackets."""
        ranks = self.ranks(published)
        return ranks, ", ".join(f"{m} {ranks[m]:g} ({published[m]:g})" for m in published)

    def better(self, a: str, b: str) -> tuple[int, int, int]:
        """Return on how many tasks the first method has the lower mean error, the same, the higher."""
        apart = [self.errors[a][t].mean() - self.errors[b][t].mean() for t in self.errors[a]]
        same = sum(abs(v) <= 1e-12 for v in apart)
        return sum(v < -1e-12 for v in apart), same, sum(v > 1e-12 for v in apart)

    def median_seconds(self, names) -> tuple[dict[str, float], str]:
        """Return the median CPU seconds of methods, over tasks and repetitions, and a text that says them."""
        median = {m: float(np.median(np.concatenate(list(self.seconds[m].values())))) for m in names}
        return median, "median CPU seconds " + ", ".join(f"{m} {v:.2f}" for m, v in median.items())

    @property
    def counts(self) -> str:
        """How many repetitions the tasks have: "3", or "3 to 5"."""
        counts = sorted({len(v) for tasks in self.errors.values() for v in tasks.values()})
        return " to ".join(str(c) for c in dict.fromkeys((counts[0], counts[-1])))

    def repetitions(self, noun="split") -> str:
        """Return what a figure shows: "one split", or "median and quartiles over 3 to 5 splits"."""
        return f"one {noun}" if self.counts == "1" else f"median and quartiles over {self.counts} {noun}s"

    def rank_table(self, about, published, unit=100.0, digits=2) -> dict:
        """Return median ranks among the published methods, the published ones in brackets, and mean errors of all.

        The standard error is that of the mean over tasks, over the repetitions that all tasks have.
        """
        ranks, lines = self.ranks(published), []
        for m in sorted(self.methods, key=lambda m: (ranks.get(m, np.inf), self.methods.index(m))):
            rank = f"{ranks[m]:g} ({published[m]:g})" if m in ranks else "–"
            whole = min(len(self.errors[m][t]) for t in self.tasks)
            means = np.mean([self.errors[m][t][:whole] for t in self.tasks], axis=0)
            lines.append([m, rank, self._cell(unit * means, digits)])
        return self._table(about, ["", "median rank", "mean error"], lines)

    def task_table(self, about, names, unit=100.0, digits=1) -> dict:
        """Return mean errors, methods by tasks; `about`: source, item, title."""
        lines = [[m, *(f"{unit * self.errors[m][t].mean():.{digits}f}" for t in self.tasks)] for m in names]
        return self._table(about, ["", *self.tasks], lines)

    def error_table(self, about, names, unit=100.0, digits=1) -> dict:
        """Return mean errors with their standard errors, tasks by methods; `about`: source, item, title."""
        lines = [[t, *(self._cell(self.errors[m][t] * unit, digits) for m in names)] for t in self.tasks]
        return self._table(about, ["", *names], lines)

    def _table(self, about, head, lines) -> dict:
        source, item, title = about
        title = f"{title}; repetitions: {self.counts}"
        return {"source": source, "item": item, "title": title, "head": head, "lines": lines}

    @staticmethod
    def _cell(values, digits) -> str:
        text = f"{values.mean():.{digits}f}"
        if len(values) == 1:
            return text
        return f"{text} ± {values.std(ddof=1) / np.sqrt(len(values)):.{digits}f}"

    def summary(self) -> list[dict]:
        """Return mean and quartiles of every field for every task and method, for the JSON."""
        groups: dict[tuple, list[dict]] = {}
        for r in self.records:
            groups.setdefault((r["task"], r["method"]), []).append(r)
        rows = []
        for (task, method), group in groups.items():
            row: dict[str, Any] = {"task": task, "method": method, "repetitions": len(group)}
            for field in ("error", "alignment", "seconds", "kernels", "C"):
                values = [r[field] for r in group if field in r]
                if values:
                    quartiles = np.percentile(values, [25, 50, 75])
                    row[field] = {"mean": float(np.mean(values)), "quartiles": quartiles.tolist()}
            rows.append(row)
        return rows

    def record(self, benchmark: str, rows, published=None) -> dict:
        """Return what goes into the JSON, `rows` for the page; with a `published` table ranks, too."""
        ranks = {"median_ranks": self.ranks(), "median_ranks_thesis_methods": self.ranks(published)}
        return {
            "benchmark": benchmark,
            "rows": rows,
            **(ranks if published else {}),
            "results": self.summary(),
        }

    def print(self, field="error", unit=100.0, digits=2) -> None:
        """Print means, one row per method, best rank first."""
        values, ranks = self.table(field), self.ranks()
        width = max(map(len, values)) + 2
        say("method".ljust(width) + "  rank" + "".join(t.rjust(max(8, len(t) + 2)) for t in self.tasks))
        for m in sorted(values, key=lambda m: ranks.get(m, np.inf)):
            cells = (
                f"{unit * values[m][t].mean():.{digits}f}".rjust(max(8, len(t) + 2))
                if t in values[m]
                else " "
                for t in self.tasks
            )
            say(m.ljust(width) + f"{ranks.get(m, np.nan):6.1f}" + "".join(cells))

    def strips(self, plt, title, xlabel, unit=100.0, columns=4):
        """Draw one panel per task: every method's quartiles and median, methods in the order of their median rank."""
        ranks = self.ranks()
        names = sorted(self.methods, key=ranks.__getitem__)
        size = (3.0, 0.2 * len(names) + 0.75)
        figure, axes = panels(plt, len(self.tasks), columns, size, (1.6, 0.5), sharey=True)
        for axis, task in zip(axes.flat, self.tasks):
            for i, m in enumerate(names):
                if task in self.errors[m]:
                    strip(axis, i, unit * self.errors[m][task], color_of(m), lw=4, ms=5, mew=0.5)
            axis.set_title(task, fontsize=10)
            tidy(axis)
            axis.set_ylim(len(names) - 0.4, -0.6)
        for axis in axes[:, 0]:  # shared, but the size of the labels is not
            axis.set_yticks(range(len(names)), [f"{m}  ({ranks[m]:g})" for m in names], fontsize=8)
        for axis in axes[-1]:
            axis.set_xlabel(xlabel)
        figure.suptitle(f"{title}: {self.repetitions()}; median rank in brackets", fontsize=11)
        return figure


def strip(axis, at, values, color, lw=5, ms=6, mew=None) -> None:
    """Draw quartiles and median of some values, as a bar and a dot."""
    low, middle, high = np.percentile(values, [25, 50, 75])
    axis.plot([low, high], [at, at], color=color, lw=lw, alpha=0.35, solid_capstyle="round")
    axis.plot(middle, at, "o", color=color, ms=ms, mec="white", mew=mew)
