import bz2
import csv
import gzip
import io
import json
import subprocess
import sys
from types import SimpleNamespace
from typing import get_args

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
typer_testing = pytest.importorskip("typer.testing")

from manykernels import MKLClassifier, MKLRegressor, __version__, cli, load  # noqa: E402
from manykernels.cli import options  # noqa: E402
from manykernels.cli.models import fit_visibly, split  # noqa: E402
from manykernels.cli.screens import describe_gap, plain  # noqa: E402
from manykernels.cli.tables import named  # noqa: E402
from manykernels.kernels import RBF, Linear  # noqa: E402
from manykernels.persistence import read_metadata  # noqa: E402
from manykernels.problem import GapKind  # noqa: E402
from manykernels.registry import SOLVERS, solver_names  # noqa: E402
from manykernels.solvers import Blockwise  # noqa: E402


def run(*args, code=0):
    """Run the command line; on success return what it printed, else the error stream on one line."""
    result = typer_testing.CliRunner().invoke(cli.application(), [str(a) for a in args])
    assert result.exit_code == code, result.output
    return result.stdout if code == 0 else " ".join(result.stderr.split())


def screen_of(*args):
    """Run the command line, and return the plan and the result."""
    result = typer_testing.CliRunner().invoke(cli.application(), [str(a) for a in args])
    assert result.exit_code == 0, result.output
    return result.stderr + result.stdout


def columns(n=80):
    rng = np.random.default_rng(0)
    a, b, c = rng.standard_normal((3, n))
    return {
        "a": a,
        "b": 100 + 20 * b,
        "c": c,
        "count": rng.integers(0, 9, n),
        "label": np.where(a * b > 0, "same", "other"),
        "y": a + 0.5 * b,
    }


def write(path, data):
    table = pa.table(data)
    if path.suffix == ".csv":
        from pyarrow import csv as arrow_csv

        arrow_csv.write_csv(table, path)
    elif path.suffix == ".parquet":
        from pyarrow import parquet

        parquet.write_table(table, path)
    else:
        from pyarrow import feather

        feather.write_feather(table, str(path))
    return path


def read(path):
    if path.suffix in (".feather", ".arrow"):
        from pyarrow import feather

        return feather.read_table(path)
    from pyarrow import csv as arrow_csv
    from pyarrow import parquet

    return parquet.read_table(path) if path.suffix == ".parquet" else arrow_csv.read_csv(path)


@pytest.fixture
def data(tmp_path):
    return write(tmp_path / "data.csv", columns())


@pytest.fixture
def model(data, tmp_path):
    run(
        "fit",
        data,
        "--target",
        "label",
        "--drop",
        "y",
        "-o",
        tmp_path / "m.mk",
        *("--kernels", "gaussian", "--solver", "lp-norm", "--loss", "logistic", "-C", "1"),
    )
    return tmp_path / "m.mk"


@pytest.mark.parametrize("ending", ["csv", "parquet", "feather", "arrow"])
def test_fit_show_predict_on_every_format(tmp_path, ending):
    data = write(tmp_path / f"data.{ending}", columns())
    path = tmp_path / "m.mk"
    screen = screen_of("fit", data, "-t", "label", "--drop", "y", "-o", path)
    assert "80 rows, 4 columns" in screen and "accuracy" in screen and "(exact)" in screen
    assert "rbf(σ=" in run("show", path)
    answers = list(csv.DictReader(io.StringIO(run("predict", path, data))))
    assert len(answers) == 80 and {a["prediction"] for a in answers} <= {"same", "other"}
    out = tmp_path / f"out.{ending}"
    run("predict", path, data, "-o", out)
    assert read(out).column("prediction").to_pylist() == [a["prediction"] for a in answers]


def test_predict_applies_the_standardisation_of_fit(model, data):
    table = columns()
    names = read_metadata(model)["columns"]
    assert names == ["a", "b", "c", "count"]
    X = np.column_stack([table[n] for n in names]).astype(float)
    train, _ = split(80, table["label"], 0.25, 0)
    Z = (X - X[train].mean(axis=0)) / X[train].std(axis=0)
    expected = load(model).predict(named(Z, names))
    answers = [a["prediction"] for a in csv.DictReader(io.StringIO(run("predict", model, data)))]
    assert answers == expected.tolist()


