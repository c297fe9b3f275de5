"""Random problems × solvers × families × losses × scales × weights × containers, small and hostile.

Every try must end within bounds of time in a model or in a sentence: predictions are finite, the certificate can be
recomputed from the model's public attributes, `converged_` means a gap within `tol`, and nothing else stops in silence.
"""

import time
import warnings

import numpy as np
import pandas as pd
from scipy import sparse

from manykernels import MKLClassifier, MKLRegressor
from manykernels.certificates import certify
from manykernels.families import Gaussians, Laplacians, Products, Union
from manykernels.kernels import RBF, Laplacian, Linear, Polynomial
from manykernels.losses import LOSSES
from manykernels.solvers import (
    SILP,
    Alignment,
    Greedy,
    GreedyAlignment,
    LeaveOneOut,
    LpNorm,
    MirrorDescent,
    Obscure,
    SimpleMKL,
    Single,
    Ufo,
    Uniform,
)

#: CPU seconds that a fit may take, with at most MOST_ROWS rows.
LONGEST, MOST_ROWS = 30.0, 300
#: Endings of Greedy that are what was asked for: the gap stays open, without a warning.
ASKED_FOR = {"max_kernels", "criterion", "exact_fit"}
#: The gaps that are closed within this share of the objective at f = 0 are rounding.
ROUNDING = 1e-12

FAMILIES = {
    "list": lambda rng: [
        RBF(10 ** rng.uniform(-1, 2)),
        Laplacian(10 ** rng.uniform(-1, 2)),
        Linear(),
        Polynomial(2),
    ],
    "lines": lambda rng: [Linear(columns=[0]), Linear(), Linear(columns=[0, 1])],
    "one": lambda rng: str(rng.choice(["linear", "rbf", "cosine"])),
    "grid": lambda rng: str(rng.choice(["gaussian", "laplacian"])),
    "products": lambda rng: Products(int(rng.integers(1, 4))),
    "bandwidths": lambda rng: (Gaussians if rng.random() < 0.5 else Laplacians)(ard=bool(rng.random() < 0.3)),
    "union": lambda rng: Union([Gaussians(), Linear()]),
    "precomputed": lambda rng: "precomputed",
}
LISTED = ("list", "lines", "one", "grid", "products", "precomputed")
SEARCHED = ("list", "products", "bandwidths", "precomputed")
SOLVERS = {
    "lp_norm": (lambda rng: LpNorm(p=float(rng.choice([1.0, 1.1, 4 / 3, 2.0]))), LISTED),
    "simple_mkl": (lambda rng: SimpleMKL(), LISTED),
    "silp": (lambda rng: SILP(), LISTED),
    "uniform": (lambda rng: Uniform(), LISTED),
    "single": (lambda rng: Single(), LISTED),
    "obscure": (lambda rng: Obscure(p=float(rng.choice([1.1, 1.5, 2.0])), random_state=0), LISTED),
    "ufo": (lambda rng: Ufo(alpha=float(rng.choice([0.0, 1e-3])), random_state=0), LISTED),
    "greedy": (lambda rng: Greedy(max_kernels=rng.choice(["auto", "3"]).item(), random_state=0), SEARCHED),
    "greedy_p": (lambda rng: Greedy(p=4 / 3, random_state=0), ("list", "lines", "products")),
    "stepwise": (lambda rng: Greedy(10, corrective=False, max_iter=100, random_state=0), SEARCHED),
    "alignment": (lambda rng: Alignment(), LISTED),
    "greedy_alignment": (lambda rng: GreedyAlignment(random_state=0), SEARCHED),
    "mirror_descent": (
        lambda rng: MirrorDescent(max_iter=100, random_state=0),
        ("list", "lines", "products"),
    ),
    "leave_one_out": (lambda rng: LeaveOneOut(random_state=0), ("bandwidths", "union", "list")),
}
SCALES = ("plain", "plain", "large", "small", "mixed", "huge", "offset", "constant columns", "equal rows")


