"""The licences of what the package needs, as docs/licences.md lists them."""

import re
import tomllib
from importlib.metadata import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "licences.md").read_text(encoding="utf-8")
LISTED = dict(re.findall(r"^\| ([\w-]+) \| `([^`]+)`", PAGE, flags=re.MULTILINE))
#: Extras of users; what contributors need is not part of an installation.
EXTRAS = ("plot", "report", "cli", "dask", "io")


def _needed():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lists = [project["dependencies"], *(project["optional-dependencies"][name] for name in EXTRAS)]
    return sorted({re.match(r"[\w-]+", requirement)[0] for one in lists for requirement in one})


def test_every_dependency_is_listed_and_no_other():
    assert sorted(LISTED) == _needed()


@pytest.mark.parametrize("name", _needed())
def test_a_licence_is_what_the_package_declares(name):
    known = metadata(name)
    declared = known.get("License-Expression")
    if declared is not None:
        # Versions differ in how much of what they bundle they list; the first is the package's own.
        assert declared.split(" AND ")[0] == LISTED[name].split(" AND ")[0]
        return
    kinds = [line for line in known.get_all("Classifier") or [] if line.startswith("License")]
    family = {"BSD": "BSD", "MIT": "MIT", "Apache": "Apache", "LicenseRef": "Python Software Foundation"}
    assert any(family[re.match("[A-Za-z]+", LISTED[name])[0]] in line for line in kinds)


def test_the_version_is_one():
    version = re.search('= "(.+)"', (ROOT / "src/manykernels/_version.py").read_text(encoding="utf-8"))[1]
    for path in ("CITATION.cff", "conda/meta.yaml"):
        assert version in (ROOT / path).read_text(encoding="utf-8")
    assert f"## [{version}] - " in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
