"""The demonstration: noise is found out, and what it writes can be read."""

import pytest

pytest.importorskip("pyarrow")
typer_testing = pytest.importorskip("typer.testing")

from manykernels import cli, load  # noqa: E402
from manykernels.cli import demo  # noqa: E402


def test_the_demonstration_finds_out_the_noise(tmp_path, capsys):
    scores = demo.run(tmp_path / "out", n_houses=120, n_noise=8, n_train=120, folds=2, costs=(1.0,))
    learned, _, svc, _ = scores.values()
    assert learned > svc
    screen = capsys.readouterr().out
    assert "pure noise, added here" in " ".join(screen.split())
    assert "Among these are 10 of the 10" in " ".join(screen.split())
    assert "show" in screen and str(tmp_path / "out" / "houses.mk") in screen
    assert (tmp_path / "out" / "houses.html").exists()
    arguments = ["predict", str(tmp_path / "out" / "digits.mk"), str(tmp_path / "out" / "new-digits.csv")]
    result = typer_testing.CliRunner().invoke(cli.application(), arguments)
    assert result.exit_code == 0 and len(result.stdout.split()) == 101


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_demonstration_beats_its_baselines(tmp_path, seed):
    learned, mean, svc, told = demo.run(tmp_path, seed).values()
    assert learned > mean + 0.01 and learned > svc + 0.1 and learned > told - 0.005
    noise = [
        r for r in load(tmp_path / "digits.mk").combination_.records() if r["kernel"].startswith("noise")
    ]
    assert sum(r["share"] for r in noise) < 0.05
