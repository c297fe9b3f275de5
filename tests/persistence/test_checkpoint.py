"""A fit that is killed goes on from its checkpoint to the same model, to the last bit."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from manykernels import MKLClassifier, MKLRegressor, load
from manykernels._util.shapes import Diverged
from manykernels.families import Products
from manykernels.kernels import RBF, Linear
from manykernels.persistence.checkpoint import Checkpoint, digest
from manykernels.persistence.classes import CLASSES

from ..streaming_ridge import OrderedRidge, fit_job

rng = np.random.default_rng(0)
X = rng.normal(size=(600, 3))
y = X @ [1.0, -2.0, 0.5] + 3 + 0.1 * rng.normal(size=600)


def regressor(degree=1, C=1.0, **options):
    options = {"epochs": 3, "batch_size": 50} | options
    return MKLRegressor(Products(degree=degree), solver=OrderedRidge(**options), C=C, random_state=0)


class Crash(Exception):
    pass


class Crashing(OrderedRidge):
    """Stops, as by a fault, after some batches."""

    after: int

    def update(self, state, batch):
        if type(self).after == 0:
            raise Crash
        type(self).after -= 1
        return super().update(state, batch)


def every_state(path):
    """A checkpoint that writes every state, however short the time since the last."""
    return Checkpoint(path, pause=0.0, times=0.0)


def interrupted(path, after, *, data=(X, y), random_state=0, **options):
    """Fit until a crash, then leave the checkpoint as an ordinary solver's."""
    model = MKLRegressor(Products(degree=1), random_state=random_state, C=1.0)
    # The class's name is part of the checkpoint's identity, so it must be the real solver's.
    crashing = type("OrderedRidge", (Crashing,), {"after": after})
    model.set_params(solver=crashing(**({"epochs": 3, "batch_size": 50} | options)))
    with pytest.raises(Crash):
        model.fit(*data, checkpoint=every_state(path))
    assert path.exists() and not hasattr(model, "result_")


@pytest.mark.parametrize("after", [1, 12, 17, 35])
def test_a_fit_goes_on_to_the_same_model(after, tmp_path):
    path = tmp_path / "fit.ckpt"
    straight = regressor().fit(X, y, checkpoint=tmp_path / "other")
    interrupted(path, after)
    resumed = regressor().fit(X, y, checkpoint=path)
    assert resumed.objective_ == 1800 and resumed.n_iter_ == 3
    assert_array_equal(resumed.result_.predictor.W, straight.result_.predictor.W)
    assert not list(tmp_path.iterdir()), "a checkpoint is removed at the end"


def test_without_a_seed_the_interrupted_fits_own_is_taken_up(tmp_path):
    path = tmp_path / "fit.ckpt"
    interrupted(path, 20, random_state=None)
    seed = Checkpoint(path).seed
    model = regressor().set_params(random_state=None).fit(X, y, checkpoint=path)
    straight = regressor().set_params(random_state=seed).fit(X, y, checkpoint=path)
    assert_array_equal(model.result_.predictor.W, straight.result_.predictor.W)


