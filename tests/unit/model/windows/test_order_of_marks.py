"""What stands on windows gets what they give before the mark that closes it, whoever asked for marks first."""

from typing import Any

import pytest

import flamestream as fs
from support.event_time import results


@fs.event
class Event:
    user: str
    at: int


@pytest.mark.parametrize("first", ["windows", "both"])
def test_windows_of_one_source_are_in_time_for_a_join_with_another(first: str) -> None:
    graph = fs.Graph("order")
    left, right = (graph.source(name, Event, at="at", unit="s") for name in ("left", "right"))

    def of_both() -> None:
        left.join(right, on="user", within=("0s", "0s")).sink("both")

    if first == "both":
        of_both()
    counts: Any = left.window(fs.tumbling("10s"), key="user").count()
    if first == "windows":
        of_both()
    pairs = counts.join(right, on=("key", "user"), within=("0s", "5s"), how="left")
    pairs.sink("pairs")
    pairs.late.sink("late")
    records = [("right", Event("ann", 1_000)), *(("left", Event("ann", at)) for at in (1, 15, 30))]
    found = results(graph, records)
    assert ([count.start for count, _ in found["pairs"]], found["late"]) == ([0, 10, 30], [])
