"""
Is that product real?
=====================

One fit selects some products out of many. How often would it have selected them on other rows? Fits on random halves of
the rows give a frequency for each, and a bound on how many of the frequent ones are there by chance.

Here a column has a twin, nearly a copy of it. Each takes the other's place in some of the fits, so that alone neither
looks stable; counted together they are. And a weak effect that the fit on all rows finds is lost on halves: that a
product is not selected says little.
"""

import matplotlib.pyplot as plt
import numpy as np

from manykernels import MKLRegressor
from manykernels.families import Products
from manykernels.findings import stability
from manykernels.solvers import Greedy

# %%
# Fifteen columns, 135 products of up to two. The last column is a twin of the first.
rng = np.random.default_rng(3)
X = rng.standard_normal((240, 15))
X[:, 14] = X[:, 0] + 0.05 * rng.standard_normal(240)
truth = {(0, 1): 1.0, (2, 3): 0.8, (4,): 0.6, (5, 6): 0.35, (7,): 0.27}
y = sum(w * X[:, list(z)].prod(axis=1) for z, w in truth.items()) + rng.standard_normal(240)

# %%
# Twenty pairs of halves. ``random_state`` makes the halves the same every time, whatever ``n_jobs`` is.
model = MKLRegressor(Products(degree=2), solver=Greedy(), C=10.0)
found = stability(model, X, y, n_pairs=20, bound=1.0, random_state=0)
print(f"selected at a frequency of {found.threshold:.3g} or more, {found.bound:.2f} expected by chance:")
print(found.table().head(10).round(3).to_string())

# %%
# The bars are frequencies; a thin line goes to the frequency of the group of near-duplicates. Full colour marks true
# products, a ring what the fit on all rows selects.
rows = list(found.records[:12])
place = np.arange(len(rows))[::-1]
twins = {(1, 14): (0, 1)}
true = [r["member"] in truth or r["member"] in twins for r in rows]
fig, ax = plt.subplots(figsize=(7.5, 4.6), layout="constrained")
ax.barh(
    place, [r["frequency"] for r in rows], color=["#2a6f97" if t else "#c3c9ce" for t in true], height=0.65
)
for at, r in zip(place, rows):
    if r["group_frequency"] > r["frequency"]:
        ax.plot([r["frequency"], r["group_frequency"]], [at, at], color="#2a6f97", lw=1)
        ax.plot(r["group_frequency"], at, "|", color="#2a6f97", ms=9)
    if r["all_rows"]:
        ax.plot(1.06, at, "o", mfc="none", mec="#444444", ms=7, clip_on=False)
ax.axvline(found.threshold, color="#b5483a", lw=1, ls="--")
ax.text(found.threshold + 0.01, -0.9, "threshold", color="#b5483a", fontsize=9, va="center")
ax.text(1.06, len(rows) - 0.1, "all rows", ha="center", fontsize=9, color="#444444")
ax.set_yticks(place, [r["kernel"] for r in rows])
ax.set_xlim(0, 1.0)
ax.set_ylim(-1.3, len(rows) - 0.4)
ax.set_xlabel("share of the fits on halves that select it")
ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# Columns are counted, too.
print(found.by_column().head(8).round(3).to_string())
