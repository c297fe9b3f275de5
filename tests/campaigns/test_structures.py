"""Problems of another make than those of ``test_problems.py``: structured rows, kernels and targets, drawn otherwise.

Heavy tails, counts, offsets that leave few digits, kernels that nearly repeat each other, stacks of matrices that
are rank deficient or positive up to rounding only, many targets, two to twelve classes down to single rows, groups.
The checks are the same (:mod:`.trials`).
"""

from __future__ import annotations

import numpy as np
from tests.contracts.cases import FOR_ESTIMATORS, STREAMING

from manykernels import MKLClassifier, MKLRegressor
from manykernels.families import Dirichlets, Gaussians, Laplacians, Products
from manykernels.kernels import RBF, Constant, Laplacian, Linear, Pairwise, Polynomial

from .test_problems import suits, varied
from .trials import CONTAINERS, Trial, attempt_of

SOLVERS = {"auto": lambda: "auto", **FOR_ESTIMATORS, **STREAMING}


# -- rows ----------------------------------------------------------------------------------------------


def hilbert(rng, n, d):
    return 1.0 / (1.0 + np.add.outer(np.arange(n), np.arange(d)))


def few_digits(rng, n, d):
    return 1e15 + np.round(8 * rng.random((n, d)))


def one_hot(rng, n, d):
    return np.eye(d)[rng.integers(d, size=n)]


def collinear(rng, n, d):
    t = rng.normal(size=(n, 1))
    return t @ rng.normal(size=(1, d)) + 1e-9 * rng.normal(size=(n, d))


def outlier(rng, n, d):
    X = rng.normal(size=(n, d))
    X[0] = 10 ** rng.uniform(3, 150)
    return X


