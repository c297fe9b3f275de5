"""
Many targets, each with weights of its own
==========================================

Encoding models predict many targets, such as the voxels of a brain, from several bands of features, and ask which band
explains which target. With ``weights="per_target"`` every target has kernel weights of its own; all of them are found
together. Here the targets are the lower 40 pixels of images of digits, and the bands are the pixels above them, which
digit it is, and noise.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from manykernels import MKLRegressor
from manykernels.kernels import Linear

# %%
# Three bands, and 40 targets.
images, digit = load_digits(return_X_y=True)
images = images.reshape(-1, 8, 8)
rng = np.random.default_rng(0)
bands = {
    "pixels above": images[:, :3].reshape(len(digit), -1),
    "which digit": np.eye(10)[digit],
    "noise": rng.standard_normal((len(digit), 20)),
}
Y = images[:, 3:].reshape(len(digit), -1)
train, test = np.arange(len(digit)) < 1200, np.arange(len(digit)) >= 1200


def rows(which):
    return {name: band[which] for name, band in bands.items()}


# %%
# One linear kernel per band, as in banded ridge regression. Weights and ridges are chosen by the errors of rows left
# out, and a machine is trained for every target.
model = MKLRegressor({name: Linear() for name in bands}, solver="leave_one_out", weights="per_target")
model.fit(rows(train), Y[train])
split = model.score_by_view(rows(test), Y[test])  # (targets, bands); a target's sum is its R²
told = Y[train].std(axis=0) > 1.0  # the R² of pixels that are nearly always white would rest on few rows
print("mean R² on new rows:", split[told].sum(axis=1).mean().round(3))
print("by band:", dict(zip(bands, split[told].mean(axis=0).round(3).tolist(), strict=True)))

# %%
# Where in the image each band counts. The pixels above are good for the row next to them and, as digits end much as
# they begin, for the last one; in between it takes the digit. Noise explains nothing anywhere. Grey pixels are nearly
# always white.
fig, axes = plt.subplots(1, 3, figsize=(8.4, 2.2), layout="constrained")
most = np.nanmax(split[told])
for ax, name, part in zip(axes, bands, split.T, strict=True):
    shown = np.ma.masked_array(part, ~told).reshape(5, 8)
    picture = ax.imshow(shown, cmap="Blues", vmin=0, vmax=most)
    ax.set_title(f"{name}: {part[told].mean():.2f} on average", fontsize=10)
    ax.set_xticks([])
    ax.set_yticks(range(5), [f"row {k}" if ax is axes[0] else "" for k in range(4, 9)])
    ax.set_facecolor("#eeeeee")
    ax.tick_params(length=0)
fig.colorbar(picture, ax=axes, label="part of R² on new rows", shrink=0.95)
plt.show()
