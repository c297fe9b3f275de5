"""A second source of command lines: tables that are odd in one known way each, and options drawn letter by letter."""

from __future__ import annotations

import bz2
import datetime as dt
import decimal
import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import feather, parquet

#: Letters that options and names are drawn from.
LETTERS = list("abyxC019.,-+=eE_ /\\'\"*?[]{}$%#@!~\t\n\x00\x1b\x7fßé日\u202e\U0001f600")
NUMBERS = (
    "0",
    "-0",
    "1",
    "2",
    "1e5",
    "1e-9",
    "nan",
    "inf",
    "-inf",
    "1e309",
    "1e-400",
    "0x1",
    "1_0",
    "٣",
    "1.5",
    "½",
    "",
)


def rows(rng, n: int) -> tuple[list[str], list[list[str]]]:
    """Return names and rows as text: two numbers, a category, and a target."""
    a, b = rng.standard_normal((2, n))
    y = (
        np.where(a + 0.3 * rng.standard_normal(n) > 0, "up", "down")
        if rng.random() < 0.5
        else (a * b).round(4)
    )
    group = rng.choice(["u", "v", "w"], size=n)
    cells = zip(*([str(v) for v in column] for column in (a.round(4), b.round(4), group, y)), strict=True)
    return ["a", "b", "group", "y"], [list(row) for row in cells]


def as_text(names, cells, comma=",", end="\n") -> str:
    return "".join(comma.join(line) + end for line in [names, *cells])


# -- text --------------------------------------------------------------------------------------------------


def _each(cells, column, value):
    return [[value if j == column else cell for j, cell in enumerate(row)] for row in cells]


def _with(cells, rng, column, value):
    """Return rows with one cell replaced."""
    out = [list(row) for row in cells]
    if out:
        out[int(rng.integers(len(out)))][column] = value
    return out


#: Text that is odd in one way each, from the names and rows of a table.
TEXTS = {
    "plain": lambda n, c, rng: as_text(n, c),
    "semicolons": lambda n, c, rng: as_text(n, c, ";"),
    "bars": lambda n, c, rng: as_text(n, c, "|"),
    "spaces": lambda n, c, rng: as_text(n, c, " "),
    "old lines": lambda n, c, rng: as_text(n, c, end="\r"),
    "mixed lines": lambda n, c, rng: as_text(n, c[:5], end="\r\n") + as_text(c[0] if c else n, c[5:]),
    "blank lines": lambda n, c, rng: "\n\n" + as_text(n, c, end="\n\n"),
    "comments": lambda n, c, rng: "# a table\n" + as_text(n, c),
    "a comma too many": lambda n, c, rng: as_text(n, c, end=",\n"),
    "ragged": lambda n, c, rng: as_text(n, [row[: rng.integers(1, 5)] for row in c]),
    "empty": lambda n, c, rng: "",
    "a blank": lambda n, c, rng: " \n",
    "one name": lambda n, c, rng: "y",
    "no rows": lambda n, c, rng: as_text(n, []),
    "one row": lambda n, c, rng: as_text(n, c[:1]),
    "two rows": lambda n, c, rng: as_text(n, c[:2]),
    "one column": lambda n, c, rng: as_text(["y"], [row[3:] for row in c]),
    "two columns": lambda n, c, rng: as_text(["a", "y"], [[row[0], row[3]] for row in c]),
    "no target": lambda n, c, rng: as_text(n[:3], [row[:3] for row in c]),
    "constant target": lambda n, c, rng: as_text(n, _each(c, 3, "1")),
    "blank target": lambda n, c, rng: as_text(n, _each(c, 3, "")),
    "spaces as target": lambda n, c, rng: as_text(n, _each(c, 3, "  ")),
    "missing in target": lambda n, c, rng: as_text(
        n, _with(c, rng, 3, str(rng.choice(["", "NA", "nan", "null", "inf"])))
    ),
    "constant column": lambda n, c, rng: as_text(n, _each(c, 0, "7")),
    "blank column": lambda n, c, rng: as_text(n, _each(c, 0, "")),
    "all columns constant": lambda n, c, rng: as_text(n, _each(_each(_each(c, 0, "7"), 1, "7"), 2, "u")),
    "two of a name": lambda n, c, rng: as_text(["a", "a", "group", "y"], c),
    "two targets": lambda n, c, rng: as_text(["a", "y", "group", "y"], c),
    "names without letters": lambda n, c, rng: as_text(["", " ", "\t", "y"], c),
    "a quoted name": lambda n, c, rng: as_text(['"a\nb"', '"b,""c"""', "group", "y"], c),
    "numbers as names": lambda n, c, rng: as_text(["1", "2", "3", "y"], c),
    "no header": lambda n, c, rng: as_text(c[0] if c else n, c[1:]),
    "a huge cell": lambda n, c, rng: as_text(n, _with(c, rng, 2, "x" * 300_000)),
    "a huge quoted cell": lambda n, c, rng: as_text(n, _with(c, rng, 2, '"' + "x\n" * 150_000 + '"')),
    "a huge name": lambda n, c, rng: as_text(["a" * 100_000, *n[1:]], c),
    "a huge number": lambda n, c, rng: as_text(
        n, _with(c, rng, 0, str(rng.choice(["1e400", "9" * 400, "-1e308"])))
    ),
    "huge targets": lambda n, c, rng: as_text(n, [[*row[:3], f"{k}e307"] for k, row in enumerate(c)]),
    "whole targets": lambda n, c, rng: as_text(n, [[*row[:3], str(2**62 + k)] for k, row in enumerate(c)]),
    "commas in numbers": lambda n, c, rng: as_text(n, _each(c, 0, '"1,5"')),
    "dates": lambda n, c, rng: as_text(n, [[f"20{k % 99:02}-01-02", *row[1:]] for k, row in enumerate(c)]),
    "odd dates": lambda n, c, rng: as_text(n, [["0000-00-00", "9999-12-31", *row[2:]] for row in c]),
    "flags": lambda n, c, rng: as_text(n, [[*row[:3], str(k % 2 == 0)] for k, row in enumerate(c)]),
    "identifiers": lambda n, c, rng: as_text(
        n, [[row[0], row[1], f"id{k}", row[3]] for k, row in enumerate(c)]
    ),
    "escapes": lambda n, c, rng: as_text(n, _each(c, 2, "\x1b[2J[red]\x07")),
    "a zero byte": lambda n, c, rng: as_text(n, _with(c, rng, 2, "u\x00v")),
    "wide": lambda n, c, rng: as_text(
        [*(f"c{j}" for j in range(400)), "y"], [[*([row[0]] * 400), row[3]] for row in c[:30]]
    ),
    "quoted all": lambda n, c, rng: as_text([f'"{v}"' for v in n], [[f'"{v}"' for v in row] for row in c]),
    "a quote inside": lambda n, c, rng: as_text(n, _with(c, rng, 2, 'u"v')),
    "an open quote": lambda n, c, rng: as_text(n, _with(c, rng, 2, '"u')),
    "single quotes": lambda n, c, rng: as_text(n, _each(c, 2, "'u,v'")),
}
ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32", "latin-1", "utf-7", "cp1252")
ENDINGS = (".csv", ".tsv", ".csv.gz", ".csv.bz2", ".CSV", ".txt", ".parquet", "", ".csv.zst")


