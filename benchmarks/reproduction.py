"""The page docs/reproduction.md, and the tables of verdicts on other pages, from the records in docs/results.

A benchmark's record has "rows" (``papers.py``): one or more for each figure or table of a paper that it repeats.
``--store`` takes what the page needs of records, in ``results/``, into ``docs/results/``: the rows, the command and how
long it took; runs with --quick are refused. ``--write`` writes the pages anew. A page has a table of verdicts between
two comments,

    <!-- verdicts: Orabona et al. (2012) -->
    <!-- end of verdicts -->

or a record's tables of figures (``<!-- figures: mnist_pairs -->``, ``<!-- end of figures -->``),
and names a verdict elsewhere by a link, such as ``[reproduced](reproduction.md#afkanpour-2013-fig-63)``; the tests
compare both with the records (``tests/docs/test_reproduction.py``).

python benchmarks/reproduction.py --store results/raetsch.json --write
python benchmarks/reproduction.py --write
"""

from __future__ import annotations

import argparse
import json
import pathlib
import re

from papers import ITEMS, VERDICTS

ROOT = pathlib.Path(__file__).resolve().parents[1]
RESULTS, PAGE = ROOT / "docs" / "results", ROOT / "docs" / "reproduction.md"
BLOCK = re.compile(r"(<!-- verdicts: (?P<of>[^>]+?) -->\n).*?(<!-- end of verdicts -->)", re.DOTALL)
FIGURES = re.compile(r"(<!-- figures: (?P<of>\w+) -->\n).*?(<!-- end of figures -->)", re.DOTALL)
KEPT = ("benchmark", "command", "seconds", "machine", "rows", "tables")


def stored(folder: pathlib.Path = RESULTS) -> dict[str, dict]:
    """Return the records by name."""
    return {f.stem: json.loads(f.read_text(encoding="utf-8")) for f in sorted(folder.glob("*.json"))}


def rows_of(records: dict[str, dict], source: str) -> list[dict]:
    """Return the rows about a paper in the order of its figures and tables, each with its record's name."""
    rows = [{**row, "record": name} for name, record in records.items() for row in record["rows"]]
    order = list(ITEMS[source])
    return sorted((r for r in rows if r["source"] == source), key=lambda r: order.index(r["item"]))


def heading(source: str, item: str) -> str:
    """Return the heading of an item on the page."""
    return f"{source}, {item}"


def anchor(source: str, item: str) -> str:
    """Return the word to which a link to an item leads: its heading as GitHub and MyST make one of it."""
    return re.sub(r"[^a-z0-9 -]", "", heading(source, item).lower()).replace(" ", "-")


def missing(records: dict[str, dict]) -> list[str]:
    """Return the figures and tables without a row."""
    there = {(row["source"], row["item"]) for record in records.values() for row in record["rows"]}
    return [f"{s}, {i}" for s, items in ITEMS.items() for i in items if (s, i) not in there]


# -- tables --------------------------------------------------------------------------------------------------


def cell(text) -> str:
    """Return a text as a cell of a table in Markdown."""
    return str(text).replace("|", "\\|").replace("\n", " ") or "–"


def judgement(row: dict) -> str:
    """Return a verdict with its cause."""
    word = f"**{row['verdict']}**"
    if row["verdict"] == "reproduced":
        return word
    return f"{word} because {row['because']}" if row["because"] else f"{word}; the cause was not measured"


def table(head, lines) -> str:
    """Return a table in Markdown."""
    rule = ["---"] * len(head)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (head, rule, *lines)) + "\n"


def verdict_table(rows) -> str:
    """Return claims and verdicts, for pages that teach; the figures are behind the links."""
    lines = (
        [
            cell(r["claim"]),
            r["item"],
            f"[{r['verdict']}]({PAGE.name}#{anchor(r['source'], r['item'])})",
            cell(r["repetitions"]),
        ]
        for r in rows
    )
    return table(("Claim", "Where", "Verdict", "Repetitions"), lines)


def full_table(rows) -> str:
    """Return all that is known of an item's claims."""
    head = ("Claim", "Paper", "Here", "Verdict", "Repetitions", "Settings that differ")
    first, last = ("claim", "paper", "ours"), ("repetitions", "settings")
    lines = ([*(cell(r[k]) for k in first), cell(judgement(r)), *(cell(r[k]) for k in last)] for r in rows)
    return table(head, lines)


# -- the page ------------------------------------------------------------------------------------------------


