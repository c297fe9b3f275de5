"""The command line on tables that are read batch by batch."""

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
typer_testing = pytest.importorskip("typer.testing")
from pyarrow import csv, parquet  # noqa: E402
from tests.streaming_ridge import OrderedRidge  # noqa: E402

from manykernels import cli, load, registry  # noqa: E402
from manykernels.cli.batchwise import _moments  # noqa: E402
from manykernels.cli.beside import units_of  # noqa: E402
from manykernels.cli.tables import open_table_of  # noqa: E402
from manykernels.persistence import read_metadata  # noqa: E402
from manykernels.persistence.classes import CLASSES  # noqa: E402
from manykernels.streaming import open_source, predict_batches  # noqa: E402

N = 900
rng = np.random.default_rng(0)
X = rng.normal(size=(N, 2))
y = X @ [2.0, -1.0] + 5
TABLE = pa.table({"a": X[:, 0], "b": 100 + 7 * X[:, 1], "y": y, "label": np.where(y > 5, "high", "low")})


class Eager(OrderedRidge):
    """With defaults that learn in a few hundred rows."""

    def __init__(self, epochs=10, batch_size=20, step=0.5, validation_fraction=None, random_state=None):
        super().__init__(epochs, batch_size, step, validation_fraction, random_state)


@pytest.fixture(autouse=True)
def known_solver(monkeypatch):
    monkeypatch.setitem(registry.SOLVERS, "eager", Eager)
    monkeypatch.setitem(CLASSES["object"], "solvers.Eager", f"{Eager.__module__}:Eager")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "rows").mkdir()
    for i in range(3):
        parquet.write_table(TABLE.slice(300 * i, 300), tmp_path / "rows" / f"{i}.parquet")
    return tmp_path / "rows"


def run(*args, code=0):
    result = typer_testing.CliRunner().invoke(cli.application(), [str(a) for a in args])
    assert result.exit_code == code, result.output
    return result.stdout if code == 0 else " ".join(result.stderr.split())


def fit(data, path, *options):
    """Fit, and return the plan and the result, on one line."""
    options = ("--kernels", "products", "--degree", "1", "--solver", "eager", "-C", "1", *options)
    result = typer_testing.CliRunner().invoke(
        cli.application(), ["fit", *map(str, (data, "-o", path, *options))]
    )
    assert result.exit_code == 0, result.output
    return " ".join((result.stderr + result.stdout).split())


def test_a_folder_is_fitted_scored_and_predicted_batch_by_batch(folder, tmp_path):
    said = fit(folder, tmp_path / "m.mk", "-t", "y", "--drop", "label")
    assert "2 columns, target y (regression)" in said and "to learn from, read batch by batch" in said
    facts = read_metadata(tmp_path / "m.mk")
    assert facts["score"]["name"] == "R²" and facts["score"]["value"] > 0.98
    assert facts["n_train"] + facts["score"]["n_rows"] == N
    assert 0.2 < facts["score"]["n_rows"] / N < 0.3
    assert "Wrote 900 predictions" in run(
        "predict", tmp_path / "m.mk", folder, "-o", tmp_path / "out.parquet"
    )
    out = parquet.read_table(tmp_path / "out.parquet")["prediction"].to_numpy()
    assert np.corrcoef(out, y)[0, 1] > 0.99


def test_a_column_without_a_name_is_noted_once(folder, tmp_path):
    pd = pytest.importorskip("pandas")
    (tmp_path / "csv").mkdir()
    for part in sorted(folder.iterdir()):
        pd.read_parquet(part).to_csv(tmp_path / "csv" / f"{part.stem}.csv")
    options = [
        "--kernels",
        "products",
        "--degree",
        "1",
        "--solver",
        "eager",
        "-C",
        "1",
        "-t",
        "y",
        "--drop",
        "label",
        "-o",
    ]
    result = typer_testing.CliRunner().invoke(
        cli.application(), ["fit", str(tmp_path / "csv"), *options, str(tmp_path / "m.mk")]
    )
    assert result.exit_code == 0, result.output
    assert result.stderr.count("A column without a name is left out") == 1
    assert list(load(tmp_path / "m.mk").feature_names_in_) == ["a", "b"]


def test_a_pattern_stands_for_the_files_that_match(folder, tmp_path):
    said = fit(folder / "[01].parquet", tmp_path / "m.mk", "-t", "y", "--drop", "label", "--test-size", "0")
    assert "600 to learn from" in said
    assert "Wrote 900 predictions" in run(
        "predict", tmp_path / "m.mk", folder / "*.parquet", "-o", tmp_path / "out.csv"
    )
    assert "among the files that rows" in run(
        "predict", tmp_path / "m.mk", folder / "*.parquet", "-o", folder / "out.parquet", code=2
    )
    assert "among the files that rows" in run(
        "predict", tmp_path / "m.mk", folder, "-o", folder / "out.parquet", code=2
    )


