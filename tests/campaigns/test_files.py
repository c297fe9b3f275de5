"""Model files and checkpoints with something wrong in them: a sentence, or a model that predicts."""

from __future__ import annotations

import warnings
from contextlib import suppress
from functools import cache

import numpy as np
import pytest

from manykernels import AlignedKernel, MKLClassifier, MKLRegressor, load
from manykernels.families import Gaussians, Laplacians, Products
from manykernels.kernels import RBF, Laplacian, Linear, Polynomial
from manykernels.persistence.checkpoint import Checkpoint
from manykernels.solvers import Blockwise, Greedy, LpNorm, MirrorDescent, TriplyStochastic

from .mutations import mutate

RNG = np.random.default_rng(0)
X = RNG.normal(size=(240, 3))
y = X[:, 0] * X[:, 1] + 0.1 * RNG.normal(size=240)
LABELS = np.array(["a", "b", "c"])[np.digitize(y, [-0.3, 0.3])]
TABLE = np.column_stack([X[:, 0], np.where(X[:, 1] > 0, "up", "down"), np.where(X[:, 2] > 1, None, X[:, 2])])
STACK = np.stack([X @ X.T, (1 + X @ X.T) ** 2], axis=2)


def blockwise(**options):
    return Blockwise(
        **{"grids": 8, "n_features": 32, "block": 8, "bins": 64, "sweeps": 2, "random_state": 0} | options
    )


def stochastic():
    return TriplyStochastic(n_features=16, block=8, epochs=2, batch_size=32, random_state=0)


#: Models by name: how one is made, and the rows it predicts and goes on with.
MODELS = {
    "list": lambda: MKLClassifier([RBF(1.0), Laplacian(2.0), Linear([0, 2])], solver=LpNorm(), C=1.0).fit(X, LABELS),
    "explicit": lambda: MKLRegressor([Linear(), Polynomial(2)], solver=LpNorm(), C=1.0).fit(X, y),
    "products": lambda: MKLRegressor(Products(degree=2), solver=Greedy(max_kernels=3), C=1.0).fit(X, y),
    "drawn": lambda: MKLRegressor(Products(2), solver=MirrorDescent(max_iter=5, random_state=0), C=1.0).fit(X, y),
    "precomputed": lambda: MKLClassifier("precomputed", solver=LpNorm(), C=1.0).fit(STACK, y > 0),
    "continuum": lambda: MKLRegressor(Gaussians(), C=1.0).fit(X[:80], y[:80]),
    "table": lambda: MKLClassifier(C=1.0).fit(TABLE[:80], LABELS[:80]),
    "aligned": lambda: AlignedKernel([RBF(1.0), Linear()]).fit(X, y),
    "grids": lambda: MKLClassifier(Laplacians(), solver=blockwise(), C=1.0).fit(X, LABELS),
    "two lists": lambda: MKLRegressor([Laplacian(1.0), RBF(2.0), Linear()], solver=blockwise(), C=1.0).fit(X, y),
    "grids in batches": lambda: MKLClassifier(Laplacians(ard=True), solver=blockwise(), C=1.0).partial_fit(X, LABELS),
    "few in batches": lambda: MKLRegressor(Gaussians(), solver=blockwise(), C=1.0).partial_fit(X[:50], y[:50]),
    "dense in batches": lambda: MKLRegressor([RBF(1.0), Linear()], solver=blockwise(), C=1.0).partial_fit(X, y),
    "stochastic": lambda: MKLClassifier([RBF(1.0), Linear()], solver=stochastic(), C=1.0).fit(X, LABELS),
    "stochastic batches": lambda: MKLRegressor([RBF(1.0), Linear()], solver=stochastic(), C=1.0).partial_fit(X, y),
}  # fmt: skip
ROWS = {"precomputed": STACK[:5], "table": TABLE[:5]}


@cache
def saved(name, folder) -> bytes:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        MODELS[name]().save(folder / f"{name}.mk")
    return (folder / f"{name}.mk").read_bytes()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("files")


def is_a_sentence(error, path, start=""):
    said = str(error)
    assert said.startswith(f"{start}{path} ") and "\n" not in said and said.endswith("."), said


def use(model, rows):
    """Do with a model what people do."""
    if not hasattr(model, "result_"):
        assert np.isfinite(model.transform(rows)).all()
        return
    model.contributions(rows)
    model.predict(rows)
    assert np.isfinite(model.result_.predictor.scores(model._rows(rows))).all()
    if hasattr(model, "state_"):
        targets = (
            model.classes_[np.arange(len(rows)) % len(model.classes_)]
            if hasattr(model, "classes_")
            else y[:5]
        )
        try:
            model.partial_fit(rows, targets).predict(rows)
        except ValueError as error:  # numbers of a state may be wild, and still numbers
            if "diverged" not in str(error):
                raise


def test_mutated_models(campaign, folder):
    path = folder / "mutated.mk"

    def attempt(rng):
        name = rng.choice(sorted(MODELS))
        path.write_bytes(mutate(saved(name, folder), rng))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                model = load(path)
            except ValueError as error:
                is_a_sentence(error, path)
                return
            use(model, ROWS.get(name, X[:5]))

    campaign.run(1500, attempt)


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
    "stochastic": lambda: MKLRegressor([RBF(1.0), Linear()], solver=stochastic(), C=1.0),
}


def targets_of(model):
    return LABELS if isinstance(model, MKLClassifier) else y


@cache
def interrupted(name, after, folder) -> bytes:
    path, model = folder / f"{name}.ckpt", FITS[name]()
    with suppress(Enough), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, targets_of(model), checkpoint=Stopping(path, after))
    return path.read_bytes()


def test_mutated_checkpoints(campaign, folder):
    path = folder / "mutated.ckpt"

    def attempt(rng):
        name = rng.choice(sorted(FITS))
        path.write_bytes(
            mutate(interrupted(name, 1 if name == "stochastic" else int(rng.integers(1, 4)), folder), rng)
        )
        model = FITS[name]()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                model.fit(X, targets_of(model), checkpoint=path)
            except ValueError as error:
                is_a_sentence(error, path, "checkpoint: ")
                return
        assert np.isfinite(model.result_.predictor.scores(X[:5])).all()

    campaign.run(500, attempt)