def test_blanks_behind_separators_are_no_part_of_names_and_classes(model, data, tmp_path):
    blanks = tmp_path / "blanks.csv"
    blanks.write_text(data.read_text().replace(",", ", ").replace('"', ""))
    again = tmp_path / "again.mk"
    options = ["--drop", "y", "--kernels", "gaussian", "--solver", "lp-norm", "--loss", "logistic", "-C", "1"]
    run("fit", blanks, "-t", "label", "-o", again, *options)
    assert load(again).classes_.tolist() == ["other", "same"]
    assert run("predict", again, data) == run("predict", model, blanks) == run("predict", model, data)
    assert run("explain", again, blanks, "--json") == run("explain", model, data, "--json")


def test_predict_takes_columns_in_any_order_and_needs_no_target(model, data, tmp_path):
    table = columns()
    other = write(tmp_path / "other.parquet", {k: table[k] for k in ("count", "c", "b", "a")})
    assert run("predict", model, other) == run("predict", model, data)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_the_index_of_a_data_frame_is_no_feature(ending, tmp_path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(columns()).drop(columns="label").sample(frac=1, random_state=0)
    path = tmp_path / f"d.{ending}"
    getattr(frame, f"to_{ending}")(path)
    result = typer_testing.CliRunner().invoke(
        cli.application(), ["fit", str(path), "-t", "y", "-o", str(tmp_path / "m.mk")]
    )
    assert result.exit_code == 0, result.output
    assert list(load(tmp_path / "m.mk").feature_names_in_) == ["a", "b", "c", "count"]
    assert ("A column without a name is left out" in result.stderr) == (ending == "csv")
    run("predict", tmp_path / "m.mk", path)


def test_the_score_is_that_of_the_saved_model_on_rows_it_has_not_seen(model, data):
    table = columns()
    _, test = split(80, table["label"], 0.25, 0)
    answers = [a["prediction"] for a in csv.DictReader(io.StringIO(run("predict", model, data)))]
    score = read_metadata(model)["score"]
    assert score["n_rows"] == len(test) == 20
    assert score["value"] == np.mean(np.array(answers)[test] == table["label"][test])


def test_probabilities_sum_to_one(model, data):
    rows = list(csv.DictReader(io.StringIO(run("predict", model, data, "--proba"))))
    assert set(rows[0]) == {"prediction", "probability_same", "probability_other"}
    for row in rows:
        assert abs(float(row["probability_same"]) + float(row["probability_other"]) - 1) < 1e-12


def test_regression_on_products_names_the_columns(data, tmp_path):
    path = tmp_path / "m.mk"
    options = ("--kernels", "products", "--degree", "2", "--columns", "a,b", "--p", "1.1")
    screen = screen_of("fit", data, "-t", "y", *options, "-o", path)
    assert "regression" in screen and "R²" in screen and "LpNorm(p=1.1)" in screen
    assert {r["kernel"] for r in load(path).combination_.records()} == {"a", "b", "a²", "a·b", "b²"}


def test_all_rows_are_used_when_nothing_is_held_out(data, tmp_path):
    path = tmp_path / "m.mk"
    screen = run("fit", data, "-t", "y", "--drop", "label", "--test-size", "0", "-o", path)
    assert "Held-out" not in screen and "80 rows" in screen
    assert read_metadata(path)["score"] is None


def test_columns_stay_as_they_are_without_standardising(data, tmp_path):
    path = tmp_path / "m.mk"
    base = ("fit", data, "-t", "y", "--drop", "label", "--no-standardize", "-o", path)
    run(*base, "--kernels", "gaussian", "--solver", "lp-norm", "-C", "1")
    assert "mean" not in read_metadata(path)
    answers = [float(a["prediction"]) for a in csv.DictReader(io.StringIO(run("predict", path, data)))]
    table = columns()
    X = np.column_stack([table[n] for n in ("a", "b", "c", "count")])
    np.testing.assert_allclose(answers, load(path).predict(named(X, ["a", "b", "c", "count"])), rtol=1e-12)
    assert "auto brings every column to a unit of its own" in run(*base, "--force", code=2)


def test_the_task_follows_the_target_unless_told(data, tmp_path):
    path = tmp_path / "m.mk"
    run("fit", data, "-t", "count", "--drop", "label", "-o", path)
    assert isinstance(load(path), MKLClassifier)
    run("fit", data, "-t", "count", "--drop", "label", "-o", path, "--force", "--task", "regress")
    assert isinstance(load(path), MKLRegressor)


def test_json_parses_and_agrees_with_the_model(model):
    record = json.loads(run("show", model, "--json"))
    fitted = load(model)
    assert record["objective"] == fitted.objective_ and record["gap_kind"] == "exact"
    assert len(record["kernels"]) == record["n_kernels"] == len(fitted.combination_)
    assert record["classes"] == ["other", "same"]
    assert len(json.loads(run("show", model, "--json", "--top", "2"))["kernels"]) == 2


def test_json_has_no_nan(tmp_path):
    assert plain({"a": np.array([np.nan, 1.0]), "b": (np.int64(1), slice(1))}) == {
        "a": [None, 1.0],
        "b": [1, "slice(None, 1, None)"],
    }


def test_show_tells_the_C_that_was_used(data, tmp_path):
    path = tmp_path / "m.mk"
    run(
        "fit",
        data,
        "-t",
        "label",
        "--drop",
        "y",
        "--solver",
        "blockwise",
        "--kernels",
        "laplacian",
        "-o",
        path,
    )
    used = load(path).C_
    assert used != 1
    assert json.loads(run("show", path, "--json"))["C"] == used
    assert f"C={used:g}" in run("show", path)


def test_show_summarises_what_it_leaves_out(data, tmp_path):
    model = tmp_path / "m.mk"
    run("fit", data, "-t", "label", "--drop", "y", "--solver", "lp-norm", "-o", model)
    assert "11 more" in run("show", model, "--top", "2")


@pytest.mark.parametrize("kind", get_args(GapKind))
def test_every_kind_of_gap_has_words(kind):
    model = SimpleNamespace(gap_kind_=kind, gap_=1e-4, objective_=1.0, converged_=True)
    said = describe_gap(model)
    assert said.startswith("none: " if kind == "none" else "1.0e-04 of the objective (")


def test_show_describes_a_gap_on_features(tmp_path):
    X = np.random.default_rng(0).standard_normal((60, 2))
    solver = Blockwise(certify=True)
    MKLRegressor("gaussian", solver=solver, random_state=0, C=1.0).fit(X, X[:, 0]).save(tmp_path / "m.mk")
    assert "of the objective (exact, for the random features)" in run("show", tmp_path / "m.mk")
    assert json.loads(run("show", tmp_path / "m.mk", "--json"))["gap_kind"] == "features"


def test_brackets_in_names_are_shown_as_they_are(data, tmp_path):
    X, y = np.random.default_rng(0).standard_normal((30, 3)), np.arange(30) % 2
    path = tmp_path / "m.mk"
    MKLClassifier([Linear([0, 1]), RBF(1.0)], C=1.0).fit(X, y).save(path)
    assert "linear[0,1]" in run("show", path)


def test_a_model_from_python_predicts_by_the_order_of_columns(tmp_path):
    X, y = np.random.default_rng(0).standard_normal((30, 2)), np.arange(30) % 2
    fitted = MKLClassifier([RBF(1.0)], C=1.0).fit(X, y)
    fitted.save(tmp_path / "m.mk")
    data = write(tmp_path / "x.csv", {"u": X[:, 0], "v": X[:, 1]})
    assert run("predict", tmp_path / "m.mk", data).split()[1:] == [str(v) for v in fitted.predict(X)]
    wide = write(tmp_path / "wide.csv", {"u": X[:, 0], "v": X[:, 1], "w": X[:, 1]})
    assert "has 3 columns, and the model was fitted on 2" in run("predict", tmp_path / "m.mk", wide, code=2)


def test_a_model_of_several_targets_from_python(tmp_path):
    X = np.random.default_rng(0).standard_normal((30, 2))
    MKLRegressor([RBF(1.0)], C=1.0).fit(X, X).save(tmp_path / "m.mk")
    data = write(tmp_path / "x.csv", {"u": X[:, 0], "v": X[:, 1]})
    assert run("predict", tmp_path / "m.mk", data).startswith("prediction_0,prediction_1\n")


def test_a_model_on_precomputed_kernels_is_for_python(tmp_path, data):
    K = np.eye(30)[:, :, None]
    MKLClassifier("precomputed", C=1.0).fit(K, np.arange(30) % 2).save(tmp_path / "m.mk")
    assert "needs precomputed kernels" in run("predict", tmp_path / "m.mk", data, code=2)


# -- errors --------------------------------------------------------------------------------------------


def test_an_existing_file_is_kept_without_force(model, data):
    before = model.read_bytes()
    assert "add --force" in run("fit", data, "-t", "y", "--drop", "label", "-o", model, code=2)
    assert model.read_bytes() == before
    assert "add --force" in run(
        "predict", model, data, "-o", write(data.parent / "o.csv", {"a": [1]}), code=2
    )


def test_the_table_is_never_overwritten(model, data):
    before = data.read_bytes()
    assert "among the files that rows are" in run("predict", model, data, "-o", data, "--force", code=2)
    assert "is the table to learn from" in run("fit", data, "-t", "y", "-o", data, "--force", code=2)
    assert data.read_bytes() == before


REFUSED = {
    "column 'label' holds text, .* --drop label": ["-t", "y", "--kernels", "gaussian"],
    "no column 'yy' .*--target.* did you mean 'y'": ["-t", "yy"],
    "no column 'nope' .*--columns": ["-t", "y", "--columns", "a,nope"],
    "no column 'nope' .*--drop": ["-t", "y", "--drop", "nope"],
    "exclude each other": ["-t", "y", "--drop", "a", "--columns", "b"],
    "y is the target": ["-t", "y", "--columns", "a,y"],
    "no column is left": ["-t", "y", "--drop", "a,b,c,count,label"],
    "--kernels is foo": ["-t", "y", "--columns", "a", "--kernels", "foo"],
    "--degree is for --kernels products": ["-t", "y", "--columns", "a", "--degree", "3"],
    "--p is for --solver .*lp-norm": ["-t", "y", "--columns", "a", "--p", "1.5", "--solver", "silp"],
    "--max-iter is for --solver .*lp-norm.*; greedy-alignment does": [
        *("-t", "y", "--columns", "a", "--max-iter", "5", "--solver", "greedy-alignment")
    ],
    "--max-iter is for --solver .*; auto does not have it": ["-t", "y", "--columns", "a", "--max-iter", "5"],
    "use a number in": ["-t", "y", "--columns", "a", "--p", "3"],
    "solver is 'foo'": ["-t", "y", "--columns", "a", "--solver", "foo"],
    "--loss is 'foo'; choose one of": ["-t", "y", "--columns", "a", "--loss", "foo"],
    "c is -1": ["-t", "y", "--columns", "a", "--C", "-1"],
    "--task is foo": ["-t", "y", "--columns", "a", "--task", "foo"],
    "use --task classify": ["-t", "label", "--columns", "a", "--task", "regress"],
    "use --task regress": ["-t", "y", "--columns", "a", "--task", "classify"],
    "--test-size is 2": ["-t", "y", "--columns", "a", "--test-size", "2"],
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_a_mistake_is_one_sentence(data, tmp_path, sentence):
    import re

    error = run("fit", data, *REFUSED[sentence], "-o", tmp_path / "m.mk", code=2)
    assert re.search(sentence, error.lower()), error
    assert "Traceback" not in error and "\n" not in error
    assert not (tmp_path / "m.mk").exists()


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ([1.0, None] * 10, "Column 'x' holds a missing or infinite value in row 1 of d.parquet"),
        ([1.0, float("nan")] * 10, "Column 'x' holds a missing or infinite value in row 1 of d.parquet"),
        ([1.0] * 19 + [float("inf")], "Column 'x' holds a missing or infinite value in row 19 of d.parquet"),
    ],
)
def test_gaps_are_refused_by_name(tmp_path, values, sentence):
    data = write(tmp_path / "d.parquet", {"x": values, "y": np.arange(20.0) / 3})
    assert sentence in run("fit", data, "-t", "y", "--kernels", "gaussian", "-o", tmp_path / "m.mk", code=2)
    if np.inf in values:  # of a target, what is missing is left out
        assert sentence in run("fit", data, "-t", "x", "-o", tmp_path / "m.mk", code=2)


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_rows_without_a_target_are_left_out_with_a_note(tmp_path, missing):
    x = np.arange(24.0)
    data = write(tmp_path / "d.parquet", {"x": x, "y": [*(x[:-3] / 3), *[missing] * 3]})
    words = ["fit", data, "-t", "y", "-o", tmp_path / "m.mk", "-C", "1"]
    result = typer_testing.CliRunner().invoke(cli.application(), [str(word) for word in words])
    assert "Note: 3 rows have no y, and cannot be learned from." in " ".join(result.stderr.split())
    assert "21 rows" in result.stderr
    data = write(tmp_path / "e.parquet", {"x": x, "y": pa.array([missing] * 24, pa.float64())})
    assert "Column 'y' is empty" in run("fit", data, "-t", "y", "-o", tmp_path / "n.mk", code=2)


