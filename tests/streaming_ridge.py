"""A small streaming solver for tests of everything around it: its result depends on the order of the rows."""

from __future__ import annotations

import os
import signal

import numpy as np

from manykernels import MKLRegressor
from manykernels.combination import Combination
from manykernels.families import HasFeatures, Products
from manykernels.persistence.checkpoint import Checkpoint
from manykernels.predictors import Primal
from manykernels.problem import Result, Trace
from manykernels.solvers import StreamingSolver


class OrderedRidge(StreamingSolver):
    """Stochastic gradient steps on explicit features, so that another order of rows is another model.

    `kill_at`, of the class, ends the process with SIGKILL after so many batches of this run. The objective is the
    number of rows seen.
    """

    requires = (HasFeatures,)
    losses = ("squared",)

    kill_at: int | None = None
    seen = 0

    def __init__(self, epochs=1, batch_size=100, step=0.01, validation_fraction=None, random_state=None):
        self.epochs = epochs
        self.batch_size = batch_size
        self.step = step
        self.validation_fraction = validation_fraction
        self.random_state = random_state

    def default_loss(self, n_classes):
        return "squared"

    def start(self, problem):
        k = int(problem.family.widths(problem.family.members()).sum()) + 1
        noise = np.random.default_rng(self.random_state).normal(size=(k, problem.n_outputs))
        return {"W": 1e-3 * noise, "rows": np.zeros(1)}

    def update(self, state, batch):
        type(self).seen += 1
        if self.kill_at is not None and type(self).seen > self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        phi = batch.family.features(np.asarray(batch.X, dtype=float), batch.family.members())
        Z = np.column_stack([phi, np.ones(batch.n_rows)])
        error = (Z @ state["W"] - batch.Y) * batch.sample_weight[:, None]
        step = self.step / max(np.einsum("ij,ij->i", Z, Z).mean(), 1e-12)
        return {"W": state["W"] - step * Z.T @ error / len(Z), "rows": state["rows"] + len(Z)}

    def finish(self, state, problem):
        members = problem.family.members()
        combination = Combination(problem.family, members, np.ones(len(members)), np.ones(len(members)))
        return Result(
            predictor=Primal(combination, state["W"][:-1], state["W"][-1]),
            combination=combination,
            objective=float(state["rows"][0]),
            gap=np.nan,
            gap_kind="none",
            n_iter=1,
            converged=True,
            trace=Trace(),
            dual_coef=None,
            intercept=state["W"][-1],
        )


def fit_job(checkpoint, kill_at=None):
    """Fit with a checkpoint after every batch, and return the coefficients."""
    OrderedRidge.kill_at, OrderedRidge.seen = kill_at, 0
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 3))
    y = X @ [1.0, -2.0, 0.5] + 3 + 0.1 * rng.normal(size=4000)
    solver = OrderedRidge(epochs=3, batch_size=50)
    return (
        MKLRegressor(Products(degree=1), solver=solver, random_state=0, C=1.0)
        .fit(X, y, checkpoint=Checkpoint(checkpoint, pause=0.0, times=0.0))
        .result_.predictor.W
    )
