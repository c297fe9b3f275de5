"""Run the benchmarks one after the other, or those that repeat a paper (``--papers``, ``make reproduce``).

Each writes its record, and figures, to ``results/NAME.json``. What is finished is kept, so that an interrupted run
goes on where it was, most scripts within a benchmark, too (``common.Journal``); ``--fresh`` begins anew. Before each
one stands the CPU time that it took where it was measured last, and that of all that is left. In the end the verdicts
are compared with those stored in ``docs/results``. Other options are passed on to every script.

python benchmarks/run_all.py --papers --data DIR
python benchmarks/run_all.py --papers --data DIR --quick
python benchmarks/run_all.py --only raetsch_svm letter_pairs --data DIR
"""

from __future__ import annotations

import argparse
import json
import pathlib
import shlex
import subprocess
import sys
from dataclasses import dataclass

from common import command
from reproduction import ROOT, spent, stored

HERE = pathlib.Path(__file__).parent
#: CPU seconds that each part took in a quick run, where it was measured last.
TIMES = HERE / "times.json"
#: Of the comparisons, unless they are given fewer.
REPETITIONS = 10


@dataclass(frozen=True)
class Part:
    """A script with its options; `papers`: it repeats a figure or table of a paper."""

    name: str
    options: str = ""
    script: str = ""
    papers: bool = True

    def words(self, more) -> list[str]:
        """Return the command line, `more` being options for all."""
        return [str(HERE / f"{self.script or self.name}.py"), *shlex.split(self.options), *more]


PARTS = (
    Part("sampling_quadratic"),
    Part("mirror_descent_convergence"),
    Part("mirror_descent_dimensions"),
    Part("thesis_setup"),
    Part("products_tables"),
    Part("frequencies"),
    Part("bandwidth_synthetic"),
    Part("bandwidth_time"),
    Part("mnist_pairs"),
    Part("letter_pairs"),
    Part("alignment_landscape"),
    Part("raetsch_svm", "--parts svm", "raetsch"),
    Part("raetsch_ridge", "--parts ridge", "raetsch"),
    Part("obscure_toy"),
    Part("obscure_pendigits"),
    Part("obscure_p"),
    Part("obscure_kernels"),
    Part("obscure_mnist", "--p 1.5 --C 10"),
    Part("obscure_mnist_curve", "--curve 1000 2000 5000 --every 5", "obscure_mnist"),
    Part("triply_doubly"),
    Part("triply_stochastic_rate"),
    Part("default_tables", papers=False),
    Part("digits_bandwidths", papers=False),
    Part("gram_once", papers=False),
    Part("many_finite_kernels", papers=False),
    Part("messy_tables", papers=False),
    Part("mirror_descent_rows", papers=False),
    Part("products_recovery", papers=False),
    Part("products_growth", papers=False),
    Part("cluster", papers=False),
    Part("interaction_discovery", papers=False),
    Part("knockoff_columns", papers=False),
    Part("stability_selection", papers=False),
    Part("streaming_covtype", papers=False),
    Part("streaming_mnist", papers=False),
    Part("stochastic_alignment", papers=False),
    Part("streaming_roofline", papers=False),
    Part("streaming_tables", papers=False),
    Part("streaming_views", papers=False),
    Part("survival_tables", papers=False),
    Part("views_tables", papers=False),
    Part("views_lacking", papers=False),
    Part("encoding_targets", papers=False),
    Part("findings_components", papers=False),
)


class Times:
    """CPU seconds of parts where they were measured last: of quick runs in a file, else those of the stored records."""

    def __init__(self, quick: bool):
        self.quick = json.loads(TIMES.read_text()) if TIMES.exists() else {}
        known = {name: r["seconds"] * _more(r) for name, r in stored().items() if r.get("seconds")}
        self.known = self.quick if quick else known

    def said(self, parts) -> str:
        """Return the time of some parts together, and how many of them were never timed."""
        unknown = [p.name for p in parts if p.name not in self.known]
        text = f"{spent(sum(self.known.get(p.name, 0.0) for p in parts))} of CPU time"
        if not unknown:
            return text
        others = f" and {len(unknown)} that were never timed"
        return text + others if len(unknown) < len(parts) else "never timed"

    def keep(self, name: str, seconds: float) -> None:
        """Write down what a part took in a quick run."""
        self.quick[name] = round(seconds, 1)
        TIMES.write_text(json.dumps(dict(sorted(self.quick.items())), indent=1) + "\n")


