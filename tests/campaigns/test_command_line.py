"""Random command lines on random tables, most of them wrong in some way.

Whatever is typed and whatever the files hold, a command ends in one of two ways: it does what it says (exit code 0, the
file is there and can be used), or it says in one sentence what to change (exit code 2, and no file is left behind).
"""

from __future__ import annotations

import os
import resource
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyarrow")
testing = pytest.importorskip("typer.testing")

import pyarrow as pa  # noqa: E402
from pyarrow import feather, parquet  # noqa: E402

from manykernels import cli  # noqa: E402

from .odd_tables import odd_fit, write_odd  # noqa: E402

#: No command may take longer, at these sizes, of the processor's time: others may be at work on the same cores.
SECONDS = 30.0
#: A process that has not ended after so many seconds of the clock waits for something that does not come.
HANGS = 900
SOLVERS = ("uniform", "lp-norm", "simple-mkl", "silp", "alignment", "greedy", "blockwise", "single", "ufo")
CELLS = (
    "",
    " ",
    "NA",
    "nan",
    "inf",
    "-1e400",
    "é",
    "日本",
    "0x10",
    "1,5",
    '"',
    'a"b',
    "\\",
    "2020-01-02",
    "True",
    "1e308",
)


# -- tables --------------------------------------------------------------------------------------------


