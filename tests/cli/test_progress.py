"""A fit says what it is going to do before it starts, and how far it is; nothing of that gets into the results."""

import io
import json
import logging
import math
import os
import re
import resource
import subprocess
import sys

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
testing = pytest.importorskip("typer.testing")

from rich.console import Console  # noqa: E402

from manykernels import MKLRegressor, cli  # noqa: E402
from manykernels._util.pace import duration, seconds_for  # noqa: E402
from manykernels.cli import progress, screens  # noqa: E402
from manykernels.estimators.forecast import Forecast, in_words  # noqa: E402
from manykernels.families import Gaussians, Laplacians, Union  # noqa: E402
from manykernels.families.view import View  # noqa: E402
from manykernels.solvers.log import Stage, logger  # noqa: E402


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    rng = np.random.default_rng(0)
    x, day = rng.standard_normal(60), np.datetime64("2020-01-01") + rng.integers(0, 900, 60)
    lines = []
    for i, (v, d) in enumerate(zip(x, day, strict=True)):
        gap, colour = i % 9 == 0, "red" if v > 0 else "blue"
        cells = [f"{i}a", "" if gap else f"{v:.3f}", colour, str(d), f"{2 * v:.3f}"]
        lines.append(";".join(cells).replace(".", ","))
    path = tmp_path_factory.mktemp("plan") / "d.csv"
    path.write_text("id;x;colour;day;y\n" + "\n".join(lines) + "\n")
    return path


def fit(data, *words):
    path = data.parent / "m.mk"
    result = testing.CliRunner().invoke(
        cli.application(), ["fit", str(data), "-t", "y", "-f", "-o", str(path), *words]
    )
    assert result.exit_code == 0, result.output
    return result


def test_the_plan_says_what_each_column_becomes_and_what_the_fit_may_take(data):
    told = fit(data).stderr
    facts = dict(re.findall(r"^(\w[\w ]*?)  +(.*)$", told, re.MULTILINE))
    assert facts["Table"] == "d.csv: 60 rows, 4 columns, target y (regression)"
    assert facts["Rows"] == "45 to learn from, 15 to score"
    assert facts["Numbers"] == "x (gaps)" and facts["Categories"] == "colour (2 levels)"
    assert facts["Dates"] == "day" and facts["Left out"] == "id"
    assert facts["Method"] == "LeaveOneOut, squared loss"
    assert re.fullmatch(r"about .+, about 0\.\d GiB of memory", facts["Expected"])


def test_the_plan_is_no_part_of_the_results(data):
    result = fit(data, "--json")
    record = json.loads(result.stdout)
    assert record["metadata"]["target"] == "y" and record["metadata"]["file"].endswith("m.mk")
    assert "Expected" in result.stderr


def test_quiet_prints_nothing_but_the_result(data):
    result = fit(data, "--quiet")
    assert result.stderr == "" and "Held-out score" in result.stdout and "Wrote" not in result.stdout


def test_no_line_in_a_file_ends_with_blanks(data):
    result = fit(data)
    assert all(line == line.rstrip() for line in (result.stdout + result.stderr).splitlines())


def test_a_sentence_breaks_between_words_on_a_terminal_and_not_at_all_in_a_log():
    path = "/a/long/path/that/is/not/broken/even/where/it/is/longer/than/a/line"
    said = {}
    for terminal in (True, False):
        stream = io.StringIO()
        console = Console(file=stream, width=40, force_terminal=terminal, color_system=None)
        screens._print_line(console, f"A sentence that is longer than forty letters names {path} once.")
        said[terminal] = stream.getvalue().splitlines()
    assert said[True] == ["A sentence that is longer than forty", "letters names", path, "once."]
    assert len(said[False]) == 1


def watched(every, *stages):
    """Return what a log has after stages."""
    stream = io.StringIO()
    console = Console(file=stream, width=80)
    watcher = progress.Watcher(console, progress.Lines(console, every), {})
    for stage in stages:
        watcher.emit(logging.LogRecord("manykernels", logging.DEBUG, "", 0, "%s", (stage,), None))
    return stream.getvalue()


def test_a_log_has_plain_lines_with_the_share_done_and_the_error_of_rows_left_out():
    lines = watched(0.0, Stage("bandwidths", 0.25, 0.5), Stage("the machine", 0.75)).splitlines()
    assert lines[0].startswith("Learning bandwidths, 25 % done, left-out error 0.5000, 0 s so far")
    assert lines[1].startswith("Learning the machine, 75 % done, 0 s so far")
    assert watched(10.0, Stage("bandwidths", 0.25)) == ""


def test_a_fit_reports_shares_that_grow_to_the_machine():
    seen = []

    class Listener(logging.Handler):
        def emit(self, record):
            seen.append(record.args[0] if record.args else None)

    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    listener, level = Listener(), logger.level
    logger.addHandler(listener)
    logger.setLevel(logging.DEBUG)
    try:
        MKLRegressor().fit(X, X[:, 0])
    finally:
        logger.removeHandler(listener)
        logger.setLevel(level)
    forecast, *rest = (step for step in seen if isinstance(step, Forecast | Stage))
    assert isinstance(forecast, Forecast) and forecast.n_rows == 60 and forecast.seconds > 0
    done = [stage.done for stage in rest]
    assert done == sorted(done) and done[0] >= 0.0 and done[-1] < 1.0
    assert list(dict.fromkeys(stage.doing for stage in rest)) == [
        "bandwidths", "weights", "rows left out", "the machine",
    ]  # fmt: skip
    assert any(not math.isnan(stage.left_out) for stage in rest)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.2, "a second"),
        (3.4, "3 s"),
        (22, "20 s"),
        (58, "a minute"),
        (190, "3 minutes"),
        (1300, "20 minutes"),
        (3500, "an hour"),
        (9500, "3 hours"),
    ],
)
def test_times_have_no_more_digits_than_are_known(seconds, words):
    assert duration(seconds) == words


def test_more_work_takes_longer():
    assert seconds_for(100.0) > seconds_for(1.0) > 0


def test_the_plan_names_the_kernels_of_views():
    parts = [View("rna", Gaussians(ard=True), 0, 3, 4), View("age", Laplacians(), 5, 6, 7)]
    assert in_words(Union(parts)) == "Gaussian and Laplacian with a bandwidth per column, in every view"


@pytest.mark.slow  # a time, which other work on the machine can double; what help loads is tested elsewhere
def test_help_takes_a_third_of_a_second_at_most():
    def seconds():
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-m", "manykernels", "--help"]
        subprocess.run(
            command, stdout=subprocess.DEVNULL, check=True, env=os.environ | {"COVERAGE_PROCESS_START": ""}
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert any(seconds() <= 0.3 for _ in range(5))  # other work on the machine may slow one of them down
