"""
Drawing products instead of listing them
========================================

A table of 50 columns has 23,425 products of up to three of them. Fourteen make up the target. Mirror descent
draws products in proportion to the gradient, without listing them, and its weights point to the true ones.

Sampling works here because every true product explains a fair part of the target. When the truth is a few
products among millions, its share of the draws is too small: see :doc:`/sampling`, and
:doc:`/gallery/plot_interactions` for the greedy search.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Rectangle
from sklearn.exceptions import ConvergenceWarning

from manykernels import MKLRegressor
from manykernels.families import Products
from manykernels.solvers import MirrorDescent, Uniform

# %%
# Twelve pairs and two triples of the 50 columns, with equal weight, and noise.
rng = np.random.default_rng(3)
r, n = 50, 900
X = rng.standard_normal((n + 1000, r))
pairs = {tuple(sorted(rng.choice(r, 2, replace=False).tolist())) for _ in range(12)}
triples = {tuple(sorted(rng.choice(r, 3, replace=False).tolist())) for _ in range(2)}
truth = pairs | triples
y = sum(X[:, list(z)].prod(axis=1) for z in truth) / len(truth) ** 0.5
y += 0.3 * rng.standard_normal(len(y))
X_train, X_test, y_train, y_test = X[:n], X[n:], y[:n], y[n:]

# %%
# 16 products are drawn per step, so at most 3,200 of them are ever tried. The optimum is not reached in so
# few steps, and the fit would warn of it; the ranking of the products settles long before.
warnings.simplefilter("ignore", ConvergenceWarning)
products = Products(degree=3)
solver = MirrorDescent(max_iter=200, draws=16, random_state=0)
model = MKLRegressor(products, solver=solver, C=0.1).fit(X_train, y_train)
equal = MKLRegressor(products, solver=Uniform(), C=0.1).fit(X_train, y_train)
table = model.combination_.records()
size = model.combination_.family.size()
r2, r2_equal = model.score(X_test, y_test), equal.score(X_test, y_test)
print(f"{len(table):,} of {size:,} products have weight")
print(f"R² on new rows: sampled {r2:.2f}, equal weights {r2_equal:.2f}")

# %%
# The share of the norm that each product holds: all pairs as a map, and the largest products of any degree.
# The ranking is clear, the shares are small: with p = 4/3 the rest of the norm is spread thinly over all
# that was drawn.
columns = [tuple(int(name[1:]) for name in record["columns"]) for record in table]
shares = 100 * np.array([record["share"] for record in table])
grid = np.full((r, r), np.nan)
grid[np.tril_indices(r, -1)] = 0.0
for z, share in zip(columns, shares):
    if len(z) == 2 and z[0] != z[1]:
        grid[z[1], z[0]] = share

fig, (left, right) = plt.subplots(1, 2, figsize=(10.5, 5), layout="constrained", width_ratios=[1.25, 1])
image = left.imshow(grid, cmap="Blues", vmin=0)
for a, b in pairs:
    left.add_patch(Rectangle((a - 1.5, b - 1.5), 3, 3, fill=False, ec="#c1121f", lw=1.2, clip_on=False))
left.set(xlabel="column", ylabel="column", title="Pairs (red: the true ones)")
left.spines[["top", "right"]].set_visible(False)
fig.colorbar(image, ax=left, label="share of the norm (%)", shrink=0.8)

top = 25
position = np.arange(top)[::-1]
colors = ["#c1121f" if z in truth else "#9a9a9a" for z in columns[:top]]
right.barh(position, shares[:top], color=colors, height=0.7)
right.set_yticks(position, [record["kernel"] for record in table[:top]], fontsize=8)
right.set_ylim(-0.7, top - 0.3)
found = sum(z in truth for z in columns[: len(truth)])
right.set(xlabel="share of the norm (%)", title=f"The {top} largest of {size:,} products")
right.barh([0], [0], color="#c1121f", label="true")
right.barh([0], [0], color="#9a9a9a", label="not in the target")
right.legend(frameon=False, loc="lower right")
right.spines[["top", "right"]].set_visible(False)
fig.suptitle(f"{found} of the {len(truth)} true products are among the {len(truth)} largest")
plt.show()