def test_sources_resume_too(tmp_path):
    path = tmp_path / "fit.ckpt"
    batches = [(X[i : i + 90], y[i : i + 90]) for i in range(0, 600, 90)]
    straight = regressor().fit(batches)
    interrupted(path, 17, data=(batches,))
    assert_array_equal(
        regressor().fit(batches, checkpoint=path).result_.predictor.W, straight.result_.predictor.W
    )


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda: regressor(C=2.0).fit, "C was 1.0 and is 2.0"),
        (lambda: regressor(step=0.5).fit, "solver was 'OrderedRidge"),
        (lambda: regressor(degree=2).fit, "kernels was 'Products"),
        (
            lambda: MKLClassifier(Products(degree=1), solver=regressor().solver, random_state=0, C=1.0).fit,
            "the estimator",
        ),
    ],
)
def test_a_checkpoint_of_another_model_is_refused(change, sentence, tmp_path):
    path = tmp_path / "fit.ckpt"
    interrupted(path, 5)
    fit, target = change(), y if sentence != "the estimator" else y > 3
    before = path.read_bytes()
    with pytest.raises(ValueError, match=f"belongs to another fit: {sentence}.*; delete it to start anew"):
        fit(X, target, checkpoint=path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ((X[:-1], y[:-1]), "it was written before 'X' changed"),
        ((X[:, :2], y), "it was written before 'X' changed"),
        ((X + 1e-9, y), "it was written before 'X' changed"),
        ((X, np.where(np.arange(len(y)) == len(y) - 1, y + 1e-9, y)), "it was written before 'y' changed"),
        ((X, y, np.ones(len(y))), "it was written before 'sample_weight' was added"),
    ],
)
def test_a_checkpoint_of_other_rows_is_refused(rows, sentence, tmp_path):
    path = tmp_path / "fit.ckpt"
    interrupted(path, 5)
    with pytest.raises(ValueError, match=f"belongs to another fit: {sentence}"):
        regressor().fit(*rows, checkpoint=path)


# -- files that change between a crash and the next fit ------------------------------------------------


def text_of(X, y):
    return "a,b,c,y\n" + "".join(
        ",".join(f"{v!r}" for v in (*row, t)) + "\n" for row, t in zip(X.tolist(), y.tolist())
    )


@pytest.fixture
def parts(tmp_path):
    """A folder of three tables, of 200 rows each."""
    folder = tmp_path / "rows"
    folder.mkdir()
    for k in range(3):
        (folder / f"{k}.csv").write_text(text_of(X[200 * k : 200 * k + 200], y[200 * k : 200 * k + 200]))
    return folder


def last_digit(folder):
    """Change one digit of the last row, but neither the length of the file nor when it was changed."""
    path, times = folder / "2.csv", os.stat(folder / "2.csv")
    text = path.read_text().rstrip("\n")
    path.write_text(text[:-1] + ("1" if text[-1] != "1" else "2") + "\n")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def one_row_less(folder):
    lines = (folder / "1.csv").read_text().splitlines(keepends=True)
    (folder / "1.csv").write_text("".join(lines[:-1]))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (last_digit, r"it was written before '.*/rows/2\.csv' changed"),
        (one_row_less, r"it was written before '.*/rows/1\.csv' changed"),
        (
            lambda f: (f / "3.csv").write_text((f / "0.csv").read_text()),
            r"it was written before '.*/3\.csv' was added",
        ),
        (lambda f: (f / "0.csv").unlink(), r"it was written before '.*/0\.csv' was removed"),
        (lambda f: os.rename(f / "0.csv", f / "9.csv"), r"\['.*/9\.csv'\] is not what it was written with"),
    ],
)
def test_a_file_that_changed_since_the_crash_is_named(parts, tmp_path, change, sentence):
    path = tmp_path / "fit.ckpt"
    interrupted(path, 5, data=(str(parts), "y"))
    before = path.read_bytes()
    change(parts)
    with pytest.raises(ValueError, match=f"belongs to another fit: {sentence}; delete it to start anew"):
        regressor().fit(str(parts), "y", checkpoint=path)
    assert path.read_bytes() == before


def test_files_that_moved_or_were_copied_are_the_same(parts, tmp_path):
    straight = regressor().fit(str(parts), "y", checkpoint=tmp_path / "straight.ckpt").result_.predictor.W
    path = tmp_path / "fit.ckpt"
    interrupted(path, 5, data=(str(parts), "y"))
    os.rename(parts, tmp_path / "elsewhere")
    for file in (tmp_path / "elsewhere").iterdir():
        os.utime(file, (0, 0))
    again = regressor().fit(str(tmp_path / "elsewhere"), "y", checkpoint=path)
    assert_array_equal(again.result_.predictor.W, straight)


