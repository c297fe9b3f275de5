"""Fits in processes of their own, to be killed."""

from __future__ import annotations

import os
import signal

import numpy as np

from manykernels import MKLClassifier
from manykernels.families import Laplacians
from manykernels.kernels import RBF
from manykernels.persistence.checkpoint import Checkpoint
from manykernels.solvers import Blockwise, TriplyStochastic

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3000, 3))
y = (np.sin(3 * X[:, 0]) + X[:, 1] > 0).astype(int)


class Killing(Checkpoint):
    """Writes every state, and ends the process once `kill_at` of them are written."""

    def __init__(self, path, kill_at=None):
        super().__init__(path, pause=0.0, times=0.0)
        self.left = kill_at

    def write(self, state):
        super().write(state)
        if self.left is not None:
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


class SmallBatches(TriplyStochastic):
    """Takes many small batches."""

    rows_at_once = 128


def blockwise_job(checkpoint, folder=None, kill_at=None, **params):
    """Fit with a checkpoint after every grid, from arrays or from a folder, and return all that predicts."""
    solver = Blockwise(**{"grids": 16, "sweeps": 3, "bins": 1024, "random_state": 0} | params)
    rows = (X, y) if folder is None else (folder, "late")
    model = MKLClassifier(kernels=Laplacians(), solver=solver, C=1.0).fit(
        *rows, checkpoint=Killing(checkpoint, kill_at)
    )
    predictor = model.result_.predictor
    return np.concatenate([predictor.W.ravel(), predictor.intercept, model.result_.calibration])


def stochastic_job(checkpoint, folder=None, kill_at=None):
    """Fit TriplyStochastic with a checkpoint after every batch that may have one, and return the scores of all rows."""
    solver = SmallBatches(n_features=64, block=32, batch_size=64, epochs=3, random_state=0)
    rows = (X, y) if folder is None else (folder, "late")
    model = MKLClassifier([RBF(0.7), RBF(2.0)], solver=solver, loss="logistic", C=1.0).fit(
        *rows, checkpoint=Killing(checkpoint, kill_at)
    )
    return model.result_.predictor.scores(X)
