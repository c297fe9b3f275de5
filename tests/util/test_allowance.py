"""How much machines may multiply: what is counted, and what nested bodies may take of it."""

import pytest

from manykernels._util.allowance import SCARCE, exhausted, limited, most_work, scarce, spend


def test_without_a_limit_nothing_is_counted():
    spend(1e30)
    assert not exhausted() and not scarce()


def test_what_is_spent_is_counted_to_its_end():
    with limited(10.0) as allowance:
        spend(4.0)
        assert allowance.left == 6.0 and not exhausted()
        spend(7.0)
        assert allowance.left == 0.0 and exhausted() and scarce()
    assert not exhausted()


def test_an_inner_body_takes_a_share_of_what_is_left():
    with limited(10.0) as outer:
        spend(2.0)
        with limited(share=0.5) as inner:
            spend(3.0)
        with limited(1e9) as last:
            pass
    assert (inner.most, last.most, outer.spent) == (4.0, 5.0, 5.0)


def test_three_halves_leave_too_little():
    with limited(1.0):
        for _ in range(3):
            assert not scarce()
            with limited(share=0.5) as half:
                spend(half.most)
        assert scarce() and not exhausted()
    assert 0.1 < SCARCE < 0.2


def test_an_error_leaves_no_limit_behind():
    with pytest.raises(KeyError), limited(0.0):
        raise KeyError
    assert not exhausted()


def test_the_limit_grows_with_the_rows_beyond_300():
    assert most_work(2) == most_work(300) < most_work(301)
    assert most_work(3000) == pytest.approx(1e4 * most_work(300))
