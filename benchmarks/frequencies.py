"""When a list of kernels fails: three frequencies behind the labels (Afkanpour 2013, Fig. 3.2-3.3).

Labels are the sign of sin(√2 x) + sin(√12 x) + sin(√60 x), x uniform in [-10, 10]; Dirichlet kernels
1 + 2 cos(σ (x - z)); 500 training, 500 validation and 1,000 test rows. Finite methods get the frequencies 0, 1, ..., 9
as in the thesis, and a fine list, pitch 0.1 up to 20 ("[fine]"); the others search [0, 20]. ``mkl_methods.py`` has
the protocol.

python benchmarks/frequencies.py --out results/frequencies.json
"""

from __future__ import annotations

import itertools

import numpy as np

from common import Journal, finish, judged, parser, tidy, verdict
from comparison import Comparison, c_grid, color_of, options, run_tasks, strip
from manykernels import AlignedKernel
from manykernels.families import Dirichlets
from manykernels.kernels import Dirichlet
from manykernels.solvers import Greedy, GreedyAlignment, MirrorDescent
from mkl_methods import Method, Split, evaluate, finite, svm

TRUTH = np.sqrt([2.0, 12.0, 60.0])
SIZES = (500, 500, 1000)
FINE = " [fine]"
SEARCH = Dirichlets((0, 20))


def split_of(seed, sizes=SIZES) -> Split:
    """Return a data set."""
    rng = np.random.default_rng(seed)
    parts = []
    for n in sizes:
        x = rng.uniform(-10, 10, n)
        parts += [x[:, None], np.sign(np.sin(np.multiply.outer(x, TRUTH)).sum(axis=1))]
    return Split(*parts)


def methods(fine: bool) -> list[Method]:
    """Return the methods of Fig. 3.3, and more."""
    found = [
        Method("GCD-2s (1D)", SEARCH, GreedyAlignment(corrective=False)),
        Method("GCD-2s (1D), refit", SEARCH, GreedyAlignment()),
        Method("GCD-2s (1D), Euclidean", SEARCH, GreedyAlignment("euclidean", corrective=False)),
        Method("CKL (1D)", SEARCH, Greedy(20, corrective=False, max_iter=20)),
        Method("IKL (1D)", SEARCH, Greedy(20, max_iter=20)),
        Method("SGD-1s (1D)", SEARCH, MirrorDescent(50)),
    ]
    lists = {"": range(10), **({FINE: np.arange(0, 20.05, 0.1)} if fine else {})}
    for label, frequencies in lists.items():
        listed = finite(frequencies, label, single=not label, kernel=Dirichlet)
        found += [m for m in listed if not m.name.startswith("OBSCURE")]
    return found


def kernel_error(s: Split, frequencies, grid) -> float:
    """Return the test error of an SVM on a plain sum of Dirichlet kernels."""
    parts = [
        sum(1 + 2 * np.cos(w * (Z - s.X.T)) for w in frequencies) / (3 * len(frequencies))
        for Z in (s.X, s.Xv, s.Xt)
    ]
    return svm(*parts, s, grid)["error"]


def single(start, stop, frequencies, sizes, grid) -> list[dict]:
    """Return the errors of single frequencies on the first data set (Fig. 3.2)."""
    s = split_of(0, sizes)
    return [{"sigma": float(w), "error": kernel_error(s, [w], grid)} for w in frequencies[start:stop]]


def work(seed, sizes, grid, fine) -> list[dict]:
    """Return the records of one data set, the true frequencies' among them."""
    s = split_of(seed, sizes)
    about = {"task": "frequencies", "seed": seed}
    records = [{**about, "method": m.name, **evaluate(m, s, grid)} for m in methods(fine)]
    for k in (1, 2, 3):
        for which in itertools.combinations(range(3), k):
            name = "true " + ", ".join(f"√{TRUTH[i] ** 2:.0f}" for i in which)
            records.append({**about, "method": name, "error": kernel_error(s, TRUTH[list(which)], grid)})
    learned = AlignedKernel(SEARCH, solver=GreedyAlignment(corrective=False)).fit(s.X, s.y)
    table = [(row["sigma"], row["weight"]) for row in learned.combination_.table()]
    records[0]["found"] = table
    return records


