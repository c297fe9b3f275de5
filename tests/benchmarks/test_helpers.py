"""What the benchmarks compute beside the package: alignment, ranks, minima, records, and one protocol for all."""

import importlib
import json
import pathlib
import types

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


def test_a_search_ends_when_the_objective_settles(helpers):
    settled = helpers.Settled(1e-2)
    said = [settled(types.SimpleNamespace(objective=value)) for value in (2.0, 1.0, 0.98, 0.975)]
    assert said == [False, False, False, True]


def counted(value, seed, log):
    """Return a record, and leave a mark in a file: which tasks were really run."""
    with open(log, "a") as file:
        file.write(f"{value}{seed}")
    return [{"task": value, "seed": seed, "method": "a", "error": 0.1}]


def test_tasks_that_are_kept_are_not_run_again(room, tmp_path):
    common, comparison = room("common"), room("comparison")
    args = types.SimpleNamespace(jobs=1, minutes=None)
    tasks, log = [(v, seed, str(tmp_path / "log")) for seed in range(2) for v in "tu"], tmp_path / "log"
    for n in (2, 4, 4):  # interrupted after two, then all, then nothing is left
        found = comparison.run_tasks(counted, tasks[:n], args, common.Journal(tmp_path / "r.json"))
        assert [(r["task"], r["seed"]) for r in found] == [t[:2] for t in tasks[:n]]
    assert log.read_text() == "t0u0t1u1"


def test_repetitions_that_not_all_methods_have_ended_are_left_out(room):
    ended = [(0, "a"), (0, "b"), (1, "a")]
    records = [{"task": "t", "seed": seed, "method": m, "error": 0.1} for seed, m in ended]
    assert [r["seed"] for r in room("comparison").whole(records)] == [0, 0]


def test_error_table_has_means_and_standard_errors(room):
    records = [{"method": "a", "task": "t", "error": e} for e in (0.10, 0.20, 0.30)]
    table = room("comparison").Comparison(records).error_table(("s", "i", "title"), ["a"])
    assert table["head"] == ["", "a"]
    assert table["lines"] == [["t", "20.0 ± 5.8"]]  # 10/√3


def test_minima_count_ends_and_valleys(room):
    landscape = room("alignment_landscape")
    assert landscape.minima(np.array([0.0, 1.0, 0.5, 2.0, 1.0])).tolist() == [0, 2, 4]
    assert landscape.minima(np.array([1.0, 1.0, 1.0])).tolist() == []


SCRIPTS = {p.stem for p in FOLDER.glob("*.py") if "\ndef main()" in p.read_text()} - {
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


def test_finished_parts_are_not_run_again(room, tmp_path, capsys):
    run_all = room("run_all")
    script, log = tmp_path / "fake.py", tmp_path / "log"
    script.write_text(
        f"import json, sys; sys.path.insert(0, {str(FOLDER)!r}); from common import command\n"
        f"open({str(log)!r}, 'a').write('x')\n"
        "open(sys.argv[-1], 'w').write(json.dumps({'command': command(), 'seconds': 1.0}))\n"
    )
    parts = [run_all.Part("fake", "--rows 3", str(script.with_suffix("")))]
    args = types.SimpleNamespace(results=tmp_path, quick=False, keep_times=False)
    assert run_all.progress(parts, args, []) == []
    assert run_all.progress(parts, args, []) == []
    assert log.read_text() == "x"
    assert "1 of 1 are finished" in capsys.readouterr().out
    assert run_all.progress(parts, args, ["--fresh"]) == []
    assert log.read_text() == "xx"


def test_what_changed_beside_the_stored_verdicts_is_said(room, tmp_path):
    papers, out = room("papers"), tmp_path / "x.json"
    row = papers.row(papers.LI, "Fig. 1", "c", verdict="differs", paper="1", ours="2", repetitions=1)
    out.write_text(json.dumps({"rows": [row]}))
    assert "as stored" in room("run_all").compared(out, {"rows": [row]})[0]
    assert (
        "STORED: reproduced" in room("run_all").compared(out, {"rows": [{**row, "verdict": "reproduced"}]})[0]
    )


def test_a_quick_run_has_no_verdict(room, tmp_path):
    out = tmp_path / "x.json"
    out.write_text(json.dumps({"quick": True, "rows": [{}]}))
    with pytest.raises(SystemExit, match="no verdict"):
        room("reproduction").store(out)
