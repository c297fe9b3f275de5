"""The loop around iterates: what it keeps, when it ends, what it says; and the names that the room shows."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import manykernels.machines
import manykernels.solvers
from manykernels._util.interrupts import Interruptible
from manykernels.solvers.log import Log
from manykernels.solvers.loop import Descent, relative_gap


def iterates(*pairs):
    """Return iterates with objectives and gaps."""
    return [SimpleNamespace(objective=p, gap=g, theta=np.ones(1)) for p, g in pairs]


def test_the_best_is_kept_and_the_closed_gap_ends():
    made = iterates((3.0, 1.0), (1.0, 0.5), (2.0, 1e-4), (0.5, 0.0))
    descent = Descent(1e-3, 0.0)
    descent.follow(made)
    assert descent.n_iter == 3 and descent.closed
    assert descent.best is made[1] and descent.answer is made[2]


@pytest.mark.parametrize("later", [True, False])
def test_of_equals_the_first_or_the_last_is_kept(later):
    made = iterates((1.0, 0.5), (1.0, 0.4))
    descent = Descent(None, 0.0, later=later)
    descent.follow(made)
    assert descent.answer is made[later]


def test_without_a_tolerance_all_iterates_are_taken():
    descent = Descent(None, 1.0)
    descent.follow(iterates((1.0, 0.0), (2.0, 0.0)))
    assert descent.n_iter == 2 and not descent.closed


def test_a_callback_and_a_number_of_iterates_end_the_loop():
    made = iterates(*[(1.0, 0.5)] * 9)
    stopped = Descent(0.0, 0.0, log=Log(lambda step: step.iteration == 2, 0.0))
    stopped.run(made)
    assert stopped.n_iter == 2 and stopped.stopped and not stopped.interrupted
    few = Descent(0.0, 0.0, 3)
    few.run(made)
    assert few.n_iter == 3 and not few.stopped


def interrupted_after(made):
    yield from made
    raise KeyboardInterrupt


def test_an_interrupt_keeps_the_best_once_there_is_one():
    made = iterates((3.0, 1.0), (4.0, 1.0))
    descent = Descent(0.0, 0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the warning follows with its figure
        descent.run(interrupted_after(made))
    assert descent.interrupted and descent.answer is made[0]
    with pytest.raises(KeyboardInterrupt):
        Descent(0.0, 0.0).run(interrupted_after([]))
    with pytest.raises(KeyboardInterrupt):  # an inner loop leaves it to the outer one
        Descent(0.0, 0.0).follow(interrupted_after(made))


def test_interruptible_says_what_is_kept_and_lets_errors_through():
    with (
        pytest.warns(ConvergenceWarning, match=r"Interrupted after all\."),
        Interruptible(lambda: "after all.") as guard,
    ):
        raise KeyboardInterrupt
    assert guard.interrupted
    with pytest.raises(ValueError, match="other"), Interruptible(lambda: "never said"):
        raise ValueError("other")


def test_a_gap_relative_to_nothing_is_finite_where_it_is_zero():
    assert relative_gap(0.0, 0.0, 0.0) == 0.0 and relative_gap(1.0, 4.0, 1e-12) == 0.25


@pytest.mark.parametrize("room", [manykernels.solvers, manykernels.machines])
def test_completion_shows_public_names_only(room):
    assert dir(room) == sorted(room.__all__)


def test_a_bracket_that_no_longer_shrinks_ends_the_loop():
    descent = Descent(1e-6, 0.0, patience=5)
    # The gap halves ten times and then stays.
    gaps = [0.5 ** min(k, 10) for k in range(100)]
    descent.follow(iterates(*((1.0 + gap, gap) for gap in gaps)))
    assert descent.stalled and not descent.closed and descent.n_iter == 11 + 5