def spent(seconds: float) -> str:
    """Return a time as people say it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"


def counted(rows) -> str:
    """Return how many rows have which verdict."""
    counts = {v: sum(r["verdict"] == v for r in rows) for v in VERDICTS}
    return ", ".join(f"{verdict} {count}" for verdict, count in counts.items() if count)


def section(source: str, item: str, rows, records) -> str:
    """Return an item with its claims and the commands that they rest on."""
    names = dict.fromkeys(r["record"] for r in rows)
    commands = [records[n]["command"] for n in names if records[n].get("command")]
    shown = "\n```sh\n" + "\n".join(commands) + "\n```\n" if commands else ""
    tables = [
        t for n in names for t in records[n].get("tables", []) if (t["source"], t["item"]) == (source, item)
    ]
    more = "".join(f"\n{t['title']}:\n\n{table(t['head'], t['lines'])}" for t in tables)
    text = ITEMS[source][item]
    return f"### {heading(source, item)}\n\n{text[0].upper()}{text[1:]}.\n{shown}\n{full_table(rows)}{more}"


def overview(source: str, by_item: dict) -> str:
    """Return one line for every figure and table of a paper."""
    lines = [
        [f"[{item}](#{anchor(source, item)})", cell(ITEMS[source][item]), counted(rows)]
        for item, rows in by_item.items()
    ]
    return table(("Item", "What it shows", "Claims"), lines)


def page(records: dict[str, dict]) -> str:
    """Return the page of all figures and tables."""
    parts = [HEAD]
    for source, title in TITLES.items():
        rows = rows_of(records, source)
        by_item = {i: [r for r in rows if r["item"] == i] for i in ITEMS[source]}
        parts += [
            f"## {source}\n\n{title} {len(rows)} claims: {counted(rows)}.\n",
            overview(source, by_item),
        ]
        parts += [section(source, i, found, records) for i, found in by_item.items() if found]
    timed = [[f"`{name}`", spent(r["seconds"])] for name, r in records.items() if r.get("seconds")]
    return "\n".join([*parts, TAIL, table(("Benchmark", "CPU time"), timed)])


TITLES = {
    "Afkanpour et al. (2013)": "*A randomized mirror descent algorithm for large scale MKL*, ICML.",
    "Afkanpour (2013)": "*Multiple kernel learning with many kernels*, PhD thesis, University of Alberta.",
    "Li et al. (2017)": "*Triply stochastic gradients on multiple kernel learning*, UAI.",
    "Orabona et al. (2012)": "*Multi kernel learning with online-batch optimization*, JMLR.",
}
HEAD = """\
<!-- Written by benchmarks/reproduction.py from docs/results; change those, not this. -->

# The papers' figures and tables, run again

Every figure and table of the papers whose methods this package holds: what the paper claims, its figure, ours, and what
became of the claim. *Reproduced* means that the claim holds here, not that figures agree to the digit; *partly*, that a
part of it does; *differs*, that it does not. A cause is given where it was measured, and only there. Repetitions are
random splits, data sets or seeds.

```sh
make reproduce BENCH_ARGS="--data DIR"           # goes on where it was interrupted
make reproduce BENCH_ARGS="--data DIR --quick"   # ten minutes: that they run, not what they show
```

`DIR` holds the data sets as `.npz` files; without `--data` those that OpenML has are fetched.
"""
TAIL = """\
## What they cost

CPU time, one thread; `make reproduce` runs two processes at a time where it can.
"""


def with_blocks(text: str, records: dict[str, dict]) -> str:
    """Return a page with its tables as the records have them.

    A block names a paper, or some of its items: ``Afkanpour (2013): Fig. 3.2, Fig. 3.3``; one of ``figures`` names the
    record whose tables it shows.
    """

    def fill(found):
        source, _, items = found["of"].partition(": ")
        wanted = items.split(", ") if items else list(ITEMS[source])
        rows = [r for r in rows_of(records, source) if r["item"] in wanted]
        return f"{found[1]}\n{verdict_table(rows)}\n{found[3]}"

    def figures(found):
        tables = records.get(found["of"], {}).get("tables", [])
        shown = "\n".join(f"{t['title']}:\n\n{table(t['head'], t['lines'])}" for t in tables)
        return f"{found[1]}\n{shown}\n{found[3]}"

    return FIGURES.sub(figures, BLOCK.sub(fill, text))


def pages(records: dict[str, dict]) -> dict[pathlib.Path, str]:
    """Return every page that has verdicts, as it should be."""
    found = {PAGE: page(records)}
    for path in sorted(PAGE.parent.glob("*.md")):
        text = path.read_text(encoding="utf-8")
        if path != PAGE and (BLOCK.search(text) or FIGURES.search(text)):
            found[path] = with_blocks(text, records)
    return found


def store(path: pathlib.Path) -> None:
    """Take what the page needs of a record into docs/results."""
    record = json.loads(path.read_text(encoding="utf-8"))
    if record.get("quick"):
        raise SystemExit(f"{path} is of a quick run, which has no verdict.")
    if record.get("rows"):
        _write(RESULTS / path.name, {key: record[key] for key in KEPT if key in record})


def _write(path: pathlib.Path, record: dict) -> None:
    path.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument(
        "--store", type=pathlib.Path, nargs="+", default=[], help="records to take into docs/results"
    )
    p.add_argument("--write", action="store_true", help="write the pages anew")
    args = p.parse_args()
    for path in args.store:
        store(path)
    records = stored()
    for item in missing(records):
        print(f"no row: {item}")
    if args.write:
        for path, text in pages(records).items():
            path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
