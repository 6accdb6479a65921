"""As much enters in a pass as is done in the time that a pass may take."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flamestream.core.protocol import actions as act
from flamestream.core.protocol import events as ev
from flamestream.core.worker.room import PASS_BYTES, PASS_US, Room
from flamestream.model.ids import WorkerId
from flamestream.model.time import Instant, Timestamp
from support.core.core_cluster import CoreCluster
from support.core.fronts import one_source_cluster

RUN = 50
"""Bytes of a run."""


def lived(costs: Iterable[float]) -> list[int]:
    """Microseconds of each pass over an endless backlog, when a byte takes so many."""
    room, took = Room(), list[int]()
    for cost in costs:
        us = 0
        while room.left > 0:
            room.enter(RUN)
            us += int(RUN * cost)
        took.append(us)
        room.next_pass(us)
    return took


@given(st.floats(0.1, 5_000))
def test_a_pass_takes_no_longer_than_twice_what_it_may_or_than_a_run(cost: float) -> None:
    took = lived([cost] * 10)
    assert max(took[1:]) <= 2 * PASS_US + 2 * RUN * cost


def test_what_becomes_dear_makes_passes_short_again_and_cheap_long() -> None:
    took = lived([1.0] * 10 + [500.0] * 10 + [1.0] * 20)
    assert max(took[12:20]) <= 2 * PASS_US
    assert took[-1] >= 0.6 * PASS_BYTES, "the whole of it"


def test_a_run_enters_however_long_it_takes() -> None:
    assert lived([1e6] * 5)[1:] == [RUN * 1_000_000] * 4


def test_what_is_fast_enters_as_far_as_a_pass_holds_and_where_nobody_measures_too() -> None:
    room = Room()
    room.enter(RUN)
    room.next_pass(1)
    assert room.left == PASS_BYTES
    room.next_pass(None)
    assert room.left == PASS_BYTES


def passes(cluster: CoreCluster, owner: WorkerId, took: int) -> list[int]:
    """The bytes that its worker asks for behind each pass, if each takes so long."""
    worker, asked = cluster.workers[owner], list[int]()
    step = worker.step

    def measured(now: Timestamp, instant: Instant, events: list[ev.Event]) -> list[act.Action]:
        actions = step(now, instant, events, took)
        asked.extend(each.size for each in actions if isinstance(each, act.Pull) and each.size)
        return actions

    worker.step = measured  # type: ignore[method-assign, assignment]
    for number in range(30):
        cluster.feed(0, f"a{number}")
        cluster.run()
    return asked


@pytest.mark.parametrize("workers", [1, 3])
def test_a_worker_whose_passes_are_long_asks_for_little_at_once(workers: int) -> None:
    cluster = one_source_cluster(workers, 1)
    asked = passes(cluster, cluster.layout.fronts[0], 5 * PASS_US)
    assert asked[-1] <= 10, "a record has ten bytes"
    cluster.end()
    cluster.run()
    cluster.check()
    assert cluster.complete