def random_table(rng) -> dict[str, list]:
    """Return a small table as lists of text: numbers, categories, gaps, odd names, odd targets."""
    n = int(rng.choice([0, 1, 2, 5, 12, 40, 80], p=[0.02, 0.02, 0.02, 0.04, 0.2, 0.5, 0.2]))
    names = [
        "a",
        "b",
        "group",
        *rng.permutation(["é t", "c,d", "", "[red]", "x=1", "a ", "y"])[: rng.integers(0, 3)],
    ]
    table = {
        name: [f"{v:.4g}" for v in rng.standard_normal(n) * 10.0 ** rng.integers(-8, 9)] for name in names
    }
    table["group"] = [f"s{i}" for i in rng.integers(0, max(2, n // 4), n)]
    shift = np.array(table["a"], dtype=float)
    kinds = {
        "classes": np.where(shift > 0, "up", "down").tolist(),
        "three": [str(k) for k in rng.integers(0, 3, n)],
        "numbers": [f"{v:.5g}" for v in shift + rng.standard_normal(n)],
        "constant": ["1"] * n,
        "distinct": [f"id{i}" for i in range(n)],
    }
    table["y"] = kinds[rng.choice(list(kinds), p=[0.35, 0.2, 0.35, 0.05, 0.05])]
    for _ in range(rng.integers(0, 4) if n and rng.random() < 0.25 else 0):
        column = table[str(rng.choice(list(table)))]
        column[rng.integers(n)] = str(rng.choice(CELLS))
    return table


def text_of(table: dict[str, list], rng, delimiter: str) -> str:
    quoted = rng.random() < 0.2

    def cell(text):
        special = any(c in text for c in delimiter + '"\n')
        return '"' + text.replace('"', '""') + '"' if special or quoted else text

    rows = [list(table), *zip(*table.values(), strict=True)]
    return "".join(delimiter.join(map(cell, row)) + ("\r\n" if quoted else "\n") for row in rows)


def write_text(path: Path, table, rng) -> None:
    """Write CSV, often damaged: another encoding, a byte changed, a quote astray, rows of another length."""
    text = text_of(table, rng, "," if path.suffix == ".csv" else "\t")
    damage = rng.choice(
        ["none", "latin", "byte", "quote", "cut", "comma", "bom", "utf-16", "nul"], p=[0.76] + [0.03] * 8
    )
    place = int(rng.integers(len(text)))
    if damage == "quote":
        text = text[:place] + '"' + text[place:]
    if damage == "cut":
        text = text[:place]
    if damage == "comma":
        text = text[:place] + "," + text[place:]
    data = text.encode(
        {"latin": "latin-1", "utf-16": "utf-16", "bom": "utf-8-sig"}.get(damage, "utf-8"), "replace"
    )
    if damage in ("byte", "nul"):
        byte = b"\0" if damage == "nul" else bytes([rng.integers(256)])
        data = data[:place] + byte + data[place + 1 :]
    path.write_bytes(data)


def write_typed(path: Path, table, rng) -> None:
    """Write Parquet or Feather, numbers as numbers where all are, sometimes with a byte changed."""

    def column(values):
        try:
            return pa.array([float(v) for v in values])
        except ValueError:
            return pa.array([v if v != "NA" else None for v in values])

    made = pa.table({name: column(values) for name, values in table.items()})
    (parquet.write_table if path.suffix == ".parquet" else feather.write_feather)(made, str(path))
    if rng.random() < 0.15:
        data = bytearray(path.read_bytes())
        data[rng.integers(len(data))] ^= 1 << int(rng.integers(8))
        path.write_bytes(bytes(data))


def random_file(folder: Path, stem: str, rng) -> Path:
    path = folder / f"{stem}{rng.choice(['.csv', '.tsv', '.parquet', '.feather'], p=[0.7, 0.05, 0.15, 0.1])}"
    table = random_table(rng)
    (write_text if path.suffix in (".csv", ".tsv") else write_typed)(path, table, rng)
    if rng.random() < 0.06:
        return make_odd(folder, path, rng)
    return path


def make_odd(folder: Path, path: Path, rng) -> Path:
    """Return a path that is no plain file: a loop of links, a pipe, a folder, a pattern, nothing."""
    kind = rng.choice(["loop", "pipe", "folder", "pattern", "nothing", "name"])
    odd = folder / "odd.csv"
    if kind == "loop":
        odd.symlink_to(odd)
    elif kind == "pipe":
        os.mkfifo(odd)
    elif kind == "folder":
        odd.mkdir()
    elif kind == "pattern":
        return folder / f"{path.stem}*"
    elif kind == "name":
        return folder / ("x" * 300 + ".csv")
    return odd


# -- commands ------------------------------------------------------------------------------------------


#: Values of options that are right on most tables, and wrong ones.
OPTIONS = {
    "-t": (["y"], ["Y", "", "[x]", "group"]),
    "--kernels": (["auto", "gaussian", "linear", "laplacian", "products"], ["odd", ""]),
    "--solver": (SOLVERS, ["nonsense", "auto,auto", ""]),
    "-C": (["1", "10", "1e-3", "1e6", "auto"], ["0", "-1", "nan", "1e400", "x"]),
    "--drop": (["group", "group,a"], ["a,b,group", "zzz", "", "y"]),
    "--task": (["auto"], ["classify", "regress", "both"]),
    "--test-size": (["0", "0.5"], ["0.99", "1", "-1", "nan"]),
    "--seed": (["1", "7"], ["-1", str(2**40), "x"]),
    "--loss": (["auto", "squared"], ["hinge", "logistic", "softmax", "max-hinge", "odd"]),
    "--groups": (["group"], ["y", "zzz"]),
    "--memory": (["1GiB"], ["1", "lots", "-3MB"]),
    "--p": (["1.5", "2"], ["1", "3", "nan"]),
    "--max-iter": (["5", "50"], ["0", "999999999999"]),
    "--degree": (["2"], ["0", "-1", "1000000"]),
    "--columns": (["a", "a,b"], ["a,a", "a,y", "zzz", ","]),
}


def random_fit(folder: Path, data: Path, rng) -> list[str]:
    """Return a fit, half of the time with one or two options that are wrong, or out of place."""
    given = {"-t": "y", "--kernels": str(rng.choice(OPTIONS["--kernels"][0])), "-o": str(folder / "m.mk")}
    if given["--kernels"] != "auto":
        given |= {
            "--solver": str(rng.choice(SOLVERS)),
            "--drop": "group",
            "-C": str(rng.choice(OPTIONS["-C"][0])),
        }
    for name in rng.permutation(["--test-size", "--seed", "--loss"])[: rng.integers(0, 3)]:
        given[str(name)] = str(rng.choice(OPTIONS[str(name)][0]))
    for name in rng.permutation(list(OPTIONS))[: rng.choice([0, 1, 2], p=[0.5, 0.35, 0.15])]:
        right, wrong = OPTIONS[str(name)]
        given[str(name)] = str(rng.choice(wrong if rng.random() < 0.6 else right))
    if rng.random() < 0.08:
        odd = [
            folder / "no" / "m.mk",
            folder,
            folder / ("m" * 250),
            data,
            Path("/proc/m.mk"),
            folder / "link",
        ]
        (folder / "link").symlink_to(folder / "link")
        given["-o"] = str(odd[rng.integers(len(odd))])
    if rng.random() < 0.1:
        places = [folder / "state", data, folder, folder / "no" / "state"]
        given |= {"--checkpoint": str(places[rng.integers(len(places))]), "--solver": "blockwise"}
    words = [word for k in rng.permutation(len(given)) for word in list(given.items())[k]]
    return [
        "fit",
        str(data),
        *words,
        *[["--no-standardize"], ["--force"], []][rng.choice(3, p=[0.1, 0.2, 0.7])],
    ]


def random_predict(folder: Path, data: Path, rng) -> list[str]:
    words = ["predict", str(folder / "m.mk"), str(data)]
    if rng.random() < 0.5:
        words += [
            "-o",
            str(folder / str(rng.choice(["p.csv", "p.parquet", "p.csv.gz", "p.txt", "m.mk", "no/p.csv"]))),
        ]
    return words + ["--proba"] * int(rng.random() < 0.3) + ["--force"] * int(rng.random() < 0.3)


def random_show(folder: Path, data: Path, rng) -> list[str]:
    words = ["show", str(folder / "m.mk") if rng.random() < 0.9 else str(data)]
    return words + [["--json"], ["--top", str(rng.choice(["0", "3", "-1", "x"]))], []][rng.integers(3)]


# -- tries ---------------------------------------------------------------------------------------------


def give_up(*_) -> None:
    raise TimeoutError("This takes too long.")


def in_process(words: list[str]) -> tuple[int, str, str, float]:
    started = time.process_time()  # others may be at work on the same cores
    before = signal.signal(signal.SIGALRM, give_up)  # what waits for ever is told as what takes too long
    signal.setitimer(signal.ITIMER_REAL, 4 * SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = testing.CliRunner().invoke(cli.application(), words)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    seconds = time.process_time() - started
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise AssertionError(f"{result.exception!r} from {words}")
    return result.exit_code, result.stdout, result.stderr, seconds


def spent_by_children() -> float:
    """Return the processor's time of all processes that were started from here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def as_process(words: list[str]) -> tuple[int, str, str, float]:
    started = spent_by_children()
    environment = os.environ | {"COLUMNS": "200", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "manykernels", *words]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=HANGS, env=environment, check=False
    )
    return done.returncode, done.stdout, done.stderr, spent_by_children() - started


#: What surrounds a command: variables, and lines of bash in which $M is the command.
VARIABLES = (
    {"LC_ALL": "C"},
    {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    {"PYTHONIOENCODING": "ascii"},
    {"PYTHONIOENCODING": "utf-16"},
    {"COLUMNS": "1"},
    {"COLUMNS": "x", "LINES": "0"},
    {"TERM": "dumb"},
    {"TERM": "unknown", "FORCE_COLOR": "1"},
    {"NO_COLOR": "1", "HOME": "/nowhere", "TMPDIR": "/nowhere"},
    {"MPLBACKEND": "nonsense", "PYTHONWARNINGS": "error"},
    {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "7"},
    {"TZ": "Nowhere/Else"},
)
LINES = (
    "$M",
    "$M >&-",
    "$M 2>&-",
    "$M >&- 2>&-",
    "$M <&-",
    "$M > /dev/full",
    "$M 2> /dev/full",
    "$M | true",
    "$M | head -c 1",
    "$M 2>&1 | true",
    "mkdir gone && cd gone && rmdir ../gone && $M",
    "ulimit -n 40 && $M",
    "ulimit -f 1 && $M",
)


def surrounded(rng):
    """Return how to run a command in odd surroundings: by an environment and a line of bash."""
    more, line = VARIABLES[rng.integers(len(VARIABLES))], LINES[rng.integers(len(LINES))]

    def run(words):
        command = " ".join(map(shlex.quote, [sys.executable, "-m", "manykernels", *words]))
        script = f"set -o pipefail; {line.replace('$M', command)}"
        started = spent_by_children()
        environment = (
            os.environ | {"COLUMNS": "200", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"} | more
        )
        with tempfile.TemporaryDirectory() as place:
            done = subprocess.run(
                ["bash", "-c", script],
                capture_output=True,
                timeout=HANGS,
                env=environment,
                check=False,
                cwd=place,
            )
        out, err = (text.decode("utf-8", "replace").replace("\0", "") for text in (done.stdout, done.stderr))
        unread = any(sign in line for sign in ("2>&-", "2> /dev/full", "| true", "| head"))
        told = err or ("(nobody reads it)" if unread else "")
        return done.returncode, out, f"{told} {more} {line}" if told else "", spent_by_children() - started

    return run


def check(words, folder: Path, run, slack: float = 0.0) -> int:
    """Run a command, and check that it ended well."""
    before = {f: f.lstat().st_mtime_ns for f in folder.rglob("*")}
    code, out, err, seconds = run(words)
    told = f"{words}: exit code {code}, {err[-400:]!r}"
    assert code in (0, 2), told
    assert "Traceback" not in err + out and "--debug shows where" not in err, told
    assert seconds <= SECONDS + slack, f"{words} took {seconds:.0f} s"
    left = [f.name for f in folder.rglob("*") if f not in before]
    assert not [name for name in left if name.endswith(".tmp")], f"{words} left {left}"
    if code == 2:
        assert err.strip(), told
        assert [name for name in left if name != "state"] == [], f"{words} failed and left {left}"
        after = {f: f.lstat().st_mtime_ns for f in folder.rglob("*") if f.name != "state" and f.is_file()}
        assert all(before[f] == t for f, t in after.items()), f"{words} failed and changed a file"
    return code


def attempt(rng, run, slack: float = 0.0) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = random_file(folder, "train", rng)
        fitted = check(random_fit(folder, data, rng), folder, run, slack) == 0
        if not fitted and rng.random() < 0.9:
            return
        other = data if rng.random() < 0.5 else random_file(folder, "new", rng)
        check(random_predict(folder, other, rng), folder, run, slack)
        check(random_show(folder, other, rng), folder, run, slack)


def attempt_odd(rng, run, slack: float = 0.0) -> None:
    """The same with tables that are odd in one way, and options drawn letter by letter."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = write_odd(folder, rng)
        if check(odd_fit(folder, data, rng), folder, run, slack) == 0:
            check(random_predict(folder, data, rng), folder, run, slack)
            check(random_show(folder, data, rng), folder, run, slack)


def test_a_command_ends_well_or_in_a_sentence(campaign):
    campaign.run(1000, lambda rng: attempt(rng, in_process))


def test_a_command_on_an_odd_table_ends_well_or_in_a_sentence(campaign):
    campaign.run(1000, lambda rng: attempt_odd(rng, in_process))


def test_a_command_of_its_own_process_ends_well_or_in_a_sentence(campaign):
    # Starting a process and importing takes seconds as well.
    campaign.run(100, lambda rng: attempt(rng, as_process, slack=20.0))


def test_a_command_ends_well_in_odd_surroundings(campaign):
    def odd(rng):
        # A null in a word cannot be handed to a process.
        run = surrounded(rng)
        attempt_odd(rng, lambda words: run([word.replace("\0", "0") for word in words]), slack=20.0)

    campaign.run(100, odd)
