"""What is asked of a fitted model: ``explain``, ``report`` and ``compare``, with sources and files of other kinds.

Workbooks, NumPy archives and svmlight rows, whole, torn or with bytes changed, or odd in one way; columns that are
sources of their own (``--view``); then questions about the model with options and tables that may be wrong. The rules
are those of :mod:`.test_command_line`: a command does what it says, or says in one sentence what to change.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("typer.testing")
pd = pytest.importorskip("pandas")

from .odd_tables import write_odd  # noqa: E402
from .test_command_line import check, in_process, random_file  # noqa: E402

#: Options that every command takes.
WRITTEN = (
    ["--sep", ";"],
    ["--sep", ""],
    ["--sep", "ab"],
    ["--sep", "\n"],
    ["--decimal", ","],
    ["--decimal", "x"],
    ["--encoding", "latin-1"],
    ["--encoding", "nonsense"],
    ["--encoding", "utf-16"],
    ["--encoding", "rot13"],
)
SOURCES = (
    ["--view", "one=a", "--view", "two=b*"],
    ["--view", "one=a,b"],
    ["--view", "rest=*"],
    ["--view", "one=a", "--view", "one=b"],
    ["--view", "one=a", "--view", "two=a"],
    ["--view", "one=zzz"],
    ["--view", "a"],
    ["--view", "=a"],
    ["--view", ""],
    ["--view", "one=y"],
    ["--view", "[x]=a"],
    ["--view", "one="],
)
FITS = (
    ["--solver", "uniform", "--kernels", "gaussian", "-C", "1"],
    ["--solver", "lp-norm", "--kernels", "linear", "-C", "1"],
    ["--solver", "greedy", "--kernels", "products", "-C", "1"],
    ["--solver", "blockwise"],
    ["--solver", "simple-mkl", "--kernels", "laplacian", "-C", "10"],
    [],
)
METHODS = (
    "linear",
    "uniform",
    "default",
    "lp-norm",
    "greedy",
    "nonsense",
    "",
    "linear,linear",
    "svm",
    "single",
)


# -- files -----------------------------------------------------------------------------------------------


def frame(rng) -> pd.DataFrame:
    """Return a table with two columns of numbers, one of text, and a target."""
    n = int(rng.choice([0, 1, 3, 30, 60], p=[0.03, 0.03, 0.04, 0.6, 0.3]))
    a, b = rng.normal(size=(2, n))
    words = np.array(["u", "v"])[rng.integers(2, size=n)]
    y = [a + b, a > 0, rng.integers(3, size=n)][int(rng.integers(3))]
    table = pd.DataFrame({"a": a, "b": b, "c": words, "y": y})
    if rng.random() < 0.3 and n:  # cells of other kinds, as sheets have them
        table = table.astype(object)
        odd = (None, "", "x", pd.Timestamp("2020-01-02"), True, 1e308, np.inf, "1,5", "=1+1")
        table.iloc[int(rng.integers(n)), int(rng.integers(4))] = odd[int(rng.integers(len(odd)))]
    return table


def write_sheet(path: Path, rng) -> None:
    pytest.importorskip("openpyxl")
    table = frame(rng)
    if rng.random() < 0.2:
        table.columns = [["a", "a", "c", "y"], ["a", None, "c", "y"], [1, 2.5, "c", "y"]][
            int(rng.integers(3))
        ]
    with pd.ExcelWriter(path) as book:
        table.to_excel(book, index=False, startrow=int(rng.choice([0, 0, 0, 2])))


def write_arrays(path: Path, rng) -> None:
    """Write a NumPy archive: matrices and columns, some of other lengths, types or dimensions."""
    table = frame(rng)
    n = len(table)
    numbers = rng.normal(size=(n, 2))
    arrays = {"X": numbers, "y": np.asarray(table["y"].tolist())}
    more = {
        "X_more": rng.normal(size=(n, 3)),
        "columns": np.array(["a", "b"]),
        "feature_names": np.array([["a"], ["b"]]),
        "cube": np.ones((n, 2, 2)),
        "short": np.ones((n // 2, 2)),
        "complex": np.ones(n, dtype=complex),
        "dates": np.full(n, "2020-01-02", dtype="M8[D]"),
        "bytes": np.full(n, b"\xff"),
        "scalar": np.array(3.0),
        "objects": np.array([None] * n, dtype=object),
        "half": numbers.astype(np.float16),
        "records": np.zeros(n, dtype="i4,f8"),
        "x0": np.ones(n),
    }
    for name in rng.choice(sorted(more), size=int(rng.choice([0, 1, 2])), replace=False):
        arrays[str(name)] = more[str(name)]
    if rng.random() < 0.1:
        del arrays[str(rng.choice(["X", "y"]))]
    np.savez(path, **arrays)


def write_sparse(path: Path, rng) -> None:
    """Write svmlight rows, now and then with a field that is no such thing."""
    lines = []
    for _ in range(int(rng.choice([0, 1, 30]))):
        places = np.flatnonzero(rng.random(4) < 0.7) + 1
        lines.append(f"{rng.integers(2)} " + " ".join(f"{j}:{rng.normal():.4f}" for j in places))
    if lines and rng.random() < 0.3:
        odd = (
            "1 2:x",
            "1 0:1",
            "1 3:1 2:1",
            "x 1:1",
            "1 99999999999:1",
            "1 4000000:1",
            "1 1:nan",
            "# c",
            "1:2",
        )
        lines[int(rng.integers(len(lines)))] = str(rng.choice(odd))
    path.write_text("\n".join(lines))


WRITERS = {".xlsx": write_sheet, ".npz": write_arrays, ".svmlight": write_sparse}


def other_file(folder: Path, stem: str, rng) -> Path:
    """Write a table of one of the other formats, in a quarter of the tries damaged."""
    ending = str(rng.choice(sorted(WRITERS)))
    path = folder / f"{stem}{ending}"
    WRITERS[ending](path, rng)
    data = bytearray(path.read_bytes())
    if data and rng.random() < 0.25:
        if rng.random() < 0.5:
            data = data[: int(rng.integers(len(data)))]
        else:
            data[int(rng.integers(len(data)))] ^= int(rng.integers(1, 256))
        path.write_bytes(bytes(data))
    return path


def any_file(folder: Path, stem: str, rng) -> Path:
    if rng.random() < 0.5:
        return other_file(folder, stem, rng)
    return random_file(folder, stem, rng) if rng.random() < 0.7 else write_odd(folder, rng)


# -- questions -------------------------------------------------------------------------------------------


def pick(rng, choices) -> list[str]:
    return list(choices[int(rng.integers(len(choices)))])


def fit(folder: Path, data: Path, rng) -> list[str]:
    words = ["fit", str(data), "-t", "y", "-o", str(folder / "m.mk"), *pick(rng, FITS)]
    words += ["--test-size", "0"] if rng.random() < 0.5 else []
    words += pick(rng, SOURCES) if rng.random() < 0.35 else []
    return words + (pick(rng, WRITTEN) if rng.random() < 0.1 else [])


def question(folder: Path, data: Path, rng) -> list[str]:
    """Return an explain, a report or a compare; in about half of them something is wrong."""
    places = ["p.csv", "p.parquet", "p.html", "p", "no/p.csv", "m.mk", ".", "p.xlsx"]
    place = ["-o", str(folder / str(rng.choice(places)))]
    kind = str(rng.choice(["explain", "explain", "report", "compare"]))
    if kind == "explain":
        words = ["explain", str(folder / "m.mk"), str(data)]
        words += (
            ["--by", str(rng.choice(["column", "kernel", "view", "row", ""]))] if rng.random() < 0.6 else []
        )
        words += ["--top", str(rng.choice(["0", "1", "-1", "99999", "x"]))] if rng.random() < 0.3 else []
        words += (place if rng.random() < 0.4 else []) + ["--json"] * int(rng.random() < 0.3)
    elif kind == "report":
        words = ["report", str(folder / "m.mk"), str(data)]
        words += place if rng.random() < 0.3 else ["-o", str(folder / "r.html")]
        words += ["-t", str(rng.choice(["y", "a", "zzz", ""]))] if rng.random() < 0.4 else []
    else:
        words = ["compare", str(data), "-t", str(rng.choice(["y", "y", "y", "zzz"])), "--folds", "2"]
        words += ["--methods", ",".join(str(v) for v in rng.choice(METHODS, size=int(rng.integers(1, 3))))]
        words += pick(rng, SOURCES) if rng.random() < 0.3 else []
        words += ["--groups", str(rng.choice(["c", "y", "zzz"]))] if rng.random() < 0.2 else []
        words += ["--json"] * int(rng.random() < 0.3)
    return words + (pick(rng, WRITTEN) if rng.random() < 0.1 else [])


def attempt(rng) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = any_file(folder, "train", rng)
        fitted = check(fit(folder, data, rng), folder, in_process) == 0
        if not fitted and rng.random() < 0.7:
            return
        for _ in range(2):
            other = data if rng.random() < 0.7 else any_file(folder, "new", rng)
            check(question(folder, other, rng), folder, in_process)


def test_a_question_about_a_model_is_answered_or_refused_in_a_sentence(campaign):
    campaign.run(500, attempt)
