"""Processes killed at random moments: fits go on to the same bits, and files are whole, the old or the new."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from manykernels import MKLRegressor, load
from manykernels.kernels import RBF, Linear
from manykernels.persistence.checkpoint import Checkpoint
from manykernels.solvers import LpNorm

from ..persistence import killed_jobs

ROOT = Path(__file__).parents[2]
FIT = """
from tests.persistence import killed_jobs
print("started", flush=True)
killed_jobs.{}({!r})
"""
SAVE = """
from tests.campaigns.test_kills import saved_model
model = saved_model({!r})
print("started", flush=True)
while True:
    model.save({!r})
"""


def started(code):
    """Return a process that has said that it begins."""
    process = subprocess.Popen([sys.executable, "-W", "ignore", "-c", code], stdout=subprocess.PIPE, cwd=ROOT)
    assert process.stdout.readline() == b"started\n"
    return process


def killed(process, seconds) -> bool:
    """End a process after some time; whether it was still at work."""
    time.sleep(seconds)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    return process.returncode != 0


def saved_model(C):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 20))
    return MKLRegressor([RBF(5.0), Linear()], solver=LpNorm(), C=C).fit(X, X[:, 0] * X[:, 1])


@cache
def straight(job, folder):
    """Return what a fit gives that nobody kills."""
    return getattr(killed_jobs, job)(folder / f"{job}.straight")


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_killed_fits(campaign, tmp_path):
    path = tmp_path / "fit.ckpt"

    def attempt(rng):
        job = str(rng.choice(["blockwise_job", "stochastic_job"]))
        for _ in range(int(rng.integers(1, 3))):  # a fit that went on may be killed again
            if killed(started(FIT.format(job, str(path))), rng.uniform(0.0, 1.0)) and path.exists():
                assert Checkpoint(path).state, "a checkpoint is whole"
        np.testing.assert_array_equal(getattr(killed_jobs, job)(path), straight(job, tmp_path))
        assert not list(tmp_path.iterdir()), "nothing half-written stays"

    campaign.run(25, attempt)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_killed_saves(campaign, tmp_path):
    path = tmp_path / "m.mk"
    old = saved_model(1.0)
    old.save(path)
    rows = np.random.default_rng(1).normal(size=(5, 20))
    known = [old.predict(rows), saved_model(2.0).predict(rows)]

    def attempt(rng):
        killed(started(SAVE.format(2.0, str(path))), rng.uniform(0.0, 0.1))
        found = load(path).predict(rows)
        assert any(np.array_equal(found, values) for values in known), (
            "a model is whole, the old one or the new"
        )
        old.save(path)
        assert os.listdir(tmp_path) == ["m.mk"], "the next one to write removes what is left"

    campaign.run(25, attempt)