def write_text(folder: Path, rng) -> Path:
    """Write text that is odd in one way, sometimes in another encoding, under another ending, or packed and torn."""
    kind = str(rng.choice(list(TEXTS)))
    text = TEXTS[kind](*rows(rng, int(rng.choice([1, 3, 30, 60]))), rng)
    encoding = str(rng.choice(ENCODINGS)) if rng.random() < 0.15 else "utf-8"
    data = text.encode(encoding, "replace")
    ending = str(rng.choice(ENDINGS)) if rng.random() < 0.2 else ".csv"
    if ending == ".tsv":
        data = data.replace(b",", b"\t")
    if rng.random() < 0.8:  # else the name lies
        data = gzip.compress(data) if ending.endswith(".gz") else data
        data = bz2.compress(data) if ending.endswith(".bz2") else data
    if ending.endswith(("z", "2")) and rng.random() < 0.4:
        data = data[: rng.integers(len(data) + 1)]
    path = folder / f"{kind.replace(' ', '-')}{ending}"
    path.write_bytes(data)
    return path


# -- typed tables ----------------------------------------------------------------------------------------


def columns(rng, n: int) -> dict:
    """Return columns of all of Arrow's kinds, by name; each makes sense, or is one that no model reads."""
    x, k = rng.standard_normal(n), np.arange(n)
    day = dt.datetime(2020, 1, 1)
    return {
        "float16": pa.array(x.astype(np.float16)),
        "float32": pa.array(x.astype(np.float32)),
        "uint64": pa.array(np.uint64(2**63) + k.astype(np.uint64)),
        "int8": pa.array((k % 100).astype(np.int8)),
        "flags": pa.array((k % 2 == 0).tolist()),
        "decimal": pa.array([decimal.Decimal(f"{v:.3f}") for v in x]),
        "dates": pa.array([day.date() + dt.timedelta(days=int(i)) for i in k]),
        "times": pa.array([day + dt.timedelta(hours=int(i)) for i in k], pa.timestamp("ns", "UTC")),
        "durations": pa.array([dt.timedelta(seconds=int(i)) for i in k]),
        "clock": pa.array([dt.time(int(i) % 24) for i in k]),
        "text": pa.array([f"t{i % 3}" for i in k]),
        "large text": pa.array([f"t{i % 3}" for i in k], pa.large_string()),
        "dictionary": pa.array([f"t{i % 3}" for i in k]).dictionary_encode(),
        "dictionary of numbers": pa.array((k % 3).tolist()).dictionary_encode(),
        "bytes": pa.array([b"\xff\x00"] * n),
        "lists": pa.array([[1.0, 2.0]] * n),
        "records": pa.array([{"u": 1}] * n),
        "nothing": pa.nulls(n),
        "gaps": pa.array([None if i % 3 else 1.0 for i in k], pa.float64()),
        "wild": pa.array(np.where(k % 5 == 0, np.nan, np.where(k % 7 == 0, np.inf, x))),
    }


