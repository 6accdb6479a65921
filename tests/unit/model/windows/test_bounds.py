"""What would make windows without width, without bound or without meaning is refused, or is one error
item."""

from typing import Any

import pytest

import flamestream as fs
from flamestream.model.errors import GraphError, UserError


def counts(shape: Any, *times: int, **of_graph: Any) -> list[Any]:
    graph = fs.Graph("bounds", **of_graph)
    graph.source("times", at=lambda time: time, unit="s").window(shape, key=lambda _: "all").count().sink(
        "counts"
    )
    return graph.run(times=times)["counts"]


def test_a_window_is_no_finer_than_the_times_of_items() -> None:
    with pytest.raises(GraphError, match="in units of 1000000 us, so no window can begin or end in between"):
        counts(fs.tumbling("1500ms"), 1)


def test_an_item_is_in_a_bounded_number_of_windows() -> None:
    with pytest.raises(GraphError, match="each item would be in 86,400,000 windows; at most 10,000 are kept"):
        fs.sliding("1d", every="1ms")


def test_marks_are_not_counted_as_results_of_a_user_s_function() -> None:
    assert len(counts(fs.tumbling("1m"), 1, 100, max_results=1)) == 2


def test_a_time_of_no_world_is_told_once_with_what_may_be_wrong() -> None:
    with pytest.raises(UserError, match=r"which is no time of this world: is unit= right"):
        counts(fs.tumbling("1m"), 10**18)
