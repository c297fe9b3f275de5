"""
Labels along a sequence: a loss known by its worst output
=========================================================

Somebody counts upwards and downwards in blurred digits. Each digit alone is hard to read, but its neighbours help: the
next one is one more or one less. ``Chain`` is a loss for whole sequences, given by the function that finds the labels
that violate the margin most; ``Obscure`` needs nothing else of a loss. Kernels speak about single digits; their weights
and the scores of transitions are learned together.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from manykernels.families import Finite
from manykernels.kernels import RBF
from manykernels.losses import Chain
from manykernels.problem import Problem, Scale
from manykernels.solvers import Obscure

# %%
# Sequences of ten digits that go up or down by one, each image under heavy noise. The rows are the positions of all
# sequences, and ``groups`` says which sequence a row belongs to.
images, digits = load_digits(return_X_y=True)
images = images / 16


def counted(n_sequences, seed, length=10, noise=0.8):
    rng = np.random.default_rng(seed)
    steps = rng.choice([-1, 1], p=[0.25, 0.75], size=(n_sequences, length))
    labels = (rng.integers(10, size=(n_sequences, 1)) + np.cumsum(steps, axis=1)) % 10
    rows = [rng.choice(np.flatnonzero(digits == k)) for k in labels.ravel()]
    X = images[rows] + noise * rng.normal(size=(len(rows), 64))
    return X, labels.ravel(), np.repeat(np.arange(n_sequences), length)


X, y, groups = counted(60, seed=0)
Xt, yt, groups_t = counted(100, seed=1)

# %%
# Four kernels: the upper half of the image, the lower half, all of it, and the border, where there is next to nothing.
place = np.arange(64).reshape(8, 8)
kernels = {
    "upper half": RBF(8.0, columns=place[:4].ravel()),
    "lower half": RBF(8.0, columns=place[4:].ravel()),
    "whole": RBF(11.0, columns=place.ravel()),
    "border": RBF(5.0, columns=np.concatenate([place[:, 0], place[:, 7]])),
}
family = Finite(kernels).resolve(64)
scale = Scale.fit(family, X, "trace")

# %%
# A problem takes outputs as indicators, which the loss encodes, and the groups. Estimators predict row by row and do
# not take such a loss: its entry is the solver. The scores of the result's predictor are decoded by the loss again.


def fit(loss):
    problem = Problem(X, loss.encode(y, groups), family, scale, loss, C=0.3, groups=groups)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        result = Obscure(p=1.2, epochs=40, random_state=0).solve(problem)
    wrong = np.mean(loss.decode(result.predictor.scores(Xt), groups_t) != yt)
    print(f"{loss}: {wrong:.1%} wrong, gap {result.gap / result.objective:.0%} of the objective")
    return result, wrong


chain, chain_error = fit(Chain(10))
alone, alone_error = fit(Chain(10, transitions=False))

# %%
# The transitions learned, from row to column: one up, one down, and the rest out of favour.
transitions = chain.intercept[10:].reshape(10, 10)
weights = chain.combination.weights * chain.combination.rho**2
figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained")
shown = left.imshow(transitions, cmap="RdBu", vmin=-np.abs(transitions).max(), vmax=np.abs(transitions).max())
left.set(
    title="scores of transitions", xlabel="digit", ylabel="digit before", xticks=range(10), yticks=range(10)
)
figure.colorbar(shown, ax=left)
right.barh(list(kernels), weights / weights.sum(), color="#2a6f97")
right.set(title=f"weights; error {chain_error:.0%}, {alone_error:.0%} without transitions")
right.invert_yaxis()
right.spines[["top", "right"]].set_visible(False)
plt.show()
