"""The number of segments stays bounded, and so does what they hold beside the greatest one; nobody merges
what another does."""

from hypothesis import given
from hypothesis import strategies as st

from flamestream.core.coordinator.compaction import (
    MAX_MERGE,
    MAX_PER_TIER,
    SMALLEST,
    tier,
    to_compact,
)
from flamestream.core.protocol.snapshot import SegmentRef
from flamestream.model.ids import WorkerId

WORKERS = [WorkerId(name) for name in "abc"]
sizes = st.lists(st.integers(1, MAX_MERGE // 4), max_size=60)


def segments(of: list[int]) -> list[SegmentRef]:
    return [SegmentRef(f"s{place}", size, "", 1, ()) for place, size in enumerate(of)]


@given(sizes, st.integers(0, 9))
def test_no_segment_is_merged_twice_and_no_merge_is_too_big(of: list[int], turn: int) -> None:
    merges = to_compact(segments(of), WORKERS, turn)
    names = [each.name for merge in merges.values() for each in merge]
    assert len(names) == len(set(names))
    assert all(sum(each.size for each in merge) <= MAX_MERGE for merge in merges.values())
    whole = [len(merge) == len(of) for merge in merges.values()]
    assert whole == [True] or all(len({tier(each.size) for each in merge}) == 1 for merge in merges.values())


def outweighed(of: list[int]) -> bool:
    return max([MAX_PER_TIER * SMALLEST, *of]) < sum(of) - max(of, default=0) and sum(of) <= MAX_MERGE


@given(sizes)
def test_a_tier_is_left_alone_exactly_while_it_is_small_and_nothing_is_outweighed(of: list[int]) -> None:
    tiers = [tier(size) for size in of]
    full = any(tiers.count(each) > MAX_PER_TIER for each in tiers)
    assert bool(to_compact(segments(of), WORKERS, 0)) == (full or outweighed(of))


def test_a_snapshot_that_is_written_anew_again_and_again_holds_no_more_than_it_twice_and_what_is_newest() -> (
    None
):
    lives, stored = 16 << 20, [16 << 20]
    for _ in range(500):
        merged = to_compact(segments(stored), WORKERS[:1], 0).get(WORKERS[0], [])
        left = [
            size for place, size in enumerate(stored) if f"s{place}" not in {each.name for each in merged}
        ]
        size = 1 << 20
        stored = [*left, min(lives, size + sum(each.size for each in merged))]
        assert sum(stored) <= 2 * lives + 2 * size


def test_what_is_small_is_not_worth_a_merge_and_what_is_great_more_than_one_can_be() -> None:
    assert not to_compact(segments([SMALLEST] * MAX_PER_TIER), WORKERS, 0)
    assert not to_compact(segments([MAX_MERGE // 4] * 5), WORKERS, 0)


def test_the_work_goes_round() -> None:
    many = segments([10] * 9)
    assert [list(to_compact(many, WORKERS, turn)) for turn in range(4)] == [["a"], ["b"], ["c"], ["a"]]
