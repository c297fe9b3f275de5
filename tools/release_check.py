"""Build wheel and sdist, and try them as a stranger would: in fresh environments, from an empty folder.

``make release-check`` runs it. For the newest versions of all dependencies and for the lowest allowed: install the
wheel with its command line, run the demonstration, fit a table, save the model, predict from it in another process, and
open it in Python. The sdist is built into a wheel of its own and imported.
"""

from __future__ import annotations

import argparse
import csv
import math
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: What must be in the wheel, and in the sdist besides.
IN_WHEEL = ("manykernels/py.typed", "manykernels/__init__.py")
IN_SDIST = ("LICENSE", "README.md", "CHANGELOG.md", "pyproject.toml")


def run(*words: str | Path, **options) -> subprocess.CompletedProcess:
    """Run a command, show it, and end with its words if it fails."""
    print("+", *words, flush=True)
    return subprocess.run([str(word) for word in words], check=True, **options)


def build(out: Path) -> tuple[Path, Path]:
    """Return the wheel and the sdist, newly built and checked."""
    shutil.rmtree(out, ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", out, ROOT)
    (wheel,), (sdist,) = out.glob("*.whl"), out.glob("*.tar.gz")
    run(sys.executable, "-m", "twine", "check", "--strict", wheel, sdist)
    inside = run(sys.executable, "-m", "zipfile", "-l", wheel, capture_output=True, text=True).stdout
    listed = run(sys.executable, "-m", "tarfile", "-l", sdist, capture_output=True, text=True).stdout
    for name, where in [*((n, inside) for n in IN_WHEEL), *((n, listed) for n in IN_SDIST)]:
        if name not in where:
            sys.exit(f"{name} is missing from {'the wheel' if where is inside else 'the sdist'}.")
    return wheel, sdist


def fresh(folder: Path, package: Path, *, lowest: bool) -> Path:
    """Return the Python of a new environment with the package and its command line."""
    run("uv", "venv", "--quiet", "--python", sys.executable, folder)
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    how = ["--resolution", "lowest-direct"] if lowest else []
    run(
        "uv",
        "pip",
        "install",
        "--quiet",
        "--python",
        python,
        *how,
        f"manykernels[cli,plot] @ {package.as_uri()}",
    )
    return python


def write_table(path: Path) -> None:
    """Write a table with text and gaps."""
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["x", "colour", "y"])
        for k in range(80):
            x = math.sin(k)
            writer.writerow([f"{x:.3f}" if k % 9 else "", ("red", "blue")[k % 2], f"{x * x + k % 2:.3f}"])


def try_out(python: Path, folder: Path) -> None:
    """Use the package from an empty folder."""
    command = [python, "-m", "manykernels"]
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    options = {"cwd": folder, "env": environment}
    write_table(folder / "table.csv")
    run(*command, "--version", **options)
    run(*command, "fit", "table.csv", "-t", "y", "-o", "model.mk", **options)
    run(*command, "predict", "model.mk", "table.csv", "-o", "said.csv", **options)
    with (folder / "said.csv").open() as stream:
        assert sum(1 for _ in stream) == 81, "a prediction for every row"
    run(
        python,
        "-c",
        "import manykernels; print(manykernels.load('model.mk').combination_.records()[0])",
        **options,
    )
    run(*command, "demo", **options)


def main() -> None:
    """Build and try."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    out = parser.parse_args().out.resolve()
    wheel, sdist = build(out)
    with tempfile.TemporaryDirectory() as place:
        for name, package, lowest in (
            ("newest", wheel, False),
            ("lowest", wheel, True),
            ("sdist", sdist, False),
        ):
            folder = Path(place) / name
            folder.mkdir()
            python = fresh(Path(place) / f"{name}-environment", package, lowest=lowest)
            if name == "sdist":
                run(python, "-c", "import manykernels; manykernels.MKLClassifier", cwd=folder)
            else:
                try_out(python, folder)
    print(f"Checked: {wheel.name}, {sdist.name}")


if __name__ == "__main__":
    main()
