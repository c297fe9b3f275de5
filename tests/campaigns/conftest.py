"""Campaigns: many random tries of one kind, each of which must end well.

``make test`` runs a short part, the same tries each time. ``make campaign`` runs all of it: ``--tries 1`` is the size
that the figures in ``docs/reliability.md`` are about, ``--campaign-seed`` asks for other tries. The end of the run says
how many tries each campaign made and how many failed; a failure names the seed that repeats it, and after a crash the
seed of the last try is in pytest's cache (``.pytest_cache/d/campaigns``).
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

#: Tries made and failed, by campaign.
MADE: Counter[str] = Counter()
FAILED: Counter[str] = Counter()


def pytest_addoption(parser):
    parser.addoption("--tries", type=float, default=0.01, help="share of a campaign's tries; 1 for all")
    parser.addoption("--campaign-seed", type=int, default=0, help="first seed of a campaign")


class Campaign:
    """The tries of one campaign, each with a seed of its own."""

    def __init__(self, name: str, share: float, first: int, place: Path | None):
        self.name, self.share, self.first, self.place = name, share, first, place

    def run(self, count: int, attempt) -> None:
        """Call ``attempt(rng)`` for `count` seeds, at least two; all failures are told at the end, with their seeds."""
        wrong = []
        for seed in range(self.first, self.first + max(2, round(self.share * count))):
            MADE[self.name] += 1
            if self.place is not None:  # what ends the process ends the telling, too
                self.place.write_text(f"{seed}\n")
            try:
                attempt(np.random.default_rng(seed))
            except (Exception, SystemExit) as error:
                FAILED[self.name] += 1
                wrong.append(f"--campaign-seed {seed}: {type(error).__name__}: {error}")
        if wrong:
            pytest.fail(f"{len(wrong)} tries failed:\n" + "\n".join(wrong[:60]), pytrace=False)


@pytest.fixture
def campaign(request) -> Campaign:
    """The campaign that a test is."""
    options = request.config
    name, cache = request.node.name, getattr(options, "cache", None)
    place = None if cache is None else cache.mkdir("campaigns") / name
    return Campaign(name, options.getoption("--tries"), options.getoption("--campaign-seed"), place)


def pytest_terminal_summary(terminalreporter):
    for name, count in sorted(MADE.items()):
        terminalreporter.write_line(f"{name}: {count:,} tries, {FAILED[name]:,} failed")
