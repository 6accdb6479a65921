"""What each operation has led on and keeps: by the kernel as by the reference, and as snapshots have it."""

from collections import Counter

import pytest

import flamestream as fs
from flamestream.core.dataflow.native import native
from flamestream.core.dataflow.parts import REFERENCE, Parts
from flamestream.core.protocol.chain import Row
from flamestream.model.kernel import kernel
from flamestream.model.vertex import Kind
from support.core.one_worker import OneWorker
from unit.core.dataflow.test_native import graphs, lived
from unit.core.dataflow.test_native_tables import bank
from unit.core.dataflow.test_native_tables import lived as transacted
from unit.core.dataflow.test_vectorized_chains import below, odd, plus_one

BOTH = [REFERENCE, *([] if kernel is None else [native(kernel)])]
needs_kernel = pytest.mark.skipif(kernel is None, reason="this installation has no native kernel")


def sizes(rows: list[Row]) -> dict[int, tuple[int, int]]:
    """Keys and bytes by the number of an operation, as whoever restores these rows finds them."""
    found: dict[tuple[int, bytes], int] = {}
    for row in rows:
        size = len(row.state)
        key = row.operation, row.key
        found[key] = size if row.full else found[key] + size
    keys = Counter(operation for operation, _ in found)
    return {
        operation: (count, sum(size for key, size in found.items() if key[0] == operation))
        for operation, count in keys.items()
    }


@needs_kernel
@pytest.mark.parametrize("name", graphs())
def test_both_count_the_same(name: str) -> None:
    told = [lived(graphs()[name], parts, debug=False).worker.flow.by_operation() for parts in BOTH]
    assert told[0] == told[1]
    assert sum(count.led_on for count in told[0]) > 1500


@needs_kernel
def test_both_count_the_same_of_transactions() -> None:
    told = [transacted(bank(), parts).worker.flow.by_operation() for parts in BOTH]
    assert told[0] == told[1]


@needs_kernel
def test_both_count_the_same_where_functions_are_asked_about_batches() -> None:
    told = []
    for parts in BOTH:
        graph = fs.Graph("batches")
        some = graph.source("docs").flat_map(fs.vectorized(takes=int, makes=int)(below))
        some.filter(fs.vectorized(takes=int, makes=bool)(odd)).sink("out")
        sums = some.reduce(key=lambda n: n % 5, initial=int, combine=lambda total, n: total + n)
        sums.map(fs.vectorized(takes=int, makes=int)(plus_one)).sink("sums")
        life = OneWorker(graph, parts, debug=False)
        for first in range(0, 120, 12):
            life.records(first, list(range(first, first + 12)))
        told.append(life.worker.flow.by_operation())
    assert told[0] == told[1]
    led_on = {vertex.kind: count.led_on for vertex, count in zip(graph.vertices, told[0], strict=True)}
    assert (led_on[Kind.SOURCE], led_on[Kind.FLAT_MAP], led_on[Kind.FILTER]) == (120, 120, 40)


@pytest.mark.parametrize("parts", BOTH)
def test_each_edge_has_as_many_items_as_functions_let_through(parts: Parts) -> None:
    graph = fs.Graph("known")
    twice = graph.source("docs").flat_map(lambda r: [r, r])
    twice.filter(lambda r: r[1] % 4 == 0).sink("some", key=lambda r: r[1])
    twice.sink("all", key=lambda r: r[1])
    life = OneWorker(graph, parts, debug=False)
    life.records(0, [("r", number) for number in range(100)])
    names = {vertex.name: vertex.id for vertex in graph.vertices}
    led_on = [count.led_on for count in life.worker.flow.by_operation()]
    assert led_on[names["docs"]] == 100
    assert led_on[names["all"]] == led_on[names["some"]] == 0, "a sink leads nothing on"
    assert sorted(led_on) == [0, 0, 50, 100, 200]


@pytest.mark.parametrize("parts", BOTH)
@pytest.mark.parametrize("name", ["vectors", "lists", "sums"])
def test_keys_and_bytes_are_those_of_the_rows_that_snapshots_have(name: str, parts: Parts) -> None:
    life = lived(graphs()[name], parts, debug=False)
    told = {(count.keys, count.size) for count in life.worker.flow.by_operation() if count.keys}
    assert told == set(sizes(life.rows).values())


@pytest.mark.parametrize("parts", BOTH)
def test_slots_that_leave_take_their_keys_and_bytes_along(parts: Parts) -> None:
    flow = lived(graphs()["vectors"], parts, debug=False).worker.flow
    flow.states[1].keep([])
    assert [(count.keys, count.size) for count in flow.by_operation()] == [(0, 0)] * 3
