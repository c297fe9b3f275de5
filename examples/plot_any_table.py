"""
Any table
=========

A table as it is: numbers in their own units, a column of text, dates, and gaps. The default learns kernels, bandwidths,
weights and C from it; nothing has to be encoded, filled in, scaled or tuned first.
"""

import numpy as np
from sklearn.datasets import load_diabetes

from manykernels import MKLRegressor
from manykernels.displays import ComponentsDisplay, InteractionsDisplay, WeightsDisplay
from manykernels.findings import components

# %%
# The diabetes data of scikit-learn in its own units, with the sex as text, and one value in twenty lost.
table = load_diabetes(as_frame=True, scaled=False).frame
progression = table.pop("target")
table["sex"] = np.where(table["sex"] == 1, "female", "male")
rng = np.random.default_rng(0)
table = table.mask(rng.random(table.shape) < 0.05)
table.head()

# %%
# One line fits it. The score is that of rows left out: no rows are held back for it.
model = MKLRegressor().fit(table, progression)
round(model.loo_score_, 3)

# %%
# Which kernels carry the prediction:
WeightsDisplay.from_estimator(model).plot()

# %%
# And which columns, alone and together, in their own units: main effects as curves, interactions as maps.
parts = components(model, table)
ComponentsDisplay.from_components(parts).plot()

# %%
# All shares of one or two columns at a glance, main effects on the diagonal.
InteractionsDisplay.from_components(parts).plot()

# %%
# The same as a table, with the standard error of each share.
parts.table().head(8).round(4)
