"""Windows over windows and joins of both, at random: final results are those of loops over the whole input."""

from collections import Counter

import pytest

import flamestream as fs
from support.compositions import Composition
from support.event_time import results
from support.seeds import chunks


@pytest.mark.parametrize("first", chunks(0, 2000, 50, at_push=200))
def test_results_are_those_of_plain_loops(first: int) -> None:
    for seed in range(first, first + 50):
        its = Composition.random(seed)
        found = {sink: Counter(map(repr, items)) for sink, items in results(its.graph, its.records).items()}
        for sink, wanted in its.wanted.items():
            assert found[sink] == wanted, (seed, sink, its.names.get(sink))
        assert not found["errors"], seed


def test_a_pair_of_windows_has_the_time_of_the_left_window() -> None:
    """A window's time is its last moment, also where a version of its time stands beside it."""
    graph = fs.Graph("pairs")
    numbers = graph.source("numbers", int, at=lambda number: number, unit="s")
    counts = numbers.window(fs.tumbling("10s"), key=lambda number: 0).count()
    pairs = counts.join_latest(counts, on="key")
    pairs.window(fs.tumbling("10s"), key=lambda pair: 0).count().sink("out")
    assert [(each.start, each.end) for each in graph.run(numbers=[3, 14])["out"]] == [(0, 10), (10, 20)]


def test_a_session_over_windows_is_in_time_for_what_is_behind_it() -> None:
    """Its last moment lies between two seconds: as ints that say seconds its end is the second behind."""
    graph = fs.Graph("sessions")
    numbers = graph.source("numbers", int, at=lambda number: number, unit="s")
    counts = numbers.window(fs.tumbling("4s"), key=lambda number: 0).count()
    sessions = counts.window(fs.session("7s"), key="key").total("value")
    behind = sessions.window(fs.tumbling("6s"), key="key").count()
    sessions.sink("sessions")
    behind.sink("behind")
    behind.late.sink("late")
    found = graph.run(numbers=[1, 2, 40])
    assert [(each.start, each.end) for each in found["sessions"]] == [(3, 11), (43, 51)]
    assert [each.start for each in found["behind"]] == [6, 48]
    assert found["late"] == []
