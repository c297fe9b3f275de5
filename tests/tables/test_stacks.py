"""Ready-made kernel matrices: every form is the same model."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal

from manykernels import MKLClassifier, MKLRegressor, load
from manykernels.kernels import RBF, Linear
from manykernels.solvers import LpNorm
from manykernels.tables.stacks import open_stack

rng = np.random.default_rng(0)
X, NEW = rng.normal(size=(30, 3)), rng.normal(size=(7, 3))
y = X[:, 0] + np.sin(X[:, 1])
PARTS = {"wide": RBF(3.0), "narrow": RBF(1.0), "line": Linear()}
K = {name: kernel(X) for name, kernel in PARTS.items()}
K_NEW = {name: kernel(NEW, X) for name, kernel in PARTS.items()}
ROWS, NEW_ROWS = [f"r{i}" for i in range(30)], [f"s{i}" for i in range(7)]


def model():
    return MKLRegressor("precomputed", solver=LpNorm(), C=2.0)


def shuffled(frame, seed):
    order = np.random.default_rng(seed).permutation(len(frame.columns))
    rows = order if len(frame) == len(order) else np.arange(len(frame))
    return frame.iloc[rows, order]


FORMS = {
    "kernels last": lambda parts, rows: np.stack(list(parts.values()), axis=2),
    "kernels first": lambda parts, rows: np.stack(list(parts.values())),
    "list": lambda parts, rows: list(parts.values()),
    "dict": lambda parts, rows: parts,
    "sparse": lambda parts, rows: [sp.csr_array(M) for M in parts.values()],
    "list of frames": lambda parts, rows: [pd.DataFrame(M, index=rows, columns=ROWS) for M in parts.values()],
    "frames": lambda parts, rows: {
        name: pd.DataFrame(M, index=rows, columns=ROWS)
        if name == "wide"
        else shuffled(pd.DataFrame(M, index=rows, columns=ROWS), 1)
        for name, M in parts.items()
    },
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_predictions(form):
    wanted = model().fit(FORMS["kernels last"](K, ROWS), y).predict(FORMS["kernels last"](K_NEW, NEW_ROWS))
    fitted = model().fit(FORMS[form](K, ROWS), y)
    assert_array_equal(fitted.predict(FORMS[form](K_NEW, NEW_ROWS)), wanted)


def test_classes_have_a_score_of_rows_left_out():
    labels = np.where(y > 0, "high", "low")
    fitted = MKLClassifier("precomputed", solver=LpNorm(), C=2.0).fit(K, labels)
    stack = MKLClassifier("precomputed", solver=LpNorm(), C=2.0).fit(FORMS["kernels last"](K, ROWS), labels)
    assert fitted.loo_score_ == stack.loo_score_


def test_names_are_in_the_table_and_kernels_are_found_by_them(tmp_path):
    fitted = model().fit(K, y)
    assert set(fitted.combination_.table()["kernel"]) == set(PARTS)
    turned = dict(reversed(K_NEW.items()))
    assert_array_equal(fitted.predict(turned), fitted.predict(K_NEW))
    fitted.save(tmp_path / "model.mk")
    assert_array_equal(load(tmp_path / "model.mk").predict(turned), fitted.predict(K_NEW))


def test_where_both_readings_fit_the_last_axis_holds_the_kernels():
    cube = rng.normal(size=(4, 4, 4))
    assert open_stack(cube).values is cube


@pytest.mark.parametrize(
    "given, said",
    [
        ([], "at least one|0 sample|Expected|dim"),
        (
            {"a": K["wide"], "b": K["line"][:20, :20]},
            r"kernel 'b' has the shape \(20, 20\); \(30, 30\) was expected",
        ),
        ([K["wide"][:, :20]], "square matrices"),
        (np.zeros((30, 20, 10)), "square matrices"),
        (np.zeros((3, 20, 30)), r"shape \(3, 20, 30\), and a fit needs square matrices.*\(n_kernels, n, n\)"),
        (np.zeros((2, 3, 30, 30)), "square matrices"),
    ],
)
def test_shapes_that_are_no_kernels_are_refused(given, said):
    with pytest.raises(ValueError, match=said):
        model().fit(given, y)


def test_what_is_missing_at_prediction_is_named():
    fitted = model().fit(K, y)
    with pytest.raises(ValueError, match="lacks the kernel 'narrow'"):
        fitted.predict({name: M for name, M in K_NEW.items() if name != "narrow"})
    with pytest.raises(ValueError, match=r"has the shape \(7, 29\); \(7, 30\) was expected"):
        fitted.predict({name: M[:, :29] for name, M in K_NEW.items()})
    with pytest.raises(ValueError, match=r"shape \(7, 29, 3\), .* 3 kernels of 30 rows"):
        fitted.predict(np.zeros((7, 29, 3)))
    frames = model().fit(FORMS["frames"](K, ROWS), y)
    lost = {name: pd.DataFrame(M[:, 1:], index=NEW_ROWS, columns=ROWS[1:]) for name, M in K_NEW.items()}
    with pytest.raises(ValueError, match="kernel 'wide' has no row called 'r0'"):
        frames.predict(lost)
