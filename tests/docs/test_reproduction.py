"""Every figure and table of the papers has its row, and no page has a verdict that the records do not have."""

import importlib
import json
import pathlib
import re
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
#: Words of a verdict; "differs" alone is plain English, and counts where it stands for one.
WORDS = re.compile(
    r"\breproduce[ds]\b|\bas\s+published\b|\*\*differs|\bdiffers:|\|\s*differs\b|\bnot\s+run\s+because\b"
    r"|\bfound\s+the\s+opposite\b|\bverdict\s+on\b|\bpartly\b|\bconfirm(s|ed)\b|\bstands\s+out\b",
    re.IGNORECASE,
)
LINK = re.compile(r"\[([^\]]+)\]\(reproduction\.md#([^)]+)\)")
ITEM = re.compile(r"(Fig\.|Table|Theorem) [\d.]+")


@pytest.fixture(scope="module")
def room():
    """Return a function that imports a file of the benchmarks by its name."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    yield importlib.import_module
    sys.path.remove(str(ROOT / "benchmarks"))


@pytest.fixture(scope="module")
def reproduction(room):
    return room("reproduction")


@pytest.fixture(scope="module")
def records(reproduction):
    return reproduction.stored()


def test_every_page_is_what_the_records_say(reproduction, records):
    for path, text in reproduction.pages(records).items():
        again = "run: python benchmarks/reproduction.py --write"
        assert path.read_text(encoding="utf-8") == text, f"{path.name} differs; {again}"


def test_every_figure_and_table_has_a_row(reproduction, records):
    assert reproduction.missing(records) == []


def test_rows_are_whole(room, records):
    papers = room("papers")
    for name, record in records.items():
        for row in record["rows"]:
            assert papers.row(**row) == row, name
            assert row["verdict"] == "not run" or record["command"].startswith("python benchmarks/"), name
            assert str(row["repetitions"]).strip(), (name, row["claim"])


def test_what_is_not_run_lacks_its_data(records):
    for record in records.values():
        for row in record["rows"]:
            assert row["verdict"] != "not run" or "can be had" in row["because"].replace("cannot", "can"), (
                row["claim"]
            )


def test_a_cause_is_given_for_nothing_that_holds(records):
    for record in records.values():
        for row in record["rows"]:
            assert not (row["verdict"] == "reproduced" and row["because"]), row["claim"]


def test_commands_are_of_scripts_that_are_there(records):
    for name, record in records.items():
        for script in re.findall(r"benchmarks/\w+\.py", record.get("command", "")):
            assert (ROOT / script).is_file(), name
        assert "--quick" not in record.get("command", ""), name


def unlinked(text: str, block: re.Pattern) -> list[str]:
    """Return the verdicts of a page that are neither in a table of verdicts nor a link."""
    rest = LINK.sub("", block.sub("", text))
    return [rest[max(found.start() - 40, 0) : found.end() + 40] for found in WORDS.finditer(rest)]


def pages() -> list[pathlib.Path]:
    """Return everything that a reader of the documentation sees, but the page of all verdicts."""
    found = [p for p in sorted((ROOT / "docs").glob("*.md")) if p.name != "reproduction.md"]
    found += sorted((ROOT / "docs").glob("*.rst")) + sorted((ROOT / "examples").glob("*.py"))
    return [*found, ROOT / "README.md", ROOT / "CHANGELOG.md"]


@pytest.mark.parametrize("path", pages(), ids=lambda p: p.name)
def test_no_page_has_a_verdict_of_its_own(reproduction, records, path):
    text = path.read_text(encoding="utf-8")
    assert unlinked(text, reproduction.BLOCK) == []
    rows = [row for record in records.values() for row in record["rows"]]
    there = {(reproduction.anchor(r["source"], r["item"]), r["verdict"]) for r in rows}
    places = {anchor for anchor, _ in there}
    for said, anchor in LINK.findall(text):
        known = anchor in places if ITEM.fullmatch(said) else (anchor, said) in there
        assert known, f"{path.name} says {said} of {anchor}"


def test_a_verdict_of_ones_own_is_noticed(reproduction):
    text = "a\n| claim | **differs**: more |\nFig. 2 is reproduced here, partly\nwhat differs is said\n"
    assert len(unlinked(text, reproduction.BLOCK)) == 3
    block = "<!-- verdicts: Li et al. (2017) -->\n| reproduced |\n<!-- end of verdicts -->"
    assert unlinked(f"{block}\n[reproduced](reproduction.md#x)", reproduction.BLOCK) == []


def test_a_changed_record_is_noticed(reproduction, records):
    changed = json.loads(json.dumps(records))
    row = next(iter(changed.values()))["rows"][0]
    row["verdict"] = "differs" if row["verdict"] != "differs" else "reproduced"
    assert reproduction.page(changed) != reproduction.page(records)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"item": "Fig. 99"}, "has no 'Fig. 99'"),
        ({"verdict": "nearly"}, "verdict is one of"),
        ({"verdict": "not run"}, "say why"),
    ],
)
def test_a_wrong_row_is_refused(room, change, said):
    papers = room("papers")
    row = {
        "source": papers.LI,
        "item": "Fig. 1",
        "claim": "c",
        "verdict": "differs",
        "paper": "1",
        "ours": "2",
    }
    with pytest.raises(ValueError, match=said):
        papers.row(**{**row, "repetitions": 1, **change})


def test_an_interrupted_run_goes_on(room, tmp_path):
    common, out, made = room("common"), tmp_path / "r.json", []

    def make(value):
        made.append(value)
        return {"value": value}

    for _ in range(2):  # the second time nothing is left to do
        journal = common.Journal(out)
        assert [journal.of(("x", v), lambda v=v: make(v)) for v in (1, 2)] == [{"value": 1}, {"value": 2}]
    assert made == [1, 2]
    with journal.path.open("a") as file:
        file.write('{"key": "cut o')  # as an interruption leaves it
    assert common.Journal(out).of(("x", 1), lambda: make(3)) == {"value": 1}
    assert common.Journal(out, fresh=True).of(("x", 1), lambda: make(3)) == {"value": 3}


def test_a_command_is_said_as_a_reader_would_type_it(room):
    argv = [
        "/a/benchmarks/x.py",
        "--data",
        "/b",
        "--out",
        "/c/x.json",
        "--jobs",
        "2",
        "--rows",
        "5",
        "--fresh",
    ]
    assert room("common").command(argv) == "python benchmarks/x.py --data DIR --rows 5"
