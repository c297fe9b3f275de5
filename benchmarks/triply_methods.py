"""The methods and tasks of Li et al. (2017), section 6: what ``triply_doubly.py`` compares.

Tasks are two classes of covtype, the digits 6 and 8, ten digits, and one strong and two weak kernels. The methods are
triply stochastic gradients (learned weights) and doubly stochastic ones (equal weights), as this package runs them and
to the letter of Alg. 1–4; learned weights with all kernels in every step; and solvers with a certificate on the same
kernels, which tell where the two are going: LpNorm for triply, Uniform for doubly.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np
from sklearn.decomposition import PCA
from sklearn.neural_network import MLPClassifier

from common import Clock, load, load_split, standardised
from manykernels import MKLClassifier
from manykernels.kernels import RBF
from manykernels.solvers import Blockwise, LpNorm, Obscure, TriplyStochastic, Ufo, Uniform
from streaming_methods import median_distance

#: The paper's λ.
LAM = 1e-5
#: With a certificate. For several classes one-vs-rest with squared hinge, as softmax takes them minutes.
EXACT = ("LpNorm", "Uniform")
#: To the letter: rows of a step, features of a block, and blocks of each kernel; later steps need all of them.
LETTER_ROWS, LETTER_BLOCK, LETTER_STEPS = 512, 32, 32


@dataclass(frozen=True, eq=False)
class Task:
    """Training rows to draw from, test rows, and the columns of every kernel.

    Attributes
    ----------
    X, y, Xt, yt : arrays
    columns : dict of str: array
        By the kernel's name.
    """

    X: np.ndarray
    y: np.ndarray
    Xt: np.ndarray
    yt: np.ndarray
    columns: dict[str, np.ndarray]

    @property
    def loss(self) -> str:
        """The paper's: hinge for two classes, softmax for more."""
        return "hinge" if len(np.unique(self.y)) == 2 else "softmax"

    @property
    def p(self) -> float:
        """The paper's: 2 log m / (2 log m - 1)."""
        return 2 * math.log(len(self.columns)) / (2 * math.log(len(self.columns)) - 1)

    def kernels(self, X) -> dict:
        """Return RBF kernels as wide as the median distance."""
        return {name: RBF(median_distance(X, c), columns=c) for name, c in self.columns.items()}


# -- tasks -------------------------------------------------------------------------------------------------


def reduced(X, Xt, dimensions: int):
    """Return principal components of the rows, fitted on some training rows."""
    some = X[np.random.default_rng(0).permutation(len(X))[:20_000]]
    pca = PCA(min(dimensions, X.shape[1]), random_state=0).fit(some)
    return (pca.transform(A).astype(np.float32) for A in (X, Xt))


def five_kernels(X, y, Xt, yt, dimensions: int) -> Task:
    """Return principal components with one kernel on all of them and one on each quarter."""
    X, Xt = reduced(X, Xt, dimensions)
    quarters = np.array_split(np.arange(dimensions), 4)
    names = {f"quarter {k + 1}": columns for k, columns in enumerate(quarters)}
    return Task(X, y, Xt, yt, {"all": np.arange(dimensions), **names})


def covtype(folder) -> Task:
    """Return the most frequent class of covtype against the others, 40 components."""
    d = load("covtype", folder)
    X, y = np.asarray(d["X"]).astype(np.float32), np.asarray(d["y"]).astype(int) == 2
    X[:, :10] = standardised(X[:, :10])
    order = np.random.default_rng(0).permutation(len(X))
    test, train = order[:20_000], order[20_000:]
    return five_kernels(X[train], y[train].astype(int), X[test], y[test].astype(int), 40)


def digits(folder):
    """Return MNIST's training and test rows, pixels in [0, 1]."""
    X, y, Xt, yt = load_split("mnist", folder)
    X, Xt = (np.asarray(A, dtype=np.float32).reshape(len(A), -1) / 255 for A in (X, Xt))
    return X, y.astype(int), Xt, yt.astype(int)


def six_eight(folder) -> Task:
    """Return the digits 6 and 8, 100 components."""
    X, y, Xt, yt = digits(folder)
    train, test = np.isin(y, (6, 8)), np.isin(yt, (6, 8))
    return five_kernels(X[train], y[train], Xt[test], yt[test], 100)


def ten_digits(folder) -> Task:
    """Return all digits, 100 components."""
    return five_kernels(*digits(folder), 100)


