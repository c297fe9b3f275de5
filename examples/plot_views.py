"""
Many views, many classes: what p does
=====================================

Ten digits, described by five views, and by five more that are noise. ``Obscure`` learns one weight per view for all
classes at once. Its ``p`` says how evenly the weight may be spread: near 1 few views are kept, at 2 all count alike.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from manykernels import MKLClassifier
from manykernels.kernels import RBF
from manykernels.solvers import Obscure

# %%
# The views of an 8×8 image: its halves, its sums by row and by column, and the magnitudes of its Fourier transform,
# which do not change when the digit is shifted. The noise has 20 columns a view.
images, y = load_digits(return_X_y=True)
images = images.reshape(-1, 8, 8)
rng = np.random.default_rng(0)
views = {
    "upper half": images[:, :4].reshape(len(y), -1),
    "lower half": images[:, 4:].reshape(len(y), -1),
    "row sums": images.sum(axis=2),
    "column sums": images.sum(axis=1),
    "Fourier": np.abs(np.fft.rfft2(images)).reshape(len(y), -1),
} | {f"noise {i + 1}": rng.standard_normal((len(y), 20)) for i in range(5)}

# %%
# One RBF kernel per view, on its columns; the bandwidth is the root mean squared distance of the view.
X = StandardScaler().fit_transform(np.hstack(list(views.values())))
edges = np.cumsum([0] + [V.shape[1] for V in views.values()])
kernels = {}
for name, first, last in zip(views, edges, edges[1:], strict=False):
    distance = euclidean_distances(X[:, first:last], squared=True).mean()
    kernels[name] = RBF(np.sqrt(distance), columns=slice(first, last))

# %%
# Fit for several p on 500 rows. The warning says that the objective is still falling a little after 200 passes over
# the rows; the error has long settled.
A, B, ya, yb = train_test_split(X, y, train_size=500, random_state=0, stratify=y)
grid = [1.01, 1.05, 1.1, 1.25, 1.5, 2.0]
shares, errors = [], []
for p in grid:
    model = MKLClassifier(kernels, solver=Obscure(p, random_state=0), C=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(A, ya)
    weights = model.weights_ * model.rho_**2
    shares.append(100 * weights / weights.sum())
    errors.append(100 * (1 - model.score(B, yb)))
    print(f"p = {p:<4g} error {errors[-1]:.1f} %, noise {shares[-1][5:].sum():.0f} % of the weight")

# %%
# Each bar is one fit, split by the weights of the views. At p = 2 noise has half of the weight, as half of the views
# are noise; towards p = 1 it vanishes.
colors = ["#1d4e73", "#2a6f97", "#7db8d6", "#a9d6c5", "#6a994e"] + ["#d0d0d0"] * 5
fig, ax = plt.subplots(figsize=(8, 3.8), layout="constrained")
position = np.arange(len(grid))
left = np.zeros(len(grid))
for name, color, width in zip(views, colors, np.transpose(shares), strict=True):
    label = (
        None
        if name.startswith("noise") and name != "noise 1"
        else name.replace("noise 1", "five noise views")
    )
    ax.barh(position, width, left=left, color=color, ec="white", lw=0.8, height=0.7, label=label)
    left += width
for place, error in zip(position, errors, strict=True):
    ax.text(101.5, place, f"{error:.1f} %", va="center", fontsize=10)
ax.text(101.5, -0.85, "test error", va="center", fontsize=10)
ax.set_yticks(position, [f"p = {p:g}" for p in grid])
ax.invert_yaxis()
ax.set_xlim(0, 100)
ax.set_xlabel("share of the kernel weights (%)")
ax.spines[["top", "right", "left"]].set_visible(False)
ax.tick_params(axis="y", length=0)
fig.legend(*ax.get_legend_handles_labels(), loc="outside upper center", ncols=6, frameon=False, fontsize=9)
plt.show()
