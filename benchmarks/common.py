"""What the benchmarks share: options, data, the clock, verdicts, figures, and JSON on the standard output."""

from __future__ import annotations

import argparse
import hashlib
import json
import pathlib
import platform
import resource
import sys
import time

import numpy as np

from manykernels.displays import look
from papers import said

#: Names under which OpenML knows the data sets of ``--data DIR``.
OPENML = {
    "ionosphere": "ionosphere",
    "german": "credit-g",
    "sonar": "sonar",
    "ringnorm": "ringnorm",
    "waveform": "waveform-5000",
    "letter": "letter",
    "mnist": "mnist_784",
    "pendigits": "pendigits",
    "covtype": "covertype",
}
#: The training rows, which come first, of sets that are split once and for all.
FIRST = {"mnist": 60_000, "pendigits": 7494}
#: The views of data sets that have several.
VIEWS = {
    "mfeat": ("fou", "fac", "kar", "pix", "zer", "mor"),
    "leaves100": ("margin", "shape", "texture"),
    "webkb": ("anchor", "content"),
    "proteinfold": tuple(f"view{k:02d}" for k in range(1, 13)),
}


def parser(description: str) -> argparse.ArgumentParser:
    """Return a parser with the options all benchmarks know."""
    p = argparse.ArgumentParser(description=description)
    p.add_argument("--data", type=pathlib.Path, help="folder of .npz files; OpenML names are used without it")
    p.add_argument("--out", type=pathlib.Path, help="also write the JSON (and figures beside it) here")
    p.add_argument("--quick", action="store_true", help="a smaller problem, to see that it runs")
    p.add_argument("--fresh", action="store_true", help="forget what an interrupted run had finished")
    return p


#: Options that do not change what is measured, with the number of words each takes beside its own.
_UNSAID = {"--out": 1, "--jobs": 1, "--minutes": 1, "--fresh": 0}


def command(argv=None) -> str:
    """Return the command that was given, as a reader would type it: without --out, and with DIR for the folder."""
    words, said = list(sys.argv if argv is None else argv), []
    said.append(f"python benchmarks/{pathlib.Path(words.pop(0)).name}")
    while words:
        word = words.pop(0)
        if word in _UNSAID:
            del words[: _UNSAID[word]]
        elif word == "--data":
            words[0] = "DIR"
            said.append(word)
        else:
            said.append(word)
    return " ".join(said)


# -- data ----------------------------------------------------------------------------------------------------


def load(name: str, folder: pathlib.Path | None):
    """Return the arrays of a data set from `folder`, or from OpenML."""
    if folder is not None:
        path = folder / f"{name}.npz"
        path = path if path.exists() else folder / f"raetsch_{name}.npz"  # the collection of Rätsch et al.
        with np.load(path, allow_pickle=False) as archive:
            return dict(archive)
    from sklearn.datasets import fetch_openml

    X, y = fetch_openml(OPENML[name], version=1, return_X_y=True, as_frame=False)
    return {"X": X, "y": y}


def load_split(name: str, folder):
    """Return training rows and labels, test rows and labels, of a set that is split once and for all."""
    d = load(name, folder)
    if "X_train" in d:
        return d["X_train"], d["y_train"], d["X_test"], d["y_test"]
    n = FIRST[name]
    return d["X"][:n], d["y"][:n], d["X"][n:], d["y"][n:]


def load_two_classes(name: str, folder):
    """Return rows and labels -1 and 1."""
    arrays = load(name, folder)
    X, y = arrays["X"].astype(float), arrays["y"]
    if name == "waveform" and len(np.unique(y)) == 3:  # OpenML's has three classes
        y = y == np.unique(y)[0]
    return X, np.where(y == np.unique(y)[-1], 1.0, -1.0)


def load_views(name: str, folder):
    """Return the views by name, each standardised, and the classes."""
    d = load(name, folder)
    return {view: standardised(np.asarray(d[f"X_{view}"], dtype=float)) for view in VIEWS[name]}, d["y"]


def standardised(X, rows=slice(None)):
    """Return X with columns of mean 0 and variance 1 over `rows`; constant ones are 0."""
    deviation = X[rows].std(axis=0)
    return (X - X[rows].mean(axis=0)) / np.where(deviation > 0, deviation, 1)


# -- measurements --------------------------------------------------------------------------------------------


