"""
Who lives how long? Survival with censored times
================================================

Some patients leave a study before anything has happened to them: all that is known is that they lived longer than that.
The partial likelihood takes such times as they are. Here the risk is high at both ends of one measurement, which a
straight line cannot follow, and four of ten patients are lost from sight.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.model_selection import KFold, cross_val_score

from manykernels import MKLSurvival
from manykernels.kernels import Linear

# %%
# A risk with two ends, in one column of four; times until death, and until the patient is lost from sight.
rng = np.random.default_rng(0)
X = rng.normal(size=(500, 4))
truth = 1.2 * X[:, 0] ** 2 + 0.6 * X[:, 1]
death, lost = rng.exponential(np.exp(-truth)), rng.exponential(0.6, size=500)
seen, time = death <= lost, np.minimum(death, lost)
train, test = np.arange(300), np.arange(300, 500)
y = np.array(list(zip(seen, time)), dtype=[("dead", bool), ("years", float)])
print(f"{seen.mean():.0%} of the deaths were seen")

# %%
# The default learns kernels, bandwidths and C; a linear kernel alone is Cox's regression. The score is the concordance:
# how often, of two patients, the one with the higher risk died first.
model = MKLSurvival().fit(X[train], y[train])
line = MKLSurvival([Linear()]).fit(X[train], y[train])
print(f"concordance: learned {model.score(X[test], y[test]):.3f}, linear {line.score(X[test], y[test]):.3f}")


# %%
# The risk along the first column, and the curves of new patients in three groups by their risk, beside what became of
# these (Kaplan and Meier's estimate).
def kaplan_meier(seen, time, at):
    """Return the share alive at some times, of those not lost before."""
    steps = np.unique(time[seen])
    left = [1 - np.sum(seen & (time == t)) / np.sum(time >= t) for t in steps]
    return np.r_[1.0, np.cumprod(left)][np.searchsorted(steps, at, side="right")]


fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
grid = np.zeros((101, 4))
grid[:, 0] = np.linspace(-2.2, 2.2, 101)
for name, values, style in (
    ("truth", 1.2 * grid[:, 0] ** 2, {"color": "black", "ls": "--", "lw": 1.2}),
    ("learned", model.predict(grid), {"color": "#2a6f97", "lw": 2.2}),
    ("linear", line.predict(grid), {"color": "#9a9a9a", "lw": 1.8}),
):
    left.plot(grid[:, 0], values - values[50], label=name, **style)
left.set(xlabel="first column", ylabel="risk, against that in the middle")
left.set_title("The risk is high at both ends", fontsize=11)
left.legend(frameon=False, loc="upper center")

at = np.linspace(0, 1.2, 200)
group = np.argsort(np.argsort(model.predict(X[test]))) * 3 // len(test)
for k, (name, color) in enumerate((("low", "#2a9d8f"), ("middle", "#e9a03b"), ("high", "#c1121f"))):
    rows = test[group == k]
    right.plot(at, model.predict_survival_function(X[rows], at).mean(axis=0), color=color, lw=2.2, label=name)
    right.step(at, kaplan_meier(seen[rows], time[rows], at), color=color, lw=1.0, alpha=0.8, where="post")
right.set(xlabel="years", ylabel="share alive", ylim=(0, 1.02), xlim=(0, at[-1]))
right.set_title("New patients by risk: predicted, and observed (thin)", fontsize=11)
right.legend(frameon=False, title="risk")
for ax in (left, right):
    ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# Real patients: the 137 veterans with lung cancer of Kalbfleisch and Prentice (*The Statistical Analysis of Failure
# Time Data*, 1980; from StatLib), with text and numbers as they are, in five folds. From so few there is little to
# learn beyond a straight line, and the default does not lose by looking for it.
here = Path(__file__).parent if "__file__" in globals() else Path()
table = pd.read_csv(here / "data" / "veteran.csv")
y = np.array(list(zip(table.pop("status") == "dead", table.pop("days"))), dtype=y.dtype)
folds = KFold(5, shuffle=True, random_state=0)
for name, model in {"learned": MKLSurvival(), "linear": MKLSurvival([Linear()])}.items():
    rows = table if name == "learned" else pd.get_dummies(table, dtype=float)
    scores = cross_val_score(model, rows, y, cv=folds)
    print(f"{name}: concordance {scores.mean():.3f} ± {scores.std(ddof=1) / np.sqrt(len(scores)):.3f}")
