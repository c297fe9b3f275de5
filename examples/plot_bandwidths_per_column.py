"""
A bandwidth for every column
============================

A Gaussian kernel with one bandwidth looks at all columns alike, the useless ones included. With
``Gaussians(ard=True)`` every column has its own: a useless column gets a bandwidth so large that the kernel does not
see it. The bandwidths are found by alignment with the target; no grid could hold twelve of them.

Twelve bandwidths and few rows leave room for chance. `shrinkage` pulls the bandwidths of a kernel towards each other;
it is chosen by cross-validation, like any other setting.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import GridSearchCV

from manykernels import MKLClassifier
from manykernels.families import Gaussians
from manykernels.solvers import GreedyAlignment

# %%
# Two classes: inside and outside an ellipsoid in the first three columns, narrow in one and wide in another. Nine
# columns are noise.
radii = np.array([0.5, 0.7, 0.95])
names = ["narrow", "middle", "wide", *(f"noise {k}" for k in range(1, 10))]


def make(n, seed):
    """Return n rows and their classes."""
    X = np.random.default_rng(seed).uniform(-1, 1, (n, len(names)))
    return X, (np.square(X[:, :3] / radii).sum(axis=1) < 1).astype(int)


X_test, y_test = make(2000, 0)
constant = max(np.mean(y_test), 1 - np.mean(y_test))

# %%
# One bandwidth for all columns beside one each, over growing numbers of rows.
single = MKLClassifier(Gaussians(), solver=GreedyAlignment(), C=10.0)
several = GridSearchCV(
    MKLClassifier(Gaussians(ard=True), solver=GreedyAlignment(max_kernels=3, random_state=0), C=10.0),
    {"solver__shrinkage": [0.0, 0.001, 0.01]},
    cv=3,
)
sizes = [50, 100, 200, 400]
scores = np.empty((len(sizes), 2))
for k, n in enumerate(sizes):
    X, y = make(n, seed=n)
    scores[k] = [model.fit(X, y).score(X_test, y_test) for model in (single, several)]
    print(f"{n} rows: {scores[k, 0]:.3f} with one bandwidth, {scores[k, 1]:.3f} with one per column")

# %%
# On the left what the heaviest kernel sees of every column, 1/σ: nothing of the noise.
sensitivity = 1 / np.array(several.best_estimator_.combination_.records()[0]["sigma"])
one = 1 / single.combination_.records()[0]["sigma"]
fig, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4), layout="constrained")
position = np.arange(len(names))[::-1]
left.barh(position, sensitivity, color=["#2a6f97"] * 3 + ["#9a9a9a"] * 9, height=0.7)
left.axvline(one, color="#c1121f", lw=1.5, ls="--")
left.text(one, 2.5, "  one bandwidth\n  for all columns", color="#c1121f", va="center")
left.set_yticks(position, names)
left.set(xlabel="1/σ: how much of a column the kernel sees", title=f"Heaviest kernel, {sizes[-1]} rows")
right.plot(sizes, 100 * scores[:, 1], "o-", color="#2a6f97")
right.plot(sizes, 100 * scores[:, 0], "o--", color="#c1121f")
right.axhline(100 * constant, color="#9a9a9a", lw=1)
right.text(sizes[-1], 100 * scores[-1, 1] + 0.7, "one per column", color="#2a6f97", ha="right", va="bottom")
right.text(sizes[-1], 100 * scores[-1, 0] + 0.7, "one for all", color="#c1121f", ha="right", va="bottom")
right.text(sizes[-1], 100 * constant - 0.5, "the larger class", color="#777777", ha="right", va="top")
right.set(xlabel="training rows", ylabel="accuracy on new rows (%)", xticks=sizes)
right.set(ylim=(100 * constant - 3, 100), title="One bandwidth for all columns, or one each")
for ax in (left, right):
    ax.spines[["top", "right"]].set_visible(False)
plt.show()
