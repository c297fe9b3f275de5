"""`explain` and `report` say what a model file says in Python; `--view` makes sources of columns."""

import json

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("jinja2")
testing = pytest.importorskip("typer.testing")

from pyarrow import csv  # noqa: E402

from manykernels import cli, load  # noqa: E402
from manykernels.cli.models import groups_of_columns  # noqa: E402
from manykernels.findings import components, shapley  # noqa: E402


def run(*words, code=0):
    result = testing.CliRunner().invoke(cli.application(), [str(w) for w in words])
    assert result.exit_code == code, result.output
    return result.stdout if code == 0 else " ".join(result.stderr.split())


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a table, and a model of it."""
    folder = tmp_path_factory.mktemp("explain")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 3))
    table = {"rna_1": X[:, 0], "rna_2": X[:, 1], "age": X[:, 2], "y": X[:, 0] ** 2 + X[:, 2]}
    csv.write_csv(pa.table(table), folder / "d.csv")
    run("fit", folder / "d.csv", "-t", "y", "-o", folder / "m.mk", "-C", "10", "--test-size", "0")
    return folder, X


def test_components_are_those_of_the_findings(place):
    folder, X = place
    told = json.loads(run("explain", folder / "m.mk", folder / "d.csv", "--json"))
    frame = {"rna_1": X[:, 0], "rna_2": X[:, 1], "age": X[:, 2]}
    parts = components(load(folder / "m.mk"), pa.table(frame))
    assert [r["name"] for r in told["components"]] == [r["name"] for r in parts.records()]
    assert [r["share"] for r in told["components"]] == pytest.approx([r["share"] for r in parts.records()])
    assert {r["name"] for r in told["columns"]} == {"rna_1", "rna_2", "age"}
    assert "more" in run("explain", folder / "m.mk", folder / "d.csv", "--top", 1)
    # What rounds to nothing is counted, not listed, unless it is asked for.
    count = len(told["components"])
    assert min(r["share"] for r in told["components"]) < 5e-4
    assert " 0.0 %  0.0\n" not in run("explain", folder / "m.mk", folder / "d.csv")
    assert " more " not in run("explain", folder / "m.mk", folder / "d.csv", "--top", count)


def test_the_parts_of_every_row_are_written(place):
    folder, X = place
    out = folder / "parts.csv"
    run("explain", folder / "m.mk", folder / "d.csv", "-o", out)
    written = csv.read_csv(out).to_pydict()
    model, rows = (
        load(folder / "m.mk"),
        pa.table({n: X[:, j] for j, n in enumerate(("rna_1", "rna_2", "age"))}),
    )
    assert written["prediction"] == pytest.approx(model.predict(rows))
    found = shapley(model, rows, rows)
    for j, name in enumerate(found.names):
        assert written[name] == pytest.approx(found.values[:, j])
    assert "exists; add --force" in run("explain", folder / "m.mk", folder / "d.csv", "-o", out, code=2)
    run("explain", folder / "m.mk", folder / "d.csv", "-o", out, "--force", "--by", "kernel")
    parts = csv.read_csv(out).to_pydict()
    total = np.sum([v for name, v in parts.items() if name != "prediction"], axis=0) + model.intercept_[0]
    assert total == pytest.approx(parts["prediction"])


def test_a_report_is_written_for_the_target_of_the_model(place):
    folder, _ = place
    run("report", folder / "m.mk", folder / "d.csv", "-o", folder / "r.html")
    page = (folder / "r.html").read_text()
    assert "<title>y, from d.csv</title>" in page and "each row left out" in page
    assert "exists; add --force" in run(
        "report", folder / "m.mk", folder / "d.csv", "-o", folder / "r.html", code=2
    )
    assert "must end in .html" in run(
        "report", folder / "m.mk", folder / "d.csv", "-o", folder / "r.txt", code=2
    )
    assert not (folder / "r.txt").exists()


def test_views_are_columns_by_pattern(place):
    folder, X = place
    words = ["--view", "rna=rna_*", "--view", "clinical=age", "-C", "10", "-o", folder / "v.mk"]
    told = run("fit", folder / "d.csv", "-t", "y", *words)
    assert "[rna]" in told and "[clinical]" in told
    model = load(folder / "v.mk")
    said = run("predict", folder / "v.mk", folder / "d.csv").splitlines()[1:]
    views = {"rna": pa.table({"rna_1": X[:, 0], "rna_2": X[:, 1]}), "clinical": pa.table({"age": X[:, 2]})}
    assert [float(v) for v in said] == pytest.approx(model.predict(views))
    told = run("explain", folder / "v.mk", folder / "d.csv", "--by", "view", "-o", folder / "pv.csv")
    assert "View" in told and told.index("rna  ") < told.index("clinical  ")
    assert csv.read_csv(folder / "pv.csv").column_names == ["prediction", "rna", "clinical"]


def test_views_are_worth_the_score_that_is_lost_without_them(place):
    folder, X = place
    words = ["--view", "rna=rna_*", "--view", "clinical=age", "-C", "10", "-o", folder / "w.mk"]
    run("fit", folder / "d.csv", "-t", "y", *words)
    model, rows = load(folder / "w.mk"), csv.read_csv(folder / "d.csv")
    views = {"rna": pa.table({"rna_1": X[:, 0], "rna_2": X[:, 1]}), "clinical": pa.table({"age": X[:, 2]})}
    expected = model.view_worth(views, rows["y"].to_numpy()).set_index("view")
    found = json.loads(run("explain", folder / "w.mk", folder / "d.csv", "--json"))["views"]
    for record in found:
        for key in ("worth", "error", "score", "without"):
            assert record[key] == pytest.approx(expected.loc[record["view"], key], abs=1e-9)
    assert "Worth" in run("explain", folder / "w.mk", folder / "d.csv")
    csv.write_csv(rows.drop_columns("y"), folder / "no_y.csv")
    assert "Worth" not in run("explain", folder / "w.mk", folder / "no_y.csv")


def test_patterns_of_columns():
    assert groups_of_columns(["a=x*", "b=u,v*"]) == {"a": "x*", "b": ["u", "v*"]}
    with pytest.raises(
        ValueError, match=r"--view is 'rna'; write a name and a pattern of columns, as in rna=rna_\*"
    ):
        groups_of_columns(["rna"])
    with pytest.raises(ValueError, match="--view has 'a' twice"):
        groups_of_columns(["a=x", "a=y"])


def test_what_makes_no_sense_is_a_sentence(place):
    folder, _ = place
    words = ("explain", folder / "m.mk", folder / "d.csv")
    assert "--by is row; use column, kernel or view." in run(*words, "--by", "row", code=2)
    assert "--view is for --kernels auto" in run(
        "fit",
        folder / "d.csv",
        "-t",
        "y",
        "--kernels",
        "linear",
        "--view",
        "a=rna_*",
        "-o",
        folder / "x.mk",
        code=2,
    )


def test_products_take_text_and_dates_and_are_explained(tmp_path):
    rng = np.random.default_rng(0)
    a, b = rng.normal(5, 2, (2, 60))
    words = np.array(["low", "high"])[(b > 5).astype(int)]
    csv.write_csv(pa.table({"a": a, "b": b, "word": words, "y": a * b}), tmp_path / "d.csv")
    model = tmp_path / "m.mk"
    run("fit", tmp_path / "d.csv", "-t", "y", "--kernels", "products", "-o", model)
    assert load(model).columns_.kinds == ("number", "number", "category")
    told = json.loads(run("explain", model, tmp_path / "d.csv", "--json"))
    assert [c["name"] for c in told["components"]] == ["b", "a", "a × b"]
    run("predict", model, tmp_path / "d.csv", "-o", tmp_path / "p.csv")


def test_products_keep_their_units_where_they_are_told_to(tmp_path):
    rng = np.random.default_rng(0)
    a, b = rng.normal(5, 2, (2, 60))
    csv.write_csv(pa.table({"a": a, "b": b, "y": a * b}), tmp_path / "d.csv")
    run(
        "fit",
        tmp_path / "d.csv",
        "-t",
        "y",
        "--kernels",
        "products",
        "--no-standardize",
        "-o",
        tmp_path / "m.mk",
    )
    assert getattr(load(tmp_path / "m.mk"), "columns_", None) is None
