"""The collector's rule: what dies in cycles is freed, and no collection looks at more than it may."""

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from flamestream.loop.collector import LIMIT, SELDOM, SURVIVORS, Collector


class Node:
    """Something that can be in a cycle."""

    other: "Node"


@pytest.fixture
def collector() -> Iterator[Collector]:
    collector = Collector()
    collector.start()
    yield collector
    gc.unfreeze()
    gc.enable()


@pytest.fixture
def looked_at(collector: Collector) -> Iterator[list[int]]:
    """How many objects each collection met."""
    met: list[int] = []

    def note(phase: str, info: dict[str, Any]) -> None:
        if phase == "start":
            met.append(sum(len(gc.get_objects(generation)) for generation in range(info["generation"] + 1)))

    gc.callbacks.append(note)
    yield met
    gc.callbacks.remove(note)


def cycle() -> "weakref.ref[Node]":
    node = Node()
    node.other = node
    return weakref.ref(node)


def test_a_dead_cycle_is_freed_when_the_loop_is_idle(collector: Collector) -> None:
    dead = cycle()
    living: list[list[object]] = [[] for _ in range(3_000)]
    collector.turn(idle=True)
    assert dead() is None
    assert len(living) == 3_000


def test_a_busy_loop_is_not_held_up_for_a_few_objects(collector: Collector, looked_at: list[int]) -> None:
    living: list[list[object]] = [[] for _ in range(LIMIT // 2)]
    collector.turn(idle=False)
    assert looked_at == []
    assert len(living) == LIMIT // 2


def test_growing_state_never_makes_a_collection_large(collector: Collector, looked_at: list[int]) -> None:
    state: list[list[int]] = []
    for _ in range(200):
        state.extend([] for _ in range(2_000))
        collector.turn(idle=True)
    assert len(looked_at) > 10
    assert max(looked_at) < 3 * SURVIVORS


def test_a_cycle_that_outlives_a_pass_is_freed_later(collector: Collector) -> None:
    node = Node()
    node.other = node
    dead = weakref.ref(node)
    state: list[list[int]] = [[] for _ in range(SURVIVORS)]
    collector.turn(idle=True)
    del node
    state.extend([] for _ in range(SURVIVORS))
    collector.turn(idle=True)
    assert dead() is None


def test_a_loop_that_is_never_idle_looks_at_its_growing_state_seldom(
    collector: Collector, looked_at: list[int]
) -> None:
    state: list[list[int]] = []
    for _ in range(2 * SELDOM):
        state.extend([] for _ in range(LIMIT + 1_000))
        collector.turn(idle=False)
    assert len(looked_at) == 2
    assert sum(looked_at) < 3 * LIMIT


def test_a_restored_state_is_not_looked_at(collector: Collector, looked_at: list[int]) -> None:
    state: list[list[object]] = [[] for _ in range(10 * LIMIT)]
    collector.settle()
    fresh: list[list[object]] = [[] for _ in range(SURVIVORS)]
    collector.turn(idle=True)
    assert looked_at and max(looked_at) < 2 * SURVIVORS
    assert len(state) + len(fresh) == 10 * LIMIT + SURVIVORS
