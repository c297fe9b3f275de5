"""Small fitted models, of every estimator, solver, family and predictor that a model file can hold."""

from __future__ import annotations

import datetime as dt
import warnings
from functools import cache

import numpy as np
import scipy.sparse as sp

from manykernels import AlignedKernel, MKLClassifier, MKLRegressor
from manykernels.families import Dirichlets, Finite, Gaussians, Laplacians, Products, Union
from manykernels.kernels import RBF, Constant, Dirichlet, Laplacian, Linear, Pairwise, Polynomial
from manykernels.persistence import save
from manykernels.solvers import (
    SILP,
    Alignment,
    Blockwise,
    Greedy,
    GreedyAlignment,
    LeaveOneOut,
    LpNorm,
    MirrorDescent,
    Obscure,
    SimpleMKL,
    Single,
    TriplyStochastic,
    Ufo,
    Uniform,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(240, 3))
y = X[:, 0] * X[:, 1] + 0.1 * RNG.normal(size=240)
LABELS = np.array(["a", "b", "c"])[np.digitize(y, [-0.3, 0.3])]
TABLE = np.column_stack([X[:, 0], np.where(X[:, 1] > 0, "up", "down"), np.where(X[:, 2] > 1, None, X[:, 2])])
DATES = np.column_stack([TABLE, [dt.date(2020, 1, 1) + dt.timedelta(days=i) for i in range(240)]])
STACK = np.stack([X @ X.T, (1 + X @ X.T) ** 2], axis=2)
SPARSE = sp.csr_array(np.where(np.abs(X) > 0.5, X, 0.0))
UNIT = 1 / (1 + np.exp(-X))


def blockwise(**options):
    return Blockwise(
        **{"grids": 8, "n_features": 32, "block": 8, "bins": 64, "sweeps": 2, "random_state": 0} | options
    )


def stochastic():
    return TriplyStochastic(n_features=16, block=8, epochs=2, batch_size=32, random_state=0)


def mixed():
    return Union([Laplacians(), Gaussians(), Finite([Linear(), Linear([0])])])


