"""
Which columns interact?
=======================

A table of 25 columns has 3,275 products of up to three of them, with repetition. Eight make up the target. Greedy
search adds the product that lowers the objective fastest, refits all weights, and stops by itself. The Lasso on the
same products, written out by :class:`~sklearn.preprocessing.PolynomialFeatures` and tuned by cross-validation, finds
them too, together with many others.

The products are never written out here, so that a thousand columns work as well.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LassoCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from manykernels import MKLRegressor
from manykernels.families import Products
from manykernels.solvers import Greedy

# %%
# Two columns, four pairs and two triples, with falling weights, and noise.
rng = np.random.default_rng(0)
r, n = 25, 300
X = rng.standard_normal((n + 1000, r))
truth = {tuple(sorted(rng.choice(r, d, replace=False).tolist())): d for d in (1, 1, 2, 2, 2, 2, 3, 3)}
truth = dict(zip(truth, np.linspace(1.0, 0.4, len(truth))))
y = sum(w * X[:, list(z)].prod(axis=1) for z, w in truth.items())
y += 0.5 * rng.standard_normal(len(y))
X_train, X_test, y_train, y_test = X[:n], X[n:], y[:n], y[n:]

# %%
# Every product of columns is a kernel of one feature, and its weight says whether it is used.
model = MKLRegressor(Products(degree=3), solver=Greedy(max_kernels="auto"), C=10.0).fit(X_train, y_train)
ours = {
    tuple(int(c[1:]) for c in z["columns"]): z["share"] for z in model.combination_.records() if z["weight"]
}

polynomial = PolynomialFeatures(3, include_bias=False)
lasso = make_pipeline(polynomial, StandardScaler(), LassoCV(cv=3, alphas=30, eps=0.02)).fit(X_train, y_train)
size = np.abs(lasso[-1].coef_)
theirs = {
    tuple(np.repeat(np.arange(r), polynomial.powers_[j]).tolist()): size[j] / size.sum()
    for j in np.flatnonzero(size)
}
results = {"Greedy": (ours, model.score(X_test, y_test)), "Lasso": (theirs, lasso.score(X_test, y_test))}
for name, (shares, score) in results.items():
    right = len(truth.keys() & shares.keys())
    print(f"{name}: {len(shares)} products, {right} of {len(truth)} true ones; R² on new rows {score:.3f}")

# %%
# All products with weight, the heaviest first.
fig, axes = plt.subplots(1, 2, figsize=(9.5, 4.6), layout="constrained", sharex=True)
for ax, (name, (shares, score)) in zip(axes, results.items()):
    order = sorted(shares, key=shares.get, reverse=True)
    top = order[:20]
    position = np.arange(20)[::-1]
    colors = ["#2a6f97" if z in truth else "#bbbbbb" for z in top]
    ax.barh(position[: len(top)], [100 * shares[z] for z in top], color=colors, height=0.7)
    ax.set_yticks(position[: len(top)], ["·".join(f"x{j}" for j in z) for z in top], fontsize=8)
    ax.set_ylim(-0.8, 19.8)
    right = len(truth.keys() & shares.keys())
    ax.set_title(
        f"{name}: {right} of {len(truth)} true ones, {len(shares) - right} others\nR² on new rows {score:.2f}"
    )
    ax.spines[["top", "right"]].set_visible(False)
    if len(order) > len(top):
        ax.text(
            1, 0.02, f"and {len(order) - len(top)} more", transform=ax.transAxes, ha="right", color="#777777"
        )
axes[0].set_xlabel("share of the norm (%)")
axes[1].set_xlabel("share of the sum of |coefficients| (%)")
axes[0].barh([0], [0], color="#2a6f97", label="in the target")
axes[0].barh([0], [0], color="#bbbbbb", label="not in the target")
axes[0].legend(frameon=False, loc="lower right")
plt.show()
