"""What operations do is told as counts and as what is new, and added up over workers."""

import msgspec

import flamestream as fs
from flamestream.core.dataflow.meter import OperationCount
from flamestream.core.protocol.messages import MOST_OPERATIONS, Busy
from flamestream.model.ids import NO_FENCE
from flamestream.node.operations import OperationMeter, operations

HALF = 500_000


def graph() -> fs.Graph:
    """0 in -> 1 map -> 2 filter -> 3 out, and 1 map -> 3 out."""
    made = fs.Graph("g")
    mapped = made.source("in").map(len)
    mapped.filter(bool).merge(mapped).sink("out")
    return made


def counts(*led_on: int, cost: int = 0, keys: int = 0) -> list[OperationCount]:
    return [OperationCount(each, cost, keys, 10 * keys) for each in led_on]


def test_into_an_operation_comes_what_those_before_it_lead_on() -> None:
    told = OperationMeter(graph()).report(counts(10, 9, 4, 13, 0))
    assert [each.name for each in told] == ["0 in", "1 map len", "2 filter bool", "3 merge", "4 out"]
    assert [(each.items_in, each.items_out) for each in told] == [
        (10, 10),
        (10, 9),
        (9, 4),
        (13, 13),
        (13, 0),
    ]


def test_what_is_new_is_told_once() -> None:
    meter = OperationMeter(graph())
    meter.report(counts(10, 9, 4, 13, 0, cost=7_000_000))
    told = meter.report(counts(30, 29, 4, 33, 0, cost=9_000_000))[1]
    assert (told.items_in, told.recent_in, told.recent_out) == (30, 20, 20)
    assert (told.cost_us, told.recent_us) == (9000, 2000)
    assert meter.report(counts(30, 29, 4, 33, 0, cost=9_000_000))[1].recent_in == 0


def test_of_a_great_graph_the_first_operations_are_told_and_a_coordinator_takes_them() -> None:
    made = fs.Graph("great")
    stream = made.source("in")
    for _ in range(MOST_OPERATIONS + 10):
        stream = stream.map(len)
    stream.sink("out")
    told = OperationMeter(made).report(counts(*range(MOST_OPERATIONS + 12)))
    assert len(told) == MOST_OPERATIONS
    busy = Busy(NO_FENCE, 1, 1, operations=told)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(busy), type=Busy) == busy


def test_workers_are_added_up_each_by_the_time_that_its_report_is_of() -> None:
    meters = [OperationMeter(graph()) for _ in range(2)]
    said = [
        Busy(NO_FENCE, us, 0, operations=meter.report(counts(*[items] * 5, cost=cost * 1000, keys=2)))
        for meter, us, items, cost in zip(meters, (HALF, 2 * HALF), (100, 300), (50, 1000), strict=True)
    ]
    source = operations(said)[0]
    assert (source.items_in, source.in_rate, source.keys, source.state_bytes) == (400, 500.0, 4, 40)
    assert source.busy == (50 / HALF + 1000 / (2 * HALF))
    assert source.item_us == 1050 / 400
    assert operations([]) == []


def test_an_operation_through_which_nothing_came_has_no_time_an_item() -> None:
    meter = OperationMeter(graph())
    meter.report(counts(1, 1, 1, 1, 1, cost=5000))
    told = operations([Busy(NO_FENCE, HALF, 0, operations=meter.report(counts(1, 1, 1, 1, 1, cost=5000)))])
    assert [each.item_us for each in told] == [None] * 5
