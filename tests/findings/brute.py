"""The functional ANOVA by its definition, over all combinations of the values of a few rows."""

import itertools

import numpy as np

from manykernels.findings.reading import read


def table_of_scores(model, background):
    """Return the scores over all combinations of the background's values of each variable, (q, ..., q, c)."""
    expansion, rows = read(model, background), np.asarray(model._rows(background), dtype=float)
    variables, q = expansion.variables, len(rows)
    grid = np.zeros((q ** len(variables), rows.shape[1]))
    for g, at in enumerate(np.indices((q,) * len(variables)).reshape(len(variables), -1)):
        columns = list(variables[g].outside)
        grid[:, columns] = rows[at][:, columns]
    scores = model.result_.predictor.scores(grid)
    return scores.reshape(*(q,) * len(variables), scores.shape[1]), variables


def anova(F):
    """Return every component of a table of scores whose last axis holds the outputs, by its set of axes."""
    d, out = F.ndim - 1, {}
    for k in range(d + 1):
        for S in itertools.combinations(range(d), k):
            mean = F.mean(axis=tuple(j for j in range(d) if j not in S), keepdims=True)
            out[S] = mean - sum(out[R] for q in range(k) for R in itertools.combinations(S, q))
    return out


def at_rows(part, F):
    """Return a component at the rows whose values the axes hold, (q, c)."""
    d = F.ndim - 1
    return np.broadcast_to(part, F.shape)[(np.arange(len(F)),) * d]
