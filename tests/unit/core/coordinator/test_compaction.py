"""The number of segments stays bounded, and nobody merges what another does."""

from hypothesis import given
from hypothesis import strategies as st

from flamestream.core.coordinator.compaction import MAX_MERGE, MAX_PER_TIER, tier, to_compact
from flamestream.core.protocol.messages import SegmentRef
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
    assert all(len({tier(each.size) for each in merge}) == 1 for merge in merges.values())


@given(sizes)
def test_a_tier_is_left_alone_exactly_while_it_is_small(of: list[int]) -> None:
    tiers = [tier(size) for size in of]
    assert bool(to_compact(segments(of), WORKERS, 0)) == any(
        tiers.count(each) > MAX_PER_TIER for each in tiers
    )


def test_the_work_goes_round() -> None:
    many = segments([10] * 9)
    assert [list(to_compact(many, WORKERS, turn)) for turn in range(4)] == [["a"], ["b"], ["c"], ["a"]]