class Clock:
    """Wall and CPU seconds of a block."""

    def __enter__(self):
        self._wall, self._cpu = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *exc):
        self.wall = time.perf_counter() - self._wall
        self.cpu = time.process_time() - self._cpu


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and of those that it started and that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def peak_mib() -> float:
    """Return the process's peak memory in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def chosen_C(grid, fit, missed) -> dict:
    """Return the C for which ``missed(fit(C))`` is least, with that error, the model, and the CPU seconds of its fit.

    Ties go to the first.
    """
    best: dict = {}
    for C in grid:
        with Clock() as clock:
            model = fit(C)
        valid = float(missed(model))
        if not best or valid < best["valid"]:
            best = {"C": float(C), "valid": valid, "model": model, "seconds": clock.cpu}
    return best


def error_of(predictor, classes, X, y) -> float:
    """Return the share of rows for which the class of the highest score is wrong."""
    return float(np.mean(classes[predictor.scores(X).argmax(axis=1)] != y))


def where(records, **fields) -> list[dict]:
    """Return the records in which the fields have these values."""
    return [r for r in records if all(r.get(k) == v for k, v in fields.items())]


# -- verdicts ------------------------------------------------------------------------------------------------


def say(*lines) -> None:
    """Print for the reader, on the standard error: the standard output is the JSON's."""
    print(*lines, sep="\n", file=sys.stderr, flush=True)


def grade(holds, partly=False) -> str:
    """Return what became of a claim of a paper, or of a part of it."""
    return "reproduced" if holds else "partly" if partly else "differs"


def verdict(claim: str, holds, measured: str, why: str = "") -> str:
    """Return a claim with its grade, and what it rests on; `why` is for claims that do not hold."""
    text = f"{claim}: {grade(holds)}; {measured}"
    return text if holds or not why else f"{text} Why: {why}"


def reached(measured: str, holds) -> str:
    """Return a figure with whether it is what was aimed at."""
    return f"{measured}: {'reached' if holds else 'not reached'}"


def judged(found, quick: bool):
    """Return a verdict, or a list or dict of them, marked when the run was too small for one."""
    if isinstance(found, dict):
        return {claim: judged(text, quick) for claim, text in found.items()}
    if isinstance(found, list):
        return [judged(text, quick) for text in found]
    return f"quick run, smaller than the paper's: {found}" if quick else found


# -- what an interrupted run had finished --------------------------------------------------------------------


def package_state() -> str:
    """Return a short word that changes with the package's code."""
    import manykernels

    files = sorted(pathlib.Path(manykernels.__file__).parent.rglob("*.py"))
    return hashlib.sha256(b"".join(f.read_bytes() for f in files)).hexdigest()[:12]


class Journal:
    """Finished parts of a run, one line of JSON each, in a file beside the record.

    An interrupted run, or one of more repetitions, goes on after them. Parts that another state of the package
    measured are kept, too, and the reader is told; ``--fresh`` begins anew.

    Parameters
    ----------
    out : path or None
        The record's; without one nothing is kept.
    fresh : bool
        Whether to forget what is there.

    Attributes
    ----------
    kept_seconds : float
        CPU seconds of the parts that were used, and that this process did not spend itself.
    """

    def __init__(self, out: pathlib.Path | None, fresh: bool = False):
        self.path = None if out is None else out.with_suffix(".parts.jsonl")
        self.state = package_state() if self.path else ""
        self.parts: dict[str, dict] = {}
        self.kept_seconds = 0.0
        if self.path and fresh:
            self.path.unlink(missing_ok=True)
        if self.path and self.path.exists():
            self._read()

    def _read(self) -> None:
        for line in self.path.read_text().splitlines():
            try:
                part = json.loads(line)
            except ValueError:  # the line that an interruption cut off
                continue
            self.parts[part["key"]] = part
        older = sum(part["state"] != self.state for part in self.parts.values())
        text = f"{len(self.parts)} finished parts are in {self.path.name}"
        say(f"{text}, {older} of them from another state of the package" if older else text)

    @staticmethod
    def key(*what) -> str:
        """Return a word for everything that a part depends on, arrays included, beside the code."""
        import joblib

        return joblib.hash(what)

    def get(self, key: str):
        """Return what was kept under a key, or None."""
        part = self.parts.get(key)
        if part is None:
            return None
        self.kept_seconds += part["seconds"]
        return part["found"]

    def put(self, key: str, found, seconds: float):
        """Keep what was found, and return it as it will be read."""
        text = json.dumps(
            {"key": key, "state": self.state, "seconds": seconds, "found": found}, default=float
        )
        if self.path:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a") as file:
                file.write(text + "\n")
        return json.loads(text)["found"]

    def of(self, what, make):
        """Return what was kept under `what`, or what `make` returns, kept."""
        key = self.key(what)
        found = self.get(key)
        if found is not None:
            return found
        started = cpu_seconds()
        made = make()
        return self.put(key, made, cpu_seconds() - started)