def test_a_class_with_one_row_is_named(tmp_path):
    data = write(tmp_path / "d.csv", {"x": np.arange(10.0), "y": ["a"] * 9 + ["b"]})
    assert "Class b has a single row" in run("fit", data, "-t", "y", code=2)


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("gone.csv", None, "gone.csv does not exist"),
        ("d.xml", "x", "d.xml must end in .parquet"),
        ("d.xls", "x", "d.xls cannot be read as a workbook: "),
        ("d.npz", "x", "d.npz cannot be read as a NumPy archive: "),
        ("d.svm", "x", "d.svm cannot be read as svmlight, where a row is"),
        ("d.csv", "a,b\n1\n", "has 2 names in its first line and a row of 1 value, '1'"),
        ("d.parquet", "hello", "d.parquet cannot be read: "),
        ("d.csv", "a,a\n1,2\n", "two columns called 'a'"),
        ("d.csv", "a,b\n", "has no rows"),
    ],
)
def test_an_unreadable_table_is_one_sentence(tmp_path, name, text, sentence):
    if text is not None:
        (tmp_path / name).write_text(text)
    assert sentence in run("fit", tmp_path / name, "-t", "a", code=2)


def test_files_that_are_no_models_are_refused(data, model, tmp_path):
    assert "is not a model file" in run("show", data, code=2)
    assert "does not exist" in run("show", tmp_path / "gone.mk", code=2)
    assert "does not exist" in run("fit", data, "-t", "y", "-o", tmp_path / "no" / "m.mk", code=2)
    lacking = write(tmp_path / "lacking.csv", {"a": [1.0], "b": [2.0]})
    assert "no columns 'c', 'count' (needed by the model)" in run("predict", model, lacking, code=2)