def rows(rng, n, d):
    """Return rows of one of the scales, and its name."""
    X, scale = rng.normal(size=(n, d)), str(rng.choice(SCALES))
    if scale == "large":
        X *= 10 ** rng.uniform(2, 8)
    elif scale == "small":
        X *= 10 ** rng.uniform(-8, -2)
    elif scale == "mixed":
        X *= 10 ** rng.uniform(-6, 6, size=d)
    elif scale == "huge":
        X *= 10 ** rng.uniform(8, 32)
    elif scale == "offset":
        X += 10 ** rng.uniform(0, 7)
    elif scale == "constant columns":
        X[:, : max(1, d // 2)] = 1.0
    elif scale == "equal rows":
        X = X[rng.integers(max(1, n // 5), size=n)]
    return X, scale


def targets(rng, X, classes):
    """Return numbers, or labels of `classes` classes."""
    Z = X - X.mean(axis=0)
    Z = Z / np.maximum(np.abs(Z).max(axis=0), 1e-300)
    signal = Z[:, 0] + (Z[:, -1] * Z[:, 0] if rng.random() < 0.5 else 0.0)
    signal = signal + rng.choice([0.0, 0.1, 3.0]) * rng.normal(size=len(X))
    if not classes:
        y = signal * 10 ** float(rng.choice([0, 0, 0, -6, 6, 30]))
        return np.column_stack([y, y**2 if np.abs(y).max() < 1e10 else -y]) if rng.random() < 0.2 else y
    labels = np.argsort(np.argsort(signal, kind="stable"), kind="stable") * classes // len(X)
    return np.array(["a", "b", "c", "d"])[labels] if rng.random() < 0.3 else labels


def weights(rng, n):
    """Return weights of one of several kinds, or none."""
    kind = rng.choice(["none", "none", "even", "zeros", "wild"])
    if kind == "none":
        return None
    if kind == "even":
        return rng.exponential(size=n)
    if kind == "zeros":
        s = rng.integers(0, 3, size=n).astype(float)
        s[:4] = 1.0
        return s
    return 10 ** rng.uniform(-6, 6, size=n)


def contained(rng, X):
    """Return the same rows in another container or memory order."""
    kind = rng.choice(["array", "fortran", "frame", "list", "read-only", "strided", "sparse", "single"])
    if X.ndim == 3:
        return np.asfortranarray(X) if kind == "fortran" else X
    if kind == "fortran":
        return np.asfortranarray(X)
    if kind == "frame":
        return pd.DataFrame(X, columns=[f"c{i}" for i in range(X.shape[1])])
    if kind == "list":
        return X.tolist()
    if kind == "read-only":
        X = X.copy()
        X.flags.writeable = False
        return X
    if kind == "strided":
        return np.repeat(X, 2, axis=1)[:, ::2]
    if kind == "sparse":
        return sparse.csr_array(X)
    return X.astype(np.float32) if kind == "single" and np.abs(X).max() < 1e30 else X


class Attempt:
    """One random problem and its solver."""

    def __init__(self, rng, solver=None):
        name = solver or str(rng.choice(sorted(SOLVERS)))
        make, families = SOLVERS[name]
        self.family = str(rng.choice(families))
        self.classes = int(rng.choice([0, 0, 2, 3, 4]))
        n = int(rng.choice([5, 8, 20, 60, 150, MOST_ROWS]))
        X, self.scale = rows(rng, max(n, 2 * self.classes), int(rng.integers(2, 7)))
        self.y, self.s = targets(rng, X, self.classes), weights(rng, len(X))
        loss = "squared"
        if self.classes and name != "leave_one_out":
            loss = str(rng.choice(sorted(LOSSES)))
        C = float(10 ** rng.choice([0.0, 0.0, rng.uniform(-4, 4), rng.uniform(-8, 8)]))
        if self.family == "precomputed":
            Z = np.abs(X).max() or 1.0
            X = np.stack([(X / Z) @ (X / Z).T, np.eye(len(X)), np.ones((len(X), len(X)))], axis=2)
        self.X = contained(rng, X)
        solver = make(rng)
        if getattr(solver, "max_kernels", None) == "3":
            solver.set_params(max_kernels=3)
        kind = MKLClassifier if self.classes else MKLRegressor
        self.model = kind(FAMILIES[self.family](rng), solver=solver, loss=loss, C=C, random_state=0)
        if name in ("lp_norm", "simple_mkl", "uniform", "obscure") and rng.random() < 0.2:
            self.model.set_params(normalize=None)

    def __repr__(self):
        weighted = "" if self.s is None else f", weights to {self.s.max():.0e}"
        kind = f"{type(self.X).__name__}{np.shape(self.X)}"
        return f"{self.model}, {self.scale} {kind}, {self.classes} classes{weighted}"

    def run(self):
        """Fit, predict, and check; a refusal must be a sentence."""
        started = time.process_time()
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                self.model.fit(self.X, self.y, sample_weight=self.s)
            except ValueError as error:
                check_sentence(str(error))
                return
        spent = time.process_time() - started
        assert spent < LONGEST, f"it took {spent:.0f} s"
        text = [str(w.message) for w in said]
        for w in said:
            assert not issubclass(w.category, RuntimeWarning), f"{w.message} ({w.filename}:{w.lineno})"
        assert np.isfinite(self.scores()).all(), "scores are not finite"
        self.check_convergence(text)
        if self.model.gap_kind_ == "exact" and np.isfinite(self.model.combination_.family.size()):
            self.check_certificate(text)

    def scores(self):
        model = self.model
        return model.decision_function(self.X) if self.classes else model.predict(self.X)

    def check_convergence(self, said):
        model = self.model
        P, gap = model.objective_, model.gap_
        if model.gap_kind_ == "none":
            return
        floor = ROUNDING * start_value(model, self.X, self.y, self.s)
        tol = getattr(model.solver_, "tol", 1e-6) if getattr(model.solver_, "p", None) is not None else 1e-6
        if model.converged_:
            assert gap <= tol * P + 2 * floor, f"converged at a relative gap of {gap / P:.1e}"
        ending = set(model.trace_.extra.get("ending", ()))
        if isinstance(model.solver_, Single):  # the gap is the price of one kernel
            return
        small = gap <= tol * P + floor
        if not model.converged_ and model.gap_kind_ == "exact" and not small and not ending & ASKED_FOR:
            assert any("gap" in text for text in said), f"silent at a relative gap of {gap / P:.1e}"

    def check_certificate(self, said):
        model = self.model
        found = certify(model, self.X, self.y, self.s)
        if any("rounding" in text for text in said):
            return
        size = max(abs(model.objective_), start_value(model, self.X, self.y, self.s) * ROUNDING)
        assert abs(found.primal - model.objective_) <= 1e-8 * size, (
            f"objective_ is {model.objective_:.12g}, recomputed {found.primal:.12g}"
        )
        assert abs(found.gap - model.gap_) <= 1e-8 * size, (
            f"gap_ is {model.gap_ / size:.3e} of the objective, recomputed {found.gap / size:.3e}"
        )
        assert found.gap >= -1e-8 * size, f"the gap is {found.gap / size:.1e}"


def start_value(model, X, y, s):
    """Return P at f = 0."""
    _, Y, s = model._training_data(X, y, s)
    return float(s @ model.loss_.value(Y, np.zeros(Y.shape))) / len(Y)


def check_sentence(text):
    """A refusal ends with a full stop, and is not NumPy's."""
    assert text.rstrip().endswith("."), f"no sentence: {text}"
    for foreign in (
        "gufunc",
        "broadcast",
        "out of bounds",
        "need at least one array",
        "must not contain infs",
    ):
        assert foreign not in text, f"no sentence of ours: {text}"


def test_random_problems_end_in_a_certified_model_or_a_sentence(campaign):
    def attempt(rng):
        trial = Attempt(rng)
        try:
            trial.run()
        except Exception as error:
            raise AssertionError(f"{trial}: {type(error).__name__}: {error}") from error

    campaign.run(2000, attempt)
