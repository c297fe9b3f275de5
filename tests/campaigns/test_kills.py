"""Processes killed at random moments: fits go on to the same bits, and files are whole, the old or the new."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from manykernels import MKLClassifier, MKLRegressor, load
from manykernels.families import Laplacians
from manykernels.kernels import RBF, Linear
from manykernels.persistence.checkpoint import Checkpoint
from manykernels.solvers import Blockwise, LpNorm
from manykernels.streaming import open_source, predict_to

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


# -- the same at any moment of the work, by two signals ----------------------------------------------------


def table(folder):
    """Write a folder of tables, and return its path."""
    rows = folder / "rows"
    rows.mkdir()
    rng = np.random.default_rng(0)
    for k in range(3):
        X = rng.normal(size=(1500, 3))
        lines = (f"{a!r},{b!r},{c!r},{int(a * b > 0)}\n" for a, b, c in X.tolist())
        (rows / f"{k}.csv").write_text("a,b,c,y\n" + "".join(lines))
    return rows


def fit_rows(rows, path):
    """Fit from files, with a checkpoint after every grid."""
    solver = Blockwise(grids=24, sweeps=3, bins=512, random_state=0)
    model = MKLClassifier(Laplacians(), solver=solver, C=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(str(rows), "y", checkpoint=Checkpoint(path, pause=0.0, times=0.0))


def struck(job, number, seconds) -> int:
    """Do a job in a process of its own, send it a signal after some time, and return its exit code; 1 is an error."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            job()
            code = 0
        except KeyboardInterrupt:
            code = 130
        finally:
            os._exit(code)
    time.sleep(seconds)
    os.kill(child, number)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def seconds_of(job) -> float:
    started = time.perf_counter()
    job()
    return time.perf_counter() - started


def draw(rng, longest):
    """Return a signal and the moment when it comes."""
    number = signal.SIGKILL if rng.random() < 0.5 else signal.SIGINT
    return number, rng.uniform(0.0, 1.1 * longest)


def test_struck_fits(campaign, tmp_path):
    rows, path = table(tmp_path), tmp_path / "fit.ckpt"
    straight = fit_rows(rows, path).result_.predictor.W  # compiles, and measures nothing yet
    longest = seconds_of(lambda: fit_rows(rows, path))

    def attempt(rng):
        number, moment = draw(rng, longest)
        code = struck(lambda: fit_rows(rows, path), number, moment)
        assert code in (0, 130, -signal.SIGKILL), f"signal {number} after {moment:.3f} s: exit code {code}"
        np.testing.assert_array_equal(fit_rows(rows, path).result_.predictor.W, straight)
        assert os.listdir(tmp_path) == ["rows"], "nothing half-written stays"

    campaign.run(50, attempt)


def test_struck_saves_and_predictions(campaign, tmp_path):
    rows, model = table(tmp_path), saved_model(1.0)
    model.save(tmp_path / "m.mk")
    known = model.predict(np.ones((2, 20)))
    small = MKLRegressor([RBF(5.0), Linear()], solver=LpNorm(), C=1.0).fit(np.eye(3), [1.0, 2.0, 3.0])
    predict_to(small, open_source(str(rows), drop=["y"]), tmp_path / "p.csv")
    whole = (tmp_path / "p.csv").read_bytes()

    def save():
        for _ in range(20):
            model.save(tmp_path / "m.mk")

    def predict():
        predict_to(small, open_source(str(rows), drop=["y"]), tmp_path / "p.csv")

    longest = {job: seconds_of(job) for job in (save, predict)}

    def attempt(rng):
        job = (save, predict)[rng.integers(2)]
        if rng.random() < 0.5:
            (tmp_path / "p.csv").unlink(missing_ok=True)
        number, moment = draw(rng, longest[job])
        code = struck(job, number, moment)
        assert code in (0, 130, -signal.SIGKILL), f"signal {number} after {moment:.3f} s: exit code {code}"
        np.testing.assert_array_equal(load(tmp_path / "m.mk").predict(np.ones((2, 20))), known)
        assert not (tmp_path / "p.csv").exists() or (tmp_path / "p.csv").read_bytes() == whole
        save()
        predict()
        assert sorted(os.listdir(tmp_path)) == ["m.mk", "p.csv", "rows"], "nothing half-written stays"

    campaign.run(50, attempt)
