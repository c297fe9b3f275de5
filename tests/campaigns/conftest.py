"""Campaigns: many random tries of one kind, each of which must end well.

``make test`` runs a short part, the same tries each time. ``make campaign`` runs all of it: ``--tries 1`` is the size
that the figures in ``docs/reliability.md`` are about, ``--campaign-seed`` asks for other tries. The end of the run says
how many tries each campaign made and how many failed; a failure names the seed that repeats it, and after a crash the
seed of the last try is in pytest's cache (``.pytest_cache/d/campaigns``).

A whole campaign is cut into parts, every so-manieth try each, so that several processes can share it (``-n 2``); the
counts are put together at the end.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

#: Tries made and failed, and parts that ended otherwise, by campaign.
MADE: Counter[str] = Counter()
FAILED: Counter[str] = Counter()
UNTOLD: Counter[str] = Counter()
#: Seconds that a part of a whole campaign may take, on a machine that does other things as well.
LONGEST = 7200
#: Parts of a whole campaign.
PARTS = 10


def pytest_addoption(parser):
    parser.addoption("--tries", type=float, default=0.01, help="share of a campaign's tries; 1 for all")
    parser.addoption("--campaign-seed", type=int, default=0, help="first seed of a campaign")


def pytest_generate_tests(metafunc):
    if "campaign" in metafunc.fixturenames:
        parts = max(1, round(PARTS * min(1.0, metafunc.config.getoption("--tries"))))
        names = [f"part {i} of {parts}" for i in range(1, parts + 1)]
        metafunc.parametrize("campaign", [(i, parts) for i in range(parts)], indirect=True, ids=names)


def pytest_collection_modifyitems(config, items):
    seconds = LONGEST if config.getoption("--tries") > 0.05 else LONGEST // 8
    for item in items:
        if "campaign" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.timeout(seconds), append=False)


@dataclass(frozen=True)
class Campaign:
    """The tries of one part of a campaign, each with a seed of its own.

    Attributes
    ----------
    name : of the campaign
    share : of its tries that are made
    first : the first seed
    part, parts : of all seeds, every `parts`-th is tried, from this one on
    place : the file that has the seed of the try under way
    counts : tries made and failed, for the report
    """

    name: str
    share: float
    first: int
    part: int = 0
    parts: int = 1
    place: Path | None = None
    counts: dict[str, int] = field(default_factory=lambda: {"made": 0, "failed": 0})

    def seeds(self, count: int) -> range:
        """Return the seeds of this part; a campaign has two at least."""
        return range(self.first + self.part, self.first + max(2, round(self.share * count)), self.parts)

    def run(self, count: int, attempt) -> None:
        """Call ``attempt(rng)`` for each seed; all failures are told at the end, with their seeds."""
        wrong = []
        for seed in self.seeds(count):
            self.counts["made"] += 1
            if self.place is not None:  # what ends the process ends the telling, too
                self.place.write_text(f"{seed}\n")
            try:
                attempt(np.random.default_rng(seed))
            except (Exception, SystemExit) as error:
                self.counts["failed"] += 1
                wrong.append(f"--campaign-seed {seed}: {type(error).__name__}: {error}")
        if wrong:
            pytest.fail(f"{len(wrong)} tries failed:\n" + "\n".join(wrong[:60]), pytrace=False)


@pytest.fixture
def campaign(request) -> Campaign:
    """The part of a campaign that a test is."""
    options, (part, parts) = request.config, request.param
    name, cache = request.node.originalname, getattr(options, "cache", None)
    place = None if cache is None else cache.mkdir("campaigns") / f"{name}-{part}"
    made = Campaign(
        name, options.getoption("--tries"), options.getoption("--campaign-seed"), part, parts, place
    )
    request.node.user_properties.append(("campaign", made.counts))  # read when the part has ended
    return made


def pytest_runtest_logreport(report):
    """Count what a part did, in this process or in another one; one that never told is a crash, or a time-out."""
    if "campaigns/" not in report.nodeid or (report.when == "setup" and report.passed):
        return
    name = report.nodeid.split("::")[-1].split("[")[0]
    if report.when == "teardown":
        for _, counts in report.user_properties:
            MADE[name] += counts["made"]
            FAILED[name] += counts["failed"]
    elif report.failed and not any(counts.get("failed") for _, counts in report.user_properties):
        UNTOLD[name] += 1


def pytest_terminal_summary(terminalreporter):
    for name in sorted(MADE | UNTOLD):
        untold = f"; {UNTOLD[name]} parts did not come to their end" if UNTOLD[name] else ""
        terminalreporter.write_line(f"{name}: {MADE[name]:,} tries, {FAILED[name]:,} failed{untold}")
