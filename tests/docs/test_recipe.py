"""The conda recipe asks for what the wheel asks for, with the command line."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_recipe_needs_what_the_package_and_its_command_line_need():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["cli"]]
    (run,) = re.findall(r"  run:\n((?:    - .*\n)+)", (ROOT / "conda" / "meta.yaml").read_text())
    listed = [line.removeprefix("    - ").replace(" ", "") for line in run.splitlines()]
    assert listed[0] == f"python{project['requires-python']}"
    assert sorted(name.replace("matplotlib-base", "matplotlib") for name in listed[1:]) == sorted(wanted)
