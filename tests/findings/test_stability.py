"""Stability selection: what is counted, what is kept, what is said."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from manykernels import MKLClassifier, MKLRegressor
from manykernels.families import Products
from manykernels.findings import selection_bound, stability
from manykernels.findings.halves import Halves, Selected, describe, seed_of
from manykernels.kernels import RBF, Linear
from manykernels.solvers import Greedy, SimpleMKL


def table(n=120, r=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, r))
    return X, 3 * X[:, 0] * X[:, 1] + X[:, 2] + rng.normal(0, 0.3, n)


def greedy():
    return MKLRegressor(Products(2), solver=Greedy(random_state=0), C=10.0)


@pytest.fixture(scope="module")
def found():
    X, y = table()
    return stability(greedy(), X, y, n_pairs=6, random_state=0)


def test_frequencies_are_those_of_fits_on_the_halves(found):
    X, y = table()
    halves = Halves(greedy(), X, y, None, None, 0.0, seed_of(0))
    count = {}
    for b in range(6):
        for rows in halves.split(b):
            c = greedy().fit(X[rows], y[rows]).combination_
            for z in np.array(c.members, dtype=object)[np.flatnonzero(c.weights)]:
                count[tuple(z)] = count.get(tuple(z), 0) + 1 / 12
    assert dict(zip(found["member"], found["frequency"])) == pytest.approx(count)


def test_true_products_are_selected_and_named(found):
    assert set(found.selected) == {(0, 1), (2,)}
    assert list(found["kernel"][:2]) == ["x0·x1", "x2"]
    assert found.bound == selection_bound(found.n_selected, found.n_kernels, found.threshold, 6)
    assert found.bound <= 1 and found.n_kernels == 27


def test_columns_are_counted(found):
    columns = found.by_column().set_index("column")
    assert columns.loc[["x0", "x1", "x2"], "frequency"].tolist() == [1.0, 1.0, 1.0]
    assert len(found.by_view()) == 0


def test_columns_of_products_of_kernels_are_those_of_the_factors():
    X, y = table(n=60, r=3)
    base = [RBF(1.0, columns=["a"]), RBF(1.0, columns=["b", "c"])]
    frame = pd.DataFrame(X, columns=list("abc"))
    family = MKLRegressor(Products(2, base=base), solver=Greedy(2), C=10.0).fit(frame, y).combination_.family
    assert describe(family, (0, 1), frame.columns).columns == ("a", "b", "c")
    assert describe(family, (1, 1)).columns == ("x1", "x2")


def test_halves_are_complementary_and_hold_every_class():
    rng = np.random.default_rng(0)
    y = np.repeat(["a", "b"], [31, 4])
    halves = Halves(MKLClassifier(), rng.random((35, 2)), y, None, None, 0.0, 3)
    for b in range(5):
        one, other = halves.split(b)
        assert np.array_equal(np.sort(np.concatenate([one, other])), np.arange(35))
        assert abs(len(one) - len(other)) <= 1
        assert (y[one] == "b").sum() == (y[other] == "b").sum() == 2


def test_subjects_are_in_one_half():
    groups = np.repeat(np.arange(10), 4)
    halves = Halves(MKLRegressor(), np.zeros((40, 1)), np.zeros(40), None, groups, 0.0, 0)
    one, other = halves.split(0)
    assert not set(groups[one]) & set(groups[other]) and len(one) == 20


def test_near_duplicates_are_counted_together():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 5))
    X[:, 4] = X[:, 0] + 0.05 * rng.standard_normal(200)  # correlation 0.999
    y = X[:, 0] + X[:, 4] + X[:, 1] + rng.normal(0, 1.0, 200)
    found = stability(
        MKLRegressor(Products(1), solver=Greedy(random_state=0), C=10.0), X, y, 10, random_state=0
    )
    twins = found.table().set_index("kernel").loc[["x0", "x4"]]
    assert twins["frequency"].max() < 1 and twins["frequency"].sum() >= 1  # each takes the other's place
    assert (twins["group_frequency"] == 1.0).all() and twins["group"].nunique() == 1
    assert sum(z in found.selected for z in ((0,), (4,))) == 1


def test_near_duplicates_of_other_kernels_are_found_by_their_matrices():
    X, y = table(n=80, r=3)
    kernels = {"a": RBF(1.0, columns=[0, 1]), "b": RBF(1.001, columns=[0, 1]), "c": Linear(columns=[2])}
    found = stability(MKLRegressor(kernels, solver=SimpleMKL(), C=10.0), X, y, 3, random_state=0, bound=3)
    group = dict(zip(found["kernel"], found["group"]))
    assert len({group[k] for k in ("a", "b") if k in group}) == 1 and group["c"] == "c"


@pytest.mark.slow  # starting processes takes a while
def test_processes_change_nothing():
    X, y = table(n=60)
    one = stability(greedy(), X, y, n_pairs=2, random_state=1)
    two = stability(greedy(), X, y, n_pairs=2, random_state=1, n_jobs=2)
    assert one.records == two.records


def test_an_interrupted_run_keeps_its_pairs_and_goes_on_to_the_same_bits(tmp_path, monkeypatch):
    X, y = table(n=60)
    whole = stability(greedy(), X, y, n_pairs=4, random_state=1)
    fit = Halves.fit

    def stop(self, b):
        if b == 2:
            raise KeyboardInterrupt
        return fit(self, b)

    monkeypatch.setattr(Halves, "fit", stop)
    file = tmp_path / "pairs"
    with pytest.warns(ConvergenceWarning, match="Interrupted after 2 of 4 pairs"):
        part = stability(greedy(), X, y, n_pairs=4, random_state=1, checkpoint=file)
    assert part.interrupted and part.n_pairs == 2 and file.exists()
    monkeypatch.setattr(
        Halves, "fit", lambda self, b: fit(self, b) if b >= 2 else pytest.fail("fitted again")
    )
    rest = stability(greedy(), X, y, n_pairs=4, random_state=1, checkpoint=file)
    assert rest.records == whole.records and not file.exists()


def test_a_file_of_other_rows_is_refused(tmp_path, monkeypatch):
    X, y = table(n=60)
    file = tmp_path / "pairs"
    halves = Halves(greedy(), X, y, None, None, 0.0, 5)
    from manykernels.persistence.checkpoint import Checkpoint

    kept = Checkpoint(file)
    kept.resume({**halves.identity(), "seed": 5}, 5)
    kept.write(halves.state())
    with pytest.raises(ValueError, match="belongs to another fit: rows have changed"):
        stability(greedy(), X + 1, y, n_pairs=2, checkpoint=file)


def test_states_hold_members_as_they_are():
    halves = Halves(MKLRegressor(), np.zeros((4, 1)), np.zeros(4), None, None, 0.0, 0)
    some = [Selected((0, (1, 2)), "x1·x2[a]", ("a: x1", "a: x2"), "a"), Selected(3, "rbf", ())]
    halves.pairs = [(some, []), (some[:1], some)]
    other = Halves(MKLRegressor(), np.zeros((4, 1)), np.zeros(4), None, None, 0.0, 0)
    other.restore(halves.state())
    assert other.pairs == halves.pairs


def test_pipelines_tables_and_views_are_taken():
    X, y = table(n=60, r=4)
    frame = pd.DataFrame(X, columns=list("abcd"))
    piped = stability(make_pipeline(StandardScaler(), greedy()), X, y, n_pairs=2, random_state=0)
    assert (0, 1) in piped.selected
    kernels = {"one": Products(2), "two": "linear"}
    views = {"one": frame[["a", "b"]], "two": frame[["c", "d"]]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = stability(MKLRegressor(kernels, solver=Greedy(), C=10.0), views, y, n_pairs=2, random_state=0)
    assert "one" in set(found.by_view()["view"]) and "one: a" in set(found.by_column()["column"])


def test_kernels_of_a_continuum_are_counted_by_part():
    X, y = table(n=50, r=3)
    found = stability(MKLRegressor(), X, y, n_pairs=1, random_state=0)
    assert set(found["kernel"]) <= {"gaussians", "laplacians", "linear"}
    assert np.isnan(found.threshold) and found.selected == []


@pytest.mark.parametrize(
    "wrong, words",
    [
        ({"n_pairs": 0}, "n_pairs is 0; use a whole number of at least 1"),
        ({"bound": 0}, "bound is 0; use a positive finite number"),
        ({"threshold": 0.5}, r"threshold is 0.5; use a number in \(0.5, 1\], or None"),
        ({"near": 2.0}, "near is 2.0"),
        ({"assumption": "some"}, "assumption is 'some'"),
    ],
)
def test_arguments_that_make_no_sense_are_named_before_any_fit(wrong, words):
    with pytest.raises(ValueError, match=words):
        stability(None, None, None, **wrong)


def test_an_estimator_without_kernels_is_refused():
    from sklearn.linear_model import Ridge

    X, y = table(n=20)
    with pytest.raises(ValueError, match="which has no kernels to select"):
        stability(Ridge(), X, y, n_pairs=1)


def test_a_bound_out_of_reach_is_said():
    X, y = table(n=60, r=3)
    with pytest.warns(UserWarning, match="No threshold keeps the bound within 1e-06"):
        found = stability(greedy(), X, y, n_pairs=2, bound=1e-6, random_state=0)
    assert found.selected == [] and np.isinf(found.threshold)