# -- figures -------------------------------------------------------------------------------------------------


def pyplot():
    """Return matplotlib.pyplot without a window, or None where matplotlib is not installed."""
    try:
        import matplotlib
    except ImportError:
        return None
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def tidy(*axes, legend=None) -> None:
    """Give axes the look of the package's displays; `legend` is the size of letters of one in every axis."""
    for axis in axes:
        look.tidy(axis)
        if legend:
            axis.legend(frameon=False, fontsize=legend)


def plain_log(*axes) -> None:
    """Label logarithmic axes (of matplotlib, x or y) as the package's displays do."""
    for axis in axes:
        look.plain_log(axis)


def panels(plt, count: int, columns: int, size, extra=(0.0, 0.0), **options):
    """Return a figure of `count` axes, at most so many beside one another, and the axes as a table; others are hidden.

    `size` is a panel's, `extra` what the figure needs besides.
    """
    columns = min(columns, count)
    rows = -(-count // columns)
    whole = (size[0] * columns + extra[0], size[1] * rows + extra[1])
    figure, axes = plt.subplots(rows, columns, figsize=whole, layout="constrained", squeeze=False, **options)
    for axis in axes.flat[count:]:
        axis.set_visible(False)
    return figure, axes


def legend_below(figure, handles: dict, **options) -> None:
    """Put one legend for all axes below them; `handles` by label."""
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", frameon=False, **options)


def handles_of(axis) -> dict:
    """Return what is drawn in an axis, by label."""
    return dict(reversed(pair) for pair in zip(*axis.get_legend_handles_labels(), strict=True))


def save(figure, out: pathlib.Path) -> str:
    """Save a figure under `out`, with the ending .png, and return its name."""
    path = out.with_suffix(".png")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    return path.name


# -- the end -------------------------------------------------------------------------------------------------


def write(record: dict, out: pathlib.Path | None) -> str:
    """Return the record as JSON, written to `out` where there is one."""
    text = json.dumps(record, indent=2, default=float)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text + "\n")
    return text


def lines_of(verdicts) -> list[str]:
    """Return a verdict, or a list or dict of them, as lines."""
    if isinstance(verdicts, dict):
        return [f"{claim}: {text}" for claim, text in verdicts.items()]
    return verdicts if isinstance(verdicts, list) else [verdicts]


def finish(
    record: dict, out: pathlib.Path | None, *, figure=None, figures=None, journal: Journal | None = None
) -> None:
    """Draw, print the verdicts for the reader, and the record as JSON, with the machine it was measured on.

    `figure` is a function that draws, given pyplot; `figures` are several by what is added to the file's name. The
    record names the files, under the same word. Its "rows" are those of ``papers.py``. With the `journal` its
    CPU seconds count the parts that an earlier run had finished.
    """
    seconds = cpu_seconds() + (journal.kept_seconds if journal else 0.0)
    record |= {"command": command(), "quick": "--quick" in sys.argv, "seconds": round(seconds, 1)}
    for line in lines_of(record.get("verdict", record.get("verdicts", []))):
        say(line)
    if record.get("rows") and record["quick"]:
        say("A quick run, smaller than the papers'; what follows is no verdict.")
    for row in record.get("rows", []):
        say(said(row))
    plt = pyplot() if out is not None and (figure or figures) else None
    if plt is not None and figure:
        record["figure"] = save(figure(plt), out)
    if plt is not None and figures:
        place = {suffix: out.with_name(f"{out.stem}{suffix}.png") for suffix in figures}
        record["figures"] = [save(draw(plt), place[suffix]) for suffix, draw in figures.items()]
    record["machine"] = {"python": platform.python_version(), "processor": platform.machine()}
    print(write(record, out))
