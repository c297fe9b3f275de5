"""What the benchmarks share: the clock, peak memory, the data folder, and JSON on the standard output."""

from __future__ import annotations

import argparse
import json
import pathlib
import platform
import resource
import time

import numpy as np

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


class Clock:
    """Wall and CPU seconds of a block."""

    def __enter__(self):
        self._wall, self._cpu = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *exc):
        self.wall = time.perf_counter() - self._wall
        self.cpu = time.process_time() - self._cpu


def peak_mib() -> float:
    """Return the process's peak memory in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def parser(description: str) -> argparse.ArgumentParser:
    """Return a parser with the options all benchmarks know."""
    p = argparse.ArgumentParser(description=description)
    p.add_argument("--data", type=pathlib.Path, help="folder of .npz files; OpenML names are used without it")
    p.add_argument("--out", type=pathlib.Path, help="also write the JSON (and figures beside it) here")
    p.add_argument("--quick", action="store_true", help="a smaller problem, to see that it runs")
    return p


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


def judged(text: str, quick: bool) -> str:
    """Return a verdict, marked when the run was too small for one."""
    return f"quick run, smaller than the paper's: {text}" if quick else text


def pyplot():
    """Return matplotlib.pyplot without a window, or None where matplotlib is not installed."""
    try:
        import matplotlib
    except ImportError:
        return None
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def plain_log(*axes) -> None:
    """Label logarithmic axes (of matplotlib, x or y) at 1, 2 and 5 by plain numbers."""
    from matplotlib.ticker import LogLocator, NullFormatter

    for axis in axes:
        low, high = axis.get_view_interval()
        axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 300 * low else (1,)))
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter(NullFormatter())


def save(figure, out: pathlib.Path) -> str:
    """Save a figure under `out`, with the ending .png, and return its name."""
    path = out.with_suffix(".png")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    return path.name


def finish(record: dict, out: pathlib.Path | None) -> None:
    """Print the record as JSON, with the machine it was measured on."""
    record["machine"] = {"python": platform.python_version(), "processor": platform.machine()}
    text = json.dumps(record, indent=2, default=float)
    print(text)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text + "\n")
