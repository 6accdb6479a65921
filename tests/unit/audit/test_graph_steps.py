"""A graph as steps: the items at its doors, key by key."""

from collections.abc import Hashable, Iterable
from typing import Any

import pytest

import flamestream as fs
from flamestream.audit.definitions.graph_steps import GraphSteps
from flamestream.audit.definitions.history import by_key
from flamestream.audit.definitions.judge import EXACTLY_STRICT, judged
from flamestream.audit.definitions.properties import differs_twice, swapped
from flamestream.audit.definitions.records import Emitted, Outlet, Record
from flamestream.model.errors import UserError
from flamestream.model.meta import meta_of
from flamestream.model.payload import encode
from flamestream.model.time import FrontId, Timestamp, time_of
from flamestream.model.vertex import Kind, Vertex

CHANCE = iter(range(10**9))


def records(*values: str, partitions: int = 1) -> list[Record]:
    return [
        Record(place, place % partitions, "in", meta_of(time_of(Timestamp(place), FrontId(0)), 0), value)
        for place, value in enumerate(values, 1)
    ]


def outlet(graph: fs.Graph) -> Outlet:
    def place(sink: Vertex | None, payload: Any) -> tuple[Hashable, Hashable]:
        assert sink is not None
        return (sink.name if sink.key is None else (sink.name, sink.key(payload))), payload

    return place


def counted() -> fs.Graph:
    graph = fs.Graph("words")
    words = graph.source("in").flat_map(str.split)
    words.reduce(key=str, initial=int, combine=lambda n, _: n + 1, emit=lambda n, word: (word, n)).sink(
        "counts", key=lambda pair: pair[0]
    )
    return graph


def joined() -> fs.Graph:
    graph = fs.Graph("joined")
    graph.source("in").reduce(key=lambda _: "all", initial=str, combine=str.__add__).sink("out")
    return graph


def outcome(graph: fs.Graph, entered: list[Record], results: Iterable[tuple[Any, Any]]) -> str:
    steps = GraphSteps(graph, outlet(graph))
    emitted = [Emitted(place, to, value) for place, (to, value) in enumerate(results, 100)]
    return judged(steps.history(entered, emitted, ended=True), steps)[EXACTLY_STRICT].outcome


def test_words_of_a_line_are_keys_of_their_own() -> None:
    steps = GraphSteps(counted(), outlet(counted()))
    history = steps.history(records("a b a", "b"), [Emitted(9, ("counts", "a"), ("a", 1))], ended=False)
    assert sorted((len(one.items), len(one.outputs)) for one in by_key(history)) == [(2, 0), (2, 1)]


def test_keys_come_out_in_any_order_and_a_key_in_its_own() -> None:
    good = [(("counts", "b"), ("b", 1)), (("counts", "a"), ("a", 1)), (("counts", "a"), ("a", 2))]
    assert outcome(counted(), records("a b a"), good) == "holds"
    assert outcome(counted(), records("a b a"), [good[0], good[2], good[1]]) == "broken"
    assert outcome(counted(), records("a b a"), good[1:]) == "broken"


def test_partitions_are_merged_in_any_order() -> None:
    in_turn = [("out", "b"), ("out", "ba")]
    assert outcome(joined(), records("a", "b", partitions=2), in_turn) == "holds"
    assert outcome(joined(), records("a", "b"), in_turn) == "broken"


def test_a_way_without_a_door_is_judged_too() -> None:
    graph = fs.Graph("upper")
    graph.source("in").filter(lambda text: text != "no").map(str.upper).sink("out", key=str)
    assert outcome(graph, records("a", "no", "b"), [(("out", "B"), "B"), (("out", "A"), "A")]) == "holds"
    assert outcome(graph, records("a", "no", "b"), [(("out", "B"), "B")]) == "broken"


def test_two_doors_in_a_row_are_one_key() -> None:
    graph = fs.Graph("two")
    first = graph.source("in").reduce(key=lambda _: 0, initial=str, combine=str.__add__)
    first.reduce(key=lambda _: 0, initial=int, combine=lambda n, text: n + len(text)).sink("out")
    assert outcome(graph, records("a", "b"), [("out", 1), ("out", 3)]) == "holds"
    assert outcome(graph, records("a", "b"), [("out", 1), ("out", 2)]) == "broken"


def test_what_was_there_before_the_first_item_counts() -> None:
    graph = joined()
    (door,) = (vertex.id for vertex in graph.vertices if vertex.kind is Kind.REDUCE)
    steps = GraphSteps(graph, outlet(graph), state={(door, encode("all")): "x"})
    history = steps.history(
        records("a", "b"), [Emitted(9, "out", "xa"), Emitted(10, "out", "xab")], ended=True
    )
    assert judged(history, steps)[EXACTLY_STRICT].outcome == "holds"


def test_what_nobody_sees_is_not_lost() -> None:
    """The requests of a call, say."""
    graph = joined()
    steps = GraphSteps(graph, lambda sink, payload: None)
    history = steps.history(records("a", "b"), [], ended=True)
    assert judged(history, steps)[EXACTLY_STRICT].outcome == "holds"


def test_a_key_that_depends_on_the_order_is_refused() -> None:
    graph = fs.Graph("last")
    graph.source("in").reduce(key=lambda _: 0, initial=str, combine=str.__add__).sink("out", key=str)
    with pytest.raises(UserError, match=r"comes out under another key.*give the results without keys"):
        outcome(graph, records("a", "b", partitions=2), [(("out", "b"), "b"), (("out", "a"), "a")])


# --- definitions 9 and 10 -----------------------------------------------------------------------------------


def test_a_swap_that_matters_is_named() -> None:
    swap = swapped(joined(), records("a", "a", "b"))
    assert (swap.kind, swap.first, swap.second, swap.tried) == ("reduce", "'a'", "'b'", 1)
    assert "__add__" in swap.door


def test_swaps_that_do_not_matter_are_counted() -> None:
    graph = fs.Graph("sizes")
    graph.source("in").reduce(key=len, initial=int, combine=lambda n, _: n + 1).sink("out")
    swap = swapped(graph, records("a", "b", "c", "c"))
    assert (swap.door, swap.tried) == ("", 2)


def test_a_function_of_something_else_is_not_deterministic() -> None:
    graph = fs.Graph("chance")
    graph.source("in").map(lambda text: text + str(next(CHANCE))).sink("out")
    assert differs_twice(graph, records("a"))[1].startswith("'a")
    assert differs_twice(joined(), records("a", "b")) == (2, "")
