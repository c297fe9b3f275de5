"""The page that leads from published algorithms to the code names what is there."""

import ast
import pathlib
import re
from importlib import import_module

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PAGE = ROOT / "docs" / "algorithms.md"


def rows() -> list[list[str]]:
    """Return the cells of the table, without its head."""
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def names() -> list[str]:
    """Return what the last column names, each once."""
    return list(dict.fromkeys(name for row in rows() for name in re.findall(r"`([^`]+)`", row[-1])))


def find(name: str) -> object:
    """Return what a dotted name stands for, or the definition that ``path.py::Name`` does; None if there is none."""
    if "::" in name:
        path, wanted = name.split("::")
        if not (ROOT / path).is_file():
            return None
        body = ast.parse((ROOT / path).read_text(encoding="utf-8")).body
        return next((node for node in body if getattr(node, "name", None) == wanted), None)
    found, *rest = name.split(".")
    place = import_module(found)
    for part in rest:
        found = f"{found}.{part}"
        if not hasattr(place, part):
            try:
                import_module(found)
            except ImportError:
                return None
        place = getattr(place, part)
    return place


@pytest.mark.parametrize("name", names())
def test_name_is_there(name):
    assert find(name) is not None


@pytest.mark.parametrize(
    "wrong",
    [
        "manykernels.solvers.Greedier",
        "manykernels.solvers.Greedy.solved",
        "manykernels.no_such_room.Greedy",
        "benchmarks/sampling_quadratic.py::no_such_name",
        "benchmarks/no_such_file.py::rcdm",
    ],
)
def test_wrong_name_is_noticed(wrong):
    assert find(wrong) is None


def test_every_row_has_a_source_and_a_place():
    assert len(rows()) >= 30
    for row in rows():
        assert len(row) == 4
        assert row[0]
        assert re.search(r"`(manykernels\.|benchmarks/)", row[-1]), row


@pytest.mark.parametrize(
    ("source", "numbers"),
    [
        ("Afkanpour et al. (2013)", range(1, 4)),
        ("Afkanpour (2013)", range(1, 10)),
        ("Li et al. (2017)", range(1, 5)),
        ("Orabona et al. (2012)", range(1, 4)),
    ],
)
def test_every_algorithm_of_a_work_has_a_row(source, numbers):
    listed = set()
    for row in rows():
        found = re.match(r"Algorithms? (\d+)(?:–(\d+))?", row[1])
        if found and source in row[0].split("; "):
            listed |= set(range(int(found[1]), int(found[2] or found[1]) + 1))
    assert set(numbers) <= listed
