"""Output gaps: the stretches in which nobody gave anything, over all workers."""

from hypothesis import given
from hypothesis import strategies as st

from flamestream.adapters.gaps import Gaps


def since(gaps: Gaps, moment: int) -> int:
    return next((length for end, length in gaps.all() if end > moment), 0)


def test_a_gap_is_where_no_worker_gave_anything() -> None:
    gaps = Gaps()
    gaps.gave(100, 200)
    gaps.gave(150, 260)
    gaps.gave(400, 500)
    assert (gaps.first, gaps.last, gaps.all()) == (100, 500, [(400, 140)])


def test_what_is_reported_late_makes_no_gap() -> None:
    gaps = Gaps()
    gaps.gave(100, 300)
    gaps.gave(200, 250)
    assert (gaps.last, gaps.all()) == (300, [])


@given(st.lists(st.integers(1, 50), min_size=2, max_size=40), st.integers(0, 2000))
def test_the_longest_since_any_moment_is_known(pauses: list[int], moment: int) -> None:
    gaps, now, ends = Gaps(), 1, []
    gaps.gave(now, now)
    for pause in pauses:
        now += pause
        gaps.gave(now, now)
        ends.append((now, pause))
    assert since(gaps, moment) == max((length for end, length in ends if end > moment), default=0)
