"""What the benchmarks compute beside the package: alignment, ranks, minima, records, and one protocol for all."""

import importlib
import json
import pathlib

import numpy as np
import pytest
from sklearn.datasets import make_classification

from manykernels import AlignedKernel
from manykernels.families import Gaussians
from manykernels.solvers import GreedyAlignment

FOLDER = pathlib.Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def room(monkeypatch):
    """Return a function that imports a file of the benchmarks by its name."""
    monkeypatch.syspath_prepend(FOLDER)
    return importlib.import_module


@pytest.fixture
def helpers(room):
    return room("mkl_methods")


def test_alignment_is_the_solvers(helpers):
    X, y = make_classification(80, 5, random_state=0)
    kernel = AlignedKernel(Gaussians(), solver=GreedyAlignment()).fit(X, y)
    # Both sum the same n² products in double precision.
    assert helpers.alignment(kernel.transform(X), y * 2.0 - 1) == pytest.approx(
        kernel.solver_.alignments_[-1], rel=1e-9
    )


def test_median_rank_shares_ties_and_leaves_others_out(room):
    errors = {"a": (0.1, 0.2), "b": (0.1, 0.3), "c": (0.0, 0.0)}
    records = [
        {"method": m, "task": t, "error": e}
        for m, pair in errors.items()
        for t, e in zip("tu", pair, strict=True)
    ]
    compared = room("comparison").Comparison(records)
    assert compared.ranks() == {"a": 2.25, "b": 2.75, "c": 1.0}
    assert compared.ranks(["a", "b"]) == {"a": 1.25, "b": 1.75}
    assert compared.better("a", "b") == (1, 1, 0)


def test_summary_has_means_and_quartiles_of_what_was_measured(room):
    records = [
        {"method": "a", "task": "t", "error": e, "seconds": s}
        for e, s in ((0.1, 1.0), (0.3, 2.0), (0.2, 6.0))
    ]
    compared = room("comparison").Comparison([*records, {"method": "b", "task": "t", "error": 0.5}])
    first, second = compared.summary()
    assert first["repetitions"] == 3
    assert first["error"]["mean"] == pytest.approx(0.2)
    assert first["seconds"] == {"mean": 3.0, "quartiles": [1.5, 2.0, 4.0]}
    assert set(second) == {"task", "method", "repetitions", "error"}
    assert compared.median_seconds(["a"]) == ({"a": 2.0}, "median CPU seconds a 2.00")


def test_repetitions_of_a_task_stay_together(room):
    records = [{"method": "a", "task": t, "error": e} for t, e in (("t", 0.1), ("u", 0.2), ("t", 0.3))]
    compared = room("comparison").Comparison(records)
    assert compared.errors["a"]["t"].tolist() == [0.1, 0.3]
    assert compared.repetitions() == "median and quartiles over 1 to 2 splits"


def test_C_is_the_one_with_the_least_validation_error_and_the_first_of_equals(room):
    best = room("common").chosen_C((0.1, 1.0, 10.0, 100.0), lambda C: C, lambda C: abs(np.log10(C) - 0.5))
    assert (best["C"], best["valid"], best["model"]) == (1.0, 0.5, 1.0)


def test_a_record_is_printed_and_written_with_its_figures(room, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    out = tmp_path / "new" / "record.json"
    record = {"benchmark": "none", "verdict": ["a claim: reproduced"]}
    room("common").finish(
        record, out, figures={"": lambda plt: plt.figure(), "_more": lambda plt: plt.figure()}
    )
    printed = capsys.readouterr()
    assert json.loads(printed.out) == json.loads(out.read_text())
    assert printed.err == "a claim: reproduced\n"
    assert json.loads(printed.out)["figures"] == ["record.png", "record_more.png"]
    assert sorted(p.name for p in out.parent.iterdir()) == ["record.json", "record.png", "record_more.png"]


def test_splits_are_disjoint(helpers):
    X = np.arange(30.0)[:, None]
    s = helpers.split_rows(X, X[:, 0], (10, 5, 100), np.random.default_rng(0))
    rows = np.concatenate([s.X, s.Xv, s.Xt])[:, 0]
    assert sorted(rows) == list(range(30))
    assert (s.X[:, 0] == s.y).all()


@pytest.mark.parametrize("ard", [False, True])
def test_every_method_runs_under_the_protocol(helpers, ard):
    X, y = make_classification(110, 3, n_informative=2, n_redundant=0, class_sep=2.0, random_state=0)
    s = helpers.split_rows(X, y * 2.0 - 1, (40, 30, 40), np.random.default_rng(0))
    methods = helpers.continuous(ard, steps=3, shrinkage=(1e-3,))
    if not ard:
        methods += helpers.finite([0.5, 2.0, 8.0], single=True)
    for method in methods:
        found = helpers.evaluate(method, s, (1.0, 10.0), aligned=True)
        assert found["error"] < 0.35, method.name
        assert found["C"] in (1.0, 10.0)
        assert 0 < found["alignment"] < 1


def test_minima_count_ends_and_valleys(room):
    landscape = room("alignment_landscape")
    assert landscape.minima(np.array([0.0, 1.0, 0.5, 2.0, 1.0])).tolist() == [0, 2, 4]
    assert landscape.minima(np.array([1.0, 1.0, 1.0])).tolist() == []


SCRIPTS = {p.stem for p in FOLDER.glob("*.py") if "def main():" in p.read_text()} - {
    "run_all",
    "reproduction",
}


@pytest.mark.parametrize("script", sorted(SCRIPTS))
def test_every_script_can_be_imported(room, script):
    assert callable(room(script).main)


def test_run_all_runs_every_script(room):
    parts = room("run_all").PARTS
    assert {part.script or part.name for part in parts} == SCRIPTS
    assert len({part.name for part in parts}) == len(parts)
