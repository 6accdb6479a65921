"""Layouts are balanced and move as little as possible."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from flamestream.core.coordinator.assignment import next_layout, relaid
from flamestream.model.ids import WorkerId

NAMES = [WorkerId(name) for name in "abcdef"]
members = st.lists(st.sampled_from(NAMES), min_size=1, unique=True)


def spread_evenly(owners: tuple[WorkerId, ...], workers: list[WorkerId]) -> bool:
    counts = [Counter(owners)[worker] for worker in workers]
    return set(owners) <= set(workers) and max(counts) - min(counts) <= 1


@given(st.lists(members, min_size=1, max_size=5), st.integers(1, 32), st.integers(0, 5))
def test_slots_and_fronts_are_balanced_whatever_came_before(
    history: list[list[WorkerId]], slots: int, fronts: int
) -> None:
    layout = None
    for workers in history:
        layout = next_layout(layout, workers, slots, fronts)
        assert len(layout.owners) == slots
        assert len(layout.fronts) == fronts
        assert spread_evenly(layout.owners, workers)
        assert spread_evenly(layout.fronts, workers)


@given(members, members, st.integers(1, 32))
def test_no_slot_moves_that_need_not(before: list[WorkerId], after: list[WorkerId], slots: int) -> None:
    old = next_layout(None, before, slots, 1)
    new = next_layout(old, after, slots, 1)
    kept = sum(a == b for a, b in zip(old.owners, new.owners, strict=True))
    each, more = divmod(slots, len(after))
    had = sorted((Counter(old.owners)[worker] for worker in after), reverse=True)
    assert kept == sum(min(count, each + (place < more)) for place, count in enumerate(had))


@given(members, st.integers(1, 32), st.integers(0, 5))
def test_the_version_grows_exactly_when_something_changed(
    workers: list[WorkerId], slots: int, fronts: int
) -> None:
    first = next_layout(None, workers, slots, fronts)
    assert first.version == 1
    assert next_layout(first, list(reversed(workers)), slots, fronts) == first
    other = next_layout(first, [WorkerId("new")], slots, fronts)
    assert other.version == 2


@given(members, members, st.integers(1, 8))
def test_the_acker_has_as_few_fronts_as_anybody(
    before: list[WorkerId], after: list[WorkerId], fronts: int
) -> None:
    layout = next_layout(next_layout(None, before, 8, fronts), after, 8, fronts)
    assert layout.fronts.count(layout.acker) == min(layout.fronts.count(worker) for worker in after)


def test_an_acker_that_can_stay_stays() -> None:
    first = next_layout(None, NAMES[2:4], 8, 2)
    assert first.acker == "c"
    assert next_layout(first, NAMES[:3], 8, 3).acker == "c"
    assert next_layout(first, NAMES[:3], 8, 1).acker != "c", "it has the only front"


def test_a_standby_gets_exactly_what_the_lost_worker_had() -> None:
    old = next_layout(None, NAMES[:3], 256, 2)
    new = next_layout(old, [NAMES[0], NAMES[2], NAMES[5]], 256, 2)
    assert new.slots_of(NAMES[5]) == old.slots_of(NAMES[1])
    assert new.slots_of(NAMES[0]) == old.slots_of(NAMES[0])


def test_slots_that_were_moved_for_their_load_stay_moved_when_a_worker_is_replaced() -> None:
    first = next_layout(None, NAMES[:3], 9, 3)
    moved = relaid(first, [*NAMES[1:2] * 2, *first.owners[2:]], 3)
    assert (moved.version, moved.fronts) == (first.version + 1, first.fronts)
    new = next_layout(moved, [NAMES[0], NAMES[2], NAMES[5]], 9, 3)
    assert new.slots_of(NAMES[5]) == moved.slots_of(NAMES[1])
    assert new.slots_of(NAMES[2]) == moved.slots_of(NAMES[2])
    assert next_layout(new, new.workers, 9, 3) == new


def test_when_the_number_of_workers_changes_slots_are_spread_evenly_again() -> None:
    moved = relaid(next_layout(None, NAMES[:2], 8, 1), [NAMES[0], *NAMES[1:2] * 7], 1)
    assert spread_evenly(next_layout(moved, NAMES[:3], 8, 1).owners, NAMES[:3])


def test_a_layout_without_one_worker_has_no_front_of_it() -> None:
    moved = relaid(next_layout(None, NAMES[:3], 6, 3), [NAMES[0], NAMES[2]] * 3, 3)
    assert moved.workers == (NAMES[0], NAMES[2])
    assert spread_evenly(moved.fronts, [NAMES[0], NAMES[2]])


def test_a_job_without_fronts_has_an_acker() -> None:
    assert next_layout(None, NAMES[:2], 4, 0).acker == "a"