#: How models are made, by name.
MODELS = {
    "list": lambda: MKLClassifier([RBF(1.0), Laplacian(2.0), Linear([0, 2])], solver=LpNorm(), C=1.0).fit(X, LABELS),
    "explicit": lambda: MKLRegressor([Linear(), Polynomial(2)], solver=LpNorm(), C=1.0).fit(X, y),
    "odd kernels": lambda: MKLRegressor([Pairwise("rbf", {"gamma": 0.4}), Constant(2.0), Polynomial(3, 0.5, 0.3, columns=slice(0, 2))], solver=Uniform(), C=1.0).fit(X, y),
    "two targets": lambda: MKLRegressor([RBF(1.0), Linear()], solver=SimpleMKL(), C=1.0).fit(X, np.column_stack([y, -y])),
    "hinges": lambda: MKLClassifier([RBF(1.0), Linear()], solver=SILP(), loss="hinge", C=1.0).fit(X, y > 0),
    "softmax": lambda: MKLClassifier([RBF(1.0), Linear()], solver=LpNorm(p=1.5), loss="softmax", C=1.0).fit(X, LABELS),
    "balanced": lambda: MKLClassifier([RBF(1.0), Linear()], solver=Single(), loss="logistic", class_weight="balanced", C=1.0).fit(X, y > 0),
    "named": lambda: MKLClassifier("gaussian", solver=Alignment(), C=1.0).fit(X[:80], y[:80] > 0),
    "obscure": lambda: MKLClassifier([RBF(1.0), Linear()], solver=Obscure(p=1.5, random_state=0), C=1.0).fit(X, y > 0),
    "ufo": lambda: MKLClassifier([RBF(1.0), Linear()], solver=Ufo(random_state=0), C=1.0).fit(X, y > 0),
    "products": lambda: MKLRegressor(Products(degree=2), solver=Greedy(max_kernels=3), C=1.0).fit(X, y),
    "products of kernels": lambda: MKLRegressor(Products(2, [RBF(1.0), Linear()]), solver=Greedy(max_kernels=3), C=1.0).fit(X, y),
    "drawn": lambda: MKLRegressor(Products(2), solver=MirrorDescent(max_iter=5, random_state=0), C=1.0).fit(X, y),
    "dirichlets": lambda: MKLRegressor(Dirichlets((1.0, 3.0)), solver=Greedy(max_kernels=3, random_state=0), C=1.0).fit(UNIT[:, :1], y),
    "dirichlet list": lambda: MKLRegressor([Dirichlet(1.2, [0]), Dirichlet(1.7, [1])], solver=LpNorm(), C=1.0).fit(UNIT, y),
    "precomputed": lambda: MKLClassifier("precomputed", solver=LpNorm(), C=1.0).fit(STACK, y > 0),
    "precomputed greedy": lambda: MKLRegressor("precomputed", solver=Greedy(), C=1.0).fit(STACK, y),
    "sparse": lambda: MKLRegressor([Linear(), Linear([0])], solver=LpNorm(), C=1.0).fit(SPARSE, y),
    "sparse rows": lambda: MKLClassifier([RBF(1.0), Linear()], solver=LpNorm(), C=1.0).fit(SPARSE, LABELS),
    "continuum": lambda: MKLRegressor(Gaussians(), C=1.0).fit(X[:80], y[:80]),
    "ard": lambda: MKLRegressor(Gaussians(ard=True), solver=Greedy(max_kernels=2, random_state=0), C=1.0).fit(X[:80], y[:80]),
    "aligned greedily": lambda: MKLRegressor(Gaussians(), solver=GreedyAlignment(max_kernels=2, random_state=0), C=1.0).fit(X[:80], y[:80]),
    "union": lambda: MKLRegressor(Union([Gaussians(), Finite([Linear()])]), solver=LeaveOneOut(random_state=0), C=1.0).fit(X[:80], y[:80]),
    "union greedy": lambda: MKLRegressor(mixed(), solver=Greedy(max_kernels=2, random_state=0), C=1.0).fit(X[:80], y[:80]),
    "table": lambda: MKLClassifier(C=1.0).fit(TABLE[:80], LABELS[:80]),
    "table of numbers": lambda: MKLRegressor().fit(DATES[:80], y[:80]),
    "table in grids": lambda: MKLClassifier(solver=blockwise(), C=1.0).fit(TABLE, LABELS),
    "aligned": lambda: AlignedKernel([RBF(1.0), Linear()]).fit(X, y),
    "aligned continuum": lambda: AlignedKernel(Gaussians(), solver=GreedyAlignment(max_kernels=2, random_state=0)).fit(X, y),
    "grids": lambda: MKLClassifier(Laplacians(), solver=blockwise(), C=1.0).fit(X, LABELS),
    "two lists": lambda: MKLRegressor([Laplacian(1.0), RBF(2.0), Linear()], solver=blockwise(), C=1.0).fit(X, y),
    "grids of a union": lambda: MKLRegressor(mixed(), solver=blockwise(), C=1.0).fit(X, y),
    "grids in batches": lambda: MKLClassifier(Laplacians(ard=True), solver=blockwise(), C=1.0).partial_fit(X, LABELS),
    "few in batches": lambda: MKLRegressor(Gaussians(), solver=blockwise(), C=1.0).partial_fit(X[:50], y[:50]),
    "dense in batches": lambda: MKLRegressor([RBF(1.0), Linear()], solver=blockwise(), C=1.0).partial_fit(X, y),
    "stochastic": lambda: MKLClassifier([RBF(1.0), Linear()], solver=stochastic(), C=1.0).fit(X, LABELS),
    "stochastic batches": lambda: MKLRegressor([RBF(1.0), Linear()], solver=stochastic(), C=1.0).partial_fit(X, y),
}  # fmt: skip
#: What the command line keeps beside a model.
SCORE = {"name": "accuracy", "value": 0.9, "n_rows": 60, "constant": 0.5}
BESIDE = {"target": "y", "columns": ["a", "b", "c"], "n_train": 240, "seconds": 0.5, "score": SCORE}
BESIDE |= {"mean": np.zeros(3), "scale": np.ones(3)}
#: The rows that a model predicts and goes on with.
ROWS = {"precomputed": STACK[:5], "precomputed greedy": STACK[:5], "dirichlets": UNIT[:5, :1], "dirichlet list": UNIT[:5]}
ROWS |= {"table": TABLE[:5], "table in grids": TABLE[:5], "table of numbers": DATES[:5]}
ROWS |= {"sparse": SPARSE[:5], "sparse rows": SPARSE[:5]}


def rows_of(name: str):
    return ROWS.get(name, X[:5])


@cache
def saved(name: str, folder) -> bytes:
    """Return the bytes of a model file."""
    path = folder / f"{name}.mk"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        save(MODELS[name](), path, metadata=BESIDE)
    data = path.read_bytes()
    path.unlink()
    return data