@pytest.mark.parametrize("solver", ["lp-norm", "blockwise"])
def test_probabilities_are_there_whatever_the_loss(solver, data, tmp_path):
    options = ("--columns", "a", "-o", tmp_path / "m.mk", "--solver", solver)
    run("fit", data, "-t", "label", *options)
    assert "prediction,probability_other,probability_same" in run(
        "predict", tmp_path / "m.mk", data, "--proba"
    )


def test_probabilities_that_are_not_there_are_explained(data, tmp_path):
    X = np.arange(20.0).reshape(10, 2)
    uncalibrated = MKLClassifier([Linear()], C=1.0, calibrate=False).fit(X, X[:, 0] > 9)
    uncalibrated.save(tmp_path / "m.mk")
    assert "fit with calibrate=True" in run("predict", tmp_path / "m.mk", data, "--proba", code=2)
    run("fit", data, "-t", "y", "--columns", "a", "-o", tmp_path / "m.mk", "--force")
    assert "leave --proba out" in run("predict", tmp_path / "m.mk", data, "--proba", code=2)


def test_text_where_the_model_needs_numbers_is_named(model, data, tmp_path):
    text = write(tmp_path / "text.csv", columns() | {"b": ["x"] * 80})
    assert "Column 'b' holds text, not numbers; encode it as" in run("predict", model, text, code=2)
    X = np.arange(20.0).reshape(10, 2)
    MKLRegressor([Linear()], C=1.0).fit(X, X[:, 0]).save(tmp_path / "nameless.mk")
    said = run("predict", tmp_path / "nameless.mk", data, code=2)
    assert "Column 'label' holds text, not numbers; keep only the 2 columns" in said