def test_a_file_that_lacks_a_column_is_named(folder, tmp_path):
    fit(folder, tmp_path / "m.mk", "-t", "y", "--drop", "label")
    parquet.write_table(TABLE.drop_columns(["b"]), folder / "1.parquet")
    assert "1.parquet has no column 'b'" in run("predict", tmp_path / "m.mk", folder, code=2)


def test_labels_are_classes(folder, tmp_path):
    assert "target label (classes)" in fit(folder, tmp_path / "m.mk", "-t", "label", "--drop", "y")
    score = read_metadata(tmp_path / "m.mk")["score"]
    assert score["name"] == "accuracy" and score["value"] > 0.9 > score["constant"]
    assert list(load(tmp_path / "m.mk").classes_) == ["high", "low"]


def test_whole_numbers_may_turn_into_fractions_further_down(tmp_path):
    (tmp_path / "rows").mkdir()
    lines = (
        f"{1:.500f},1\n{2:.500f},2\n" * 1500 + "1,1.5\n"
    )  # more than the part from which types are guessed
    (tmp_path / "rows" / "0.csv").write_text("a,y\n" + lines)
    said = fit(tmp_path / "rows", tmp_path / "m.mk", "-t", "y")
    assert "target y (regression)" in said


def test_a_large_file_gives_the_same_predictions_in_chunks(tmp_path):
    csv.write_csv(TABLE, tmp_path / "rows.csv")
    fit(tmp_path / "rows.csv", tmp_path / "m.mk", "-t", "y", "--drop", "label")
    model = load(tmp_path / "m.mk")
    units = units_of(read_metadata(tmp_path / "m.mk"), model.n_features_in_, "m.mk")
    (one,) = predict_batches(model, open_table_of(model, units, tmp_path / "rows.csv"))
    chunks = open_table_of(model, units, tmp_path / "rows.csv", large=0, chunk_rows=70)
    many = list(predict_batches(model, chunks))
    assert len(many) == -(-N // 70)
    # A matrix product of another number of rows may be summed in another order.
    np.testing.assert_allclose(np.concatenate(many), one, rtol=1e-12)


@pytest.mark.parametrize("solver", [(), ("--solver", "lp-norm")], ids=["default", "lp-norm"])
def test_a_fit_that_ends_leaves_no_checkpoint(folder, tmp_path, solver):
    options = ("-t", "y", *solver, "--drop", "label", "--checkpoint", tmp_path / "c")
    fit(folder, tmp_path / "m.mk", *options)
    assert (tmp_path / "m.mk").exists() and not (tmp_path / "c").exists()


def test_bad_options_are_refused_in_one_sentence(folder, tmp_path):
    base = ("fit", folder, "-o", tmp_path / "m.mk", "--solver", "eager", "--kernels", "products", "-C", "1")
    assert "There is no column 'z'" in run(*base, "-t", "z", code=2)
    said = run(*base, "-t", "y", code=2)
    assert "Column 'label' holds text" in said and "leave it out with --drop label" in said
    assert "no column 'nope' (--columns)" in run(*base, "-t", "y", "--columns", "a,nope", code=2)
    assert "y is the target; leave it out" in run(*base, "-t", "y", "--columns", "a,y", code=2)
    assert "use --task regress" in run(*base, "-t", "y", "--columns", "a", "--task", "classify", code=2)
    assert "use --task classify" in run(*base, "-t", "label", "--columns", "a", "--task", "regress", code=2)
    assert "--test-size is 2" in run(*base, "-t", "y", "--drop", "label", "--test-size", "2", code=2)
    assert "--task is guess" in run(*base, "-t", "y", "--drop", "label", "--task", "guess", code=2)


def test_moments_are_those_of_all_rows(folder):
    mean, scale = _moments(open_source(folder, columns=["a", "b"]).bind("y"))
    Z = np.column_stack([TABLE["a"], TABLE["b"]])
    np.testing.assert_allclose(mean, Z.mean(axis=0), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(scale, Z.std(axis=0), rtol=1e-12)


def test_any_table_is_fitted_and_predicted_batch_by_batch(tmp_path):
    kinds = np.where(X[:, 0] > 0, "plus", "minus")
    table = TABLE.drop_columns(["label"]).append_column("kind", pa.array([*kinds[:-1], None]))
    (tmp_path / "rows").mkdir()
    for i in range(3):
        csv.write_csv(table.slice(300 * i, 300), tmp_path / "rows" / f"{i}.csv")
    options = ("-t", "y", "--solver", "triply-stochastic", "-C", "1", "-o", tmp_path / "m.mk")
    said = run("fit", tmp_path / "rows", *options)
    assert "2 numbers, 1 category; 1 with gaps" in " ".join(said.split())
    assert read_metadata(tmp_path / "m.mk")["score"]["value"] > 0.3
    out = tmp_path / "out.parquet"
    assert "Wrote 900 predictions" in run("predict", tmp_path / "m.mk", tmp_path / "rows", "-o", out)
    assert np.corrcoef(parquet.read_table(out)["prediction"].to_numpy(), y)[0, 1] > 0.5
    said = run("fit", tmp_path / "rows", *options, "--force", "--groups", "kind", code=2)
    assert "--groups is for a table that is read as a whole" in said
