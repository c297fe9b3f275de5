"""Build wheel and sdist, and try them as a stranger would: in fresh environments, from an empty folder.

``make release-check`` runs it. What is in both is held against what git keeps. For the newest versions of all
dependencies and for the lowest allowed: install the wheel with its command line, run the demonstration, fit a table,
save the model, predict from it in another process, and open it in Python. The sdist is built into a wheel of its own
and imported.
"""

from __future__ import annotations

import argparse
import csv
import math
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: Where the package lies; the wheel has nothing else.
SOURCE = "src/"
#: What the wheel has beside it, in its folder of metadata.
WHEEL_ADDS = ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE")
#: What the sdist has of its own, and what it leaves in the repository.
SDIST_ADDS = ("PKG-INFO",)
SDIST_LACKS = (".ci/", ".pre-commit-config.yaml")


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
    kept = run("git", "-C", ROOT, "ls-files", "-z", capture_output=True, text=True).stdout
    tracked = kept.split("\0")[:-1]
    with zipfile.ZipFile(wheel) as archive:
        wrong = differences("wheel", archive.namelist(), in_wheel(tracked, wheel))
    with tarfile.open(sdist) as archive:
        found = [member.name for member in archive if not member.isdir()]
        wrong += differences("sdist", found, in_sdist(tracked, sdist))
    if wrong:
        sys.exit("\n".join(wrong))
    return wheel, sdist


def in_wheel(tracked: Iterable[str], wheel: Path) -> set[str]:
    """Return what belongs in the wheel, of the files of the repository."""
    metadata = "-".join(wheel.name.split("-")[:2]) + ".dist-info"
    package = {name.removeprefix(SOURCE) for name in tracked if name.startswith(SOURCE)}
    return package | {f"{metadata}/{name}" for name in WHEEL_ADDS}


def in_sdist(tracked: Iterable[str], sdist: Path) -> set[str]:
    """Return what belongs in the sdist, of the files of the repository."""
    folder = sdist.name.removesuffix(".tar.gz")
    return {f"{folder}/{name}" for name in (*tracked, *SDIST_ADDS) if not name.startswith(SDIST_LACKS)}


def differences(what: str, found: Iterable[str], wanted: set[str]) -> list[str]:
    """Return which files an archive lacks, and which it should not have, in a sentence each."""
    pairs = (("lacks", wanted - set(found)), ("should not have", set(found) - wanted))
    return [f"The {what} {verb} {', '.join(sorted(names))}." for verb, names in pairs if names]


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
