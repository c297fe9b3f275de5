"""Model files and checkpoints with something wrong in them: a sentence, or a model that predicts."""

from __future__ import annotations

import tracemalloc
import warnings
from contextlib import suppress
from functools import cache

import numpy as np
import pytest

from manykernels import MKLClassifier, MKLRegressor, load
from manykernels.families import Gaussians, Laplacians
from manykernels.kernels import RBF, Laplacian, Linear
from manykernels.persistence import read_metadata
from manykernels.persistence.checkpoint import Checkpoint

from .mutations import exchange, mutate
from .structures import restructure
from .zoo import LABELS, MODELS, TABLE, X, blockwise, mixed, rows_of, saved, stochastic, y

#: Bytes that opening a file may take at a time, beyond some copies of the file.
ROOM, COPIES = 2**25, 20


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("files")


def is_a_sentence(error, path, start=""):
    said = str(error)
    assert said.startswith(f"{start}{path} ") and "\n" not in said and said.endswith("."), said


def use(model, rows):
    """Do with a model what people do."""
    repr(model)
    if not hasattr(model, "result_"):
        assert np.isfinite(model.transform(rows)).all()
        return
    model.contributions(rows)
    model.predict(rows)
    assert np.isfinite(model.result_.predictor.scores(model._rows(rows))).all()
    if hasattr(model, "state_"):
        targets = (
            model.classes_[np.arange(rows.shape[0]) % len(model.classes_)]
            if hasattr(model, "classes_")
            else y[:5]
        )
        try:
            model.partial_fit(rows, targets).predict(rows)
        except ValueError as error:  # numbers of a state may be wild, and still numbers
            if not any(words in str(error) for words in ("diverged", "too extreme to compute with")):
                raise


def kind_of(model) -> tuple:
    """Return what says which rows a model takes."""
    columns = getattr(model, "columns_", None)
    views = getattr(columns, "names", None)  # one with another name is another view
    return model.n_features_in_, columns is not None, model.combination_.family.pairwise, views