def _more(record: dict) -> float:
    """Return how many times as long a part takes as its record: one of fewer repetitions says so in its command."""
    words = record["command"].split()
    fewer = int(words[words.index("--repetitions") + 1]) if "--repetitions" in words else REPETITIONS
    return REPETITIONS / fewer


def finished(out: pathlib.Path, words) -> bool:
    """Return whether a record is there, of the same command."""
    return out.exists() and json.loads(out.read_text()).get("command") == command(words)


def run(part: Part, out: pathlib.Path, more) -> bool:
    """Run a part and return whether it ended well; its JSON goes to the file only."""
    words = [sys.executable, *part.words(more), "--out", str(out)]
    return subprocess.run(words, check=False, stdout=subprocess.DEVNULL).returncode == 0


def compared(out: pathlib.Path, before: dict) -> list[str]:
    """Return what became of the verdicts of a record beside the stored ones."""
    old = {(r["source"], r["item"], r["claim"]): r["verdict"] for r in before.get("rows", [])}
    lines = []
    for r in json.loads(out.read_text()).get("rows", []):
        was = old.get((r["source"], r["item"], r["claim"]), "no row")
        changed = "as stored" if was == r["verdict"] else f"STORED: {was}"
        lines.append(f"  {r['source']}, {r['item']}: {r['verdict']} ({changed}); {r['claim']}")
    return lines


def options():
    """Return our options, and those for the scripts."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [part.name for part in PARTS]
    p.add_argument("--papers", action="store_true", help="only what repeats a figure or table of a paper")
    p.add_argument("--only", nargs="+", default=names, choices=names, metavar="NAME", help=", ".join(names))
    p.add_argument("--results", type=pathlib.Path, default=ROOT / "results", help="folder of the records")
    p.add_argument("--keep-times", action="store_true", help="write down how long each took with --quick")
    p.add_argument("--quick", action="store_true", help="small problems, to see that all run; no verdicts")
    args, more = p.parse_known_args()
    if args.quick:
        more.append("--quick")
        args.results = args.results / "quick"
    return args, more


def progress(parts, args, more) -> list[str]:
    """Run what is not finished, and return the names of those that failed."""
    kept = [] if "--fresh" in more else parts
    left = [p for p in parts if p not in kept or not finished(args.results / f"{p.name}.json", p.words(more))]
    times, failed = Times(args.quick), []
    print(f"{len(parts) - len(left)} of {len(parts)} are finished; the rest: {times.said(left)}")
    for i, part in enumerate(left):
        own, rest = times.said([part]), times.said(left[i:])
        print(f"== {part.name}, {i + 1} of {len(left)}: {own}; to the end: {rest}", flush=True)
        out = args.results / f"{part.name}.json"
        if not run(part, out, more):
            failed.append(part.name)
        elif args.quick and args.keep_times:
            times.keep(part.name, json.loads(out.read_text())["seconds"])
    return failed


def main():
    args, more = options()
    try:
        parts = [p for p in PARTS if p.name in args.only and (p.papers or not args.papers)]
        failed = progress(parts, args, more)
    except KeyboardInterrupt:
        sys.exit("Interrupted; the same command goes on here.")
    before = stored()
    for out in sorted(args.results.glob("*.json")):
        lines = compared(out, before.get(out.stem, {})) if not args.quick else []
        print(*([out.stem, *lines] if lines else []), sep="\n", end="\n" if lines else "")
    if not args.quick:
        print(
            f"To take them into the pages: python benchmarks/reproduction.py --store {args.results}/NAME.json --write"
        )
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
