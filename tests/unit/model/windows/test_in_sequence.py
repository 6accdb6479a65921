"""Of whole files, which come one after the other, event time is one: what was read holds nothing back, and is not
remembered. Files that grow are partitions, each of which is waited for."""

from dataclasses import replace
from typing import Any

import flamestream as fs
from flamestream.core.protocol.events import Entry
from flamestream.core.worker.front import RunRecords
from flamestream.core.worker.silence import Markers
from flamestream.model.duration import Micros
from flamestream.model.event_time import IDLE, take_in_sequence
from flamestream.model.ids import Offset, Partition
from flamestream.model.time import START, FrontId, Time, Timestamp, next_time
from flamestream.reference import interpret


def graph_of(*, in_sequence: bool) -> fs.Graph:
    graph = fs.Graph("files")
    numbers = graph.source("numbers", int, at=lambda number: number, unit="s", late="1s")
    numbers.window(fs.tumbling("10s"), key=lambda number: 0).count().map(lambda window: window.value).sink(
        "counts"
    )
    if in_sequence:
        take_in_sequence(graph, {"numbers"})
    return graph


def counts(graph: fs.Graph, *files: tuple[str, list[int]]) -> list[Any]:
    time, runs = START, list[tuple[Time, Any]]()
    for name, numbers in files:
        time = next_time(time, FrontId(0))
        runs.append((time, RunRecords(numbers, Entry(time, Partition(name), Offset(0), len(numbers)))))
    return [value for _, value in interpret(graph, runs)["counts"]]


def test_a_window_closes_though_the_file_of_its_items_brings_nothing_more() -> None:
    files = [("a", [1, 2]), ("b", [9]), ("c", [21])]
    assert counts(graph_of(in_sequence=True), *files) == [3]
    assert counts(graph_of(in_sequence=False), *files) == []


def test_they_are_idle_as_one() -> None:
    second = 1_000_000
    (source,) = graph_of(in_sequence=True).sources
    assert source.timing is not None
    markers = Markers(replace(source.timing, idle=Micros(10 * second)))
    markers.heard(Partition("a"), Timestamp(0))
    markers.heard(Partition("b"), Timestamp(8 * second))
    files = [Partition("a"), Partition("b")]
    assert not [*markers.due(Timestamp(11 * second), files, drained=False)]
    assert [*markers.due(Timestamp(18 * second), files, drained=False)] == [("", IDLE)]
