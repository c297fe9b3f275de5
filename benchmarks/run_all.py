"""Run every benchmark in this folder, one process each; options are passed on."""

from __future__ import annotations

import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
SHARED = {
    "common.py",
    "comparison.py",
    "mkl_methods.py",
    "run_all.py",
    "streaming_methods.py",
    "triply_methods.py",
}

if __name__ == "__main__":
    failed = []
    for script in sorted(HERE.glob("*.py")):
        if script.name in SHARED:
            continue
        print(f"== {script.name}", flush=True)
        if subprocess.run([sys.executable, str(script), *sys.argv[1:]], check=False).returncode:
            failed.append(script.name)
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)