def open_and_use(path, rows, kind=None) -> None:
    """Open a file that may hold anything: a sentence, or a model that does what models of its kind do."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = load(path)
            read_metadata(path)
        except ValueError as error:
            is_a_sentence(error, path)
            return
        if kind is None or kind_of(model) == kind:
            use(model, rows)


@cache
def kind_saved(name, folder) -> tuple:
    path = folder / "whole.mk"
    path.write_bytes(saved(name, folder))
    return kind_of(load(path))


def test_mutated_models(campaign, folder):
    path = folder / "mutated.mk"

    def attempt(rng):
        name = str(rng.choice(sorted(MODELS)))
        path.write_bytes(mutate(saved(name, folder), rng))
        open_and_use(path, rows_of(name))

    campaign.run(2000, attempt)


def test_exchanged_arrays(campaign, folder):
    """Arrays of the right kind in the wrong place, or too short."""
    path, names = folder / "exchanged.mk", sorted(MODELS)

    def attempt(rng):
        name = names[int(rng.integers(len(names)))]
        path.write_bytes(exchange(saved(name, folder), rng))
        open_and_use(path, rows_of(name))

    campaign.run(2000, attempt)


def test_restructured_models(campaign, folder):
    path = folder / "restructured.mk"

    def attempt(rng):
        name, other = (str(v) for v in rng.choice(sorted(MODELS), size=2, replace=False))
        data = restructure(saved(name, folder), saved(other, folder), rng)
        path.write_bytes(data)
        tracemalloc.start()
        try:
            with suppress(ValueError), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                load(path)
            most = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert most <= ROOM + COPIES * len(data), f"{most:,} bytes for a file of {len(data):,}"
        # A part that was exchanged may be the whole model.
        open_and_use(path, rows_of(name), kind_saved(name, folder))

    campaign.run(2000, attempt)


def test_shown_models(campaign, folder):
    """`show` and `predict` of the command line, on files whose metadata are altered as well."""
    testing = pytest.importorskip("typer.testing")
    from manykernels import cli

    path, table = folder / "shown.mk", folder / "rows.csv"
    table.write_text("a,b,c\n1,2,3\n0.5,0,-1\n")
    app = cli.application()

    def attempt(rng):
        name, other = (str(v) for v in rng.choice(sorted(MODELS), size=2, replace=False))
        data = saved(name, folder)
        if rng.random() < 0.5:
            data = mutate(data, rng, parts=("metadata",))
        else:
            data = restructure(data, saved(other, folder), rng)
        path.write_bytes(data)
        for words in (["show", str(path)], ["show", str(path), "--json"], ["predict", str(path), str(table)]):
            result = testing.CliRunner().invoke(app, words)
            assert result.exit_code in (0, 2), f"{words}: {result.exception!r}"
            assert "--debug shows where" not in result.stderr, f"{words}: {result.stderr}"

    campaign.run(500, attempt)


# -- checkpoints ---------------------------------------------------------------------------------------


class Enough(Exception):
    pass


class Stopping(Checkpoint):
    """Writes every state, and ends the fit after some."""

    def __init__(self, path, left):
        super().__init__(path, pause=0.0, times=0.0)
        self.left = left

    def write(self, state):
        super().write(state)
        self.left -= 1
        if not self.left:
            raise Enough


FITS = {
    "grids": lambda: MKLClassifier(Laplacians(ard=True), solver=blockwise(), C=1.0),
    "grids of a list": lambda: MKLRegressor([Laplacian(1.0), Laplacian(3.0)], solver=blockwise(), C=1.0),
    "dense": lambda: MKLRegressor(Gaussians(), solver=blockwise(validation_fraction=0.0), C=1.0),
    "union": lambda: MKLRegressor(mixed(), solver=blockwise(), C=1.0),
    "table": lambda: MKLClassifier(solver=blockwise(), C=1.0),
    "stochastic": lambda: MKLRegressor([RBF(1.0), Linear()], solver=stochastic(), C=1.0),
    "stochastic classes": lambda: MKLClassifier([RBF(1.0), Linear()], solver=stochastic(), C=1.0),
}


def rows_for(name):
    return TABLE if name == "table" else X


def targets_of(model):
    return LABELS if isinstance(model, MKLClassifier) else y


@cache
def interrupted(name, after, folder) -> bytes:
    path, model = folder / f"{name}.ckpt", FITS[name]()
    with suppress(Enough), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(rows_for(name), targets_of(model), checkpoint=Stopping(path, after))
    data = path.read_bytes()
    path.unlink()
    return data


def state_of(name, rng, folder) -> bytes:
    """Return the bytes of a checkpoint of an unfinished fit."""
    return interrupted(name, 1 if name.startswith("stochastic") else int(rng.integers(1, 4)), folder)


def go_on(name, path) -> None:
    """Resume from a file that may hold anything: a sentence, or a model that predicts."""
    model = FITS[name]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model.fit(rows_for(name), targets_of(model), checkpoint=path)
        except ValueError as error:
            is_a_sentence(error, path, "checkpoint: ")
            return
        finally:
            path.unlink(missing_ok=True)
        scores = model.result_.predictor.scores(model._rows(rows_for(name)[:5]))
    assert np.isfinite(scores).all()


def test_mutated_checkpoints(campaign, folder):
    path = folder / "mutated.ckpt"

    def attempt(rng):
        name = str(rng.choice(sorted(FITS)))
        path.write_bytes(mutate(state_of(name, rng, folder), rng))
        go_on(name, path)

    campaign.run(500, attempt)


def test_restructured_checkpoints(campaign, folder):
    path = folder / "restructured.ckpt"

    def attempt(rng):
        name, other = (str(v) for v in rng.choice(sorted(FITS), size=2, replace=False))
        path.write_bytes(restructure(state_of(name, rng, folder), state_of(other, rng, folder), rng))
        go_on(name, path)

    campaign.run(500, attempt)
