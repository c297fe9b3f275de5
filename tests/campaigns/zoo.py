"""Small fitted models, of every estimator, solver, family and predictor that a model file can hold."""

from __future__ import annotations

import datetime as dt
import warnings
from functools import cache

import numpy as np
import scipy.sparse as sp

from manykernels import AlignedKernel, MKLClassifier, MKLOutlier, MKLRegressor, MKLSurvival
from manykernels.families import Dirichlets, Finite, Gaussians, Laplacians, Products, Union
from manykernels.kernels import RBF, Constant, Dirichlet, Laplacian, Linear, Pairwise, Polynomial
from manykernels.losses import Quantile
from manykernels.persistence import save
from manykernels.solvers import (
    SILP,
    Alignment,
    Blockwise,
    Greedy,
    GreedyAlignment,
    HessianMKL,
    Hierarchical,
    LeaveOneOut,
    LpNorm,
    MirrorDescent,
    Obscure,
    PolynomialMKL,
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
GRADES = np.digitize(y, [-0.3, 0.3])
BOTH = np.column_stack([y, X[:, 2] - y])
SPARSE = sp.csr_array(np.where(np.abs(X) > 0.5, X, 0.0))
VIEWS = {"wide": X[:80, :2], "text": TABLE[:80, 1:]}
UNIT = 1 / (1 + np.exp(-X))


def blockwise(**options):
    return Blockwise(
        **{"grids": 8, "n_features": 32, "block": 8, "bins": 64, "sweeps": 2, "random_state": 0} | options
    )


def stochastic():
    return TriplyStochastic(n_features=16, block=8, epochs=2, batch_size=32, random_state=0)


def mixed():
    return Union([Laplacians(), Gaussians(), Finite([Linear(), Linear([0])])])


def regress(kernels, solver="auto", rows=X, targets=y, way="fit", **options):
    """Return how to make a regressor."""
    options = {"C": 1.0} | options
    return lambda: getattr(MKLRegressor(kernels, solver=solver, **options), way)(rows, targets)


def classify(kernels, solver="auto", rows=X, labels=LABELS, way="fit", **options):
    """Return how to make a classifier."""
    options = {"C": 1.0} | options
    return lambda: getattr(MKLClassifier(kernels, solver=solver, **options), way)(rows, labels)


def survive(kernels, solver="auto", rows=X[:80], **options):
    """Return how to make a model of survival."""
    times = y[:80] < 0.3, np.ceil(5 + 4 * np.abs(y[:80]))
    return lambda: MKLSurvival(kernels, solver=solver, **{"C": 1.0} | options).fit(rows, times)


def watch(kernels, solver="uniform", rows=X[:80], **options):
    """Return how to make a model of what is usual."""
    return lambda: MKLOutlier(kernels, solver=solver, **options).fit(rows)


def align(kernels, solver="auto"):
    """Return how to make a kernel."""
    return lambda: AlignedKernel(kernels, solver=solver).fit(X, y)


TWO = [RBF(1.0), Linear()]
ODD = [Pairwise("rbf", {"gamma": 0.4}), Constant(2.0), Polynomial(3, 0.5, 0.3, columns=slice(0, 2))]
FEW = {"rows": X[:80], "targets": y[:80]}
GREEDY, ALIGNING = Greedy(max_kernels=2, random_state=0), GreedyAlignment(max_kernels=2, random_state=0)

#: How models are made, by name.
MODELS = {
    "list": classify([RBF(1.0), Laplacian(2.0), Linear([0, 2])], LpNorm()),
    "explicit": regress([Linear(), Polynomial(2)], LpNorm()),
    "odd kernels": regress(ODD, Uniform()),
    "counts": regress(["chi2", Pairwise("cosine")], LpNorm(), UNIT),
    "two targets": regress(TWO, SimpleMKL(), targets=np.column_stack([y, -y])),
    "hinges": classify(TWO, SILP(), labels=y > 0, loss="hinge"),
    "softmax": classify(TWO, LpNorm(p=1.5), loss="softmax"),
    "grades": classify(TWO, LpNorm(), labels=GRADES, loss="ordinal"),
    "grades of a table": classify("auto", rows=TABLE[:80], labels=GRADES[:80], loss="ordinal"),
    "grades in views": classify("auto", rows=VIEWS, labels=GRADES[:80], loss="ordinal"),
    "per target": regress(TWO, LpNorm(), targets=BOTH, weights="per_target"),
    "per target, bandwidths": regress("auto", rows=X[:80], targets=BOTH[:80], weights="per_target"),
    "per target, views": regress("auto", rows=VIEWS, targets=BOTH[:80], weights="per_target", C="auto"),
    "outliers": watch(TWO, nu=0.2),
    "outliers, learned": watch([RBF(1.0), RBF(3.0), Linear([0])], LpNorm(p=1.5)),
    "outliers, sparse": watch(TWO, rows=SPARSE),
    "survival": survive(TWO, LpNorm(), ties="efron"),
    "survival of a table": survive("auto", rows=TABLE[:80]),
    "balanced": classify(TWO, Single(), labels=y > 0, loss="logistic", class_weight="balanced"),
    "named": classify("gaussian", Alignment(), X[:80], y[:80] > 0),
    "obscure": classify(TWO, Obscure(p=1.5, random_state=0), labels=y > 0),
    "ufo": classify(TWO, Ufo(random_state=0), labels=y > 0),
    "products": regress(Products(degree=2), Greedy(max_kernels=3)),
    "products of kernels": regress(Products(2, TWO), Greedy(max_kernels=3)),
    "products of a table": regress(Products(2), GREEDY, TABLE[:80], y[:80]),
    "products with heredity": classify(
        Products(3, heredity="strong"), GREEDY, TABLE[:80], TABLE[:80, 1] == "up"
    ),
    "products as they are": regress(Products(2, standardize=False, heredity="weak"), Greedy(max_kernels=3)),
    "products in order": regress(Products(2, count="ordered", degree_prior=[1.0, 0.5]), GREEDY),
    "survival of products": survive(Products(2), LpNorm(), TABLE[:80]),
    "no kernel": classify(Products(1), GREEDY, X[:80], y[:80] > 0),
    "losses with parameters": regress(TWO, LpNorm(), loss=Quantile(0.8)),
    "counts of events": regress(TWO, LpNorm(), targets=np.round(np.abs(3 * y)), loss="poisson"),
    "second order": classify(TWO, HessianMKL(), labels=y > 0),
    "hierarchy": regress(Products(2), Hierarchical(), **FEW),
    "powers": regress(Products(degree=3), PolynomialMKL(starts=2, random_state=0), **FEW),
    "views": regress("auto", rows=VIEWS, targets=y[:80]),
    "drawn": regress(Products(2), MirrorDescent(max_iter=5, random_state=0)),
    "dirichlets": regress(Dirichlets((1.0, 3.0)), GREEDY, UNIT[:, :1]),
    "dirichlet list": regress([Dirichlet(1.2, [0]), Dirichlet(1.7, [1])], LpNorm(), UNIT),
    "precomputed": classify("precomputed", LpNorm(), STACK, y > 0),
    "precomputed greedy": regress("precomputed", Greedy(), STACK),
    "sparse": regress([Linear(), Linear([0])], LpNorm(), SPARSE),
    "sparse rows": classify(TWO, LpNorm(), SPARSE),
    "continuum": regress(Gaussians(), **FEW),
    "ard": regress(Gaussians(ard=True), GREEDY, **FEW),
    "aligned greedily": regress(Gaussians(), ALIGNING, **FEW),
    "union": regress(Union([Gaussians(), Finite([Linear()])]), LeaveOneOut(random_state=0), **FEW),
    "union greedy": regress(mixed(), GREEDY, **FEW),
    "table": classify("auto", rows=TABLE[:80], labels=LABELS[:80]),
    "table of numbers": regress("auto", rows=DATES[:80], targets=y[:80], C="auto"),
    "table in grids": classify("auto", blockwise(), TABLE),
    "aligned": align(TWO),
    "aligned continuum": align(Gaussians(), ALIGNING),
    "grids": classify(Laplacians(), blockwise()),
    "two lists": regress([Laplacian(1.0), RBF(2.0), Linear()], blockwise()),
    "grids of a union": regress(mixed(), blockwise()),
    "grids in batches": classify(Laplacians(ard=True), blockwise(), way="partial_fit"),
    "few in batches": regress(Gaussians(), blockwise(), X[:50], y[:50], way="partial_fit"),
    "dense in batches": regress(TWO, blockwise(), way="partial_fit"),
    "stochastic": classify(TWO, stochastic()),
    "stochastic batches": regress(TWO, stochastic(), way="partial_fit"),
}
#: What the command line keeps beside a model.
SCORE = {"name": "accuracy", "value": 0.9, "n_rows": 60, "constant": 0.5}
BESIDE = {"target": "y", "columns": ["a", "b", "c"], "n_train": 240, "seconds": 0.5, "score": SCORE}
BESIDE |= {"mean": np.zeros(3), "scale": np.ones(3)}
#: The rows that a model predicts and goes on with.
ROWS = {
    "precomputed": STACK[:5],
    "precomputed greedy": STACK[:5],
    "dirichlets": UNIT[:5, :1],
    "dirichlet list": UNIT[:5],
}
ROWS |= {
    "table": TABLE[:5],
    "survival of a table": TABLE[:5],
    "table in grids": TABLE[:5],
    "grades of a table": TABLE[:5],
    "products of a table": TABLE[:5],
    "products with heredity": TABLE[:5],
    "survival of products": TABLE[:5],
    "table of numbers": DATES[:5],
}
SEEN = {name: part[:5] for name, part in VIEWS.items()}
ROWS |= {
    "views": SEEN,
    "grades in views": SEEN,
    "per target, views": SEEN,
    "outliers, sparse": SPARSE[:5],
    "counts": UNIT[:5],
    "sparse": SPARSE[:5],
    "sparse rows": SPARSE[:5],
}


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
