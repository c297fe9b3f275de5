"""
How much does each source count?
================================

Several sources describe the same rows; some are informative, some are noise. One kernel per source, and the learned
weights say which ones the predictor uses. The dots are ten random halves of the data: a weight that moves little from
half to half can be trusted.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from manykernels import MKLClassifier
from manykernels.kernels import RBF
from manykernels.solvers import LpNorm, Uniform

# %%
# The breast cancer table has ten measurements, each as a mean, a standard error and a worst value: three sources.
# Three more are noise of the same shape.
X, y = load_breast_cancer(return_X_y=True)
rng = np.random.default_rng(0)
X = StandardScaler().fit_transform(np.column_stack([X, rng.standard_normal((len(X), 30))]))
names = ["mean", "error", "worst", "noise A", "noise B", "noise C"]
kernels = {name: RBF(4.0, columns=slice(10 * i, 10 * i + 10)) for i, name in enumerate(names)}

# %%
# Fit on random halves and test on the others.
shares, learned, uniform = [], [], []
for seed in range(10):
    A, B, ya, yb = train_test_split(X, y, train_size=0.5, random_state=seed, stratify=y)
    model = MKLClassifier(kernels, solver=LpNorm(p=1.1), C=10).fit(A, ya)
    record = {r["kernel"]: r["share"] for r in model.combination_.table()}
    shares.append([record[name] for name in names])
    learned.append(model.score(B, yb))
    uniform.append(MKLClassifier(kernels, solver=Uniform(), C=10).fit(A, ya).score(B, yb))
print(f"learned weights {np.mean(learned):.3f}, equal weights {np.mean(uniform):.3f}")

# %%
# The share of the norm that each source holds.
shares = 100 * np.array(shares)
fig, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
position = np.arange(len(names))[::-1]
colour = ["#2a6f97"] * 3 + ["#a9a9a9"] * 3
ax.barh(position, shares.mean(axis=0), color=colour, height=0.6)
for row in shares:
    ax.plot(row, position + rng.uniform(-0.15, 0.15, len(names)), "o", ms=3, color="black", alpha=0.5, mew=0)
ax.set_yticks(position, names)
ax.set_xlabel("share of the norm (%); dots: ten random halves")
ax.set_title(
    f"Accuracy on the other half: {np.mean(learned):.1%} learned, {np.mean(uniform):.1%} equal weights", fontsize=10
)
ax.spines[["top", "right"]].set_visible(False)
plt.show()
