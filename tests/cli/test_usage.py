"""Arguments and options that are wrong: one sentence each, the code 2, and no box of usage."""

import pytest

pytest.importorskip("pyarrow")
testing = pytest.importorskip("typer.testing")

from manykernels import cli  # noqa: E402

SENTENCES = {
    "fit t.csv -t y --seed -1": "--seed is -1; use a whole number from 0 to 4294967295.",
    "fit t.csv -t y --seed 1e3": "--seed is 1e3; use a whole number from 0 to 4294967295.",
    "fit t.csv -t y --max-iter x": "--max-iter is x; use a whole number of 1 or more.",
    "fit t.csv -t y --test-size half": "--test-size is half; use a number.",
    "fit t.csv -t": "--target COLUMN lacks its value: the column to predict.",
    "fit t.csv -t y --quiet=3": "--quiet is given or left out; it takes no value.",
    "fit t.csv": "--target COLUMN is missing: the column to predict.",
    "predict m.mk": "DATA is missing",
    "fit t.csv -t y --tets-size .2": "There is no option --tets-size; did you mean --test-size?",
    "fit t.csv -t y --zzz": "There is no option --zzz; manykernels fit --help lists all.",
    "fitt t.csv": "There is no command fitt; did you mean fit?",
    "frobnicate": "There is no command frobnicate; manykernels --help lists all.",
    "--versio": "There is no option --versio; did you mean --version?",
    "show a.mk b.mk": "manykernels show takes MODEL only, and no b.mk besides; put quotes around patterns",
    "demo now": "manykernels demo takes options only, and no now besides.",
    "compare t.csv -t y --folds 1": "--folds is 1; use a whole number of 2 or more.",
}


@pytest.mark.parametrize("line", SENTENCES)
def test_wrong_arguments_are_told_in_one_sentence(line):
    result = testing.CliRunner().invoke(cli.application(), line.split(), prog_name="manykernels")
    assert result.exit_code == 2 and not result.stdout
    assert result.stderr.startswith(SENTENCES[line]) and result.stderr.count("\n") == 1


def test_no_argument_at_all_is_help():
    assert (
        "Usage: manykernels"
        in testing.CliRunner().invoke(cli.application(), [], prog_name="manykernels").output
    )
