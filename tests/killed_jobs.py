"""Fits in processes of their own, to be killed."""

from __future__ import annotations

import os
import signal

import numpy as np

from manykernels import MKLClassifier
from manykernels.families import Laplacians
from manykernels.kernels import RBF
from manykernels.persistence import checkpoint as _checkpoint
from manykernels.solvers import Blockwise, TriplyStochastic, stream_run, triply_stochastic
from manykernels.solvers.blockwise import fit as blockwise_fit

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3000, 3))
y = (np.sin(3 * X[:, 0]) + X[:, 1] > 0).astype(int)


class _Killing(_checkpoint.Checkpoint):
    """Ends the process once so many states are written."""

    left: int | None = None

    def write(self, state):
        super().write(state)
        if type(self).left is not None:
            type(self).left -= 1
            if type(self).left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


def _prepare(kill_at) -> None:
    """Write a state whenever one is offered, and end the process after `kill_at` of them."""
    from manykernels.estimators import streamed as _streamed

    _checkpoint.PAUSE = _checkpoint.SHARE = blockwise_fit.SAVE_EVERY = stream_run.SAVE_EVERY = 0.0
    triply_stochastic.CHUNK = 128  # many small batches
    _Killing.left = kill_at
    _streamed.Checkpoint = _Killing


def blockwise_job(checkpoint, folder=None, kill_at=None, **params):
    """Fit with a checkpoint after every grid, from arrays or from a folder, and return all that predicts."""
    _prepare(kill_at)
    solver = Blockwise(**{"grids": 16, "sweeps": 3, "bins": 1024, "random_state": 0} | params)
    rows = (X, y) if folder is None else (folder, "late")
    model = MKLClassifier(kernels=Laplacians(), solver=solver).fit(*rows, checkpoint=checkpoint)
    predictor = model.result_.predictor
    return np.concatenate([predictor.W.ravel(), predictor.intercept, model.result_.calibration])


def stochastic_job(checkpoint, folder=None, kill_at=None):
    """Fit TriplyStochastic with a checkpoint after every batch that may have one, and return the scores of all rows."""
    _prepare(kill_at)
    solver = TriplyStochastic(n_features=64, block=32, batch_size=64, epochs=3, random_state=0)
    rows = (X, y) if folder is None else (folder, "late")
    model = MKLClassifier([RBF(0.7), RBF(2.0)], solver=solver, loss="logistic").fit(
        *rows, checkpoint=checkpoint
    )
    return model.result_.predictor.scores(X)
