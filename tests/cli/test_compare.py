"""`compare` gives every method the same folds, says what failed, and prints what it found."""

import json

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
testing = pytest.importorskip("typer.testing")

from pyarrow import csv  # noqa: E402
from sklearn.linear_model import RidgeCV  # noqa: E402
from sklearn.model_selection import KFold  # noqa: E402

from manykernels import cli  # noqa: E402
from manykernels.report import peers  # noqa: E402


@pytest.fixture
def data(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    y = X @ [1.0, -2.0, 0.0] + 0.1 * rng.standard_normal(60)
    columns = {f"x{j}": X[:, j] for j in range(3)} | {"y": y, "colour": np.where(X[:, 0] > 0, "red", "blue")}
    csv.write_csv(pa.table(columns), tmp_path / "d.csv")
    return tmp_path / "d.csv", X, y


def run(*words, code=0):
    result = testing.CliRunner().invoke(cli.application(), ["compare", *(str(w) for w in words)])
    assert result.exit_code == code, result.output
    return result


def test_peers_have_the_folds_and_scores_that_scikit_learn_gives(data):
    path, X, y = data
    told = run(path, "-t", "y", "--drop", "colour", "--folds", 3, "--methods", "linear", "--json").stdout
    record = json.loads(told)["methods"][0]
    scores = []
    for train, test in KFold(3, shuffle=True, random_state=0).split(y):
        units = X[train].mean(axis=0), X[train].std(axis=0)
        ridge = RidgeCV(alphas=np.logspace(-3, 5, 17)).fit((X[train] - units[0]) / units[1], y[train])
        scores.append(ridge.score((X[test] - units[0]) / units[1], y[test]))
    # Bounds a range beyond the quantiles change no row here.
    assert np.allclose(record["scores"], scores, atol=1e-9)


def test_the_best_comes_first_and_kernels_are_counted(data):
    path, *_ = data
    told = run(path, "-t", "y", "--folds", 2, "--methods", "random-forest,uniform", "--json").stdout
    methods = json.loads(told)["methods"]
    assert [m["method"] for m in methods] == ["manykernels, uniform", "random-forest"]
    assert methods[0]["score"] > methods[1]["score"]
    assert min(methods[0]["n_kernels"]) > 0 and methods[1]["n_kernels"] is None


def test_a_table_is_printed(data):
    path, *_ = data
    told = run(path, "-t", "colour", "--folds", 2, "--methods", "linear").stdout
    assert "target colour (2 classes)" in told and "Accuracy" in told and "linear" in told


def test_what_fails_is_said_and_the_others_go_on(data):
    path, *_ = data
    result = run(path, "-t", "y", "--folds", 2, "--methods", "linear,hierarchical")
    assert "failed" in result.stdout and "linear" in result.stdout
    assert "manykernels, hierarchical: " in " ".join(result.stderr.split())


def test_unknown_methods_and_missing_packages_are_sentences(data, monkeypatch):
    path, *_ = data
    assert "--methods has 'tree'" in run(path, "-t", "y", "--methods", "tree", code=2).stderr
    monkeypatch.setitem(peers.PEERS, "catboost", (peers.catboost, "no_such_package"))
    said = run(path, "-t", "y", "--methods", "catboost", code=2).stderr
    assert "install no_such_package" in " ".join(said.split())
    assert "catboost" not in peers.installed()


def test_a_class_with_fewer_rows_than_folds_is_said(tmp_path):
    table = pa.table({"x": np.arange(10.0), "y": ["a"] * 8 + ["b"] * 2})
    csv.write_csv(table, tmp_path / "d.csv")
    said = run(tmp_path / "d.csv", "-t", "y", "--folds", 3, "--methods", "linear", code=2).stderr
    assert "the rarest class has 2 rows; use fewer folds" in " ".join(said.split())
