"""Every table of a folder as a clean and as a messy CSV, through the command line, with the target named and no more.

The messy file has semicolons, commas as decimal marks, 5 % of its values blank, and a column of text and one of dates
that say nothing of the target. Views are columns with a prefix. Scores are those that ``fit`` prints, on the same rows
held out; beside each is what the plan expected and what the fit took.
"""

from __future__ import annotations

import csv
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np

from common import Journal, cpu_seconds, finish, load, parser, say

#: Least rows of a table for which the messy score is compared with the clean one: of fewer, a handful decides.
ENOUGH = 1_000


def read(name: str, folder: pathlib.Path, most: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return the columns of a table by name, and its target; at most so many rows, drawn."""
    arrays = load(name, folder)
    if "X_train" in arrays:
        arrays = {k: np.concatenate([arrays[f"{k}_train"], arrays[f"{k}_test"]]) for k in "Xy"}
    y = (
        arrays["y"]
        if "classes" not in arrays
        else np.array([f"is {c}" for c in arrays["classes"]])[_codes(arrays["y"])]
    )
    views = {k.removeprefix("X").lstrip("_"): v for k, v in arrays.items() if k == "X" or k.startswith("X_")}
    given = arrays.get("columns")
    columns = {}
    for view, X in views.items():
        for j in range(X.shape[1]):
            columns[f"{view}_{j}" if view else f"x{j}" if given is None else str(given[j])] = X[:, j]
    if len(y) > most:
        some = np.sort(np.random.default_rng(0).choice(len(y), most, replace=False))
        columns, y = {k: v[some] for k, v in columns.items()}, y[some]
    return columns, y


def _codes(y: np.ndarray) -> np.ndarray:
    return np.unique(y, return_inverse=True)[1]


def texts(values: np.ndarray) -> list[str]:
    """Return values as they are written."""
    if values.dtype.kind == "f":
        return [f"{v:.6g}" for v in values.tolist()]
    return [str(v) for v in values.tolist()]


def write_clean(path: pathlib.Path, columns, y) -> None:
    """Write a table as programs do."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*columns, "target"])
        writer.writerows(zip(*map(texts, columns.values()), texts(y), strict=True))


def write_messy(path: pathlib.Path, columns, y) -> None:
    """Write a table as people have it."""
    rng = np.random.default_rng(1)
    n = len(y)
    words = rng.choice(["north", "south", "east", "west, far", "Übersee"], n).tolist()
    days = (np.datetime64("2019-01-01") + rng.integers(0, 1500, n)).astype(str)
    dates = [f"{d[8:]}.{d[5:7]}.{d[:4]}" for d in days.tolist()]
    numbers = [[v.replace(".", ",") for v in texts(values)] for values in columns.values()]
    written = []
    for values in (*numbers, words, dates):
        blank = rng.random(n) < 0.05
        written.append(["" if gap else v for v, gap in zip(values, blank, strict=True)])
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=";")
        writer.writerow([*columns, "region", "day", "target"])
        writer.writerows(zip(*written, [v.replace(".", ",") for v in texts(y)], strict=True))


def fitted(path: pathlib.Path) -> dict:
    """Return what ``fit`` says of a file: score, time, what the plan expected; or its sentence."""
    model = path.with_suffix(".mk")
    words = [
        sys.executable,
        "-m",
        "manykernels",
        "fit",
        str(path),
        "-t",
        "target",
        "-o",
        str(model),
        "--json",
    ]
    started = cpu_seconds()
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    seconds = cpu_seconds() - started
    if done.returncode:
        return {"failed": " ".join(done.stderr.split())}
    known = json.loads(done.stdout)
    expected = re.search(r"^Expected\s+(.*)$", done.stderr, re.MULTILINE)
    return {
        "score": known["metadata"]["score"]["value"],
        "measure": known["metadata"]["score"]["name"],
        "solver": known["solver"].split("(")[0],
        "seconds": known["metadata"]["seconds"],
        "cpu_seconds": seconds,
        "expected": expected[1] if expected else "",
    }


def on_table(name: str, folder: pathlib.Path, most: int) -> dict:
    """Return what becomes of a table, clean and messy."""
    columns, y = read(name, folder, most)
    found: dict = {"rows": len(y), "columns": len(columns)}
    with tempfile.TemporaryDirectory() as place:
        for kind, write in (("clean", write_clean), ("messy", write_messy)):
            path = pathlib.Path(place) / f"{kind}.csv"
            write(path, columns, y)
            found[kind] = fitted(path)
            say(f"{name}, {kind}, {len(y):,} rows: {found[kind]}")
    return found


def verdicts(results: dict) -> list[str]:
    """Return how many tables went through, and what mess costs."""
    both = {k: r for k, r in results.items() if "score" in r["clean"] and "score" in r["messy"]}
    lost = {k: r["clean"]["score"] - r["messy"]["score"] for k, r in both.items() if r["rows"] >= ENOUGH}
    out = [f"{len(both)} of {len(results)} tables were fitted both clean and messy"]
    if lost:
        worst = max(lost, key=lambda k: lost[k])
        out.append(
            f"blanks and columns of noise cost {np.mean(list(lost.values())):.3f} on average, "
            f"{lost[worst]:.3f} on {worst}"
        )
    return out


def main():
    options = parser(__doc__)
    options.add_argument("--tables", help="names, with commas between them; all by default")
    options.add_argument("--rows", type=int, default=100_000, help="most rows of a table")
    args = options.parse_args()
    if args.data is None:
        options.error("--data names a folder of .npz files")
    names = args.tables.split(",") if args.tables else sorted(p.stem for p in args.data.glob("*.npz"))
    names = names[:2] if args.quick else names
    most = min(args.rows, 500) if args.quick else args.rows
    journal = Journal(args.out, args.fresh)
    results = {
        name: journal.of(("messy", name, most), lambda n=name: on_table(n, args.data, most)) for name in names
    }
    finish({"tables": results, "verdicts": verdicts(results)}, args.out, journal=journal)


if __name__ == "__main__":
    main()
