"""
From a fit to its components
============================

A test function of sensitivity analysis, sin(a) + 7 sin²(b) + 0.1 c⁴ sin(a), has a main effect of a, one of b, and an
interaction of a and c, while c alone has no effect at all. A Gaussian kernel with a bandwidth per column fits it well;
what the fit says of the columns is its functional ANOVA: a constant, main effects and interactions that do not overlap,
with their shares of the variance and curves in the columns' own units.

The columns are in units that nobody standardised: an angle in degrees, one in radians, a length in millimetres.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from manykernels import MKLRegressor
from manykernels.findings import components, shapley, shares

# %%
# The default learns kernels, bandwidths and C on 600 rows.
rng = np.random.default_rng(0)
a, b, c = rng.uniform(-np.pi, np.pi, (3, 600))
table = pd.DataFrame({"a (degrees)": np.degrees(a), "b (radians)": b, "c (mm)": 1000 * c})
y = np.sin(a) + 7 * np.sin(b) ** 2 + 0.1 * c**4 * np.sin(a)
model = MKLRegressor().fit(table, y)
round(model.loo_score_, 3)

# %%
# Every component, with its share of the variance under the product of the columns' margins. Under uniform columns the
# shares are known: .314 for a, .442 for b, .244 for a and c; the margins of these 600 rows differ a little.
parts = components(model, table)
parts.table().round(4)

# %%
# With the constant they add up to the prediction, at every row.
float(np.abs(parts.values.sum(axis=1) + parts.constant - model.predict(table)).max())

# %%
# An effect can be drawn over a grid of the column, or of two.
fig, axes = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
truth = {
    "a (degrees)": lambda x: (np.sin(np.radians(x)) - np.mean(np.sin(a))) * (1 + 0.1 * np.mean(c**4)),
    "b (radians)": lambda x: 7 * np.sin(x) ** 2 - 7 * np.mean(np.sin(b) ** 2),
}
share = dict(zip(parts.names, parts.shares))
for ax, name in zip(axes, truth):
    effect = parts.effect(name)
    ax.plot(effect.grid[0], truth[name](effect.grid[0]), color="#e69f00", lw=6, alpha=0.4, label="truth")
    ax.plot(effect.grid[0], effect.values, color="#0072b2", lw=1.6, label="fit")
    ax.axhline(0, color="#bbbbbb", lw=0.8, zorder=0)
    ax.set(xlabel=name, title=f"{name}: share {share[name]:.3f}")
    ax.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("effect on the prediction")
axes[0].legend(frameon=False)
pair = parts.effect("a (degrees) × c (mm)")
top = np.abs(pair.values).max()
drawn = axes[2].pcolormesh(*pair.grid, pair.values.T, cmap="RdBu_r", vmin=-top, vmax=top, shading="gouraud")
axes[2].set(xlabel=pair.columns[0], ylabel=pair.columns[1], title=f"a × c: share {share[pair.name]:.3f}")
fig.colorbar(drawn, ax=axes[2])
plt.show()

# %%
# Sobol's shares of every column: alone, and with all components that it is in. To know c is worth as much as its
# interaction.
shares(model, table).table().round(4)

# %%
# What made one prediction what it is: exact Shapley values, which share every component equally among its columns.
phi = shapley(model, table[:1], table)
print(f"mean {phi.constant:.2f}")
for name, value in zip(phi.names, phi.values[0]):
    print(f"{value:+.2f}  {name} = {table[name].iloc[0]:.1f}")
print(f"prediction {model.predict(table[:1])[0]:.2f}")
