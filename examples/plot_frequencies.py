"""
Which frequencies does a signal hold?
=====================================

A signal is measured at uneven times, with noise. It is a sum of four oscillations whose frequencies lie on no grid.
:class:`~manykernels.families.Dirichlets` holds one kernel for *every* frequency between two bounds, and the greedy
search finds the few that the signal needs, one at a time.
"""

import matplotlib.pyplot as plt
import numpy as np

from manykernels import MKLRegressor
from manykernels.families import Dirichlets
from manykernels.solvers import Greedy

# %%
# 200 measurements over ten units of time, four oscillations, and noise of half the signal's deviation.
rng = np.random.default_rng(0)
truth = np.array([2.37, 5.81, 6.64, 11.29])
amplitude, phase = np.array([1.0, 0.7, 0.8, 0.5]), rng.uniform(0, 2 * np.pi, 4)


def signal(t):
    """Return the signal without noise."""
    return np.sin(np.multiply.outer(t, truth) + phase) @ amplitude


time = np.sort(rng.uniform(0, 10, 200))
clean = signal(time)
y = clean + 0.5 * clean.std() * rng.standard_normal(200)

# %%
# The number of frequencies is left to the criterion of ``max_kernels="auto"``.
model = MKLRegressor(Dirichlets(bounds=(0.5, 20)), solver=Greedy(), C=10.0).fit(time[:, None], y)
table = model.combination_.records()
found = np.array([record["sigma"] for record in table])
share = np.array([record["share"] for record in table])
for sigma in sorted(found):
    nearest = truth[np.abs(truth - sigma).argmin()]
    print(f"found {sigma:6.3f}   nearest true frequency {nearest:6.3f}")

# %%
# Above, the measurements and the fit; below, the frequencies found beside the true ones. The grey curve is what a
# search by eye would have to go by: the power of the noisy signal at every frequency.
fig, (above, below) = plt.subplots(2, 1, figsize=(8, 5.6), layout="constrained")
fine = np.linspace(0, 10, 1000)
above.plot(time, y, ".", ms=5, color="#9a9a9a", label="measured")
above.plot(fine, signal(fine), color="#c1121f", lw=1, label="signal without noise")
above.plot(fine, model.predict(fine[:, None]), color="#2a6f97", lw=1.8, label="fit")
above.set(xlabel="time", ylabel="signal", xlim=(0, 10))
above.margins(y=0.25)
above.legend(frameon=False, ncols=3, loc="upper right")

grid = np.linspace(0.5, 20, 2000)
power = np.abs(np.exp(-1j * np.multiply.outer(grid, time)) @ (y - y.mean())) ** 2
below.fill_between(grid, power / power.max(), color="#dddddd", lw=0, label="power of the measurements")
below.vlines(truth, 0, 1.12, color="#c1121f", lw=1, ls="--", label="true")
below.stem(
    found,
    share / share.max(),
    linefmt="#2a6f97",
    markerfmt="o",
    basefmt=" ",
    label="found, by share of the norm",
)
below.set(xlabel="frequency", ylabel="relative to the largest", xlim=(0.5, 20), ylim=(0, 1.15))
below.legend(frameon=False, loc="upper right")
for ax in (above, below):
    ax.spines[["top", "right"]].set_visible(False)
error = max(np.abs(truth - sigma).min() for sigma in found)
fig.suptitle(f"{len(found)} frequencies found out of a continuum, each within {error:.2f} of a true one")
plt.show()