def test_debug_shows_the_exception(tmp_path):
    arguments = ["show", str(tmp_path / "gone.mk"), "--debug"]
    result = typer_testing.CliRunner().invoke(cli.application(), arguments)
    assert isinstance(result.exception, FileNotFoundError)


def test_a_note_says_when_a_fit_stopped_early(data, tmp_path, monkeypatch):
    from manykernels.solvers import LpNorm

    class Hasty(LpNorm):
        def __init__(self, p=1.1, tol=0.0, max_iter=1):
            super().__init__(p, tol, max_iter)

    monkeypatch.setitem(SOLVERS, "hasty", Hasty)
    fitted = MKLRegressor([RBF(1.0), RBF(2.0)], solver="hasty", C=1.0)
    X = np.random.default_rng(0).standard_normal((30, 2))
    runner = typer_testing.CliRunner()
    with runner.isolation() as streams:
        fit_visibly(fitted, X, X[:, 0] * X[:, 1])
        text = streams[1].getvalue().decode()
    assert text.splitlines()[-1].startswith("Note: Hasty stopped after 1 iterations")


@pytest.mark.parametrize("spelling", ["LpNorm", "lpnorm", "lp-norm"])
def test_solvers_go_by_any_spelling_and_take_their_options(data, tmp_path, spelling):
    path = tmp_path / "m.mk"
    options = ("--columns", "a,b", "--solver", spelling, "--max-iter", 2, "--p", 1.1)
    run("fit", data, "-t", "y", *options, "-o", path)
    solver = load(path).solver_
    assert type(solver).__name__ == "LpNorm" and solver.max_iter == 2 and solver.p == 1.1