def near_rows(rng, n, d):
    centres = rng.normal(size=(max(1, n // 4), d))
    return centres[rng.integers(len(centres), size=n)] * (1 + 1e-15 * rng.integers(-2, 3, size=(n, d)))


ROWS = {
    "Cauchy": lambda rng, n, d: rng.standard_cauchy(size=(n, d)),
    "log-normal": lambda rng, n, d: rng.lognormal(sigma=rng.uniform(1, 30), size=(n, d)),
    "counts": lambda rng, n, d: rng.poisson(3.0, size=(n, d)).astype(float),
    "powers": lambda rng, n, d: np.exp2(np.minimum(np.arange(n), 1000))[:, None] * np.ones(d),
    "steps": lambda rng, n, d: np.arange(n, dtype=float)[:, None] * np.ones(d),
    "sparse": lambda rng, n, d: rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.1),
    "subnormal": lambda rng, n, d: rng.normal(size=(n, d)) * np.where(np.arange(d) > 0, 5e-324, 1.0),
    "cube": lambda rng, n, d: rng.choice([-1.0, 1.0], size=(n, d)),
    "even": lambda rng, n, d: rng.random((n, d)),
    "Hilbert": hilbert,
    "few digits": few_digits,
    "one hot": one_hot,
    "collinear": collinear,
    "outlier": outlier,
    "near rows": near_rows,
}


# -- kernels -------------------------------------------------------------------------------------------


def near_twins(rng, d):
    s = 10 ** rng.uniform(-3, 3)
    return [RBF(s * (1 + e)) for e in (0.0, 1e-15, 1e-9, 1e-3)]


def tanimoto(A, B):
    """A kernel as a user would write one."""
    A, B = np.abs(A), np.abs(B)
    both = np.minimum(A[:, None], B[None]).sum(axis=2)
    either = np.maximum(A[:, None], B[None]).sum(axis=2)
    return np.divide(both, either, out=np.ones_like(both), where=either > 0)


KERNELS = {
    "near twins": near_twins,
    "many bandwidths": lambda rng, d: [RBF(10.0**k) for k in range(-12, 13, 3)] + [Laplacian(1e-6)],
    "by name": lambda rng, d: {"a": "rbf", "b": "cosine", "c": "laplacian", "d": Linear()},
    "a function": lambda rng, d: [tanimoto, Linear(), Constant(3.0)],
    "degrees": lambda rng, d: [Polynomial(k, coef0=10 ** rng.uniform(-3, 3)) for k in (1, 2, 5, 9)],
    "columns": lambda rng, d: [RBF(1.0, columns=[j]) for j in range(d)] + [Pairwise("rbf", {"gamma": 1e-3})],
    "products of kernels": lambda rng, d: Products(2, base=[RBF(1.0), Linear(), Laplacian(0.1)]),
    "ordered products": lambda rng, d: Products(3, count="ordered"),
    "high products": lambda rng, d: Products(int(rng.integers(4, 7))),
    "waves": lambda rng, d: Dirichlets((0, 10 ** rng.uniform(-1, 3))),
    "narrow": lambda rng, d: Gaussians(bounds=(1e-3, 1e-2)) if rng.random() < 0.5 else Laplacians(ard=True),
    "mixture": lambda rng, d: [Gaussians(ard=True), Laplacian(2.0), "linear"],
    "default": lambda rng, d: "auto",
    "names": lambda rng, d: str(rng.choice(["gaussian", "laplacian", "products", "linear"])),
    "matrices": lambda rng, d: "precomputed",
}


def matrices(rng, n):
    """Return a stack whose matrices are of low rank, equal, tiny, or positive up to rounding."""
    root = rng.normal(size=(n, max(1, n // 10)))
    low = root @ root.T
    full = rng.normal(size=(n, n)) / np.sqrt(n)
    full = full @ full.T
    noise = rng.normal(size=(n, n))
    choices = [
        low,
        low * (1 + 1e-12),
        full,
        low + 1e-13 * np.abs(low).max() * (noise + noise.T),  # eigenvalues below zero, of rounding's size
        full - 0.9 * np.linalg.eigvalsh(full)[0] * np.eye(n),
        1e-9 * full,
        1e12 * low,
        np.zeros((n, n)),
        np.ones((n, n)),
        np.diag(10 ** rng.uniform(-12, 12, size=n)),
        full - 0.5 * np.eye(n),  # not positive: refused, or found out
    ]
    picked = rng.choice(len(choices), size=int(rng.integers(1, 5)))
    return np.stack([choices[i] for i in picked], axis=2)


# -- targets and weights -------------------------------------------------------------------------------


def labels(rng, n):
    """Return 2 to 12 classes, of sizes that fall off to single rows."""
    many = int(rng.integers(2, 13))
    share = 0.5 ** np.arange(many) if rng.random() < 0.5 else np.ones(many)
    y = rng.choice(many, size=n, p=share / share.sum())
    y[: min(n, many)] = np.arange(min(n, many))
    kind = rng.choice(["numbers", "words", "negative", "yes or no", "floats"])
    if kind == "yes or no":
        return y == 0
    return {"words": np.array([f"class {i}" for i in y]), "negative": -5 * y, "floats": y + 0.0}.get(kind, y)


def numbers(rng, X):
    """Return one to five targets: noise, constants, offsets, columns of X, or one of them many times over."""
    n, out = len(X), []
    for _ in range(int(rng.choice([1, 1, 1, 2, 5]))):
        with np.errstate(all="ignore"):
            column = np.nan_to_num(X[:, 0] / np.abs(X[:, 0]).max(initial=0.0), posinf=0.0, neginf=0.0)
        kinds = [
            rng.standard_cauchy(size=n),
            np.full(n, 10 ** rng.uniform(-30, 30)),
            1e9 + rng.normal(size=n),
            np.round(column * 3),
            column + 1e-3 * rng.normal(size=n),
            np.where(np.arange(n) == 0, 1e30, 0.0),
            rng.poisson(2.0, size=n).astype(float),
        ]
        out.append(kinds[int(rng.integers(len(kinds)))])
    return out[0] if len(out) == 1 and rng.random() < 0.8 else np.column_stack(out)


def masses(rng, n):
    """Return weights: none, all on one row, subnormal, counts, or alike but for one."""
    kinds = [
        None,
        None,
        np.where(np.arange(n) == int(rng.integers(n)), 1.0, 0.0),
        np.where(np.arange(n) % 3 == 0, 5e-324, 1.0),
        rng.poisson(1.0, size=n).astype(float),
        np.where(np.arange(n) == 0, 1e9, 1.0),
        np.full(n, 10 ** rng.uniform(-30, 30)),
    ]
    return kinds[int(rng.integers(len(kinds)))]


def trial(rng, solver=None) -> Trial:
    """Return a random problem with a solver that suits its kernels."""
    name = solver or str(rng.choice(sorted(SOLVERS)))
    made, classifies = varied(rng, SOLVERS[name]()), bool(rng.random() < 0.5)
    n, d = int(np.exp(rng.uniform(0, np.log(301)))), int(rng.choice([1, 2, 3, 8, 30]))
    for _ in range(100):  # kernels that suit the solver
        kind = str(rng.choice(sorted(KERNELS)))
        kernels = KERNELS[kind](rng, min(d, 5))
        if suits(made, kernels, "auto", 2 * classifies, columns=d):
            break
    shape = str(rng.choice(sorted(ROWS)))
    X = ROWS[shape](rng, n, d)
    y = labels(rng, n) if classifies else numbers(rng, X)
    if kernels == "precomputed":
        X, shape = matrices(rng, n), "matrices"
    model = (MKLClassifier if classifies else MKLRegressor)(
        kernels, solver=made, random_state=int(rng.integers(9))
    )
    if rng.random() < 0.7:
        model.set_params(C=float(rng.choice([1e-8, 1e-3, 1.0, 1.0, 30.0, 1e5, 1e12])))
    if classifies and rng.random() < 0.2:
        model.set_params(class_weight="balanced")
    if classifies and rng.random() < 0.3:
        model.set_params(calibrate=False)
    return Trial(
        model,
        X,
        y,
        masses(rng, n),
        groups=rng.integers(5, size=n) if rng.random() < 0.15 else None,
        kind=str(rng.choice(sorted(CONTAINERS))),
        batches=int(rng.integers(1, 8)) if name in STREAMING and rng.random() < 0.4 else 0,
        again=bool(rng.random() < 0.2),
        words=f"{kind} on {shape},",
    )


def test_structured_problems_end_in_a_certified_model_or_a_sentence(campaign):
    campaign.run(1000, attempt_of(trial))