def write_typed(folder: Path, rng) -> Path:
    """Write Parquet or Arrow with columns of odd kinds, one of them perhaps the target or twice."""
    n = int(rng.choice([0, 1, 2, 40]))
    known = columns(rng, n)
    names = [str(v) for v in rng.choice(list(known), size=int(rng.integers(0, 4)), replace=False)]
    target = str(rng.choice(list(known))) if rng.random() < 0.4 else "text"
    arrays, labels = [known[v] for v in names], list(names)
    if rng.random() < 0.9:
        arrays, labels = [*arrays, known[target]], [*labels, "y"]
    if rng.random() < 0.7:
        arrays, labels = [*arrays, pa.array(rng.standard_normal(n))], [*labels, "a"]
    if rng.random() < 0.1 and labels:
        labels[0] = "y"
    table = pa.table(arrays, names=labels)
    path = folder / f"typed{rng.choice(['.parquet', '.feather', '.arrow'])}"
    if path.suffix == ".parquet":
        try:
            parquet.write_table(table, str(path), row_group_size=int(rng.choice([1, 7, 100])))
        except (pa.ArrowException, NotImplementedError):  # Parquet does not hold all of them
            path.write_bytes(b"PAR1")
    else:
        feather.write_feather(table, str(path), compression=str(rng.choice(["uncompressed", "lz4", "zstd"])))
    if rng.random() < 0.15:
        data = path.read_bytes()
        path.write_bytes(data[: rng.integers(len(data) + 1)])
    return path


def write_folder(folder: Path, rng) -> Path:
    """Write a folder of tables that do not quite go together."""
    many = folder / "rows"
    many.mkdir()
    names, cells = rows(rng, 40)
    parts = [as_text(names, cells[:20]), as_text(names, cells[20:])]
    kind = int(rng.integers(6))
    if kind == 1:
        parts[1] = as_text([*names[:3], "z"], cells[20:])
    if kind == 2:
        parts[1] = as_text(["a", "b", "y", "group"], cells[20:])
    if kind == 3:
        parts[1] = as_text(names, _each(cells[20:], 0, "word"))
    if kind == 4:
        parts[1] = ""
    for k, part in enumerate(parts):
        (many / f"{k}.csv").write_text(part)
    if kind == 5:
        (many / "notes.txt").write_text("not a table")
        (many / ".hidden.csv").write_text("x")
        (many / "loop").symlink_to(many)
    return many


def write_odd(folder: Path, rng) -> Path:
    """Write an odd table of any kind."""
    return (write_text, write_typed, write_folder)[rng.choice(3, p=[0.7, 0.22, 0.08])](folder, rng)


# -- options -----------------------------------------------------------------------------------------------


OPTIONS = [
    "-t",
    "--target",
    "--kernels",
    "--degree",
    "--solver",
    "--p",
    "--max-iter",
    "--loss",
    "-C",
    "--C",
    "--task",
    "--columns",
    "--drop",
    "--groups",
    "--memory",
    "--test-size",
    "--seed",
    "-o",
    "--checkpoint",
    "--top",
    "--standardize",
    "--no-standardize",
    "--force",
    "--proba",
    "--json",
    "--help",
    "--nonsense",
]
WORDS = [
    "auto",
    "gaussian",
    "laplacian",
    "linear",
    "products",
    "y",
    "a",
    "b",
    "group",
    "uniform",
    "lp-norm",
    "greedy",
    "blockwise",
    "single",
    "alignment",
    "obscure",
    "hinge",
    "logistic",
    "squared",
    "softmax",
    "classify",
    "regress",
    "1GiB",
    "0.5MB",
    "1TiB",
]


def word(rng) -> str:
    """Return a value: a known word, a number of some kind, or letters."""
    kind = rng.integers(4)
    if kind == 0:
        return str(rng.choice(WORDS))
    if kind == 1:
        return str(rng.choice(NUMBERS))
    if kind == 2:
        return (
            str(int(rng.integers(-(10**6), 10**6))) if rng.random() < 0.7 else "9" * int(rng.integers(1, 400))
        )
    return "".join(rng.choice(LETTERS, size=int(rng.integers(0, 12))))


def odd_fit(folder: Path, data: Path, rng) -> list[str]:
    """Return a fit with up to three options that are drawn, and usually a target and a place for the model."""
    words = ["fit", str(data), "-o", str(folder / "m.mk")]
    if rng.random() < 0.95:
        words += ["-t", "y"]
    if rng.random() < 0.5:
        words += ["--kernels", "linear", "--solver", "uniform", "-C", "1"]
    for _ in range(int(rng.choice([0, 0, 1, 2, 3]))):
        option = str(rng.choice(OPTIONS))
        words += [option] if rng.random() < 0.1 else [option, _safe(option, word(rng), folder)]
    return words


def _safe(option: str, value: str, folder: Path) -> str:
    """Return a value for an option; paths stay inside the folder."""
    if option in ("-o", "--checkpoint"):
        return str(folder / value.replace("/", "_").replace("\x00", "_").strip(".")) if value else value
    return value