@pytest.mark.parametrize("ending", ["csv.gz", "csv.bz2", "csv"])
def test_predictions_are_compressed_as_the_name_says(model, data, tmp_path, ending):
    out = tmp_path / f"out.{ending}"
    run("predict", model, data, "-o", out)
    opened = {"csv.gz": gzip.open, "csv.bz2": bz2.open, "csv": open}[ending]
    with opened(out, "rt") as stream:
        assert stream.read() == run("predict", model, data)
    assert read(out).num_rows == 80


def test_a_table_that_is_compressed_inside_needs_no_ending(model, data, tmp_path):
    error = run("predict", model, data, "-o", tmp_path / "out.parquet.gz", code=2)
    assert "leave the ending .gz off" in error


def test_help_lists_every_solver():
    assert solver_names() == options.SOLVER_NAMES
    said = run("fit", "--help")
    for name in SOLVERS:
        assert name.split("_")[0] in said


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["fit", "--help"]])
def test_help_waits_for_nothing_heavy(arguments):
    code = (
        "import sys\nfrom manykernels.cli import main\ntry: main()\nfinally: print('loaded', *sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=60
    )
    loaded = done.stdout.split("loaded")[1].split()
    assert "typer" in loaded
    assert not {"rich", "pygments", "numpy", "scipy", "sklearn", "numba", "pyarrow", "pandas"} & set(loaded)


def test_version_and_help():
    assert run("--version") == f"manykernels {__version__}\n"
    assert "demo" in run("--help")
    for command in ("fit", "predict", "show", "demo"):
        assert "--debug" in run(command, "--help")


@pytest.mark.parametrize("module", ["manykernels", "manykernels.cli"])
def test_the_command_line_is_a_module_too(module):
    done = subprocess.run([sys.executable, "-m", module, "--version"], capture_output=True, text=True)
    assert done.stdout == f"manykernels {__version__}\n" and done.returncode == 0


def test_a_missing_extra_is_one_sentence(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "typer", None)
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert 'pip install "manykernels[cli]"' in str(stop.value.code)


def test_the_module_imports_without_the_extra():
    code = "import sys\nsys.modules['typer'] = None\nimport manykernels.cli\nmanykernels.cli.main()\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr.strip() == (
        'The command line needs typer, rich and pyarrow: pip install "manykernels[cli]"'
    )


