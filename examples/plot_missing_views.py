"""
Three sources, and rows that lack some
======================================

Not every subject has every measurement. A row that lacks a source is no lost row: its kernel values there are zero, and
what it has stands for the whole. The ten measurements of the breast cancer table come as means, standard errors and
worst values: three sources here, each of which 40 % of the patients lack.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from manykernels import MKLClassifier

# %%
# A view is a table of its own; a patient who lacks it has a row of missing values there.
table, y = load_breast_cancer(return_X_y=True, as_frame=True)
rng = np.random.default_rng(0)
holes = {name: table.filter(like=name).copy() for name in ("mean", "error", "worst")}
for part in holes.values():
    part[rng.random(len(y)) < 0.4] = np.nan
some = ~np.all([part.isna().all(axis=1) for part in holes.values()], axis=0)
A, B = train_test_split(np.flatnonzero(some), train_size=0.5, random_state=0, stratify=y[some])
whole = np.all([part.notna().all(axis=1) for part in holes.values()], axis=0)
print(f"{len(A)} training rows, of which {whole[A].sum()} have all three sources")


def rows(which, names=tuple(holes)):
    return {name: holes[name].iloc[which] for name in names}


# %%
# All rows with what they have, against the rows that have everything, and against one source alone.
model = MKLClassifier(random_state=0).fit(rows(A), y.iloc[A])
scores = {"all rows, any sources": model.score(rows(B), y.iloc[B])}
complete = MKLClassifier(random_state=0).fit(rows(A[whole[A]]), y.iloc[A[whole[A]]])
scores["only rows with all three"] = complete.score(rows(B), y.iloc[B])
for name in holes:
    has = holes[name].notna().all(axis=1).to_numpy()
    one = MKLClassifier(random_state=0).fit(rows(A[has[A]], [name]), y.iloc[A[has[A]]])
    right = one.predict(rows(B[has[B]], [name])) == y.iloc[B[has[B]]]
    usual = np.mean(y.iloc[B[~has[B]]] == y.iloc[A].mode()[0])  # rows without it get the more frequent class
    scores[f"{name!r} alone"] = (right.sum() + usual * (~has[B]).sum()) / len(B)
for name, score in scores.items():
    print(f"{score:.3f}  {name}")

# %%
# What is a source worth, to those who have it? Their accuracy with it, less that when it is kept from them, on rows
# that the model has not seen. And what did a single prediction rest on? Sources that a patient lacks have NaN.
worth = model.view_worth(rows(B), y.iloc[B])
print(worth.round(3))
print(model.contributions(rows(B[:4]), by="view").round(2))

# %%
# Both at a glance.
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained", width_ratios=[1.25, 1])
place = np.arange(len(scores))[::-1]
left.barh(place, list(scores.values()), color=["#2a6f97", "#7db8d6", *["#cccccc"] * 3], height=0.65)
for at, score in zip(place, scores.values(), strict=True):
    left.text(score + 0.004, at, f"{score:.3f}", va="center", fontsize=9)
left.set_yticks(place, list(scores))
left.set_xlim(0.6, 1.0)
left.set_xlabel("accuracy on the other half")
place = np.arange(len(worth))[::-1]
right.errorbar(worth["worth"], place, xerr=worth["error"], fmt="o", color="#2a6f97", capsize=3)
right.axvline(0, color="#999999", lw=0.8)
right.set_yticks(place, [f"{view}\n({n} rows)" for view, n in zip(worth["view"], worth["rows"], strict=True)])
right.set_ylim(-0.6, len(worth) - 0.4)
right.set_xlabel("accuracy lost without the source")
for ax in (left, right):
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(axis="y", length=0)
plt.show()
