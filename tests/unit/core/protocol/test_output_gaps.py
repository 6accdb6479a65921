"""Output gaps: the stretches in which nobody gave anything, over all workers."""

from hypothesis import given
from hypothesis import strategies as st

from flamestream.core.protocol.output_gaps import MOST, PAUSE, RECENT, OutputGaps

MS = 1000


def since(gaps: OutputGaps, moment: int) -> int:
    return next((length for end, length in gaps.all() if end > moment), 0)


def test_a_gap_is_where_no_worker_gave_anything() -> None:
    gaps = OutputGaps()
    gaps.gave(100 * MS, 200 * MS)
    gaps.gave(150 * MS, 260 * MS)
    gaps.gave(400 * MS, 500 * MS)
    assert (gaps.first, gaps.last, gaps.all()) == (100 * MS, 500 * MS, [(400 * MS, 140 * MS)])


def test_what_is_told_late_closes_the_gap_that_it_was_in() -> None:
    gaps = OutputGaps()
    gaps.gave(100 * MS, 200 * MS)
    gaps.gave(800 * MS, 900 * MS)
    gaps.gave(150 * MS, 500 * MS)
    assert gaps.all() == [(800 * MS, 300 * MS)]
    gaps.gave(450 * MS, 850 * MS)
    assert (gaps.last, gaps.all()) == (900 * MS, [])


def test_a_pause_that_is_shorter_than_the_resolution_is_none() -> None:
    gaps = OutputGaps()
    for moment in range(0, 10 * PAUSE, PAUSE):
        gaps.gave(moment, moment)
    assert gaps.recent() == [(0, 9 * PAUSE)]


STRETCHES = st.lists(st.tuples(st.integers(1, 3_000_000), st.integers(0, 300_000)), min_size=1, max_size=MOST)


@given(STRETCHES, st.randoms(use_true_random=False), st.integers(0, 3_500_000))
def test_the_longest_since_any_moment_is_known_in_whatever_order_and_how_often_it_is_told(
    stretches: list[tuple[int, int]], chance: object, moment: int
) -> None:
    """The oracle marks every moment in which somebody gave."""
    told = [(first, first + length) for first, length in stretches] * 2
    chance.shuffle(told)  # type: ignore[attr-defined]  # hypothesis says random.Random
    gaps = OutputGaps()
    for first, last in told:
        gaps.gave(first, last)
    end, longest = sorted(told)[0][1], 0
    for first, last in sorted(told):
        if first - end > PAUSE and first > moment:
            longest = max(longest, first - end)
        end = max(end, last)
    assert since(gaps, moment) == longest


@given(st.lists(st.integers(PAUSE + 1, RECENT), min_size=2, max_size=200), st.integers(0, 2 * RECENT))
def test_long_ago_the_longest_is_known_and_the_size_is_bounded(pauses: list[int], before: int) -> None:
    gaps, now, ends = OutputGaps(), 1, []
    gaps.gave(now, now)
    for pause in pauses:
        now += pause
        gaps.gave(now, now)
        ends.append((now, pause))
    moment = now - before
    assert since(gaps, moment) == max((length for end, length in ends if end > moment), default=0)
    assert len(gaps.recent()) <= MOST and len(gaps.all()) <= 2 * MOST


def test_whoever_hears_a_workers_recent_stretches_knows_a_gap_that_began_before_it_listened() -> None:
    """As the next coordinator does: the workers lived through it."""
    workers = [OutputGaps(), OutputGaps()]
    for worker, moments in zip(workers, [(0, 100, 900), (50, 700)], strict=True):
        for moment in moments:
            worker.gave(moment * MS, moment * MS + 20 * MS)
    successor = OutputGaps()
    for worker in workers:
        for first, last in worker.recent():
            successor.gave(first, last)
    assert since(successor, 200 * MS) == 700 * MS - 120 * MS


@given(STRETCHES, st.integers(0, 3_500_000), st.integers(0, 3_500_000))
def test_between_two_moments_a_gap_counts_as_it_was_at_the_second(
    stretches: list[tuple[int, int]], since_: int, until: int
) -> None:
    """A gap that ended before the first is none; one that ended behind the second had lasted up to that."""
    gaps = OutputGaps()
    for first, length in stretches:
        gaps.gave(first, first + length)
    given_ = gaps.recent()
    ends = [*(first for first, _ in given_[1:]), until]
    lasted = [min(end, until) - last for (_, last), end in zip(given_, ends, strict=True) if end > since_]
    assert gaps.longest(since_, until) == max(0, *lasted, 0)


def test_a_gap_that_was_longer_than_others_tell_is_known_when_it_has_ended() -> None:
    gaps = OutputGaps()
    gaps.gave(1 * MS, 2 * MS)
    ended = 2 * MS + 3 * RECENT
    gaps.gave(ended, ended)
    gaps.gave(ended + 1 * MS, ended + 2 * MS)
    assert gaps.longest(ended - 1, ended + 2 * MS) == 3 * RECENT
    assert gaps.longest(ended, ended + 2 * MS) == 0