def test_output_into_a_closed_pipe_ends_quietly(tmp_path):
    X = np.random.default_rng(0).standard_normal((20000, 1))
    MKLRegressor([Linear()], C=1.0).fit(X[:30], X[:30, 0]).save(tmp_path / "m.mk")
    data = write(tmp_path / "x.csv", {"u": X[:, 0]})
    code = "from manykernels.cli import main; main()"
    command = [sys.executable, "-c", code, "predict", str(tmp_path / "m.mk"), str(data)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(timeout=60) == 0


# -- tables of any columns -----------------------------------------------------------------------------


def any_table(n=90):
    """A table with text, a date, a flag, gaps, an identifier, a constant, and three rows of each subject."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal(n)
    colour = rng.choice(["red", "blue"], n)
    return {
        "x": [None if i % 9 == 0 else v for i, v in enumerate(x.tolist())],
        "colour": [None if i % 11 == 0 else c for i, c in enumerate(colour.tolist())],
        "day": [f"2024-0{1 + i % 9}-11" for i in range(n)],
        "paid": (x > 0).tolist(),
        "name": [f"row {i}" for i in range(n)],
        "same": ["one"] * n,
        "subject": [f"s{i // 3}" for i in range(n)],
        "y": (x + 2 * (colour == "red")).tolist(),
    }


@pytest.fixture
def any_data(tmp_path):
    return write(tmp_path / "any.csv", any_table())


FAST = ("--solver", "lp-norm", "-C", "1")


def test_any_table_is_fitted_shown_and_predicted(any_data, tmp_path):
    path = tmp_path / "m.mk"
    screen = screen_of("fit", any_data, "-t", "y", "--groups", "subject", "-o", path, *FAST)
    assert "90 rows, 6 columns" in screen
    words = "1 number, 1 category, 1 flag, 1 date; 2 with gaps; left out: name, same"
    assert words in " ".join(screen.split()) and words in " ".join(run("show", path).split())
    assert json.loads(run("show", path, "--json"))["columns"]["colour"] == "category"
    assert load(path).columns_.names_in == ("x", "colour", "day", "paid", "name", "same")
    table = any_table(12)
    new = {name: table[name] for name in ("paid", "day", "colour", "x")} | {"colour": ["green"] * 12}
    answers = list(csv.DictReader(io.StringIO(run("predict", path, write(tmp_path / "new.csv", new)))))
    assert len(answers) == 12 and all(np.isfinite(float(a["prediction"])) for a in answers)
    said = run("predict", path, write(tmp_path / "less.csv", {"x": [1.0]}), code=2)
    assert "no columns 'colour', 'day', 'paid' (needed by the model)" in said


def test_an_identifier_is_noted(any_data, tmp_path):
    result = typer_testing.CliRunner().invoke(
        cli.application(),
        ["fit", str(any_data), "-t", "y", "--drop", "subject", "-o", str(tmp_path / "m.mk"), *FAST],
    )
    assert result.exit_code == 0, result.output
    assert result.stderr.count("Note: Column 'name' is left out") == 1


def test_groups_are_held_out_together():
    groups = np.repeat(np.arange(20), 5)
    train, test = split(100, None, 0.25, 0, groups)
    assert len(test) == 25 and not set(groups[train]) & set(groups[test])
    with pytest.raises(ValueError, match="fewer than three groups"):
        split(4, None, 0.25, 0, np.array([0, 0, 1, 1]))


def test_training_rows_are_in_the_order_drawn_or_in_their_own():
    labels = np.repeat(["a", "b"], 50)
    train, test = split(100, labels, 0.25, 0)
    assert sorted([*train, *test]) == list(range(100)) and (np.diff(train) < 0).any()
    assert (np.diff(split(100, labels, 0, 0)[0]) < 0).any()
    train, test = split(100, labels, 0.25, 0, in_order=True)
    assert train.tolist() == list(range(75)) and test.tolist() == list(range(75, 100))
    assert split(100, labels, 0, 0, in_order=True)[0].tolist() == list(range(100))


@pytest.mark.slow
def test_rows_in_the_order_of_a_place_are_learned_for_rows_drawn_at_random(tmp_path):
    # In the file's order the rows that judge bandwidths lie where no other row is, and places are ignored: R² .43.
    rng = np.random.default_rng(0)
    place, other = np.arange(3000) / 3000, rng.standard_normal(3000)
    y = rng.standard_normal(200)[(200 * place).astype(int)] + other + 0.1 * rng.standard_normal(3000)
    write(tmp_path / "t.csv", {"place": place, "other": other, "y": y})
    base = ("fit", tmp_path / "t.csv", "-t", "y", "--solver", "blockwise", "-o", tmp_path / "m.mk")
    assert json.loads(run(*base, "--json"))["metadata"]["score"]["value"] > 0.85


@pytest.mark.parametrize("kept, noted", [("in order", True), ("shuffled", False), ("asked for", False)])
def test_rows_in_the_order_of_a_date_are_noticed(tmp_path, kept, noted):
    rng = np.random.default_rng(0)
    days = np.datetime64("2020-01-01") + np.arange(60)
    days = rng.permutation(days) if kept == "shuffled" else days
    write(tmp_path / "t.csv", {"day": days.astype(str), "y": rng.standard_normal(60)})
    words = ["fit", str(tmp_path / "t.csv"), "-t", "y", "-o", str(tmp_path / "m.mk")]
    words += ["--in-order"] if kept == "asked for" else []
    result = typer_testing.CliRunner().invoke(cli.application(), words)
    assert result.exit_code == 0
    assert ("The rows are in the order of day" in " ".join(result.stderr.split())) == noted


def test_rows_in_order_and_groups_or_batches_do_not_go_together(any_data, tmp_path):
    base = ("fit", any_data, "-t", "y", "-o", tmp_path / "m.mk", "--in-order", *FAST)
    assert "leave one of them out" in run(*base, "--groups", "subject", code=2)
    assert "read batch by batch" in run(*base, "--checkpoint", tmp_path / "c.ckpt", code=2)
    assert "--test-size is 0.99" in run(*base, "--test-size", "0.99", code=2)


def test_groups_and_memory_are_checked(any_data, tmp_path):
    base = ("fit", any_data, "-t", "y", "-o", tmp_path / "m.mk", *FAST)
    assert "no column 'who' (--groups)" in run(*base, "--groups", "who", code=2)
    assert "y is the target; name another" in run(*base, "--groups", "y", code=2)
    assert "leave it out of --columns" in run(*base, "--groups", "subject", "--columns", "x,subject", code=2)
    assert "memory" in run(*base, "--memory", "much", code=2)
    assert "--C is much" in run(*base, "-C", "much", code=2)
    run(*base, "--memory", "2GiB")
    assert load(tmp_path / "m.mk").memory == "2GiB"


def test_the_default_learns_kernels_and_C(any_data, tmp_path):
    run("fit", any_data, "-t", "y", "--drop", "subject,name", "-o", tmp_path / "m.mk")
    model = load(tmp_path / "m.mk")
    assert model.kernels == "auto" and model.solver == "auto" and model.C == "auto"
    assert read_metadata(tmp_path / "m.mk")["score"]["value"] > 0.5


def test_a_model_of_several_sources_is_shown_and_finds_its_columns_by_name(tmp_path):
    rng = np.random.default_rng(0)
    views = {"a": rng.normal(size=(30, 2)), "b": rng.normal(size=(30, 3))}
    MKLRegressor({"a": Linear(), "b": "auto"}, C=1.0).fit(views, views["a"][:, 0]).save(tmp_path / "m.mk")
    assert "5 numbers" in run("show", tmp_path / "m.mk")
    assert '"a: x0": "number"' in run("show", tmp_path / "m.mk", "--json")
    (tmp_path / "rows.csv").write_text("x,y\n1,2\n")
    assert "column" in run("predict", tmp_path / "m.mk", tmp_path / "rows.csv", code=2)


@pytest.mark.parametrize(("target", "noted"), [("count", True), ("few", False), ("share", False)])
def test_whole_numbers_that_may_be_classes_are_noted(tmp_path, target, noted):
    rng = np.random.default_rng(0)
    columns = {"a": rng.normal(size=80).round(3), "count": np.arange(80) % 40, "few": np.arange(80) % 4}
    columns["share"] = rng.uniform(size=80).round(3)
    rows = zip(*columns.values(), strict=True)
    (tmp_path / "t.csv").write_text(
        "\n".join([",".join(columns), *(",".join(map(str, row)) for row in rows)]) + "\n"
    )
    words = ["fit", tmp_path / "t.csv", "--target", target, "--columns", "a", "-o", tmp_path / "m.mk"]
    result = typer_testing.CliRunner().invoke(cli.application(), [str(word) for word in words])
    assert result.exit_code == 0
    assert ("--task classify takes them for classes" in " ".join(result.stderr.split())) == noted
