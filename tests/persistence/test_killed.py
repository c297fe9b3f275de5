"""Fits killed by SIGKILL, at a given state or at any moment, resume to the same bits."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from . import killed_jobs

ROOT = Path(__file__).parents[2]
CODE = """
from tests.persistence import killed_jobs
print("started", flush=True)
killed_jobs.{}({!r}, {!r}, kill_at={!r})
"""


def fit_in_a_process(job, path, folder=None, kill_at=None):
    code = CODE.format(job.__name__, str(path), None if folder is None else str(folder), kill_at)
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=ROOT)


def ended(process):
    process.communicate()
    return process.returncode


@pytest.fixture
def folder(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pytest.importorskip("pyarrow").table
    where = tmp_path / "rows"
    where.mkdir()
    for k, part in enumerate(np.array_split(np.arange(3000), 4)):
        columns = {f"x{j}": killed_jobs.X[part, j] for j in range(3)} | {"late": killed_jobs.y[part]}
        parquet.write_table(table(columns), where / f"{k}.parquet", row_group_size=200)
    return where


# Blockwise: 17 units, 3 sweeps, and two fits, as a fifth of so few rows is held out first: 102 states.
@pytest.mark.parametrize(
    ("job", "kill_at"),
    [
        pytest.param(killed_jobs.blockwise_job, 20, marks=pytest.mark.slow),
        (killed_jobs.blockwise_job, 70),
        (killed_jobs.stochastic_job, 5),
    ],
)
def test_a_killed_fit_resumes_to_the_same_bits(job, kill_at, folder, tmp_path):
    straight = job(tmp_path / "straight.ckpt", str(folder))
    path = tmp_path / "fit.ckpt"
    assert ended(fit_in_a_process(job, path, folder, kill_at)) == -signal.SIGKILL
    assert path.exists()
    assert_array_equal(job(path, str(folder)), straight)
    assert not path.exists()


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("from_files", [False, True])
@pytest.mark.parametrize("job", [killed_jobs.blockwise_job, killed_jobs.stochastic_job])
def test_fits_killed_at_any_moment_resume_to_the_same_bits(job, from_files, folder, tmp_path):
    rows = str(folder) if from_files else None
    began = time.perf_counter()
    straight = job(tmp_path / "straight.ckpt", rows)
    length = time.perf_counter() - began
    path, moments, kills = tmp_path / "fit.ckpt", np.random.default_rng(int(time.time())), 0
    for _ in range(8):
        process = fit_in_a_process(job, path, rows)
        process.stdout.readline()
        time.sleep(moments.uniform(0.0, 0.7 * length))
        os.kill(process.pid, signal.SIGKILL)
        if ended(process) == 0:
            break
        kills += 1
    assert kills > 0
    assert_array_equal(job(path, rows), straight)
    assert not path.exists()