def layers(network, X) -> list[np.ndarray]:
    """Return what the hidden layers of a network make of the rows."""
    out = []
    for W, b in zip(network.coefs_[:-1], network.intercepts_[:-1], strict=True):
        X = np.maximum(X @ W + b, 0)
        out.append(X)
    return out


def strong_weak(folder) -> Task:
    """Return features of digits from a trained network, and of both layers of a small and hardly trained one.

    As the paper's kernels on cifar10: a ResNet's last layer (15.6 % error), and two layers of a network after five
    epochs (29 %). The networks are trained on rows that no kernel method sees.
    """
    X, y, Xt, yt = digits(folder)
    own, rest = slice(0, 10_000), slice(10_000, None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it has not converged
        strong = MLPClassifier((128,), max_iter=15, random_state=0).fit(X[own], y[own])
        weak = MLPClassifier((16, 8), max_iter=5, random_state=0).fit(X[:1000], y[:1000])
    parts = [[layers(strong, A)[0], *layers(weak, A)] for A in (X[rest], Xt)]
    made = [tuple(reduced(a, b, 100)) for a, b in zip(*parts, strict=True)]
    train, test = (np.hstack(side) for side in zip(*made, strict=True))
    edges = np.cumsum([0, *(a.shape[1] for a, _ in made)])
    names = ("strong", "weak, layer 1", "weak, layer 2")
    columns = {name: np.arange(edges[k], edges[k + 1]) for k, name in enumerate(names)}
    return Task(train, y[rest], test, yt, columns)


#: Tasks with the paper's set and its errors in Table 2, doubly and triply.
TASKS = {
    "covtype": (covtype, "covtype", 0.1680, 0.1630),
    "6 against 8": (six_eight, "mnist8m, 6 against 8", 0.0014, 0.0011),
    "ten digits": (ten_digits, "mnist8m", 0.0250, 0.0220),
    "one strong, two weak": (strong_weak, "cifar10", 0.1497, 0.1407),
}

# -- methods -----------------------------------------------------------------------------------------------


def solver_of(name: str, task: Task, n: int, epochs: int, features: int, seed: int):
    """Return a solver for n rows; none of them stops before its epochs are over, or its gap is closed."""
    m, more = len(task.columns), {"validation_fraction": 0, "random_state": seed}
    doubly = {"learn_weights": False, "kernels_per_step": "all"}
    own = {"triply": {}, "triply, all kernels a step": {"kernels_per_step": "all"}, "doubly": doubly}
    if name in own:
        return TriplyStochastic(task.p, n_features=features, epochs=epochs, **more, **own[name])
    if name.endswith("to the letter"):
        size = min(LETTER_ROWS, n)
        steps = LETTER_STEPS * (m if name.startswith("triply") else 1)
        more |= {"faithful": True, "block": LETTER_BLOCK, "n_features": LETTER_BLOCK, "batch_size": size}
        more |= {"epochs": math.ceil(steps * size / n)} | (doubly if name.startswith("doubly") else {})
        return TriplyStochastic(task.p, **more)
    return {
        "Blockwise": Blockwise(p=task.p, n_features=features, random_state=seed),
        "LpNorm": LpNorm(task.p, tol=1e-3),
        "Uniform": Uniform(),
        "Obscure": Obscure(task.p, random_state=seed),
        "Ufo": Ufo(random_state=seed),
    }[name]


def fit(name: str, task: Task, n: int, epochs: int, features: int, seed: int) -> dict:
    """Return error, CPU seconds, objective, gap and weights of a method on n rows, drawn by the seed."""
    rows = np.random.default_rng(seed).permutation(len(task.X))[:n]
    X, y = task.X[rows], task.y[rows]
    own_loss = name in ("Obscure", "Ufo", "Blockwise") or (name in EXACT and task.loss == "softmax")
    model = MKLClassifier(
        task.kernels(X),
        solver=solver_of(name, task, n, epochs, features, seed),
        loss="auto" if own_loss else task.loss,
        C=1 / (LAM * n),
        calibrate=False,
    )
    with Clock() as clock, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    return {
        "error": float(1 - model.score(task.Xt, task.yt)),
        "cpu_s": clock.cpu,
        "objective": float(model.objective_),
        "gap": float(model.gap_),
        "weights": np.asarray(model.weights_, dtype=float).tolist(),
    }
