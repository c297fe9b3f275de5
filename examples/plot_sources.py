"""
How much does each source count?
================================

Several sources describe the same rows; some are informative, some are noise. One kernel per source, and the
learned weights say which ones the predictor uses. The dots are ten random halves of the data: a weight that
moves little from half to half can be trusted.
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
# The breast cancer table has ten measurements, each as a mean, a standard error and a worst value: three
# sources. Three more are noise of the same shape.
X, y = load_breast_cancer(return_X_y=True)
rng = np.random.default_rng(0)
X = StandardScaler().fit_transform(np.column_stack([X, rng.standard_normal((len(X), 30))]))
names = ["mean", "error", "worst", "noise A", "noise B", "noise C"]
kernels = {name: RBF(4.0, columns=slice(10 * i, 10 * i + 10)) for i, name in enumerate(names)}

# %%
# Fit on random halves and test on the others. With a much larger `C` the predictor would also use the noise,
# to fit the last training rows.
shares, equal, scores = [], [], []
for seed in range(10):
    A, B, ya, yb = train_test_split(X, y, train_size=0.5, random_state=seed, stratify=y)
    model = MKLClassifier(kernels, solver=LpNorm(p=1.1), C=0.3).fit(A, ya)
    plain = MKLClassifier(kernels, solver=Uniform(), C=0.3).fit(A, ya)
    shares.append(model.combination_.shares())
    equal.append(plain.combination_.shares())
    scores.append([model.score(B, yb), plain.score(B, yb)])
learned_score, equal_score = np.mean(scores, axis=0)
print(f"accuracy: learned weights {learned_score:.3f}, equal weights {equal_score:.3f}")

# %%
# The share of the norm that each source holds. Both predictors are about as accurate; only one says what it
# uses.
shares, equal = 100 * np.array(shares), 100 * np.mean(equal, axis=0)
fig, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
position = np.arange(len(names))[::-1]
ax.barh(position, shares.mean(axis=0), color=["#2a6f97"] * 3 + ["#9a9a9a"] * 3, height=0.6)
for row in shares:
    ax.plot(row, position + rng.uniform(-0.2, 0.2, len(names)), "o", ms=3, color="black", alpha=0.5, mew=0)
ax.plot(equal, position, "D", ms=6, mfc="white", mec="#c1121f", mew=1.5, label="with equal weights")
ax.set_yticks(position, names)
ax.set_xlim(0)
ax.set_xlabel("share of the norm (%); bars: learned weights, dots: the ten halves")
ax.set_title(f"Noise holds {shares.mean(axis=0)[3:].sum():.0f} % of the learned predictor", fontsize=11)
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False, loc="lower right")
plt.show()
