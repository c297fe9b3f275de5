"""How commands end when their surroundings fail: nobody reads, nothing can be written, Ctrl-C."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pyarrow")
testing = pytest.importorskip("typer.testing")

from manykernels import MKLRegressor, cli  # noqa: E402
from manykernels.cli.commands import interrupt  # noqa: E402
from manykernels.estimators import AlignedKernel  # noqa: E402
from manykernels.kernels import RBF, Linear  # noqa: E402
from manykernels.persistence import save  # noqa: E402

FIT = ("--kernels", "linear", "--solver", "uniform", "-C", "1")


@pytest.fixture
def data(tmp_path):
    a, b = np.random.default_rng(0).standard_normal((2, 60))
    rows = (f"{u:.4f},{v:.4f},{'up' if u > 0 else 'down'}\n" for u, v in zip(a, b, strict=True))
    (tmp_path / "d.csv").write_text("a,b,y\n" + "".join(rows))
    return tmp_path / "d.csv"


def refused(*words):
    result = testing.CliRunner().invoke(cli.application(), [str(w) for w in words])
    assert result.exit_code == 2, result.output
    return " ".join(result.stderr.split())


def shell(line, folder):
    """Run a line of bash, in which $M is the command line; return its exit code and the error stream."""
    environment = os.environ | {"M": f"{sys.executable} -m manykernels", "OMP_NUM_THREADS": "1"}
    command = ["bash", "-c", f"set -o pipefail; {line}"]
    done = subprocess.run(
        command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True, timeout=100, check=False
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    "reader",
    [
        "| true",
        ">&-",
        *(pytest.param(r, marks=pytest.mark.slow) for r in (">&- 2>&-", "> /dev/full", "2>&1 | true")),
    ],
)
def test_a_model_is_written_though_nobody_reads(data, reader):
    code, told = shell(f"$M fit d.csv -t y --quiet {' '.join(FIT)} -o m.mk {reader}", data.parent)
    assert (code, told) == (0, "")
    assert (data.parent / "m.mk").exists()


def test_what_is_for_the_screen_says_that_it_is_closed(data):
    testing.CliRunner().invoke(
        cli.application(), ["fit", str(data), "-t", "y", *FIT, "-o", str(data.parent / "m.mk")]
    )
    lines = {
        "$M predict m.mk d.csv >&-": "The standard output is closed; name a file with -o.",
        "$M predict m.mk d.csv > /dev/full": "The standard output cannot be written (No space left on device).",
    }
    for line, sentence in lines.items():
        assert shell(line, data.parent) == (2, sentence + "\n")


def test_an_interrupt_leaves_no_traceback_at_any_moment(data):
    # From when the first of our lines has run; before that, the interpreter itself is starting.
    code = "import sys; sys.stdout.write('.'); sys.stdout.flush(); from manykernels.cli import main; main()"
    for seconds in (0.1, 0.6, 1.5):
        words = [
            sys.executable,
            "-c",
            code,
            "fit",
            str(data),
            "-t",
            "y",
            "-o",
            str(data.parent / "m.mk"),
            "--force",
        ]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        process.stdout.read(1)
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        told = process.communicate(timeout=100)[1]
        assert "Traceback" not in told and process.returncode in (0, 130, -signal.SIGINT), told


def test_an_interrupt_while_compiled_code_is_loaded_is_not_lost():
    # Exceptions in what C calls back are printed and forgotten, so it waits until the callback has returned.
    returned = []
    inside = {"__name__": "llvmlite.binding.executionengine", "signal": signal, "returned": returned}
    exec("def callback():\n    signal.raise_signal(signal.SIGINT)\n    returned.append(True)", inside)
    before = signal.signal(signal.SIGINT, interrupt)
    try:
        inside["callback"]()
        with pytest.raises(KeyboardInterrupt):
            time.sleep(5)
    finally:
        signal.signal(signal.SIGINT, before)
    assert returned


@pytest.mark.parametrize("place", ["/proc/m.mk", "m" * 250, "loop", "no/m.mk", "."])
@pytest.mark.parametrize("option", ["-o", "--checkpoint"])
def test_a_place_that_cannot_be_written_is_refused_before_the_fit(data, place, option):
    (data.parent / "loop").symlink_to(data.parent / "loop")
    words = ["-o", data.parent / "m.mk", option, data.parent / place]
    # Nothing of the table is read: it would be refused for its target.
    told = refused("fit", data, "-t", "zzz", *words[2 if option == "-o" else 0 :])
    assert "zzz" not in told
    assert sorted(f.name for f in data.parent.iterdir()) == ["d.csv", "loop"]


def test_a_checkpoint_takes_no_other_files_place(data):
    model = data.parent / "m.mk"
    assert "is the table" in refused("fit", data, "-t", "y", "-o", model, "--checkpoint", data)
    assert "is the model file" in refused("fit", data, "-t", "y", "-o", model, "--checkpoint", model)


def test_latin_1_is_read_with_a_note_unless_another_encoding_is_named(data):
    data.write_bytes(data.read_text().replace("up", "né").encode("latin-1"))
    for k, more in enumerate(([], ["--checkpoint", data.parent / "state"])):
        words = ["fit", data, "-t", "y", "-o", data.parent / f"{k}.mk", *FIT[: 2 if more else 6], *more]
        result = testing.CliRunner().invoke(cli.application(), [str(w) for w in words])
        assert result.exit_code == 0 and "né" in result.stdout
        assert "is not UTF-8 text in line" in " ".join(result.stderr.split())
    told = refused("fit", data, "-t", "y", "-o", data.parent / "m.mk", "--encoding", "utf-8")
    assert "is not UTF-8 text in line" in told


def test_an_unclosed_quote_is_no_class(data):
    with data.open("a") as stream:
        stream.write('1,2,"up\n1,3,down\n')
    assert "has a quote in line 62" in refused("fit", data, "-t", "y", "-o", data.parent / "m.mk")


@pytest.mark.parametrize("seed", ["-1", str(2**32)])
def test_a_seed_that_cannot_be_is_refused_by_its_option(data, seed):
    assert "--seed" in refused("fit", data, "-t", "y", "--seed", seed)


# -- what is kept beside a model -------------------------------------------------------------------------


ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just(10**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
SCORES = st.fixed_dictionaries({}, optional=dict.fromkeys(("name", "value", "n_rows", "constant"), ODD))


@pytest.fixture(scope="module")
def beside(tmp_path_factory):
    """A folder with rows, and a model fitted on them."""
    folder = tmp_path_factory.mktemp("beside")
    X = np.random.default_rng(0).standard_normal((20, 2))
    (folder / "rows.csv").write_text("a,b\n" + "".join(f"{a},{b}\n" for a, b in X.tolist()))
    return folder, MKLRegressor("linear", solver="uniform", C=1.0).fit(X, X[:, 0])


@given(
    metadata=st.fixed_dictionaries(
        {},
        optional={"score": SCORES | ODD}
        | dict.fromkeys(("target", "seconds", "n_train", "mean", "scale"), ODD),
    )
)
@settings(max_examples=60, deadline=None)
def test_whatever_is_kept_beside_a_model_it_is_shown(beside, metadata):
    folder, model = beside
    save(model, folder / "odd.mk", metadata=metadata)
    for more in ([], ["--json"]):
        result = testing.CliRunner().invoke(cli.application(), ["show", str(folder / "odd.mk"), *more])
        assert result.exit_code == 0, result.output
    words = ["predict", str(folder / "odd.mk"), str(folder / "rows.csv")]
    result = testing.CliRunner().invoke(cli.application(), words)
    plain = "mean" not in metadata and "scale" not in metadata
    assert result.exit_code == 0 if plain else "keeps a mean and a scale" in result.stderr


def test_a_kernel_is_shown_and_predicts_nothing(beside):
    folder, _ = beside
    X = np.random.default_rng(0).standard_normal((20, 2))
    AlignedKernel([RBF(1.0), Linear()]).fit(X, X[:, 0]).save(folder / "kernel.mk")
    for more in ([], ["--json"]):
        shown = testing.CliRunner().invoke(cli.application(), ["show", str(folder / "kernel.mk"), *more])
        assert shown.exit_code == 0 and "AlignedKernel" in shown.stdout
    told = refused("predict", folder / "kernel.mk", folder / "rows.csv")
    assert "is a kernel, which predicts nothing by itself" in told


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("$M --nonsense 2> /dev/full", 2),
        pytest.param("$M --help > /dev/full", 2, marks=pytest.mark.slow),
        pytest.param("$M fit --help | true", 0, marks=pytest.mark.slow),
    ],
)
def test_help_and_wrong_options_end_well_on_a_full_disk(tmp_path, line, code):
    ended, told = shell(line, tmp_path)
    assert ended == code and "Traceback" not in told
