"""A fit of Blockwise in a process of its own, to be killed."""

from __future__ import annotations

import os
import signal

import numpy as np

from manykernels import MKLClassifier, _checkpoint
from manykernels.families import Laplacians
from manykernels.solvers import Blockwise, blockwise_fit

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


def fit_job(checkpoint, folder=None, kill_at=None, **params):
    """Fit with a checkpoint after every grid, from arrays or from a folder, and return all that predicts."""
    from manykernels import _streamed

    _checkpoint.PAUSE = _checkpoint.SHARE = blockwise_fit.SAVE_EVERY = 0.0
    _Killing.left = kill_at
    _streamed.Checkpoint = _Killing
    solver = Blockwise(**{"grids": 16, "sweeps": 3, "bins": 1024, "random_state": 0} | params)
    rows = (X, y) if folder is None else (folder, "late")
    model = MKLClassifier(kernels=Laplacians(), solver=solver).fit(*rows, checkpoint=checkpoint)
    predictor = model.result_.predictor
    return np.concatenate([predictor.W.ravel(), predictor.intercept, model.result_.calibration])
