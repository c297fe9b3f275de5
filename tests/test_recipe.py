"""What is said of versions, needs and files in several places is the same in all of them."""

import importlib.util
import re
import tomllib
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
#: What conda calls packages that have another name there.
IN_CONDA = {"matplotlib": "matplotlib-base", "dask": "dask-core"}


def read_recipe():
    """Return the recipe: templates are left as text, as they stand for the version and the interpreter alone."""
    yaml = pytest.importorskip("yaml")
    lines = (ROOT / "conda" / "meta.yaml").read_text().splitlines()
    text = "\n".join(line for line in lines if not line.startswith("{%"))
    return yaml.safe_load(re.sub(r"{{ *(\w+) *}}", r"<\1>", text))


def for_conda(requirements):
    """Return requirements in conda's words."""
    parsed = [Requirement(line) for line in requirements]
    return sorted(f"{IN_CONDA.get(r.name, r.name)} {r.specifier}" for r in parsed)


def classified():
    """Return the versions of Python that the classifiers name."""
    found = [
        re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", c)
        for c in PROJECT["project"]["classifiers"]
    ]
    return {m[1] for m in found if m}


def jobs():
    """Yield the jobs of all workflows that must pass, and the versions of Python that they run."""
    yaml = pytest.importorskip("yaml")
    for path in sorted((ROOT / ".github" / "workflows").glob("*.yml")):
        for name, job in yaml.safe_load(path.read_text())["jobs"].items():
            if job.get("continue-on-error") is True:
                continue
            matrix = job.get("strategy", {}).get("matrix", {})
            several = [one["python"] for one in matrix.get("include", ()) if not one.get("unproven")]
            single = [
                step["with"]["python-version"] for step in job["steps"] if "python" in step.get("uses", "")
            ]
            yield name, {v for v in (*matrix.get("python", ()), *several, *single) if "{" not in v}


# -- the recipe ----------------------------------------------------------------------------------------


def test_the_recipe_needs_what_the_package_and_its_command_line_need():
    project = PROJECT["project"]
    python = f"python {project['requires-python']}"
    needs = read_recipe()["requirements"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["cli"]]
    assert needs["run"][0] == python
    assert sorted(needs["run"][1:]) == for_conda(wanted)
    assert sorted(needs["run_constrained"]) == for_conda(project["optional-dependencies"]["dask"])
    assert sorted(needs["host"]) == sorted(["pip", python, *for_conda(PROJECT["build-system"]["requires"])])


def test_the_recipe_says_what_the_package_says():
    recipe, project = read_recipe(), PROJECT["project"]
    assert recipe["build"]["entry_points"] == [f"{k} = {v}" for k, v in project["scripts"].items()]
    assert recipe["about"]["summary"] == project["description"]
    assert recipe["about"]["license"] == project["license"]


# -- versions ------------------------------------------------------------------------------------------


def test_a_package_has_one_lowest_version():
    bounds = {}
    extras = PROJECT["project"]["optional-dependencies"].values()
    for requirement in map(Requirement, chain(PROJECT["project"]["dependencies"], *extras)):
        bounds.setdefault(requirement.name, set()).add(str(requirement.specifier))
    assert {name: found for name, found in bounds.items() if len(found) > 1} == {}


def test_the_versions_of_python_that_are_named_are_those_that_are_tested():
    tested = dict(jobs())
    assert tested["test"] == classified()
    assert set().union(*tested.values()) <= classified()


def test_the_lowest_python_is_the_same_everywhere():
    lowest = min(classified(), key=lambda version: int(version.split(".")[1]))
    assert PROJECT["project"]["requires-python"] == f">={lowest}"
    assert PROJECT["tool"]["ruff"]["target-version"] == f"py{lowest.replace('.', '')}"
    assert dict(jobs())["lowest"] == {lowest}


# -- the archives --------------------------------------------------------------------------------------


def test_the_release_check_names_files_that_are_missing_or_too_many():
    spec = importlib.util.spec_from_file_location("release_check", ROOT / "tools" / "release_check.py")
    check = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(check)
    tracked = ["src/manykernels/a.py", "tests/test_a.py", ".ci/run"]
    wheel = check.in_wheel(tracked, Path("manykernels-1.0-py3-none-any.whl"))
    assert {name for name in wheel if "dist-info" not in name} == {"manykernels/a.py"}
    assert "manykernels-1.0.dist-info/METADATA" in wheel
    sdist = check.in_sdist(tracked, Path("manykernels-1.0.tar.gz"))
    wanted = {"PKG-INFO", "src/manykernels/a.py", "tests/test_a.py"}
    assert sdist == {f"manykernels-1.0/{name}" for name in wanted}
    assert check.differences("wheel", sorted(wheel), wheel) == []
    assert check.differences("wheel", ["a", "c"], {"a", "b"}) == [
        "The wheel lacks b.",
        "The wheel should not have c.",
    ]