def test_a_mapped_file_that_changed_since_the_crash_is_noticed(tmp_path):
    mapped = np.memmap(tmp_path / "X.bin", float, "w+", shape=X.shape)
    mapped[:] = X
    interrupted(tmp_path / "fit.ckpt", 5, data=(mapped, y))
    mapped[-1, -1] += 1.0
    with pytest.raises(ValueError, match="it was written before 'X' changed"):
        regressor().fit(mapped, y, checkpoint=tmp_path / "fit.ckpt")


@pytest.mark.parametrize("damage", ["truncated", "altered", "foreign", "model", "empty"])
def test_a_damaged_checkpoint_is_refused_in_one_sentence(damage, tmp_path):
    path = tmp_path / "fit.ckpt"
    interrupted(path, 5)
    data = bytearray(path.read_bytes())
    if damage == "truncated":
        path.write_bytes(data[: len(data) // 2])
    elif damage == "altered":
        data[data.index(b"NUMPY") + 20] ^= 1
        path.write_bytes(data)
    elif damage == "foreign":
        path.write_text("something else")
    elif damage == "model":
        MKLRegressor(kernels="gaussian", C=1.0).fit(X[:50], y[:50]).save(path)
    else:
        path.write_bytes(b"")
    model = regressor().fit(X, y)
    before = model.predict(X)
    with pytest.raises(ValueError, match=r"checkpoint: .*fit\.ckpt .*; delete it to start anew") as info:
        model.fit(X, y, checkpoint=path)
    assert "\n" not in str(info.value)
    assert_array_equal(model.predict(X), before)


def test_a_fit_that_diverges_names_the_file_that_it_went_on_from(tmp_path):
    path, error = tmp_path / "fit.ckpt", Diverged("TriplyStochastic diverged in step 9; lower C.")
    first = Checkpoint(path)
    first.resume({}, 0)
    with pytest.raises(Diverged, match=r"^Triply"), first.blamed():
        raise error
    first.write({"a": np.zeros(2)})
    again = Checkpoint(path)
    again.resume({}, 0)
    with (
        pytest.raises(ValueError, match=r"fit\.ckpt holds a fit that does not go on: .* lower C; or delete"),
        again.blamed(),
    ):
        raise error


def test_the_folder_must_exist(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"checkpoint: the directory .* does not exist"):
        regressor().fit(X, y, checkpoint=tmp_path / "no" / "fit.ckpt")


def test_states_are_written_only_now_and_then(tmp_path):
    class Counting(Checkpoint):
        written = 0

        def write(self, state):
            self.written += 1

    saved = Counting(tmp_path / "fit.ckpt", pause=100.0)
    regressor().fit(X, y, checkpoint=saved)
    assert saved.written == 1


def test_states_that_take_long_are_written_seldom(tmp_path):
    saved = Checkpoint(tmp_path / "fit.ckpt", pause=0.0, times=1e9)
    saved.resume({}, seed=0)
    for k in range(3):
        saved.save(lambda k=k: {"k": np.array([k])})
    assert Checkpoint(tmp_path / "fit.ckpt").state["k"] == 0


def test_ctrl_c_keeps_the_checkpoint(tmp_path):
    def stop(step):
        raise KeyboardInterrupt

    with pytest.warns(ConvergenceWarning, match="Interrupted in epoch 2, after 0 of its batches"):
        model = regressor().fit(X, y, checkpoint=tmp_path / "fit.ckpt", on_iteration=stop)
    assert model.result_.interrupted and (tmp_path / "fit.ckpt").exists()
    straight = regressor().fit(X, y, checkpoint=tmp_path / "other")
    assert_array_equal(
        regressor().fit(X, y, checkpoint=tmp_path / "fit.ckpt").result_.predictor.W,
        straight.result_.predictor.W,
    )


def test_digests_tell_values_apart():
    assert digest([X, y]) == digest([X.copy(), y.copy()])
    assert digest([X, y]) != digest([X, -y])
    assert digest(RBF(1.0)) != digest(RBF(2.0)) != digest(Linear())
    assert digest(lambda a: a) == digest(lambda b: b)  # by name, without the address


# -- killed processes ----------------------------------------------------------------------------------

ROOT = Path(__file__).parents[2]
CODE = """
from tests.streaming_ridge import fit_job
print("started", flush=True)
fit_job({!r}, kill_at={!r})
"""


def fit_in_a_process(path, kill_at=None):
    return subprocess.Popen(
        [sys.executable, "-c", CODE.format(str(path), kill_at)], stdout=subprocess.PIPE, cwd=ROOT
    )


def ended(process):
    process.communicate()
    return process.returncode


def test_a_process_killed_between_batches_resumes_to_the_same_bits(tmp_path):
    straight = fit_job(tmp_path / "straight.ckpt")
    path = tmp_path / "fit.ckpt"
    assert ended(fit_in_a_process(path, kill_at=130)) == -signal.SIGKILL
    assert_array_equal(Checkpoint(path).state["stream_position"], [1, 50])
    assert_array_equal(fit_job(path), straight)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_processes_killed_at_any_moment_resume_to_the_same_bits(tmp_path):
    """Also in the middle of writing: there is a state per batch, so that most of the time goes into writing."""
    straight = fit_job(tmp_path / "straight.ckpt")
    path, moments, kills = tmp_path / "fit.ckpt", np.random.default_rng(int(time.time())), 0
    for _ in range(10):
        process = fit_in_a_process(path)
        process.stdout.readline()
        time.sleep(moments.uniform(0.0, 0.4))
        os.kill(process.pid, signal.SIGKILL)
        if ended(process) == 0:
            break
        kills += 1
        if path.exists():
            assert Checkpoint(path).state, "a checkpoint is whole"
    assert kills > 0
    assert_array_equal(fit_job(path), straight)
    assert not list(tmp_path.iterdir()), "nothing half-written stays"


# -- models in mid-stream ------------------------------------------------------------------------------


@pytest.fixture
def known_solver(monkeypatch):
    """Let the tests' solver into model files."""
    place = f"{OrderedRidge.__module__}:OrderedRidge"
    monkeypatch.setitem(CLASSES["object"], "solvers.OrderedRidge", place)


def test_a_model_saved_in_mid_stream_goes_on_after_loading(known_solver, tmp_path):
    model = regressor().partial_fit(X[:200], y[:200])
    model.save(tmp_path / "m.mk")
    loaded = load(tmp_path / "m.mk")
    for m in (model, loaded):
        m.partial_fit(X[200:400], y[200:400]).partial_fit(X[400:], y[400:])
    assert loaded.state_["rows"] == 600
    assert_array_equal(loaded.predict(X), model.predict(X))


def test_a_classifier_saved_in_mid_stream_goes_on_after_loading(known_solver, tmp_path):
    labels = np.array(["no", "yes"])[(y > 3).astype(int)]
    model = MKLClassifier(Products(degree=1), solver=OrderedRidge(random_state=0), C=1.0)
    model.partial_fit(X[:200], labels[:200], classes=["no", "yes"]).save(tmp_path / "m.mk")
    loaded = load(tmp_path / "m.mk")
    for m in (model, loaded):
        m.partial_fit(X[200:], labels[200:])
    assert_array_equal(loaded.decision_function(X), model.decision_function(X))


def test_the_size_of_a_model_does_not_depend_on_the_rows(known_solver, tmp_path):
    sizes = []
    for times in (1, 20):
        batches = [(X, y)] * times
        regressor().fit(batches).save(tmp_path / "m.mk")
        sizes.append((tmp_path / "m.mk").stat().st_size)
    assert sizes[1] <= sizes[0] + 100