def verdicts(compared: Comparison, curve) -> list[str]:
    """Compare with chapter 3."""
    mean = {m: 100 * float(v["frequencies"].mean()) for m, v in compared.errors.items()}
    true = {m: v for m, v in mean.items() if m.startswith("true")}
    all_three = next(v for m, v in true.items() if m.count("√") == 3)
    pairs = [v for m, v in true.items() if m.count("√") == 2]
    near = [min(r["error"] for r in curve if abs(r["sigma"] - w) < 0.15) for w in TRUTH]
    far = min(r["error"] for r in curve if np.abs(r["sigma"] - TRUTH).min() > 0.3)
    listed = ("AMKL", "LPMKL (p = 1)", "LPMKL (p = 2)", "UNIFORM")
    found = [
        verdict(
            "The true frequencies have the lowest errors of single kernels (Fig. 3.2)",
            max(near) < far,
            f"of {len(curve)} frequencies, within 0.15 of the true ones "
            + ", ".join(f"{100 * v:.1f}" for v in near)
            + f" %, further than 0.3 from all of them {100 * far:.1f} % at best (thesis: not below 24 % singly).",
        ),
        verdict(
            "Three kernels together are far better than one or two (H1)",
            all_three < 0.5 * min(pairs),
            f"{all_three:.1f} % beside {min(pairs):.1f} to {max(pairs):.1f} % for two (thesis: 2.3, and 16.4 to 21.3).",
        ),
        verdict(
            "Methods over all frequencies come close to the three true ones, those over 0, ..., 9 do not (H2)",
            max(mean["GCD-2s (1D)"], mean["CKL (1D)"]) < all_three + 4
            and min(mean[m] for m in listed) > 2 * max(mean["GCD-2s (1D)"], mean["CKL (1D)"]),
            ", ".join(
                f"{m} {mean[m]:.1f}" for m in ("GCD-2s (1D)", "CKL (1D)", "IKL (1D)", "SGD-1s (1D)", *listed)
            )
            + " %.",
        ),
    ]
    tables = tables_of(compared)
    off = [max(min(abs(w - t) for w, _ in table) for t in TRUTH) for table in tables]
    found.append(
        verdict(
            "GCD-2s finds frequencies close to the true ones (Fig. 3.3, right)",
            float(np.median(off)) < 0.1,
            f"the furthest true frequency is {np.median(off):.3f} from one found, median over data sets.",
        )
    )
    if "AMKL" + FINE in mean:
        found.append(
            verdict(
                "A list of pitch 0.1 or finer would do (footnote 2)",
                min(mean[m + FINE] for m in listed) < all_three + 4,
                ", ".join(f"{m} {mean[m + FINE]:.1f}" for m in listed) + " % over 201 frequencies.",
            )
        )
    return found


def tables_of(compared: Comparison) -> list:
    """Return the frequencies and weights that GCD-2s found, for every data set."""
    return [r["found"] for r in compared.records if "found" in r]


def draw(plt, compared: Comparison, curve):
    """Draw the errors of single frequencies, of the methods, and the frequencies found."""
    errors, tables = compared.errors, tables_of(compared)
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13.5, 4.6), layout="constrained")
    left.plot([r["sigma"] for r in curve], [100 * r["error"] for r in curve], color="#12486b", lw=1.0)
    left.set(xlabel="frequency σ of a single kernel", ylabel="test error, %", xlim=(0, 20))
    left.set_title("One kernel is never enough", fontsize=10)
    names = sorted(
        (m for m in errors if not m.startswith("true") or m.count("√") == 3),
        key=lambda m: np.median(errors[m]["frequencies"]),
    )
    for i, m in enumerate(names):
        color = "#999999" if m.startswith("true") else color_of(m)
        strip(middle, i, 100 * errors[m]["frequencies"], color)
    middle.set_yticks(
        range(len(names)), ["the three true ones" if m.startswith("true") else m for m in names], fontsize=8
    )
    middle.invert_yaxis()
    middle.set(xlabel="test error, %", xlim=(0, None))
    middle.set_title("All frequencies, or a list of them", fontsize=10)
    for table in tables:
        sigma, weight = np.array(table).T
        right.vlines(sigma, 0, weight / weight.sum(), color="#2a6f97", alpha=0.6, lw=1.6)
    right.set(xlabel="frequency found by GCD-2s", ylabel="share of the weight", xlim=(0, 20), ylim=(0, None))
    right.set_title(f"Data sets: {len(tables)}; one line per kernel", fontsize=10)
    for axis in (left, right):
        for w in TRUTH:
            axis.axvline(w, color="#c1121f", ls="--", lw=0.9, zorder=0)
    tidy(left, middle, right)
    figure.suptitle("Dirichlet kernels; dashed: the frequencies behind the labels", fontsize=11)
    return figure


def main():
    p = parser(__doc__)
    options(p, 5, (-2, 3))
    p.add_argument("--points", type=int, default=1000, help="frequencies tried one by one")
    p.add_argument("--no-fine", action="store_true", help="leave out the list of pitch 0.1, which is slow")
    args = p.parse_args()
    journal = Journal(args.out, args.fresh)
    repetitions, sizes, grid, points, fine = (
        args.repetitions,
        SIZES,
        c_grid(*args.decades),
        args.points,
        not args.no_fine,
    )
    if args.quick:
        repetitions, sizes, grid, points, fine = 1, (250, 200, 500), grid[2:5:2], 40, False
    frequencies = np.union1d(np.linspace(0, 20, points + 1), TRUTH)
    chunks = [(a, a + 50, frequencies, sizes, grid[::2]) for a in range(0, len(frequencies), 50)]
    curve = run_tasks(single, chunks, args, journal)
    tasks = [(seed, sizes, grid, fine) for seed in range(repetitions)]
    found = Comparison.run(work, tasks, args, journal)
    lines = judged(verdicts(found, curve), args.quick)
    record = {**found.record("frequencies", "Afkanpour 2013, Fig. 3.2-3.3", lines), "single": curve}
    finish(record, args.out, figures={"": lambda plt: draw(plt, found, curve)}, journal=journal)


if __name__ == "__main__":
    main()
